//! Natural batching: calls that arrive while a batch is under way travel together in the next.
//!
//! An item belongs to the queue from the moment it is sent; dropping the caller's future does
//! not take it back. Queues are bounded in calls and bytes; beyond that the answer is
//! `overloaded`, at once.

use std::collections::{HashMap, VecDeque};
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
use crate::starts::Idle;

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
    /// Turns of the scheduler that others are given to join a batch before it goes.
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
    /// The flows that they tell of an end, looked up on arrival.
    flows: Vec<FlowId>,
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
        tokio::spawn(drive((backend, shared), waiting, Arc::clone(&waiting_bytes), bounds));
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
        let call = Call { commands, bytes, flows: Vec::new(), reply };
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

/// Lets tasks that can run do so: callers released by one commit usually call again at once.
pub async fn give_turns(turns: usize) {
    for _ in 0..turns {
        tokio::task::yield_now().await;
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
    let (mut flights, mut line) = (Flights::default(), Line::default());
    loop {
        if line.commands == 0 {
            let Some(first) = waiting.recv().await else { break };
            line.add(first, &shared.members);
        }
        // Meanwhile calls gather in the channel, or here while they are too few for a batch of
        // their own, or speak of flows that are being told something already.
        loop {
            flights.land();
            let all = flights.under_way.len() >= bounds.flights;
            let late = flights.late.unwrap_or_else(Instant::now);
            let (calls, commands) = line.next(&flights);
            let crowd = commands >= bounds.crowd
                || !line.tells() && calls >= flights.match_for(bounds.pair)
                || late <= Instant::now();
            if !all && (flights.under_way.is_empty() || crowd && calls > 0) {
                break;
            }
            let room = line.commands < bounds.batch;
            tokio::select! {
                () = flights.landed() => {}
                () = tokio::time::sleep_until(late), if !all && !crowd => {}
                Some(call) = waiting.recv(), if !all && room => line.add(call, &shared.members),
            }
        }
        // Members of a flow are many, and end together: a batch that goes without the others makes
        // them wait for its commit.
        match bounds.turns {
            _ if line.commands >= bounds.batch => {}
            turns if line.tells() => give_turns(turns.max(MEMBERS_TURNS)).await,
            turns => give_turns(turns).await,
        }
        while line.commands < bounds.batch
            && let Ok(call) = waiting.try_recv()
        {
            line.add(call, &shared.members);
        }
        let (calls, _) = line.next(&flights);
        let pairs = bounds.flights > 1
            && calls / 2 >= bounds.pair
            && flights.under_way.is_empty()
            && !line.tells();
        let calls_max = if pairs { calls.div_ceil(2) } else { usize::MAX };
        let calls = line.take(&flights, calls_max, bounds.batch);
        let taken = calls.iter().map(|call| call.bytes).sum();
        waiting_bytes.fetch_sub(taken, Ordering::SeqCst);
        let (backend, shared) = (Arc::clone(&backend), Arc::clone(&shared));
        let flows = calls.iter().flat_map(|call| call.flows.iter().copied()).collect();
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

/// Calls that have arrived, in their order.
#[derive(Default)]
struct Line {
    calls: VecDeque<Call>,
    /// Commands in all of them.
    commands: usize,
    /// Calls that tell a flow of an end.
    telling: usize,
}

/// Who may go beside what is under way. Whoever may not keeps those behind that speak of the same flows.
struct Gate<'f> {
    flights: &'f Flights,
    held_up: Vec<FlowId>,
}

impl Gate<'_> {
    fn lets(&mut self, call: &Call) -> bool {
        let held_up = self.flights.tell_any(&call.flows)
            || call.flows.iter().any(|flow| self.held_up.contains(flow));
        if held_up {
            self.held_up.extend(&call.flows);
        }
        !held_up
    }
}

impl Line {
    fn add(&mut self, mut call: Call, members: &Members) {
        call.flows = members.flows(&call.commands);
        self.telling += usize::from(!call.flows.is_empty());
        self.commands += call.commands.len();
        self.calls.push_back(call);
    }

    /// Whether some tell a flow of an end.
    fn tells(&self) -> bool {
        self.telling > 0
    }

    /// Calls that may go next, and commands in them.
    fn next(&self, flights: &Flights) -> (usize, usize) {
        if flights.told.is_empty() {
            return (self.calls.len(), self.commands);
        }
        let mut gate = Gate { flights, held_up: Vec::new() };
        let free = self.calls.iter().filter(|call| gate.lets(call));
        free.fold((0, 0), |(calls, commands), call| (calls + 1, commands + call.commands.len()))
    }

    /// Those go, so many calls and commands at most.
    fn take(&mut self, flights: &Flights, calls_max: usize, commands_max: usize) -> Vec<Call> {
        let mut gate = Gate { flights, held_up: Vec::new() };
        let (mut taken, mut commands) = (Vec::new(), 0);
        for call in std::mem::take(&mut self.calls) {
            if taken.len() < calls_max && commands < commands_max && gate.lets(&call) {
                commands += call.commands.len();
                taken.push(call);
            } else {
                self.calls.push_back(call);
            }
        }
        self.commands -= commands;
        self.telling -= taken.iter().filter(|call| !call.flows.is_empty()).count();
        taken
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

/// How many executions a batch may let go at most: a signal lets go of one, a flow of any number.
fn lets_go(commands: &[Command], tells: bool) -> usize {
    let of = |command: &Command| match command {
        Command::SubmitFlow(_) | Command::ExtendFlow(_) => usize::MAX,
        Command::DeliverSignal(_) | Command::Resume(_) => 1,
        _ => 0, // not ours: nothing else ends a wait
    };
    let told = if tells { usize::MAX } else { 0 };
    commands.iter().map(of).fold(told, usize::saturating_add)
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
    let most = lets_go(&commands, !told.is_empty());
    let asked = shared.idle.ask(most);
    commands.extend(told);
    let released = commands.len();
    commands.extend(asked.commands());
    match backend.apply(commands).await {
        Ok(mut outcomes) => {
            shared.idle.answer(asked, Some(outcomes.split_off(released)), &shared.members);
            // Whether a flow was told now or will be later makes no difference here.
            outcomes.truncate(begun);
            shared.idle.hand_out(starts, Some(outcomes.split_off(ends.len())));
            shared.endings.tell(&ends, &outcomes);
            let mut outcomes = outcomes.into_iter();
            for (call, size) in batch.into_iter().zip(sizes) {
                let share = outcomes.by_ref().take(size).collect();
                // Whoever asked may be gone; the commands are done all the same.
                drop(call.reply.send(Ok(share)));
            }
        }
        Err(error) => {
            shared.idle.answer(asked, None, &shared.members);
            shared.idle.hand_out(starts, None);
            for call in batch {
                drop(call.reply.send(Err(error.clone())));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use ff_core::decide::release::Release;
    use ff_core::{ExecutionId, Fence};
    use uuid::Uuid;

    use super::*;

    fn telling(flows: &[FlowId]) -> Call {
        let id = ExecutionId::solo(Uuid::now_v7());
        let fence = Fence { attempt_index: 0, lease_epoch: 1 };
        let release = Release { id, fence, untaken: false };
        let (commands, (reply, _)) = (vec![release.into()], oneshot::channel());
        Call { commands, bytes: 0, flows: flows.to_vec(), reply }
    }

    #[test]
    fn whoever_waits_for_a_flow_is_not_overtaken_by_others_that_tell_it() {
        let [f, g, h] = std::array::from_fn(|_| FlowId(Uuid::now_v7()));
        let mut flights = Flights::default();
        let mut line = Line::default();
        for flows in [&[f, g][..], &[f], &[h], &[]] {
            line.calls.push_back(telling(flows));
            line.commands += 1;
            line.telling += usize::from(!flows.is_empty());
        }
        flights.told.insert(g, 1);
        assert_eq!(line.next(&flights), (2, 2));
        let taken = line.take(&flights, usize::MAX, usize::MAX);
        let taken: Vec<_> = taken.into_iter().map(|call| call.flows).collect();
        assert_eq!(taken, [vec![h], vec![]]);
        assert_eq!((line.calls.len(), line.commands), (2, 2));
        flights.told.clear();
        assert_eq!(line.take(&flights, usize::MAX, usize::MAX).len(), 2);
    }
}
