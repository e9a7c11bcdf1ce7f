//! Creating executions.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use ff_core::{Code, ExecutionId, Rejection};
use ff_wire::{BatchAnswer, BatchRequest, CreateAnswer, CreateOutcome, NewExecution};
use uuid::Uuid;

use crate::Server;
use crate::batch::execute_all;
use crate::problem::Refused;
use crate::request::Body;
use crate::responses::{BodyRefusals, Clashes, Refusals};

/// The header that says the same as `idempotency_key`.
const IDEMPOTENCY_KEY: &str = "idempotency-key";

fn mint() -> ExecutionId {
    ExecutionId::solo(Uuid::now_v7())
}

/// Create an execution
///
/// It is claimable, or delayed, from the moment it is acknowledged. Sent again under the same
/// idempotency key or id with the same content, it answers `duplicate` with the original's id.
#[utoipa::path(
    post, path = "/v1/executions", tag = "executions", operation_id = "create_execution",
    params(("Idempotency-Key" = Option<String>, Header, min_length = 1, max_length = 256,
            description = "Twice is once.")),
    request_body = NewExecution,
    responses(
        (status = 201, description = "It exists now.", body = CreateAnswer,
         headers(("Location" = String, description = "Where it can be read."))),
        (status = 200, description = "It existed already.", body = CreateAnswer),
        Refusals, BodyRefusals, Clashes,
    ),
)]
pub async fn create(
    State(server): State<Server>,
    headers: HeaderMap,
    Body(mut new): Body<NewExecution>,
) -> Result<Response, Refused> {
    new.idempotency_key = idempotency_key(&headers, new.idempotency_key)?;
    let created = server.execute(new.into_command(mint)?).await?;
    let location = location(created.execution_id());
    let answer = CreateAnswer::from(created);
    Ok(match answer {
        CreateAnswer::Created { .. } => {
            (StatusCode::CREATED, [(header::LOCATION, location)], Json(answer)).into_response()
        }
        CreateAnswer::Duplicate { .. } => Json(answer).into_response(),
    })
}

/// Braces are not allowed in a URL as they are.
fn location(id: ExecutionId) -> HeaderValue {
    let path = format!("/v1/executions/{id}").replace('{', "%7B").replace('}', "%7D");
    HeaderValue::from_str(&path).expect("an id has only printable ASCII characters")
}

/// The key that the header or the body says; not two.
pub fn idempotency_key(
    headers: &HeaderMap,
    said: Option<String>,
) -> Result<Option<String>, Rejection> {
    let refuse = |value: &str, why: &str| {
        Err(Rejection::invalid(Code::InvalidInput, "idempotency_key", value, why))
    };
    let Some(header) = headers.get(IDEMPOTENCY_KEY) else { return Ok(said) };
    let Ok(header) = header.to_str() else {
        return refuse("", "of the header must be printable ASCII");
    };
    match said {
        Some(said) if said != header => {
            refuse(&said, &format!("differs from the header's {header:?}"))
        }
        Some(_) | None => Ok(Some(header.to_owned())),
    }
}

/// Create many executions
///
/// Each has its own answer, in the order of the request; what one is refused for concerns no other.
#[utoipa::path(
    post, path = "/v1/executions/batch", tag = "executions", operation_id = "create_executions",
    request_body = BatchRequest,
    responses(
        (status = 200, description = "What became of each.", body = BatchAnswer),
        Refusals, BodyRefusals,
    ),
)]
pub async fn create_batch(
    State(server): State<Server>,
    Body(batch): Body<BatchRequest>,
) -> Result<Json<BatchAnswer>, Refused> {
    let outcomes = execute_all(server.engine(), batch.into_commands(mint)?).await?;
    Ok(Json(BatchAnswer { results: outcomes.into_iter().map(CreateOutcome::from).collect() }))
}
