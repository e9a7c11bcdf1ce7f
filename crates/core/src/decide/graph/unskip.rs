//! Un-skip: a member runs again, and what was skipped because of its end waits again.
//!
//! The edges that a member's end had made impossible are taken back in the command that has the member
//! run again, so it cannot end before they are. What was skipped behind them waits again in the same
//! command if its own edges are at hand to be taken back. Otherwise it stays skipped, in a group that
//! is pending again, and waits again when that group fires: until then it could not run anyway.

use super::Draft;
use crate::decide::replay::replayed;
use crate::event::{Event, EventKind};
use crate::execution::{Ending, Execution, State, Terminal};
use crate::flow::{Counters, Edge, EdgeState, Flow, FlowState, Group, GroupState, Verdict};
use crate::fold::{Cx, Key, WorkingSet};
use crate::ids::{ExecutionId, FlowId};

/// Why something that was skipped runs again.
pub const DEPENDENCY_REPLAYED: &str = "dependency_replayed";

/// What taking back the edges out of a member led to.
#[derive(Default)]
pub struct TakenBack {
    /// What was skipped and whose group is pending again.
    pub waiting: Vec<ExecutionId>,
    /// What stays skipped because no replay is left.
    pub spent: Vec<ExecutionId>,
}

/// The rows that are needed to take back the edges out of a member.
pub fn behind(flow: FlowId, id: ExecutionId, have: &WorkingSet) -> Vec<Key> {
    let mut keys = vec![Key::Outgoing(flow, id), Key::Dispatch(id)];
    for edge in lost_behind(flow, id, have) {
        let to = edge.downstream;
        keys.extend([Key::Group(flow, to), Key::Execution(to), Key::Cancel(flow, to)]);
    }
    keys
}

/// Whether an execution is skipped in a group that is pending again.
pub fn stays_skipped(flow: FlowId, id: ExecutionId, have: &WorkingSet) -> bool {
    let pending = have.graph.group((flow, id)).map(|group| group.state);
    pending == Some(GroupState::Pending) && have.execution(id).is_ok_and(is_skipped)
}

fn lost_behind(flow: FlowId, id: ExecutionId, have: &WorkingSet) -> impl Iterator<Item = &Edge> {
    let edges = have.graph.edges_of(flow, have.graph.outgoing.get(&(flow, id))).into_iter();
    edges.filter(|edge| matches!(edge.state, EdgeState::Impossible { .. }))
}

fn is_skipped(x: &Execution) -> bool {
    let skipped = |terminal: &Terminal| matches!(terminal.ending, Ending::Skipped { .. });
    matches!(&x.state, State::Terminal(terminal) if skipped(terminal))
}

/// Whether `x` was skipped and waits again once its group is pending or satisfied, as far as it and its
/// flow tell.
pub fn waits_again(flow: &Flow, x: &Execution) -> bool {
    flow.state == FlowState::Open && is_skipped(x) && !is_spent(x)
}

fn is_spent(x: &Execution) -> bool {
    x.counts.replays >= x.spec.policy.max_replays()
}

impl Draft<'_> {
    /// Takes back the edges that the end of `id`, which was `skipped` or ended otherwise, had made
    /// impossible. Groups that fired stay as they are, unless what waited in them was skipped.
    pub fn take_back(&mut self, id: ExecutionId, skipped: bool) -> TakenBack {
        let mut back = TakenBack::default();
        for edge in lost_behind(self.flow.id, id, self.have) {
            self.take_back_edge(edge, skipped, &mut back);
        }
        back
    }

    fn take_back_edge(&mut self, edge: &Edge, skipped: bool, back: &mut TakenBack) {
        let id = edge.downstream;
        let EdgeState::Impossible { applied_at, .. } = edge.state else { return };
        let (Some(group), Some(x)) = (self.group(id).cloned(), self.member(id)) else { return };
        let waits = is_skipped(x);
        let fired = match group.state {
            GroupState::Pending => false,
            GroupState::Impossible { .. } if waits => true,
            GroupState::Satisfied { .. } | GroupState::Impossible { .. } => return,
        };
        if edge.round != group.round {
            // Of an earlier wait, which is over.
            return;
        }
        if waits && is_spent(x) {
            back.spent.push(id);
            return;
        }
        self.put_edge(Edge { state: EdgeState::Unsatisfied { applied_at }, ..edge.clone() });
        let mut group = Group { counters: group.counters.less_one_lost(skipped), ..group };
        if fired {
            // Whoever was to be cancelled because it could not run may be needed again.
            self.spare(id);
            group.siblings = None;
            if group.policy.judge(group.counters) != Verdict::Impossible {
                group.state = GroupState::Pending;
            }
        }
        if waits && group.state == GroupState::Pending {
            back.waiting.push(id);
        }
        self.put_group(group);
    }

    /// Whether `id` is skipped, and everything is at hand to have it wait again.
    pub fn may_unskip(&self, id: ExecutionId) -> bool {
        let (flow, graph) = (self.flow.id, &self.have.graph);
        let known = |edge: &Edge| graph.groups.contains_key(&(flow, edge.downstream));
        self.member(id).is_some_and(|x| waits_again(&self.flow, x))
            && graph.outgoing.contains_key(&(flow, id))
            && graph.dispatch.contains_key(&id)
            && lost_behind(flow, id, self.have).all(known)
    }

    /// Has a skipped member run again, `gated` unless its group just fired.
    pub fn unskip(&mut self, id: ExecutionId, gated: bool, cx: &Cx<'_>) -> TakenBack {
        let Some(x) = self.member(id).cloned() else { return TakenBack::default() };
        let State::Terminal(terminal) = &x.state else { return TakenBack::default() };
        let again = replayed(&x, cx);
        let (outcome, reason) = (terminal.ending.outcome(), DEPENDENCY_REPLAYED.to_owned());
        let kind = EventKind::Replayed { outcome, reason };
        self.events.push(Event::new(&x, again.updated_at, kind));
        self.attempts.extend(terminal.last_attempt(id));
        self.uncount(id, &terminal.ending);
        self.put_execution(again.clone());
        self.gate(&again, gated);
        self.take_back(id, true)
    }

    /// Takes back the end of a member: it was counted, or is still to be dispatched.
    pub fn uncount(&mut self, id: ExecutionId, ending: &Ending) {
        if matches!(self.have.graph.dispatch.get(&id), Some(Some(_))) {
            self.undispatch(id);
        } else {
            let Flow { ended, .. } = &mut self.flow;
            let counter = ended.counter(ending);
            *counter = counter.saturating_sub(1);
        }
    }
}

impl Counters {
    /// The same without one edge that was lost, because its upstream was `skipped` or otherwise.
    fn less_one_lost(self, skipped: bool) -> Self {
        let Self { failed, skipped: by_skips, .. } = self;
        if (skipped && by_skips > 0) || failed == 0 {
            Self { skipped: by_skips.saturating_sub(1), ..self }
        } else {
            Self { failed: failed - 1, ..self }
        }
    }
}
