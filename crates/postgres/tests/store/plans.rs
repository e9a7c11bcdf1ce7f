//! Plans: every statement is understood by a server, and those that run often find their rows by
//! an index, whether the tables are empty, small or large.
//!
//! Plans are looked at under the settings of our sessions: generic ones, and only nested loops over
//! indexes, which keep the order in which the keys were sent.

mod lists;

use std::collections::BTreeMap;
use std::path::Path;

use ff_backend_postgres::{Postgres, STATEMENTS};
use serde_json::Value;
use tokio_postgres::{Client, SimpleQueryMessage};

use crate::server::{self, Schema};
use lists::{BY_COLUMN, BY_KEYS, By, FEW, FIRST, HOT};

/// Rows of a large table.
const MANY: i32 = 1_000_000;

const EVERY: &str = "set plan_cache_mode = force_generic_plan; set jit = off; ";
const BY_KEY: &str = "set enable_hashjoin = off; set enable_mergejoin = off; \
    set enable_seqscan = off; ";

async fn session(schema: &Schema, settings: &str) -> Client {
    let client = server::connect().await;
    let path = format!("set search_path = {}; {EVERY}{settings}", schema.name);
    client.batch_execute(&path).await.unwrap();
    client
}

async fn migrated() -> Schema {
    let schema = Schema::absent();
    let url = format!("{}?schema={}", server::url(), schema.name);
    Postgres::migrate(&url).await.unwrap();
    schema
}

#[tokio::test]
async fn every_statement_prepares_and_every_file_is_listed() {
    let schema = migrated().await;
    let client = session(&schema, "").await;
    for (path, sql) in STATEMENTS {
        let prepared = client.prepare(sql).await;
        assert!(prepared.is_ok(), "{path}: {:?}", prepared.err());
    }
    let queries = Path::new(env!("CARGO_MANIFEST_DIR")).join("queries");
    let groups = std::fs::read_dir(queries).unwrap().map(|group| group.unwrap().path());
    let files: usize = groups.map(|group| std::fs::read_dir(group).unwrap().count()).sum();
    assert_eq!(files, STATEMENTS.len());
}

#[tokio::test]
async fn what_runs_often_finds_its_rows_by_an_index_however_many_there_are() {
    let schema = migrated().await;
    let (reader, writer) = (session(&schema, BY_KEY).await, session(&schema, BY_KEY).await);
    let names: Vec<&str> = HOT.iter().map(|(path, _)| *path).collect();
    prepare(&reader, &names).await;
    prepare(&writer, &names).await;
    let (mut filled, mut wrong) = (0, Vec::new());
    for (many, rest) in [(0, 0), (1_000, 1_000), (MANY, MANY / 10)] {
        fill(&writer, filled, (many, rest)).await;
        filled = many;
        for (path, by) in HOT {
            let mut complain = |who: &str, plan: &Value, complaints: Vec<String>| {
                for complaint in complaints {
                    let sketch = sketch(plan, 1);
                    wrong.push(format!("{path} of a {who}, {many} rows: {complaint}\n{sketch}"));
                }
            };
            if matches!(by, By::Readers | By::Both) {
                let plan = explain(&reader, path).await;
                // What fills a few pages is read as a whole, and rightly so.
                if many == MANY {
                    complain("reader", &plan, check(path, &plan));
                }
            }
            if matches!(by, By::Writers | By::Both) {
                let plan = explain(&writer, path).await;
                complain("writer", &plan, check(path, &plan));
                complain("writer", &plan, check_writer(path, &plan));
            }
        }
    }
    writer.batch_execute(&format!("drop schema {} cascade", schema.name)).await.unwrap();
    // Nobody may be given what is gone.
    std::mem::forget(schema);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

async fn prepare(client: &Client, paths: &[&str]) {
    let all: BTreeMap<&str, &str> = STATEMENTS.iter().copied().collect();
    for path in paths {
        let sql = format!("prepare \"{path}\" as {}", all[path]);
        client.batch_execute(&sql).await.unwrap();
    }
}

/// The plan of a prepared statement; a generic one does not depend on the values.
async fn explain(client: &Client, path: &str) -> Value {
    let count = "select cardinality(parameter_types) from pg_prepared_statements where name = $1";
    let count: i32 = client.query_one(count, &[&path]).await.unwrap().get(0);
    let nulls = vec!["null"; usize::try_from(count).unwrap()].join(", ");
    let values = if nulls.is_empty() { nulls } else { format!("({nulls})") };
    let sql = format!("explain (format json) execute \"{path}\" {values}");
    let said = client.simple_query(&sql).await.unwrap();
    let text = said.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0),
        _ => None,
    });
    let plan: Value = serde_json::from_str(text.unwrap()).unwrap();
    plan[0]["Plan"].clone()
}

/// What is wrong with a plan in any session.
fn check(path: &str, plan: &Value) -> Vec<String> {
    let mut wrong = Vec::new();
    for node in nodes(plan) {
        let table = word(node, "Relation Name");
        let index = word(node, "Index Name");
        let bounded = FIRST
            .iter()
            .all(|(of, column)| *of != index || word(node, "Index Cond").contains(column));
        if (word(node, "Node Type") == "Seq Scan" || !bounded) && !FEW.contains(&table) {
            wrong.push(format!("it looks at all of {table} {index}"));
        }
    }
    for (_, of, column) in BY_COLUMN.iter().filter(|(of, ..)| *of == path) {
        let finds = |node: &&Value| {
            word(node, "Relation Name") == *of && word(node, "Node Type") != "ModifyTable"
        };
        let all: Vec<_> = nodes(plan).into_iter().filter(finds).collect();
        let found = all.iter().all(|node| word(node, "Index Cond").contains(column));
        if all.is_empty() || !found {
            wrong.push(format!("it does not find rows of {of} by {column}"));
        }
    }
    let sorts = |node: &&Value| word(node, "Node Type") == "Incremental Sort";
    if path == "retention/due" && !nodes(plan).iter().any(sorts) {
        wrong.push("it sorts all that is due to find the first".to_owned());
    }
    if path == "ready/head" {
        let ready = nodes(plan).into_iter().find(|node| word(node, "Relation Name") == "ff_ready");
        let condition = ready.map_or("", |node| word(node, "Index Cond"));
        if !condition.contains("queue") || !condition.contains("rank") {
            wrong.push("it does not begin where it was told to".to_owned());
        }
    }
    wrong
}

/// What is wrong with a plan in sessions that write, where rows are locked in the order of the
/// keys as they came: nothing but a nested loop over those keeps it, or a sort below the locking.
fn check_writer(path: &str, plan: &Value) -> Vec<String> {
    let all = nodes(plan);
    let kinds: Vec<&str> = all.iter().map(|node| word(node, "Node Type")).collect();
    let mut wrong = Vec::new();
    if kinds.contains(&"Hash Join") || kinds.contains(&"Merge Join") {
        wrong.push("it joins without keeping an order".to_owned());
    }
    if !BY_KEYS.contains(&path) {
        return wrong;
    }
    // What changes rows stands above the join that finds them.
    let changes = all.iter().filter(|node| ["Update", "Delete"].contains(&word(node, "Operation")));
    let locks = all.iter().filter(|node| word(node, "Node Type") == "LockRows");
    let found: Vec<bool> = changes.chain(locks).map(|node| goes_by_keys(node)).collect();
    if found.is_empty() || found.contains(&false) {
        wrong.push("it does not go by the keys it was sent".to_owned());
    }
    // What is inserted may be sorted: its numbers are taken in that order, and nothing is locked.
    let kinds: Vec<&str> = locking(plan).iter().map(|node| word(node, "Node Type")).collect();
    let place = |kind: &str| kinds.iter().position(|other| *other == kind);
    if let Some(sort) = place("Sort")
        && place("LockRows").is_none_or(|locks| locks > sort)
    {
        wrong.push("it sorts after it has locked".to_owned());
    }
    wrong
}

/// Whether the first join below a node loops over the keys; or there is none, because the rows
/// were locked before and their places are known.
fn goes_by_keys(node: &Value) -> bool {
    let all = nodes(node);
    if word(&node["Plans"][0], "Node Type") == "Tid Scan" {
        return true;
    }
    let join = all.iter().find(|node| word(node, "Node Type") == "Nested Loop");
    // Rows that another part has changed come in the order in which it changed them.
    join.is_some_and(|join| {
        ["Function Scan", "CTE Scan"].contains(&word(&join["Plans"][0], "Node Type"))
    })
}

/// A plan in a few words for each node.
fn sketch(plan: &Value, depth: usize) -> String {
    let words = ["Node Type", "Relation Name", "Index Name", "Index Cond", "Recheck Cond"];
    let line: Vec<&str> = words.iter().map(|name| word(plan, name)).collect();
    let children = plan["Plans"].as_array().into_iter().flatten();
    let below: String = children.map(|child| sketch(child, depth + 1)).collect();
    format!("{}{}\n{below}", "  ".repeat(depth), line.join(" "))
}

/// All nodes but those that find what is to be inserted.
fn locking(plan: &Value) -> Vec<&Value> {
    let inserts = word(plan, "Operation") == "Insert";
    let children = plan["Plans"].as_array().into_iter().flatten();
    let kept = children.filter(|child| !inserts || word(child, "Parent Relationship") != "Outer");
    std::iter::once(plan).chain(kept.flat_map(locking)).collect()
}

/// All nodes, parents first.
fn nodes(plan: &Value) -> Vec<&Value> {
    let children = plan["Plans"].as_array().into_iter().flatten();
    std::iter::once(plan).chain(children.flat_map(nodes)).collect()
}

fn word<'v>(node: &'v Value, name: &str) -> &'v str {
    node[name].as_str().unwrap_or("")
}

/// Adds rows numbered from `from` to all tables: up to `many` to those with a row or more for
/// each execution, up to `rest` to the others.
async fn fill(client: &Client, from: i32, (many, rest): (i32, i32)) {
    if many == 0 {
        // Nothing of it has to survive a crash.
        for (table, ..) in FILL {
            client.batch_execute(&format!("alter table {table} set unlogged")).await.unwrap();
        }
    }
    for (table, columns, values) in FILL {
        let upto = match *table {
            "ff_queue" | "ff_consumer" | "ff_signing_key" => many.min(20),
            "ff_attempt"
            | "ff_idempotency"
            | "ff_tag"
            | "ff_flow_core"
            | "ff_edge"
            | "ff_edge_group"
            | "ff_dispatch"
            | "ff_cancel_backlog"
            | "ff_cancel_backlog_member"
            | "ff_pending_cancel_groups"
            | "ff_suspension_current"
            | "ff_waitpoint"
            | "ff_signal"
            | "ff_suspend_key" => rest,
            _ => many,
        };
        let sql = format!(
            "insert into {table} ({columns}) select {values} \
            from (select n, (n / 4000)::smallint as p, lpad(to_hex(n), 32, '0')::uuid as id, \
                lpad(to_hex(n / 100), 32, 'f')::uuid as flow, 1700000000000 + n as ms \
            from generate_series({} + 1, {upto}) as n) as i",
            from.min(upto)
        );
        client.batch_execute(&sql).await.unwrap();
        // Nobody analyzes what was always empty.
        if many > 0 {
            client.batch_execute(&format!("analyze {table}")).await.unwrap();
        }
    }
}

/// The columns of a row, and what they hold in row `n` of execution `id` in partition `p`, which
/// may belong to `flow`, as a hundred others do.
const FILL: &[(&str, &str, &str)] = &[
    (
        "ff_exec_core",
        "execution_id, created_at_ms, partition_key, fingerprint, namespace, lane_id, kind, \
        creator, priority, retries, reclaims, replays, attempts, version, epoch, updated_at_ms, \
        phase, next_attempt, gated, flow_id",
        "id, ms, p, '', 'ns', 'lane ' || n % 20, 'job', '', 0, 0, 0, 0, 0, 1, 0, ms, 'runnable', \
        'first', false, case when n % 2 = 0 then flow end",
    ),
    (
        "ff_lease",
        "claim_id, execution_id, partition_key, epoch, acquired_at_ms, renewed_at_ms, until_ms, \
        check_at_ms",
        "id, id, p, 1, ms, ms, ms, ms",
    ),
    (
        "ff_payload",
        "execution_id, partition_key, attempt_index, kind, bytes",
        "id, p, 0, 'input', ''",
    ),
    (
        "ff_step",
        "execution_id, partition_key, number, attempt_index, kind, name, ran_ms, at_ms, bytes",
        "id, p, 0, 0, 'run', 'pay', 1, ms, ''",
    ),
    (
        "ff_attempt",
        "execution_id, partition_key, attempt_index, kind, worker_id, worker_instance_id, \
        started_at_ms, ended_at_ms, outcome",
        "id, p, 0, 'initial', 'w', 'w', ms, ms, 'ended_failure'",
    ),
    ("ff_queue", "queue, lane_id, capabilities", "n, 'lane ' || n % 20, '{}'"),
    ("ff_ready", "queue, turn_ms, rank, partition_key, execution_id", "n % 20, ms, n % 3, p, id"),
    (
        "ff_timer",
        "due_ms, execution_id, partition_key, kind, queue, rank, turn_ms",
        "ms, id, p, case when n % 2 = 0 then 'delay' else 'retention' end, \
        case when n % 2 = 0 then 1 end, 0, ms",
    ),
    ("ff_retention", "due_ms, partition_keys, execution_ids", "ms, array[p], array[id]"),
    ("ff_tag", "key, value, partition_key, execution_id", "'k', 'v' || n / 10, p, id"),
    (
        "ff_event",
        "at_ms, execution_id, partition_key, namespace, lane_id, kind",
        "ms, id, p, 'ns', 'lane ' || n % 20, 'held'",
    ),
    (
        "ff_idempotency",
        "namespace, key, execution_id, partition_key, fingerprint, expires_at_ms",
        "'ns', 'k' || n, id, p, '', ms",
    ),
    (
        "ff_consumer",
        "name, base, base_seq, upto, upto_seq, after_seq, updated_at_ms",
        "'c' || n, '1:1:', 0, '1:1:', 0, 0, ms",
    ),
    (
        "ff_flow_core",
        "flow_id, created_at_ms, partition_key, fingerprint, namespace, kind, creator, sealed, \
        node_count, edge_count, ended_well, ended_badly, graph_revision, version, updated_at_ms, \
        retain_until_ms, terminal_at_ms, trim_at_ms, state",
        "id, ms, p, '', 'ns', 'dag', '', true, 1, 0, 1, 0, 1, 1, ms, ms, ms, \
        case when n % 2 = 0 then ms end, 'completed'",
    ),
    (
        "ff_edge",
        "edge_id, flow_id, upstream_id, downstream_id, created_at_ms, partition_key, round, kind, \
        state",
        "id, flow, id, id, ms, p, 0, 'success_only', 'staged'",
    ),
    (
        "ff_edge_group",
        "flow_id, downstream_id, partition_key, policy, round, staged, total, satisfied, failed, \
        skipped, k_target, state, fired_at_ms, cancel_siblings_pending",
        "flow, id, p, '{}', 0, 1, 1, 0, 0, 0, 1, case n % 2 when 0 then 'pending' else \
        'satisfied' end, case n % 2 when 1 then ms end, false",
    ),
    ("ff_dispatch", "at_ms, execution_id, flow_id, partition_key", "ms, id, flow, p"),
    (
        "ff_pending_cancel_groups",
        "enqueued_at_ms, flow_id, downstream_id, partition_key",
        "ms, flow, id, p",
    ),
    ("ff_cancel_backlog", "requested_at_ms, flow_id, partition_key", "ms, id, p"),
    ("ff_cancel_backlog_member", "flow_id, execution_id, partition_key", "flow, id, p"),
    (
        "ff_suspension_current",
        "execution_id, suspension_id, primary_waitpoint_id, epoch, since_ms, resume_delay_ms, \
        partition_key, attempt_index, condition, reason, requested_by, timeout_behavior, \
        closed_at_ms, close_reason, satisfied_by",
        "id, id, id, 1, ms, 0, p, 0, '{}', 'waiting_for_signal', 'worker', 'fail', \
        case n % 10 when 0 then null else ms end, case n % 10 when 0 then null else 'resumed' \
        end, case n % 10 when 0 then null else '[]' end",
    ),
    (
        "ff_waitpoint",
        "execution_id, waitpoint_id, suspension_id, created_at_ms, partition_key, attempt_index, \
        waitpoint_key, kid, token_digest, signal_count, matched_count, activated_at_ms, \
        expires_at_ms, closed_at_ms, state, close_reason",
        "flow, id, id, ms, p, 0, 'w', 'k1', '', 0, 0, case n % 10 when 0 then null else ms end, \
        case n % 10 when 0 then ms end, case when n % 10 > 1 then ms end, \
        case n % 10 when 0 then 'pending' when 1 then 'active' else 'closed' end, \
        case when n % 10 > 1 then 'resumed' end",
    ),
    (
        "ff_signal",
        "execution_id, signal_id, waitpoint_id, created_at_ms, accepted_at_ms, partition_key, \
        number, effect, name, category, source_type, source_identity, idempotency_key, \
        dedup_until_ms",
        "flow, id, id, ms, ms, p, n, 'appended_to_waitpoint', 's', '', '', '', \
        case n % 2 when 0 then 'k' || n end, case n % 2 when 0 then ms end",
    ),
    (
        "ff_suspend_key",
        "execution_id, suspension_id, expires_at_ms, partition_key, already_satisfied, \
        idempotency_key, waitpoints",
        "flow, id, ms, p, false, 'k' || n, '[]'",
    ),
    ("ff_signing_key", "kid, secret, created_at_ms, expires_at_ms", "'k' || n, '', ms, ms"),
];
