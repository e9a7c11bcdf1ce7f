//! Close a waitpoint that the holder made and will not use.
//!
//! Sent twice, or after it expired: nothing to do.

use uuid::Uuid;

use super::mailbox::touched;
use super::{COMMAND_BYTES, Decide, Repeat, holder};
use crate::command::Traffic;
use crate::error::{Code, Rejection};
use crate::execution::Fence;
use crate::fold::{Change, Cx, Key, WaitEffects, WaitKey, WorkingSet};
use crate::ids::ExecutionId;
use crate::limits::Config;
use crate::suspension::{CloseReason, WaitpointState};

/// Close a pending waitpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CloseWaitpoint {
    /// Of which execution.
    pub id: ExecutionId,
    /// Proof of holding it.
    pub fence: Fence,
    /// Which.
    pub waitpoint: Uuid,
}

impl Decide for CloseWaitpoint {
    type Reply = ();
    const NAME: &'static str = "close_waitpoint";
    const TRAFFIC: Traffic = Traffic::Finish;
    const REPEAT: Repeat = Repeat { by: "the id of the waitpoint", late: "it is closed already" };

    fn validate(&self, _: &Config) -> Result<(), Rejection> {
        Ok(())
    }

    fn bytes(&self) -> usize {
        COMMAND_BYTES
    }

    fn keys(&self, _: &WorkingSet) -> Vec<Key> {
        vec![Key::Execution(self.id), Key::Wait(WaitKey::Waitpoint(self.id, self.waitpoint))]
    }

    fn decide(&self, have: &WorkingSet, cx: &mut Cx<'_>) -> Result<Change<()>, Rejection> {
        let x = have.execution(self.id)?;
        let at = cx.at(x);
        holder(x, self.fence, at)?;
        let Some(row) = have.waits.waitpoint(x.id, self.waitpoint) else {
            let said = format!("{} has no waitpoint {}", x.id, self.waitpoint);
            return Err(Rejection::new(Code::WaitpointNotFound, said));
        };
        match row.state {
            WaitpointState::Pending { .. } => {
                let waitpoints = vec![row.closed(at, CloseReason::ProactiveClose)];
                let waits = WaitEffects { waitpoints, ..WaitEffects::default() };
                Ok(Change { reply: (), effects: touched(x, waits, at) })
            }
            // Whoever runs waits nowhere: its suspension is over.
            WaitpointState::Active { .. } | WaitpointState::Closed { .. } => Ok(Change::none(())),
        }
    }
}
