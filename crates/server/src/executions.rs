//! Reading executions: where they stand, what happened to them, what they were given and gave.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use ff_core::error::Rejection;
use ff_core::execution::{Ending, Execution};
use ff_core::fold::BlobRef;
use ff_core::{Code, ExecutionId, State as Stands};
use ff_wire::bounds::check_wait;
use ff_wire::{
    ExecutionPage, ExecutionSnapshot, History, HttpCode, InputAnswer, Problem, ResultAnswer,
    SearchParams, WaitParams,
};

use crate::Server;
use crate::problem::Refused;
use crate::request::{Id, Query};
use crate::responses::{Conflicts, Refusals, Unknown};

/// Find executions
///
/// Newest first. Everything given must match. `next` of a page is `after` of the one that follows.
#[utoipa::path(
    get, path = "/v1/executions", tag = "executions", operation_id = "search_executions",
    params(SearchParams),
    responses((status = 200, description = "A page.", body = ExecutionPage), Refusals),
)]
pub async fn search(
    State(server): State<Server>,
    Query(params): Query<SearchParams>,
) -> Result<Json<ExecutionPage>, Refused> {
    let (search, page) = params.into_query()?;
    let (found, next) = server.engine().search_executions(search, &page).await?;
    Ok(Json(ExecutionPage::new(found, next.as_ref())))
}

/// Look at an execution
///
/// With `wait_ms`, the answer comes when it has ended, or when that time is over.
#[utoipa::path(
    get, path = "/v1/executions/{id}", tag = "executions", operation_id = "describe_execution",
    params(Id, WaitParams),
    responses(
        (status = 200, description = "Where it stands.", body = ExecutionSnapshot),
        Refusals, Unknown,
    ),
)]
pub async fn describe(
    State(server): State<Server>,
    Id(id): Id,
    Query(params): Query<WaitParams>,
) -> Result<Json<ExecutionSnapshot>, Refused> {
    wait_for_end(&server, id, params).await?;
    let found = server.engine().describe_execution(id).await?;
    Ok(Json(found.ok_or_else(|| Rejection::execution_not_found(id))?.into()))
}

/// Waits until an execution has ended, as long as was asked for and the server stays.
async fn wait_for_end(server: &Server, id: ExecutionId, params: WaitParams) -> Result<(), Refused> {
    check_wait(params.wait_ms)?;
    if params.wait_ms == 0 {
        return Ok(());
    }
    let wait = Duration::from_millis(params.wait_ms);
    let ended = server.drain().unless_closing(server.engine().await_execution(id, wait)).await;
    ended.transpose()?;
    Ok(())
}

/// What happened to an execution
#[utoipa::path(
    get, path = "/v1/executions/{id}/history", tag = "executions",
    operation_id = "execution_history", params(Id),
    responses(
        (status = 200, description = "Its attempts, steps and events, oldest first.", body = History),
        Refusals, Unknown,
    ),
)]
pub async fn history(State(server): State<Server>, Id(id): Id) -> Result<Json<History>, Refused> {
    let found = server.engine().history(id).await?;
    Ok(Json(found.ok_or_else(|| Rejection::execution_not_found(id))?.into()))
}

/// What came out of an execution
///
/// With `wait_ms`, waits for it to end first.
#[utoipa::path(
    get, path = "/v1/executions/{id}/result", tag = "executions",
    operation_id = "get_execution_result", params(Id, WaitParams),
    responses(
        (status = 200, description = "It succeeded; this is what it left.", body = ResultAnswer),
        Refusals, Unknown, Conflicts,
    ),
)]
pub async fn result(
    State(server): State<Server>,
    Id(id): Id,
    Query(params): Query<WaitParams>,
) -> Result<Json<ResultAnswer>, Refused> {
    wait_for_end(&server, id, params).await?;
    let found = server.engine().find_execution(id).await?;
    let x = found.ok_or_else(|| Rejection::execution_not_found(id))?;
    let stored = match result_of(&x)? {
        Some(result) => server.engine().backend().blobs(&[result]).await?.pop(),
        None => None,
    };
    Ok(Json(stored.into()))
}

/// Where the result of an execution that succeeded is, if it left one.
fn result_of(x: &Execution) -> Result<Option<BlobRef>, Refused> {
    let refuse = |problem: Problem| {
        Err(problem.standing(x.standing()).during("get_execution_result").into())
    };
    let terminal = match &x.state {
        Stands::Terminal(terminal) => terminal,
        Stands::Runnable(_) | Stands::Active(_) | Stands::Suspended(_) => {
            let said = format!("{} is {}, not terminal", x.id, x.state.phase());
            return refuse(Rejection::new(Code::ExecutionNotTerminal, said).into());
        }
    };
    match &terminal.ending {
        Ending::Success { result, .. } => {
            let attempt = terminal.attempt.as_ref().filter(|_| *result);
            Ok(attempt.map(|attempt| BlobRef::Result(x.id, attempt.index)))
        }
        Ending::Failed(_)
        | Ending::Cancelled { .. }
        | Ending::Expired { .. }
        | Ending::Skipped { .. } => {
            let said = format!("{} has ended: {}", x.id, terminal.ending.outcome());
            refuse(Problem::http(HttpCode::ExecutionNotSuccessful, said))
        }
    }
}

/// What an execution was created with
#[utoipa::path(
    get, path = "/v1/executions/{id}/input", tag = "executions",
    operation_id = "get_execution_input", params(Id),
    responses(
        (status = 200, description = "Its input; nothing when it has none.", body = InputAnswer),
        Refusals, Unknown,
    ),
)]
pub async fn input(State(server): State<Server>, Id(id): Id) -> Result<Json<InputAnswer>, Refused> {
    let context = server.engine().read_execution_context(id).await?;
    Ok(Json(context.input.into()))
}
