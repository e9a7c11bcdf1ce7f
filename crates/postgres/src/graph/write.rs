//! Writing what a fold decided about flows: one statement for each kind of row, whatever their
//! number.

use std::collections::BTreeSet;

use ff_core::flow::Flow;
use ff_core::fold::{Delta, GraphWrites, GroupKey, Write, WriteSet};
use ff_core::ids::{ExecutionId, FlowId};
use ff_core::row::{EdgeRow, FlowRow, GroupRow};
use ff_core::text::NodeName;
use tokio_postgres::types::Type;

use super::rows::{edges, flows, groups};
use crate::codec::Params;
use crate::connection::Step;
use crate::statements::{backlog, cancel, dispatch, edge, event, execution, flow, group};

/// The rows of flows in a write set, flattened, for the statements to borrow.
pub struct GraphRows<'s> {
    set: &'s GraphWrites,
    inserted: Vec<(FlowRow, Option<i64>)>,
    updated: Vec<(FlowRow, Option<i64>)>,
    groups: Vec<GroupRow>,
    edges: Vec<EdgeRow>,
    /// Executions that join a flow, and what they are called there.
    enlisted: Vec<(ExecutionId, FlowId, Option<&'s NodeName>)>,
}

impl<'s> GraphRows<'s> {
    /// Flattens what `set` says of flows.
    pub fn new(set: &'s WriteSet) -> Self {
        let graph = &set.graph;
        let (mut inserted, mut updated) = (Vec::new(), Vec::new());
        for Write { before, after } in &graph.flows {
            let Some(after) = after else { continue }; // removed: that is the first thing written
            let before = before.as_ref().filter(|before| !graph.removed.contains(&before.id));
            let row = FlowRow::from(after);
            match before {
                None => inserted.push((row, None)),
                Some(before) => updated.push((row, Some(version(before)))),
            }
        }
        // Of a flow that goes, and does not come back, nothing is left.
        let back: BTreeSet<FlowId> =
            graph.flows.iter().filter_map(|write| Some(write.after.as_ref()?.id)).collect();
        let stays = |flow: FlowId| !graph.removed.contains(&flow) || back.contains(&flow);
        let groups = graph.groups.iter().filter_map(|write| write.after.as_ref());
        let edges = graph.edges.iter().filter_map(|write| write.after.as_ref());
        let enlisted = set.executions.iter().filter_map(|write| {
            let (before, after) = (write.before.as_ref()?, write.after.as_ref()?);
            let member = after.member.as_ref().filter(|_| before.member != after.member)?;
            Some((after.id, member.flow, member.node.as_ref()))
        });
        Self {
            set: graph,
            inserted,
            updated,
            groups: groups.filter(|group| stays(group.flow)).map(GroupRow::from).collect(),
            edges: edges.filter(|edge| stays(edge.flow)).map(EdgeRow::from).collect(),
            enlisted: enlisted.collect(),
        }
    }

    /// Removes flows, with everything that belongs to them but their members.
    pub fn removals<'a>(&'a self, steps: &mut Vec<Step<'a>>) {
        let gone = &self.set.removed;
        if gone.is_empty() {
            return;
        }
        let all = [
            flow::remove,
            group::remove,
            edge::remove,
            cancel::clear,
            backlog::remove,
            backlog::clear,
        ];
        for sql in all {
            steps.push(Step::Run(sql, Params::new().flows(gone.iter().copied())));
        }
        let subjects = gone.iter().map(|flow| ExecutionId::for_flow(*flow, flow.0));
        let params = Params::new().ids(subjects).one(true, Type::BOOL);
        steps.push(Step::Run(event::remove, params));
    }

    /// Flows and groups, which come before executions.
    pub fn parents<'a>(&'a self, steps: &mut Vec<Step<'a>>) {
        if !self.inserted.is_empty() {
            let params = Params::new().rows("ff_flow_row", flows(&self.inserted));
            steps.push(Step::Run(flow::insert, params));
        }
        if !self.updated.is_empty() {
            let params = Params::new().rows("ff_flow_row", flows(&self.updated));
            steps.push(Step::Run(flow::put, params.count(self.updated.len())));
        }
        if !self.groups.is_empty() {
            let params = Params::new().rows("ff_group_row", groups(&self.groups));
            steps.push(Step::Run(group::put, params));
        }
    }

    /// Executions that join a flow, once they are written.
    pub fn enlist<'a>(&'a self, steps: &mut Vec<Step<'a>>) {
        if self.enlisted.is_empty() {
            return;
        }
        let rows = self.enlisted.iter();
        let node = |node: Option<&'a NodeName>| node.map(NodeName::as_str);
        let params = Params::new()
            .ids(rows.clone().map(|(id, ..)| *id))
            .all(rows.clone().map(|(_, flow, _)| flow.0), Type::UUID_ARRAY)
            .all(rows.map(|(.., called)| node(*called)), Type::TEXT_ARRAY);
        steps.push(Step::Run(execution::enlist, params));
    }

    /// What else belongs to flows.
    pub fn rest<'a>(&'a self, steps: &mut Vec<Step<'a>>) {
        if !self.edges.is_empty() {
            let params = Params::new().rows("ff_edge_row", edges(&self.edges));
            steps.push(Step::Run(edge::put, params));
        }
        self.dispatch(steps);
        self.cancels(steps);
        self.backlogs(steps);
    }

    fn dispatch<'a>(&'a self, steps: &mut Vec<Step<'a>>) {
        let Delta { remove, insert } = &self.set.dispatch;
        if !remove.is_empty() {
            let params = Params::new().ids(remove.iter().map(|row| row.execution));
            steps.push(Step::Run(dispatch::remove, params));
        }
        if !insert.is_empty() {
            let params = Params::new()
                .ids(insert.iter().map(|row| row.execution))
                .all(insert.iter().map(|row| row.flow.0), Type::UUID_ARRAY)
                .all(insert.iter().map(|row| row.at.0), Type::INT8_ARRAY);
            steps.push(Step::Run(dispatch::insert, params));
        }
    }

    fn cancels<'a>(&'a self, steps: &mut Vec<Step<'a>>) {
        let Delta { remove, insert } = &self.set.cancels;
        if !remove.is_empty() {
            let keys = remove.iter().map(|row| (row.flow, row.downstream.uuid()));
            steps.push(Step::Run(cancel::remove, Params::new().in_flows(keys)));
        }
        if !insert.is_empty() {
            let params = Params::new()
                .in_flows(insert.iter().map(|row| (row.flow, row.downstream.uuid())))
                .all(insert.iter().map(|row| row.enqueued_at.0), Type::INT8_ARRAY);
            steps.push(Step::Run(cancel::insert, params));
        }
    }

    fn backlogs<'a>(&'a self, steps: &mut Vec<Step<'a>>) {
        let rows = self.set.backlogs.iter();
        let put: Vec<_> = rows.clone().filter_map(|(_, row)| row.as_ref()).collect();
        if !put.is_empty() {
            let params = Params::new()
                .flows(put.iter().map(|row| row.flow))
                .all(put.iter().map(|row| row.requested_at.0), Type::INT8_ARRAY);
            steps.push(Step::Run(backlog::put, params));
        }
        let gone: Vec<_> = rows.filter(|(_, row)| row.is_none()).map(|(flow, _)| *flow).collect();
        if !gone.is_empty() {
            let params = Params::new().flows(gone.iter().copied());
            steps.push(Step::Run(backlog::remove, params));
        }
        let Delta { remove, insert } = &self.set.owed;
        for (sql, rows) in [(backlog::pay, remove), (backlog::owe, insert)] {
            if !rows.is_empty() {
                let rows = rows.iter().map(|(flow, id)| (*flow, id.uuid()));
                steps.push(Step::Run(sql, Params::new().in_flows(rows)));
            }
        }
    }
}

fn version(flow: &Flow) -> i64 {
    i64::try_from(flow.version).unwrap_or(i64::MAX)
}

/// Groups that are changed though nobody locked them: they were read with all those of their flow.
pub fn unlocked(set: &GraphWrites, locked: &BTreeSet<GroupKey>) -> Vec<GroupKey> {
    let changed = set.groups.iter().filter_map(|write| write.before.as_ref());
    let keys = changed.map(|group| (group.flow, group.downstream));
    keys.filter(|key| !locked.contains(key)).collect()
}
