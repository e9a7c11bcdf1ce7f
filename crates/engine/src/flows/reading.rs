//! Reading flows.

use std::time::Duration;

use ff_core::backend::Interest;
use ff_core::execution::State;
use ff_core::flow::{EdgeWord, Flow, GroupState};
use ff_core::fold::{Blob, BlobRef, Key};
use ff_core::limits::PAGE_MAX;
use ff_core::query::{After, Direction, FlowSearch, Page, Query, Rows};
use ff_core::text::{EdgeName, check_tag_key};
use ff_core::view::{EdgeSnapshot, ExecutionSnapshot, FlowSnapshot, FlowSummary};
use ff_core::{EdgeId, ExecutionId, FlowId, Partition, Rejection};
use tokio::time::Instant;

use crate::executions::{id_of, newest_first};
use crate::{Engine, Error, deadline};

/// Up to so many members, a flow and all its groups, at most one for each, are read at one moment.
const AT_ONCE_MEMBERS_MAX: u32 = 10_000;

/// The least between two looks at a flow that is waited for.
const LOOK_AGAIN: Duration = Duration::from_millis(3);

/// What an upstream gives to an execution that waits for it.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowInput {
    /// The name of the edge.
    pub name: EdgeName,
    /// The upstream.
    pub from: ExecutionId,
    /// Whether the edge is satisfied.
    pub state: EdgeWord,
    /// Its result; nothing when it ended without one, or the edge is not satisfied.
    pub result: Option<Blob>,
}

/// Whether an execution may be claimed, as far as its flow is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Eligibility {
    /// There is no such execution.
    NotFound,
    /// It has ended.
    Terminal,
    /// It waits for a signal, an operator or a time.
    NotRunnable,
    /// A worker holds it.
    Owned,
    /// It waits for nothing in its flow.
    Eligible,
    /// What it waits for can never be.
    Impossible,
    /// It waits for others.
    BlockedByDependencies,
}

impl Eligibility {
    /// The word that users see.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotFound => "not_found",
            Self::Terminal => "terminal",
            Self::NotRunnable => "not_runnable",
            Self::Owned => "owned",
            Self::Eligible => "eligible",
            Self::Impossible => "impossible",
            Self::BlockedByDependencies => "blocked_by_dependencies",
        }
    }
}

impl Engine {
    /// The flow itself, if it exists.
    pub async fn find_flow(&self, id: FlowId) -> Result<Option<Flow>, Error> {
        let mut have = self.backend.get(&[Key::Flow(id)]).await?;
        Ok(have.graph.flows.remove(&id).flatten())
    }

    pub(super) async fn existing_flow(&self, id: FlowId) -> Result<Flow, Error> {
        let have = self.backend.get(&[Key::Flow(id)]).await?;
        Ok(have.graph.flow(id)?.clone())
    }

    /// Everything a person wants to see of a flow, without its members.
    pub async fn describe_flow(&self, id: FlowId) -> Result<Option<FlowSnapshot>, Error> {
        let Some(flow) = self.find_flow(id).await? else { return Ok(None) };
        if flow.nodes == 0 {
            return Ok(Some(FlowSnapshot::of(&flow, &[], false)));
        }
        if flow.nodes > AT_ONCE_MEMBERS_MAX {
            let page = Page::first(PAGE_MAX);
            let listing = self.backend.list(&Query::Groups(id), &page).await?;
            let more = listing.next.is_some();
            return Ok(Some(FlowSnapshot::of(&flow, &rows!(Groups, listing.rows), more)));
        }
        let have = self.backend.get(&[Key::Flow(id), Key::Groups(id)]).await?;
        let Some(flow) = have.graph.known_flow(id) else { return Ok(None) };
        let mut groups: Vec<_> = have.graph.groups.values().flatten().cloned().collect();
        let max = usize::try_from(PAGE_MAX).unwrap_or(usize::MAX);
        let more = groups.len() > max;
        groups.truncate(max);
        Ok(Some(FlowSnapshot::of(flow, &groups, more)))
    }

    /// What its members are doing, counted now.
    pub async fn project_flow_summary(&self, id: FlowId) -> Result<Option<FlowSummary>, Error> {
        let now = self.backend.now().await?;
        let Some(flow) = self.find_flow(id).await? else { return Ok(None) };
        let listing = self.backend.list(&Query::Buckets(id), &Page::first(PAGE_MAX)).await?;
        let buckets = rows!(Buckets, listing.rows);
        Ok(Some(FlowSummary::of(&flow, &buckets, now)))
    }

    /// The value of one of its tags; nothing also when there is no such flow.
    pub async fn get_flow_tag(&self, id: FlowId, key: &str) -> Result<Option<String>, Error> {
        check_tag_key(key)?;
        Ok(self.find_flow(id).await?.and_then(|flow| flow.tags.get(key).cloned()))
    }

    /// Flows of one partition, ascending by id, after `after`; and where the next page begins.
    pub async fn list_flows(
        &self,
        partition: Partition,
        after: Option<FlowId>,
        limit: u32,
    ) -> Result<(Vec<Flow>, Option<FlowId>), Error> {
        let page = Page { after: after.map(|flow| After::Uuid(flow.0)), limit };
        let listing = self.backend.list(&Query::FlowPartition(partition), &page).await?;
        let flows = rows!(Flows, listing.rows);
        let next = listing.next.and_then(|_| Some(flows.last()?.id));
        Ok((flows, next))
    }

    /// Flows over all partitions, newest first; and where the next page begins.
    pub async fn search_flows(
        &self,
        search: FlowSearch,
        page: &Page,
    ) -> Result<(Vec<Flow>, Option<After>), Error> {
        newest_first(page)?;
        let listing = self.backend.list(&Query::Flows(Box::new(search)), page).await?;
        Ok((rows!(Flows, listing.rows), listing.next))
    }

    /// Edges of a flow, by id, after `after`; and where the next page begins.
    pub async fn list_edges(
        &self,
        flow: FlowId,
        direction: Direction,
        after: Option<EdgeId>,
        limit: u32,
    ) -> Result<(Vec<EdgeSnapshot>, Option<EdgeId>), Error> {
        let flow = self.existing_flow(flow).await?;
        let page = Page { after: after.map(|edge| After::Uuid(edge.0)), limit };
        let listing = self.backend.list(&Query::Edges(flow.id, direction), &page).await?;
        let edges = rows!(Edges, listing.rows);
        let next = listing.next.and_then(|_| Some(edges.last()?.id));
        Ok((edges.iter().map(|edge| EdgeSnapshot::of(edge, &flow)).collect(), next))
    }

    /// One edge; nothing when the flow has none with this id.
    pub async fn describe_edge(
        &self,
        flow: FlowId,
        edge: EdgeId,
    ) -> Result<Option<EdgeSnapshot>, Error> {
        let keys = [Key::Flow(flow), Key::Edge(flow, edge)];
        let have = self.backend.get(&keys).await?;
        let edge = have.graph.edges.get(&(flow, edge)).and_then(Option::as_ref);
        let both = have.graph.known_flow(flow).zip(edge);
        Ok(both.map(|(flow, edge)| EdgeSnapshot::of(edge, flow)))
    }

    /// Members of a flow, by id, after `after`; and where the next page begins.
    pub async fn list_members(
        &self,
        flow: FlowId,
        after: Option<ExecutionId>,
        limit: u32,
    ) -> Result<(Vec<ExecutionSnapshot>, Option<ExecutionId>), Error> {
        let now = self.backend.now().await?;
        let page = Page { after: after.map(After::Id), limit };
        let listing = self.backend.list(&Query::Members(flow), &page).await?;
        let members = rows!(Executions, listing.rows);
        // The last row may have been removed since it was found.
        let next = listing.next.as_ref().map(id_of);
        Ok((members.iter().map(|x| ExecutionSnapshot::of(x, now)).collect(), next))
    }

    /// The flow of an execution; nothing when it has none, or does not exist.
    pub async fn resolve_execution_flow_id(
        &self,
        id: ExecutionId,
    ) -> Result<Option<FlowId>, Error> {
        Ok(self.find_execution(id).await?.and_then(|x| x.flow()))
    }

    /// Whether an execution may be claimed, as far as its flow is concerned.
    pub async fn evaluate_flow_eligibility(&self, id: ExecutionId) -> Result<Eligibility, Error> {
        let Some(x) = self.find_execution(id).await? else { return Ok(Eligibility::NotFound) };
        match &x.state {
            State::Active(_) => return Ok(Eligibility::Owned),
            State::Terminal(_) => return Ok(Eligibility::Terminal),
            State::Suspended(_) => return Ok(Eligibility::NotRunnable),
            State::Runnable(runnable) if !runnable.gated => return Ok(Eligibility::Eligible),
            State::Runnable(_) => {}
        }
        let Some(flow) = x.flow() else { return Ok(Eligibility::Eligible) };
        let have = self.backend.get(&[Key::Flow(flow), Key::Group(flow, id)]).await?;
        let fired = have.graph.group((flow, id)).map(|group| group.state);
        Ok(match fired {
            Some(GroupState::Impossible { .. }) => Eligibility::Impossible,
            // It was let go since the execution was read.
            None | Some(GroupState::Satisfied { .. }) => Eligibility::Eligible,
            Some(GroupState::Pending) => Eligibility::BlockedByDependencies,
        })
    }

    /// What those that an execution waits for give it, by the name of the edge: all edges that have
    /// one, with results where they are satisfied.
    pub async fn read_inputs(&self, id: ExecutionId) -> Result<Vec<FlowInput>, Error> {
        let found = self.find_execution(id).await?;
        let x = found.ok_or_else(|| Rejection::execution_not_found(id))?;
        let Some(flow) = x.flow() else { return Ok(Vec::new()) };
        let mut named: Vec<FlowInput> = Vec::new();
        let mut after = None;
        loop {
            let page = Page { after, limit: PAGE_MAX };
            let query = Query::Edges(flow, Direction::Incoming(id));
            let listing = self.backend.list(&query, &page).await?;
            after = listing.next;
            let edges = rows!(Edges, listing.rows).into_iter();
            named.extend(edges.filter_map(|edge| {
                let (from, state) = (edge.upstream, edge.state.word());
                Some(FlowInput { name: edge.name?, from, state, result: None })
            }));
            if after.is_none() {
                break;
            }
        }
        let given = || named.iter().filter(|input| input.state == EdgeWord::Satisfied);
        let keys: Vec<_> = given().map(|input| Key::Execution(input.from)).collect();
        let have = self.backend.get(&keys).await?;
        // Those whose edge is not satisfied were not read.
        let result = |id: ExecutionId| BlobRef::result(have.execution(id).ok()?);
        let refs: Vec<_> = given().filter_map(|input| result(input.from)).collect();
        let mut blobs = self.backend.blobs(&refs).await?;
        for input in &mut named {
            let at = result(input.from);
            let found = blobs.iter().position(|blob| Some(&blob.at) == at.as_ref());
            input.result = found.map(|found| blobs.swap_remove(found));
        }
        named.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(named)
    }

    /// Waits until a flow has ended, up to `wait`; as it is then.
    pub async fn await_flow(&self, id: FlowId, wait: Duration) -> Result<Flow, Error> {
        let deadline = deadline(wait);
        let generation = |interest| self.backend.generation(interest);
        let mut in_vain = false;
        loop {
            let (ends, events) = (generation(Interest::Ends), generation(Interest::Events));
            let flow = self.existing_flow(id).await?;
            let left = deadline.saturating_duration_since(Instant::now());
            if flow.is_terminal() || left.is_zero() {
                return Ok(flow);
            }
            // Many others may end.
            if in_vain {
                tokio::time::sleep(LOOK_AGAIN).await;
            }
            // A flow that ends here is looked at when it does. For what others do it is early enough
            // a moment after they did something, whatever that was.
            let news = async {
                tokio::select! {
                    () = self.backend.wait(Interest::Ends, ends) => true,
                    () = async {
                        self.backend.wait(Interest::Events, events).await;
                        tokio::time::sleep(LOOK_AGAIN).await;
                    } => false,
                }
            };
            in_vain = tokio::time::timeout(left.min(self.poll), news).await.unwrap_or(false);
        }
    }
}
