//! Events in words.

use ff_core::Millis;
use ff_core::suspension::{Effect, SuspensionReason};
use ff_wire::event::Event;
use ff_wire::snapshot::Worker;

use crate::output::clean;

/// Characters of a worker's name that are shown; the rest tells nobody anything.
const NAME_CHARS_MAX: usize = 20;

/// What a worker process is called.
pub fn name_of(worker: &Worker) -> String {
    let name = clean(&worker.instance);
    if name.chars().count() <= NAME_CHARS_MAX {
        return name;
    }
    let kept: String = name.chars().take(NAME_CHARS_MAX - 1).collect();
    format!("{kept}…")
}

/// What an event tells, with times written as `since` says; nothing if its attempts say it.
pub fn told(event: &Event, since: impl Fn(Millis) -> String) -> Option<String> {
    let said = match event {
        Event::AttemptFailed { failure, retry_at, .. } => {
            format!(
                "failed: {} ({}); retry at {}",
                failure.reason,
                failure.category,
                since(*retry_at)
            )
        }
        Event::LeaseExpired { worker, retry_at: None, .. } => {
            format!("the lease of {} ran out", name_of(worker))
        }
        Event::LeaseExpired { worker, retry_at: Some(at), .. } => {
            format!("the lease of {} ran out; taken over from {} on", name_of(worker), since(*at))
        }
        Event::LeaseRevoked { worker, reason, .. } => {
            format!("the lease of {} was revoked: {reason}", name_of(worker))
        }
        Event::Replayed { outcome, reason } => format!("replayed after {outcome}: {reason}"),
        Event::Completion { outcome, reason: Some(reason), .. } => {
            format!("ended {outcome}: {reason}")
        }
        Event::Completion { outcome, reason: None, .. } => format!("ended {outcome}"),
        Event::PriorityChanged { from, to } => format!("priority {from} → {to}"),
        Event::Held { reason } => format!("held: {reason}"),
        Event::Unheld => "let go".to_owned(),
        Event::FlowCancelRequested { cancellation_policy, reason, .. } => {
            format!("the flow was cancelled ({cancellation_policy}): {reason}")
        }
        Event::Suspended { reason, .. } => format!("suspended: {}", wait_of(*reason)),
        Event::Signal { signal_name, source_identity, effect, .. } => {
            let from = if source_identity.is_empty() { "" } else { " from " };
            format!("signal {signal_name}{from}{source_identity}: {}", led_to(*effect))
        }
        Event::Resumed { reason } => format!("goes on without what it waited for: {reason}"),
        Event::Escalated => "nobody came in time: it waits for an operator".to_owned(),
        Event::FlowEnded { state } => format!("the flow ended {state}"),
        Event::FlowReopened => "the flow goes on".to_owned(),
        // The attempt that took over says it.
        Event::LeaseReclaimed { .. } => return None,
    };
    Some(clean(&said))
}

/// The attempt that an event is about.
pub fn attempt_of(event: &Event) -> Option<u32> {
    match event {
        Event::AttemptFailed { attempt_index, .. }
        | Event::LeaseExpired { attempt_index, .. }
        | Event::LeaseRevoked { attempt_index, .. }
        | Event::LeaseReclaimed { attempt_index, .. }
        | Event::Suspended { attempt_index, .. } => Some(*attempt_index),
        Event::Completion { attempt_index, .. } => *attempt_index,
        Event::PriorityChanged { .. }
        | Event::Replayed { .. }
        | Event::Signal { .. }
        | Event::Resumed { .. }
        | Event::Escalated
        | Event::Held { .. }
        | Event::Unheld
        | Event::FlowCancelRequested { .. }
        | Event::FlowEnded { .. }
        | Event::FlowReopened => None,
    }
}

/// Why an execution waits.
pub fn wait_of(reason: SuspensionReason) -> String {
    reason.as_str().replace('_', " ")
}

/// What a signal led to.
pub fn led_to(effect: Effect) -> &'static str {
    match effect {
        Effect::ConditionSatisfied => "it goes on",
        Effect::Appended => "recorded, and more is waited for",
        Effect::AppendedDuplicate => "recorded, though the same was said before",
        Effect::IgnoredNotInCondition | Effect::IgnoredMatcherFailed => "not waited for",
        Effect::Buffered => "kept until it waits there",
    }
}
