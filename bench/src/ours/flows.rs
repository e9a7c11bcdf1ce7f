//! Flows: submitting, fanning out and joining, chaining, cancelling.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use ff_core::FlowId;
use ff_core::WorkFilter;
use ff_core::decide::create_flow::CreateFlow;
use ff_core::decide::submit_flow::SubmitFlow;
use ff_core::flow::{CancellationPolicy, FlowWord, Graph, Link, Node, NodeRef};
use ff_engine::Wait;
use ff_sdk::{Client, Context, Error};
use uuid::Uuid;

use super::median;
use crate::place::{Place, engine};

/// A graph of nodes that do nothing, `edges` between them by number.
fn graph(nodes: usize, edges: impl IntoIterator<Item = (usize, usize)>) -> SubmitFlow {
    let flow = FlowId(Uuid::now_v7());
    let name = |number: usize| format!("n{number}").parse().expect("a valid name");
    let node = |number| {
        let (lane, kind) = ("bench".parse(), "noop".parse());
        Node::new(flow, name(number), lane.expect("a valid lane"), kind.expect("a valid kind"))
    };
    let at = |number| NodeRef::Name(name(number));
    let links = edges.into_iter().map(|(from, to)| Link::new(at(from), at(to)));
    let graph =
        Graph { nodes: (0..nodes).map(node).collect(), links: links.collect(), joins: Vec::new() };
    let flow = CreateFlow::new(flow, "bench".parse().expect("a valid kind"));
    SubmitFlow { flow, graph, seal: true, idempotency_key: None, dedup_window_ms: None }
}

/// From submitting a graph to seeing it completed, beside a worker; the median, in ms.
async fn rounds(place: &Place, count: usize, graph: fn() -> SubmitFlow) -> anyhow::Result<f64> {
    let engine = engine(&place.fresh()).await?;
    let duties = engine.start_duties(&WorkFilter::default());
    let noop = async |_: Context, (): ()| Ok::<_, Error>(());
    let client = Client::new(Arc::new(engine.clone()));
    let worker = client.worker("bench").concurrency(200).handle("noop", noop).start()?;
    let mut took = Vec::new();
    for round in 0..count + 3 {
        let submit = graph();
        let begun = Instant::now();
        let flow = engine.submit_flow(submit).await?.flow_id();
        let ended = engine.await_flow(flow, Duration::from_mins(1)).await?;
        ensure!(ended.state.word() == FlowWord::Completed, "flow {flow} is {}", ended.state.word());
        // The first few open connections and prepare statements.
        if round >= 3 {
            took.push(begun.elapsed().as_secs_f64() * 1_000.0);
        }
    }
    worker.stop().await?;
    duties.stop().await;
    Ok(median(took))
}

/// One, then a hundred, then one that waits for all of them; ms from submitting to the end.
pub async fn fanout_100(place: &Place) -> anyhow::Result<f64> {
    rounds(place, 20, || {
        let out = (1..=100).map(|n| (0, n));
        graph(102, out.chain((1..=100).map(|n| (n, 101))))
    })
    .await
}

/// Fifty, one after the other; ms for each.
pub async fn chain_hop(place: &Place) -> anyhow::Result<f64> {
    const HOPS: usize = 50;
    let took = rounds(place, 10, || graph(HOPS, (1..HOPS).map(|n| (n - 1, n)))).await?;
    Ok(took / 50.0)
}

/// The time of one durable one-row commit; the median, in ms.
pub async fn one_commit(place: &Place) -> anyhow::Result<f64> {
    let client = place.connect().await?;
    client.batch_execute("create table tick (id bigint generated always as identity)").await?;
    let insert = client.prepare("insert into tick default values").await?;
    let mut took = Vec::new();
    for _ in 0..500 {
        let begun = Instant::now();
        client.execute(&insert, &[]).await?;
        took.push(begun.elapsed().as_secs_f64() * 1_000.0);
    }
    client.batch_execute("drop table tick").await?;
    Ok(median(took))
}

/// Members of the flow that is cancelled.
const CANCELLED: usize = 10_000;

/// Cancels ten thousand waiting members, beside one UPDATE and one INSERT that write the same rows of
/// the two tables; both in ms.
pub async fn cancel_10k(place: &Place) -> anyhow::Result<(f64, f64)> {
    let url = place.fresh();
    let engine = engine(&url).await?;
    let wide = || graph(CANCELLED, []);
    let (ours, bare) = (wide(), wide());
    let bare = engine.submit_flow(bare).await?.flow_id();
    let ours = engine.submit_flow(ours).await?.flow_id();
    let mut client = place.connect().await?;
    let schema = url.split("schema=").nth(1).context("a schema of our own")?;
    client.batch_execute(&format!("set search_path to {schema}; analyze; checkpoint")).await?;
    let update = "update ff_exec_core set version = version + 1, phase = 'terminal', \
        outcome = 'cancelled', next_attempt = null, cancelled_by = 'cancel_flow', \
        end_reason = 'flow_cancelled', updated_at_ms = updated_at_ms + 1, \
        terminal_at_ms = updated_at_ms + 1, retain_until_ms = updated_at_ms + 86400000 \
        where partition_key = $1 and flow_id = $2";
    let insert = "insert into ff_event (partition_key, execution_id, flow_id, at_ms, namespace, \
        lane_id, kind, outcome, reason) select partition_key, execution_id, flow_id, \
        updated_at_ms, namespace, lane_id, 'completion', 'cancelled', 'flow_cancelled' \
        from ff_exec_core where partition_key = $1 and flow_id = $2";
    let (update, insert) = (client.prepare(update).await?, client.prepare(insert).await?);
    let partition = i16::from(bare.partition().index());
    let begun = Instant::now();
    let tx = client.transaction().await?;
    tx.execute(&update, &[&partition, &bare.0]).await?;
    tx.execute(&insert, &[&partition, &bare.0]).await?;
    tx.commit().await?;
    let floor = begun.elapsed();
    client.batch_execute("checkpoint").await?;
    let begun = Instant::now();
    let cancelled =
        engine.cancel_flow(ours, CancellationPolicy::All, "bench", Wait::Indefinitely).await?;
    let took = begun.elapsed();
    ensure!(cancelled.members.len() == CANCELLED, "{} were cancelled", cancelled.members.len());
    Ok((took.as_secs_f64() * 1_000.0, floor.as_secs_f64() * 1_000.0))
}

/// Submits a graph of a thousand nodes and two thousand edges, beside plain inserts of the same rows,
/// copied from a table; both in ms, the median of ten each.
pub async fn submit_1000(place: &Place) -> anyhow::Result<(f64, f64)> {
    const NODES: usize = 1_000;
    let url = place.fresh();
    let engine = engine(&url).await?;
    // Each waits for the one before and for one half as far.
    let far = [(0, 1), (0, 5), (0, 7), (0, 9)];
    let edges = || (2..NODES).flat_map(|n| [(n - 1, n), (n / 2 - 1, n)]).chain(far);
    let submit = || graph(NODES, edges());
    let mut client = place.connect().await?;
    let schema = url.split("schema=").nth(1).context("a schema of our own")?;
    client.batch_execute(&format!("set search_path to {schema}")).await?;
    let model = engine.submit_flow(submit()).await?.flow_id();
    let (mut ours, mut bare) = (Vec::new(), Vec::new());
    for _ in 0..10 {
        let graph = submit();
        let begun = Instant::now();
        engine.submit_flow(graph).await?;
        ours.push(begun.elapsed().as_secs_f64() * 1_000.0);
        bare.push(insert_copies(&mut client, model).await?);
    }
    Ok((median(ours), median(bare)))
}

/// Inserts the rows of a flow once more under other ids; ms.
async fn insert_copies(client: &mut tokio_postgres::Client, model: FlowId) -> anyhow::Result<f64> {
    const TABLES: [(&str, &[&str]); 4] = [
        ("ff_flow_core", &["flow_id"]),
        ("ff_exec_core", &["flow_id", "execution_id"]),
        ("ff_edge", &["flow_id", "edge_id", "upstream_id", "downstream_id"]),
        ("ff_edge_group", &["flow_id", "downstream_id"]),
    ];
    let salt: String = client.query_one("select gen_random_uuid()::text", &[]).await?.try_get(0)?;
    for (table, ids) in TABLES {
        let set: Vec<_> =
            ids.iter().map(|id| format!("{id} = md5({id}::text || '{salt}')::uuid")).collect();
        let sql = format!(
            "drop table if exists copy_{table}; create temp table copy_{table} as select * \
             from {table} where flow_id = '{model}'; update copy_{table} set {}",
            set.join(", ")
        );
        client.batch_execute(&sql).await?;
    }
    let begun = Instant::now();
    let tx = client.transaction().await?;
    for (table, _) in TABLES {
        tx.batch_execute(&format!("insert into {table} select * from copy_{table}")).await?;
    }
    tx.commit().await?;
    Ok(begun.elapsed().as_secs_f64() * 1_000.0)
}
