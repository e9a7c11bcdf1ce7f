//! Health: whether the process lives, whether it should be sent requests, and what it is.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use ff_core::StoreError;
use ff_wire::{Health, HttpCode, Info, Problem};

use crate::Server;
use crate::problem::Refused;
use crate::responses::Refusals;

/// How long the store may take to answer before the server counts as not ready.
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// Whether the process lives
#[utoipa::path(
    get, path = "/healthz", tag = "operations", operation_id = "health", security(()),
    responses((status = 200, description = "It does.", body = Health)),
)]
pub async fn lives() -> Json<Health> {
    Json(Health::Ok)
}

/// Whether to send requests here
///
/// The store answers, and the server is not about to go.
#[utoipa::path(
    get, path = "/readyz", tag = "operations", operation_id = "ready", security(()),
    responses(
        (status = 200, description = "Send them.", body = Health),
        (status = 503, description = "Send them elsewhere: the store does not answer, or the server \
         is shutting down.", body = Problem, content_type = "application/problem+json"),
    ),
)]
pub async fn ready(State(server): State<Server>) -> Result<Json<Health>, Refused> {
    if !server.drain().is_serving() {
        return Err(Refused::http(HttpCode::Draining, "the server is shutting down"));
    }
    // A read of one indexed row: the store's time alone would not touch the database.
    let answer = server.engine().list_lanes(None, 1);
    let answered = tokio::time::timeout(ANSWER_MAX, answer).await.map_err(|_| {
        let cause = format!("the store did not answer within {} s", ANSWER_MAX.as_secs());
        StoreError::Transport { cause }
    })?;
    answered?;
    Ok(Json(Health::Ok))
}

/// What serves
#[utoipa::path(
    get, path = "/v1/info", tag = "operations", operation_id = "info",
    responses((status = 200, description = "This server.", body = Info), Refusals),
)]
pub async fn info(State(server): State<Server>) -> Result<Json<Info>, Refused> {
    let server_time = server.engine().server_time_ms().await?;
    let version = env!("CARGO_PKG_VERSION").to_owned();
    Ok(Json(Info { version, backend: server.0.backend_name.to_owned(), server_time }))
}
