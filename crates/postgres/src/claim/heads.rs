//! Where queues begin: a place before which nothing is left.
//!
//! Claimed places leave dead entries at the head of the index until vacuum removes them, which an
//! open transaction anywhere can keep from happening. Starting where the last claim ended passes
//! them over. The place is a hint of this process: what another process files before it is found
//! by looking from the very beginning, which is done before a claim comes back empty and about
//! once a second, and never takes more than a small part of the time.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use ff_core::index::{QueueId, Ready};
use uuid::Uuid;

/// Between two looks from the beginning while there is enough to do.
const PERIOD: Duration = Duration::from_secs(1);
/// A look from the beginning that took `t` is not repeated before `t` times this has passed.
const COST_FACTOR: u32 = 20;
/// A look that takes no longer than this may always be repeated.
const CHEAP: Duration = Duration::from_millis(20);
/// Looks whose shortest counts: one alone may have met with a busy machine.
const LOOKS: usize = 3;
/// Claims that are remembered as unanswered.
const EMPTY_MAX: usize = 256;

/// Where the queues begin.
#[derive(Default)]
pub struct Heads(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    floors: BTreeMap<QueueId, Floor>,
    /// The lowest places filed since the claim under way began.
    lowered: BTreeMap<QueueId, Floor>,
    /// When the last look from the beginning ended.
    looked: Option<Instant>,
    /// How long the last few took.
    took: VecDeque<Duration>,
    /// Claims that were last answered with nothing, so that nothing is held under them.
    empty: VecDeque<Uuid>,
}

/// A place in a queue: rank and turn.
pub type Floor = (i32, i64);

impl Heads {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().expect("no holder of this lock panics")
    }

    /// A claim begins: the places to start from; none if it should look from the beginning.
    pub fn begin(&self) -> BTreeMap<QueueId, Floor> {
        let mut inner = self.lock();
        inner.lowered.clear();
        let pause = PERIOD.max(inner.cost().saturating_mul(COST_FACTOR));
        let due = inner.looked.is_none_or(|ended| ended.elapsed() >= pause);
        if due { BTreeMap::new() } else { inner.floors.clone() }
    }

    /// Whether a claim that found nothing may look again from the beginning: now, or in how long.
    pub fn again(&self) -> Result<(), Duration> {
        let inner = self.lock();
        let Some(ended) = inner.looked else { return Ok(()) };
        let left = inner.cost().saturating_mul(COST_FACTOR).saturating_sub(ended.elapsed());
        if inner.cost() <= CHEAP || left.is_zero() { Ok(()) } else { Err(left) }
    }

    /// A claim looked from the beginning.
    pub fn looked(&self) {
        self.lock().looked = Some(Instant::now());
    }

    /// Finding out whether there is anything at all took so long, which is what passing over dead
    /// entries costs.
    pub fn cost(&self, took: Duration) {
        let mut inner = self.lock();
        inner.looked = Some(Instant::now());
        inner.took.push_back(took);
        if inner.took.len() > LOOKS {
            inner.took.pop_front();
        }
    }

    /// Before `places` nothing is left in their queues, except what was filed meanwhile.
    pub fn raise(&self, places: BTreeMap<QueueId, Floor>) {
        let mut inner = self.lock();
        for (queue, floor) in places {
            let lowered = inner.lowered.get(&queue).copied();
            inner.floors.insert(queue, lowered.map_or(floor, |lowered| lowered.min(floor)));
        }
    }

    /// Of some claims, those of which it is not known that nothing is held under them.
    pub fn unasked(&self, claims: impl Iterator<Item = Uuid>) -> Vec<Uuid> {
        let inner = self.lock();
        claims.filter(|claim| !inner.empty.contains(claim)).collect()
    }

    /// Claims were answered with nothing.
    pub fn asked(&self, claims: impl Iterator<Item = Uuid>) {
        let mut inner = self.lock();
        for claim in claims {
            if !inner.empty.contains(&claim) {
                inner.empty.push_back(claim);
            }
        }
        while inner.empty.len() > EMPTY_MAX {
            inner.empty.pop_front();
        }
    }

    /// Claims are about to be given something, whether or not we hear of it.
    pub fn granting(&self, claims: impl Iterator<Item = Uuid>) {
        let mut inner = self.lock();
        for claim in claims {
            inner.empty.retain(|known| *known != claim);
        }
    }

    /// Places were filed.
    pub fn lower(&self, places: impl Iterator<Item = Ready>) {
        let mut inner = self.lock();
        for ready in places {
            inner.lower(ready.queue, (ready.rank, ready.turn.0));
        }
    }

    /// Places were filed by promotion.
    pub fn lower_to(&self, places: impl Iterator<Item = (QueueId, Floor)>) {
        let mut inner = self.lock();
        for (queue, floor) in places {
            inner.lower(queue, floor);
        }
    }
}

impl Inner {
    /// What a look from the beginning costs, as far as is known.
    fn cost(&self) -> Duration {
        if self.took.len() < LOOKS {
            return Duration::ZERO;
        }
        self.took.iter().min().copied().unwrap_or_default()
    }

    fn lower(&mut self, queue: QueueId, floor: Floor) {
        if let Some(known) = self.floors.get_mut(&queue) {
            *known = floor.min(*known);
        }
        let lowest = self.lowered.entry(queue).or_insert(floor);
        *lowest = floor.min(*lowest);
    }
}
