//! Nothing ready waits beside a waiting claim, whatever another process did or remembers; and a claim
//! that is repeated elsewhere finds its leases.

use std::sync::Arc;
use std::time::Duration;

use ff_backend_postgres::Options;
use ff_conformance::{Dial, World};
use ff_core::backend::{Claims, Interest};
use ff_core::decide::cancel_flow::CancelFlow;
use ff_core::decide::create::Create;
use ff_core::flow::CancellationPolicy;
use ff_core::{ClaimAsk, Code, ExecutionId};
use ff_engine::Engine;
use tokio::time::Instant;

use crate::stores::{Stores, ask, create, draft};

/// How long ready work may wait beside a waiting claim.
const LATE: Duration = Duration::from_millis(150);
/// How long a claim waits.
const WAIT: Duration = Duration::from_secs(20);

/// A store on the database's own clock.
async fn timed(stores: &Stores) -> World {
    stores.world(Options { clock: None, ..stores.options() }).await
}

fn ids(claims: &Claims) -> Vec<ExecutionId> {
    claims.given.iter().flatten().map(|claimed| claimed.leased.execution.id).collect()
}

async fn claim(world: &World, ask: &ClaimAsk) -> Vec<ExecutionId> {
    ids(&world.store.backend.claim(std::slice::from_ref(ask)).await.unwrap())
}

/// Waits for work, and says what it was given and when.
fn waiting(engine: &Engine) -> tokio::task::JoinHandle<(Vec<ExecutionId>, Instant)> {
    let engine = engine.clone();
    tokio::spawn(async move {
        let given = engine.claim(ask("default", 1), WAIT).await.unwrap();
        (given.iter().map(|claimed| claimed.leased.execution.id).collect(), Instant::now())
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_another_process_files_before_the_floor_is_found_at_once() {
    let stores = Stores::new();
    let (here, there) = (timed(&stores).await, timed(&stores).await);
    let engine = Engine::new(Arc::clone(&here.store.backend));
    for _ in 0..10 {
        // One that is taken here raises the floor of the queue; a more urgent one lies before it.
        create(here.store.backend.as_ref(), draft(&here)).await;
        assert_eq!(claim(&here, &ask("default", 1)).await.len(), 1);
        let urgent = Create { priority: 100, ..draft(&there) };
        let claim = waiting(&engine);
        tokio::time::sleep(Duration::from_millis(20)).await;
        let id = create(there.store.backend.as_ref(), urgent).await;
        let filed = Instant::now();
        let (given, at) = claim.await.unwrap();
        assert_eq!(given, [id]);
        assert!(at - filed < LATE, "found after {:?}", at - filed);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delay_that_another_process_files_is_found_when_it_is_over() {
    let stores = Stores::new();
    let (here, there) = (timed(&stores).await, timed(&stores).await);
    let engine = Engine::new(Arc::clone(&here.store.backend));
    for late in [40, 5, 70, 20] {
        let claim = waiting(&engine);
        let delayed = Create { delay_ms: Some(late), ..draft(&there) };
        let id = create(there.store.backend.as_ref(), delayed).await;
        let due = Instant::now() + Duration::from_millis(late);
        let (given, at) = claim.await.unwrap();
        assert_eq!(given, [id]);
        assert!(at < due + LATE, "found {:?} late", at - due);
    }
}

#[tokio::test]
async fn what_a_faster_clock_made_ready_is_due_again_when_the_own_clock_says_so() {
    let stores = Stores::new();
    let ahead = Arc::new(Dial::default());
    let fast = Options { clock: Some(Arc::clone(&ahead) as _), ..stores.options() };
    let (here, there) = (stores.open().await, stores.world(fast).await);
    let due = here.now().plus(30);
    let delayed = Create { delay_until: Some(due), ..draft(&here) };
    let id = create(here.store.backend.as_ref(), delayed).await;
    ahead.set(due.plus(5));
    // Delays are moved by the clock that is ahead, for a lane that has nothing else.
    there.store.backend.claim(&[]).await.unwrap();
    let own = ask("default", 1);
    let claims = here.store.backend.claim(std::slice::from_ref(&own)).await.unwrap();
    assert_eq!((ids(&claims), claims.next_due), (Vec::new(), Some(due)));
    stores.clock.set(due);
    assert_eq!(claim(&here, &own).await, [id]);
}

#[tokio::test]
async fn delays_that_another_claim_holds_are_looked_at_again_soon() {
    let stores = Stores::new();
    let w = stores.open().await;
    let delayed = Create { delay_ms: Some(50), ..draft(&w) };
    let id = create(w.store.backend.as_ref(), delayed).await;
    w.pass(60);
    // Another process moves it, and dies before it commits.
    let mut db = stores.connect().await;
    let other = db.transaction().await.unwrap();
    other.execute("select from ff_timer where kind = 'delay' for update", &[]).await.unwrap();
    let own = ask("default", 1);
    let claims = w.store.backend.claim(std::slice::from_ref(&own)).await.unwrap();
    assert_eq!((ids(&claims), claims.next_due), (Vec::new(), Some(claims.now.plus(10))));
    other.rollback().await.unwrap();
    assert_eq!(claim(&w, &own).await, [id]);
}

#[tokio::test]
async fn claims_are_woken_once_a_second_while_something_is_ready_or_due() {
    let stores = Stores::new();
    let (here, there) = (stores.open().await, stores.open().await);
    let backend = here.store.backend.as_ref();
    let woken = async || {
        let before = backend.generation(Interest::Work);
        backend.agenda().await.unwrap();
        backend.generation(Interest::Work) > before
    };
    assert!(!woken().await, "nothing is ready");
    // As if it was killed before it could tell anybody.
    let db = stores.connect().await;
    create(there.store.backend.as_ref(), draft(&there)).await;
    drop(there);
    assert!(woken().await);
    db.execute("delete from ff_ready", &[]).await.unwrap();
    assert!(!woken().await);
    let there = stores.open().await;
    let delayed = Create { delay_ms: Some(50), ..draft(&there) };
    create(there.store.backend.as_ref(), delayed).await;
    drop(there);
    assert!(!woken().await, "it is not due");
    here.pass(50);
    assert!(woken().await);
}

#[tokio::test]
async fn a_claim_that_is_repeated_elsewhere_finds_its_leases() {
    let stores = Stores::new();
    let (here, there) = (stores.open().await, stores.open().await);
    let backend = here.store.backend.as_ref();
    let asked = ask("default", 1);
    // Empty at first, so that a store could remember that nothing is held under it.
    assert!(claim(&here, &asked).await.is_empty());
    let first = create(backend, draft(&here)).await;
    assert_eq!(claim(&there, &asked).await, [first]);
    create(backend, draft(&here)).await;
    assert_eq!(claim(&here, &asked).await, [first], "it takes nothing new");
}

#[tokio::test]
async fn a_claim_that_is_repeated_while_its_first_try_commits_takes_nothing_new() {
    let stores = Stores::new();
    let world = stores.open().await;
    let backend = world.store.backend.as_ref();
    create(backend, draft(&world)).await;
    let asked = ask("default", 1);
    // Another process is in the middle of serving the same claim.
    let mut db = stores.connect().await;
    let first = db.transaction().await.unwrap();
    let serve =
        "select pg_advisory_xact_lock(hashtextextended(current_schema() || $1::uuid::text, 0))";
    first.execute(serve, &[&asked.claim_id]).await.unwrap();
    let claims = backend.claim(std::slice::from_ref(&asked)).await.unwrap();
    assert!(ids(&claims).is_empty());
    assert!(claims.busy.contains(&asked.claim_id), "what it is given is not known");
    // A caller that does not wait is not answered that there is nothing: it would ask under another id.
    let engine = Engine::new(Arc::clone(&world.store.backend));
    let refused = engine.claim(asked.clone(), Duration::ZERO).await.unwrap_err();
    assert_eq!(refused.code(), Code::RetryExhausted);
    assert_eq!(claim(&world, &ask("default", 1)).await.len(), 1, "other claims go on");
    first.commit().await.unwrap();
    create(backend, draft(&world)).await;
    assert_eq!(claim(&world, &asked).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flow_is_cancelled_while_its_members_are_claimed() {
    let stores = Stores::new();
    let (here, there) = (stores.open().await, stores.open().await);
    for _ in 0..60 {
        let drawn = here.sketch("a b c d").submit().await;
        let cancel = CancelFlow {
            flow: drawn.flow,
            policy: CancellationPolicy::All,
            reason: "stop".to_owned(),
        };
        let backend = Arc::clone(&there.store.backend);
        let claimed = tokio::spawn(async move { backend.claim(&[ask("default", 4)]).await });
        let cancelled = here.store.backend.apply(vec![cancel.into()]).await.unwrap();
        assert!(cancelled[0].is_ok(), "{cancelled:?}");
        claimed.await.unwrap().unwrap();
    }
}
