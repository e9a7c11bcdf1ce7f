//! Metrics: what this process served, and how much waits in each lane.
//!
//! Routes are counted by their template, so that the number of series has a bound. What waits is
//! read when somebody scrapes, and kept for a second: scraping often costs the store nothing.
//! Executions are not counted by state here, because that looks at all of them.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use ff_engine::{Engine, Error};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::Server;

/// Upper bounds of the histogram, in seconds: from a read in memory to the longest wait.
const SECONDS: [f64; 14] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 30.0, 60.0];
/// How long what waits is kept before it is read again.
const KEPT: Duration = Duration::from_secs(1);
/// How long the store may take to tell what waits; a scrape does not wait for longer.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// The text format that scrapers ask for.
const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Everything that is counted.
pub struct Metrics {
    registry: Registry,
    requests: Family<Answered, Counter>,
    seconds: Family<Routed, Histogram>,
    in_flight: Gauge,
    waiting: Family<InLane, Gauge>,
    oldest: Family<InLane, Gauge<f64, AtomicU64>>,
    /// When what waits was read last. Whoever holds it writes, or reads what was written.
    read_at: Mutex<Option<Instant>>,
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

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct InLane {
    lane: String,
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
        let (waiting, oldest) = (Family::default(), Family::default());
        let help = "Claimable executions, up to 10,000 in each queue of a lane";
        registry.register("ff_lane_waiting", help, waiting.clone());
        let help = "Seconds that what is next in line has waited";
        registry.register("ff_lane_oldest_seconds", help, oldest.clone());
        let read_at = Mutex::default();
        Self { registry, requests, seconds, in_flight, waiting, oldest, read_at }
    }
}

impl Metrics {
    /// What is counted, as text. What waits is read anew unless it was read just now.
    async fn text(&self, engine: &Engine) -> String {
        let mut read_at = self.read_at.lock().await;
        if read_at.is_none_or(|at| at.elapsed() >= KEPT) {
            self.read_lanes(engine).await;
            *read_at = Some(Instant::now());
        }
        let mut text = String::new();
        encode(&mut text, &self.registry).expect("writing to a string");
        text
    }

    /// A store that does not answer leaves no numbers rather than old ones.
    async fn read_lanes(&self, engine: &Engine) {
        self.waiting.clear();
        self.oldest.clear();
        let read =
            async { Ok::<_, Error>((engine.lane_depths().await?, engine.server_time_ms().await?)) };
        let (depths, now) = match tokio::time::timeout(ANSWER_MAX, read).await {
            Ok(Ok(read)) => read,
            Ok(Err(error)) => return tracing::warn!(%error, "cannot read what waits"),
            Err(_) => return tracing::warn!("the store did not tell what waits in time"),
        };
        for depth in depths {
            let lane = InLane { lane: depth.lane.to_string() };
            let waiting = i64::try_from(depth.waiting).unwrap_or(i64::MAX);
            self.waiting.get_or_create(&lane).set(waiting);
            let since =
                depth.oldest.map_or(Duration::ZERO, |at| Duration::from_millis(now.since(at)));
            self.oldest.get_or_create(&lane).set(since.as_secs_f64());
        }
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
pub async fn scrape(State(server): State<Server>) -> Response {
    let text = server.metrics().text(server.engine()).await;
    ([(header::CONTENT_TYPE, MEDIA_TYPE)], text).into_response()
}
