//! Renewing leases, many at once. Whoever is told `lost` stops working.

use axum::Json;
use axum::extract::State;
use ff_core::error::Class;
use ff_wire::lease::Renewal;
use ff_wire::{RenewAnswer, RenewRequest};

use crate::Server;
use crate::batch::execute_all;
use crate::problem::Refused;
use crate::request::Body;
use crate::responses::{BodyRefusals, Refusals};

/// Extend leases
///
/// Each has its own answer, in the order of the request. This is also how a worker learns that
/// what it works on was cancelled, or handed to another.
#[utoipa::path(
    post, path = "/v1/leases/renew", tag = "workers", operation_id = "renew_leases",
    request_body = RenewRequest,
    responses(
        (status = 200, description = "What became of each.", body = RenewAnswer),
        Refusals, BodyRefusals,
    ),
)]
pub async fn renew(
    State(server): State<Server>,
    Body(request): Body<RenewRequest>,
) -> Result<Json<RenewAnswer>, Refused> {
    let renewals = request.into_commands()?;
    let ids: Vec<_> = renewals.iter().map(|renew| renew.id).collect();
    let outcomes = execute_all(server.engine(), renewals.into_iter().map(Ok).collect()).await?;
    let mut results = Vec::with_capacity(outcomes.len());
    for (id, outcome) in ids.into_iter().zip(outcomes) {
        match outcome {
            // The one thing that can be malformed here is the length that all of them share.
            Err(refused) if refused.code.class() == Class::Validation => return Err(refused.into()),
            outcome => results.push(Renewal::new(id, outcome)),
        }
    }
    Ok(Json(RenewAnswer { results }))
}
