//! Durable consumers of the feed, as an operator sees them.

use ff_core::decide::drop_consumer::DropConsumer;
use ff_core::text::ConsumerName;
use ff_core::view::ConsumerSnapshot;
use ff_core::{Millis, Rejection};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::bounds::check_limit;
use crate::flow::graph::renamed;

/// Consumers in a page when nobody says.
pub const LIMIT_DEFAULT: u32 = 100;

/// Which page of the consumers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ConsumerParams {
    /// From where on: `next` of the page before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// Consumers in the page (default 100).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u32>,
}

impl ConsumerParams {
    /// The place and the limit that apply.
    pub fn into_page(self) -> Result<(Option<ConsumerName>, u32), Rejection> {
        let after = self.after.map(ConsumerName::new).transpose();
        let after = after.map_err(|refused| renamed(refused, "after"))?;
        Ok((after, check_limit(self.limit.unwrap_or(LIMIT_DEFAULT))?))
    }
}

/// A page of the consumers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConsumersAnswer {
    /// By name.
    pub consumers: Vec<ConsumerLine>,
    /// Where the next page begins, to be sent as `after`; nothing when this was the last.
    pub next: Option<String>,
}

/// One that retention waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConsumerLine {
    /// What it is called.
    pub name: String,
    /// When it was registered, or last said how far it is.
    #[schema(value_type = i64)]
    pub acknowledged_at: Millis,
}

impl ConsumersAnswer {
    /// What was found, and where it goes on.
    pub fn new(found: Vec<ConsumerSnapshot>, next: Option<ConsumerName>) -> Self {
        let line = |ConsumerSnapshot { name, acknowledged_at }| ConsumerLine {
            name: name.into(),
            acknowledged_at,
        };
        let consumers = found.into_iter().map(line).collect();
        Self { consumers, next: next.map(String::from) }
    }
}

/// Forget one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DropRequest {
    /// What it is called.
    #[schema(min_length = 1, max_length = 256, example = "audit")]
    pub name: String,
}

impl DropRequest {
    /// The command.
    pub fn into_command(self) -> Result<DropConsumer, Rejection> {
        Ok(DropConsumer { consumer: ConsumerName::new(self.name)?, saved: None })
    }
}

/// It is forgotten.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DropAnswer {
    /// What it was called.
    pub name: String,
}
