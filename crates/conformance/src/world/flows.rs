//! The words in which cases speak about flows.
//!
//! A sketch is a graph in one line: `a>c b>c c>d` has four nodes and three edges. Its nodes are
//! created like a draft of the world: namespace `test`, lane `default`, kind `job`, input `in`.

use std::collections::BTreeSet;

use bytes::Bytes;
use ff_core::backend::Duty;
use ff_core::command::{Operation, Outcome};
use ff_core::decide::add_member::{AddMember, Added};
use ff_core::decide::apply_edge::{Applied, ApplyEdge};
use ff_core::decide::cancel_flow::{CancelFlow, FlowCancelled};
use ff_core::decide::complete::Complete;
use ff_core::decide::create::Create;
use ff_core::decide::create_flow::{CreateFlow, FlowCreated};
use ff_core::decide::extend_flow::{ExtendFlow, Extended};
use ff_core::decide::flow_tags::SetFlowTags;
use ff_core::decide::group_policy::{PolicySet, SetGroupPolicy};
use ff_core::decide::seal_flow::SealFlow;
use ff_core::decide::stage_edge::{StageEdge, Staged};
use ff_core::decide::submit_flow::SubmitFlow;
use ff_core::decide::tags::Edit;
use ff_core::decide::wait_children::{WaitChildren, Waiting};
use ff_core::error::Rejection;
use ff_core::event::{Cursor, Event, Filter};
use ff_core::execution::{Fence, Tags};
use ff_core::flow::{
    Buckets, CancellationPolicy, DependencyKind, Edge, EdgePolicy, FlowWord, Graph, Group, Link,
    Node, NodeRef, OnSatisfied,
};
use ff_core::fold::Key;
use ff_core::policy::{FailureClass, Policy};
use ff_core::query::{Direction, Query, Rows};
use ff_core::text::{FlowKind, NodeName};
use ff_core::{EdgeId, ExecutionId, Flow, FlowId};
use serde_json::Value;

use super::{World, namespace};
use crate::cases::calls::{completion, failure};

/// A graph to submit, or to add to a flow.
pub struct Sketch<'a> {
    world: &'a World,
    submission: SubmitFlow,
}

/// A flow made from a sketch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drawn {
    /// Its id.
    pub flow: FlowId,
}

impl Drawn {
    /// The member of this name.
    pub fn id(&self, node: &str) -> ExecutionId {
        ExecutionId::for_node(self.flow, &name(node))
    }

    /// The members of these names.
    pub fn ids<const N: usize>(&self, nodes: [&str; N]) -> [ExecutionId; N] {
        nodes.map(|node| self.id(node))
    }
}

impl<'a> Sketch<'a> {
    /// Every word is a node, or a chain of nodes in which each waits for the one before it.
    fn new(world: &'a World, flow: FlowId, text: &str) -> Self {
        let mut create = CreateFlow::new(flow, kind("dag"));
        create.namespace = namespace("test");
        let (mut graph, mut seen) = (Graph::default(), BTreeSet::new());
        for chain in text.split_whitespace() {
            let nodes: Vec<_> = chain.split('>').map(name).collect();
            for node in nodes.iter().filter(|node| seen.insert((*node).clone())) {
                let id = ExecutionId::for_node(flow, node);
                graph.nodes.push(Node { name: node.clone(), create: world.draft_of(id) });
            }
            for pair in nodes.windows(2) {
                let [from, to] = [&pair[0], &pair[1]].map(|node| NodeRef::Name(node.clone()));
                graph.links.push(Link::new(from, to));
            }
        }
        let submission = SubmitFlow {
            flow: create,
            graph,
            seal: true,
            idempotency_key: None,
            dedup_window_ms: None,
        };
        Self { world, submission }
    }

    /// More may come.
    #[must_use]
    pub fn open(self) -> Self {
        self.with(|submission| submission.seal = false)
    }

    /// A node waits for something else than everything.
    #[must_use]
    pub fn join(self, node: &str, policy: EdgePolicy) -> Self {
        let node = NodeRef::Name(name(node));
        self.with(|submission| submission.graph.joins.push((node, policy)))
    }

    /// Adapts the creation of a node.
    #[must_use]
    pub fn node(mut self, node: &str, adapt: impl FnOnce(&mut Create)) -> Self {
        let nodes = &mut self.submission.graph.nodes;
        let found = nodes.iter_mut().find(|own| own.name == name(node));
        adapt(&mut found.expect("the node is in the sketch").create);
        self
    }

    /// Every node has this policy.
    #[must_use]
    pub fn policy(mut self, document: &Value) -> Self {
        let policy = Policy::parse(document).expect("the policy is valid");
        for node in &mut self.submission.graph.nodes {
            node.create.policy = policy.clone();
        }
        self
    }

    /// Adapts an edge.
    #[must_use]
    pub fn link(mut self, from: &str, to: &str, adapt: impl FnOnce(&mut Link)) -> Self {
        let ends = [from, to].map(|node| NodeRef::Name(name(node)));
        let links = &mut self.submission.graph.links;
        let found = links.iter_mut().find(|link| [&link.from, &link.to] == [&ends[0], &ends[1]]);
        adapt(found.expect("the edge is in the sketch"));
        self
    }

    /// One waits for another that the sketch does not name.
    #[must_use]
    pub fn between(self, from: NodeRef, to: NodeRef) -> Self {
        self.with(|submission| submission.graph.links.push(Link::new(from, to)))
    }

    /// An edge passes the result on.
    #[must_use]
    pub fn passing(self, from: &str, to: &str) -> Self {
        self.link(from, to, |link| link.data_passing_ref = Some("result".to_owned()))
    }

    /// An edge is satisfied by other ends.
    #[must_use]
    pub fn kind(self, from: &str, to: &str, kind: DependencyKind) -> Self {
        self.link(from, to, |link| link.kind = kind)
    }

    /// Adapts anything.
    #[must_use]
    pub fn with(mut self, adapt: impl FnOnce(&mut SubmitFlow)) -> Self {
        adapt(&mut self.submission);
        self
    }

    /// What it amounts to.
    pub fn submission(self) -> SubmitFlow {
        self.submission
    }

    /// Submits it, which must succeed.
    pub async fn submit(self) -> Drawn {
        let flow = self.submission.flow.id;
        let created = self.world.run(self.submission).await;
        assert_eq!(created, Ok(FlowCreated::Created { flow_id: flow }));
        Drawn { flow }
    }

    /// Adds it to its flow, as an outsider.
    pub async fn extend(self) -> Result<Extended, Rejection> {
        let world = self.world;
        world.run(self.extension(None)).await
    }

    /// Adds it to its flow, as a running member.
    pub async fn extend_as(self, id: ExecutionId, fence: Fence) -> Result<Extended, Rejection> {
        let world = self.world;
        world.run(self.extension(Some((id, fence)))).await
    }

    /// The extension that it amounts to; one made so leaves the seal as it is.
    pub fn extension(self, by: Option<(ExecutionId, Fence)>) -> ExtendFlow {
        let SubmitFlow { flow, graph, .. } = self.submission;
        ExtendFlow { flow: flow.id, graph, seal: false, by }
    }
}

/// Graphs, and what is done to them.
impl World {
    /// The refusal of a command that must be refused and change nothing.
    pub async fn refused<C: Operation>(&self, command: C) -> Rejection {
        let before = self.rows();
        let refused = self.run(command).await.expect_err("it must be refused");
        assert_eq!(self.rows(), before, "a refused command changes nothing: {refused}");
        refused
    }

    /// A sketch of a new flow, sealed.
    pub fn sketch(&self, text: &str) -> Sketch<'_> {
        Sketch::new(self, self.flow_id(), text)
    }

    /// A sketch of more for a flow that is there.
    pub fn more(&self, flow: FlowId, text: &str) -> Sketch<'_> {
        Sketch::new(self, flow, text)
    }

    /// A new id.
    pub fn flow_id(&self) -> FlowId {
        FlowId(self.uuid())
    }

    /// A creation to adapt, of the execution with this id.
    pub fn draft_of(&self, id: ExecutionId) -> Create {
        Create { id, ..self.draft() }
    }

    /// Creates an empty flow of kind `dag` in namespace `test`, open.
    pub async fn empty_flow(&self) -> FlowId {
        let created = self.run(self.flow_draft()).await.expect("the creation is valid");
        created.flow_id()
    }

    /// The creation of a flow, to adapt.
    pub fn flow_draft(&self) -> CreateFlow {
        CreateFlow { namespace: namespace("test"), ..CreateFlow::new(self.flow_id(), kind("dag")) }
    }

    /// A new flow in the partition of another.
    pub async fn flow_beside(&self, flow: FlowId) -> FlowId {
        let mut draft = self.flow_draft();
        while draft.id.partition() != flow.partition() {
            draft.id = self.flow_id();
        }
        self.run(draft).await.expect("the creation is valid").flow_id()
    }

    /// Creates an execution where members of `flow` lie.
    pub async fn candidate(&self, flow: FlowId) -> ExecutionId {
        self.create(self.draft_of(ExecutionId::for_flow(flow, self.uuid()))).await
    }

    /// Creates an execution and adds it to `flow`.
    pub async fn member(&self, flow: FlowId) -> ExecutionId {
        let id = self.candidate(flow).await;
        self.add(flow, id).await.expect("the flow takes it");
        id
    }

    /// Creates so many members.
    pub async fn members<const N: usize>(&self, flow: FlowId) -> [ExecutionId; N] {
        let mut ids = [ExecutionId::FIRST; N];
        for id in &mut ids {
            *id = self.member(flow).await;
        }
        ids
    }

    /// Adds an execution to a flow.
    pub async fn add(&self, flow: FlowId, execution: ExecutionId) -> Result<Added, Rejection> {
        self.run(AddMember { flow, execution }).await
    }

    /// The staging of an edge, at the current revision, to adapt.
    pub async fn staging(&self, flow: FlowId, from: ExecutionId, to: ExecutionId) -> StageEdge {
        let expected_revision = self.find_flow(flow).await.map_or(0, |flow| flow.revision);
        StageEdge {
            flow,
            edge: EdgeId(self.uuid()),
            upstream: from,
            downstream: to,
            kind: DependencyKind::SuccessOnly,
            name: None,
            data_passing_ref: None,
            expected_revision,
        }
    }

    /// Stages an edge at the current revision.
    pub async fn stage(
        &self,
        flow: FlowId,
        from: ExecutionId,
        to: ExecutionId,
    ) -> Result<Staged, Rejection> {
        self.run(self.staging(flow, from, to).await).await
    }

    /// Applies an edge.
    pub async fn apply(&self, flow: FlowId, edge: EdgeId) -> Result<Applied, Rejection> {
        self.run(ApplyEdge { flow, edge, upstream: None, downstream: None }).await
    }

    /// Stages and applies an edge, which must succeed.
    pub async fn link(&self, flow: FlowId, from: ExecutionId, to: ExecutionId) -> EdgeId {
        let staged = self.stage(flow, from, to).await.expect("the edge is valid");
        self.apply(flow, staged.edge_id).await.expect("the edge is staged");
        staged.edge_id
    }

    /// Sets what an execution waits for.
    pub async fn wait_for(
        &self,
        flow: FlowId,
        downstream: ExecutionId,
        policy: EdgePolicy,
    ) -> Result<PolicySet, Rejection> {
        self.run(SetGroupPolicy { flow, downstream, policy, version: None }).await
    }

    /// Seals a flow.
    pub async fn seal(&self, flow: FlowId) -> Result<FlowWord, Rejection> {
        self.run(SealFlow { flow }).await
    }

    /// Cancels a flow, for the reason `enough`.
    pub async fn cancel_flow(
        &self,
        flow: FlowId,
        policy: CancellationPolicy,
    ) -> Result<FlowCancelled, Rejection> {
        self.run(CancelFlow { flow, policy, reason: "enough".to_owned() }).await
    }

    /// Sets tags of a flow.
    pub async fn tag_flow(&self, flow: FlowId, set: Tags) -> Result<usize, Rejection> {
        self.run(SetFlowTags { flow, edit: Edit { set, remove: BTreeSet::new(), version: None } })
            .await
    }

    /// Gives a member back until what it waits for is decided.
    pub async fn wait_children(
        &self,
        flow: FlowId,
        id: ExecutionId,
        fence: Fence,
    ) -> Result<Waiting, Rejection> {
        self.run(WaitChildren { id, flow, fence }).await
    }
}

/// Work on members.
impl World {
    /// Claims exactly this execution, whatever else is claimable.
    pub async fn start(&self, id: ExecutionId) -> Fence {
        let leased = self.run(self.ask(1).claim(id)).await;
        leased.unwrap_or_else(|refused| panic!("{id} is not claimable: {refused}")).fence
    }

    /// Claims it and completes it, with the result `out`.
    pub async fn succeed(&self, id: ExecutionId) {
        let fence = self.start(id).await;
        self.complete(id, fence).await.expect("it is held");
    }

    /// Claims it and completes it with these bytes.
    pub async fn succeed_with(&self, id: ExecutionId, result: &'static [u8]) {
        let fence = self.start(id).await;
        self.run(completion(id, fence, result)).await.expect("it is held");
    }

    /// Claims it and completes it without a result.
    pub async fn succeed_silently(&self, id: ExecutionId) {
        let fence = self.start(id).await;
        self.run(Complete { id, fence, result: None, encoding: None }).await.expect("it is held");
    }

    /// Claims it and fails it, permanently.
    pub async fn fail_for_good(&self, id: ExecutionId) {
        let fence = self.start(id).await;
        let failed = self.run(failure(id, fence, FailureClass::Permanent, "oops")).await;
        failed.expect("it is held");
    }

    /// Tells flows of members that ended, until there is nothing to tell; the answers.
    pub async fn dispatch(&self) -> Vec<Outcome> {
        /// No graph in the suite is deeper.
        const ROUNDS_MAX: u32 = 100;
        let mut answers = Vec::new();
        for _ in 0..ROUNDS_MAX {
            let round = self.tick(Duty::CompletionDispatch).await;
            if round.is_empty() {
                return answers;
            }
            assert!(round.iter().all(Result::is_ok), "a duty is never refused: {round:?}");
            answers.extend(round);
        }
        panic!("there is always something left to dispatch")
    }

    /// What it would be handed as its input now, if it were claimed from lane `default`.
    pub async fn input_of(&self, id: ExecutionId) -> Option<Bytes> {
        let claimed = self.claim(self.ask(1_000)).await;
        let own = claimed.into_iter().find(|claimed| claimed.leased.execution.id == id);
        own.unwrap_or_else(|| panic!("{id} is not claimable")).input.map(|blob| blob.bytes)
    }
}

/// Looks at flows.
impl World {
    /// The flow, if it exists.
    pub async fn find_flow(&self, flow: FlowId) -> Option<Flow> {
        let have = self.store.backend.get(&[Key::Flow(flow)]).await.expect("the store works");
        have.graph.flows.get(&flow).cloned().flatten()
    }

    /// The flow, which must exist.
    pub async fn flow(&self, flow: FlowId) -> Flow {
        self.find_flow(flow).await.unwrap_or_else(|| panic!("flow {flow} is gone"))
    }

    /// Its state, without its data.
    pub async fn flow_state(&self, flow: FlowId) -> FlowWord {
        self.flow(flow).await.state.word()
    }

    /// The group of the edges into an execution, if there is one.
    pub async fn find_group(&self, flow: FlowId, id: ExecutionId) -> Option<Group> {
        let have = self.store.backend.get(&[Key::Group(flow, id)]).await.expect("the store works");
        have.graph.group((flow, id)).cloned()
    }

    /// The group of the edges into an execution, which must exist.
    pub async fn group(&self, flow: FlowId, id: ExecutionId) -> Group {
        let found = self.find_group(flow, id).await;
        found.unwrap_or_else(|| panic!("{id} has no group"))
    }

    /// How the edges into an execution are resolved: applied, satisfied, failed, skipped.
    pub async fn counted(&self, flow: FlowId, id: ExecutionId) -> [u32; 4] {
        let counters = self.group(flow, id).await.counters;
        [counters.total, counters.satisfied, counters.failed, counters.skipped]
    }

    /// The edge from one execution to another, which must exist.
    pub async fn edge(&self, flow: FlowId, from: ExecutionId, to: ExecutionId) -> Edge {
        let edges = self.edges(flow, Direction::Outgoing(from)).await;
        let found = edges.into_iter().find(|edge| edge.downstream == to);
        found.unwrap_or_else(|| panic!("no edge leads from {from} to {to}"))
    }

    /// Edges of a flow, by id.
    pub async fn edges(&self, flow: FlowId, direction: Direction) -> Vec<Edge> {
        match self.list(&Query::Edges(flow, direction), 1_000).await {
            Rows::Edges(edges) => edges,
            other => panic!("edges were asked for, not {other:?}"),
        }
    }

    /// How many members are in each public state.
    pub async fn buckets(&self, flow: FlowId) -> Buckets {
        match self.list(&Query::Buckets(flow), 1).await {
            Rows::Buckets(buckets) => buckets,
            other => panic!("buckets were asked for, not {other:?}"),
        }
    }

    /// What happened to the flow itself, in order.
    pub async fn flow_events(&self, flow: FlowId) -> Vec<Event> {
        let filter = Filter { flow: Some(flow), ..Filter::default() };
        let (mut from, mut own) = (Cursor::Start, Vec::new());
        loop {
            let page = self.feed(&from, &filter, 1_000).await;
            let events = page.events.iter().map(|event| event.event.clone());
            own.extend(events.filter(|event| event.execution.is_none()));
            if page.events.is_empty() {
                return own;
            }
            from = page.next;
        }
    }

    /// The names of what happened to the flow itself, in order.
    pub async fn flow_event_names(&self, flow: FlowId) -> Vec<&'static str> {
        let events = self.flow_events(flow).await;
        events.into_iter().map(|event| event.kind.name().as_str()).collect()
    }

    /// The names of what happened to the flow and its members, in order.
    pub async fn told(&self, flow: FlowId) -> Vec<(ExecutionId, &'static str)> {
        let filter = Filter { flow: Some(flow), ..Filter::default() };
        let page = self.feed(&Cursor::Start, &filter, 1_000).await;
        let told = page.events.iter().map(|e| (e.event.subject(), e.event.kind.name().as_str()));
        told.collect()
    }
}

/// A node's name.
pub fn name(node: &str) -> NodeName {
    NodeName::new(node).expect("a valid name")
}

/// A kind of flow.
pub fn kind(kind: &str) -> FlowKind {
    FlowKind::new(kind).expect("a valid kind")
}

/// The first edge decides, and the rest is cancelled.
pub fn any_of() -> EdgePolicy {
    EdgePolicy::any_of(OnSatisfied::CancelRemaining)
}

/// The first edge decides, and the rest runs on.
pub fn any_let_run() -> EdgePolicy {
    EdgePolicy::any_of(OnSatisfied::LetRun)
}

/// So many edges decide, and the rest is cancelled.
pub fn quorum(k: u32) -> EdgePolicy {
    EdgePolicy::quorum(k, OnSatisfied::CancelRemaining)
}

/// So many edges decide, and the rest runs on.
pub fn quorum_let_run(k: u32) -> EdgePolicy {
    EdgePolicy::quorum(k, OnSatisfied::LetRun)
}
