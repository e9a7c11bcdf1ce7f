//! Problems as answers: whatever a request is refused for leaves through here.

use std::any::Any;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use ff_core::{Rejection, StoreError};
use ff_engine::Error;
use ff_wire::problem::MEDIA_TYPE;
use ff_wire::{HttpCode, Problem};

/// Seconds after which to try again what may succeed later.
const RETRY_AFTER: HeaderValue = HeaderValue::from_static("1");

/// A request that was refused or failed.
#[derive(Debug)]
pub struct Refused(Box<Problem>);

impl Refused {
    /// The HTTP layer refuses.
    pub fn http(code: HttpCode, detail: impl Into<String>) -> Self {
        Problem::http(code, detail).into()
    }

    /// With the operation that was refused.
    pub fn during(self, operation: &str) -> Self {
        self.0.during(operation).into()
    }

    /// What is wrong.
    pub fn into_problem(self) -> Problem {
        *self.0
    }

    /// What is wrong, with its status, once the log knows.
    pub fn into_logged(self) -> (StatusCode, Problem) {
        let problem = *self.0;
        let status =
            StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        // What is overloaded is not helped by a line for every request.
        if problem.retryable {
            tracing::debug!(code = problem.code, detail = problem.detail, "a request must wait");
        } else if status.is_server_error() {
            tracing::warn!(code = problem.code, detail = problem.detail, "a request failed");
        }
        (status, problem)
    }
}

impl From<Problem> for Refused {
    fn from(problem: Problem) -> Self {
        Self(Box::new(problem))
    }
}

impl From<Rejection> for Refused {
    fn from(rejection: Rejection) -> Self {
        Problem::from(rejection).into()
    }
}

impl From<StoreError> for Refused {
    fn from(error: StoreError) -> Self {
        Problem::from(error).into()
    }
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        match error {
            Error::Rejected(rejection) => rejection.into(),
            Error::Store(error) => error.into(),
        }
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let (status, problem) = self.into_logged();
        let body = serde_json::to_vec(&problem).expect("a problem has only string keys");
        let content = (header::CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
        let mut response = (status, [content], body).into_response();
        let headers = response.headers_mut();
        if status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(header::RETRY_AFTER, RETRY_AFTER);
        }
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

/// Nothing is at this path.
pub async fn route_not_found(uri: axum::http::Uri) -> Refused {
    Refused::http(HttpCode::RouteNotFound, format!("there is nothing at {}", uri.path()))
}

/// The path takes other methods.
pub async fn method_not_allowed(method: axum::http::Method, uri: axum::http::Uri) -> Refused {
    let said = format!("{} does not take {method}", uri.path());
    Refused::http(HttpCode::MethodNotAllowed, said)
}

/// A handler panicked. What it said is for the log, not for the caller.
#[expect(clippy::needless_pass_by_value, reason = "the layer hands the panic over")]
pub fn panicked(panic: Box<dyn Any + Send>) -> Response {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let said = text.or_else(|| panic.downcast_ref::<String>().cloned());
    tracing::error!(panic = said.as_deref().unwrap_or("without words"), "a handler panicked");
    Refused::http(HttpCode::InternalError, "the request could not be served").into_response()
}
