//! Steering executions: what operators do. Every call may be sent again.

use axum::Json;
use axum::extract::State;
use ff_core::Rejection;
use ff_wire::steer::{
    CancelAnswer, CancelRequest, HoldAnswer, HoldRequest, PriorityAnswer, PriorityRequest,
    ReplayAnswer, ReplayRequest, RevokeAnswer, RevokeRequest, TagsAnswer, TagsRequest,
    UnholdAnswer, UnholdRequest,
};

use crate::Server;
use crate::problem::Refused;
use crate::request::{Body, Id, MaybeBody};
use crate::responses::{BodyRefusals, Conflicts, Refusals, Unknown};

/// Cancel an execution
///
/// As an operator in any state that is not terminal, or with a fence as the holder of the lease.
#[utoipa::path(
    post, path = "/v1/executions/{id}/cancel", tag = "steering",
    operation_id = "cancel_execution", params(Id), request_body = Option<CancelRequest>,
    responses(
        (status = 200, description = "It is cancelled.", body = CancelAnswer),
        Refusals, BodyRefusals, Unknown, Conflicts,
    ),
)]
pub async fn cancel(
    State(server): State<Server>,
    Id(id): Id,
    MaybeBody(request): MaybeBody<CancelRequest>,
) -> Result<Json<CancelAnswer>, Refused> {
    server.execute(request.into_command(id)).await?;
    Ok(Json(CancelAnswer::Cancelled))
}

/// Run a finished execution again
#[utoipa::path(
    post, path = "/v1/executions/{id}/replay", tag = "steering",
    operation_id = "replay_execution", params(Id), request_body = Option<ReplayRequest>,
    responses(
        (status = 200, description = "It will run again.", body = ReplayAnswer),
        Refusals, BodyRefusals, Unknown, Conflicts,
    ),
)]
pub async fn replay(
    State(server): State<Server>,
    Id(id): Id,
    MaybeBody(request): MaybeBody<ReplayRequest>,
) -> Result<Json<ReplayAnswer>, Refused> {
    Ok(Json(server.execute(request.into_command(id)).await?.into()))
}

/// Change how urgent a waiting execution is
#[utoipa::path(
    put, path = "/v1/executions/{id}/priority", tag = "steering",
    operation_id = "change_priority", params(Id), request_body = PriorityRequest,
    responses(
        (status = 200, description = "The priority it has.", body = PriorityAnswer),
        Refusals, BodyRefusals, Unknown, Conflicts,
    ),
)]
pub async fn priority(
    State(server): State<Server>,
    Id(id): Id,
    Body(request): Body<PriorityRequest>,
) -> Result<Json<PriorityAnswer>, Refused> {
    Ok(Json(server.execute(request.into_command(id)).await?.into()))
}

/// Keep a waiting execution from being claimed
#[utoipa::path(
    post, path = "/v1/executions/{id}/hold", tag = "steering",
    operation_id = "hold_execution", params(Id), request_body = Option<HoldRequest>,
    responses(
        (status = 200, description = "It is held.", body = HoldAnswer),
        Refusals, BodyRefusals, Unknown, Conflicts,
    ),
)]
pub async fn hold(
    State(server): State<Server>,
    Id(id): Id,
    MaybeBody(request): MaybeBody<HoldRequest>,
) -> Result<Json<HoldAnswer>, Refused> {
    server.execute(request.into_command(id)).await?;
    Ok(Json(HoldAnswer::Held))
}

/// Let a held execution be claimed again
#[utoipa::path(
    post, path = "/v1/executions/{id}/unhold", tag = "steering",
    operation_id = "unhold_execution", params(Id), request_body = Option<UnholdRequest>,
    responses(
        (status = 200, description = "It is held no longer.", body = UnholdAnswer),
        Refusals, BodyRefusals, Unknown, Conflicts,
    ),
)]
pub async fn unhold(
    State(server): State<Server>,
    Id(id): Id,
    MaybeBody(request): MaybeBody<UnholdRequest>,
) -> Result<Json<UnholdAnswer>, Refused> {
    server.execute(request.into_command(id)).await?;
    Ok(Json(UnholdAnswer::Unheld))
}

/// Set and remove tags
#[utoipa::path(
    patch, path = "/v1/executions/{id}/tags", tag = "steering",
    operation_id = "set_execution_tags", params(Id), request_body = TagsRequest,
    responses(
        (status = 200, description = "The tags it carries now.", body = TagsAnswer),
        Refusals, BodyRefusals, Unknown, Conflicts,
    ),
)]
pub async fn tags(
    State(server): State<Server>,
    Id(id): Id,
    Body(request): Body<TagsRequest>,
) -> Result<Json<TagsAnswer>, Refused> {
    server.execute(request.into_command(id)).await?;
    let found = server.engine().find_execution(id).await?;
    let x = found.ok_or_else(|| Rejection::execution_not_found(id))?;
    Ok(Json(TagsAnswer { tags: x.tags.clone() }))
}

/// Take a lease away
///
/// Another worker will take over. Counts as a reclaim, and ends the execution when none is left.
#[utoipa::path(
    post, path = "/v1/executions/{id}/revoke-lease", tag = "steering",
    operation_id = "revoke_lease", params(Id), request_body = Option<RevokeRequest>,
    responses(
        (status = 200, description = "What became of the lease.", body = RevokeAnswer),
        Refusals, BodyRefusals, Unknown, Conflicts,
    ),
)]
pub async fn revoke(
    State(server): State<Server>,
    Id(id): Id,
    MaybeBody(request): MaybeBody<RevokeRequest>,
) -> Result<Json<RevokeAnswer>, Refused> {
    Ok(Json(server.execute(request.into_command(id)?).await?.into()))
}
