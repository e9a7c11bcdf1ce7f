//! Suspensions between stores as separate processes would be, and what a store remembers of
//! executions that are suspended: keys are installed once, and nothing is decided on what was read
//! before its execution was locked.

use std::sync::Arc;
use std::time::Duration;

use ff_conformance::audit;
use ff_conformance::world::waits::Mailbox;
use ff_conformance::world::{World, code};
use ff_core::backend::{Claims, Duty};
use ff_core::command::{Command, Reply};
use ff_core::decide::cancel_owed::CancelOwed;
use ff_core::decide::create::Create;
use ff_core::decide::keys::{RotateKey, Rotated, SecretHex};
use ff_core::error::Code;
use ff_core::execution::State;
use ff_core::flow::CancellationPolicy;
use ff_core::fold::{Key, WaitKey};
use ff_core::state::PublicState;
use ff_core::suspension::{CloseReason, Effect, WaitpointWord};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use crate::stores::{Stores, ask, create, draft};

/// Stores that write at the same moment.
const AT_ONCE: usize = 8;

/// Has `commands` sent at once, each by a store of its own.
async fn race(stores: &Stores, commands: Vec<Command>) -> Vec<Reply> {
    let start = Arc::new(Barrier::new(commands.len()));
    let mut racers = JoinSet::new();
    for command in commands {
        let (world, start) = (stores.open().await, Arc::clone(&start));
        racers.spawn(async move {
            // Its connections are open by then.
            world.store.backend.get(&[Key::Wait(WaitKey::Keyring)]).await.unwrap();
            start.wait().await;
            let outcomes = world.store.backend.apply(vec![command]).await;
            outcomes.expect("nothing is exhausted").pop().unwrap().unwrap()
        });
    }
    racers.join_all().await
}

/// An execution that a worker holds.
async fn running(world: &World) -> (ff_core::ExecutionId, ff_core::execution::Fence) {
    let id = create(world.store.backend.as_ref(), draft(world)).await;
    let ask = ask("default", 1);
    let ask = ff_core::ClaimAsk { lanes: vec![world.draft().lane], ..ask };
    let claimed = world.store.backend.claim(&[ask]).await.unwrap().given.remove(0).remove(0);
    assert_eq!(claimed.leased.execution.id, id);
    (id, claimed.leased.fence)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stores_that_need_a_first_key_at_once_agree_on_one() {
    for _ in 0..10 {
        let stores = Stores::new();
        let world = stores.open().await;
        let mut commands = Vec::new();
        for _ in 0..AT_ONCE {
            let (id, fence) = running(&world).await;
            commands.push(world.pause(id, fence).into());
        }
        for reply in race(&stores, commands).await {
            let Reply::Suspend(reply) = reply else { panic!("{reply:?} answers a suspension") };
            assert!(reply.waitpoints.iter().all(|opened| opened.token.is_some()));
        }
        let tables = (world.store.dump)();
        assert!(tables.keyring.current.is_some() && tables.keyring.old.is_empty());
        assert_eq!(tables.suspensions.len(), AT_ONCE);
        audit::audit(&tables, world.now());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_that_are_rotated_at_once_replace_each_other_in_a_line() {
    let stores = Stores::new();
    let world = stores.open().await;
    world.waiting().await;
    // Each may be in the way of the others as often as a batch is tried.
    let rotate = |n: usize| {
        let secret_hex = SecretHex(format!("{n:02x}").repeat(32));
        RotateKey { kid: format!("r{n}"), secret_hex, grace_ms: 1_000, withdraw: Vec::new() }.into()
    };
    let replies = race(&stores, (0..3).map(rotate).collect()).await;
    let mut replaced: Vec<_> = replies
        .into_iter()
        .map(|reply| match reply {
            Reply::RotateKey(Rotated::Rotated { previous_kid, .. }) => previous_kid.unwrap(),
            other => panic!("{other:?} answers no rotation"),
        })
        .collect();
    let keyring = (world.store.dump)().keyring;
    let mut old: Vec<_> = keyring.old.iter().map(|old| old.key.kid.to_string()).collect();
    assert_eq!(old[0], "k1", "in the order of their installation");
    replaced.sort_unstable();
    old.sort_unstable();
    assert_eq!(replaced, old, "each was replaced once");
}

#[tokio::test]
async fn several_changes_of_keys_in_one_batch_are_as_one_after_the_other() {
    let stores = Stores::new();
    let world = stores.open().await;
    let rotate = |n: u32, kid: &str, grace_ms: u64| {
        let secret_hex = SecretHex(format!("{n:02x}").repeat(32));
        Command::from(RotateKey { kid: kid.to_owned(), secret_hex, grace_ms, withdraw: Vec::new() })
    };
    let batch = vec![rotate(1, "z", 0), rotate(2, "y", 10), rotate(3, "x", 20)];
    assert!(world.batch(batch).await.iter().all(Result::is_ok));
    let kids = |world: &World| {
        let keyring = (world.store.dump)().keyring;
        let old = keyring.old.iter().map(|old| (old.key.kid.to_string(), Some(old.expires_at)));
        let current = keyring.current.iter().map(|key| (key.kid.to_string(), None));
        old.chain(current).collect::<Vec<_>>()
    };
    let now = world.now();
    let (ten, twenty) = (Some(now.plus(10)), Some(now.plus(20)));
    let expected = [("z".to_owned(), ten), ("y".to_owned(), twenty), ("x".to_owned(), None)];
    assert_eq!(kids(&world), expected);
    // A name is free again once its key is forgotten.
    world.pass(100);
    let outcomes = world.batch(vec![rotate(4, "w", 5), rotate(5, "z", 5)]).await;
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    let names: Vec<_> = kids(&world).into_iter().map(|(kid, _)| kid).collect();
    assert_eq!(names, ["x", "w", "z"]);
}

#[tokio::test]
async fn a_key_that_was_replaced_elsewhere_does_not_sign_from_memory() {
    let stores = Stores::new();
    let (here, there) = (stores.open().await, stores.open().await);
    let rotate = async |n: u32, kid: &str| {
        let secret_hex = SecretHex(format!("{n:02x}").repeat(32));
        there
            .run(RotateKey { kid: kid.to_owned(), secret_hex, grace_ms: 5, withdraw: Vec::new() })
            .await
            .unwrap();
        stores.clock.advance(100);
    };
    // The last of them is called like one before, which is forgotten by then.
    for (n, kid) in [(1, "z"), (2, "y"), (3, "x"), (4, "z")] {
        rotate(n, kid).await;
        if kid != "z" {
            continue;
        }
        for _ in 0..2 {
            let (_, mailbox) = here.waiting().await;
            let signal = mailbox.signal(&there, "go");
            assert_eq!(there.deliver(signal).await, Effect::ConditionSatisfied, "signed by {n}");
            let fence = there.take(mailbox.id).await.leased.fence;
            there.complete(mailbox.id, fence).await.unwrap();
        }
    }
}

#[tokio::test]
async fn what_another_process_suspended_is_not_ended_from_memory() {
    let stores = Stores::new();
    let (holder, other) = (stores.open().await, stores.open().await);
    let (id, fence) = running(&holder).await;
    other.suspend(other.pause(id, fence)).await;
    assert_eq!(code(holder.complete(id, fence).await), Code::ExecutionNotActive);
    assert_eq!(code(holder.renew(id, fence).await), Code::ExecutionNotActive);
    assert_eq!(holder.state(id).await, PublicState::Suspended);
}

#[tokio::test]
async fn what_was_suspended_and_resumed_elsewhere_is_held_anew() {
    let stores = Stores::new();
    let (holder, other) = (stores.open().await, stores.open().await);
    let (id, fence) = running(&holder).await;
    let mailbox = holder.suspend(holder.pause(id, fence)).await.remove(0);
    assert_eq!(other.deliver(mailbox.signal(&other, "go")).await, Effect::ConditionSatisfied);
    let ask = ff_core::ClaimAsk { lanes: vec![other.draft().lane], ..ask("default", 1) };
    let resumed = other.store.backend.claim(&[ask]).await.unwrap().given.remove(0).remove(0);
    assert_eq!(code(holder.complete(id, fence).await), Code::StaleLease);
    other.complete(id, resumed.leased.fence).await.unwrap();
    assert_eq!(holder.state(id).await, PublicState::Completed);
}

/// Claims up to `max`.
async fn claim(world: &World, max: u32) -> Vec<ff_core::ExecutionId> {
    let lanes = vec![world.draft().lane];
    let ask = ff_core::ClaimAsk { lanes, ..ask("default", max) };
    ids(&world.store.backend.claim(&[ask]).await.unwrap())
}

fn ids(claims: &Claims) -> Vec<ff_core::ExecutionId> {
    claims.given.iter().flatten().map(|claimed| claimed.leased.execution.id).collect()
}

/// Executions of these priorities, all of which wait for a signal.
async fn suspended(world: &World, priorities: &[i32]) -> Vec<Mailbox> {
    let mut mailboxes = Vec::new();
    for priority in priorities {
        let of = Create { priority: *priority, ..draft(world) };
        create(world.store.backend.as_ref(), of).await;
        let lanes = vec![world.draft().lane];
        let ask = ff_core::ClaimAsk { lanes, ..ask("default", 1) };
        let given = world.store.backend.claim(&[ask]).await.unwrap().given.remove(0).remove(0);
        let (id, fence) = (given.leased.execution.id, given.leased.fence);
        mailboxes.push(world.suspend(world.pause(id, fence)).await.remove(0));
    }
    // Nothing is left, and the store knows.
    assert!(claim(world, 1).await.is_empty());
    mailboxes
}

#[tokio::test]
async fn what_was_let_go_here_is_claimed_in_its_order() {
    let stores = Stores::new();
    let world = stores.open().await;
    let mailboxes = suspended(&world, &[10, 30, 20]).await;
    for mailbox in &mailboxes {
        let effect = world.deliver(mailbox.signal(&world, "go")).await;
        assert_eq!(effect, Effect::ConditionSatisfied);
    }
    let [low, high, middle] = [0, 1, 2].map(|at: usize| mailboxes[at].id);
    assert_eq!(claim(&world, 2).await, [high, middle]);
    // What is created meanwhile has its place among them.
    let of = Create { priority: 15, ..draft(&world) };
    let new = create(world.store.backend.as_ref(), of).await;
    assert_eq!(claim(&world, 2).await, [new, low]);
    audit::audit(&(world.store.dump)(), world.now());
}

#[tokio::test]
async fn what_somebody_holds_for_long_holds_up_no_claim() {
    let stores = Stores::new();
    let world = stores.open().await;
    let backend = world.store.backend.as_ref();
    create(backend, draft(&world)).await;
    assert_eq!(claim(&world, 1).await.len(), 1, "where the queue begins is known from here on");
    let held = create(backend, draft(&world)).await;
    let free = create(backend, draft(&world)).await;
    let mut other = stores.connect().await;
    let lock = other.transaction().await.unwrap();
    let sql = "select from ff_exec_core where execution_id = $1 for update";
    assert_eq!(lock.query(sql, &[&held.uuid()]).await.unwrap().len(), 1);
    let found = tokio::time::timeout(Duration::from_secs(3), claim(&world, 2));
    assert_eq!(found.await.expect("it waits for nobody for long"), [free]);
    lock.rollback().await.unwrap();
    assert_eq!(claim(&world, 2).await, [held]);
    audit::audit(&(world.store.dump)(), world.now());
}

#[tokio::test]
async fn what_was_let_go_here_and_taken_elsewhere_is_not_given_from_memory() {
    let stores = Stores::new();
    let (here, there) = (stores.open().await, stores.open().await);
    let mailboxes = suspended(&here, &[20, 10, 5]).await;
    for mailbox in &mailboxes {
        here.deliver(mailbox.signal(&here, "go")).await;
    }
    assert_eq!(claim(&there, 1).await, [mailboxes[0].id]);
    there.cancel(mailboxes[1].id).await.unwrap();
    assert_eq!(claim(&here, 3).await, [mailboxes[2].id]);
    audit::audit(&(here.store.dump)(), here.now());
}

#[tokio::test]
async fn cancelling_a_large_flow_ends_its_suspended_members_too() {
    let stores = Stores::new();
    let world = stores.open().await;
    let nodes: Vec<_> = (0..150).map(|n| format!("a{n}")).collect();
    let drawn = world.sketch(&nodes.join(" ")).submit().await;
    let id = drawn.id("a7");
    let fence = world.start(id).await;
    let mailbox = world.suspend(world.pause(id, fence)).await.remove(0);
    let others = drawn.id("a8");
    let other = world.start(others).await;
    let pending = world.pending(others, other, "later").await;
    let cancelled = world.cancel_flow(drawn.flow, CancellationPolicy::All).await.unwrap();
    assert_eq!(cancelled.members.len(), nodes.len());
    let x = world.get(id).await;
    assert!(matches!(x.state, State::Terminal(_)), "{:?}", x.state);
    let end = world.suspension(id).await.end.expect("it is closed");
    assert_eq!((end.how, end.at, end.by), (CloseReason::Cancelled, x.updated_at, Vec::new()));
    assert_eq!(world.waitpoint(&mailbox).await.state.word(), WaitpointWord::Closed);
    assert_eq!(world.waitpoint(&pending).await.state.word(), WaitpointWord::Pending);
    assert!(world.listening(None).await.is_empty());
    assert!(world.suspended().await.is_empty());
    world.pass(60_001);
    assert_eq!(world.tick(Duty::WaitpointExpiry).await.len(), 1);
    assert_eq!(world.waitpoint(&pending).await.state.word(), WaitpointWord::Closed);
    audit::audit(&(world.store.dump)(), world.now());
}

#[tokio::test]
async fn waitpoints_are_read_while_their_execution_is_locked_whatever_else_is_in_the_batch() {
    let stores = Stores::new();
    let world = stores.open().await;
    let (_, mailbox) = world.waiting().await;
    let flow = world.sketch("a").submit().await.flow;
    let mut db = stores.connect().await;
    let uuid = mailbox.id.uuid();
    let tx = db.transaction().await.unwrap();
    let lock = "select 1 from ff_exec_core where execution_id = $1 for no key update";
    tx.execute(lock, &[&uuid]).await.unwrap();
    // What a flow owes is locked once it is known, and everything else is left for then.
    let batch = vec![CancelOwed { flow }.into(), mailbox.signal(&world, "go").into()];
    let backend = Arc::clone(&world.store.backend);
    let sent = tokio::spawn(async move { backend.apply(batch).await.unwrap() });
    let waits = "select count(*) from pg_locks \
        where not granted and pg_backend_pid() = any(pg_blocking_pids(pid))";
    while tx.query_one(waits, &[]).await.unwrap().get::<_, i64>(0) == 0 {
        tokio::task::yield_now().await;
    }
    let closed = "update ff_waitpoint set state = 'closed', closed_at_ms = 1, \
        close_reason = 'proactive_close', expires_at_ms = null where execution_id = $1";
    assert_eq!(tx.execute(closed, &[&uuid]).await.unwrap(), 1);
    tx.commit().await.unwrap();
    let mut outcomes = sent.await.unwrap();
    assert_eq!(code(outcomes.pop().unwrap()), Code::WaitpointClosed);
    assert!(outcomes.pop().unwrap().is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_remembered_of_one_life_of_an_id_is_not_written_into_the_next() {
    let stores = Stores::new();
    let (here, there) = (stores.open().await, stores.open().await);
    // The keys are known here by then.
    let (_, told) = here.waiting().await;
    here.deliver(told.signal(&here, "go")).await;
    let other = here.take(told.id).await.leased.fence;
    here.complete(told.id, other).await.unwrap();
    let (id, fence) = here.running(serde_json::json!({"retention_ms": 1})).await;
    let mailbox = here.suspend(here.pause(id, fence)).await.remove(0);
    // Elsewhere it ends and goes; the next life of its id stands at the same version.
    there.cancel(id).await.unwrap();
    stores.clock.advance(1_000);
    there.tick(Duty::Retention).await;
    assert!(there.find(id).await.is_none(), "it is gone");
    there.create(there.draft_of(id)).await;
    let again = there.take(id).await.leased.fence;
    there.suspend(there.pause(id, again)).await;
    let before = there.get(id).await;
    assert_eq!(before.version, 3, "as many changes as the life before had here");
    let late = here.run(mailbox.signal(&here, "late")).await;
    assert_eq!(code(late), Code::InvalidToken);
    assert_eq!(there.get(id).await, before, "nothing of it was touched");
    audit::audit(&(there.store.dump)(), there.now());
}
