//! Dispatch: a member ended, and its flow learns of it.
//!
//! Every edge out of it is resolved, groups fire, what waited is let go or skipped, the flow counts
//! the end, and ends itself with the last one. The row that asked for it goes in the same transaction,
//! so it happens once. Sent twice: nothing is left to do.

use super::graph::{Draft, End, behind, stays_skipped};
use super::{Again, COMMAND_BYTES, Decide, Repeat};
use crate::command::Traffic;
use crate::error::Rejection;
use crate::execution::State;
use crate::flow::EdgeState;
use crate::fold::{Change, Cx, Effects, GraphEffects, Key, WorkingSet};
use crate::ids::{ExecutionId, FlowId};
use crate::limits::Config;

/// Tell a flow that a member ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DispatchCompletion {
    /// The flow.
    pub flow: FlowId,
    /// The member.
    pub execution: ExecutionId,
    /// Whether it may as well be done later: whoever ends a member sends this along with it, and does
    /// not wait for a flow that somebody else holds.
    pub eager: bool,
}

/// The answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dispatched {
    /// So many edges were resolved.
    Advanced(u32),
    /// Somebody else was faster, or it was replayed.
    NoOp,
    /// Somebody else holds the flow: it is left to be done later.
    Later,
}

impl Decide for DispatchCompletion {
    type Reply = Dispatched;
    const NAME: &'static str = "dispatch_completion";
    const TRAFFIC: Traffic = Traffic::Admin;
    const REPEAT: Repeat =
        Repeat { by: "the row that asks for it, which goes with it", late: "finds nothing to do" };

    fn validate(&self, _: &Config) -> Result<(), Rejection> {
        Ok(())
    }

    fn bytes(&self) -> usize {
        COMMAND_BYTES
    }

    fn keys(&self, have: &WorkingSet) -> Vec<Key> {
        let (flow, id) = (self.flow, self.execution);
        let own = if self.eager { Key::FreeFlow(flow) } else { Key::Flow(flow) };
        let mut keys = vec![own, Key::Outgoing(flow, id), Key::Dispatch(id)];
        if have.graph.busy.contains(&flow) {
            return keys;
        }
        let Some(edges) = have.graph.outgoing.get(&(flow, id)) else { return keys };
        keys.push(Key::Execution(id));
        for edge in have.graph.edges_of(flow, Some(edges)) {
            if matches!(edge.state, EdgeState::Unsatisfied { .. }) {
                let to = edge.downstream;
                keys.extend([Key::Group(flow, to), Key::Execution(to)]);
                if stays_skipped(flow, to, have) {
                    keys.extend(behind(flow, to, have));
                }
            }
        }
        keys
    }

    fn decide(&self, have: &WorkingSet, cx: &mut Cx<'_>) -> Result<Change<Dispatched>, Rejection> {
        let id = self.execution;
        if have.graph.busy.contains(&self.flow) {
            return Ok(Change::none(Dispatched::Later));
        }
        let row = have.graph.dispatch.get(&id).and_then(Option::as_ref);
        if row.is_none_or(|row| row.flow != self.flow) {
            return Ok(Change::none(Dispatched::NoOp));
        }
        let (Some(flow), Ok(x)) = (have.graph.known_flow(self.flow), have.execution(id)) else {
            return Ok(forget(id));
        };
        let (State::Terminal(terminal), Some(end)) = (&x.state, End::of(x)) else {
            return Ok(forget(id));
        };
        let mut draft = Draft::new(have, flow, cx);
        let mut advanced = 0;
        let edges = have.graph.outgoing.get(&(flow.id, id)).filter(|_| !flow.is_closed());
        for edge in have.graph.edges_of(flow.id, edges) {
            advanced += u32::from(draft.resolve(edge, end, cx)?);
        }
        draft.undispatch(id);
        draft.count(terminal);
        draft.finish();
        draft.finish_cancelled();
        Ok(draft.change(Dispatched::Advanced(advanced)))
    }

    fn again(reply: &Dispatched) -> Again<Dispatched> {
        match reply {
            Dispatched::Advanced(_) | Dispatched::NoOp => Again::Reply(Dispatched::NoOp),
            Dispatched::Later => Again::Further,
        }
    }
}

/// There is nothing to tell, or nobody to tell it to.
fn forget(id: ExecutionId) -> Change<Dispatched> {
    let graph = GraphEffects { dispatch: vec![(id, None)], ..GraphEffects::default() };
    let effects = Effects { graph: Some(Box::new(graph)), ..Effects::default() };
    Change { reply: Dispatched::NoOp, effects }
}
