//! Suspensions: loading, writing and finding the rows of what executions wait for, and the keys
//! that sign tokens.
//!
//! What belongs to a suspension leads with the id of its execution, so that all of it stands
//! together.

pub mod due;
pub mod list;
mod rows;
pub mod write;

use ff_core::backend::StoreError;
use ff_core::fold::{WaitKey, WaitSet};
use ff_core::ids::ExecutionId;
use ff_core::keyring::{Keyring, OldKey};
use ff_core::row::number;
use ff_core::suspension::Waitpoint;
use ff_core::time::Millis;
use rusqlite::{Row, Transaction};
use uuid::Uuid;

use crate::codec::{Reader, key};
use crate::connection::store_error;
use crate::load::{all, one};
use crate::statements::{signal, signing_key, suspend_key, suspension, waitpoint};
use rows::{
    read_arrival, read_signing_key, read_suspend_key, read_suspension, read_uuid, read_waitpoint,
};

/// The columns of an execution's id with one of something that it owns, as parameters.
fn within_key(id: ExecutionId, within: Uuid) -> (i64, [u8; 16], [u8; 16]) {
    let (partition, uuid) = key(id);
    (partition, uuid, within.into_bytes())
}

/// Adds the rows of a suspension that `wanted` names to `have`.
pub fn load(tx: &Transaction<'_>, wanted: &WaitKey, have: &mut WaitSet) -> Result<(), StoreError> {
    match wanted {
        WaitKey::Suspension(id) => {
            let read = |row: &Row<'_>| read_suspension(&mut Reader::new(row));
            have.suspensions.insert(*id, one(tx, suspension::load, key(*id), read)?);
        }
        WaitKey::Waitpoints(id) => {
            have.load_waitpoints(all(tx, waitpoint::open, key(*id), only_waitpoint)?);
            have.gathered.insert(*id);
        }
        WaitKey::Waitpoint(id, within) => {
            let row = one(tx, waitpoint::load, within_key(*id, *within), only_waitpoint)?;
            have.waitpoints.insert((*id, *within), row);
        }
        WaitKey::Received(_)
        | WaitKey::Arrived(_)
        | WaitKey::Signal(..)
        | WaitKey::SignalKey(..) => {
            load_signals(tx, wanted, have)?;
        }
        WaitKey::SuspendKey(id, name) => {
            let (partition, uuid) = key(*id);
            let params = (partition, uuid, name.as_str());
            let row = one(tx, suspend_key::load, params, read_suspend_key)?;
            have.suspend_keys.insert((*id, name.clone()), row);
        }
        WaitKey::Keyring => have.keyring = Some(keyring(tx)?),
    }
    Ok(())
}

/// What is known of the signals that an execution received.
fn load_signals(
    tx: &Transaction<'_>,
    wanted: &WaitKey,
    have: &mut WaitSet,
) -> Result<(), StoreError> {
    match wanted {
        WaitKey::Received(id) => {
            let read = |row: &Row<'_>| number("received", Reader::new(row).take("received")?);
            let received = one(tx, signal::received, key(*id), read)?;
            have.received.insert(*id, received.unwrap_or(0));
        }
        WaitKey::Arrived(id) => {
            let arrived = all(tx, signal::arrived, key(*id), read_arrival)?;
            let arrived = arrived.into_iter().map(|arrival| (arrival.number, arrival));
            have.arrived.insert(*id, arrived.collect());
        }
        WaitKey::Signal(id, within) => {
            let read = |row: &Row<'_>| row.get(0).map_err(store_error);
            let exists = one(tx, signal::exists, within_key(*id, *within), read)?;
            have.signals.insert((*id, *within), exists.unwrap_or(false));
        }
        WaitKey::SignalKey(id, within, name) => {
            let (partition, uuid, at) = within_key(*id, *within);
            let last = one(tx, signal::keyed, (partition, uuid, at, name.as_str()), |row| {
                let mut r = Reader::new(row);
                Ok((read_uuid(&mut r, "signal_id")?, Millis(r.take("dedup_until_ms")?)))
            })?;
            have.keyed.insert((*id, *within, name.clone()), last);
        }
        WaitKey::Suspension(_)
        | WaitKey::Waitpoints(_)
        | WaitKey::Waitpoint(..)
        | WaitKey::SuspendKey(..)
        | WaitKey::Keyring => unreachable!("nothing of signals: {wanted:?}"),
    }
    Ok(())
}

fn only_waitpoint(row: &Row<'_>) -> Result<Waitpoint, StoreError> {
    read_waitpoint(&mut Reader::new(row))
}

fn keyring(tx: &Transaction<'_>) -> Result<Keyring, StoreError> {
    let mut keyring = Keyring::default();
    for (key, expires_at) in all(tx, signing_key::load, (), read_signing_key)? {
        match expires_at {
            Some(expires_at) => keyring.old.push(OldKey { key, expires_at }),
            None => keyring.current = Some(key),
        }
    }
    Ok(keyring)
}
