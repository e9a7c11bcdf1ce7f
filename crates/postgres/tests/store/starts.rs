//! Starts beside a claim that is repeated at another process: work is leased under a claim only by the
//! transaction that has locked it, and by a start only if the claim holds nothing yet.

use std::sync::Arc;
use std::time::Duration;

use ff_backend_postgres::Options;
use ff_conformance::World;
use ff_core::backend::{ClaimAsk, Duty};
use ff_core::command::{Command, Outcome};
use ff_core::decide::create::Create;
use ff_core::decide::start_released::StartReleased;
use ff_core::state::PublicState;
use ff_core::{Code, ExecutionId};
use tokio_postgres::Client;

use crate::line::Line;
use crate::stores::{Stores, ask, create, draft};

/// How long a store waits for what it has looked at.
const LATE: Duration = Duration::from_millis(500);
/// Has a transaction that leases something wait at its commit for whoever holds this lock.
const GATE: i64 = 71;

/// Creations that start at once: by one statement, and by several.
fn drafts(world: &World) -> [Create; 2] {
    let tags = [("test.colour".to_owned(), "red".to_owned())].into();
    [draft(world), Create { tags, ..draft(world) }]
}

/// What an engine sends when a claim idles.
fn start(create: &Create, asked: &ClaimAsk) -> Vec<Command> {
    vec![create.clone().into(), asked.claim(create.id).into()]
}

async fn ids(world: &World, asked: &ClaimAsk) -> Vec<ExecutionId> {
    let claims = world.store.backend.claim(std::slice::from_ref(asked)).await.unwrap();
    claims.given.iter().flatten().map(|claimed| claimed.leased.execution.id).collect()
}

/// It was created and not started, and any claim finds it.
async fn is_filed(world: &World, id: ExecutionId, outcomes: Vec<Outcome>) {
    assert!(outcomes[0].is_ok(), "{outcomes:?}");
    let refused = outcomes[1].as_ref().unwrap_err();
    assert_eq!(refused.code, Code::ExecutionNotLeaseable);
    assert_eq!(world.state(id).await, PublicState::Waiting);
    assert_eq!(ids(world, &ask("default", 1)).await, [id]);
}

/// Waits until a claim is locked by somebody.
async fn is_served(stores: &Stores, db: &Client, asked: &ClaimAsk) {
    let locked = "select exists (select from pg_locks where locktype = 'advisory' \
        and (classid::bigint << 32 | objid::bigint) = hashtextextended($1 || $2::uuid::text, 0))";
    while !db
        .query_one(locked, &[&stores.schema.name, &asked.claim_id])
        .await
        .unwrap()
        .get::<_, bool>(0)
    {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_started_for_a_claim_that_another_process_serves() {
    let stores = Stores::new();
    let (here, line) = (stores.open().await, Line::new().await);
    let there = stores.world(Options { url: line.url(), ..stores.options() }).await;
    let (there, db) = (Arc::new(there), stores.connect().await);
    for new in drafts(&here) {
        // It comes before the other, whenever that is filed.
        let urgent = Create { priority: 100, ..draft(&here) };
        let found = create(here.store.backend.as_ref(), urgent).await;
        let asked = ask("default", 1);
        // It has looked for leases under the claim, and hears of what is ready a little later.
        line.stall("ready/head", 1, LATE);
        let (repeat, of) = (Arc::clone(&there), asked.clone());
        let repeat = tokio::spawn(async move { ids(&repeat, &of).await });
        is_served(&stores, &db, &asked).await;
        let outcomes = here.store.backend.apply(start(&new, &asked)).await.unwrap();
        assert!(!repeat.is_finished(), "it was served meanwhile");
        assert_eq!(repeat.await.unwrap(), [found]);
        is_filed(&here, new.id, outcomes).await;
        assert_eq!(ids(&here, &asked).await, [found], "that is all it holds");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_member_is_started_for_a_claim_that_another_process_serves() {
    let stores = Stores::new();
    let (here, line) = (stores.open().await, Line::new().await);
    let there = Arc::new(stores.world(Options { url: line.url(), ..stores.options() }).await);
    let db = stores.connect().await;
    let drawn = here.sketch("a>b").submit().await;
    here.succeed(drawn.id("a")).await;
    let asked = ask("default", 1);
    line.stall("ready/head", 1, LATE);
    let (repeat, of) = (Arc::clone(&there), asked.clone());
    let repeat = tokio::spawn(async move { ids(&repeat, &of).await });
    is_served(&stores, &db, &asked).await;
    let due = here.due(Duty::CompletionDispatch, 10).await.commands;
    let start = StartReleased { ask: asked.clone() };
    let batch = due.into_iter().chain([start.into()]).collect();
    let outcomes = here.store.backend.apply(batch).await.unwrap();
    assert!(!repeat.is_finished(), "it was served meanwhile");
    let refused = outcomes[1].as_ref().unwrap_err();
    assert_eq!(refused.code, Code::ExecutionNotLeaseable);
    // Whether the repeat or the next claim finds it, one of them does.
    let found = repeat.await.unwrap();
    let next = ids(&here, &ask("default", 1)).await;
    assert_eq!([found, next].concat(), [drawn.id("b")]);
}

#[tokio::test]
async fn nothing_is_started_for_a_claim_that_was_given_something_elsewhere() {
    let stores = Stores::new();
    let (here, there) = (stores.open().await, stores.open().await);
    for new in drafts(&here) {
        let found = create(here.store.backend.as_ref(), draft(&here)).await;
        let asked = ask("default", 1);
        assert_eq!(ids(&there, &asked).await, [found]);
        let outcomes = here.store.backend.apply(start(&new, &asked)).await.unwrap();
        is_filed(&here, new.id, outcomes).await;
        assert_eq!(ids(&here, &asked).await, [found], "that is all it holds");
    }
}

/// The repeat is told that its first try is under way, and finds what that leased.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_that_is_repeated_while_a_start_for_it_commits_takes_nothing_new() {
    let stores = Stores::new();
    let (here, there) = (stores.open().await, stores.open().await);
    let here = Arc::new(here);
    let db = stores.connect().await;
    stores.schema.tamper(&format!(
        "create function wait() returns trigger language plpgsql as $$ begin
            perform pg_advisory_xact_lock_shared({GATE});
            return null;
        end $$;
        create constraint trigger wait after insert on ff_lease deferrable initially deferred
            for each row execute function wait();"
    ));
    for new in drafts(&here) {
        create(there.store.backend.as_ref(), draft(&there)).await;
        let asked = ask("default", 1);
        db.execute("select pg_advisory_lock($1)", &[&GATE]).await.unwrap();
        let (first, batch) = (Arc::clone(&here), start(&new, &asked));
        let first = tokio::spawn(async move { first.store.backend.apply(batch).await.unwrap() });
        is_served(&stores, &db, &asked).await;
        let claims = there.store.backend.claim(std::slice::from_ref(&asked)).await.unwrap();
        assert!(claims.given.iter().all(Vec::is_empty), "{claims:?}");
        assert!(claims.busy.contains(&asked.claim_id), "what it is given is not known");
        assert!(!first.is_finished());
        db.execute("select pg_advisory_unlock($1)", &[&GATE]).await.unwrap();
        let outcomes = first.await.unwrap();
        assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
        assert_eq!(ids(&there, &asked).await, [new.id]);
    }
    stores.schema.tamper("drop trigger wait on ff_lease; drop function wait");
}

/// A start waits for somebody who is about to create the same; its claim is locked from the beginning.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_is_locked_while_a_start_for_it_waits_for_another_creation() {
    let stores = Stores::new();
    let (here, there) = (Arc::new(stores.open().await), stores.open().await);
    let (db, mut other) = (stores.connect().await, stores.connect().await);
    let (new, asked) = (draft(&here), ask("default", 1));
    let model = create(here.store.backend.as_ref(), draft(&here)).await;
    let twin = other.transaction().await.unwrap();
    let insert = "insert into ff_exec_core select (jsonb_populate_record(x, jsonb_build_object(\
        'execution_id', $2::uuid, 'partition_key', $3::smallint))).* \
        from ff_exec_core x where x.execution_id = $1";
    let partition = i16::from(new.id.partition().index());
    twin.execute(insert, &[&model.uuid(), &new.id.uuid(), &partition]).await.unwrap();
    let (first, batch) = (Arc::clone(&here), start(&new, &asked));
    let first = tokio::spawn(async move { first.store.backend.apply(batch).await.unwrap() });
    let served = is_served(&stores, &db, &asked);
    tokio::time::timeout(Duration::from_secs(5), served)
        .await
        .expect("it is locked while it waits");
    let claims = there.store.backend.claim(std::slice::from_ref(&asked)).await.unwrap();
    assert!(claims.busy.contains(&asked.claim_id));
    twin.rollback().await.unwrap();
    let outcomes = first.await.unwrap();
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    assert_eq!(ids(&there, &asked).await, [new.id]);
}
