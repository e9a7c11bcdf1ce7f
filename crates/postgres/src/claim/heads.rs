//! Where queues begin: a floor per queue, before which a scan has found nothing.
//!
//! Claimed rows leave dead entries at the head of the index until vacuum removes them, which an open
//! transaction anywhere can keep from happening. A scan that starts where the last one ended passes
//! them over. A floor is a hint of this process. What the process files before it lowers it; what
//! another process files before it is found by a scan from the very beginning, which is done before a
//! claim comes back empty and every [`PERIOD`]. Whatever is not certain drops all floors.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use ff_core::index::{QueueId, Ready};
use uuid::Uuid;

use crate::codec::partition;

/// From the end of a scan from the beginning to the next one, while there is enough to do: the longest that
/// what another process files before a floor can wait beside what is behind it.
const PERIOD: Duration = Duration::from_millis(100);

/// Where the queues begin.
pub struct Heads {
    /// Whether floors are trusted at all.
    trusted: bool,
    inner: Mutex<Inner>,
    /// Whose turn it is to scan.
    turn: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Inner {
    floors: BTreeMap<QueueId, Floor>,
    /// The first row of each queue that was filed since the scan under way began.
    filed: BTreeMap<QueueId, Floor>,
    /// Whether floors were dropped since then.
    dropped: bool,
    /// When the last scan from the beginning ended.
    scanned: Option<Instant>,
}

/// A position in a queue: rank, turn, and the partition and id of the execution.
pub type Floor = (i32, i64, i16, Uuid);

fn floor_of(ready: &Ready) -> Floor {
    (ready.rank, ready.turn.0, partition(ready.execution), ready.execution.uuid())
}

impl Heads {
    /// Nothing is known; without `trusted`, nothing ever is.
    pub fn new(trusted: bool) -> Self {
        Self { trusted, inner: Mutex::default(), turn: tokio::sync::Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().expect("no holder of this lock panics")
    }

    /// Waits for a turn to scan: until it is over, no other claim of this process scans. What is found
    /// is taken to be gone before that; a claim that fails to lease it drops the floors.
    pub async fn turn(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.turn.lock().await
    }

    /// A scan begins: the floors to start from; none if it should start from the beginning.
    pub fn begin(&self) -> BTreeMap<QueueId, Floor> {
        let mut inner = self.lock();
        inner.filed.clear();
        inner.dropped = false;
        let due = !self.trusted || inner.scanned.is_none_or(|ended| ended.elapsed() >= PERIOD);
        if due { BTreeMap::new() } else { inner.floors.clone() }
    }

    /// A scan from the beginning has ended.
    pub fn scanned(&self) {
        self.lock().scanned = Some(Instant::now());
    }

    /// A scan has left nothing before `reached`.
    pub fn raise(&self, reached: &BTreeMap<QueueId, Floor>) {
        let mut inner = self.lock();
        if inner.dropped {
            return;
        }
        for (queue, &reached) in reached {
            let filed = inner.filed.get(queue).copied();
            inner.floors.insert(*queue, filed.map_or(reached, |filed| filed.min(reached)));
        }
    }

    /// Rows were filed.
    pub fn file<'r>(&self, rows: impl Iterator<Item = &'r Ready>) {
        let mut inner = self.lock();
        for ready in rows {
            inner.file(ready.queue, floor_of(ready));
        }
    }

    /// Forgets all floors: rows may have been filed before them.
    pub fn drop_floors(&self) {
        let mut inner = self.lock();
        inner.floors.clear();
        inner.dropped = true;
    }
}

impl Inner {
    fn file(&mut self, queue: QueueId, row: Floor) {
        if let Some(floor) = self.floors.get_mut(&queue) {
            *floor = row.min(*floor);
        }
        let filed = self.filed.entry(queue).or_insert(row);
        *filed = row.min(*filed);
    }
}

#[cfg(test)]
mod tests {
    use ff_core::ids::ExecutionId;
    use ff_core::time::Millis;

    use super::*;

    const QUEUE: QueueId = QueueId(7);

    fn row(turn: i64) -> Ready {
        let execution = ExecutionId::solo(Uuid::from_u128(9));
        Ready { rank: 9_000, turn: Millis(turn), execution, queue: QUEUE }
    }

    fn heads_at(turn: i64) -> Heads {
        let heads = Heads::new(true);
        heads.scanned();
        heads.raise(&BTreeMap::from([(QUEUE, floor_of(&row(turn)))]));
        heads
    }

    fn begin(heads: &Heads) -> Option<i64> {
        heads.begin().get(&QUEUE).map(|floor| floor.1)
    }

    #[test]
    fn a_row_filed_before_the_floor_lowers_it() {
        let heads = heads_at(500);
        heads.file([row(900)].iter());
        assert_eq!(begin(&heads), Some(500));
        heads.file([row(400), row(450)].iter());
        assert_eq!(begin(&heads), Some(400));
    }

    #[test]
    fn a_scan_keeps_the_floor_at_rows_that_were_filed_while_it_ran() {
        let heads = heads_at(500);
        assert_eq!(begin(&heads), Some(500));
        heads.file([row(520), row(510)].iter());
        heads.raise(&BTreeMap::from([(QUEUE, floor_of(&row(600)))]));
        assert_eq!(begin(&heads), Some(510));
    }

    #[test]
    fn a_scan_that_ran_while_floors_were_dropped_sets_none() {
        let heads = heads_at(500);
        begin(&heads);
        heads.drop_floors();
        heads.raise(&BTreeMap::from([(QUEUE, floor_of(&row(600)))]));
        assert_eq!(begin(&heads), None);
    }

    #[test]
    fn a_scan_from_the_beginning_is_repeated_after_a_tenth_of_a_second() {
        let heads = heads_at(500);
        heads.lock().scanned = Instant::now().checked_sub(PERIOD);
        assert_eq!(begin(&heads), None);
    }
}
