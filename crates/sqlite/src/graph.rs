//! Flows: loading, writing and finding the rows that hold executions together.
//!
//! A flow's partition leads every key of what belongs to it, so that all of it stands together.
//! With one writer at a time nobody ever finds a group taken.

pub mod due;
pub mod list;
mod rows;
pub mod write;

use ff_core::backend::StoreError;
use ff_core::flow::{Backlog, Dispatch, PendingCancel, Reach};
use ff_core::fold::{GraphSet, Key};
use ff_core::ids::{ExecutionId, FlowId};
use ff_core::limits::{CANCEL_CHUNK_MAX, CYCLE_NODES_MAX, REPLAY_AT_ONCE_MAX, TRIM_CHUNK_MAX};
use ff_core::row::parse;
use ff_core::state::Phase;
use ff_core::time::Millis;
use rusqlite::{Row, Transaction};
use uuid::Uuid;

use crate::codec::{self, Reader, bound};
use crate::load::{all, one};
use crate::statements::{backlog, cancel, dispatch, edge, flow, group};
use rows::{read_edge, read_flow, read_group};

/// The two columns of a flow's id, as parameters.
pub fn flow_key(flow: FlowId) -> (i64, [u8; 16]) {
    (i64::from(flow.partition().index()), flow.0.into_bytes())
}

/// The same, with the id of a member.
fn member_key(flow: FlowId, id: ExecutionId) -> (i64, [u8; 16], [u8; 16]) {
    let (partition, uuid) = flow_key(flow);
    (partition, uuid, id.uuid().into_bytes())
}

/// Adds the rows of a flow that `key` names to `have`.
pub fn load(tx: &Transaction<'_>, key: &Key, have: &mut GraphSet) -> Result<(), StoreError> {
    match key {
        Key::Flow(id) | Key::FreeFlow(id) => {
            have.flows.insert(*id, one(tx, flow::load, flow_key(*id), read_flow)?);
        }
        Key::Group(flow, id) | Key::FreeGroup(flow, id) => {
            let row = one(tx, group::load, member_key(*flow, *id), read_group)?;
            have.groups.insert((*flow, *id), row);
        }
        Key::Groups(flow) => {
            have.load_groups(*flow, all(tx, group::of_flow, flow_key(*flow), read_group)?);
        }
        Key::Edge(flow, id) => {
            let (partition, uuid) = flow_key(*flow);
            let row = one(tx, edge::load, (partition, uuid, id.0.as_bytes()), read_edge)?;
            have.edges.insert((*flow, *id), row);
        }
        Key::Pair(flow, from, to) => {
            let (partition, uuid, from_uuid) = member_key(*flow, *from);
            let params = (partition, uuid, from_uuid, to.uuid().into_bytes());
            let row = one(tx, edge::pair, params, read_edge)?;
            have.pairs.insert((*flow, *from, *to), row.as_ref().map(|edge| edge.id));
            have.edges.extend(row.map(|edge| ((*flow, edge.id), Some(edge))));
        }
        Key::Outgoing(flow, id) => {
            let edges = all(tx, edge::outgoing, member_key(*flow, *id), read_edge)?;
            have.load_outgoing((*flow, *id), edges);
        }
        Key::Incoming(flow, id) => {
            let edges = all(tx, edge::incoming, member_key(*flow, *id), read_edge)?;
            have.load_incoming((*flow, *id), edges);
        }
        Key::Reach(flow, id) => {
            have.reach.insert((*flow, *id), reach(tx, *flow, *id)?);
        }
        Key::Behind(flow, id) => {
            let (partition, uuid, from) = member_key(*flow, *id);
            let params = (partition, uuid, from, bound(REPLAY_AT_ONCE_MAX));
            let behind = all(tx, edge::behind, params, |row| Reader::new(row).id())?;
            have.behind.insert((*flow, *id), behind);
        }
        Key::Members(flow) => {
            have.members.insert(*flow, all(tx, flow::members, flow_key(*flow), read_member)?);
        }
        Key::First(flow) => {
            have.first.insert(*flow, first(tx, flow::first, *flow, TRIM_CHUNK_MAX)?);
        }
        Key::Dispatch(_) | Key::Cancel(..) | Key::Backlog(_) | Key::Owed(_) => {
            load_owed(tx, key, have)?;
        }
        Key::Execution(_)
        | Key::Idempotency(..)
        | Key::Consumer(_)
        | Key::Step(..)
        | Key::Stepped(..)
        | Key::Input(_)
        | Key::Unseen(_)
        | Key::UnseenFlow(_)
        | Key::Wait(_) => unreachable!("no row of a flow: {key:?}"),
    }
    Ok(())
}

/// The rows that say what the engine still has to do for a flow.
fn load_owed(tx: &Transaction<'_>, key: &Key, have: &mut GraphSet) -> Result<(), StoreError> {
    match key {
        Key::Dispatch(id) => {
            let row = one(tx, dispatch::load, codec::key(*id), |row| {
                let mut r = Reader::new(row);
                let flow = read_flow_id(&mut r)?;
                Ok(Dispatch { at: Millis(r.take("at_ms")?), flow, execution: *id })
            })?;
            have.dispatch.insert(*id, row);
        }
        Key::Cancel(flow, downstream) => {
            let (flow, downstream) = (*flow, *downstream);
            let row = one(tx, cancel::load, member_key(flow, downstream), |row| {
                let enqueued_at = Millis(Reader::new(row).take("enqueued_at_ms")?);
                Ok(PendingCancel { enqueued_at, flow, downstream })
            })?;
            have.cancels.insert((flow, downstream), row);
        }
        Key::Backlog(flow) => {
            let row = one(tx, backlog::load, flow_key(*flow), |row| {
                let requested_at = Millis(Reader::new(row).take("requested_at_ms")?);
                Ok(Backlog { flow: *flow, requested_at })
            })?;
            have.backlogs.insert(*flow, row);
        }
        Key::Owed(flow) => {
            have.owed.insert(*flow, first(tx, backlog::members, *flow, CANCEL_CHUNK_MAX + 1)?);
        }
        Key::Flow(_)
        | Key::FreeFlow(_)
        | Key::Input(_)
        | Key::Group(..)
        | Key::FreeGroup(..)
        | Key::Groups(_)
        | Key::Edge(..)
        | Key::Pair(..)
        | Key::Outgoing(..)
        | Key::Incoming(..)
        | Key::Reach(..)
        | Key::Behind(..)
        | Key::Members(_)
        | Key::First(_)
        | Key::Execution(_)
        | Key::Idempotency(..)
        | Key::Consumer(_)
        | Key::Step(..)
        | Key::Stepped(..)
        | Key::Unseen(_)
        | Key::UnseenFlow(_)
        | Key::Wait(_) => unreachable!("nothing that is owed: {key:?}"),
    }
    Ok(())
}

/// The first members of a flow that a statement finds.
fn first(
    tx: &Transaction<'_>,
    sql: &str,
    flow: FlowId,
    max: usize,
) -> Result<Vec<ExecutionId>, StoreError> {
    let (partition, uuid) = flow_key(flow);
    all(tx, sql, (partition, uuid, bound(max)), |row| Reader::new(row).id())
}

fn reach(tx: &Transaction<'_>, flow: FlowId, from: ExecutionId) -> Result<Reach, StoreError> {
    let (partition, uuid, from) = member_key(flow, from);
    // One more than is looked at tells whether there are too many.
    let params = (partition, uuid, from, bound(CYCLE_NODES_MAX + 1));
    let reached = all(tx, edge::reach, params, |row| Reader::new(row).id())?;
    if reached.len() > CYCLE_NODES_MAX {
        return Ok(Reach::TooMany);
    }
    Ok(Reach::All(reached.into_iter().collect()))
}

fn read_member(row: &Row<'_>) -> Result<(ExecutionId, Phase), StoreError> {
    let mut r = Reader::new(row);
    Ok((r.id()?, parse("phase", r.text("phase")?)?))
}

fn read_flow_id(r: &mut Reader<'_, '_>) -> Result<FlowId, StoreError> {
    Ok(FlowId(Uuid::from_bytes(r.take("flow_id")?)))
}

/// The next column, a member of `flow`.
fn read_member_of(
    r: &mut Reader<'_, '_>,
    column: &str,
    flow: FlowId,
) -> Result<ExecutionId, StoreError> {
    Ok(ExecutionId::for_flow(flow, Uuid::from_bytes(r.take(column)?)))
}
