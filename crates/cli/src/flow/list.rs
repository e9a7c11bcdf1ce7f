//! `ff flow ls`: flows that match, newest first.

use std::io::Write;

use clap::Args;
use ff_core::Millis;
use ff_wire::flow::{FlowLine, FlowPage, FlowSearchParams};

use super::painted;
use crate::create::tag;
use crate::id::short_flow;
use crate::output::{self, Format, Output, clean};
use crate::place::Place;
use crate::span;
use crate::table::{Column, Table, left, right};

const COLUMNS: &[Column] = &[
    left("ID"),
    left("STATE"),
    left("KIND"),
    right("ENDED"),
    right("AGE"),
    right("TOOK"),
    left("WHY"),
];

/// List flows.
#[derive(Args)]
pub struct List {
    /// In this state: open, completed, failed or cancelled
    #[arg(long)]
    state: Option<String>,
    /// Of this kind
    #[arg(long)]
    kind: Option<String>,
    /// In this namespace
    #[arg(long)]
    namespace: Option<String>,
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
        let page = client.flows(self.search()).await?;
        let mut out = std::io::stdout().lock();
        match self.output.output {
            Some(Format::Json) => {
                drop(out);
                return output::json(&page);
            }
            Some(Format::Ids) => {
                for flow in &page.flows {
                    writeln!(out, "{}", flow.flow_id)?;
                }
            }
            Some(Format::Table) => table(&page, client.fabric().now().await?, &mut out)?,
            None if output::is_terminal() => {
                table(&page, client.fabric().now().await?, &mut out)?;
            }
            None => lines(&page, &mut out)?,
        }
        if let Some(next) = page.next {
            eprintln!("{}", output::dim(&format!("there are more: --after {next}")));
        }
        Ok(())
    }

    fn search(&self) -> FlowSearchParams {
        FlowSearchParams {
            namespace: self.namespace.clone(),
            flow_kind: self.kind.clone(),
            state: self.state.clone(),
            tag: self.tag.as_ref().map(|(key, value)| format!("{key}:{value}")),
            limit: Some(self.limit),
            after: self.after.clone(),
        }
    }
}

fn table(page: &FlowPage, now: Millis, out: &mut impl Write) -> anyhow::Result<()> {
    if page.flows.is_empty() {
        return Ok(writeln!(out, "no flows")?);
    }
    let mut table = Table::new(COLUMNS);
    for flow in &page.flows {
        let until = flow.ended_at.unwrap_or(now);
        table.row([
            short_flow(flow.flow_id),
            painted(flow.state),
            clean(&flow.flow_kind),
            ended(flow),
            span::age(now.since(flow.created_at)),
            span::length(until.since(flow.created_at)),
            why(flow),
        ]);
    }
    Ok(table.print(out, output::width(), "")?)
}

fn lines(page: &FlowPage, out: &mut impl Write) -> anyhow::Result<()> {
    for flow in &page.flows {
        let fields = [
            flow.flow_id.to_string(),
            flow.state.to_string(),
            clean(&flow.flow_kind),
            ended(flow),
            span::moment(flow.created_at),
            why(flow),
        ];
        writeln!(out, "{}", fields.join("\t"))?;
    }
    Ok(())
}

/// How many members have ended, of how many.
fn ended(flow: &FlowLine) -> String {
    format!("{}/{}", flow.ended.well + flow.ended.badly, flow.node_count)
}

/// Why it was cancelled, or why it cannot end.
fn why(flow: &FlowLine) -> String {
    let cancelled = flow.cancel_reason.as_deref().map(clean);
    let open = !flow.sealed && flow.ended_at.is_none();
    cancelled.unwrap_or_else(|| if open { "not sealed".to_owned() } else { String::new() })
}
