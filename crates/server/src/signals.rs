//! Signals: sending them to waitpoints, saying what people decide, and reading what came.

use axum::Json;
use axum::extract::{Request, State};
use ff_core::query::{After, Page};
use ff_core::{Fence, Rejection};
use ff_engine::Decision;
use ff_wire::{
    DecisionRequest, Hidden, ObservedAnswer, ObservedParams, SignalAnswer, SignalLine, SignalPage,
    SignalParams, SignalRequest,
};
use serde::Deserialize;
use uuid::Uuid;

use crate::Server;
use crate::problem::Refused;
use crate::request::{Body, Id, Query, check_media_type, parse, read};
use crate::responses::{
    BodyRefusals, Refusals, Uninvited, Unknown, UnknownWaitpoint, WaitConflicts,
};

/// Bytes in a request that anybody may send: a full payload in base64, and what goes with it.
pub const BODY_BYTES_MAX: usize = 256 << 10;

/// What is looked at before the rest of a signal is read.
#[derive(Deserialize)]
struct Invitation {
    waitpoint_token: Option<Hidden>,
}

/// Send a signal to a waitpoint
///
/// With `waitpoint_token`, the token of the server is not needed: a webhook has only that. Without
/// it, an operator sends the signal. Sent again under its id or key, it is a duplicate.
#[utoipa::path(
    post, path = "/v1/executions/{id}/signals", tag = "suspensions",
    operation_id = "deliver_signal", params(Id), request_body = SignalRequest,
    security(("token" = []), ()),
    responses(
        (status = 200, description = "What became of it.", body = SignalAnswer),
        Refusals, BodyRefusals, UnknownWaitpoint, WaitConflicts, Uninvited,
    ),
)]
pub async fn deliver(
    State(server): State<Server>,
    Id(id): Id,
    request: Request,
) -> Result<Json<SignalAnswer>, Refused> {
    let admitted = server.door().check(request.headers());
    let media_type = check_media_type(request.headers());
    let max = server.limits().body_bytes_max.min(BODY_BYTES_MAX);
    let bytes = match (read(request, max).await, admitted) {
        (Ok(bytes), Ok(())) => bytes,
        (Ok(bytes), Err(refused)) => {
            let said: Result<Invitation, _> = serde_json::from_slice(&bytes);
            // Who brings nothing is not told what else is wrong.
            if !said.is_ok_and(|said| said.waitpoint_token.is_some()) {
                return Err(refused);
            }
            bytes
        }
        (Err(unread), Ok(())) => return Err(unread),
        (Err(_), Err(refused)) => return Err(refused),
    };
    media_type?;
    let request: SignalRequest = parse(&bytes).map_err(|problem| Refused::from(*problem))?;
    let signal = request.into_command(id, Uuid::now_v7())?;
    Ok(Json(Box::pin(server.execute(signal)).await?.into()))
}

/// List the signals of an execution
///
/// In the order in which they were accepted. `next` of a page is `after` of the one that follows.
#[utoipa::path(
    get, path = "/v1/executions/{id}/signals", tag = "suspensions",
    operation_id = "list_signals", params(Id, SignalParams),
    responses(
        (status = 200, description = "A page.", body = SignalPage),
        Refusals, Unknown,
    ),
)]
pub async fn list(
    State(server): State<Server>,
    Id(id): Id,
    Query(params): Query<SignalParams>,
) -> Result<Json<SignalPage>, Refused> {
    let page = Page { after: params.after.map(After::Number), limit: params.limit()? };
    let engine = server.engine();
    let (signals, next) = engine.list_signals(id, &page).await?;
    // Only what has received a signal is known to exist.
    if signals.is_empty() && engine.find_execution(id).await?.is_none() {
        return Err(Rejection::execution_not_found(id).into());
    }
    let next = match next {
        Some(After::Number(number)) => Some(number),
        // Places in other listings, which this one never returns.
        Some(
            After::Id(_) | After::Created(..) | After::Name(_) | After::Uuid(_) | After::Within(..),
        )
        | None => None,
    };
    Ok(Json(SignalPage { signals: signals.into_iter().map(SignalLine::from).collect(), next }))
}

/// The signals with which an attempt goes on
///
/// Those that satisfied the last suspension, in the order in which they were accepted: nothing when
/// another attempt waited, or when an operator let it go on.
#[utoipa::path(
    get, path = "/v1/executions/{id}/observed-signals", tag = "workers",
    operation_id = "observe_signals", params(Id, ObservedParams),
    responses(
        (status = 200, description = "The signals.", body = ObservedAnswer),
        Refusals, Unknown,
    ),
)]
pub async fn observed(
    State(server): State<Server>,
    Id(id): Id,
    Query(params): Query<ObservedParams>,
) -> Result<Json<ObservedAnswer>, Refused> {
    // Reading needs no lease: only the attempt is looked at.
    let fence = Fence { attempt_index: params.attempt_index, lease_epoch: 0 };
    let signals = server.engine().observe_signals(id, fence).await?;
    Ok(Json(ObservedAnswer { signals: signals.into_iter().map(SignalLine::from).collect() }))
}

/// Say what a person decided
///
/// An operator vouches for who it was. The same word of the same person, said again, is a
/// duplicate.
#[utoipa::path(
    post, path = "/v1/executions/{id}/decisions", tag = "suspensions",
    operation_id = "deliver_approval_signal", params(Id), request_body = DecisionRequest,
    responses(
        (status = 200, description = "What became of it.", body = SignalAnswer),
        Refusals, BodyRefusals, UnknownWaitpoint, WaitConflicts,
    ),
)]
pub async fn decide(
    State(server): State<Server>,
    Id(id): Id,
    Body(request): Body<DecisionRequest>,
) -> Result<Json<SignalAnswer>, Refused> {
    let (by, waitpoint) = request.who_and_where()?;
    let DecisionRequest { word, subject, comment, .. } = request;
    let decision = Decision { id, waitpoint, word, by, subject, comment };
    let done = Box::pin(server.engine().deliver_approval_signal(decision)).await;
    let done = done.map_err(|error| Refused::from(error).during("deliver_approval_signal"))?;
    Ok(Json(done.into()))
}
