//! Renew: the holder extends its lease.
//!
//! Writes the lease only: the version stays, no event is appended. Sent twice: extended twice.

use super::{OnExecution, Repeat, check_lease_ttl, holder};
use crate::command::Traffic;
use crate::error::Rejection;
use crate::execution::{Execution, Fence, State};
use crate::fold::{Change, Cx, Effects};
use crate::ids::ExecutionId;
use crate::limits::Config;
use crate::time::Millis;

/// Extend a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renew {
    /// On which execution.
    pub id: ExecutionId,
    /// Proof of holding it.
    pub fence: Fence,
    /// From now.
    pub lease_ttl_ms: u64,
}

/// The answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Renewed {
    /// The new end of the lease.
    pub lease_until: Millis,
}

impl OnExecution for Renew {
    type Reply = Renewed;
    const NAME: &'static str = "renew_lease";
    const TRAFFIC: Traffic = Traffic::Renew;
    const REPEAT: Repeat = Repeat {
        by: "its fence",
        late: "extends the same lease, or is refused once another holds",
    };

    fn id(&self) -> ExecutionId {
        self.id
    }

    fn check(&self, _: &Config) -> Result<(), Rejection> {
        check_lease_ttl(self.lease_ttl_ms)
    }

    fn on(&self, x: &Execution, cx: &mut Cx<'_>) -> Result<Change<Renewed>, Rejection> {
        let at = cx.at(x);
        let mut active = holder(x, self.fence, at)?.clone();
        let until = at.plus(self.lease_ttl_ms);
        active.lease.renewed_at = at;
        active.lease.until = until;
        active.lease.check_at = active.lease.check_at.min(until);
        let mut renewed = x.clone();
        renewed.state = State::Active(active);
        let effects = Effects { execution: Some(renewed), ..Effects::default() };
        Ok(Change { reply: Renewed { lease_until: until }, effects })
    }
}
