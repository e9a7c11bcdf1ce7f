//! Durable consumers of the feed, as an operator sees them.

use ff_core::decide::drop_consumer::DropConsumer;
use ff_core::text::ConsumerName;
use ff_core::view::ConsumerSnapshot;
use ff_core::{Millis, Rejection};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// All of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConsumersAnswer {
    /// By name.
    pub consumers: Vec<ConsumerLine>,
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

impl From<Vec<ConsumerSnapshot>> for ConsumersAnswer {
    fn from(consumers: Vec<ConsumerSnapshot>) -> Self {
        let line = |ConsumerSnapshot { name, acknowledged_at }| ConsumerLine {
            name: name.into(),
            acknowledged_at,
        };
        Self { consumers: consumers.into_iter().map(line).collect() }
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
