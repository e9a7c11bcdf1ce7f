//! What an operator does to one flow: `ff flow cancel`, `seal` and `tag`. Each may be said twice.

use std::time::Duration;

use clap::{Args, ValueEnum};
use ff_core::decide::cancel_flow::CancelFlow;
use ff_core::flow::CancellationPolicy;
use ff_wire::steer::TagsRequest;
use flowfabric::{Client, FlowHandle};

use super::left_of;
use crate::create::tag;
use crate::id;
use crate::place::Place;
use crate::steer::say;

/// How long a cancellation is waited for.
const WAIT: Duration = Duration::from_mins(1);

/// The flow that is meant.
#[derive(Args)]
struct Which {
    /// The flow: its id, or enough of the beginning or end of it
    id: String,
}

impl Which {
    async fn find(&self, place: &Place) -> anyhow::Result<(Client, FlowHandle)> {
        let client = place.client().await?;
        let id = id::find_flow(&client, place, &self.id).await?;
        let flow = client.flow_by_id(id);
        Ok((client, flow))
    }
}

/// What becomes of the members of a cancelled flow.
#[derive(Clone, Copy, ValueEnum)]
enum Policy {
    /// All that have not ended are cancelled
    #[value(name = "cancel_all")]
    All,
    /// Those without an attempt under way are cancelled
    #[value(name = "cancel_pending")]
    Pending,
    /// They go on
    #[value(name = "cancel_flow_only")]
    FlowOnly,
}

impl From<Policy> for CancellationPolicy {
    fn from(policy: Policy) -> Self {
        match policy {
            Policy::All => Self::All,
            Policy::Pending => Self::Pending,
            Policy::FlowOnly => Self::FlowOnly,
        }
    }
}

/// Cancel a flow.
#[derive(Args)]
pub struct Cancel {
    #[command(flatten)]
    which: Which,
    /// What becomes of its members
    #[arg(long, value_enum, default_value = "cancel_all")]
    policy: Policy,
    /// Why, for whoever looks at it
    #[arg(long, default_value = "cancelled on the command line")]
    reason: String,
    /// Wait, up to a minute, until its members are cancelled (default)
    #[arg(long, overrides_with = "no_wait")]
    wait: bool,
    /// Do not wait; it goes on by itself
    #[arg(long)]
    no_wait: bool,
}

impl Cancel {
    /// Cancels it.
    pub async fn run(self, place: &Place) -> anyhow::Result<()> {
        let (client, flow) = self.which.find(place).await?;
        let policy = self.policy.into();
        let cancel = CancelFlow { flow: flow.id(), policy, reason: self.reason };
        let wait = if self.no_wait { Duration::ZERO } else { WAIT };
        let done = client.fabric().cancel_flow(cancel, wait).await?;
        let left = left_of(&flow.summary().await?);
        // What was cancelled before stays as it was cancelled, unless more was asked for.
        let (id, held) = (flow.id(), done.cancellation_policy);
        let was = if done.repeated { "was cancelled before:" } else { "cancelled" };
        let kept = if held == policy {
            String::new()
        } else {
            format!("\n  {policy} was not applied: it ends no more than that")
        };
        say(format_args!("{was} {id} ({held}){}{kept}", said_of(left, held)))
    }
}

/// What there is to say of members that have not ended.
fn said_of(left: u64, policy: CancellationPolicy) -> String {
    let members = if left == 1 { "1 member".to_owned() } else { format!("{left} members") };
    match (left, policy) {
        (0, _) => String::new(),
        (_, CancellationPolicy::All) => format!("; {members} still to be cancelled"),
        (_, CancellationPolicy::Pending | CancellationPolicy::FlowOnly) => {
            format!("; {members} not ended")
        }
    }
}

/// Say that a flow is complete.
#[derive(Args)]
pub struct Seal {
    #[command(flatten)]
    which: Which,
}

impl Seal {
    /// Seals it.
    pub async fn run(self, place: &Place) -> anyhow::Result<()> {
        let (_, flow) = self.which.find(place).await?;
        let state = flow.seal().await?;
        say(format_args!("sealed {} ({state})", flow.id()))
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
        let (client, flow) = self.which.find(place).await?;
        let edit = TagsRequest {
            set: self.set.into_iter().collect(),
            remove: self.remove.into_iter().collect(),
            version: None,
        };
        client.fabric().set_flow_tags(flow.id(), edit).await?;
        say(format_args!("tagged {}", flow.id()))
    }
}
