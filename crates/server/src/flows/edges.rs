//! Edges of flows, one by one.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use ff_core::{Code, Rejection};
use ff_wire::flow::edge::{ApplyAnswer, ApplyRequest, StageAnswer, StageRequest};
use ff_wire::{EdgePage, EdgeParams, EdgeSnapshot};

use super::flow_not_found;
use crate::Server;
use crate::problem::Refused;
use crate::request::{Body, InFlow, InFlowEdge, Query};
use crate::responses::{BodyRefusals, FlowConflicts, Refusals, UnknownFlow, UnknownInFlow};

/// Write an edge down
///
/// It holds nothing back until it is applied. Sent again, the answer is `stale_graph_revision`: look
/// whether the edge is there.
#[utoipa::path(
    post, path = "/v1/flows/{id}/edges", tag = "flows",
    operation_id = "stage_dependency_edge", params(InFlow), request_body = StageRequest,
    responses(
        (status = 201, description = "It is written down.", body = StageAnswer),
        Refusals, BodyRefusals, UnknownFlow, FlowConflicts,
    ),
)]
pub async fn stage(
    State(server): State<Server>,
    InFlow(flow): InFlow,
    Body(request): Body<StageRequest>,
) -> Result<(StatusCode, Json<StageAnswer>), Refused> {
    let staged = server.execute(request.into_command(flow)?).await?;
    Ok((StatusCode::CREATED, Json(staged.into())))
}

/// Have a staged edge hold back what waits
#[utoipa::path(
    post, path = "/v1/flows/{id}/edges/apply", tag = "flows",
    operation_id = "apply_dependency_to_child", params(InFlow), request_body = ApplyRequest,
    responses(
        (status = 200, description = "It counts.", body = ApplyAnswer),
        Refusals, BodyRefusals, UnknownInFlow, FlowConflicts,
    ),
)]
pub async fn apply(
    State(server): State<Server>,
    InFlow(flow): InFlow,
    Body(request): Body<ApplyRequest>,
) -> Result<Json<ApplyAnswer>, Refused> {
    Ok(Json(server.execute(request.into_command(flow)?).await?.into()))
}

/// List the edges of a flow
///
/// By id: all of them, or those into or out of one execution. `next` of a page is `after` of the
/// one that follows.
#[utoipa::path(
    get, path = "/v1/flows/{id}/edges", tag = "flows", operation_id = "list_edges",
    params(InFlow, EdgeParams),
    responses(
        (status = 200, description = "A page.", body = EdgePage),
        Refusals, UnknownFlow,
    ),
)]
pub async fn list(
    State(server): State<Server>,
    InFlow(flow): InFlow,
    Query(params): Query<EdgeParams>,
) -> Result<Json<EdgePage>, Refused> {
    let (direction, after, limit) = params.into_query()?;
    let (edges, next) = server.engine().list_edges(flow, direction, after, limit).await?;
    Ok(Json(EdgePage::new(edges, next)))
}

/// Look at an edge
#[utoipa::path(
    get, path = "/v1/flows/{id}/edges/{edge_id}", tag = "flows", operation_id = "describe_edge",
    params(InFlowEdge),
    responses(
        (status = 200, description = "Whether it holds its downstream back.", body = EdgeSnapshot),
        Refusals, UnknownInFlow,
    ),
)]
pub async fn describe(
    State(server): State<Server>,
    InFlowEdge(flow, edge): InFlowEdge,
) -> Result<Json<EdgeSnapshot>, Refused> {
    let engine = server.engine();
    if let Some(found) = engine.describe_edge(flow, edge).await? {
        return Ok(Json(found.into()));
    }
    if engine.find_flow(flow).await?.is_none() {
        return Err(flow_not_found(flow).into());
    }
    let gone = Rejection::new(Code::EdgeNotFound, format!("flow {flow} has no edge {edge}"));
    Err(Rejection { value: Some(edge.to_string()), ..gone }.into())
}
