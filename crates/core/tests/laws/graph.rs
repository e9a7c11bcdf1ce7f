//! What a backend would hold of flows: tables that change only by write sets, and what must be true
//! of them whatever the history.

use std::collections::{BTreeMap, BTreeSet};

use ff_core::execution::State;
use ff_core::flow::{
    Backlog, Dispatch, Edge, EdgeState, Ended, Flow, Group, GroupState, PendingCancel, Verdict,
};
use ff_core::fold::{GraphWrites, GroupKey, Write};
use ff_core::{EdgeId, Execution, ExecutionId, FlowId};

use crate::laws::{Law, law};
use crate::store::{present, put, same};
use crate::world::World;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Graph {
    flows: BTreeMap<FlowId, Flow>,
    groups: BTreeMap<GroupKey, Group>,
    edges: BTreeMap<(FlowId, EdgeId), Edge>,
    dispatch: BTreeMap<ExecutionId, Dispatch>,
    cancels: BTreeMap<GroupKey, PendingCancel>,
    backlogs: BTreeMap<FlowId, Backlog>,
}

impl Graph {
    /// Writes a set: what goes with a flow first.
    pub fn write(&mut self, set: &GraphWrites) -> Law {
        for flow in &set.removed {
            self.flows.remove(flow);
            self.groups.retain(|(of, _), _| of != flow);
            self.edges.retain(|(of, _), _| of != flow);
            self.cancels.retain(|(of, _), _| of != flow);
            self.backlogs.remove(flow);
        }
        guarded(&mut self.flows, &set.flows, |flow| flow.id)?;
        guarded(&mut self.groups, &set.groups, |group| (group.flow, group.downstream))?;
        guarded(&mut self.edges, &set.edges, |edge| (edge.flow, edge.id))?;
        for row in &set.dispatch.remove {
            self.dispatch.remove(&row.execution);
        }
        for row in &set.dispatch.insert {
            let fresh = self.dispatch.insert(row.execution, *row).is_none();
            law(fresh, || format!("an end is dispatched once: {row:?}"))?;
        }
        for row in &set.cancels.remove {
            self.cancels.remove(&(row.flow, row.downstream));
        }
        let cancels = set.cancels.insert.iter();
        self.cancels.extend(cancels.map(|row| ((row.flow, row.downstream), *row)));
        for (flow, row) in &set.backlogs {
            put(&mut self.backlogs, *flow, *row);
        }
        Ok(())
    }

    /// The tables hold the rows of `world`, and these agree with each other.
    pub fn agrees_with(&self, world: &World) -> Law {
        let rows = &world.rows.graph;
        same("flows", &self.flows, &present(&rows.flows))?;
        same("groups", &self.groups, &present(&rows.groups))?;
        same("edges", &self.edges, &present(&rows.edges))?;
        same("dispatch", &self.dispatch, &present(&rows.dispatch))?;
        same("cancels", &self.cancels, &present(&rows.cancels))?;
        same("backlogs", &self.backlogs, &present(&rows.backlogs))?;
        let executions = present(&world.rows.executions);
        self.flows.values().try_for_each(|flow| self.counts_its_members(flow, &executions))?;
        self.groups.values().try_for_each(|group| self.counts_its_edges(group))?;
        for id in self.dispatch.keys() {
            let x = executions.get(id);
            let ended = x.is_some_and(|x| matches!(x.state, State::Terminal(_)));
            law(ended, || format!("{id} is dispatched and has not ended: {x:#?}"))?;
        }
        executions.values().try_for_each(|x| self.gates(x))?;
        self.has_no_circle()
    }

    /// Every end is counted once: by its dispatch, or by the cancellation of the flow.
    fn counts_its_members(
        &self,
        flow: &Flow,
        executions: &BTreeMap<ExecutionId, Execution>,
    ) -> Law {
        let members = executions.values().filter(|x| x.flow() == Some(flow.id));
        let (mut nodes, mut ended) = (0, Ended::default());
        for x in members {
            nodes += 1;
            if let State::Terminal(terminal) = &x.state
                && !self.dispatch.contains_key(&x.id)
            {
                *ended.counter(&terminal.ending) += 1;
            }
        }
        let counted = flow.nodes == nodes && flow.ended == ended;
        law(counted, || format!("{nodes} members, {ended:?}, but {flow:#?}"))?;
        let done = flow.sealed && ended.total() == nodes;
        law(!done || flow.is_terminal(), || format!("it is over: {flow:#?}"))
    }

    /// A group counts the edges of its round, and has fired exactly when they decide it.
    fn counts_its_edges(&self, group: &Group) -> Law {
        let own = |edge: &&Edge| {
            (edge.flow, edge.downstream, edge.round) == (group.flow, group.downstream, group.round)
        };
        let (mut staged, mut applied, mut satisfied, mut lost) = (0, 0, 0, 0);
        for edge in self.edges.values().filter(own) {
            staged += 1;
            applied += u32::from(edge.state != EdgeState::Staged);
            satisfied += u32::from(matches!(edge.state, EdgeState::Satisfied { .. }));
            lost += u32::from(matches!(edge.state, EdgeState::Impossible { .. }));
        }
        let counters = group.counters;
        let counted = (group.staged, counters.total) == (staged, applied)
            && (counters.satisfied, counters.failed + counters.skipped) == (satisfied, lost);
        law(counted, || format!("{staged}, {applied}, {satisfied}, {lost}, but {group:#?}"))?;
        let decided = group.policy.judge(counters) != Verdict::Pending && counters.resolved() > 0;
        let fired = group.state != GroupState::Pending;
        law(fired || !decided, || format!("it is decided: {group:#?}"))
    }

    /// Nothing waits for a group that has fired, or for none.
    fn gates(&self, x: &Execution) -> Law {
        let gated = matches!(&x.state, State::Runnable(runnable) if runnable.gated);
        if !gated {
            return Ok(());
        }
        let group = x.flow().and_then(|flow| self.groups.get(&(flow, x.id)));
        let waits = group.is_some_and(|group| {
            group.state == GroupState::Pending && group.counters.running() > 0
        });
        law(waits, || format!("{group:#?} holds back {x:#?}"))
    }

    fn has_no_circle(&self) -> Law {
        let mut left: BTreeSet<_> =
            self.edges.values().map(|edge| (edge.upstream, edge.downstream)).collect();
        loop {
            let blocked: BTreeSet<_> = left.iter().map(|(_, to)| *to).collect();
            let before = left.len();
            left.retain(|(from, _)| blocked.contains(from));
            if left.len() == before {
                return law(left.is_empty(), || format!("a circle: {left:?}"));
            }
        }
    }
}

/// Every write starts from what is stored.
fn guarded<K: Ord + Copy, V: Clone + PartialEq + std::fmt::Debug>(
    table: &mut BTreeMap<K, V>,
    writes: &[Write<V>],
    key: fn(&V) -> K,
) -> Law {
    for write in writes {
        let Some(row) = write.before.iter().chain(&write.after).next() else { continue };
        let at = key(row);
        let same = table.get(&at) == write.before.as_ref();
        law(same, || format!("a write starts from what is stored: {write:#?}"))?;
        put(table, at, write.after.clone());
    }
    Ok(())
}
