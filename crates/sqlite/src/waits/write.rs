//! Writing what a fold decided about suspensions and keys.

use ff_core::Millis;
use ff_core::backend::StoreError;
use ff_core::fold::WaitWrites;
use ff_core::ids::ExecutionId;
use ff_core::keyring::KeyChange;
use ff_core::row::{SignalRow, SuspendKeyRow, SuspensionRow, WaitpointRow};
use rusqlite::{Transaction, params};

use super::rows::{suspension_params, waitpoint_params};
use crate::codec::key;
use crate::statements::{signal, signing_key, suspend_key, suspension, waitpoint};
use crate::write::run;

/// Everything: what an execution left open is closed first, for it may be replayed and suspended
/// again in the same batch. No row is guarded: all were read in this transaction.
pub fn write(tx: &Transaction<'_>, set: &WaitWrites) -> Result<(), StoreError> {
    for (id, at) in &set.left {
        let (partition, uuid) = key(*id);
        run(tx, suspension::close, (partition, uuid, at.0))?;
        run(tx, waitpoint::close, (partition, uuid, at.0))?;
    }
    let suspensions = set.suspensions.iter().filter_map(|write| write.after.as_ref());
    for row in suspensions.map(SuspensionRow::from) {
        run(tx, suspension::put, &suspension_params(&row)[..])?;
    }
    let waitpoints = set.waitpoints.iter().filter_map(|write| write.after.as_ref());
    for row in waitpoints.map(WaitpointRow::from) {
        run(tx, waitpoint::put, &waitpoint_params(&row)[..])?;
    }
    set.signals.iter().try_for_each(|row| insert_signal(tx, &SignalRow::from(row)))?;
    set.suspend_keys.iter().try_for_each(|row| put_suspend_key(tx, &SuspendKeyRow::from(row)))?;
    set.keys.iter().try_for_each(|change| change_keys(tx, change))
}

/// What belonged to the suspensions of an execution goes with it.
pub fn remove(tx: &Transaction<'_>, id: ExecutionId) -> Result<(), StoreError> {
    let tables = [suspension::remove, waitpoint::remove, signal::remove, suspend_key::remove];
    tables.into_iter().try_for_each(|sql| run(tx, sql, key(id)))
}

fn insert_signal(tx: &Transaction<'_>, s: &SignalRow) -> Result<(), StoreError> {
    let params = params![
        s.partition_key,
        s.execution_id,
        s.signal_id,
        s.waitpoint_id,
        s.number,
        s.name,
        s.category,
        s.source_type,
        s.source_identity,
        s.subject,
        s.correlation_id,
        s.idempotency_key,
        s.dedup_until_ms,
        s.created_at_ms,
        s.accepted_at_ms,
        s.encoding,
        s.payload.as_deref(),
        s.effect
    ];
    run(tx, signal::insert, params)
}

fn put_suspend_key(tx: &Transaction<'_>, k: &SuspendKeyRow) -> Result<(), StoreError> {
    let params = params![
        k.partition_key,
        k.execution_id,
        k.idempotency_key,
        k.suspension_id,
        k.waitpoints,
        k.already_satisfied,
        k.expires_at_ms
    ];
    run(tx, suspend_key::put, params)
}

/// The old keys go first, for a new one may take the name of one of them, and the current one steps
/// down before the next takes its place, for there is room for one only.
fn change_keys(tx: &Transaction<'_>, change: &KeyChange) -> Result<(), StoreError> {
    for kid in &change.forget {
        run(tx, signing_key::remove, (kid.as_str(),))?;
    }
    if let Some((kid, expires_at)) = &change.retire {
        run(tx, signing_key::retire, (kid.as_str(), expires_at.0))?;
    }
    for kid in &change.withdraw {
        run(tx, signing_key::withdraw, (kid.as_str(), Millis::ZERO.0))?;
    }
    let new = &change.install;
    run(tx, signing_key::insert, (new.kid.as_str(), new.secret.bytes(), new.created_at.0))
}
