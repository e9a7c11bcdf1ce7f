//! Work ahead: what a batch lets go is leased in the same commit for a claim that has not been made yet,
//! where claims of this process keep coming the moment something is let go.
//!
//! That is a guess, learnt from claims that came in time and unlearnt from those that did not. Nothing
//! rests on it: what nobody asks for within a moment is given back. No guess is made unless a look has
//! just found the queues empty, so nothing more urgent is passed over for longer than that look is good.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use ff_core::command::{Command, Outcome, Reply};
use ff_core::decide::deliver::Delivered;
use ff_core::decide::release::Release;
use ff_core::decide::start_released::StartReleased;
use ff_core::execution::State as Phase;
use ff_core::suspension::Effect;
use ff_core::{Backend, ClaimAsk, Claimed, Execution, ExecutionId, Interest, Key};
use tokio::time::Instant;
use uuid::Uuid;

use crate::batcher::Shared;
use crate::starts::Asked;

/// How soon a claim has to come after something was let go. Longer than a thread waits for its turn.
const MOMENT: Duration = Duration::from_millis(5);
/// From so much trust on, claims are expected. One that comes in time adds one.
const TRUSTED_FROM: u32 = 16;
/// The same where one guess after the other was wrong: twice as much each time, up to so much.
const TRUSTED_FROM_MAX: u32 = 4_096;
/// What one that does not come takes away: more than eight of nine have to come.
const MISSED: u32 = 8;
/// How much more trust there may be than is needed.
const TRUST_SPARE: u32 = 48;
/// Guesses of one batch, and executions that are held when one is made.
const HELD_MAX: usize = 32;
/// When to look for what a batch leased whose answer was lost. It may yet take effect.
const LOST_MS: [u64; 3] = [100, 1_000, 10_000];

/// What is held for claims to come.
#[derive(Default)]
pub struct Ahead(Mutex<State>);

struct State {
    /// What was let go for nobody, a moment before `late_at`.
    loose: usize,
    late_at: Instant,
    /// The claims that keep coming, and how far they are trusted to.
    regular: Option<ClaimAsk>,
    trust: u32,
    trusted_from: u32,
    held: Vec<Held>,
    sweeping: bool,
}

struct Held {
    ask: ClaimAsk,
    work: Claimed,
    until: Instant,
}

/// Claims that a batch expects, for what its commands let go.
#[derive(Default)]
pub struct Guesses {
    asks: Vec<ClaimAsk>,
    /// The places of those commands, and their executions.
    lets_go: Vec<(usize, ExecutionId)>,
}

impl Guesses {
    /// The commands that lease something for them.
    pub fn commands(&self) -> impl Iterator<Item = Command> {
        self.asks.iter().map(|ask| StartReleased { ask: ask.clone() }.into())
    }

    fn claims(&self) -> BTreeSet<Uuid> {
        self.asks.iter().map(|ask| ask.claim_id).collect()
    }

    /// Executions that may have been leased by the same batch, if it was sent before.
    fn repeated(&self, outcomes: &[Outcome]) -> Vec<ExecutionId> {
        let again = |at: usize| match &outcomes[at] {
            Ok(Reply::DeliverSignal(Delivered::Duplicate { .. })) | Err(_) => true,
            Ok(_) => false, // it was done now
        };
        self.lets_go.iter().filter(|(at, _)| again(*at)).map(|(_, id)| *id).collect()
    }
}

/// What came of a batch.
pub struct Landed<'o> {
    /// Of the calls in it.
    pub outcomes: &'o [Outcome],
    /// Of its guesses.
    pub expected: Vec<Outcome>,
    /// How many it gave to claims that idled.
    pub given: usize,
}

/// Executions that a batch is asked to let go, one at most for each command, and their places in it.
fn let_go(commands: &[Command]) -> impl Iterator<Item = (usize, ExecutionId)> {
    let of = |command: &Command| match command {
        Command::DeliverSignal(signal) => Some(signal.id),
        Command::Resume(resume) => Some(resume.id),
        _ => None, // not ours: nothing else lets go of just one
    };
    commands.iter().enumerate().filter_map(move |(at, command)| Some((at, of(command)?)))
}

/// Whether a command let go of an execution.
fn did_let_go(outcome: &Outcome) -> bool {
    match outcome {
        Ok(Reply::DeliverSignal(Delivered::Accepted { effect, .. })) => {
            *effect == Effect::ConditionSatisfied
        }
        Ok(Reply::Resume(_)) => true,
        _ => false, // not ours: nothing else lets go of just one
    }
}

/// What was leased for a guess.
fn leased(outcome: Outcome) -> Option<Claimed> {
    match outcome {
        Ok(Reply::StartReleased(started)) => started.into_iter().next(),
        Ok(other) => unreachable!("a start was asked for, not {other:?}"),
        Err(_) => None,
    }
}

/// Whether what was leased for one of these claims is good for the other.
pub fn alike(one: &ClaimAsk, other: &ClaimAsk) -> bool {
    one.worker == other.worker && one.lease_ttl_ms == other.lease_ttl_ms && one.looks_where(other)
}

impl Ahead {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no holder of this lock panics")
    }

    /// A new claim comes: what there is for it.
    pub fn take(&self, ask: &ClaimAsk) -> Option<Claimed> {
        let (mut state, now) = (self.lock(), Instant::now());
        state.take(ask, now).or_else(|| {
            state.comes(ask, now);
            None
        })
    }

    /// What there is for a claim that is about to idle: a batch may have landed meanwhile.
    pub fn take_late(&self, ask: &ClaimAsk) -> Option<Claimed> {
        self.lock().take(ask, Instant::now())
    }

    /// Who will claim what these commands let go, of which claims that idle are `asked` first.
    pub fn guess(
        &self,
        commands: &[Command],
        asked: &Asked,
        (backend, shared): (&dyn Backend, &Shared),
    ) -> Guesses {
        let state = self.lock();
        let trusted = state.trust >= state.trusted_from;
        let Some(regular) = state.regular.as_ref().filter(|_| trusted) else {
            return Guesses::default();
        };
        let lets_go: Vec<_> = let_go(commands).collect();
        let most = lets_go.len().saturating_sub(asked.room(regular));
        if most == 0 || !shared.idle.is_clear(regular, backend.generation(Interest::Work)) {
            return Guesses::default();
        }
        Guesses { asks: state.guess(most), lets_go }
    }

    /// A batch has landed.
    pub fn landed(
        &self,
        guesses: Guesses,
        landed: Landed<'_>,
        (backend, shared): (&Arc<dyn Backend>, &Arc<Shared>),
    ) {
        let leased: Vec<_> = landed.expected.into_iter().map(leased).collect();
        shared.members.learn(leased.iter().flatten());
        let taken = landed.given + leased.iter().flatten().count();
        let free = landed.outcomes.iter().filter(|one| did_let_go(one)).count();
        let loose = free.saturating_sub(taken);
        if loose > 0 {
            shared.idle.let_go();
        }
        if leased.contains(&None) {
            let repeated = guesses.repeated(landed.outcomes);
            settle(backend, guesses.claims(), repeated, &[0]);
        }
        let (mut state, now) = (self.lock(), Instant::now());
        let given = |ask: &ClaimAsk, work| shared.idle.give(ask, work);
        state.landed(guesses.asks.into_iter().zip(leased), now, given);
        state.let_go(loose, now);
        if !state.held.is_empty() && !std::mem::replace(&mut state.sweeping, true) {
            tokio::spawn(sweep(Arc::clone(backend), Arc::clone(shared)));
        }
    }

    /// The answer to a batch was lost. What it leased is given back, whenever that is.
    pub fn lost(guesses: &Guesses, backend: &Arc<dyn Backend>) {
        if !guesses.asks.is_empty() {
            let ids = guesses.lets_go.iter().map(|(_, id)| *id).collect();
            settle(backend, guesses.claims(), ids, &LOST_MS);
        }
    }

    /// Gives back everything that is held, at once.
    pub async fn give_back(&self, backend: &dyn Backend) {
        let held = self.lock().give_up(|_| true);
        release(backend, held).await;
    }
}

/// Gives back what nobody asked for, until nothing is held any more.
async fn sweep(backend: Arc<dyn Backend>, shared: Arc<Shared>) {
    loop {
        tokio::time::sleep(MOMENT).await;
        let now = Instant::now();
        let late = {
            let mut state = shared.ahead.lock();
            if state.held.is_empty() {
                state.sweeping = false;
                return;
            }
            state.give_up(|held| held.until <= now)
        };
        // Beside this, so that what is late next does not wait for it.
        if !late.is_empty() {
            let backend = Arc::clone(&backend);
            tokio::spawn(async move { release(backend.as_ref(), late).await });
        }
    }
}

/// Looks for what is leased under `claims`, of which nobody knows, and gives it back.
fn settle(
    backend: &Arc<dyn Backend>,
    claims: BTreeSet<Uuid>,
    ids: Vec<ExecutionId>,
    pauses_ms: &'static [u64],
) {
    if ids.is_empty() {
        return;
    }
    let backend = Arc::clone(backend);
    tokio::spawn(async move {
        let keys: Vec<_> = ids.into_iter().map(Key::Execution).collect();
        for pause in pauses_ms {
            tokio::time::sleep(Duration::from_millis(*pause)).await;
            // A store that cannot be read now may be later.
            let Ok(have) = backend.get(&keys).await else { continue };
            let leased = have.executions.into_values().flatten().filter(|x| match &x.state {
                Phase::Active(active) => claims.contains(&active.lease.claim_id),
                Phase::Runnable(_) | Phase::Suspended(_) | Phase::Terminal(_) => false,
            });
            release(backend.as_ref(), leased.map(|x| undo(&x)).collect()).await;
        }
    });
}

fn undo(x: &Execution) -> Command {
    Release { id: x.id, fence: x.fence() }.into()
}

async fn release(backend: &dyn Backend, leased: Vec<Command>) {
    if !leased.is_empty()
        && let Err(error) = backend.apply(leased).await
    {
        tracing::warn!(%error, "what was leased ahead could not be given back");
    }
}

impl Default for State {
    fn default() -> Self {
        Self {
            loose: 0,
            late_at: Instant::now(),
            regular: None,
            trust: 0,
            trusted_from: TRUSTED_FROM,
            held: Vec::new(),
            sweeping: false,
        }
    }
}

impl State {
    fn take(&mut self, ask: &ClaimAsk, now: Instant) -> Option<Claimed> {
        let good = |held: &Held| alike(&held.ask, ask) && now < held.until;
        let at = self.held.iter().position(good)?;
        self.was_right();
        Some(self.held.remove(at).work)
    }

    fn was_right(&mut self) {
        self.trusted_from = TRUSTED_FROM;
        self.in_time();
    }

    fn in_time(&mut self) {
        self.trust = (self.trust + 1).min(self.trusted_from + TRUST_SPARE);
    }

    fn missed(&mut self, count: usize) {
        let lost = u32::try_from(count).unwrap_or(u32::MAX).saturating_mul(MISSED);
        self.trust = self.trust.saturating_sub(lost);
    }

    /// A claim comes for which nothing is held.
    fn comes(&mut self, ask: &ClaimAsk, now: Instant) {
        if self.loose == 0 || now >= self.late_at {
            return;
        }
        self.loose -= 1;
        // Where claims of several sorts come in turn, nobody knows which is next.
        if !self.regular.as_ref().is_some_and(|regular| alike(regular, ask)) {
            (self.regular, self.trust) = (Some(ask.clone()), 0);
        }
        self.in_time();
    }

    fn guess(&self, most: usize) -> Vec<ClaimAsk> {
        let Some(regular) = &self.regular else { return Vec::new() };
        // Each under an id of its own: whoever asks again must not find what others were given.
        let ask = |_| ClaimAsk { claim_id: Uuid::now_v7(), max: 1, fresh: true, ..regular.clone() };
        (0..most.min(HELD_MAX.saturating_sub(self.held.len()))).map(ask).collect()
    }

    /// Holds what was leased, unless somebody who began to idle meanwhile is `given` it.
    fn landed(
        &mut self,
        guesses: impl Iterator<Item = (ClaimAsk, Option<Claimed>)>,
        now: Instant,
        given: impl Fn(&ClaimAsk, Claimed) -> Option<Claimed>,
    ) {
        for (ask, leased) in guesses {
            let Some(work) = leased else {
                self.missed(1);
                continue;
            };
            match given(&ask, work) {
                None => self.was_right(),
                Some(work) => self.held.push(Held { ask, work, until: now + MOMENT }),
            }
        }
    }

    /// So many were let go for nobody.
    fn let_go(&mut self, count: usize, now: Instant) {
        if now >= self.late_at {
            let late = std::mem::take(&mut self.loose);
            self.missed(late);
        }
        if count > 0 {
            (self.loose, self.late_at) = (self.loose + count, now + MOMENT);
        }
    }

    /// Holds these no longer: nobody came for them.
    fn give_up(&mut self, over: impl Fn(&Held) -> bool) -> Vec<Command> {
        let late: Vec<_> = self.held.extract_if(.., |held| over(held)).collect();
        if !late.is_empty() {
            self.missed(late.len());
            self.trusted_from = (self.trusted_from * 2).min(TRUSTED_FROM_MAX);
        }
        late.iter().map(|held| undo(&held.work.leased.execution)).collect()
    }
}

#[cfg(test)]
mod tests {
    use ff_core::{Code, Rejection};

    use super::*;

    #[test]
    fn what_a_batch_may_have_leased_before_is_looked_for_if_it_says_that_it_was_done() {
        let ids: Vec<_> = (0..4).map(|_| ExecutionId::solo(Uuid::now_v7())).collect();
        let lets_go = ids.iter().copied().enumerate().collect();
        let guesses = Guesses { asks: Vec::new(), lets_go };
        let (existing_signal_id, signal_id) = (Uuid::nil(), Uuid::nil());
        let accepted = |effect| Reply::DeliverSignal(Delivered::Accepted { signal_id, effect });
        let outcomes = [
            Ok(accepted(Effect::ConditionSatisfied)),
            Ok(Reply::DeliverSignal(Delivered::Duplicate { existing_signal_id })),
            Err(Rejection::new(Code::ExecutionNotSuspended, "it goes on already")),
            Ok(accepted(Effect::Buffered)),
        ];
        assert_eq!(guesses.repeated(&outcomes), ids[1..3]);
        assert_eq!(outcomes.iter().filter(|outcome| did_let_go(outcome)).count(), 1);
    }
}
