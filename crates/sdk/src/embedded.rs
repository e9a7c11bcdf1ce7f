//! The engine in this process.

mod waits;

use std::time::Duration;

use async_trait::async_trait;
use ff_core::decide::cancel::Cancel;
use ff_core::decide::cancel_flow::{CancelFlow, FlowCancelled};
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
use ff_core::limits::PAGE_MAX;
use ff_core::state::PublicState;
use ff_core::step::StepRecord;
use ff_core::text::ConsumerName;
use ff_core::{ClaimAsk, Code, ExecutionId, FlowId, Interest, Millis, Rejection};
use ff_engine::{Engine, FlowCancellation, FlowInput, Wait};
use ff_wire::flow::{
    CancelFlowAnswer, EdgePage, EdgeParams, FlowPage, FlowSearchParams, FlowSnapshot, FlowSummary,
    MemberPage, MemberParams,
};
use ff_wire::lane::{CountsAnswer, LaneCount, LanesAnswer};
use ff_wire::steer::{RevokeAnswer, TagsRequest};
use ff_wire::{
    ConsumerParams, ConsumersAnswer, ExecutionPage, ExecutionSnapshot, History, Payload,
    SearchParams,
};

use crate::Error;
use crate::fabric::{Fabric, Input, Inputs, Report, Work};

#[async_trait]
impl Fabric for Engine {
    async fn create(&self, creates: Vec<Create>) -> Result<Vec<Result<Created, Error>>, Error> {
        let answers = self.create_executions(creates).await?;
        Ok(answers.into_iter().map(|one| one.map_err(Error::from)).collect())
    }

    async fn claim(&self, ask: &ClaimAsk, wait: Duration) -> Result<Vec<Work>, Error> {
        let claimed = self.claim(ask.clone(), wait).await?;
        Ok(claimed.into_iter().map(Work::from).collect())
    }

    async fn renew(&self, leases: Vec<Renew>) -> Result<Vec<Result<(), Error>>, Error> {
        let renewed = self.renew_leases(leases).await?;
        Ok(renewed.into_iter().map(|one| one.map(drop).map_err(Error::from)).collect())
    }

    fn taken(&self) -> u64 {
        self.backend().generation(Interest::Taken)
    }

    async fn await_taken(&self, seen: u64) {
        self.backend().wait(Interest::Taken, seen).await;
    }

    async fn report(&self, report: Report) -> Result<(), Error> {
        match report {
            Report::Complete(complete) => self.execute(complete).await?,
            Report::Fail(fail) => {
                self.execute(fail).await?;
            }
            Report::Delay(delay) => {
                self.execute(delay).await?;
            }
            Report::Release(release) => self.execute(release).await?,
            Report::Progress(progress) => self.execute(progress).await?,
            Report::Steps(steps) => self.execute(steps).await?,
        }
        Ok(())
    }

    async fn journal(&self, id: ExecutionId) -> Result<Vec<StepRecord>, Error> {
        let (mut journal, mut next) = self.list_steps(id, None, PAGE_MAX).await?;
        while next.is_some() {
            let (page, after) = self.list_steps(id, next, PAGE_MAX).await?;
            journal.extend(page);
            next = after;
        }
        Ok(journal)
    }

    async fn now(&self) -> Result<Millis, Error> {
        Ok(self.server_time_ms().await?)
    }

    async fn wait(&self, id: ExecutionId, wait: Duration) -> Result<PublicState, Error> {
        Ok(self.await_execution(id, wait).await?)
    }

    async fn wait_result(
        &self,
        id: ExecutionId,
        wait: Duration,
    ) -> Result<(PublicState, Option<Payload>), Error> {
        let (state, result) = self.await_result(id, wait).await?;
        Ok((state, result.map(Payload::from)))
    }

    async fn result(&self, id: ExecutionId) -> Result<Option<Payload>, Error> {
        Ok(self.get_execution_result(id).await?.map(Payload::from))
    }

    async fn cancel(&self, cancel: Cancel) -> Result<(), Error> {
        Ok(self.execute(cancel).await?)
    }

    async fn replay(&self, replay: Replay) -> Result<Replayed, Error> {
        Ok(self.execute(replay).await?)
    }

    async fn hold(&self, hold: Hold) -> Result<(), Error> {
        Ok(self.execute(hold).await?)
    }

    async fn unhold(&self, unhold: Unhold) -> Result<(), Error> {
        Ok(self.execute(unhold).await?)
    }

    async fn revoke(&self, revoke: Revoke) -> Result<RevokeAnswer, Error> {
        Ok(self.revoke_lease(revoke).await?.into())
    }

    async fn consumers(&self, page: ConsumerParams) -> Result<ConsumersAnswer, Error> {
        let (after, limit) = page.into_page()?;
        let (found, next) = self.list_consumers(after, limit).await?;
        Ok(ConsumersAnswer::new(found, next))
    }

    async fn drop_consumer(&self, name: ConsumerName) -> Result<(), Error> {
        Ok(Self::drop_consumer(self, name).await?)
    }

    async fn set_priority(&self, change: ChangePriority) -> Result<(), Error> {
        self.execute(change).await?;
        Ok(())
    }

    async fn set_tags(&self, id: ExecutionId, edit: TagsRequest) -> Result<(), Error> {
        self.execute(edit.into_command(id)).await?;
        Ok(())
    }

    async fn describe(&self, id: ExecutionId) -> Result<ExecutionSnapshot, Error> {
        let found = self.describe_execution(id).await?;
        Ok(found.ok_or_else(|| Rejection::execution_not_found(id))?.into())
    }

    async fn history(&self, id: ExecutionId) -> Result<History, Error> {
        let found = Self::history(self, id).await?;
        Ok(found.ok_or_else(|| Rejection::execution_not_found(id))?.into())
    }

    async fn search(&self, search: SearchParams) -> Result<ExecutionPage, Error> {
        let (search, page) = search.into_query()?;
        let (found, next) = self.search_executions(search, &page).await?;
        Ok(ExecutionPage::new(found, next.as_ref()))
    }

    async fn lanes(&self) -> Result<LanesAnswer, Error> {
        let now = self.server_time_ms().await?;
        Ok(LanesAnswer::new(self.lane_depths().await?, now))
    }

    async fn counts(&self) -> Result<CountsAnswer, Error> {
        let counts = self.count_executions().await?;
        Ok(CountsAnswer { counts: counts.into_iter().map(LaneCount::from).collect() })
    }
    async fn submit_flow(&self, submit: SubmitFlow) -> Result<FlowCreated, Error> {
        Ok(self.execute(submit).await?)
    }

    async fn extend_flow(&self, extend: ExtendFlow) -> Result<Extended, Error> {
        Ok(self.execute(extend).await?)
    }

    async fn wait_children(&self, wait: WaitChildren) -> Result<Waiting, Error> {
        Ok(self.execute(wait).await?)
    }

    async fn inputs(&self, id: ExecutionId) -> Result<Inputs, Error> {
        let inputs = self.read_inputs(id).await?.into_iter();
        let named = |input: FlowInput| {
            let result = input.result.map(Payload::from);
            (input.name.into(), Input { edge: input.state, result })
        };
        Ok(inputs.map(named).collect())
    }

    async fn wait_flow(&self, id: FlowId, wait: Duration) -> Result<FlowSnapshot, Error> {
        if !wait.is_zero() {
            self.await_flow(id, wait).await?;
        }
        Ok(self.describe_flow(id).await?.ok_or_else(|| flow_not_found(id))?.into())
    }

    async fn flow_summary(&self, id: FlowId) -> Result<FlowSummary, Error> {
        Ok(self.project_flow_summary(id).await?.ok_or_else(|| flow_not_found(id))?.into())
    }

    async fn flow_members(&self, id: FlowId, page: MemberParams) -> Result<MemberPage, Error> {
        let (after, limit) = page.into_page()?;
        let (found, next) = self.list_members(id, after, limit).await?;
        Ok(MemberPage::new(found, next))
    }

    async fn flow_edges(&self, id: FlowId, page: EdgeParams) -> Result<EdgePage, Error> {
        let (direction, after, limit) = page.into_query()?;
        let (found, next) = self.list_edges(id, direction, after, limit).await?;
        Ok(EdgePage::new(found, next))
    }

    async fn search_flows(&self, search: FlowSearchParams) -> Result<FlowPage, Error> {
        let (search, page) = search.into_query()?;
        let (found, next) = Self::search_flows(self, search, &page).await?;
        Ok(FlowPage::new(&found, next.as_ref()))
    }

    async fn cancel_flow(
        &self,
        cancel: CancelFlow,
        wait: Duration,
    ) -> Result<CancelFlowAnswer, Error> {
        let CancelFlow { flow, policy, reason } = cancel;
        let wait = if wait.is_zero() { Wait::No } else { Wait::For(wait) };
        let done = Self::cancel_flow(self, flow, policy, reason, wait).await?;
        let FlowCancellation { policy, reason, members, member_count, scheduled, repeated } = done;
        let done = FlowCancelled { policy, reason, members, scheduled, repeated };
        Ok(CancelFlowAnswer::new(done, member_count))
    }

    async fn seal_flow(&self, id: FlowId) -> Result<FlowWord, Error> {
        Ok(Self::seal_flow(self, id).await?)
    }

    async fn set_flow_tags(&self, id: FlowId, edit: TagsRequest) -> Result<(), Error> {
        Self::set_flow_tags(self, id, edit.into_edit()).await?;
        Ok(())
    }
}

fn flow_not_found(id: FlowId) -> Rejection {
    Rejection::new(Code::FlowNotFound, format!("there is no flow {id}"))
}
