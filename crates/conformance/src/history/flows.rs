//! What authors make up about flows: small graphs that grow, join, are cancelled and read.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use ff_core::command::Command;
use ff_core::decide::add_member::AddMember;
use ff_core::decide::apply_edge::ApplyEdge;
use ff_core::decide::cancel_flow::CancelFlow;
use ff_core::decide::cancel_owed::CancelOwed;
use ff_core::decide::complete::Complete;
use ff_core::decide::create::Create;
use ff_core::decide::create_flow::CreateFlow;
use ff_core::decide::dispatch::DispatchCompletion;
use ff_core::decide::extend_flow::ExtendFlow;
use ff_core::decide::flow_tags::SetFlowTags;
use ff_core::decide::group_policy::SetGroupPolicy;
use ff_core::decide::reconcile_group::ReconcileGroup;
use ff_core::decide::seal_flow::SealFlow;
use ff_core::decide::sibling_cancel::CancelSiblings;
use ff_core::decide::sibling_reconcile::ReconcileSiblings;
use ff_core::decide::stage_edge::StageEdge;
use ff_core::decide::start_released::StartReleased;
use ff_core::decide::submit_flow::SubmitFlow;
use ff_core::decide::tags::Edit;
use ff_core::decide::trim_flow::TrimFlow;
use ff_core::decide::wait_children::WaitChildren;
use ff_core::flow::{
    CancellationPolicy, DependencyKind, EdgePolicy, FlowWord, Graph, Link, Node, NodeRef,
    OnImpossible, OnSatisfied,
};
use ff_core::query::{Direction, FlowSearch, Query};
use ff_core::text::{EdgeName, IdempotencyKey};
use ff_core::{Config, EdgeId, ExecutionId, Fence, FlowId, Policy};
use rand::RngExt;
use rand::seq::IndexedRandom;
use uuid::Uuid;

use super::author::Author;
use super::{Draft, News};
use crate::world::{kind, name, namespace};

/// What an author remembers of flows.
#[derive(Default)]
pub(super) struct Flows {
    known: Vec<FlowId>,
    /// Those that were there once, in the order in which they came.
    made: Vec<FlowId>,
    /// Their members.
    members: BTreeMap<FlowId, BTreeSet<ExecutionId>>,
    staged: Vec<(FlowId, EdgeId)>,
    /// The graph as it was last seen, as far as that is known.
    revisions: BTreeMap<FlowId, u64>,
    /// Leases that were given and not given back.
    pub held: Vec<(ExecutionId, Fence)>,
}

impl Flows {
    pub fn learn(&mut self, news: News) {
        match news {
            News::Members(flow, ids) => {
                if !self.members.contains_key(&flow) {
                    self.made.push(flow);
                }
                self.members.entry(flow).or_default().extend(ids);
            }
            News::Member(flow, id) => {
                self.members.entry(flow).or_default().insert(id);
                *self.revisions.entry(flow).or_default() += 1;
            }
            News::Revision(flow, revision) => drop(self.revisions.insert(flow, revision)),
            News::Staged(flow, edge) => self.staged.push((flow, edge)),
            News::GivenBack(id) => self.held.retain(|(held, _)| *held != id),
            News::Token(..) => {}
        }
    }

    /// The flow that an execution is, or was, a member of.
    fn of(&self, id: ExecutionId) -> Option<FlowId> {
        let own = self.members.iter().find(|(_, members)| members.contains(&id));
        own.map(|(flow, _)| *flow)
    }
}

/// Flows of one history.
const FLOWS_MAX: usize = 8;
/// Names of nodes.
const NAMES: [&str; 7] = ["a", "b", "c", "d", "e", "f", "g"];

impl Author {
    /// One of few flows, known to any store or not.
    pub fn some_flow(&mut self) -> FlowId {
        // Mostly a recent one, so that histories go deep.
        let made = &self.flows.made[self.flows.made.len().saturating_sub(2)..];
        if let Some(flow) = made.choose(&mut self.rng).filter(|_| self.rng.random_bool(0.85)) {
            return *flow;
        }
        let fresh = self.flows.known.len() < FLOWS_MAX && self.rng.random_bool(0.5);
        if fresh || self.flows.known.is_empty() {
            self.flows.known.push(FlowId(Uuid::from_u128(self.rng.random())));
        }
        *self.flows.known.choose(&mut self.rng).expect("there is one")
    }

    /// One that is not there yet, if there may be more.
    fn fresh_flow(&mut self) -> FlowId {
        if self.flows.made.len() >= FLOWS_MAX {
            return self.some_flow();
        }
        let flow = FlowId(Uuid::from_u128(self.rng.random()));
        self.flows.known.push(flow);
        flow
    }

    /// An id for an execution that may be added to a flow, or that was, and may be gone.
    pub fn id_in_flows(&mut self) -> ExecutionId {
        if self.rng.random_ratio(1, 12) {
            return self.any_member();
        }
        let uuid = Uuid::from_u128(self.rng.random());
        let beside = self.rng.random_bool(0.6).then(|| self.some_flow());
        beside.map_or(ExecutionId::solo(uuid), |flow| ExecutionId::for_flow(flow, uuid))
    }

    pub fn any_member(&mut self) -> ExecutionId {
        let flow = self.some_flow();
        self.some_member(flow)
    }

    /// An execution that may belong to `flow`.
    fn some_member(&mut self, flow: FlowId) -> ExecutionId {
        let members = self.flows.members.get(&flow).into_iter().flatten();
        let members: Vec<_> = members.copied().collect();
        if let Some(id) = members.choose(&mut self.rng).filter(|_| self.rng.random_bool(0.9)) {
            return *id;
        }
        self.some_id()
    }

    /// A member that somebody holds, as far as is known, and its flow.
    pub fn held_member(&mut self) -> Option<(FlowId, ExecutionId, Fence)> {
        let recent = self.flows.held.iter().rev().take(6);
        let own = recent.filter_map(|(id, fence)| Some((self.flows.of(*id)?, *id, *fence)));
        own.collect::<Vec<_>>().choose(&mut self.rng).copied()
    }

    /// What a worker sends that has others do a part of its work.
    pub fn spawn(&mut self) -> Vec<Draft> {
        let flow = self.some_flow();
        let extension = self.extension(flow);
        let Some((id, fence)) = extension.by else { return vec![self.checked(extension)] };
        let waiting = WaitChildren { id, flow: extension.flow, fence };
        vec![self.checked(extension), waiting.into()]
    }

    /// What an engine sends when a worker of a flow is done and asks for more.
    pub fn finish_member(&mut self) -> Vec<Draft> {
        let flow = self.some_flow();
        let (id, fence) = self.held();
        let (flow, id, fence) = self.held_member().unwrap_or((flow, id, fence));
        let result = self.rng.random_bool(0.7).then(|| Bytes::from_static(b"out"));
        let complete = Complete { id, fence, result, encoding: None };
        let dispatch = DispatchCompletion { flow, execution: id, eager: true };
        let mut batch = vec![complete.into(), dispatch.into()];
        if self.rng.random_bool(0.7) {
            batch.push(StartReleased { ask: self.ask() }.into());
        }
        batch
    }

    fn some_name(&mut self) -> &'static str {
        NAMES.choose(&mut self.rng).expect("there are some")
    }

    /// What is done to flows, due or not.
    pub fn tend_flow(&mut self) -> Draft {
        let flow = self.some_flow();
        if self.flows.made.is_empty() && self.rng.random_bool(0.7) {
            let submission = self.submission();
            return self.checked(submission);
        }
        match self.rng.random_range(0..36) {
            0 | 1 => self.create_flow(flow).into(),
            2..6 => {
                let submission = self.submission();
                self.checked(submission)
            }
            6..9 => {
                let extension = self.extension(flow);
                self.checked(extension)
            }
            9..11 => AddMember { flow, execution: self.some_id() }.into(),
            11..15 => {
                let staging = self.staging(flow);
                self.checked(staging)
            }
            15..18 => self.applying(flow),
            18 => {
                let downstream = self.some_member(flow);
                SetGroupPolicy { flow, downstream, policy: self.policy(), version: None }.into()
            }
            19 => SealFlow { flow }.into(),
            20 => {
                let edit = Edit { set: self.tags(), ..Edit::default() };
                SetFlowTags { flow, edit }.into()
            }
            21..24 => self.waiting(flow).into(),
            24 => {
                let policy = CancellationPolicy::ALL.choose(&mut self.rng);
                let policy = *policy.expect("there are three");
                CancelFlow { flow, policy, reason: "enough".to_owned() }.into()
            }
            _ => self.look_after_flow(flow),
        }
    }

    /// Stores are sent what passed the first check only; something else where this does not.
    fn checked(&mut self, command: impl Into<Command>) -> Draft {
        let command = command.into();
        if command.validate(&Config::default()).is_ok() {
            return Draft::Whole(Box::new(command));
        }
        let flow = self.some_flow();
        self.look_after_flow(flow)
    }

    fn look_after_flow(&mut self, flow: FlowId) -> Draft {
        let downstream = self.some_member(flow);
        match self.rng.random_range(0..12) {
            0..4 => {
                let eager = self.rng.random();
                DispatchCompletion { flow, execution: downstream, eager }.into()
            }
            4..6 => CancelSiblings { flow, downstream }.into(),
            6 => ReconcileSiblings { flow, downstream }.into(),
            7 | 8 => ReconcileGroup { flow, downstream }.into(),
            9 => CancelOwed { flow }.into(),
            10 => TrimFlow { flow }.into(),
            _ => StartReleased { ask: self.ask() }.into(),
        }
    }

    fn create_flow(&mut self, flow: FlowId) -> CreateFlow {
        let other = self.rng.random_ratio(1, 8);
        CreateFlow {
            namespace: namespace(if other { "other" } else { "test" }),
            tags: if self.rng.random_bool(0.3) { self.tags() } else { [].into() },
            ..CreateFlow::new(flow, kind("dag"))
        }
    }

    fn submission(&mut self) -> SubmitFlow {
        let fresh = self.rng.random_bool(0.8);
        let flow = if fresh { self.fresh_flow() } else { self.some_flow() };
        let create = self.create_flow(flow);
        let size = self.rng.random_range(1..=5);
        let mut graph = self.graph(flow, &NAMES[..size]);
        for node in &mut graph.nodes {
            node.create.namespace = create.namespace.clone();
        }
        let key = self.rng.random_bool(0.1).then(|| "k0".to_owned());
        SubmitFlow {
            flow: create,
            graph,
            seal: self.rng.random_bool(0.3),
            idempotency_key: key.map(|key| IdempotencyKey::new(key).expect("a valid key")),
            dedup_window_ms: None,
        }
    }

    /// A few nodes, with edges that mostly lead from earlier to later ones.
    fn graph(&mut self, flow: FlowId, names: &[&str]) -> Graph {
        let mut graph = Graph::default();
        for node in names {
            let id = ExecutionId::for_node(flow, &name(node));
            let draft = self.create();
            // It is known when it is there.
            self.ids.pop();
            let mut create =
                Create { id, namespace: namespace("test"), idempotency_key: None, ..draft };
            if self.rng.random_bool(0.8) {
                // One that a worker may take at once, so that histories go deep.
                create.policy = Policy::default();
                (create.delay_until, create.delay_ms, create.deadline_at) = (None, None, None);
            }
            create.policy.retention_ms = Some(1_000);
            graph.nodes.push(Node { name: name(node), create });
        }
        for (at, to) in names.iter().enumerate() {
            for from in &names[..at] {
                if self.rng.random_bool(0.5) {
                    graph.links.push(self.link(from, to));
                }
            }
        }
        if self.rng.random_ratio(1, 15) {
            let (from, to) = (self.some_name(), self.some_name());
            graph.links.push(self.link(from, to));
        }
        for (at, node) in names.iter().enumerate() {
            if at > 0 && self.rng.random_bool(0.6) {
                graph.joins.push((NodeRef::Name(name(node)), self.policy()));
            }
        }
        one_input(&mut graph);
        graph
    }

    fn link(&mut self, from: &str, to: &str) -> Link {
        let mut link = Link::new(NodeRef::Name(name(from)), NodeRef::Name(name(to)));
        link.kind = self.dependency();
        let passes = self.rng.random_bool(0.3) && link.kind != DependencyKind::FailureOnly;
        link.data_passing_ref = passes.then(|| "result".to_owned());
        if self.rng.random_ratio(1, 10) {
            link.name = Some(EdgeName::new("left").expect("a valid name"));
        }
        link
    }

    fn dependency(&mut self) -> DependencyKind {
        let odd = self.rng.random_ratio(1, 5);
        let chosen = DependencyKind::ALL.choose(&mut self.rng).filter(|_| odd);
        chosen.copied().unwrap_or(DependencyKind::SuccessOnly)
    }

    fn policy(&mut self) -> EdgePolicy {
        let lets_run = self.rng.random_ratio(1, 3);
        let on_satisfied =
            if lets_run { OnSatisfied::LetRun } else { OnSatisfied::CancelRemaining };
        let runs = self.rng.random_ratio(1, 6);
        let on_impossible = if runs { OnImpossible::Run } else { OnImpossible::Skip };
        match self.rng.random_range(0..4) {
            0 => EdgePolicy::AllOf,
            1 | 2 => EdgePolicy::AnyOf { on_satisfied, on_impossible },
            _ => EdgePolicy::Quorum { k: self.rng.random_range(1..4), on_satisfied, on_impossible },
        }
    }

    /// Something more for a flow; or something for a running member to wait for.
    fn extension(&mut self, flow: FlowId) -> ExtendFlow {
        let seal = self.rng.random_ratio(1, 12);
        let size = self.rng.random_range(0..3);
        let from = self.rng.random_range(0..NAMES.len() - size);
        let names = &NAMES[from..from + size];
        let outside = self.rng.random_bool(0.3);
        if outside {
            return ExtendFlow { flow, graph: self.graph(flow, names), seal, by: None };
        }
        let (id, fence) = self.held();
        let (flow, id, fence) = self.held_member().unwrap_or((flow, id, fence));
        // Now and then an execution that is in no flow becomes the root of its own.
        let rooted = self.flows.of(id).is_none() && self.rng.random();
        let flow = if rooted { FlowId::rooted_at(id) } else { flow };
        let mut graph = self.graph(flow, names);
        graph.joins.clear();
        let parent = NodeRef::Execution(id);
        for node in names {
            let link = self.link(node, node);
            graph.links.push(Link { to: parent.clone(), ..link });
        }
        if !names.is_empty() && self.rng.random() {
            graph.joins.push((parent, self.policy()));
        }
        one_input(&mut graph);
        ExtendFlow { flow, graph, seal, by: Some((id, fence)) }
    }

    fn staging(&mut self, flow: FlowId) -> StageEdge {
        let known = self.flows.staged.choose(&mut self.rng).copied();
        let known = known.filter(|_| self.rng.random_ratio(1, 10)).map(|(_, edge)| edge);
        let edge = known.unwrap_or_else(|| EdgeId(Uuid::from_u128(self.rng.random())));
        let revision = self.flows.revisions.get(&flow).copied().unwrap_or(0);
        StageEdge {
            flow,
            edge,
            upstream: self.some_member(flow),
            downstream: self.some_member(flow),
            kind: self.dependency(),
            name: None,
            data_passing_ref: self.rng.random_bool(0.3).then(|| "result".to_owned()),
            expected_revision: revision + u64::from(self.rng.random_ratio(1, 6)),
        }
    }

    fn applying(&mut self, flow: FlowId) -> Draft {
        let recent = self.flows.staged.len().saturating_sub(3);
        let staged = self.flows.staged[recent..].choose(&mut self.rng).copied();
        let (flow, edge) = staged.unwrap_or((flow, EdgeId(Uuid::from_u128(7))));
        ApplyEdge { flow, edge, upstream: None, downstream: None }.into()
    }

    fn waiting(&mut self, flow: FlowId) -> WaitChildren {
        let (id, fence) = self.held();
        let (flow, id, fence) = self.held_member().unwrap_or((flow, id, fence));
        WaitChildren { id, flow, fence }
    }

    pub fn query_flows(&mut self) -> Query {
        let flow = self.some_flow();
        let node = self.some_member(flow);
        match self.rng.random_range(0..9) {
            0 => Query::FlowPartition(flow.partition()),
            1 => Query::Edges(flow, Direction::All),
            2 => Query::Edges(flow, Direction::Outgoing(node)),
            3 => Query::Edges(flow, Direction::Incoming(node)),
            4 => Query::Groups(flow),
            5 => Query::Members(flow),
            6 => Query::Buckets(flow),
            _ => {
                let filter = self.work_filter();
                let state = FlowWord::ALL.choose(&mut self.rng).copied();
                let state = state.filter(|_| self.rng.random());
                let kind = self.rng.random_bool(0.2).then(|| kind("dag"));
                let (namespace, tag) = (filter.namespace, filter.tag);
                Query::Flows(Box::new(FlowSearch { namespace, kind, state, tag }))
            }
        }
    }
}

/// Has nothing that waits for all take two results as its input, which would be refused.
fn one_input(graph: &mut Graph) {
    let some = graph.joins.iter().filter(|(_, policy)| *policy != EdgePolicy::AllOf);
    let some: Vec<_> = some.map(|(node, _)| node.clone()).collect();
    let mut taken = Vec::new();
    for link in graph.links.iter_mut().filter(|link| !some.contains(&link.to)) {
        if link.data_passing_ref.is_some() && taken.contains(&link.to) {
            link.data_passing_ref = None;
        } else if link.data_passing_ref.is_some() {
            taken.push(link.to.clone());
        }
    }
}
