//! What an operator does to one execution: `ff cancel`, `replay`, `revoke`, `hold`, `unhold`, `resume`,
//! `priority` and `tag`. Each may be said twice, but for `resume`: what goes on is not suspended.

use std::fmt::Display;
use std::io::Write;
use std::time::Duration;

use clap::Args;
use ff_core::decide::replay::Replayed;
use ff_core::decide::resume::Resume;
use ff_wire::steer::{RevokeAnswer, TagsRequest, Then};
use flowfabric::Handle;
use uuid::Uuid;

use crate::create::tag;
use crate::place::Place;
use crate::{id, span};

/// The execution that is meant.
#[derive(Args)]
struct Which {
    /// The execution: its id, or enough of the beginning or end of it
    id: String,
}

impl Which {
    async fn handle(&self, place: &Place) -> anyhow::Result<Handle> {
        let client = place.client().await?;
        let id = id::find(&client, place, &self.id).await?;
        Ok(client.execution(id))
    }
}

/// Says what was done.
pub fn say(what: impl Display) -> anyhow::Result<()> {
    Ok(writeln!(std::io::stdout(), "{what}")?)
}

/// Cancel an execution.
#[derive(Args)]
pub struct Cancel {
    #[command(flatten)]
    which: Which,
    /// Why, for whoever reads its history
    #[arg(long, default_value = "cancelled on the command line")]
    reason: String,
}

impl Cancel {
    /// Cancels it.
    pub async fn run(self, place: &Place) -> anyhow::Result<()> {
        let execution = self.which.handle(place).await?;
        execution.cancel(self.reason).await?;
        say(format_args!("cancelled {}", execution.id()))
    }
}

/// Have an execution run again.
#[derive(Args)]
pub struct Replay {
    #[command(flatten)]
    which: Which,
    /// Why, for whoever reads its history
    #[arg(long, default_value = "replayed on the command line")]
    reason: String,
    /// Leave skipped what was skipped because of it
    #[arg(long)]
    no_downstream: bool,
}

impl Replay {
    /// Has it run again.
    pub async fn run(self, place: &Place) -> anyhow::Result<()> {
        let execution = self.which.handle(place).await?;
        if self.no_downstream {
            let Replayed { repeated, .. } = execution.replay_alone(self.reason).await?;
            return say(format_args!("{} {}", replayed_in_words(repeated), execution.id()));
        }
        let answer = execution.replay(self.reason).await?;
        let Replayed { unskipped, spent, more, repeated } = answer;
        say(format_args!("{} {}", replayed_in_words(repeated), execution.id()))?;
        for id in unskipped {
            say(format_args!("waits for it again: {id}"))?;
        }
        for id in spent {
            say(format_args!("stays skipped, for no replay of it is left: {id}"))?;
        }
        if more {
            say(format_args!("more was skipped; it waits again when what it waits for has ended"))?;
        }
        Ok(())
    }
}

fn replayed_in_words(repeated: bool) -> &'static str {
    if repeated { "was replayed before:" } else { "replayed" }
}

/// Take an execution away from its worker.
#[derive(Args)]
pub struct TakeAway {
    #[command(flatten)]
    which: Which,
    /// Why, for whoever reads its history
    #[arg(long, default_value = "revoked on the command line")]
    reason: String,
}

impl TakeAway {
    /// Takes it away.
    pub async fn run(self, place: &Place) -> anyhow::Result<()> {
        let execution = self.which.handle(place).await?;
        let id = execution.id();
        match execution.revoke(self.reason).await? {
            RevokeAnswer::Revoked { then: Then::Requeued, .. } => {
                say(format_args!("revoked the lease of {id}; another worker takes over"))
            }
            RevokeAnswer::Revoked { then: Then::ReclaimsExhausted, .. } => {
                say(format_args!("revoked the lease of {id}, which failed: it was lost too often"))
            }
            RevokeAnswer::AlreadySatisfied { how } => {
                say(format_args!("nobody held {id}; its last lease ended as {how}"))
            }
        }
    }
}

/// Keep an execution from being claimed.
#[derive(Args)]
pub struct Hold {
    #[command(flatten)]
    which: Which,
    /// Why, for whoever wonders what it waits for
    #[arg(long, default_value = "held on the command line")]
    reason: String,
}

impl Hold {
    /// Holds it.
    pub async fn run(self, place: &Place) -> anyhow::Result<()> {
        let execution = self.which.handle(place).await?;
        execution.hold(self.reason).await?;
        say(format_args!("held {}", execution.id()))
    }
}

/// Let a held execution be claimed again.
#[derive(Args)]
pub struct Unhold {
    #[command(flatten)]
    which: Which,
}

impl Unhold {
    /// Lets go of it.
    pub async fn run(self, place: &Place) -> anyhow::Result<()> {
        let execution = self.which.handle(place).await?;
        execution.unhold().await?;
        say(format_args!("unheld {}", execution.id()))
    }
}

/// Let a suspended execution go on.
#[derive(Args)]
pub struct LetGoOn {
    #[command(flatten)]
    which: Which,
    /// Why, for whoever reads its history
    #[arg(long, default_value = "resumed on the command line")]
    reason: String,
    /// How long after this it goes on: 90s, 5m, 1h30m
    #[arg(long, value_parser = span::parse, value_name = "TIME", default_value = "0s")]
    delay: Duration,
}

impl LetGoOn {
    /// Lets it.
    pub async fn run(self, place: &Place) -> anyhow::Result<()> {
        let client = place.client().await?;
        let id = id::find(&client, place, &self.which.id).await?;
        let resume_delay_ms = u64::try_from(self.delay.as_millis()).unwrap_or(u64::MAX);
        let last = client.fabric().suspension(id).await?;
        // Where none is open, one that begins meanwhile is not meant either.
        let open = last.filter(|last| last.open);
        let suspension = Some(open.map_or(Uuid::nil(), |open| open.suspension_id));
        let resume = Resume { id, suspension, reason: self.reason, resume_delay_ms };
        let state = client.fabric().resume(resume).await?;
        say(format_args!("resumed {id} ({state})"))
    }
}

/// Change how urgent an execution is.
#[derive(Args)]
pub struct Priority {
    #[command(flatten)]
    which: Which,
    /// 0 to 9000, higher first
    #[arg(value_name = "N", allow_negative_numbers = true)]
    priority: i32,
}

impl Priority {
    /// Changes it.
    pub async fn run(self, place: &Place) -> anyhow::Result<()> {
        let execution = self.which.handle(place).await?;
        execution.set_priority(self.priority).await?;
        say(format_args!("priority {} for {}", self.priority, execution.id()))
    }
}

/// Set and remove tags.
#[derive(Args)]
pub struct Tag {
    #[command(flatten)]
    which: Which,
    /// Tags to set, with keys of the form owner.name
    #[arg(value_parser = tag, value_name = "KEY=VALUE", required_unless_present = "remove")]
    set: Vec<(String, String)>,
    /// A tag to remove; may be given several times
    #[arg(long, value_name = "KEY")]
    remove: Vec<String>,
}

impl Tag {
    /// Changes them, all at once.
    pub async fn run(self, place: &Place) -> anyhow::Result<()> {
        let execution = self.which.handle(place).await?;
        let edit = TagsRequest {
            set: self.set.into_iter().collect(),
            remove: self.remove.into_iter().collect(),
            version: None,
        };
        execution.set_tags(edit).await?;
        say(format_args!("tagged {}", execution.id()))
    }
}
