//! Rows that somebody else holds: what meets them waits a moment or is refused, and nothing else
//! waits with it.

use std::sync::Arc;
use std::time::Duration;

use ff_backend_postgres::Options;
use ff_conformance::World;
use ff_core::backend::{Duty, WorkFilter};
use ff_core::command::Command;
use ff_core::decide::cancel_flow::CancelFlow;
use ff_core::decide::complete::Complete;
use ff_core::decide::priority::ChangePriority;
use ff_core::error::Code;
use ff_core::execution::{Fence, Priority};
use ff_core::flow::{CancellationPolicy, FlowWord};
use ff_core::{ExecutionId, StoreError};
use ff_engine::Engine;
use serde_json::json;
use tokio::task::JoinSet;
use tokio_postgres::Client;

use crate::line::Line;
use crate::stores::Stores;

/// Long enough for everything that waits for nobody.
const SOON: Duration = Duration::from_secs(3);

/// Holds rows by hand.
async fn hold(stores: &Stores, ids: &[ExecutionId]) -> Client {
    let hand = stores.connect().await;
    hand.batch_execute("begin").await.unwrap();
    let uuids: Vec<_> = ids.iter().map(|id| id.uuid()).collect();
    let lock = "select 1 from ff_exec_core where execution_id = any($1) for update";
    assert_eq!(hand.query(lock, &[&uuids]).await.unwrap().len(), ids.len());
    hand
}

async fn running(w: &World, count: usize) -> Vec<(ExecutionId, Fence)> {
    let mut all = Vec::new();
    for _ in 0..count {
        all.push(w.running(json!({})).await);
    }
    all
}

fn complete((id, fence): (ExecutionId, Fence)) -> Complete {
    Complete { id, fence, result: None, encoding: None }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_locked_rows_do_not_hold_up_the_ends_of_others() {
    let stores = Stores::new();
    let w = stores.open().await;
    let engine = Engine::new(Arc::clone(&w.store.backend));
    let all = running(&w, 32).await;
    let (locked, free) = all.split_at(2);
    let hand = hold(&stores, &[locked[0].0, locked[1].0]).await;
    let mut stuck = JoinSet::new();
    for work in locked.iter().copied() {
        let engine = engine.clone();
        stuck.spawn(async move { engine.execute(complete(work)).await });
        tokio::task::yield_now().await;
    }
    let mut ends = JoinSet::new();
    for work in free.iter().copied() {
        let engine = engine.clone();
        ends.spawn(async move { engine.execute(complete(work)).await.unwrap() });
    }
    tokio::time::timeout(SOON, ends.join_all()).await.expect("the others wait for nobody");
    let refused = tokio::time::timeout(SOON, stuck.join_all()).await.expect("refused in time");
    for answer in refused {
        assert_eq!(answer.unwrap_err().code(), Code::RetryExhausted);
    }
    hand.batch_execute("commit").await.unwrap();
    for work in locked {
        engine.execute(complete(*work)).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_goes_on_without_what_is_locked() {
    for stranger in [false, true] {
        let stores = Stores::new();
        let w = stores.open().await;
        let all = running(&w, 20).await;
        let hand = hold(&stores, &[all[3].0, all[17].0]).await;
        let other = stores.open().await;
        let backend = if stranger { &other.store.backend } else { &w.store.backend };
        let batch: Vec<Command> = all.iter().map(|work| complete(*work).into()).collect();
        let outcomes = tokio::time::timeout(SOON, backend.apply(batch.clone())).await.unwrap();
        let refused = |code: Option<Code>| code == Some(Code::RetryExhausted);
        let codes: Vec<_> =
            outcomes.unwrap().into_iter().map(|outcome| outcome.err().map(|no| no.code)).collect();
        let expected: Vec<_> = (0..20).map(|at| at == 3 || at == 17).collect();
        assert_eq!(codes.iter().map(|code| refused(*code)).collect::<Vec<_>>(), expected);
        assert_eq!(codes.iter().flatten().count(), 2, "{codes:?}");
        // A batch of which nothing went through is refused as a whole.
        let alone = backend.apply(vec![batch[3].clone(), batch[17].clone()]);
        let alone = tokio::time::timeout(SOON, alone).await.unwrap().unwrap_err();
        assert!(matches!(alone, StoreError::RetryExhausted { .. }), "{alone}");
        hand.batch_execute("commit").await.unwrap();
        let again = backend.apply(batch).await.unwrap();
        assert!(again.iter().all(Result::is_ok), "{again:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_locked_row_does_not_fail_a_tick() {
    let stores = Stores::new();
    let w = stores.open().await;
    let engine = Engine::new(Arc::clone(&w.store.backend));
    let all = running(&w, 5).await;
    w.pass(1_000_000);
    let hand = hold(&stores, &[all[0].0]).await;
    let tick = || async {
        let filter = WorkFilter::default();
        let tick = engine.scan_tick(Duty::LeaseExpiry, &filter);
        let report = tokio::time::timeout(SOON, tick).await.unwrap().unwrap();
        (report.processed, report.errors)
    };
    assert_eq!(tick().await, (4, 1));
    assert_eq!(tick().await, (0, 1), "when it is the only one as well");
    hand.batch_execute("commit").await.unwrap();
    assert_eq!(tick().await, (1, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_always_fails_does_not_fail_a_tick() {
    let stores = Stores::new();
    let w = stores.open().await;
    let engine = Engine::new(Arc::clone(&w.store.backend));
    let all = running(&w, 5).await;
    w.pass(1_000_000);
    // It cannot be serialized, it is refused by a trigger, its page is damaged.
    for (code, processed) in [("40001", 4), ("P0001", 0), ("XX001", 0)] {
        stores.schema.tamper(&format!(
            "create function fails() returns trigger language plpgsql as $$ begin
                raise exception 'on purpose' using errcode = '{code}';
            end $$;
            create trigger fails before update on ff_exec_core for each row
                when (new.execution_id = '{}') execute function fails();",
            all[2].0.uuid()
        ));
        let report = engine.scan_tick(Duty::LeaseExpiry, &WorkFilter::default()).await;
        stores.schema.tamper("drop trigger fails on ff_exec_core; drop function fails;");
        let report = report.unwrap();
        assert_eq!((report.processed, report.errors), (processed, 1), "{code}");
    }
}

/// Executions that other rows are locked between.
const MANY: usize = 256;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_locked_rows_of_a_large_batch_hold_up_nobody_else() {
    let stores = Stores::new();
    let w = stores.open().await;
    let all = running(&w, MANY).await;
    let locked: Vec<_> = (0..MANY).filter(|at| at % 4 == 3).collect();
    let ids: Vec<_> = locked.iter().map(|at| all[*at].0).collect();
    let hand = hold(&stores, &ids).await;
    let batch: Vec<Command> = all.iter().map(|work| complete(*work).into()).collect();
    let outcomes = w.store.backend.apply(batch).await.unwrap();
    let refused: Vec<_> = (0..MANY).filter(|at| outcomes[*at].is_err()).collect();
    assert_eq!(refused, locked);
    hand.batch_execute("commit").await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_follows_a_command_on_a_locked_row_stays_behind_it() {
    let stores = Stores::new();
    let w = stores.open().await;
    let mut ids = Vec::new();
    for _ in 0..31 {
        ids.push(w.create(w.draft()).await);
    }
    let (own, others) = (ids[0], &ids[1..]);
    let own_hand = hold(&stores, &[own]).await;
    let hand = hold(&stores, others).await;
    let urgent =
        |id, priority| -> Command { ChangePriority { id, priority, version: None }.into() };
    let mut batch = vec![urgent(own, 5)];
    batch.extend(others.iter().map(|id| urgent(*id, 6)));
    batch.push(urgent(own, 7));
    let backend = Arc::clone(&w.store.backend);
    let applied = tokio::spawn(async move { backend.apply(batch).await });
    // The row is free again while the others are still being looked at.
    tokio::time::sleep(Duration::from_millis(350)).await;
    own_hand.batch_execute("commit").await.unwrap();
    let outcomes = applied.await.unwrap().unwrap();
    hand.batch_execute("commit").await.unwrap();
    let done = [&outcomes[0], &outcomes[31]].map(Result::is_ok);
    let expected = match done {
        [_, true] => 7,
        [true, false] => 5,
        [false, false] => Priority::default().get(),
    };
    assert_eq!(w.get(own).await.priority.get(), expected, "{outcomes:?}");
}

/// What fails one half of a batch that is divided is no answer to the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_flow_is_cancelled_beside_another_with_a_locked_member() {
    let stores = Stores::new();
    let w = stores.open().await;
    let nodes: Vec<_> = (0..MEMBERS).map(|n| format!("m{n}")).collect();
    for locked in [0, 1] {
        let flows =
            [w.sketch(&nodes.join(" ")).submit().await, w.sketch(&nodes.join(" ")).submit().await];
        let hand = hold(&stores, &[flows[locked].id("m7")]).await;
        let cancel = |flow| -> Command {
            CancelFlow { flow, policy: CancellationPolicy::All, reason: "stop".to_owned() }.into()
        };
        let batch = flows.iter().map(|drawn| cancel(drawn.flow)).collect();
        let other = stores.open().await;
        let outcomes = other.store.backend.apply(batch).await.unwrap();
        hand.batch_execute("commit").await.unwrap();
        let codes: Vec<_> = outcomes.into_iter().map(|one| one.err().map(|no| no.code)).collect();
        let expected = [0, 1].map(|at| (at == locked).then_some(Code::RetryExhausted));
        assert_eq!(codes, expected);
        for (drawn, code) in flows.iter().zip(expected) {
            let state = w.flow(drawn.flow).await.state.word();
            assert_eq!(state == FlowWord::Cancelled, code.is_none());
        }
    }
}

/// From far away every part takes long, and most of the first ones are for finding the locked row.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_goes_on_without_what_is_locked_also_from_far_away() {
    let (stores, line) = (Stores::new(), Line::new().await);
    let w = stores.open().await;
    let far = stores.world(Options { url: line.url(), ..stores.options() }).await;
    let drafts: Vec<_> = (0..256).map(|_| w.draft()).collect();
    let ids: Vec<_> = drafts.iter().map(|draft| draft.id).collect();
    let made = w.batch(drafts.into_iter().map(Command::from).collect()).await;
    assert!(made.iter().all(Result::is_ok));
    let hand = hold(&stores, &ids[..1]).await;
    // Beside a flow of its own, which the statement that finds locked rows does not see.
    line.stall("execution/load", u32::MAX, Duration::from_millis(130));
    let urgent = |id: &ExecutionId| ChangePriority { id: *id, priority: 5, version: None }.into();
    let outcomes = far.store.backend.apply(ids.iter().map(urgent).collect()).await.unwrap();
    hand.batch_execute("commit").await.unwrap();
    let refused: Vec<_> = (0..256).filter(|at| outcomes[*at].is_err()).collect();
    assert_eq!(refused, [0]);
    assert!(line.ran().contains(&"execution/load"));
}

/// Members of each of two flows: together more than one transaction changes.
const MEMBERS: usize = 5_100;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tick_changes_no_more_members_at_once_than_a_cancellation() {
    let stores = Stores::new();
    let w = stores.open().await;
    let edges: Vec<_> = (0..MEMBERS).map(|n| format!("a>m{n}")).collect();
    let edges = edges.join(" ");
    for _ in 0..2 {
        let drawn = w.sketch(&edges).submit().await;
        w.succeed(drawn.id("a")).await;
    }
    let other = stores.open().await;
    let engine = Engine::new(Arc::clone(&other.store.backend));
    let report = engine.scan_tick(Duty::CompletionDispatch, &WorkFilter::default()).await.unwrap();
    assert_eq!((report.processed, report.errors), (2, 0));
    let db = stores.connect().await;
    let many = "select count(*), count(distinct xmin::text) from ff_exec_core \
        where phase = 'runnable' and not gated";
    let row = db.query_one(many, &[]).await.unwrap();
    let (released, transactions): (i64, i64) = (row.get(0), row.get(1));
    assert_eq!((released, transactions), (2 * i64::try_from(MEMBERS).unwrap(), 2));
}
