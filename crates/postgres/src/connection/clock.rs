//! The database's clock, without asking it every time.
//!
//! The time of an answer plus what has passed here since. The server looked at its clock at some
//! moment between the question and the answer, so an answer is off by half of its round trip at
//! most; slow ones are dropped. Decisions that hang on less are guarded by their rows.
//!
//! A database that is far away gives no other answers. Several that agree with each other say within
//! which bounds its time lies, and leases are then taken so much later.
//!
//! Until some answer vouches for it, the clock shows the earliest time that the answers allow, and a store
//! that opens asks on. Who renews or completes is refused by this clock alone: one that is ahead would
//! refuse healthy workers, one that is behind only grants leases that are shorter by what it is behind.
//!
//! What must stay true: one answer moves the clock by no more than its round trip, and leases are
//! taken away only while answers are not long ago that bound the error, and nothing contradicts them.

use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use ff_core::backend::StoreError;
use ff_core::row::corrupt;
use ff_core::time::{Clock, Millis};

use super::Connections;
use crate::statements::schema;

/// How often the database is asked.
const PERIOD: Duration = Duration::from_secs(10);
/// How soon it is asked again when the answer was of no use.
pub const AGAIN: Duration = Duration::from_secs(1);
/// How often it is asked at first, until an answer is of use, and for how long at least.
const FIRST_TRIES: u32 = 5;
const FIRST_TIME: Duration = Duration::from_secs(5);
/// The slowest answer that is of use.
const ROUND_TRIP_MAX: Duration = Duration::from_millis(50);
/// How long after a good answer the clock may be relied on.
const TRUST: Duration = Duration::from_mins(1);
/// Slow answers that have to agree before they bound the clock's error.
const SLOW_ANSWERS: u32 = 5;
/// The largest error with which leases are taken away.
const ERROR_MS_MAX: u64 = 1_000;
/// Good answers in a row that contradict the clock before they are believed: then the database's
/// clock was set.
const CONTRADICTIONS: u32 = 5;
/// How far apart two good answers may be besides: times are told in milliseconds, here and there.
const ROUNDING_MS: u64 = 2;

/// The database's clock.
pub struct DatabaseClock {
    began: Instant,
    /// The database's time when we began.
    origin: AtomicI64,
    estimate: Mutex<Estimate>,
}

impl DatabaseClock {
    /// One that has asked the database.
    pub async fn start(connections: &Connections) -> Result<Self, StoreError> {
        let estimate = Mutex::new(Estimate::default());
        let clock = Self { began: Instant::now(), origin: AtomicI64::new(0), estimate };
        let mut tries = 0;
        while clock.error_ms().is_none()
            && (tries < FIRST_TRIES || clock.began.elapsed() < FIRST_TIME)
        {
            clock.ask(connections).await?;
            tries += 1;
        }
        Ok(clock)
    }

    /// Asks the database for its time; how long to wait before it is asked again.
    pub async fn ask(&self, connections: &Connections) -> Result<Duration, StoreError> {
        let (rows, asked, took) = connections.timed(schema::now).await?;
        let answered = (asked + took).saturating_duration_since(self.began);
        let row = rows.first().ok_or_else(|| corrupt("now", "nothing", "is missing"))?;
        let said = row.try_get(0).map_err(|why| corrupt("now", "another type", why))?;
        let mut estimate = self.estimate.lock().expect("no holder of this lock panics");
        let origin = self.origin.load(Ordering::SeqCst);
        let origin = estimate.hear(origin, Answer { said, took, answered });
        self.origin.store(origin, Ordering::SeqCst);
        let agreed = estimate.slow.as_ref().is_some_and(|slow| slow.answers >= SLOW_ANSWERS);
        let useful = estimate.good_at == Some(answered) && estimate.contradicted == 0;
        Ok(if useful || agreed { PERIOD } else { AGAIN })
    }
}

impl Clock for DatabaseClock {
    fn now(&self) -> Millis {
        let passed = i64::try_from(self.began.elapsed().as_millis()).unwrap_or(i64::MAX);
        Millis(self.origin.load(Ordering::SeqCst).saturating_add(passed))
    }

    fn error_ms(&self) -> Option<u64> {
        let estimate = self.estimate.lock().expect("no holder of this lock panics");
        estimate.error_ms(self.began.elapsed())
    }
}

/// What the database said; times are since we began.
#[derive(Clone, Copy)]
struct Answer {
    said: i64,
    took: Duration,
    answered: Duration,
}

impl Answer {
    /// The database's time when we began, by this answer: it looked at its clock about half-way.
    fn origin(self) -> i64 {
        let then = self.answered.saturating_sub(self.took / 2);
        self.said - i64::try_from(then.as_millis()).unwrap_or(i64::MAX)
    }
}

/// What is known of the clock's error.
#[derive(Default)]
struct Estimate {
    /// When the last answer came that was quick and fitted.
    good_at: Option<Duration>,
    /// What slow answers say, while there are no others.
    slow: Option<Slow>,
    /// Good answers in a row that did not fit.
    contradicted: u32,
    /// Whether a good answer, or slow ones that agree, ever said what the time is.
    vouched: bool,
}

/// Within which bounds the database's time lay when we began, by slow answers that agree.
struct Slow {
    least: i64,
    most: i64,
    answers: u32,
    at: Duration,
    error_ms: u64,
}

impl Estimate {
    /// The database's time when we began, which was `origin` so far.
    fn hear(&mut self, origin: i64, answer: Answer) -> i64 {
        let took = answer.took;
        if took > ROUND_TRIP_MAX {
            let good = self.good_at.is_some_and(|at| answer.answered.saturating_sub(at) <= TRUST);
            return if good { origin } else { self.narrow(origin, answer) };
        }
        self.slow = None;
        let step = answer.origin() - origin;
        let most = u64::try_from(took.as_millis()).unwrap_or(u64::MAX) + 1;
        if self.good_at.is_some() && step.unsigned_abs() > most + ROUNDING_MS {
            self.contradicted += 1;
            if self.contradicted < CONTRADICTIONS {
                return origin + limited(step, most);
            }
        }
        let first = self.good_at.is_none() || self.contradicted > 0;
        self.contradicted = 0;
        (self.good_at, self.vouched) = (Some(answer.answered), true);
        if first { answer.origin() } else { origin + limited(step, most) }
    }

    /// A slow answer, and no good one for long: the server looked at its clock at any moment while it was
    /// under way.
    fn narrow(&mut self, origin: i64, answer: Answer) -> i64 {
        let ms = |time: Duration| i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
        let asked = answer.answered.saturating_sub(answer.took);
        let (mut least, mut most) = (answer.said - ms(answer.answered), answer.said - ms(asked));
        self.good_at = None;
        let mut answers = 1;
        if let Some(slow) = &self.slow {
            let both = (slow.least.max(least), slow.most.min(most));
            // Answers that contradict each other begin anew.
            if both.0 <= both.1 {
                (least, most) = both;
                answers += slow.answers;
            }
        }
        let middle = least + (most - least) / 2;
        let error = |origin: i64| (origin - least).max(most - origin).unsigned_abs() + ROUNDING_MS;
        let agreed = answers >= SLOW_ANSWERS && error(middle) <= ERROR_MS_MAX;
        let origin = match self.vouched {
            true => origin.clamp(least, most),
            false if agreed => middle,
            false => least,
        };
        self.vouched |= agreed;
        let error_ms = error(origin);
        self.slow = Some(Slow { least, most, answers, at: answer.answered, error_ms });
        origin
    }

    fn error_ms(&self, now: Duration) -> Option<u64> {
        let recent = |at: Duration| now.saturating_sub(at) <= TRUST;
        if self.contradicted > 0 {
            return None;
        }
        if self.good_at.is_some_and(recent) {
            return Some(0);
        }
        let slow = self.slow.as_ref().filter(|slow| recent(slow.at))?;
        let agreed = slow.answers >= SLOW_ANSWERS && slow.error_ms <= ERROR_MS_MAX;
        agreed.then_some(slow.error_ms)
    }
}

/// `step`, but no more than `most` in either direction.
fn limited(step: i64, most: u64) -> i64 {
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    step.clamp(-most, most)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An answer at `at` that took so long, by a clock that began at `origin`; all in milliseconds.
    fn answer(origin: i64, at: u64, took: u64) -> Answer {
        let (took, answered) = (Duration::from_millis(took), Duration::from_millis(at));
        let then = i64::try_from(answered.saturating_sub(took / 2).as_millis()).unwrap_or(i64::MAX);
        Answer { said: origin + then, took, answered }
    }

    fn sure(estimate: &Estimate, at: u64) -> bool {
        estimate.error_ms(Duration::from_millis(at)).is_some()
    }

    #[test]
    fn slow_answers_that_agree_bound_the_error_of_a_clock_that_has_no_others() {
        let mut estimate = Estimate::default();
        let mut origin = 0;
        for at in 1..=5 {
            assert!(!sure(&estimate, at * 1_000));
            origin = estimate.hear(origin, answer(1_000, at * 1_000, 100));
        }
        assert_eq!(origin, 1_000);
        let error = |estimate: &Estimate, at| estimate.error_ms(Duration::from_millis(at));
        assert_eq!(error(&estimate, 5_000), Some(50 + ROUNDING_MS));
        assert_eq!(error(&estimate, 66_000), None, "that was long ago");
        // One that contradicts them begins anew.
        let far = answer(9_000, 6_000, 100);
        assert_eq!((estimate.hear(origin, far), error(&estimate, 6_000)), (8_950, None));
        // A good one is better than all of them, also after a long time without.
        assert_eq!(estimate.hear(8_950, answer(8_990, 7_000, 2)), 8_990);
        assert_eq!(error(&estimate, 7_000), Some(0));
        for at in 70..=75 {
            origin = estimate.hear(8_990, answer(8_990, at * 1_000, 100));
        }
        assert_eq!((origin, sure(&estimate, 75_000)), (8_990, true));
    }

    #[test]
    fn a_clock_that_no_answer_vouches_for_is_not_ahead() {
        let mut estimate = Estimate::default();
        // The server looked at its clock at once, and then answered eight seconds late.
        let early = Answer { said: 1_000, ..answer(0, 8_000, 8_000) };
        let origin = estimate.hear(0, early);
        assert_eq!((origin, sure(&estimate, 8_000)), (1_000 - 8_000, false));
        // What is known better only moves it on.
        let late = Answer { said: 9_100, ..answer(0, 10_100, 2_100) };
        let origin = estimate.hear(origin, late);
        assert_eq!((origin, sure(&estimate, 10_100)), (-1_000, false));
        let quick = answer(1_000, 10_200, 2);
        assert_eq!((estimate.hear(origin, quick), sure(&estimate, 10_200)), (1_000, true));
    }

    #[test]
    fn a_slow_answer_moves_nothing() {
        let mut estimate = Estimate::default();
        let origin = estimate.hear(0, answer(1_000, 10, 4));
        assert_eq!(origin, 1_000);
        let late = Answer { said: 1_020, ..answer(0, 8_020, 8_000) };
        assert_eq!(estimate.hear(origin, late), 1_000);
        assert!(sure(&estimate, 8_020));
    }

    #[test]
    fn a_good_answer_moves_the_clock_by_its_round_trip_at_most() {
        let mut estimate = Estimate::default();
        let mut origin = estimate.hear(0, answer(1_000, 10, 4));
        origin = estimate.hear(origin, answer(1_004, 20, 9));
        assert_eq!((origin, sure(&estimate, 20)), (1_004, true));
        origin = estimate.hear(origin, answer(3_000, 30, 9));
        assert_eq!((origin, sure(&estimate, 30)), (1_014, false));
        origin = estimate.hear(origin, answer(1_014, 40, 9));
        assert_eq!((origin, sure(&estimate, 40)), (1_014, true));
    }

    #[test]
    fn a_database_clock_that_was_set_is_believed_after_some_answers() {
        let mut estimate = Estimate::default();
        let mut origin = estimate.hear(0, answer(1_000, 10, 1));
        for round in 1..CONTRADICTIONS {
            origin = estimate.hear(origin, answer(61_000, 10 + u64::from(round), 1));
            assert!(origin < 1_100 && !sure(&estimate, 20));
        }
        origin = estimate.hear(origin, answer(61_000, 30, 1));
        assert_eq!((origin, sure(&estimate, 30)), (61_000, true));
    }

    #[test]
    fn a_clock_is_sure_once_it_has_a_good_answer_and_for_a_minute_after_each() {
        let mut estimate = Estimate::default();
        assert!(!sure(&estimate, 0));
        let mut origin = estimate.hear(0, answer(1_000, 400, 300));
        assert_eq!((origin, sure(&estimate, 400)), (850, false));
        // A slower one is worth less, and the first good one is taken as it is.
        origin = estimate.hear(origin, answer(1_200, 900, 400));
        assert_eq!(origin, 1_000);
        origin = estimate.hear(origin, answer(900, 1_000, 2));
        assert_eq!(origin, 900);
        assert!(sure(&estimate, 61_000) && !sure(&estimate, 61_001));
        estimate.hear(origin, answer(900, 70_000, 2));
        assert!(sure(&estimate, 70_000));
    }
}
