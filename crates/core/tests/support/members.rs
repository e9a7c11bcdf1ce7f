//! A flow beside every sample, and samples that belong to it.

#![allow(dead_code, reason = "every test binary uses its own part")]

use ff_core::backend::ClaimAsk;
use ff_core::command::Operation;
use ff_core::decide::add_member::AddMember;
use ff_core::decide::apply_edge::ApplyEdge;
use ff_core::decide::cancel_flow::CancelFlow;
use ff_core::decide::cancel_owed::CancelOwed;
use ff_core::decide::claim::Claim;
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
    CancellationPolicy, DependencyKind, EdgePolicy, Graph, Link, Node, NodeRef, OnSatisfied,
};
use ff_core::policy::{FailureClass, Policy};
use ff_core::text::{FlowKind, LaneId, NodeName};
use ff_core::{Command, EdgeId, ExecutionId, Fence, FlowId};
use uuid::Uuid;

use crate::commands::{complete, fail};
use crate::world::{Life, World, claim, create, tags, worker};

/// The flow that stands beside a sample, in its partition.
pub fn flow_beside(id: ExecutionId) -> FlowId {
    let mut flows = (0x100..).map(|n| FlowId(Uuid::from_u128(n)));
    flows.find(|flow| flow.partition() == id.partition()).unwrap()
}

/// Two members of that flow besides the sample.
pub fn others(flow: FlowId) -> [ExecutionId; 2] {
    [0x91, 0x92].map(|n| ExecutionId::for_flow(flow, Uuid::from_u128(n)))
}

/// The edge from the `n`th of the others to the sample.
pub fn edge(n: usize) -> EdgeId {
    EdgeId(Uuid::from_u128(u128::try_from(n).unwrap()))
}

/// Sends what must be accepted.
fn tell<O: Operation>(world: &mut World, command: O) -> O::Reply {
    O::reply(world.send(command.into()).0.unwrap()).unwrap()
}

fn make_flow(flow: FlowId) -> CreateFlow {
    let namespace = create(1).namespace;
    CreateFlow { namespace, ..CreateFlow::new(flow, FlowKind::new("errand").unwrap()) }
}

/// Puts an open flow with two members into the world of a sample.
pub fn beside_a_flow(mut life: Life) -> Life {
    let flow = flow_beside(life.id);
    let world = &mut life.world;
    tell(world, make_flow(flow));
    for id in others(flow) {
        let policy = Policy { dedup_window_ms: None, ..life.creation.policy.clone() };
        tell(world, Create { id, idempotency_key: None, policy, ..create(1) });
        tell(world, AddMember { flow, execution: id });
    }
    life
}

/// A sample that is a member.
pub fn member(life: Life) -> Life {
    let mut life = beside_a_flow(life);
    let flow = flow_beside(life.id);
    life.tell(AddMember { flow, execution: life.id });
    life
}

fn staging(world: &World, flow: FlowId, to: ExecutionId, n: usize) -> StageEdge {
    let expected_revision = world.rows.graph.known_flow(flow).map_or(0, |flow| flow.revision);
    StageEdge {
        flow,
        edge: edge(n),
        upstream: others(flow)[n],
        downstream: to,
        kind: DependencyKind::SuccessOnly,
        name: None,
        data_passing_ref: None,
        expected_revision,
    }
}

/// The sample is to wait for the `n`th of the others.
pub fn stage(life: &mut Life, n: usize) {
    let staging = staging(&life.world, flow_beside(life.id), life.id, n);
    life.tell(staging);
}

/// The sample waits for the `n`th of the others.
pub fn link(life: &mut Life, n: usize) {
    stage(life, n);
    let flow = flow_beside(life.id);
    life.tell(ApplyEdge { flow, edge: edge(n), upstream: None, downstream: None });
}

/// The first to succeed is enough.
pub fn any_of(life: &mut Life) {
    let (flow, downstream) = (flow_beside(life.id), life.id);
    let policy = EdgePolicy::any_of(OnSatisfied::CancelRemaining);
    life.tell(SetGroupPolicy { flow, downstream, policy, version: None });
}

/// A worker takes the `n`th of the others.
fn start(life: &mut Life, n: usize) -> (ExecutionId, Fence) {
    let id = others(flow_beside(life.id))[n];
    let claim: Claim = claim(id, 0x500 + u128::try_from(n).unwrap());
    (id, tell(&mut life.world, claim).fence)
}

/// The `n`th of the others succeeds.
pub fn succeed(life: &mut Life, n: usize) {
    let (id, fence) = start(life, n);
    let done: Complete = complete(id, fence);
    tell(&mut life.world, done);
}

/// The `n`th of the others fails for good.
pub fn lose(life: &mut Life, n: usize) {
    let (id, fence) = start(life, n);
    tell(&mut life.world, fail(id, fence, FailureClass::Permanent));
}

/// The flow is told of the end of `execution`.
pub fn dispatch(life: &mut Life, execution: ExecutionId) {
    let flow = flow_beside(life.id);
    life.tell(DispatchCompletion { flow, execution, eager: false });
}

pub fn cancel_flow(flow: FlowId) -> CancelFlow {
    CancelFlow { flow, policy: CancellationPolicy::All, reason: "enough".to_owned() }
}

/// A graph of one node, which leads to `to`.
fn helper(flow: FlowId, to: Option<ExecutionId>) -> Graph {
    let name = NodeName::new("helper").unwrap();
    let create =
        Create { id: ExecutionId::for_node(flow, &name), idempotency_key: None, ..create(1) };
    let from = NodeRef::Name(name.clone());
    let link = to.map(|to| Link::new(from, NodeRef::Execution(to)));
    let links = link.into_iter().collect();
    Graph { nodes: vec![Node { name, create }], links, joins: Vec::new() }
}

fn submission(flow: FlowId) -> SubmitFlow {
    SubmitFlow {
        flow: make_flow(flow),
        graph: helper(flow, None),
        seal: true,
        idempotency_key: None,
        dedup_window_ms: None,
    }
}

/// What the engine does about the others, as far as it concerns the sample: it may wait for the
/// first of them, or be one of those that the second waits for.
pub fn commands_about_others(life: &Life) -> [(&'static str, Command); 2] {
    let flow = flow_beside(life.id);
    let [upstream, rival] = others(flow);
    let dispatch = DispatchCompletion { flow, execution: upstream, eager: false };
    let cancel = CancelSiblings { flow, downstream: rival };
    [
        ("dispatch_completion of another", dispatch.into()),
        ("cancel_siblings in another group", cancel.into()),
    ]
}

/// Has the second of the others wait for the sample or the first, whichever succeeds first.
pub fn race(life: &mut Life) {
    let flow = flow_beside(life.id);
    let [upstream, downstream] = others(flow);
    let policy = EdgePolicy::any_of(OnSatisfied::CancelRemaining);
    tell(&mut life.world, SetGroupPolicy { flow, downstream, policy, version: None });
    for (n, from) in [(7, life.id), (8, upstream)] {
        let staging = staging(&life.world, flow, downstream, 0);
        tell(&mut life.world, StageEdge { edge: edge(n), upstream: from, ..staging });
        let apply = ApplyEdge { flow, edge: edge(n), upstream: None, downstream: None };
        tell(&mut life.world, apply);
    }
}

/// Every command about flows, addressed to the sample and the flow beside it.
pub fn flow_commands(life: &Life) -> Vec<Command> {
    let (id, fence) = (life.id, life.fence);
    let flow = flow_beside(id);
    let by = Some((id, fence));
    let lanes = vec![LaneId::new("default").unwrap()];
    let ask = ClaimAsk::new(Uuid::from_u128(0x700), worker("idle"), lanes);
    let edit = Edit { set: tags(&[("shop.city", "Rome")]), ..Edit::default() };
    let policy = EdgePolicy::any_of(OnSatisfied::LetRun);
    vec![
        make_flow(flow).into(),
        submission(FlowId(Uuid::from_u128(0x99))).into(),
        ExtendFlow { flow, graph: helper(flow, Some(id)), seal: false, by }.into(),
        AddMember { flow, execution: id }.into(),
        staging(&life.world, flow, id, 1).into(),
        ApplyEdge { flow, edge: edge(0), upstream: None, downstream: None }.into(),
        SetGroupPolicy { flow, downstream: id, policy, version: None }.into(),
        SealFlow { flow }.into(),
        SetFlowTags { flow, edit }.into(),
        WaitChildren { id, flow, fence }.into(),
        cancel_flow(flow).into(),
        CancelOwed { flow }.into(),
        DispatchCompletion { flow, execution: id, eager: false }.into(),
        StartReleased { ask }.into(),
        CancelSiblings { flow, downstream: id }.into(),
        ReconcileSiblings { flow, downstream: id }.into(),
        ReconcileGroup { flow, downstream: id }.into(),
        TrimFlow { flow }.into(),
    ]
}
