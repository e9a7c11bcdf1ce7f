//! `ff cancel` and `ff replay`: what an operator does to one execution.

use std::io::Write;

use clap::Args;

use crate::id;
use crate::place::Place;

/// Cancel an execution.
#[derive(Args)]
pub struct Cancel {
    /// The execution: its id, or enough of the beginning or end of it
    id: String,
    /// Why, for whoever reads its history
    #[arg(long, default_value = "cancelled on the command line")]
    reason: String,
}

impl Cancel {
    /// Cancels it.
    pub async fn run(self, place: &Place) -> anyhow::Result<()> {
        let client = place.client().await?;
        let id = id::find(&client, place, &self.id).await?;
        client.execution(id).cancel(self.reason).await?;
        Ok(writeln!(std::io::stdout(), "cancelled {}", id.uuid())?)
    }
}

/// Have an execution run again.
#[derive(Args)]
pub struct Replay {
    /// The execution: its id, or enough of the beginning or end of it
    id: String,
    /// Why, for whoever reads its history
    #[arg(long, default_value = "replayed on the command line")]
    reason: String,
}

impl Replay {
    /// Has it run again.
    pub async fn run(self, place: &Place) -> anyhow::Result<()> {
        let client = place.client().await?;
        let id = id::find(&client, place, &self.id).await?;
        client.execution(id).replay(self.reason).await?;
        Ok(writeln!(std::io::stdout(), "replayed {}", id.uuid())?)
    }
}
