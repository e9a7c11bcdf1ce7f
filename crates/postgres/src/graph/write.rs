//! Writing what a fold decided about flows: one statement for each kind of row, whatever their
//! number.

use std::collections::BTreeSet;

use ff_core::flow::PendingCancel;
use ff_core::fold::{Delta, GraphWrites, GroupKey, Write, WriteSet};
use ff_core::ids::{ExecutionId, FlowId};
use ff_core::row::{EdgeRow, FlowRow, GroupRow};
use ff_core::text::NodeName;
use tokio_postgres::types::Type;

use super::rows::{edges, flows, groups};
use crate::codec::{Params, stored};
use crate::connection::{Step, run_for};
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
                Some(before) => updated.push((row, Some(stored(before.version)))),
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
        run_for(steps, flow::insert, &self.inserted, |rows| Params::new().rows(flows(rows)));
        run_for(steps, flow::put, &self.updated, |rows| {
            Params::new().rows(flows(rows)).count(rows.len())
        });
        run_for(steps, group::put, &self.groups, |rows| Params::new().rows(groups(rows)));
    }

    /// Executions that join a flow, once they are written.
    pub fn enlist<'a>(&'a self, steps: &mut Vec<Step<'a>>) {
        let node = |node: Option<&'a NodeName>| node.map(NodeName::as_str);
        run_for(steps, execution::enlist, &self.enlisted, |rows| {
            Params::new()
                .ids(rows.iter().map(|(id, ..)| *id))
                .all(rows.iter().map(|(_, flow, _)| flow.0), Type::UUID_ARRAY)
                .all(rows.iter().map(|(.., called)| node(*called)), Type::TEXT_ARRAY)
        });
    }

    /// What else belongs to flows.
    pub fn rest<'a>(&'a self, steps: &mut Vec<Step<'a>>) {
        run_for(steps, edge::put, &self.edges, |rows| Params::new().rows(edges(rows)));
        self.dispatch(steps);
        self.cancels(steps);
        self.backlogs(steps);
    }

    fn dispatch<'a>(&'a self, steps: &mut Vec<Step<'a>>) {
        let Delta { remove, insert } = &self.set.dispatch;
        run_for(steps, dispatch::remove, remove, |rows| {
            Params::new().ids(rows.iter().map(|row| row.execution))
        });
        run_for(steps, dispatch::insert, insert, |rows| {
            Params::new()
                .ids(rows.iter().map(|row| row.execution))
                .all(rows.iter().map(|row| row.flow.0), Type::UUID_ARRAY)
                .all(rows.iter().map(|row| row.at.0), Type::INT8_ARRAY)
        });
    }

    fn cancels<'a>(&'a self, steps: &mut Vec<Step<'a>>) {
        let Delta { remove, insert } = &self.set.cancels;
        let keys = |rows: &[PendingCancel]| {
            Params::new().in_flows(rows.iter().map(|row| (row.flow, row.downstream.uuid())))
        };
        run_for(steps, cancel::remove, remove, |rows| keys(rows));
        run_for(steps, cancel::insert, insert, |rows| {
            keys(rows).all(rows.iter().map(|row| row.enqueued_at.0), Type::INT8_ARRAY)
        });
    }

    fn backlogs<'a>(&'a self, steps: &mut Vec<Step<'a>>) {
        let rows = self.set.backlogs.iter();
        let put: Vec<_> = rows.clone().filter_map(|(_, row)| row.as_ref()).collect();
        run_for(steps, backlog::put, &put, |put| {
            let params = Params::new().flows(put.iter().map(|row| row.flow));
            params.all(put.iter().map(|row| row.requested_at.0), Type::INT8_ARRAY)
        });
        let gone: Vec<_> = rows.filter(|(_, row)| row.is_none()).map(|(flow, _)| *flow).collect();
        run_for(steps, backlog::remove, &gone, |gone| Params::new().flows(gone.iter().copied()));
        let Delta { remove, insert } = &self.set.owed;
        for (sql, rows) in [(backlog::pay, remove), (backlog::owe, insert)] {
            run_for(steps, sql, rows, |rows| {
                Params::new().in_flows(rows.iter().map(|(flow, id)| (*flow, id.uuid())))
            });
        }
    }
}

/// Groups that are changed though nobody locked them: they were read with all those of their flow.
pub fn unlocked(set: &GraphWrites, locked: &BTreeSet<GroupKey>) -> Vec<GroupKey> {
    let changed = set.groups.iter().filter_map(|write| write.before.as_ref());
    let keys = changed.map(|group| (group.flow, group.downstream));
    keys.filter(|key| !locked.contains(key)).collect()
}
