//! Starting at once: an execution that is created while a claim of this process idles goes to that
//! claim in the same commit, without ever standing in a queue.
//!
//! A claim idles once it has looked and found its queues empty. What other processes have created
//! since then may be older or more urgent: the claim that is given something finds it when it
//! looks next.

use std::sync::Mutex;
use std::time::Duration;

use ff_core::command::{Command, Outcome, Reply};
use ff_core::decide::claim::Claim;
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
/// How long a batch that is under way may take to say what it started.
const ANSWERED_WITHIN: Duration = Duration::from_mins(1);

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
    ask: ClaimAsk,
    reply: oneshot::Sender<Unclaimed>,
    undo: Unclaimed,
    /// Whether a batch that is under way may give it something.
    asked: bool,
    /// Whether one ever might have, and may have failed after it did.
    thought_of: bool,
    /// Whether it waits for nothing but that batch.
    leaves: bool,
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
    waiting: Waiting,
    inputs: Vec<(ExecutionId, Option<Blob>)>,
}

impl Idle {
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().expect("no holder of this lock panics")
    }

    /// Waits to be given something; `undo` knows how to give it back.
    pub fn wait(&self, ask: ClaimAsk, undo: Unclaimed) -> Place<'_> {
        let (reply, given) = oneshot::channel();
        let mut state = self.lock();
        state.number += 1;
        let number = state.number;
        let (asked, thought_of, leaves) = (false, false, false);
        let waiting = Waiting { number, ask, reply, undo, asked, thought_of, leaves };
        state.waiting.push(waiting);
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
                let free = |waiting: &Waiting| !waiting.asked && suits(&waiting.ask, create);
                let at = state.waiting.iter().position(free)?;
                starts.push(Start { waiting: state.waiting.remove(at), inputs: Vec::new() });
                Some(starts.len() - 1)
            });
            if let Some(start) = at.map(|at| &mut starts[at]) {
                claims.push((start.waiting.number, start.claim(create.id)));
                start.inputs.push((create.id, create.kept_input()));
            }
        }
        // In the order in which they are answered.
        claims.sort_by_key(|(number, _)| *number);
        starts.sort_by_key(|start| start.waiting.number);
        commands.extend(claims.into_iter().map(|(_, claim)| Command::from(claim)));
        Starts(starts)
    }
}

impl Idle {
    /// The claims that idle, oldest first: what a batch lets go, `most` at most, may be started for
    /// them. Of those who look in the same queues no more are asked than that: another batch may need
    /// the others.
    pub fn ask(&self, most: usize) -> Asked {
        let mut asked: Vec<Promise> = Vec::new();
        if most == 0 {
            return Asked(asked);
        }
        let mut state = self.lock();
        for waiting in state.waiting.iter_mut().filter(|waiting| !waiting.asked) {
            let alike = |promise: &&Promise| promise.ask.looks_where(&waiting.ask);
            if asked.len() == ASKED_MAX {
                break;
            }
            if asked.iter().filter(alike).count() >= most {
                continue;
            }
            (waiting.asked, waiting.thought_of) = (true, true);
            let (ask, given) = (waiting.ask.clone(), waiting.undo.another());
            asked.push(Promise { number: waiting.number, ask, given });
        }
        Asked(asked)
    }

    /// Hands out what a batch started. Who got nothing goes on idling; what was started
    /// for a claim that has left meanwhile is given back.
    pub fn answer(&self, asked: Asked, outcomes: Vec<Outcome>, members: &Members) {
        let mut outcomes = outcomes.into_iter();
        for Promise { number, mut given, .. } in asked.0 {
            let started = match outcomes.next() {
                Some(Ok(Reply::StartReleased(started))) => started,
                Some(Ok(other)) => unreachable!("a start was asked for, not {other:?}"),
                Some(Err(_)) | None => Vec::new(),
            };
            let mut state = self.lock();
            let at = state.waiting.iter().position(|waiting| waiting.number == number);
            if started.is_empty() {
                match at {
                    Some(at) if state.waiting[at].leaves => drop(state.waiting.remove(at)),
                    Some(at) => state.waiting[at].asked = false,
                    // It was dropped meanwhile.
                    None => {}
                }
                continue;
            }
            let waiting = at.map(|at| state.waiting.remove(at));
            drop(state);
            members.learn(&started);
            for claimed in started {
                given.add(claimed);
            }
            // A claim that is gone gives its work back.
            drop(waiting.map(|waiting| waiting.reply.send(given)));
        }
    }
}

impl Start {
    fn has_room_for(&self, create: &Create) -> bool {
        let max = usize::try_from(self.waiting.ask.max).unwrap_or(usize::MAX);
        self.inputs.len() < max && suits(&self.waiting.ask, create)
    }

    fn claim(&self, id: ExecutionId) -> Claim {
        self.waiting.ask.claim(id)
    }
}

impl Starts {
    /// Hands out what the claims were given. A claim that was refused everything is only woken.
    pub fn hand_out(self, outcomes: Vec<Outcome>) {
        let mut outcomes = outcomes.into_iter();
        for Start { waiting, inputs } in self.0 {
            let mut given = waiting.undo;
            for ((_, input), outcome) in inputs.into_iter().zip(outcomes.by_ref()) {
                match outcome {
                    Ok(Reply::Claim(leased)) => given.add(Claimed { leased, input }),
                    Ok(other) => unreachable!("a claim was asked for, not {other:?}"),
                    // The creation was refused, or found an older one that is under way.
                    Err(refused) => tracing::debug!(%refused, "not started at once"),
                }
            }
            // A claim that is gone gives its work back.
            drop(waiting.reply.send(given));
        }
    }
}

/// How a claim left its place.
pub enum Left {
    /// No batch ever thought of it.
    Alone,
    /// One may have started something for it, and this is what it said.
    Asked(Option<Unclaimed>),
}

/// A place among those who idle, which is given up with it.
pub struct Place<'i> {
    idle: &'i Idle,
    number: u64,
    given: oneshot::Receiver<Unclaimed>,
}

impl Place<'_> {
    /// Waits until something is given.
    pub async fn given(&mut self) -> Option<Unclaimed> {
        (&mut self.given).await.ok()
    }

    /// Waits no longer, unless something is on its way: then for that. A claim that looked again
    /// before a batch has answered could find what the batch started for it, and lose it when the
    /// batch finds nobody to hand it to.
    pub async fn leave(mut self) -> Left {
        {
            let mut state = self.idle.lock();
            let own = state.waiting.iter().position(|waiting| waiting.number == self.number);
            match own {
                Some(at) if state.waiting[at].asked => state.waiting[at].leaves = true,
                Some(at) => {
                    let thought_of = state.waiting.remove(at).thought_of;
                    return if thought_of { Left::Asked(None) } else { Left::Alone };
                }
                None => {}
            }
        }
        // A batch that panicked answers nobody.
        let given = tokio::time::timeout(ANSWERED_WITHIN, &mut self.given).await;
        Left::Asked(given.ok().and_then(Result::ok))
    }

    fn give_up(&self) {
        let mut state = self.idle.lock();
        state.waiting.retain(|waiting| waiting.number != self.number);
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.give_up();
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
