//! Lanes: how much is in each, and in which state.

use ff_core::query::Count;
use ff_core::state::PublicState;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::words;

/// How many executions there are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CountsAnswer {
    /// For each lane and state that has any.
    pub counts: Vec<LaneCount>,
}

/// How many executions of a lane are in a state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LaneCount {
    /// The lane.
    pub lane_id: String,
    /// The state.
    #[schema(value_type = words::PublicState)]
    pub state: PublicState,
    /// How many.
    pub count: u64,
}

impl From<Count> for LaneCount {
    fn from(count: Count) -> Self {
        let Count { lane, state, count } = count;
        Self { lane_id: lane.into(), state, count }
    }
}
