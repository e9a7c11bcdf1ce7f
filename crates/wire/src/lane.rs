//! Lanes: how much is in each, and in which state.

use ff_core::Millis;
use ff_core::query::{Count, Depth};
use ff_core::state::PublicState;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::words;

/// What is claimable now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LanesAnswer {
    /// The lanes, in lexical order.
    pub lanes: Vec<Lane>,
}

impl LanesAnswer {
    /// The lanes at `now`.
    pub fn new(depths: Vec<Depth>, now: Millis) -> Self {
        Self { lanes: depths.into_iter().map(|depth| Lane::new(depth, now)).collect() }
    }
}

/// How much is claimable in a lane.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Lane {
    /// The lane.
    pub lane_id: String,
    /// How many wait for a worker now.
    pub waiting: u64,
    /// Whether there are more: counting stops at 10,000 in each queue of a lane.
    pub waiting_capped: bool,
    /// How long the one has waited that has waited longest of those that are next in line; nothing
    /// when none waits.
    pub oldest_waiting_ms: Option<u64>,
}

impl Lane {
    fn new(depth: Depth, now: Millis) -> Self {
        let Depth { lane, waiting, capped, oldest } = depth;
        Self {
            lane_id: lane.into(),
            waiting,
            waiting_capped: capped,
            oldest_waiting_ms: oldest.map(|since| now.since(since)),
        }
    }
}

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
