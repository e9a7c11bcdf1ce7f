//! The router: every route, grouped by how long it may take, and what surrounds them all.

use std::time::Duration;

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use ff_wire::{HttpCode, WAIT_MS_MAX};
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::request_id::{
    MakeRequestUuid, PropagateRequestIdLayer, RequestId, SetRequestIdLayer,
};
use tower_http::trace::TraceLayer;
use utoipa::OpenApi as _;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::openapi::Api;
use crate::options::Options;
use crate::problem::{Refused, method_not_allowed, panicked, route_not_found};
use crate::{
    Server, auth, claims, consumers, creation, docs, events, executions, flows, health, lanes,
    leases, links, metrics, openapi, page, reports, signals, signing_keys, steering, steps, stream,
    suspensions, waitpoints,
};

/// All routes. A route is added here, with its description, or not at all.
pub struct Routes {
    /// Under `/v1`, answered at once.
    prompt: OpenApiRouter<Server>,
    /// Under `/v1`, may wait as long as they are asked to.
    waiting: OpenApiRouter<Server>,
    /// Under `/v1`, end when the reader goes.
    endless: OpenApiRouter<Server>,
    /// Under `/v1`, for whoever brings the token of a waitpoint or a link.
    invited: OpenApiRouter<Server>,
    /// For everyone.
    open: OpenApiRouter<Server>,
}

/// Every route there is.
pub fn routes() -> Routes {
    Routes {
        prompt: OpenApiRouter::new()
            .routes(routes!(creation::create, executions::search))
            .routes(routes!(creation::create_batch))
            .routes(routes!(executions::history))
            .routes(routes!(executions::input))
            .routes(routes!(flows::members::inputs))
            .routes(routes!(flows::members::eligibility))
            .routes(routes!(steering::cancel))
            .routes(routes!(steering::replay))
            .routes(routes!(steering::priority))
            .routes(routes!(steering::hold))
            .routes(routes!(steering::unhold))
            .routes(routes!(steering::tags))
            .routes(routes!(steering::revoke))
            .routes(routes!(leases::renew))
            .routes(routes!(reports::complete))
            .routes(routes!(reports::fail))
            .routes(routes!(reports::delay))
            .routes(routes!(reports::release))
            .routes(routes!(reports::progress))
            .routes(routes!(reports::report))
            .routes(routes!(steps::record, steps::list))
            .routes(routes!(flows::members::wait))
            .merge(of_flows())
            .merge(of_suspensions())
            .routes(routes!(lanes::depths))
            .routes(routes!(lanes::counts))
            .routes(routes!(consumers::list))
            .routes(routes!(consumers::forget))
            .routes(routes!(health::info)),
        waiting: OpenApiRouter::new()
            .routes(routes!(executions::describe))
            .routes(routes!(executions::result))
            .routes(routes!(flows::reading::describe))
            .routes(routes!(flows::cancel))
            .routes(routes!(claims::claim))
            .routes(routes!(events::read)),
        endless: OpenApiRouter::new().routes(routes!(stream::follow)),
        invited: OpenApiRouter::new()
            .routes(routes!(signals::deliver))
            .routes(routes!(links::read, links::follow)),
        open: OpenApiRouter::new()
            .routes(routes!(health::lives))
            .routes(routes!(health::ready))
            .routes(routes!(metrics::scrape))
            .routes(routes!(openapi::serve))
            .routes(routes!(docs::index))
            .routes(routes!(docs::errors))
            .routes(routes!(docs::style))
            .routes(routes!(page::index))
            .routes(routes!(page::file)),
    }
}

/// Those about flows that are answered at once.
fn of_flows() -> OpenApiRouter<Server> {
    OpenApiRouter::new()
        .routes(routes!(flows::create, flows::reading::search))
        .routes(routes!(flows::extend))
        .routes(routes!(flows::seal))
        .routes(routes!(flows::tags))
        .routes(routes!(flows::reading::summary))
        .routes(routes!(flows::members::add, flows::members::list))
        .routes(routes!(flows::members::policy))
        .routes(routes!(flows::edges::stage, flows::edges::list))
        .routes(routes!(flows::edges::apply))
        .routes(routes!(flows::edges::describe))
}

/// Those about suspensions and what lets them end that need the token of the server.
fn of_suspensions() -> OpenApiRouter<Server> {
    OpenApiRouter::new()
        .routes(routes!(suspensions::suspend))
        .routes(routes!(suspensions::resume))
        .routes(routes!(suspensions::describe))
        .routes(routes!(suspensions::list))
        .routes(routes!(waitpoints::create, waitpoints::list))
        .routes(routes!(waitpoints::list_all))
        .routes(routes!(waitpoints::close))
        .routes(routes!(waitpoints::token))
        .routes(routes!(waitpoints::link))
        .routes(routes!(signals::list))
        .routes(routes!(signals::observed))
        .routes(routes!(signals::decide))
        .routes(routes!(signing_keys::list))
        .routes(routes!(signing_keys::rotate))
}

impl Routes {
    /// The description of all of them.
    pub fn document(self) -> utoipa::openapi::OpenApi {
        let Self { prompt, waiting, endless, invited, open } = self;
        let all = OpenApiRouter::with_openapi(Api::openapi());
        let all = all.merge(prompt).merge(waiting).merge(endless).merge(invited);
        all.merge(open).into_openapi()
    }
}

/// The routes of a server, without a listener: for those who have one of their own.
///
/// Such a server never closes; [`serve`](crate::serve) does that, checks the address, and gives the
/// store its first signing key.
pub fn router(options: Options) -> axum::Router {
    assemble(&Server::new(options))
}

/// The routes of a server.
pub fn assemble(server: &Server) -> axum::Router {
    let Routes { prompt, waiting, endless, invited, open } = routes();
    let plain = |routes: OpenApiRouter<Server>| routes.split_for_parts().0;
    let promptly = server.limits().request_timeout;
    let patiently = promptly + Duration::from_millis(WAIT_MS_MAX);
    let guarded = plain(prompt)
        .route_layer(from_fn_with_state(promptly, within))
        .merge(plain(waiting).route_layer(from_fn_with_state(patiently, within)))
        .merge(plain(endless))
        .route_layer(from_fn_with_state(server.clone(), auth::guard));
    let invited = plain(invited).route_layer(from_fn_with_state(promptly, within));
    let open = plain(open).route_layer(from_fn_with_state(promptly, within));
    guarded
        .merge(invited)
        .route_layer(from_fn(auth::uncached))
        .merge(open)
        .fallback(route_not_found)
        .method_not_allowed_fallback(method_not_allowed)
        .layer(CatchPanicLayer::custom(panicked))
        .layer(from_fn_with_state(server.clone(), metrics::count))
        // Failures are logged where they become problems, with what is wrong.
        .layer(TraceLayer::new_for_http().make_span_with(span).on_failure(()))
        .layer(PropagateRequestIdLayer::x_request_id())
        .layer(SetRequestIdLayer::x_request_id(MakeRequestUuid))
        .with_state(server.clone())
}

/// Answers what takes too long; its future is dropped.
async fn within(State(limit): State<Duration>, request: Request, next: Next) -> Response {
    let served = tokio::time::timeout(limit, next.run(request)).await;
    served.unwrap_or_else(|_| {
        let said = format!("the request took longer than {} ms", limit.as_millis());
        Refused::http(HttpCode::RequestTimeout, said).into_response()
    })
}

fn span(request: &Request) -> tracing::Span {
    let route = request.extensions().get::<MatchedPath>().map_or("unknown", MatchedPath::as_str);
    let id = request.extensions().get::<RequestId>().and_then(|id| id.header_value().to_str().ok());
    tracing::info_span!("request", method = %request.method(), route, id)
}
