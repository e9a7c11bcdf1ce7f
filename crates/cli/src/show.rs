//! `ff show`: a page about one execution. What it is, what became of it and when, drawn to scale,
//! then attempts, steps and events as they are stored.

mod asked;
mod timeline;
mod waits;

use std::io::{self, Write};

use clap::Args;
use console::style;
use ff_core::Millis;
use ff_core::execution::AttemptOutcome;
use ff_core::state::PublicState;
use ff_core::step::{StepFailure, StepKind, StepOutcome};
use ff_wire::snapshot::AttemptLine;
use ff_wire::{ExecutionSnapshot, History, StepLine};
use flowfabric::Client;

use crate::list::why;
use crate::output::{self, Format, Output, clean, dim, painted, section};
use crate::place::Place;
use crate::table::{Column, Table, left, right};
use crate::told::{attempt_of, name_of, told};
use crate::{id, span};
use asked::Asked;
use timeline::Timeline;
use waits::Part;

const ATTEMPTS: &[Column] =
    &[right("#"), left("KIND"), right("AT"), right("TOOK"), left("ENDED"), left("WORKER")];
const STEPS: &[Column] =
    &[right("#"), left("STEP"), right("TRY"), right("AT"), right("TOOK"), left("RESULT")];
const EVENTS: &[Column] = &[right("AT"), right("TRY"), left("WHAT")];

/// Show all about an execution.
#[derive(Args)]
pub struct Show {
    /// The execution: its id, or enough of the beginning or end of it
    id: String,
    #[command(flatten)]
    output: Output,
}

impl Show {
    /// Shows it.
    pub async fn run(self, place: &Place) -> anyhow::Result<()> {
        let client = place.client().await?;
        let id = id::find(&client, place, &self.id).await?;
        let history = client.execution(id).history().await?;
        match self.output.output {
            Some(Format::Json) => output::json(&history),
            Some(Format::Ids) => Ok(writeln!(io::stdout(), "{id}")?),
            Some(Format::Table) | None => {
                let result = result(&client, &history.snapshot).await?;
                let asked = Asked::of(&client, place, &history.snapshot).await?;
                let now = client.fabric().now().await?;
                let page = Page { history: &history, result, asked, now, width: output::width() };
                Ok(page.print(&mut io::stdout().lock())?)
            }
        }
    }
}

/// The result as text, if it has one.
async fn result(client: &Client, x: &ExecutionSnapshot) -> anyhow::Result<Option<String>> {
    if x.public_state != PublicState::Completed {
        return Ok(None);
    }
    let data = client.fabric().result(x.execution_id).await?;
    Ok(data.map(|data| match std::str::from_utf8(&data.bytes) {
        Ok(text) => clean(text),
        Err(_) => format!("{} bytes", data.bytes.len()),
    }))
}

/// All that is known of an execution at a moment.
struct Page<'h> {
    history: &'h History,
    result: Option<String>,
    asked: Option<Asked<'h>>,
    now: Millis,
    width: usize,
}

impl Page<'_> {
    fn print(&self, out: &mut impl Write) -> io::Result<()> {
        self.head(out)?;
        if let Some(asked) = &self.asked {
            section("WAITS FOR", self.width, out)?;
            asked.print(out, self.width)?;
        }
        section("TIMELINE", self.width, out)?;
        Timeline::new(self.history, self.now).print(out, self.width)?;
        if !self.history.attempts.is_empty() {
            section("ATTEMPTS", self.width, out)?;
            self.attempts().print(out, self.width, "  ")?;
        }
        if !self.history.steps.is_empty() {
            section("STEPS", self.width, out)?;
            self.steps().print(out, self.width, "  ")?;
        }
        section("EVENTS", self.width, out)?;
        self.events().print(out, self.width, "  ")?;
        if self.history.more {
            writeln!(out, "\n  {}", dim("only the first thousand of each are shown"))?;
        }
        Ok(())
    }

    fn head(&self, out: &mut impl Write) -> io::Result<()> {
        let x = &self.history.snapshot;
        let (id, kind) = (x.execution_id, clean(&x.execution_kind));
        writeln!(out, "{}  {}  {id}\n", painted(x.public_state), style(kind).bold())?;
        for (name, text) in self.facts() {
            let text =
                console::truncate_str(&text, self.width.saturating_sub(12), "…").into_owned();
            writeln!(out, "  {}{text}", dim(&format!("{name:<10}")))?;
        }
        Ok(())
    }

    /// What there is to say, by name.
    fn facts(&self) -> Vec<(&'static str, String)> {
        let x = &self.history.snapshot;
        let mut facts = self.times();
        let why = match (&x.failure, why(x, self.now)) {
            (Some(failure), why) if why == clean(&failure.reason) => {
                format!("{why} ({})", clean(&failure.category))
            }
            (Some(_) | None, why) => why,
        };
        let lane = format!("{}, priority {}", clean(&x.lane_id), x.priority);
        let by = x.cancelled_by.map_or_else(String::new, |by| format!(" (by {by})"));
        facts.push(("lane", lane));
        if let Some(flow) = x.flow_id {
            let node = x.node.as_deref().map(|node| format!(", node {}", clean(node)));
            facts.push(("flow", format!("{flow}{}", node.unwrap_or_default())));
        }
        if !why.is_empty() {
            facts.push(("why", format!("{why}{by}")));
        }
        if let Some(lease) = &x.current_lease {
            let left = span::length(lease.expires_at.since(self.now));
            let worker = name_of(&lease.worker);
            facts.push(("held by", format!("{worker}, whose lease ends in {left}")));
        }
        if let Some(progress) = x.progress.as_ref().filter(|_| !x.public_state.is_terminal()) {
            let percent = progress.percent.map_or_else(String::new, |done| format!("{done}% "));
            let message = clean(progress.message.as_deref().unwrap_or_default());
            facts.push(("progress", format!("{percent}{message}")));
        }
        if let Some(deadline) = x.deadline_at.filter(|_| !x.public_state.is_terminal()) {
            facts.push(("deadline", span::moment(deadline)));
        }
        let tags = x.tags.iter().map(|(key, value)| format!("{key}={}", clean(value)));
        let tags = tags.collect::<Vec<_>>().join(" ");
        if !tags.is_empty() {
            facts.push(("tags", tags));
        }
        facts.extend(self.result.clone().map(|result| ("result", result)));
        facts
    }

    /// Created, begun and ended.
    fn times(&self) -> Vec<(&'static str, String)> {
        let x = &self.history.snapshot;
        let ago = span::age(self.now.since(x.created_at));
        let after = |at: Millis| span::length(at.since(x.created_at));
        let begun = x.started_at.map(|at| format!("started after {}", after(at)));
        let ended = x.completed_at.map(|at| format!("ended after {}", after(at)));
        let ran = begun.into_iter().chain(ended).collect::<Vec<_>>().join(", ");
        let mut times = vec![("created", format!("{} ({ago} ago)", span::moment(x.created_at)))];
        match (x.started_at, x.completed_at) {
            (Some(_), _) => times.push(("ran", ran)),
            (None, Some(ended)) => times.push(("ended", format!("after {}", after(ended)))),
            (None, None) => {}
        }
        times
    }

    /// How long after the creation.
    fn since(&self, at: Millis) -> String {
        format!("+{}", span::length(at.since(self.history.snapshot.created_at)))
    }

    fn attempts(&self) -> Table {
        let mut table = Table::new(ATTEMPTS);
        for line in &self.history.attempts {
            let until = line.ended_at.unwrap_or(self.now);
            table.row([
                line.index.to_string(),
                line.kind.to_string(),
                self.since(line.started_at),
                span::length(until.since(line.started_at)),
                ended(line, self.history.snapshot.public_state),
                name_of(&line.worker),
            ]);
        }
        table
    }

    fn steps(&self) -> Table {
        let mut table = Table::new(STEPS);
        for step in &self.history.steps {
            table.row([
                step.number.to_string(),
                clean(&step.name),
                step.attempt_index.to_string(),
                self.since(step.at),
                span::length(self.took(step)),
                self.outcome_of(step),
            ]);
        }
        table
    }

    /// How long a step took, or takes: a sleep until its end, a wait until its answer.
    fn took(&self, step: &StepLine) -> u64 {
        match (step.kind, wakes_at(step)) {
            (StepKind::Sleep, Some(until)) => until.since(step.at),
            (StepKind::Wait, _) => match waits::part_of(&self.history.steps, step) {
                Part::Question(answer) => {
                    let end = self.history.snapshot.completed_at.unwrap_or(self.now);
                    answer.map_or(end, |answer| answer.at).since(step.at)
                }
                Part::Answer => step.ran_ms,
            },
            (
                StepKind::Run
                | StepKind::Sleep
                | StepKind::Now
                | StepKind::Random
                | StepKind::Waitpoint
                | StepKind::Children
                | StepKind::Race
                | StepKind::Timeout
                | StepKind::Generation,
                _,
            ) => step.ran_ms,
        }
    }

    fn outcome_of(&self, step: &StepLine) -> String {
        if step.outcome == StepOutcome::Failed {
            let failure = step.result.as_ref().and_then(|json| json.read::<StepFailure>().ok());
            return failure
                .map_or("failed".to_owned(), |it| format!("failed: {}", clean(&it.message)));
        }
        if let (StepKind::Sleep, Some(until)) = (step.kind, wakes_at(step)) {
            return format!("until {}", self.since(until));
        }
        if step.kind == StepKind::Wait {
            match waits::part_of(&self.history.steps, step) {
                Part::Question(None) => return "is waited for".to_owned(),
                Part::Question(Some(answer)) => return format!("until {}", self.since(answer.at)),
                Part::Answer => {
                    if let Some(said) = waits::answer(step) {
                        return said;
                    }
                }
            }
        }
        match (&step.result, &step.result_base64) {
            (Some(json), _) => clean(json.text()),
            (None, Some(base64)) => format!("{base64} (base64)"),
            (None, None) => String::new(),
        }
    }

    fn events(&self) -> Table {
        let mut table = Table::new(EVENTS);
        let by = clean(&self.history.snapshot.creator_identity);
        let by = if by.is_empty() { by } else { format!(" by {by}") };
        table.row(["+0 ms".to_owned(), String::new(), format!("created{by}")]);
        for fed in &self.history.events {
            if let Some(text) = told(&fed.event, |at| self.since(at)) {
                let index = attempt_of(&fed.event).map_or_else(String::new, |n| n.to_string());
                table.row([self.since(fed.at), index, text]);
            }
        }
        table
    }
}

/// How an attempt ended, in its colour.
fn ended(line: &AttemptLine, state: PublicState) -> String {
    let said = match line.outcome {
        Some(AttemptOutcome::Success) => style("success").green(),
        Some(AttemptOutcome::Failure) => style("failure").red(),
        Some(AttemptOutcome::Cancelled) => style("cancelled").yellow(),
        Some(AttemptOutcome::Interrupted) => style("lease lost").yellow(),
        None if state == PublicState::Suspended => style("suspended").magenta(),
        None if state != PublicState::Active => style("to go on").cyan(),
        None => style("under way").cyan(),
    };
    said.to_string()
}

/// When a sleep ends.
fn wakes_at(step: &StepLine) -> Option<Millis> {
    step.result.as_ref().and_then(|json| json.read::<i64>().ok()).map(Millis)
}
