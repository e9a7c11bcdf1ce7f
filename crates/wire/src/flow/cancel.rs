//! Cancelling flows.

use ff_core::decide::cancel_flow::FlowCancelled;
use ff_core::flow::CancellationPolicy;
use ff_core::{Code, ExecutionId, Rejection};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::bounds::{WAIT_MS_MAX, check_wait};
use crate::words;

/// Members that an answer names.
const NAMED_MAX: usize = 1_000;
/// Another word for `cancel_flow_only`.
const FLOW_ONLY: &str = "flow_only";

/// Cancel a flow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CancelFlowRequest {
    /// What becomes of its members: `cancel_all` cancels all that have not ended, `cancel_pending`
    /// those without an attempt under way, `cancel_flow_only` (or `flow_only`) none. Of a flow that was
    /// cancelled before, one that cancels more than the first is carried out.
    #[serde(deserialize_with = "read_policy")]
    #[schema(value_type = words::CancellationPolicy)]
    pub cancellation_policy: CancellationPolicy,
    /// Why.
    #[serde(default)]
    pub reason: String,
}

fn read_policy<'de, D: Deserializer<'de>>(field: D) -> Result<CancellationPolicy, D::Error> {
    let word = String::deserialize(field)?;
    if word == FLOW_ONLY {
        return Ok(CancellationPolicy::FlowOnly);
    }
    word.parse().map_err(|_| {
        let words: Vec<_> = CancellationPolicy::ALL.iter().map(|word| word.as_str()).collect();
        D::Error::custom(format!("{word:?} is none of {}", words.join(", ")))
    })
}

/// Whether to wait until the members have ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct CancelFlowParams {
    /// Wait as long as a request may: a minute (default false).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait: Option<bool>,
    /// Wait so long; instead of `wait`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(maximum = 60000)]
    pub wait_ms: Option<u64>,
}

impl CancelFlowParams {
    /// How long to wait; nothing when not at all.
    pub fn wait_ms(self) -> Result<Option<u64>, Rejection> {
        match (self.wait, self.wait_ms) {
            (Some(_), Some(ms)) => {
                let why = "and wait exclude each other";
                Err(Rejection::invalid(Code::InvalidInput, "wait_ms", ms, why))
            }
            (Some(wait), None) => Ok(wait.then_some(WAIT_MS_MAX)),
            (None, Some(ms)) => check_wait(ms).map(|()| Some(ms).filter(|ms| *ms > 0)),
            (None, None) => Ok(None),
        }
    }
}

/// What a cancellation did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CancelFlowAnswer {
    /// Whether its members have been dealt with.
    pub status: CancelFlowStatus,
    /// What becomes of its members: the strongest policy that was carried out.
    #[schema(value_type = words::CancellationPolicy)]
    pub cancellation_policy: CancellationPolicy,
    /// Why, as the first cancellation said; `flow_cancelled` when it did not.
    pub reason: String,
    /// How many members that concerned; all of the flow when it is `repeated`.
    pub member_count: u64,
    /// The first thousand of these.
    #[schema(value_type = Vec<String>)]
    pub member_execution_ids: Vec<ExecutionId>,
    /// Whether a cancellation that ends as much was carried out before: nothing was done.
    pub repeated: bool,
}

impl CancelFlowAnswer {
    /// What was done; `member_count` is how many members that concerned, of which some are named.
    pub fn new(done: FlowCancelled, member_count: u64) -> Self {
        let FlowCancelled { policy, reason, mut members, scheduled, repeated } = done;
        members.truncate(NAMED_MAX);
        Self {
            status: if scheduled {
                CancelFlowStatus::CancellationScheduled
            } else {
                CancelFlowStatus::Cancelled
            },
            cancellation_policy: policy,
            reason,
            member_count,
            member_execution_ids: members,
            repeated,
        }
    }

    /// Whether some members are still to be cancelled; that goes on by itself.
    pub fn is_going_on(&self) -> bool {
        self.status == CancelFlowStatus::CancellationScheduled
    }
}

/// Whether the members of a cancelled flow have been dealt with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CancelFlowStatus {
    /// They have.
    Cancelled,
    /// They are so many that some are still to be cancelled; that goes on by itself.
    CancellationScheduled,
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_policy_has_its_word_and_one_has_two() {
        let read = |word: &str| {
            let request = json!({"cancellation_policy": word}).to_string();
            serde_json::from_str::<CancelFlowRequest>(&request)
        };
        for policy in CancellationPolicy::ALL {
            assert_eq!(read(policy.as_str()).unwrap().cancellation_policy, *policy);
        }
        let only = read("flow_only").unwrap().cancellation_policy;
        assert_eq!(only, CancellationPolicy::FlowOnly);
        let refused = read("everything").unwrap_err().to_string();
        assert!(refused.contains("is none of cancel_flow_only, cancel_all"), "{refused}");
    }

    #[test]
    fn a_wait_is_said_in_one_way_and_has_a_bound() {
        let wait = |wait, wait_ms| CancelFlowParams { wait, wait_ms }.wait_ms();
        assert_eq!(wait(None, None).unwrap(), None);
        assert_eq!(wait(Some(false), None).unwrap(), None);
        assert_eq!(wait(Some(true), None).unwrap(), Some(60_000));
        assert_eq!(wait(None, Some(0)).unwrap(), None);
        assert_eq!(wait(None, Some(5)).unwrap(), Some(5));
        for refused in [wait(Some(true), Some(5)), wait(None, Some(60_001))] {
            assert_eq!(refused.unwrap_err().field, Some("wait_ms"));
        }
    }
}
