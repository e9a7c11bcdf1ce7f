//! `ff consumers`: who follows the feed with a place that is kept. Events stay until all of them have
//! passed, so one that will not come back is to be dropped.

use std::io::Write;

use clap::{Args, Subcommand};
use ff_core::text::ConsumerName;
use ff_wire::ConsumersAnswer;

use crate::output::{self, Format, Output, clean};
use crate::place::Place;
use crate::span;
use crate::steer::say;
use crate::table::{Column, Table, left};

const COLUMNS: &[Column] = &[left("CONSUMER"), left("LAST HEARD OF")];

/// List consumers, or forget one.
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Consumers {
    #[command(flatten)]
    output: Output,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Forget a consumer: events are no longer kept for it
    Drop(Forget),
}

/// Forget one.
#[derive(Args)]
struct Forget {
    /// What it is called
    name: String,
}

impl Consumers {
    /// Lists them, or forgets one.
    pub async fn run(self, place: &Place) -> anyhow::Result<()> {
        let client = place.client().await?;
        if let Some(Command::Drop(Forget { name })) = self.command {
            let name = ConsumerName::new(name).map_err(flowfabric::Error::from)?;
            client.fabric().drop_consumer(name.clone()).await?;
            return say(format_args!("dropped {}", clean(name.as_str())));
        }
        let found = client.fabric().consumers().await?;
        let mut out = std::io::stdout();
        match self.output.output {
            Some(Format::Json) => output::json(&found),
            Some(Format::Ids) => lines(found.consumers.iter().map(|one| [clean(&one.name)])),
            Some(Format::Table) => table(&found, &mut out),
            None if output::is_terminal() => table(&found, &mut out),
            None => lines(rows(&found)),
        }
    }
}

fn lines<const N: usize>(rows: impl Iterator<Item = [String; N]>) -> anyhow::Result<()> {
    for cells in rows {
        say(cells.join("\t"))?;
    }
    Ok(())
}

fn table(found: &ConsumersAnswer, out: &mut impl Write) -> anyhow::Result<()> {
    if found.consumers.is_empty() {
        return Ok(writeln!(out, "no consumers")?);
    }
    let mut table = Table::new(COLUMNS);
    rows(found).for_each(|cells| table.row(cells));
    Ok(table.print(out, output::width(), "")?)
}

fn rows(found: &ConsumersAnswer) -> impl Iterator<Item = [String; 2]> {
    found.consumers.iter().map(|one| [clean(&one.name), span::moment(one.acknowledged_at)])
}
