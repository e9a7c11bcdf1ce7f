//! What a claim finds: due delays, work it was given before, and the heads of the queues.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use ff_core::ClaimAsk;
use ff_core::backend::StoreError;
use ff_core::decide::claim::Leased;
use ff_core::execution::Execution;
use ff_core::fold::Key;
use ff_core::ids::ExecutionId;
use ff_core::index::{QueueId, TimerKind};
use ff_core::limits::PROMOTE_BATCH_MAX;
use ff_core::row::{corrupt, number};
use ff_core::text::Encoding;
use ff_core::time::Millis;
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::RELOOK_MS;
use super::choice::Choice;
use super::heads::Floor;
use super::passed::Passed;
use crate::apply::State;
use crate::codec::{Params, Reader, Tid, partition, read_encoding, read_row};
use crate::connection::{Session, Step, Trouble};
use crate::load::Wanted;
use crate::statements::{lease, ready, timer};
use crate::write::Places;

/// Places of each queue that a claim looks at beyond what it asks for, because some may be held
/// by others; and how many when it finds nothing.
const SPARE: [usize; 2] = [64, 2_000];
/// Places that a claim may pass over because their executions cannot be had.
const PASSED_MAX: usize = 1_000;

/// The statement that moves due delays.
pub fn promotion(now: Millis) -> Step<'static> {
    let params = Params::new().number(now.0).number(i64::from(PROMOTE_BATCH_MAX));
    Step::Run(ready::promote, params)
}

/// Delays that were moved.
#[derive(Default)]
pub struct Promoted {
    /// Where to.
    pub moved: Vec<(QueueId, Floor)>,
    /// When the next one is over.
    next: Option<Millis>,
    /// Whether others hold some that are over, and may fail to move them.
    late: bool,
}

impl Promoted {
    /// Reads what `ready/promote.sql` selects.
    pub fn read(answers: &[Vec<Row>]) -> Result<Self, StoreError> {
        let row = answers.first().and_then(|rows| rows.first());
        let row = row.ok_or_else(|| corrupt("ff_timer", "nothing", "one row is expected"))?;
        let mut r = Reader::new(row);
        let (next, late) = (r.take::<Option<i64>>("next_ms")?.map(Millis), r.take("late")?);
        let queues: Vec<i64> = r.take("queues")?;
        let ranks: Vec<i32> = r.take("ranks")?;
        let turns: Vec<i64> = r.take("turns")?;
        let partitions: Vec<i16> = r.take("partitions")?;
        let ids: Vec<Uuid> = r.take("executions")?;
        let moved = queues.into_iter().zip(ranks).zip(turns).zip(partitions.into_iter().zip(ids));
        let moved = moved.map(|(((queue, rank), turn), (partition, id))| {
            (QueueId(queue), (rank, turn, partition, id))
        });
        Ok(Self { moved: moved.collect(), next, late })
    }

    /// When the next delay is over: at once, if there were more than one batch of them.
    pub async fn next(
        &self,
        session: &mut Session<'_>,
        now: Millis,
    ) -> Result<Option<Millis>, Trouble> {
        if self.moved.len() < usize::try_from(PROMOTE_BATCH_MAX).unwrap_or(usize::MAX) {
            return Ok(if self.late { Some(now.plus(RELOOK_MS)) } else { self.next });
        }
        tracing::debug!(%now, "more delays are over than one batch moves");
        let params = Params::new().text(Some(TimerKind::Delay.as_str())).number(i64::MIN);
        let rows = session.alone(Step::Run(timer::next, params)).await?;
        let least = rows.first().and_then(|rows| rows.first());
        let least = least.map(|row| Reader::new(row).take::<Option<i64>>("min")).transpose()?;
        Ok(least.flatten().map(Millis))
    }
}

/// A place in a queue with its execution.
pub struct Place {
    /// The queue.
    pub queue: QueueId,
    /// Where in it.
    pub floor: Floor,
    /// Where the place and the execution stand in their tables.
    pub at: (Tid, Tid),
    /// Which.
    pub id: ExecutionId,
    /// The execution, unless it cannot be read.
    pub execution: Result<Execution, StoreError>,
    /// How its input is encoded.
    pub encoding: Option<Encoding>,
    /// Bytes of its input, if it has one.
    pub size: Option<usize>,
    /// The input, if it is small.
    pub bytes: Option<Bytes>,
}

/// What a claim looks at.
pub struct Look<'a> {
    asks: &'a [ClaimAsk],
    now: Millis,
    begin: BTreeMap<QueueId, Floor>,
    /// Asks for the same lanes with the same capabilities look together.
    groups: Vec<&'a ClaimAsk>,
    extra: usize,
    spare: usize,
    /// Delays moved.
    pub promoted: Promoted,
    /// Claims that another transaction is serving at this moment: an earlier try of the same.
    pub busy: BTreeSet<Uuid>,
    /// What earlier tries of the claims were given.
    pub held: BTreeMap<Uuid, Vec<ExecutionId>>,
    /// The executions of those.
    pub known: BTreeMap<ExecutionId, Execution>,
    /// Inputs that others have made.
    pub passed: Passed,
    heads: Vec<Vec<Place>>,
}

impl<'a> Look<'a> {
    /// Looks from where queues are known to begin.
    pub fn new(asks: &'a [ClaimAsk], now: Millis, begin: BTreeMap<QueueId, Floor>) -> Self {
        let mut groups: Vec<&ClaimAsk> = Vec::new();
        for ask in asks {
            if !groups.iter().any(|group| group.looks_where(ask)) {
                groups.push(ask);
            }
        }
        Self {
            asks,
            now,
            begin,
            groups,
            extra: 0,
            spare: SPARE[0],
            promoted: Promoted::default(),
            busy: BTreeSet::new(),
            held: BTreeMap::new(),
            known: BTreeMap::new(),
            passed: Passed::default(),
            heads: Vec::new(),
        }
    }

    /// The places found for an ask.
    pub fn places(&self, ask: &ClaimAsk) -> &[Place] {
        let at = self.groups.iter().position(|group| group.looks_where(ask));
        at.and_then(|at| self.heads.get(at)).map_or(&[], Vec::as_slice)
    }

    /// Whether no place could be had, not even one that was passed over.
    pub fn found_nothing(&self) -> bool {
        self.heads.iter().all(Vec::is_empty)
    }

    fn limit(&self) -> usize {
        let max = |ask: &ClaimAsk| usize::try_from(ask.max).unwrap_or(usize::MAX);
        self.asks.iter().map(max).sum::<usize>() + self.extra
    }

    /// The first flight: what the claims were given before, due delays, and the heads of the queues
    /// from their floors on.
    pub async fn first(&mut self, state: &State, session: &mut Session<'_>) -> Result<(), Trouble> {
        let claims: BTreeSet<Uuid> = self.asks.iter().map(|ask| ask.claim_id).collect();
        let ids = || Params::new().all(claims.iter().copied(), Type::UUID_ARRAY);
        let mut steps = vec![
            Step::Begin,
            Step::Run(lease::serving, ids()),
            Step::Run(lease::by_claim, ids().number(self.now.0)),
            promotion(self.now),
        ];
        steps.extend(self.head_steps());
        let answers = session.fly(&steps).await?;
        drop(steps);
        if self.begin.is_empty() {
            state.heads.scanned();
        }
        let mut answers = answers.into_iter();
        let mut next = || answers.next().unwrap_or_default();
        let (serving, held, promoted) = (next(), next(), next());
        self.promoted = Promoted::read(&[promoted])?;
        self.read_heads(answers.collect())?;
        self.busy = claims;
        for row in &serving {
            self.busy.remove(&Reader::new(row).take::<Uuid>("claim_id")?);
        }
        self.load_held(session, &held).await?;
        if self.moved_before() { self.look(session).await } else { self.find_passed(session).await }
    }

    /// Nothing was found: scans every queue from its beginning. Whether there is anything at all, held
    /// by others or not.
    pub async fn everywhere(
        &mut self,
        state: &State,
        session: &mut Session<'_>,
    ) -> Result<bool, Trouble> {
        self.begin.clear();
        self.spare = SPARE[1];
        let any = |ask: &&'a ClaimAsk| {
            let params = Params::new()
                .all(ask.lanes.iter().map(|lane| lane.as_str()), Type::TEXT_ARRAY)
                .all(ask.capabilities.iter().map(String::as_str), Type::TEXT_ARRAY);
            Step::Run(ready::any, params)
        };
        let mut steps = self.head_steps();
        steps.extend(self.groups.iter().map(any));
        let mut answers = session.fly(&steps).await?;
        drop(steps);
        state.heads.scanned();
        let any = answers.split_off(self.groups.len());
        self.read_heads(answers)?;
        self.find_passed(session).await?;
        let mut found = any.iter().flatten().map(|row| Reader::new(row).take::<bool>("any"));
        Ok(found.try_fold(false, |any, row| row.map(|row| any || row))?)
    }

    /// Whether delays were moved to before where it began: they are next in line.
    fn moved_before(&mut self) -> bool {
        let mut before = false;
        for (queue, floor) in &self.promoted.moved {
            if self.begin.get(queue).is_some_and(|begin| floor < begin) {
                self.begin.insert(*queue, *floor);
                before = true;
            }
        }
        before
    }

    /// When the first of those that were found and wait for a time can be had: by the clock of the
    /// process that moved them, that is over.
    pub fn waits_until(&self) -> Option<Millis> {
        let found = self.heads.iter().flatten().filter_map(|place| place.execution.as_ref().ok());
        found.filter_map(|x| x.waits_until()).filter(|until| *until > self.now).min()
    }

    /// Finds the results that take the place of inputs. What cannot be told its input is passed
    /// over.
    async fn find_passed(&mut self, session: &mut Session<'_>) -> Result<(), Trouble> {
        let places = self.heads.iter().flatten().filter_map(|place| place.execution.as_ref().ok());
        let all = places.chain(self.known.values());
        let waiting: Vec<_> = all.filter(|x| x.input_from.is_some()).cloned().collect();
        if waiting.is_empty() {
            return Ok(());
        }
        let damaged = self.passed.find(session, &waiting).await?;
        self.known.retain(|id, _| !damaged.contains_key(id));
        for place in self.heads.iter_mut().flatten() {
            if let Some(error) = damaged.get(&place.id) {
                place.execution = Err(error.clone());
            }
        }
        Ok(())
    }

    async fn load_held(&mut self, session: &mut Session<'_>, rows: &[Row]) -> Result<(), Trouble> {
        for row in rows {
            let mut r = Reader::new(row);
            let claim: Uuid = r.take("claim_id")?;
            self.held.entry(claim).or_default().push(r.id()?);
        }
        if self.held.is_empty() {
            return Ok(());
        }
        let keys = self.held.values().flatten().map(|id| Key::Execution(*id));
        let wanted = Wanted::new(keys);
        let answers = session.fly(&wanted.load()).await?;
        let loaded = wanted.read(answers)?;
        let known = loaded.have.executions.into_iter();
        self.known = known.filter_map(|(id, x)| Some((id, x?))).collect();
        Ok(())
    }

    /// How much more to look at because of what was passed over; nothing when that is enough.
    pub fn widen(&self, choice: &Choice) -> Option<usize> {
        let all = self.heads.iter().any(|places| places.len() >= self.limit());
        let wider = choice.passed() * 2;
        let needed = all && choice.is_short() && wider > self.extra && self.extra < PASSED_MAX;
        needed.then_some(wider)
    }

    /// Looks again, at more.
    pub async fn again(&mut self, session: &mut Session<'_>, extra: usize) -> Result<(), Trouble> {
        self.extra = extra;
        self.look(session).await
    }

    async fn look(&mut self, session: &mut Session<'_>) -> Result<(), Trouble> {
        let answers = session.fly(&self.head_steps()).await?;
        self.read_heads(answers)?;
        self.find_passed(session).await
    }

    fn head_steps(&self) -> Vec<Step<'a>> {
        let limit = self.limit();
        let step = |ask: &&'a ClaimAsk| {
            let floors = self.begin.values();
            let params = Params::new()
                .all(ask.lanes.iter().map(|lane| lane.as_str()), Type::TEXT_ARRAY)
                .all(ask.capabilities.iter().map(String::as_str), Type::TEXT_ARRAY)
                .all(self.begin.keys().map(|queue| queue.0), Type::INT8_ARRAY)
                .all(floors.clone().map(|floor| floor.0), Type::INT4_ARRAY)
                .all(floors.clone().map(|floor| floor.1), Type::INT8_ARRAY)
                .all(floors.clone().map(|floor| floor.2), Type::INT2_ARRAY)
                .all(floors.map(|floor| floor.3), Type::UUID_ARRAY);
            Step::Run(ready::head, params.count(limit + self.spare).count(limit))
        };
        self.groups.iter().map(step).collect()
    }

    fn read_heads(&mut self, answers: Vec<Vec<Row>>) -> Result<(), StoreError> {
        let read = |rows: Vec<Row>| rows.iter().map(read_place).collect::<Result<_, _>>();
        self.heads = answers.into_iter().map(read).collect::<Result<_, _>>()?;
        Ok(())
    }

    /// Where what was leased stands.
    pub fn places_of(&self, leased: &[Vec<Leased>]) -> Places {
        let gone: BTreeSet<_> = leased.iter().flatten().map(|one| one.execution.id).collect();
        let mut places = Places::default();
        for place in self.heads.iter().flatten().filter(|place| gone.contains(&place.id)) {
            places.ready.insert(place.id, place.at.0);
            places.executions.insert(place.id, place.at.1);
        }
        places
    }

    /// How far the queues are empty once `leased` is gone from them: to the first place that was
    /// left, or to behind the last one that was taken.
    pub fn reached(&self, leased: &[Vec<Leased>]) -> BTreeMap<QueueId, Floor> {
        let gone: BTreeSet<_> = leased.iter().flatten().map(|one| one.execution.id).collect();
        let mut floors = BTreeMap::new();
        let mut done = BTreeSet::new();
        for place in self.heads.iter().flatten() {
            if done.contains(&place.queue) {
                continue;
            }
            let floor = if gone.contains(&place.id) {
                let (rank, turn, partition, id) = place.floor;
                (rank, turn, partition, Uuid::from_u128(id.as_u128().saturating_add(1)))
            } else {
                done.insert(place.queue);
                place.floor
            };
            floors.insert(place.queue, floor);
        }
        floors
    }
}

fn read_place(row: &Row) -> Result<Place, StoreError> {
    let mut r = Reader::new(row);
    let queue = QueueId(r.take("queue")?);
    let (rank, turn) = (r.take("rank")?, r.take("turn_ms")?);
    let at = (r.take("place")?, r.take("at")?);
    let mut ahead = r.clone();
    let id = ahead.id()?;
    let floor = (rank, turn, partition(id), id.uuid());
    let columns = read_row(&mut r);
    let rest = |r: &mut Reader<'_>| -> Result<_, StoreError> {
        let encoding = read_encoding(r)?;
        let size = r.take::<Option<i32>>("size")?;
        let size = size.map(|size| number("size", i64::from(size))).transpose()?;
        let bytes = r.take::<Option<&[u8]>>("bytes")?.map(Bytes::copy_from_slice);
        Ok((encoding, size, bytes))
    };
    let read = columns.and_then(|columns| Ok((columns.read(None)?, rest(&mut r)?)));
    Ok(match read {
        Ok((execution, (encoding, size, bytes))) => {
            Place { queue, floor, at, id, execution: Ok(execution), encoding, size, bytes }
        }
        Err(error) => {
            let (encoding, size, bytes) = (None, None, None);
            Place { queue, floor, at, id, execution: Err(error), encoding, size, bytes }
        }
    })
}
