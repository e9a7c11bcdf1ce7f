//! Cancel the siblings: a group fired, and nobody needs those of its upstreams that still run.
//!
//! The group is taken only if nobody else holds it. A group is never half done: all its siblings are
//! cancelled in one transaction, which also takes the flag down and the row away.

use std::collections::BTreeSet;

use super::graph::Ends;
use super::{Again, COMMAND_BYTES, Decide};
use crate::command::Traffic;
use crate::error::Rejection;
use crate::execution::{CancelledBy, Ending, Execution, State};
use crate::flow::{EdgeState, Group, Siblings};
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
        /// Siblings that had ended.
        already_terminal: u32,
        /// Siblings that are gone.
        not_found: u32,
    },
    /// There is no such group: the row is taken away.
    Orphaned,
    /// The flag is down: the reconciler takes the row away.
    SkippedForReconciler,
    /// Somebody else holds the group.
    SkippedLocked,
    /// It was done before.
    Gone,
}

/// The keys of a command about the siblings of a group.
pub(super) fn keys(flow: FlowId, downstream: ExecutionId, have: &WorkingSet) -> Vec<Key> {
    let key = (flow, downstream);
    let mut keys = vec![Key::FreeGroup(flow, downstream), Key::Cancel(flow, downstream)];
    // Whether or not it has fired yet: it may, earlier in the same batch.
    if have.graph.group(key).is_some() {
        keys.push(Key::Incoming(flow, downstream));
        let edges = have.graph.edges_into(flow, downstream);
        let unresolved = edges.filter(|edge| matches!(edge.state, EdgeState::Unsatisfied { .. }));
        keys.extend(unresolved.map(|edge| Key::Execution(edge.upstream)));
    }
    keys
}

/// Whether siblings of the group are to be cancelled.
pub(super) fn is_pending(group: &Group) -> bool {
    group.siblings.is_some_and(|siblings| siblings.pending)
}

/// The upstreams that had not ended when the group fired, as far as its edges tell.
pub(super) fn siblings(group: &Group, have: &WorkingSet) -> BTreeSet<ExecutionId> {
    let edges = have.graph.edges_into(group.flow, group.downstream);
    edges.filter(|edge| group.cancels(edge)).map(|edge| edge.upstream).collect()
}

/// The sibling, unless it is gone; whatever else has its id then is none of the flow's.
pub(super) fn member(flow: FlowId, id: ExecutionId, have: &WorkingSet) -> Option<&Execution> {
    have.execution(id).ok().filter(|x| x.flow() == Some(flow))
}

/// Takes the row away, and the flag down if it is up.
pub(super) fn drained(
    group: Option<&Group>,
    flow: FlowId,
    downstream: ExecutionId,
) -> GraphEffects {
    let group = group.filter(|group| is_pending(group)).map(|group| {
        let siblings = group.siblings.map(|siblings| Siblings { pending: false, ..siblings });
        Group { siblings, ..group.clone() }
    });
    GraphEffects {
        groups: group.into_iter().collect(),
        cancels: vec![((flow, downstream), None)],
        ..GraphEffects::default()
    }
}

/// The same as a change.
pub(super) fn draining<R>(reply: R, graph: GraphEffects) -> Change<R> {
    let effects = Effects { graph: Some(Box::new(graph)), ..Effects::default() };
    Change { reply, effects }
}

impl Decide for CancelSiblings {
    type Reply = SiblingsCancelled;
    const NAME: &'static str = "cancel_siblings";
    const TRAFFIC: Traffic = Traffic::Admin;

    fn validate(&self, _: &Config) -> Result<(), Rejection> {
        Ok(())
    }

    fn bytes(&self) -> usize {
        COMMAND_BYTES
    }

    fn keys(&self, have: &WorkingSet) -> Vec<Key> {
        keys(self.flow, self.downstream, have)
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
        let Some(group) = have.graph.group(key) else {
            let gone = drained(None, self.flow, self.downstream);
            return Ok(draining(SiblingsCancelled::Orphaned, gone));
        };
        let Some(Siblings { pending: true, reason, .. }) = group.siblings else {
            return Ok(Change::none(SiblingsCancelled::SkippedForReconciler));
        };
        let (mut cancelled, mut already_terminal, mut not_found) = (0, 0, 0);
        let mut ends = Ends::default();
        for id in siblings(group, have) {
            match member(self.flow, id, have) {
                None => not_found += 1,
                Some(x) if matches!(x.state, State::Terminal(_)) => already_terminal += 1,
                Some(x) => {
                    cancelled += 1;
                    let reason = reason.as_str();
                    let by = CancelledBy::Engine;
                    let ending = Ending::Cancelled { by, reason: reason.to_owned() };
                    ends.add(x, ending, reason, cx);
                }
            }
        }
        let graph = drained(Some(group), self.flow, self.downstream);
        let reply = SiblingsCancelled::Dispatched { cancelled, already_terminal, not_found };
        Ok(ends.change(reply, graph))
    }

    fn again(reply: &SiblingsCancelled) -> Again<SiblingsCancelled> {
        match reply {
            SiblingsCancelled::Dispatched { .. }
            | SiblingsCancelled::Orphaned
            | SiblingsCancelled::Gone => Again::Reply(SiblingsCancelled::Gone),
            SiblingsCancelled::SkippedForReconciler | SiblingsCancelled::SkippedLocked => {
                Again::Same
            }
        }
    }
}
