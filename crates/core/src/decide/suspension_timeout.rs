//! Suspension timeout: nobody came in time, and what was to happen then happens.
//!
//! Whether the execution still waits, and is due, is looked at again here. Sent twice, or too early:
//! nothing to do.

use uuid::Uuid;

use super::mailbox::{self, closed, open, resume};
use super::{Again, COMMAND_BYTES, Decide, Parting, Repeat, end};
use crate::command::Traffic;
use crate::error::Rejection;
use crate::event::{Event, EventKind};
use crate::execution::{CancelledBy, Ending, Execution, Failure, LeaseEnd, State, Suspended};
use crate::fold::{Change, Cx, Effects, Key, WaitEffects, WaitKey, WorkingSet};
use crate::ids::ExecutionId;
use crate::limits::Config;
use crate::suspension::{
    CloseReason, Effect, Signal, Suspension, SuspensionEnd, SuspensionReason, TimeoutBehavior,
    Waitpoint,
};
use crate::text::{Category, SignalName};
use crate::time::{Entropy, Millis};

/// What ended because nobody came says so.
const SUSPENSION_TIMEOUT: &str = "suspension_timeout";

/// Check whether a suspension is past its deadline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeOutSuspension {
    /// Of which execution.
    pub id: ExecutionId,
}

impl Decide for TimeOutSuspension {
    /// What happened; nothing when it was not due, or somebody had come.
    type Reply = Option<TimeoutBehavior>;
    const NAME: &'static str = "time_out_suspension";
    const TRAFFIC: Traffic = Traffic::Admin;
    const REPEAT: Repeat = Repeat {
        by: "the time: it looks again whether the suspension is due",
        late: "does nothing unless the suspension is due",
    };

    fn validate(&self, _: &Config) -> Result<(), Rejection> {
        Ok(())
    }

    fn bytes(&self) -> usize {
        COMMAND_BYTES
    }

    fn keys(&self, _: &WorkingSet) -> Vec<Key> {
        let mut keys = mailbox::keys(self.id);
        keys.push(Key::Wait(WaitKey::Received(self.id)));
        keys
    }

    fn decide(&self, have: &WorkingSet, cx: &mut Cx<'_>) -> Result<Change<Self::Reply>, Rejection> {
        // Another process was faster: it is gone.
        let Ok(x) = have.execution(self.id) else { return Ok(Change::none(None)) };
        let at = cx.at(x);
        let due = match &x.state {
            State::Suspended(suspended) => suspended.deadline.is_some_and(|due| due <= at),
            // Somebody came, or it ended.
            State::Runnable(_) | State::Active(_) | State::Terminal(_) => false,
        };
        if !due {
            return Ok(Change::none(None));
        }
        let (suspended, suspension) = open(x, have)?;
        let behavior = suspension.timeout_behavior;
        let (ending, how) = match behavior {
            TimeoutBehavior::Fail => (failed(), CloseReason::TimedOutFail),
            TimeoutBehavior::Cancel => {
                let reason = "suspension_timeout_cancel".to_owned();
                let by = CancelledBy::SystemTimeout;
                (Ending::Cancelled { by, reason }, CloseReason::TimedOutCancel)
            }
            TimeoutBehavior::Expire => {
                let reason = "suspension_timeout_expire".to_owned();
                (Ending::Expired { reason }, CloseReason::TimedOutExpire)
            }
            TimeoutBehavior::AutoResume => {
                let effects = go_on(x, have, (suspended, suspension), cx);
                return Ok(Change { reply: Some(behavior), effects });
            }
            TimeoutBehavior::Escalate => {
                let effects = escalate(x, have, (suspended, suspension), at);
                return Ok(Change { reply: Some(behavior), effects });
            }
        };
        let parting = Parting { how: LeaseEnd::Suspended, reason: SUSPENSION_TIMEOUT };
        let mut effects = end(x, ending, parting, cx);
        effects.waits = Some(Box::new(over(have, suspension, (at, how), Vec::new())));
        Ok(Change { reply: Some(behavior), effects })
    }

    fn again(_: &Self::Reply) -> Again<Self::Reply> {
        Again::Reply(None)
    }
}

fn failed() -> Ending {
    Ending::Failed(Failure {
        reason: SUSPENSION_TIMEOUT.to_owned(),
        category: Category::new("suspension_timeout_fail").expect("a valid category"),
    })
}

/// A suspension that is over, with its waitpoints.
fn over(
    have: &WorkingSet,
    suspension: &Suspension,
    (at, how): (Millis, CloseReason),
    by: Vec<Uuid>,
) -> WaitEffects {
    let end = Some(SuspensionEnd { at, how, by });
    WaitEffects {
        suspension: Some(Suspension { end, ..suspension.clone() }),
        waitpoints: closed(have, suspension, at, how),
        ..WaitEffects::default()
    }
}

/// The execution goes on, and reads a signal that says that nobody came.
fn go_on(
    x: &Execution,
    have: &WorkingSet,
    (suspended, suspension): (&Suspended, &Suspension),
    cx: &mut Cx<'_>,
) -> Effects {
    let at = cx.at(x);
    let number = have.waits.received.get(&x.id).copied().unwrap_or_default();
    let signal = timeout_signal(suspension, number, (at, cx.entropy));
    let how = CloseReason::TimedOutAutoResume;
    let mut waits = over(have, suspension, (at, how), vec![signal.id]);
    for row in waits.waitpoints.iter_mut().filter(|row| row.id == suspension.primary) {
        row.counts.signals += 1;
        row.counts.matched += 1;
        row.counts.last_at = Some(at);
    }
    let kind = EventKind::Signal {
        signal_id: signal.id,
        waitpoint_id: signal.waitpoint,
        name: signal.name.clone(),
        source_identity: signal.source_identity.clone(),
        subject: None,
        effect: signal.effect,
    };
    waits.signal = Some(signal);
    Effects {
        // At once: it has waited long enough.
        execution: Some(resume(x, suspended, 0, at)),
        events: vec![Event::new(x, at, kind)],
        waits: Some(Box::new(waits)),
        ..Effects::default()
    }
}

/// Nobody can know its id beforehand, and so nobody can have taken it.
fn timeout_signal(
    suspension: &Suspension,
    number: u32,
    (at, entropy): (Millis, &mut dyn Entropy),
) -> Signal {
    let id = Uuid::from_u64_pair(entropy.next_u64(), entropy.next_u64());
    Signal {
        execution: suspension.execution,
        id: uuid::Builder::from_random_bytes(id.into_bytes()).into_uuid(),
        waitpoint: suspension.primary,
        number,
        name: SignalName::new("timeout").expect("a valid name"),
        category: "timeout".to_owned(),
        source_type: "system".to_owned(),
        source_identity: SUSPENSION_TIMEOUT.to_owned(),
        subject: None,
        correlation_id: None,
        idempotency_key: None,
        dedup_until: None,
        created_at: at,
        accepted_at: at,
        encoding: None,
        payload: None,
        effect: Effect::ConditionSatisfied,
    }
}

/// It goes on waiting, for an operator too. It has no deadline any more, and what was to happen then is as
/// if nobody had said it.
fn escalate(
    x: &Execution,
    have: &WorkingSet,
    (suspended, suspension): (&Suspended, &Suspension),
    at: Millis,
) -> Effects {
    let reason = SuspensionReason::WaitingForOperatorReview;
    let mut next = x.changed(at);
    let missed = suspended.deadline;
    next.state =
        State::Suspended(Suspended { reason, deadline: None, missed, ..suspended.clone() });
    let own = have.waits.waitpoints_of(x.id).filter(|row| row.suspension == Some(suspension.id));
    let waitpoints = own.filter_map(Waitpoint::without_deadline).collect();
    let timeout_behavior = TimeoutBehavior::Fail;
    let suspension = Some(Suspension { reason, timeout_behavior, ..suspension.clone() });
    let waits = WaitEffects { suspension, waitpoints, ..WaitEffects::default() };
    Effects {
        execution: Some(next),
        events: vec![Event::new(x, at, EventKind::Escalated)],
        waits: Some(Box::new(waits)),
        ..Effects::default()
    }
}
