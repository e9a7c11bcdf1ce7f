//! Claims: a worker asks for work and is handed some, with what it needs to do it.

use std::collections::{BTreeMap, BTreeSet};

use ff_core::decide::claim::{ClaimKind, Leased};
use ff_core::execution::{State, Worker};
use ff_core::text::{LaneId, WorkerId, WorkerInstanceId};
use ff_core::{ClaimAsk, Claimed, Code, ExecutionId, FlowId, Millis, Rejection};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::bounds::check_wait;
use crate::lease::{Fence, lease_ttl_ms};
use crate::payload::{Json, fields_of, present};
use crate::snapshot::Failure;
use crate::words;

/// Ask for work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ClaimRequest {
    /// Names the claim: asking again with it finds what it was given. Minted when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(format = "uuid")]
    pub claim_id: Option<String>,
    /// The worker's pool, stable over restarts.
    #[schema(min_length = 1, max_length = 256, example = "mailer")]
    pub worker_id: String,
    /// This process.
    #[schema(min_length = 1, max_length = 256, example = "mailer-1")]
    pub worker_instance_id: String,
    /// From these lanes; the most urgent and oldest first over all of them.
    #[schema(min_items = 1, max_items = 64)]
    pub lanes: Vec<String>,
    /// What the worker offers.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub capabilities: BTreeSet<String>,
    /// How long each lease lasts unless renewed (default 30000).
    #[serde(default = "lease_ttl_ms")]
    #[schema(minimum = 10, maximum = 86_400_000)]
    pub lease_ttl_ms: u64,
    /// At most so many executions (default 1).
    #[serde(default = "one")]
    #[schema(minimum = 1, maximum = 1000)]
    pub max: u32,
    /// How long to wait until there is something (default 0).
    #[serde(default)]
    #[schema(maximum = 60000)]
    pub wait_ms: u64,
}

fn one() -> u32 {
    1
}

impl ClaimRequest {
    /// The ask, under the id that was given or under `minted`.
    pub fn into_ask(self, minted: Uuid) -> Result<ClaimAsk, Rejection> {
        check_wait(self.wait_ms)?;
        let claim_id = match self.claim_id {
            None => minted,
            Some(id) => Uuid::try_parse(&id).map_err(|_| {
                Rejection::invalid(Code::InvalidInput, "claim_id", id, "is not a UUID")
            })?,
        };
        let worker = Worker {
            id: WorkerId::new(self.worker_id)?,
            instance: WorkerInstanceId::new(self.worker_instance_id)?,
        };
        Ok(ClaimAsk {
            claim_id,
            worker,
            lanes: self.lanes.into_iter().map(LaneId::new).collect::<Result<_, _>>()?,
            capabilities: self.capabilities,
            lease_ttl_ms: self.lease_ttl_ms,
            max: self.max,
        })
    }
}

/// What a worker is given.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ClaimAnswer {
    /// The claim, to ask again with when the answer was lost.
    #[schema(value_type = String, format = "uuid")]
    pub claim_id: Uuid,
    /// The store's time: compare `lease_until` with it, not with a clock of your own.
    #[schema(value_type = i64)]
    pub server_time: Millis,
    /// The work; empty when there was none.
    pub executions: Vec<ClaimedExecution>,
}

/// Work that was handed out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ClaimedExecution {
    /// Its id.
    #[schema(value_type = String)]
    pub execution_id: ExecutionId,
    /// Tenancy scope.
    pub namespace: String,
    /// Its lane.
    pub lane_id: String,
    /// What kind of work; selects the handler.
    pub execution_kind: String,
    /// The flow it belongs to; absent when it belongs to none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = "uuid", nullable = false)]
    pub flow_id: Option<FlowId>,
    /// What it is called there; absent when it has no name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub node: Option<String>,
    /// What sort of claim this is.
    #[schema(value_type = words::ClaimKind)]
    pub kind: ClaimKind,
    /// Proof of holding it, to be sent with everything said about it.
    pub fence: Fence,
    /// Ends then, unless renewed.
    #[schema(value_type = i64)]
    pub lease_until: Millis,
    /// How urgent.
    pub priority: i32,
    /// Its tags.
    pub tags: BTreeMap<String, String>,
    /// Created.
    #[schema(value_type = i64)]
    pub created_at: Millis,
    /// Claimed for the first time.
    #[schema(value_type = i64)]
    pub started_at: Millis,
    /// Expires for good.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>, nullable = false)]
    pub deadline_at: Option<Millis>,
    /// When the attempt has used up its time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>, nullable = false)]
    pub timeout_at: Option<Millis>,
    /// What to work on, when it is JSON.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Json>, nullable = false)]
    pub input: Option<Json>,
    /// What to work on, when it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(content_encoding = "base64", nullable = false)]
    pub input_base64: Option<String>,
    /// What the input is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub encoding: Option<String>,
    /// Whether steps may be recorded already: if so, read them before doing anything.
    pub may_have_steps: bool,
    /// What the attempt before this one failed with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub failure: Option<Failure>,
}

impl From<Claimed> for ClaimedExecution {
    fn from(claimed: Claimed) -> Self {
        let Leased { kind, fence, lease_until, execution: x } = claimed.leased;
        let may_have_steps = x.was_held_before();
        let (timeout_at, failure) = match &x.state {
            State::Active(active) => (active.timeout_at, active.attempt.after.clone()),
            // What is leased is active; a worker does without these all the same.
            State::Runnable(_) | State::Suspended(_) | State::Terminal(_) => (None, None),
        };
        let (input, input_base64, encoding) = fields_of(claimed.input);
        Self {
            execution_id: x.id,
            namespace: x.spec.namespace.to_string(),
            lane_id: x.spec.lane.to_string(),
            execution_kind: x.spec.kind.to_string(),
            flow_id: x.flow(),
            node: x.member.as_ref().and_then(|member| member.node.clone()).map(String::from),
            kind,
            fence: fence.into(),
            lease_until,
            priority: x.priority.get(),
            tags: x.tags.clone(),
            created_at: x.spec.created_at,
            // What is leased has started.
            started_at: x.started_at.unwrap_or(x.updated_at),
            deadline_at: x.deadline_at,
            timeout_at,
            input,
            input_base64,
            encoding,
            may_have_steps,
            failure: failure.map(Failure::from),
        }
    }
}
