//! Children: work that handlers hand to others, beside them or to wait for.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ff_core::FlowId;
use ff_core::flow::FlowWord;
use ff_core::state::PublicState;
use ff_sdk::{Client, Context, Error, Handle, Result, Running, node};
use ff_wire::flow::MemberParams;
use tokio::time::Instant;

use crate::{HOUR, open, worker};

/// What handlers did to the world.
#[derive(Default)]
struct World {
    deeds: Mutex<Vec<String>>,
    runs: AtomicU32,
}

impl World {
    fn note(&self, deed: impl Into<String>) {
        self.deeds.lock().unwrap().push(deed.into());
    }

    fn deeds(&self) -> Vec<String> {
        let mut deeds = self.deeds.lock().unwrap().clone();
        deeds.sort();
        deeds
    }
}

/// Doubles a number, after that many seconds, and says so.
async fn double(ctx: Context, n: u64) -> Result<u64> {
    ctx.state::<Arc<World>>().note(format!("double {n}"));
    tokio::select! {
        () = tokio::time::sleep(Duration::from_secs(n)) => Ok(n * 2),
        () = ctx.cancelled().cancelled() => {
            ctx.state::<Arc<World>>().note(format!("cancelled {n}"));
            Err("cancelled".into())
        }
    }
}

async fn fail(_: Context, why: String) -> Result<u64> {
    Err(Error::permanent(why).into())
}

/// A worker with the handlers of children and that of a parent.
fn start<F, T>(client: &Client, world: &Arc<World>, parent: F) -> Running
where
    F: ff_sdk::Handler<(), T>,
    T: serde::Serialize + Send + 'static,
{
    let worker = worker(client).state(Arc::clone(world)).handle("parent", parent);
    worker.handle("double", double).handle("fail", fail).concurrency(8).start().unwrap()
}

async fn members(client: &Client, flow: FlowId) -> BTreeMap<String, PublicState> {
    let page = client.flow_by_id(flow).members(MemberParams::default()).await.unwrap();
    let kind =
        |x: &ff_wire::ExecutionSnapshot| x.node.clone().unwrap_or_else(|| x.execution_kind.clone());
    page.members.into_iter().map(|x| (kind(&x), x.public_state)).collect()
}

fn own_flow(handle: &Handle) -> FlowId {
    FlowId::rooted_at(handle.id())
}

#[tokio::test(start_paused = true)]
async fn children_are_joined_in_the_order_they_were_given() {
    async fn parent(ctx: Context, (): ()) -> Result<Vec<u64>> {
        ctx.state::<Arc<World>>().runs.fetch_add(1, Ordering::SeqCst);
        assert_eq!(
            ctx.flow_id().is_some(),
            ctx.state::<Arc<World>>().runs.load(Ordering::SeqCst) > 1
        );
        let doubled = ctx.join_all([3, 1, 2].map(|n| ctx.task("double", n))).await?;
        assert_eq!(ctx.flow_id(), Some(FlowId::rooted_at(ctx.execution_id())));
        Ok(doubled)
    }
    let (engine, client) = open();
    let world = Arc::new(World::default());
    let running = start(&client, &world, parent);
    let begun = Instant::now();
    let made = client.create("parent", ()).await.unwrap();
    assert_eq!(made.result::<Vec<u64>>().await.unwrap(), [6, 2, 4]);
    assert!(begun.elapsed() < Duration::from_secs(5), "they run side by side");
    assert_eq!(world.deeds(), ["double 1", "double 2", "double 3"]);
    assert_eq!(client.flow_by_id(own_flow(&made)).ended().await.unwrap(), FlowWord::Completed);
    let tail = &made.id().uuid().simple().to_string()[20..];
    let names: Vec<_> = members(&client, own_flow(&made)).await.into_keys().collect();
    let expected = [0, 1, 2].map(|index| format!("double.{tail}.0.{index}"));
    assert_eq!(names, [&expected[..], &["parent".to_owned()]].concat());
    let (steps, _) = engine.list_steps(made.id(), None, 10).await.unwrap();
    assert_eq!(
        steps.iter().map(|record| record.step.name.as_str()).collect::<Vec<_>>(),
        ["join_all"]
    );
    let x = engine.find_execution(made.id()).await.unwrap().unwrap();
    assert_eq!(x.counts.attempts, 1, "a wait does not end the attempt");
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_children_gives_the_slot_back() {
    async fn parent(ctx: Context, depth: u64) -> Result<u64> {
        if depth == 0 {
            return Ok(1);
        }
        let children = [depth - 1, depth - 1].map(|depth| ctx.task("parent", depth));
        Ok(ctx.join_all::<u64, _>(children).await?.into_iter().sum())
    }
    let (_, client) = open();
    let running = worker(&client).concurrency(1).handle("parent", parent).start().unwrap();
    let made = client.create("parent", 4).await.unwrap();
    assert_eq!(made.result::<u64>().await.unwrap(), 16, "children of children, with one slot");
    let flow = client.flow_by_id(own_flow(&made));
    assert_eq!(flow.ended().await.unwrap(), FlowWord::Completed);
    assert_eq!(flow.summary().await.unwrap().members_completed, 31, "all in one flow");
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_first_child_that_failed_is_the_error() {
    async fn parent(ctx: Context, (): ()) -> Result<Vec<u64>> {
        let tasks = [ctx.task("double", 1), ctx.task("fail", "burnt"), ctx.task("fail", "cold")];
        Ok(ctx.join_all(tasks).await?)
    }
    let (engine, client) = open();
    let running = start(&client, &Arc::default(), parent);
    let made = client.create("parent", ()).retries(3).await.unwrap();
    assert_eq!(made.ended().await.unwrap(), PublicState::Failed);
    let x = engine.describe_execution(made.id()).await.unwrap().unwrap();
    let reason = x.failure.unwrap().reason;
    assert!(reason.contains("burnt"), "{reason}");
    assert_eq!(x.counts.attempts, 1, "what ended does not end otherwise when asked again");
    running.stop().await.unwrap();
}

/// An error of an application that says what it wraps, and has it as its source.
#[derive(Debug)]
struct Wrapped(Error);

impl std::fmt::Display for Wrapped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the order failed: {}", self.0)
    }
}

impl std::error::Error for Wrapped {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0)
    }
}

#[tokio::test(start_paused = true)]
async fn the_failure_of_a_child_names_each_id_once() {
    async fn middle(ctx: Context, (): ()) -> Result<u64> {
        let found = ctx.race::<u64, _>([ctx.task("fail", "burnt")]).await;
        // What a handler says may name its own execution already.
        Ok(found.map_err(|why| Error::permanent(format!("{}: {why}", ctx.execution_id())))?)
    }
    async fn parent(ctx: Context, (): ()) -> Result<u64> {
        let done = ctx.join_all::<u64, _>([ctx.task("middle", ())]).await;
        Ok(done.map_err(Wrapped)?.into_iter().sum())
    }
    let (engine, client) = open();
    let worker = worker(&client).handle("parent", parent).handle("middle", middle);
    let running = worker.handle("fail", fail).concurrency(8).start().unwrap();
    let made = client.create("parent", ()).await.unwrap();
    assert_eq!(made.ended().await.unwrap(), PublicState::Failed);
    let x = engine.describe_execution(made.id()).await.unwrap().unwrap();
    let reason = x.failure.unwrap().reason;
    let flow = client.flow_by_id(own_flow(&made)).members(MemberParams::default()).await.unwrap();
    let ids = flow.members.iter().map(|x| x.execution_id).filter(|id| *id != made.id());
    for id in ids {
        assert_eq!(reason.matches(&id.to_string()).count(), 1, "{id} in {reason:?}");
    }
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn children_that_fail_are_settled_with_the_others() {
    async fn parent(ctx: Context, (): ()) -> Result<Vec<String>> {
        let tasks = [ctx.task("double", 1), ctx.task("fail", "burnt"), ctx.task("double", 2)];
        let settled = ctx.settle_all::<u64, _>(tasks).await;
        ctx.sleep(HOUR).await;
        let said = |one: Result<u64, Error>| one.map_or_else(|e| e.to_string(), |n| n.to_string());
        Ok(settled.into_iter().map(said).collect())
    }
    let (_, client) = open();
    let running = start(&client, &Arc::default(), parent);
    let made = client.create("parent", ()).await.unwrap();
    let said: Vec<String> = made.result().await.unwrap();
    assert_eq!((said[0].as_str(), said[2].as_str()), ("2", "4"));
    assert!(said[1].ends_with("is failed: burnt"), "{}", said[1]);
    assert_eq!(client.flow_by_id(own_flow(&made)).ended().await.unwrap(), FlowWord::Failed);
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_others_of_a_race_are_cancelled_and_notice() {
    async fn parent(ctx: Context, (): ()) -> Result<u64> {
        let tasks = [ctx.task("double", 5000), ctx.task("fail", "no"), ctx.task("double", 1)];
        Ok(ctx.race(tasks).await?)
    }
    let (_, client) = open();
    let world = Arc::new(World::default());
    let running = start(&client, &world, parent);
    let begun = Instant::now();
    let made = client.create("parent", ()).await.unwrap();
    assert_eq!(made.result::<u64>().await.unwrap(), 2);
    assert!(begun.elapsed() < Duration::from_mins(1));
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(world.deeds(), ["cancelled 5000", "double 1", "double 5000"]);
    let states = members(&client, own_flow(&made)).await;
    let cancelled = states.values().filter(|state| **state == PublicState::Cancelled).count();
    assert_eq!(cancelled, 1, "{states:?}");
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_race_that_nobody_wins_is_an_error() {
    async fn parent(ctx: Context, (): ()) -> Result<String> {
        let none = ctx.race::<u64, _>([]).await.unwrap_err().to_string();
        let tasks = [ctx.task("fail", "first"), ctx.task("fail", "second")];
        let error = ctx.race::<u64, _>(tasks).await.unwrap_err().to_string();
        Ok(format!("{none}; {error}"))
    }
    let (_, client) = open();
    let running = start(&client, &Arc::default(), parent);
    let made = client.create("parent", ()).await.unwrap();
    let said: String = made.result().await.unwrap();
    assert!(
        said.starts_with("none succeeded; none succeeded: ") && said.ends_with("first"),
        "{said}"
    );
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn one_wait_may_follow_another() {
    async fn parent(ctx: Context, (): ()) -> Result<Vec<u64>> {
        let task = |n: u64| ctx.task("double", n);
        let mut all = ctx.join_all([task(1), task(2)]).await?;
        all.extend(ctx.join_all::<u64, _>([task(3)]).await?);
        all.push(ctx.race([task(100), task(4)]).await?);
        all.extend(ctx.join_all::<u64, _>([]).await?);
        all.extend(ctx.join_all::<u64, _>([task(5)]).await?);
        Ok(all)
    }
    let (engine, client) = open();
    let world = Arc::new(World::default());
    let running = start(&client, &world, parent);
    let made = client.create("parent", ()).await.unwrap();
    assert_eq!(made.result::<Vec<u64>>().await.unwrap(), [2, 4, 6, 8, 10]);
    let (steps, _) = engine.list_steps(made.id(), None, 10).await.unwrap();
    let numbers: Vec<_> = steps.iter().map(|record| record.step.number).collect();
    assert_eq!(numbers, [0, 1, 2, 3, 4]);
    assert_eq!(client.flow_by_id(own_flow(&made)).ended().await.unwrap(), FlowWord::Completed);
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn one_race_may_follow_another() {
    async fn parent(ctx: Context, (): ()) -> Result<Vec<u64>> {
        let task = |n: u64| ctx.task("double", n);
        let first = ctx.race([task(1000), task(1)]).await?;
        let second = ctx.race([ctx.task("fail", "no"), task(2000), task(2)]).await?;
        Ok(vec![first, second])
    }
    let (_, client) = open();
    let running = start(&client, &Arc::default(), parent);
    let begun = Instant::now();
    let made = client.create("parent", ()).await.unwrap();
    assert_eq!(made.result::<Vec<u64>>().await.unwrap(), [2, 4]);
    assert!(begun.elapsed() < Duration::from_mins(1), "{:?}", begun.elapsed());
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn waits_may_be_asked_for_side_by_side() {
    async fn parent(ctx: Context, (): ()) -> Result<(Vec<u64>, u64)> {
        let task = |n: u64| ctx.task("double", n);
        let (joined, raced) =
            tokio::join!(ctx.join_all([task(1), task(2)]), ctx.race([task(300), task(3)]));
        Ok((joined?, raced?))
    }
    let (_, client) = open();
    let running = start(&client, &Arc::default(), parent);
    let made = client.create("parent", ()).await.unwrap();
    assert_eq!(made.result::<(Vec<u64>, u64)>().await.unwrap(), (vec![2, 4], 6));
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_spawned_child_runs_beside_its_parent_and_outlives_it() {
    async fn parent(ctx: Context, (): ()) -> Result<ff_core::ExecutionId> {
        let child = ctx.spawn(ctx.task("double", 50)).await;
        ctx.sleep(Duration::from_secs(1)).await;
        Ok(child.id())
    }
    let (_, client) = open();
    let world = Arc::new(World::default());
    let running = start(&client, &world, parent);
    let made = client.create("parent", ()).await.unwrap();
    let child = client.execution(made.result().await.unwrap());
    assert_eq!(child.wait(Duration::ZERO).await.unwrap(), PublicState::Active);
    let flow = client.flow_by_id(own_flow(&made));
    assert_eq!(flow.wait(Duration::ZERO).await.unwrap(), FlowWord::Open);
    assert_eq!(child.result::<u64>().await.unwrap(), 100);
    assert_eq!(flow.ended().await.unwrap(), FlowWord::Completed);
    assert_eq!(world.deeds(), ["double 50"], "once");
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn children_of_a_node_are_members_of_its_flow() {
    async fn parent(ctx: Context, (): ()) -> Result<u64> {
        let given: u64 = ctx.input("given").await?;
        let doubled: Vec<u64> = ctx.join_all([ctx.task("double", given)]).await?;
        Ok(doubled[0])
    }
    let (_, client) = open();
    let running = start(&client, &Arc::default(), parent);
    let flow = client
        .flow("family")
        .namespace("studio")
        .node(node("seed", "double", 1))
        .node(node("grows", "parent", ()).reads("seed", "given"))
        .node(node("last", "double", 0).takes("grows"))
        .await
        .unwrap();
    assert_eq!(flow.result::<u64>("last").await.unwrap(), 8);
    assert_eq!(flow.ended().await.unwrap(), FlowWord::Completed);
    assert_eq!(flow.summary().await.unwrap().total_members, 4);
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn children_may_rest_on_the_time_and_on_chance() {
    async fn parent(ctx: Context, (): ()) -> Result<bool> {
        let chance = ctx.random("first") % 3;
        let spawned = ctx.spawn(ctx.task("double", chance)).await;
        let other = ctx.random("other") % 3;
        let doubled: Vec<u64> = ctx.join_all([ctx.task("double", other)]).await?;
        Ok(doubled == [other * 2] && spawned.result::<u64>().await? == chance * 2)
    }
    let (_, client) = open();
    let running = start(&client, &Arc::default(), parent);
    for _ in 0..20 {
        let made = client.create("parent", ()).await.unwrap();
        assert!(made.result::<bool>().await.unwrap());
        assert_eq!(members(&client, own_flow(&made)).await.len(), 3);
    }
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn large_results_stay_with_the_children() {
    async fn large(_: Context, n: usize) -> Result<String> {
        Ok("x".repeat(n << 10))
    }
    async fn parent(ctx: Context, (): ()) -> Result<Vec<usize>> {
        let tasks = [200, 100, 50, 900].map(|kib: usize| ctx.task("large", kib));
        let all: Vec<String> = ctx.join_all(tasks).await?;
        ctx.sleep(HOUR).await;
        Ok(all.into_iter().map(|text| text.len() >> 10).collect())
    }
    let (engine, client) = open();
    let running = worker(&client).handle("large", large).handle("parent", parent).start().unwrap();
    let made = client.create("parent", ()).await.unwrap();
    assert_eq!(made.result::<Vec<usize>>().await.unwrap(), [200, 100, 50, 900]);
    let (steps, _) = engine.list_steps(made.id(), None, 10).await.unwrap();
    assert!(steps[0].step.bytes.len() < 257 << 10, "{}", steps[0].step.bytes.len());
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_changed_order_is_refused_for_children_as_for_steps() {
    async fn parent(ctx: Context, (): ()) -> Result<()> {
        let task = ctx.task("double", 1);
        if ctx.state::<Arc<World>>().runs.fetch_add(1, Ordering::SeqCst) < 2 {
            ctx.join_all::<u64, _>([task]).await?;
            Err("again".into())
        } else {
            let _ = ctx.race::<u64, _>([task]).await;
            Ok(())
        }
    }
    let (engine, client) = open();
    let running = start(&client, &Arc::default(), parent);
    let made = client.create("parent", ()).retries(5).await.unwrap();
    assert_eq!(made.ended().await.unwrap(), PublicState::Failed);
    let failure = engine.describe_execution(made.id()).await.unwrap().unwrap().failure.unwrap();
    assert_eq!(failure.category.as_str(), "steps");
    let reason = &failure.reason;
    assert!(reason.contains("\"join_all\"") && reason.contains("\"race\""), "{reason}");
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_task_that_makes_no_sense_stops_its_parent_for_good() {
    async fn parent(ctx: Context, (): ()) -> Result<()> {
        let _ = ctx.join_all::<u64, _>([ctx.task("double", 1).lane("")]).await;
        Ok(())
    }
    let (engine, client) = open();
    let running = start(&client, &Arc::default(), parent);
    let made = client.create("parent", ()).retries(5).await.unwrap();
    assert_eq!(made.ended().await.unwrap(), PublicState::Failed);
    let x = engine.describe_execution(made.id()).await.unwrap().unwrap();
    assert!(x.failure.unwrap().reason.contains("lane_id"));
    assert_eq!(x.counts.attempts, 1);
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_parent_leaves_its_children_alone_and_a_cancelled_flow_does_not() {
    async fn parent(ctx: Context, (): ()) -> Result<Vec<u64>> {
        Ok(ctx.join_all([ctx.task("double", 50)]).await?)
    }
    let (_, client) = open();
    let running = start(&client, &Arc::default(), parent);
    for with_flow in [false, true] {
        let made = client.create("parent", ()).await.unwrap();
        assert_eq!(made.wait(Duration::from_secs(9)).await.unwrap(), PublicState::WaitingChildren);
        let flow = client.flow_by_id(own_flow(&made));
        if with_flow {
            flow.cancel("enough").await.unwrap();
        } else {
            made.cancel("enough").await.unwrap();
        }
        flow.ended().await.unwrap();
        let states: Vec<_> = members(&client, flow.id()).await.into_values().collect();
        let child = if with_flow { PublicState::Cancelled } else { PublicState::Completed };
        assert_eq!(states, [child, PublicState::Cancelled]);
    }
    running.stop().await.unwrap();
}

/// A success that is replayed is a new generation: its children are others, and may have another input.
#[tokio::test(start_paused = true)]
async fn a_successful_parent_that_is_replayed_has_children_anew() {
    async fn parent(ctx: Context, (): ()) -> Result<u64> {
        let world = ctx.state::<Arc<World>>();
        let run = u64::from(world.runs.load(Ordering::SeqCst));
        let task = |n: u64| ctx.task("double", n + run);
        let joined: Vec<u64> = ctx.join_all([task(1), task(2)]).await?;
        Ok(joined[0] + joined[1] + ctx.race::<u64, _>([task(3), task(400)]).await?)
    }
    let (_, client) = open();
    let world = Arc::new(World::default());
    let running = start(&client, &world, parent);
    let made = client.create("parent", ()).await.unwrap();
    assert_eq!(made.result::<u64>().await.unwrap(), 12);
    let flow = client.flow_by_id(own_flow(&made));
    assert_eq!(flow.ended().await.unwrap(), FlowWord::Completed);
    world.runs.store(1, Ordering::SeqCst);
    made.replay("once more").await.unwrap();
    assert_eq!(made.result::<u64>().await.unwrap(), 18);
    assert_eq!(flow.ended().await.unwrap(), FlowWord::Completed);
    assert_eq!(flow.summary().await.unwrap().total_members, 9);
    running.stop().await.unwrap();
}

/// A parent that failed through a child reads its end anew, and waits for it if it runs again.
#[tokio::test(start_paused = true)]
async fn a_failed_parent_is_repaired_by_replaying_it_and_its_child() {
    async fn shaky(ctx: Context, (): ()) -> Result<u64> {
        let world = ctx.state::<Arc<World>>();
        if world.runs.load(Ordering::SeqCst) == 0 {
            return Err(ff_sdk::Error::permanent("no").into());
        }
        ctx.sleep(HOUR).await;
        Ok(5)
    }
    async fn parent(ctx: Context, (): ()) -> Result<u64> {
        let all: Vec<u64> = ctx.join_all([ctx.task("shaky", ()), ctx.task("double", 1)]).await?;
        Ok(all.into_iter().sum())
    }
    let (_, client) = open();
    let world = Arc::new(World::default());
    let worker = worker(&client).state(Arc::clone(&world));
    let worker = worker.handle("shaky", shaky).handle("double", double).handle("parent", parent);
    let running = worker.start().unwrap();
    let made = client.create("parent", ()).await.unwrap();
    assert_eq!(made.ended().await.unwrap(), PublicState::Failed);
    let flow = client.flow_by_id(own_flow(&made));
    let page = flow.members(MemberParams::default()).await.unwrap();
    let child = page.members.iter().find(|x| x.execution_kind == "shaky").unwrap();
    world.runs.store(1, Ordering::SeqCst);
    client.execution(child.execution_id).replay("repaired").await.unwrap();
    made.replay("its child is repaired").await.unwrap();
    assert_eq!(made.result::<u64>().await.unwrap(), 7);
    running.stop().await.unwrap();
}
