//! Races between real threads on separate connections, as separate processes would be.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ff_backend_sqlite::{Options, Sqlite};
use ff_conformance::world::{World, code, lane, worker};
use ff_conformance::{Dial, audit, world};
use ff_core::backend::{Duty, WorkFilter};
use ff_core::command::{Command, Outcome};
use ff_core::decide::cancel::Cancel;
use ff_core::decide::complete::Complete;
use ff_core::error::Code;
use ff_core::time::Clock;
use ff_core::{Backend, ClaimAsk, Claimed, ExecutionId, Fence};
use uuid::Uuid;

use crate::{directory, dump, path};

/// Several stores on one file and one clock.
struct Fleet {
    stores: Vec<Arc<Sqlite>>,
    clock: Arc<Dial>,
    directory: tempfile::TempDir,
}

impl Fleet {
    fn new(size: usize) -> Self {
        let directory = directory();
        let clock = Arc::new(Dial::default());
        let open = |_| {
            let clock: Arc<dyn Clock> = Arc::clone(&clock) as _;
            Arc::new(
                Sqlite::open(Options { clock, ..Options::new(path(directory.path())) }).unwrap(),
            )
        };
        Self { stores: (0..size).map(open).collect(), clock: Arc::clone(&clock), directory }
    }

    async fn create(&self, count: usize) -> Vec<ExecutionId> {
        let scratch = World::new(crate::open(Arc::clone(&self.clock)), Arc::clone(&self.clock));
        let drafts: Vec<_> = (0..count).map(|_| scratch.draft()).collect();
        let batch: Vec<Command> = drafts.iter().cloned().map(Command::from).collect();
        for outcome in self.stores[0].apply(batch).await.unwrap() {
            outcome.unwrap();
        }
        drafts.iter().map(|draft| draft.id).collect()
    }

    fn audit(&self) {
        audit::audit(&dump::dump(&path(self.directory.path())), self.clock.now());
    }
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

async fn claim(store: &Sqlite, name: &str, max: u32) -> Vec<Claimed> {
    store.claim(&[ask(name, max)]).await.unwrap().given.pop().unwrap()
}

fn complete(id: ExecutionId, fence: Fence) -> Command {
    Complete { id, fence, result: None, encoding: None }.into()
}

async fn send(store: &Sqlite, command: Command) -> Outcome {
    store.apply(vec![command]).await.unwrap().pop().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn each_execution_is_claimed_once_by_many_claimers() {
    let fleet = Fleet::new(4);
    let ids = fleet.create(400).await;
    let mut claimers = Vec::new();
    for number in 0..8 {
        let store = Arc::clone(&fleet.stores[number % 4]);
        claimers.push(tokio::spawn(async move {
            let mut mine = Vec::new();
            loop {
                let claimed = claim(&store, &format!("w{number}"), 7).await;
                if claimed.is_empty() {
                    return mine;
                }
                for work in claimed {
                    let (id, fence) = (work.leased.execution.id, work.leased.fence);
                    send(&store, complete(id, fence)).await.unwrap();
                    mine.push(id);
                }
            }
        }));
    }
    let mut done = Vec::new();
    for claimer in claimers {
        done.extend(claimer.await.unwrap());
    }
    assert_eq!(done.len(), ids.len());
    assert_eq!(BTreeSet::from_iter(done), BTreeSet::from_iter(ids));
    fleet.audit();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_expired_lease_is_taken_over_once_however_many_sweep_and_claim() {
    for _ in 0..20 {
        let fleet = Fleet::new(3);
        let id = fleet.create(1).await[0];
        let lost = claim(&fleet.stores[0], "w0", 1).await.pop().unwrap().leased.fence;
        fleet.clock.advance(i64::try_from(world::TTL_MS).unwrap());
        let racers: Vec<_> = (0..6)
            .map(|number| {
                let store = Arc::clone(&fleet.stores[number % 3]);
                tokio::spawn(async move {
                    let filter = WorkFilter::default();
                    let due = store.due(Duty::LeaseExpiry, &filter, 10).await.unwrap();
                    store.apply(due.commands).await.unwrap();
                    claim(&store, &format!("w{number}"), 1).await.pop()
                })
            })
            .collect();
        let mut winners = Vec::new();
        for racer in racers {
            winners.extend(racer.await.unwrap());
        }
        assert_eq!(winners.len(), 1, "one takes over");
        let fence = winners[0].leased.fence;
        assert_eq!(fence.attempt_index, 1);
        assert_eq!(code(send(&fleet.stores[1], complete(id, lost)).await), Code::StaleLease);
        send(&fleet.stores[2], complete(id, fence)).await.unwrap();
        fleet.audit();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn completing_and_cancelling_at_once_ends_it_once() {
    let fleet = Fleet::new(2);
    let ids = fleet.create(100).await;
    let mut fences = BTreeMap::new();
    for work in claim(&fleet.stores[0], "w0", 100).await {
        fences.insert(work.leased.execution.id, work.leased.fence);
    }
    let mut completed = 0;
    for id in ids {
        let (here, there) = (Arc::clone(&fleet.stores[0]), Arc::clone(&fleet.stores[1]));
        let fence = fences[&id];
        let one = tokio::spawn(async move { send(&here, complete(id, fence)).await });
        let cancel = Cancel { id, reason: "stop".to_owned(), fence: None, replays: None };
        let other = tokio::spawn(async move { send(&there, cancel.into()).await });
        let (one, other) = (one.await.unwrap(), other.await.unwrap());
        assert!(one.is_ok() != other.is_ok(), "{one:?} {other:?}");
        let lost = if one.is_ok() { other } else { one.clone() };
        assert_eq!(code(lost), Code::ExecutionNotActive);
        completed += usize::from(one.is_ok());
    }
    println!("{completed} of 100 completions won; either may");
    fleet.audit();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_worker_that_wakes_after_its_lease_moved_cannot_write() {
    let fleet = Fleet::new(2);
    let id = fleet.create(1).await[0];
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
    fleet.audit();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_idempotency_key_makes_one_execution_however_many_create() {
    let fleet = Fleet::new(4);
    let scratch = World::new(crate::open(Arc::clone(&fleet.clock)), Arc::clone(&fleet.clock));
    for round in 0..20 {
        let racers: Vec<_> = (0..8)
            .map(|number| {
                let mut draft = scratch.draft();
                draft.idempotency_key = Some(format!("order-{round}").parse().unwrap());
                let store = Arc::clone(&fleet.stores[number % 4]);
                tokio::spawn(async move { send(&store, draft.into()).await.unwrap() })
            })
            .collect();
        let mut ids = BTreeSet::new();
        let mut created = 0;
        for racer in racers {
            let ff_core::Reply::Create(reply) = racer.await.unwrap() else { panic!() };
            created +=
                usize::from(matches!(reply, ff_core::decide::create::Created::Created { .. }));
            ids.insert(reply.execution_id());
        }
        assert_eq!((created, ids.len()), (1, 1));
    }
    fleet.audit();
}
