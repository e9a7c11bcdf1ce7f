//! What a store keeps of suspensions, and loading it: every batch begins with none of it in memory, and
//! it changes only by what is written.

use std::collections::BTreeMap;

use ff_core::fold::{WaitKey, WaitSet, WaitWrites, WithinKey};
use ff_core::keyring::Keyring;
use ff_core::suspension::{
    CloseReason, Signal, SuspendKey, Suspension, SuspensionEnd, Waitpoint, WaitpointState,
};
use ff_core::text::IdempotencyKey;
use ff_core::{ExecutionId, Millis, WriteSet};
use uuid::Uuid;

/// The tables of suspensions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Waits {
    pub suspensions: BTreeMap<ExecutionId, Suspension>,
    pub waitpoints: BTreeMap<WithinKey, Waitpoint>,
    /// By their numbers.
    pub signals: BTreeMap<(ExecutionId, u32), Signal>,
    pub suspend_keys: BTreeMap<(ExecutionId, IdempotencyKey), SuspendKey>,
    pub keyring: Keyring,
}

impl Waits {
    pub fn waitpoint(&self, id: ExecutionId, waitpoint: Uuid) -> Option<&Waitpoint> {
        self.waitpoints.get(&(id, waitpoint))
    }

    pub fn waitpoints_of(&self, id: ExecutionId) -> impl Iterator<Item = &Waitpoint> {
        self.waitpoints.range((id, Uuid::nil())..=(id, Uuid::max())).map(|(_, row)| row)
    }

    pub fn signals_of(&self, id: ExecutionId) -> impl DoubleEndedIterator<Item = &Signal> {
        self.signals.range((id, 0)..=(id, u32::MAX)).map(|(_, row)| row)
    }

    fn is_open(&self, id: ExecutionId, waitpoint: Uuid) -> bool {
        let row = self.waitpoint(id, waitpoint);
        row.is_some_and(|row| !matches!(row.state, WaitpointState::Closed { .. }))
    }

    /// Loads a key of suspensions; what was never written is absent.
    pub fn load(&self, key: &WaitKey, have: &mut WaitSet) {
        match key {
            WaitKey::Suspension(id) => {
                have.suspensions.insert(*id, self.suspensions.get(id).cloned());
            }
            WaitKey::Waitpoints(id) => {
                have.gathered.insert(*id);
                let own = self.waitpoints_of(*id);
                have.load_waitpoints(own.filter(|row| self.is_open(*id, row.id)).cloned());
            }
            WaitKey::Waitpoint(id, waitpoint) => {
                let row = self.waitpoint(*id, *waitpoint).cloned();
                have.waitpoints.insert((*id, *waitpoint), row);
            }
            WaitKey::Received(id) => {
                let last = self.signals_of(*id).next_back();
                have.received.insert(*id, last.map_or(0, |signal| signal.number + 1));
            }
            WaitKey::Arrived(id) => {
                let own = self.signals_of(*id).filter(|signal| {
                    signal.effect.may_count() && self.is_open(*id, signal.waitpoint)
                });
                let own = own.map(|signal| (signal.number, signal.arrival()));
                have.arrived.insert(*id, own.collect());
            }
            WaitKey::Signal(id, signal) => {
                let there = self.signals_of(*id).any(|row| row.id == *signal);
                have.signals.insert((*id, *signal), there);
            }
            WaitKey::SignalKey(id, waitpoint, key) => {
                let mut own = self.signals_of(*id).rev().filter(|row| row.waitpoint == *waitpoint);
                let last = own.find(|row| row.idempotency_key.as_ref() == Some(key));
                let last = last.and_then(|row| Some((row.id, row.dedup_until?)));
                have.keyed.insert((*id, *waitpoint, key.clone()), last);
            }
            WaitKey::SuspendKey(id, key) => {
                let at = (*id, key.clone());
                let row = self.suspend_keys.get(&at).cloned();
                have.suspend_keys.insert(at, row);
            }
            WaitKey::Keyring => have.keyring = Some(self.keyring.clone()),
        }
    }

    /// Writes a set: what goes with executions first, then what they left open.
    pub fn write(&mut self, set: &WriteSet) {
        for id in &set.removed {
            self.suspensions.remove(id);
            self.waitpoints.retain(|(of, _), _| of != id);
            self.signals.retain(|(of, _), _| of != id);
            self.suspend_keys.retain(|(of, _), _| of != id);
        }
        let WaitWrites { suspensions, waitpoints, signals, suspend_keys, keys, left } = &set.waits;
        for write in suspensions {
            let stored = write.after.as_ref().and_then(|row| self.suspensions.get(&row.execution));
            assert_eq!(stored, write.before.as_ref(), "a write starts from what is stored");
        }
        for write in waitpoints {
            let at = write.after.as_ref().map(|row| (row.execution, row.id));
            let stored = at.and_then(|at| self.waitpoints.get(&at));
            assert_eq!(stored, write.before.as_ref(), "a write starts from what is stored");
        }
        for (id, at) in left {
            self.leave(*id, *at);
        }
        for row in suspensions.iter().filter_map(|write| write.after.clone()) {
            self.suspensions.insert(row.execution, row);
        }
        for row in waitpoints.iter().filter_map(|write| write.after.clone()) {
            self.waitpoints.insert((row.execution, row.id), row);
        }
        for signal in signals {
            let again = self.signals_of(signal.execution).find(|row| row.id == signal.id);
            assert_eq!(again, None, "a signal is kept once");
            let at = (signal.execution, signal.number);
            assert_eq!(self.signals.insert(at, signal.clone()), None, "and has its own number");
        }
        for row in suspend_keys {
            self.suspend_keys.insert((row.execution, row.key.clone()), row.clone());
        }
        for change in keys {
            self.keyring.apply(change.clone());
        }
    }

    /// Closes what an execution waited at when it ended.
    fn leave(&mut self, id: ExecutionId, at: Millis) {
        let how = CloseReason::Cancelled;
        if let Some(row) = self.suspensions.get_mut(&id) {
            row.end.get_or_insert(SuspensionEnd { at, how, by: Vec::new() });
        }
        for row in self.waitpoints.values_mut().filter(|row| row.execution == id) {
            if matches!(row.state, WaitpointState::Active { .. }) {
                *row = row.closed(at, how);
            }
        }
    }
}
