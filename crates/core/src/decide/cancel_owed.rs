//! Cancel members that a cancelled flow still owes, a bounded number of them. The last piece says that a
//! flow has ended that is cancelled with all its members; of any other, the piece that ends the last
//! member that is left does.
//!
//! Those that ended meanwhile, or that the policy lets go on, are left as they are. Sent twice:
//! the next ones, or nothing.

use super::cancel_flow::cancel_members;
use super::graph::Draft;
use super::{Again, COMMAND_BYTES, Decide, Repeat};
use crate::command::Traffic;
use crate::error::Rejection;
use crate::flow::{CancellationPolicy, FlowState};
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
    /// Those to cancel now, and whether more are owed.
    fn owed<'a>(&self, have: &'a WorkingSet) -> (&'a [ExecutionId], bool) {
        let owed = have.graph.owed.get(&self.flow).map_or(&[][..], Vec::as_slice);
        let now = owed.len().min(CANCEL_CHUNK_MAX);
        (&owed[..now], now < owed.len() || have.graph.owing.contains(&self.flow))
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
        keys.extend(self.owed(have).0.iter().copied().map(Key::Execution));
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
        let (owed, more) = self.owed(have);
        let paid = GraphEffects {
            backlog: (!more).then_some((self.flow, None)),
            owed: owed.iter().map(|id| (self.flow, *id, false)).collect(),
            ..GraphEffects::default()
        };
        let flow = have.graph.known_flow(self.flow);
        let Some((flow, FlowState::Cancelled { policy, reason, .. })) = flow.map(|f| (f, &f.state))
        else {
            // The flow is gone: nobody owes anything.
            let effects = Effects { graph: Some(Box::new(paid)), ..Effects::default() };
            return Ok(Change { reply: OwedCancelled { cancelled: 0, more }, effects });
        };
        let mut draft = Draft::new(have, flow, cx);
        let cancelled = cancel_members(&mut draft, owed, reason, cx);
        match policy {
            CancellationPolicy::All if more => {}
            CancellationPolicy::All => draft.tell_end(),
            // Whatever counted the last before said so.
            CancellationPolicy::Pending | CancellationPolicy::FlowOnly => {
                if draft.flow.ended != flow.ended {
                    draft.finish_cancelled();
                }
            }
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
