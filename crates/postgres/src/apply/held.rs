//! Executions that workers of this process hold or gave back to wait, as last written.
//!
//! What is remembered is only ever a guess that the write checks: nothing is answered from it.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard};

use ff_core::Claimed;
use ff_core::command::{Command, Traffic};
use ff_core::execution::{Execution, Next, Runnable, State};
use ff_core::fold::{Key, WaitKey, WaitWrites, WorkingSet, WriteSet};
use ff_core::ids::ExecutionId;
use ff_core::keyring::Keyring;
use ff_core::needs;

use super::graphs::{Graphs, Input};
use super::rounds::ROUNDS_MAX;
use super::waits::Waits;
use crate::codec::Tid;
use crate::write::{ById, Places, Signs};

/// Executions remembered; beyond it all are forgotten, which costs one read each.
const HELD_MAX: usize = 20_000;

/// Executions that workers of this process hold, or gave back to wait for something.
#[derive(Default)]
pub struct Held {
    executions: Mutex<ById<Known>>,
    /// The keys that sign tokens, as they were last read.
    keyring: Mutex<Option<Keyring>>,
}

/// An execution, and where it stands if that is known.
struct Known {
    execution: Execution,
    at: Option<Tid>,
    /// What belongs to its suspensions, if that is known.
    waits: Option<Waits>,
    /// Whoever goes on with it needs it again.
    input: Input,
}

/// What a batch needs, as it is remembered.
#[derive(Default)]
pub struct Recalled {
    /// The rows.
    pub have: WorkingSet,
    /// Where they stand.
    pub places: Places,
    /// Executions that wait for others, as far as is known.
    pub waiting: BTreeSet<ExecutionId>,
    /// The key that signs and since when, if it matters.
    pub signs: Option<Signs>,
}

impl Recalled {
    fn names_waiting(&self, command: &Command) -> bool {
        let named = |key: &Key| matches!(key, Key::Execution(id) if self.waiting.contains(id));
        !self.waiting.is_empty() && needs(command, &WorkingSet::default()).iter().any(named)
    }
}

impl Held {
    fn lock(&self) -> MutexGuard<'_, ById<Known>> {
        self.executions.lock().expect("no holder of this lock panics")
    }

    fn keyring(&self) -> MutexGuard<'_, Option<Keyring>> {
        self.keyring.lock().expect("no holder of this lock panics")
    }

    /// Work was handed out with its input.
    pub fn given<'c>(&self, claimed: impl Iterator<Item = &'c Claimed>) {
        let mut held = self.lock();
        for work in claimed {
            let own = work.leased.execution.input_from.is_none();
            if let Some(known) = held.get_mut(&work.leased.execution.id).filter(|_| own) {
                known.input = Input::new(work.input.as_ref());
            }
        }
    }

    /// The keys were read.
    pub fn keys(&self, keys: &Keyring) {
        if keys.current.is_some() {
            *self.keyring() = Some(keys.clone());
        }
    }

    /// The rows that a batch needs, as far as they can be guessed: executions remembered, and nothing
    /// where a creation or a step expects nothing; for those who tell a flow of an end, or start what
    /// that lets go, also the flow.
    pub fn recall(&self, batch: &[Command], graphs: &Graphs) -> Option<Recalled> {
        let held = self.lock();
        let mut recalled = Recalled::default();
        for command in batch {
            let creates = command.traffic() == Traffic::Create;
            let tells =
                matches!(command, Command::DispatchCompletion(_) | Command::StartReleased(_));
            // What is known of those that wait is good enough for letting them go, and for no more.
            if !tells && recalled.names_waiting(command) {
                return None;
            }
            let Recalled { have, places, waiting, signs } = &mut recalled;
            for _ in 0..ROUNDS_MAX {
                let keys = needs(command, have);
                if keys.is_empty() {
                    break;
                }
                for key in keys {
                    match key {
                        Key::Execution(id) if held.contains_key(&id) || creates => {
                            let known = held.get(&id);
                            if let Some(at) = known.and_then(|known| known.at) {
                                places.executions.insert(id, at);
                            }
                            have.executions.insert(id, known.map(|known| known.execution.clone()));
                        }
                        Key::Idempotency(namespace, key) if creates => {
                            have.keys.insert((namespace, key), None);
                        }
                        // Nothing is recorded twice but by who has lost its answer.
                        Key::Step(id, number) => drop(have.steps.insert((id, number), None)),
                        key if tells && graphs.recall(&key, have) => {
                            if let Key::Execution(id) = key {
                                waiting.insert(id);
                            }
                        }
                        Key::Input(id) => {
                            let input = match &held.get(&id)?.input {
                                Input::Known(input) => Some(input.clone()),
                                Input::Empty => None,
                                Input::Unknown => return None,
                            };
                            have.inputs.insert(id, input);
                        }
                        Key::Wait(WaitKey::Keyring) => {
                            let keys = self.keyring().clone()?;
                            *signs =
                                keys.current.as_ref().map(|key| (key.kid.clone(), key.created_at));
                            have.waits.keyring = Some(keys);
                        }
                        Key::Wait(key) => {
                            let known = held.get(&key.execution()?)?.waits.as_ref()?;
                            if !known.recall(key, command, &mut have.waits) {
                                return None;
                            }
                        }
                        // What is not remembered is read.
                        _ => return None, // not ours: recalling names them all
                    }
                }
            }
        }
        Some(recalled)
    }

    /// Remembers what was written and is held now, and where it stands.
    pub fn learn(&self, set: &WriteSet, places: &ById<Tid>) {
        let mut held = self.lock();
        if held.len() > HELD_MAX {
            held.clear();
        }
        for id in &set.removed {
            held.remove(id);
        }
        for write in &set.executions {
            let Some(x) = &write.after else { continue };
            let version = write.before.as_ref().map(|before| before.version);
            let known = held.remove(&x.id).filter(|it| Some(it.execution.version) == version);
            let (waits, input) = known.map(|known| (known.waits, known.input)).unwrap_or_default();
            let waits = Waits::after(write, waits);
            let keep = match &x.state {
                State::Active(_) | State::Suspended(_) => true,
                // It goes on soon, most likely here.
                State::Runnable(Runnable { next: Next::Resume(_), gated: false, .. }) => {
                    waits.is_some()
                }
                State::Runnable(_) | State::Terminal(_) => false,
            };
            if keep {
                let at = places.get(&x.id).copied();
                held.insert(x.id, Known { execution: x.clone(), at, waits, input });
            }
        }
        for (id, _) in &set.waits.left {
            // What was closed there is not all known here.
            held.entry(*id).and_modify(|known| known.waits = None);
        }
        learn_waits(&mut held, &set.waits);
        if !set.waits.keys.is_empty() {
            *self.keyring() = None;
        }
        for row in set.leases.iter().filter_map(|write| write.after.as_ref()) {
            // The answer to a renewal may come late, when another lease holds the execution.
            if let Some(known) = held.get_mut(&row.execution)
                && known.execution.epoch == row.epoch
                && let State::Active(active) = &mut known.execution.state
            {
                active.lease = row.lease.clone();
            }
        }
    }

    /// Forgets what a batch would have written.
    pub fn forget(&self, set: &WriteSet) {
        let mut held = self.lock();
        for write in &set.executions {
            for x in [&write.before, &write.after].into_iter().flatten() {
                held.remove(&x.id);
            }
        }
        for row in set.leases.iter().flat_map(|write| [&write.before, &write.after]).flatten() {
            held.remove(&row.execution);
        }
        for row in &set.held {
            held.remove(&row.execution);
        }
        *self.keyring() = None;
    }
}

/// Brings what is remembered of suspensions up to date with what was written.
fn learn_waits(held: &mut ById<Known>, set: &WaitWrites) {
    let mut of = |id: ExecutionId, learn: &dyn Fn(&mut Waits)| {
        if let Some(waits) = held.get_mut(&id).and_then(|known| known.waits.as_mut()) {
            learn(waits);
        }
    };
    for row in set.suspensions.iter().filter_map(|write| write.after.as_ref()) {
        of(row.execution, &|waits| waits.suspended(row));
    }
    for row in set.waitpoints.iter().filter_map(|write| write.after.as_ref()) {
        of(row.execution, &|waits| waits.put(row));
    }
    for signal in &set.signals {
        of(signal.execution, &|waits| waits.received(signal));
    }
}

#[cfg(test)]
mod tests {
    use ff_core::decide::create::Create;
    use ff_core::decide::release::Release;
    use ff_core::decide::renew::Renew;
    use ff_core::execution::Worker;
    use ff_core::fold::Cx;
    use ff_core::time::{Entropy, Millis};
    use ff_core::{ClaimAsk, Config, Fence, fold};
    use uuid::Uuid;

    use super::*;

    struct Always;

    impl Entropy for Always {
        fn next_u64(&mut self) -> u64 {
            7
        }
    }

    fn decided(have: &mut WorkingSet, command: impl Into<Command>) -> WriteSet {
        let config = Config::default();
        let cursors = crate::feed::CURSORS;
        let mut cx = Cx { now: Millis(5_000), config: &config, entropy: &mut Always, cursors };
        let (outcomes, set) = fold(&[command.into()], have, &mut cx);
        assert!(outcomes[0].is_ok(), "{outcomes:?}");
        set
    }

    #[test]
    fn a_renewal_that_is_answered_late_does_not_bring_its_lease_back() {
        let name = "a valid name";
        let worker = Worker { id: "w".parse().expect(name), instance: "1".parse().expect(name) };
        let lane: ff_core::text::LaneId = "lane".parse().expect(name);
        let ask = || ClaimAsk::new(Uuid::now_v7(), worker.clone(), vec![lane.clone()]);
        let id = ExecutionId::solo(Uuid::now_v7());
        let (held, mut have) = (Held::default(), WorkingSet::default());
        have.executions.insert(id, None);
        decided(&mut have, Create::new(id, lane.clone(), "kind".parse().expect(name)));
        let (first, second) = (ask(), ask());
        let learn = |set: &WriteSet| held.learn(set, &ById::default());
        learn(&decided(&mut have, first.claim(id)));
        let fence = |have: &WorkingSet| {
            let x = have.execution(id).expect("it was created");
            Fence { attempt_index: 0, lease_epoch: x.epoch }
        };
        let own = fence(&have);
        let renewal = decided(&mut have, Renew { id, fence: own, lease_ttl_ms: 60_000 });
        learn(&decided(&mut have, Release { id, fence: own, untaken: false }));
        learn(&decided(&mut have, second.claim(id)));
        learn(&renewal);
        let known = held.lock();
        let State::Active(active) = &known[&id].execution.state else { panic!("it is held") };
        assert_eq!(active.lease.claim_id, second.claim_id);
    }
}
