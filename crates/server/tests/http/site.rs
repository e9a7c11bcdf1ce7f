//! A server under test, and the words in which tests speak to it.

use std::sync::Arc;
use std::time::Duration;

use ff_conformance::faults::Obstructed;
use ff_conformance::{Dial, Dice, Model};
use ff_core::backend::{Duty, WorkFilter};
use ff_core::{Config, ExecutionId, FlowId};
use ff_engine::Engine;
use ff_server::{Drained, Options, ServeError, serve};
use reqwest::header::HeaderMap;
use reqwest::{Client, Method, RequestBuilder};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use uuid::Uuid;

use crate::contract;
use crate::gate::Gate;

/// Longer than anything here takes: a test that hangs fails instead.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// A server on a port of its own.
pub struct Site {
    pub address: String,
    pub http: Client,
    pub clock: Arc<Dial>,
    pub gate: Gate,
    pub engine: Engine,
    stop: Option<oneshot::Sender<()>>,
    serving: JoinHandle<Result<Drained, ServeError>>,
}

/// What was answered.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Value,
}

impl Site {
    pub async fn open() -> Self {
        Self::with(|_| {}).await
    }

    /// A server with other options than the defaults.
    pub async fn with(set: impl FnOnce(&mut Options)) -> Self {
        let clock = Arc::new(Dial::default());
        let config = Config { payload_bytes_max: 1_000, ..Config::default() };
        let model = Model::new(config, Arc::clone(&clock) as _, Box::new(Dice::new(1)));
        let gate = Gate::default();
        let store = Obstructed::new(Arc::new(model), gate.clone());
        let engine = Engine::new(Arc::new(store));
        let mut options = Options::new(engine.clone(), "model");
        set(&mut options);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (stop, stopped) = oneshot::channel();
        // A test that forgets its server also ends it.
        let shutdown = async { drop(stopped.await) };
        let serving = tokio::spawn(serve(listener, options, shutdown));
        // Built together with the SDK, the client wants one even where nothing is encrypted.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = Client::builder().timeout(PATIENCE).build().unwrap();
        Self { address, http, clock, gate, engine, stop: Some(stop), serving }
    }

    /// Tells the server to stop.
    pub fn stop(&mut self) {
        drop(self.stop.take());
    }

    /// Stops the server, and waits until it has left.
    pub async fn left(mut self) -> Drained {
        self.stop();
        tokio::time::timeout(PATIENCE, self.serving).await.unwrap().unwrap().unwrap()
    }

    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("http://{}{path}", self.address))
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.ask(self.request(Method::GET, path)).await
    }

    pub async fn post(&self, path: &str, body: Value) -> Answer {
        self.ask(self.request(Method::POST, path).json(&body)).await
    }

    /// Sends a request; what is answered must be what the document says.
    pub async fn ask(&self, request: RequestBuilder) -> Answer {
        let request = request.build().unwrap();
        let (method, path) = (request.method().clone(), request.url().path().to_owned());
        let response = self.http.execute(request).await.unwrap();
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let text = response.text().await.unwrap();
        let body = serde_json::from_str(&text).unwrap_or(Value::String(text));
        let answer = Answer { status, headers, body };
        contract::check(method.as_str(), &path, &answer);
        answer
    }

    /// Sends bytes as they are, and reads until the server hangs up.
    pub async fn raw(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        let read = stream.read_to_string(&mut answer);
        tokio::time::timeout(PATIENCE, read).await.unwrap().unwrap();
        answer
    }

    /// Creates an execution in lane `default`.
    pub async fn create(&self, number: u128) -> ExecutionId {
        self.create_with(number, json!({})).await
    }

    /// Creates an execution with more than a lane and a kind.
    pub async fn create_with(&self, number: u128, more: Value) -> ExecutionId {
        let id = id(number);
        let mut body = json!({"execution_id": id, "lane_id": "default", "execution_kind": "job"});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        assert_eq!(self.post("/v1/executions", body).await.status, 201);
        id
    }

    /// Claims one execution from lane `default`, which must be there.
    pub async fn claim(&self) -> Value {
        // Under an id of its own it always looks: the clock may have been turned since the last.
        let mut ask = ask();
        ask["claim_id"] = json!(Uuid::now_v7());
        let answer = self.post("/v1/claims", ask).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.body["executions"][0].clone()
    }

    /// Creates an execution and claims it; its id and fence.
    pub async fn held(&self, number: u128) -> (ExecutionId, Value) {
        let id = self.create(number).await;
        let claimed = self.claim().await;
        assert_eq!(claimed["execution_id"], json!(id));
        (id, claimed["fence"].clone())
    }

    /// Claims what waits in lane `default`, which must be this execution, and completes it.
    pub async fn finish(&self, id: ExecutionId, result: Value) {
        let claimed = self.claim().await;
        assert_eq!(claimed["execution_id"], json!(id));
        let done = json!({"fence": claimed["fence"], "result": result});
        assert_eq!(self.post(&path(id, "/complete"), done).await.status, 200);
    }

    /// Has the engine tell flows what ended, until nothing is left to tell.
    pub async fn dispatch(&self) {
        let duties =
            [Duty::CompletionDispatch, Duty::EdgeCancelDispatcher, Duty::EdgeCancelReconciler];
        loop {
            let mut processed = 0;
            for duty in duties {
                let report = self.engine.scan_tick(duty, &WorkFilter::default()).await.unwrap();
                assert_eq!(report.errors, 0, "{duty:?}");
                processed += report.processed;
            }
            if processed == 0 {
                return;
            }
        }
    }

    /// Waits until so many requests are being served, besides the one that asks.
    pub async fn in_flight(&self, count: u32) {
        let wanted = format!("\nff_http_requests_in_flight {}\n", count + 1);
        let seen =
            async { while !self.get("/metrics").await.body.as_str().unwrap().contains(&wanted) {} };
        tokio::time::timeout(PATIENCE, seen).await.unwrap();
    }
}

/// A claim for one execution from lane `default`, by worker `pool`.
pub fn ask() -> Value {
    json!({"worker_id": "pool", "worker_instance_id": "pool-1", "lanes": ["default"]})
}

/// The path of a route about one execution.
pub fn path(id: ExecutionId, tail: &str) -> String {
    format!("/v1/executions/{id}{tail}")
}

/// The path of a route about one flow.
pub fn flow_path(id: FlowId, tail: &str) -> String {
    format!("/v1/flows/{id}{tail}")
}

/// The id of a flow that is the same in every run.
pub fn flow_id(number: u128) -> FlowId {
    FlowId(Uuid::from_u128(number))
}

/// The execution that a node of a flow is.
pub fn member(flow: FlowId, node: &str) -> ExecutionId {
    ExecutionId::for_node(flow, &node.parse().unwrap())
}

/// An id that is the same in every run.
pub fn id(number: u128) -> ExecutionId {
    ExecutionId::solo(Uuid::from_u128(number))
}

impl Answer {
    /// The code of a problem.
    pub fn code(&self) -> &str {
        assert_eq!(self.headers["content-type"], "application/problem+json", "{self:?}");
        self.body["code"].as_str().unwrap()
    }
}
