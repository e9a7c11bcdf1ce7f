//! Flows: building them, sealing them, cancelling them. Every call may be sent again.

pub mod edges;
pub mod members;
pub mod reading;

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use ff_core::decide::cancel_flow::FlowCancelled;
use ff_core::decide::flow_tags::SetFlowTags;
use ff_core::decide::seal_flow::SealFlow;
use ff_core::text::Namespace;
use ff_core::{Code, FlowId, Rejection};
use ff_engine::{FlowCancellation, Wait};
use ff_wire::flow::{FlowOrder, SealAnswer, SealRequest};
use ff_wire::steer::{TagsAnswer, TagsRequest};
use ff_wire::{
    CancelFlowAnswer, CancelFlowParams, CancelFlowRequest, CreateFlowAnswer, ExtendAnswer,
    ExtendRequest, HttpCode, NewFlow,
};
use uuid::Uuid;

use crate::Server;
use crate::creation::idempotency_key;
use crate::problem::Refused;
use crate::request::{Body, InFlow, MaybeBody, Query};
use crate::responses::{
    BodyRefusals, Clashes, FlowConflicts, Late, Refusals, UnknownFlow, UnknownInFlow,
};

/// There is no such flow.
fn flow_not_found(id: FlowId) -> Rejection {
    let gone = Rejection::new(Code::FlowNotFound, format!("there is no flow {id}"));
    Rejection { value: Some(id.to_string()), ..gone }
}

/// Create a flow, or submit a whole graph
///
/// With `nodes`, flow, executions, edges and joins are created in one transaction: nothing can be
/// claimed before what it waits for has ended. Sent again under the same idempotency key or id with
/// the same content, it answers `duplicate` with the original's ids.
#[utoipa::path(
    post, path = "/v1/flows", tag = "flows", operation_id = "create_flow",
    params(("Idempotency-Key" = Option<String>, Header, min_length = 1, max_length = 256,
            description = "Twice is once; needs `nodes`.")),
    request_body = NewFlow,
    responses(
        (status = 201, description = "It exists now.", body = CreateFlowAnswer,
         headers(("Location" = String, description = "Where it can be read."))),
        (status = 200, description = "It existed already.", body = CreateFlowAnswer),
        Refusals, BodyRefusals, Clashes,
    ),
)]
pub async fn create(
    State(server): State<Server>,
    headers: HeaderMap,
    Body(mut new): Body<NewFlow>,
) -> Result<Response, Refused> {
    new.idempotency_key = idempotency_key(&headers, new.idempotency_key)?;
    let order = new.into_order(|| FlowId(Uuid::now_v7()))?;
    let names = order.names();
    let created = match order {
        FlowOrder::Create(create) => server.execute(create).await?,
        FlowOrder::Submit(submit) => server.execute(*submit).await?,
    };
    let location = format!("/v1/flows/{}", created.flow_id());
    let location = HeaderValue::from_str(&location).expect("an id has only ASCII characters");
    let answer = CreateFlowAnswer::new(created, &names);
    Ok(match answer {
        CreateFlowAnswer::Created { .. } => {
            (StatusCode::CREATED, [(header::LOCATION, location)], Json(answer)).into_response()
        }
        CreateFlowAnswer::Duplicate { .. } => Json(answer).into_response(),
    })
}

/// Add nodes and edges to a flow
///
/// In one transaction. Anybody may add to a flow that is not sealed; a running member, which proves
/// that with `by`, may always add to its own. What is there already, and the same, is left as it is.
#[utoipa::path(
    post, path = "/v1/flows/{id}/extend", tag = "flows", operation_id = "extend_flow",
    params(InFlow), request_body = ExtendRequest,
    responses(
        (status = 200, description = "The flow as it is now.", body = ExtendAnswer),
        Refusals, BodyRefusals, UnknownInFlow, FlowConflicts,
    ),
)]
pub async fn extend(
    State(server): State<Server>,
    InFlow(id): InFlow,
    Body(request): Body<ExtendRequest>,
) -> Result<Json<ExtendAnswer>, Refused> {
    let namespace = namespace_of(&server, id, &request).await?;
    let extend = request.into_command(id, &namespace)?;
    let names: Vec<_> = extend.graph.nodes.iter().map(|node| node.name.clone()).collect();
    let extended = server.execute(extend).await?;
    Ok(Json(ExtendAnswer::new(&extended, &names)))
}

/// The namespace that new members get: the one given, or that of the flow, or of whoever begins
/// it. Where there is none of these, the command is refused whatever it says.
async fn namespace_of(
    server: &Server,
    id: FlowId,
    request: &ExtendRequest,
) -> Result<Namespace, Refused> {
    if let Some(given) = &request.namespace {
        return Ok(Namespace::new(given.as_str())?);
    }
    if !request.nodes.is_empty() {
        if let Some(flow) = server.engine().find_flow(id).await? {
            return Ok(flow.spec.namespace);
        }
        if let Some(by) = &request.by
            && let Some(x) = server.engine().find_execution(by.execution_id.parse()?).await?
        {
            return Ok(x.spec.namespace.clone());
        }
    }
    Ok(Namespace::new("default")?)
}

/// Say that a flow is complete
///
/// It ends when all its members have. Until then only its running members may add to it.
#[utoipa::path(
    post, path = "/v1/flows/{id}/seal", tag = "flows", operation_id = "seal_flow",
    params(InFlow), request_body = Option<SealRequest>,
    responses(
        (status = 200, description = "It is complete.", body = SealAnswer),
        Refusals, BodyRefusals, UnknownFlow, FlowConflicts,
    ),
)]
pub async fn seal(
    State(server): State<Server>,
    InFlow(flow): InFlow,
    MaybeBody(SealRequest {}): MaybeBody<SealRequest>,
) -> Result<Json<SealAnswer>, Refused> {
    let state = server.execute(SealFlow { flow }).await?;
    Ok(Json(SealAnswer { state }))
}

/// Set and remove tags of a flow
#[utoipa::path(
    patch, path = "/v1/flows/{id}/tags", tag = "flows", operation_id = "set_flow_tags",
    params(InFlow), request_body = TagsRequest,
    responses(
        (status = 200, description = "The tags it carries now.", body = TagsAnswer),
        Refusals, BodyRefusals, UnknownFlow, FlowConflicts,
    ),
)]
pub async fn tags(
    State(server): State<Server>,
    InFlow(flow): InFlow,
    Body(request): Body<TagsRequest>,
) -> Result<Json<TagsAnswer>, Refused> {
    server.execute(SetFlowTags { flow, edit: request.into_edit() }).await?;
    let found = server.engine().find_flow(flow).await?;
    let flow = found.ok_or_else(|| flow_not_found(flow))?;
    Ok(Json(TagsAnswer { tags: flow.tags }))
}

/// Cancel a flow
///
/// And, as the policy says, its members. A flow with very many members is cancelled at once, and
/// its members one part after the other: `wait` answers when that is done. Sent again, it answers
/// with the policy and the reason that are stored, and all members. Only a policy that ends more is
/// carried out.
#[utoipa::path(
    post, path = "/v1/flows/{id}/cancel", tag = "flows", operation_id = "cancel_flow",
    params(InFlow, CancelFlowParams), request_body = CancelFlowRequest,
    responses(
        (status = 200, description = "It is cancelled.", body = CancelFlowAnswer),
        Refusals, BodyRefusals, UnknownFlow, FlowConflicts, Late,
    ),
)]
pub async fn cancel(
    State(server): State<Server>,
    InFlow(flow): InFlow,
    Query(params): Query<CancelFlowParams>,
    Body(request): Body<CancelFlowRequest>,
) -> Result<Json<CancelFlowAnswer>, Refused> {
    let wait = match params.wait_ms()? {
        None => Wait::No,
        Some(ms) => Wait::For(Duration::from_millis(ms)),
    };
    let CancelFlowRequest { cancellation_policy, reason } = request;
    let engine = server.engine();
    let cancel = Box::pin(engine.cancel_flow(flow, cancellation_policy, reason, wait));
    let Some(done) = server.drain().unless_closing(cancel).await else {
        let said = "the server is shutting down before the members of the flow are cancelled";
        return Err(Refused::http(HttpCode::Draining, said).during("cancel_flow"));
    };
    let done = done.map_err(|error| Refused::from(error).during("cancel_flow"))?;
    let FlowCancellation { policy, reason, members, member_count, scheduled, repeated } = done;
    let done = FlowCancelled { policy, reason, members, scheduled, repeated };
    Ok(Json(CancelFlowAnswer::new(done, member_count)))
}
