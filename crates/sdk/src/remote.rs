//! The engine behind a server, over HTTP.
//!
//! What handlers report while a request is under way travels together in the next one, so that a
//! busy worker makes few requests. Every call may be made again after a lost answer, as everywhere.

mod reports;
mod waits;

use std::time::Duration;

use async_trait::async_trait;
use ff_core::decide::cancel::Cancel;
use ff_core::decide::cancel_flow::CancelFlow;
use ff_core::decide::create::{Create, Created};
use ff_core::decide::create_flow::FlowCreated;
use ff_core::decide::extend_flow::{ExtendFlow, Extended};
use ff_core::decide::hold::Hold;
use ff_core::decide::priority::ChangePriority;
use ff_core::decide::renew::Renew;
use ff_core::decide::replay::{Replay, Replayed};
use ff_core::decide::revoke::Revoke;
use ff_core::decide::submit_flow::SubmitFlow;
use ff_core::decide::unhold::Unhold;
use ff_core::decide::wait_children::{WaitChildren, Waiting};
use ff_core::flow::FlowWord;
use ff_core::state::PublicState;
use ff_core::step::StepRecord;
use ff_core::text::{ConsumerName, Kind, LaneId, Namespace};
use ff_core::{ClaimAsk, Code, ExecutionId, FlowId, Millis};
use ff_wire::create::CreateOutcome;
use ff_wire::flow::member::{InputsAnswer, NamedInput, WaitChildrenAnswer, WaitChildrenRequest};
use ff_wire::flow::{
    CancelFlowAnswer, CancelFlowParams, CancelFlowRequest, CreateFlowAnswer, EdgePage, EdgeParams,
    ExtendAnswer, ExtendRequest, FlowPage, FlowSearchParams, FlowSnapshot, FlowSummary, MemberPage,
    MemberParams, NewFlow, SealAnswer, SealRequest,
};
use ff_wire::lane::{CountsAnswer, LanesAnswer};
use ff_wire::lease::{HeldLease, Renewal};
use ff_wire::steer::{
    CancelRequest, HoldRequest, PriorityRequest, ReplayAnswer, ReplayRequest, RevokeAnswer,
    RevokeRequest, TagsRequest, UnholdRequest,
};
use ff_wire::step::StepPage;
use ff_wire::{
    BatchAnswer, BatchRequest, ClaimAnswer, ClaimRequest, ClaimedExecution, ConsumerParams,
    ConsumersAnswer, DropAnswer, DropRequest, ExecutionPage, ExecutionSnapshot, History, Info,
    NewExecution, Payload, Problem, RenewAnswer, RenewRequest, ResultAnswer, SearchParams,
    WAIT_MS_MAX,
};
use reqwest::{Method, RequestBuilder, StatusCode, Url};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::Error;
use crate::fabric::{Fabric, Input, Inputs, Report, Work};
use reports::Reports;

/// How long a request may take besides the time it asks to wait.
const TIMEOUT: Duration = Duration::from_secs(35);

/// A server.
pub struct Remote {
    caller: Caller,
    reports: Reports,
}

/// Makes requests.
#[derive(Clone)]
struct Caller {
    http: reqwest::Client,
    base: Url,
    token: Option<String>,
}

impl Remote {
    /// A server at `url`; `token` is presented with every request. Nothing is sent yet. Must be
    /// called inside a Tokio runtime.
    pub fn new(url: &str, token: Option<String>) -> Result<Self, Error> {
        let refuse = |why: String| {
            let field = ff_core::Rejection::invalid(Code::InvalidInput, "url", url, why);
            Error::from(field)
        };
        let mut base = Url::parse(url).map_err(|error| refuse(format!("is no URL: {error}")))?;
        if !["http", "https"].contains(&base.scheme()) || base.cannot_be_a_base() {
            return Err(refuse("is not of the form http(s)://host".to_owned()));
        }
        if !base.path().ends_with('/') {
            base.set_path(&format!("{}/", base.path()));
        }
        // Whoever embeds us may have chosen one already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder()
            .connect_timeout(Duration::from_secs(5))
            .build()
            .map_err(|error| refuse(format!("cannot be spoken to: {error}")))?;
        let caller = Caller { http, base, token };
        Ok(Self { reports: Reports::start(caller.clone()), caller })
    }
}

impl Caller {
    fn request(&self, method: Method, path: &str, wait: Duration) -> RequestBuilder {
        let url = self.base.join(path).expect("paths are ours");
        let request = self.http.request(method, url).timeout(TIMEOUT + wait);
        match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        }
    }

    async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Error> {
        read(self.request(Method::GET, path, Duration::ZERO)).await
    }

    async fn find<T: DeserializeOwned>(
        &self,
        path: &str,
        params: &impl Serialize,
    ) -> Result<T, Error> {
        read(self.request(Method::GET, path, Duration::ZERO).query(params)).await
    }

    async fn send<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, Error> {
        read(self.request(method, path, Duration::ZERO).json(body)).await
    }

    async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, Error> {
        self.send(Method::POST, path, body).await
    }
}

/// Sends a request and reads its answer, or why there is none.
async fn read<T: DeserializeOwned>(request: RequestBuilder) -> Result<T, Error> {
    let response = request.send().await.map_err(transport)?;
    let status = response.status();
    let body = response.bytes().await.map_err(transport)?;
    if status.is_success() {
        return serde_json::from_slice(&body).map_err(|error| unreadable(status, &error));
    }
    match serde_json::from_slice::<Problem>(&body) {
        Ok(problem) => Err(problem.into()),
        // Something between us and the server has answered.
        Err(error) => Err(unreadable(status, &error)),
    }
}

/// Where it was to go, and why it did not get there. Without the path: a link is a secret.
fn transport(mut error: reqwest::Error) -> Error {
    if let Some(url) = error.url_mut() {
        url.set_path("");
        url.set_query(None);
    }
    let mut said = error.to_string();
    let mut source = std::error::Error::source(&error);
    while let Some(cause) = source {
        said = format!("{said}: {cause}");
        source = cause.source();
    }
    Error::coded(Code::Transport.as_str(), said, Code::Transport.hint(), true)
}

fn unreadable(status: StatusCode, error: &serde_json::Error) -> Error {
    let said = format!("an answer ({status}) that cannot be read: {error}");
    // What is between us and the server may be in the middle of a change. A body is refused for good.
    let refused = [StatusCode::BAD_REQUEST, StatusCode::PAYLOAD_TOO_LARGE];
    let retryable = !status.is_success() && !refused.contains(&status);
    let hint = "Is this the address of a FlowFabric server, and of the same version?";
    Error::coded(Code::Transport.as_str(), said, hint, retryable)
}

impl From<Problem> for Error {
    fn from(problem: Problem) -> Self {
        Self::coded(&problem.code, problem.detail, &problem.hint, problem.retryable)
    }
}

/// How long to ask for, of what is wanted.
fn wait_ms(wait: Duration) -> u64 {
    u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).min(WAIT_MS_MAX)
}

#[async_trait]
impl Fabric for Remote {
    async fn create(&self, creates: Vec<Create>) -> Result<Vec<Result<Created, Error>>, Error> {
        let mut answers = Vec::with_capacity(creates.len());
        let mut rest = creates.into_iter().peekable();
        while rest.peek().is_some() {
            // With one more of the largest inputs, it is still a request that a server takes.
            let (mut executions, mut bytes) = (Vec::new(), 0);
            while executions.len() < ff_core::limits::BATCH_MAX
                && bytes < reports::BYTES_MAX
                && let Some(create) = rest.next()
            {
                bytes += create.input.len();
                executions.push(NewExecution::from(create));
            }
            let body = BatchRequest { executions };
            let answer: BatchAnswer = self.caller.post("v1/executions/batch", &body).await?;
            answers.extend(answer.results.into_iter().map(|outcome| match outcome {
                CreateOutcome::Created { execution_id, public_state } => {
                    Ok(Created::Created { execution_id, public_state })
                }
                CreateOutcome::Duplicate { execution_id } => {
                    Ok(Created::Duplicate { execution_id })
                }
                CreateOutcome::Rejected { problem } => Err((*problem).into()),
            }));
        }
        Ok(answers)
    }

    async fn claim(&self, ask: &ClaimAsk, wait: Duration) -> Result<Vec<Work>, Error> {
        let body = ClaimRequest {
            claim_id: Some(ask.claim_id.to_string()),
            worker_id: ask.worker.id.to_string(),
            worker_instance_id: ask.worker.instance.to_string(),
            lanes: ask.lanes.iter().map(ToString::to_string).collect(),
            capabilities: ask.capabilities.clone(),
            lease_ttl_ms: ask.lease_ttl_ms,
            max: ask.max,
            wait_ms: wait_ms(wait),
        };
        let request = self.caller.request(Method::POST, "v1/claims", wait).json(&body);
        let answer: ClaimAnswer = read(request).await?;
        let now = answer.server_time;
        answer.executions.into_iter().map(|work| work_of(work, now)).collect()
    }

    async fn renew(&self, leases: Vec<Renew>) -> Result<Vec<Result<(), Error>>, Error> {
        let Some(first) = leases.first() else { return Ok(Vec::new()) };
        let lease_ttl_ms = first.lease_ttl_ms;
        let held = |renew: &Renew| HeldLease {
            execution_id: renew.id.to_string(),
            fence: renew.fence.into(),
        };
        let body = RenewRequest { leases: leases.iter().map(held).collect(), lease_ttl_ms };
        let answer: RenewAnswer = self.caller.post("v1/leases/renew", &body).await?;
        let renewed = |renewal| match renewal {
            Renewal::Renewed { .. } => Ok(()),
            Renewal::Lost { problem, .. } | Renewal::Retry { problem, .. } => {
                Err(Error::from(*problem))
            }
        };
        Ok(answer.results.into_iter().map(renewed).collect())
    }

    fn taken(&self) -> u64 {
        0
    }

    async fn await_taken(&self, _: u64) {
        // The next renewal says it.
        std::future::pending::<()>().await;
    }

    async fn report(&self, report: Report) -> Result<(), Error> {
        self.reports.send(report).await
    }

    async fn journal(&self, id: ExecutionId) -> Result<Vec<StepRecord>, Error> {
        let mut journal = Vec::new();
        let mut after = None;
        loop {
            let from = after.map_or(String::new(), |after| format!("&after={after}"));
            let path = format!("v1/executions/{id}/steps?limit=1000{from}");
            let page: StepPage = self.caller.get(&path).await?;
            for line in page.steps {
                journal.push(line.into_record(id)?);
            }
            match page.next {
                Some(next) => after = Some(next),
                None => return Ok(journal),
            }
        }
    }

    async fn now(&self) -> Result<Millis, Error> {
        Ok(self.caller.get::<Info>("v1/info").await?.server_time)
    }

    async fn wait(&self, id: ExecutionId, wait: Duration) -> Result<PublicState, Error> {
        let path = format!("v1/executions/{id}?wait_ms={}", wait_ms(wait));
        let request = self.caller.request(Method::GET, &path, wait);
        Ok(read::<ExecutionSnapshot>(request).await?.public_state)
    }

    async fn wait_result(
        &self,
        id: ExecutionId,
        wait: Duration,
    ) -> Result<(PublicState, Option<Payload>), Error> {
        let state = self.wait(id, wait).await?;
        let succeeded = state == PublicState::Completed;
        Ok((state, if succeeded { self.result(id).await? } else { None }))
    }

    async fn result(&self, id: ExecutionId) -> Result<Option<Payload>, Error> {
        let path = format!("v1/executions/{id}/result");
        let answer: ResultAnswer = self.caller.get(&path).await?;
        Ok(answer.into_payload()?)
    }

    async fn cancel(&self, cancel: Cancel) -> Result<(), Error> {
        let path = format!("v1/executions/{}/cancel", cancel.id);
        self.caller.post::<Anything>(&path, &CancelRequest::from(cancel)).await.map(drop)
    }

    async fn replay(&self, replay: Replay) -> Result<Replayed, Error> {
        let path = format!("v1/executions/{}/replay", replay.id);
        let answer: ReplayAnswer = self.caller.post(&path, &ReplayRequest::from(replay)).await?;
        Ok(answer.into())
    }

    async fn hold(&self, hold: Hold) -> Result<(), Error> {
        let path = format!("v1/executions/{}/hold", hold.id);
        self.caller.post::<Anything>(&path, &HoldRequest::from(hold)).await.map(drop)
    }

    async fn unhold(&self, unhold: Unhold) -> Result<(), Error> {
        let path = format!("v1/executions/{}/unhold", unhold.id);
        self.caller.post::<Anything>(&path, &UnholdRequest::from(unhold)).await.map(drop)
    }

    async fn revoke(&self, revoke: Revoke) -> Result<RevokeAnswer, Error> {
        let path = format!("v1/executions/{}/revoke-lease", revoke.id);
        self.caller.post(&path, &RevokeRequest::from(revoke)).await
    }

    async fn consumers(&self, page: ConsumerParams) -> Result<ConsumersAnswer, Error> {
        self.caller.find("v1/consumers", &page).await
    }

    async fn drop_consumer(&self, name: ConsumerName) -> Result<(), Error> {
        let body = DropRequest { name: name.into() };
        self.caller.post::<DropAnswer>("v1/consumers/drop", &body).await.map(drop)
    }

    async fn set_priority(&self, change: ChangePriority) -> Result<(), Error> {
        let path = format!("v1/executions/{}/priority", change.id);
        let body = PriorityRequest::from(change);
        self.caller.send::<Anything>(Method::PUT, &path, &body).await.map(drop)
    }

    async fn set_tags(&self, id: ExecutionId, edit: TagsRequest) -> Result<(), Error> {
        let path = format!("v1/executions/{id}/tags");
        self.caller.send::<Anything>(Method::PATCH, &path, &edit).await.map(drop)
    }

    async fn describe(&self, id: ExecutionId) -> Result<ExecutionSnapshot, Error> {
        self.caller.get(&format!("v1/executions/{id}")).await
    }

    async fn history(&self, id: ExecutionId) -> Result<History, Error> {
        self.caller.get(&format!("v1/executions/{id}/history")).await
    }

    async fn search(&self, search: SearchParams) -> Result<ExecutionPage, Error> {
        self.caller.find("v1/executions", &search).await
    }

    async fn lanes(&self) -> Result<LanesAnswer, Error> {
        self.caller.get("v1/lanes").await
    }

    async fn counts(&self) -> Result<CountsAnswer, Error> {
        self.caller.get("v1/counts").await
    }

    async fn submit_flow(&self, submit: SubmitFlow) -> Result<FlowCreated, Error> {
        let body = NewFlow::from(submit);
        Ok(self.caller.post::<CreateFlowAnswer>("v1/flows", &body).await?.into())
    }

    async fn extend_flow(&self, extend: ExtendFlow) -> Result<Extended, Error> {
        let path = format!("v1/flows/{}/extend", extend.flow);
        let body = ExtendRequest::from(extend);
        Ok(self.caller.post::<ExtendAnswer>(&path, &body).await?.into())
    }

    async fn wait_children(&self, wait: WaitChildren) -> Result<Waiting, Error> {
        let path = format!("v1/executions/{}/wait_children", wait.id);
        let body = WaitChildrenRequest::from(wait);
        Ok(self.caller.post::<WaitChildrenAnswer>(&path, &body).await?.into())
    }

    async fn inputs(&self, id: ExecutionId) -> Result<Inputs, Error> {
        let answer: InputsAnswer = self.caller.get(&format!("v1/executions/{id}/inputs")).await?;
        let inputs = answer.inputs.into_iter();
        let named = |(name, input): (String, NamedInput)| {
            Ok((name, Input { edge: input.edge_state, result: input.into_payload()? }))
        };
        inputs.map(named).collect()
    }

    async fn wait_flow(&self, id: FlowId, wait: Duration) -> Result<FlowSnapshot, Error> {
        let path = format!("v1/flows/{id}?wait_ms={}", wait_ms(wait));
        read(self.caller.request(Method::GET, &path, wait)).await
    }

    async fn flow_summary(&self, id: FlowId) -> Result<FlowSummary, Error> {
        self.caller.get(&format!("v1/flows/{id}/summary")).await
    }

    async fn flow_members(&self, id: FlowId, page: MemberParams) -> Result<MemberPage, Error> {
        self.caller.find(&format!("v1/flows/{id}/members"), &page).await
    }

    async fn flow_edges(&self, id: FlowId, page: EdgeParams) -> Result<EdgePage, Error> {
        self.caller.find(&format!("v1/flows/{id}/edges"), &page).await
    }

    async fn search_flows(&self, search: FlowSearchParams) -> Result<FlowPage, Error> {
        self.caller.find("v1/flows", &search).await
    }

    async fn cancel_flow(
        &self,
        cancel: CancelFlow,
        wait: Duration,
    ) -> Result<CancelFlowAnswer, Error> {
        let path = format!("v1/flows/{}/cancel", cancel.flow);
        let params = CancelFlowParams { wait: None, wait_ms: Some(wait_ms(wait)) };
        let body = CancelFlowRequest::from(cancel);
        let request = self.caller.request(Method::POST, &path, wait).query(&params).json(&body);
        read(request).await
    }

    async fn seal_flow(&self, id: FlowId) -> Result<FlowWord, Error> {
        let path = format!("v1/flows/{id}/seal");
        Ok(self.caller.post::<SealAnswer>(&path, &SealRequest {}).await?.state)
    }

    async fn set_flow_tags(&self, id: FlowId, edit: TagsRequest) -> Result<(), Error> {
        let path = format!("v1/flows/{id}/tags");
        self.caller.send::<Anything>(Method::PATCH, &path, &edit).await.map(drop)
    }
}

/// An answer that says nothing but that it was done.
#[derive(serde::Deserialize)]
struct Anything {}

fn work_of(mut claimed: ClaimedExecution, now: Millis) -> Result<Work, Error> {
    let time_limit = claimed.timeout_at.map(|at| Duration::from_millis(at.since(now)));
    let input = claimed.take_input()?;
    let failure = claimed.failure.map(ff_core::execution::Failure::try_from).transpose()?;
    Ok(Work {
        id: claimed.execution_id,
        flow: claimed.flow_id,
        namespace: Namespace::new(claimed.namespace)?,
        lane: LaneId::new(claimed.lane_id)?,
        kind: Kind::new(claimed.execution_kind)?,
        claim: claimed.kind,
        fence: claimed.fence.into(),
        tags: claimed.tags,
        created_at: claimed.created_at,
        started_at: claimed.started_at,
        input,
        failure,
        may_have_steps: claimed.may_have_steps,
        time_limit,
        claimed_at: now,
        lease_left: Duration::from_millis(claimed.lease_until.since(now)),
    })
}
