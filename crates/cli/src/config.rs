//! `ff config`: which settings apply, and where they come from. Secrets are only said to be there.

use std::io::Write;

use clap::Args;
use ff_core::limits::{self, Config};
use flowfabric::TOKEN;
use serde_json::{Map, json};

use crate::output::{self, Format, Output};
use crate::place::{Place, token};
use crate::span;
use crate::table::{Column, Table, left};

const COLUMNS: &[Column] = &[left("SETTING"), left("VALUE"), left("FROM")];

/// Say which settings apply.
#[derive(Args)]
pub struct ShowConfig {
    #[command(flatten)]
    output: Output,
}

/// What it is called, what it is, and who said so.
type Setting = (&'static str, String, &'static str);

impl ShowConfig {
    /// Says it.
    pub fn run(self, place: &Place) -> anyhow::Result<()> {
        let settings = settings(place);
        let mut out = std::io::stdout();
        match self.output.output {
            Some(Format::Json) => {
                let named = settings.into_iter().map(|(name, value, from)| {
                    (name.to_owned(), json!({"value": value, "from": from}))
                });
                output::json(&named.collect::<Map<_, _>>())
            }
            Some(Format::Ids) => {
                settings.iter().try_for_each(|(name, ..)| Ok(writeln!(out, "{name}")?))
            }
            Some(Format::Table) => table(settings, &mut out),
            None if output::is_terminal() => table(settings, &mut out),
            None => settings
                .iter()
                .try_for_each(|(name, value, from)| Ok(writeln!(out, "{name}\t{value}\t{from}")?)),
        }
    }
}

fn table(settings: Vec<Setting>, out: &mut impl Write) -> anyhow::Result<()> {
    let mut table = Table::new(COLUMNS);
    for (name, value, from) in settings {
        table.row([name.to_owned(), value, from.to_owned()]);
    }
    Ok(table.print(out, output::width(), "")?)
}

fn settings(place: &Place) -> Vec<Setting> {
    const DEFAULT: &str = "default";
    let (has_token, token_from) =
        if token().is_some() { ("set", TOKEN) } else { ("not set", DEFAULT) };
    let (log, log_from) = match std::env::var("FF_LOG") {
        Ok(log) => (log, "FF_LOG"),
        Err(_) => ("warn".to_owned(), DEFAULT),
    };
    let own = vec![
        ("url", place.to_string(), place.source().as_str()),
        ("token", has_token.to_owned(), token_from),
        ("log", log, log_from),
    ];
    let deployment = Config::default();
    let server = ff_server::Limits::default();
    let ms = |duration: std::time::Duration| {
        span::tick(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
    };
    let bounds = [
        ("payload", bytes(deployment.payload_bytes_max)),
        ("retention", span::length(deployment.retention_ms)),
        ("idempotency key", span::length(deployment.dedup_window_ms)),
        ("request body", bytes(server.body_bytes_max)),
        ("request timeout", ms(server.request_timeout)),
        ("drain timeout", ms(server.drain_timeout)),
        ("batch", format!("{} items", limits::BATCH_MAX)),
        ("page", format!("{} rows", limits::PAGE_MAX)),
        ("steps", limits::STEPS_MAX.to_string()),
    ];
    let bounds = bounds.into_iter().map(|(name, value)| (name, value, "built in"));
    own.into_iter().chain(bounds).collect()
}

fn bytes(count: usize) -> String {
    match count {
        0..1_024 => format!("{count} B"),
        1_024..1_048_576 => format!("{} KiB", count >> 10),
        1_048_576.. => format!("{} MiB", count >> 20),
    }
}
