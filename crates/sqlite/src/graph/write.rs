//! Writing what a fold decided about flows: first what decisions read under a lock, as [`WriteSet`]
//! orders it, and after the executions what is owed.
//!
//! [`WriteSet`]: ff_core::WriteSet

use ff_core::backend::StoreError;
use ff_core::flow::Flow;
use ff_core::fold::{GraphWrites, Write};
use ff_core::ids::{ExecutionId, FlowId};
use ff_core::row::{EdgeRow, FlowRow, GroupRow};
use rusqlite::Transaction;

use super::rows::{edge_params, flow_params, group_params};
use super::{flow_key, member_key};
use crate::codec::key;
use crate::connection::store_error;
use crate::statements::{backlog, cancel, dispatch, edge, event, flow, group};
use crate::write::run;

/// Flows and groups.
pub fn write_parents(tx: &Transaction<'_>, set: &GraphWrites) -> Result<(), StoreError> {
    set.removed.iter().try_for_each(|flow| remove(tx, *flow))?;
    set.flows.iter().try_for_each(|write| put_flow(tx, write))?;
    let groups = set.groups.iter().filter_map(|write| write.after.as_ref());
    for row in groups.map(GroupRow::from) {
        run(tx, group::put, &group_params(&row)[..])?;
    }
    Ok(())
}

/// Edges, and what the engine still has to do.
pub fn write_rest(tx: &Transaction<'_>, set: &GraphWrites) -> Result<(), StoreError> {
    let edges = set.edges.iter().filter_map(|write| write.after.as_ref());
    for row in edges.map(EdgeRow::from) {
        run(tx, edge::put, &edge_params(&row)[..])?;
    }
    for row in &set.dispatch.remove {
        run(tx, dispatch::remove, key(row.execution))?;
    }
    for row in &set.dispatch.insert {
        let (partition, uuid) = key(row.execution);
        run(tx, dispatch::insert, (partition, uuid, row.flow.0.as_bytes(), row.at.0))?;
    }
    for row in &set.cancels.remove {
        run(tx, cancel::remove, member_key(row.flow, row.downstream))?;
    }
    for row in &set.cancels.insert {
        let (partition, flow, downstream) = member_key(row.flow, row.downstream);
        run(tx, cancel::insert, (partition, flow, downstream, row.enqueued_at.0))?;
    }
    for (flow, row) in &set.backlogs {
        let (partition, uuid) = flow_key(*flow);
        match row {
            Some(row) => run(tx, backlog::put, (partition, uuid, row.requested_at.0))?,
            None => run(tx, backlog::remove, (partition, uuid))?,
        }
    }
    let owed = |sql, rows: &[(FlowId, ExecutionId)]| {
        rows.iter().try_for_each(|(flow, id)| run(tx, sql, member_key(*flow, *id)))
    };
    owed(backlog::pay, &set.owed.remove)?;
    owed(backlog::owe, &set.owed.insert)
}

/// A flow goes with everything that is not a member: those went before it.
fn remove(tx: &Transaction<'_>, id: FlowId) -> Result<(), StoreError> {
    let tables = [flow::remove, edge::remove, group::remove, cancel::clear, backlog::remove];
    for sql in tables.into_iter().chain([backlog::clear]) {
        run(tx, sql, flow_key(id))?;
    }
    let (partition, uuid) = flow_key(id);
    run(tx, event::remove, (partition, uuid, true))
}

fn put_flow(tx: &Transaction<'_>, write: &Write<Flow>) -> Result<(), StoreError> {
    let Some(after) = &write.after else { return Ok(()) };
    let row = FlowRow::from(after);
    let version = write.before.as_ref().map_or(0, |flow| flow.version);
    let version = i64::try_from(version).unwrap_or(i64::MAX);
    let mut statement = tx.prepare_cached(flow::put).map_err(store_error)?;
    let written = statement.execute(&flow_params(&row, &version)[..]).map_err(store_error)?;
    if written == 1 {
        return Ok(());
    }
    // The row was read in this transaction, which nobody can write into.
    let cause = format!("flow {} changed while it was being decided on", after.id);
    Err(StoreError::Transport { cause })
}
