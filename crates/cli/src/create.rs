//! `ff create`: an execution from the command line, and its result if somebody waits for it.

use std::io::{Read, Write};
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use ff_core::ExecutionId;
use ff_core::state::PublicState;
use ff_wire::ResultAnswer;
use ff_wire::payload::{Json, Payload};
use flowfabric::{Client, Handle};
use serde::Serialize;
use serde_json::json;

use crate::failure::{Exit, Failure};
use crate::output::{self, Format, Output};
use crate::place::Place;
use crate::{result, span};

/// Create an execution.
#[derive(Args)]
pub struct CreateOne {
    /// What kind of work: selects the handler
    kind: String,
    /// The lane it waits in
    #[arg(long, default_value = "default")]
    lane: String,
    /// What to work on: JSON, @file, or - for standard input
    #[arg(long, value_name = "JSON")]
    input: Option<String>,
    /// Created once, however often it is asked for under this key
    #[arg(long)]
    key: Option<String>,
    /// 0 to 9000, higher first
    #[arg(long, value_name = "N")]
    priority: Option<i32>,
    /// Not run before so long has passed: 90s, 5m, 1h30m
    #[arg(long, value_parser = span::parse, value_name = "TIME")]
    delay: Option<Duration>,
    /// How often it is tried again when it fails
    #[arg(long, value_name = "N")]
    retries: Option<u32>,
    /// A tag, with a key of the form owner.name; may be given several times
    #[arg(long = "tag", value_parser = tag, value_name = "KEY=VALUE")]
    tags: Vec<(String, String)>,
    /// Wait until it has ended, and print its result
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    output: Output,
}

impl CreateOne {
    /// Creates it.
    pub async fn run(self, place: &Place) -> anyhow::Result<()> {
        let input = self
            .input
            .as_deref()
            .map(|text| read_json("the input", "--input", text))
            .transpose()?;
        let client = place.client().await?;
        let (wait, form) = (self.wait, self.output.output);
        let made = self.create(&client, input).await?;
        if !wait {
            return tell(&made, form, place);
        }
        match form {
            Some(Format::Json) => ended(&client, place, &made).await,
            Some(Format::Ids) => {
                tell(&made, form, place)?;
                result::succeeded(&client, place, made.id(), true).await
            }
            Some(Format::Table) | None => {
                eprintln!("{} {}", what_was_done(&made), made.id());
                result::print(&client, place, made.id(), true).await
            }
        }
    }

    async fn create(self, client: &Client, input: Option<Json>) -> anyhow::Result<Handle> {
        let mut creation = client.create(&self.kind, input).lane(self.lane);
        if let Some(key) = self.key {
            creation = creation.idempotency_key(key);
        }
        if let Some(priority) = self.priority {
            creation = creation.priority(priority);
        }
        if let Some(delay) = self.delay {
            creation = creation.delay(delay);
        }
        if let Some(retries) = self.retries {
            creation = creation.retries(retries);
        }
        for (key, value) in self.tags {
            creation = creation.tag(key, value);
        }
        Ok(creation.await?)
    }
}

/// What became of an execution, as the HTTP API says it.
#[derive(Serialize)]
struct Outcome {
    execution_id: ExecutionId,
    duplicate: bool,
    public_state: PublicState,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_because: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result_base64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    encoding: Option<String>,
}

/// Prints what became of an execution; one that did not succeed is a failure all the same.
async fn ended(client: &Client, place: &Place, made: &Handle) -> anyhow::Result<()> {
    let public_state = made.ended().await?;
    let data = if public_state == PublicState::Completed {
        client.fabric().result(made.id()).await?
    } else {
        None
    };
    let payload = data.map(|data| Payload { encoding: data.encoding, bytes: data.bytes });
    let ResultAnswer { result, result_base64, encoding, .. } = payload.into();
    output::json(&Outcome {
        execution_id: made.id(),
        duplicate: made.is_duplicate(),
        public_state,
        ended_because: made.describe().await?.ended_because,
        result,
        result_base64,
        encoding,
    })?;
    result::succeeded(client, place, made.id(), false).await
}

fn what_was_done(made: &Handle) -> &'static str {
    if made.is_duplicate() { "existed already:" } else { "created" }
}

fn tell(made: &Handle, form: Option<Format>, place: &Place) -> anyhow::Result<()> {
    let mut out = std::io::stdout();
    match form {
        Some(Format::Json) => {
            output::json(&json!({"execution_id": made.id(), "duplicate": made.is_duplicate()}))
        }
        Some(Format::Table) => said(made, place, &mut out),
        None if output::is_terminal() => said(made, place, &mut out),
        Some(Format::Ids) | None => Ok(writeln!(out, "{}", made.id())?),
    }
}

fn said(made: &Handle, place: &Place, out: &mut impl Write) -> anyhow::Result<()> {
    let id = made.id();
    writeln!(out, "{} {id}", what_was_done(made))?;
    Ok(writeln!(out, "{}", output::dim(&place.ff(&format!("show {id}"))))?)
}

/// Reads `key=value`.
pub fn tag(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()));
    pair.ok_or_else(|| "must be key=value, for example shop.customer=ada".to_owned())
}

/// JSON that was given with an option; digits and order stay as they are.
pub fn read_json(what: &str, option: &str, text: &str) -> anyhow::Result<Json> {
    let text = match text.strip_prefix('@') {
        Some(path) => std::fs::read_to_string(path)
            .with_context(|| format!("cannot read {what} from {path}"))?,
        None if text == "-" => {
            let mut read = String::new();
            std::io::stdin().read_to_string(&mut read).context("cannot read standard input")?;
            read
        }
        None => text.to_owned(),
    };
    let compact = |json: &Json| String::from_utf8_lossy(&Payload::json(json).bytes).into_owned();
    let read = Json::from_text(text.trim().to_owned());
    read.and_then(|json| Json::from_text(compact(&json))).map_err(|error| {
        let quoted = format!("quote text twice: {option} '\"some text\"'");
        Failure::new(Exit::Usage, format!("{what} is not JSON: {error}"))
            .next(format!("{quoted}; or name a file: {option} @order.json"))
            .into()
    })
}
