//! Flows, edges and groups: columns to values and back.

use ff_core::backend::StoreError;
use ff_core::flow::{Edge, Flow, Group};
use ff_core::row::{EdgeRow, FlowRow, GroupRow};
use rusqlite::{Row, ToSql};

use crate::codec::Reader;

/// Reads what `flow/load.sql` selects.
pub fn read_flow(row: &Row<'_>) -> Result<Flow, StoreError> {
    let mut r = Reader::new(row);
    let columns = FlowRow {
        partition_key: r.take("partition_key")?,
        flow_id: r.take("flow_id")?,
        version: r.take("version")?,
        namespace: r.take("namespace")?,
        kind: r.take("kind")?,
        creator: r.take("creator")?,
        idempotency_key: r.take("idempotency_key")?,
        fingerprint: r.take("fingerprint")?,
        created_at_ms: r.take("created_at_ms")?,
        graph_revision: r.take("graph_revision")?,
        node_count: r.take("node_count")?,
        edge_count: r.take("edge_count")?,
        ended_well: r.take("ended_well")?,
        ended_badly: r.take("ended_badly")?,
        sealed: r.take("sealed")?,
        tags: r.take("tags")?,
        updated_at_ms: r.take("updated_at_ms")?,
        retain_until_ms: r.take("retain_until_ms")?,
        state: r.take("state")?,
        terminal_at_ms: r.take("terminal_at_ms")?,
        cancellation_policy: r.take("cancellation_policy")?,
        cancel_reason: r.take("cancel_reason")?,
        trim_at_ms: r.take("trim_at_ms")?,
    };
    columns.read()
}

/// The parameters of `flow/put.sql`, in the order of its columns.
pub fn flow_params<'a>(f: &'a FlowRow, version_before: &'a i64) -> Vec<&'a dyn ToSql> {
    vec![
        &f.partition_key,
        &f.flow_id,
        &f.version,
        &f.namespace,
        &f.kind,
        &f.creator,
        &f.idempotency_key,
        &f.fingerprint,
        &f.created_at_ms,
        &f.graph_revision,
        &f.node_count,
        &f.edge_count,
        &f.ended_well,
        &f.ended_badly,
        &f.sealed,
        &f.tags,
        &f.updated_at_ms,
        &f.retain_until_ms,
        &f.state,
        &f.terminal_at_ms,
        &f.cancellation_policy,
        &f.cancel_reason,
        &f.trim_at_ms,
        version_before,
    ]
}

/// Reads what `edge/load.sql` selects.
pub fn read_edge(row: &Row<'_>) -> Result<Edge, StoreError> {
    let mut r = Reader::new(row);
    let columns = EdgeRow {
        partition_key: r.take("partition_key")?,
        flow_id: r.take("flow_id")?,
        edge_id: r.take("edge_id")?,
        upstream_id: r.take("upstream_id")?,
        downstream_id: r.take("downstream_id")?,
        kind: r.take("kind")?,
        name: r.take("name")?,
        data_passing_ref: r.take("data_passing_ref")?,
        round: r.take("round")?,
        created_at_ms: r.take("created_at_ms")?,
        state: r.take("state")?,
        applied_at_ms: r.take("applied_at_ms")?,
        resolved_at_ms: r.take("resolved_at_ms")?,
    };
    columns.read()
}

/// The parameters of `edge/put.sql`, in the order of its columns.
pub fn edge_params(e: &EdgeRow) -> Vec<&dyn ToSql> {
    vec![
        &e.partition_key,
        &e.flow_id,
        &e.edge_id,
        &e.upstream_id,
        &e.downstream_id,
        &e.kind,
        &e.name,
        &e.data_passing_ref,
        &e.round,
        &e.created_at_ms,
        &e.state,
        &e.applied_at_ms,
        &e.resolved_at_ms,
    ]
}

/// Reads what `group/load.sql` selects.
pub fn read_group(row: &Row<'_>) -> Result<Group, StoreError> {
    let mut r = Reader::new(row);
    let columns = GroupRow {
        partition_key: r.take("partition_key")?,
        flow_id: r.take("flow_id")?,
        downstream_id: r.take("downstream_id")?,
        policy: r.take("policy")?,
        round: r.take("round")?,
        staged: r.take("staged")?,
        total: r.take("total")?,
        satisfied: r.take("satisfied")?,
        failed: r.take("failed")?,
        skipped: r.take("skipped")?,
        k_target: r.take("k_target")?,
        state: r.take("state")?,
        fired_at_ms: r.take("fired_at_ms")?,
        cancel_siblings_pending: r.take("cancel_siblings_pending")?,
        cancel_siblings_reason: r.take("cancel_siblings_reason")?,
        cancel_siblings_round: r.take("cancel_siblings_round")?,
    };
    columns.read()
}

/// The parameters of `group/put.sql`, in the order of its columns.
pub fn group_params(g: &GroupRow) -> Vec<&dyn ToSql> {
    vec![
        &g.partition_key,
        &g.flow_id,
        &g.downstream_id,
        &g.policy,
        &g.round,
        &g.staged,
        &g.total,
        &g.satisfied,
        &g.failed,
        &g.skipped,
        &g.k_target,
        &g.state,
        &g.fired_at_ms,
        &g.cancel_siblings_pending,
        &g.cancel_siblings_reason,
        &g.cancel_siblings_round,
    ]
}
