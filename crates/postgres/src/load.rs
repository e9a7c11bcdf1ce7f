//! Loading the rows that decisions need.

use std::collections::{BTreeMap, BTreeSet};

use ff_core::backend::{Ended, Fate, Kept, StoreError};
use ff_core::event::{Cursor, Horizon, Window};
use ff_core::execution::Fingerprint;
use ff_core::fold::{Blob, BlobRef, Consumer, GroupKey, Key, KeyRow, WorkingSet};
use ff_core::ids::{ExecutionId, FlowId};
use ff_core::row::{corrupt, number, parse};
use ff_core::state::{Phase, TerminalOutcome};
use ff_core::text::{ConsumerName, IdempotencyKey, Namespace};
use ff_core::time::Millis;
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

use crate::codec::{self, Params, Reader, Tid, home, partition, read_bytes};
use crate::connection::{Step, run_for};
use crate::graph::{GraphWanted, Held};
use crate::statements::{consumer, event, execution, idempotency, lease, payload, step};
use crate::waits::WaitWanted;
use crate::write::ById;

/// Rows to load, by kind.
#[derive(Default)]
pub struct Wanted {
    executions: BTreeSet<ExecutionId>,
    keys: BTreeSet<(Namespace, IdempotencyKey)>,
    consumers: BTreeSet<ConsumerName>,
    unseen: BTreeSet<ExecutionId>,
    unseen_flows: BTreeSet<FlowId>,
    steps: BTreeSet<(ExecutionId, u32)>,
    stepped: BTreeSet<(ExecutionId, u32)>,
    inputs: BTreeSet<ExecutionId>,
    graph: GraphWanted,
    waits: WaitWanted,
}

/// A row in the order in which all are locked: by partition and UUID, as the statements sort them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lock {
    /// A flow.
    Flow(i16, Uuid),
    /// A group: of which flow, and what waits.
    Group(i16, Uuid, Uuid),
    /// An execution.
    Execution(i16, Uuid),
}

impl Lock {
    /// After all others.
    pub const LAST: Self = Self::Execution(i16::MAX, Uuid::max());

    fn group((flow, id): &GroupKey) -> Self {
        Self::Group(home(*flow), flow.0, id.uuid())
    }
}

/// What was found; a row that cannot be read is reported beside the others.
#[derive(Default)]
pub struct Loaded {
    /// The readable rows.
    pub have: WorkingSet,
    /// The others.
    pub damaged: Damaged,
    /// Groups that are there and were locked.
    pub locked: BTreeSet<GroupKey>,
    /// Where executions stand that were locked, as far as is known.
    pub places: ById<Tid>,
}

/// Why rows cannot be read, by the keys that asked for them.
pub type Damaged = BTreeMap<Key, StoreError>;

/// What is read of one row: its key is known even if the rest cannot be read.
pub type Keyed<K, V> = Result<(K, Result<V, StoreError>), StoreError>;

/// Answers to statements that load rows; each was sent only if it was for something.
pub struct Answers(std::vec::IntoIter<Vec<Row>>);

impl Answers {
    /// The rows of the next statement, if it was `sent`.
    pub fn next(&mut self, sent: bool) -> Vec<Row> {
        if sent { self.0.next().unwrap_or_default() } else { Vec::new() }
    }

    /// Puts everything `wanted` into `have`: what its row says, or `absent` where there is no row.
    pub fn fill<K: Ord + Clone, V: Clone>(
        &mut self,
        wanted: &BTreeSet<K>,
        have: &mut BTreeMap<K, V>,
        absent: V,
        read: impl Fn(&mut Reader<'_>) -> Result<(K, V), StoreError>,
    ) -> Result<(), StoreError> {
        have.extend(wanted.iter().map(|key| (key.clone(), absent.clone())));
        for row in self.next(!wanted.is_empty()) {
            let (key, value) = read(&mut Reader::new(&row))?;
            have.insert(key, value);
        }
        Ok(())
    }

    /// The same for rows that may be damaged: one that cannot be read is left out of `have`, and
    /// reported under its `key`.
    pub fn fill_readable<K: Ord + Clone, V>(
        &mut self,
        wanted: &BTreeSet<K>,
        (have, damaged): (&mut BTreeMap<K, Option<V>>, &mut Damaged),
        key: impl Fn(K) -> Key,
        read: impl Fn(&Row) -> Keyed<K, V>,
    ) -> Result<(), StoreError> {
        have.extend(wanted.iter().map(|key| (key.clone(), None)));
        for row in self.next(!wanted.is_empty()) {
            let (at, read) = read(&row)?;
            if let Some(error) = keep(have, at.clone(), read) {
                damaged.insert(key(at), error);
            }
        }
        Ok(())
    }

    /// All rows of everything `wanted`. Where one of them cannot be read, the others are left out
    /// too, and its error is reported under the `key`.
    pub fn gather<K: Ord + Copy, V>(
        &mut self,
        wanted: &BTreeSet<K>,
        damaged: &mut Damaged,
        key: impl Fn(K) -> Key,
        read: impl Fn(&Row) -> Keyed<K, V>,
    ) -> Result<BTreeMap<K, Vec<V>>, StoreError> {
        let mut all: BTreeMap<K, Vec<V>> = wanted.iter().map(|of| (*of, Vec::new())).collect();
        let mut first = BTreeMap::new();
        for row in self.next(!wanted.is_empty()) {
            let (of, read) = read(&row)?;
            match read {
                Ok(row) => all.entry(of).or_default().push(row),
                Err(error) => drop(first.entry(of).or_insert(error)),
            }
        }
        for (of, error) in first {
            all.remove(&of);
            damaged.insert(key(of), error);
        }
        Ok(all)
    }
}

/// Puts a row into `have`. One that cannot be read is not there, nor absent: returns the error.
pub fn keep<K: Ord, V>(
    have: &mut BTreeMap<K, Option<V>>,
    key: K,
    read: Result<V, StoreError>,
) -> Option<StoreError> {
    match read {
        Ok(row) => {
            have.insert(key, Some(row));
            None
        }
        Err(error) => {
            have.remove(&key);
            Some(error)
        }
    }
}

impl Wanted {
    /// Sorts keys by kind, and each kind in the order of locks.
    pub fn new(keys: impl IntoIterator<Item = Key>) -> Self {
        let mut wanted = Self::default();
        for key in keys {
            match key {
                Key::Execution(id) => drop(wanted.executions.insert(id)),
                Key::Idempotency(namespace, key) => drop(wanted.keys.insert((namespace, key))),
                Key::Consumer(name) => drop(wanted.consumers.insert(name)),
                Key::Unseen(id) => drop(wanted.unseen.insert(id)),
                Key::UnseenFlow(flow) => drop(wanted.unseen_flows.insert(flow)),
                Key::Step(id, number) => drop(wanted.steps.insert((id, number))),
                Key::Stepped(id, attempt) => drop(wanted.stepped.insert((id, attempt))),
                Key::Input(id) => drop(wanted.inputs.insert(id)),
                Key::Flow(_)
                | Key::FreeFlow(_)
                | Key::Group(..)
                | Key::FreeGroup(..)
                | Key::Groups(_)
                | Key::Edge(..)
                | Key::Pair(..)
                | Key::Outgoing(..)
                | Key::Incoming(..)
                | Key::Reach(..)
                | Key::Behind(..)
                | Key::Members(_)
                | Key::Dispatch(_)
                | Key::Cancel(..)
                | Key::Backlog(_)
                | Key::Owed(_)
                | Key::First(_) => wanted.graph.add(&key),
                Key::Wait(key) => wanted.waits.add(key),
            }
        }
        wanted.graph.settle();
        wanted
    }

    /// The rows that it locks.
    pub fn locks(&self) -> impl Iterator<Item = Lock> {
        let GraphWanted { flows, free_flows, groups, free, .. } = &self.graph;
        let flows = flows.iter().chain(free_flows);
        let flows = flows.map(|flow| Lock::Flow(home(*flow), flow.0));
        let groups = groups.iter().chain(free).map(Lock::group);
        let executions = self.executions.iter();
        let executions = executions.map(|id| Lock::Execution(partition(*id), id.uuid()));
        flows.chain(groups).chain(executions)
    }

    /// The statements that lock, in the order of locks; with their leases if it must be `firm`.
    pub fn lock(&self, firm: bool) -> Vec<Step<'_>> {
        let mut steps = self.graph.lock();
        if !self.executions.is_empty() {
            let ids = || Params::new().ids(self.executions.iter().copied());
            steps.push(Step::Run(execution::lock, ids()));
            steps.extend(firm.then(|| Step::Run(lease::pin, ids())));
        }
        steps
    }

    /// What the statements of [`Wanted::lock`] could lock of that which was not to be waited for.
    pub fn held(&self, answers: &[Vec<Row>]) -> Result<Held, StoreError> {
        self.graph.held(answers)
    }

    /// The statements that load everything; one for each kind of row.
    pub fn load(&self) -> Vec<Step<'_>> {
        let mut steps = Vec::new();
        let ids = |ids: &BTreeSet<ExecutionId>| Params::new().ids(ids.iter().copied());
        run_for(&mut steps, execution::load, &self.executions, ids);
        run_for(&mut steps, idempotency::load, &self.keys, |keys| {
            Params::new()
                .all(keys.iter().map(|(namespace, _)| namespace.as_str()), Type::TEXT_ARRAY)
                .all(keys.iter().map(|(_, key)| key.as_str()), Type::TEXT_ARRAY)
        });
        run_for(&mut steps, consumer::load, &self.consumers, |names| {
            Params::new().all(names.iter().map(|name| name.as_str()), Type::TEXT_ARRAY)
        });
        run_for(&mut steps, event::unseen, &self.unseen, |own| ids(own).one(false, Type::BOOL));
        run_for(&mut steps, event::unseen, &self.unseen_flows, |flows| {
            Params::new().flows(flows.iter().copied()).one(true, Type::BOOL)
        });
        for (sql, of) in [(step::load, &self.steps), (step::of_attempt, &self.stepped)] {
            run_for(&mut steps, sql, of, |of| {
                let number = |(_, number): &(_, u32)| i32::try_from(*number).unwrap_or(i32::MAX);
                let params = Params::new().ids(of.iter().map(|(id, _)| *id));
                params.all(of.iter().map(number), Type::INT4_ARRAY)
            });
        }
        run_for(&mut steps, payload::load, &self.inputs, |ids| {
            blob_params(ids.iter().map(|id| BlobRef::Input(*id)))
        });
        self.graph.load(&mut steps);
        self.waits.load(&mut steps);
        steps
    }

    /// Reads the answers to [`Wanted::load`] when nothing was locked.
    pub fn read(&self, answers: Vec<Vec<Row>>) -> Result<Loaded, StoreError> {
        let mut loaded = Loaded::default();
        self.read_into(&mut loaded, answers, None)?;
        Ok(loaded)
    }

    /// Adds the answers to [`Wanted::load`] to what was loaded before. `held` is what
    /// [`Wanted::held`] says; nothing when nothing was locked.
    pub fn read_into(
        &self,
        loaded: &mut Loaded,
        answers: Vec<Vec<Row>>,
        held: Option<&Held>,
    ) -> Result<(), StoreError> {
        let Loaded { have, damaged, .. } = loaded;
        let mut answers = Answers(answers.into_iter());
        let executions = (&mut have.executions, &mut *damaged);
        let read = codec::read_execution;
        answers.fill_readable(&self.executions, executions, Key::Execution, read)?;
        answers.fill(&self.keys, &mut have.keys, None, read_key)?;
        answers.fill(&self.consumers, &mut have.consumers, None, read_consumer)?;
        answers.fill(&self.unseen, &mut have.unseen, false, |r| Ok((r.id()?, true)))?;
        answers.fill(&self.unseen_flows, &mut have.graph.unseen, false, |r| {
            Ok((FlowId(r.id()?.uuid()), true))
        })?;
        answers.fill(&self.steps, &mut have.steps, None, |r| {
            let record = codec::read_step(r)?;
            Ok(((record.execution, record.step.number), Some(record)))
        })?;
        answers.fill(&self.stepped, &mut have.stepped, false, |r| {
            Ok(((r.id()?, number("attempt_index", r.int("attempt_index")?)?), true))
        })?;
        let inputs = (&mut have.inputs, damaged);
        answers.fill_readable(&self.inputs, inputs, Key::Input, |row| {
            Ok((Reader::new(row).id()?, read_blob(row)))
        })?;
        self.graph.read(&mut answers, held, loaded)?;
        self.waits.read(&mut answers, loaded)
    }
}

/// The parameters of `payload/load.sql`.
fn blob_params<'a>(refs: impl Iterator<Item = BlobRef> + Clone) -> Params<'a> {
    let attempt = |at| i32::try_from(codec::attempt_of(at)).unwrap_or(i32::MAX);
    Params::new()
        .ids(refs.clone().map(BlobRef::execution))
        .all(refs.clone().map(codec::kind_of), Type::TEXT_ARRAY)
        .all(refs.map(attempt), Type::INT4_ARRAY)
}

/// The statement that reads bytes.
pub fn blobs_step(refs: &[BlobRef]) -> Step<'_> {
    Step::Run(payload::load, blob_params(refs.iter().copied()))
}

/// What was found, in the order it was asked for.
pub fn in_order(refs: &[BlobRef], found: Vec<Blob>) -> Vec<Blob> {
    let mut found: BTreeMap<BlobRef, Blob> =
        found.into_iter().map(|blob| (blob.at, blob)).collect();
    refs.iter().filter_map(|at| found.remove(at)).collect()
}

/// Reads what `payload/load.sql` selects.
pub fn read_blob(row: &Row) -> Result<Blob, StoreError> {
    let mut r = Reader::new(row);
    let id = r.id()?;
    let kind: String = r.take("kind")?;
    let attempt = number("attempt_index", r.int("attempt_index")?)?;
    let at = match kind.as_str() {
        "input" => BlobRef::Input(id),
        "result" => BlobRef::Result(id, attempt),
        other => return Err(corrupt("kind", other, "is neither input nor result")),
    };
    let encoding = codec::read_encoding(&mut r)?;
    Ok(Blob { at, encoding, bytes: read_bytes(r.take("bytes")?) })
}

/// The statement that asks whether and how an execution has ended.
pub fn fate_step(id: ExecutionId) -> Step<'static> {
    Step::Run(execution::fate, Params::new().id(id))
}

/// Reads what `execution/fate.sql` selects.
pub fn read_fate(id: ExecutionId, row: &Row) -> Result<Fate, StoreError> {
    let mut r = Reader::new(row);
    match parse("phase", r.take("phase")?)? {
        Phase::Terminal => {}
        Phase::Runnable | Phase::Active | Phase::Suspended => return Ok(Fate::Open),
    }
    let outcome: TerminalOutcome = parse("outcome", r.take("outcome")?)?;
    let (has, index): (Option<bool>, Option<i32>) =
        (r.take("has_result")?, r.take("attempt_index")?);
    let (here, encoding): (Option<i32>, _) =
        (r.take("result_attempt")?, codec::read_encoding(&mut r)?);
    let Some(index) = index.filter(|_| has == Some(true)) else {
        return Ok(Fate::Ended(Ended { state: outcome.into(), result: None }));
    };
    let at = BlobRef::Result(id, number("attempt_index", index.into())?);
    let result = if here == Some(index) {
        Kept::Here(Blob { at, encoding, bytes: read_bytes(r.take("result")?) })
    } else {
        Kept::There(at)
    };
    Ok(Fate::Ended(Ended { state: outcome.into(), result: Some(result) }))
}

fn read_key(
    r: &mut Reader<'_>,
) -> Result<((Namespace, IdempotencyKey), Option<KeyRow>), StoreError> {
    let namespace = parse("namespace", r.take("namespace")?)?;
    let key = parse("key", r.take("key")?)?;
    let read = KeyRow {
        execution: r.id()?,
        fingerprint: Fingerprint(r.take("fingerprint")?),
        expires_at: Millis(r.take("expires_at_ms")?),
    };
    Ok(((namespace, key), Some(read)))
}

fn read_consumer(r: &mut Reader<'_>) -> Result<(ConsumerName, Option<Consumer>), StoreError> {
    let name = parse("name", r.take("name")?)?;
    let base = read_horizon(r, "base", "base_seq")?;
    let upto = read_horizon(r, "upto", "upto_seq")?;
    let after = number("after_seq", r.take("after_seq")?)?;
    let window = Window { base, upto, after };
    let cursor =
        if window == nothing_seen() { Cursor::Start } else { Cursor::Window(Box::new(window)) };
    Ok((name, Some(Consumer { cursor, updated_at: Millis(r.take("updated_at_ms")?) })))
}

fn read_horizon(r: &mut Reader<'_>, snapshot: &str, seq: &str) -> Result<Horizon, StoreError> {
    Ok(Horizon { snapshot: r.take(snapshot)?, seq: number(seq, r.take(seq)?)? })
}

/// The window before the first event: a snapshot that sees nothing.
pub fn nothing_seen() -> Window {
    let nothing = Horizon { snapshot: "1:1:".to_owned(), seq: 0 };
    Window { base: nothing.clone(), upto: nothing, after: 0 }
}
