//! Suspensions, waitpoints, signals and keys: columns to values and back.

use bytes::Bytes;
use ff_core::backend::StoreError;
use ff_core::keyring::SigningKey;
use ff_core::row::{ArrivalRow, KeyColumns, SignalRow, SuspendKeyRow, SuspensionRow, WaitpointRow};
use ff_core::suspension::{Arrival, Signal, SuspendKey, Suspension, Waitpoint};
use ff_core::time::Millis;
use rusqlite::{Row, ToSql};
use uuid::Uuid;

use crate::codec::Reader;

/// The next column, a UUID.
pub fn read_uuid(r: &mut Reader<'_, '_>, column: &str) -> Result<Uuid, StoreError> {
    Ok(Uuid::from_bytes(r.take(column)?))
}

/// Reads what `suspension/load.sql` selects.
pub fn read_suspension(r: &mut Reader<'_, '_>) -> Result<Suspension, StoreError> {
    let columns = SuspensionRow {
        partition_key: r.take("partition_key")?,
        execution_id: r.take("execution_id")?,
        suspension_id: r.take("suspension_id")?,
        epoch: r.take("epoch")?,
        attempt_index: r.take("attempt_index")?,
        primary_waitpoint_id: r.take("primary_waitpoint_id")?,
        condition: r.take("condition")?,
        resume_delay_ms: r.take("resume_delay_ms")?,
        reason: r.take("reason")?,
        requested_by: r.take("requested_by")?,
        since_ms: r.take("since_ms")?,
        timeout_behavior: r.take("timeout_behavior")?,
        continuation: r.take("continuation")?,
        closed_at_ms: r.take("closed_at_ms")?,
        close_reason: r.take("close_reason")?,
        satisfied_by: r.take("satisfied_by")?,
    };
    columns.read()
}

/// The parameters of `suspension/put.sql`, in the order of its columns.
pub fn suspension_params(s: &SuspensionRow) -> Vec<&dyn ToSql> {
    vec![
        &s.partition_key,
        &s.execution_id,
        &s.suspension_id,
        &s.epoch,
        &s.attempt_index,
        &s.primary_waitpoint_id,
        &s.condition,
        &s.resume_delay_ms,
        &s.reason,
        &s.requested_by,
        &s.since_ms,
        &s.timeout_behavior,
        &s.continuation,
        &s.closed_at_ms,
        &s.close_reason,
        &s.satisfied_by,
    ]
}

/// Reads what `waitpoint/load.sql` selects.
pub fn read_waitpoint(r: &mut Reader<'_, '_>) -> Result<Waitpoint, StoreError> {
    let columns = WaitpointRow {
        partition_key: r.take("partition_key")?,
        execution_id: r.take("execution_id")?,
        waitpoint_id: r.take("waitpoint_id")?,
        waitpoint_key: r.take("waitpoint_key")?,
        attempt_index: r.take("attempt_index")?,
        suspension_id: r.take("suspension_id")?,
        kid: r.take("kid")?,
        token_digest: r.take("token_digest")?,
        created_at_ms: r.take("created_at_ms")?,
        signal_count: r.take("signal_count")?,
        matched_count: r.take("matched_count")?,
        last_signal_at_ms: r.take("last_signal_at_ms")?,
        state: r.take("state")?,
        activated_at_ms: r.take("activated_at_ms")?,
        expires_at_ms: r.take("expires_at_ms")?,
        closed_at_ms: r.take("closed_at_ms")?,
        close_reason: r.take("close_reason")?,
    };
    columns.read()
}

/// The parameters of `waitpoint/put.sql`, in the order of its columns.
pub fn waitpoint_params(w: &WaitpointRow) -> Vec<&dyn ToSql> {
    vec![
        &w.partition_key,
        &w.execution_id,
        &w.waitpoint_id,
        &w.waitpoint_key,
        &w.attempt_index,
        &w.suspension_id,
        &w.kid,
        &w.token_digest,
        &w.created_at_ms,
        &w.signal_count,
        &w.matched_count,
        &w.last_signal_at_ms,
        &w.state,
        &w.activated_at_ms,
        &w.expires_at_ms,
        &w.closed_at_ms,
        &w.close_reason,
    ]
}

/// Reads what `list/signals.sql` selects.
pub fn read_signal(row: &Row<'_>) -> Result<Signal, StoreError> {
    let mut r = Reader::new(row);
    let columns = SignalRow {
        partition_key: r.take("partition_key")?,
        execution_id: r.take("execution_id")?,
        signal_id: r.take("signal_id")?,
        waitpoint_id: r.take("waitpoint_id")?,
        number: r.take("number")?,
        name: r.take("name")?,
        category: r.take("category")?,
        source_type: r.take("source_type")?,
        source_identity: r.take("source_identity")?,
        subject: r.take("subject")?,
        correlation_id: r.take("correlation_id")?,
        idempotency_key: r.take("idempotency_key")?,
        dedup_until_ms: r.take("dedup_until_ms")?,
        created_at_ms: r.take("created_at_ms")?,
        accepted_at_ms: r.take("accepted_at_ms")?,
        encoding: r.take("encoding")?,
        payload: r.take::<Option<Vec<u8>>>("payload")?.map(Bytes::from),
        effect: r.take("effect")?,
    };
    columns.read()
}

/// Reads what `signal/arrived.sql` selects.
pub fn read_arrival(row: &Row<'_>) -> Result<Arrival, StoreError> {
    let mut r = Reader::new(row);
    let columns = ArrivalRow {
        partition_key: r.take("partition_key")?,
        execution_id: r.take("execution_id")?,
        signal_id: r.take("signal_id")?,
        waitpoint_id: r.take("waitpoint_id")?,
        number: r.take("number")?,
        name: r.take("name")?,
        source_type: r.take("source_type")?,
        source_identity: r.take("source_identity")?,
        subject: r.take("subject")?,
    };
    columns.read()
}

/// Reads what `suspend_key/load.sql` selects.
pub fn read_suspend_key(row: &Row<'_>) -> Result<SuspendKey, StoreError> {
    let mut r = Reader::new(row);
    let columns = SuspendKeyRow {
        partition_key: r.take("partition_key")?,
        execution_id: r.take("execution_id")?,
        idempotency_key: r.take("idempotency_key")?,
        suspension_id: r.take("suspension_id")?,
        waitpoints: r.take("waitpoints")?,
        already_satisfied: r.take("already_satisfied")?,
        expires_at_ms: r.take("expires_at_ms")?,
    };
    columns.read()
}

/// Reads what `signing_key/load.sql` selects: a key, and its end unless it is the current one.
pub fn read_signing_key(row: &Row<'_>) -> Result<(SigningKey, Option<Millis>), StoreError> {
    let mut r = Reader::new(row);
    let columns = KeyColumns {
        kid: r.take("kid")?,
        secret: r.take("secret")?,
        created_at_ms: r.take("created_at_ms")?,
        expires_at_ms: r.take("expires_at_ms")?,
    };
    columns.read()
}
