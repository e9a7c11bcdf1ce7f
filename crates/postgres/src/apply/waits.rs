//! What belongs to the suspensions of executions, as this process last wrote it.
//!
//! Whatever changes there changes the version of the execution too, so who finds an execution at the
//! version it remembers knows all of it. Ids of signals and waitpoints that are new are taken to be
//! new: the database refuses them if they are not.

use std::collections::BTreeMap;

use ff_core::command::Command;
use ff_core::execution::{Execution, Next, Runnable, State};
use ff_core::fold::{WaitKey, WaitSet, Write};
use ff_core::suspension::{Arrival, Signal, Suspension, Waitpoint, WaitpointWord};
use uuid::Uuid;

/// All there is of the suspensions of one execution, without what is closed.
#[derive(Clone, Default)]
pub struct Waits {
    suspension: Option<Suspension>,
    open: BTreeMap<Uuid, Waitpoint>,
    received: u32,
    arrived: BTreeMap<u32, Arrival>,
}

impl Waits {
    /// What is known after a write: nothing is there when nobody held the execution before.
    pub fn after(write: &Write<Execution>, known: Option<Self>) -> Option<Self> {
        let unheld = write.before.as_ref().is_none_or(|x| {
            let first = Next::First;
            matches!(&x.state, State::Runnable(Runnable { next, last_lease: None, .. })
                if *next == first)
        });
        known.or_else(|| unheld.then(Self::default))
    }

    pub fn suspended(&mut self, suspension: &Suspension) {
        self.suspension = Some(suspension.clone());
    }

    pub fn put(&mut self, waitpoint: &Waitpoint) {
        match waitpoint.state.word() {
            WaitpointWord::Pending | WaitpointWord::Active => {
                self.open.insert(waitpoint.id, waitpoint.clone());
            }
            WaitpointWord::Closed => {
                self.open.remove(&waitpoint.id);
                self.arrived.retain(|_, arrival| arrival.waitpoint != waitpoint.id);
            }
        }
    }

    pub fn received(&mut self, signal: &Signal) {
        self.received = signal.number + 1;
        if signal.effect.may_count() && self.open.contains_key(&signal.waitpoint) {
            self.arrived.insert(signal.number, signal.arrival());
        }
    }

    /// The rows that `command` needs; whether all of them are known.
    pub fn recall(&self, key: WaitKey, command: &Command, have: &mut WaitSet) -> bool {
        let makes = match command {
            // Who repeats itself is answered with waitpoints that may be closed by now.
            Command::Suspend(suspend) => {
                self.suspension.as_ref().is_none_or(|last| last.id != suspend.suspension)
            }
            command => matches!(command, Command::CreateWaitpoint(_)),
        };
        match key {
            WaitKey::Suspension(id) => drop(have.suspensions.insert(id, self.suspension.clone())),
            WaitKey::Waitpoints(id) => {
                have.gathered.insert(id);
                have.load_waitpoints(self.open.values().cloned());
            }
            WaitKey::Waitpoint(id, waitpoint) => {
                let known = self.open.get(&waitpoint).cloned();
                if known.is_none() && !makes {
                    return false;
                }
                have.waitpoints.insert((id, waitpoint), known);
            }
            WaitKey::Received(id) => drop(have.received.insert(id, self.received)),
            WaitKey::Arrived(id) => drop(have.arrived.insert(id, self.arrived.clone())),
            WaitKey::Signal(id, signal) => drop(have.signals.insert((id, signal), false)),
            WaitKey::SignalKey(id, waitpoint, key) if self.received == 0 => {
                have.keyed.insert((id, waitpoint, key), None);
            }
            WaitKey::SuspendKey(id, key) if self.suspension.is_none() => {
                have.suspend_keys.insert((id, key), None);
            }
            // What is not remembered is read.
            WaitKey::SignalKey(..) | WaitKey::SuspendKey(..) | WaitKey::Keyring => return false,
        }
        true
    }
}
