//! What a worker and a client need of the engine, whether it is in this process or behind HTTP.

mod observed;
mod waits;

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use ff_core::decide::cancel::Cancel;
use ff_core::decide::cancel_flow::CancelFlow;
use ff_core::decide::claim::ClaimKind;
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
use ff_core::execution::Failure;
use ff_core::flow::{EdgeWord, FlowWord};
use ff_core::state::PublicState;
use ff_core::step::StepRecord;
use ff_core::text::{ConsumerName, Kind, LaneId, Namespace};
use ff_core::{ClaimAsk, Claimed, ExecutionId, Fence, FlowId, Millis};
use ff_wire::flow::{
    CancelFlowAnswer, EdgePage, EdgeParams, FlowPage, FlowSearchParams, FlowSnapshot, FlowSummary,
    MemberPage, MemberParams,
};
use ff_wire::lane::{CountsAnswer, LanesAnswer};
use ff_wire::steer::{RevokeAnswer, TagsRequest};
use ff_wire::{
    ConsumerParams, ConsumersAnswer, ExecutionPage, ExecutionSnapshot, History, Payload,
    SearchParams,
};

use crate::Error;

pub use observed::{Call, Observed, Observer};
pub use waits::Waits;

/// Work that a claim handed out.
#[derive(Clone, Debug, PartialEq)]
pub struct Work {
    /// Which execution.
    pub id: ExecutionId,
    /// The flow it is a member of.
    pub flow: Option<FlowId>,
    /// In which namespace.
    pub namespace: Namespace,
    /// From which lane.
    pub lane: LaneId,
    /// What kind of work.
    pub kind: Kind,
    /// What sort of claim.
    pub claim: ClaimKind,
    /// Proof of holding it.
    pub fence: Fence,
    /// Its tags.
    pub tags: BTreeMap<String, String>,
    /// When it was created.
    pub created_at: Millis,
    /// When the execution was claimed for the first time: what `now` gives before the first outcome.
    pub started_at: Millis,
    /// What to work on.
    pub input: Option<Payload>,
    /// What the attempt before failed with.
    pub failure: Option<Failure>,
    /// Whether there may be steps.
    pub may_have_steps: bool,
    /// How long the attempt may take from now on.
    pub time_limit: Option<Duration>,
    /// When it was claimed, by the store's clock.
    pub claimed_at: Millis,
    /// How long its lease lasts from now on, unless it is renewed.
    pub lease_left: Duration,
}

impl From<Claimed> for Work {
    fn from(claimed: Claimed) -> Self {
        let leased = claimed.leased;
        let x = leased.execution;
        let (failure, time_limit, claimed_at) = match &x.state {
            ff_core::State::Active(active) => {
                let at = active.lease.renewed_at;
                let left = active.timeout_at.map(|over| Duration::from_millis(over.since(at)));
                (active.attempt.after.clone(), left, at)
            }
            ff_core::State::Runnable(_)
            | ff_core::State::Suspended(_)
            | ff_core::State::Terminal(_) => (None, None, x.updated_at),
        };
        Self {
            id: x.id,
            flow: x.flow(),
            namespace: x.spec.namespace.clone(),
            lane: x.spec.lane.clone(),
            kind: x.spec.kind.clone(),
            claim: leased.kind,
            fence: leased.fence,
            created_at: x.spec.created_at,
            started_at: x.started_at.unwrap_or(claimed_at),
            may_have_steps: x.was_held_before(),
            tags: x.tags.clone(),
            input: claimed.input.map(Payload::from),
            failure,
            time_limit,
            claimed_at,
            lease_left: Duration::from_millis(leased.lease_until.since(claimed_at)),
        }
    }
}

/// What those that an execution waits for give it, by the name of the edge.
pub type Inputs = BTreeMap<String, Input>;

/// What one of them gives.
#[derive(Clone, Debug, PartialEq)]
pub struct Input {
    /// Whether the edge is satisfied: only then is there a result.
    pub edge: EdgeWord,
    /// The result; nothing where there is none.
    pub result: Option<Payload>,
}

/// What a worker says about work it holds.
pub use ff_wire::report::batch::Order as Report;

/// The engine, here or elsewhere.
#[async_trait]
pub trait Fabric: Waits {
    /// Creates executions; each has its own answer.
    async fn create(&self, creates: Vec<Create>) -> Result<Vec<Result<Created, Error>>, Error>;

    /// Takes work; waits up to `wait` until there is some.
    async fn claim(&self, ask: &ClaimAsk, wait: Duration) -> Result<Vec<Work>, Error>;

    /// Extends leases; each has its own answer.
    async fn renew(&self, leases: Vec<Renew>) -> Result<Vec<Result<(), Error>>, Error>;

    /// How often leases were taken away from their holders, as far as that is heard of here.
    fn taken(&self) -> u64;

    /// Waits until that is no longer `seen`; for ever where nothing is heard of it.
    async fn await_taken(&self, seen: u64);

    /// Says something about work that is held.
    async fn report(&self, report: Report) -> Result<(), Error>;

    /// The journal of an execution.
    async fn journal(&self, id: ExecutionId) -> Result<Vec<StepRecord>, Error>;

    /// The store's time.
    async fn now(&self) -> Result<Millis, Error>;

    /// Waits until an execution has ended, up to `wait`; the state it is in then.
    async fn wait(&self, id: ExecutionId, wait: Duration) -> Result<PublicState, Error>;

    /// The same, with its result if it succeeded with one.
    async fn wait_result(
        &self,
        id: ExecutionId,
        wait: Duration,
    ) -> Result<(PublicState, Option<Payload>), Error>;

    /// The result of an execution that succeeded with one.
    async fn result(&self, id: ExecutionId) -> Result<Option<Payload>, Error>;

    /// Cancels an execution.
    async fn cancel(&self, cancel: Cancel) -> Result<(), Error>;

    /// Has a finished execution run again.
    async fn replay(&self, replay: Replay) -> Result<Replayed, Error>;

    /// Keeps a waiting execution from being claimed.
    async fn hold(&self, hold: Hold) -> Result<(), Error>;

    /// Lets a held execution be claimed again.
    async fn unhold(&self, unhold: Unhold) -> Result<(), Error>;

    /// Takes a lease away.
    async fn revoke(&self, revoke: Revoke) -> Result<RevokeAnswer, Error>;

    /// Who follows the feed with a place that is kept, page by page.
    async fn consumers(&self, page: ConsumerParams) -> Result<ConsumersAnswer, Error>;

    /// Forgets one of them.
    async fn drop_consumer(&self, name: ConsumerName) -> Result<(), Error>;

    /// Changes how urgent a waiting execution is.
    async fn set_priority(&self, change: ChangePriority) -> Result<(), Error>;

    /// Sets and removes tags.
    async fn set_tags(&self, id: ExecutionId, edit: TagsRequest) -> Result<(), Error>;

    /// Everything a person wants to see of an execution.
    async fn describe(&self, id: ExecutionId) -> Result<ExecutionSnapshot, Error>;

    /// Everything that happened to it.
    async fn history(&self, id: ExecutionId) -> Result<History, Error>;

    /// Executions that match, newest first.
    async fn search(&self, search: SearchParams) -> Result<ExecutionPage, Error>;

    /// How much is claimable in each lane.
    async fn lanes(&self) -> Result<LanesAnswer, Error>;

    /// How many executions are in each lane and state.
    async fn counts(&self) -> Result<CountsAnswer, Error>;

    /// Creates a whole graph at once.
    async fn submit_flow(&self, submit: SubmitFlow) -> Result<FlowCreated, Error>;

    /// Adds nodes and edges to a flow.
    async fn extend_flow(&self, extend: ExtendFlow) -> Result<Extended, Error>;

    /// Gives an execution back until what it waits for in its flow is there.
    async fn wait_children(&self, wait: WaitChildren) -> Result<Waiting, Error>;

    /// What those that an execution waits for give it, by the name of the edge.
    async fn inputs(&self, id: ExecutionId) -> Result<Inputs, Error>;

    /// Waits until a flow has ended, up to `wait`; as it is then.
    async fn wait_flow(&self, id: FlowId, wait: Duration) -> Result<FlowSnapshot, Error>;

    /// What the members of a flow are doing.
    async fn flow_summary(&self, id: FlowId) -> Result<FlowSummary, Error>;

    /// A page of the members of a flow.
    async fn flow_members(&self, id: FlowId, page: MemberParams) -> Result<MemberPage, Error>;

    /// A page of the edges of a flow.
    async fn flow_edges(&self, id: FlowId, page: EdgeParams) -> Result<EdgePage, Error>;

    /// Flows that match, newest first.
    async fn search_flows(&self, search: FlowSearchParams) -> Result<FlowPage, Error>;

    /// Cancels a flow; waits up to `wait` until that is done with its members.
    async fn cancel_flow(
        &self,
        cancel: CancelFlow,
        wait: Duration,
    ) -> Result<CancelFlowAnswer, Error>;

    /// Says that a flow is complete; where it stands.
    async fn seal_flow(&self, id: FlowId) -> Result<FlowWord, Error>;

    /// Sets and removes tags of a flow.
    async fn set_flow_tags(&self, id: FlowId, edit: TagsRequest) -> Result<(), Error>;
}
