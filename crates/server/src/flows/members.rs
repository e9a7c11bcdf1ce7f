//! Members of flows: adding and listing them, what they wait for and what they are given.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use ff_core::decide::group_policy::SetGroupPolicy;
use ff_core::{FlowId, Rejection};
use ff_engine::{Eligibility, FlowInput};
use ff_wire::flow::Join;
use ff_wire::flow::member::{
    EligibilityAnswer, InputsAnswer, MemberAnswer, MemberRequest, NamedInput, PolicyAnswer,
    WaitChildrenAnswer, WaitChildrenRequest,
};
use ff_wire::{MemberPage, MemberParams};

use super::flow_not_found;
use crate::Server;
use crate::problem::Refused;
use crate::request::{Body, Id, InFlow, InFlowGroup, Query};
use crate::responses::{
    BodyRefusals, Conflicts, FlowConflicts, Refusals, Unknown, UnknownFlow, UnknownInFlow,
};

/// Add an execution to a flow
///
/// For ever; it changes nothing about whether the execution may be claimed.
#[utoipa::path(
    post, path = "/v1/flows/{id}/members", tag = "flows",
    operation_id = "add_execution_to_flow", params(InFlow), request_body = MemberRequest,
    responses(
        (status = 201, description = "It is a member now.", body = MemberAnswer),
        (status = 200, description = "It was a member already.", body = MemberAnswer),
        Refusals, BodyRefusals, UnknownInFlow, FlowConflicts,
    ),
)]
pub async fn add(
    State(server): State<Server>,
    InFlow(flow): InFlow,
    Body(request): Body<MemberRequest>,
) -> Result<Response, Refused> {
    let answer = MemberAnswer::from(server.execute(request.into_command(flow)?).await?);
    Ok(match answer {
        MemberAnswer::Added { .. } => (StatusCode::CREATED, Json(answer)).into_response(),
        MemberAnswer::AlreadyMember { .. } => Json(answer).into_response(),
    })
}

/// List the members of a flow
///
/// By id. `next` of a page is `after` of the one that follows.
#[utoipa::path(
    get, path = "/v1/flows/{id}/members", tag = "flows", operation_id = "list_members",
    params(InFlow, MemberParams),
    responses(
        (status = 200, description = "A page.", body = MemberPage),
        Refusals, UnknownFlow,
    ),
)]
pub async fn list(
    State(server): State<Server>,
    InFlow(flow): InFlow,
    Query(params): Query<MemberParams>,
) -> Result<Json<MemberPage>, Refused> {
    let (after, limit) = params.into_page()?;
    let engine = server.engine();
    let (members, next) = engine.list_members(flow, after, limit).await?;
    // Only what has members is known to exist.
    if members.is_empty() && engine.find_flow(flow).await?.is_none() {
        return Err(flow_not_found(flow).into());
    }
    Ok(Json(MemberPage::new(members, next)))
}

/// Say how many of the edges into an execution it waits for
///
/// Only before the first of them is there.
#[utoipa::path(
    put, path = "/v1/flows/{id}/groups/{execution_id}/policy", tag = "flows",
    operation_id = "set_edge_group_policy", params(InFlowGroup), request_body = Join,
    responses(
        (status = 200, description = "It holds.", body = PolicyAnswer),
        Refusals, BodyRefusals, UnknownInFlow, FlowConflicts,
    ),
)]
pub async fn policy(
    State(server): State<Server>,
    InFlowGroup(flow, downstream): InFlowGroup,
    Body(request): Body<Join>,
) -> Result<Json<PolicyAnswer>, Refused> {
    let policy = request.into_policy()?;
    Ok(Json(
        server.execute(SetGroupPolicy { flow, downstream, policy, version: None }).await?.into(),
    ))
}

/// Wait for what was added to one's own edges
///
/// A running execution gives its lease back, and goes on with the same attempt when enough of its
/// edges are satisfied, or never can be. `ready` says that there is nothing to wait for, and the
/// lease still holds.
#[utoipa::path(
    post, path = "/v1/executions/{id}/wait_children", tag = "workers",
    operation_id = "wait_children", params(Id), request_body = WaitChildrenRequest,
    responses(
        (status = 200, description = "Whether it waits.", body = WaitChildrenAnswer),
        Refusals, BodyRefusals, Unknown, Conflicts,
    ),
)]
pub async fn wait(
    State(server): State<Server>,
    Id(id): Id,
    Body(request): Body<WaitChildrenRequest>,
) -> Result<Json<WaitChildrenAnswer>, Refused> {
    let flow = match request.flow()? {
        Some(given) => Some(given),
        None => server.engine().resolve_execution_flow_id(id).await?,
    };
    // Outside any flow there is nothing to wait for, which the command finds out.
    let flow = flow.unwrap_or(FlowId::rooted_at(id));
    Ok(Json(server.execute(request.into_command(id, flow)).await?.into()))
}

/// What those that an execution waits for give it
///
/// All edges into it that have a name, with results where they are satisfied.
#[utoipa::path(
    get, path = "/v1/executions/{id}/inputs", tag = "executions",
    operation_id = "read_inputs", params(Id),
    responses(
        (status = 200, description = "Results, by the names of the edges.", body = InputsAnswer),
        Refusals, Unknown,
    ),
)]
pub async fn inputs(
    State(server): State<Server>,
    Id(id): Id,
) -> Result<Json<InputsAnswer>, Refused> {
    let read = Box::pin(server.engine().read_inputs(id)).await?;
    let named = |input: FlowInput| {
        let FlowInput { name, from, state, result } = input;
        (name.into(), NamedInput::new(from, state, result))
    };
    Ok(Json(InputsAnswer { inputs: read.into_iter().map(named).collect() }))
}

/// Whether an execution may be claimed, as far as its flow is concerned
#[utoipa::path(
    get, path = "/v1/executions/{id}/eligibility", tag = "executions",
    operation_id = "evaluate_flow_eligibility", params(Id),
    responses(
        (status = 200, description = "Whether others hold it back.", body = EligibilityAnswer),
        Refusals, Unknown,
    ),
)]
pub async fn eligibility(
    State(server): State<Server>,
    Id(id): Id,
) -> Result<Json<EligibilityAnswer>, Refused> {
    Ok(Json(match server.engine().evaluate_flow_eligibility(id).await? {
        Eligibility::NotFound => return Err(Rejection::execution_not_found(id).into()),
        Eligibility::Terminal => EligibilityAnswer::Terminal,
        Eligibility::NotRunnable => EligibilityAnswer::NotRunnable,
        Eligibility::Owned => EligibilityAnswer::Owned,
        Eligibility::Eligible => EligibilityAnswer::Eligible,
        Eligibility::Impossible => EligibilityAnswer::Impossible,
        Eligibility::BlockedByDependencies => EligibilityAnswer::BlockedByDependencies,
    }))
}
