//! What only a file can get wrong about flows: damaged rows, and looks that must stay short.

use std::sync::Arc;

use bytes::Bytes;
use ff_conformance::Dial;
use ff_conformance::world::{World, lane, namespace};
use ff_core::backend::{Due, Duty, Interest, StoreError, WorkFilter};
use ff_core::command::Command;
use ff_core::decide::create::Create;
use ff_core::decide::create_flow::CreateFlow;
use ff_core::decide::dispatch::DispatchCompletion;
use ff_core::decide::reconcile_group::ReconcileGroup;
use ff_core::decide::submit_flow::SubmitFlow;
use ff_core::flow::{Graph, Link, Node, NodeRef, Reach};
use ff_core::fold::Key;
use ff_core::limits::CYCLE_NODES_MAX;
use ff_core::text::{FlowKind, Kind, NodeName};
use ff_core::{ExecutionId, FlowId};
use rusqlite::Connection;

use crate::{open, path};

/// A store with one flow, in which each of `followers` waits for `first` and works on its result.
async fn star(followers: usize) -> (World, FlowId) {
    let clock = Arc::new(Dial::default());
    let world = World::new(open(Arc::clone(&clock)), clock);
    let flow = FlowId(world.uuid());
    let names = (0..followers).map(|n| format!("follower-{n}"));
    let node = |name: String| {
        let (name, kind) = (NodeName::new(name).unwrap(), Kind::new("job").unwrap());
        let node = Node::new(flow, name, lane("default"), kind);
        let input = Bytes::from_static(b"own");
        let create = Create { namespace: namespace("test"), input, ..node.create };
        Node { create, ..node }
    };
    let nodes: Vec<Node> = std::iter::once("first".to_owned()).chain(names).map(node).collect();
    let at = |node: &Node| NodeRef::Name(node.name.clone());
    let links = nodes[1..].iter().map(|follower| Link {
        data_passing_ref: Some("result".to_owned()),
        ..Link::new(at(&nodes[0]), at(follower))
    });
    let graph = Graph { links: links.collect(), nodes, joins: Vec::new() };
    let create = CreateFlow::new(flow, FlowKind::new("star").unwrap());
    let create = CreateFlow { namespace: namespace("test"), ..create };
    let (seal, idempotency_key, dedup_window_ms) = (true, None, None);
    let submit = SubmitFlow { flow: create, graph, seal, idempotency_key, dedup_window_ms };
    world.run(submit).await.unwrap();
    (world, flow)
}

fn member(flow: FlowId, name: &str) -> ExecutionId {
    ExecutionId::for_node(flow, &NodeName::new(name).unwrap())
}

/// Runs SQL that no backend would; how many rows it changed.
fn tamper(world: &World, sql: &str) -> usize {
    let directory = world.store.keep.downcast_ref::<tempfile::TempDir>().unwrap();
    let db = Connection::open(path(directory.path())).unwrap();
    db.pragma_update(None, "ignore_check_constraints", true).unwrap();
    db.execute(sql, []).unwrap()
}

/// Has the first member end well.
async fn end_first(world: &World, flow: FlowId) {
    let first = member(flow, "first");
    let fence = world.take(first).await.leased.fence;
    world.complete(first, fence).await.unwrap();
}

#[tokio::test]
async fn a_damaged_row_of_a_flow_reads_as_corruption_that_names_column_and_value() {
    for (table, column, value) in [
        ("ff_flow_core", "state", "'closed'"),
        ("ff_flow_core", "tags", "'[]'"),
        ("ff_flow_core", "kind", "''"),
        ("ff_flow_core", "node_count", "-1"),
        ("ff_edge", "state", "'done'"),
        ("ff_edge", "kind", "'maybe'"),
        ("ff_edge", "applied_at_ms", "null"),
        ("ff_edge_group", "state", "'cancelled'"),
        ("ff_edge_group", "policy", "'{\"kind\":\"none_of\"}'"),
        ("ff_edge_group", "total", "-1"),
    ] {
        let (world, flow) = star(1).await;
        let changed = tamper(&world, &format!("update {table} set {column} = {value}"));
        assert_eq!(changed, 1);
        let follower = member(flow, "follower-0");
        let key = match table {
            "ff_flow_core" => Key::Flow(flow),
            "ff_edge" => Key::Incoming(flow, follower),
            _ => Key::Group(flow, follower),
        };
        let error = world.store.backend.get(&[key]).await.unwrap_err();
        let StoreError::Corruption { column: named, value: shown, .. } = &error else {
            panic!("{column} = {value} gave {error}");
        };
        assert_eq!((named.as_str(), shown.as_str()), (column, value.trim_matches('\'')));
    }
}

#[tokio::test]
async fn a_check_refuses_what_the_states_of_a_flow_do_not_allow() {
    let (world, _) = star(1).await;
    let directory = world.store.keep.downcast_ref::<tempfile::TempDir>().unwrap();
    let db = Connection::open(path(directory.path())).unwrap();
    for (table, change) in [
        ("ff_flow_core", "state = 'closed'"),
        ("ff_flow_core", "state = 'completed'"),
        ("ff_flow_core", "cancel_reason = 'why'"),
        ("ff_flow_core", "trim_at_ms = 1"),
        ("ff_edge", "state = 'satisfied'"),
        ("ff_edge", "applied_at_ms = null"),
        ("ff_edge_group", "state = 'cancelled'"),
        ("ff_edge_group", "fired_at_ms = 1"),
        ("ff_edge_group", "cancel_siblings_pending = 1"),
        (
            "ff_exec_core",
            "gated = 1, phase = 'active', resumed = 0, epoch = 1, next_attempt = null",
        ),
        ("ff_exec_core", "flow_id = null"),
    ] {
        let refused = db.execute(&format!("update {table} set {change}"), []);
        assert!(refused.unwrap_err().to_string().contains("CHECK"), "{table}: {change}");
    }
}

#[tokio::test]
async fn a_damaged_group_fails_only_the_commands_that_need_it() {
    let (world, flow) = star(2).await;
    end_first(&world, flow).await;
    tamper(&world, "delete from ff_dispatch");
    let [damaged, sound] = ["follower-0", "follower-1"].map(|name| member(flow, name));
    let uuid = damaged.uuid().simple();
    let sql = format!("update ff_edge_group set policy = '{{}}' where downstream_id = x'{uuid}'");
    assert_eq!(tamper(&world, &sql), 1);
    let look = |downstream| ReconcileGroup { flow, downstream }.into();
    let outcomes = world.batch(vec![look(damaged), look(sound)]).await;
    let refused = outcomes[0].clone().unwrap_err();
    assert_eq!(refused.code.as_str(), "corruption");
    assert!(refused.message.contains("column policy"), "{refused}");
    assert!(outcomes[1].is_ok(), "{outcomes:?}");
    assert_eq!(world.take(sound).await.input.unwrap().bytes, "out");
}

#[tokio::test]
async fn a_damaged_upstream_hides_only_what_works_on_its_result() {
    let (world, flow) = star(1).await;
    end_first(&world, flow).await;
    world.tick(Duty::CompletionDispatch).await;
    let other = world.create(world.draft()).await;
    let uuid = member(flow, "first").uuid().simple();
    let sql = format!("update ff_exec_core set kind = '' where execution_id = x'{uuid}'");
    assert_eq!(tamper(&world, &sql), 1);
    let claimed = world.claim(world.ask(5)).await;
    let ids: Vec<_> = claimed.iter().map(|work| work.leased.execution.id).collect();
    assert_eq!(ids, [other]);
    tamper(&world, &sql.replace("kind = ''", "kind = 'job'"));
    let claimed = world.take(member(flow, "follower-0")).await;
    assert_eq!(claimed.input.unwrap().bytes, "out");
}

#[tokio::test]
async fn an_end_wakes_who_tells_flows_and_nobody_else() {
    let (world, flow) = star(1).await;
    let backend = Arc::clone(&world.store.backend);
    let seen = || [Interest::Flows, Interest::Cancels].map(|interest| backend.generation(interest));
    let [flows, cancels] = seen();
    end_first(&world, flow).await;
    assert_eq!(seen(), [flows + 1, cancels]);
    let execution = member(flow, "first");
    world.run(DispatchCompletion { flow, execution, eager: false }).await.unwrap();
    assert_eq!(seen(), [flows + 1, cancels], "nothing more is to be told");
}

async fn stuck(world: &World, limit: u32) -> Vec<Command> {
    let (duty, all) = (Duty::DependencyReconciler, WorkFilter::default());
    let Due { commands, next } = world.store.backend.due(duty, &all, limit).await.unwrap();
    assert_eq!(next, None);
    commands
}

/// A store in which the last of `groups` waits for something that nobody will tell it.
async fn one_stuck(groups: usize) -> (World, Command) {
    let (world, flow) = star(groups).await;
    end_first(&world, flow).await;
    assert_eq!(stuck(&world, 1_000).await, [], "their flow is about to be told");
    tamper(&world, "delete from ff_dispatch");
    let last = (0..groups).map(|n| member(flow, &format!("follower-{n}"))).max().unwrap();
    let uuid = last.uuid().simple();
    let rest = format!(
        "update ff_edge set state = 'staged', applied_at_ms = null where downstream_id <> x'{uuid}'"
    );
    assert_eq!(tamper(&world, &rest), groups - 1);
    (world, ReconcileGroup { flow, downstream: last }.into())
}

#[tokio::test]
async fn a_look_for_stuck_groups_goes_on_where_the_last_one_stopped() {
    let (world, last) = one_stuck(700).await;
    let mut looks = Vec::new();
    for _ in 0..6 {
        looks.push(stuck(&world, 10).await);
    }
    let found: Vec<bool> = looks.iter().map(|look| look.contains(&last)).collect();
    assert_eq!(found, [false, false, true, false, false, true], "{looks:?}");
}

#[tokio::test]
async fn every_look_sees_all_groups_when_they_are_few() {
    let (world, last) = one_stuck(20).await;
    for _ in 0..3 {
        assert_eq!(stuck(&world, 10).await, std::slice::from_ref(&last));
    }
}

#[tokio::test]
async fn more_stuck_groups_than_asked_for_take_turns() {
    let (world, flow) = star(5).await;
    end_first(&world, flow).await;
    tamper(&world, "delete from ff_dispatch");
    let all = stuck(&world, 10).await;
    assert_eq!(all.len(), 5);
    let mut seen = Vec::new();
    for _ in 0..3 {
        seen.extend(stuck(&world, 2).await);
    }
    let turns = [&all[..2], &all[2..4], &[all[0].clone(), all[4].clone()]].concat();
    assert_eq!(seen, turns, "each look is in order");
}

#[tokio::test]
async fn what_lies_behind_an_execution_is_looked_at_up_to_a_bound() {
    let (world, flow) = star(1).await;
    let first = member(flow, "first");
    let (partition, uuid) = (first.partition().index(), flow.0.simple());
    let grow = |from: usize, to: usize| {
        format!(
            "insert into ff_edge (partition_key, flow_id, edge_id, upstream_id, downstream_id, \
             kind, round, created_at_ms, state) \
             with recursive n (i) as (values ({from}) union all select i + 1 from n where i < {to}) \
             select {partition}, x'{uuid}', unhex(printf('%032x', i)), x'{}', \
             unhex(printf('%032x', i)), 'success_only', 0, 0, 'staged' from n",
            first.uuid().simple()
        )
    };
    let reach = async || {
        let key = Key::Reach(flow, first);
        let have = world.store.backend.get(&[key]).await.unwrap();
        have.graph.reach.into_values().next().unwrap()
    };
    assert_eq!(reach().await, Reach::All([member(flow, "follower-0")].into()));
    assert_eq!(tamper(&world, &grow(1, CYCLE_NODES_MAX - 1)), CYCLE_NODES_MAX - 1);
    assert!(matches!(reach().await, Reach::All(all) if all.len() == CYCLE_NODES_MAX));
    tamper(&world, &grow(CYCLE_NODES_MAX, CYCLE_NODES_MAX));
    assert_eq!(reach().await, Reach::TooMany);
}
