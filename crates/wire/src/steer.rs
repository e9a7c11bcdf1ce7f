//! Steering: what an operator asks of one execution.

use std::collections::{BTreeMap, BTreeSet};

use ff_core::decide::Lost;
use ff_core::decide::cancel::Cancel;
use ff_core::decide::hold::Hold;
use ff_core::decide::priority::{ChangePriority, PriorityChanged};
use ff_core::decide::replay::{Replay, Replayed};
use ff_core::decide::revoke::{Revoke, Revoked};
use ff_core::decide::tags::{Edit, SetTags};
use ff_core::decide::unhold::Unhold;
use ff_core::execution::LeaseEnd;
use ff_core::text::WorkerInstanceId;
use ff_core::{ExecutionId, Rejection};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::lease::Fence;
use crate::words;

/// End an execution without a result.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CancelRequest {
    /// Why.
    pub reason: String,
    /// Only as the holder of this lease; an operator needs none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fence: Option<Fence>,
    /// How often it had been replayed when the caller looked (`counts.replays`): sent again, it then
    /// ends no later life.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replays: Option<u32>,
}

impl CancelRequest {
    /// The command.
    pub fn into_command(self, id: ExecutionId) -> Cancel {
        Cancel {
            id,
            reason: self.reason,
            fence: self.fence.map(Fence::into),
            replays: self.replays,
        }
    }
}

/// It is cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum CancelAnswer {
    /// Now or before.
    Cancelled,
}

/// Run a finished execution again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ReplayRequest {
    /// Why.
    pub reason: String,
    /// How often it had been replayed when the caller looked (`counts.replays`): sent again, it then
    /// has it run again no more than once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replays: Option<u32>,
    /// Whether what was skipped because of it waits for it again (default true).
    pub downstream: bool,
}

impl Default for ReplayRequest {
    fn default() -> Self {
        Self { reason: String::new(), replays: None, downstream: true }
    }
}

impl ReplayRequest {
    /// The command.
    pub fn into_command(self, id: ExecutionId) -> Replay {
        let Self { reason, replays, downstream } = self;
        Replay { id, reason, replays, downstream }
    }
}

/// It will run again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum ReplayAnswer {
    /// As a new attempt.
    Replayed {
        /// What was skipped because of it and waits again, nearest first.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        #[schema(value_type = Vec<String>)]
        unskipped: Vec<ExecutionId>,
        /// What stays skipped because it was replayed as often as its policy allows.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        #[schema(value_type = Vec<String>)]
        spent: Vec<ExecutionId>,
        /// Whether more was skipped: it waits again when what it waits for has ended.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        more: bool,
        /// Whether it had been replayed before, by this request or another: nothing was done, and there
        /// are no lists. The feed has a `replayed` event of each member that waits again.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        repeated: bool,
    },
}

impl From<Replayed> for ReplayAnswer {
    fn from(replayed: Replayed) -> Self {
        let Replayed { unskipped, spent, more, repeated } = replayed;
        Self::Replayed { unskipped, spent, more, repeated }
    }
}

impl From<ReplayAnswer> for Replayed {
    fn from(answer: ReplayAnswer) -> Self {
        let ReplayAnswer::Replayed { unskipped, spent, more, repeated } = answer;
        Self { unskipped, spent, more, repeated }
    }
}

/// Change how urgent a waiting execution is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PriorityRequest {
    /// 0 to 9000, higher first.
    #[schema(minimum = 0, maximum = 9000)]
    pub priority: i32,
    /// The version that the caller saw: sent again, it then undoes no change that came after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
}

impl PriorityRequest {
    /// The command.
    pub fn into_command(self, id: ExecutionId) -> ChangePriority {
        ChangePriority { id, priority: self.priority, version: self.version }
    }
}

/// How urgent it is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum PriorityAnswer {
    /// Now or before.
    Changed {
        /// The priority it has.
        priority: i32,
    },
}

impl From<PriorityChanged> for PriorityAnswer {
    fn from(changed: PriorityChanged) -> Self {
        Self::Changed { priority: changed.to }
    }
}

/// Keep a waiting execution from being claimed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct HoldRequest {
    /// Why.
    pub reason: String,
    /// The version that the caller saw: sent again, it then undoes no change that came after it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
}

impl HoldRequest {
    /// The command.
    pub fn into_command(self, id: ExecutionId) -> Hold {
        Hold { id, reason: self.reason, version: self.version }
    }
}

/// It is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum HoldAnswer {
    /// Now or before; the first reason stays.
    Held,
}

/// Let a held execution be claimed again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct UnholdRequest {
    /// The version that the caller saw: sent again, it then undoes no change that came after it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
}

impl UnholdRequest {
    /// The command.
    pub fn into_command(self, id: ExecutionId) -> Unhold {
        Unhold { id, version: self.version }
    }
}

/// It is held no longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum UnholdAnswer {
    /// A delay that has not passed still applies.
    Unheld,
}

/// Set and remove tags of an execution or a flow, in any state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TagsRequest {
    /// To add or replace.
    #[schema(example = json!({"shop.customer": "ada"}))]
    pub set: BTreeMap<String, String>,
    /// To remove; removing an absent one is fine, one that is set here is not.
    pub remove: BTreeSet<String>,
    /// The version that the caller saw: sent again, it then undoes no change that came after it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
}

impl TagsRequest {
    /// The command.
    pub fn into_command(self, id: ExecutionId) -> SetTags {
        SetTags { id, edit: self.into_edit() }
    }

    /// The change, of whatever carries tags.
    pub fn into_edit(self) -> Edit {
        Edit { set: self.set, remove: self.remove, version: self.version }
    }
}

/// The tags it carries now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TagsAnswer {
    /// All of them.
    pub tags: BTreeMap<String, String>,
}

/// Take a lease away; another worker will take over.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RevokeRequest {
    /// Why.
    pub reason: String,
    /// Only this lease.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fence: Option<Fence>,
    /// Only a lease of this worker process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker_instance_id: Option<String>,
}

impl RevokeRequest {
    /// The command.
    pub fn into_command(self, id: ExecutionId) -> Result<Revoke, Rejection> {
        let worker_instance = self.worker_instance_id.map(WorkerInstanceId::new).transpose()?;
        let expected = self.fence.map(Fence::into);
        Ok(Revoke { id, expected, worker_instance, reason: self.reason })
    }
}

/// What became of the lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum RevokeAnswer {
    /// It is gone.
    Revoked {
        /// The epoch it had.
        lease_epoch: u64,
        /// What follows.
        then: Then,
    },
    /// It was gone already.
    AlreadySatisfied {
        /// How it went.
        #[schema(value_type = words::LeaseEnd)]
        how: LeaseEnd,
    },
}

/// What follows a lost lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Then {
    /// Another worker will take over.
    Requeued,
    /// It was lost too often: the execution failed.
    ReclaimsExhausted,
}

impl From<Revoked> for RevokeAnswer {
    fn from(revoked: Revoked) -> Self {
        match revoked {
            Revoked::Revoked { lease_epoch, lost: Lost::Requeued } => {
                Self::Revoked { lease_epoch, then: Then::Requeued }
            }
            Revoked::Revoked { lease_epoch, lost: Lost::ReclaimsExhausted } => {
                Self::Revoked { lease_epoch, then: Then::ReclaimsExhausted }
            }
            Revoked::AlreadySatisfied { how } => Self::AlreadySatisfied { how },
        }
    }
}
