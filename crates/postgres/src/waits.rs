//! Suspensions, waitpoints, signals and signing keys: the rows that decisions need.
//!
//! What belongs to an execution is read while the execution is locked. Keys are read without a lock:
//! whoever changes them finds out whether they are as they were read. A row that cannot be read is
//! reported under every key that asked for it.

pub mod list;
mod rows;
mod write;

use std::collections::{BTreeMap, BTreeSet};

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
use crate::connection::Step;
use crate::graph::gather;
use crate::load::Loaded;
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
        let mut run = |any: bool, sql, params: &dyn Fn() -> Params<'a>| {
            if any {
                steps.push(Step::Run(sql, params()));
            }
        };
        run(!self.suspensions.is_empty(), suspension::load, &|| of(&self.suspensions));
        run(!self.waitpoints.is_empty(), waitpoint::load, &|| {
            Params::new().within(self.waitpoints.iter().copied())
        });
        run(!self.open.is_empty(), waitpoint::open, &|| of(&self.open));
        run(!self.received.is_empty(), signal::received, &|| of(&self.received));
        run(!self.arrived.is_empty(), signal::arrived, &|| of(&self.arrived));
        run(!self.signals.is_empty(), signal::exists, &|| {
            Params::new().within(self.signals.iter().copied())
        });
        run(!self.keyed.is_empty(), signal::keyed, &|| {
            let rows = self.keyed.iter();
            let params =
                Params::new().within(rows.clone().map(|(id, waitpoint, _)| (*id, *waitpoint)));
            params.all(rows.map(|(.., key)| key.as_str()), Type::TEXT_ARRAY)
        });
        run(!self.suspend_keys.is_empty(), suspend_key::load, &|| {
            let rows = self.suspend_keys.iter();
            let params = Params::new().ids(rows.clone().map(|(id, _)| *id));
            params.all(rows.map(|(_, key)| key.as_str()), Type::TEXT_ARRAY)
        });
        run(self.keyring, signing_key::load, &Params::new);
    }

    /// Reads the answers to [`WaitWanted::load`].
    pub fn read(
        &self,
        answers: &mut dyn Iterator<Item = Vec<Row>>,
        loaded: &mut Loaded,
    ) -> Result<(), StoreError> {
        let mut next = |any: bool| any.then(|| answers.next()).flatten().unwrap_or_default();
        self.read_suspensions(&next(!self.suspensions.is_empty()), loaded)?;
        self.read_waitpoints(&next(!self.waitpoints.is_empty()), loaded)?;
        self.read_open(&next(!self.open.is_empty()), loaded)?;
        read_received(&next(!self.received.is_empty()), loaded)?;
        self.read_arrived(&next(!self.arrived.is_empty()), loaded)?;
        self.read_signals(&next(!self.signals.is_empty()), loaded)?;
        self.read_keyed(&next(!self.keyed.is_empty()), loaded)?;
        self.read_suspend_keys(&next(!self.suspend_keys.is_empty()), loaded)?;
        if self.keyring {
            read_keyring(&next(true), loaded);
        }
        Ok(())
    }

    fn read_suspensions(&self, rows: &[Row], loaded: &mut Loaded) -> Result<(), StoreError> {
        let have = &mut loaded.have.waits.suspensions;
        have.extend(self.suspensions.iter().map(|id| (*id, None)));
        for row in rows {
            let id = Reader::new(row).id()?;
            match read_suspension(&mut Reader::new(row)) {
                Ok(suspension) => drop(have.insert(id, Some(suspension))),
                Err(error) => {
                    have.remove(&id);
                    loaded.damaged.insert(Key::Wait(WaitKey::Suspension(id)), error);
                }
            }
        }
        Ok(())
    }

    fn read_waitpoints(&self, rows: &[Row], loaded: &mut Loaded) -> Result<(), StoreError> {
        let have = &mut loaded.have.waits.waitpoints;
        have.extend(self.waitpoints.iter().map(|key| (*key, None)));
        for row in rows {
            let mut r = Reader::new(row);
            let (id, waitpoint) = (r.id()?, r.take("waitpoint_id")?);
            match read_waitpoint(&mut Reader::new(row)) {
                Ok(read) => drop(have.insert((id, waitpoint), Some(read))),
                Err(error) => {
                    have.remove(&(id, waitpoint));
                    loaded.damaged.insert(Key::Wait(WaitKey::Waitpoint(id, waitpoint)), error);
                }
            }
        }
        Ok(())
    }

    fn read_open(&self, rows: &[Row], loaded: &mut Loaded) -> Result<(), StoreError> {
        for (id, read) in by_execution(&self.open, rows, read_waitpoint)? {
            match read {
                Ok(waitpoints) => {
                    let have = &mut loaded.have.waits;
                    have.load_waitpoints(waitpoints);
                    have.gathered.insert(id);
                }
                Err(error) => {
                    drop(loaded.damaged.insert(Key::Wait(WaitKey::Waitpoints(id)), error));
                }
            }
        }
        Ok(())
    }

    fn read_arrived(&self, rows: &[Row], loaded: &mut Loaded) -> Result<(), StoreError> {
        for (id, read) in by_execution(&self.arrived, rows, read_arrival)? {
            match read {
                Ok(arrived) => {
                    let arrived = arrived.into_iter().map(|row: Arrival| (row.number, row));
                    loaded.have.waits.arrived.insert(id, arrived.collect());
                }
                Err(error) => drop(loaded.damaged.insert(Key::Wait(WaitKey::Arrived(id)), error)),
            }
        }
        Ok(())
    }

    fn read_signals(&self, rows: &[Row], loaded: &mut Loaded) -> Result<(), StoreError> {
        let have = &mut loaded.have.waits.signals;
        have.extend(self.signals.iter().map(|key| (*key, false)));
        for row in rows {
            let mut r = Reader::new(row);
            have.insert((r.id()?, r.take("signal_id")?), true);
        }
        Ok(())
    }

    fn read_keyed(&self, rows: &[Row], loaded: &mut Loaded) -> Result<(), StoreError> {
        let have = &mut loaded.have.waits.keyed;
        have.extend(self.keyed.iter().map(|key| (key.clone(), None)));
        for row in rows {
            let mut r = Reader::new(row);
            let (id, waitpoint) = (r.id()?, r.take("waitpoint_id")?);
            let key = parse("idempotency_key", r.take("idempotency_key")?)?;
            let last = (r.take("signal_id")?, Millis(r.take("dedup_until_ms")?));
            have.insert((id, waitpoint, key), Some(last));
        }
        Ok(())
    }

    fn read_suspend_keys(&self, rows: &[Row], loaded: &mut Loaded) -> Result<(), StoreError> {
        let have = &mut loaded.have.waits.suspend_keys;
        have.extend(self.suspend_keys.iter().map(|key| (key.clone(), None)));
        for row in rows {
            let mut r = Reader::new(row);
            let id = r.id()?;
            let key: IdempotencyKey = parse("idempotency_key", r.take("idempotency_key")?)?;
            match read_suspend_key(&mut Reader::new(row)) {
                Ok(read) => drop(have.insert((id, key), Some(read))),
                Err(error) => {
                    have.remove(&(id, key.clone()));
                    loaded.damaged.insert(Key::Wait(WaitKey::SuspendKey(id, key)), error);
                }
            }
        }
        Ok(())
    }
}

fn of<'a>(ids: &BTreeSet<ExecutionId>) -> Params<'a> {
    Params::new().ids(ids.iter().copied())
}

/// Rows of each execution, which must all be readable.
type Each<T> = BTreeMap<ExecutionId, Result<Vec<T>, StoreError>>;

fn by_execution<T>(
    wanted: &BTreeSet<ExecutionId>,
    rows: &[Row],
    read: impl Fn(&mut Reader<'_>) -> Result<T, StoreError>,
) -> Result<Each<T>, StoreError> {
    let mut each: Each<T> = wanted.iter().map(|id| (*id, Ok(Vec::new()))).collect();
    for row in rows {
        let id = Reader::new(row).id()?;
        gather(each.entry(id).or_insert(Ok(Vec::new())), read(&mut Reader::new(row)));
    }
    Ok(each)
}

/// The answer names every execution that was asked for.
fn read_received(rows: &[Row], loaded: &mut Loaded) -> Result<(), StoreError> {
    for row in rows {
        let mut r = Reader::new(row);
        let id = r.id()?;
        loaded.have.waits.received.insert(id, number("number", r.int("received")?)?);
    }
    Ok(())
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
