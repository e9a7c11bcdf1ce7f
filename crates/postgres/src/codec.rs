//! Columns to values and back.
//!
//! Rows travel to the database as one array per column, so that a statement does not grow with
//! the batch. A column that is null in every row is sent as no array at all, which costs nothing.

use bytes::Bytes;
use ff_core::backend::StoreError;
use ff_core::execution::{Execution, State};
use ff_core::ids::{ExecutionId, Partition};
use ff_core::row::{ExecutionRow, LeaseColumns, corrupt};
use ff_core::text::Encoding;
use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, ToSql, Type};
use uuid::Uuid;

/// A parameter and its type.
type Param<'a> = (Box<dyn ToSql + Sync + Send + 'a>, Type);

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
        self.0.push((Box::new(value), of));
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

    /// The two columns of ids.
    pub fn ids(self, ids: impl Iterator<Item = ExecutionId> + Clone) -> Self {
        self.all(ids.clone().map(partition), Type::INT2_ARRAY)
            .all(ids.map(|id| id.uuid()), Type::UUID_ARRAY)
    }

    /// A text, or nothing.
    pub fn text(self, text: Option<&'a str>) -> Self {
        self.one(text, Type::TEXT)
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
    pub fn typed(&self) -> Vec<(&(dyn ToSql + Sync), Type)> {
        let all = self.0.iter();
        all.map(|(value, of)| (value.as_ref() as &(dyn ToSql + Sync), of.clone())).collect()
    }
}

/// The partition of an id as it is stored.
pub fn partition(id: ExecutionId) -> i16 {
    i16::try_from(id.partition().index()).unwrap_or(i16::MAX)
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
pub fn read_row(r: &mut Reader<'_>) -> Result<ExecutionRow, StoreError> {
    Ok(ExecutionRow {
        partition_key: i64::from(r.take::<i16>("partition_key")?),
        execution_id: r.take::<Uuid>("execution_id")?.as_bytes().to_vec(),
        version: r.take("version")?,
        namespace: r.take("namespace")?,
        lane_id: r.take("lane_id")?,
        kind: r.take("kind")?,
        creator: r.take("creator")?,
        policy: r.take("policy")?,
        idempotency_key: r.take("idempotency_key")?,
        fingerprint: r.take("fingerprint")?,
        created_at_ms: r.take("created_at_ms")?,
        priority: r.int("priority")?,
        tags: r.take("tags")?,
        deadline_at_ms: r.take("deadline_at_ms")?,
        epoch: r.take("epoch")?,
        attempts: r.int("attempts")?,
        retries: r.int("retries")?,
        reclaims: r.int("reclaims")?,
        replays: r.int("replays")?,
        progress_percent: r.maybe_int("progress_percent")?,
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
pub struct ToWrite {
    row: ExecutionRow,
    id: ExecutionId,
    claim: Option<Uuid>,
}

impl From<&Execution> for ToWrite {
    fn from(x: &Execution) -> Self {
        let claim = match &x.state {
            State::Active(active) => Some(active.lease.claim_id),
            State::Runnable(_) | State::Terminal(_) => None,
        };
        Self { row: ExecutionRow::from(x), id: x.id, claim }
    }
}

/// The columns that `execution/put.sql` writes, in its order.
pub fn mutable_columns<'a>(rows: &'a [ToWrite]) -> Params<'a> {
    type Text = fn(&ExecutionRow) -> Option<&str>;
    type Long = fn(&ExecutionRow) -> Option<i64>;
    type Short = fn(&ExecutionRow) -> i64;
    let texts = |p: Params<'a>, f: Text| p.some(rows.iter().map(|x| f(&x.row)), Type::TEXT_ARRAY);
    let longs = |p: Params<'a>, f: Long| p.some(rows.iter().map(|x| f(&x.row)), Type::INT8_ARRAY);
    let ints = |p: Params<'a>, f: Short| {
        p.all(rows.iter().map(|x| i32::try_from(f(&x.row)).unwrap_or(i32::MAX)), Type::INT4_ARRAY)
    };
    let maybe_ints = |p: Params<'a>, f: Long| {
        let int = |n: i64| i32::try_from(n).unwrap_or(i32::MAX);
        p.some(rows.iter().map(|x| f(&x.row).map(int)), Type::INT4_ARRAY)
    };
    let p = Params::new().ids(rows.iter().map(|x| x.id));
    let p = longs(p, |x| Some(x.version));
    let p = ints(p, |x| x.priority);
    let p = texts(p, |x| x.tags.as_deref());
    let p = longs(p, |x| x.deadline_at_ms);
    let p = longs(p, |x| Some(x.epoch));
    let p = ints(p, |x| x.attempts);
    let p = ints(p, |x| x.retries);
    let p = ints(p, |x| x.reclaims);
    let p = ints(p, |x| x.replays);
    let p = maybe_ints(p, |x| x.progress_percent);
    let p = texts(p, |x| x.progress_message.as_deref());
    let p = longs(p, |x| x.progress_at_ms);
    let p = longs(p, |x| x.started_at_ms);
    let p = longs(p, |x| Some(x.updated_at_ms));
    let p = texts(p, |x| Some(&x.phase));
    let p = texts(p, |x| x.outcome.as_deref());
    let p = texts(p, |x| x.next_attempt.as_deref());
    let p = longs(p, |x| x.wait_until_ms);
    let p = texts(p, |x| x.wait_reason.as_deref());
    let p = texts(p, |x| x.held_reason.as_deref());
    let p = longs(p, |x| x.held_at_ms);
    let p = texts(p, |x| x.lease_end.as_deref());
    let p = maybe_ints(p, |x| x.attempt_index);
    let p = texts(p, |x| x.attempt_kind.as_deref());
    let p = texts(p, |x| x.worker_id.as_deref());
    let p = texts(p, |x| x.worker_instance_id.as_deref());
    let p = longs(p, |x| x.attempt_started_at_ms);
    let p = longs(p, |x| x.attempt_ran_ms);
    let p = p.some(rows.iter().map(|x| x.claim), Type::UUID_ARRAY);
    let p = p.some(rows.iter().map(|x| x.row.resumed), Type::BOOL_ARRAY);
    let p = longs(p, |x| x.timeout_at_ms);
    let p = texts(p, |x| x.failure_reason.as_deref());
    let p = texts(p, |x| x.failure_category.as_deref());
    let p = p.some(rows.iter().map(|x| x.row.has_result), Type::BOOL_ARRAY);
    let p = texts(p, |x| x.cancelled_by.as_deref());
    let p = texts(p, |x| x.end_reason.as_deref());
    let p = longs(p, |x| x.terminal_at_ms);
    longs(p, |x| x.retain_until_ms)
}

/// The columns that `execution/insert.sql` writes, in its order.
pub fn all_columns(rows: &[ToWrite]) -> Params<'_> {
    let text = Type::TEXT_ARRAY;
    mutable_columns(rows)
        .all(rows.iter().map(|x| x.row.namespace.as_str()), text.clone())
        .all(rows.iter().map(|x| x.row.lane_id.as_str()), text.clone())
        .all(rows.iter().map(|x| x.row.kind.as_str()), text.clone())
        .all(rows.iter().map(|x| x.row.creator.as_str()), text.clone())
        .some(rows.iter().map(|x| x.row.policy.as_deref()), text.clone())
        .some(rows.iter().map(|x| x.row.idempotency_key.as_deref()), text)
        .all(rows.iter().map(|x| x.row.fingerprint.as_slice()), Type::BYTEA_ARRAY)
        .all(rows.iter().map(|x| x.row.created_at_ms), Type::INT8_ARRAY)
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
