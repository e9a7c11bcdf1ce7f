//! The tables of flows.

use ff_conformance::model::Tables;
use ff_core::flow::{Backlog, Dispatch, Edge, Flow, Group, PendingCancel};
use ff_core::ids::{ExecutionId, FlowId};
use ff_core::row::{EdgeRow, FlowRow, GroupRow};
use ff_core::time::Millis;
use tokio_postgres::{Client, Row};
use uuid::Uuid;

use super::{get, id, int, maybe_int, partition, rows};

/// Adds everything about flows.
pub async fn read(db: &Client, tables: &mut Tables) {
    for flow in rows(db, "select * from ff_flow_core", read_flow).await {
        tables.flows.insert(flow.id, flow);
    }
    for edge in rows(db, "select * from ff_edge", read_edge).await {
        tables.edges.insert((edge.flow, edge.id), edge);
    }
    for group in rows(db, "select * from ff_edge_group", read_group).await {
        tables.groups.insert((group.flow, group.downstream), group);
    }
    let told = |r: &Row| Dispatch { at: millis(r, "at_ms"), flow: flow(r), execution: id(r) };
    for row in rows(db, "select * from ff_dispatch", told).await {
        tables.dispatch.insert(row.execution, row);
    }
    let cancel = |r: &Row| PendingCancel {
        enqueued_at: millis(r, "enqueued_at_ms"),
        flow: flow(r),
        downstream: member(r, "downstream_id"),
    };
    for row in rows(db, "select * from ff_pending_cancel_groups", cancel).await {
        tables.cancels.insert((row.flow, row.downstream), row);
    }
    let backlog = |r: &Row| Backlog { flow: flow(r), requested_at: millis(r, "requested_at_ms") };
    for row in rows(db, "select * from ff_cancel_backlog", backlog).await {
        tables.backlogs.insert(row.flow, row);
    }
    let owed = |r: &Row| (flow(r), id(r));
    tables.owed.extend(rows(db, "select * from ff_cancel_backlog_member", owed).await);
}

fn flow(r: &Row) -> FlowId {
    let flow = FlowId(get(r, "flow_id"));
    assert_eq!(partition(r), i64::from(flow.partition().index()), "it lies with its flow");
    flow
}

fn member(r: &Row, column: &str) -> ExecutionId {
    ExecutionId::for_flow(flow(r), get(r, column))
}

fn millis(r: &Row, column: &str) -> Millis {
    Millis(get(r, column))
}

fn bytes(r: &Row, column: &str) -> [u8; 16] {
    get::<Uuid>(r, column).into_bytes()
}

fn read_flow(r: &Row) -> Flow {
    let row = FlowRow {
        partition_key: partition(r),
        flow_id: bytes(r, "flow_id"),
        version: get(r, "version"),
        namespace: get(r, "namespace"),
        kind: get(r, "kind"),
        creator: get(r, "creator"),
        idempotency_key: get(r, "idempotency_key"),
        fingerprint: get(r, "fingerprint"),
        created_at_ms: get(r, "created_at_ms"),
        graph_revision: get(r, "graph_revision"),
        node_count: int(r, "node_count"),
        edge_count: int(r, "edge_count"),
        ended_well: int(r, "ended_well"),
        ended_badly: int(r, "ended_badly"),
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
    assert_eq!(row.trim_at_ms, flow.trim_at().map(|at| at.0), "it follows from the rest");
    flow
}

fn read_edge(r: &Row) -> Edge {
    let row = EdgeRow {
        partition_key: partition(r),
        flow_id: bytes(r, "flow_id"),
        edge_id: bytes(r, "edge_id"),
        upstream_id: bytes(r, "upstream_id"),
        downstream_id: bytes(r, "downstream_id"),
        kind: get(r, "kind"),
        name: get(r, "name"),
        data_passing_ref: get(r, "data_passing_ref"),
        round: int(r, "round"),
        created_at_ms: get(r, "created_at_ms"),
        state: get(r, "state"),
        applied_at_ms: get(r, "applied_at_ms"),
        resolved_at_ms: get(r, "resolved_at_ms"),
    };
    row.read().unwrap()
}

fn read_group(r: &Row) -> Group {
    let row = GroupRow {
        partition_key: partition(r),
        flow_id: bytes(r, "flow_id"),
        downstream_id: bytes(r, "downstream_id"),
        policy: get(r, "policy"),
        round: int(r, "round"),
        staged: int(r, "staged"),
        total: int(r, "total"),
        satisfied: int(r, "satisfied"),
        failed: int(r, "failed"),
        skipped: int(r, "skipped"),
        k_target: int(r, "k_target"),
        state: get(r, "state"),
        fired_at_ms: get(r, "fired_at_ms"),
        cancel_siblings_pending: get(r, "cancel_siblings_pending"),
        cancel_siblings_reason: get(r, "cancel_siblings_reason"),
        cancel_siblings_round: maybe_int(r, "cancel_siblings_round"),
    };
    row.read().unwrap()
}
