//! Who is about to speak. Those who were answered by one commit often have something else to say at once,
//! and what they say travels together if the first of them waits for the others.
//!
//! The wait is short, and given up where callers turn out to go away. Claims that idle until there is work
//! are not counted.

use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// How long after an answer its callers are about to speak.
const MOMENT: Duration = Duration::from_micros(100);
/// Turns that whoever can run is given in any case.
const TURNS: usize = 2;
/// Turns at most that those who are missing are given.
const WAIT_TURNS: usize = 64;
/// Batches at most that wait for nobody after one has waited in vain.
const ALONE_MAX: u32 = 63;

/// Lets others run.
pub async fn give(turns: usize) {
    for _ in 0..turns {
        tokio::task::yield_now().await;
    }
}

/// Callers that were answered a moment ago and have not spoken since.
pub struct Callers(Mutex<State>);

struct State {
    missing: usize,
    answered_at: Instant,
    moment: Duration,
    /// Batches that wait for nobody after the last that waited in vain: more each time.
    penalty: u32,
    /// Batches that are yet to do so.
    alone: u32,
}

impl Default for Callers {
    fn default() -> Self {
        Self(Mutex::new(State::new(Instant::now(), MOMENT)))
    }
}

impl Callers {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no holder of this lock panics")
    }

    /// So many are being answered.
    pub fn answered(&self, callers: usize) {
        self.lock().answered(callers, Instant::now());
    }

    /// One of them, or somebody else, speaks.
    pub fn spoke(&self) {
        self.lock().spoke(Instant::now());
    }

    /// Lets others speak before a batch goes: those who are missing, or whoever comes within `turns` where
    /// nobody was answered a moment ago, or they do not come.
    pub async fn gather(&self, turns: usize) {
        let expects = turns > TURNS && self.lock().expects(Instant::now());
        give(if expects { TURNS } else { turns }).await;
        for turn in 0..if expects { WAIT_TURNS } else { 0 } {
            if self.lock().is_complete() {
                return;
            }
            // They may run on another thread of the runtime, which shares this one's processor.
            std::thread::yield_now();
            tokio::task::yield_now().await;
            if turn + 1 == WAIT_TURNS || self.lock().is_late(Instant::now()) {
                return self.lock().in_vain();
            }
        }
    }
}

impl State {
    fn new(now: Instant, moment: Duration) -> Self {
        Self { missing: 0, answered_at: now, moment, penalty: 0, alone: 0 }
    }

    fn is_late(&self, now: Instant) -> bool {
        now >= self.answered_at + self.moment
    }

    fn is_complete(&self) -> bool {
        self.missing == 0
    }

    fn answered(&mut self, callers: usize, now: Instant) {
        let before = if self.is_late(now) { 0 } else { self.missing };
        (self.missing, self.answered_at) = (before + callers, now);
    }

    fn spoke(&mut self, now: Instant) {
        if self.is_late(now) {
            self.missing = 0;
        }
        if self.missing == 1 {
            self.penalty = 0;
        }
        self.missing = self.missing.saturating_sub(1);
    }

    /// Whether a batch knows for whom to wait, and may.
    fn expects(&mut self, now: Instant) -> bool {
        let trusts = self.alone == 0;
        self.alone = self.alone.saturating_sub(1);
        trusts && !self.is_late(now)
    }

    /// Somebody who is missing did not come.
    fn in_vain(&mut self) {
        if !self.is_complete() {
            self.missing = 0;
            self.penalty = (self.penalty * 2 + 1).min(ALONE_MAX);
            self.alone = self.penalty;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn those_who_were_answered_are_expected_until_all_have_spoken() {
        let now = Instant::now();
        let mut state = State::new(now, MOMENT);
        state.answered(2, now);
        state.spoke(now);
        assert!(state.expects(now) && !state.is_complete());
        state.spoke(now);
        assert!(state.expects(now) && state.is_complete());
        state.spoke(now);
        assert!(state.is_complete());
    }

    #[tokio::test]
    async fn a_batch_goes_once_those_who_were_answered_have_spoken() {
        let patient = State::new(Instant::now(), Duration::from_mins(1));
        let callers = Arc::new(Callers(Mutex::new(patient)));
        let spoken = Arc::new(AtomicUsize::new(0));
        callers.answered(3);
        for turns in [0, 20, 40] {
            let (callers, spoken) = (Arc::clone(&callers), Arc::clone(&spoken));
            tokio::spawn(async move {
                give(turns).await;
                spoken.fetch_add(1, Ordering::SeqCst);
                callers.spoke();
            });
        }
        callers.gather(16).await;
        assert_eq!(spoken.load(Ordering::SeqCst), 3);
        // Who goes away holds up one batch, and only for so many turns.
        callers.answered(1);
        callers.gather(16).await;
        assert_eq!(callers.lock().alone, 1);
    }

    #[test]
    fn two_answers_at_once_are_waited_for_together_and_an_old_one_not_at_all() {
        let now = Instant::now();
        let mut state = State::new(now, MOMENT);
        state.answered(2, now);
        state.answered(3, now + MOMENT / 2);
        assert_eq!(state.missing, 5);
        state.answered(1, now + MOMENT * 2);
        assert_eq!(state.missing, 1);
        assert!(!state.expects(now + MOMENT * 4));
        assert_eq!((state.penalty, state.alone), (0, 0));
    }

    /// Batches of a thousand that wait in vain, where one is answered and `speaks` so much later.
    fn vain(speaks: Duration) -> (State, u32) {
        let (mut state, mut waited) = (State::new(Instant::now(), MOMENT), 0);
        for _ in 0..1_000 {
            let at = state.answered_at + MOMENT * 10;
            state.answered(1, at);
            if state.expects(at) {
                state.in_vain();
                waited += 1;
            }
            state.spoke(at + speaks);
        }
        (state, waited)
    }

    #[test]
    fn whoever_goes_away_is_waited_for_ever_more_rarely() {
        let (mut state, waited) = vain(MOMENT * 2);
        assert!((10..30).contains(&waited), "{waited} of 1000 batches waited in vain");
        // Once they come in time, all wait for them again.
        let now = state.answered_at;
        while !state.expects(now) {}
        state.answered(1, now);
        state.spoke(now);
        state.answered(1, now);
        assert!(state.expects(now));
        state.in_vain();
        assert_eq!(state.alone, 1);
    }
}
