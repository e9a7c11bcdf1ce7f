//! Races over flows, between stores as separate processes would be: joins fire once, siblings are
//! cancelled once, and nobody waits for who holds a group.

use std::sync::Arc;

use ff_backend_postgres::{Options, Postgres};
use ff_cluster::Cluster;
use ff_conformance::model::Tables;
use ff_conformance::world::flows::any_of;
use ff_conformance::{Dial, Store, World};
use ff_core::backend::{Duty, WorkFilter};
use ff_core::command::{Command, Reply};
use ff_core::decide::complete::Complete;
use ff_core::decide::dispatch::{DispatchCompletion, Dispatched};
use ff_core::decide::sibling_cancel::{CancelSiblings, SiblingsCancelled};
use ff_core::flow::{FlowWord, GroupState};
use ff_core::state::PublicState;
use ff_core::{Backend, ExecutionId, FlowId};
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use tokio_postgres::NoTls;

use crate::races::Fleet;
use crate::server::connect;

/// Connections that write at the same moment.
const AT_ONCE: usize = 64;
/// Stores that they belong to; each writes over two.
const STORES: usize = 32;

/// Has every racer wait for the others, then sends its commands one by one.
async fn race(stores: &[Arc<Postgres>], commands: Vec<Vec<Command>>) -> Vec<Vec<Reply>> {
    let start = Arc::new(Barrier::new(commands.len()));
    let mut racers = JoinSet::new();
    for (number, own) in commands.into_iter().enumerate() {
        let store = Arc::clone(&stores[number % stores.len()]);
        let start = Arc::clone(&start);
        racers.spawn(async move {
            start.wait().await;
            let mut replies = Vec::new();
            for command in own {
                let mut outcomes = store.apply(vec![command]).await.expect("nothing is exhausted");
                replies.push(outcomes.pop().unwrap().unwrap());
            }
            replies
        });
    }
    racers.join_all().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_four_upstreams_that_end_at_once_fire_their_join_once() {
    // So many connections are more than the server of the other tests has to spare.
    let cluster = Cluster::start(&[("max_connections", "400")]).unwrap();
    let mut stores = Vec::new();
    for _ in 0..STORES {
        let options = Options::new(cluster.url());
        stores.push(Arc::new(Postgres::open(options).await.unwrap()));
    }
    let world = on(Arc::clone(&stores[0]), Arc::new(Dial::default()));
    let names: Vec<_> = (0..AT_ONCE).map(|n| format!("u{n}")).collect();
    let edges: Vec<_> = names.iter().map(|name| format!("{name}>join")).collect();
    let drawn = world.sketch(&edges.join(" ")).submit().await;
    let mut commands = Vec::new();
    for name in &names {
        let (id, flow) = (drawn.id(name), drawn.flow);
        let fence = world.start(id).await;
        let complete = Complete { id, fence, result: None, encoding: None };
        let dispatch = DispatchCompletion { flow, execution: id, eager: false };
        commands.push(vec![Command::from(complete), Command::from(dispatch)]);
    }
    let replies = race(&stores, commands).await;
    for replies in replies {
        let advanced = Reply::DispatchCompletion(Dispatched::Advanced(1));
        assert_eq!(replies, [Reply::Complete(()), advanced]);
    }
    let group = world.group(drawn.flow, drawn.id("join")).await;
    assert_eq!(group.counters.satisfied, u32::try_from(AT_ONCE).unwrap());
    assert!(matches!(group.state, GroupState::Satisfied { .. }));
    assert_eq!(world.state(drawn.id("join")).await, PublicState::Waiting);
    world.succeed(drawn.id("join")).await;
    world.dispatch().await;
    assert_eq!(world.flow_state(drawn.flow).await, FlowWord::Completed);
    drop((world, stores));
    let (db, connection) = tokio_postgres::connect(&cluster.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    let count = "select deadlocks from pg_stat_database where datname = current_database()";
    let deadlocks: i64 = db.query_one(count, &[]).await.unwrap().get(0);
    assert_eq!(deadlocks, 0);
}

/// The words of the suite for a store.
fn on(backend: Arc<Postgres>, clock: Arc<Dial>) -> World {
    let store = Store { backend, dump: Box::new(Tables::default), keep: Box::new(()) };
    World::new(store, clock)
}

/// Flows whose join has fired while two upstreams run.
async fn fired(world: &World, count: usize) -> Vec<(FlowId, [ExecutionId; 3])> {
    let mut flows = Vec::new();
    for _ in 0..count {
        let drawn = world.sketch("a>d b>d c>d").join("d", any_of()).submit().await;
        world.start(drawn.id("b")).await;
        world.succeed(drawn.id("a")).await;
        flows.push((drawn.flow, drawn.ids(["b", "c", "d"])));
    }
    world.dispatch().await;
    flows
}

/// Cancels siblings until nothing is left to do, as a process would; how many groups it drained.
async fn drain(store: Arc<Postgres>) -> u32 {
    let mut drained = 0;
    loop {
        let due = store.due(Duty::EdgeCancelDispatcher, &WorkFilter::default(), 50).await.unwrap();
        if due.commands.is_empty() {
            return drained;
        }
        for outcome in store.apply(due.commands).await.unwrap() {
            match outcome.unwrap() {
                Reply::CancelSiblings(SiblingsCancelled::Dispatched { cancelled, .. }) => {
                    assert_eq!(cancelled, 2);
                    drained += 1;
                }
                Reply::CancelSiblings(
                    SiblingsCancelled::Gone | SiblingsCancelled::SkippedLocked,
                ) => {}
                other => panic!("{other:?}"),
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_dispatchers_cancel_each_sibling_once() {
    const GROUPS: usize = 200;
    let fleet = Fleet::new(2).await;
    let world = on(fleet.store(0), fleet.clock());
    let flows = fired(&world, GROUPS).await;
    let (first, second) =
        tokio::join!(tokio::spawn(drain(fleet.store(0))), tokio::spawn(drain(fleet.store(1))));
    let drained = first.unwrap() + second.unwrap();
    assert_eq!(drained, u32::try_from(GROUPS).unwrap(), "each group by one of them");
    for (_, [b, c, _]) in &flows {
        for id in [b, c] {
            assert_eq!(world.state(*id).await, PublicState::Cancelled);
            let names = world.event_names(*id).await;
            let ends = names.iter().filter(|name| **name == "completion");
            assert_eq!(ends.count(), 1, "{id} ended once");
        }
    }
    drop(world);
    fleet.finish().await;
}

#[tokio::test]
async fn a_group_that_somebody_holds_is_left_to_them() {
    let fleet = Fleet::new(1).await;
    let world = on(fleet.store(0), fleet.clock());
    let (flow, [_, _, downstream]) = fired(&world, 1).await[0];
    let mut db = connect().await;
    let tx = db.transaction().await.unwrap();
    let lock = format!(
        "select 1 from {}.ff_edge_group where downstream_id = $1 for update",
        fleet.schema()
    );
    tx.query_one(&lock, &[&downstream.uuid()]).await.unwrap();
    let cancel = || vec![Command::from(CancelSiblings { flow, downstream })];
    let outcomes = fleet.store(0).apply(cancel()).await.unwrap();
    assert_eq!(outcomes, [Ok(Reply::CancelSiblings(SiblingsCancelled::SkippedLocked))]);
    tx.rollback().await.unwrap();
    let outcomes = fleet.store(0).apply(cancel()).await.unwrap();
    let (cancelled, spared, already_terminal, not_found) = (2, 0, 0, 0);
    let done = SiblingsCancelled::Dispatched { cancelled, spared, already_terminal, not_found };
    assert_eq!(outcomes, [Ok(Reply::CancelSiblings(done))]);
    drop((world, db));
    fleet.finish().await;
}
