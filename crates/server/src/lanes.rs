//! Lanes: how much is in each.

use axum::Json;
use axum::extract::State;
use ff_wire::lane::{CountsAnswer, LaneCount, LanesAnswer};

use crate::Server;
use crate::problem::Refused;
use crate::responses::Refusals;

/// How much is claimable in each lane
///
/// Cheap enough to ask every second: counting stops at 10,000 in each queue of a lane.
#[utoipa::path(
    get, path = "/v1/lanes", tag = "lanes", operation_id = "lane_depths",
    responses((status = 200, description = "The lanes.", body = LanesAnswer), Refusals),
)]
pub async fn depths(State(server): State<Server>) -> Result<Json<LanesAnswer>, Refused> {
    let depths = server.engine().lane_depths().await?;
    let now = server.engine().server_time_ms().await?;
    Ok(Json(LanesAnswer::new(depths, now)))
}

/// Count executions by lane and state
///
/// Looks at every execution: for people and reports, not for every second.
#[utoipa::path(
    get, path = "/v1/counts", tag = "lanes", operation_id = "count_executions",
    responses((status = 200, description = "The counts.", body = CountsAnswer), Refusals),
)]
pub async fn counts(State(server): State<Server>) -> Result<Json<CountsAnswer>, Refused> {
    let counts = server.engine().count_executions().await?;
    Ok(Json(CountsAnswer { counts: counts.into_iter().map(LaneCount::from).collect() }))
}
