//! Release: the holder undoes its claim, as on shutdown. It does not count as an attempt.
//!
//! The execution is claimable at once, as what it was before the claim. Sent twice with the
//! fence that released it: the same answer.
//!
//! An engine releases what a claim did not deliver, as when the connection broke while it was answered.
//! The worker may have repeated the claim under the same id and work under that lease: then it stays.

use super::{OnExecution, Repeat, holder, requeue};
use crate::command::Traffic;
use crate::error::Rejection;
use crate::execution::{Active, AttemptKind, Execution, Fence, LeaseEnd, Next};
use crate::fold::{Change, Cx, Effects};
use crate::ids::ExecutionId;
use crate::limits::Config;
use crate::time::Millis;

/// Undo a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    /// Of which execution.
    pub id: ExecutionId,
    /// Proof of holding it.
    pub fence: Fence,
    /// Only if it was not renewed since it was claimed: a repeated claim renews it, too.
    pub untaken: bool,
}

impl OnExecution for Release {
    type Reply = ();
    const NAME: &'static str = "release_execution";
    const TRAFFIC: Traffic = Traffic::Finish;
    const REPEAT: Repeat = Repeat {
        by: "the fence that gave it back",
        late: "the same answer until the execution is claimed again, then `stale_lease`",
    };

    fn id(&self) -> ExecutionId {
        self.id
    }

    fn check(&self, _: &Config) -> Result<(), Rejection> {
        Ok(())
    }

    fn on(&self, x: &Execution, cx: &mut Cx<'_>) -> Result<Change<()>, Rejection> {
        if x.ended_by(self.fence, LeaseEnd::Released) {
            return Ok(Change::none(()));
        }
        let at = cx.at(x);
        let active = holder(x, self.fence, at)?;
        if self.untaken && active.lease.renewed_at != active.lease.acquired_at {
            return Ok(Change::none(()));
        }
        let mut waiting = requeue(x, before_claim(active, at), None, LeaseEnd::Released, at);
        if !active.resumed {
            waiting.counts.attempts -= 1;
            waiting.progress = None;
        }
        Ok(Change {
            reply: (),
            effects: Effects { execution: Some(waiting), ..Effects::default() },
        })
    }
}

/// What the claim that led to `active` had found.
fn before_claim(active: &Active, at: Millis) -> Next {
    if active.resumed {
        return Next::Resume(active.paused(at));
    }
    match (active.attempt.kind, &active.attempt.after) {
        (AttemptKind::Retry, Some(failure)) => Next::Retry(failure.clone()),
        (AttemptKind::Reclaim, _) => Next::Reclaim,
        (AttemptKind::Replay, _) => Next::Replay,
        (AttemptKind::Initial, _) | (AttemptKind::Retry, None) => Next::First,
    }
}
