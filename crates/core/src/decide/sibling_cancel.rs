//! Cancel the siblings: a group fired, and it needs those of its upstreams that still run no more.
//!
//! One that another group keeps is spared: a group that has not fired and whose execution can still
//! run, or one that fired and lets its upstreams run. A sibling that the same transaction cancels spares
//! none of its upstreams: what ran only for it is cancelled too. A spared sibling goes on, whatever
//! becomes of what it was spared for; only a group that fires later and cancels what remains decides
//! on it again. The flow is locked, so that no edge is added and no group fires meanwhile. The group
//! is taken only if no other transaction holds it. A group is never half done: all its siblings are
//! dealt with in one transaction, which also takes the flag down and the row away.

use std::collections::BTreeMap;

use super::graph::{Draft, waits_again};
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
        /// Siblings that go on, because another group keeps them.
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
        for other in others(edge, have) {
            let to = other.downstream;
            keys.push(Key::FreeGroup(flow, to));
            // Whether it can still run is asked only of what waits.
            let waits = |group: &Group| group.state == GroupState::Pending;
            if have.graph.group((flow, to)).is_some_and(waits) {
                keys.push(Key::Execution(to));
            }
        }
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
    /// How many go on: another group keeps them.
    pub spared: u32,
    /// How many had ended.
    pub already_terminal: u32,
    /// How many are gone.
    pub not_found: u32,
}

/// The upstreams of `group` that are not resolved; nothing when it cannot be told yet which of them
/// others keep.
pub(super) fn siblings<'a>(group: &Group, have: &'a WorkingSet) -> Option<Siblings<'a>> {
    let mut siblings = Siblings::default();
    let mut running = Running::default();
    let edges = have.graph.edges_into(group.flow, group.downstream);
    for edge in edges.filter(|edge| group.cancels(edge)) {
        // Whatever else has its id when it is gone is none of the flow's.
        let x = have.execution(edge.upstream).ok().filter(|x| x.flow() == Some(group.flow));
        match x {
            None => siblings.not_found += 1,
            Some(x) if matches!(x.state, State::Terminal(_)) => siblings.already_terminal += 1,
            Some(x) => running.add(x, edge, have)?,
        }
    }
    running.divide(&mut siblings);
    Some(siblings)
}

/// The siblings that still run, and what keeps them from being cancelled.
#[derive(Default)]
struct Running<'a> {
    all: Vec<&'a Execution>,
    /// How many groups keep each of them.
    keepers: BTreeMap<ExecutionId, usize>,
    /// Those that a group keeps as long as its execution can run, by that execution.
    kept_for: BTreeMap<ExecutionId, Vec<ExecutionId>>,
}

impl<'a> Running<'a> {
    /// Adds the upstream of `edge`; nothing when it is not known what keeps it.
    fn add(&mut self, x: &'a Execution, edge: &Edge, have: &WorkingSet) -> Option<()> {
        if !have.graph.outgoing.contains_key(&(edge.flow, edge.upstream)) {
            return None;
        }
        self.all.push(x);
        let keepers = self.keepers.entry(x.id).or_default();
        for other in others(edge, have) {
            match keeps(other, have)? {
                Keeps::No => {}
                Keeps::ForGood => *keepers += 1,
                Keeps::WhileItRuns => {
                    *keepers += 1;
                    self.kept_for.entry(other.downstream).or_default().push(x.id);
                }
            }
        }
        Some(())
    }

    /// Cancels those that nothing keeps, then those that were kept only for one that is cancelled, until
    /// something keeps all that are left.
    fn divide(mut self, siblings: &mut Siblings<'a>) {
        let free = self.keepers.iter().filter(|(_, keepers)| **keepers == 0);
        let mut going: Vec<ExecutionId> = free.map(|(id, _)| *id).collect();
        while let Some(id) = going.pop() {
            for kept in self.kept_for.remove(&id).unwrap_or_default() {
                let Some(keepers) = self.keepers.get_mut(&kept) else { continue };
                *keepers -= 1;
                if *keepers == 0 {
                    going.push(kept);
                }
            }
        }
        for x in self.all {
            match self.keepers.get(&x.id) {
                Some(0) | None => siblings.cancelled.push(x),
                Some(_) => siblings.spared += 1,
            }
        }
    }
}

/// Whether an edge keeps its upstream from being cancelled as a sibling.
enum Keeps {
    No,
    /// Its group fired, and lets its upstreams run.
    ForGood,
    /// Its group has not fired.
    WhileItRuns,
}

/// Whether `other` keeps its upstream; nothing when that is not known.
fn keeps(other: &Edge, have: &WorkingSet) -> Option<Keeps> {
    let key = (other.flow, other.downstream);
    if have.graph.taken.contains(&key) {
        return None;
    }
    let group = have.graph.group(key)?;
    if group.round != other.round {
        // Of an earlier wait, which is over.
        return Some(Keeps::No);
    }
    match group.state {
        GroupState::Pending if can_run(other, have)? => Some(Keeps::WhileItRuns),
        GroupState::Satisfied { .. } | GroupState::Impossible { .. } if group.policy.lets_run() => {
            Some(Keeps::ForGood)
        }
        GroupState::Pending | GroupState::Satisfied { .. } | GroupState::Impossible { .. } => {
            Some(Keeps::No)
        }
    }
}

/// Whether the downstream of `edge` may still run once its group fires; nothing when it was not loaded.
fn can_run(edge: &Edge, have: &WorkingSet) -> Option<bool> {
    let x = have.executions.get(&edge.downstream)?.as_ref();
    let x = x.filter(|x| x.flow() == Some(edge.flow));
    let flow = have.graph.known_flow(edge.flow)?;
    Some(x.is_some_and(|x| match &x.state {
        State::Runnable(_) | State::Active(_) | State::Suspended(_) => true,
        State::Terminal(_) => waits_again(flow, x),
    }))
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
