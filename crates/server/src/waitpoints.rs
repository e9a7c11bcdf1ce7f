//! Waitpoints: where signals to an execution arrive. Their tokens and links let others send them.

use axum::Json;
use axum::extract::State;
use ff_core::ExecutionId;
use ff_engine::LinkAsk;
use ff_wire::{
    CloseAnswer, CloseRequest, LinkAnswer, LinkRequest, NewWaitpoint, TokenAnswer, WaitpointPage,
    WaitpointParams,
};
use uuid::Uuid;

use crate::Server;
use crate::problem::Refused;
use crate::request::{Body, Id, OnWaitpoint, Query};
use crate::responses::{BodyRefusals, Refusals, Unknown, UnknownWaitpoint, WaitConflicts};

/// Make a waitpoint while the execution runs
///
/// Its token can be handed out before anybody waits: signals that arrive are kept until the
/// execution suspends on it, or it expires. Sent again with the same id and key: the same answer.
#[utoipa::path(
    post, path = "/v1/executions/{id}/waitpoints", tag = "workers",
    operation_id = "create_waitpoint", params(Id), request_body = NewWaitpoint,
    responses(
        (status = 200, description = "The waitpoint.", body = TokenAnswer),
        Refusals, BodyRefusals, Unknown, WaitConflicts,
    ),
)]
pub async fn create(
    State(server): State<Server>,
    Id(id): Id,
    Body(request): Body<NewWaitpoint>,
) -> Result<Json<TokenAnswer>, Refused> {
    let create = request.into_command(id, Uuid::now_v7())?;
    let waitpoint = create.waitpoint;
    let token = server.execute(create).await?;
    Ok(Json(TokenAnswer::new(waitpoint, token.as_ref())))
}

/// Close a waitpoint that will not be used
///
/// Sent again, or after it expired: nothing to do.
#[utoipa::path(
    post, path = "/v1/executions/{id}/waitpoints/{waitpoint_id}/close", tag = "workers",
    operation_id = "close_waitpoint", params(OnWaitpoint), request_body = CloseRequest,
    responses(
        (status = 200, description = "Nothing more arrives there.", body = CloseAnswer),
        Refusals, BodyRefusals, UnknownWaitpoint, WaitConflicts,
    ),
)]
pub async fn close(
    State(server): State<Server>,
    OnWaitpoint(id, waitpoint): OnWaitpoint,
    Body(request): Body<CloseRequest>,
) -> Result<Json<CloseAnswer>, Refused> {
    server.execute(request.into_command(id, waitpoint)).await?;
    Ok(Json(CloseAnswer::Closed))
}

/// List the waitpoints of an execution at which signals may arrive
///
/// By id. `next` of a page is `after` of the one that follows.
#[utoipa::path(
    get, path = "/v1/executions/{id}/waitpoints", tag = "suspensions",
    operation_id = "list_waitpoints_of", params(Id, WaitpointParams),
    responses(
        (status = 200, description = "A page.", body = WaitpointPage),
        Refusals, Unknown,
    ),
)]
pub async fn list(
    State(server): State<Server>,
    Id(id): Id,
    Query(params): Query<WaitpointParams>,
) -> Result<Json<WaitpointPage>, Refused> {
    page(&server, Some(id), params).await
}

/// List all waitpoints at which signals may arrive
///
/// By id. `next` of a page is `after` of the one that follows.
#[utoipa::path(
    get, path = "/v1/waitpoints", tag = "suspensions", operation_id = "list_waitpoints",
    params(WaitpointParams),
    responses((status = 200, description = "A page.", body = WaitpointPage), Refusals),
)]
pub async fn list_all(
    State(server): State<Server>,
    Query(params): Query<WaitpointParams>,
) -> Result<Json<WaitpointPage>, Refused> {
    page(&server, None, params).await
}

async fn page(
    server: &Server,
    of: Option<ExecutionId>,
    params: WaitpointParams,
) -> Result<Json<WaitpointPage>, Refused> {
    let (after, limit) = params.into_page()?;
    let (found, next) = server.engine().list_pending_waitpoints(of, after, Some(limit)).await?;
    Ok(Json(WaitpointPage::new(found, next.as_ref())))
}

/// Read the token of a waitpoint
///
/// Whoever has it may send signals there.
#[utoipa::path(
    get, path = "/v1/executions/{id}/waitpoints/{waitpoint_id}/token", tag = "suspensions",
    operation_id = "read_waitpoint_token", params(OnWaitpoint),
    responses(
        (status = 200, description = "The token.", body = TokenAnswer),
        Refusals, UnknownWaitpoint,
    ),
)]
pub async fn token(
    State(server): State<Server>,
    OnWaitpoint(id, waitpoint): OnWaitpoint,
) -> Result<Json<TokenAnswer>, Refused> {
    let token = server.engine().read_waitpoint_token(id, waitpoint).await?;
    Ok(Json(TokenAnswer::new(waitpoint, token.as_ref())))
}

/// Make a link that sends a signal
///
/// For a mail or a button. Whoever follows it cannot change what it says, and sends it once.
#[utoipa::path(
    post, path = "/v1/executions/{id}/waitpoints/{waitpoint_id}/links", tag = "suspensions",
    operation_id = "sign_link", params(OnWaitpoint), request_body = LinkRequest,
    responses(
        (status = 200, description = "The link.", body = LinkAnswer),
        Refusals, BodyRefusals, UnknownWaitpoint,
    ),
)]
pub async fn link(
    State(server): State<Server>,
    OnWaitpoint(id, waitpoint): OnWaitpoint,
    Body(request): Body<LinkRequest>,
) -> Result<Json<LinkAnswer>, Refused> {
    let (signal, source_identity, subject) = request.into_parts()?;
    let ask = LinkAsk { id, waitpoint, signal, source_identity, subject };
    Ok(Json(LinkAnswer::new(server.engine().sign_link(ask).await?)))
}
