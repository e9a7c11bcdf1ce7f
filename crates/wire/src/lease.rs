//! Leases: the fence that proves one, and renewing many at once.

use ff_core::decide::renew::{Renew, Renewed};
use ff_core::{ExecutionId, Millis, Rejection, execution};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::bounds::check_items;
use crate::problem::Problem;

/// How long a lease lasts when nobody says.
pub const LEASE_TTL_MS: u64 = 30_000;

pub(crate) fn lease_ttl_ms() -> u64 {
    LEASE_TTL_MS
}

/// Proof of holding a lease: sent with everything a worker says about what it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Fence {
    /// The attempt.
    pub attempt_index: u32,
    /// The epoch of the lease.
    pub lease_epoch: u64,
}

impl From<execution::Fence> for Fence {
    fn from(fence: execution::Fence) -> Self {
        let execution::Fence { attempt_index, lease_epoch } = fence;
        Self { attempt_index, lease_epoch }
    }
}

impl From<Fence> for execution::Fence {
    fn from(fence: Fence) -> Self {
        let Fence { attempt_index, lease_epoch } = fence;
        Self { attempt_index, lease_epoch }
    }
}

/// Extend leases.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RenewRequest {
    /// At least one, at most 1000.
    #[schema(min_items = 1, max_items = 1000)]
    pub leases: Vec<HeldLease>,
    /// How long they last from now on (default 30000).
    #[serde(default = "lease_ttl_ms")]
    #[schema(minimum = 10, maximum = 86_400_000)]
    pub lease_ttl_ms: u64,
}

/// A lease to extend.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HeldLease {
    /// On which execution.
    pub execution_id: String,
    /// Proof of holding it.
    pub fence: Fence,
}

impl RenewRequest {
    /// The commands, in order.
    pub fn into_commands(self) -> Result<Vec<Renew>, Rejection> {
        check_items("leases", self.leases.len())?;
        let ttl = self.lease_ttl_ms;
        let renew = |lease: HeldLease| {
            let id = lease.execution_id.parse()?;
            Ok(Renew { id, fence: lease.fence.into(), lease_ttl_ms: ttl })
        };
        self.leases.into_iter().map(renew).collect()
    }
}

/// The answers, in the order of the request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RenewAnswer {
    /// One for each.
    pub results: Vec<Renewal>,
}

/// What became of one lease.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum Renewal {
    /// It goes on.
    Renewed {
        /// Whose.
        #[schema(value_type = String)]
        execution_id: ExecutionId,
        /// Its new end.
        #[schema(value_type = i64)]
        lease_until: Millis,
    },
    /// It is gone: stop working. The problem says why, a cancellation included.
    Lost {
        /// Whose.
        #[schema(value_type = String)]
        execution_id: ExecutionId,
        /// Why.
        problem: Box<Problem>,
    },
    /// It is as it was, because its row was locked: renew it again, soon.
    Retry {
        /// Whose.
        #[schema(value_type = String)]
        execution_id: ExecutionId,
        /// Why.
        problem: Box<Problem>,
    },
}

impl Renewal {
    /// The answer about one execution.
    pub fn new(execution_id: ExecutionId, outcome: Result<Renewed, Rejection>) -> Self {
        match outcome {
            Ok(Renewed { lease_until }) => Self::Renewed { execution_id, lease_until },
            Err(refused) => {
                let problem = Box::new(Problem::from(refused).during("renew_lease"));
                if problem.retryable {
                    Self::Retry { execution_id, problem }
                } else {
                    Self::Lost { execution_id, problem }
                }
            }
        }
    }
}
