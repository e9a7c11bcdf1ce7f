//! The tables of flows.

use ff_conformance::model::Tables;
use ff_core::flow::{Backlog, Dispatch, Edge, Flow, Group, PendingCancel};
use ff_core::row::{EdgeRow, FlowRow, GroupRow};
use ff_core::time::Millis;
use ff_core::{ExecutionId, FlowId, Partition};
use rusqlite::{Connection, Row};
use uuid::Uuid;

use super::{get, id, rows};

/// Everything of flows.
pub fn read(db: &Connection, tables: &mut Tables) {
    for flow in rows(db, "select * from ff_flow_core", read_flow) {
        tables.flows.insert(flow.id, flow);
    }
    for group in rows(db, "select * from ff_edge_group", read_group) {
        tables.groups.insert((group.flow, group.downstream), group);
    }
    for edge in rows(db, "select * from ff_edge", read_edge) {
        tables.edges.insert((edge.flow, edge.id), edge);
    }
    for row in rows(db, "select * from ff_dispatch", read_dispatch) {
        tables.dispatch.insert(row.execution, row);
    }
    for row in rows(db, "select * from ff_pending_cancel_groups", read_cancel) {
        tables.cancels.insert((row.flow, row.downstream), row);
    }
    for row in rows(db, "select * from ff_cancel_backlog", read_backlog) {
        tables.backlogs.insert(row.flow, row);
    }
    let owed = rows(db, "select * from ff_cancel_backlog_member", |r| (flow_id(r), id(r)));
    tables.owed = owed.into_iter().collect();
}

/// The flow, which stands in its own partition.
fn flow_id(r: &Row<'_>) -> FlowId {
    let flow = FlowId(Uuid::from_bytes(get(r, "flow_id")));
    assert_eq!(Partition::new(get(r, "partition_key")), Some(flow.partition()));
    flow
}

fn downstream(r: &Row<'_>) -> ExecutionId {
    ExecutionId::for_flow(flow_id(r), Uuid::from_bytes(get(r, "downstream_id")))
}

fn read_flow(r: &Row<'_>) -> Flow {
    let row = FlowRow {
        partition_key: get(r, "partition_key"),
        flow_id: get(r, "flow_id"),
        version: get(r, "version"),
        namespace: get(r, "namespace"),
        kind: get(r, "kind"),
        creator: get(r, "creator"),
        idempotency_key: get(r, "idempotency_key"),
        fingerprint: get(r, "fingerprint"),
        created_at_ms: get(r, "created_at_ms"),
        graph_revision: get(r, "graph_revision"),
        node_count: get(r, "node_count"),
        edge_count: get(r, "edge_count"),
        ended_well: get(r, "ended_well"),
        ended_badly: get(r, "ended_badly"),
        sealed: get(r, "sealed"),
        tags: get(r, "tags"),
        updated_at_ms: get(r, "updated_at_ms"),
        retain_until_ms: get(r, "retain_until_ms"),
        state: get(r, "state"),
        terminal_at_ms: get(r, "terminal_at_ms"),
        cancellation_policy: get(r, "cancellation_policy"),
        cancel_reason: get(r, "cancel_reason"),
        trim_at_ms: get(r, "trim_at_ms"),
    };
    let flow = row.read().unwrap();
    assert_eq!(FlowRow::from(&flow), row, "what follows from a flow is stored with it");
    flow
}

fn read_edge(r: &Row<'_>) -> Edge {
    let row = EdgeRow {
        partition_key: get(r, "partition_key"),
        flow_id: get(r, "flow_id"),
        edge_id: get(r, "edge_id"),
        upstream_id: get(r, "upstream_id"),
        downstream_id: get(r, "downstream_id"),
        kind: get(r, "kind"),
        name: get(r, "name"),
        data_passing_ref: get(r, "data_passing_ref"),
        round: get(r, "round"),
        created_at_ms: get(r, "created_at_ms"),
        state: get(r, "state"),
        applied_at_ms: get(r, "applied_at_ms"),
        resolved_at_ms: get(r, "resolved_at_ms"),
    };
    let edge = row.read().unwrap();
    assert_eq!(EdgeRow::from(&edge), row, "an edge stands in the partition of its flow");
    edge
}

fn read_group(r: &Row<'_>) -> Group {
    let row = GroupRow {
        partition_key: get(r, "partition_key"),
        flow_id: get(r, "flow_id"),
        downstream_id: get(r, "downstream_id"),
        policy: get(r, "policy"),
        round: get(r, "round"),
        staged: get(r, "staged"),
        total: get(r, "total"),
        satisfied: get(r, "satisfied"),
        failed: get(r, "failed"),
        skipped: get(r, "skipped"),
        k_target: get(r, "k_target"),
        state: get(r, "state"),
        fired_at_ms: get(r, "fired_at_ms"),
        cancel_siblings_pending: get(r, "cancel_siblings_pending"),
        cancel_siblings_reason: get(r, "cancel_siblings_reason"),
        cancel_siblings_round: get(r, "cancel_siblings_round"),
    };
    let group = row.read().unwrap();
    assert_eq!(GroupRow::from(&group), row, "what follows from a group is stored with it");
    group
}

fn read_dispatch(r: &Row<'_>) -> Dispatch {
    Dispatch { at: Millis(get(r, "at_ms")), flow: flow_id(r), execution: id(r) }
}

fn read_cancel(r: &Row<'_>) -> PendingCancel {
    let enqueued_at = Millis(get(r, "enqueued_at_ms"));
    PendingCancel { enqueued_at, flow: flow_id(r), downstream: downstream(r) }
}

fn read_backlog(r: &Row<'_>) -> Backlog {
    Backlog { flow: flow_id(r), requested_at: Millis(get(r, "requested_at_ms")) }
}
