//! Races between stores on one schema, as separate processes would be. None of them may end in a
//! deadlock: the server would break it, but only after a second.

mod flows;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ff_backend_postgres::{Options, Postgres};
use ff_conformance::world::{self, code, lane, worker};
use ff_conformance::{Dial, Dice, audit};
use ff_core::backend::{Duty, WorkFilter};
use ff_core::command::{Command, Outcome, Reply};
use ff_core::decide::cancel::Cancel;
use ff_core::decide::complete::Complete;
use ff_core::decide::create::{Create, Created};
use ff_core::decide::hold::Hold;
use ff_core::decide::lease_expiry::ExpireLease;
use ff_core::decide::priority::ChangePriority;
use ff_core::decide::renew::Renew;
use ff_core::decide::unhold::Unhold;
use ff_core::error::Code;
use ff_core::text::{Kind, Namespace};
use ff_core::time::Clock;
use ff_core::{Backend, ClaimAsk, Claimed, ExecutionId, Fence};
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::dump;
use crate::server::{Schema, connect, url};

/// Several stores on one schema and one clock.
pub struct Fleet {
    stores: Vec<Arc<Postgres>>,
    clock: Arc<Dial>,
    schema: Schema,
    deadlocks: i64,
}

impl Fleet {
    pub async fn new(size: usize) -> Self {
        let schema = Schema::empty();
        let clock = Arc::new(Dial::default());
        let deadlocks = deadlocks().await;
        let mut stores = Vec::new();
        for seed in 0..size {
            let entropy = Box::new(Dice::new(u64::try_from(seed).unwrap()));
            let options = schema.options(Arc::clone(&clock) as _, entropy);
            // Tells our connections from those of other tests.
            let url = format!("{}?application_name={}", url(), schema.name);
            stores.push(Arc::new(Postgres::open(Options { url, ..options }).await.unwrap()));
        }
        Self { stores, clock, schema, deadlocks }
    }

    /// The store of a racer.
    pub fn store(&self, number: usize) -> Arc<Postgres> {
        Arc::clone(&self.stores[number % self.stores.len()])
    }

    /// Its clock.
    pub fn clock(&self) -> Arc<Dial> {
        Arc::clone(&self.clock)
    }

    /// The name of its schema.
    pub fn schema(&self) -> &str {
        &self.schema.name
    }

    async fn create(&self, drafts: Vec<Create>) -> Vec<ExecutionId> {
        let ids = drafts.iter().map(|draft| draft.id).collect();
        let batch = drafts.into_iter().map(Command::from).collect();
        for outcome in self.stores[0].apply(batch).await.unwrap() {
            outcome.unwrap();
        }
        ids
    }

    /// Stops the stores, audits what they left and looks for deadlocks.
    pub async fn finish(self) {
        drop(self.stores);
        // A server process publishes its counts before it is gone.
        let gone = format!(
            "select count(*) from pg_stat_activity where application_name = '{}'",
            self.schema.name
        );
        let db = connect().await;
        while db.query_one(&gone, &[]).await.unwrap().get::<_, i64>(0) > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(deadlocks().await, self.deadlocks, "deadlocks in this database");
        audit::audit(&dump::dump(&self.schema), self.clock.now());
    }
}

/// Deadlocks that the database ever saw.
async fn deadlocks() -> i64 {
    let count = "select deadlocks from pg_stat_database where datname = current_database()";
    connect().await.query_one(count, &[]).await.unwrap().get(0)
}

fn draft(number: usize) -> Create {
    let number = u128::try_from(number).unwrap();
    let id = ExecutionId::solo(Uuid::from_u128(number << 64 | 0x8000));
    let namespace = Namespace::new("test").unwrap();
    Create { namespace, ..Create::new(id, lane("default"), Kind::new("job").unwrap()) }
}

fn drafts(count: usize) -> Vec<Create> {
    (0..count).map(draft).collect()
}

fn ask(name: &str, max: u32) -> ClaimAsk {
    ClaimAsk {
        claim_id: Uuid::now_v7(),
        worker: worker(name),
        lanes: vec![lane("default")],
        capabilities: BTreeSet::new(),
        lease_ttl_ms: world::TTL_MS,
        max,
    }
}

async fn claim(store: &Postgres, name: &str, max: u32) -> Vec<Claimed> {
    store.claim(&[ask(name, max)]).await.unwrap().given.pop().unwrap()
}

/// Claims as much, in as many calls as it takes.
async fn claim_all(store: &Postgres, count: usize) -> BTreeMap<ExecutionId, Fence> {
    let mut fences = BTreeMap::new();
    while fences.len() < count {
        for work in claim(store, "w0", 100).await {
            fences.insert(work.leased.execution.id, work.leased.fence);
        }
    }
    fences
}

fn complete(id: ExecutionId, fence: Fence) -> Command {
    Complete { id, fence, result: None, encoding: None }.into()
}

fn cancel(id: ExecutionId) -> Command {
    Cancel { id, reason: "stop".to_owned(), fence: None, replays: None }.into()
}

async fn send(store: &Postgres, command: Command) -> Outcome {
    store.apply(vec![command]).await.unwrap().pop().unwrap()
}

/// All of them do the same at once, every other one back to front.
async fn all_at_once(fleet: &Fleet, command: impl Fn(usize) -> Vec<Command>) -> Vec<Vec<Outcome>> {
    let mut racers = JoinSet::new();
    for number in 0..fleet.stores.len() {
        let (store, mut batch) = (fleet.store(number), command(number));
        if number % 2 == 1 {
            batch.reverse();
        }
        racers.spawn(async move { store.apply(batch).await.unwrap() });
    }
    racers.join_all().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn each_execution_is_claimed_once_by_many_claimers() {
    let fleet = Fleet::new(4).await;
    let ids = fleet.create(drafts(400)).await;
    let left = Arc::new(AtomicUsize::new(ids.len()));
    let mut claimers = JoinSet::new();
    for number in 0..8 {
        let (store, left) = (fleet.store(number), Arc::clone(&left));
        claimers.spawn(async move {
            let mut mine = Vec::new();
            while left.load(Ordering::SeqCst) > 0 {
                for work in claim(&store, &format!("w{number}"), 7).await {
                    let (id, fence) = (work.leased.execution.id, work.leased.fence);
                    send(&store, complete(id, fence)).await.unwrap();
                    left.fetch_sub(1, Ordering::SeqCst);
                    mine.push(id);
                }
            }
            mine
        });
    }
    let done: Vec<_> = claimers.join_all().await.into_iter().flatten().collect();
    assert_eq!(done.len(), ids.len());
    assert_eq!(BTreeSet::from_iter(done), BTreeSet::from_iter(ids));
    fleet.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_expired_lease_is_taken_over_once_however_many_sweep_and_claim() {
    let fleet = Fleet::new(3).await;
    for round in 0..20 {
        let id = fleet.create(vec![draft(round)]).await[0];
        let lost = claim(&fleet.stores[0], "w0", 1).await.pop().unwrap().leased.fence;
        fleet.clock.advance(i64::try_from(world::TTL_MS).unwrap());
        let mut racers = JoinSet::new();
        for number in 0..6 {
            let store = fleet.store(number);
            racers.spawn(async move {
                let due = store.due(Duty::LeaseExpiry, &WorkFilter::default(), 10).await.unwrap();
                store.apply(due.commands).await.unwrap();
                claim(&store, &format!("w{number}"), 1).await.pop()
            });
        }
        let winners: Vec<_> = racers.join_all().await.into_iter().flatten().collect();
        assert_eq!(winners.len(), 1, "one takes over");
        let fence = winners[0].leased.fence;
        assert_eq!(fence.attempt_index, 1);
        assert_eq!(code(send(&fleet.stores[1], complete(id, lost)).await), Code::StaleLease);
        send(&fleet.stores[2], complete(id, fence)).await.unwrap();
    }
    fleet.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn completing_and_cancelling_at_once_ends_it_once() {
    let fleet = Fleet::new(2).await;
    let ids = fleet.create(drafts(100)).await;
    let fences = claim_all(&fleet.stores[0], ids.len()).await;
    let mut completed = 0;
    for id in ids {
        let (here, there) = (fleet.store(0), fleet.store(1));
        let fence = fences[&id];
        let one = tokio::spawn(async move { send(&here, complete(id, fence)).await });
        let other = tokio::spawn(async move { send(&there, cancel(id)).await });
        let (one, other) = (one.await.unwrap(), other.await.unwrap());
        assert!(one.is_ok() != other.is_ok(), "{one:?} {other:?}");
        let lost = if one.is_ok() { other } else { one.clone() };
        assert_eq!(code(lost), Code::ExecutionNotActive);
        completed += usize::from(one.is_ok());
    }
    println!("{completed} of 100 completions won; either may");
    fleet.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_worker_that_wakes_after_its_lease_moved_cannot_write() {
    let fleet = Fleet::new(2).await;
    let id = fleet.create(vec![draft(1)]).await[0];
    let sleeper = claim(&fleet.stores[0], "sleeper", 1).await.pop().unwrap().leased.fence;
    for jump in [40_000, -80_000, 40_000, 40_000] {
        fleet.clock.advance(jump);
        let due = fleet.stores[1].due(Duty::LeaseExpiry, &WorkFilter::default(), 10).await;
        fleet.stores[1].apply(due.unwrap().commands).await.unwrap();
        let taken = claim(&fleet.stores[1], "other", 1).await.pop();
        let refused = code(send(&fleet.stores[0], complete(id, sleeper)).await);
        let expected = [Code::StaleLease, Code::LeaseExpired];
        assert!(expected.contains(&refused), "{refused} after {jump}, taken: {}", taken.is_some());
    }
    fleet.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_idempotency_key_makes_one_execution_however_many_create() {
    let fleet = Fleet::new(4).await;
    for round in 0..20 {
        let mut racers = JoinSet::new();
        for number in 0..8 {
            let mut draft = draft(round * 8 + number);
            draft.idempotency_key = Some(format!("order-{round}").parse().unwrap());
            let store = fleet.store(number);
            racers.spawn(async move { send(&store, draft.into()).await });
        }
        let (created, ids) = tally(racers.join_all().await);
        assert_eq!((created, ids.len()), (1, 1));
    }
    fleet.finish().await;
}

/// How many executions are new, and which there are.
fn tally(outcomes: Vec<Outcome>) -> (usize, BTreeSet<ExecutionId>) {
    let mut created = 0;
    let mut ids = BTreeSet::new();
    for outcome in outcomes {
        let Reply::Create(reply) = outcome.unwrap() else { panic!("a creation was sent") };
        created += usize::from(matches!(reply, Created::Created { .. }));
        ids.insert(reply.execution_id());
    }
    (created, ids)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn creations_of_the_same_in_opposite_orders_make_each_once() {
    let fleet = Fleet::new(4).await;
    for round in 0..10 {
        let same = |_| (0..50).map(|at| draft(round * 50 + at).into()).collect();
        let outcomes = all_at_once(&fleet, same).await;
        let (created, ids) = tally(outcomes.into_iter().flatten().collect());
        assert_eq!((created, ids.len()), (50, 50), "by their ids");
    }
    for round in 0..10 {
        // Every store has ids of its own; the keys run against them.
        let keyed = |number| {
            let keyed = |at: usize| {
                let mut draft = draft(1_000 + (round * 4 + number) * 50 + at);
                draft.idempotency_key = Some(format!("{round}-{}", 50 - at).parse().unwrap());
                draft.into()
            };
            (0..50).map(keyed).collect()
        };
        let outcomes = all_at_once(&fleet, keyed).await;
        let (created, ids) = tally(outcomes.into_iter().flatten().collect());
        assert_eq!((created, ids.len()), (50, 50), "by their keys");
    }
    fleet.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn batches_over_the_same_executions_in_opposite_orders_all_go_through() {
    let fleet = Fleet::new(4).await;
    let ids = fleet.create(drafts(50)).await;
    for round in 0..10 {
        let change = |number: usize| {
            let priority = i32::try_from(round * 4 + number).unwrap();
            let change = |id: &ExecutionId| -> Command {
                match number {
                    0 | 1 => ChangePriority { id: *id, priority, version: None }.into(),
                    2 => Hold { id: *id, reason: "wait".to_owned(), version: None }.into(),
                    _ => Unhold { id: *id, version: None }.into(),
                }
            };
            ids.iter().map(change).collect()
        };
        for outcome in all_at_once(&fleet, change).await.into_iter().flatten() {
            assert!(outcome.is_ok() || code(outcome) == Code::ExecutionNotEligible);
        }
    }
    let free = |_| ids.iter().map(|id| Unhold { id: *id, version: None }.into()).collect();
    all_at_once(&fleet, free).await;
    let fences = claim_all(&fleet.stores[0], ids.len()).await;
    let end = |number| {
        let end = |id: &ExecutionId| match number {
            0 | 1 => complete(*id, fences[id]),
            _ => cancel(*id),
        };
        ids.iter().map(end).collect()
    };
    let outcomes = all_at_once(&fleet, end).await;
    let ended = outcomes.iter().filter(|batch| batch.iter().all(Result::is_ok));
    assert_eq!(ended.count(), 2, "the completions or the cancellations, as a whole");
    fleet.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn renewals_endings_and_sweeps_of_the_same_leases_all_go_through() {
    let fleet = Fleet::new(2).await;
    let ids = fleet.create(drafts(200)).await;
    let fences = Arc::new(claim_all(&fleet.stores[0], ids.len()).await);
    for (round, ids) in ids.chunks(20).enumerate() {
        let mut racers = JoinSet::new();
        for number in 0..4 {
            // A shorter lease moves the sweep's entry as well, which is another statement.
            let batch: Vec<Command> = (0..ids.len())
                .map(|at| {
                    let (id, fence) = (ids[at], fences[&ids[at]]);
                    let step = u64::try_from(round * 8 + number).unwrap();
                    let lease_ttl_ms = if at % 2 == number % 2 { 20_000 - step } else { 60_000 };
                    match number {
                        2 if at % 2 == 0 => complete(id, fence),
                        3 => ExpireLease { id, lease_epoch: fence.lease_epoch }.into(),
                        _ => Renew { id, fence, lease_ttl_ms }.into(),
                    }
                })
                .collect();
            let store = fleet.store(usize::from(number == 3));
            racers.spawn(async move { store.apply(batch).await.unwrap() });
        }
        for outcome in racers.join_all().await.into_iter().flatten() {
            assert!(outcome.is_ok() || code(outcome) == Code::ExecutionNotActive);
        }
    }
    fleet.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn claimers_and_operators_do_not_get_in_each_others_way() {
    let fleet = Fleet::new(4).await;
    let ids = fleet.create(drafts(300)).await;
    let operators = Arc::new(AtomicUsize::new(3));
    let mut claimers = JoinSet::new();
    for number in 0..4 {
        let (store, operators) = (fleet.store(number), Arc::clone(&operators));
        claimers.spawn(async move {
            let mut mine = Vec::new();
            loop {
                let last = operators.load(Ordering::SeqCst) == 0;
                let claimed = claim(&store, &format!("w{number}"), 7).await;
                if claimed.is_empty() && last {
                    return mine;
                }
                let fenced = claimed.iter().map(|w| (w.leased.execution.id, w.leased.fence));
                mine.extend(fenced.clone().map(|(id, _)| id));
                let batch = fenced.map(|(id, fence)| complete(id, fence)).collect();
                for outcome in store.apply(batch).await.unwrap() {
                    assert!(outcome.is_ok() || code(outcome) == Code::ExecutionNotActive);
                }
            }
        });
    }
    let mut racers = JoinSet::new();
    for number in 0..3 {
        let (store, operators) = (fleet.store(number + 1), Arc::clone(&operators));
        let ids = ids.clone();
        racers.spawn(async move {
            for some in ids.chunks(15).rev() {
                operate(&store, number, some).await;
            }
            operators.fetch_sub(1, Ordering::SeqCst);
        });
    }
    racers.join_all().await;
    let mut claimed: Vec<_> = claimers.join_all().await.into_iter().flatten().collect();
    // Whatever somebody else held when the others looked is left.
    while let Some(work) = claim(&fleet.stores[0], "last", 1).await.pop() {
        let (id, fence) = (work.leased.execution.id, work.leased.fence);
        send(&fleet.stores[0], complete(id, fence)).await.unwrap();
        claimed.push(id);
    }
    let once: BTreeSet<_> = claimed.iter().copied().collect();
    assert_eq!(once.len(), claimed.len(), "nothing is claimed twice");
    let tables = dump::dump(&fleet.schema);
    assert!(tables.ready.is_empty() && tables.executions.len() == ids.len(), "all is done");
    fleet.finish().await;
}

/// One of three operators does what it does; what it comes too late for is refused.
async fn operate(store: &Postgres, number: usize, ids: &[ExecutionId]) {
    let batches: Vec<Vec<Command>> = match number {
        0 => vec![ids.iter().step_by(3).map(|id| cancel(*id)).collect()],
        1 => {
            let urgent =
                |id: &ExecutionId| ChangePriority { id: *id, priority: 7, version: None }.into();
            vec![ids.iter().rev().map(urgent).collect()]
        }
        _ => {
            let hold = |id: &ExecutionId| {
                Hold { id: *id, reason: "wait".to_owned(), version: None }.into()
            };
            let free = |id: &ExecutionId| Unhold { id: *id, version: None }.into();
            vec![ids.iter().map(hold).collect(), ids.iter().rev().map(free).collect()]
        }
    };
    for batch in batches {
        store.apply(batch).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_delay_that_is_promoted_while_it_is_cancelled_leaves_nothing() {
    let fleet = Fleet::new(3).await;
    for round in 0..20 {
        let mut delayed: Vec<_> = (0..60).map(|at| draft(round * 60 + at)).collect();
        for draft in &mut delayed {
            draft.delay_until = Some(fleet.clock.now().plus(1_000));
        }
        let ids = fleet.create(delayed).await;
        fleet.clock.advance(1_000);
        let mut racers = JoinSet::new();
        for some in [&ids[..20], &ids[20..40]] {
            let (store, batch) = (fleet.store(1), some.iter().map(|id| cancel(*id)).collect());
            racers.spawn(async move { store.apply(batch).await.map(drop) });
        }
        for number in [0, 2] {
            let store = fleet.store(number);
            racers.spawn(async move { store.claim(&[]).await.map(drop) });
        }
        for done in racers.join_all().await {
            done.unwrap();
        }
    }
    let left = dump::dump(&fleet.schema).ready.len();
    assert_eq!(left, 20 * 20, "those that nobody cancelled are claimable");
    fleet.finish().await;
}
