//! Claims: a worker asks for work, and waits for it on an open request.
//!
//! The future that serves a claim is dropped when its client goes away; the engine then gives back
//! what it was about to hand out. What is on its way to a client that never reads it is found again
//! under the same claim id, and is handed out anew when its lease runs out.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use ff_wire::{ClaimAnswer, ClaimRequest, ClaimedExecution};
use uuid::Uuid;

use crate::Server;
use crate::problem::Refused;
use crate::request::Body;
use crate::responses::{BodyRefusals, Refusals};

/// Ask for work
///
/// Answers at once with what there is, or waits up to `wait_ms` for something. Asked again under
/// the same `claim_id`, it finds what it was given.
#[utoipa::path(
    post, path = "/v1/claims", tag = "workers", operation_id = "claim",
    request_body = ClaimRequest,
    responses(
        (status = 200, description = "The work; empty when there was none.", body = ClaimAnswer),
        Refusals, BodyRefusals,
    ),
)]
pub async fn claim(
    State(server): State<Server>,
    Body(request): Body<ClaimRequest>,
) -> Result<Json<ClaimAnswer>, Refused> {
    let engine = server.engine();
    let wait = Duration::from_millis(request.wait_ms);
    let ask = request.into_ask(Uuid::now_v7())?;
    let claim_id = ask.claim_id;
    let claim = Box::pin(engine.claim(ask, wait));
    // When the server closes, a claim ends with nothing, and gives back what it was about to get.
    let claimed = server.drain().unless_closing(claim).await.transpose();
    let claimed = claimed.map_err(|error| Refused::from(error).during("claim"))?;
    let claimed = claimed.unwrap_or_default();
    let executions = claimed.into_iter().map(ClaimedExecution::from).collect();
    // Every store tells its time without waiting, so nothing can drop the work here.
    let server_time = engine.server_time_ms().await?;
    Ok(Json(ClaimAnswer { claim_id, server_time, executions }))
}
