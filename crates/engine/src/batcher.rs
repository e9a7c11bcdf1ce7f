//! Natural batching: calls that arrive while a batch is under way travel together in the next.
//!
//! An item belongs to the queue from the moment it is sent; dropping the caller's future does
//! not take it back. Queues are bounded in calls and bytes; beyond that the answer is
//! `overloaded`, at once.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ff_core::command::{Command, Outcome};
use ff_core::{Backend, Code, FlowId, Rejection, StoreError};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::endings::Endings;
use crate::error::Error;
use crate::members::Members;
use crate::starts::{Asked, Idle};

/// Turns that others are given to join a batch that tells a flow of an end.
const MEMBERS_TURNS: usize = 16;

/// How long a batch may be under way before others go beside it, however few: somebody else may hold
/// what it needs.
const PATIENCE: Duration = Duration::from_millis(50);

/// How much may wait and travel.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Calls waiting.
    pub calls: usize,
    /// Bytes waiting.
    pub bytes: usize,
    /// Commands in a batch.
    pub batch: usize,
    /// Batches under way.
    pub flights: usize,
    /// Commands that must wait before another batch goes beside one that is under way.
    pub crowd: usize,
    /// Calls from which on two batches are better than one: half of those who wait go ahead, and the
    /// others beside them, so that one half is written down while the other speaks.
    pub pair: usize,
    /// Turns that others are given to join a batch before it goes.
    pub turns: usize,
}

/// What the queues of a process know of each other.
#[derive(Default)]
pub struct Shared {
    /// Claims that found nothing.
    pub idle: Idle,
    /// Endings that somebody waits for.
    pub endings: Endings,
    /// Members of flows that were handed out.
    pub members: Members,
}

type Answer = Result<Vec<Outcome>, StoreError>;

/// One call: commands that go together, and who waits for them.
struct Call {
    commands: Vec<Command>,
    bytes: usize,
    reply: oneshot::Sender<Answer>,
}

/// A queue of commands before a store.
#[derive(Clone)]
pub struct Batcher {
    calls: mpsc::Sender<Call>,
    waiting_bytes: Arc<AtomicUsize>,
    bytes_max: usize,
}

impl Batcher {
    /// Starts a queue. It ends when its last handle is dropped and all is answered.
    pub fn start(backend: Arc<dyn Backend>, bounds: Bounds, shared: Arc<Shared>) -> Self {
        let (calls, waiting) = mpsc::channel(bounds.calls);
        let waiting_bytes = Arc::new(AtomicUsize::new(0));
        let before = (backend, shared);
        tokio::spawn(drive(before, waiting, Arc::clone(&waiting_bytes), bounds));
        Self { calls, waiting_bytes, bytes_max: bounds.bytes }
    }

    /// Sends commands and waits for their outcomes, in order.
    pub async fn send(&self, commands: Vec<Command>) -> Result<Vec<Outcome>, Error> {
        let answer = self.submit(commands)?;
        Ok(answer.await.unwrap_or(Err(StoreError::Closed))?)
    }

    /// Sends commands; the answer may be waited for or not.
    pub fn submit(&self, commands: Vec<Command>) -> Result<oneshot::Receiver<Answer>, Error> {
        let bytes = commands.iter().map(Command::bytes).sum();
        let (reply, answer) = oneshot::channel();
        let before = self.waiting_bytes.fetch_add(bytes, Ordering::SeqCst);
        // A call that is larger than the bound on its own may go when nothing else waits.
        let full = before > 0 && before + bytes > self.bytes_max;
        let call = Call { commands, bytes, reply };
        let sent = if full { Err(None) } else { self.calls.try_send(call).map_err(Some) };
        match sent {
            Ok(()) => Ok(answer),
            Err(refused) => {
                self.waiting_bytes.fetch_sub(bytes, Ordering::SeqCst);
                Err(match refused {
                    Some(mpsc::error::TrySendError::Closed(_)) => StoreError::Closed.into(),
                    Some(mpsc::error::TrySendError::Full(_)) | None => overloaded(),
                })
            }
        }
    }
}

/// Too much is waiting.
pub fn overloaded() -> Error {
    Rejection::new(Code::Overloaded, "too many calls or bytes are waiting in this process").into()
}

async fn drive(
    (backend, shared): (Arc<dyn Backend>, Arc<Shared>),
    mut waiting: mpsc::Receiver<Call>,
    waiting_bytes: Arc<AtomicUsize>,
    bounds: Bounds,
) {
    let mut flights = Flights::default();
    let mut left = None;
    loop {
        let next = match left.take() {
            Some(left) => Some(left),
            None => waiting.recv().await,
        };
        let Some(first) = next else { break };
        let mut batch = Batch::default();
        batch.add(first, &shared.members);
        // Meanwhile calls gather in the channel, or here while they are too few for a batch of
        // their own, or speak of flows that are being told something already.
        loop {
            flights.land();
            let all = flights.under_way.len() >= bounds.flights;
            let late = flights.late.unwrap_or_else(Instant::now);
            let crowd = batch.commands >= bounds.crowd
                || batch.calls.len() >= flights.match_for(bounds.pair)
                || late <= Instant::now();
            if !all && (flights.under_way.is_empty() || crowd && !flights.tell_any(&batch.flows)) {
                break;
            }
            tokio::select! {
                () = flights.landed() => {}
                () = tokio::time::sleep_until(late), if !all && !crowd => {}
                Some(call) = waiting.recv(), if !all && batch.commands < bounds.batch => {
                    batch.add(call, &shared.members);
                }
            }
        }
        // Whoever was just answered may have something else to say: let them speak first. Members of a
        // flow are many, and end together; whoever goes without the others keeps them waiting.
        let turns =
            if batch.flows.is_empty() { bounds.turns } else { bounds.turns.max(MEMBERS_TURNS) };
        for _ in 0..turns {
            tokio::task::yield_now().await;
        }
        let half = (batch.calls.len() + waiting.len()).div_ceil(2);
        let pairs = bounds.flights > 1 && half >= bounds.pair && flights.under_way.is_empty();
        let calls_max = if pairs { half } else { usize::MAX };
        while batch.commands < bounds.batch
            && batch.calls.len() < calls_max
            && let Ok(call) = waiting.try_recv()
        {
            if flights.tell_any(&shared.members.flows(&call.commands)) {
                left = Some(call);
                break;
            }
            batch.add(call, &shared.members);
        }
        let taken = batch.calls.iter().map(|call| call.bytes).sum();
        waiting_bytes.fetch_sub(taken, Ordering::SeqCst);
        let (backend, shared) = (Arc::clone(&backend), Arc::clone(&shared));
        let Batch { calls, flows, .. } = batch;
        flights.start(
            calls.len(),
            flows,
            async move { fly(backend.as_ref(), &shared, calls).await },
        );
    }
    while !flights.under_way.is_empty() {
        flights.landed().await;
    }
}

/// Calls that go together.
#[derive(Default)]
struct Batch {
    calls: Vec<Call>,
    commands: usize,
    /// The flows that they tell of an end.
    flows: Vec<FlowId>,
}

impl Batch {
    fn add(&mut self, call: Call, members: &Members) {
        self.commands += call.commands.len();
        self.flows.extend(members.flows(&call.commands));
        self.calls.push(call);
    }
}

/// Batches under way. Two never tell one flow of an end: the second would only wait for the first.
#[derive(Default)]
struct Flights {
    under_way: JoinSet<Vec<FlowId>>,
    /// Calls in the last of them.
    calls: usize,
    told: HashMap<FlowId, usize>,
    /// When the last of them will have taken long.
    late: Option<Instant>,
}

impl Flights {
    /// Calls that may go beside what is under way: about as many, so that neither waits for the other.
    fn match_for(&self, pair: usize) -> usize {
        pair.max(self.calls * 3 / 4)
    }

    fn start(
        &mut self,
        calls: usize,
        flows: Vec<FlowId>,
        flight: impl Future<Output = ()> + Send + 'static,
    ) {
        self.calls = calls;
        for flow in &flows {
            *self.told.entry(*flow).or_default() += 1;
        }
        self.late = Some(Instant::now() + PATIENCE);
        self.under_way.spawn(async move {
            flight.await;
            flows
        });
    }

    fn tell_any(&self, flows: &[FlowId]) -> bool {
        flows.iter().any(|flow| self.told.contains_key(flow))
    }

    /// Takes note of those that have landed.
    fn land(&mut self) {
        while let Some(landed) = self.under_way.try_join_next() {
            self.forget(landed.ok());
        }
    }

    /// Waits for one to land; for ever if there is none.
    async fn landed(&mut self) {
        match self.under_way.join_next().await {
            Some(landed) => self.forget(landed.ok()),
            None => std::future::pending().await,
        }
    }

    fn forget(&mut self, told: Option<Vec<FlowId>>) {
        if self.under_way.is_empty() {
            // Also after a flight that panicked and cannot say what it told.
            return self.told.clear();
        }
        for flow in told.into_iter().flatten() {
            if let Some(count) = self.told.get_mut(&flow) {
                *count -= 1;
                if *count == 0 {
                    self.told.remove(&flow);
                }
            }
        }
    }
}

/// Sends one batch and hands each call its share of the outcomes.
async fn fly(backend: &dyn Backend, shared: &Shared, mut batch: Vec<Call>) {
    let sizes: Vec<usize> = batch.iter().map(|call| call.commands.len()).collect();
    let mut commands: Vec<Command> =
        batch.iter_mut().flat_map(|call| std::mem::take(&mut call.commands)).collect();
    let ends = Endings::watch(&commands);
    let told = shared.members.tell(&commands);
    let starts = shared.idle.start(&mut commands);
    let begun = commands.len();
    let may_let_go = |command: &Command| {
        matches!(
            command,
            Command::SubmitFlow(_)
                | Command::ExtendFlow(_)
                | Command::DeliverSignal(_)
                | Command::Resume(_)
        )
    };
    let lets_go = !told.is_empty() || commands.iter().any(may_let_go);
    let asked = if lets_go { shared.idle.ask() } else { Asked::default() };
    commands.extend(told);
    let released = commands.len();
    commands.extend(asked.commands());
    match backend.apply(commands).await {
        Ok(mut outcomes) => {
            shared.idle.answer(asked, outcomes.split_off(released), &shared.members);
            // Whether a flow was told now or will be later makes no difference here.
            outcomes.truncate(begun);
            starts.hand_out(outcomes.split_off(ends.len()));
            shared.endings.tell(&ends, &outcomes);
            let mut outcomes = outcomes.into_iter();
            for (call, size) in batch.into_iter().zip(sizes) {
                let share = outcomes.by_ref().take(size).collect();
                // Whoever asked may be gone; the commands are done all the same.
                drop(call.reply.send(Ok(share)));
            }
        }
        Err(error) => {
            shared.idle.answer(asked, Vec::new(), &shared.members);
            for call in batch {
                drop(call.reply.send(Err(error.clone())));
            }
        }
    }
}
