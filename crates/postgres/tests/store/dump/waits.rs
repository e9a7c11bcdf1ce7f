//! The tables of suspensions.

use bytes::Bytes;
use ff_conformance::model::Tables;
use ff_core::keyring::OldKey;
use ff_core::row::{KeyColumns, SignalRow, SuspendKeyRow, SuspensionRow, WaitpointRow};
use ff_core::suspension::{Signal, SuspendKey, Suspension, Waitpoint};
use tokio_postgres::{Client, Row};
use uuid::Uuid;

use super::{get, int, partition, rows};

/// Everything of suspensions, and the keys that sign tokens.
pub async fn read(db: &Client, tables: &mut Tables) {
    for row in rows(db, "select * from ff_suspension_current", read_suspension).await {
        tables.suspensions.insert(row.execution, row);
    }
    for row in rows(db, "select * from ff_waitpoint", read_waitpoint).await {
        tables.waitpoints.insert((row.execution, row.id), row);
    }
    for row in rows(db, "select * from ff_signal", read_signal).await {
        tables.signals.insert((row.execution, row.number), row);
    }
    for row in rows(db, "select * from ff_suspend_key", read_suspend_key).await {
        tables.suspend_keys.insert((row.execution, row.key.clone()), row);
    }
    for columns in rows(db, "select * from ff_signing_key order by turn", read_key).await {
        match columns.read().unwrap() {
            (key, None) => assert_eq!(tables.keyring.current.replace(key), None, "one key signs"),
            (key, Some(expires_at)) => tables.keyring.old.push(OldKey { key, expires_at }),
        }
    }
}

fn bytes(r: &Row, column: &str) -> [u8; 16] {
    get::<Uuid>(r, column).into_bytes()
}

fn read_suspension(r: &Row) -> Suspension {
    let row = SuspensionRow {
        partition_key: partition(r),
        execution_id: bytes(r, "execution_id"),
        suspension_id: bytes(r, "suspension_id"),
        epoch: get(r, "epoch"),
        attempt_index: int(r, "attempt_index"),
        primary_waitpoint_id: bytes(r, "primary_waitpoint_id"),
        condition: get(r, "condition"),
        resume_delay_ms: get(r, "resume_delay_ms"),
        reason: get(r, "reason"),
        requested_by: get(r, "requested_by"),
        since_ms: get(r, "since_ms"),
        timeout_behavior: get(r, "timeout_behavior"),
        continuation: get(r, "continuation"),
        closed_at_ms: get(r, "closed_at_ms"),
        close_reason: get(r, "close_reason"),
        satisfied_by: get(r, "satisfied_by"),
    };
    let suspension = row.read().unwrap();
    assert_eq!(SuspensionRow::from(&suspension), row, "a suspension is stored as it is written");
    suspension
}

fn read_waitpoint(r: &Row) -> Waitpoint {
    let row = WaitpointRow {
        partition_key: partition(r),
        execution_id: bytes(r, "execution_id"),
        waitpoint_id: bytes(r, "waitpoint_id"),
        waitpoint_key: get(r, "waitpoint_key"),
        attempt_index: int(r, "attempt_index"),
        suspension_id: get::<Option<Uuid>>(r, "suspension_id").map(Uuid::into_bytes),
        kid: get(r, "kid"),
        token_digest: get(r, "token_digest"),
        created_at_ms: get(r, "created_at_ms"),
        signal_count: int(r, "signal_count"),
        matched_count: int(r, "matched_count"),
        last_signal_at_ms: get(r, "last_signal_at_ms"),
        state: get(r, "state"),
        activated_at_ms: get(r, "activated_at_ms"),
        expires_at_ms: get(r, "expires_at_ms"),
        closed_at_ms: get(r, "closed_at_ms"),
        close_reason: get(r, "close_reason"),
    };
    let waitpoint = row.read().unwrap();
    assert_eq!(WaitpointRow::from(&waitpoint), row, "a waitpoint is stored as it is written");
    waitpoint
}

fn read_signal(r: &Row) -> Signal {
    let row = SignalRow {
        partition_key: partition(r),
        execution_id: bytes(r, "execution_id"),
        signal_id: bytes(r, "signal_id"),
        waitpoint_id: bytes(r, "waitpoint_id"),
        number: int(r, "number"),
        name: get(r, "name"),
        category: get(r, "category"),
        source_type: get(r, "source_type"),
        source_identity: get(r, "source_identity"),
        subject: get(r, "subject"),
        correlation_id: get(r, "correlation_id"),
        idempotency_key: get(r, "idempotency_key"),
        dedup_until_ms: get(r, "dedup_until_ms"),
        created_at_ms: get(r, "created_at_ms"),
        accepted_at_ms: get(r, "accepted_at_ms"),
        encoding: get(r, "encoding"),
        payload: get::<Option<Vec<u8>>>(r, "payload").map(Bytes::from),
        effect: get(r, "effect"),
    };
    let signal = row.read().unwrap();
    assert_eq!(SignalRow::from(&signal), row, "a signal is stored as it is written");
    signal
}

fn read_suspend_key(r: &Row) -> SuspendKey {
    let row = SuspendKeyRow {
        partition_key: partition(r),
        execution_id: bytes(r, "execution_id"),
        idempotency_key: get(r, "idempotency_key"),
        suspension_id: bytes(r, "suspension_id"),
        waitpoints: get(r, "waitpoints"),
        already_satisfied: get(r, "already_satisfied"),
        expires_at_ms: get(r, "expires_at_ms"),
    };
    row.read().unwrap()
}

fn read_key(r: &Row) -> KeyColumns {
    KeyColumns {
        kid: get(r, "kid"),
        secret: get(r, "secret"),
        created_at_ms: get(r, "created_at_ms"),
        expires_at_ms: get(r, "expires_at_ms"),
    }
}
