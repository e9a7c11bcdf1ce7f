//! Lease expiry: the sweep looks at a lease that was filed as due.
//!
//! When the attempt timeout passed as well, whichever passed first counts, in whatever order the
//! two are checked: an attempt that timed out before its lease ran out ends here as it would end
//! there. Renewing does not move the entry the sweep finds it by, so a renewed lease is only filed
//! again. Sent twice: the second finds nothing to do.

use super::{
    Again, COMMAND_BYTES, Decide, Failed, Lost, Parting, Repeat, lose_lease, lost_lease_keys,
    time_out,
};
use crate::command::Traffic;
use crate::error::Rejection;
use crate::execution::{LeaseEnd, State};
use crate::fold::{Change, Cx, Effects, Key, WorkingSet};
use crate::ids::ExecutionId;
use crate::limits::Config;

/// Check whether a lease ran out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpireLease {
    /// On which execution.
    pub id: ExecutionId,
    /// The lease that was filed as due.
    pub lease_epoch: u64,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseChecked {
    /// It ran out.
    Expired(Lost),
    /// It was renewed; the sweep will come back.
    Renewed,
    /// The attempt had timed out before the lease ran out; that is what ended it.
    TimedOut(Failed),
    /// There is no such lease any more.
    Gone,
}

impl Decide for ExpireLease {
    type Reply = LeaseChecked;
    const NAME: &'static str = "expire_lease";
    const TRAFFIC: Traffic = Traffic::Admin;
    const REPEAT: Repeat = Repeat {
        by: "the epoch of the lease",
        late: "finds another lease, or none, and does nothing",
    };

    fn validate(&self, _: &Config) -> Result<(), Rejection> {
        Ok(())
    }

    fn bytes(&self) -> usize {
        COMMAND_BYTES
    }

    fn keys(&self, have: &WorkingSet) -> Vec<Key> {
        lost_lease_keys(self.id, have)
    }

    fn decide(
        &self,
        have: &WorkingSet,
        cx: &mut Cx<'_>,
    ) -> Result<Change<LeaseChecked>, Rejection> {
        let x = have.execution(self.id)?;
        let active = match &x.state {
            State::Active(active) if x.epoch == self.lease_epoch => active,
            State::Active(_) | State::Runnable(_) | State::Suspended(_) | State::Terminal(_) => {
                return Ok(Change::none(LeaseChecked::Gone));
            }
        };
        if active.lease.until > cx.at(x) {
            let mut active = active.clone();
            active.lease.check_at = active.lease.until;
            let mut refiled = x.clone();
            refiled.state = State::Active(active);
            let effects = Effects { execution: Some(refiled), ..Effects::default() };
            return Ok(Change { reply: LeaseChecked::Renewed, effects });
        }
        if active.timed_out_first() {
            return Ok(time_out(x, active, cx).map(LeaseChecked::TimedOut));
        }
        let parting = Parting::own(LeaseEnd::Expired);
        Ok(lose_lease(x, active, parting, have, cx).map(LeaseChecked::Expired))
    }

    fn again(checked: &LeaseChecked) -> Again<LeaseChecked> {
        match checked {
            LeaseChecked::Expired(_) | LeaseChecked::TimedOut(_) => {
                Again::Reply(LeaseChecked::Gone)
            }
            LeaseChecked::Renewed | LeaseChecked::Gone => Again::Same,
        }
    }
}
