//! The rows of suspensions in a batch: what is loaded of them, what one command changes, what is written.

use std::collections::{BTreeMap, BTreeSet};

use uuid::Uuid;

use super::{Key, Write, changes, put};
use crate::ids::ExecutionId;
use crate::keyring::{KeyChange, Keyring};
use crate::suspension::{
    Arrival, CloseReason, Signal, SuspendKey, Suspension, SuspensionEnd, Waitpoint, WaitpointState,
};
use crate::text::IdempotencyKey;
use crate::time::Millis;

/// Names something that belongs to an execution and has a UUID.
pub type WithinKey = (ExecutionId, Uuid);
/// Names a key under which a waitpoint was sent a signal.
pub type SignalKey = (ExecutionId, Uuid, IdempotencyKey);

/// Names a row that belongs to a suspension. It is read while its execution is locked; the keys that sign
/// are read without a lock.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WaitKey {
    /// The last suspension of an execution.
    Suspension(ExecutionId),
    /// All waitpoints of an execution that are not closed.
    Waitpoints(ExecutionId),
    /// A waitpoint.
    Waitpoint(ExecutionId, Uuid),
    /// How many signals an execution has received.
    Received(ExecutionId),
    /// The signals that may count and arrived at waitpoints of an execution which are not closed.
    Arrived(ExecutionId),
    /// A signal.
    Signal(ExecutionId, Uuid),
    /// The last signal to a waitpoint under a key.
    SignalKey(ExecutionId, Uuid, IdempotencyKey),
    /// A suspension under a key.
    SuspendKey(ExecutionId, IdempotencyKey),
    /// The keys that sign tokens.
    Keyring,
}

impl WaitKey {
    /// The execution whose it is; the keys that sign are nobody's.
    pub fn execution(&self) -> Option<ExecutionId> {
        match self {
            Self::Suspension(id)
            | Self::Waitpoints(id)
            | Self::Waitpoint(id, _)
            | Self::Received(id)
            | Self::Arrived(id)
            | Self::Signal(id, _)
            | Self::SignalKey(id, ..)
            | Self::SuspendKey(id, _) => Some(*id),
            Self::Keyring => None,
        }
    }
}

impl From<WaitKey> for Key {
    fn from(key: WaitKey) -> Self {
        Self::Wait(key)
    }
}

/// Loaded rows of suspensions; `None` is a row known to be absent.
#[derive(Clone, Debug, Default)]
pub struct WaitSet {
    /// The last suspension of an execution.
    pub suspensions: BTreeMap<ExecutionId, Option<Suspension>>,
    /// Executions of which all waitpoints that are not closed were loaded.
    pub gathered: BTreeSet<ExecutionId>,
    /// Waitpoints.
    pub waitpoints: BTreeMap<WithinKey, Option<Waitpoint>>,
    /// How many signals an execution has received.
    pub received: BTreeMap<ExecutionId, u32>,
    /// The signals that [may count](crate::suspension::Effect::may_count) and arrived at waitpoints of
    /// an execution which are not closed, by their numbers.
    pub arrived: BTreeMap<ExecutionId, BTreeMap<u32, Arrival>>,
    /// Whether there is a signal of this id.
    pub signals: BTreeMap<WithinKey, bool>,
    /// The last signal under a key, and until when the key stands for it.
    pub keyed: BTreeMap<SignalKey, Option<(Uuid, Millis)>>,
    /// Suspensions under a key.
    pub suspend_keys: BTreeMap<(ExecutionId, IdempotencyKey), Option<SuspendKey>>,
    /// The keys that sign tokens.
    pub keyring: Option<Keyring>,
}

impl WaitSet {
    /// Whether the row was looked up.
    pub(super) fn has(&self, key: &WaitKey) -> bool {
        match key {
            WaitKey::Suspension(id) => self.suspensions.contains_key(id),
            WaitKey::Waitpoints(id) => self.gathered.contains(id),
            WaitKey::Waitpoint(id, waitpoint) => self.waitpoints.contains_key(&(*id, *waitpoint)),
            WaitKey::Received(id) => self.received.contains_key(id),
            WaitKey::Arrived(id) => self.arrived.contains_key(id),
            WaitKey::Signal(id, signal) => self.signals.contains_key(&(*id, *signal)),
            WaitKey::SignalKey(id, waitpoint, key) => {
                self.keyed.contains_key(&(*id, *waitpoint, key.clone()))
            }
            WaitKey::SuspendKey(id, key) => self.suspend_keys.contains_key(&(*id, key.clone())),
            WaitKey::Keyring => self.keyring.is_some(),
        }
    }

    /// The last suspension of an execution, if it has been suspended.
    pub fn suspension(&self, id: ExecutionId) -> Option<&Suspension> {
        self.suspensions.get(&id).and_then(Option::as_ref)
    }

    /// A waitpoint of an execution.
    pub fn waitpoint(&self, id: ExecutionId, waitpoint: Uuid) -> Option<&Waitpoint> {
        self.waitpoints.get(&(id, waitpoint)).and_then(Option::as_ref)
    }

    /// The waitpoints of an execution that were loaded.
    pub fn waitpoints_of(&self, id: ExecutionId) -> impl Iterator<Item = &Waitpoint> {
        let all = self.waitpoints.range((id, Uuid::nil())..=(id, Uuid::max()));
        all.filter_map(|(_, waitpoint)| waitpoint.as_ref())
    }

    /// Takes in waitpoints.
    pub fn load_waitpoints(&mut self, rows: impl IntoIterator<Item = Waitpoint>) {
        self.waitpoints.extend(rows.into_iter().map(|row| ((row.execution, row.id), Some(row))));
    }
}

/// What one accepted command changes in suspensions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WaitEffects {
    /// A suspension as it is to be.
    pub suspension: Option<Suspension>,
    /// Waitpoints as they are to be.
    pub waitpoints: Vec<Waitpoint>,
    /// A signal that arrived.
    pub signal: Option<Signal>,
    /// What a repeated suspension is answered with.
    pub suspend_key: Option<SuspendKey>,
    /// What becomes of the keys.
    pub keys: Option<KeyChange>,
}

/// What a batch changes in suspensions. Those of executions that go are removed with them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WaitWrites {
    /// Suspensions to insert or update.
    pub suspensions: Vec<Write<Suspension>>,
    /// Waitpoints to insert or update.
    pub waitpoints: Vec<Write<Waitpoint>>,
    /// Signals to insert, in the order of their arrival.
    pub signals: Vec<Signal>,
    /// What repeated suspensions are answered with; one that expired may be overwritten.
    pub suspend_keys: Vec<SuspendKey>,
    /// What becomes of the keys, in this order.
    pub keys: Vec<KeyChange>,
    /// Executions that ended while they were suspended, and when: what is left open of their
    /// suspensions and waitpoints is to be closed as cancelled, before anything else is written: they
    /// may have been suspended again.
    pub left: Vec<(ExecutionId, Millis)>,
}

/// Rows as they were before the batch.
#[derive(Default)]
pub(super) struct Before {
    suspensions: BTreeMap<ExecutionId, Option<Suspension>>,
    waitpoints: BTreeMap<WithinKey, Option<Waitpoint>>,
}

impl WaitSet {
    /// Brings the rows up to date with what a command changes.
    pub(super) fn absorb(&mut self, effects: WaitEffects, set: &mut WaitWrites, was: &mut Before) {
        if let Some(row) = effects.suspension {
            // Whoever writes one had all of them loaded, so what was left before is written closed. A
            // store that closed it again would close this one.
            set.left.retain(|(id, _)| *id != row.execution);
            put(&mut self.suspensions, &mut was.suspensions, row.execution, Some(row));
        }
        for row in effects.waitpoints {
            put(&mut self.waitpoints, &mut was.waitpoints, (row.execution, row.id), Some(row));
        }
        if let Some(signal) = effects.signal {
            let id = signal.execution;
            self.signals.insert((id, signal.id), true);
            if let (Some(key), Some(until)) = (signal.idempotency_key.clone(), signal.dedup_until) {
                self.keyed.insert((id, signal.waitpoint, key), Some((signal.id, until)));
            }
            if signal.effect.may_count() {
                let arrived = self.arrived.entry(id).or_default();
                arrived.insert(signal.number, signal.arrival());
            }
            self.received.insert(id, signal.number + 1);
            set.signals.push(signal);
        }
        if let Some(row) = effects.suspend_key {
            self.suspend_keys.insert((row.execution, row.key.clone()), Some(row.clone()));
            set.suspend_keys.push(row);
        }
        if let Some(change) = effects.keys {
            self.keyring.get_or_insert_default().apply(change.clone());
            set.keys.push(change);
        }
    }

    /// Nothing is left of what belonged to an execution that goes; its id may be used again at once.
    pub(super) fn forget(&mut self, id: ExecutionId, set: &mut WaitWrites, was: &mut Before) {
        let gone = |(of, _): &WithinKey| *of == id;
        self.suspensions.entry(id).and_modify(|row| *row = None);
        was.suspensions.entry(id).and_modify(|row| *row = None);
        for rows in [&mut self.waitpoints, &mut was.waitpoints] {
            rows.iter_mut().filter(|(key, _)| gone(key)).for_each(|(_, row)| *row = None);
        }
        self.arrived.entry(id).and_modify(BTreeMap::clear);
        self.received.entry(id).and_modify(|count| *count = 0);
        self.signals.iter_mut().filter(|(key, _)| gone(key)).for_each(|(_, row)| *row = false);
        self.keyed.iter_mut().filter(|((of, ..), _)| *of == id).for_each(|(_, row)| *row = None);
        let keys = self.suspend_keys.iter_mut().filter(|((of, _), _)| *of == id);
        keys.for_each(|(_, row)| *row = None);
        set.signals.retain(|signal| signal.execution != id);
        set.suspend_keys.retain(|row| row.execution != id);
        set.left.retain(|(of, _)| *of != id);
    }

    /// An execution ended while it was suspended: whatever is loaded of its suspension is closed with it.
    pub(super) fn leave(
        &mut self,
        id: ExecutionId,
        at: Millis,
        set: &mut WaitWrites,
        was: &mut Before,
    ) {
        let how = CloseReason::Cancelled;
        if let Some(row) = self.suspension(id).cloned() {
            // What ends its execution itself said how.
            if row.end.is_some() {
                return;
            }
            let end = Some(SuspensionEnd { at, how, by: Vec::new() });
            put(&mut self.suspensions, &mut was.suspensions, id, Some(Suspension { end, ..row }));
        }
        let active = |row: &&Waitpoint| matches!(row.state, WaitpointState::Active { .. });
        let closed = self.waitpoints_of(id).filter(active).map(|row| row.closed(at, how));
        for row in closed.collect::<Vec<_>>() {
            put(&mut self.waitpoints, &mut was.waitpoints, (id, row.id), Some(row));
        }
        set.left.push((id, at));
    }

    /// What the batch changed, in the end.
    pub(super) fn writes(&self, was: Before, set: &mut WaitWrites) {
        set.suspensions = changes(was.suspensions, &self.suspensions);
        set.waitpoints = changes(was.waitpoints, &self.waitpoints);
    }
}
