//! Where queues begin: a place before which nothing is left, but for a few that are known.
//!
//! Claimed places leave dead entries at the head of the index until vacuum removes them, which an
//! open transaction anywhere can keep from happening. Starting where the last claim ended passes
//! them over; what this process files before that, a retry or something made more urgent, is
//! looked up by itself, not by walking over the dead from there on. All of this is a hint of this
//! process: what another one files before it is found by looking from the very beginning, which is
//! done before a claim comes back empty and about once a second, and never takes more than a small
//! part of the time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use ff_core::index::{QueueId, Ready};
use uuid::Uuid;

use crate::codec::partition;

/// Between two looks from the beginning while there is enough to do.
const PERIOD: Duration = Duration::from_secs(1);
/// A look from the beginning that took `t` is not repeated before `t` times this has passed.
const COST_FACTOR: u32 = 20;
/// A look that takes no longer than this may always be repeated.
const CHEAP: Duration = Duration::from_millis(20);
/// Looks whose shortest counts: one alone may have met with a busy machine.
const LOOKS: usize = 3;
/// Places of a queue that are looked up by themselves; beyond it the queue begins at the first.
const ALONE_MAX: usize = 32;
/// For how long others are taken to claim from the same queues that were found to.
const CONTENDED: Duration = Duration::from_secs(1);
/// Claims that are remembered as unanswered.
const EMPTY_MAX: usize = 256;

/// Where the queues begin.
#[derive(Default)]
pub struct Heads {
    inner: Mutex<Inner>,
    /// Whose turn it is to look.
    turn: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Inner {
    heads: BTreeMap<QueueId, Head>,
    /// Places filed since the look under way began.
    filed: BTreeMap<QueueId, Head>,
    /// When the last look from the beginning ended.
    looked: Option<Instant>,
    /// How long the last few took.
    took: VecDeque<Duration>,
    /// When somebody else was last found to claim from the same queues.
    contended: Option<Instant>,
    /// Claims that were last answered with nothing, so that nothing is held under them.
    empty: VecDeque<Uuid>,
}

/// A place in a queue: rank, turn, and the partition and id of who stands there.
pub type Floor = (i32, i64, i16, Uuid);

fn floor_of(ready: &Ready) -> Floor {
    (ready.rank, ready.turn.0, partition(ready.execution), ready.execution.uuid())
}

/// After every place.
const LAST: Floor = (i32::MAX, i64::MAX, i16::MAX, Uuid::max());

/// Where one queue begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// From here on anything may stand.
    pub floor: Floor,
    /// Before that, only here.
    pub alone: BTreeSet<Floor>,
}

impl Head {
    /// Of a queue in which nothing stands.
    const NOWHERE: Self = Self { floor: LAST, alone: BTreeSet::new() };

    /// Something was filed. Whether that is before what was known as the beginning.
    pub fn file(&mut self, place: Floor) -> bool {
        let before = place < self.floor;
        if before {
            self.alone.insert(place);
            self.bound();
        }
        before
    }

    /// The places to look at, from and to.
    pub fn ranges(&self) -> impl Iterator<Item = (Floor, Floor)> {
        let alone = self.alone.iter().map(|place| (*place, *place));
        alone.chain([(self.floor, LAST)])
    }

    fn bound(&mut self) {
        if self.alone.len() > ALONE_MAX {
            self.begin_at(self.alone.first().copied().unwrap_or(self.floor));
        }
    }

    /// Anything may stand from `floor` on.
    fn begin_at(&mut self, floor: Floor) {
        if floor < self.floor {
            self.floor = floor;
            self.alone.split_off(&floor);
        }
    }
}

impl Heads {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().expect("no holder of this lock panics")
    }

    /// Waits for a turn to look: until it is over, nobody else looks. What is found is taken to be gone
    /// before that; whoever fails to take it files it again.
    pub async fn turn(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.turn.lock().await
    }

    /// Whether somebody else claims from the same queues, as far as is known.
    pub fn is_contended(&self) -> bool {
        self.lock().contended.is_some_and(|at| at.elapsed() < CONTENDED)
    }

    /// What was found was no longer there.
    pub fn contended(&self) {
        self.lock().contended = Some(Instant::now());
    }

    /// A claim begins: the places to start from; none if it should look from the beginning.
    pub fn begin(&self) -> BTreeMap<QueueId, Head> {
        let mut inner = self.lock();
        inner.filed.clear();
        let pause = PERIOD.max(inner.cost().saturating_mul(COST_FACTOR));
        let due = inner.looked.is_none_or(|ended| ended.elapsed() >= pause);
        if due { BTreeMap::new() } else { inner.heads.clone() }
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

    /// A claim that looked from `known` on has left nothing before `reached` of what it looked at.
    pub fn raise(&self, known: &BTreeMap<QueueId, Head>, reached: &BTreeMap<QueueId, Floor>) {
        let mut inner = self.lock();
        for (queue, &reached) in reached {
            let mut head = match known.get(queue) {
                Some(known) if reached < known.floor => Head {
                    floor: known.floor,
                    alone: known.alone.range(reached..).copied().collect(),
                },
                Some(_) | None => Head { floor: reached, alone: BTreeSet::new() },
            };
            if let Some(filed) = inner.filed.get(queue) {
                head.begin_at(filed.floor);
                for place in &filed.alone {
                    head.file(*place);
                }
            }
            inner.heads.insert(*queue, head);
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
    pub fn file<'r>(&self, places: impl Iterator<Item = &'r Ready>) {
        let mut inner = self.lock();
        for ready in places {
            inner.file(ready.queue, floor_of(ready));
        }
    }

    /// Places were taken, whether or not by who looked there.
    pub fn gone<'r>(&self, places: impl Iterator<Item = &'r Ready>) {
        let mut inner = self.lock();
        for ready in places {
            let Inner { heads, filed, .. } = &mut *inner;
            for head in [heads, filed].into_iter().filter_map(|all| all.get_mut(&ready.queue)) {
                head.alone.remove(&floor_of(ready));
            }
        }
    }

    /// Places were filed by promotion.
    pub fn file_at(&self, places: impl Iterator<Item = (QueueId, Floor)>) {
        let mut inner = self.lock();
        for (queue, floor) in places {
            inner.file(queue, floor);
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

    fn file(&mut self, queue: QueueId, place: Floor) {
        if let Some(head) = self.heads.get_mut(&queue) {
            head.file(place);
        }
        self.filed.entry(queue).or_insert(Head::NOWHERE).file(place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUEUE: QueueId = QueueId(7);

    fn at(rank: i32, turn: i64) -> Floor {
        (rank, turn, 0, Uuid::nil())
    }

    fn heads_at(floor: Floor) -> Heads {
        let heads = Heads::default();
        heads.looked();
        heads.raise(&BTreeMap::new(), &BTreeMap::from([(QUEUE, floor)]));
        heads
    }

    fn ranges(heads: &Heads) -> Vec<(Floor, Floor)> {
        heads.begin().get(&QUEUE).into_iter().flat_map(Head::ranges).collect()
    }

    #[test]
    fn what_is_filed_before_the_beginning_is_looked_up_by_itself() {
        let heads = heads_at(at(9_000, 500));
        heads.file_at(
            [(QUEUE, at(8_990, 3)), (QUEUE, at(9_000, 400)), (QUEUE, at(9_000, 900))].into_iter(),
        );
        let alone = [(at(8_990, 3), at(8_990, 3)), (at(9_000, 400), at(9_000, 400))];
        assert_eq!(ranges(&heads), [alone[0], alone[1], (at(9_000, 500), LAST)]);
    }

    #[test]
    fn a_claim_that_goes_beyond_them_leaves_none_and_keeps_what_was_filed_meanwhile() {
        let heads = heads_at(at(9_000, 500));
        heads.file_at([(QUEUE, at(8_990, 3))].into_iter());
        let known = heads.begin();
        heads.file_at([(QUEUE, at(9_000, 520)), (QUEUE, at(9_000, 700))].into_iter());
        heads.raise(&known, &BTreeMap::from([(QUEUE, at(9_000, 600))]));
        let expected = [(at(9_000, 520), at(9_000, 520)), (at(9_000, 600), LAST)];
        assert_eq!(ranges(&heads), expected);
    }

    #[test]
    fn what_was_taken_without_looking_is_not_looked_up() {
        let heads = heads_at(at(9_000, 500));
        let of = |number: u128| Ready {
            rank: 8_990,
            turn: ff_core::time::Millis(3),
            execution: ff_core::ids::ExecutionId::solo(Uuid::from_u128(number)),
            queue: QUEUE,
        };
        heads.file([of(1), of(2)].iter());
        heads.gone([of(1)].iter());
        assert_eq!(ranges(&heads), [(floor_of(&of(2)), floor_of(&of(2))), (at(9_000, 500), LAST)]);
    }

    #[test]
    fn a_claim_that_ends_among_them_leaves_the_others() {
        let heads = heads_at(at(9_000, 500));
        heads.file_at([(QUEUE, at(8_990, 3)), (QUEUE, at(8_990, 9))].into_iter());
        let known = heads.begin();
        heads.raise(&known, &BTreeMap::from([(QUEUE, at(8_990, 9))]));
        assert_eq!(ranges(&heads), [(at(8_990, 9), at(8_990, 9)), (at(9_000, 500), LAST)]);
    }

    #[test]
    fn a_queue_with_too_many_of_them_begins_at_the_first() {
        let heads = heads_at(at(9_000, 500));
        let places =
            (0..=ALONE_MAX).map(|n| (QUEUE, at(9_000, 100 + i64::try_from(n).unwrap_or(0))));
        heads.file_at(places.clone());
        assert_eq!(ranges(&heads), [(at(9_000, 100), LAST)]);
        // The same while a claim is under way.
        let heads = heads_at(at(9_000, 50));
        let known = heads.begin();
        heads.file_at(places);
        heads.raise(&known, &BTreeMap::from([(QUEUE, at(9_000, 500))]));
        assert_eq!(ranges(&heads), [(at(9_000, 100), LAST)]);
    }
}
