//! What happened, from the stored history.

use std::io::{IsTerminal, Write};

use ff_core::Millis;
use ff_core::event::EventKind;
use ff_core::state::PublicState;
use ff_core::view::AttemptLine;
use ff_engine::{Engine, History};

use super::samples::Sample;

/// Prints the story of each execution; plain ones that went well are counted.
pub async fn print(engine: &Engine, shown: &[Sample], out: &mut impl Write) -> anyhow::Result<()> {
    let mut plain: Vec<u64> = Vec::new();
    let mut stories: Vec<String> = Vec::new();
    for sample in shown {
        let history = engine.history(sample.id).await?;
        let Some(history) = history else { anyhow::bail!("{} is gone", sample.id) };
        let (took, state) = (took(&history), history.snapshot.public_state);
        if sample.title == "succeeds" && state == PublicState::Completed {
            plain.push(took);
            continue;
        }
        let state = painted(state);
        let head = format!("{}: {state} after {}\n", sample.title, seconds(took));
        stories.push(head + &story(&history));
    }
    plain.sort_unstable();
    if let (Some(median), Some(slowest)) = (plain.get(plain.len() / 2), plain.last()) {
        writeln!(
            out,
            "{} executions completed at their first attempt; median {}, slowest {}.\n",
            plain.len(),
            seconds(*median),
            seconds(*slowest)
        )?;
    }
    writeln!(out, "{}", stories.join("\n"))?;
    Ok(())
}

/// The state, in colour on a terminal.
fn painted(state: PublicState) -> String {
    let colour = match state {
        PublicState::Completed => 32,
        PublicState::Failed | PublicState::Expired => 31,
        PublicState::Cancelled => 33,
        PublicState::Waiting | PublicState::Delayed | PublicState::Active => 36,
    };
    if std::io::stdout().is_terminal() {
        format!("\x1b[{colour}m{state}\x1b[0m")
    } else {
        state.to_string()
    }
}

fn took(history: &History) -> u64 {
    let x = &history.snapshot;
    x.completed_at.unwrap_or(x.last_mutation_at).since(x.created_at)
}

fn seconds(ms: u64) -> String {
    format!("{}.{:03} s", ms / 1_000, ms % 1_000)
}

/// Beginnings of attempts and events, in the order in which they happened.
fn story(history: &History) -> String {
    let born = history.snapshot.created_at;
    let mut lines: Vec<(Millis, u32, String)> = Vec::new();
    for line in &history.attempts {
        lines.push((line.attempt.started_at, 2 * line.attempt.index, began(line)));
    }
    // Within a millisecond, what happened to an attempt comes after its beginning.
    let mut latest = 0;
    for event in &history.events {
        latest = attempt_of(&event.event.kind).unwrap_or(latest);
        if let Some(text) = told(&event.event.kind, born) {
            lines.push((event.event.at, 2 * latest + 1, text));
        }
    }
    lines.sort_by_key(|(at, order, _)| (*at, *order));
    let lines =
        lines.into_iter().map(|(at, _, text)| format!("    {}  {text}\n", seconds(at.since(born))));
    lines.collect()
}

/// The attempt that an event is about.
fn attempt_of(kind: &EventKind) -> Option<u32> {
    match kind {
        EventKind::AttemptFailed { attempt_index, .. }
        | EventKind::LeaseExpired { attempt_index, .. }
        | EventKind::LeaseRevoked { attempt_index, .. }
        | EventKind::LeaseReclaimed { attempt_index, .. } => Some(*attempt_index),
        EventKind::Completion { attempt_index, .. } => *attempt_index,
        EventKind::PriorityChanged { .. }
        | EventKind::Replayed { .. }
        | EventKind::Held { .. }
        | EventKind::Unheld => None,
    }
}

fn began(line: &AttemptLine) -> String {
    let attempt = &line.attempt;
    format!("attempt {} ({}) by {}", attempt.index, attempt.kind, attempt.worker.instance)
}

/// What an event tells, if the attempts do not.
fn told(kind: &EventKind, born: Millis) -> Option<String> {
    match kind {
        EventKind::AttemptFailed { failure, retry_at, .. } => Some(format!(
            "failed: {} ({}); retry at {}",
            failure.reason,
            failure.category,
            seconds(retry_at.since(born))
        )),
        EventKind::LeaseExpired { worker, .. } => {
            Some(format!("the lease of {} ran out", worker.instance))
        }
        EventKind::LeaseRevoked { worker, reason, .. } => {
            Some(format!("the lease of {} was revoked: {reason}", worker.instance))
        }
        EventKind::Replayed { outcome, reason } => {
            Some(format!("replayed after {outcome}: {reason}"))
        }
        EventKind::Completion { outcome, reason: Some(reason), .. } => {
            Some(format!("ended {outcome}: {reason}"))
        }
        EventKind::Completion { outcome, reason: None, .. } => Some(format!("ended {outcome}")),
        EventKind::PriorityChanged { from, to } => Some(format!("priority {from} → {to}")),
        EventKind::Held { reason } => Some(format!("held: {reason}")),
        EventKind::Unheld => Some("let go".to_owned()),
        // The attempt that took over says it.
        EventKind::LeaseReclaimed { .. } => None,
    }
}
