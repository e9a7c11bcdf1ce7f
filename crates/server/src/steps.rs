//! Steps: the journal of an execution, written by its holder and read by whoever goes on.

use axum::Json;
use axum::extract::State;
use ff_core::Rejection;
use ff_wire::report::RecordAnswer;
use ff_wire::{StepLine, StepPage, StepParams, StepsRequest};

use crate::Server;
use crate::problem::Refused;
use crate::request::{Body, Id, Query};
use crate::responses::{BodyRefusals, Conflicts, Refusals, Unknown};

/// Add to the journal of an execution
///
/// Sent again with the same content, it is recorded once. A number that was recorded with another
/// name or result is refused.
#[utoipa::path(
    post, path = "/v1/executions/{id}/steps", tag = "workers",
    operation_id = "record_steps", params(Id), request_body = StepsRequest,
    responses(
        (status = 200, description = "They are written down.", body = RecordAnswer),
        Refusals, BodyRefusals, Unknown, Conflicts,
    ),
)]
pub async fn record(
    State(server): State<Server>,
    Id(id): Id,
    Body(request): Body<StepsRequest>,
) -> Result<Json<RecordAnswer>, Refused> {
    server.execute(request.into_command(id)?).await?;
    Ok(Json(RecordAnswer::Recorded))
}

/// Read the journal of an execution
///
/// By ascending number. `next` of a page is `after` of the one that follows.
#[utoipa::path(
    get, path = "/v1/executions/{id}/steps", tag = "executions",
    operation_id = "list_steps", params(Id, StepParams),
    responses(
        (status = 200, description = "A page.", body = StepPage),
        Refusals, Unknown,
    ),
)]
pub async fn list(
    State(server): State<Server>,
    Id(id): Id,
    Query(params): Query<StepParams>,
) -> Result<Json<StepPage>, Refused> {
    let engine = server.engine();
    let (steps, next) = engine.list_steps(id, params.after, params.limit()?).await?;
    // Only what has a journal is known to exist.
    if steps.is_empty() && engine.find_execution(id).await?.is_none() {
        return Err(Rejection::execution_not_found(id).into());
    }
    let steps = steps.into_iter().map(StepLine::from).collect();
    Ok(Json(StepPage { steps, next }))
}
