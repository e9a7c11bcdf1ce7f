//! What histories ask of flows: a main one, in whose partition the first execution lies and whose
//! nodes have slots of their own, and one that the first execution may become the root of.

use ff_core::decide::add_member::AddMember;
use ff_core::decide::apply_edge::ApplyEdge;
use ff_core::decide::cancel_flow::CancelFlow;
use ff_core::decide::cancel_owed::CancelOwed;
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
use ff_core::decide::submit_flow::SubmitFlow;
use ff_core::decide::tags::Edit;
use ff_core::decide::trim_flow::TrimFlow;
use ff_core::decide::wait_children::WaitChildren;
use ff_core::flow::{
    CancellationPolicy, DependencyKind, EdgePolicy, EdgeState, Graph, GroupState, Link, Node,
    NodeRef, OnImpossible, OnSatisfied,
};
use ff_core::fold::GroupKey;
use ff_core::policy::Policy;
use ff_core::state::Phase;
use ff_core::text::{FlowKind, NodeName};
use ff_core::{Command, EdgeId, ExecutionId, Fence, FlowId};
use serde_json::json;
use uuid::Uuid;

use crate::history::SLOTS;
use crate::world::{World, create, id, tags};

/// What is asked of flows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FlowDeed {
    CreateFlow,
    Submit,
    Extend,
    Add,
    Stage,
    Apply,
    SetPolicy,
    Seal,
    Tag,
    Wait,
    CancelFlow,
    CancelOwed,
    Dispatch,
    CancelSiblings,
    ReconcileSiblings,
    ReconcileGroup,
    TrimFlow,
}

/// Executions outside the main flow.
const SOLO: u128 = 3;

/// The main flow.
pub fn main_flow() -> FlowId {
    let mut flows = (0x100..).map(|n| FlowId(Uuid::from_u128(n)));
    flows.find(|flow| flow.partition() == id(1).partition()).unwrap()
}

fn node_name(slot: u128) -> NodeName {
    NodeName::new(format!("n{slot}")).unwrap()
}

/// The execution that a slot stands for.
pub fn slot_id(slot: u128) -> ExecutionId {
    if slot <= SOLO { id(slot) } else { ExecutionId::for_node(main_flow(), &node_name(slot)) }
}

/// Who asks, of what, and which of the many shapes it takes.
#[derive(Clone, Copy)]
pub struct Asked {
    pub deed: FlowDeed,
    pub slot: u128,
    pub fence: Fence,
    pub n: u64,
}

impl Asked {
    fn bit(self, at: u32) -> bool {
        self.n >> at & 1 == 1
    }

    /// Mostly one of those that there is something to do about.
    fn one_of<T>(self, rows: impl Iterator<Item = T>) -> Option<T> {
        let mut rows: Vec<T> = rows.collect();
        let at = usize::try_from(self.n / 2).unwrap();
        (!rows.is_empty() && !self.n.is_multiple_of(7)).then(|| rows.swap_remove(at % rows.len()))
    }

    /// Mostly a node of the main flow.
    fn other_slot(self) -> u128 {
        if self.n.is_multiple_of(5) {
            return 1 + u128::from(self.n / 3) % SLOTS;
        }
        SOLO + 1 + u128::from(self.n / 3) % (SLOTS - SOLO)
    }

    /// Mostly the main flow, sometimes the one that the first execution is, or may be, the root of.
    fn flow(self) -> FlowId {
        if self.slot == 1 && self.n.is_multiple_of(3) {
            FlowId::rooted_at(id(1))
        } else {
            main_flow()
        }
    }

    fn policy(self) -> EdgePolicy {
        let lets_run = self.n.is_multiple_of(3);
        let cancel = if lets_run { OnSatisfied::LetRun } else { OnSatisfied::CancelRemaining };
        match self.n % 5 {
            0 => EdgePolicy::AllOf,
            1 | 2 => EdgePolicy::any_of(cancel),
            3 => EdgePolicy::quorum(2, cancel),
            _ => EdgePolicy::AnyOf { on_satisfied: cancel, on_impossible: OnImpossible::Run },
        }
    }

    fn kind(self) -> DependencyKind {
        match self.n % 7 {
            0 => DependencyKind::AnyTerminal,
            1 => DependencyKind::FailureOnly,
            _ => DependencyKind::SuccessOnly,
        }
    }

    /// Some of the nodes, each leading to later ones.
    fn graph(self, first: u128, last: u128) -> Graph {
        let mut graph = Graph::default();
        for slot in first..=last {
            let retention = if self.n.is_multiple_of(19) { 50 } else { 0 };
            let policy = Policy::parse(&json!({"retention_ms": retention})).unwrap();
            let id = slot_id(slot);
            let create = Create { id, idempotency_key: None, policy, ..create(1) };
            graph.nodes.push(Node { name: node_name(slot), create });
        }
        let ends = (first..=last).flat_map(|from| (from + 1..=last).map(move |to| (from, to)));
        for (at, (from, to)) in (0..).zip(ends) {
            if self.bit(7 + at % 12) {
                let mut link = Link::new(node(from), node(to));
                link.kind = self.kind();
                let fails = link.kind == DependencyKind::FailureOnly;
                let taken = graph
                    .links
                    .iter()
                    .any(|other| other.to == link.to && other.data_passing_ref.is_some());
                let passes = self.bit(at) && !fails && !taken;
                link.data_passing_ref = passes.then(|| "result".to_owned());
                graph.links.push(link);
            }
        }
        let joins = graph.links.iter().any(|link| link.to == node(last));
        if joins && !matches!(self.policy(), EdgePolicy::Quorum { .. }) {
            graph.joins.push((node(last), self.policy()));
        }
        graph
    }

    /// A member of the main flow that somebody holds, with what its holder presents.
    fn holder(self, world: &World) -> Option<(ExecutionId, Fence)> {
        self.one_of(holders(world))
    }

    /// More nodes for the main flow; or something for a running member to wait for; or a flow that
    /// the first execution becomes the root of.
    fn extension(self, world: &World) -> ExtendFlow {
        let seal = self.n.is_multiple_of(16);
        if self.flow() != main_flow() {
            let by = Some((id(1), self.fence));
            return ExtendFlow { flow: self.flow(), graph: Graph::default(), seal, by };
        }
        let first = SOLO + 1 + u128::from(self.n % 3);
        let mut graph = self.graph(first, SLOTS);
        let by = self.holder(world).filter(|_| self.bit(2));
        if let Some((parent, _)) = by.filter(|(parent, _)| slot_id(self.other_slot()) != *parent) {
            // Only what it waits for, in a round of its own.
            graph.nodes.retain(|node| node.create.id == slot_id(self.other_slot()));
            graph.joins = vec![(NodeRef::Execution(parent), EdgePolicy::AllOf)];
            graph.links = vec![Link::new(node(self.other_slot()), NodeRef::Execution(parent))];
        }
        ExtendFlow { flow: main_flow(), graph, seal, by }
    }

    fn staging(self, world: &World) -> StageEdge {
        let known = world.rows.graph.known_flow(main_flow());
        let revision = known.map_or(0, |flow| flow.revision);
        let (upstream, downstream) = (slot_id(self.other_slot()), slot_id(self.slot));
        StageEdge {
            flow: main_flow(),
            edge: edge_between(self.other_slot(), self.slot),
            upstream,
            downstream,
            kind: self.kind(),
            name: None,
            data_passing_ref: self.bit(3).then(|| "result".to_owned()),
            expected_revision: revision + u64::from(self.n.is_multiple_of(11)),
        }
    }

    /// As a command, unless it makes no sense at all.
    pub fn command(self, world: &World) -> Option<Command> {
        let (flow, downstream) = (self.flow(), slot_id(self.slot));
        let command = match self.deed {
            FlowDeed::CreateFlow => create_flow(flow).into(),
            FlowDeed::Submit => SubmitFlow {
                flow: create_flow(main_flow()),
                graph: self.graph(SOLO + 1, SLOTS - u128::from(self.n % 3)),
                seal: self.n.is_multiple_of(5),
                idempotency_key: None,
                dedup_window_ms: None,
            }
            .into(),
            FlowDeed::Extend => self.extension(world).into(),
            FlowDeed::Add => AddMember { flow: main_flow(), execution: downstream }.into(),
            FlowDeed::Stage => self.staging(world).into(),
            FlowDeed::Apply => {
                let edges = world.rows.graph.edges.values().flatten();
                let staged = edges.filter(|edge| edge.state == EdgeState::Staged);
                let edge = self.one_of(staged.map(|edge| edge.id));
                let edge = edge.unwrap_or(edge_between(self.other_slot(), self.slot));
                ApplyEdge { flow: main_flow(), edge, upstream: None, downstream: None }.into()
            }
            FlowDeed::SetPolicy => SetGroupPolicy {
                flow: main_flow(),
                downstream,
                policy: self.policy(),
                version: None,
            }
            .into(),
            FlowDeed::Seal => SealFlow { flow }.into(),
            FlowDeed::Tag => {
                let set = tags(&[("shop.city", ["Oslo", "Rome"][usize::from(self.bit(0))])]);
                SetFlowTags { flow, edit: Edit { set, ..Edit::default() } }.into()
            }
            FlowDeed::Wait => {
                let pending = |id| {
                    let group = world.rows.graph.group((main_flow(), id));
                    group.is_some_and(|group| group.state == GroupState::Pending)
                };
                let holders = holders(world).filter(|(id, _)| pending(*id));
                let (id, fence) = self.one_of(holders).unwrap_or((downstream, self.fence));
                let flow = world.find(id).and_then(|x| x.flow()).unwrap_or(flow);
                WaitChildren { id, flow, fence }.into()
            }
            FlowDeed::CancelFlow => {
                let policies = CancellationPolicy::ALL;
                let policy = policies[usize::try_from(self.n % 3).unwrap()];
                CancelFlow { flow, policy, reason: "enough".to_owned() }.into()
            }
            FlowDeed::CancelOwed => CancelOwed { flow }.into(),
            FlowDeed::Dispatch => {
                let rows = world.rows.graph.dispatch.values().flatten();
                let due = self.one_of(rows.map(|row| (row.flow, row.execution)));
                let (flow, execution) = due.unwrap_or((flow, downstream));
                DispatchCompletion { flow, execution, eager: self.bit(0) }.into()
            }
            FlowDeed::CancelSiblings => {
                let (flow, downstream) = fired(world, self).unwrap_or((flow, downstream));
                CancelSiblings { flow, downstream }.into()
            }
            FlowDeed::ReconcileSiblings => {
                let (flow, downstream) = fired(world, self).unwrap_or((flow, downstream));
                ReconcileSiblings { flow, downstream }.into()
            }
            FlowDeed::ReconcileGroup => {
                let groups = world.rows.graph.groups.values().flatten();
                let pending = groups.filter(|group| group.state == GroupState::Pending);
                let chosen = self.one_of(pending.map(|group| (group.flow, group.downstream)));
                let (flow, downstream) = chosen.unwrap_or((flow, downstream));
                ReconcileGroup { flow, downstream }.into()
            }
            FlowDeed::TrimFlow => TrimFlow { flow }.into(),
        };
        let valid = Command::validate(&command, &world.config).is_ok();
        valid.then_some(command)
    }
}

fn node(slot: u128) -> NodeRef {
    NodeRef::Execution(slot_id(slot))
}

fn create_flow(flow: FlowId) -> CreateFlow {
    let namespace = create(1).namespace;
    CreateFlow { namespace, ..CreateFlow::new(flow, FlowKind::new("errand").unwrap()) }
}

/// The members that somebody holds, with what their holders present.
fn holders(world: &World) -> impl Iterator<Item = (ExecutionId, Fence)> {
    let all = world.rows.executions.values().flatten();
    let held = all.filter(|x| x.state.phase() == Phase::Active && x.flow().is_some());
    held.map(|x| (x.id, x.fence()))
}

/// A group whose siblings are to be cancelled.
fn fired(world: &World, asked: Asked) -> Option<GroupKey> {
    asked.one_of(world.rows.graph.cancels.values().flatten().map(|row| (row.flow, row.downstream)))
}

fn edge_between(from: u128, to: u128) -> EdgeId {
    EdgeId(Uuid::from_u128(from << 8 | to))
}
