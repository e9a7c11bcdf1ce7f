//! The rows of suspensions: columns to values and back.

use bytes::Bytes;
use ff_core::backend::StoreError;
use ff_core::keyring::SigningKey;
use ff_core::row::{ArrivalRow, KeyColumns, SignalRow, SuspendKeyRow, SuspensionRow, WaitpointRow};
use ff_core::suspension::{Arrival, Signal, SuspendKey, Suspension, Waitpoint};
use ff_core::time::Millis;
use uuid::Uuid;

use crate::codec::{Composite, Reader, Record};

/// The next column, a UUID, as rows hold them.
fn uuid(r: &mut Reader<'_>, name: &str) -> Result<[u8; 16], StoreError> {
    Ok(r.take::<Uuid>(name)?.into_bytes())
}

fn partition_key(r: &mut Reader<'_>) -> Result<i64, StoreError> {
    Ok(i64::from(r.take::<i16>("partition_key")?))
}

/// Reads what `suspension/load.sql` selects.
pub fn read_suspension(r: &mut Reader<'_>) -> Result<Suspension, StoreError> {
    let columns = SuspensionRow {
        partition_key: partition_key(r)?,
        execution_id: uuid(r, "execution_id")?,
        suspension_id: uuid(r, "suspension_id")?,
        epoch: r.take("epoch")?,
        attempt_index: r.int("attempt_index")?,
        primary_waitpoint_id: uuid(r, "primary_waitpoint_id")?,
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

/// Reads what `waitpoint/load.sql` selects.
pub fn read_waitpoint(r: &mut Reader<'_>) -> Result<Waitpoint, StoreError> {
    let columns = WaitpointRow {
        partition_key: partition_key(r)?,
        execution_id: uuid(r, "execution_id")?,
        waitpoint_id: uuid(r, "waitpoint_id")?,
        waitpoint_key: r.take("waitpoint_key")?,
        attempt_index: r.int("attempt_index")?,
        suspension_id: r.maybe_uuid("suspension_id")?,
        kid: r.take("kid")?,
        token_digest: r.take("token_digest")?,
        created_at_ms: r.take("created_at_ms")?,
        signal_count: r.int("signal_count")?,
        matched_count: r.int("matched_count")?,
        last_signal_at_ms: r.take("last_signal_at_ms")?,
        state: r.take("state")?,
        activated_at_ms: r.take("activated_at_ms")?,
        expires_at_ms: r.take("expires_at_ms")?,
        closed_at_ms: r.take("closed_at_ms")?,
        close_reason: r.take("close_reason")?,
    };
    columns.read()
}

/// Reads what `signal/arrived.sql` selects.
pub fn read_arrival(r: &mut Reader<'_>) -> Result<Arrival, StoreError> {
    let columns = ArrivalRow {
        partition_key: partition_key(r)?,
        execution_id: uuid(r, "execution_id")?,
        signal_id: uuid(r, "signal_id")?,
        waitpoint_id: uuid(r, "waitpoint_id")?,
        number: r.int("number")?,
        name: r.take("name")?,
        source_type: r.take("source_type")?,
        source_identity: r.take("source_identity")?,
        subject: r.take("subject")?,
    };
    columns.read()
}

/// Reads what `list/signals.sql` selects.
pub fn read_signal(r: &mut Reader<'_>) -> Result<Signal, StoreError> {
    let columns = SignalRow {
        partition_key: partition_key(r)?,
        execution_id: uuid(r, "execution_id")?,
        signal_id: uuid(r, "signal_id")?,
        waitpoint_id: uuid(r, "waitpoint_id")?,
        number: r.int("number")?,
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
        payload: r.take::<Option<&[u8]>>("payload")?.map(Bytes::copy_from_slice),
        effect: r.take("effect")?,
    };
    columns.read()
}

/// Reads what `suspend_key/load.sql` selects.
pub fn read_suspend_key(r: &mut Reader<'_>) -> Result<SuspendKey, StoreError> {
    let columns = SuspendKeyRow {
        partition_key: partition_key(r)?,
        execution_id: uuid(r, "execution_id")?,
        idempotency_key: r.take("idempotency_key")?,
        suspension_id: uuid(r, "suspension_id")?,
        waitpoints: r.take("waitpoints")?,
        already_satisfied: r.take("already_satisfied")?,
        expires_at_ms: r.take("expires_at_ms")?,
    };
    columns.read()
}

/// Reads what `signing_key/load.sql` selects: a key, and its end if it is not the current one.
pub fn read_signing_key(r: &mut Reader<'_>) -> Result<(SigningKey, Option<Millis>), StoreError> {
    let columns = KeyColumns {
        kid: r.take("kid")?,
        secret: r.take("secret")?,
        created_at_ms: r.take("created_at_ms")?,
        expires_at_ms: r.take("expires_at_ms")?,
    };
    columns.read()
}

/// The two fields of an execution's id, as rows hold them.
fn of_execution(partition_key: i64, execution_id: [u8; 16], r: &mut Record<'_>) {
    r.short(partition_key);
    id(execution_id, r);
}

fn id(uuid: [u8; 16], r: &mut Record<'_>) {
    r.uuid(Some(Uuid::from_bytes(uuid)));
}

/// Suspensions.
pub fn suspensions(rows: &[SuspensionRow]) -> Composite {
    Composite::of("ff_suspension_row", rows, |row, r| {
        of_execution(row.partition_key, row.execution_id, r);
        id(row.suspension_id, r);
        r.long(row.epoch);
        r.int(row.attempt_index);
        id(row.primary_waitpoint_id, r);
        r.text(Some(&row.condition));
        r.long(row.resume_delay_ms);
        r.text(Some(&row.reason));
        r.text(Some(&row.requested_by));
        r.long(row.since_ms);
        r.text(Some(&row.timeout_behavior));
        r.text(row.continuation.as_deref());
        r.long(row.closed_at_ms);
        r.text(row.close_reason.as_deref());
        r.text(row.satisfied_by.as_deref());
    })
}

/// Waitpoints.
pub fn waitpoints(rows: &[WaitpointRow]) -> Composite {
    Composite::of("ff_waitpoint_row", rows, |row, r| {
        of_execution(row.partition_key, row.execution_id, r);
        id(row.waitpoint_id, r);
        r.text(Some(&row.waitpoint_key));
        r.int(row.attempt_index);
        r.uuid(row.suspension_id.map(Uuid::from_bytes));
        r.text(Some(&row.kid));
        r.bytes(Some(&row.token_digest));
        r.long(row.created_at_ms);
        r.int(row.signal_count);
        r.int(row.matched_count);
        r.long(row.last_signal_at_ms);
        r.text(Some(&row.state));
        r.long(row.activated_at_ms);
        r.long(row.expires_at_ms);
        r.long(row.closed_at_ms);
        r.text(row.close_reason.as_deref());
    })
}

/// Signals.
pub fn signals(rows: &[SignalRow]) -> Composite {
    Composite::of("ff_signal_row", rows, |row, r| {
        of_execution(row.partition_key, row.execution_id, r);
        id(row.signal_id, r);
        id(row.waitpoint_id, r);
        r.int(row.number);
        r.text(Some(&row.name));
        r.text(Some(&row.category));
        r.text(Some(&row.source_type));
        r.text(Some(&row.source_identity));
        r.text(row.subject.as_deref());
        r.text(row.correlation_id.as_deref());
        r.text(row.idempotency_key.as_deref());
        r.long(row.dedup_until_ms);
        r.long(row.created_at_ms);
        r.long(row.accepted_at_ms);
        r.text(row.encoding.as_deref());
        r.bytes(row.payload.as_deref());
        r.text(Some(&row.effect));
    })
}

/// What repeated suspensions are answered with.
pub fn suspend_keys(rows: &[SuspendKeyRow]) -> Composite {
    Composite::of("ff_suspend_key_row", rows, |row, r| {
        of_execution(row.partition_key, row.execution_id, r);
        r.text(Some(&row.idempotency_key));
        id(row.suspension_id, r);
        r.text(Some(&row.waitpoints));
        r.bool(Some(row.already_satisfied));
        r.long(row.expires_at_ms);
    })
}
