//! What only a file can get wrong: unknown literals, newer schemas, several processes' worth of
//! connections, and a store that goes away.

use std::sync::Arc;
use std::time::Duration;

use ff_backend_sqlite::{Options, SCHEMA_VERSION, Sqlite};
use ff_conformance::Dial;
use ff_conformance::world::{World, run};
use ff_core::backend::{Interest, StoreError};
use ff_core::decide::priority::ChangePriority;
use ff_core::fold::Key;
use ff_core::{Backend, ExecutionId};
use rusqlite::Connection;
use serde_json::json;

use crate::{open, path};

/// Runs SQL that no backend would.
fn tamper(world: &World, sql: &str) {
    let directory = world.store.keep.downcast_ref::<tempfile::TempDir>().unwrap();
    let db = Connection::open(path(directory.path())).unwrap();
    db.pragma_update(None, "ignore_check_constraints", true).unwrap();
    assert_eq!(db.execute(sql, []).unwrap(), 1, "{sql}");
}

#[tokio::test]
async fn an_unknown_literal_reads_as_corruption_that_names_column_and_value() {
    for (column, value) in [
        ("phase", "'cancelled'"),
        ("next_attempt", "'again'"),
        ("wait_reason", "'boredom'"),
        ("lease_end", "'lost'"),
        ("policy", "'{\"colour\":1}'"),
        ("tags", "'[]'"),
        ("lane_id", "''"),
        ("next_attempt", "null"),
        ("priority", "9001"),
    ] {
        let clock = Arc::new(Dial::default());
        let world = World::new(open(Arc::clone(&clock)), clock);
        let mut draft = world.draft();
        draft.delay_until = Some(world.now().plus(1_000));
        let id = world.create(draft).await;
        tamper(&world, &format!("update ff_exec_core set {column} = {value}"));
        let error = world.store.backend.get(&[Key::Execution(id)]).await.unwrap_err();
        let StoreError::Corruption { column: named, value: shown, .. } = &error else {
            panic!("{column} = {value} gave {error}");
        };
        assert_eq!(named, column);
        assert_eq!(shown, value.trim_matches('\''), "{error}");
        assert_eq!(error.code().as_str(), "corruption");
    }
}

#[tokio::test]
async fn a_terminal_row_with_an_unknown_outcome_is_corrupt_and_not_failed() {
    let clock = Arc::new(Dial::default());
    let world = World::new(open(Arc::clone(&clock)), clock);
    let (id, fence) = world.running(json!({})).await;
    world.complete(id, fence).await.unwrap();
    tamper(&world, "update ff_exec_core set outcome = 'failure'");
    let error = world.store.backend.get(&[Key::Execution(id)]).await.unwrap_err();
    assert!(error.to_string().contains("column outcome holds \"failure\""), "{error}");
}

#[tokio::test]
async fn a_damaged_row_fails_only_the_commands_that_need_it() {
    let clock = Arc::new(Dial::default());
    let world = World::new(open(Arc::clone(&clock)), clock);
    let mut urgent = world.draft();
    urgent.priority = 9_000;
    let damaged = world.create(urgent).await;
    let others = [world.create_with(json!({})).await, world.create_with(json!({})).await];
    tamper(&world, "update ff_exec_core set kind = '' where priority > 0");
    let ids = [others[0], damaged, others[1]];
    let batch = ids.map(|id| ChangePriority { id, priority: 7, version: None }.into()).to_vec();
    let outcomes = world.batch(batch).await;
    assert!(outcomes[0].is_ok() && outcomes[2].is_ok(), "{outcomes:?}");
    let refused = outcomes[1].clone().unwrap_err();
    assert_eq!(refused.code.as_str(), "corruption");
    assert!(refused.message.contains("column kind"), "{refused}");
    let first = world.claim_one().await.expect("the damaged head hides nothing");
    assert!(others.contains(&first.leased.execution.id));
    let rest = world.claim(world.ask(5)).await;
    assert_eq!(rest.len(), 1);
}

#[tokio::test]
async fn a_check_refuses_what_the_states_do_not_allow() {
    let clock = Arc::new(Dial::default());
    let world = World::new(open(Arc::clone(&clock)), clock);
    world.create_with(json!({})).await;
    let directory = world.store.keep.downcast_ref::<tempfile::TempDir>().unwrap();
    let db = Connection::open(path(directory.path())).unwrap();
    for change in ["phase = 'cancelled'", "phase = 'terminal'", "epoch = 1", "outcome = 'failed'"] {
        let refused = db.execute(&format!("update ff_exec_core set {change}"), []);
        assert!(refused.unwrap_err().to_string().contains("CHECK"), "{change}");
    }
}

#[tokio::test]
async fn a_file_from_a_newer_version_is_refused_and_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = path(directory.path());
    drop(Sqlite::open(Options::new(&path)).unwrap());
    let db = Connection::open(&path).unwrap();
    db.execute(
        "insert into refinery_schema_history values (?1, 'future', '2099-01-01', '0')",
        [SCHEMA_VERSION + 1],
    )
    .unwrap();
    let refused = Sqlite::open(Options::new(&path)).err().unwrap();
    assert_eq!(
        refused,
        StoreError::SchemaTooNew { found: SCHEMA_VERSION + 1, known: SCHEMA_VERSION }
    );
    assert!(refused.to_string().contains("this binary knows"), "{refused}");
}

#[tokio::test]
async fn many_openers_of_one_new_file_all_succeed() {
    let directory = tempfile::tempdir().unwrap();
    let path = path(directory.path());
    let openers: Vec<_> = (0..8)
        .map(|_| {
            let path = path.clone();
            std::thread::spawn(move || Sqlite::open(Options::new(path)).map(drop))
        })
        .collect();
    for opener in openers {
        opener.join().unwrap().unwrap();
    }
}

#[tokio::test]
async fn a_waiter_wakes_for_a_commit_of_another_process() {
    let directory = tempfile::tempdir().unwrap();
    let path = path(directory.path());
    let here = Sqlite::open(Options { poll: Duration::from_millis(5), ..Options::new(&path) });
    let (here, there) = (here.unwrap(), Sqlite::open(Options::new(&path)).unwrap());
    let clock = Arc::new(Dial::default());
    let world = World::new(open(Arc::clone(&clock)), clock);
    let mut seen = here.generation(Interest::Work);
    // Settle what opening the second store committed.
    let nap = Duration::from_millis(50);
    while tokio::time::timeout(nap, here.wait(Interest::Work, seen)).await.is_ok() {
        seen = here.generation(Interest::Work);
    }
    let idle = tokio::time::timeout(Duration::from_millis(50), here.wait(Interest::Work, seen));
    assert!(idle.await.is_err(), "nothing happened");
    there.apply(vec![world.draft().into()]).await.unwrap().pop().unwrap().unwrap();
    // One notices; all who wait are told.
    let all = async {
        let events = here.generation(Interest::Events);
        let waiters = [Interest::Work, Interest::Work, Interest::Events];
        let seen = |interest| if interest == Interest::Work { seen } else { events };
        let waiters = waiters.map(|interest| here.wait(interest, seen(interest)));
        let [first, second, third] = waiters;
        tokio::join!(first, second, third)
    };
    tokio::time::timeout(Duration::from_secs(5), all).await.unwrap();
}

#[tokio::test]
async fn a_locked_file_is_retried_and_then_reported() {
    let directory = tempfile::tempdir().unwrap();
    let path = path(directory.path());
    let busy = Duration::from_millis(10);
    let store = Sqlite::open(Options { busy, ..Options::new(&path) }).unwrap();
    let blocker = Connection::open(&path).unwrap();
    blocker.execute_batch("begin immediate").unwrap();
    let clock = Arc::new(Dial::default());
    let world = World::new(open(Arc::clone(&clock)), clock);
    let draft = world.draft();
    let refused = store.apply(vec![draft.clone().into()]).await.unwrap_err();
    assert!(matches!(refused, StoreError::RetryExhausted { .. }), "{refused}");
    blocker.execute_batch("rollback").unwrap();
    store.apply(vec![draft.into()]).await.unwrap().pop().unwrap().unwrap();
}

#[tokio::test]
async fn a_file_that_cannot_be_opened_is_named() {
    let refused = Sqlite::open(Options::new("/nowhere/at/all/fabric.db")).err().unwrap();
    assert!(refused.to_string().contains("/nowhere/at/all/fabric.db"), "{refused}");
}

#[tokio::test]
async fn what_was_acknowledged_is_there_after_reopening() {
    run(open, |world: Arc<World>| async move {
        let (id, fence): (ExecutionId, _) = world.running(json!({})).await;
        world.complete(id, fence).await.unwrap();
        let directory = world.store.keep.downcast_ref::<tempfile::TempDir>().unwrap();
        let reopened = Sqlite::open(Options::new(path(directory.path()))).unwrap();
        let have = reopened.get(&[Key::Execution(id)]).await.unwrap();
        assert_eq!(have.executions[&id], Some(world.get(id).await));
    })
    .await;
}

#[tokio::test]
async fn a_damaged_payload_or_queue_hides_only_its_own_work() {
    let clock = Arc::new(Dial::default());
    let world = World::new(open(Arc::clone(&clock)), clock);
    let mut urgent = world.draft();
    urgent.priority = 9_000;
    let damaged = world.create(urgent).await;
    let policy = json!({"routing_requirements": {"required_capabilities": ["gpu"]}});
    let lost = world.create_with(policy).await;
    let plain = world.create_with(json!({})).await;
    let uuid = damaged.uuid().simple();
    tamper(&world, &format!("update ff_payload set encoding = 'é' where execution_id = x'{uuid}'"));
    tamper(&world, "update ff_queue set capabilities = '{}' where capabilities <> '[]'");
    let mut ask = world.ask(5);
    ask.capabilities.insert("gpu".to_owned());
    let claimed = world.claim(ask).await;
    let ids: Vec<_> = claimed.iter().map(|work| work.leased.execution.id).collect();
    assert_eq!(ids, [plain], "neither {damaged} nor {lost}");
}

#[tokio::test]
async fn own_commits_do_not_wake_who_waits_for_others() {
    let directory = tempfile::tempdir().unwrap();
    let path = path(directory.path());
    let options = Options { poll: Duration::from_millis(5), ..Options::new(&path) };
    let store = Sqlite::open(options).unwrap();
    let clock = Arc::new(Dial::default());
    let world = World::new(open(Arc::clone(&clock)), clock);
    let settle = store.wait(Interest::Work, store.generation(Interest::Work));
    let _ = tokio::time::timeout(Duration::from_millis(50), settle).await;
    let events = store.generation(Interest::Events);
    store.apply(vec![world.draft().into()]).await.unwrap().pop().unwrap().unwrap();
    let waited = store.wait(Interest::Events, events);
    let waited = tokio::time::timeout(Duration::from_millis(100), waited).await;
    assert!(waited.is_err(), "a creation is no event");
}
