//! Columns to values and back.

use bytes::Bytes;
use ff_core::backend::StoreError;
use ff_core::execution::Execution;
use ff_core::ids::ExecutionId;
use ff_core::row::{ExecutionRow, LeaseColumns, StepRow, corrupt, execution_id};
use ff_core::step::StepRecord;
use ff_core::text::Encoding;
use rusqlite::types::{FromSql, FromSqlError, ValueRef};
use rusqlite::{Row, ToSql};

/// Reads the columns of a row in order, naming each.
pub struct Reader<'r, 's> {
    row: &'r Row<'s>,
    next: usize,
}

impl<'r, 's> Reader<'r, 's> {
    /// From the first column on.
    pub fn new(row: &'r Row<'s>) -> Self {
        Self { row, next: 0 }
    }

    /// The next column, which must be called `name` in the statement.
    pub fn take<T: FromSql>(&mut self, name: &str) -> Result<T, StoreError> {
        let at = self.next;
        self.next += 1;
        debug_assert_eq!(self.row.as_ref().column_name(at).ok(), Some(name), "column order");
        let value = self
            .row
            .get_ref(at)
            .map_err(|error| corrupt(name, "a column that is missing", error))?;
        T::column_result(value).map_err(|error| corrupt(name, show(value), describe(&error)))
    }

    /// The two columns of an execution id.
    pub fn id(&mut self) -> Result<ExecutionId, StoreError> {
        let partition = self.take("partition_key")?;
        execution_id(partition, &self.take::<Vec<u8>>("execution_id")?)
    }
}

fn show(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Null => "null".to_owned(),
        ValueRef::Integer(number) => number.to_string(),
        ValueRef::Real(number) => number.to_string(),
        ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned(),
        ValueRef::Blob(blob) => format!("{blob:?}"),
    }
}

fn describe(error: &FromSqlError) -> String {
    error.to_string()
}

/// The two columns of an id, as parameters.
pub fn key(id: ExecutionId) -> (i64, [u8; 16]) {
    (i64::from(id.partition().index()), *id.uuid().as_bytes())
}

/// Reads what `execution/load.sql` selects.
pub fn read_execution(row: &Row<'_>) -> Result<Execution, StoreError> {
    let mut r = Reader::new(row);
    let x = ExecutionRow {
        partition_key: r.take("partition_key")?,
        execution_id: r.take("execution_id")?,
        version: r.take("version")?,
        namespace: r.take("namespace")?,
        lane_id: r.take("lane_id")?,
        kind: r.take("kind")?,
        creator: r.take("creator")?,
        policy: r.take("policy")?,
        idempotency_key: r.take("idempotency_key")?,
        fingerprint: r.take("fingerprint")?,
        created_at_ms: r.take("created_at_ms")?,
        priority: r.take("priority")?,
        tags: r.take("tags")?,
        deadline_at_ms: r.take("deadline_at_ms")?,
        epoch: r.take("epoch")?,
        attempts: r.take("attempts")?,
        retries: r.take("retries")?,
        reclaims: r.take("reclaims")?,
        replays: r.take("replays")?,
        progress_percent: r.take("progress_percent")?,
        progress_message: r.take("progress_message")?,
        progress_at_ms: r.take("progress_at_ms")?,
        started_at_ms: r.take("started_at_ms")?,
        updated_at_ms: r.take("updated_at_ms")?,
        phase: r.take("phase")?,
        outcome: r.take("outcome")?,
        next_attempt: r.take("next_attempt")?,
        wait_until_ms: r.take("wait_until_ms")?,
        wait_reason: r.take("wait_reason")?,
        held_reason: r.take("held_reason")?,
        held_at_ms: r.take("held_at_ms")?,
        lease_end: r.take("lease_end")?,
        attempt_index: r.take("attempt_index")?,
        attempt_kind: r.take("attempt_kind")?,
        worker_id: r.take("worker_id")?,
        worker_instance_id: r.take("worker_instance_id")?,
        attempt_started_at_ms: r.take("attempt_started_at_ms")?,
        attempt_ran_ms: r.take("attempt_ran_ms")?,
        resumed: r.take("resumed")?,
        timeout_at_ms: r.take("timeout_at_ms")?,
        failure_reason: r.take("failure_reason")?,
        failure_category: r.take("failure_category")?,
        has_result: r.take("has_result")?,
        cancelled_by: r.take("cancelled_by")?,
        end_reason: r.take("end_reason")?,
        terminal_at_ms: r.take("terminal_at_ms")?,
        retain_until_ms: r.take("retain_until_ms")?,
    };
    x.read(read_lease(&mut r)?.as_ref())
}

fn read_lease(r: &mut Reader<'_, '_>) -> Result<Option<LeaseColumns>, StoreError> {
    let Some(epoch) = r.take("lease_epoch")? else { return Ok(None) };
    Ok(Some(LeaseColumns {
        epoch,
        claim_id: r.take("claim_id")?,
        acquired_at_ms: r.take("acquired_at_ms")?,
        renewed_at_ms: r.take("renewed_at_ms")?,
        until_ms: r.take("until_ms")?,
        check_at_ms: r.take("check_at_ms")?,
    }))
}

/// The parameters of `execution/put.sql`, in the order of its columns.
pub fn execution_params<'a>(x: &'a ExecutionRow, version_before: &'a i64) -> Vec<&'a dyn ToSql> {
    vec![
        &x.partition_key,
        &x.execution_id,
        &x.version,
        &x.namespace,
        &x.lane_id,
        &x.kind,
        &x.creator,
        &x.policy,
        &x.idempotency_key,
        &x.fingerprint,
        &x.created_at_ms,
        &x.priority,
        &x.tags,
        &x.deadline_at_ms,
        &x.epoch,
        &x.attempts,
        &x.retries,
        &x.reclaims,
        &x.replays,
        &x.progress_percent,
        &x.progress_message,
        &x.progress_at_ms,
        &x.started_at_ms,
        &x.updated_at_ms,
        &x.phase,
        &x.outcome,
        &x.next_attempt,
        &x.wait_until_ms,
        &x.wait_reason,
        &x.held_reason,
        &x.held_at_ms,
        &x.lease_end,
        &x.attempt_index,
        &x.attempt_kind,
        &x.worker_id,
        &x.worker_instance_id,
        &x.attempt_started_at_ms,
        &x.attempt_ran_ms,
        &x.resumed,
        &x.timeout_at_ms,
        &x.failure_reason,
        &x.failure_category,
        &x.has_result,
        &x.cancelled_by,
        &x.end_reason,
        &x.terminal_at_ms,
        &x.retain_until_ms,
        version_before,
    ]
}

/// Bytes and how they are encoded, as `payload/load.sql` selects them.
pub fn read_payload(row: &Row<'_>) -> Result<(Option<Encoding>, Bytes), StoreError> {
    let mut r = Reader::new(row);
    let encoding: Option<String> = r.take("encoding")?;
    let encoding = encoding.map(|text| ff_core::row::parse("encoding", &text)).transpose()?;
    Ok((encoding, Bytes::from(r.take::<Vec<u8>>("bytes")?)))
}

/// A step of `execution`, as `step/load.sql` selects it.
pub fn read_step(execution: ExecutionId, row: &Row<'_>) -> Result<StepRecord, StoreError> {
    let mut r = Reader::new(row);
    let columns = StepRow {
        number: r.take("number")?,
        attempt_index: r.take("attempt_index")?,
        kind: r.take("kind")?,
        name: r.take("name")?,
        ran_ms: r.take("ran_ms")?,
        at_ms: r.take("at_ms")?,
        encoding: r.take("encoding")?,
        bytes: Bytes::from(r.take::<Vec<u8>>("bytes")?),
    };
    columns.read(execution)
}
