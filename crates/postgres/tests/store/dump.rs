//! Reads every table with plain SQL, to compare with the model and to audit.

mod flows;
mod waits;

use std::collections::BTreeSet;

use bytes::Bytes;
use ff_conformance::model::Tables;
use ff_core::event::{Cursor, Horizon, Window};
use ff_core::execution::Fingerprint;
use ff_core::fold::{Blob, BlobRef, Consumer, KeyRow};
use ff_core::index::{Queue, QueueId, Ready, TagRow, Timer};
use ff_core::row::{AttemptRow, EventRow, ExecutionRow, LeaseColumns, StepRow, execution_id};
use ff_core::step::StepRecord;
use ff_core::time::Millis;
use ff_core::{ExecutionId, State};
use tokio_postgres::types::FromSql;
use tokio_postgres::{Client, Row};
use uuid::Uuid;

use crate::server::{Schema, connect, wait};

/// Everything in the schema.
pub fn dump(schema: &Schema) -> Tables {
    let path = format!("set search_path = {}", schema.name);
    wait(async move {
        let db = connect().await;
        db.batch_execute(&path).await.unwrap();
        read(&db).await
    })
}

async fn read(db: &Client) -> Tables {
    let mut tables = Tables::default();
    for x in rows(db, EXECUTIONS, read_execution).await {
        tables.executions.insert(x.id, x);
    }
    let leases = rows(db, "select * from ff_lease", id).await;
    let held = tables.executions.values().filter(|x| matches!(x.state, State::Active(_)));
    assert_eq!(leases.len(), held.count(), "a lease stands beside every active execution only");
    for (key, row) in rows(db, "select * from ff_idempotency", read_key).await {
        tables.keys.insert(key, row);
    }
    for (name, consumer) in rows(
        db,
        "select name, base::text, base_seq, upto::text, upto_seq, after_seq, updated_at_ms \
    from ff_consumer",
        read_consumer,
    )
    .await
    {
        tables.consumers.insert(name, consumer);
    }
    for attempt in
        rows(db, "select * from ff_attempt", |r| read_attempt(r).read(id(r)).unwrap()).await
    {
        tables.attempts.insert((attempt.execution, attempt.index), attempt);
    }
    for record in rows(db, "select * from ff_step", read_step).await {
        tables.steps.insert((record.execution, record.step.number), record);
    }
    for blob in rows(db, BLOBS, read_blob).await {
        tables.blobs.insert(blob.at, blob);
    }
    tables.queues = rows(db, "select * from ff_queue", read_queue).await.into_iter().collect();
    tables.ready = rows(db, "select * from ff_ready", read_ready).await.into_iter().collect();
    tables.timers = rows(db, TIMERS, read_timer).await.into_iter().collect();
    let spent = rows(db, SPENT, |r| get::<i64>(r, "due_ms")).await;
    assert!(spent.is_empty(), "nothing of these batches is kept: {spent:?}");
    tables.tags = rows(db, "select * from ff_tag", read_tag).await.into_iter().collect();
    for (seq, event) in rows(db, "select * from ff_event", read_event).await {
        tables.events.insert(seq, event);
    }
    let newest =
        "select case when is_called then last_value else 0 end as seq from ff_event_seq_seq";
    tables.last_seq = rows(db, newest, seq).await.pop().unwrap_or(0);
    flows::read(db, &mut tables).await;
    waits::read(db, &mut tables).await;
    tables
}

const TIMERS: &str = "select kind, due_ms, partition_key, execution_id, queue, rank, turn_ms \
    from ff_timer union all \
    select 'retention', r.due_ms, x.partition_key, x.execution_id, null, null, null \
    from ff_retention r \
    cross join unnest(r.partition_keys, r.execution_ids) i (partition_key, execution_id) \
    join ff_exec_core x using (partition_key, execution_id) where x.retain_until_ms = r.due_ms \
    and x.flow_id is null";

const SPENT: &str = "select r.due_ms from ff_retention r where not exists (select 1 \
    from unnest(r.partition_keys, r.execution_ids) i (partition_key, execution_id) \
    join ff_exec_core x using (partition_key, execution_id) where x.retain_until_ms = r.due_ms \
    and x.flow_id is null)";

const BLOBS: &str = "select partition_key, execution_id, kind, attempt_index, encoding, bytes \
    from ff_payload union all \
    select partition_key, execution_id, 'input', 0, input_encoding, input from ff_exec_core \
    where input is not null union all \
    select partition_key, execution_id, 'result', result_attempt, result_encoding, result \
    from ff_exec_core where result is not null";

const EXECUTIONS: &str = "select x.*, l.epoch as lease_epoch, l.acquired_at_ms, \
    l.renewed_at_ms, l.until_ms, l.check_at_ms from ff_exec_core x \
    left join ff_lease l using (claim_id, partition_key, execution_id)";

async fn rows<T>(db: &Client, sql: &str, read: impl Fn(&Row) -> T) -> Vec<T> {
    db.query(sql, &[]).await.unwrap().iter().map(read).collect()
}

fn get<'r, T: FromSql<'r>>(r: &'r Row, column: &str) -> T {
    r.get(column)
}

fn uuid(r: &Row, column: &str) -> Vec<u8> {
    get::<Uuid>(r, column).as_bytes().to_vec()
}

fn int(r: &Row, column: &str) -> i64 {
    i64::from(get::<i32>(r, column))
}

fn maybe_int(r: &Row, column: &str) -> Option<i64> {
    get::<Option<i32>>(r, column).map(i64::from)
}

fn partition(r: &Row) -> i64 {
    i64::from(get::<i16>(r, "partition_key"))
}

fn seq(r: &Row) -> u64 {
    u64::try_from(get::<i64>(r, "seq")).unwrap()
}

fn id(r: &Row) -> ExecutionId {
    execution_id(partition(r), &uuid(r, "execution_id")).unwrap()
}

fn read_execution(r: &Row) -> ff_core::Execution {
    let lease = get::<Option<i64>>(r, "lease_epoch").map(|epoch| LeaseColumns {
        epoch,
        claim_id: uuid(r, "claim_id"),
        acquired_at_ms: get(r, "acquired_at_ms"),
        renewed_at_ms: get(r, "renewed_at_ms"),
        until_ms: get(r, "until_ms"),
        check_at_ms: get(r, "check_at_ms"),
    });
    let x = ExecutionRow {
        partition_key: partition(r),
        execution_id: get::<Uuid>(r, "execution_id").into_bytes(),
        version: get(r, "version"),
        namespace: get(r, "namespace"),
        lane_id: get(r, "lane_id"),
        kind: get(r, "kind"),
        creator: get(r, "creator"),
        policy: get::<Option<&str>>(r, "policy").map(Into::into),
        idempotency_key: get(r, "idempotency_key"),
        fingerprint: get(r, "fingerprint"),
        created_at_ms: get(r, "created_at_ms"),
        priority: int(r, "priority"),
        tags: get::<Option<&str>>(r, "tags").map(Into::into),
        deadline_at_ms: get(r, "deadline_at_ms"),
        epoch: get(r, "epoch"),
        attempts: int(r, "attempts"),
        retries: int(r, "retries"),
        reclaims: int(r, "reclaims"),
        replays: int(r, "replays"),
        progress_percent: maybe_int(r, "progress_percent"),
        progress_message: get(r, "progress_message"),
        progress_at_ms: get(r, "progress_at_ms"),
        flow_id: get::<Option<Uuid>>(r, "flow_id").map(Uuid::into_bytes),
        node: get(r, "node"),
        input_from: get::<Option<Uuid>>(r, "input_from").map(Uuid::into_bytes),
        started_at_ms: get(r, "started_at_ms"),
        updated_at_ms: get(r, "updated_at_ms"),
        phase: get(r, "phase"),
        outcome: get(r, "outcome"),
        next_attempt: get(r, "next_attempt"),
        wait_until_ms: get(r, "wait_until_ms"),
        wait_reason: get(r, "wait_reason"),
        held_reason: get(r, "held_reason"),
        held_at_ms: get(r, "held_at_ms"),
        gated: get(r, "gated"),
        lease_end: get(r, "lease_end"),
        attempt_index: maybe_int(r, "attempt_index"),
        attempt_kind: get(r, "attempt_kind"),
        worker_id: get(r, "worker_id"),
        worker_instance_id: get(r, "worker_instance_id"),
        attempt_started_at_ms: get(r, "attempt_started_at_ms"),
        attempt_ran_ms: get(r, "attempt_ran_ms"),
        resumed: get(r, "resumed"),
        timeout_at_ms: get(r, "timeout_at_ms"),
        failure_reason: get(r, "failure_reason"),
        failure_category: get(r, "failure_category"),
        has_result: get(r, "has_result"),
        result_digest: get(r, "result_digest"),
        cancelled_by: get(r, "cancelled_by"),
        end_reason: get(r, "end_reason"),
        terminal_at_ms: get(r, "terminal_at_ms"),
        retain_until_ms: get(r, "retain_until_ms"),
    };
    x.read(lease.as_ref()).unwrap()
}

type Key = (ff_core::text::Namespace, ff_core::text::IdempotencyKey);

fn read_key(r: &Row) -> (Key, KeyRow) {
    let key =
        (get::<String>(r, "namespace").parse().unwrap(), get::<String>(r, "key").parse().unwrap());
    let row = KeyRow {
        execution: id(r),
        fingerprint: Fingerprint(get(r, "fingerprint")),
        expires_at: Millis(get(r, "expires_at_ms")),
    };
    (key, row)
}

fn read_consumer(r: &Row) -> (ff_core::text::ConsumerName, Consumer) {
    let number = |column| u64::try_from(get::<i64>(r, column)).unwrap();
    let horizon = |snapshot, seq| Horizon { snapshot: get(r, snapshot), seq: number(seq) };
    let (base, upto) = (horizon("base", "base_seq"), horizon("upto", "upto_seq"));
    let window = Window { base, upto, after: number("after_seq") };
    let cursor = Cursor::Window(Box::new(window));
    let consumer = Consumer { cursor, updated_at: Millis(get(r, "updated_at_ms")) };
    (get::<String>(r, "name").parse().unwrap(), consumer)
}

fn read_attempt(r: &Row) -> AttemptRow {
    AttemptRow {
        attempt_index: int(r, "attempt_index"),
        kind: get(r, "kind"),
        worker_id: get(r, "worker_id"),
        worker_instance_id: get(r, "worker_instance_id"),
        started_at_ms: get(r, "started_at_ms"),
        ended_at_ms: get(r, "ended_at_ms"),
        outcome: get(r, "outcome"),
        failure_reason: get(r, "failure_reason"),
        failure_category: get(r, "failure_category"),
    }
}

fn read_step(r: &Row) -> StepRecord {
    let columns = StepRow {
        number: int(r, "number"),
        attempt_index: int(r, "attempt_index"),
        kind: get(r, "kind"),
        name: get(r, "name"),
        operation: get(r, "operation"),
        outcome: get(r, "outcome"),
        time_ms: get(r, "time_ms"),
        ran_ms: get(r, "ran_ms"),
        at_ms: get(r, "at_ms"),
        encoding: get(r, "encoding"),
        bytes: Bytes::from(get::<Vec<u8>>(r, "bytes")),
    };
    columns.read(id(r)).unwrap()
}

fn read_blob(r: &Row) -> Blob {
    let at = match get::<String>(r, "kind").as_str() {
        "input" => BlobRef::Input(id(r)),
        "result" => BlobRef::Result(id(r), u32::try_from(int(r, "attempt_index")).unwrap()),
        other => panic!("unknown payload kind {other}"),
    };
    let encoding = get::<Option<String>>(r, "encoding").map(|text| text.parse().unwrap());
    Blob { at, encoding, bytes: Bytes::from(get::<Vec<u8>>(r, "bytes")) }
}

fn read_queue(r: &Row) -> Queue {
    let capabilities: BTreeSet<String> =
        get::<Vec<String>>(r, "capabilities").into_iter().collect();
    let queue = Queue::new(get::<String>(r, "lane_id").parse().unwrap(), capabilities);
    assert_eq!(queue.id, QueueId(get(r, "queue")), "a queue's number follows from its content");
    queue
}

fn read_ready(r: &Row) -> Ready {
    Ready {
        rank: get(r, "rank"),
        turn: Millis(get(r, "turn_ms")),
        execution: id(r),
        queue: QueueId(get(r, "queue")),
    }
}

fn read_timer(r: &Row) -> Timer {
    let ready = get::<Option<i64>>(r, "queue").map(|_| read_ready(r));
    Timer {
        kind: get::<String>(r, "kind").parse().unwrap(),
        due: Millis(get(r, "due_ms")),
        execution: id(r),
        ready,
    }
}

fn read_tag(r: &Row) -> TagRow {
    TagRow { key: get(r, "key"), value: get(r, "value"), execution: id(r) }
}

fn read_event(r: &Row) -> (u64, ff_core::event::Event) {
    let row = EventRow {
        partition_key: partition(r),
        execution_id: uuid(r, "execution_id"),
        at_ms: get(r, "at_ms"),
        namespace: get(r, "namespace"),
        lane_id: get(r, "lane_id"),
        flow_id: get::<Option<Uuid>>(r, "flow_id").map(Uuid::into_bytes),
        kind: get(r, "kind"),
        attempt_index: maybe_int(r, "attempt_index"),
        outcome: get(r, "outcome"),
        reason: get(r, "reason"),
        failure_category: get(r, "failure_category"),
        worker_id: get(r, "worker_id"),
        worker_instance_id: get(r, "worker_instance_id"),
        retry_at_ms: get(r, "retry_at_ms"),
        priority_from: maybe_int(r, "priority_from"),
        priority_to: maybe_int(r, "priority_to"),
        members: maybe_int(r, "members"),
        signal_id: get::<Option<Uuid>>(r, "signal_id").map(Uuid::into_bytes),
        waitpoint_id: get::<Option<Uuid>>(r, "waitpoint_id").map(Uuid::into_bytes),
        source_identity: get(r, "source_identity"),
        subject: get(r, "subject"),
    };
    (seq(r), row.read().unwrap())
}
