//! Loading the rows that decisions need.

use std::collections::{BTreeMap, BTreeSet};

use ff_core::backend::{Ended, Fate, Kept, StoreError};
use ff_core::event::{Cursor, Horizon, Window};
use ff_core::execution::Fingerprint;
use ff_core::fold::{Blob, BlobRef, Consumer, GroupKey, Key, KeyRow, WorkingSet};
use ff_core::ids::ExecutionId;
use ff_core::row::{corrupt, number, parse};
use ff_core::state::{Phase, TerminalOutcome};
use ff_core::text::{ConsumerName, IdempotencyKey, Namespace};
use ff_core::time::Millis;
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

use crate::codec::{self, Params, Reader, Tid, home, partition, read_bytes};
use crate::connection::Step;
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
    steps: BTreeSet<(ExecutionId, u32)>,
    stepped: BTreeSet<(ExecutionId, u32)>,
    inputs: Vec<BlobRef>,
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
    pub damaged: BTreeMap<Key, StoreError>,
    /// Groups that are there and were locked.
    pub locked: BTreeSet<GroupKey>,
    /// Where executions stand that were locked, as far as is known.
    pub places: ById<Tid>,
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
                Key::Step(id, number) => drop(wanted.steps.insert((id, number))),
                Key::Stepped(id, attempt) => drop(wanted.stepped.insert((id, attempt))),
                Key::Input(id) => wanted.inputs.push(BlobRef::Input(id)),
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
        if !self.executions.is_empty() {
            let ids = self.executions.iter().copied();
            steps.push(Step::Run(execution::load, Params::new().ids(ids)));
        }
        if !self.keys.is_empty() {
            let params = Params::new()
                .all(self.keys.iter().map(|(namespace, _)| namespace.as_str()), Type::TEXT_ARRAY)
                .all(self.keys.iter().map(|(_, key)| key.as_str()), Type::TEXT_ARRAY);
            steps.push(Step::Run(idempotency::load, params));
        }
        if !self.consumers.is_empty() {
            let names = self.consumers.iter().map(|name| name.as_str());
            steps.push(Step::Run(consumer::load, Params::new().all(names, Type::TEXT_ARRAY)));
        }
        if !self.unseen.is_empty() {
            let ids = self.unseen.iter().copied();
            steps.push(Step::Run(event::unseen, Params::new().ids(ids)));
        }
        for (sql, of) in [(step::load, &self.steps), (step::of_attempt, &self.stepped)] {
            if !of.is_empty() {
                let number = |(_, number): &(_, u32)| i32::try_from(*number).unwrap_or(i32::MAX);
                let params = Params::new().ids(of.iter().map(|(id, _)| *id));
                let params = params.all(of.iter().map(number), Type::INT4_ARRAY);
                steps.push(Step::Run(sql, params));
            }
        }
        if !self.inputs.is_empty() {
            steps.push(blobs_step(&self.inputs));
        }
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
        let have = &mut loaded.have;
        let mut answers = answers.into_iter();
        let mut next = |any: bool| any.then(|| answers.next()).flatten().unwrap_or_default();
        have.executions.extend(self.executions.iter().map(|id| (*id, None)));
        for row in next(!self.executions.is_empty()) {
            let (id, read) = codec::read_execution(&row)?;
            match read {
                Ok(x) => drop(have.executions.insert(id, Some(x))),
                Err(error) => {
                    have.executions.remove(&id);
                    loaded.damaged.insert(Key::Execution(id), error);
                }
            }
        }
        have.keys.extend(self.keys.iter().map(|key| (key.clone(), None)));
        for row in next(!self.keys.is_empty()) {
            let (key, read) = read_key(&row)?;
            have.keys.insert(key, Some(read));
        }
        have.consumers.extend(self.consumers.iter().map(|name| (name.clone(), None)));
        for row in next(!self.consumers.is_empty()) {
            let (name, read) = read_consumer(&row)?;
            have.consumers.insert(name, Some(read));
        }
        have.unseen.extend(self.unseen.iter().map(|id| (*id, false)));
        for row in next(!self.unseen.is_empty()) {
            have.unseen.insert(Reader::new(&row).id()?, true);
        }
        have.steps.extend(self.steps.iter().map(|at| (*at, None)));
        for row in next(!self.steps.is_empty()) {
            let record = codec::read_step(&row)?;
            have.steps.insert((record.execution, record.step.number), Some(record));
        }
        have.stepped.extend(self.stepped.iter().map(|of| (*of, false)));
        for row in next(!self.stepped.is_empty()) {
            let mut r = Reader::new(&row);
            let of = (r.id()?, number("attempt_index", r.int("attempt_index")?)?);
            have.stepped.insert(of, true);
        }
        have.inputs.extend(self.inputs.iter().map(|at| (at.execution(), None)));
        for row in next(!self.inputs.is_empty()) {
            let id = Reader::new(&row).id()?;
            match read_blob(&row) {
                Ok(blob) => drop(have.inputs.insert(id, Some(blob))),
                Err(error) => {
                    have.inputs.remove(&id);
                    loaded.damaged.insert(Key::Input(id), error);
                }
            }
        }
        self.graph.read(&mut answers, held, loaded)?;
        self.waits.read(&mut answers, loaded)
    }
}

/// The parameters of `payload/load.sql`.
pub fn blob_params(refs: &[BlobRef]) -> Params<'_> {
    let kind = |at: &BlobRef| match at {
        BlobRef::Input(_) => "input",
        BlobRef::Result(..) => "result",
    };
    let attempt = |at: &BlobRef| i32::try_from(codec::attempt_of(*at)).unwrap_or(i32::MAX);
    Params::new()
        .all(refs.iter().map(|at| partition(at.execution())), Type::INT2_ARRAY)
        .all(refs.iter().map(|at| at.execution().uuid()), Type::UUID_ARRAY)
        .all(refs.iter().map(kind), Type::TEXT_ARRAY)
        .all(refs.iter().map(attempt), Type::INT4_ARRAY)
}

/// The statement that reads bytes.
pub fn blobs_step(refs: &[BlobRef]) -> Step<'_> {
    Step::Run(payload::load, blob_params(refs))
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
    let params = Params::new().one(partition(id), Type::INT2).one(id.uuid(), Type::UUID);
    Step::Run(execution::fate, params)
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

fn read_key(row: &Row) -> Result<((Namespace, IdempotencyKey), KeyRow), StoreError> {
    let mut r = Reader::new(row);
    let namespace = parse("namespace", r.take("namespace")?)?;
    let key = parse("key", r.take("key")?)?;
    let read = KeyRow {
        execution: r.id()?,
        fingerprint: Fingerprint(r.take("fingerprint")?),
        expires_at: Millis(r.take("expires_at_ms")?),
    };
    Ok(((namespace, key), read))
}

fn read_consumer(row: &Row) -> Result<(ConsumerName, Consumer), StoreError> {
    let mut r = Reader::new(row);
    let name = parse("name", r.take("name")?)?;
    let base = read_horizon(&mut r, "base", "base_seq")?;
    let upto = read_horizon(&mut r, "upto", "upto_seq")?;
    let after = number("after_seq", r.take("after_seq")?)?;
    let window = Window { base, upto, after };
    let cursor =
        if window == nothing_seen() { Cursor::Start } else { Cursor::Window(Box::new(window)) };
    Ok((name, Consumer { cursor, updated_at: Millis(r.take("updated_at_ms")?) }))
}

fn read_horizon(r: &mut Reader<'_>, snapshot: &str, seq: &str) -> Result<Horizon, StoreError> {
    Ok(Horizon { snapshot: r.take(snapshot)?, seq: number(seq, r.take(seq)?)? })
}

/// The window before the first event: a snapshot that sees nothing.
pub fn nothing_seen() -> Window {
    let nothing = Horizon { snapshot: "1:1:".to_owned(), seq: 0 };
    Window { base: nothing.clone(), upto: nothing, after: 0 }
}
