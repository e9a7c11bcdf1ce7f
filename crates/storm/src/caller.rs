//! Calls over HTTP, as any client makes them: with a deadline, to any server.

use std::sync::Arc;
use std::time::Duration;

use reqwest::Method;
use serde_json::Value;
use tokio::sync::{OwnedRwLockWriteGuard, RwLock};

use crate::fleet::Fleet;
use crate::record::{Answer, Call, Recorder, What};
use crate::time::{now, sleep_ms};

/// How long an answer may take beyond what was asked to wait.
const PATIENCE: Duration = Duration::from_secs(8);
/// How often a call is sent before it is given up.
const TRIES_MAX: u32 = 12;
/// Between two tries, times their number.
const PAUSE_MS: u64 = 120;

/// Codes that say nothing about whether the call took effect.
const UNKNOWN: [&str; 5] = ["transport", "timeout", "overloaded", "retry_exhausted", "draining"];
/// Codes of calls that make no sense: they would be our own mistake.
const OURS: [&str; 4] =
    ["invalid_input", "invalid_policy_json", "invalid_tag_key", "idempotency_key_conflict"];

/// Who calls.
#[derive(Clone)]
pub struct Caller {
    http: reqwest::Client,
    fleet: Fleet,
    recorder: Arc<Recorder>,
    /// Read by every call that is under way.
    gate: Arc<RwLock<()>>,
}

/// What to send.
#[derive(Clone, Debug)]
pub struct Request {
    method: Method,
    path: String,
    body: Option<Value>,
    wait_ms: u64,
}

impl Request {
    /// A question.
    pub fn get(path: impl Into<String>) -> Self {
        Self { method: Method::GET, path: path.into(), body: None, wait_ms: 0 }
    }

    /// Something to do.
    pub fn post(path: impl Into<String>, body: Value) -> Self {
        Self { method: Method::POST, path: path.into(), body: Some(body), wait_ms: 0 }
    }

    /// The same with another method.
    pub fn put(path: impl Into<String>, body: Value) -> Self {
        Self { method: Method::PUT, ..Self::post(path, body) }
    }

    /// The same, and the server may wait so long.
    pub fn waiting(self, wait_ms: u64) -> Self {
        Self { wait_ms, ..self }
    }
}

/// What came back.
#[derive(Clone, Debug)]
pub struct Reply {
    /// From which server.
    pub server: usize,
    /// When it was asked.
    pub sent: i64,
    /// When it answered.
    pub answered: i64,
    /// How.
    pub answer: Answer,
    /// What it said; null when nothing was heard.
    pub body: Value,
}

impl Reply {
    /// Whether it was done.
    pub fn done(&self) -> bool {
        self.answer == Answer::Done
    }

    /// A field that is text.
    pub fn text(&self, field: &str) -> &str {
        self.body[field].as_str().unwrap_or_default()
    }
}

impl Caller {
    /// One that calls these servers.
    pub fn new(fleet: Fleet, recorder: Arc<Recorder>) -> Self {
        // Nothing is encrypted here, but the client wants to know who would. It may be known already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        // Connections are shared and kept, as those of a busy client are.
        let http = reqwest::Client::builder().no_proxy().pool_max_idle_per_host(64).build();
        Self { http: http.expect("no option is unusual"), fleet, recorder, gate: Arc::default() }
    }

    /// Waits until no call is under way. For as long as the guard is kept, only the caller that comes with
    /// it can begin one.
    pub async fn pause(&self) -> (OwnedRwLockWriteGuard<()>, Self) {
        let paused = Arc::clone(&self.gate).write_owned().await;
        (paused, Self { gate: Arc::default(), ..self.clone() })
    }

    /// How many servers there are.
    pub fn servers(&self) -> usize {
        self.fleet.len()
    }

    /// Where a server is called.
    pub fn url(&self, server: usize, path: &str) -> String {
        format!("http://{}{path}", self.fleet[server].front.at())
    }

    /// The client for those who read an answer as it comes.
    pub fn http(&self) -> &reqwest::Client {
        &self.http
    }

    /// Sends it once.
    pub async fn once(&self, server: usize, request: &Request) -> Reply {
        let _open = self.gate.read().await;
        let sent = now();
        let (answer, body) = self.ask(server, request).await;
        let name = name_of(request);
        let how = match &answer {
            Answer::Done => "ok",
            Answer::Refused(code) => code,
            Answer::Lost => "lost",
        };
        self.recorder.count(&format!("{name}: {how}"));
        Reply { server, sent, answered: now(), answer, body }
    }

    /// Sends it again until it is answered, each time to another server; every try is recorded as
    /// what `what` makes of it.
    pub async fn insist(
        &self,
        first: usize,
        request: &Request,
        what: impl Fn(&Reply) -> What,
    ) -> Reply {
        let mut tries = 0;
        loop {
            let server = (first + usize::try_from(tries).unwrap_or(0)) % self.servers();
            let reply = self.recorded(server, request, &what).await;
            tries += 1;
            if reply.answer != Answer::Lost || tries == TRIES_MAX {
                return reply;
            }
            sleep_ms(PAUSE_MS * u64::from(tries)).await;
        }
    }

    /// Sends it once, and records that.
    pub async fn recorded(
        &self,
        server: usize,
        request: &Request,
        what: impl Fn(&Reply) -> What,
    ) -> Reply {
        let reply = self.once(server, request).await;
        self.recorder.call(Call {
            server,
            sent: reply.sent,
            answered: reply.answered,
            what: what(&reply),
            answer: reply.answer.clone(),
        });
        reply
    }

    async fn ask(&self, server: usize, request: &Request) -> (Answer, Value) {
        let url = self.url(server, &request.path);
        let wait = PATIENCE + Duration::from_millis(request.wait_ms);
        let mut asked = self.http.request(request.method.clone(), url).timeout(wait);
        if let Some(body) = &request.body {
            asked = asked.json(body);
        }
        let Ok(response) = asked.send().await else { return (Answer::Lost, Value::Null) };
        let status = response.status();
        let Ok(text) = response.text().await else { return (Answer::Lost, Value::Null) };
        let Ok(body) = serde_json::from_str::<Value>(&text) else {
            self.odd("unreadable", request, &text);
            return (Answer::Lost, Value::Null);
        };
        if status.is_success() {
            return (Answer::Done, body);
        }
        let code = body["code"].as_str().unwrap_or("none").to_owned();
        if UNKNOWN.contains(&code.as_str()) {
            return (Answer::Lost, body);
        }
        if status.is_server_error() || OURS.contains(&code.as_str()) {
            self.odd(&code, request, &text);
        }
        if status.is_server_error() {
            return (Answer::Lost, body);
        }
        (Answer::Refused(code), body)
    }

    fn odd(&self, code: &str, request: &Request, text: &str) {
        let Request { method, path, body, .. } = request;
        let body = body.as_ref().map(Value::to_string).unwrap_or_default();
        self.recorder.odd(code, format!("at {}: {method} {path} {body}: {text}", now()));
    }
}

/// A request without what differs from call to call.
fn name_of(request: &Request) -> String {
    let path = request.path.split('?').next().unwrap_or_default();
    let word =
        |part: &&str| !part.is_empty() && *part != "v1" && part.len() < 30 && !part.contains("%7B");
    let words: Vec<_> = path.split('/').filter(word).collect();
    format!("{} {}", request.method, words.join("/"))
}

/// An id as a part of a path.
pub fn in_path(id: impl std::fmt::Display) -> String {
    id.to_string().replace('{', "%7B").replace('}', "%7D")
}
