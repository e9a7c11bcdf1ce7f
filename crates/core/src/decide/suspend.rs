//! Suspend: the holder gives the execution back until something happens, to go on with the same attempt
//! then.
//!
//! Signals that arrived at a pending waitpoint before count: if they are enough, the lease stays and the
//! worker goes on at once. Sent twice with the fence that gave it back and the same suspension id, or
//! under the same key: the same answer, tokens included.

use std::collections::{BTreeMap, BTreeSet};

use uuid::Uuid;

use super::mailbox::{self, Signer, room, token};
use super::{Decide, Repeat, check_time, holder, steps};
use crate::command::Traffic;
use crate::condition::{ResumeCondition, Seen, Verdict};
use crate::error::{Code, Rejection};
use crate::event::{Event, EventKind};
use crate::execution::{Active, Execution, Fence, LeaseEnd, State, Suspended};
use crate::fold::{Change, Cx, Effects, Key, WaitEffects, WaitKey, WorkingSet};
use crate::ids::ExecutionId;
use crate::limits::{
    BINDINGS_MAX, CONTINUATION_BYTES_MAX, Config, DEADLINE_SKEW_MS_MAX, DURATION_MS_MAX,
    SUSPEND_KEY_GRACE_MS, SUSPEND_KEY_MS_MAX,
};
use crate::step::Step;
use crate::suspension::{
    Arrival, CloseReason, RequestedBy, SuspendKey, Suspension, SuspensionEnd, SuspensionReason,
    TimeoutBehavior, Waitpoint, WaitpointState,
};
use crate::text::{IdempotencyKey, WaitpointKey, prose};
use crate::time::Millis;
use crate::token::Token;

/// Wait for signals, an operator or a time.
#[derive(Clone, Debug, PartialEq)]
pub struct Suspend {
    /// Which.
    pub id: ExecutionId,
    /// Proof of holding it.
    pub fence: Fence,
    /// The id of the suspension.
    pub suspension: Uuid,
    /// Where signals arrive; the first is the one to show.
    pub waitpoints: Vec<Binding>,
    /// What it waits for.
    pub condition: ResumeCondition,
    /// How long after that it may be claimed.
    pub resume_delay_ms: u64,
    /// Why.
    pub reason: SuspensionReason,
    /// Who asked for it.
    pub requested_by: RequestedBy,
    /// Until when.
    pub deadline: Option<Millis>,
    /// What happens then.
    pub timeout_behavior: TimeoutBehavior,
    /// Whatever helps the worker to go on.
    pub continuation: Option<String>,
    /// Repeats under this key are answered like the first.
    pub idempotency_key: Option<IdempotencyKey>,
    /// What to add to its journal, by ascending number.
    pub steps: Vec<Step>,
}

/// A waitpoint of a suspension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Binding {
    /// A new one.
    Fresh {
        /// Its id.
        id: Uuid,
        /// What the condition calls it.
        key: WaitpointKey,
    },
    /// One that was made while the execution ran.
    Pending {
        /// Its id.
        id: Uuid,
    },
}

impl Binding {
    /// The id of the waitpoint.
    pub fn id(&self) -> Uuid {
        match self {
            Self::Fresh { id, .. } | Self::Pending { id } => *id,
        }
    }
}

/// A waitpoint, and what lets others send signals to it.
#[derive(Clone, Debug, PartialEq)]
pub struct Opened {
    /// Its id.
    pub waitpoint_id: Uuid,
    /// What the condition calls it.
    pub waitpoint_key: WaitpointKey,
    /// Its token; nothing when the key that signed it is gone.
    pub token: Option<Token>,
}

/// The answer.
#[derive(Clone, Debug, PartialEq)]
pub struct SuspendedReply {
    /// The suspension.
    pub suspension_id: Uuid,
    /// Its waitpoints, the first one first.
    pub waitpoints: Vec<Opened>,
    /// Whether what it waits for had happened: the lease still holds.
    pub already_satisfied: bool,
}

fn wrong(field: &'static str, value: impl std::fmt::Display, why: &str) -> Rejection {
    Rejection::invalid(Code::InvalidInput, field, value, why)
}

impl Suspend {
    /// Refuses waitpoints that do not fit the condition.
    fn check_bindings(&self) -> Result<(), Rejection> {
        let Some(first) = self.waitpoints.first() else {
            return Err(wrong("waitpoints", "", "waitpoints_empty: bind at least one"));
        };
        if self.waitpoints.len() > BINDINGS_MAX {
            let why = format!("are too many; at most {BINDINGS_MAX} are allowed");
            return Err(wrong("waitpoints", self.waitpoints.len(), &why));
        }
        let single = match &self.condition {
            ResumeCondition::Single { waitpoint, .. } => Some(waitpoint),
            // Several are bound to those, or nothing is waited for at any.
            ResumeCondition::OperatorOnly
            | ResumeCondition::TimeoutOnly
            | ResumeCondition::AllOf(_)
            | ResumeCondition::Count { .. }
            | ResumeCondition::Approval { .. } => None,
        };
        if let (Binding::Fresh { key, .. }, Some(wanted)) = (first, single)
            && self.waitpoints.len() == 1
            && key != wanted
        {
            let why = format!("waitpoint_key_mismatch: the condition waits at {wanted}");
            return Err(wrong("waitpoint_key", key, &why));
        }
        let mut ids = BTreeSet::new();
        let mut bound = BTreeSet::new();
        for (at, binding) in self.waitpoints.iter().enumerate() {
            let id = match binding {
                Binding::Fresh { id, key } => {
                    if !bound.insert(key) {
                        return Err(wrong("waitpoint_key", key, "is bound twice"));
                    }
                    id
                }
                Binding::Pending { id } if at > 0 => {
                    let why =
                        format!("additional_waitpoint_binding_must_be_fresh at waitpoints[{at}]");
                    return Err(wrong("waitpoints", id, &why));
                }
                Binding::Pending { id } => id,
            };
            if !ids.insert(id) {
                return Err(wrong("waitpoint_id", id, "is bound twice"));
            }
        }
        Ok(())
    }

    /// Refuses keys that the condition refers to and nobody bound, and, of several, the reverse.
    fn check_keys(&self, bound: &BTreeSet<&WaitpointKey>) -> Result<(), Rejection> {
        let wanted = self.condition.keys();
        if let Some(key) = wanted.difference(bound).next() {
            let why = "referenced_waitpoint_key_missing_binding: bind a waitpoint of this key";
            return Err(wrong("waitpoints", key, why));
        }
        let extra = bound.difference(&wanted).next().filter(|_| self.waitpoints.len() > 1);
        match extra {
            None => Ok(()),
            Some(key) => {
                let why = "extra_binding_not_referenced_by_condition: nothing waits there";
                Err(wrong("waitpoints", key, why))
            }
        }
    }

    /// The answer that was given before, if this is a repeat.
    fn repeated(&self, x: &Execution, have: &WorkingSet, at: Millis) -> Option<SuspendedReply> {
        let waits = &have.waits;
        let again = |suspension, ids: &[Uuid], already_satisfied| {
            let found = ids.iter().filter_map(|id| waits.waitpoint(x.id, *id));
            let waitpoints = found.map(|row| opened(row, token(row, waits.keyring.as_ref(), at)));
            let waitpoints = waitpoints.collect();
            SuspendedReply { suspension_id: suspension, waitpoints, already_satisfied }
        };
        if let Some(key) = &self.idempotency_key
            && let Some(Some(row)) = waits.suspend_keys.get(&(x.id, key.clone()))
            && row.expires_at > at
        {
            return Some(again(row.suspension, &row.waitpoints, row.already_satisfied));
        }
        let last = waits.suspension(x.id).filter(|row| row.id == self.suspension)?;
        // One that had what it waits for at once ended under the epoch of the lease, which stayed. Who has
        // lost that since is told so, and not to go on.
        let at_once = last.epoch == self.fence.lease_epoch && holder(x, self.fence, at).is_ok();
        let same = at_once || x.ended_by(self.fence, LeaseEnd::Suspended);
        same.then(|| again(last.id, &self.bound(), at_once))
    }

    /// The waitpoints of the suspension, and their tokens.
    fn bind(
        &self,
        x: &Execution,
        active: &Active,
        have: &WorkingSet,
        signer: &Signer,
        at: Millis,
    ) -> Result<Vec<(Waitpoint, Option<Token>)>, Rejection> {
        let state = WaitpointState::Active { since: at, expires_at: self.deadline };
        let index = active.attempt.index;
        let mut bound = Vec::with_capacity(self.waitpoints.len());
        for binding in &self.waitpoints {
            let (row, token) = match binding {
                Binding::Fresh { id, key } => {
                    if have.waits.waitpoint(x.id, *id).is_some() {
                        let said = format!("{} has a waitpoint {id}", x.id);
                        return Err(Rejection::new(Code::WaitpointAlreadyExists, said));
                    }
                    let (row, token) = signer.waitpoint((x, index), (*id, key), state, at);
                    (row, Some(token))
                }
                Binding::Pending { id } => {
                    let row = pending(x, *id, have, at)?;
                    let token = token(row, have.waits.keyring.as_ref(), at);
                    (Waitpoint { state, ..row.clone() }, token)
                }
            };
            // The key of one that was made before is known only here.
            if bound.iter().any(|(other, _): &(Waitpoint, _)| other.key == row.key) {
                return Err(wrong("waitpoint_key", &row.key, "is bound twice"));
            }
            bound.push((Waitpoint { suspension: Some(self.suspension), ..row }, token));
        }
        let keys = bound.iter().map(|(row, _)| &row.key).collect();
        self.check_keys(&keys)?;
        Ok(bound)
    }

    /// How many waitpoints it makes.
    fn fresh(&self) -> usize {
        let fresh = |binding: &&Binding| matches!(binding, Binding::Fresh { .. });
        self.waitpoints.iter().filter(fresh).count()
    }

    /// The ids of its waitpoints.
    fn bound(&self) -> Vec<Uuid> {
        self.waitpoints.iter().map(Binding::id).collect()
    }

    fn remembered(&self, reply: &SuspendedReply, at: Millis) -> Option<SuspendKey> {
        let key = self.idempotency_key.clone()?;
        let left = self.deadline.map(|due| due.since(at).saturating_add(SUSPEND_KEY_GRACE_MS));
        let kept = left.unwrap_or(SUSPEND_KEY_MS_MAX).min(SUSPEND_KEY_MS_MAX);
        Some(SuspendKey {
            execution: self.id,
            key,
            suspension: reply.suspension_id,
            waitpoints: reply.waitpoints.iter().map(|opened| opened.waitpoint_id).collect(),
            already_satisfied: reply.already_satisfied,
            expires_at: at.plus(kept),
        })
    }
}

fn opened(row: &Waitpoint, token: Option<Token>) -> Opened {
    Opened { waitpoint_id: row.id, waitpoint_key: row.key.clone(), token }
}

/// A waitpoint that the execution made and has not used. Which of its attempts made it does not matter:
/// its token was handed out, and what was handed out stays good when a worker crashes.
fn pending<'h>(
    x: &Execution,
    id: Uuid,
    have: &'h WorkingSet,
    at: Millis,
) -> Result<&'h Waitpoint, Rejection> {
    let Some(row) = have.waits.waitpoint(x.id, id) else {
        let said = format!("{} has no waitpoint {id}", x.id);
        return Err(Rejection::new(Code::WaitpointNotFound, said));
    };
    let WaitpointState::Pending { expires_at } = row.state else {
        let said = format!("waitpoint {id} of {} is {}", x.id, row.state.word());
        return Err(Rejection::new(Code::WaitpointNotPending, said));
    };
    if expires_at <= at {
        let said = format!("waitpoint {id} of {} was to be used by {expires_at}", x.id);
        return Err(Rejection::new(Code::PendingWaitpointExpired, said));
    }
    Ok(row)
}

impl Decide for Suspend {
    type Reply = SuspendedReply;
    const NAME: &'static str = "suspend_execution";
    const TRAFFIC: Traffic = Traffic::Finish;
    const REPEAT: Repeat = Repeat {
        by: "the fence with the id of the suspension, or its key",
        late: "the same answer until the execution is claimed again, then `stale_lease`",
    };

    fn validate(&self, config: &Config) -> Result<(), Rejection> {
        self.condition.check()?;
        self.check_bindings()?;
        if self.deadline.is_none() && self.condition.wants_a_deadline() {
            let why = "timeout_only_without_deadline: it would wait for ever";
            return Err(wrong("timeout_at", "", why));
        }
        if self.resume_delay_ms > DURATION_MS_MAX {
            return Err(wrong("resume_delay_ms", self.resume_delay_ms, "is more than ten years"));
        }
        if let Some(continuation) = &self.continuation {
            prose("continuation_metadata_pointer", continuation, CONTINUATION_BYTES_MAX)?;
        }
        steps::check(&self.steps, 0, config)
    }

    fn bytes(&self) -> usize {
        steps::bytes(&self.steps)
    }

    fn keys(&self, have: &WorkingSet) -> Vec<Key> {
        let mut keys = steps::keys(self.id, &self.steps);
        keys.extend(mailbox::keys(self.id));
        keys.extend(self.bound().into_iter().map(|id| Key::Wait(WaitKey::Waitpoint(self.id, id))));
        keys.push(Key::Wait(WaitKey::Keyring));
        if self.waitpoints.iter().any(|binding| matches!(binding, Binding::Pending { .. })) {
            keys.push(Key::Wait(WaitKey::Arrived(self.id)));
        }
        if let Some(key) = &self.idempotency_key {
            keys.push(Key::Wait(WaitKey::SuspendKey(self.id, key.clone())));
            let known = have.waits.suspend_keys.get(&(self.id, key.clone()));
            let own = known.and_then(Option::as_ref).into_iter().flat_map(|row| &row.waitpoints);
            keys.extend(own.map(|id| Key::Wait(WaitKey::Waitpoint(self.id, *id))));
        }
        keys
    }

    fn decide(
        &self,
        have: &WorkingSet,
        cx: &mut Cx<'_>,
    ) -> Result<Change<SuspendedReply>, Rejection> {
        let x = have.execution(self.id)?;
        let at = cx.at(x);
        if let Some(again) = self.repeated(x, have, at) {
            return Ok(Change::none(again));
        }
        if matches!(x.state, State::Suspended(_)) {
            let said = format!("{} is suspended already", x.id);
            return Err(Rejection::new(Code::AlreadySuspended, said).standing(x.standing()));
        }
        let active = holder(x, self.fence, at)?.clone();
        if let Some(deadline) = self.deadline {
            check_time("timeout_at", deadline, at)?;
            if deadline.plus(DEADLINE_SKEW_MS_MAX) < at {
                return Err(wrong("timeout_at", deadline, "timeout_at_in_past: it is over"));
            }
        }
        room(have, x.id, self.fresh())?;
        let signer = Signer::new(have.waits.keyring.as_ref(), cx);
        let bound = self.bind(x, &active, have, &signer, at)?;
        let by = (active.attempt.index, at);
        let steps = steps::new_records(self.id, &self.steps, by, have)?;
        let early = judge(x.id, &self.condition, &bound, have);
        let already_satisfied = early.satisfied_by.is_some();
        let waitpoints = bound.iter().map(|(row, token)| opened(row, token.clone())).collect();
        let reply =
            SuspendedReply { suspension_id: self.suspension, waitpoints, already_satisfied };
        let mut rows: Vec<_> = bound.into_iter().map(|(row, _)| row).collect();
        for row in &mut rows {
            let own = early.counting.iter().filter(|waitpoint| **waitpoint == row.id).count();
            row.counts.matched = u32::try_from(own).unwrap_or(u32::MAX);
        }
        let mut suspension = self.suspension(x, &active, rows[0].id, at);
        let mut effects = Effects { steps, ..Effects::default() };
        if let Some(by) = early.satisfied_by {
            suspension.end = Some(SuspensionEnd { at, how: CloseReason::Resumed, by });
            rows = rows.iter().map(|row| row.closed(at, CloseReason::Resumed)).collect();
            effects.execution = Some(x.changed(at));
        } else {
            let suspended = self.suspended(x, &active, at);
            suspension.epoch = suspended.epoch;
            let kind =
                EventKind::Suspended { attempt_index: active.attempt.index, reason: self.reason };
            effects.events.push(Event::new(x, at, kind));
            effects.execution = Some(suspended);
        }
        effects.waits = Some(Box::new(WaitEffects {
            suspension: Some(suspension),
            waitpoints: rows,
            suspend_key: self.remembered(&reply, at),
            keys: signer.change,
            ..WaitEffects::default()
        }));
        Ok(Change { reply, effects })
    }
}

impl Suspend {
    /// What `x` waits for.
    fn suspension(&self, x: &Execution, active: &Active, primary: Uuid, at: Millis) -> Suspension {
        Suspension {
            execution: x.id,
            id: self.suspension,
            epoch: x.epoch,
            attempt_index: active.attempt.index,
            primary,
            condition: self.condition.clone(),
            resume_delay_ms: self.resume_delay_ms,
            reason: self.reason,
            requested_by: self.requested_by,
            since: at,
            timeout_behavior: self.timeout_behavior,
            continuation: self.continuation.clone(),
            end: None,
        }
    }

    /// `x` as it waits.
    fn suspended(&self, x: &Execution, active: &Active, at: Millis) -> Execution {
        let mut suspended = x.changed(at);
        suspended.epoch += 1;
        suspended.state = State::Suspended(Suspended {
            attempt: active.paused(at),
            reason: self.reason,
            deadline: self.deadline,
            missed: None,
            last_lease: Some(LeaseEnd::Suspended),
        });
        suspended
    }
}

/// What arrived at the waitpoints of a suspension before it.
struct Early {
    /// The signals that satisfy its condition, if they do.
    satisfied_by: Option<Vec<Uuid>>,
    /// The waitpoint of each that counts.
    counting: Vec<Uuid>,
}

/// Judges a condition by what arrived at its waitpoints before.
fn judge(
    id: ExecutionId,
    condition: &ResumeCondition,
    bound: &[(Waitpoint, Option<Token>)],
    have: &WorkingSet,
) -> Early {
    let key = |waitpoint: Uuid| {
        bound.iter().find(|(row, _)| row.id == waitpoint).map(|(row, _)| &row.key)
    };
    let arrived = have.waits.arrived.get(&id).into_iter().flat_map(BTreeMap::values);
    let own: Vec<(&Arrival, Seen<'_>)> =
        arrived.filter_map(|signal| Some((signal, signal.seen(key(signal.waitpoint)?)))).collect();
    let seen: Vec<_> = own.iter().map(|(_, seen)| *seen).collect();
    let counting = condition.contributing(&seen).into_iter().map(|at| own[at].0.waitpoint);
    let satisfied_by = match condition.judge(&seen) {
        Verdict::Open => None,
        Verdict::Satisfied { by } => Some(by.into_iter().map(|at| own[at].0.id).collect()),
    };
    Early { satisfied_by, counting: counting.collect() }
}
