//! A fabric with somebody who watches what workers do with it.

mod waits;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use ff_core::decide::cancel::Cancel;
use ff_core::decide::cancel_flow::CancelFlow;
use ff_core::decide::create::{Create, Created};
use ff_core::decide::create_flow::FlowCreated;
use ff_core::decide::create_waitpoint::CreateWaitpoint;
use ff_core::decide::extend_flow::{ExtendFlow, Extended};
use ff_core::decide::hold::Hold;
use ff_core::decide::priority::ChangePriority;
use ff_core::decide::renew::Renew;
use ff_core::decide::replay::{Replay, Replayed};
use ff_core::decide::revoke::Revoke;
use ff_core::decide::submit_flow::SubmitFlow;
use ff_core::decide::suspend::Suspend;
use ff_core::decide::unhold::Unhold;
use ff_core::decide::wait_children::{WaitChildren, Waiting};
use ff_core::flow::FlowWord;
use ff_core::state::PublicState;
use ff_core::step::StepRecord;
use ff_core::text::ConsumerName;
use ff_core::{ClaimAsk, ExecutionId, FlowId, Millis};
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

use super::{Fabric, Inputs, Report, Work};
use crate::Error;

/// What a worker does with a fabric.
#[derive(Clone, Copy, Debug)]
pub enum Call<'c> {
    /// Takes work.
    Claim,
    /// Extends leases.
    Renew,
    /// Says something about work that it holds.
    Report(&'c Report),
    /// Adds children to its flow.
    Extend(&'c ExtendFlow),
    /// Waits for children.
    Wait(&'c WaitChildren),
    /// Makes a waitpoint, or asks for its token again.
    Open(&'c CreateWaitpoint),
    /// Waits for signals, people or a time.
    Suspend(&'c Suspend),
}

/// Watches what workers do, and may hold it up.
#[async_trait]
pub trait Observer: Send + Sync + 'static {
    /// Before a call is made.
    async fn before(&self, call: Call<'_>);
    /// After it was made, with success or not, and before its answer is given.
    async fn after(&self, call: Call<'_>, success: bool);
}

/// A fabric that is observed.
pub struct Observed<O> {
    inner: Arc<dyn Fabric>,
    /// Who watches.
    pub observer: O,
}

impl<O: Observer> Observed<O> {
    /// Has `observer` watch a fabric.
    pub fn new(inner: Arc<dyn Fabric>, observer: O) -> Self {
        Self { inner, observer }
    }

    async fn call<T: Send>(
        &self,
        call: Call<'_>,
        made: impl Future<Output = Result<T, Error>> + Send,
    ) -> Result<T, Error> {
        self.observer.before(call).await;
        let answer = made.await;
        self.observer.after(call, answer.is_ok()).await;
        answer
    }
}

#[async_trait]
impl<O: Observer> Fabric for Observed<O> {
    async fn claim(&self, ask: &ClaimAsk, wait: Duration) -> Result<Vec<Work>, Error> {
        self.call(Call::Claim, self.inner.claim(ask, wait)).await
    }

    async fn renew(&self, leases: Vec<Renew>) -> Result<Vec<Result<(), Error>>, Error> {
        self.call(Call::Renew, self.inner.renew(leases)).await
    }

    fn taken(&self) -> u64 {
        self.inner.taken()
    }

    async fn await_taken(&self, seen: u64) {
        self.inner.await_taken(seen).await;
    }

    async fn report(&self, report: Report) -> Result<(), Error> {
        self.call(Call::Report(&report), self.inner.report(report.clone())).await
    }

    async fn extend_flow(&self, extend: ExtendFlow) -> Result<Extended, Error> {
        self.call(Call::Extend(&extend), self.inner.extend_flow(extend.clone())).await
    }

    async fn wait_children(&self, wait: WaitChildren) -> Result<Waiting, Error> {
        self.call(Call::Wait(&wait), self.inner.wait_children(wait)).await
    }

    async fn create(&self, creates: Vec<Create>) -> Result<Vec<Result<Created, Error>>, Error> {
        self.inner.create(creates).await
    }

    async fn journal(&self, id: ExecutionId) -> Result<Vec<StepRecord>, Error> {
        self.inner.journal(id).await
    }

    async fn now(&self) -> Result<Millis, Error> {
        self.inner.now().await
    }

    async fn wait(&self, id: ExecutionId, wait: Duration) -> Result<PublicState, Error> {
        self.inner.wait(id, wait).await
    }

    async fn wait_result(
        &self,
        id: ExecutionId,
        wait: Duration,
    ) -> Result<(PublicState, Option<Payload>), Error> {
        self.inner.wait_result(id, wait).await
    }

    async fn result(&self, id: ExecutionId) -> Result<Option<Payload>, Error> {
        self.inner.result(id).await
    }

    async fn cancel(&self, cancel: Cancel) -> Result<(), Error> {
        self.inner.cancel(cancel).await
    }

    async fn replay(&self, replay: Replay) -> Result<Replayed, Error> {
        self.inner.replay(replay).await
    }

    async fn hold(&self, hold: Hold) -> Result<(), Error> {
        self.inner.hold(hold).await
    }

    async fn unhold(&self, unhold: Unhold) -> Result<(), Error> {
        self.inner.unhold(unhold).await
    }

    async fn revoke(&self, revoke: Revoke) -> Result<RevokeAnswer, Error> {
        self.inner.revoke(revoke).await
    }

    async fn consumers(&self, page: ConsumerParams) -> Result<ConsumersAnswer, Error> {
        self.inner.consumers(page).await
    }

    async fn drop_consumer(&self, name: ConsumerName) -> Result<(), Error> {
        self.inner.drop_consumer(name).await
    }

    async fn set_priority(&self, change: ChangePriority) -> Result<(), Error> {
        self.inner.set_priority(change).await
    }

    async fn set_tags(&self, id: ExecutionId, edit: TagsRequest) -> Result<(), Error> {
        self.inner.set_tags(id, edit).await
    }

    async fn describe(&self, id: ExecutionId) -> Result<ExecutionSnapshot, Error> {
        self.inner.describe(id).await
    }

    async fn history(&self, id: ExecutionId) -> Result<History, Error> {
        self.inner.history(id).await
    }

    async fn search(&self, search: SearchParams) -> Result<ExecutionPage, Error> {
        self.inner.search(search).await
    }

    async fn lanes(&self) -> Result<LanesAnswer, Error> {
        self.inner.lanes().await
    }

    async fn counts(&self) -> Result<CountsAnswer, Error> {
        self.inner.counts().await
    }
    async fn submit_flow(&self, submit: SubmitFlow) -> Result<FlowCreated, Error> {
        self.inner.submit_flow(submit).await
    }

    async fn inputs(&self, id: ExecutionId) -> Result<Inputs, Error> {
        self.inner.inputs(id).await
    }

    async fn wait_flow(&self, id: FlowId, wait: Duration) -> Result<FlowSnapshot, Error> {
        self.inner.wait_flow(id, wait).await
    }

    async fn flow_summary(&self, id: FlowId) -> Result<FlowSummary, Error> {
        self.inner.flow_summary(id).await
    }

    async fn flow_members(&self, id: FlowId, page: MemberParams) -> Result<MemberPage, Error> {
        self.inner.flow_members(id, page).await
    }

    async fn flow_edges(&self, id: FlowId, page: EdgeParams) -> Result<EdgePage, Error> {
        self.inner.flow_edges(id, page).await
    }

    async fn search_flows(&self, search: FlowSearchParams) -> Result<FlowPage, Error> {
        self.inner.search_flows(search).await
    }

    async fn cancel_flow(
        &self,
        cancel: CancelFlow,
        wait: Duration,
    ) -> Result<CancelFlowAnswer, Error> {
        self.inner.cancel_flow(cancel, wait).await
    }

    async fn seal_flow(&self, id: FlowId) -> Result<FlowWord, Error> {
        self.inner.seal_flow(id).await
    }

    async fn set_flow_tags(&self, id: FlowId, edit: TagsRequest) -> Result<(), Error> {
        self.inner.set_flow_tags(id, edit).await
    }
}
