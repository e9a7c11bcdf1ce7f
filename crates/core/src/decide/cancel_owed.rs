//! Cancel members that a cancelled flow still owes, a bounded number of them. The last piece ends a flow
//! that is cancelled with all its members.
//!
//! Those that ended meanwhile, or that the policy lets go on, are left as they are. Sent twice:
//! the next ones, or nothing.

use super::cancel_flow::cancel_members;
use super::graph::Draft;
use super::{Again, COMMAND_BYTES, Decide, Repeat};
use crate::command::Traffic;
use crate::error::Rejection;
use crate::flow::FlowState;
use crate::fold::{Change, Cx, Effects, GraphEffects, Key, WorkingSet};
use crate::ids::{ExecutionId, FlowId};
use crate::limits::{CANCEL_CHUNK_MAX, Config};

/// Cancel some of the members that a flow owes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CancelOwed {
    /// The flow.
    pub flow: FlowId,
}

/// The answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwedCancelled {
    /// Members that were cancelled.
    pub cancelled: u32,
    /// Whether more are owed.
    pub more: bool,
}

impl CancelOwed {
    fn owed<'a>(&self, have: &'a WorkingSet) -> &'a [ExecutionId] {
        have.graph.owed.get(&self.flow).map_or(&[], Vec::as_slice)
    }
}

impl Decide for CancelOwed {
    type Reply = OwedCancelled;
    const NAME: &'static str = "cancel_owed_members";
    const TRAFFIC: Traffic = Traffic::Admin;
    const REPEAT: Repeat = Repeat {
        by: "the members that are still owed",
        late: "goes on with the next ones, or finds none",
    };

    fn validate(&self, _: &Config) -> Result<(), Rejection> {
        Ok(())
    }

    fn bytes(&self) -> usize {
        COMMAND_BYTES
    }

    fn keys(&self, have: &WorkingSet) -> Vec<Key> {
        let flow = self.flow;
        let mut keys = vec![Key::Flow(flow), Key::Backlog(flow), Key::Owed(flow)];
        keys.extend(self.owed(have).iter().copied().map(Key::Execution));
        keys
    }

    fn decide(
        &self,
        have: &WorkingSet,
        cx: &mut Cx<'_>,
    ) -> Result<Change<OwedCancelled>, Rejection> {
        if !matches!(have.graph.backlogs.get(&self.flow), Some(Some(_))) {
            return Ok(Change::none(OwedCancelled { cancelled: 0, more: false }));
        }
        let owed = self.owed(have);
        let more = owed.len() >= CANCEL_CHUNK_MAX || have.graph.owing.contains(&self.flow);
        let paid = GraphEffects {
            backlog: (!more).then_some((self.flow, None)),
            owed: owed.iter().map(|id| (self.flow, *id, false)).collect(),
            ..GraphEffects::default()
        };
        let flow = have.graph.known_flow(self.flow);
        let Some((flow, FlowState::Cancelled { reason, .. })) = flow.map(|f| (f, &f.state)) else {
            // The flow is gone: nobody owes anything.
            let effects = Effects { graph: Some(Box::new(paid)), ..Effects::default() };
            return Ok(Change { reply: OwedCancelled { cancelled: 0, more }, effects });
        };
        let mut draft = Draft::new(have, flow, cx);
        let cancelled = cancel_members(&mut draft, owed, reason, cx);
        if !more && draft.flow.is_closed() {
            draft.tell_end();
        }
        let mut change = draft.change(OwedCancelled { cancelled, more });
        if let Some(graph) = &mut change.effects.graph {
            graph.backlog = paid.backlog;
            graph.owed = paid.owed;
        }
        Ok(change)
    }

    fn again(reply: &OwedCancelled) -> Again<OwedCancelled> {
        if reply.more {
            return Again::Further;
        }
        Again::Reply(OwedCancelled { cancelled: 0, more: false })
    }
}
