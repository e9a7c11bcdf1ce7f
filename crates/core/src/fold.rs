//! Folding a batch of commands over loaded rows, in memory, into one set of writes.
//!
//! Commands apply in order and see each other's changes. A rejected command leaves no trace. A
//! row touched by many commands is written once. Derived rows (ready, timer, tag, lease) are the
//! difference between the first and the last version of their execution.

mod derived;
mod graph;
mod waits;

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use crate::command::{Command, Outcome};
use crate::error::{Code, Rejection};
use crate::event::{Cursor, CursorKind, Event};
use crate::execution::{AttemptRecord, Ending, Execution, Fingerprint, Lease, State, Terminal};
use crate::flow::Dispatch;
use crate::ids::{EdgeId, ExecutionId, FlowId};
use crate::index::{self, Queue, Ready, TagRow, Timer};
use crate::limits::Config;
use crate::step::StepRecord;
use crate::text::{ConsumerName, Encoding, IdempotencyKey, Namespace};
use crate::time::{Entropy, Millis};

use derived::{derive, hold_unwritten};
pub use graph::{GraphEffects, GraphSet, GraphWrites, GroupKey};
pub use waits::{SignalKey, WaitEffects, WaitKey, WaitSet, WaitWrites, WithinKey};

/// Names a row that decisions read. The order of keys is the order of locks: flows, groups and
/// executions are locked, the rest is read while they are.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// A flow.
    Flow(FlowId),
    /// The same, unless somebody else holds it.
    FreeFlow(FlowId),
    /// The group of the edges into an execution.
    Group(FlowId, ExecutionId),
    /// The same, unless somebody else holds it.
    FreeGroup(FlowId, ExecutionId),
    /// An execution.
    Execution(ExecutionId),
    /// An idempotency key in its namespace.
    Idempotency(Namespace, IdempotencyKey),
    /// A durable consumer of the feed.
    Consumer(ConsumerName),
    /// A step of an execution.
    Step(ExecutionId, u32),
    /// Whether an attempt of an execution recorded a step.
    Stepped(ExecutionId, u32),
    /// The input of an execution that may be started in the batch that lets it go.
    Input(ExecutionId),
    /// Whether some durable consumer has yet to deal with an event of an execution, as of before
    /// the batch. Retention sends its commands in batches of their own, so that is enough.
    Unseen(ExecutionId),
    /// The same of the flow's own events, as of before the batch: its members count for themselves, also
    /// the one with the flow's UUID.
    UnseenFlow(FlowId),
    /// Every group of a flow.
    Groups(FlowId),
    /// An edge.
    Edge(FlowId, EdgeId),
    /// The edge from one execution to another.
    Pair(FlowId, ExecutionId, ExecutionId),
    /// The edges out of an execution.
    Outgoing(FlowId, ExecutionId),
    /// The edges into an execution.
    Incoming(FlowId, ExecutionId),
    /// What can be reached from an execution; at most
    /// [`CYCLE_NODES_MAX`](crate::limits::CYCLE_NODES_MAX) are looked at.
    Reach(FlowId, ExecutionId),
    /// What lies behind an execution along edges that are impossible, nearest first; at most
    /// [`REPLAY_AT_ONCE_MAX`](crate::limits::REPLAY_AT_ONCE_MAX).
    Behind(FlowId, ExecutionId),
    /// The members of a flow that have not ended.
    Members(FlowId),
    /// Whether the end of a member is still to be dispatched.
    Dispatch(ExecutionId),
    /// Whether the siblings of a group are still to be cancelled.
    Cancel(FlowId, ExecutionId),
    /// Whether a flow owes the end of some of its members.
    Backlog(FlowId),
    /// The first that it owes: one more than [`CANCEL_CHUNK_MAX`](crate::limits::CANCEL_CHUNK_MAX),
    /// which tells whether others follow.
    Owed(FlowId),
    /// The first [`TRIM_CHUNK_MAX`](crate::limits::TRIM_CHUNK_MAX) members of a flow.
    First(FlowId),
    /// Something that belongs to a suspension.
    Wait(WaitKey),
}

/// What an idempotency key stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRow {
    /// The execution created under it.
    pub execution: ExecutionId,
    /// What that creation said.
    pub fingerprint: Fingerprint,
    /// Forgotten after this.
    pub expires_at: Millis,
}

/// Where a durable consumer stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Consumer {
    /// It has dealt with everything up to here.
    pub cursor: Cursor,
    /// When it last said so.
    pub updated_at: Millis,
}

/// Loaded rows; `None` is a row known to be absent.
#[derive(Clone, Debug, Default)]
pub struct WorkingSet {
    /// Executions.
    pub executions: BTreeMap<ExecutionId, Option<Execution>>,
    /// Idempotency keys.
    pub keys: BTreeMap<(Namespace, IdempotencyKey), Option<KeyRow>>,
    /// Consumers.
    pub consumers: BTreeMap<ConsumerName, Option<Consumer>>,
    /// Steps.
    pub steps: BTreeMap<(ExecutionId, u32), Option<StepRecord>>,
    /// Whether an attempt of an execution recorded a step, as of before the batch.
    pub stepped: BTreeMap<(ExecutionId, u32), bool>,
    /// Whether some consumer has yet to deal with an event of these executions.
    pub unseen: BTreeMap<ExecutionId, bool>,
    /// Inputs.
    pub inputs: BTreeMap<ExecutionId, Option<Blob>>,
    /// Flows and what belongs to them.
    pub graph: GraphSet,
    /// Suspensions and what belongs to them.
    pub waits: WaitSet,
}

impl WorkingSet {
    /// Whether the row was looked up.
    pub fn has(&self, key: &Key) -> bool {
        match key {
            Key::Execution(id) => self.executions.contains_key(id),
            Key::Idempotency(namespace, key) => {
                self.keys.contains_key(&(namespace.clone(), key.clone()))
            }
            Key::Consumer(name) => self.consumers.contains_key(name),
            Key::Step(id, number) => self.steps.contains_key(&(*id, *number)),
            Key::Stepped(id, attempt) => self.stepped.contains_key(&(*id, *attempt)),
            Key::Unseen(id) => self.unseen.contains_key(id),
            Key::Input(id) => self.inputs.contains_key(id),
            Key::Flow(_)
            | Key::FreeFlow(_)
            | Key::Group(..)
            | Key::FreeGroup(..)
            | Key::UnseenFlow(_)
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
            | Key::First(_) => self.graph.has(key),
            Key::Wait(key) => self.waits.has(key),
        }
    }

    /// The execution, or the answer that there is none.
    pub fn execution(&self, id: ExecutionId) -> Result<&Execution, Rejection> {
        let row = self.executions.get(&id).and_then(Option::as_ref);
        row.ok_or_else(|| Rejection::execution_not_found(id))
    }

    /// The consumer, or the answer that there is none.
    pub fn consumer(&self, name: &ConsumerName) -> Result<&Consumer, Rejection> {
        let row = self.consumers.get(name).and_then(Option::as_ref);
        row.ok_or_else(|| {
            Rejection::new(Code::ConsumerNotFound, format!("there is no consumer {name}"))
        })
    }
}

/// The rows that `command` needs and `have` does not hold yet.
///
/// Asked again after loading them, until nothing is missing: at most three rounds.
pub fn needs(command: &Command, have: &WorkingSet) -> Vec<Key> {
    command.keys(have).into_iter().filter(|key| !have.has(key)).collect()
}

/// Bytes that an execution owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blob {
    /// Which bytes.
    pub at: BlobRef,
    /// How they are encoded.
    pub encoding: Option<Encoding>,
    /// The bytes.
    pub bytes: Bytes,
}

/// Names bytes that an execution owns. They are written once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BlobRef {
    /// The input payload.
    Input(ExecutionId),
    /// The result of an attempt.
    Result(ExecutionId, u32),
}

impl BlobRef {
    /// The input of `x`: its own, unless the result of `upstream`, which it waited for, took its place.
    pub fn input(x: &Execution, upstream: Option<&Execution>) -> Self {
        let passed = upstream.filter(|upstream| x.input_from == Some(upstream.id));
        passed.and_then(Self::result).unwrap_or(Self::Input(x.id))
    }

    /// The result of `x`, if it has one.
    pub fn result(x: &Execution) -> Option<Self> {
        match &x.state {
            State::Terminal(Terminal {
                ending: Ending::Success { result: true, .. },
                attempt: Some(attempt),
                ..
            }) => Some(Self::Result(x.id, attempt.index)),
            State::Terminal(_) | State::Runnable(_) | State::Active(_) | State::Suspended(_) => {
                None
            }
        }
    }

    /// The owner.
    pub fn execution(self) -> ExecutionId {
        match self {
            Self::Input(id) | Self::Result(id, _) => id,
        }
    }
}

/// The lease of an execution as it is stored, beside the execution: renewing writes only this.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseRow {
    /// Of which.
    pub execution: ExecutionId,
    /// The fencing number it was granted under.
    pub epoch: u64,
    /// The lease.
    pub lease: Lease,
}

impl LeaseRow {
    /// The lease on `x`, if a worker holds it.
    pub fn of(x: &Execution) -> Option<Self> {
        match &x.state {
            State::Active(active) => {
                Some(Self { execution: x.id, epoch: x.epoch, lease: active.lease.clone() })
            }
            State::Runnable(_) | State::Suspended(_) | State::Terminal(_) => None,
        }
    }
}

/// A row before and after; `None` is absence.
#[derive(Clone, Debug, PartialEq)]
pub struct Write<T> {
    /// As it was loaded.
    pub before: Option<T>,
    /// As it is to be.
    pub after: Option<T>,
}

/// Rows to remove and rows to insert. Removing a row that is not there is fine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delta<T> {
    /// Rows to remove.
    pub remove: Vec<T>,
    /// Rows to insert.
    pub insert: Vec<T>,
}

impl<T> Default for Delta<T> {
    fn default() -> Self {
        Self { remove: Vec::new(), insert: Vec::new() }
    }
}

/// Everything a batch changes. A backend writes it in one transaction, in this order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WriteSet {
    /// Executions that go: their row, payloads, steps, attempts and events are to be removed
    /// before all else. Their leases and derived rows are in the differences below.
    pub removed: BTreeSet<ExecutionId>,
    /// Executions to insert (nothing before) or update (guarded by the version before).
    pub executions: Vec<Write<Execution>>,
    /// Their leases.
    pub leases: Vec<Write<LeaseRow>>,
    /// Leases that are not written and must hold, because something rests on them.
    pub held: Vec<LeaseRow>,
    /// Idempotency keys.
    pub keys: BTreeMap<(Namespace, IdempotencyKey), Option<KeyRow>>,
    /// Consumers.
    pub consumers: BTreeMap<ConsumerName, Option<Consumer>>,
    /// Attempts that are over.
    pub attempts: Vec<AttemptRecord>,
    /// Bytes.
    pub blobs: Vec<Blob>,
    /// Executions whose steps go, before others are recorded.
    pub cleared: BTreeSet<ExecutionId>,
    /// Steps.
    pub steps: Vec<StepRecord>,
    /// Queues that may be new.
    pub queues: BTreeSet<Queue>,
    /// Claimable places.
    pub ready: Delta<Ready>,
    /// Timers.
    pub timers: Delta<Timer>,
    /// Tags.
    pub tags: Delta<TagRow>,
    /// What happened, in order.
    pub events: Vec<Event>,
    /// Flows and what belongs to them.
    pub graph: GraphWrites,
    /// Suspensions and what belongs to them.
    pub waits: WaitWrites,
}

impl WriteSet {
    /// Whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// What a decision may look at besides rows.
pub struct Cx<'a> {
    /// The store's time.
    pub now: Millis,
    /// What the deployment set.
    pub config: &'a Config,
    /// For jitter.
    pub entropy: &'a mut dyn Entropy,
    /// The cursors that the store takes.
    pub cursors: CursorKind,
}

impl Cx<'_> {
    /// The time of a change to `x`: the store's, but never before an earlier change, whatever
    /// the clock does.
    pub fn at(&self, x: &Execution) -> Millis {
        let seen = match &x.state {
            State::Active(active) => active.lease.renewed_at,
            State::Runnable(_) | State::Suspended(_) | State::Terminal(_) => Millis::ZERO,
        };
        self.now.max(x.updated_at).max(seen)
    }
}

/// What one accepted command changes, and its answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Change<R> {
    /// The answer.
    pub reply: R,
    /// What changes.
    pub effects: Effects,
}

impl<R> Change<R> {
    /// Nothing changes.
    pub fn none(reply: R) -> Self {
        Self { reply, effects: Effects::default() }
    }

    /// The same change with its answer wrapped.
    pub fn map<S>(self, wrap: impl FnOnce(R) -> S) -> Change<S> {
        Change { reply: wrap(self.reply), effects: self.effects }
    }
}

/// What one accepted command changes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Effects {
    /// The execution as it is to be.
    pub execution: Option<Execution>,
    /// An execution that goes, with everything it owned.
    pub removed: Option<ExecutionId>,
    /// An idempotency key.
    pub key: Option<((Namespace, IdempotencyKey), Option<KeyRow>)>,
    /// A consumer.
    pub consumer: Option<(ConsumerName, Option<Consumer>)>,
    /// An attempt that is over.
    pub attempt: Option<AttemptRecord>,
    /// Bytes to keep.
    pub blob: Option<Blob>,
    /// An execution whose steps go.
    pub cleared: Option<ExecutionId>,
    /// Steps to record.
    pub steps: Vec<StepRecord>,
    /// The lease that they rest on.
    pub held: Option<LeaseRow>,
    /// A member ended: its flow is to be told.
    pub dispatch: Option<Dispatch>,
    /// What happened.
    pub events: Vec<Event>,
    /// What changes in a flow. Its executions are changed after the one above.
    pub graph: Option<Box<GraphEffects>>,
    /// What changes in suspensions.
    pub waits: Option<Box<WaitEffects>>,
}

/// Applies `commands` in order. `have` holds every row they need and is brought up to date.
pub fn fold(
    commands: &[Command],
    have: &mut WorkingSet,
    cx: &mut Cx<'_>,
) -> (Vec<Outcome>, WriteSet) {
    fold_with(commands, have, cx, |_, _, _| {})
}

/// Commands as they were decided on, by their place in the batch: those that say less than they mean.
pub type Pins = BTreeMap<usize, Command>;

/// The same; and the commands with what they mean, as of here. If the reply to the commit is lost, these
/// are decided on again instead: what was carried out is then not carried out once more.
pub fn fold_pinned(
    commands: &[Command],
    have: &mut WorkingSet,
    cx: &mut Cx<'_>,
) -> (Vec<Outcome>, WriteSet, Pins) {
    let mut pins = Pins::new();
    let pin = |at, command: &Command, have: &WorkingSet| {
        pins.extend(command.pinned(have).map(|pinned| (at, pinned)));
    };
    let (outcomes, set) = fold_with(commands, have, cx, pin);
    (outcomes, set, pins)
}

fn fold_with(
    commands: &[Command],
    have: &mut WorkingSet,
    cx: &mut Cx<'_>,
    mut before_each: impl FnMut(usize, &Command, &WorkingSet),
) -> (Vec<Outcome>, WriteSet) {
    let mut set = WriteSet::default();
    let mut first = First::default();
    let outcomes = commands
        .iter()
        .enumerate()
        .map(|(at, command)| {
            before_each(at, command, have);
            let change = command.decide(have, cx)?;
            absorb(change.effects, have, &mut set, &mut first);
            Ok(change.reply)
        })
        .collect();
    have.graph.writes(first.graph, &mut set.graph);
    have.waits.writes(first.waits, &mut set.waits);
    for (id, before) in first.executions {
        let after = have.executions.get(&id).cloned().flatten();
        derive(before.as_ref(), after.as_ref(), cx.now, &mut set);
        let before = before.filter(|_| !set.removed.contains(&id));
        // A renewal moves only the lease: same version, no write.
        let same = before.as_ref().map(|x| x.version) == after.as_ref().map(|x| x.version);
        if !same {
            if before.is_none() {
                set.queues.extend(after.iter().map(Queue::of));
            }
            set.executions.push(Write { before, after });
        }
    }
    // Keys are inserted in order, so that batches wait for each other and never in a circle.
    set.steps.sort_by_key(|record| (record.execution, record.step.number));
    hold_unwritten(&mut set);
    (outcomes, set)
}

/// Rows as they were before the batch.
#[derive(Default)]
struct First {
    executions: BTreeMap<ExecutionId, Option<Execution>>,
    graph: graph::Before,
    waits: waits::Before,
}

/// Takes over the effects of one command.
fn absorb(effects: Effects, have: &mut WorkingSet, set: &mut WriteSet, first: &mut First) {
    // Before its execution, which closes what its suspension left open when it ends.
    if let Some(waits) = effects.waits {
        have.waits.absorb(*waits, &mut set.waits, &mut first.waits);
    }
    if let Some(id) = effects.removed {
        remove(id, have, set, first);
    }
    if let Some(x) = effects.execution {
        put_execution(x, have, set, first);
    }
    if let Some((key, row)) = effects.key {
        have.keys.insert(key.clone(), row.clone());
        set.keys.insert(key, row);
    }
    if let Some((name, row)) = effects.consumer {
        have.consumers.insert(name.clone(), row.clone());
        set.consumers.insert(name, row);
    }
    if let Some(id) = effects.cleared {
        for ((_, _), step) in have.steps.iter_mut().filter(|((owner, _), _)| *owner == id) {
            *step = None;
        }
        set.steps.retain(|record| record.execution != id);
        set.cleared.insert(id);
    }
    for record in effects.steps {
        let at = (record.execution, record.step.number);
        have.steps.insert(at, Some(record.clone()));
        set.steps.push(record);
    }
    set.held.extend(effects.held);
    set.attempts.extend(effects.attempt);
    set.blobs.extend(effects.blob);
    set.events.extend(effects.events);
    let told = effects.dispatch.map(|row| GraphEffects {
        dispatch: vec![(row.execution, Some(row))],
        ..GraphEffects::default()
    });
    for mut graph in told.into_iter().chain(effects.graph.map(|graph| *graph)) {
        graph.gone.iter().for_each(|id| remove(*id, have, set, first));
        let inputs: BTreeMap<_, _> = graph.blobs.iter().map(|blob| (blob.at, blob)).collect();
        for x in std::mem::take(&mut graph.executions) {
            // What is born here may be started here.
            if have.execution(x.id).is_err() && index::place(&x).is_some() {
                let input = inputs.get(&BlobRef::Input(x.id));
                have.inputs.insert(x.id, input.map(|blob| Blob::clone(blob)));
            }
            put_execution(x, have, set, first);
        }
        set.attempts.append(&mut graph.attempts);
        set.blobs.append(&mut graph.blobs);
        if let Some(flow) = graph.removed {
            set.events.retain(|event| event.execution.is_some() || event.flow != Some(flow));
        }
        have.graph.absorb(graph, &mut set.graph, &mut first.graph);
    }
}

fn put_execution(x: Execution, have: &mut WorkingSet, set: &mut WriteSet, first: &mut First) {
    let (id, at) = (x.id, x.updated_at);
    let ended = matches!(x.state, State::Terminal(_));
    let flow = x.member.as_ref().map(|member| member.flow);
    let before = have.executions.insert(id, Some(x)).flatten();
    if let Some(flow) = flow
        && before.as_ref().is_none_or(|x| x.member.is_none())
    {
        have.graph.joined(flow, id);
    }
    if ended && before.as_ref().is_some_and(|x| matches!(x.state, State::Suspended(_))) {
        have.waits.leave(id, at, &mut set.waits, &mut first.waits);
    }
    first.executions.entry(id).or_insert(before);
}

fn remove(id: ExecutionId, have: &mut WorkingSet, set: &mut WriteSet, first: &mut First) {
    let before = have.executions.insert(id, None).flatten();
    first.executions.entry(id).or_insert(before);
    set.removed.insert(id);
    set.attempts.retain(|attempt| attempt.execution != id);
    set.blobs.retain(|blob| blob.at.execution() != id);
    set.steps.retain(|record| record.execution != id);
    set.held.retain(|row| row.execution != id);
    set.events.retain(|event| event.execution != Some(id));
    have.waits.forget(id, &mut set.waits, &mut first.waits);
}

/// Keeps a row, and how it was before the batch.
fn put<K: Ord + Clone, T: Clone>(
    rows: &mut BTreeMap<K, Option<T>>,
    before: &mut BTreeMap<K, Option<T>>,
    key: K,
    row: Option<T>,
) {
    let was = rows.insert(key.clone(), row).flatten();
    before.entry(key).or_insert(was);
}

fn changes<K: Ord, T: Clone + PartialEq>(
    was: BTreeMap<K, Option<T>>,
    is: &BTreeMap<K, Option<T>>,
) -> Vec<Write<T>> {
    let writes = was.into_iter().map(|(key, before)| {
        let after = is.get(&key).cloned().flatten();
        Write { before, after }
    });
    writes.filter(|write| write.before != write.after).collect()
}
