//! Starting at once: an execution that is created while a claim of this process idles goes to that
//! claim in the same commit, without ever standing in a queue.
//!
//! A claim idles once it has looked and found its queues empty. What other processes have created
//! since then may be older or more urgent: the claim that is given something finds it when it
//! looks next.
//!
//! A batch that may give something to a claim is waited for, but not for long: it may itself wait for a
//! row that others hold. The claim then scans again, while the batch keeps its promise. Whatever the
//! batch started is found by that scan, or handed over after it; it is given back only when the claim
//! has left without it.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Duration;

use ff_core::command::{Command, Outcome, Reply};
use ff_core::decide::create::Create;
use ff_core::decide::start_released::StartReleased;
use ff_core::fold::Blob;
use ff_core::limits::CLAIM_BYTES_MAX;
use ff_core::{ClaimAsk, Claimed, ExecutionId};
use tokio::sync::oneshot;

use crate::claims::Unclaimed;
use crate::members::Members;

/// Idle claims that one batch may start something for.
const ASKED_MAX: usize = 32;
/// How long a claim that has a reason to scan waits for a batch to say what it started.
const PATIENCE: Duration = Duration::from_millis(50);

/// Claims of this process that found nothing.
#[derive(Default)]
pub struct Idle(Mutex<State>);

#[derive(Default)]
struct State {
    waiting: Vec<Waiting>,
    number: u64,
}

/// A claim that idles.
struct Waiting {
    number: u64,
    /// The call that it waits for; nothing once a later call waits under the same claim id, because its
    /// caller has most likely given this one up.
    call: Option<u64>,
    ask: ClaimAsk,
    reply: oneshot::Sender<Unclaimed>,
    undo: Unclaimed,
    /// Whether a batch that is under way may give it something.
    asked: bool,
    /// Whether a batch may have leased work for this claim and lost its reply: it scans once more.
    in_doubt: bool,
    /// Whether it waits for nothing but that batch.
    leaves: bool,
    /// What it has left with, if it could not wait for that batch.
    gone: Option<BTreeSet<ExecutionId>>,
}

impl Waiting {
    fn is_free(&self) -> bool {
        !self.asked && self.call.is_some()
    }

    /// A batch that is about to go may give it something.
    fn promise(&mut self) -> Promise {
        (self.asked, self.in_doubt) = (true, true);
        Promise { number: self.number, ask: self.ask.clone(), given: self.undo.another() }
    }
}

/// Claims on whose behalf a batch starts what it lets go.
#[derive(Default)]
pub struct Asked(Vec<Promise>);

/// What may be started for one of them.
struct Promise {
    number: u64,
    ask: ClaimAsk,
    given: Unclaimed,
}

impl Asked {
    /// The commands that do.
    pub fn commands(&self) -> impl Iterator<Item = Command> {
        self.0.iter().map(|promise| StartReleased { ask: promise.ask.clone() }.into())
    }
}

/// Creations of a batch that idle claims are to be given.
pub struct Starts(Vec<Start>);

struct Start {
    promise: Promise,
    inputs: Vec<(ExecutionId, Option<Blob>)>,
}

impl Idle {
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().expect("no holder of this lock panics")
    }

    /// A call that claims begins; its number.
    pub fn call(&self) -> u64 {
        let mut state = self.lock();
        state.number += 1;
        state.number
    }

    /// Waits on behalf of a call to be given something; `undo` knows how to give it back.
    pub fn wait(&self, call: u64, ask: ClaimAsk, undo: Unclaimed) -> Place<'_> {
        let (reply, given) = oneshot::channel();
        let mut state = self.lock();
        state.number += 1;
        let number = state.number;
        let mut call = Some(call);
        for one in state.waiting.iter_mut().filter(|one| one.ask.claim_id == ask.claim_id) {
            let earlier = if one.call < call { &mut one.call } else { &mut call };
            *earlier = None;
        }
        state.waiting.push(Waiting {
            number,
            call,
            ask,
            reply,
            undo,
            asked: false,
            in_doubt: false,
            leaves: false,
            gone: None,
        });
        Place { idle: self, number, given }
    }

    /// Adds claims to a batch of creations: for those that can run at once, on behalf of claims
    /// that idle, oldest first.
    pub fn start(&self, commands: &mut Vec<Command>) -> Starts {
        let mut state = self.lock();
        let mut starts: Vec<Start> = Vec::new();
        if state.waiting.is_empty() {
            return Starts(starts);
        }
        let mut claims = Vec::new();
        let mut bytes = 0;
        for create in commands.iter().filter_map(runnable_at_once) {
            bytes += create.input.len();
            if bytes > CLAIM_BYTES_MAX {
                break;
            }
            let open = starts.iter().position(|start| start.has_room_for(create));
            let at = open.or_else(|| {
                let free =
                    |waiting: &&mut Waiting| waiting.is_free() && suits(&waiting.ask, create);
                let promise = state.waiting.iter_mut().find(free)?.promise();
                starts.push(Start { promise, inputs: Vec::new() });
                Some(starts.len() - 1)
            });
            if let Some(start) = at.map(|at| &mut starts[at]) {
                claims.push((start.promise.number, start.promise.ask.claim(create.id)));
                start.inputs.push((create.id, create.kept_input()));
            }
        }
        // In the order in which they are answered.
        claims.sort_by_key(|(number, _)| *number);
        starts.sort_by_key(|start| start.promise.number);
        commands.extend(claims.into_iter().map(|(_, claim)| Command::from(claim)));
        Starts(starts)
    }

    /// The claims that idle, oldest first: what a batch lets go, `most` at most, may be started for
    /// them. Of those who look in the same queues no more are asked than that: another batch may need
    /// the others.
    pub fn ask(&self, most: usize) -> Asked {
        let mut asked: Vec<Promise> = Vec::new();
        if most == 0 {
            return Asked(asked);
        }
        let mut state = self.lock();
        for waiting in state.waiting.iter_mut().filter(|waiting| waiting.is_free()) {
            let alike = |promise: &&Promise| promise.ask.looks_where(&waiting.ask);
            if asked.len() == ASKED_MAX {
                break;
            }
            if asked.iter().filter(alike).count() >= most {
                continue;
            }
            asked.push(waiting.promise());
        }
        Asked(asked)
    }

    /// Hands out what a batch started; without `outcomes`, nobody knows what it did.
    pub fn answer(&self, asked: Asked, outcomes: Option<Vec<Outcome>>, members: &Members) {
        let known = outcomes.is_some();
        let mut outcomes = outcomes.into_iter().flatten();
        for Promise { number, mut given, .. } in asked.0 {
            let started = match outcomes.next() {
                Some(Ok(Reply::StartReleased(started))) => started,
                Some(Ok(other)) => unreachable!("a start was asked for, not {other:?}"),
                Some(Err(_)) | None => Vec::new(),
            };
            members.learn(&started);
            for claimed in started {
                given.add(claimed);
            }
            self.settle(number, given, known);
        }
    }

    /// The same of creations that were claimed in the batch that made them.
    pub fn hand_out(&self, starts: Starts, outcomes: Option<Vec<Outcome>>) {
        let known = outcomes.is_some();
        let mut outcomes = outcomes.into_iter().flatten();
        for Start { promise, inputs } in starts.0 {
            let Promise { number, mut given, .. } = promise;
            for ((_, input), outcome) in inputs.into_iter().zip(outcomes.by_ref()) {
                match outcome {
                    Ok(Reply::Claim(leased)) => given.add(Claimed { leased, input }),
                    Ok(other) => unreachable!("a claim was asked for, not {other:?}"),
                    // The creation was refused, or found an older one that is under way.
                    Err(refused) => tracing::debug!(%refused, "not started at once"),
                }
            }
            self.settle(number, given, known);
        }
    }

    /// A promise is kept, with what there is. A claim that got nothing goes on idling, and scans if it
    /// is not known whether there was something. What a claim has left without is given back.
    fn settle(&self, number: u64, mut given: Unclaimed, known: bool) {
        let mut state = self.lock();
        // One that was dropped meanwhile is not there.
        let Some(at) = state.waiting.iter().position(|one| one.number == number) else { return };
        let waiting = &mut state.waiting[at];
        if given.is_empty() && known && waiting.gone.is_none() && !waiting.leaves {
            waiting.asked = false;
            return;
        }
        let waiting = state.waiting.remove(at);
        drop(state);
        match waiting.gone {
            Some(with) => given.forget(&with),
            None if given.is_empty() => {}
            None => drop(waiting.reply.send(given)),
        }
    }
}

impl Start {
    fn has_room_for(&self, create: &Create) -> bool {
        let max = usize::try_from(self.promise.ask.max).unwrap_or(usize::MAX);
        self.inputs.len() < max && suits(&self.promise.ask, create)
    }
}

/// How a claim left its place.
pub enum Left<'i> {
    /// No batch has promised it anything.
    Alone,
    /// One may have started something for it, and this is what it said.
    Asked(Option<Unclaimed>),
    /// One may start something for it yet.
    Promised(Place<'i>),
}

/// A place among those who idle, which is given up with it.
pub struct Place<'i> {
    idle: &'i Idle,
    number: u64,
    given: oneshot::Receiver<Unclaimed>,
}

impl<'i> Place<'i> {
    /// Waits until something is given.
    pub async fn given(&mut self) -> Option<Unclaimed> {
        (&mut self.given).await.ok()
    }

    /// Leaves in order to scan, unless something is on its way: then it waits for that, a little.
    pub async fn leave(mut self) -> Left<'i> {
        {
            let mut state = self.idle.lock();
            match state.find(self.number) {
                Some(at) if state.waiting[at].asked => state.waiting[at].leaves = true,
                Some(at) => {
                    let in_doubt = state.waiting.remove(at).in_doubt;
                    return if in_doubt { Left::Asked(None) } else { Left::Alone };
                }
                None => {}
            }
        }
        if let Ok(given) = tokio::time::timeout(PATIENCE, &mut self.given).await {
            return Left::Asked(given.ok());
        }
        let mut state = self.idle.lock();
        let Some(at) = state.find(self.number) else {
            return Left::Asked(self.given.try_recv().ok());
        };
        state.waiting[at].leaves = false;
        drop(state);
        Left::Promised(self)
    }

    /// Leaves for good with what a scan has found; answers what a batch has given besides.
    pub fn go(mut self, found: &[Claimed]) -> Vec<Claimed> {
        let ids: BTreeSet<_> = found.iter().map(|one| one.leased.execution.id).collect();
        let mut state = self.idle.lock();
        if let Some(at) = state.find(self.number) {
            if state.waiting[at].asked {
                state.waiting[at].gone = Some(ids);
            } else {
                state.waiting.remove(at);
            }
            return Vec::new();
        }
        drop(state);
        let Ok(mut given) = self.given.try_recv() else { return Vec::new() };
        given.forget(&ids);
        given.take()
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut state = self.idle.lock();
        state.waiting.retain(|one| one.number != self.number || one.gone.is_some());
    }
}

impl State {
    fn find(&self, number: u64) -> Option<usize> {
        self.waiting.iter().position(|waiting| waiting.number == number)
    }
}

fn runnable_at_once(command: &Command) -> Option<&Create> {
    match command {
        Command::Create(create) => {
            (create.delay_until.is_none() && create.delay_ms.is_none()).then_some(create)
        }
        _ => None, // not ours: only creations start anything
    }
}

fn suits(ask: &ClaimAsk, create: &Create) -> bool {
    ask.lanes.contains(&create.lane)
        && create.policy.required_capabilities().is_subset(&ask.capabilities)
}
