//! What happened, from the stored history.

use std::io::Write;

use ff_core::Millis;
use ff_core::state::PublicState;
use ff_wire::History;
use ff_wire::snapshot::AttemptLine;
use flowfabric::Client;

use super::samples::Sample;
use crate::output::painted;
use crate::told::{attempt_of, told};

/// Prints the story of each execution; plain ones that went well are counted.
pub async fn print(client: &Client, shown: &[Sample], out: &mut impl Write) -> anyhow::Result<()> {
    let mut plain: Vec<u64> = Vec::new();
    let mut stories: Vec<String> = Vec::new();
    for sample in shown {
        let history = client.execution(sample.id).history().await?;
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
        lines.push((line.started_at, 2 * line.index, began(line)));
    }
    // Within a millisecond, what happened to an attempt comes after its beginning.
    let mut latest = 0;
    for event in &history.events {
        latest = attempt_of(&event.event).unwrap_or(latest);
        if let Some(text) = told(&event.event, |at| seconds(at.since(born))) {
            lines.push((event.at, 2 * latest + 1, text));
        }
    }
    lines.sort_by_key(|(at, order, _)| (*at, *order));
    let lines =
        lines.into_iter().map(|(at, _, text)| format!("    {}  {text}\n", seconds(at.since(born))));
    lines.collect()
}

fn began(line: &AttemptLine) -> String {
    format!("attempt {} ({}) by {}", line.index, line.kind, line.worker.instance)
}
