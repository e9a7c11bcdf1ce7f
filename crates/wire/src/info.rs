//! What a server says about itself.

use ff_core::Millis;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Info {
    /// Its version.
    #[schema(example = "0.1.0")]
    pub version: String,
    /// Where executions live.
    #[schema(example = "postgres")]
    pub backend: String,
    /// The store's time.
    #[schema(value_type = i64)]
    pub server_time: Millis,
}

/// How a server is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum Health {
    /// Well.
    Ok,
}
