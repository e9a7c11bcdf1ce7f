//! Decisions: one command, one file, one pure function over the rows it needs.
//!
//! This file holds what they share: who may act ([`holder`]), the one way an execution ends
//! ([`end`]), the one way it goes back to waiting ([`requeue`]), and what a failure or a lost
//! lease leads to. No other code may write a terminal state.

pub mod add_member;
pub mod apply_edge;
pub mod attempt_timeout;
pub mod cancel;
pub mod cancel_flow;
pub mod cancel_owed;
pub mod claim;
pub mod close_waitpoint;
pub mod complete;
pub mod consumer;
pub mod create;
pub mod create_flow;
pub mod create_waitpoint;
pub mod deadline;
pub mod delay;
pub mod deliver;
pub mod dispatch;
pub mod drop_consumer;
pub mod extend_flow;
pub mod fail;
pub mod flow_tags;
mod graph;
pub mod group_policy;
pub mod hold;
pub mod key_expiry;
pub mod keys;
pub mod lease_expiry;
pub mod mailbox;
pub mod priority;
pub mod progress;
pub mod reconcile_group;
pub mod release;
pub mod renew;
pub mod replay;
pub mod resume;
pub mod retention;
pub mod revoke;
pub mod seal_flow;
pub mod sibling_cancel;
pub mod sibling_reconcile;
pub mod stage_edge;
pub mod start_released;
pub mod steps;
pub mod submit_flow;
pub mod suspend;
pub mod suspension_timeout;
pub mod tags;
pub mod trim_flow;
pub mod unhold;
pub mod wait_children;
pub mod waitpoint_expiry;

use std::fmt::Debug;

use crate::command::Traffic;
use crate::error::{Code, Rejection, Standing};
use crate::event::{Event, EventKind};
use crate::execution::{
    Active, Attempt, AttemptOutcome, Ending, Execution, Failure, Fence, LeaseEnd, Next, Runnable,
    State, Terminal, Wait, WaitReason, first_epoch,
};
use crate::flow::Dispatch;
use crate::fold::{Change, Cx, Effects, Key, WorkingSet};
use crate::ids::ExecutionId;
use crate::limits::{self, Config, DURATION_MS_MAX};
use crate::policy::{FailureClass, reclaim_delay_ms};
use crate::text;
use crate::time::Millis;

/// A command: what it needs, what it refuses at once, and what it changes.
pub trait Decide: Clone + Debug + PartialEq + Send + Sync + 'static {
    /// Its answer.
    type Reply: Clone + Debug + PartialEq + Send;
    /// Its name.
    const NAME: &'static str;
    /// The queue it travels in.
    const TRAFFIC: Traffic;
    /// How a repeat of it is recognised.
    const REPEAT: Repeat;

    /// Refuses what can be refused without looking at any row.
    fn validate(&self, config: &Config) -> Result<(), Rejection>;
    /// Bytes it carries, for bounding queues.
    fn bytes(&self) -> usize;
    /// The rows it needs, given those already loaded.
    fn keys(&self, have: &WorkingSet) -> Vec<Key>;
    /// What it changes.
    fn decide(&self, have: &WorkingSet, cx: &mut Cx<'_>) -> Result<Change<Self::Reply>, Rejection>;

    /// The same command, bound to what it means over these rows: sent again after it was carried out, it
    /// means that and nothing else. Nothing where it says so itself.
    fn pinned(&self, _have: &WorkingSet) -> Option<Self> {
        None
    }

    /// What the same command answers when it is sent again at once, after it answered `reply`.
    fn again(_reply: &Self::Reply) -> Again<Self::Reply> {
        Again::Same
    }
}

/// How a repeat of a command is recognised, whenever it comes. Every command may be repeated: a caller
/// that lost the reply does not know whether it was carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repeat {
    /// What tells it from another command.
    pub by: &'static str,
    /// What it does when something else happened in between.
    pub late: &'static str,
}

/// What a command answers when it is sent again at once. Every command may be: a caller that does
/// not know what became of its call repeats it. A refused command is refused again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Again<R> {
    /// The same.
    Same,
    /// This: there is nothing left to do.
    Reply(R),
    /// A refusal that says that it is done.
    Refused(Code),
    /// Something else: it goes on with the next part of its work.
    Further,
}

impl<R> Again<R> {
    /// The same with its answer wrapped.
    pub fn map<S>(self, wrap: impl FnOnce(R) -> S) -> Again<S> {
        match self {
            Self::Same => Again::Same,
            Self::Reply(reply) => Again::Reply(wrap(reply)),
            Self::Refused(code) => Again::Refused(code),
            Self::Further => Again::Further,
        }
    }
}

/// What a command weighs in a queue without its payload.
pub(crate) const COMMAND_BYTES: usize = 256;

/// A command about one existing execution; most are.
pub trait OnExecution: Clone + Debug + PartialEq + Send + Sync + 'static {
    /// Its answer.
    type Reply: Clone + Debug + PartialEq + Send;
    /// Its name.
    const NAME: &'static str;
    /// The queue it travels in.
    const TRAFFIC: Traffic;
    /// How a repeat of it is recognised.
    const REPEAT: Repeat;

    /// The execution it is about.
    fn id(&self) -> ExecutionId;
    /// Refuses what can be refused without looking at the execution.
    fn check(&self, config: &Config) -> Result<(), Rejection>;
    /// Bytes of payload it carries.
    fn payload_bytes(&self) -> usize {
        0
    }
    /// What it changes.
    fn on(&self, x: &Execution, cx: &mut Cx<'_>) -> Result<Change<Self::Reply>, Rejection>;

    /// The same command, bound to what it means for this execution; nothing where it says so itself.
    fn pinned_to(&self, _x: &Execution) -> Option<Self> {
        None
    }

    /// What the same command answers when it is sent again at once, after it answered `reply`.
    fn again(_reply: &Self::Reply) -> Again<Self::Reply> {
        Again::Same
    }
}

impl<T: OnExecution> Decide for T {
    type Reply = T::Reply;
    const NAME: &'static str = T::NAME;
    const TRAFFIC: Traffic = T::TRAFFIC;
    const REPEAT: Repeat = T::REPEAT;

    fn validate(&self, config: &Config) -> Result<(), Rejection> {
        self.check(config)
    }

    fn bytes(&self) -> usize {
        COMMAND_BYTES + self.payload_bytes()
    }

    fn keys(&self, _: &WorkingSet) -> Vec<Key> {
        vec![Key::Execution(self.id())]
    }

    fn decide(&self, have: &WorkingSet, cx: &mut Cx<'_>) -> Result<Change<T::Reply>, Rejection> {
        self.on(have.execution(self.id())?, cx)
    }

    fn pinned(&self, have: &WorkingSet) -> Option<Self> {
        self.pinned_to(have.execution(self.id()).ok()?)
    }

    fn again(reply: &T::Reply) -> Again<T::Reply> {
        <T as OnExecution>::again(reply)
    }
}

/// The lease that `fence` proves, if it still holds at `at`.
///
/// A worker that lost its lease learns how, while that lease was the last one; afterwards its
/// fence is simply stale; once the execution ended, it learns how that ended.
fn holder(x: &Execution, fence: Fence, at: Millis) -> Result<&Active, Rejection> {
    let was_last = fence.lease_epoch.checked_add(1) == Some(x.epoch);
    match &x.state {
        State::Active(active) => {
            if fence != x.fence() {
                return Err(stale(x, fence));
            }
            if active.lease.until <= at {
                let said = format!("the lease on {} ended at {}", x.id, active.lease.until);
                return Err(Rejection::new(Code::LeaseExpired, said));
            }
            Ok(active)
        }
        State::Runnable(runnable) => Err(match runnable.last_lease.filter(|_| was_last) {
            Some(LeaseEnd::Expired) => {
                Rejection::new(Code::LeaseExpired, format!("the lease on {} ran out", x.id))
            }
            Some(LeaseEnd::Revoked) => {
                Rejection::new(Code::LeaseRevoked, format!("the lease on {} was revoked", x.id))
            }
            Some(
                LeaseEnd::Completed
                | LeaseEnd::Failed
                | LeaseEnd::Cancelled
                | LeaseEnd::Delayed
                | LeaseEnd::Waiting
                | LeaseEnd::Suspended
                | LeaseEnd::Released,
            ) => not_active(x),
            None => stale(x, fence),
        }),
        State::Suspended(_) if was_last => Err(not_active(x)),
        State::Suspended(_) => Err(stale(x, fence)),
        State::Terminal(_) => Err(not_active(x)),
    }
}

fn stale(x: &Execution, fence: Fence) -> Rejection {
    let said = format!(
        "the fence (attempt {}, epoch {}) is not the current one of {} (epoch {})",
        fence.attempt_index, fence.lease_epoch, x.id, x.epoch
    );
    Rejection::new(Code::StaleLease, said).standing(x.standing())
}

/// `what` is no longer at the version that the command names: it was changed by this command before, or
/// by another.
fn changed(what: impl std::fmt::Display, seen: u64, version: u64) -> Rejection {
    let said = format!("{what} was changed: it is at version {version}, not {seen}");
    Rejection { value: Some(version.to_string()), ..Rejection::new(Code::VersionConflict, said) }
}

/// `x` was replayed since the caller read it, when it had been replayed `seen` times.
fn replayed(x: &Execution, seen: u32) -> Rejection {
    let said = format!("{} was replayed {} times, not {seen}", x.id, x.counts.replays);
    Rejection::new(Code::VersionConflict, said).standing(x.standing())
}

/// No worker holds `x`.
fn not_active(x: &Execution) -> Rejection {
    let standing = x.standing();
    let said = match standing.outcome {
        Some(outcome) => format!("{} has ended: {outcome}", x.id),
        None => format!("{} is {}, not active", x.id, standing.phase),
    };
    Rejection::new(Code::ExecutionNotActive, said).standing(standing)
}

impl Execution {
    /// Whether it was held before the lease that holds it now: there may be steps.
    pub fn was_held_before(&self) -> bool {
        self.epoch > first_epoch(self.spec.created_at) + 1
    }

    /// The fence of the current lease.
    pub fn fence(&self) -> Fence {
        let attempt_index = match &self.state {
            State::Active(active) => active.attempt.index,
            State::Runnable(_) | State::Suspended(_) | State::Terminal(_) => {
                self.counts.attempts.saturating_sub(1)
            }
        };
        Fence { attempt_index, lease_epoch: self.epoch }
    }

    /// Where it stands, for a worker that no longer holds it.
    pub fn standing(&self) -> Standing {
        let outcome = match &self.state {
            State::Terminal(terminal) => Some(terminal.ending.outcome()),
            State::Runnable(_) | State::Active(_) | State::Suspended(_) => None,
        };
        Standing {
            phase: self.state.phase(),
            outcome,
            lease_epoch: self.epoch,
            attempts: self.counts.attempts,
        }
    }

    /// Whether the worker with `fence` ended the last lease in the way `how`.
    fn ended_by(&self, fence: Fence, how: LeaseEnd) -> bool {
        let last = self.counts.attempts.checked_sub(1);
        let (last_lease, index) = match &self.state {
            State::Runnable(Runnable { next: Next::Resume(attempt), last_lease, .. }) => {
                (*last_lease, Some(attempt.index))
            }
            // A released attempt was taken back: its index is the next one again.
            State::Runnable(r) if r.last_lease == Some(LeaseEnd::Released) => {
                (r.last_lease, Some(self.counts.attempts))
            }
            State::Runnable(r) => (r.last_lease, last),
            State::Suspended(s) => (s.last_lease, Some(s.attempt.index)),
            State::Terminal(t) => (t.last_lease, t.attempt.as_ref().map(|attempt| attempt.index)),
            State::Active(_) => return false,
        };
        last_lease == Some(how)
            && index == Some(fence.attempt_index)
            && fence.lease_epoch.checked_add(1) == Some(self.epoch)
    }

    /// A copy with its version and time of change moved on.
    fn changed(&self, at: Millis) -> Self {
        let mut next = self.clone();
        next.version += 1;
        next.updated_at = at;
        next
    }
}

/// How a lease ends, and why; the reason is recorded when it is taken from its holder.
#[derive(Clone, Copy)]
struct Parting<'a> {
    how: LeaseEnd,
    reason: &'a str,
}

impl Parting<'_> {
    /// The how says it all.
    fn own(how: LeaseEnd) -> Self {
        Self { how, reason: "" }
    }

    /// The event that tells of a lease taken from its holder.
    fn event(self, x: &Execution, active: &Active, at: Millis) -> Option<Event> {
        let attempt_index = active.attempt.index;
        let worker = active.attempt.worker.clone();
        let kind = match self.how {
            LeaseEnd::Expired => EventKind::LeaseExpired { attempt_index, worker, retry_at: None },
            LeaseEnd::Revoked => {
                EventKind::LeaseRevoked { attempt_index, worker, reason: self.reason.to_owned() }
            }
            LeaseEnd::Completed
            | LeaseEnd::Failed
            | LeaseEnd::Cancelled
            | LeaseEnd::Delayed
            | LeaseEnd::Waiting
            | LeaseEnd::Suspended
            | LeaseEnd::Released => return None,
        };
        Some(Event::new(x, at, kind))
    }
}

/// Ends `x`: the only way a terminal state comes about.
///
/// Ends the attempt, fences whoever holds the lease, starts the retention clock, has its flow told,
/// and appends the one completion event (after the loss of the lease, if it was taken from its
/// holder).
fn end(x: &Execution, ending: Ending, parting: Parting<'_>, cx: &Cx<'_>) -> Effects {
    let at = cx.at(x);
    let mut ended = x.changed(at);
    let mut events = Vec::new();
    let (attempt, last_lease) = match &x.state {
        State::Active(active) => {
            ended.epoch += 1;
            events.extend(parting.event(x, active, at));
            (Some(active.paused(at)), Some(parting.how))
        }
        State::Runnable(Runnable { next: Next::Resume(attempt), last_lease, .. }) => {
            (Some(attempt.clone()), *last_lease)
        }
        State::Runnable(Runnable { last_lease, .. }) => (None, *last_lease),
        State::Suspended(s) => (Some(s.attempt.clone()), s.last_lease),
        State::Terminal(_) => unreachable!("every decision refuses to end what has ended"),
    };
    // What an earlier attempt failed with is history once the execution ended.
    let attempt = attempt.map(|attempt| Attempt { after: None, ..attempt });
    let kind = EventKind::Completion {
        outcome: ending.outcome(),
        attempt_index: attempt.as_ref().map(|attempt| attempt.index),
        reason: match &ending {
            Ending::Success { .. } => None,
            Ending::Failed(failure) => Some(failure.reason.clone()),
            Ending::Cancelled { reason, .. }
            | Ending::Expired { reason }
            | Ending::Skipped { reason } => Some(reason.clone()),
        },
    };
    events.push(Event::new(x, at, kind));
    let kept_ms = x.spec.policy.retention_ms.unwrap_or(cx.config.retention_ms);
    let retain_until = at.plus(kept_ms);
    ended.state = State::Terminal(Terminal { ending, at, attempt, last_lease, retain_until });
    let dispatch = x.flow().map(|flow| Dispatch { at, flow, execution: x.id });
    Effects { execution: Some(ended), dispatch, events, ..Effects::default() }
}

/// Takes `x` from its holder and lets it wait for the next worker.
fn requeue(x: &Execution, next: Next, wait: Option<Wait>, how: LeaseEnd, at: Millis) -> Execution {
    let mut waiting = x.changed(at);
    waiting.epoch += 1;
    let last_lease = Some(how);
    waiting.state = State::Runnable(Runnable { next, wait, hold: None, gated: false, last_lease });
    waiting
}

impl Active {
    /// Whether the attempt runs out of time before, or when, the lease does.
    fn timed_out_first(&self) -> bool {
        self.timeout_at.is_some_and(|due| due <= self.lease.until)
    }

    /// The attempt with the time of this lease added to what it ran.
    fn paused(&self, at: Millis) -> Attempt {
        let ran_ms = self.attempt.ran_ms.saturating_add(at.since(self.lease.acquired_at));
        Attempt { ran_ms, ..self.attempt.clone() }
    }
}

/// What a failed attempt leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failed {
    /// Another attempt will follow.
    RetryScheduled {
        /// Not before.
        delay_until: Millis,
        /// Its index.
        next_attempt_index: u32,
    },
    /// The execution ended.
    TerminalFailed,
}

/// Ends the running attempt with a failure: a retry if the policy allows one, else the end.
fn fail_attempt(
    x: &Execution,
    active: &Active,
    (failure, class): (Failure, FailureClass),
    parting: Parting<'_>,
    cx: &mut Cx<'_>,
) -> Change<Failed> {
    let at = cx.at(x);
    let after = x.spec.policy.retry_after(class, &failure, x.counts.retries, cx.entropy);
    let Some(delay_ms) = after else {
        let effects = end(x, Ending::Failed(failure), parting, cx);
        return Change { reply: Failed::TerminalFailed, effects };
    };
    let until = at.plus(delay_ms);
    let wait = Wait { until, reason: WaitReason::RetryBackoff };
    let why = Some(failure.clone());
    let attempt = active.attempt.record(x.id, at, AttemptOutcome::Failure, why);
    let event = EventKind::AttemptFailed {
        attempt_index: active.attempt.index,
        failure: failure.clone(),
        retry_at: until,
    };
    let mut events: Vec<_> = parting.event(x, active, at).into_iter().collect();
    events.push(Event::new(x, at, event));
    let mut waiting = requeue(x, Next::Retry(failure), Some(wait), parting.how, at);
    waiting.counts.retries += 1;
    // A retried failure resets the count of consecutive lost leases.
    waiting.counts.reclaims = 0;
    let next_attempt_index = waiting.counts.attempts;
    let effects =
        Effects { execution: Some(waiting), attempt: Some(attempt), events, ..Effects::default() };
    Change { reply: Failed::RetryScheduled { delay_until: until, next_attempt_index }, effects }
}

/// Ends the running attempt because it used up its time, which is a failure like any other.
fn time_out(x: &Execution, active: &Active, cx: &mut Cx<'_>) -> Change<Failed> {
    let reason = "attempt_timeout";
    let failure = Failure {
        reason: reason.to_owned(),
        category: text::Category::new("timeout").expect("a valid category"),
    };
    let parting = Parting { how: LeaseEnd::Revoked, reason };
    fail_attempt(x, active, (failure, FailureClass::Timeout), parting, cx)
}

/// What a lost lease leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// Another worker will take over.
    Requeued,
    /// It was lost too often: the execution failed.
    ReclaimsExhausted,
}

/// The rows on which it depends what a lost lease leads to.
fn lost_lease_keys(id: ExecutionId, have: &WorkingSet) -> Vec<Key> {
    let mut keys = vec![Key::Execution(id)];
    if let Ok(State::Active(active)) = have.execution(id).map(|x| &x.state) {
        keys.push(Key::Stepped(id, active.attempt.index));
    }
    keys
}

/// Whether the running attempt left anything that the next one goes on from: a step, or a pause that is
/// over. A report of progress is none, or work that reports and then kills its worker would be taken
/// over for ever.
fn progressed(x: &Execution, active: &Active, have: &WorkingSet) -> bool {
    active.resumed || have.has_stepped(x.id, active.attempt.index)
}

/// Takes the lease away: another worker will take over, unless it was lost too often in a row.
///
/// A lease that is lost for the first time since the execution made progress is taken over at once,
/// for workers do crash. Work that is lost again and again without progress is likely to be what
/// kills its workers: it waits longer each time. An operator who revokes a lease wants another
/// worker now: that counts, and waits for nothing.
fn lose_lease(
    x: &Execution,
    active: &Active,
    parting: Parting<'_>,
    have: &WorkingSet,
    cx: &Cx<'_>,
) -> Change<Lost> {
    let at = cx.at(x);
    let lost_before = if progressed(x, active, have) { 0 } else { x.counts.reclaims };
    if lost_before >= x.spec.policy.max_reclaims() {
        let failure = Failure {
            reason: "max_reclaims_exceeded".to_owned(),
            category: text::Category::new("infra_crash").expect("a valid category"),
        };
        let effects = end(x, Ending::Failed(failure), parting, cx);
        return Change { reply: Lost::ReclaimsExhausted, effects };
    }
    let record = active.attempt.record(x.id, at, AttemptOutcome::Interrupted, None);
    let delay_ms = reclaim_delay_ms(lost_before).filter(|_| parting.how == LeaseEnd::Expired);
    let until = delay_ms.map(|ms| at.plus(ms));
    let wait = until.map(|until| Wait { until, reason: WaitReason::RetryBackoff });
    let mut waiting = requeue(x, Next::Reclaim, wait, parting.how, at);
    waiting.counts.reclaims = lost_before + 1;
    let mut event = parting.event(x, active, at);
    if let Some(EventKind::LeaseExpired { retry_at, .. }) = event.as_mut().map(|e| &mut e.kind) {
        *retry_at = until;
    }
    let effects = Effects {
        execution: Some(waiting),
        attempt: Some(record),
        events: event.into_iter().collect(),
        ..Effects::default()
    };
    Change { reply: Lost::Requeued, effects }
}

fn check_reason(field: &'static str, reason: &str) -> Result<(), Rejection> {
    text::prose(field, reason, limits::REASON_BYTES_MAX)
}

pub(crate) fn check_lease_ttl(ttl_ms: u64) -> Result<(), Rejection> {
    if (limits::LEASE_TTL_MS_MIN..=limits::LEASE_TTL_MS_MAX).contains(&ttl_ms) {
        return Ok(());
    }
    let (min, max) = (limits::LEASE_TTL_MS_MIN, limits::LEASE_TTL_MS_MAX);
    let why = format!("is out of range; use {min} to {max} ms");
    Err(Rejection::invalid(Code::InvalidInput, "lease_ttl_ms", ttl_ms, why))
}

/// Refuses a time before the epoch or absurdly far away.
fn check_time(field: &'static str, at: Millis, now: Millis) -> Result<(), Rejection> {
    if at >= Millis::ZERO && at.since(now) <= DURATION_MS_MAX {
        return Ok(());
    }
    let why = "is not a time between 1970 and ten years from now, in milliseconds";
    Err(Rejection::invalid(Code::InvalidInput, field, at, why))
}

fn check_payload(field: &'static str, bytes: usize, config: &Config) -> Result<(), Rejection> {
    let max = config.payload_bytes_max;
    if bytes <= max {
        return Ok(());
    }
    let why = format!("is {bytes} bytes long; at most {max} are allowed");
    Err(Rejection::invalid(Code::PayloadTooLarge, field, "", why))
}
