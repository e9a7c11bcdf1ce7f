//! Suspensions: giving an execution back until something happens, and letting it go on.

use axum::Json;
use axum::extract::State;
use ff_wire::{
    ResumeAnswer, ResumeRequest, SuspendAnswer, SuspendRequest, SuspendedPage, SuspendedParams,
    SuspensionAnswer,
};
use uuid::Uuid;

use crate::Server;
use crate::problem::Refused;
use crate::request::{Body, Id, MaybeBody, Query};
use crate::responses::{
    BodyRefusals, Conflicts, Refusals, Unknown, UnknownWaitpoint, WaitConflicts,
};

/// Wait for signals, an operator or a time
///
/// The holder gives its lease back, and the execution goes on with the same attempt when it has
/// what it waits for. Signals that arrived at a pending waitpoint before count: `already_satisfied` says
/// that they were enough, and the lease still holds. Sent again with the same `suspension_id` or
/// `idempotency_key`: the same answer, tokens included.
#[utoipa::path(
    post, path = "/v1/executions/{id}/suspend", tag = "workers",
    operation_id = "suspend_execution", params(Id), request_body = SuspendRequest,
    responses(
        (status = 200, description = "Whether it waits.", body = SuspendAnswer),
        Refusals, BodyRefusals, UnknownWaitpoint, WaitConflicts,
    ),
)]
pub async fn suspend(
    State(server): State<Server>,
    Id(id): Id,
    Body(request): Body<SuspendRequest>,
) -> Result<Json<SuspendAnswer>, Refused> {
    let now = server.engine().server_time_ms().await?;
    let suspend = request.into_command(id, now, Uuid::now_v7())?;
    Ok(Json(server.execute(suspend).await?.into()))
}

/// Let a suspended execution go on, whatever it waits for
#[utoipa::path(
    post, path = "/v1/executions/{id}/resume", tag = "steering",
    operation_id = "resume_execution", params(Id), request_body = Option<ResumeRequest>,
    responses(
        (status = 200, description = "It goes on.", body = ResumeAnswer),
        Refusals, BodyRefusals, Unknown, Conflicts,
    ),
)]
pub async fn resume(
    State(server): State<Server>,
    Id(id): Id,
    MaybeBody(request): MaybeBody<ResumeRequest>,
) -> Result<Json<ResumeAnswer>, Refused> {
    let resume = request.into_command(id)?;
    Ok(Json(server.engine().resume_execution(resume).await?.into()))
}

/// What an execution waits for, or waited for last
#[utoipa::path(
    get, path = "/v1/executions/{id}/suspension", tag = "suspensions",
    operation_id = "describe_suspension", params(Id),
    responses(
        (status = 200, description = "Its last suspension.", body = SuspensionAnswer),
        Refusals, Unknown,
    ),
)]
pub async fn describe(
    State(server): State<Server>,
    Id(id): Id,
) -> Result<Json<SuspensionAnswer>, Refused> {
    let found = server.engine().describe_suspension(id).await?;
    Ok(Json(SuspensionAnswer { suspension: found.map(Into::into) }))
}

/// Find suspended executions
///
/// The longest suspended first. Everything given must match. `next` of a page is `after` of the one
/// that follows.
#[utoipa::path(
    get, path = "/v1/suspended", tag = "suspensions", operation_id = "list_suspended",
    params(SuspendedParams),
    responses((status = 200, description = "A page.", body = SuspendedPage), Refusals),
)]
pub async fn list(
    State(server): State<Server>,
    Query(params): Query<SuspendedParams>,
) -> Result<Json<SuspendedPage>, Refused> {
    let (search, page) = params.into_query()?;
    let (found, next) = server.engine().list_suspended(search, &page).await?;
    Ok(Json(SuspendedPage::new(found, next.as_ref())))
}
