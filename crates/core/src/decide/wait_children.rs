//! Wait for children: a running member gives its lease back until the group of its edges fires.
//!
//! The attempt goes on when it is claimed again, like one that slept. If the group has fired, or
//! there is none, nothing is given back. Sent twice: the same answer, until it is claimed again.

use super::{COMMAND_BYTES, Decide, Repeat, holder, requeue};
use crate::command::Traffic;
use crate::error::Rejection;
use crate::execution::{Fence, LeaseEnd, Next, State};
use crate::flow::GroupState;
use crate::fold::{Change, Cx, Effects, Key, WorkingSet};
use crate::ids::{ExecutionId, FlowId};
use crate::limits::Config;

/// Wait for what was added to one's own group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitChildren {
    /// Which.
    pub id: ExecutionId,
    /// Its flow.
    pub flow: FlowId,
    /// Proof of holding it.
    pub fence: Fence,
}

/// The answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// The lease is given back.
    Waiting,
    /// There is nothing to wait for: the lease still holds.
    Ready,
}

impl Decide for WaitChildren {
    type Reply = Waiting;
    const NAME: &'static str = "wait_children";
    const TRAFFIC: Traffic = Traffic::Finish;
    const REPEAT: Repeat = Repeat {
        by: "the fence and the round of the group",
        late: "the same answer until the execution is claimed again, then `stale_lease`",
    };

    fn validate(&self, _: &Config) -> Result<(), Rejection> {
        Ok(())
    }

    fn bytes(&self) -> usize {
        COMMAND_BYTES
    }

    fn keys(&self, _: &WorkingSet) -> Vec<Key> {
        vec![Key::Group(self.flow, self.id), Key::Execution(self.id)]
    }

    fn decide(&self, have: &WorkingSet, cx: &mut Cx<'_>) -> Result<Change<Waiting>, Rejection> {
        let x = have.execution(self.id)?;
        let waits = matches!(x.state, State::Runnable(_));
        if waits && x.ended_by(self.fence, LeaseEnd::Waiting) {
            return Ok(Change::none(Waiting::Waiting));
        }
        let at = cx.at(x);
        let active = holder(x, self.fence, at)?;
        let group = have.graph.group((self.flow, self.id));
        let pending = group
            .is_some_and(|group| group.state == GroupState::Pending && group.counters.total > 0);
        if !pending || x.flow() != Some(self.flow) {
            return Ok(Change::none(Waiting::Ready));
        }
        let next = Next::Resume(active.paused(at));
        let mut waiting = requeue(x, next, None, LeaseEnd::Waiting, at);
        if let State::Runnable(runnable) = &mut waiting.state {
            runnable.gated = true;
        }
        let effects = Effects { execution: Some(waiting), ..Effects::default() };
        Ok(Change { reply: Waiting::Waiting, effects })
    }
}
