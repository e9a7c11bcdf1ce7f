//! Reports: what workers say about executions that they hold, one by one or many at once.

mod many;

use axum::Json;
use axum::extract::State;
use ff_wire::report::{
    CompleteAnswer, CompleteRequest, DelayAnswer, DelayRequest, FailAnswer, FailRequest,
    ProgressRequest, RecordAnswer, ReleaseAnswer, ReleaseRequest,
};

use crate::Server;
use crate::problem::Refused;
use crate::request::{Body, Id};
use crate::responses::{BodyRefusals, Conflicts, Refusals, Unknown};

pub use many::{__path_report, report};

/// End an execution with success
///
/// Sent again with the fence that ended it: the same answer, and the first result stays.
#[utoipa::path(
    post, path = "/v1/executions/{id}/complete", tag = "workers",
    operation_id = "complete_execution", params(Id), request_body = CompleteRequest,
    responses(
        (status = 200, description = "It has ended.", body = CompleteAnswer),
        Refusals, BodyRefusals, Unknown, Conflicts,
    ),
)]
pub async fn complete(
    State(server): State<Server>,
    Id(id): Id,
    Body(request): Body<CompleteRequest>,
) -> Result<Json<CompleteAnswer>, Refused> {
    server.execute(request.into_command(id)?).await?;
    Ok(Json(CompleteAnswer::Completed))
}

/// End an attempt with a failure
///
/// Another attempt follows if the class and category of the failure allow it and a retry is left.
#[utoipa::path(
    post, path = "/v1/executions/{id}/fail", tag = "workers",
    operation_id = "fail_execution", params(Id), request_body = FailRequest,
    responses(
        (status = 200, description = "What follows.", body = FailAnswer),
        Refusals, BodyRefusals, Unknown, Conflicts,
    ),
)]
pub async fn fail(
    State(server): State<Server>,
    Id(id): Id,
    Body(request): Body<FailRequest>,
) -> Result<Json<FailAnswer>, Refused> {
    Ok(Json(server.execute(request.into_command(id)?).await?.into()))
}

/// Give an execution back for a while
///
/// It goes on with the same attempt later. Steps that come with it are recorded in the same
/// transaction.
#[utoipa::path(
    post, path = "/v1/executions/{id}/delay", tag = "workers",
    operation_id = "delay_execution", params(Id), request_body = DelayRequest,
    responses(
        (status = 200, description = "It waits.", body = DelayAnswer),
        Refusals, BodyRefusals, Unknown, Conflicts,
    ),
)]
pub async fn delay(
    State(server): State<Server>,
    Id(id): Id,
    Body(request): Body<DelayRequest>,
) -> Result<Json<DelayAnswer>, Refused> {
    let now = server.engine().server_time_ms().await?;
    Ok(Json(server.execute(request.into_command(id, now)?).await?.into()))
}

/// Undo a claim
///
/// As on shutdown; it does not count as an attempt.
#[utoipa::path(
    post, path = "/v1/executions/{id}/release", tag = "workers",
    operation_id = "release_execution", params(Id), request_body = ReleaseRequest,
    responses(
        (status = 200, description = "It waits for a worker again.", body = ReleaseAnswer),
        Refusals, BodyRefusals, Unknown, Conflicts,
    ),
)]
pub async fn release(
    State(server): State<Server>,
    Id(id): Id,
    Body(request): Body<ReleaseRequest>,
) -> Result<Json<ReleaseAnswer>, Refused> {
    server.execute(request.into_command(id)).await?;
    Ok(Json(ReleaseAnswer::Released))
}

/// Say how far the work is
#[utoipa::path(
    post, path = "/v1/executions/{id}/progress", tag = "workers",
    operation_id = "report_progress", params(Id), request_body = ProgressRequest,
    responses(
        (status = 200, description = "It is written down.", body = RecordAnswer),
        Refusals, BodyRefusals, Unknown, Conflicts,
    ),
)]
pub async fn progress(
    State(server): State<Server>,
    Id(id): Id,
    Body(request): Body<ProgressRequest>,
) -> Result<Json<RecordAnswer>, Refused> {
    server.execute(request.into_command(id)).await?;
    Ok(Json(RecordAnswer::Recorded))
}
