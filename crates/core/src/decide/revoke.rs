//! Revoke: an operator takes the lease away; another worker will take over.
//!
//! Counts as a lost lease, and ends the execution when none is left; it is taken over at once. Sent
//! twice: `AlreadySatisfied` until the next claim, or `execution_not_active` once it ended. Sent again
//! after the next claim, it does not take that lease.

use super::{
    Again, COMMAND_BYTES, Decide, Lost, Parting, Repeat, check_reason, lose_lease, lost_lease_keys,
    not_active, stale,
};
use crate::command::Traffic;
use crate::error::{Code, Rejection};
use crate::execution::{Fence, LeaseEnd, State};
use crate::fold::{Change, Cx, Key, WorkingSet};
use crate::ids::ExecutionId;
use crate::limits::Config;
use crate::text::WorkerInstanceId;

/// Take a lease away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revoke {
    /// On which execution.
    pub id: ExecutionId,
    /// Only this lease; whichever there is when it does not say.
    pub expected: Option<Fence>,
    /// Only a lease of this worker process.
    pub worker_instance: Option<WorkerInstanceId>,
    /// Why.
    pub reason: String,
}

/// The answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Revoked {
    /// The lease is gone.
    Revoked {
        /// The epoch it had.
        lease_epoch: u64,
        /// What follows.
        lost: Lost,
    },
    /// It was gone already.
    AlreadySatisfied {
        /// How it went.
        how: LeaseEnd,
    },
}

impl Decide for Revoke {
    type Reply = Revoked;
    const NAME: &'static str = "revoke_lease";
    const TRAFFIC: Traffic = Traffic::Admin;
    const REPEAT: Repeat =
        Repeat { by: "the fence of the lease", late: "`stale_lease` once another lease holds" };

    fn validate(&self, _: &Config) -> Result<(), Rejection> {
        check_reason("reason", &self.reason)
    }

    fn bytes(&self) -> usize {
        COMMAND_BYTES
    }

    fn keys(&self, have: &WorkingSet) -> Vec<Key> {
        lost_lease_keys(self.id, have)
    }

    fn decide(&self, have: &WorkingSet, cx: &mut Cx<'_>) -> Result<Change<Revoked>, Rejection> {
        let x = have.execution(self.id)?;
        let active = match &x.state {
            State::Active(active) => active,
            State::Runnable(runnable) => {
                return match runnable.last_lease {
                    Some(how @ (LeaseEnd::Revoked | LeaseEnd::Expired)) => {
                        Ok(Change::none(Revoked::AlreadySatisfied { how }))
                    }
                    Some(
                        LeaseEnd::Completed
                        | LeaseEnd::Failed
                        | LeaseEnd::Cancelled
                        | LeaseEnd::Delayed
                        | LeaseEnd::Waiting
                        | LeaseEnd::Released
                        | LeaseEnd::Suspended,
                    )
                    | None => {
                        let said = format!("no worker holds {}", x.id);
                        Err(Rejection::new(Code::NoActiveLease, said).standing(x.standing()))
                    }
                };
            }
            State::Suspended(_) => {
                let said = format!("no worker holds {}", x.id);
                return Err(Rejection::new(Code::NoActiveLease, said).standing(x.standing()));
            }
            State::Terminal(_) => return Err(not_active(x)),
        };
        let worker = &active.attempt.worker;
        let other = self.worker_instance.as_ref().is_some_and(|own| *own != worker.instance);
        if let Some(fence) = self.expected.filter(|fence| *fence != x.fence()) {
            return Err(stale(x, fence));
        }
        if other {
            let said = format!("the lease on {} belongs to {}", x.id, worker.instance);
            return Err(Rejection::new(Code::StaleLease, said).standing(x.standing()));
        }
        let parting = Parting { how: LeaseEnd::Revoked, reason: &self.reason };
        let lease_epoch = x.epoch;
        let change = lose_lease(x, active, parting, have, cx);
        Ok(change.map(|lost| Revoked::Revoked { lease_epoch, lost }))
    }

    fn pinned(&self, have: &WorkingSet) -> Option<Self> {
        let x = have.execution(self.id).ok()?;
        // Where no worker holds it, a lease that begins meanwhile is not meant either.
        self.expected.is_none().then(|| Self { expected: Some(x.fence()), ..self.clone() })
    }

    fn again(revoked: &Revoked) -> Again<Revoked> {
        match revoked {
            Revoked::Revoked { lost: Lost::Requeued, .. } => {
                Again::Reply(Revoked::AlreadySatisfied { how: LeaseEnd::Revoked })
            }
            Revoked::Revoked { lost: Lost::ReclaimsExhausted, .. } => {
                Again::Refused(Code::ExecutionNotActive)
            }
            Revoked::AlreadySatisfied { .. } => Again::Same,
        }
    }
}
