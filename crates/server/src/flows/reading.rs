//! Reading flows: where they stand, and what their members are doing.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use ff_wire::bounds::check_wait;
use ff_wire::{FlowPage, FlowSearchParams, FlowSnapshot, FlowSummary, WaitParams};

use super::flow_not_found;
use crate::Server;
use crate::problem::Refused;
use crate::request::{InFlow, Query};
use crate::responses::{Refusals, UnknownFlow};

/// Find flows
///
/// Newest first. Everything given must match. `next` of a page is `after` of the one that follows.
#[utoipa::path(
    get, path = "/v1/flows", tag = "flows", operation_id = "search_flows",
    params(FlowSearchParams),
    responses((status = 200, description = "A page.", body = FlowPage), Refusals),
)]
pub async fn search(
    State(server): State<Server>,
    Query(params): Query<FlowSearchParams>,
) -> Result<Json<FlowPage>, Refused> {
    let (search, page) = params.into_query()?;
    let (found, next) = server.engine().search_flows(search, &page).await?;
    Ok(Json(FlowPage::new(&found, next.as_ref())))
}

/// Look at a flow
///
/// With `wait_ms`, the answer comes when it has ended, or when that time is over.
#[utoipa::path(
    get, path = "/v1/flows/{id}", tag = "flows", operation_id = "describe_flow",
    params(InFlow, WaitParams),
    responses(
        (status = 200, description = "Where it stands.", body = FlowSnapshot),
        Refusals, UnknownFlow,
    ),
)]
pub async fn describe(
    State(server): State<Server>,
    InFlow(id): InFlow,
    Query(params): Query<WaitParams>,
) -> Result<Json<FlowSnapshot>, Refused> {
    check_wait(params.wait_ms)?;
    if params.wait_ms > 0 {
        let wait = Duration::from_millis(params.wait_ms);
        let ended = server.drain().unless_closing(server.engine().await_flow(id, wait)).await;
        ended.transpose()?;
    }
    let found = server.engine().describe_flow(id).await?;
    Ok(Json(found.ok_or_else(|| flow_not_found(id))?.into()))
}

/// Count what the members of a flow are doing
#[utoipa::path(
    get, path = "/v1/flows/{id}/summary", tag = "flows", operation_id = "project_flow_summary",
    params(InFlow),
    responses(
        (status = 200, description = "How many are in each state now.", body = FlowSummary),
        Refusals, UnknownFlow,
    ),
)]
pub async fn summary(
    State(server): State<Server>,
    InFlow(id): InFlow,
) -> Result<Json<FlowSummary>, Refused> {
    let found = server.engine().project_flow_summary(id).await?;
    Ok(Json(found.ok_or_else(|| flow_not_found(id))?.into()))
}
