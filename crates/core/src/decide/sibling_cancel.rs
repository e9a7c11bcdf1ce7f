//! Cancel the siblings: a group fired, and it needs those of its upstreams that still run no more.
//!
//! One that another group still waits for is spared: it goes on, and is looked at again only when
//! that group fires and cancels what remains. The flow is held, so that no edge is added and no group
//! fires meanwhile. The group is taken only if nobody else holds it. A group is never half done: all
//! its siblings are dealt with in one transaction, which also takes the flag down and the row away.

use super::graph::Draft;
use super::{Again, COMMAND_BYTES, Decide, Repeat};
use crate::command::Traffic;
use crate::error::Rejection;
use crate::execution::{CancelledBy, Ending, Execution, State};
use crate::flow::{self, Edge, EdgeState, Group, GroupState};
use crate::fold::{Change, Cx, Effects, GraphEffects, Key, WorkingSet};
use crate::ids::{ExecutionId, FlowId};
use crate::limits::Config;

/// Cancel the siblings of a group that fired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CancelSiblings {
    /// The flow.
    pub flow: FlowId,
    /// The execution whose group it is.
    pub downstream: ExecutionId,
}

/// The answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SiblingsCancelled {
    /// It is done.
    Dispatched {
        /// Siblings that were cancelled.
        cancelled: u32,
        /// Siblings that go on, because a group that has not fired waits for them too.
        spared: u32,
        /// Siblings that had ended.
        already_terminal: u32,
        /// Siblings that are gone.
        not_found: u32,
    },
    /// There is no such group: the row is taken away.
    Orphaned,
    /// The flag is down: the reconciler takes the row away.
    SkippedForReconciler,
    /// Somebody else holds a group that has to be read, or the batch brought a sibling whose other
    /// edges were not read: it is left for the next round.
    SkippedLocked,
    /// It was done before.
    Gone,
}

/// The keys of a command about the siblings of a group, besides the flow. Groups that others hold are
/// not waited for.
pub(super) fn keys(flow: FlowId, downstream: ExecutionId, have: &WorkingSet) -> Vec<Key> {
    let mut keys = vec![
        Key::FreeGroup(flow, downstream),
        Key::Incoming(flow, downstream),
        Key::Cancel(flow, downstream),
    ];
    // Whether or not it has fired yet: it may, earlier in the same batch.
    for edge in have.graph.edges_into(flow, downstream) {
        if !matches!(edge.state, EdgeState::Unsatisfied { .. }) {
            continue;
        }
        keys.extend([Key::Outgoing(flow, edge.upstream), Key::Execution(edge.upstream)]);
        let others = others(edge, have).map(|other| Key::FreeGroup(flow, other.downstream));
        keys.extend(others);
    }
    keys
}

/// The edges beside `edge` out of its upstream that are not resolved, as far as they were loaded.
fn others<'a>(edge: &'a Edge, have: &'a WorkingSet) -> impl Iterator<Item = &'a Edge> {
    let ids = have.graph.outgoing.get(&(edge.flow, edge.upstream));
    have.graph.edges_of(edge.flow, ids).into_iter().filter(move |other| {
        other.downstream != edge.downstream
            && matches!(other.state, EdgeState::Staged | EdgeState::Unsatisfied { .. })
    })
}

/// Whether siblings of the group are to be cancelled.
pub(super) fn is_pending(group: &Group) -> bool {
    group.siblings.is_some_and(|siblings| siblings.pending)
}

/// What becomes of the upstreams of a group that fired, as far as its edges tell.
#[derive(Default)]
pub(super) struct Siblings<'a> {
    /// Those to cancel.
    pub cancelled: Vec<&'a Execution>,
    /// How many go on: a group that has not fired waits for them too.
    pub spared: u32,
    /// How many had ended.
    pub already_terminal: u32,
    /// How many are gone.
    pub not_found: u32,
}

/// The upstreams of `group` that are not resolved; nothing when it cannot be told yet which of them
/// others need. A sibling is needed while another edge out of it is not resolved and belongs to the
/// current round of a group that has not fired.
pub(super) fn siblings<'a>(group: &Group, have: &'a WorkingSet) -> Option<Siblings<'a>> {
    let mut siblings = Siblings::default();
    let edges = have.graph.edges_into(group.flow, group.downstream);
    for edge in edges.filter(|edge| group.cancels(edge)) {
        // Whatever else has its id when it is gone is none of the flow's.
        let x = have.execution(edge.upstream).ok().filter(|x| x.flow() == Some(group.flow));
        match x {
            None => siblings.not_found += 1,
            Some(x) if matches!(x.state, State::Terminal(_)) => siblings.already_terminal += 1,
            Some(_) if is_needed(edge, have)? => siblings.spared += 1,
            Some(x) => siblings.cancelled.push(x),
        }
    }
    Some(siblings)
}

/// Whether a group besides that of `edge` needs its upstream; nothing when that is not known.
fn is_needed(edge: &Edge, have: &WorkingSet) -> Option<bool> {
    if !have.graph.outgoing.contains_key(&(edge.flow, edge.upstream)) {
        return None;
    }
    for other in others(edge, have) {
        let key = (other.flow, other.downstream);
        if have.graph.taken.contains(&key) {
            return None;
        }
        let group = have.graph.group(key)?;
        if group.state == GroupState::Pending && group.round == other.round {
            return Some(true);
        }
    }
    Some(false)
}

/// Takes the row away.
pub(super) fn draining<R>(reply: R, flow: FlowId, downstream: ExecutionId) -> Change<R> {
    let cancels = vec![((flow, downstream), None)];
    let graph = Some(Box::new(GraphEffects { cancels, ..GraphEffects::default() }));
    Change { reply, effects: Effects { graph, ..Effects::default() } }
}

impl Draft<'_> {
    /// The siblings of `group` are dealt with: its row goes, its flag is taken down, and its edges from
    /// upstreams that ended are resolved. Those that are not resolved afterwards lead from siblings
    /// that were spared.
    pub fn drain(
        &mut self,
        group: &Group,
        have: &WorkingSet,
        cx: &Cx<'_>,
    ) -> Result<(), Rejection> {
        let edges = have.graph.edges_into(group.flow, group.downstream);
        // Nothing is resolved any more in a flow that was cancelled with all its members.
        let open = !self.flow.is_closed();
        for edge in edges.filter(|edge| open && group.cancels(edge)) {
            self.settle(edge, cx)?;
        }
        let drained = self.group(group.downstream).unwrap_or(group).clone();
        let siblings =
            drained.siblings.map(|siblings| flow::Siblings { pending: false, ..siblings });
        self.put_group(Group { siblings, ..drained });
        self.spare(group.downstream);
        Ok(())
    }
}

impl Decide for CancelSiblings {
    type Reply = SiblingsCancelled;
    const NAME: &'static str = "cancel_siblings";
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
        let mut keys = keys(self.flow, self.downstream, have);
        keys.push(Key::Flow(self.flow));
        keys
    }

    fn decide(
        &self,
        have: &WorkingSet,
        cx: &mut Cx<'_>,
    ) -> Result<Change<SiblingsCancelled>, Rejection> {
        let key = (self.flow, self.downstream);
        if !matches!(have.graph.cancels.get(&key), Some(Some(_))) {
            return Ok(Change::none(SiblingsCancelled::Gone));
        }
        if have.graph.taken.contains(&key) {
            return Ok(Change::none(SiblingsCancelled::SkippedLocked));
        }
        let (Some(flow), Some(group)) = (have.graph.known_flow(self.flow), have.graph.group(key))
        else {
            return Ok(draining(SiblingsCancelled::Orphaned, self.flow, self.downstream));
        };
        let Some(flow::Siblings { pending: true, reason, .. }) = group.siblings else {
            return Ok(Change::none(SiblingsCancelled::SkippedForReconciler));
        };
        let Some(siblings) = siblings(group, have) else {
            return Ok(Change::none(SiblingsCancelled::SkippedLocked));
        };
        let mut draft = Draft::new(have, flow, cx);
        for x in &siblings.cancelled {
            let (by, reason) = (CancelledBy::Engine, reason.as_str());
            let ending = Ending::Cancelled { by, reason: reason.to_owned() };
            draft.end(x, ending, reason, cx, true);
        }
        draft.drain(group, have, cx)?;
        let Siblings { spared, already_terminal, not_found, .. } = siblings;
        let cancelled = u32::try_from(siblings.cancelled.len()).unwrap_or(u32::MAX);
        Ok(draft.change(SiblingsCancelled::Dispatched {
            cancelled,
            spared,
            already_terminal,
            not_found,
        }))
    }

    fn again(reply: &SiblingsCancelled) -> Again<SiblingsCancelled> {
        match reply {
            SiblingsCancelled::Dispatched { .. }
            | SiblingsCancelled::Orphaned
            | SiblingsCancelled::Gone => Again::Reply(SiblingsCancelled::Gone),
            SiblingsCancelled::SkippedForReconciler => Again::Same,
            SiblingsCancelled::SkippedLocked => Again::Further,
        }
    }
}
