//! `ff ls`: executions that match, newest first.

use std::io::Write;

use clap::Args;
use ff_core::Millis;
use ff_wire::{ExecutionPage, ExecutionSnapshot, SearchParams};

use crate::create::tag;
use crate::id::short;
use crate::output::{self, Format, Output, clean, painted};
use crate::place::Place;
use crate::span;
use crate::table::{Column, Table, left, right};
use crate::told::wait_of;

const COLUMNS: &[Column] = &[
    left("ID"),
    left("STATE"),
    left("KIND"),
    left("LANE"),
    right("AGE"),
    right("TOOK"),
    right("TRY"),
    left("WHY"),
];

/// List executions.
#[derive(Args)]
pub struct List {
    /// In this lane
    #[arg(long)]
    lane: Option<String>,
    /// In this state: waiting, delayed, `waiting_children`, active, suspended, completed,
    /// failed, cancelled, expired or skipped
    #[arg(long)]
    state: Option<String>,
    /// Of this kind
    #[arg(long)]
    kind: Option<String>,
    /// With this tag
    #[arg(long, value_parser = tag, value_name = "KEY=VALUE")]
    tag: Option<(String, String)>,
    /// At most so many, up to 1000
    #[arg(long, default_value_t = 50, value_name = "N")]
    limit: u32,
    /// From where the page before ended
    #[arg(long, value_name = "PLACE")]
    after: Option<String>,
    #[command(flatten)]
    output: Output,
}

impl List {
    /// Lists them.
    pub async fn run(self, place: &Place) -> anyhow::Result<()> {
        let client = place.client().await?;
        let page = client.list(self.search()).await?;
        let mut out = std::io::stdout().lock();
        match self.output.output {
            Some(Format::Json) => {
                drop(out);
                return output::json(&page);
            }
            Some(Format::Ids) => {
                for x in &page.executions {
                    writeln!(out, "{}", x.execution_id)?;
                }
            }
            Some(Format::Table) => table(&page, client.fabric().now().await?, &mut out)?,
            None if output::is_terminal() => {
                table(&page, client.fabric().now().await?, &mut out)?;
            }
            None => lines(&page, client.fabric().now().await?, &mut out)?,
        }
        if let Some(next) = page.next {
            eprintln!("{}", output::dim(&format!("there are more: --after {next}")));
        }
        Ok(())
    }

    fn search(&self) -> SearchParams {
        SearchParams {
            lane_id: self.lane.clone(),
            execution_kind: self.kind.clone(),
            state: self.state.clone(),
            tag: self.tag.as_ref().map(|(key, value)| format!("{key}:{value}")),
            limit: Some(self.limit),
            after: self.after.clone(),
            ..SearchParams::default()
        }
    }
}

fn table(page: &ExecutionPage, now: Millis, out: &mut impl Write) -> anyhow::Result<()> {
    if page.executions.is_empty() {
        return Ok(writeln!(out, "no executions")?);
    }
    let mut table = Table::new(COLUMNS);
    for x in &page.executions {
        table.row([
            short(x.execution_id),
            painted(x.public_state),
            clean(&x.execution_kind),
            clean(&x.lane_id),
            span::age(now.since(x.created_at)),
            took(x, now),
            x.counts.attempts.to_string(),
            why(x, now),
        ]);
    }
    Ok(table.print(out, output::width(), "")?)
}

fn lines(page: &ExecutionPage, now: Millis, out: &mut impl Write) -> anyhow::Result<()> {
    for x in &page.executions {
        let fields = [
            x.execution_id.to_string(),
            x.public_state.to_string(),
            clean(&x.execution_kind),
            clean(&x.lane_id),
            span::moment(x.created_at),
            why(x, now),
        ];
        writeln!(out, "{}", fields.join("\t"))?;
    }
    Ok(())
}

/// From the first claim to the end, or until now.
pub fn took(x: &ExecutionSnapshot, now: Millis) -> String {
    let until = x.completed_at.unwrap_or(now);
    x.started_at.map_or_else(|| "-".to_owned(), |started| span::length(until.since(started)))
}

/// Why it is where it is, if there is anything to say.
pub fn why(x: &ExecutionSnapshot, now: Millis) -> String {
    let ended = x.ended_because.as_deref().map(clean);
    let failed = || x.failure.as_ref().map(|failure| clean(&failure.reason));
    let blocked = || x.blocking_detail.as_deref().map(|detail| waits(detail, now));
    ended.or_else(failed).or_else(blocked).unwrap_or_default()
}

/// What it waits for, with the time that is left where a moment is named.
fn waits(detail: &str, now: Millis) -> String {
    let (reason, when) = detail.split_once(", ").unwrap_or((detail, ""));
    if let Ok(reason) = reason.parse() {
        let at = |before| when.strip_prefix(before).and_then(|at| at.parse().ok()).map(Millis);
        let left = at("until ").map(|until| until.since(now));
        let over = at("nobody came by ").map(|missed| now.since(missed));
        let when = match (left.map(span::length), over.map(span::length)) {
            (Some(left), _) => format!(", for another {left}"),
            (None, Some(over)) => format!(", nobody came in time, {over} ago"),
            (None, None) => String::new(),
        };
        return format!("{}{when}", wait_of(reason));
    }
    let until = detail.strip_prefix("delayed until ").and_then(|at| at.parse().ok());
    match until.map(Millis) {
        Some(until) => format!("delayed for another {}", span::length(until.since(now))),
        None => clean(detail),
    }
}
