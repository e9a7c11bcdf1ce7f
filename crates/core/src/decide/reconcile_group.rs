//! Reconcile a group: resolve edges whose upstream has ended or is gone, and let go what waits in vain.
//!
//! Nothing that works leaves such a group behind; this is for what somebody changed by hand.

use super::graph::{Draft, behind, stays_skipped};
use super::{Again, COMMAND_BYTES, Decide, Repeat};
use crate::command::Traffic;
use crate::error::Rejection;
use crate::flow::{Edge, EdgeState, GroupState};
use crate::fold::{Change, Cx, Key, WorkingSet};
use crate::ids::{ExecutionId, FlowId};
use crate::limits::Config;

/// Look after a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReconcileGroup {
    /// The flow.
    pub flow: FlowId,
    /// The execution whose group it is.
    pub downstream: ExecutionId,
}

impl ReconcileGroup {
    fn unresolved<'a>(&self, have: &'a WorkingSet) -> impl Iterator<Item = &'a Edge> {
        let edges = have.graph.incoming.get(&(self.flow, self.downstream));
        let edges = have.graph.edges_of(self.flow, edges).into_iter();
        edges.filter(|edge| matches!(edge.state, EdgeState::Unsatisfied { .. }))
    }
}

impl Decide for ReconcileGroup {
    /// How much was repaired.
    type Reply = u32;
    const NAME: &'static str = "reconcile_group";
    const TRAFFIC: Traffic = Traffic::Admin;
    const REPEAT: Repeat =
        Repeat { by: "what there is to repair", late: "finds nothing to repair" };

    fn validate(&self, _: &Config) -> Result<(), Rejection> {
        Ok(())
    }

    fn bytes(&self) -> usize {
        COMMAND_BYTES
    }

    fn keys(&self, have: &WorkingSet) -> Vec<Key> {
        let (flow, id) = (self.flow, self.downstream);
        let mut keys = vec![Key::Flow(flow), Key::Group(flow, id), Key::Incoming(flow, id)];
        if have.graph.incoming.contains_key(&(flow, id)) {
            keys.push(Key::Execution(id));
            keys.extend(self.unresolved(have).map(|edge| Key::Execution(edge.upstream)));
            if stays_skipped(flow, id, have) {
                keys.extend(behind(flow, id, have));
            }
        }
        keys
    }

    fn decide(&self, have: &WorkingSet, cx: &mut Cx<'_>) -> Result<Change<u32>, Rejection> {
        let flow = have.graph.known_flow(self.flow).filter(|flow| !flow.is_closed());
        let Some(flow) = flow else { return Ok(Change::none(0)) };
        let mut draft = Draft::new(have, flow, cx);
        let mut repaired = 0;
        for edge in self.unresolved(have) {
            repaired += u32::from(draft.settle(edge, cx)?);
        }
        let satisfied = draft
            .group(self.downstream)
            .is_some_and(|group| matches!(group.state, GroupState::Satisfied { .. }));
        let x = draft.member(self.downstream).cloned();
        if let (true, Some(x)) = (satisfied, x) {
            let version = x.version;
            draft.gate(&x, false);
            let after = draft.execution(x.id).map(|x| x.version);
            repaired += u32::from(after != Some(version));
        }
        if repaired == 0 {
            return Ok(Change::none(0));
        }
        Ok(draft.change(repaired))
    }

    fn again(_: &u32) -> Again<u32> {
        Again::Reply(0)
    }
}
