//! Flows through the engine: its loops, its reads, and waiting.

use std::sync::Arc;
use std::time::Duration;

use ff_conformance::World;
use ff_core::backend::{Duty, WorkFilter};
use ff_core::flow::{
    CancellationPolicy, EdgePolicy, EdgeWord, FlowWord, GroupWord, OnSatisfied, PublicFlowState,
};
use ff_core::query::{Direction, FlowSearch, Page};
use ff_core::state::PublicState;
use ff_core::{Code, FlowId};
use ff_engine::{Eligibility, Engine, Wait};
use uuid::Uuid;

use crate::world;

/// Claims and completes whatever there is, for ever.
async fn work(engine: Engine, world: Arc<World>) {
    loop {
        for work in engine.claim(world.ask(10), Duration::from_secs(1)).await.unwrap() {
            let (id, fence) = (work.leased.execution.id, work.leased.fence);
            engine.complete_execution(id, fence, None).await.unwrap();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_loops_carry_a_flow_to_its_end() {
    let (engine, world) = world();
    let world = Arc::new(world);
    let duties = engine.start_duties(&WorkFilter::default());
    let worker = tokio::spawn(work(engine.clone(), Arc::clone(&world)));
    let drawn = world.sketch("a>c b>c c>d").submit().await;
    let ended = engine.await_flow(drawn.flow, Duration::from_mins(1)).await.unwrap();
    assert_eq!(ended.state.word(), FlowWord::Completed);
    assert_eq!(world.state(drawn.id("d")).await, PublicState::Completed);
    worker.abort();
    duties.stop().await;
}

#[tokio::test]
async fn a_policy_is_shown_before_its_first_edge() {
    let (engine, world) = world();
    let flow = world.empty_flow().await;
    let [a, b] = world.members(flow).await;
    let policy = EdgePolicy::any_of(OnSatisfied::LetRun);
    engine.set_edge_group_policy(flow, b, policy).await.unwrap();
    let groups = engine.describe_flow(flow).await.unwrap().unwrap().edge_groups;
    let [group] = groups.as_slice() else { panic!("one group: {groups:?}") };
    assert_eq!((group.downstream_execution_id, group.policy), (b, policy));
    assert_eq!((group.total_deps, group.group_state), (0, GroupWord::Pending));
    world.link(flow, a, b).await;
    let groups = engine.describe_flow(flow).await.unwrap().unwrap().edge_groups;
    assert_eq!(groups.iter().map(|group| group.total_deps).collect::<Vec<_>>(), [1]);
}

#[tokio::test(start_paused = true)]
async fn the_loops_cancel_who_lost_a_race() {
    let (engine, world) = world();
    let duties = engine.start_duties(&WorkFilter::default());
    let any = EdgePolicy::any_of(OnSatisfied::CancelRemaining);
    let drawn = world.sketch("a>c b>c").join("c", any).submit().await;
    let loser = world.start(drawn.id("b")).await;
    world.succeed(drawn.id("a")).await;
    let state = engine.await_execution(drawn.id("b"), Duration::from_mins(1)).await.unwrap();
    assert_eq!(state, PublicState::Cancelled);
    let late = engine.complete_execution(drawn.id("b"), loser, None).await.unwrap_err();
    assert_eq!(late.code(), Code::ExecutionNotActive);
    duties.stop().await;
}

#[tokio::test]
async fn a_round_of_sibling_cancellation_reports_what_it_did() {
    let (engine, world) = world();
    let any = EdgePolicy::any_of(OnSatisfied::CancelRemaining);
    let drawn = world.sketch("a>d b>d c>d").join("d", any).submit().await;
    world.start(drawn.id("b")).await;
    world.succeed(drawn.id("a")).await;
    world.dispatch().await;
    let report = engine.dispatcher_tick(&WorkFilter::default()).await.unwrap();
    assert_eq!((report.dispatched, report.cancelled, report.errors), (1, 2, 0));
    let report = engine.dispatcher_tick(&WorkFilter::default()).await.unwrap();
    assert_eq!(report, ff_engine::DispatchReport::default());
    let report = engine.scan_tick(Duty::EdgeCancelReconciler, &WorkFilter::default()).await;
    assert_eq!(report.unwrap().processed, 0);
}

#[tokio::test]
async fn a_cancelled_flow_is_described_as_it_is() {
    let (engine, world) = world();
    let drawn = world.sketch("a>b b>c").submit().await;
    world.start(drawn.id("a")).await;
    let all = CancellationPolicy::All;
    let first = engine.cancel_flow(drawn.flow, all, "", Wait::Indefinitely).await.unwrap();
    assert_eq!((first.members.len(), first.scheduled, first.repeated), (3, false, false));
    assert_eq!(first.reason, "flow_cancelled");
    let pending = CancellationPolicy::Pending;
    let again = engine.cancel_flow(drawn.flow, pending, "no", Wait::No).await.unwrap();
    assert_eq!(
        (again.policy, again.reason.as_str(), again.repeated),
        (all, "flow_cancelled", true)
    );
    assert_eq!(again.members.len(), 3);
    let snapshot = engine.describe_flow(drawn.flow).await.unwrap().unwrap();
    assert_eq!(snapshot.state, FlowWord::Cancelled);
    assert_eq!(snapshot.cancellation_policy, Some(all));
    assert!(snapshot.edge_groups.iter().all(|g| g.group_state == GroupWord::Cancelled));
    let edges = engine.list_edges(drawn.flow, Direction::All, None, 10).await.unwrap().0;
    assert!(edges.iter().all(|edge| edge.edge_state == EdgeWord::Impossible));
    let one = engine.describe_edge(drawn.flow, edges[0].edge_id).await.unwrap();
    assert_eq!(one.as_ref(), Some(&edges[0]));
    let unknown = FlowId(Uuid::from_u128(7));
    let gone = engine.cancel_flow(unknown, all, "", Wait::No).await.unwrap_err();
    assert_eq!(gone.code(), Code::FlowNotFound);
}

#[tokio::test]
async fn what_upstreams_gave_is_read_by_name() {
    let (engine, world) = world();
    let named = |name: &'static str| {
        move |link: &mut ff_core::flow::Link| {
            link.name = Some(name.parse().unwrap());
        }
    };
    let sketch = world.sketch("a>d b>d c>d").link("a", "d", named("left"));
    let drawn = sketch.link("b", "d", named("right")).submit().await;
    let before = engine.read_inputs(drawn.id("d")).await.unwrap();
    let before: Vec<_> =
        before.iter().map(|input| (input.name.as_str(), input.state, &input.result)).collect();
    let waits = EdgeWord::Unsatisfied;
    assert_eq!(before, [("left", waits, &None), ("right", waits, &None)]);
    for node in ["a", "b", "c"] {
        world.succeed(drawn.id(node)).await;
    }
    world.dispatch().await;
    let inputs = engine.read_inputs(drawn.id("d")).await.unwrap();
    let read: Vec<_> = inputs
        .iter()
        .map(|input| (input.name.as_str(), input.from, &input.result.as_ref().unwrap().bytes[..]))
        .collect();
    let out = &b"out"[..];
    assert_eq!(read, [("left", drawn.id("a"), out), ("right", drawn.id("b"), out)]);
    let gone = engine.read_inputs(world.id()).await.unwrap_err();
    assert_eq!(gone.code(), Code::ExecutionNotFound);
}

#[tokio::test]
async fn eligibility_follows_the_group() {
    let (engine, world) = world();
    let drawn = world.sketch("a>b b>c x>y").submit().await;
    let of = async |node: &str| engine.evaluate_flow_eligibility(drawn.id(node)).await.unwrap();
    assert_eq!(of("a").await, Eligibility::Eligible);
    assert_eq!(of("b").await, Eligibility::BlockedByDependencies);
    let fence = world.start(drawn.id("a")).await;
    assert_eq!(of("a").await, Eligibility::Owned);
    world.complete(drawn.id("a"), fence).await.unwrap();
    assert_eq!(of("a").await, Eligibility::Terminal);
    world.dispatch().await;
    assert_eq!(of("b").await, Eligibility::Eligible);
    assert_eq!(of("nobody").await, Eligibility::NotFound);
    let flow = engine.resolve_execution_flow_id(drawn.id("b")).await.unwrap();
    assert_eq!(flow, Some(drawn.flow));
}

#[tokio::test]
async fn summaries_and_searches_find_flows() {
    let (engine, world) = world();
    let drawn = world.sketch("a>b a>c").submit().await;
    let summary = engine.project_flow_summary(drawn.flow).await.unwrap().unwrap();
    assert_eq!((summary.total_members, summary.members_waiting_children), (3, 2));
    assert_eq!(summary.public_flow_state, PublicFlowState::Blocked);
    engine.set_flow_tag(drawn.flow, "app.run", "7").await.unwrap();
    assert_eq!(engine.get_flow_tag(drawn.flow, "app.run").await.unwrap().as_deref(), Some("7"));
    let tag = Some(("app.run".to_owned(), "7".to_owned()));
    let search = FlowSearch { tag, ..FlowSearch::default() };
    let (found, next) = engine.search_flows(search, &Page::first(10)).await.unwrap();
    assert_eq!((found.len(), found[0].id, next), (1, drawn.flow, None));
    let (listed, _) = engine.list_flows(drawn.flow.partition(), None, 10).await.unwrap();
    assert_eq!(listed.len(), 1);
    let (members, _) = engine.list_members(drawn.flow, None, 10).await.unwrap();
    assert!(members.iter().all(|member| member.flow_id == Some(drawn.flow)));
}

#[tokio::test]
async fn what_an_end_lets_go_is_started_in_the_same_commit() {
    let (engine, world) = world();
    let drawn = world.sketch("a>b b>c").submit().await;
    let wait = Duration::from_secs(5);
    let a = engine.claim(world.ask(1), wait).await.unwrap().pop().unwrap().leased;
    assert_eq!(a.execution.id, drawn.id("a"));
    let (claiming, ask) = (engine.clone(), world.ask(1));
    let next = tokio::spawn(async move { claiming.claim(ask, wait).await.unwrap() });
    // It idles when it has found nothing.
    tokio::time::sleep(Duration::from_millis(50)).await;
    engine.complete_execution(a.execution.id, a.fence, None).await.unwrap();
    let b = next.await.unwrap().pop().expect("no duty runs here, and yet").leased;
    assert_eq!(b.execution.id, drawn.id("b"));
    assert!((world.store.dump)().dispatch.is_empty(), "the flow was told");
    engine.complete_execution(b.execution.id, b.fence, None).await.unwrap();
    let c = engine.claim(world.ask(1), wait).await.unwrap().pop().unwrap().leased;
    engine.complete_execution(c.execution.id, c.fence, None).await.unwrap();
    assert_eq!(world.flow_state(drawn.flow).await, FlowWord::Completed);
}

#[tokio::test]
async fn what_is_started_for_a_claim_that_has_left_is_given_back() {
    let (engine, world) = world();
    let drawn = world.sketch("a>b").submit().await;
    let wait = Duration::from_secs(5);
    let a = engine.claim(world.ask(1), wait).await.unwrap().pop().unwrap().leased;
    let (claiming, ask) = (engine.clone(), world.ask(1));
    let next = tokio::spawn(async move { claiming.claim(ask, wait).await });
    tokio::time::sleep(Duration::from_millis(50)).await;
    let complete = engine.complete_execution(a.execution.id, a.fence, None);
    let (done, ()) = tokio::join!(complete, async { next.abort() });
    done.unwrap();
    let mut waited = 0;
    while world.state(drawn.id("b")).await != PublicState::Waiting {
        waited += 1;
        assert!(waited < 1_000, "it is claimable again");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
