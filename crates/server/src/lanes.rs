//! Lanes: how much is in each.

use axum::Json;
use axum::extract::State;
use ff_wire::lane::{CountsAnswer, LaneCount};

use crate::Server;
use crate::problem::Refused;
use crate::responses::Refusals;

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
