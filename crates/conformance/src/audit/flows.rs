//! Checks that the rows of flows agree with each other.

use std::collections::{BTreeMap, BTreeSet};

use ff_core::event::{Event, EventKind, EventName};
use ff_core::execution::{CancelledBy, Ending, State, Terminal};
use ff_core::flow::{
    CancellationPolicy, Counters, Edge, EdgeState, Ended, Flow, FlowState, FlowWord, Group,
    GroupState, Verdict,
};
use ff_core::fold::GroupKey;
use ff_core::state::TerminalOutcome;
use ff_core::{Execution, ExecutionId, FlowId};

use crate::model::Tables;

/// Panics unless counters are what they count and nothing is left over.
pub(super) fn audit(tables: &Tables) {
    let mut members: BTreeMap<FlowId, Vec<&Execution>> = BTreeMap::new();
    for x in tables.executions.values() {
        if let Some(flow) = x.flow() {
            members.entry(flow).or_default().push(x);
        }
    }
    for flow in tables.flows.values() {
        check_counts(tables, flow, members.get(&flow.id).map_or(&[], Vec::as_slice));
        check_end(tables, flow);
    }
    let mut edges: BTreeMap<GroupKey, Vec<&Edge>> = BTreeMap::new();
    for edge in tables.edges.values() {
        edges.entry((edge.flow, edge.downstream)).or_default().push(edge);
    }
    for (key, group) in &tables.groups {
        check_group(tables, group, edges.get(key).map_or(&[], Vec::as_slice));
    }
    for edge in tables.edges.values() {
        check_edge(tables, edge);
        check_needed(tables, edge);
        // Of a flow that was removed in part, an id may be in use again.
        let there = members.get(&edge.flow).map_or(0, Vec::len);
        let whole = tables.flows.get(&edge.flow).is_some_and(|flow| count(flow.nodes) == there);
        for end in [edge.upstream, edge.downstream].iter().filter(|_| whole) {
            let flow = tables.executions.get(end).and_then(|x| x.flow());
            assert_eq!(flow, Some(edge.flow), "edge {} joins members", edge.id);
        }
    }
    tables.executions.values().for_each(|x| check_member(tables, x));
    check_circles(tables);
    for row in tables.dispatch.values() {
        let x = tables.executions.get(&row.execution);
        let ended = x.is_some_and(|x| matches!(x.state, State::Terminal(_)));
        assert!(ended, "{} has ended and is to be dispatched", row.execution);
        assert_eq!(x.and_then(|x| x.flow()), Some(row.flow), "{}", row.execution);
    }
    for key in tables.cancels.keys() {
        let group = tables.groups.get(key).and_then(|group| group.siblings);
        assert!(group.is_some_and(|siblings| siblings.pending), "{key:?} has siblings to cancel");
    }
    for (flow, id) in &tables.owed {
        assert!(tables.backlogs.contains_key(flow), "flow {flow} owes {id}");
    }
}

/// An edge belongs to a flow and a group, and nothing waits for an end that nobody will tell.
fn check_edge(tables: &Tables, edge: &Edge) {
    let flow = tables.flows.get(&edge.flow);
    assert!(flow.is_some(), "edge {} has a flow", edge.id);
    let group = tables.groups.get(&(edge.flow, edge.downstream));
    let Some(group) = group else { panic!("edge {} has a group", edge.id) };
    let unresolved = matches!(edge.state, EdgeState::Unsatisfied { .. });
    if !unresolved || flow.is_some_and(Flow::is_closed) {
        return;
    }
    let upstream = tables.executions.get(&edge.upstream);
    let Some(upstream) = upstream.filter(|x| x.flow() == Some(edge.flow)) else {
        panic!("edge {} waits for what is gone", edge.id);
    };
    let ended = matches!(upstream.state, State::Terminal(_));
    let told = !tables.dispatch.contains_key(&upstream.id);
    assert!(!ended || !told, "edge {} was not told that its upstream ended", edge.id);
    let siblings = group.siblings.filter(|siblings| edge.round <= siblings.round);
    if siblings.is_some_and(|siblings| !siblings.pending) {
        // Whoever still runs after the siblings were cancelled was replayed since, or spared, because
        // another group kept it.
        let beside = |other: &&Edge| {
            (other.flow, other.upstream) == (edge.flow, edge.upstream) && other.id != edge.id
        };
        let spared =
            tables.edges.values().filter(beside).any(|other| may_keep(tables, other, group));
        let runs = spared || upstream.counts.replays > 0;
        assert!(ended || runs, "{} was not cancelled", upstream.id);
    }
}

/// Whether an edge may have kept its upstream when the siblings of `fired` were cancelled: its
/// downstream had not ended before the first of those whose end made the group fire.
fn may_keep(tables: &Tables, edge: &Edge, fired: &Group) -> bool {
    let group = tables.groups.get(&(edge.flow, edge.downstream));
    if group.is_some_and(|group| group.policy.lets_run()) || may_run(tables, edge.downstream) {
        return true;
    }
    let ended = |id: ExecutionId| {
        let own = |event: &Event| event.execution == Some(id);
        let mut events = tables.events.iter().filter(|(_, event)| own(event));
        let end = events.find(|(_, event)| event.kind.name() == EventName::Completion);
        end.map(|(seq, _)| *seq)
    };
    let into = tables.edges.values().filter(|own| {
        let resolved =
            matches!(own.state, EdgeState::Satisfied { .. } | EdgeState::Impossible { .. });
        (own.flow, own.downstream) == (fired.flow, fired.downstream) && resolved
    });
    let first = into.map(|own| ended(own.upstream)).min().flatten();
    // Of what was removed since, nobody knows when it ended.
    let (Some(first), Some(end)) = (first, ended(edge.downstream)) else { return true };
    first < end
}

/// Whether an execution has not ended for good: it is under way, was replayed, or was skipped and may
/// wait again.
fn may_run(tables: &Tables, id: ExecutionId) -> bool {
    let Some(x) = tables.executions.get(&id) else { return false };
    let State::Terminal(Terminal { ending, .. }) = &x.state else { return true };
    x.counts.replays > 0 || matches!(ending, Ending::Skipped { .. })
}

/// No group that still waits, of what can still run, lost an upstream because another group did not need it
/// any more.
fn check_needed(tables: &Tables, edge: &Edge) {
    let Some(upstream) = tables.executions.get(&edge.upstream) else { return };
    let State::Terminal(Terminal { ending, at, .. }) = &upstream.state else { return };
    let as_sibling = matches!(ending, Ending::Cancelled { by: CancelledBy::Engine, .. });
    let group = tables.groups.get(&(edge.flow, edge.downstream));
    let waits = group
        .is_some_and(|group| group.state == GroupState::Pending && group.round == edge.round)
        && may_run(tables, edge.downstream);
    // Whatever was replayed since had a group that fired before.
    let replayed = |id| tables.executions.get(id).is_none_or(|x| x.counts.replays > 0);
    let since = replayed(&edge.upstream) || replayed(&edge.downstream) || edge.created_at >= *at;
    let (lost, needs) = (edge.upstream, edge.downstream);
    assert!(!as_sibling || !waits || since, "{lost} was cancelled as a sibling, {needs} needs it");
}

fn count(nodes: u32) -> usize {
    usize::try_from(nodes).expect("a small count")
}

/// A member has a flow, and waits for others only while its group does.
fn check_member(tables: &Tables, x: &Execution) {
    let gated = matches!(&x.state, State::Runnable(runnable) if runnable.gated);
    let Some(flow) = x.flow() else {
        return assert!(!gated, "{} waits for others in no flow", x.id);
    };
    let row = tables.flows.get(&flow);
    assert!(row.is_some(), "the flow of {} is there", x.id);
    assert_eq!(row.map(|flow| &flow.spec.namespace), Some(&x.spec.namespace), "{}", x.id);
    if gated && !row.is_some_and(Flow::is_closed) {
        let group = tables.groups.get(&(flow, x.id));
        let waits = group.is_some_and(|group| {
            group.state == GroupState::Pending && group.counters.running() > 0
        });
        assert!(waits, "{} waits for a group that fired, or for nothing", x.id);
    }
}

/// Takes away what waits for nothing until all is gone.
fn check_circles(tables: &Tables) {
    let mut left: BTreeSet<_> =
        tables.edges.values().map(|edge| (edge.upstream, edge.downstream)).collect();
    loop {
        let waiting: BTreeSet<_> = left.iter().map(|(_, to)| *to).collect();
        let before = left.len();
        left.retain(|(from, _)| waiting.contains(from));
        if left.len() == before {
            return assert!(left.is_empty(), "a circle: {left:?}");
        }
    }
}

/// What a flow counts is what its members are: counted once, by dispatch or by its cancellation.
fn check_counts(tables: &Tables, flow: &Flow, members: &[&Execution]) {
    assert!(members.len() <= count(flow.nodes), "{}", flow.id);
    if members.len() < count(flow.nodes) {
        // Being removed in pieces.
        return;
    }
    let mut ended = Ended::default();
    for x in members {
        if let State::Terminal(terminal) = &x.state
            && !tables.dispatch.contains_key(&x.id)
        {
            *ended.counter(&terminal.ending) += 1;
        }
    }
    assert_eq!(flow.ended, ended, "flow {} counts each end once", flow.id);
    let done = flow.sealed && ended.total() == flow.nodes;
    assert!(!done || flow.is_terminal(), "flow {} is over and says so", flow.id);
}

/// A cancelled flow has said once that it ended, if all its members have and it knows.
fn check_end(tables: &Tables, flow: &Flow) {
    let over = match &flow.state {
        FlowState::Cancelled { policy: CancellationPolicy::All, .. } => {
            !tables.backlogs.contains_key(&flow.id)
        }
        FlowState::Cancelled { .. } => flow.ended.total() == flow.nodes,
        FlowState::Open | FlowState::Completed { .. } | FlowState::Failed { .. } => return,
    };
    let end = EventKind::FlowEnded { state: FlowWord::Cancelled };
    let own = tables.events.values().filter(|event| event.flow == Some(flow.id));
    let told = own.filter(|event| event.kind == end).count();
    assert_eq!(told, usize::from(over), "flow {} says once that it ended", flow.id);
}

/// The counters of a group are those of its edges, each resolved as its upstream ended.
fn check_group(tables: &Tables, group: &Group, edges: &[&Edge]) {
    let edges = edges.iter().filter(|edge| edge.round == group.round);
    let mut counted: BTreeMap<&str, u32> = BTreeMap::new();
    let mut staged = 0;
    for edge in edges {
        staged += 1;
        *counted.entry(edge.state.word().as_str()).or_default() += 1;
        if let EdgeState::Satisfied { .. } = edge.state
            && let Some(x) = tables.executions.get(&edge.upstream)
            && let State::Terminal(terminal) = &x.state
            && x.counts.replays == 0
        {
            let outcome: TerminalOutcome = terminal.ending.outcome();
            assert!(edge.kind.satisfied_by(outcome), "edge {} after {outcome}", edge.id);
        }
    }
    let of = |word: &str| counted.get(word).copied().unwrap_or(0);
    let Counters { total, satisfied, failed, skipped } = group.counters;
    let name = group.downstream;
    assert_eq!(staged, group.staged, "the group of {name} knows its edges");
    assert_eq!(total, staged - of("staged"), "the group of {name} counts what was applied");
    assert_eq!(satisfied, of("satisfied"), "the group of {name} counts what was satisfied");
    assert_eq!(failed + skipped, of("impossible"), "the group of {name} counts what was lost");
    if group.state == GroupState::Pending {
        // A quorum of too many is lost with the first edge that is resolved, not before.
        let undecided = group.policy.judge(group.counters) == Verdict::Pending;
        let untouched = group.counters.resolved() == 0;
        assert!(untouched || undecided, "the group of {name} fired in time");
    }
}
