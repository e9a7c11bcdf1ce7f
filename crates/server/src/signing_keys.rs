//! Signing keys: which ones there are, and replacing the one that signs. Secrets come in and never
//! go out.

use axum::Json;
use axum::extract::State;
use ff_wire::{RotateAnswer, RotateRequest, SigningKeysAnswer};

use crate::Server;
use crate::problem::Refused;
use crate::request::Body;
use crate::responses::{BodyRefusals, KeyConflicts, Refusals};

/// The keys that sign tokens and links
///
/// Those that verify now, the one that signs first; never their secrets.
#[utoipa::path(
    get, path = "/v1/signing-keys", tag = "operations", operation_id = "list_signing_keys",
    responses((status = 200, description = "The keys.", body = SigningKeysAnswer), Refusals),
)]
pub async fn list(State(server): State<Server>) -> Result<Json<SigningKeysAnswer>, Refused> {
    Ok(Json(server.engine().list_signing_keys().await?.into()))
}

/// Sign with another key from now on
///
/// What the key before it signed is accepted for `grace_ms` more. Sent again, it changes nothing.
#[utoipa::path(
    post, path = "/v1/signing-keys/rotate", tag = "operations",
    operation_id = "rotate_signing_key", request_body = RotateRequest,
    responses(
        (status = 200, description = "The key signs.", body = RotateAnswer),
        Refusals, BodyRefusals, KeyConflicts,
    ),
)]
pub async fn rotate(
    State(server): State<Server>,
    Body(request): Body<RotateRequest>,
) -> Result<Json<RotateAnswer>, Refused> {
    let rotate = request.into_command();
    let kid = rotate.kid.clone();
    Ok(Json(RotateAnswer::new(kid, server.execute(rotate).await?)))
}
