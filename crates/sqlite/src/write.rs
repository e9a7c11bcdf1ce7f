//! Writing what a fold decided.

use ff_core::backend::StoreError;
use ff_core::execution::Execution;
use ff_core::fold::{Consumer, KeyRow, LeaseRow, Write, WriteSet};
use ff_core::ids::ExecutionId;
use ff_core::index::{Queue, Ready, TagRow, Timer};
use ff_core::row::{AttemptRow, EventRow, ExecutionRow};
use ff_core::step::StepRecord;
use ff_core::text::{ConsumerName, IdempotencyKey, Namespace};
use rusqlite::{Params, Transaction, params};

use crate::codec::{execution_params, key};
use crate::connection::store_error;
use crate::graph::write::{write_parents, write_rest};
use crate::load::blob_key;
use crate::statements::{
    attempt, consumer, event, execution, idempotency, lease, payload, queue, ready, step, tag,
    timer,
};
use crate::waits;

/// Writes everything: what goes, flows and groups, then the rest in the order that [`WriteSet`]
/// fixes.
pub fn write(tx: &Transaction<'_>, set: &WriteSet) -> Result<(), StoreError> {
    for id in &set.removed {
        remove(tx, *id)?;
    }
    write_parents(tx, &set.graph)?;
    for write in &set.executions {
        put_execution(tx, write)?;
    }
    for write in &set.leases {
        put_lease(tx, write)?;
    }
    for (key, row) in &set.keys {
        put_key(tx, key, row.as_ref())?;
    }
    for (name, row) in &set.consumers {
        put_consumer(tx, name, row.as_ref())?;
    }
    for record in &set.attempts {
        let (partition, uuid) = key(record.execution);
        let a = AttemptRow::from(record);
        let params = params![
            partition,
            uuid,
            a.attempt_index,
            a.kind,
            a.worker_id,
            a.worker_instance_id,
            a.started_at_ms,
            a.ended_at_ms,
            a.outcome,
            a.failure_reason,
            a.failure_category
        ];
        run(tx, attempt::insert, params)?;
    }
    for blob in &set.blobs {
        let (partition, uuid, kind, index) = blob_key(blob.at);
        let encoding = blob.encoding.as_ref().map(ToString::to_string);
        let params = params![partition, uuid, kind, index, encoding, &blob.bytes[..]];
        run(tx, payload::insert, params)?;
    }
    set.cleared.iter().try_for_each(|id| run(tx, step::remove, key(*id)))?;
    set.steps.iter().try_for_each(|record| put_step(tx, record))?;
    for row in &set.queues {
        register(tx, row)?;
    }
    write_rest(tx, &set.graph)?;
    waits::write::write(tx, &set.waits)?;
    write_derived(tx, set)
}

fn write_derived(tx: &Transaction<'_>, set: &WriteSet) -> Result<(), StoreError> {
    set.ready.remove.iter().try_for_each(|row| run(tx, ready::remove, ready_params(row)))?;
    set.timers.remove.iter().try_for_each(|row| {
        let (partition, uuid) = key(row.execution);
        run(tx, timer::remove, (row.kind.as_str(), row.due.0, partition, uuid))
    })?;
    set.tags.remove.iter().try_for_each(|row| run(tx, tag::remove, tag_params(row)))?;
    set.ready.insert.iter().try_for_each(|row| run(tx, ready::insert, ready_params(row)))?;
    set.timers.insert.iter().try_for_each(|row| put_timer(tx, row))?;
    set.tags.insert.iter().try_for_each(|row| run(tx, tag::insert, tag_params(row)))?;
    set.events.iter().try_for_each(|happened| append(tx, &EventRow::from(happened)))
}

/// Runs a statement that answers nothing.
pub fn run(tx: &Transaction<'_>, sql: &str, params: impl Params) -> Result<(), StoreError> {
    let mut statement = tx.prepare_cached(sql).map_err(store_error)?;
    statement.execute(params).map_err(store_error)?;
    Ok(())
}

fn remove(tx: &Transaction<'_>, id: ExecutionId) -> Result<(), StoreError> {
    for sql in [execution::remove, payload::remove, step::remove, attempt::remove] {
        run(tx, sql, key(id))?;
    }
    let (partition, uuid) = key(id);
    run(tx, event::remove, (partition, uuid, false))?;
    waits::write::remove(tx, id)
}

fn put_step(tx: &Transaction<'_>, record: &StepRecord) -> Result<(), StoreError> {
    let (partition, uuid) = key(record.execution);
    let step = &record.step;
    let ran_ms = i64::try_from(step.ran_ms).unwrap_or(i64::MAX);
    let encoding = step.encoding.as_ref().map(ToString::to_string);
    let params = params![
        partition,
        uuid,
        step.number,
        record.attempt_index,
        step.kind.as_str(),
        step.name.as_str(),
        step.operation.as_ref().map(|operation| operation.as_str()),
        step.outcome.as_str(),
        step.time.map(|time| time.0),
        ran_ms,
        record.at.0,
        encoding,
        &step.bytes[..]
    ];
    run(tx, step::insert, params)
}

fn put_execution(tx: &Transaction<'_>, write: &Write<Execution>) -> Result<(), StoreError> {
    let Some(after) = &write.after else { return Ok(()) };
    let row = ExecutionRow::from(after);
    let version = write.before.as_ref().map_or(0, |x| x.version);
    let version = i64::try_from(version).unwrap_or(i64::MAX);
    let mut statement = tx.prepare_cached(execution::put).map_err(store_error)?;
    let params = execution_params(&row, &version);
    let written = statement.execute(&params[..]).map_err(store_error)?;
    if written == 1 {
        return Ok(());
    }
    // The row was read in this transaction, which nobody can write into.
    let cause = format!("execution {} changed while it was being decided on", after.id);
    Err(StoreError::Transport { cause })
}

fn put_lease(tx: &Transaction<'_>, write: &Write<LeaseRow>) -> Result<(), StoreError> {
    let same = |before: &LeaseRow, after: &LeaseRow| before.epoch == after.epoch;
    match (&write.before, &write.after) {
        (Some(before), Some(after)) if same(before, after) => {
            let (partition, uuid) = key(after.execution);
            let epoch = i64::try_from(after.epoch).unwrap_or(i64::MAX);
            let (renewed, until) = (after.lease.renewed_at.0, after.lease.until.0);
            if before.lease.check_at == after.lease.check_at {
                return run(tx, lease::renew, (partition, uuid, epoch, renewed, until));
            }
            let check_at = after.lease.check_at.0;
            run(tx, lease::refile, (partition, uuid, epoch, renewed, until, check_at))
        }
        (before, after) => {
            if let Some(before) = before {
                run(tx, lease::remove, key(before.execution))?;
            }
            after.as_ref().map_or(Ok(()), |after| grant(tx, after))
        }
    }
}

fn grant(tx: &Transaction<'_>, row: &LeaseRow) -> Result<(), StoreError> {
    let (partition, uuid) = key(row.execution);
    let params = params![
        partition,
        uuid,
        i64::try_from(row.epoch).unwrap_or(i64::MAX),
        row.lease.claim_id.as_bytes(),
        row.lease.acquired_at.0,
        row.lease.renewed_at.0,
        row.lease.until.0,
        row.lease.check_at.0
    ];
    run(tx, lease::insert, params)
}

fn put_key(
    tx: &Transaction<'_>,
    (namespace, name): &(Namespace, IdempotencyKey),
    row: Option<&KeyRow>,
) -> Result<(), StoreError> {
    let (namespace, name) = (namespace.as_str(), name.as_str());
    let Some(row) = row else { return run(tx, idempotency::remove, (namespace, name)) };
    let (partition, uuid) = key(row.execution);
    let params = params![namespace, name, partition, uuid, row.fingerprint.0, row.expires_at.0];
    run(tx, idempotency::put, params)
}

fn put_consumer(
    tx: &Transaction<'_>,
    name: &ConsumerName,
    row: Option<&Consumer>,
) -> Result<(), StoreError> {
    let Some(row) = row else { return run(tx, consumer::remove, (name.as_str(),)) };
    let seq = i64::try_from(row.cursor.seq()).unwrap_or(i64::MAX);
    run(tx, consumer::put, (name.as_str(), seq, row.updated_at.0))
}

fn register(tx: &Transaction<'_>, row: &Queue) -> Result<(), StoreError> {
    let capabilities = serde_json::to_string(&row.capabilities).expect("a set of texts is JSON");
    run(tx, queue::insert, (row.id.0, row.lane.as_str(), capabilities))
}

fn ready_params(row: &Ready) -> (i64, i32, i64, i64, [u8; 16]) {
    let (partition, uuid) = key(row.execution);
    (row.queue.0, row.rank, row.turn.0, partition, uuid)
}

fn tag_params(row: &TagRow) -> (&str, &str, i64, [u8; 16]) {
    let (partition, uuid) = key(row.execution);
    (&row.key, &row.value, partition, uuid)
}

fn put_timer(tx: &Transaction<'_>, row: &Timer) -> Result<(), StoreError> {
    let (partition, uuid) = key(row.execution);
    let place = row.ready.as_ref();
    let params = params![
        row.kind.as_str(),
        row.due.0,
        partition,
        uuid,
        place.map(|ready| ready.queue.0),
        place.map(|ready| ready.rank),
        place.map(|ready| ready.turn.0)
    ];
    run(tx, timer::insert, params)
}

fn append(tx: &Transaction<'_>, e: &EventRow) -> Result<(), StoreError> {
    let params = params![
        e.partition_key,
        e.execution_id,
        e.at_ms,
        e.namespace,
        e.lane_id,
        e.flow_id,
        e.kind,
        e.attempt_index,
        e.outcome,
        e.reason,
        e.failure_category,
        e.worker_id,
        e.worker_instance_id,
        e.retry_at_ms,
        e.priority_from,
        e.priority_to,
        e.members,
        e.signal_id,
        e.waitpoint_id,
        e.source_identity,
        e.subject
    ];
    run(tx, event::insert, params)
}
