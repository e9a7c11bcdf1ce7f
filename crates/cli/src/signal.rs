//! `ff signal`: tells an execution what it waits for, or may wait for.

use std::io::Write;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use ff_core::ExecutionId;
use ff_core::condition::PERSON;
use ff_core::decide::deliver::{Authority, DeliverSignal, Delivered};
use ff_core::text::{IdempotencyKey, SignalName};
use ff_wire::payload::{Json, Payload};
use ff_wire::signal::SignalAnswer;
use flowfabric::{Client, Error};
use uuid::Uuid;

use crate::create::read_json;
use crate::decide::verb;
use crate::failure::{Exit, Failure};
use crate::output::{self, Format, Output, clean};
use crate::place::Place;
use crate::told::led_to;
use crate::waitpoints::Open;
use crate::{id, span};

/// Send a signal to an execution.
#[derive(Args)]
pub struct Send {
    /// The execution: its id, or enough of the beginning or end of it
    #[arg(value_name = "EXECUTION")]
    id: String,
    /// What the signal says
    name: String,
    /// The waitpoint where it arrives: its key or id [default: the only one]
    #[arg(long, value_name = "KEY")]
    at: Option<String>,
    /// What it carries: JSON, @file, or - for standard input
    #[arg(long, value_name = "JSON")]
    payload: Option<String>,
    /// Who sends it [default: nobody in particular]
    #[arg(long = "as", value_name = "WHO")]
    who: Option<String>,
    /// Sent once, however often it is sent under this key
    #[arg(long)]
    key: Option<String>,
    /// The token of the waitpoint, or @file: for those who are no operators. --at is an id then
    #[arg(long)]
    token: Option<String>,
    /// How long after this it goes on, if this is what was missing: 90s, 5m
    #[arg(long, value_parser = span::parse, value_name = "TIME")]
    delay: Option<Duration>,
    #[command(flatten)]
    output: Output,
}

impl Send {
    /// Sends it.
    pub async fn run(self, place: &Place) -> anyhow::Result<()> {
        let read = |text| read_json("the payload", "--payload", text);
        let payload = self.payload.as_deref().map(read).transpose()?;
        let client = place.client().await?;
        let id = id::find(&client, place, &self.id).await?;
        let waitpoint = self.waitpoint(&client, place, id).await?;
        let form = self.output.output;
        let authority = self.authority()?;
        let signal =
            self.signal((id, waitpoint), authority, payload.as_ref()).map_err(Error::from)?;
        let name = signal.name.clone();
        let delivered = client.fabric().signal(signal).await?;
        told(delivered, form, |effect| format!("sent {name} to {id}: {effect}"))
    }

    /// Where it goes. Whoever has a token may not be allowed to look.
    async fn waitpoint(
        &self,
        client: &Client,
        place: &Place,
        id: ExecutionId,
    ) -> anyhow::Result<Uuid> {
        let at = self.at.as_deref();
        if let Some(Ok(waitpoint)) = at.map(Uuid::try_parse) {
            return Ok(waitpoint);
        }
        let one = Open::of(client, place, id).await?.only(at, false)?;
        let shown = one.approval.as_ref().is_some_and(|asked| asked.subject_digest.is_some());
        if let Some(word) = self.name.parse().ok().filter(|_| shown && self.token.is_none()) {
            let said = format!("whoever decides on {id} is shown what it is about first");
            let who = self.who.as_deref().map_or_else(|| "NAME".to_owned(), clean);
            let next = place.ff(&format!("{} {id} --as {who}", verb(word)));
            return Err(Failure::new(Exit::Refused, said).next(next).into());
        }
        Ok(one.waitpoint_id)
    }

    /// What lets us send it. Arguments are there for everybody to see, so a token may be in a file.
    fn authority(&self) -> anyhow::Result<Authority> {
        let Some(token) = &self.token else { return Ok(Authority::Operator) };
        let Some(path) = token.strip_prefix('@') else {
            return Ok(Authority::Token(token.clone()));
        };
        let held = std::fs::read_to_string(path);
        let held = held.with_context(|| format!("cannot read the token from {path}"))?;
        Ok(Authority::Token(held.trim().to_owned()))
    }

    fn signal(
        self,
        (id, waitpoint): (ExecutionId, Uuid),
        authority: Authority,
        payload: Option<&Json>,
    ) -> Result<DeliverSignal, ff_core::Rejection> {
        let payload = payload.map(Payload::json);
        let (payload, encoding) =
            payload.map_or((None, None), |payload| (Some(payload.bytes), payload.encoding));
        // A token does not say who has it.
        let named = self.who.is_some() && self.token.is_none();
        let ms = |delay: Duration| u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
        Ok(DeliverSignal {
            id,
            waitpoint,
            signal: Uuid::now_v7(),
            authority,
            name: SignalName::new(self.name)?,
            category: "command".to_owned(),
            source_type: if named { PERSON } else { "" }.to_owned(),
            source_identity: self.who.unwrap_or_default(),
            subject: None,
            correlation_id: None,
            idempotency_key: self.key.map(IdempotencyKey::new).transpose()?,
            dedup_ttl_ms: None,
            created_at: None,
            encoding,
            payload,
            resume_delay_ms: self.delay.map(ms),
        })
    }
}

/// Tells what became of a signal; `said` puts its effect into a sentence.
pub fn told(
    delivered: Delivered,
    form: Option<Format>,
    said: impl Fn(&str) -> String,
) -> anyhow::Result<()> {
    let mut out = std::io::stdout();
    match (form, delivered) {
        (Some(Format::Json), _) => output::json(&SignalAnswer::from(delivered)),
        (
            Some(Format::Ids),
            Delivered::Accepted { signal_id, .. }
            | Delivered::Duplicate { existing_signal_id: signal_id },
        ) => Ok(writeln!(out, "{signal_id}")?),
        (Some(Format::Table) | None, Delivered::Accepted { effect, .. }) => {
            Ok(writeln!(out, "{}", said(led_to(effect)))?)
        }
        (Some(Format::Table) | None, Delivered::Duplicate { .. }) => {
            Ok(writeln!(out, "{}", said("it was sent before, and the first one stands"))?)
        }
    }
}
