//! Work ahead: what a batch lets go is leased in the same commit for a claim that has not been made yet,
//! where claims of this process keep coming the moment something is let go.
//!
//! That is a guess, learnt from claims that came in time and unlearnt from those that did not. Nothing
//! rests on it: what nobody asks for within a moment is given back, as if it had never been claimed. No
//! guess is made unless a look has just found the queues empty, so nothing more urgent is passed over
//! for longer than that look is good.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use ff_core::command::{Command, Outcome, Reply};
use ff_core::decide::release::Release;
use ff_core::decide::start_released::StartReleased;
use ff_core::{Backend, ClaimAsk, Claimed, Interest};
use tokio::time::Instant;
use uuid::Uuid;

use crate::batcher::Shared;

/// How soon a claim has to come after something was let go.
const MOMENT: Duration = Duration::from_millis(2);
/// Claims of one sort that must have come in time before others are guessed.
const TRUSTED_FROM: u32 = 16;
/// The same where guesses were wrong: twice as many each time, up to so many.
const TRUSTED_FROM_MAX: u32 = 4_096;
/// Executions that are held for claims to come, and guesses that are in doubt.
const HELD_MAX: usize = 32;

/// What is held for claims to come.
#[derive(Default)]
pub struct Ahead(Mutex<State>);

struct State {
    /// What was let go for nobody, a moment before `late_at`.
    loose: usize,
    late_at: Instant,
    /// The claims that keep coming, and how many have.
    regular: Option<ClaimAsk>,
    came: u32,
    trusted_from: u32,
    held: Vec<Held>,
    /// Guesses for which something may be leased without anybody knowing.
    doubted: Vec<ClaimAsk>,
    sweeping: bool,
}

struct Held {
    ask: ClaimAsk,
    work: Claimed,
    until: Instant,
}

/// What a claim finds here.
pub enum Found {
    /// Work.
    Work(Box<Claimed>),
    /// Perhaps some, if the store is asked on behalf of this claim.
    Perhaps(ClaimAsk),
}

/// Claims that a batch expects.
#[derive(Default)]
pub struct Guesses(Vec<ClaimAsk>);

impl Guesses {
    /// The commands that lease something for them.
    pub fn commands(&self) -> impl Iterator<Item = Command> {
        self.0.iter().map(|ask| StartReleased { ask: ask.clone() }.into())
    }
}

impl Ahead {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no holder of this lock panics")
    }

    /// A new claim comes: what there is for it.
    pub fn take(&self, ask: &ClaimAsk) -> Option<Found> {
        self.lock().take(ask, Instant::now())
    }

    /// Who will claim what a batch lets go, `most` at most.
    pub fn guess(&self, most: usize, backend: &dyn Backend, shared: &Shared) -> Guesses {
        let state = self.lock();
        let regular = state.regular.as_ref().filter(|_| state.came >= state.trusted_from);
        let clear = |ask| shared.idle.is_clear(ask, backend.generation(Interest::Work));
        let count = if regular.is_some_and(clear) { most } else { 0 };
        state.guess(count)
    }

    /// A batch that lets go of `most` at most has landed, and its guesses came out as `outcomes` say:
    /// nothing is known of those that have none.
    pub fn landed(
        &self,
        guesses: Guesses,
        outcomes: Vec<Outcome>,
        most: usize,
        (backend, shared): (&Arc<dyn Backend>, &Arc<Shared>),
    ) {
        let loose = most.saturating_sub(guesses.0.len());
        if loose > 0 {
            shared.idle.let_go();
        }
        let mut state = self.lock();
        state.landed(guesses, outcomes, Instant::now());
        state.let_go(loose, Instant::now());
        if !state.held.is_empty() && !std::mem::replace(&mut state.sweeping, true) {
            tokio::spawn(sweep(Arc::clone(backend), Arc::clone(shared)));
        }
    }

    /// The claim under which something was perhaps leased has not found out.
    pub fn doubt(&self, ask: ClaimAsk) {
        self.lock().doubt(ask);
    }
}

/// Gives back what nobody asked for, until nothing is held any more.
async fn sweep(backend: Arc<dyn Backend>, shared: Arc<Shared>) {
    loop {
        tokio::time::sleep(MOMENT).await;
        let Some(late) = shared.ahead.lock().sweep(Instant::now()) else { return };
        if !late.is_empty()
            && let Err(error) = backend.apply(late).await
        {
            tracing::warn!(%error, "what was claimed ahead could not be given back");
        }
    }
}

/// Whether what was leased for one of these claims is good for the other.
fn alike(one: &ClaimAsk, other: &ClaimAsk) -> bool {
    one.worker == other.worker && one.lease_ttl_ms == other.lease_ttl_ms && one.looks_where(other)
}

impl Default for State {
    fn default() -> Self {
        Self {
            loose: 0,
            late_at: Instant::now(),
            regular: None,
            came: 0,
            trusted_from: TRUSTED_FROM,
            held: Vec::new(),
            doubted: Vec::new(),
            sweeping: false,
        }
    }
}

impl State {
    fn take(&mut self, ask: &ClaimAsk, now: Instant) -> Option<Found> {
        let good = |held: &Held| alike(&held.ask, ask) && now < held.until;
        if let Some(at) = self.held.iter().position(good) {
            self.trusted_from = (self.trusted_from - 1).max(TRUSTED_FROM);
            return Some(Found::Work(Box::new(self.held.remove(at).work)));
        }
        if let Some(at) = self.doubted.iter().position(|doubted| alike(doubted, ask)) {
            let ClaimAsk { claim_id, .. } = self.doubted.remove(at);
            return Some(Found::Perhaps(ClaimAsk { claim_id, fresh: false, ..ask.clone() }));
        }
        if self.loose > 0 && now < self.late_at {
            self.loose -= 1;
            // Where claims of several sorts come in turn, nobody knows which is next.
            if !self.regular.as_ref().is_some_and(|regular| alike(regular, ask)) {
                (self.regular, self.came) = (Some(ask.clone()), 0);
            }
            self.came = self.came.saturating_add(1);
        }
        None
    }

    fn guess(&self, count: usize) -> Guesses {
        let Some(regular) = &self.regular else { return Guesses::default() };
        // Each under an id of its own: whoever asks again must not find what others were given.
        let ask = |_| ClaimAsk { claim_id: Uuid::now_v7(), max: 1, fresh: true, ..regular.clone() };
        let room = HELD_MAX.saturating_sub(self.held.len());
        Guesses((0..count.min(room)).map(ask).collect())
    }

    fn landed(&mut self, guesses: Guesses, outcomes: Vec<Outcome>, now: Instant) {
        let mut outcomes = outcomes.into_iter();
        for ask in guesses.0 {
            let started = match outcomes.next() {
                Some(Ok(Reply::StartReleased(started))) => started,
                Some(Ok(other)) => unreachable!("a start was asked for, not {other:?}"),
                Some(Err(_)) | None => Vec::new(),
            };
            match started.into_iter().next() {
                Some(work) => self.held.push(Held { ask, work, until: now + MOMENT }),
                // Nothing was let go. Or the batch was sent twice, and it was the first time.
                None => {
                    self.came = 0;
                    self.doubt(ask);
                }
            }
        }
    }

    fn doubt(&mut self, ask: ClaimAsk) {
        if self.doubted.len() == HELD_MAX {
            self.doubted.remove(0);
        }
        self.doubted.push(ask);
    }

    /// So many may have been let go for nobody.
    fn let_go(&mut self, count: usize, now: Instant) {
        let before = if now < self.late_at { self.loose } else { 0 };
        if count > 0 {
            (self.loose, self.late_at) = (before + count, now + MOMENT);
        }
    }

    /// What is to be given back; nothing once nothing is held.
    fn sweep(&mut self, now: Instant) -> Option<Vec<Command>> {
        if self.held.is_empty() {
            self.sweeping = false;
            return None;
        }
        let late: Vec<_> = self.held.extract_if(.., |held| held.until <= now).collect();
        if !late.is_empty() {
            self.came = 0;
            self.trusted_from = (self.trusted_from * 2).min(TRUSTED_FROM_MAX);
        }
        let release = |Held { work: Claimed { leased, .. }, .. }| {
            Command::from(Release { id: leased.execution.id, fence: leased.fence })
        };
        Some(late.into_iter().map(release).collect())
    }
}
