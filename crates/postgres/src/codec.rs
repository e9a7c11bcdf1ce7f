//! Columns to values and back.
//!
//! Rows travel to the database as one array of a row type, so that a statement does not grow with
//! the batch.

mod composite;

use std::error::Error;
use std::fmt;

use bytes::{Bytes, BytesMut};
use ff_core::backend::StoreError;
use ff_core::execution::{Execution, State};
use ff_core::fold::{Blob, BlobRef, GroupKey, WithinKey};
use ff_core::ids::{ExecutionId, FlowId, Partition};
use ff_core::row::{ExecutionRow, LeaseColumns, StepRow, corrupt};
use ff_core::step::StepRecord;
use ff_core::text::Encoding;
use tokio_postgres::Row;
use tokio_postgres::types::{Format, FromSql, IsNull, ToSql, Type, to_sql_checked};
use uuid::Uuid;

pub use composite::{Composite, NAMES as ROW_TYPES, Record, Tid, Types};

/// A parameter and its type.
type Param<'a> = (Box<dyn ToSql + Sync + Send + 'a>, Of);

/// The type of a parameter.
enum Of {
    /// One that every database has.
    Known(Type),
    /// An array of one of our row types.
    Rows(&'static str),
}

/// A parameter that nobody sees: the driver prints what it sends when it is asked to log everything, and
/// that may be an input, or a secret.
struct Unprinted<T>(T);

impl<T> fmt::Debug for Unprinted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

impl<T: ToSql> ToSql for Unprinted<T> {
    fn to_sql(
        &self,
        ty: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        self.0.to_sql(ty, out)
    }

    fn accepts(ty: &Type) -> bool {
        T::accepts(ty)
    }

    fn encode_format(&self, ty: &Type) -> Format {
        self.0.encode_format(ty)
    }

    to_sql_checked!();
}

/// A place among executions by time: the time, and the two columns of an id.
pub type Place = (i64, i16, Uuid);

/// The parameters of a statement, in order.
#[derive(Default)]
pub struct Params<'a>(Vec<Param<'a>>);

impl<'a> Params<'a> {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// One value.
    pub fn one(mut self, value: impl ToSql + Sync + Send + 'a, of: Type) -> Self {
        self.0.push((Box::new(Unprinted(value)), Of::Known(of)));
        self
    }

    /// Rows of one of our types.
    pub fn rows(mut self, rows: Composite) -> Self {
        let of = Of::Rows(rows.of);
        self.0.push((Box::new(Unprinted(rows)), of));
        self
    }

    /// A column that is never null.
    pub fn all<T: ToSql + Sync + Send + 'a>(
        self,
        values: impl Iterator<Item = T>,
        of: Type,
    ) -> Self {
        self.one(values.collect::<Vec<T>>(), of)
    }

    /// A column that may be null.
    pub fn some<T: ToSql + Sync + Send + 'a>(
        self,
        values: impl Iterator<Item = Option<T>>,
        of: Type,
    ) -> Self {
        let values: Vec<Option<T>> = values.collect();
        let any = values.iter().any(Option::is_some);
        self.one(any.then_some(values), of)
    }

    /// The two columns of one id.
    pub fn id(self, id: ExecutionId) -> Self {
        self.one(partition(id), Type::INT2).one(id.uuid(), Type::UUID)
    }

    /// The two columns of one flow.
    pub fn flow(self, flow: FlowId) -> Self {
        self.one(home(flow), Type::INT2).one(flow.0, Type::UUID)
    }

    /// The two columns of ids.
    pub fn ids(self, ids: impl Iterator<Item = ExecutionId> + Clone) -> Self {
        self.all(ids.clone().map(partition), Type::INT2_ARRAY)
            .all(ids.map(|id| id.uuid()), Type::UUID_ARRAY)
    }

    /// The two columns of flows.
    pub fn flows(self, flows: impl Iterator<Item = FlowId> + Clone) -> Self {
        self.all(flows.clone().map(home), Type::INT2_ARRAY)
            .all(flows.map(|flow| flow.0), Type::UUID_ARRAY)
    }

    /// The three columns of what belongs to flows and has a UUID there.
    pub fn in_flows(self, rows: impl Iterator<Item = (FlowId, Uuid)> + Clone) -> Self {
        self.flows(rows.clone().map(|(flow, _)| flow))
            .all(rows.map(|(_, uuid)| uuid), Type::UUID_ARRAY)
    }

    /// The three columns of what belongs to executions and has a UUID there.
    pub fn within(self, rows: impl Iterator<Item = WithinKey> + Clone) -> Self {
        self.ids(rows.clone().map(|(id, _)| id)).all(rows.map(|(_, uuid)| uuid), Type::UUID_ARRAY)
    }

    /// The key and the value of a tag, or nothing.
    pub fn tag(self, tag: Option<&'a (String, String)>) -> Self {
        let (key, value) = tag.map(|(key, value)| (key.as_str(), value.as_str())).unzip();
        self.text(key).text(value)
    }

    /// A text, or nothing.
    pub fn text(self, text: Option<&'a str>) -> Self {
        self.one(text, Type::TEXT)
    }

    /// The three columns of a place.
    pub fn place(self, (at, partition, uuid): Place) -> Self {
        self.number(at).one(partition, Type::INT2).one(uuid, Type::UUID)
    }

    /// A number.
    pub fn number(self, number: i64) -> Self {
        self.one(number, Type::INT8)
    }

    /// A count of rows.
    pub fn count(self, count: usize) -> Self {
        self.number(i64::try_from(count).unwrap_or(i64::MAX))
    }

    /// As the driver takes them.
    pub fn values(&self) -> Vec<&(dyn ToSql + Sync)> {
        self.0.iter().map(|(value, _)| value.as_ref() as &(dyn ToSql + Sync)).collect()
    }

    /// As the driver takes them when it has not asked the server for their types.
    pub fn typed(&self, types: &Types) -> Vec<(&(dyn ToSql + Sync), Type)> {
        let of = |of: &Of| match of {
            Of::Known(known) => known.clone(),
            Of::Rows(name) => types.get(*name).cloned().unwrap_or(Type::UNKNOWN),
        };
        let all = self.0.iter();
        all.map(|(value, kind)| (value.as_ref() as &(dyn ToSql + Sync), of(kind))).collect()
    }
}

/// The partition of an id as it is stored.
pub fn partition(id: ExecutionId) -> i16 {
    i16::from(id.partition().index())
}

/// The partition of a flow as it is stored.
pub fn home(flow: FlowId) -> i16 {
    i16::from(flow.partition().index())
}

/// A number that is never negative, as it is stored.
pub fn stored(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Reads the columns of a row in order, naming each.
#[derive(Clone)]
pub struct Reader<'r> {
    row: &'r Row,
    next: usize,
}

impl<'r> Reader<'r> {
    /// From the first column on.
    pub fn new(row: &'r Row) -> Self {
        Self { row, next: 0 }
    }

    /// The next column, which must be called `name` in the statement.
    pub fn take<T: FromSql<'r>>(&mut self, name: &str) -> Result<T, StoreError> {
        let at = self.next;
        self.next += 1;
        debug_assert_eq!(self.row.columns().get(at).map(|c| c.name()), Some(name), "column order");
        self.row.try_get(at).map_err(|error| corrupt(name, "a value of another type", error))
    }

    /// The next column, a number of 32 bits.
    pub fn int(&mut self, name: &str) -> Result<i64, StoreError> {
        Ok(i64::from(self.take::<i32>(name)?))
    }

    /// The next column, a number of 32 bits or nothing.
    pub fn maybe_int(&mut self, name: &str) -> Result<Option<i64>, StoreError> {
        Ok(self.take::<Option<i32>>(name)?.map(i64::from))
    }

    /// The two columns of an execution id.
    pub fn id(&mut self) -> Result<ExecutionId, StoreError> {
        let partition = self.take::<Option<i16>>("partition_key")?;
        let uuid = self.take::<Option<Uuid>>("execution_id")?;
        let found = partition.zip(uuid).ok_or_else(|| corrupt("execution_id", "null", "is null"));
        let (partition, uuid) = found?;
        read_id(partition, uuid)
    }

    /// The UUID of a flow.
    pub fn flow(&mut self) -> Result<FlowId, StoreError> {
        Ok(FlowId(self.take("flow_id")?))
    }

    /// The three columns of a group: the id of what waits, and the flow.
    pub fn group(&mut self) -> Result<GroupKey, StoreError> {
        let downstream = self.id()?;
        Ok((self.flow()?, downstream))
    }

    /// The next column, a UUID or nothing, as rows hold them.
    pub fn maybe_uuid(&mut self, name: &str) -> Result<Option<[u8; 16]>, StoreError> {
        Ok(self.take::<Option<Uuid>>(name)?.map(Uuid::into_bytes))
    }

    /// The two columns of an execution id, which may be absent.
    pub fn maybe_id(&mut self) -> Result<Option<ExecutionId>, StoreError> {
        let partition = self.take::<Option<i16>>("partition_key")?;
        let uuid = self.take::<Option<Uuid>>("execution_id")?;
        partition.zip(uuid).map(|(partition, uuid)| read_id(partition, uuid)).transpose()
    }
}

fn read_id(partition: i16, uuid: Uuid) -> Result<ExecutionId, StoreError> {
    let partition = Partition::new(i64::from(partition))
        .ok_or_else(|| corrupt("partition_key", partition, "is not a partition"))?;
    Ok(ExecutionId::from_parts(partition, uuid))
}

/// Reads the columns of an execution, without its lease.
pub fn read_row<'r>(r: &mut Reader<'r>) -> Result<ExecutionRow<'r>, StoreError> {
    Ok(ExecutionRow {
        partition_key: i64::from(r.take::<i16>("partition_key")?),
        execution_id: r.take::<Uuid>("execution_id")?.into_bytes(),
        version: r.take("version")?,
        namespace: r.take("namespace")?,
        lane_id: r.take("lane_id")?,
        kind: r.take("kind")?,
        creator: r.take("creator")?,
        policy: r.take::<Option<&str>>("policy")?.map(Into::into),
        idempotency_key: r.take("idempotency_key")?,
        fingerprint: r.take("fingerprint")?,
        created_at_ms: r.take("created_at_ms")?,
        priority: r.int("priority")?,
        tags: r.take::<Option<&str>>("tags")?.map(Into::into),
        deadline_at_ms: r.take("deadline_at_ms")?,
        epoch: r.take("epoch")?,
        attempts: r.int("attempts")?,
        retries: r.int("retries")?,
        reclaims: r.int("reclaims")?,
        replays: r.int("replays")?,
        progress_percent: r.maybe_int("progress_percent")?,
        progress_message: r.take("progress_message")?,
        progress_at_ms: r.take("progress_at_ms")?,
        flow_id: r.maybe_uuid("flow_id")?,
        node: r.take("node")?,
        input_from: r.maybe_uuid("input_from")?,
        started_at_ms: r.take("started_at_ms")?,
        updated_at_ms: r.take("updated_at_ms")?,
        phase: r.take("phase")?,
        outcome: r.take("outcome")?,
        next_attempt: r.take("next_attempt")?,
        wait_until_ms: r.take("wait_until_ms")?,
        wait_reason: r.take("wait_reason")?,
        held_reason: r.take("held_reason")?,
        held_at_ms: r.take("held_at_ms")?,
        gated: r.take("gated")?,
        lease_end: r.take("lease_end")?,
        attempt_index: r.maybe_int("attempt_index")?,
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
        result_digest: r.take("result_digest")?,
        cancelled_by: r.take("cancelled_by")?,
        end_reason: r.take("end_reason")?,
        terminal_at_ms: r.take("terminal_at_ms")?,
        retain_until_ms: r.take("retain_until_ms")?,
    })
}

/// Reads what `execution/load.sql` selects.
pub fn read_execution(
    row: &Row,
) -> Result<(ExecutionId, Result<Execution, StoreError>), StoreError> {
    let id = Reader::new(row).id()?;
    let mut r = Reader::new(row);
    let read = |r: &mut Reader<'_>| read_row(r)?.read(read_lease(r)?.as_ref());
    Ok((id, read(&mut r)))
}

fn read_lease(r: &mut Reader<'_>) -> Result<Option<LeaseColumns>, StoreError> {
    let Some(epoch) = r.take("lease_epoch")? else { return Ok(None) };
    Ok(Some(LeaseColumns {
        epoch,
        claim_id: r.take::<Uuid>("claim_id")?.as_bytes().to_vec(),
        acquired_at_ms: r.take("acquired_at_ms")?,
        renewed_at_ms: r.take("renewed_at_ms")?,
        until_ms: r.take("until_ms")?,
        check_at_ms: r.take("check_at_ms")?,
    }))
}

/// An execution to write, with the columns that are not in its row.
pub struct ToWrite<'x> {
    /// Its columns.
    pub row: ExecutionRow<'x>,
    /// Which.
    pub id: ExecutionId,
    /// The claim that holds it.
    pub claim: Option<Uuid>,
    /// The version it was decided on.
    pub before: Option<i64>,
    /// Where it stood then, if that is known.
    pub at: Option<Tid>,
    /// Its input or result, as far as that stands with it.
    blob: Option<Stored>,
}

/// What a row says about the input or result of its execution.
pub struct Stored {
    /// The attempt it is of.
    pub attempt: i64,
    size: Option<i64>,
    here: Option<(Option<Encoding>, Bytes)>,
}

impl Stored {
    /// `blob`, which stands here or elsewhere.
    pub fn new(blob: &Blob, here: bool) -> Self {
        Self {
            attempt: attempt_of(blob.at),
            size: i64::try_from(blob.bytes.len()).ok(),
            here: here.then(|| (blob.encoding.clone(), blob.bytes.clone())),
        }
    }
}

/// What bytes are, as it is stored.
pub fn kind_of(at: BlobRef) -> &'static str {
    match at {
        BlobRef::Input(_) => "input",
        BlobRef::Result(..) => "result",
    }
}

/// The attempt that bytes are kept under.
pub fn attempt_of(at: BlobRef) -> i64 {
    match at {
        BlobRef::Input(_) => 0,
        BlobRef::Result(_, attempt) => i64::from(attempt),
    }
}

impl<'x> ToWrite<'x> {
    /// Whether it is known where it stood.
    pub fn is_placed(&self) -> bool {
        self.at.is_some()
    }

    /// `x`, decided on when it had the version `before` and stood at `at`.
    pub fn new(x: &'x Execution, before: Option<i64>, at: Option<Tid>) -> Self {
        let claim = match &x.state {
            State::Active(active) => Some(active.lease.claim_id),
            State::Runnable(_) | State::Suspended(_) | State::Terminal(_) => None,
        };
        Self { row: ExecutionRow::from(x), id: x.id, claim, before, at, blob: None }
    }

    /// Its result, if that stands with it.
    pub fn result(&self) -> Option<&Stored> {
        self.blob.as_ref().filter(|blob| blob.here.is_some())
    }

    /// With its input, if it is new, or its result.
    pub fn with(mut self, blob: Option<Stored>) -> Self {
        self.blob = blob;
        self
    }
}

/// Two fields: how bytes that stand here are encoded, and the bytes.
pub fn here(blob: Option<&Stored>, r: &mut Record<'_>) {
    let here = blob.and_then(|blob| blob.here.as_ref());
    r.text(here.and_then(|(encoding, _)| encoding.as_ref()).map(Encoding::as_str));
    r.bytes(here.map(|(_, bytes)| bytes.as_ref()));
}

/// Executions to update.
pub fn updates(rows: &[ToWrite<'_>]) -> Composite {
    Composite::of("ff_execution_row_7", rows, |x, r| {
        r.id(x.id);
        r.tid(x.at);
        r.long(x.row.version);
        r.long(x.before);
        mutable(x, r);
        let blob = x.result();
        r.int(blob.map(|blob| blob.attempt));
        here(blob, r);
    })
}

/// Executions to insert.
pub fn inserts(rows: &[ToWrite<'_>]) -> Composite {
    Composite::of("ff_new_execution_row_7", rows, |x, r| {
        r.id(x.id);
        r.long(x.row.version);
        r.text(Some(x.row.namespace));
        r.text(Some(x.row.lane_id));
        r.text(Some(x.row.kind));
        r.text(Some(x.row.creator));
        r.text(x.row.policy.as_deref());
        r.text(x.row.idempotency_key);
        r.bytes(Some(x.row.fingerprint));
        r.long(x.row.created_at_ms);
        r.uuid(x.row.flow_id.map(Uuid::from_bytes));
        r.text(x.row.node);
        r.int(x.blob.as_ref().and_then(|blob| blob.size));
        here(x.blob.as_ref(), r);
        mutable(x, r);
    })
}

/// The columns that may change, in the order of both types.
fn mutable(x: &ToWrite<'_>, r: &mut Record<'_>) {
    let ToWrite { row: x, claim, .. } = x;
    r.int(x.priority);
    r.text(x.tags.as_deref());
    r.long(x.deadline_at_ms);
    r.long(x.epoch);
    r.int(x.attempts);
    r.int(x.retries);
    r.int(x.reclaims);
    r.int(x.replays);
    r.int(x.progress_percent);
    r.text(x.progress_message);
    r.long(x.progress_at_ms);
    r.uuid(x.input_from.map(Uuid::from_bytes));
    r.long(x.started_at_ms);
    r.long(x.updated_at_ms);
    r.text(Some(x.phase));
    r.text(x.outcome);
    r.text(x.next_attempt);
    r.long(x.wait_until_ms);
    r.text(x.wait_reason);
    r.text(x.held_reason);
    r.long(x.held_at_ms);
    r.bool(Some(x.gated));
    r.text(x.lease_end);
    r.int(x.attempt_index);
    r.text(x.attempt_kind);
    r.text(x.worker_id);
    r.text(x.worker_instance_id);
    r.long(x.attempt_started_at_ms);
    r.long(x.attempt_ran_ms);
    r.uuid(*claim);
    r.bool(x.resumed);
    r.long(x.timeout_at_ms);
    r.text(x.failure_reason);
    r.text(x.failure_category);
    r.bool(x.has_result);
    r.long(x.result_digest);
    r.text(x.cancelled_by);
    r.text(x.end_reason);
    r.long(x.terminal_at_ms);
    r.long(x.retain_until_ms);
}

/// How bytes are encoded.
pub fn read_encoding(r: &mut Reader<'_>) -> Result<Option<Encoding>, StoreError> {
    let encoding: Option<String> = r.take("encoding")?;
    encoding.map(|text| ff_core::row::parse("encoding", &text)).transpose()
}

/// Bytes that a row holds.
pub fn read_bytes(bytes: &[u8]) -> Bytes {
    Bytes::copy_from_slice(bytes)
}

/// A step, as `step/load.sql` selects it.
pub fn read_step(r: &mut Reader<'_>) -> Result<StepRecord, StoreError> {
    let id = r.id()?;
    let columns = StepRow {
        number: r.int("number")?,
        attempt_index: r.int("attempt_index")?,
        kind: r.take("kind")?,
        name: r.take("name")?,
        operation: r.take("operation")?,
        outcome: r.take("outcome")?,
        time_ms: r.take("time_ms")?,
        ran_ms: r.take("ran_ms")?,
        at_ms: r.take("at_ms")?,
        encoding: r.take("encoding")?,
        bytes: read_bytes(r.take("bytes")?),
    };
    columns.read(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_is_in_no_log() {
        let rows = Composite::of("ff_payload_row", &["input"], |text, r| r.text(Some(text)));
        let params = Params::new()
            .all([b"secret".as_slice()].into_iter(), Type::BYTEA_ARRAY)
            .text(Some("text"))
            .rows(rows);
        assert_eq!(format!("{:?}", params.values()), "[…, …, …]");
    }
}
