//! What only a server can get wrong about flows: statements that grow with what they are about,
//! locks that others hold, reads that see two moments, and ends that are remembered.

use std::sync::Arc;

use ff_conformance::cases::calls::completion;
use ff_conformance::model::Tables;
use ff_conformance::world::{World, any_of, name};
use ff_conformance::{Dial, Store, audit};
use ff_core::backend::{Duty, WorkFilter};
use ff_core::command::{Command, Reply};
use ff_core::decide::dispatch::{DispatchCompletion, Dispatched};
use ff_core::decide::hold::Hold;
use ff_core::decide::lease_expiry::{ExpireLease, LeaseChecked};
use ff_core::decide::renew::Renew;
use ff_core::decide::seal_flow::SealFlow;
use ff_core::decide::sibling_cancel::{CancelSiblings, SiblingsCancelled};
use ff_core::decide::sibling_reconcile::{ReconcileSiblings, SiblingsReconciled};
use ff_core::decide::start_released::StartReleased;
use ff_core::decide::unhold::Unhold;
use ff_core::decide::wait_children::Waiting;
use ff_core::flow::{CancellationPolicy, EdgePolicy, FlowWord, NodeRef};
use ff_core::fold::Key;
use ff_core::state::PublicState;
use ff_core::{Backend, ExecutionId, Fence, FlowId};

use crate::cut::Remote;
use crate::open;
use crate::races::Fleet;
use crate::stores::Stores;

fn world() -> World {
    let clock = Arc::new(Dial::default());
    World::new(open(Arc::clone(&clock)), clock)
}

/// So many names.
fn names(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("n{number}")).collect()
}

fn member(flow: FlowId, node: &str) -> ExecutionId {
    ExecutionId::for_node(flow, &name(node))
}

/// Submits a flow in which `last` waits for so many others, and lets those succeed.
async fn joined(world: &World, count: usize, policy: EdgePolicy) -> FlowId {
    let nodes = names(count);
    let sketch: Vec<_> = nodes.iter().map(|node| format!("{node}>last")).collect();
    let drawn = world.sketch(&sketch.join(" ")).join("last", policy).submit().await;
    let mut left = count;
    while left > 0 {
        let claimed = world.claim(world.ask(200)).await;
        left -= claimed.len();
        let done = claimed.iter().map(|work| {
            let (id, fence) = (work.leased.execution.id, work.leased.fence);
            completion(id, fence, b"out").into()
        });
        assert!(world.batch(done.collect()).await.iter().all(Result::is_ok));
    }
    drawn.flow
}

/// How many statements some calls run.
async fn statements(remote: &Remote, calls: impl Future<Output = ()>) -> u32 {
    let before = remote.line.statements();
    calls.await;
    remote.line.statements() - before
}

#[tokio::test]
async fn cancelling_a_flow_takes_as_many_statements_whatever_its_size() {
    let mut counts = Vec::new();
    for size in [100, 10_000] {
        let remote = Remote::new().await;
        let world = &remote.world;
        let drawn = world.sketch(&names(size).join(" ")).submit().await;
        counts.push(
            statements(&remote, async {
                let done = world.cancel_flow(drawn.flow, CancellationPolicy::All).await.unwrap();
                assert_eq!((done.members.len(), done.scheduled), (size, false));
            })
            .await,
        );
        let flow = world.flow(drawn.flow).await;
        assert_eq!(flow.ended.badly, flow.nodes, "all ended with it");
        audit::audit(&(world.store.dump)(), world.now());
    }
    assert_eq!(counts[0], counts[1]);
}

#[tokio::test]
async fn a_join_takes_as_many_statements_however_many_it_waits_for() {
    let mut counts = Vec::new();
    for size in [10, 1_000] {
        let remote = Remote::new().await;
        let world = &remote.world;
        let flow = joined(world, size, EdgePolicy::AllOf).await;
        let tell = |node: &String| -> Command {
            DispatchCompletion { flow, execution: member(flow, node), eager: false }.into()
        };
        let batch: Vec<_> = names(size).iter().map(tell).collect();
        counts.push(
            statements(&remote, async {
                for told in world.batch(batch).await {
                    assert_eq!(told, Ok(Reply::DispatchCompletion(Dispatched::Advanced(1))));
                }
            })
            .await,
        );
        world.take(member(flow, "last")).await;
        audit::audit(&(world.store.dump)(), world.now());
    }
    assert_eq!(counts[0], counts[1]);
}

/// A flow in which so many wait for `first` and work on its result, which is there.
async fn handed_on(world: &World, count: usize) -> FlowId {
    let nodes = names(count);
    let sketch: Vec<_> = nodes.iter().map(|node| format!("first>{node}")).collect();
    let mut sketch = world.sketch(&sketch.join(" "));
    for node in &nodes {
        sketch = sketch.passing("first", node);
    }
    let drawn = sketch.submit().await;
    world.succeed_with(drawn.id("first"), b"made by first").await;
    world.dispatch().await;
    drawn.flow
}

#[tokio::test]
async fn claims_of_what_works_on_results_take_as_many_statements_however_many_they_are() {
    let remote = Remote::new().await;
    let world = &remote.world;
    let mut counts = Vec::new();
    for size in [2, 40] {
        handed_on(world, size).await;
        let taken = statements(&remote, async {
            let claimed = world.claim(world.ask(100)).await;
            assert_eq!(claimed.len(), size);
            for work in claimed {
                assert_eq!(work.input.unwrap().bytes, &b"made by first"[..]);
            }
        });
        counts.push(taken.await);
    }
    let plain = statements(&remote, async {
        world.create(world.draft()).await;
        world.claim_one().await.expect("it is claimable");
    })
    .await;
    // Some claims move delays as well.
    assert!(counts[0].abs_diff(counts[1]) <= 1, "{counts:?}");
    assert!(plain - 1 < counts[0], "{plain} with the creation, {counts:?} otherwise");
}

#[tokio::test]
async fn ends_that_were_handed_out_and_not_dispatched_are_handed_out_again() {
    let remote = Remote::new().await;
    let world = &remote.world;
    let backend = &world.store.backend;
    let flow = joined(world, 5, EdgePolicy::AllOf).await;
    let everything = WorkFilter::default();
    let told = backend.due(Duty::CompletionDispatch, &everything, 10).await.unwrap().commands;
    assert_eq!(told.len(), 5);
    // They stand in the table until they are done, for others as well.
    let again = backend.due(Duty::CompletionDispatch, &everything, 10).await.unwrap();
    assert_eq!(again.commands, told);
    let stranger = remote.stranger().await;
    let theirs = stranger.due(Duty::CompletionDispatch, &everything, 10).await.unwrap();
    assert_eq!(theirs.commands, told);
    assert!(stranger.apply(told).await.unwrap().iter().all(Result::is_ok));
    let done = backend.due(Duty::CompletionDispatch, &everything, 10).await.unwrap();
    assert!(done.commands.is_empty());
    assert_eq!(world.flow(flow).await.ended.well, 5);
}

#[tokio::test]
async fn an_end_that_is_taken_back_is_not_remembered() {
    let world = world();
    let drawn = world.sketch("a>b").submit().await;
    world.succeed(drawn.id("a")).await;
    let replay = ff_core::decide::replay::Replay {
        id: drawn.id("a"),
        reason: "again".to_owned(),
        replays: None,
        downstream: true,
    };
    world.run(replay).await.unwrap();
    assert!(world.tick(Duty::CompletionDispatch).await.is_empty());
    world.succeed(drawn.id("a")).await;
    assert_eq!(world.tick(Duty::CompletionDispatch).await.len(), 1);
}

#[tokio::test]
async fn a_group_that_somebody_holds_is_passed_over_and_not_waited_for() {
    let stores = Stores::new();
    let world = stores.open().await;
    let drawn = world.sketch("a>c b>c").join("c", any_of()).submit().await;
    world.succeed(drawn.id("a")).await;
    world.dispatch().await;
    let (flow, downstream) = (drawn.flow, drawn.id("c"));
    let hand = stores.connect().await;
    hand.batch_execute("begin; select 1 from ff_edge_group for no key update").await.unwrap();
    let skipped = world.run(CancelSiblings { flow, downstream }).await;
    assert_eq!(skipped, Ok(SiblingsCancelled::SkippedLocked));
    let nothing = world.run(ReconcileSiblings { flow, downstream }).await;
    assert_eq!(nothing, Ok(SiblingsReconciled::NoOp));
    hand.batch_execute("commit").await.unwrap();
    let done = world.run(CancelSiblings { flow, downstream }).await.unwrap();
    assert!(matches!(done, SiblingsCancelled::Dispatched { cancelled: 1, .. }), "{done:?}");
}

#[tokio::test]
async fn an_end_is_told_in_its_own_batch_whatever_else_is_in_it() {
    let mut counts = Vec::new();
    for others in [0, 3] {
        let remote = Remote::new().await;
        let world = &remote.world;
        let drawn = world.sketch("a>c b>c c>d").submit().await;
        world.succeed(drawn.id("a")).await;
        world.dispatch().await;
        let mut batch = Vec::new();
        let fence = world.start(drawn.id("b")).await;
        batch.push(completion(drawn.id("b"), fence, b"out").into());
        for _ in 0..others {
            let id = world.create(world.draft()).await;
            batch.push(completion(id, world.start(id).await, b"out").into());
        }
        let (flow, execution) = (drawn.flow, drawn.id("b"));
        batch.push(DispatchCompletion { flow, execution, eager: true }.into());
        batch.push(StartReleased { ask: world.ask(1) }.into());
        let taken = statements(&remote, async {
            let mut outcomes = world.batch(batch).await;
            assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
            let Some(Ok(Reply::StartReleased(started))) = outcomes.pop() else { panic!() };
            let ids: Vec<_> = started.iter().map(|work| work.leased.execution.id).collect();
            assert_eq!(ids, [drawn.id("c")]);
            assert_eq!(started[0].input.as_ref().unwrap().bytes, &b"in"[..]);
        });
        counts.push(taken.await);
        audit::audit(&(world.store.dump)(), world.now());
    }
    // Ends outside flows leave a timer each: that is one statement more.
    assert!(counts[1] <= counts[0] + 1, "{counts:?}");
}

#[tokio::test]
async fn a_flow_that_somebody_holds_is_told_later() {
    let stores = Stores::new();
    let world = stores.open().await;
    let drawn = world.sketch("a>b").submit().await;
    let fence = world.start(drawn.id("a")).await;
    let hand = stores.connect().await;
    hand.batch_execute("begin; select 1 from ff_flow_core for no key update").await.unwrap();
    let (flow, execution) = (drawn.flow, drawn.id("a"));
    let tell = DispatchCompletion { flow, execution, eager: true };
    let outcomes =
        world.batch(vec![completion(execution, fence, b"out").into(), tell.into()]).await;
    let later = Ok(Reply::DispatchCompletion(Dispatched::Later));
    assert_eq!(outcomes, [Ok(Reply::Complete(())), later], "nobody waits");
    hand.batch_execute("commit").await.unwrap();
    assert_eq!(world.dispatch().await.len(), 1, "it is not forgotten");
    world.take(drawn.id("b")).await;
}

#[tokio::test]
async fn groups_that_were_read_with_their_flow_are_locked_before_they_are_changed() {
    let world = world();
    let drawn = world.sketch("a>b").open().submit().await;
    let (flow, id) = (drawn.flow, drawn.id("a"));
    world.succeed(id).await;
    // Sealing reads every group of the flow and locks none of them.
    let batch = vec![
        SealFlow { flow }.into(),
        DispatchCompletion { flow, execution: id, eager: false }.into(),
    ];
    let outcomes = world.batch(batch).await;
    assert_eq!(outcomes[0], Ok(Reply::SealFlow(FlowWord::Open)));
    assert_eq!(outcomes[1], Ok(Reply::DispatchCompletion(Dispatched::Advanced(1))));
    world.succeed(drawn.id("b")).await;
    world.dispatch().await;
    assert_eq!(world.flow_state(flow).await, FlowWord::Completed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_that_are_read_together_are_of_one_moment() {
    const MEMBERS: usize = 200;
    let stores = Stores::new();
    let (writer, reader) = (stores.open().await, stores.open().await);
    let flow = writer.empty_flow().await;
    let writing = tokio::spawn(async move {
        for _ in 0..MEMBERS {
            writer.member(flow).await;
        }
    });
    let keys = [Key::Flow(flow), Key::First(flow), Key::Members(flow)];
    let mut seen = 0;
    while seen < MEMBERS {
        let have = reader.store.backend.get(&keys).await.unwrap().graph;
        seen = have.first[&flow].len();
        let nodes = usize::try_from(have.known_flow(flow).unwrap().nodes).unwrap();
        assert_eq!((nodes, have.members[&flow].len()), (seen, seen));
    }
    writing.await.unwrap();
}

#[tokio::test]
async fn the_reconciler_looks_at_a_bounded_number_of_groups_and_goes_on_from_there() {
    let stores = Stores::new();
    let world = stores.open().await;
    let backend = &world.store.backend;
    let nodes = names(900);
    let sketch: Vec<_> = nodes.iter().map(|node| format!("first>{node}")).collect();
    let drawn = world.sketch(&sketch.join(" ")).submit().await;
    let everything = WorkFilter::default();
    for _ in 0..4 {
        let due = backend.due(Duty::DependencyReconciler, &everything, 10).await.unwrap();
        assert!(due.commands.is_empty(), "nothing is stuck");
    }
    // Somebody removes by hand what they all wait for.
    let first = drawn.id("first").uuid();
    let gone = ["ff_ready", "ff_exec_core"]
        .map(|table| format!("delete from {table} where execution_id = '{first}'"));
    stores.connect().await.batch_execute(&gone.join(";")).await.unwrap();
    let mut found = Vec::new();
    for _ in 0..3 {
        let due = backend.due(Duty::DependencyReconciler, &everything, 1_000).await.unwrap();
        found.extend(due.commands);
    }
    let known: std::collections::BTreeSet<_> = found.iter().map(|c| format!("{c:?}")).collect();
    assert_eq!(known.len(), nodes.len(), "each is found");
    for chunk in found[..nodes.len()].chunks(500) {
        assert!(world.batch(chunk.to_vec()).await.iter().all(Result::is_ok));
    }
    while !world.tick(Duty::DependencyReconciler).await.is_empty() {}
    world.dispatch().await;
    let skipped = world.buckets(drawn.flow).await.of(ff_core::state::PublicState::Skipped);
    assert_eq!(skipped, 900);
}

/// Two stores on one schema, each as a process of its own.
async fn processes() -> (Fleet, World, World) {
    let fleet = Fleet::new(2).await;
    let of = |number| {
        let (backend, dump) = (fleet.store(number), Box::new(Tables::default));
        World::new(Store { backend, dump, keep: Box::new(()) }, fleet.clock())
    };
    let (here, there) = (of(0), of(1));
    (fleet, here, there)
}

/// Ends a member and tells its flow in one batch, as its worker's process does.
async fn end_and_tell(world: &World, flow: FlowId, id: ExecutionId, fence: Fence) -> Dispatched {
    let tell = DispatchCompletion { flow, execution: id, eager: true };
    let mut outcomes = world.batch(vec![completion(id, fence, b"out").into(), tell.into()]).await;
    match outcomes.pop() {
        Some(Ok(Reply::DispatchCompletion(told))) => told,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_flow_that_is_remembered_is_told_without_being_read() {
    let remote = Remote::new().await;
    let world = &remote.world;
    let drawn = world.sketch("a>b b>c").submit().await;
    let fence = world.start(drawn.id("a")).await;
    let taken = statements(&remote, async {
        let told = end_and_tell(world, drawn.flow, drawn.id("a"), fence).await;
        assert_eq!(told, Dispatched::Advanced(1));
    });
    // Takes the flow, then writes it, the group, the executions, the lease, a place, the edge and the
    // event.
    assert_eq!(taken.await, 8);
    audit::audit(&(world.store.dump)(), world.now());
}

#[tokio::test]
async fn a_flow_that_another_process_extended_is_read_again() {
    let (fleet, here, there) = processes().await;
    let drawn = here.sketch("a>b c").open().submit().await;
    let fence = here.start(drawn.id("a")).await;
    there.link(drawn.flow, drawn.id("c"), drawn.id("b")).await;
    let told = end_and_tell(&here, drawn.flow, drawn.id("a"), fence).await;
    assert_eq!(told, Dispatched::Advanced(1));
    assert_eq!(here.state(drawn.id("b")).await, PublicState::WaitingChildren, "c has not ended");
    here.succeed(drawn.id("c")).await;
    here.dispatch().await;
    here.take(drawn.id("b")).await;
    drop((here, there));
    fleet.finish().await;
}

#[tokio::test]
async fn a_member_that_another_process_cancelled_is_not_let_go() {
    let (fleet, here, there) = processes().await;
    let drawn = here.sketch("a>b b>c").submit().await;
    let fence = here.start(drawn.id("a")).await;
    there.cancel(drawn.id("b")).await.unwrap();
    end_and_tell(&here, drawn.flow, drawn.id("a"), fence).await;
    assert_eq!(here.state(drawn.id("b")).await, PublicState::Cancelled);
    here.dispatch().await;
    assert_eq!(here.state(drawn.id("c")).await, PublicState::Skipped);
    drop((here, there));
    fleet.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flow_is_cancelled_while_its_members_renew_their_leases() {
    const RUNNING: usize = 300;
    let (fleet, here, there) = processes().await;
    let drawn = here.sketch(&names(RUNNING).join(" ")).submit().await;
    let mut leases = Vec::new();
    for name in names(RUNNING) {
        let id = drawn.id(&name);
        leases.push((id, here.start(id).await));
    }
    let (store, clock) = (Arc::clone(&there.store.backend), fleet.clock());
    let (rounds, mut renewed) = tokio::sync::watch::channel(0);
    let renewing = tokio::spawn(async move {
        let renew = |(id, fence): &(ExecutionId, Fence)| {
            Renew { id: *id, fence: *fence, lease_ttl_ms: 60_000 }.into()
        };
        loop {
            clock.advance(1);
            let outcomes = store.apply(leases.iter().map(renew).collect()).await.unwrap();
            if outcomes.iter().all(Result::is_err) {
                return;
            }
            rounds.send_modify(|rounds| *rounds += 1);
        }
    });
    renewed.wait_for(|rounds| *rounds > 2).await.unwrap();
    let done = here.cancel_flow(drawn.flow, CancellationPolicy::All).await.unwrap();
    assert_eq!(done.members.len(), RUNNING);
    renewing.await.unwrap();
    drop((here, there));
    fleet.finish().await;
}

#[tokio::test]
async fn a_parent_does_not_wait_for_a_group_that_fired_elsewhere() {
    let (fleet, here, there) = processes().await;
    let drawn = here.sketch("p").open().submit().await;
    let (flow, p) = (drawn.flow, drawn.id("p"));
    let fence = here.start(p).await;
    let child = here.more(flow, "c").between(NodeRef::Name(name("c")), NodeRef::Execution(p));
    child.extend_as(p, fence).await.unwrap();
    there.succeed(drawn.id("c")).await;
    there.dispatch().await;
    assert_eq!(here.wait_children(flow, p, fence).await, Ok(Waiting::Ready));
    drop((here, there));
    fleet.finish().await;
}

#[tokio::test]
async fn a_member_that_was_let_go_elsewhere_is_looked_after_here() {
    let (fleet, here, there) = processes().await;
    let drawn = here.sketch("a>z").submit().await;
    there.succeed(drawn.id("a")).await;
    there.dispatch().await;
    let z = drawn.id("z");
    let fence = there.start(z).await;
    here.pass(3_600_000);
    let expired = here.run(ExpireLease { id: z, lease_epoch: fence.lease_epoch }).await;
    assert!(matches!(expired, Ok(LeaseChecked::Expired(_))), "{expired:?}");
    there.run(Hold { id: z, reason: "wait".to_owned(), version: None }).await.unwrap();
    here.run(Unhold { id: z, version: None }).await.unwrap();
    here.take(z).await;
    drop((here, there));
    fleet.finish().await;
}
