//! Durable consumers of the feed: who keeps events from being removed, and forgetting one that will
//! not come back.

use axum::Json;
use axum::extract::State;
use ff_wire::{ConsumerParams, ConsumersAnswer, DropAnswer, DropRequest};

use crate::Server;
use crate::problem::Refused;
use crate::request::{Body, Query};
use crate::responses::{BodyRefusals, Refusals, UnknownConsumer};

/// Who follows the feed with a place that is kept
///
/// Events stay until every one of them has said that it dealt with them. By name; `next` of a page is
/// `after` of the one that follows.
#[utoipa::path(
    get, path = "/v1/consumers", tag = "operations", operation_id = "list_consumers",
    params(ConsumerParams),
    responses((status = 200, description = "A page.", body = ConsumersAnswer), Refusals),
)]
pub async fn list(
    State(server): State<Server>,
    Query(params): Query<ConsumerParams>,
) -> Result<Json<ConsumersAnswer>, Refused> {
    let (after, limit) = params.into_page()?;
    let (found, next) = server.engine().list_consumers(after, limit).await?;
    Ok(Json(ConsumersAnswer::new(found, next)))
}

/// Forget a consumer
///
/// Events no longer stay for it. If it comes back, it begins with the oldest that is left.
#[utoipa::path(
    post, path = "/v1/consumers/drop", tag = "operations", operation_id = "drop_consumer",
    request_body = DropRequest,
    responses(
        (status = 200, description = "It is forgotten.", body = DropAnswer),
        Refusals, BodyRefusals, UnknownConsumer,
    ),
)]
pub async fn forget(
    State(server): State<Server>,
    Body(request): Body<DropRequest>,
) -> Result<Json<DropAnswer>, Refused> {
    let name = request.name.clone();
    server.execute(request.into_command()?).await?;
    Ok(Json(DropAnswer { name }))
}
