//! The document of the API, made of the handlers themselves: a route that is served is described,
//! and a route that is described is served.

use std::sync::LazyLock;

use axum::http::HeaderMap;
use axum::response::Response;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::{Modify, OpenApi};

use crate::page::Fixed;
use crate::router::routes;

/// What is true of the whole.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "FlowFabric",
        description = "Durable execution on the database you already have.\n\nEverything is JSON. \
            Times are milliseconds since the Unix epoch. Errors are problems after RFC 9457 with a \
            stable `code`; every request may be sent again.",
        license(name = "Apache-2.0 OR MIT"),
    ),
    tags(
        (name = "executions", description = "Creating executions and reading them."),
        (name = "steering", description = "What operators do to executions."),
        (name = "flows", description = "Executions that wait for each other, as one graph."),
        (name = "suspensions", description = "Executions that wait for people, callbacks or times, \
            and the signals that let them go on."),
        (name = "workers", description = "Claiming work, keeping it, and reporting about it."),
        (name = "events", description = "What happened, as it happens."),
        (name = "lanes", description = "How much there is to do."),
        (name = "operations", description = "Running the server."),
        (name = "pages", description = "For people."),
    ),
    components(schemas(ff_wire::Problem, ff_wire::FeedEvent)),
    security(("token" = [])),
    modifiers(&Token),
)]
pub struct Api;

struct Token;

impl Modify for Token {
    fn modify(&self, api: &mut utoipa::openapi::OpenApi) {
        let scheme = HttpBuilder::new().scheme(HttpAuthScheme::Bearer);
        let scheme = scheme.description(Some(
            "The token of the server (`FF_TOKEN`). A server without one only serves its own \
             machine.",
        ));
        let components = api.components.get_or_insert_default();
        components.add_security_scheme("token", SecurityScheme::Http(scheme.build()));
    }
}

/// The document, as JSON.
pub fn document() -> &'static str {
    static DOCUMENT: LazyLock<String> = LazyLock::new(|| {
        let mut text = routes().document().to_pretty_json().expect("a document is JSON");
        text.push('\n');
        text
    });
    &DOCUMENT
}

/// This document
#[utoipa::path(
    get, path = "/openapi.json", tag = "pages", operation_id = "openapi", security(()),
    responses((status = 200, description = "OpenAPI 3.1.", body = Object)),
)]
pub async fn serve(headers: HeaderMap) -> Response {
    static FIXED: LazyLock<Fixed> = LazyLock::new(|| Fixed::new("application/json", document()));
    FIXED.answer(&headers)
}
