//! What the commands on flows share: a draft of everything one of them changes, and the one way in
//! which an edge is resolved.
//!
//! An edge is resolved once, a group fires once, and a skipped execution is told to its flow like any
//! other that ended: skips travel hop by hop.

mod unskip;

use std::collections::BTreeMap;

use super::{Parting, end};
use crate::error::{Code, Rejection};
use crate::event::{Event, EventKind};
use crate::execution::{AttemptRecord, CancelledBy, Ending, Execution, LeaseEnd, State, Terminal};
use crate::flow::{
    CancellationPolicy, Dispatch, Edge, EdgePolicy, EdgeState, Flow, FlowState, Group, GroupState,
    OnImpossible, PendingCancel, Siblings, SiblingsReason, Verdict,
};
use crate::fold::{Blob, Change, Cx, Effects, GraphEffects, GroupKey, WorkingSet};
use crate::ids::{EdgeId, ExecutionId, FlowId};
use crate::state::TerminalOutcome;
use crate::text::EdgeName;
use crate::time::Millis;

pub(super) use unskip::{behind, stays_skipped, waits_again};

/// Why an execution is skipped.
pub const DEPENDENCY_IMPOSSIBLE: &str = "dependency_impossible";

/// Everything that one command changes in a flow, over the rows that it found.
pub(super) struct Draft<'a> {
    have: &'a WorkingSet,
    /// The flow as it is to be.
    pub flow: Flow,
    /// The time of the change.
    pub at: Millis,
    edges: BTreeMap<EdgeId, Edge>,
    groups: BTreeMap<ExecutionId, Group>,
    executions: BTreeMap<ExecutionId, Execution>,
    dispatch: BTreeMap<ExecutionId, Option<Dispatch>>,
    cancels: Vec<(GroupKey, Option<PendingCancel>)>,
    attempts: Vec<AttemptRecord>,
    blobs: Vec<Blob>,
    events: Vec<Event>,
}

/// How an upstream ended, as far as an edge is concerned.
#[derive(Clone, Copy)]
pub(super) struct End {
    /// Nothing when nobody knows any more: it was removed.
    outcome: Option<TerminalOutcome>,
    /// Whether there is a result to pass on.
    result: bool,
}

impl End {
    /// Of an execution that is gone.
    pub const GONE: Self = Self { outcome: None, result: false };

    /// Of `x`, if it ended.
    pub fn of(x: &Execution) -> Option<Self> {
        match &x.state {
            State::Terminal(Terminal { ending, .. }) => Some(Self {
                outcome: Some(ending.outcome()),
                result: matches!(ending, Ending::Success { result: true, .. }),
            }),
            State::Runnable(_) | State::Active(_) | State::Suspended(_) => None,
        }
    }
}

impl<'a> Draft<'a> {
    /// Nothing is changed yet.
    pub fn new(have: &'a WorkingSet, flow: &Flow, cx: &Cx<'_>) -> Self {
        Self {
            have,
            at: cx.now.max(flow.updated_at),
            flow: flow.clone(),
            edges: BTreeMap::new(),
            groups: BTreeMap::new(),
            executions: BTreeMap::new(),
            dispatch: BTreeMap::new(),
            cancels: Vec::new(),
            attempts: Vec::new(),
            blobs: Vec::new(),
            events: Vec::new(),
        }
    }

    /// The execution as it is to be.
    pub fn execution(&self, id: ExecutionId) -> Option<&Execution> {
        self.executions.get(&id).or_else(|| self.have.execution(id).ok())
    }

    /// A member of the flow, as it is to be. Of a flow that is removed in pieces, whatever else has the
    /// id of a member that is gone is none.
    pub fn member(&self, id: ExecutionId) -> Option<&Execution> {
        self.execution(id).filter(|x| x.flow() == Some(self.flow.id))
    }

    /// The group as it is to be.
    pub fn group(&self, id: ExecutionId) -> Option<&Group> {
        self.groups.get(&id).or_else(|| self.have.graph.group((self.flow.id, id)))
    }

    /// Whether an edge would close a circle.
    pub fn closes_circle(&self, from: ExecutionId, to: ExecutionId) -> Option<bool> {
        self.have.graph.closes_circle(self.flow.id, from, to)
    }

    /// However often a command changes an execution, it is one change.
    pub fn put_execution(&mut self, mut x: Execution) {
        let before = self.have.execution(x.id).map_or(0, |before| before.version);
        x.version = x.version.min(before + 1);
        self.executions.insert(x.id, x);
    }

    pub fn put_group(&mut self, group: Group) {
        self.groups.insert(group.downstream, group);
    }

    pub fn put_edge(&mut self, edge: Edge) {
        self.edges.insert(edge.id, edge);
    }

    pub fn put_blob(&mut self, blob: Option<Blob>) {
        self.blobs.extend(blob);
    }

    pub fn tell(&mut self, kind: EventKind) {
        self.events.push(Event::of_flow(&self.flow, self.at, kind));
    }

    pub fn undispatch(&mut self, id: ExecutionId) {
        self.dispatch.insert(id, None);
    }

    /// The siblings of a group are not to be cancelled any more.
    pub fn spare(&mut self, id: ExecutionId) {
        self.cancels.push(((self.flow.id, id), None));
    }

    /// Ends an execution; `told` says whether its end is then dispatched to the flow.
    pub fn end(&mut self, x: &Execution, ending: Ending, reason: &str, cx: &Cx<'_>, told: bool) {
        let parting = Parting { how: LeaseEnd::Revoked, reason };
        let effects = end(x, ending, parting, cx);
        effects.execution.into_iter().for_each(|x| self.put_execution(x));
        self.events.extend(effects.events);
        if told {
            self.dispatch.extend(effects.dispatch.map(|row| (row.execution, Some(row))));
        }
    }

    /// Counts the end of a member whose end is not, or no longer, to be dispatched.
    pub fn count(&mut self, terminal: &Terminal) {
        *self.flow.ended.counter(&terminal.ending) += 1;
        self.flow.retain_until = self.flow.retain_until.max(terminal.retain_until);
    }

    /// Ends the flow if it is sealed and all its members are counted.
    pub fn finish(&mut self) {
        let done = self.flow.sealed && self.flow.ended.total() == self.flow.nodes;
        if !done || self.flow.is_terminal() {
            return;
        }
        let at = self.at;
        let well = self.flow.ended.badly == 0;
        self.flow.state = if well { FlowState::Completed { at } } else { FlowState::Failed { at } };
        self.tell_end();
    }

    /// Says that the flow has ended if it was cancelled, not with all members, and the last of them is
    /// counted. Of one that was cancelled with all members, the commit that ended the last said so.
    pub fn finish_cancelled(&mut self) {
        let let_go_on = match self.flow.state {
            FlowState::Cancelled { policy, .. } => policy != CancellationPolicy::All,
            FlowState::Open | FlowState::Completed { .. } | FlowState::Failed { .. } => false,
        };
        if let_go_on && self.flow.ended.total() == self.flow.nodes {
            self.tell_end();
        }
    }

    /// Says that the flow has ended.
    pub fn tell_end(&mut self) {
        self.tell(EventKind::FlowEnded { state: self.flow.state.word() });
    }

    /// Whether an edge or a group is not what it was. A call that is sent again puts them as they are.
    fn grows(&self) -> bool {
        let (flow, graph) = (self.flow.id, &self.have.graph);
        let edge = |edge: &Edge| graph.edges.get(&(flow, edge.id)).and_then(Option::as_ref);
        self.groups.values().any(|now| graph.group((flow, now.downstream)) != Some(now))
            || self.edges.values().any(|now| edge(now) != Some(now))
    }

    /// Everything that was changed. A flow whose edges or groups change has a new version too, so
    /// that it answers for them.
    pub fn change<R>(mut self, reply: R) -> Change<R> {
        let before = self.have.graph.known_flow(self.flow.id);
        let flow = (self.grows() || before != Some(&self.flow)).then(|| {
            self.flow.version += u64::from(before.is_some());
            self.flow.updated_at = self.at;
            self.flow
        });
        let graph = GraphEffects {
            flow,
            groups: self.groups.into_values().collect(),
            edges: self.edges.into_values().collect(),
            executions: self.executions.into_values().collect(),
            attempts: self.attempts,
            blobs: self.blobs,
            dispatch: self.dispatch.into_iter().collect(),
            cancels: self.cancels,
            ..GraphEffects::default()
        };
        let effects =
            Effects { events: self.events, graph: Some(Box::new(graph)), ..Effects::default() };
        Change { reply, effects }
    }

    /// Resolves an edge by how its upstream ended. Answers whether it was still to be resolved.
    pub fn resolve(&mut self, edge: &Edge, end: End, cx: &Cx<'_>) -> Result<bool, Rejection> {
        let EdgeState::Unsatisfied { applied_at } = edge.state else { return Ok(false) };
        let at = self.at;
        let satisfied = end.outcome.is_some_and(|outcome| edge.kind.satisfied_by(outcome));
        let state = if satisfied {
            EdgeState::Satisfied { applied_at, at }
        } else {
            EdgeState::Impossible { applied_at, at }
        };
        self.put_edge(Edge { state, ..edge.clone() });
        let Some(mut group) = self.group(edge.downstream).cloned() else {
            return Err(self.corrupt(edge.downstream, "has an edge and no group"));
        };
        if edge.round != group.round {
            // Of an earlier wait, which is over.
            return Ok(true);
        }
        let outcome = end.outcome.unwrap_or(TerminalOutcome::Failed);
        *group.counters.counter(satisfied, outcome) += 1;
        if group.counters.resolved() > group.counters.total {
            return Err(self.corrupt(edge.downstream, "counts more edges than it has"));
        }
        let pending = group.state == GroupState::Pending;
        let verdict = group.policy.judge(group.counters);
        let fires = pending && verdict != Verdict::Pending;
        let passes = satisfied && end.result && edge.data_passing_ref.is_some();
        // Of all, each passes its result on; of some, the one that decides it.
        if pending && passes && (fires || group.policy == EdgePolicy::AllOf) {
            self.pass_result(edge);
        }
        if fires {
            self.fire(&mut group, verdict, cx);
        }
        self.put_group(group);
        Ok(true)
    }

    fn corrupt(&self, downstream: ExecutionId, why: &str) -> Rejection {
        let said = format!("the group of {downstream} in flow {} {why}", self.flow.id);
        Rejection::new(Code::Corruption, said)
    }

    fn pass_result(&mut self, edge: &Edge) {
        let Some(x) = self.member(edge.downstream) else { return };
        if matches!(x.state, State::Terminal(_)) || x.input_from == Some(edge.upstream) {
            return;
        }
        let mut given = x.changed(self.at.max(x.updated_at));
        given.input_from = Some(edge.upstream);
        self.put_execution(given);
    }

    /// Fires a group that its counters decide, if it has not fired.
    pub fn judge(&mut self, downstream: ExecutionId, cx: &Cx<'_>) {
        let Some(mut group) = self.group(downstream).cloned() else { return };
        if group.state == GroupState::Pending {
            let verdict = group.policy.judge(group.counters);
            self.fire(&mut group, verdict, cx);
            self.put_group(group);
        }
    }

    /// Fires a group: once, whatever else is resolved later.
    fn fire(&mut self, group: &mut Group, verdict: Verdict, cx: &Cx<'_>) {
        let at = self.at;
        let reason = match verdict {
            Verdict::Satisfied => {
                group.state = GroupState::Satisfied { at };
                SiblingsReason::Satisfied
            }
            Verdict::Impossible => {
                group.state = GroupState::Impossible { at };
                SiblingsReason::Impossible
            }
            Verdict::Pending => return,
        };
        if group.policy.cancels_remaining() {
            let (flow, downstream) = (group.flow, group.downstream);
            group.siblings = Some(Siblings { pending: true, reason, round: group.round });
            let row = PendingCancel { enqueued_at: at, flow, downstream };
            self.cancels.push(((flow, downstream), Some(row)));
        }
        let Some(x) = self.member(group.downstream).cloned() else { return };
        let goes_on =
            verdict == Verdict::Satisfied || group.policy.on_impossible() == OnImpossible::Run;
        match (verdict, &x.state) {
            (_, State::Runnable(_)) if goes_on => self.gate(&x, false),
            // It runs, or waits for something else, and will learn how its group fired when it asks.
            (_, State::Active(_) | State::Suspended(_)) if goes_on => {}
            (Verdict::Impossible, State::Runnable(_) | State::Active(_) | State::Suspended(_)) => {
                let reason = DEPENDENCY_IMPOSSIBLE.to_owned();
                self.end(&x, Ending::Skipped { reason }, DEPENDENCY_IMPOSSIBLE, cx, true);
            }
            // It stayed skipped until now, though what it waits for was replayed.
            (Verdict::Satisfied, State::Terminal(_)) if self.may_unskip(x.id) => {
                self.unskip(x.id, false, cx);
            }
            // It runs, or it ended meanwhile: nothing holds it back.
            (
                Verdict::Satisfied,
                State::Runnable(_) | State::Active(_) | State::Suspended(_) | State::Terminal(_),
            )
            | (Verdict::Impossible, State::Terminal(_))
            | (Verdict::Pending, _) => {}
        }
    }

    /// Holds a waiting execution back, or lets it go.
    pub fn gate(&mut self, x: &Execution, gated: bool) {
        let State::Runnable(runnable) = &x.state else { return };
        if runnable.gated == gated {
            return;
        }
        let mut gate = runnable.clone();
        gate.gated = gated;
        let mut next = x.changed(self.at.max(x.updated_at));
        next.state = State::Runnable(gate);
        self.put_execution(next);
    }

    /// The group into which another edge may be staged: a new one, the one that waits, or a new round
    /// of one that fired while its execution runs.
    pub fn open_group(&self, x: &Execution) -> Result<Group, Rejection> {
        let Some(group) = self.group(x.id) else {
            return Ok(Group::new(self.flow.id, x.id, EdgePolicy::default()));
        };
        match (&x.state, group.state) {
            (_, GroupState::Pending) => Ok(group.clone()),
            (
                State::Active(_) | State::Suspended(_),
                GroupState::Satisfied { .. } | GroupState::Impossible { .. },
            ) => {
                let siblings = group.siblings.filter(|siblings| siblings.pending);
                let fresh = Group::new(self.flow.id, x.id, EdgePolicy::default());
                Ok(Group { round: group.round + 1, siblings, ..fresh })
            }
            (
                State::Runnable(_) | State::Terminal(_),
                GroupState::Satisfied { .. } | GroupState::Impossible { .. },
            ) => {
                let said = format!("the group of {} has fired: {}", x.id, group.state.word());
                Err(Rejection::new(Code::GroupAlreadyFired, said))
            }
        }
    }

    /// Has `edge` hold its downstream back.
    pub fn apply(&mut self, edge: &Edge) -> Result<Edge, Rejection> {
        let edge = Edge { state: EdgeState::Unsatisfied { applied_at: self.at }, ..edge.clone() };
        let Some(mut group) = self.group(edge.downstream).cloned() else {
            return Err(self.corrupt(edge.downstream, "has an edge and no group"));
        };
        group.counters.total += 1;
        self.put_group(group);
        self.put_edge(edge.clone());
        if let Some(x) = self.member(edge.downstream).cloned() {
            self.gate(&x, true);
        }
        Ok(edge)
    }

    /// Resolves an edge whose upstream has ended, or is gone; answers whether it did.
    pub fn settle(&mut self, edge: &Edge, cx: &Cx<'_>) -> Result<bool, Rejection> {
        let end = match self.member(edge.upstream) {
            Some(upstream) => End::of(upstream),
            None => Some(End::GONE),
        };
        end.map_or(Ok(false), |end| self.resolve(edge, end, cx))
    }
}

/// The flow, if things may be added to it; `inside` says that a running member adds them.
pub(super) fn growing(flow: &Flow, inside: bool) -> Result<(), Rejection> {
    if flow.is_terminal() {
        let said = format!("flow {} is {}", flow.id, flow.state.word());
        return Err(Rejection::new(Code::FlowAlreadyTerminal, said));
    }
    if flow.sealed && !inside {
        let said = format!("flow {} is sealed", flow.id);
        return Err(Rejection::new(Code::FlowSealed, said));
    }
    Ok(())
}

/// Refuses to let something finished wait, or to add it.
pub(super) fn unfinished(x: &Execution) -> Result<(), Rejection> {
    match &x.state {
        State::Runnable(_) | State::Active(_) | State::Suspended(_) => Ok(()),
        State::Terminal(terminal) => {
            let said = format!("{} has ended: {}", x.id, terminal.ending.outcome());
            Err(Rejection::new(Code::ExecutionTerminal, said).standing(x.standing()))
        }
    }
}

/// Refuses an edge that would close a circle.
pub(super) fn acyclic(
    draft: &Draft<'_>,
    from: ExecutionId,
    to: ExecutionId,
) -> Result<(), Rejection> {
    match draft.closes_circle(from, to) {
        Some(false) => Ok(()),
        Some(true) => {
            let said = format!("an edge from {from} to {to} would close a circle");
            Err(Rejection::new(Code::CycleDetected, said))
        }
        None => {
            let said = format!("too many executions lie behind {to} to look at");
            Err(Rejection::new(Code::CycleUnverifiable, said))
        }
    }
}

/// An edge that is there already.
pub(super) fn exists(edge: &Edge) -> Rejection {
    let said = format!(
        "edge {} leads from {} to {} and is {}",
        edge.id,
        edge.upstream,
        edge.downstream,
        edge.state.word()
    );
    let refused = Rejection::new(Code::DependencyAlreadyExists, said);
    Rejection { value: Some(edge.id.to_string()), ..refused }
}

/// Refuses a name that another edge into `downstream` has.
pub(super) fn unnamed(
    have: &WorkingSet,
    into: (FlowId, ExecutionId),
    name: &EdgeName,
    downstream: &dyn std::fmt::Display,
) -> Result<(), Rejection> {
    let edges = have.graph.edges_of(into.0, have.graph.incoming.get(&into));
    if edges.iter().all(|edge| edge.name.as_ref() != Some(name)) {
        return Ok(());
    }
    let why = format!("is the name of another edge into {downstream}");
    Err(Rejection::invalid(Code::InvalidInput, "edge_name", name, why))
}

/// Not a member of the flow.
pub(super) fn not_a_member(flow: FlowId, id: ExecutionId) -> Rejection {
    let said = format!("{id} is not a member of flow {flow}");
    Rejection { value: Some(id.to_string()), ..Rejection::new(Code::ExecutionNotInFlow, said) }
}

/// Cancelled with the flow.
pub(super) fn with_flow(reason: &str) -> Ending {
    Ending::Cancelled { by: CancelledBy::CancelFlow, reason: reason.to_owned() }
}
