//! Reads every table with plain SQL, to compare with the model and to audit.

mod flows;
mod waits;

use std::collections::BTreeSet;
use std::path::Path;

use bytes::Bytes;
use ff_conformance::model::Tables;
use ff_core::event::Cursor;
use ff_core::execution::Fingerprint;
use ff_core::fold::{Blob, BlobRef, Consumer, KeyRow};
use ff_core::index::{Queue, QueueId, Ready, TagRow, Timer};
use ff_core::row::{AttemptRow, EventRow, ExecutionRow, LeaseColumns, StepRow, execution_id};
use ff_core::step::StepRecord;
use ff_core::time::Millis;
use ff_core::{ExecutionId, State};
use rusqlite::{Connection, Row};

/// Everything in the file.
pub fn dump(path: &Path) -> Tables {
    let db = Connection::open(path).unwrap();
    let mut tables = Tables::default();
    for x in rows(&db, EXECUTIONS, read_execution) {
        tables.executions.insert(x.id, x);
    }
    let leases = rows(&db, "select * from ff_lease", id);
    let held = tables.executions.values().filter(|x| matches!(x.state, State::Active(_)));
    assert_eq!(leases.len(), held.count(), "a lease stands beside every active execution only");
    for (key, row) in rows(&db, "select * from ff_idempotency", read_key) {
        tables.keys.insert(key, row);
    }
    for (name, consumer) in rows(&db, "select * from ff_consumer", read_consumer) {
        tables.consumers.insert(name, consumer);
    }
    for attempt in rows(&db, "select * from ff_attempt", |r| read_attempt(r).read(id(r)).unwrap()) {
        tables.attempts.insert((attempt.execution, attempt.index), attempt);
    }
    for record in rows(&db, "select * from ff_step", read_step) {
        tables.steps.insert((record.execution, record.step.number), record);
    }
    for blob in rows(&db, "select * from ff_payload", read_blob) {
        tables.blobs.insert(blob.at, blob);
    }
    tables.queues = rows(&db, "select * from ff_queue", read_queue).into_iter().collect();
    tables.ready = rows(&db, "select * from ff_ready", read_ready).into_iter().collect();
    tables.timers = rows(&db, "select * from ff_timer", read_timer).into_iter().collect();
    tables.tags = rows(&db, "select * from ff_tag", read_tag).into_iter().collect();
    for (seq, event) in rows(&db, "select * from ff_event", read_event) {
        tables.events.insert(seq, event);
    }
    flows::read(&db, &mut tables);
    waits::read(&db, &mut tables);
    let newest = "select seq from sqlite_sequence where name = 'ff_event'";
    tables.last_seq = rows(&db, newest, seq).pop().unwrap_or(0);
    tables
}

const EXECUTIONS: &str = "select x.*, l.epoch as lease_epoch, l.claim_id, l.acquired_at_ms, \
    l.renewed_at_ms, l.until_ms, l.check_at_ms from ff_exec_core x \
    left join ff_lease l using (partition_key, execution_id)";

fn rows<T>(db: &Connection, sql: &str, read: impl Fn(&Row<'_>) -> T) -> Vec<T> {
    let mut statement = db.prepare(sql).unwrap();
    let rows = statement.query_map([], |row| Ok(read(row))).unwrap();
    rows.map(Result::unwrap).collect()
}

fn get<T: rusqlite::types::FromSql>(r: &Row<'_>, column: &str) -> T {
    r.get(column).unwrap()
}

fn text<'r>(r: &'r Row<'_>, column: &str) -> &'r str {
    r.get_ref(column).unwrap().as_str().unwrap()
}

fn maybe_text<'r>(r: &'r Row<'_>, column: &str) -> Option<&'r str> {
    r.get_ref(column).unwrap().as_str_or_null().unwrap()
}

fn seq(r: &Row<'_>) -> u64 {
    u64::try_from(get::<i64>(r, "seq")).unwrap()
}

fn id(r: &Row<'_>) -> ExecutionId {
    execution_id(get(r, "partition_key"), &get::<Vec<u8>>(r, "execution_id")).unwrap()
}

fn read_execution(r: &Row<'_>) -> ff_core::Execution {
    let lease = get::<Option<i64>>(r, "lease_epoch").map(|epoch| LeaseColumns {
        epoch,
        claim_id: get(r, "claim_id"),
        acquired_at_ms: get(r, "acquired_at_ms"),
        renewed_at_ms: get(r, "renewed_at_ms"),
        until_ms: get(r, "until_ms"),
        check_at_ms: get(r, "check_at_ms"),
    });
    let x = ExecutionRow {
        partition_key: get(r, "partition_key"),
        execution_id: get(r, "execution_id"),
        version: get(r, "version"),
        namespace: text(r, "namespace"),
        lane_id: text(r, "lane_id"),
        kind: text(r, "kind"),
        creator: text(r, "creator"),
        policy: maybe_text(r, "policy").map(Into::into),
        idempotency_key: maybe_text(r, "idempotency_key"),
        fingerprint: r.get_ref("fingerprint").unwrap().as_blob().unwrap(),
        created_at_ms: get(r, "created_at_ms"),
        priority: get(r, "priority"),
        tags: maybe_text(r, "tags").map(Into::into),
        deadline_at_ms: get(r, "deadline_at_ms"),
        epoch: get(r, "epoch"),
        attempts: get(r, "attempts"),
        retries: get(r, "retries"),
        reclaims: get(r, "reclaims"),
        replays: get(r, "replays"),
        progress_percent: get(r, "progress_percent"),
        progress_message: maybe_text(r, "progress_message"),
        progress_at_ms: get(r, "progress_at_ms"),
        flow_id: get(r, "flow_id"),
        node: maybe_text(r, "node"),
        input_from: get(r, "input_from"),
        started_at_ms: get(r, "started_at_ms"),
        updated_at_ms: get(r, "updated_at_ms"),
        phase: text(r, "phase"),
        outcome: maybe_text(r, "outcome"),
        next_attempt: maybe_text(r, "next_attempt"),
        wait_until_ms: get(r, "wait_until_ms"),
        wait_reason: maybe_text(r, "wait_reason"),
        held_reason: maybe_text(r, "held_reason"),
        held_at_ms: get(r, "held_at_ms"),
        gated: get(r, "gated"),
        lease_end: maybe_text(r, "lease_end"),
        attempt_index: get(r, "attempt_index"),
        attempt_kind: maybe_text(r, "attempt_kind"),
        worker_id: maybe_text(r, "worker_id"),
        worker_instance_id: maybe_text(r, "worker_instance_id"),
        attempt_started_at_ms: get(r, "attempt_started_at_ms"),
        attempt_ran_ms: get(r, "attempt_ran_ms"),
        resumed: get(r, "resumed"),
        timeout_at_ms: get(r, "timeout_at_ms"),
        failure_reason: maybe_text(r, "failure_reason"),
        failure_category: maybe_text(r, "failure_category"),
        has_result: get(r, "has_result"),
        result_digest: get(r, "result_digest"),
        cancelled_by: maybe_text(r, "cancelled_by"),
        end_reason: maybe_text(r, "end_reason"),
        terminal_at_ms: get(r, "terminal_at_ms"),
        retain_until_ms: get(r, "retain_until_ms"),
    };
    x.read(lease.as_ref()).unwrap()
}

type Key = (ff_core::text::Namespace, ff_core::text::IdempotencyKey);

fn read_key(r: &Row<'_>) -> (Key, KeyRow) {
    let key =
        (get::<String>(r, "namespace").parse().unwrap(), get::<String>(r, "key").parse().unwrap());
    let row = KeyRow {
        execution: id(r),
        fingerprint: Fingerprint(get(r, "fingerprint")),
        expires_at: Millis(get(r, "expires_at_ms")),
    };
    (key, row)
}

fn read_consumer(r: &Row<'_>) -> (ff_core::text::ConsumerName, Consumer) {
    let cursor = match seq(r) {
        0 => Cursor::Start,
        seq => Cursor::Seq(seq),
    };
    let consumer = Consumer { cursor, updated_at: Millis(get(r, "updated_at_ms")) };
    (get::<String>(r, "name").parse().unwrap(), consumer)
}

fn read_attempt(r: &Row<'_>) -> AttemptRow {
    AttemptRow {
        attempt_index: get(r, "attempt_index"),
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

fn read_step(r: &Row<'_>) -> StepRecord {
    let columns = StepRow {
        number: get(r, "number"),
        attempt_index: get(r, "attempt_index"),
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

fn read_blob(r: &Row<'_>) -> Blob {
    let at = match get::<String>(r, "kind").as_str() {
        "input" => BlobRef::Input(id(r)),
        "result" => BlobRef::Result(id(r), get(r, "attempt_index")),
        other => panic!("unknown payload kind {other}"),
    };
    let encoding = get::<Option<String>>(r, "encoding").map(|text| text.parse().unwrap());
    Blob { at, encoding, bytes: Bytes::from(get::<Vec<u8>>(r, "bytes")) }
}

fn read_queue(r: &Row<'_>) -> Queue {
    let capabilities: BTreeSet<String> =
        serde_json::from_str(&get::<String>(r, "capabilities")).unwrap();
    let queue = Queue::new(get::<String>(r, "lane_id").parse().unwrap(), capabilities);
    assert_eq!(queue.id, QueueId(get(r, "queue")), "a queue's number follows from its content");
    queue
}

fn read_ready(r: &Row<'_>) -> Ready {
    Ready {
        rank: get(r, "rank"),
        turn: Millis(get(r, "turn_ms")),
        execution: id(r),
        queue: QueueId(get(r, "queue")),
    }
}

fn read_timer(r: &Row<'_>) -> Timer {
    let ready = get::<Option<i64>>(r, "queue").map(|_| read_ready(r));
    Timer {
        kind: get::<String>(r, "kind").parse().unwrap(),
        due: Millis(get(r, "due_ms")),
        execution: id(r),
        ready,
    }
}

fn read_tag(r: &Row<'_>) -> TagRow {
    TagRow { key: get(r, "key"), value: get(r, "value"), execution: id(r) }
}

fn read_event(r: &Row<'_>) -> (u64, ff_core::event::Event) {
    let row = EventRow {
        partition_key: get(r, "partition_key"),
        execution_id: get(r, "execution_id"),
        at_ms: get(r, "at_ms"),
        namespace: get(r, "namespace"),
        lane_id: get(r, "lane_id"),
        flow_id: get(r, "flow_id"),
        kind: get(r, "kind"),
        attempt_index: get(r, "attempt_index"),
        outcome: get(r, "outcome"),
        reason: get(r, "reason"),
        failure_category: get(r, "failure_category"),
        worker_id: get(r, "worker_id"),
        worker_instance_id: get(r, "worker_instance_id"),
        retry_at_ms: get(r, "retry_at_ms"),
        priority_from: get(r, "priority_from"),
        priority_to: get(r, "priority_to"),
        members: get(r, "members"),
        signal_id: get(r, "signal_id"),
        waitpoint_id: get(r, "waitpoint_id"),
        source_identity: get(r, "source_identity"),
        subject: get(r, "subject"),
    };
    (seq(r), row.read().unwrap())
}
