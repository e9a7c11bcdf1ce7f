//! Waitpoint expiry: nobody suspended on a waitpoint in time, so nothing more arrives there.
//!
//! The execution is not disturbed: it still runs. Sent twice, or too early: nothing to do.

use uuid::Uuid;

use super::mailbox::touched;
use super::{Again, COMMAND_BYTES, Decide, Repeat};
use crate::command::Traffic;
use crate::error::Rejection;
use crate::fold::{Change, Cx, Key, WaitEffects, WaitKey, WorkingSet};
use crate::ids::ExecutionId;
use crate::limits::Config;
use crate::suspension::{CloseReason, WaitpointState};

/// Check whether a pending waitpoint expired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpireWaitpoint {
    /// Of which execution.
    pub id: ExecutionId,
    /// Which.
    pub waitpoint: Uuid,
}

impl Decide for ExpireWaitpoint {
    /// Whether it is closed now.
    type Reply = bool;
    const NAME: &'static str = "expire_waitpoint";
    const TRAFFIC: Traffic = Traffic::Admin;
    const REPEAT: Repeat =
        Repeat { by: "the id of the waitpoint", late: "does nothing unless the waitpoint is due" };

    fn validate(&self, _: &Config) -> Result<(), Rejection> {
        Ok(())
    }

    fn bytes(&self) -> usize {
        COMMAND_BYTES
    }

    fn keys(&self, _: &WorkingSet) -> Vec<Key> {
        vec![Key::Execution(self.id), Key::Wait(WaitKey::Waitpoint(self.id, self.waitpoint))]
    }

    fn decide(&self, have: &WorkingSet, cx: &mut Cx<'_>) -> Result<Change<bool>, Rejection> {
        // Another process was faster: it is gone with its execution.
        let Ok(x) = have.execution(self.id) else { return Ok(Change::none(false)) };
        let at = cx.at(x);
        let due = have.waits.waitpoint(x.id, self.waitpoint).filter(|row| match row.state {
            WaitpointState::Pending { expires_at } => expires_at <= at,
            // Used in time, or closed.
            WaitpointState::Active { .. } | WaitpointState::Closed { .. } => false,
        });
        let Some(row) = due else { return Ok(Change::none(false)) };
        let waitpoints = vec![row.closed(at, CloseReason::NeverCommitted)];
        let waits = WaitEffects { waitpoints, ..WaitEffects::default() };
        Ok(Change { reply: true, effects: touched(x, waits, at) })
    }

    fn again(_: &bool) -> Again<bool> {
        Again::Reply(false)
    }
}
