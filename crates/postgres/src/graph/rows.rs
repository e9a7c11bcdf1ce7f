//! Flows, edges and groups: columns to values and back.
//!
//! The ids of a row are read before all else: a row that cannot be read has to be named.

use ff_core::backend::StoreError;
use ff_core::flow::{Edge, Flow, Group};
use ff_core::fold::GroupKey;
use ff_core::ids::{EdgeId, ExecutionId, FlowId};
use ff_core::row::{EdgeRow, FlowRow, GroupRow};
use tokio_postgres::Row;
use uuid::Uuid;

use crate::codec::{Composite, Reader, Record};

/// Reads what `flow/load.sql` selects.
pub fn read_flow(row: &Row) -> Result<(FlowId, Result<Flow, StoreError>), StoreError> {
    let mut r = Reader::new(row);
    let partition_key = i64::from(r.take::<i16>("partition_key")?);
    let id = r.flow()?;
    let read = |r: &mut Reader<'_>| {
        let columns = FlowRow {
            partition_key,
            flow_id: id.0.into_bytes(),
            version: r.take("version")?,
            namespace: r.take("namespace")?,
            kind: r.take("kind")?,
            creator: r.take("creator")?,
            idempotency_key: r.take("idempotency_key")?,
            fingerprint: r.take("fingerprint")?,
            created_at_ms: r.take("created_at_ms")?,
            graph_revision: r.take("graph_revision")?,
            node_count: r.int("node_count")?,
            edge_count: r.int("edge_count")?,
            ended_well: r.int("ended_well")?,
            ended_badly: r.int("ended_badly")?,
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
    };
    Ok((id, read(&mut r)))
}

/// The ids of an edge.
#[derive(Clone, Copy)]
pub struct EdgeIds {
    /// The flow.
    pub flow: FlowId,
    /// Its own.
    pub id: EdgeId,
    /// What is waited for.
    pub upstream: ExecutionId,
    /// What waits.
    pub downstream: ExecutionId,
}

/// Reads what `edge/load.sql` selects.
pub fn read_edge(row: &Row) -> Result<(EdgeIds, Result<Edge, StoreError>), StoreError> {
    let mut r = Reader::new(row);
    let partition_key = i64::from(r.take::<i16>("partition_key")?);
    let flow = r.flow()?;
    let ids = EdgeIds {
        flow,
        id: EdgeId(r.take("edge_id")?),
        upstream: ExecutionId::for_flow(flow, r.take("upstream_id")?),
        downstream: ExecutionId::for_flow(flow, r.take("downstream_id")?),
    };
    let read = |r: &mut Reader<'_>| {
        let columns = EdgeRow {
            partition_key,
            flow_id: flow.0.into_bytes(),
            edge_id: ids.id.0.into_bytes(),
            upstream_id: ids.upstream.uuid().into_bytes(),
            downstream_id: ids.downstream.uuid().into_bytes(),
            kind: r.take("kind")?,
            name: r.take("name")?,
            data_passing_ref: r.take("data_passing_ref")?,
            round: r.int("round")?,
            created_at_ms: r.take("created_at_ms")?,
            state: r.take("state")?,
            applied_at_ms: r.take("applied_at_ms")?,
            resolved_at_ms: r.take("resolved_at_ms")?,
        };
        columns.read()
    };
    Ok((ids, read(&mut r)))
}

/// Reads what `group/load.sql` selects.
pub fn read_group(row: &Row) -> Result<(GroupKey, Result<Group, StoreError>), StoreError> {
    let mut r = Reader::new(row);
    let partition_key = i64::from(r.take::<i16>("partition_key")?);
    let flow = r.flow()?;
    let downstream = ExecutionId::for_flow(flow, r.take("downstream_id")?);
    let read = |r: &mut Reader<'_>| {
        let columns = GroupRow {
            partition_key,
            flow_id: flow.0.into_bytes(),
            downstream_id: downstream.uuid().into_bytes(),
            policy: r.take("policy")?,
            round: r.int("round")?,
            staged: r.int("staged")?,
            total: r.int("total")?,
            satisfied: r.int("satisfied")?,
            failed: r.int("failed")?,
            skipped: r.int("skipped")?,
            k_target: r.int("k_target")?,
            state: r.take("state")?,
            fired_at_ms: r.take("fired_at_ms")?,
            cancel_siblings_pending: r.take("cancel_siblings_pending")?,
            cancel_siblings_reason: r.take("cancel_siblings_reason")?,
            cancel_siblings_round: r.maybe_int("cancel_siblings_round")?,
        };
        columns.read()
    };
    Ok(((flow, downstream), read(&mut r)))
}

/// The two fields of a flow's id, as rows hold them.
fn of_flow(partition_key: i64, flow_id: [u8; 16], r: &mut Record<'_>) {
    r.short(partition_key);
    r.uuid(Some(Uuid::from_bytes(flow_id)));
}

/// Flows, each with the version it was decided on.
pub fn flows(rows: &[(FlowRow, Option<i64>)]) -> Composite {
    Composite::of("ff_flow_row", rows, |(row, before), r| {
        of_flow(row.partition_key, row.flow_id, r);
        r.long(row.version);
        r.text(Some(&row.namespace));
        r.text(Some(&row.kind));
        r.text(Some(&row.creator));
        r.text(row.idempotency_key.as_deref());
        r.bytes(Some(&row.fingerprint));
        r.long(row.created_at_ms);
        r.long(row.graph_revision);
        r.int(row.node_count);
        r.int(row.edge_count);
        r.int(row.ended_well);
        r.int(row.ended_badly);
        r.bool(Some(row.sealed));
        r.text(row.tags.as_deref());
        r.long(row.updated_at_ms);
        r.long(row.retain_until_ms);
        r.text(Some(&row.state));
        r.long(row.terminal_at_ms);
        r.text(row.cancellation_policy.as_deref());
        r.text(row.cancel_reason.as_deref());
        r.long(row.trim_at_ms);
        r.long(*before);
    })
}

/// Edges.
pub fn edges(rows: &[EdgeRow]) -> Composite {
    Composite::of("ff_edge_row", rows, |row, r| {
        of_flow(row.partition_key, row.flow_id, r);
        r.uuid(Some(Uuid::from_bytes(row.edge_id)));
        r.uuid(Some(Uuid::from_bytes(row.upstream_id)));
        r.uuid(Some(Uuid::from_bytes(row.downstream_id)));
        r.text(Some(&row.kind));
        r.text(row.name.as_deref());
        r.text(row.data_passing_ref.as_deref());
        r.int(row.round);
        r.long(row.created_at_ms);
        r.text(Some(&row.state));
        r.long(row.applied_at_ms);
        r.long(row.resolved_at_ms);
    })
}

/// Groups.
pub fn groups(rows: &[GroupRow]) -> Composite {
    Composite::of("ff_group_row", rows, |row, r| {
        of_flow(row.partition_key, row.flow_id, r);
        r.uuid(Some(Uuid::from_bytes(row.downstream_id)));
        r.text(Some(&row.policy));
        r.int(row.round);
        r.int(row.staged);
        r.int(row.total);
        r.int(row.satisfied);
        r.int(row.failed);
        r.int(row.skipped);
        r.int(row.k_target);
        r.text(Some(&row.state));
        r.long(row.fired_at_ms);
        r.bool(Some(row.cancel_siblings_pending));
        r.text(row.cancel_siblings_reason.as_deref());
        r.int(row.cancel_siblings_round);
    })
}
