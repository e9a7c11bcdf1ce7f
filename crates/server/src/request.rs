//! Reading requests: bodies, queries and ids. What cannot be read is refused with the path to the
//! field that is wrong.

use std::error::Error as _;
use std::str::FromStr;

use axum::body::to_bytes;
use axum::extract::rejection::PathRejection;
use axum::extract::{FromRequest, FromRequestParts, Path, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use bytes::Bytes;
use ff_core::{EdgeId, ExecutionId, FlowId, Rejection};
use ff_wire::id::read_uuid;
use ff_wire::{HttpCode, Problem};
use http_body_util::LengthLimitError;
use serde::de::{DeserializeOwned, IgnoredAny};
use utoipa::openapi::Required;
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn};
use utoipa::{IntoParams, PartialSchema};
use uuid::Uuid;

use crate::Server;
use crate::problem::Refused;

/// The body of a request.
pub struct Body<T>(pub T);

/// The body of a request that may do without.
pub struct MaybeBody<T>(pub T);

/// The query of a request.
pub struct Query<T>(pub T);

/// The execution that the path names.
pub struct Id(pub ExecutionId);

/// The flow that the path names.
pub struct InFlow(pub FlowId);

/// The flow and the edge that the path names.
pub struct InFlowEdge(pub FlowId, pub EdgeId);

/// The flow and the execution that the path names.
pub struct InFlowGroup(pub FlowId, pub ExecutionId);

/// The execution and the waitpoint that the path names.
pub struct OnWaitpoint(pub ExecutionId, pub Uuid);

/// The link that the path is.
pub struct Followed(pub String);

impl<T: DeserializeOwned> FromRequest<Server> for Body<T> {
    type Rejection = Refused;

    async fn from_request(request: Request, server: &Server) -> Result<Self, Refused> {
        check_media_type(request.headers())?;
        let bytes = read(request, server.limits().body_bytes_max).await?;
        parse(&bytes).map(Self).map_err(|problem| (*problem).into())
    }
}

impl<T: DeserializeOwned + Default> FromRequest<Server> for MaybeBody<T> {
    type Rejection = Refused;

    async fn from_request(request: Request, server: &Server) -> Result<Self, Refused> {
        let media_type = check_media_type(request.headers());
        let bytes = read(request, server.limits().body_bytes_max).await?;
        if bytes.is_empty() {
            return Ok(Self(T::default()));
        }
        media_type?;
        let said = parse::<Option<T>>(&bytes).map_err(|problem| *problem)?;
        Ok(Self(said.unwrap_or_default()))
    }
}

impl<T: DeserializeOwned> FromRequestParts<Server> for Query<T> {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, _: &Server) -> Result<Self, Refused> {
        let query = parts.uri.query().unwrap_or_default();
        let pairs = serde_urlencoded::Deserializer::new(form_urlencoded::parse(query.as_bytes()));
        serde_path_to_error::deserialize(pairs).map(Self).map_err(|error| {
            let said = error.inner().to_string();
            let field = field_of(error.path(), &said);
            Problem::unreadable(field, format!("the query cannot be read: {said}")).into()
        })
    }
}

impl FromRequestParts<Server> for Id {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, server: &Server) -> Result<Self, Refused> {
        let id: String = path(parts, server, "execution_id").await?;
        Ok(Self(id.parse()?))
    }
}

impl FromRequestParts<Server> for InFlow {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, server: &Server) -> Result<Self, Refused> {
        let id: String = path(parts, server, "flow_id").await?;
        Ok(Self(id.parse()?))
    }
}

impl FromRequestParts<Server> for InFlowEdge {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, server: &Server) -> Result<Self, Refused> {
        let (flow, edge) = both(parts, server).await?;
        Ok(Self(flow, edge))
    }
}

impl FromRequestParts<Server> for InFlowGroup {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, server: &Server) -> Result<Self, Refused> {
        let (flow, execution) = both(parts, server).await?;
        Ok(Self(flow, execution))
    }
}

impl FromRequestParts<Server> for OnWaitpoint {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, server: &Server) -> Result<Self, Refused> {
        let (id, waitpoint): (String, String) = path(parts, server, "execution_id").await?;
        Ok(Self(id.parse()?, read_uuid("waitpoint_id", &waitpoint)?))
    }
}

impl FromRequestParts<Server> for Followed {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, server: &Server) -> Result<Self, Refused> {
        Ok(Self(path(parts, server, "link").await?))
    }
}

/// What stands in the path; `field` is what it is an id of.
async fn path<T: DeserializeOwned + Send>(
    parts: &mut Parts,
    server: &Server,
    field: &str,
) -> Result<T, Refused> {
    let path = Path::<T>::from_request_parts(parts, server).await;
    let unreadable = |error: PathRejection| {
        Refused::from(Problem::unreadable(Some(field.to_owned()), error.body_text()))
    };
    path.map(|Path(found)| found).map_err(unreadable)
}

/// The flow that the path names, and something in it.
async fn both<T: FromStr<Err = Rejection>>(
    parts: &mut Parts,
    server: &Server,
) -> Result<(FlowId, T), Refused> {
    let (flow, thing): (String, String) = path(parts, server, "flow_id").await?;
    Ok((flow.parse()?, thing.parse()?))
}

const EXECUTION: &str = "{fp:77}:6ba7b810-9dad-11d1-80b4-00c04fd430c8";
const UUID: &str = "6ba7b810-9dad-11d1-80b4-00c04fd430c8";

impl IntoParams for Id {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        vec![in_path("id", "The id of the execution, percent-encoded.", EXECUTION)]
    }
}

impl IntoParams for InFlow {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        vec![in_path("id", "The id of the flow.", UUID)]
    }
}

impl IntoParams for InFlowEdge {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let edge = in_path("edge_id", "The id of the edge.", UUID);
        vec![in_path("id", "The id of the flow.", UUID), edge]
    }
}

impl IntoParams for InFlowGroup {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let said = "The id of the execution that waits, percent-encoded.";
        let execution = in_path("execution_id", said, EXECUTION);
        vec![in_path("id", "The id of the flow.", UUID), execution]
    }
}

impl IntoParams for OnWaitpoint {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let execution = in_path("id", "The id of the execution, percent-encoded.", EXECUTION);
        vec![execution, in_path("waitpoint_id", "The id of the waitpoint.", UUID)]
    }
}

impl IntoParams for Followed {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        vec![in_path("link", "The link, as it was handed out.", "AQAAAAJrMQ")]
    }
}

fn in_path(name: &str, description: &str, example: &str) -> Parameter {
    ParameterBuilder::new()
        .name(name)
        .parameter_in(ParameterIn::Path)
        .required(Required::True)
        .description(Some(description))
        .schema(Some(String::schema()))
        .example(Some(example.into()))
        .build()
}

/// What the body of a request is declared as, without parameters.
pub fn media_type(headers: &HeaderMap) -> String {
    let declared = headers.get(header::CONTENT_TYPE);
    let text = declared.and_then(|value| value.to_str().ok()).unwrap_or_default();
    text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// JSON is the only language spoken; what is sent must say that it is.
pub fn check_media_type(headers: &HeaderMap) -> Result<(), Refused> {
    let declared = headers.get(header::CONTENT_TYPE);
    let text = declared.and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = media_type(headers);
    let is_json = essence == "application/json"
        || essence.starts_with("application/") && essence.ends_with("+json");
    if is_json {
        return Ok(());
    }
    let said = match declared {
        None => "the body has no content type; application/json is needed".to_owned(),
        Some(_) => format!("the body is declared as {text:?}; application/json is needed"),
    };
    Err(Refused::http(HttpCode::UnsupportedMediaType, said))
}

/// The whole body, unless it is too large.
pub async fn read(request: Request, max: usize) -> Result<Bytes, Refused> {
    let too_large = || {
        let said = format!("the body is larger than {max} bytes");
        Refused::http(HttpCode::BodyTooLarge, said)
    };
    let announced = request.headers().get(header::CONTENT_LENGTH);
    let announced = announced.and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    if announced.is_some_and(|bytes| bytes > max) {
        return Err(too_large());
    }
    to_bytes(request.into_body(), max).await.map_err(|error| {
        if error.source().is_some_and(|cause| cause.is::<LengthLimitError>()) {
            return too_large();
        }
        Problem::unreadable(None, format!("the body could not be read: {error}")).into()
    })
}

/// Reads what has fields, or says what is wrong with it and, unless it is no JSON at all, in which field.
pub fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Box<Problem>> {
    // Fields have names: a list of them in their order is none of ours.
    if bytes.trim_ascii_start().starts_with(b"[") {
        let said = "the body cannot be read: it is an array, and an object is needed";
        return Err(Box::new(Problem::unreadable(None, said.to_owned())));
    }
    parse_any(bytes)
}

/// The same of whatever is JSON.
pub fn parse_any<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Box<Problem>> {
    let refuse = |field: Option<String>, error: &serde_json::Error| {
        // A reader may call JSON that it did not expect a fault of JSON.
        let is_json = error.is_data() || serde_json::from_slice::<IgnoredAny>(bytes).is_ok();
        let what = if is_json { "cannot be read" } else { "is not JSON" };
        let field = field.filter(|_| is_json);
        Box::new(Problem::unreadable(field, format!("the body {what}: {error}")))
    };
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let field = field_of(error.path(), &error.inner().to_string());
        refuse(field, error.inner())
    })?;
    json.end().map_err(|error| refuse(None, &error))?;
    Ok(value)
}

/// The path to a field; nothing when it is the whole. One that is missing is named by the words of
/// the error alone, because nothing of it was read.
fn field_of(path: &serde_path_to_error::Path, said: &str) -> Option<String> {
    let read = path.iter().next().map(|_| path.to_string());
    let missing = said.strip_prefix("missing field `").and_then(|rest| rest.split('`').next());
    match (read, missing) {
        (Some(read), Some(missing)) => Some(format!("{read}.{missing}")),
        (read, missing) => read.or_else(|| missing.map(str::to_owned)),
    }
}
