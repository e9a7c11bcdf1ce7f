//! Suspensions, waitpoints, signals and signing keys: the rows that decisions need.
//!
//! What belongs to an execution is read while the execution is locked. Keys are read without a lock:
//! whoever changes them finds out whether they are as they were read. A row that cannot be read is
//! reported under every key that asked for it.

pub mod list;
mod rows;
mod write;

use std::collections::BTreeSet;

use ff_core::backend::StoreError;
use ff_core::fold::{Key, SignalKey, WaitKey, WithinKey};
use ff_core::ids::ExecutionId;
use ff_core::keyring::{Keyring, OldKey};
use ff_core::row::{number, parse};
use ff_core::suspension::Arrival;
use ff_core::text::IdempotencyKey;
use ff_core::time::Millis;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::codec::{Params, Reader};
use crate::connection::{Step, run_for};
use crate::load::{Answers, Loaded};
use crate::statements::{signal, signing_key, suspend_key, suspension, waitpoint};
use rows::{read_arrival, read_signing_key, read_suspend_key, read_suspension, read_waitpoint};
pub use rows::{signals, suspensions, waitpoints};
pub use write::{REMOVALS, WaitRows};

/// Rows of suspensions to load, by kind.
#[derive(Default)]
pub struct WaitWanted {
    suspensions: BTreeSet<ExecutionId>,
    /// All that are not closed.
    open: BTreeSet<ExecutionId>,
    waitpoints: BTreeSet<WithinKey>,
    received: BTreeSet<ExecutionId>,
    arrived: BTreeSet<ExecutionId>,
    signals: BTreeSet<WithinKey>,
    keyed: BTreeSet<SignalKey>,
    suspend_keys: BTreeSet<(ExecutionId, IdempotencyKey)>,
    keyring: bool,
}

impl WaitWanted {
    /// One more.
    pub fn add(&mut self, key: WaitKey) {
        match key {
            WaitKey::Suspension(id) => drop(self.suspensions.insert(id)),
            WaitKey::Waitpoints(id) => drop(self.open.insert(id)),
            WaitKey::Waitpoint(id, waitpoint) => drop(self.waitpoints.insert((id, waitpoint))),
            WaitKey::Received(id) => drop(self.received.insert(id)),
            WaitKey::Arrived(id) => drop(self.arrived.insert(id)),
            WaitKey::Signal(id, signal) => drop(self.signals.insert((id, signal))),
            WaitKey::SignalKey(id, waitpoint, key) => drop(self.keyed.insert((id, waitpoint, key))),
            WaitKey::SuspendKey(id, key) => drop(self.suspend_keys.insert((id, key))),
            WaitKey::Keyring => self.keyring = true,
        }
    }

    /// The statements that load everything; one for each kind of row.
    pub fn load<'a>(&'a self, steps: &mut Vec<Step<'a>>) {
        run_for(steps, suspension::load, &self.suspensions, of);
        run_for(steps, waitpoint::load, &self.waitpoints, within);
        run_for(steps, waitpoint::open, &self.open, of);
        run_for(steps, signal::received, &self.received, of);
        run_for(steps, signal::arrived, &self.arrived, of);
        run_for(steps, signal::exists, &self.signals, within);
        run_for(steps, signal::keyed, &self.keyed, |rows| {
            let at = rows.iter().map(|(id, waitpoint, _)| (*id, *waitpoint));
            let keys = rows.iter().map(|(.., key)| key.as_str());
            Params::new().within(at).all(keys, Type::TEXT_ARRAY)
        });
        run_for(steps, suspend_key::load, &self.suspend_keys, |rows| {
            let params = Params::new().ids(rows.iter().map(|(id, _)| *id));
            params.all(rows.iter().map(|(_, key)| key.as_str()), Type::TEXT_ARRAY)
        });
        if self.keyring {
            steps.push(Step::Run(signing_key::load, Params::new()));
        }
    }

    /// Reads the answers to [`WaitWanted::load`].
    pub fn read(&self, answers: &mut Answers, loaded: &mut Loaded) -> Result<(), StoreError> {
        let Loaded { have, damaged, .. } = loaded;
        let have = &mut have.waits;
        let suspension = |id| Key::Wait(WaitKey::Suspension(id));
        let suspensions = (&mut have.suspensions, &mut *damaged);
        answers.fill_readable(&self.suspensions, suspensions, suspension, |row| {
            Ok((Reader::new(row).id()?, read_suspension(&mut Reader::new(row))))
        })?;
        let waitpoint = |(id, waitpoint)| Key::Wait(WaitKey::Waitpoint(id, waitpoint));
        let waitpoints = (&mut have.waitpoints, &mut *damaged);
        answers.fill_readable(&self.waitpoints, waitpoints, waitpoint, |row| {
            let mut r = Reader::new(row);
            Ok(((r.id()?, r.take("waitpoint_id")?), read_waitpoint(&mut Reader::new(row))))
        })?;
        let open = |id| Key::Wait(WaitKey::Waitpoints(id));
        let open = answers.gather(&self.open, damaged, open, |row| {
            Ok((Reader::new(row).id()?, read_waitpoint(&mut Reader::new(row))))
        })?;
        for (id, waitpoints) in open {
            have.load_waitpoints(waitpoints);
            have.gathered.insert(id);
        }
        // The answer names every execution that was asked for.
        for row in answers.next(!self.received.is_empty()) {
            let mut r = Reader::new(&row);
            have.received.insert(r.id()?, number("number", r.int("received")?)?);
        }
        let arrivals = |id| Key::Wait(WaitKey::Arrived(id));
        let arrived = answers.gather(&self.arrived, damaged, arrivals, |row| {
            Ok((Reader::new(row).id()?, read_arrival(&mut Reader::new(row))))
        })?;
        have.arrived.extend(arrived.into_iter().map(|(id, rows)| {
            (id, rows.into_iter().map(|row: Arrival| (row.number, row)).collect())
        }));
        answers.fill(&self.signals, &mut have.signals, false, |r| {
            Ok(((r.id()?, r.take("signal_id")?), true))
        })?;
        answers.fill(&self.keyed, &mut have.keyed, None, |r| {
            let (id, waitpoint) = (r.id()?, r.take("waitpoint_id")?);
            let key = parse("idempotency_key", r.take("idempotency_key")?)?;
            let last = (r.take("signal_id")?, Millis(r.take("dedup_until_ms")?));
            Ok(((id, waitpoint, key), Some(last)))
        })?;
        let key = |(id, key)| Key::Wait(WaitKey::SuspendKey(id, key));
        let keys = (&mut have.suspend_keys, &mut *damaged);
        answers.fill_readable(&self.suspend_keys, keys, key, |row| {
            let mut r = Reader::new(row);
            let key = (r.id()?, parse("idempotency_key", r.take("idempotency_key")?)?);
            Ok((key, read_suspend_key(&mut Reader::new(row))))
        })?;
        if self.keyring {
            read_keyring(&answers.next(true), loaded);
        }
        Ok(())
    }
}

fn of<'a>(ids: &BTreeSet<ExecutionId>) -> Params<'a> {
    Params::new().ids(ids.iter().copied())
}

fn within<'a>(keys: &BTreeSet<WithinKey>) -> Params<'a> {
    Params::new().within(keys.iter().copied())
}

/// All keys, which must all be readable.
fn read_keyring(rows: &[Row], loaded: &mut Loaded) {
    let mut keyring = Keyring::default();
    for row in rows {
        match read_signing_key(&mut Reader::new(row)) {
            Ok((key, None)) => keyring.current = Some(key),
            Ok((key, Some(expires_at))) => keyring.old.push(OldKey { key, expires_at }),
            Err(error) => {
                loaded.damaged.insert(Key::Wait(WaitKey::Keyring), error);
                return;
            }
        }
    }
    loaded.have.waits.keyring = Some(keyring);
}
