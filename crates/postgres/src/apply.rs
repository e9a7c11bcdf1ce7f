//! Commands: load, fold, write.
//!
//! *Fast*: when every row a batch needs is an execution whose last version this process holds, or
//! one that a creation expects to be absent, nothing is read: the batch is folded over what is
//! remembered and sent in one flight, guarded by versions. *Locked*: rows are locked in the order
//! of their keys and read in one flight, or in a few where some rows tell which others are needed,
//! and written in another. A fast miss goes to the locked path once; that one is tried again a
//! bounded number of times when others are in the way.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ff_core::Claimed;
use ff_core::backend::{Interest, StoreError};
use ff_core::command::{Command, Outcome, Traffic};
use ff_core::error::{Code, Rejection};
use ff_core::fold::{Cx, Key, Pins, WorkingSet, WriteSet};
use ff_core::fold_pinned;
use ff_core::ids::{ExecutionId, FlowId};
use ff_core::index::{QueueId, TimerKind};
use ff_core::limits::{CANCEL_AT_ONCE_MAX, Config};
use ff_core::time::{Clock, Entropy, Millis};

use crate::claim::heads::{Floor, Heads};
use crate::codec::{Params, Tid};
use crate::connection::listener::Signals;
use crate::connection::{Connections, Purpose, Step, Trouble};
use crate::due::Walk;
use crate::feed;
use crate::graph::unlocked;
use crate::statements::signing_key;
use crate::write::{ById, Places, Rows, read_places};

mod ahead;
mod divide;
mod graphs;
mod held;
mod rounds;
mod starts;
mod waits;

use divide::divide;
use graphs::Graphs;
use held::{Held, Recalled};
use rounds::{Found, Known, gather};
use starts::Starts;

/// Tries of a batch while others are in the way.
const TRIES: u32 = 3;
/// Pauses before a batch is sent again after its connection was lost, in milliseconds. Together
/// they outlast a server that restarts quickly.
const RESEND_MS: [u64; 3] = [50, 250, 1_000];

/// What a store keeps between calls.
pub struct State {
    /// The database.
    pub connections: Connections,
    /// The store's clock.
    pub clock: Arc<dyn Clock>,
    /// What the deployment set.
    pub config: Config,
    /// For jitter.
    pub entropy: Mutex<Box<dyn Entropy>>,
    /// Who to wake.
    pub signals: Arc<Signals>,
    /// Where the queues begin.
    pub heads: Heads,
    /// How far the groups that wait were looked at.
    pub walk: Walk,
    /// Queues that are registered for certain.
    queues: Mutex<BTreeSet<QueueId>>,
    /// Executions whose last version is known.
    held: Held,
    /// Flows that were submitted here.
    graphs: Graphs,
}

/// What a batch was decided on with: if it has to be decided on again, it means the same.
#[derive(Default)]
pub struct Tape {
    /// Numbers drawn: they fall the same way.
    drawn: Vec<u64>,
    /// Commands with what they meant when they were decided on last.
    pins: Pins,
    /// The same, once the reply to their commit was lost.
    lost: Pins,
    /// Whether the reply to a commit was lost: what the batch did is not known before it is answered.
    doubtful: bool,
    /// Interests to notify after commits whose replies were lost.
    doubts: BTreeSet<Interest>,
}

impl Tape {
    /// What was written may have been committed, and others may have gone on from there: what the batch meant
    /// holds from now on. `place` is that of a command in the whole batch.
    fn lose(&mut self, trouble: &Trouble, set: &WriteSet, place: impl Fn(usize) -> usize) {
        if matches!(trouble, Trouble::Lost(_)) {
            self.doubtful = true;
            let doubts = Interest::ALL.into_iter().filter(|interest| may_concern(set, *interest));
            self.doubts.extend(doubts);
            self.lost
                .extend(std::mem::take(&mut self.pins).into_iter().map(|(at, c)| (place(at), c)));
        }
    }

    /// The batch with what it meant, if a reply was lost.
    fn pin(&mut self, batch: &mut Cow<'_, [Command]>) {
        for (at, pinned) in std::mem::take(&mut self.lost) {
            batch.to_mut()[at] = pinned;
        }
    }
}

struct Drawn<'a> {
    tape: &'a mut Tape,
    at: usize,
    source: &'a mut dyn Entropy,
}

impl Entropy for Drawn<'_> {
    fn next_u64(&mut self) -> u64 {
        if self.at == self.tape.drawn.len() {
            let drawn = self.source.next_u64();
            self.tape.drawn.push(drawn);
        }
        self.at += 1;
        self.tape.drawn[self.at - 1]
    }
}

impl State {
    /// Nothing is known yet.
    pub fn new(
        connections: Connections,
        (clock, entropy): (Arc<dyn Clock>, Box<dyn Entropy>),
        (config, floors): (Config, bool),
        signals: Arc<Signals>,
    ) -> Self {
        Self {
            connections,
            clock,
            config,
            entropy: Mutex::new(entropy),
            signals,
            heads: Heads::new(floors),
            walk: Walk::default(),
            queues: Mutex::default(),
            held: Held::default(),
            graphs: Graphs::default(),
        }
    }

    /// Folds commands over loaded rows.
    pub fn fold(
        &self,
        batch: &[Command],
        have: &mut WorkingSet,
        tape: &mut Tape,
    ) -> (Vec<Outcome>, WriteSet, Millis) {
        let now = self.clock.now();
        let mut source = self.entropy.lock().expect("no holder of this lock panics");
        let mut drawn = Drawn { tape, at: 0, source: source.as_mut() };
        let mut cx = Cx { now, config: &self.config, entropy: &mut drawn, cursors: feed::CURSORS };
        let (outcomes, mut set, pins) = fold_pinned(batch, have, &mut cx);
        if !set.queues.is_empty() {
            let known = self.queues.lock().expect("no holder of this lock panics");
            set.queues.retain(|queue| !known.contains(&queue.id));
        }
        tape.pins = pins;
        (outcomes, set, now)
    }

    /// A write set is durable: remembers what it says, and wakes those who wait for it, unless those
    /// elsewhere were `told` with it.
    pub fn committed(&self, set: &WriteSet, places: &ById<Tid>, told: bool) {
        if !set.queues.is_empty() {
            let mut known = self.queues.lock().expect("no holder of this lock panics");
            known.extend(set.queues.iter().map(|queue| queue.id));
        }
        self.held.learn(set, places);
        self.graphs.learn(set);
        self.heads.file(set.ready.insert.iter());
        self.signals.committed(told, |interest| concerns(set, interest));
    }

    /// Delays were moved to their queues, some perhaps for others than who moved them.
    pub fn promoted(&self, moved: &[(QueueId, Floor)]) {
        if !moved.is_empty() {
            self.heads.drop_floors();
            self.signals.committed(false, |interest| interest == Interest::Work);
        }
    }

    /// The same when it is not known whether they were moved, because the reply was lost: a repeat finds
    /// nothing left to move, and would wake nobody. A claim that scans before the commit is visible finds
    /// the delays locked, and scans again by itself.
    pub fn may_have_promoted(&self, trouble: &Trouble) {
        if matches!(trouble, Trouble::Lost(_)) {
            self.heads.drop_floors();
            self.signals.committed(false, |interest| interest == Interest::Work);
        }
    }

    /// Work was handed out: its inputs are remembered.
    pub fn given<'c>(&self, claimed: impl Iterator<Item = &'c Claimed>) {
        self.held.given(claimed);
    }

    /// A batch failed: what it touched must be read again. If its reply was lost, it may have been committed:
    /// those that wait for what it wrote are woken as if it were, here and in other processes. If it was
    /// not, they find nothing.
    pub fn doubt(&self, set: &WriteSet, trouble: &Trouble) {
        self.held.forget(set);
        self.graphs.forget(set);
        if matches!(trouble, Trouble::Lost(_)) {
            self.heads.drop_floors();
            self.signals.committed(false, |interest| may_concern(set, interest));
        }
    }

    /// Commits whose replies were lost were sent again, and waited for what was there: a waiter that was
    /// woken when the reply was lost may have scanned before. The repeat found everything done, and wrote
    /// nothing that would wake anybody.
    fn settle(&self, tape: &mut Tape) {
        let doubts = std::mem::take(&mut tape.doubts);
        if !doubts.is_empty() {
            self.heads.drop_floors();
            self.signals.committed(false, |interest| doubts.contains(&interest));
        }
    }
}

/// Whether those who wait for `interest` have to look when `set` is written.
fn concerns(set: &WriteSet, interest: Interest) -> bool {
    match interest {
        Interest::Work => {
            let mut timers = set.timers.insert.iter();
            timers.any(|timer| timer.kind == TimerKind::Delay) || !set.ready.insert.is_empty()
        }
        Interest::Events => !set.events.is_empty(),
        Interest::Flows => !set.graph.dispatch.insert.is_empty(),
        Interest::Cancels => set.graph.cancels_members(),
        Interest::Ends => set.graph.ends_flows(),
        Interest::Taken => set.takes_leases(),
    }
}

/// The same when it is not known whether it was written: a claim may have been leased work in a commit whose
/// reply was lost.
fn may_concern(set: &WriteSet, interest: Interest) -> bool {
    let leased = || set.leases.iter().any(|write| write.before.is_none());
    concerns(set, interest) || interest == Interest::Work && leased()
}

/// Loads what the commands need, folds them and writes the result.
pub async fn apply(state: &State, batch: &[Command]) -> Result<Vec<Outcome>, StoreError> {
    if batch.is_empty() {
        return Ok(Vec::new());
    }
    let mut tape = Tape::default();
    match fast(state, batch, &mut tape).await {
        Ok(Some(outcomes)) => Ok(outcomes),
        Err(Trouble::Locked(cause)) if batch.len() > 1 => divide(state, batch, cause).await,
        Err(Trouble::Broken(error)) => Err(error),
        // Whatever went wrong, the locked path finds out what is there.
        Ok(None)
        | Err(
            Trouble::Guard
            | Trouble::Busy(_)
            | Trouble::Locked(_)
            | Trouble::Wide
            | Trouble::Poison(_)
            | Trouble::Lost(_),
        ) => locked(state, Cow::Borrowed(batch), &mut tape).await,
    }
}

/// One flight over remembered rows; nothing when that is not enough.
async fn fast(
    state: &State,
    batch: &[Command],
    tape: &mut Tape,
) -> Result<Option<Vec<Outcome>>, Trouble> {
    let Some(recalled) = state.held.recall(batch, &state.graphs) else { return Ok(None) };
    if batch.len() > 1 && recalled.have.executions.len() > CANCEL_AT_ONCE_MAX {
        return Ok(None);
    }
    let assumed = Assumed::of(&recalled);
    let Recalled { mut have, places, signs, .. } = recalled;
    let (outcomes, set, now) = state.fold(batch, &mut have, tape);
    // A refusal, or an answer that writes nothing, would rest on what nobody checks.
    if outcomes.iter().any(Result::is_err) || !assumed.guarded(&set) {
        return Ok(None);
    }
    let rows = Rows::new(&set, now, &places);
    let mut session = state.connections.get(purpose(batch)).await?;
    let landed = if let Some(step) = rows.whole(signs.as_ref()) {
        match state.signals.note(|interest| concerns(&set, interest)) {
            Some(note) => session.alone_then(step, note).await,
            None => session.alone(step).await.map(|answers| (answers, false)),
        }
    } else {
        let mut steps = vec![Step::Begin];
        // Keys that were replaced meanwhile neither sign nor verify from memory.
        let signs = signs.as_ref().map(|(kid, since)| {
            let params = Params::new().text(Some(kid.as_str())).number(since.0);
            Step::Run(signing_key::current, params)
        });
        steps.extend(signs);
        steps.extend(rows.take());
        steps.extend(Starts::of(batch).guard(&set, now));
        steps.extend(rows.steps());
        steps.push(Step::Commit);
        session.fly(&steps).await.map(|answers| (answers, false))
    };
    match landed {
        Ok((answers, told)) => {
            state.committed(&set, &read_places(answers.iter())?, told);
            Ok(Some(outcomes))
        }
        Err(trouble) => {
            state.doubt(&set, &trouble);
            tape.lose(&trouble, &set, |at| at);
            session.settle().await;
            Err(trouble)
        }
    }
}

/// What was remembered and not read.
struct Assumed {
    executions: Vec<ExecutionId>,
    flows: Vec<FlowId>,
}

impl Assumed {
    /// All of it, except for executions that wait for others: one that is let go or skipped is
    /// written, and nothing rests on one that goes on waiting.
    fn of(Recalled { have, waiting, .. }: &Recalled) -> Self {
        let executions = have.executions.keys().filter(|id| !waiting.contains(id));
        let flows = have.graph.flows.keys();
        Self { executions: executions.copied().collect(), flows: flows.copied().collect() }
    }

    /// Whether writing `set` checks every one of them: by its version, by its absence, or by its
    /// lease.
    fn guarded(&self, set: &WriteSet) -> bool {
        let written = set.executions.iter().filter_map(|write| {
            let either = write.before.as_ref().or(write.after.as_ref());
            either.map(|x| x.id)
        });
        let leased = set.leases.iter().filter_map(|write| Some(write.before.as_ref()?.execution));
        let held = set.held.iter().map(|row| row.execution);
        let checked: BTreeSet<_> = written.chain(leased).chain(held).collect();
        let told: BTreeSet<_> = set
            .graph
            .flows
            .iter()
            .filter_map(|write| write.before.as_ref().or(write.after.as_ref()))
            .map(|flow| flow.id)
            .collect();
        self.executions.iter().all(|id| checked.contains(id))
            && self.flows.iter().all(|flow| told.contains(flow))
    }
}

/// Locks, loads, decides and writes, again while others are in the way.
async fn locked(
    state: &State,
    batch: Cow<'_, [Command]>,
    tape: &mut Tape,
) -> Result<Vec<Outcome>, StoreError> {
    let done = until_done(state, batch, tape).await;
    state.settle(tape);
    if !tape.doubtful {
        return done;
    }
    // Nobody is answered that nothing was changed, once an earlier try may have been committed.
    let in_doubt = |refused: Rejection| match refused.code {
        Code::RetryExhausted => Rejection::new(Code::Transport, refused.message),
        _ => refused, // not ours: it was decided over what is there
    };
    match done {
        Ok(outcomes) => Ok(outcomes.into_iter().map(|one| one.map_err(in_doubt)).collect()),
        Err(StoreError::RetryExhausted { cause }) => Err(StoreError::Transport { cause }),
        Err(error) => Err(error),
    }
}

async fn until_done(
    state: &State,
    mut batch: Cow<'_, [Command]>,
    tape: &mut Tape,
) -> Result<Vec<Outcome>, StoreError> {
    let (mut tries, mut resends) = (0, RESEND_MS.iter());
    let (mut known, mut restarts) = (Known::default(), 0);
    loop {
        tape.pin(&mut batch);
        let trouble = match once(state, &batch, tape, &mut known).await {
            Ok(Some(outcomes)) => return Ok(outcomes),
            Ok(None) => {
                restarts += 1;
                if restarts > TRIES {
                    return Err(Trouble::Guard.into_error());
                }
                continue;
            }
            Err(trouble) => trouble,
        };
        tracing::debug!(?trouble, commands = batch.len(), "a batch is tried again");
        match trouble {
            Trouble::Locked(cause) if batch.len() > 1 => {
                return Box::pin(divide(state, &batch, cause)).await;
            }
            Trouble::Guard | Trouble::Busy(_) | Trouble::Locked(_) => {
                tries += 1;
                known.firm = true;
                if tries == TRIES {
                    return match trouble.into_error() {
                        StoreError::RetryExhausted { cause } if batch.len() > 1 => {
                            Box::pin(divide(state, &batch, cause)).await
                        }
                        error => Err(error),
                    };
                }
            }
            Trouble::Wide => return halve(state, &batch).await,
            Trouble::Lost(_) => match resends.next() {
                Some(pause) => tokio::time::sleep(Duration::from_millis(*pause)).await,
                None => return Err(trouble.into_error()),
            },
            Trouble::Poison(cause) => return bisect(state, &batch, &cause).await,
            Trouble::Broken(error) => return Err(error),
        }
    }
}

/// Halves a batch until the command that the database does not take stands alone.
async fn bisect(state: &State, batch: &[Command], cause: &str) -> Result<Vec<Outcome>, StoreError> {
    if let [culprit] = batch {
        tracing::error!(command = culprit.name(), cause, "the database refuses a command");
        let said = format!("the database does not take it: {cause}");
        return Ok(vec![Err(Rejection::new(Code::InvalidInput, said))]);
    }
    halve(state, batch).await
}

/// One half of a batch after the other: what fails one is no answer to the other.
async fn halve(state: &State, batch: &[Command]) -> Result<Vec<Outcome>, StoreError> {
    let (first, second) = batch.split_at(batch.len() / 2);
    let mut outcomes = Vec::with_capacity(batch.len());
    for half in [first, second] {
        match Box::pin(locked(state, Cow::Borrowed(half), &mut Tape::default())).await {
            Ok(done) => outcomes.extend(done),
            Err(error) => outcomes.extend(half.iter().map(|_| Err(error.rejection()))),
        }
    }
    Ok(outcomes)
}

/// One try; nothing when it has to begin anew with all the keys that are known now.
async fn once(
    state: &State,
    batch: &[Command],
    tape: &mut Tape,
    known: &mut Known,
) -> Result<Option<Vec<Outcome>>, Trouble> {
    let mut session = if known.brief {
        state.connections.get_brief(purpose(batch)).await?
    } else {
        state.connections.get(purpose(batch)).await?
    };
    let Found { mut loaded, mut refused } = match gather(&mut session, batch, known).await {
        Ok(Some(found)) => found,
        missed => {
            session.settle().await;
            return missed.map(|_| None);
        }
    };
    let readable = batch.iter().enumerate().filter(|(at, _)| !refused.contains_key(at));
    let (places, readable): (Vec<_>, Vec<_>) =
        readable.map(|(at, command)| (at, command.clone())).unzip();
    if let Some(keys) = &loaded.have.waits.keyring {
        state.held.keys(keys);
    }
    let (outcomes, set, now) = state.fold(&readable, &mut loaded.have, tape);
    let unlocked = unlocked(&set.graph, &loaded.locked);
    if !unlocked.is_empty() {
        known.keys.extend(unlocked.into_iter().map(|(flow, id)| Key::Group(flow, id)));
        session.settle().await;
        return Ok(None);
    }
    let stored = Places { executions: loaded.places, ..Places::default() };
    let rows = Rows::new(&set, now, &stored);
    let guard = Starts::of(&readable).guard(&set, now);
    let mut steps: Vec<_> = guard.into_iter().chain(rows.fewest()).collect();
    steps.push(Step::Commit);
    if let Err(trouble) = session.fly(&steps).await {
        state.doubt(&set, &trouble);
        tape.lose(&trouble, &set, |at| places[at]);
        session.settle().await;
        return Err(trouble);
    }
    state.committed(&set, &ById::default(), false);
    let mut outcomes = outcomes.into_iter();
    let all = (0..batch.len()).map(|at| match refused.remove(&at) {
        Some(rejection) => Err(rejection),
        None => outcomes.next().expect("an outcome for each command"),
    });
    Ok(Some(all.collect()))
}

/// A batch travels with the traffic that its first command belongs to.
fn purpose(batch: &[Command]) -> Purpose {
    Purpose::Write(batch.first().map_or(Traffic::Admin, Command::traffic))
}
