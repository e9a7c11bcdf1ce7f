//! `ff flow submit`: a graph from a file, and how it ended if somebody waits for it.

use std::io::{Read, Write};

use anyhow::Context;
use clap::Args;
use ff_core::decide::create_flow::FlowCreated;
use ff_core::flow::FlowWord;
use ff_core::{Code, FlowId};
use ff_wire::flow::{CreateFlowAnswer, FlowOrder, FlowSnapshot, FlowSummary, NewFlow};
use flowfabric::{Client, FlowHandle};
use serde::Serialize;
use uuid::Uuid;

use super::counts;
use crate::failure::{Exit, Failure};
use crate::output::{self, Format, Output};
use crate::place::Place;
use crate::span;

/// About the least that a graph says, for who sent something else.
const LEAST: &str = concat!(
    r#"{"flow_kind":"order","nodes":["#,
    r#"{"name":"pay","execution_kind":"pay","lane_id":"shop"},"#,
    r#"{"name":"ship","execution_kind":"ship","lane_id":"shop"}],"#,
    r#""edges":[{"from":"pay","to":"ship"}]}"#
);

/// Create a whole graph of executions at once.
#[derive(Args)]
pub struct Submit {
    /// The graph: a file with JSON as POST /v1/flows takes it, or - for standard input
    file: String,
    /// Created once, however often it is asked for under this key
    #[arg(long)]
    key: Option<String>,
    /// Wait until it has ended, and say how
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    output: Output,
}

impl Submit {
    /// Creates it.
    pub async fn run(self, place: &Place) -> anyhow::Result<()> {
        let mut new = read(&self.file)?;
        if self.key.is_some() {
            new.idempotency_key = self.key;
        }
        let order = new.into_order(|| FlowId(Uuid::now_v7())).map_err(flowfabric::Error::from)?;
        let names = order.names();
        let FlowOrder::Submit(submit) = order else {
            let failure = Failure::new(Exit::Usage, "the graph has no nodes");
            return Err(failure.next(format!("send {LEAST}")).into());
        };
        let client = place.client().await?;
        let created = client.fabric().submit_flow(*submit).await;
        let created = created.map_err(|error| refused(error, place))?;
        if self.wait {
            return wait(&client, place, created, self.output.output).await;
        }
        match self.output.output {
            Some(Format::Json) => output::json(&CreateFlowAnswer::new(created, &names)),
            Some(Format::Table) => said(created, place),
            None if output::is_terminal() => said(created, place),
            Some(Format::Ids) | None => Ok(writeln!(std::io::stdout(), "{}", created.flow_id())?),
        }
    }
}

/// The graph that a file describes.
fn read(file: &str) -> anyhow::Result<NewFlow> {
    let text = if file == "-" {
        let mut read = String::new();
        std::io::stdin().read_to_string(&mut read).context("cannot read standard input")?;
        read
    } else {
        std::fs::read_to_string(file).map_err(|error| {
            Failure::new(Exit::Usage, format!("cannot read the graph from {file}: {error}"))
                .next("name a file that is there, or - for standard input")
        })?
    };
    ff_server::read_json(text.as_bytes()).map_err(|problem| {
        let what = if file == "-" { "standard input" } else { file };
        let said = problem.detail.replacen("the body", what, 1);
        let (said, next) = match &problem.field {
            Some(field) => (format!("{said} ({field})"), problem.hint),
            None => (said, format!("send {LEAST}")),
        };
        Failure::new(Exit::Usage, said).code(&problem.code).next(next).into()
    })
}

/// Edges that make no sense are a mistake in the file, not a clash with something that is there.
fn refused(error: flowfabric::Error, place: &Place) -> anyhow::Error {
    let absurd = [Code::CycleDetected, Code::SelfReferencingEdge, Code::DependencyAlreadyExists];
    if absurd.into_iter().any(|code| error.is(code)) {
        return Failure::of(error.into(), place).exit(Exit::Usage).into();
    }
    error.into()
}

fn what_was_done(created: FlowCreated) -> &'static str {
    match created {
        FlowCreated::Created { .. } => "submitted",
        FlowCreated::Duplicate { .. } => "existed already:",
    }
}

fn said(created: FlowCreated, place: &Place) -> anyhow::Result<()> {
    let (mut out, id) = (std::io::stdout(), created.flow_id());
    writeln!(out, "{} {id}", what_was_done(created))?;
    Ok(writeln!(out, "{}", output::dim(&place.ff(&format!("flow show {id}"))))?)
}

/// A flow that has ended, as the HTTP API says it.
#[derive(Serialize)]
struct Ended<'e> {
    flow: &'e FlowSnapshot,
    summary: &'e FlowSummary,
}

/// Waits until a flow has ended and says how; one that did not complete is a failure all the same.
async fn wait(
    client: &Client,
    place: &Place,
    created: FlowCreated,
    form: Option<Format>,
) -> anyhow::Result<()> {
    let id = created.flow_id();
    let flow: FlowHandle = client.flow_by_id(id);
    let mut out = std::io::stdout();
    match form {
        Some(Format::Json) => {}
        Some(Format::Ids) => writeln!(out, "{id}")?,
        Some(Format::Table) | None => eprintln!("{} {id}", what_was_done(created)),
    }
    let state = flow.ended().await?;
    let (ended, summary) = (flow.describe().await?, flow.summary().await?);
    match form {
        Some(Format::Json) => output::json(&Ended { flow: &ended, summary: &summary })?,
        Some(Format::Ids) => {}
        Some(Format::Table) | None => writeln!(out, "{}", told(&ended, &summary))?,
    }
    if state == FlowWord::Completed {
        return Ok(());
    }
    let why =
        ended.flow.cancel_reason.as_deref().map_or_else(String::new, |why| format!(": {why}"));
    let failure = Failure::new(Exit::Unsuccessful, format!("flow {id} is {state}{why}"));
    Err(failure.next(place.ff(&format!("flow show {id}"))).into())
}

/// How a flow ended, in a line.
fn told(ended: &FlowSnapshot, summary: &FlowSummary) -> String {
    let flow = &ended.flow;
    let took = flow.ended_at.unwrap_or(flow.last_mutation_at).since(flow.created_at);
    let state = super::painted(flow.state);
    format!("{state} after {}: {}", span::length(took), counts(summary))
}
