//! What only a file can get wrong about suspensions: damaged rows, and rows that no state allows.

use std::sync::Arc;

use bytes::Bytes;
use ff_conformance::Dial;
use ff_conformance::world::World;
use ff_core::backend::StoreError;
use ff_core::condition::{Distinct, ResumeCondition};
use ff_core::decide::complete::Complete;
use ff_core::decide::deliver::{Authority, DeliverSignal};
use ff_core::decide::keys::{RotateKey, SecretHex};
use ff_core::decide::suspend::{Binding, Suspend};
use ff_core::fold::{Key, WaitKey};
use ff_core::query::{Page, Query};
use ff_core::suspension::{RequestedBy, SuspensionReason, TimeoutBehavior};
use ff_core::text::{IdempotencyKey, SignalName, WaitpointKey};
use ff_core::{Command, ExecutionId};
use rusqlite::Connection;
use serde_json::json;
use uuid::Uuid;

use crate::{open, path};

/// What a suspended execution is called, and where signals to it arrive.
struct Waiting {
    world: World,
    id: ExecutionId,
    at: Uuid,
}

fn key(text: &str) -> IdempotencyKey {
    IdempotencyKey::new(text).unwrap()
}

/// A store with one execution that waits for two signals, of which one came, and with an old key.
async fn waiting() -> Waiting {
    let clock = Arc::new(Dial::default());
    let world = World::new(open(Arc::clone(&clock)), clock);
    let (id, fence) = world.running(json!({})).await;
    let at = world.uuid();
    let waitpoint = WaitpointKey::new("votes").unwrap();
    let suspend = Suspend {
        id,
        fence,
        suspension: world.uuid(),
        waitpoints: vec![Binding::Fresh { id: at, key: waitpoint.clone() }],
        condition: ResumeCondition::Count {
            n: 2,
            distinct: Distinct::Signals,
            signal: None,
            waitpoints: vec![waitpoint],
        },
        resume_delay_ms: 0,
        reason: SuspensionReason::WaitingForSignal,
        requested_by: RequestedBy::Worker,
        deadline: Some(world.now().plus(1_000)),
        timeout_behavior: TimeoutBehavior::Fail,
        continuation: None,
        idempotency_key: Some(key("once")),
        steps: Vec::new(),
    };
    world.run(suspend).await.unwrap();
    let vote = vote(id, at, world.uuid());
    world.run(vote).await.unwrap();
    let secret_hex = SecretHex("ab".repeat(32));
    world
        .run(RotateKey { kid: "k2".to_owned(), secret_hex, grace_ms: 1_000, withdraw: Vec::new() })
        .await
        .unwrap();
    Waiting { world, id, at }
}

fn vote(id: ExecutionId, waitpoint: Uuid, signal: Uuid) -> DeliverSignal {
    DeliverSignal {
        id,
        waitpoint,
        signal,
        authority: Authority::Operator,
        name: SignalName::new("yes").unwrap(),
        category: "vote".to_owned(),
        source_type: "person".to_owned(),
        source_identity: "ann".to_owned(),
        subject: None,
        correlation_id: None,
        idempotency_key: Some(key("vote")),
        dedup_ttl_ms: None,
        created_at: None,
        encoding: None,
        payload: Some(Bytes::from_static(b"yes")),
        resume_delay_ms: None,
    }
}

fn connect(world: &World) -> Connection {
    let directory = world.store.keep.downcast_ref::<tempfile::TempDir>().unwrap();
    Connection::open(path(directory.path())).unwrap()
}

/// Runs SQL that no backend would; how many rows it changed.
fn tamper(world: &World, sql: &str) -> usize {
    let db = connect(world);
    db.pragma_update(None, "ignore_check_constraints", true).unwrap();
    db.execute(sql, []).unwrap()
}

#[tokio::test]
async fn a_damaged_row_of_a_suspension_reads_as_corruption_that_names_column_and_value() {
    for (table, column, value) in [
        ("ff_suspension_current", "condition", "'{\"sometime\":1}'"),
        ("ff_suspension_current", "reason", "'boredom'"),
        ("ff_suspension_current", "requested_by", "'nobody'"),
        ("ff_suspension_current", "timeout_behavior", "'shrug'"),
        ("ff_suspension_current", "epoch", "-1"),
        ("ff_waitpoint", "state", "'ajar'"),
        ("ff_waitpoint", "activated_at_ms", "null"),
        ("ff_waitpoint", "waitpoint_key", "''"),
        ("ff_waitpoint", "signal_count", "-1"),
        ("ff_signal", "name", "''"),
        ("ff_suspend_key", "waitpoints", "'{}'"),
        ("ff_signing_key", "kid", "':'"),
    ] {
        let Waiting { world, id, at } = waiting().await;
        let one = if table == "ff_signing_key" { " where expires_at_ms is null" } else { "" };
        let changed = tamper(&world, &format!("update {table} set {column} = {value}{one}"));
        assert_eq!(changed, 1);
        let key = match table {
            "ff_suspension_current" => Key::Wait(WaitKey::Suspension(id)),
            "ff_waitpoint" => Key::Wait(WaitKey::Waitpoint(id, at)),
            "ff_signal" => Key::Wait(WaitKey::Arrived(id)),
            "ff_suspend_key" => Key::Wait(WaitKey::SuspendKey(id, key("once"))),
            _ => Key::Wait(WaitKey::Keyring),
        };
        let error = world.store.backend.get(&[key]).await.unwrap_err();
        let StoreError::Corruption { column: named, value: shown, .. } = &error else {
            panic!("{column} = {value} gave {error}");
        };
        assert_eq!((named.as_str(), shown.as_str()), (column, value.trim_matches('\'')));
    }
}

#[tokio::test]
async fn a_signal_with_an_unknown_effect_is_corrupt() {
    let Waiting { world, id, .. } = waiting().await;
    assert_eq!(tamper(&world, "update ff_signal set effect = 'none'"), 1);
    let found = world.store.backend.list(&Query::Signals(id), &Page::first(10)).await;
    let error = found.unwrap_err();
    assert!(error.to_string().contains("effect"), "{error}");
}

#[tokio::test]
async fn a_check_refuses_what_the_states_of_a_suspension_do_not_allow() {
    let Waiting { world, .. } = waiting().await;
    let db = connect(&world);
    for (table, change) in [
        ("ff_exec_core", "wait_reason = null"),
        ("ff_exec_core", "wait_reason = 'delay'"),
        ("ff_exec_core", "held_at_ms = 1, held_reason = 'why'"),
        ("ff_exec_core", "gated = 1"),
        ("ff_exec_core", "epoch = 1"),
        ("ff_exec_core", "attempt_index = null, worker_instance_id = null"),
        ("ff_suspension_current", "reason = 'boredom'"),
        ("ff_suspension_current", "condition = '{'"),
        ("ff_suspension_current", "closed_at_ms = 1"),
        ("ff_suspension_current", "close_reason = 'resumed'"),
        ("ff_suspension_current", "closed_at_ms = 1, close_reason = 'resumed'"),
        ("ff_waitpoint", "state = 'pending'"),
        ("ff_waitpoint", "state = 'closed'"),
        ("ff_waitpoint", "activated_at_ms = null"),
        ("ff_waitpoint", "suspension_id = null"),
        ("ff_waitpoint", "closed_at_ms = 1"),
        ("ff_waitpoint", "token_digest = x'00'"),
        (
            "ff_waitpoint",
            "state = 'closed', closed_at_ms = 1, close_reason = 'resumed', expires_at_ms = 1",
        ),
        ("ff_signal", "effect = 'none'"),
        ("ff_signal", "dedup_until_ms = null"),
        ("ff_suspend_key", "already_satisfied = 2"),
        ("ff_event", "signal_id = null"),
    ] {
        let refused = db.execute(&format!("update {table} set {change}"), []);
        assert!(refused.unwrap_err().to_string().contains("CHECK"), "{table}: {change}");
    }
    let two = db.execute("update ff_signing_key set expires_at_ms = null", []).unwrap_err();
    assert!(two.to_string().contains("UNIQUE"), "one key signs: {two}");
}

#[tokio::test]
async fn a_damaged_suspension_fails_only_the_commands_that_need_it() {
    let Waiting { world, id, at } = waiting().await;
    let (other, fence) = world.running(json!({})).await;
    assert_eq!(tamper(&world, "update ff_suspension_current set condition = '{}'"), 1);
    let complete = Complete { id: other, fence, result: None, encoding: None };
    let batch: Vec<Command> = vec![vote(id, at, world.uuid()).into(), complete.into()];
    let outcomes = world.batch(batch).await;
    let refused = outcomes[0].clone().unwrap_err();
    assert_eq!(refused.code.as_str(), "corruption");
    assert!(refused.message.contains("column condition"), "{refused}");
    assert!(outcomes[1].is_ok(), "{outcomes:?}");
}

#[tokio::test]
async fn nothing_of_a_suspension_is_left_open_when_its_execution_is_cancelled() {
    let Waiting { world, id, .. } = waiting().await;
    world.pass(5);
    world.cancel(id).await.unwrap();
    let db = connect(&world);
    let open = |sql: &str| db.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    let closed = "closed_at_ms is not null and close_reason = 'cancelled'";
    assert_eq!(open("select count(*) from ff_waitpoint where state <> 'closed'"), 0);
    assert_eq!(open(&format!("select count(*) from ff_waitpoint where {closed}")), 1);
    let row = format!("select count(*) from ff_suspension_current where {closed}");
    assert_eq!(open(&format!("{row} and satisfied_by = '[]'")), 1);
    assert_eq!(open("select count(*) from ff_timer where kind = 'suspension'"), 0);
}
