//! Claims: asks that arrive together are served together, and a claim whose caller has gone is
//! released at once instead of running out its lease.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use ff_core::command::Command;
use ff_core::decide::release::Release;
use ff_core::{Backend, ClaimAsk, Claimed, ExecutionId, Interest, Millis, StoreError};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::Instant;

use crate::batcher::{Batcher, Bounds, Shared, give_turns, overloaded};
use crate::error::Error;
use crate::starts::{Left, Place};
use crate::{Engine, deadline};

/// Asks for so many go beside each other.
const MANY: u32 = 100;
/// Asks for so many together wait for no others.
const FULL: u32 = 500;
/// How long after its time a claim may go on scanning that has not seen everything yet.
const OVERTIME: Duration = Duration::from_millis(500);
/// Between two scans of a claim whose earlier try is still being served.
const RESCAN: Duration = Duration::from_millis(10);

/// What one ask was given, and when there will be more.
struct Given {
    claimed: Unclaimed,
    /// Whether some who asked with it were given something: then a store has not looked everywhere.
    beside: bool,
    /// Whether an earlier try of it is still being served.
    busy: bool,
    /// How long until it should ask again, if nothing else happens.
    next_in: Option<Duration>,
}

/// Work on its way to a caller. If the caller is gone before it takes it, it is given back.
pub struct Unclaimed {
    work: Vec<Claimed>,
    finish: Batcher,
}

impl Unclaimed {
    /// Nothing yet, to be given back in the same way.
    pub fn another(&self) -> Self {
        Self { work: Vec::new(), finish: self.finish.clone() }
    }

    /// More work.
    pub fn add(&mut self, claimed: Claimed) {
        self.work.push(claimed);
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.work.is_empty()
    }

    /// Some of it is the caller's already.
    pub fn forget(&mut self, ids: &BTreeSet<ExecutionId>) {
        self.work.retain(|one| !ids.contains(&one.leased.execution.id));
    }

    /// The work, which is the caller's from here on.
    pub fn take(mut self) -> Vec<Claimed> {
        std::mem::take(&mut self.work)
    }
}

impl Drop for Unclaimed {
    fn drop(&mut self) {
        let undo = |claimed: Claimed| {
            let (id, fence) = (claimed.leased.execution.id, claimed.leased.fence);
            Command::from(Release { id, fence, untaken: true })
        };
        let commands: Vec<_> = self.work.drain(..).map(undo).collect();
        if !commands.is_empty() && self.finish.submit(commands).is_err() {
            tracing::warn!("a claim that nobody waits for could not be given back");
        }
    }
}

struct Ask {
    ask: ClaimAsk,
    reply: oneshot::Sender<Result<Given, StoreError>>,
}

/// A queue of claims before a store.
pub struct Claimer {
    asks: mpsc::Sender<Ask>,
}

impl Claimer {
    /// Starts it. `finish` takes back what nobody waits for any more.
    pub fn start(
        backend: Arc<dyn Backend>,
        bounds: Bounds,
        finish: Batcher,
        shared: Arc<Shared>,
    ) -> Self {
        let (asks, waiting) = mpsc::channel(bounds.calls);
        tokio::spawn(drive((backend, shared), waiting, finish, bounds));
        Self { asks }
    }

    async fn claim(&self, ask: ClaimAsk) -> Result<Given, Error> {
        let (reply, answer) = oneshot::channel();
        match self.asks.try_send(Ask { ask, reply }) {
            Ok(()) => Ok(answer.await.unwrap_or(Err(StoreError::Closed))?),
            Err(mpsc::error::TrySendError::Full(_)) => Err(overloaded()),
            Err(mpsc::error::TrySendError::Closed(_)) => Err(StoreError::Closed.into()),
        }
    }
}

async fn drive(
    (backend, shared): (Arc<dyn Backend>, Arc<Shared>),
    mut waiting: mpsc::Receiver<Ask>,
    finish: Batcher,
    bounds: Bounds,
) {
    // Two claims at once take turns at the heads of the queues. That is worth it where they take much:
    // while what one found is written, the other looks. Small ones do better together.
    let flights = Arc::new(Semaphore::new(2));
    while let Some(first) = waiting.recv().await {
        let share = if first.ask.max < MANY { 2 } else { 1 };
        let flight = Arc::clone(&flights).acquire_many_owned(share);
        let flight = flight.await.expect("never closed");
        // Others may be about to ask as well.
        if first.ask.max < FULL {
            give_turns(bounds.turns).await;
        }
        let mut asked = first.ask.max;
        let mut batch = vec![first];
        while batch.len() < bounds.batch
            && asked < FULL
            && let Ok(ask) = waiting.try_recv()
        {
            asked = asked.saturating_add(ask.ask.max);
            batch.push(ask);
        }
        // An ask whose caller has gone is not served at all.
        batch.retain(|ask| !ask.reply.is_closed());
        let (backend, shared) = (Arc::clone(&backend), Arc::clone(&shared));
        let finish = finish.clone();
        tokio::spawn(async move {
            serve(backend.as_ref(), &shared, batch, &finish).await;
            drop(flight);
        });
    }
}

async fn serve(backend: &dyn Backend, shared: &Shared, mut batch: Vec<Ask>, finish: &Batcher) {
    // Of several under one claim id the last is served: the callers of the others may have left, and what
    // they are given is released. They ask again.
    let last: HashMap<_, _> =
        batch.iter().enumerate().map(|(at, ask)| (ask.ask.claim_id, at)).collect();
    for (at, ask) in std::mem::take(&mut batch).into_iter().enumerate() {
        if last[&ask.ask.claim_id] == at {
            batch.push(ask);
        } else {
            let claimed = Unclaimed { work: Vec::new(), finish: finish.clone() };
            drop(ask.reply.send(Ok(Given { claimed, beside: false, busy: true, next_in: None })));
        }
    }
    let asks: Vec<ClaimAsk> = batch.iter().map(|ask| ask.ask.clone()).collect();
    if asks.is_empty() {
        return;
    }
    match backend.claim(&asks).await {
        Ok(claims) => {
            let until = |due: Millis| Duration::from_millis(due.since(claims.now));
            let next_in = claims.next_due.map(until);
            let beside = claims.given.iter().any(|work| !work.is_empty());
            for (ask, work) in batch.into_iter().zip(claims.given) {
                shared.members.learn(&work);
                let claimed = Unclaimed { work, finish: finish.clone() };
                let busy = claims.busy.contains(&ask.ask.claim_id);
                let given = Given { claimed, beside, busy, next_in };
                drop(ask.reply.send(Ok(given)));
            }
        }
        Err(error) => {
            for ask in batch {
                drop(ask.reply.send(Err(error.clone())));
            }
        }
    }
}

impl Engine {
    /// Takes work; waits up to `wait` until there is some.
    ///
    /// Asked again under the same claim id, it finds what it was given. Dropping the future gives
    /// back what it was about to hand out; claim anew with a new claim id. Waiting costs nothing: a
    /// commit that makes work claimable, or the time of a delayed execution, wakes it. What this
    /// process creates while a claim waits for it is handed out in the commit that creates it.
    pub async fn claim(&self, ask: ClaimAsk, wait: Duration) -> Result<Vec<Claimed>, Error> {
        ask.validate()?;
        let (deadline, call) = (deadline(wait), self.queues.shared.idle.call());
        let mut promised: Option<Place<'_>> = None;
        loop {
            let seen = self.backend.generation(Interest::Work);
            let given = self.queues.claims.claim(ask.clone()).await?;
            let (beside, busy) = (given.beside, given.busy);
            let mut claimed = given.claimed.take();
            let now = Instant::now();
            if claimed.is_empty() && (beside || busy) && now < deadline + OVERTIME {
                if busy {
                    tokio::time::sleep(RESCAN).await;
                }
                continue;
            }
            if !claimed.is_empty() || deadline <= now {
                let besides = promised.map(|place| place.go(&claimed)).unwrap_or_default();
                claimed.extend(besides);
                if claimed.is_empty() && busy {
                    let cause = "an earlier try of this claim is still under way".to_owned();
                    return Err(StoreError::RetryExhausted { cause }.into());
                }
                return Ok(claimed);
            }
            let nap = self.poll.min(given.next_in.unwrap_or(Duration::MAX));
            let place = promised.take().unwrap_or_else(|| self.place(call, &ask));
            let (alone, started) = match self.idle(place, seen, deadline.min(now + nap)).await {
                Left::Asked(Some(given)) => (false, given.take()),
                // A batch may have leased work for this claim and lost its reply: scan once more.
                Left::Asked(None) => (false, Vec::new()),
                Left::Promised(place) => {
                    promised = Some(place);
                    (false, Vec::new())
                }
                Left::Alone => (true, Vec::new()),
            };
            if !started.is_empty() || alone && deadline <= Instant::now() {
                return Ok(started);
            }
        }
    }

    /// A place among the claims that idle.
    fn place(&self, call: u64, ask: &ClaimAsk) -> Place<'_> {
        let undo = Unclaimed { work: Vec::new(), finish: self.queues.finish.clone() };
        self.queues.shared.idle.wait(call, ask.clone(), undo)
    }

    /// Waits for something to be created here, or for a reason to scan again.
    async fn idle<'i>(&self, mut place: Place<'i>, seen: u64, until: Instant) -> Left<'i> {
        tokio::select! {
            given = place.given() => Left::Asked(given),
            () = self.backend.wait(Interest::Work, seen) => place.leave().await,
            () = tokio::time::sleep_until(until) => place.leave().await,
        }
    }
}
