//! Metrics: what this process served, and how much waits in each lane.
//!
//! Routes are counted by their template, so that the number of series has a bound. What waits is
//! read when somebody scrapes, and kept for a second: scraping often costs the store nothing.
//! Executions are not counted by state here, because that looks at all of them.

use axum::extract::{MatchedPath, Request, State};
use axum::http::{Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use tokio::time::Instant;

use crate::Server;
use crate::problem::Refused;

/// Upper bounds of the histogram, in seconds: from a read in memory to the longest wait.
const SECONDS: [f64; 14] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 30.0, 60.0];
/// The text format that scrapers ask for.
const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Everything that is counted.
pub struct Metrics {
    registry: Registry,
    requests: Family<Answered, Counter>,
    seconds: Family<Routed, Histogram>,
    in_flight: Gauge,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answered {
    method: &'static str,
    route: String,
    status: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Routed {
    route: String,
}

impl Default for Metrics {
    fn default() -> Self {
        let requests = Family::default();
        let seconds = Family::new_with_constructor(new_histogram as fn() -> Histogram);
        let in_flight = Gauge::default();
        let mut registry = Registry::default();
        registry.register("ff_http_requests", "Requests answered", requests.clone());
        let help = "Seconds from a request to the head of its answer";
        registry.register("ff_http_request_duration_seconds", help, seconds.clone());
        registry.register("ff_http_requests_in_flight", "Requests being served", in_flight.clone());
        Self { registry, requests, seconds, in_flight }
    }
}

fn new_histogram() -> Histogram {
    Histogram::new(SECONDS)
}

/// A request that is being served; also one whose client goes away ends.
struct InFlight(Gauge);

impl InFlight {
    fn new(gauge: &Gauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// Counts a request and times it.
pub async fn count(State(server): State<Server>, request: Request, next: Next) -> Response {
    let metrics = server.metrics();
    let route = request.extensions().get::<MatchedPath>().map_or("unknown", MatchedPath::as_str);
    let (route, method) = (route.to_owned(), name(request.method()));
    let begun = Instant::now();
    let serving = InFlight::new(&metrics.in_flight);
    let response = next.run(request).await;
    drop(serving);
    let seconds = begun.elapsed().as_secs_f64();
    metrics.seconds.get_or_create(&Routed { route: route.clone() }).observe(seconds);
    let status = response.status().as_u16().into();
    metrics.requests.get_or_create(&Answered { method, route, status }).inc();
    response
}

/// The methods that routes take; anyone may invent others.
fn name(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        // not ours: the list of methods has no end
        _ => "OTHER",
    }
}

/// What is counted
#[utoipa::path(
    get, path = "/metrics", tag = "operations", operation_id = "metrics", security(()),
    responses((status = 200, description = "In the text format of OpenMetrics, which Prometheus \
               reads.", body = String, content_type = "application/openmetrics-text")),
)]
pub async fn scrape(State(server): State<Server>) -> Result<Response, Refused> {
    let mut text = String::new();
    encode(&mut text, &server.metrics().registry).expect("writing to a string");
    Ok(([(header::CONTENT_TYPE, MEDIA_TYPE)], text).into_response())
}
