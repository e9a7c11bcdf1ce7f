//! Columns to values and back.

use bytes::Bytes;
use ff_core::backend::StoreError;
use ff_core::execution::Execution;
use ff_core::ids::ExecutionId;
use ff_core::row::{ExecutionRow, LeaseColumns, StepRow, corrupt, execution_id};
use ff_core::step::StepRecord;
use ff_core::text::Encoding;
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ValueRef};
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
        self.read(name, T::column_result)
    }

    /// The next column, a text.
    pub fn text(&mut self, name: &str) -> Result<&'r str, StoreError> {
        self.read(name, |value| value.as_str())
    }

    /// The next column, a text or nothing.
    pub fn maybe_text(&mut self, name: &str) -> Result<Option<&'r str>, StoreError> {
        self.read(name, |value| value.as_str_or_null())
    }

    fn read<T>(
        &mut self,
        name: &str,
        read: impl FnOnce(ValueRef<'r>) -> FromSqlResult<T>,
    ) -> Result<T, StoreError> {
        let at = self.next;
        self.next += 1;
        debug_assert_eq!(self.row.as_ref().column_name(at).ok(), Some(name), "column order");
        let value = self
            .row
            .get_ref(at)
            .map_err(|error| corrupt(name, "a column that is missing", error))?;
        read(value).map_err(|error| corrupt(name, show(value), describe(&error)))
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

/// A limit as a parameter.
pub fn bound(max: usize) -> i64 {
    i64::try_from(max).unwrap_or(i64::MAX)
}

/// Reads what `execution/load.sql` selects.
pub fn read_execution(row: &Row<'_>) -> Result<Execution, StoreError> {
    let mut r = Reader::new(row);
    let x = ExecutionRow {
        partition_key: r.take("partition_key")?,
        execution_id: r.take("execution_id")?,
        version: r.take("version")?,
        namespace: r.text("namespace")?,
        lane_id: r.text("lane_id")?,
        kind: r.text("kind")?,
        creator: r.text("creator")?,
        policy: r.maybe_text("policy")?.map(Into::into),
        idempotency_key: r.maybe_text("idempotency_key")?,
        fingerprint: r.read("fingerprint", |value| value.as_blob())?,
        created_at_ms: r.take("created_at_ms")?,
        priority: r.take("priority")?,
        tags: r.maybe_text("tags")?.map(Into::into),
        deadline_at_ms: r.take("deadline_at_ms")?,
        epoch: r.take("epoch")?,
        attempts: r.take("attempts")?,
        retries: r.take("retries")?,
        reclaims: r.take("reclaims")?,
        replays: r.take("replays")?,
        progress_percent: r.take("progress_percent")?,
        progress_message: r.maybe_text("progress_message")?,
        progress_at_ms: r.take("progress_at_ms")?,
        flow_id: r.take("flow_id")?,
        node: r.maybe_text("node")?,
        input_from: r.take("input_from")?,
        started_at_ms: r.take("started_at_ms")?,
        updated_at_ms: r.take("updated_at_ms")?,
        phase: r.text("phase")?,
        outcome: r.maybe_text("outcome")?,
        next_attempt: r.maybe_text("next_attempt")?,
        wait_until_ms: r.take("wait_until_ms")?,
        wait_reason: r.maybe_text("wait_reason")?,
        held_reason: r.maybe_text("held_reason")?,
        held_at_ms: r.take("held_at_ms")?,
        gated: r.take("gated")?,
        lease_end: r.maybe_text("lease_end")?,
        attempt_index: r.take("attempt_index")?,
        attempt_kind: r.maybe_text("attempt_kind")?,
        worker_id: r.maybe_text("worker_id")?,
        worker_instance_id: r.maybe_text("worker_instance_id")?,
        attempt_started_at_ms: r.take("attempt_started_at_ms")?,
        attempt_ran_ms: r.take("attempt_ran_ms")?,
        resumed: r.take("resumed")?,
        timeout_at_ms: r.take("timeout_at_ms")?,
        failure_reason: r.maybe_text("failure_reason")?,
        failure_category: r.maybe_text("failure_category")?,
        has_result: r.take("has_result")?,
        result_digest: r.take("result_digest")?,
        cancelled_by: r.maybe_text("cancelled_by")?,
        end_reason: r.maybe_text("end_reason")?,
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
pub fn execution_params<'a>(
    x: &'a ExecutionRow<'_>,
    version_before: &'a i64,
) -> Vec<&'a dyn ToSql> {
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
        &x.flow_id,
        &x.node,
        &x.input_from,
        &x.started_at_ms,
        &x.updated_at_ms,
        &x.phase,
        &x.outcome,
        &x.next_attempt,
        &x.wait_until_ms,
        &x.wait_reason,
        &x.held_reason,
        &x.held_at_ms,
        &x.gated,
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
        &x.result_digest,
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
        operation: r.take("operation")?,
        outcome: r.take("outcome")?,
        time_ms: r.take("time_ms")?,
        ran_ms: r.take("ran_ms")?,
        at_ms: r.take("at_ms")?,
        encoding: r.take("encoding")?,
        bytes: Bytes::from(r.take::<Vec<u8>>("bytes")?),
    };
    columns.read(execution)
}
