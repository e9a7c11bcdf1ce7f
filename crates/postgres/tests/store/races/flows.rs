//! Races over flows: many stores tell, cancel, extend and replay the same ones at once.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ff_conformance::world::{any_of, kind, lane, name, namespace};
use ff_core::backend::{Duty, WorkFilter};
use ff_core::command::{Command, Reply};
use ff_core::decide::cancel_flow::CancelFlow;
use ff_core::decide::create_flow::CreateFlow;
use ff_core::decide::dispatch::DispatchCompletion;
use ff_core::decide::extend_flow::ExtendFlow;
use ff_core::decide::replay::Replay;
use ff_core::decide::start_released::StartReleased;
use ff_core::decide::submit_flow::SubmitFlow;
use ff_core::flow::{CancellationPolicy, EdgePolicy, Graph, Link, Node, NodeRef};
use ff_core::text::Kind;
use ff_core::{Backend, Claimed, ExecutionId, FlowId};
use tokio::task::JoinSet;
use uuid::Uuid;

use super::{Fleet, claim, complete, dump, send};

/// What a flow asks of its dispatchers.
const DUTIES: [Duty; 5] = [
    Duty::CompletionDispatch,
    Duty::EdgeCancelDispatcher,
    Duty::EdgeCancelReconciler,
    Duty::CancelBacklog,
    Duty::DependencyReconciler,
];

fn flow(number: usize) -> FlowId {
    FlowId(Uuid::from_u128(u128::try_from(number + 1).unwrap() << 80))
}

fn node(flow: FlowId, text: &str) -> Node {
    let node = Node::new(flow, name(text), lane("default"), Kind::new("job").unwrap());
    let mut create = node.create;
    create.namespace = namespace("test");
    Node { create, ..node }
}

fn at(text: &str) -> NodeRef {
    NodeRef::Name(name(text))
}

/// A flow of `width` nodes; one waits for all of them, another for any.
fn submission(number: usize, width: usize) -> SubmitFlow {
    let id = flow(number);
    let mut graph = Graph::default();
    for at_width in 0..width {
        let text = format!("n{at_width}");
        graph.nodes.push(node(id, &text));
        graph.links.push(Link::new(at(&text), at("all")));
        graph.links.push(Link::new(at(&text), at("any")));
    }
    graph.nodes.extend([node(id, "all"), node(id, "any")]);
    graph.joins.push((at("all"), EdgePolicy::AllOf));
    graph.joins.push((at("any"), any_of()));
    let flow = CreateFlow { namespace: namespace("test"), ..CreateFlow::new(id, kind("dag")) };
    SubmitFlow { flow, graph, seal: true, idempotency_key: None, dedup_window_ms: None }
}

async fn submit(fleet: &Fleet, flows: usize, width: usize) {
    for number in 0..flows {
        send(&fleet.stores[0], submission(number, width).into()).await.unwrap();
    }
}

/// What a duty has to do now, as this store sees it.
async fn due(store: &dyn Backend, duty: Duty, limit: u32) -> Vec<Command> {
    store.due(duty, &WorkFilter::default(), limit).await.unwrap().commands
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn joins_that_many_tell_at_once_fire_once() {
    const FLOWS: usize = 6;
    let fleet = Fleet::new(4).await;
    submit(&fleet, FLOWS, 20).await;
    let mut left = FLOWS * 20;
    while left > 0 {
        let claimed = claim(&fleet.stores[0], "w0", 100).await;
        left -= claimed.len();
        let done = claimed.iter().map(|w| complete(w.leased.execution.id, w.leased.fence));
        fleet.stores[0].apply(done.collect()).await.unwrap();
    }
    // All of them tell the same at once, every other one back to front.
    let told = due(&*fleet.stores[1], Duty::CompletionDispatch, 1_000).await;
    assert_eq!(told.len(), FLOWS * 20);
    for chunk in told.chunks(40) {
        let outcomes = super::all_at_once(&fleet, |_| chunk.to_vec()).await;
        assert!(outcomes.iter().flatten().all(Result::is_ok), "{outcomes:?}");
    }
    let tables = dump::dump(&fleet.schema);
    assert!(tables.dispatch.is_empty());
    let ready: BTreeSet<_> = tables.ready.iter().map(|ready| ready.execution).collect();
    let last = (0..FLOWS).flat_map(|number| {
        ["all", "any"].map(|text| ExecutionId::for_node(flow(number), &name(text)))
    });
    assert_eq!(ready, last.collect::<BTreeSet<_>>(), "what waited is let go");
    fleet.finish().await;
}

/// Claims and ends work until nothing is left; every seventh end is a cancellation. Flows are told
/// with it, unless somebody else holds them, and what that lets go is started at once.
fn work(fleet: &Fleet, number: usize, over: Arc<AtomicUsize>) -> impl Future<Output = ()> + use<> {
    let store = fleet.store(number);
    async move {
        let (name, mut count) = (format!("w{number}"), 0);
        let mut started: Vec<Claimed> = Vec::new();
        loop {
            let last = over.load(Ordering::SeqCst) == 0;
            let mut claimed = std::mem::take(&mut started);
            if claimed.is_empty() {
                claimed = claim(&store, &name, 5).await;
            }
            if claimed.is_empty() && last {
                return;
            }
            let mut batch: Vec<Command> = Vec::new();
            for work in &claimed {
                count += 1;
                let (x, fence) = (&work.leased.execution, work.leased.fence);
                let end = if count % 7 == 0 { super::cancel(x.id) } else { complete(x.id, fence) };
                let told = x
                    .flow()
                    .map(|flow| DispatchCompletion { flow, execution: x.id, eager: true }.into());
                batch.extend(std::iter::once(end).chain(told));
            }
            batch.push(StartReleased { ask: super::ask(&name, 2) }.into());
            // What was cancelled meanwhile is refused.
            for outcome in store.apply(batch).await.unwrap() {
                if let Ok(Reply::StartReleased(given)) = outcome {
                    started.extend(given);
                }
            }
        }
    }
}

/// Does what flows ask for until nobody works any more and nothing is left to do.
fn tell(fleet: &Fleet, number: usize, over: Arc<AtomicUsize>) -> impl Future<Output = ()> + use<> {
    let store = fleet.store(number);
    async move {
        loop {
            let last = over.load(Ordering::SeqCst) == 0;
            let mut done = 0;
            for duty in DUTIES {
                let mut commands = due(&*store, duty, 20).await;
                if number % 2 == 1 {
                    commands.reverse();
                }
                done += commands.len();
                for outcome in store.apply(commands).await.unwrap() {
                    outcome.unwrap();
                }
            }
            if last && done == 0 {
                return;
            }
        }
    }
}

/// Cancels, extends and replays, whatever comes of it.
fn meddle(fleet: &Fleet, number: usize, flows: usize) -> impl Future<Output = ()> + use<> {
    let store = fleet.store(number);
    async move {
        for round in 0..30 {
            let (id, other) = (flow(round % flows), flow((round + 1) % flows));
            let reason = "because".to_owned();
            let replay = |id: FlowId, text: &str| -> Command {
                let id = ExecutionId::for_node(id, &name(text));
                Replay { id, reason: "again".to_owned(), replays: None, downstream: true }.into()
            };
            let text = format!("extra{number}-{round}");
            let (nodes, links) = (vec![node(id, &text)], vec![Link::new(at("n0"), at(&text))]);
            let graph = Graph { nodes, links, joins: Vec::new() };
            let batch: Vec<Command> = match (round + number) % 4 {
                0 => vec![replay(id, "n1"), replay(other, "n0"), replay(other, "all")],
                1 => vec![ExtendFlow { flow: id, graph, seal: false, by: None }.into()],
                2 if round > 20 => {
                    let policy = CancellationPolicy::All;
                    vec![CancelFlow { flow: id, policy, reason }.into(), replay(other, "n2")]
                }
                _ => vec![super::cancel(ExecutionId::for_node(id, &name("n3")))],
            };
            store.apply(batch).await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn whatever_is_done_to_flows_at_once_nothing_waits_for_ever() {
    const FLOWS: usize = 8;
    let fleet = Fleet::new(3).await;
    submit(&fleet, FLOWS, 12).await;
    let (meddling, working) = (Arc::new(AtomicUsize::new(2)), Arc::new(AtomicUsize::new(3)));
    let mut racers = JoinSet::new();
    for number in 0..2 {
        let (meddling, meddle) = (Arc::clone(&meddling), meddle(&fleet, number, FLOWS));
        racers.spawn(async move {
            meddle.await;
            meddling.fetch_sub(1, Ordering::SeqCst);
        });
    }
    for number in 0..3 {
        let work = work(&fleet, number, Arc::clone(&meddling));
        let worked = Arc::clone(&working);
        racers.spawn(async move {
            work.await;
            worked.fetch_sub(1, Ordering::SeqCst);
        });
        racers.spawn(tell(&fleet, number, Arc::clone(&working)));
    }
    racers.join_all().await;
    // What was let go after the last worker looked.
    let done = Arc::new(AtomicUsize::new(0));
    loop {
        tell(&fleet, 0, Arc::clone(&done)).await;
        if claim(&fleet.stores[0], "last", 1).await.is_empty() {
            break;
        }
        fleet.clock.advance(60_000);
        let lost = due(&*fleet.stores[0], Duty::LeaseExpiry, 10).await;
        fleet.stores[0].apply(lost).await.unwrap();
        work(&fleet, 0, Arc::clone(&done)).await;
    }
    let tables = dump::dump(&fleet.schema);
    let open: Vec<_> = tables.flows.values().filter(|flow| !flow.is_terminal()).collect();
    assert!(open.is_empty(), "{open:?}");
    fleet.finish().await;
}
