//! Checks that the rows of flows agree with each other.

use std::collections::BTreeMap;

use ff_core::execution::State;
use ff_core::flow::{Counters, Edge, EdgeState, Ended, Flow, Group, GroupState, Verdict};
use ff_core::fold::GroupKey;
use ff_core::state::TerminalOutcome;
use ff_core::{Execution, FlowId};

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
    }
    let mut edges: BTreeMap<GroupKey, Vec<&Edge>> = BTreeMap::new();
    for edge in tables.edges.values() {
        edges.entry((edge.flow, edge.downstream)).or_default().push(edge);
    }
    for (key, group) in &tables.groups {
        check_group(tables, group, edges.get(key).map_or(&[], Vec::as_slice));
    }
    for edge in tables.edges.values() {
        assert!(tables.flows.contains_key(&edge.flow), "edge {} has a flow", edge.id);
        let key = (edge.flow, edge.downstream);
        assert!(tables.groups.contains_key(&key), "edge {} has a group", edge.id);
    }
    for row in tables.dispatch.values() {
        let x = tables.executions.get(&row.execution);
        let ended = x.is_some_and(|x| matches!(x.state, State::Terminal(_)));
        assert!(ended, "{} has ended and is to be dispatched", row.execution);
        assert_eq!(x.and_then(|x| x.flow()), Some(row.flow), "{}", row.execution);
    }
    for (flow, id) in &tables.owed {
        assert!(tables.backlogs.contains_key(flow), "flow {flow} owes {id}");
    }
    for x in tables.executions.values() {
        let gated = matches!(&x.state, State::Runnable(runnable) if runnable.gated);
        let closed = |flow| tables.flows.get(&flow).is_some_and(Flow::is_closed);
        if let (true, Some(flow)) = (gated, x.flow()) {
            let group = tables.groups.get(&(flow, x.id));
            let pending = group.is_some_and(|group| group.state == GroupState::Pending);
            assert!(pending || closed(flow), "{} waits for a group that fired", x.id);
        }
    }
}

/// What a flow counts is what its members are: counted once, by dispatch or by its cancellation.
fn check_counts(tables: &Tables, flow: &Flow, members: &[&Execution]) {
    let trimming = members.len() < usize::try_from(flow.nodes).expect("a small count");
    assert!(members.len() <= usize::try_from(flow.nodes).expect("a small count"), "{}", flow.id);
    if trimming {
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
        let verdict = group.policy.judge(group.counters);
        assert!(total == 0 || verdict == Verdict::Pending, "the group of {name} fired in time");
    }
}
