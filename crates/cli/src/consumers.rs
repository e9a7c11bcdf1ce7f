//! `ff consumers`: who follows the feed with a place that is kept. Events stay until all of them have
//! passed, so one that will not come back is to be dropped.

use clap::{Args, Subcommand};
use ff_core::text::ConsumerName;
use ff_wire::{ConsumerLine, ConsumerParams};

use crate::output::{Output, clean};
use crate::place::Place;
use crate::span;
use crate::steer::say;
use crate::table::{self, Column, left};

const COLUMNS: &[Column; 2] = &[left("CONSUMER"), left("LAST HEARD OF")];

/// Consumers that are read at a time.
const PAGE: u32 = 1_000;

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
        let mut found = client.fabric().consumers(ConsumerParams::default()).await?;
        while let Some(after) = found.next.take() {
            let page = ConsumerParams { after: Some(after), limit: Some(PAGE) };
            let more = client.fabric().consumers(page).await?;
            found.consumers.extend(more.consumers);
            found.next = more.next;
        }
        let row = |one: &ConsumerLine| [clean(&one.name), span::moment(one.acknowledged_at)];
        let rows = found.consumers.iter().map(row);
        table::list(self.output, &found, (COLUMNS, "no consumers"), rows)
    }
}
