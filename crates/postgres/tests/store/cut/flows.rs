//! Commands on flows, with everything they need in place.

use ff_conformance::world::{World, any_of};
use ff_core::backend::{Duty, WorkFilter};
use ff_core::command::Command;
use ff_core::decide::add_member::AddMember;
use ff_core::decide::apply_edge::ApplyEdge;
use ff_core::decide::cancel_flow::CancelFlow;
use ff_core::decide::cancel_owed::CancelOwed;
use ff_core::decide::flow_tags::SetFlowTags;
use ff_core::decide::group_policy::SetGroupPolicy;
use ff_core::decide::reconcile_group::ReconcileGroup;
use ff_core::decide::seal_flow::SealFlow;
use ff_core::decide::start_released::StartReleased;
use ff_core::decide::tags::Edit;
use ff_core::decide::wait_children::WaitChildren;
use ff_core::flow::CancellationPolicy;

use super::Remote;

/// The command `name`, if it is one on flows.
pub async fn prepared(remote: &Remote, name: &str) -> Option<Command> {
    let world = &remote.world;
    Some(match name {
        "create_flow" => world.flow_draft().into(),
        "submit_flow" => {
            let sketch = world.sketch("a>c b>c");
            let key = Some("order-1".parse().unwrap());
            sketch.with(|submission| submission.idempotency_key = key).submission().into()
        }
        "extend_flow" => {
            let drawn = world.sketch("a>b").open().submit().await;
            world.more(drawn.flow, "c>d e>d").extension(None).into()
        }
        "cancel_flow" => {
            let drawn = world.sketch("a>c b>c").submit().await;
            world.start(drawn.id("a")).await;
            let (policy, reason) = (CancellationPolicy::All, "enough".to_owned());
            CancelFlow { flow: drawn.flow, policy, reason }.into()
        }
        // It starts what else is in its batch, and alone nothing.
        "start_released" => StartReleased { ask: world.ask(1) }.into(),
        "cancel_owed_members" => owed(remote).await,
        "reconcile_group" => stuck(remote).await,
        "dispatch_completion" | "cancel_siblings" | "reconcile_siblings" | "trim_flow" => {
            duty(world, name).await
        }
        "add_execution_to_flow"
        | "stage_dependency_edge"
        | "apply_dependency_to_child"
        | "set_edge_group_policy"
        | "seal_flow"
        | "set_flow_tags"
        | "wait_children" => by_hand(world, name).await,
        _ => return None,
    })
}

/// A command that makes a flow by hand.
async fn by_hand(world: &World, name: &str) -> Command {
    let flow = world.empty_flow().await;
    match name {
        "add_execution_to_flow" => {
            AddMember { flow, execution: world.candidate(flow).await }.into()
        }
        "stage_dependency_edge" => {
            let [from, to] = world.members(flow).await;
            world.staging(flow, from, to).await.into()
        }
        "apply_dependency_to_child" => {
            let [from, to] = world.members(flow).await;
            let edge = world.stage(flow, from, to).await.unwrap().edge_id;
            ApplyEdge { flow, edge, upstream: Some(from), downstream: Some(to) }.into()
        }
        "set_edge_group_policy" => {
            let [downstream] = world.members(flow).await;
            SetGroupPolicy { flow, downstream, policy: any_of(), version: None }.into()
        }
        "seal_flow" => {
            world.member(flow).await;
            SealFlow { flow }.into()
        }
        "set_flow_tags" => {
            let set = [("test.colour".to_owned(), "red".to_owned())].into();
            SetFlowTags { flow, edit: Edit { set, ..Edit::default() } }.into()
        }
        _ => {
            let [child, id] = world.members(flow).await;
            let fence = world.start(id).await;
            world.link(flow, child, id).await;
            WaitChildren { id, flow, fence }.into()
        }
    }
}

/// A flow owes a member; it takes ten thousand to get there in an honest way.
async fn owed(remote: &Remote) -> Command {
    let drawn = remote.world.sketch("a>c b>c").submit().await;
    let flow = drawn.flow;
    remote.world.cancel_flow(flow, CancellationPolicy::FlowOnly).await.unwrap();
    let (home, owed) = (flow.partition().index(), drawn.id("a").uuid());
    remote.schema.tamper(&format!(
        "insert into ff_cancel_backlog (partition_key, flow_id, requested_at_ms)
            values ({home}, '{flow}', 1);
        insert into ff_cancel_backlog_member (partition_key, flow_id, execution_id)
            values ({home}, '{flow}', '{owed}')"
    ));
    CancelOwed { flow }.into()
}

/// Somebody removed by hand what a member waits for.
async fn stuck(remote: &Remote) -> Command {
    let drawn = remote.world.sketch("a>b").submit().await;
    let gone = drawn.id("a").uuid();
    remote.schema.tamper(&format!(
        "delete from ff_ready where execution_id = '{gone}';
        delete from ff_exec_core where execution_id = '{gone}'"
    ));
    ReconcileGroup { flow: drawn.flow, downstream: drawn.id("b") }.into()
}

/// A command that a duty finds to be due.
async fn duty(world: &World, name: &str) -> Command {
    let drawn = world.sketch("a>c b>c").join("c", any_of()).submit().await;
    world.succeed(drawn.id("a")).await;
    let duty = match name {
        "dispatch_completion" => Duty::CompletionDispatch,
        "cancel_siblings" => {
            world.dispatch().await;
            Duty::EdgeCancelDispatcher
        }
        "reconcile_siblings" => {
            world.succeed(drawn.id("b")).await;
            world.dispatch().await;
            Duty::EdgeCancelReconciler
        }
        _ => {
            world.succeed(drawn.id("b")).await;
            world.dispatch().await;
            world.tick(Duty::EdgeCancelReconciler).await;
            world.succeed(drawn.id("c")).await;
            world.dispatch().await;
            world.pass(86_400_000);
            Duty::Retention
        }
    };
    let due = world.store.backend.due(duty, &WorkFilter::default(), 10).await;
    due.unwrap().commands.pop().unwrap_or_else(|| panic!("{name} is not due"))
}
