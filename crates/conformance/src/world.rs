//! A store on a dial, and the words in which cases speak about it.
//!
//! Every case runs twice on an empty store: once plainly, and once with an echo, in which each
//! command is sent a second time. The echo must answer as the command's documentation says and
//! must leave the execution as it was.

pub mod flows;
pub mod waits;

use std::any::Any;
use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use ff_core::backend::{Duty, WorkFilter};
use ff_core::command::{Command, Operation, Outcome, Reply};
use ff_core::decide::cancel::Cancel;
use ff_core::decide::complete::Complete;
use ff_core::decide::create::{Create, Created};
use ff_core::decide::fail::Fail;
use ff_core::decide::renew::Renew;
use ff_core::decide::{Again, Failed};
use ff_core::error::{Code, Rejection};
use ff_core::event::{Cursor, Event, Filter};
use ff_core::execution::{AttemptRecord, Fence, Worker};
use ff_core::fold::{BlobRef, Key};
use ff_core::policy::{FailureClass, Policy};
use ff_core::query::{Page, Query, Rows};
use ff_core::state::{PublicState, StateVector, public_state, vector};
use ff_core::text::{Category, Creator, Kind, LaneId, Namespace, WorkerId, WorkerInstanceId};
use ff_core::time::{Clock, Millis};
use ff_core::{Backend, ClaimAsk, Claimed, Execution, ExecutionId};
use serde_json::Value;
use uuid::Uuid;

use crate::audit;
use crate::dial::Dial;
use crate::model::Tables;

pub use flows::{Drawn, Sketch, any_let_run, any_of, kind, name, quorum, quorum_let_run};

/// An empty store to test.
pub struct Store {
    /// The store.
    pub backend: Arc<dyn Backend>,
    /// Reads every table, by another way than the backend's.
    pub dump: Box<dyn Fn() -> Tables + Send + Sync>,
    /// Whatever must live as long: a directory, a schema.
    pub keep: Box<dyn Any + Send + Sync>,
}

/// A store on a dial.
pub struct World {
    /// The store.
    pub store: Store,
    /// Its time.
    pub clock: Arc<Dial>,
    echo: bool,
    next: AtomicU64,
}

/// The lease of most cases.
pub const TTL_MS: u64 = 30_000;

/// Runs a case plainly and with an echo, and audits what is left.
pub async fn run<F, C>(open: impl Fn(Arc<Dial>) -> Store, case: impl Fn(Arc<World>) -> F)
where
    F: Future<Output = C>,
{
    for echo in [false, true] {
        let clock = Arc::new(Dial::default());
        let store = open(Arc::clone(&clock));
        let world = Arc::new(World { echo, ..World::new(store, clock) });
        case(Arc::clone(&world)).await;
        audit::audit(&(world.store.dump)(), world.now());
    }
}

impl World {
    /// A store on a dial, outside the suite.
    pub fn new(store: Store, clock: Arc<Dial>) -> Self {
        Self { store, clock, echo: false, next: AtomicU64::new(1) }
    }

    /// The time.
    pub fn now(&self) -> Millis {
        self.clock.now()
    }

    /// Lets time pass; a negative number turns it back.
    pub fn pass(&self, ms: i64) {
        self.clock.advance(ms);
    }

    /// A new id.
    pub fn id(&self) -> ExecutionId {
        ExecutionId::solo(self.uuid())
    }

    /// A new UUID.
    pub fn uuid(&self) -> Uuid {
        Uuid::from_u128(u128::from(self.next.fetch_add(1, Ordering::SeqCst)) << 64 | 0x8000)
    }

    /// A creation to adapt: lane `default`, namespace `test`, kind `job`, no policy.
    pub fn draft(&self) -> Create {
        Create {
            namespace: namespace("test"),
            input: Bytes::from_static(b"in"),
            creator: Creator::new("suite").expect("a valid creator"),
            ..Create::new(self.id(), lane("default"), Kind::new("job").expect("a valid kind"))
        }
    }

    /// Creates what the draft says, which must succeed.
    pub async fn create(&self, draft: Create) -> ExecutionId {
        match self.run(draft).await.expect("the creation is valid") {
            Created::Created { execution_id, .. } => execution_id,
            Created::Duplicate { execution_id } => panic!("{execution_id} existed"),
        }
    }

    /// Creates an execution with a policy document.
    pub async fn create_with(&self, policy: Value) -> ExecutionId {
        let policy = Policy::parse(&policy).expect("the policy is valid");
        self.create(Create { policy, ..self.draft() }).await
    }

    /// Sends a command, checked as a caller's would be; echoes it in the second run.
    pub async fn run<C: Operation>(&self, command: C) -> Result<C::Reply, Rejection> {
        let outcome = self.send(command.into()).await;
        outcome.map(|reply| C::reply(reply).expect("a command is answered in its own kind"))
    }

    /// Sends any command.
    pub async fn send(&self, command: Command) -> Outcome {
        command.validate(&ff_core::Config::default())?;
        let first = self.send_once(command.clone()).await;
        if self.echo {
            let before = self.target(&command).await;
            let second = self.send_once(command.clone()).await;
            check_echo(&command, &first, &second);
            let goes_on = matches!(first.as_ref().map(Reply::again), Ok(Again::Further));
            let after = self.target(&command).await;
            assert!(goes_on || before == after, "echo of {command:?}: {before:?}, {after:?}");
        }
        first
    }

    async fn send_once(&self, command: Command) -> Outcome {
        let mut outcomes = self.batch(vec![command]).await;
        outcomes.pop().expect("one outcome for one command")
    }

    /// Sends a batch, unchecked and without an echo.
    pub async fn batch(&self, batch: Vec<Command>) -> Vec<Outcome> {
        self.store.backend.apply(batch).await.expect("the store works")
    }

    /// The rows that a command is about, as far as sending it again must leave them alone.
    async fn target(&self, command: &Command) -> (Option<Execution>, Vec<String>) {
        let keys = ff_core::needs(command, &ff_core::WorkingSet::default());
        let execution = |key: &Key| if let Key::Execution(id) = key { Some(*id) } else { None };
        let x = match keys.iter().find_map(execution) {
            Some(id) => self.find(id).await,
            None => None,
        };
        let graph = |key: &Key| matches!(key, Key::Flow(_) | Key::Group(..) | Key::Edge(..));
        let keys: Vec<_> = keys.into_iter().filter(graph).collect();
        if keys.is_empty() {
            return (settled(command, x), Vec::new());
        }
        let have = self.store.backend.get(&keys).await.expect("the store works").graph;
        let flows = have.flows.values().map(|flow| format!("{flow:?}"));
        let groups = have.groups.values().map(|group| format!("{group:?}"));
        let edges = have.edges.values().map(|edge| format!("{edge:?}"));
        (settled(command, x), flows.chain(groups).chain(edges).collect())
    }

    /// An ask for up to `max` from lane `default`, by worker `w1`.
    pub fn ask(&self, max: u32) -> ClaimAsk {
        ClaimAsk {
            claim_id: self.uuid(),
            worker: worker("w1"),
            lanes: vec![lane("default")],
            capabilities: BTreeSet::new(),
            lease_ttl_ms: TTL_MS,
            max,
        }
    }

    /// Claims; echoed, the same claim must find the same work.
    pub async fn claim(&self, ask: ClaimAsk) -> Vec<Claimed> {
        ask.validate().expect("the ask is valid");
        let first = self.claim_once(&ask).await;
        if self.echo && !first.is_empty() {
            let again = self.claim_once(&ask).await;
            let ids = |all: &[Claimed]| -> BTreeSet<(ExecutionId, u64)> {
                all.iter().map(|c| (c.leased.execution.id, c.leased.fence.lease_epoch)).collect()
            };
            assert_eq!(ids(&first), ids(&again), "a repeated claim finds its work again");
        }
        first
    }

    async fn claim_once(&self, ask: &ClaimAsk) -> Vec<Claimed> {
        let mut claims =
            self.store.backend.claim(std::slice::from_ref(ask)).await.expect("the store works");
        claims.given.pop().expect("one answer for one ask")
    }

    /// Claims one from lane `default`, if there is one.
    pub async fn claim_one(&self) -> Option<Claimed> {
        self.claim(self.ask(1)).await.pop()
    }

    /// Claims exactly this execution from lane `default`; it must be next.
    pub async fn take(&self, id: ExecutionId) -> Claimed {
        let claimed = self.claim_one().await.unwrap_or_else(|| panic!("{id} is not claimable"));
        assert_eq!(claimed.leased.execution.id, id, "another one was next");
        claimed
    }

    /// Creates one and claims it.
    pub async fn running(&self, policy: Value) -> (ExecutionId, Fence) {
        let id = self.create_with(policy).await;
        (id, self.take(id).await.leased.fence)
    }

    /// Completes with `result`.
    pub async fn complete(&self, id: ExecutionId, fence: Fence) -> Result<(), Rejection> {
        let result = Some(Bytes::from_static(b"out"));
        self.run(Complete { id, fence, result, encoding: None }).await
    }

    /// Fails, transiently, with category `oops`.
    pub async fn fail(&self, id: ExecutionId, fence: Fence) -> Result<Failed, Rejection> {
        self.run(Fail {
            id,
            fence,
            reason: "it broke".to_owned(),
            category: Category::new("oops").expect("a valid category"),
            class: FailureClass::Transient,
        })
        .await
    }

    /// Renews for the usual time.
    pub async fn renew(&self, id: ExecutionId, fence: Fence) -> Result<Millis, Rejection> {
        let renewed = self.run(Renew { id, fence, lease_ttl_ms: TTL_MS }).await?;
        Ok(renewed.lease_until)
    }

    /// Cancels as an operator.
    pub async fn cancel(&self, id: ExecutionId) -> Result<(), Rejection> {
        self.run(Cancel { id, reason: "changed my mind".to_owned(), fence: None, replays: None })
            .await
    }

    /// Does what a duty has to do now; the answers.
    pub async fn tick(&self, duty: Duty) -> Vec<Outcome> {
        self.tick_for(duty, &WorkFilter::default()).await
    }

    /// Does what a duty has to do now for some of the work.
    pub async fn tick_for(&self, duty: Duty, filter: &WorkFilter) -> Vec<Outcome> {
        let due = self.store.backend.due(duty, filter, 1_000).await.expect("the store works");
        let mut outcomes = Vec::new();
        for command in due.commands {
            outcomes.push(self.send(command).await);
        }
        outcomes
    }

    /// Runs every duty once, leases first.
    pub async fn tick_all(&self) {
        for duty in Duty::ALL {
            self.tick(*duty).await;
        }
    }

    /// The execution, if it exists.
    pub async fn find(&self, id: ExecutionId) -> Option<Execution> {
        let have = self.store.backend.get(&[Key::Execution(id)]).await.expect("the store works");
        have.executions.get(&id).cloned().flatten()
    }

    /// The execution, which must exist.
    pub async fn get(&self, id: ExecutionId) -> Execution {
        self.find(id).await.unwrap_or_else(|| panic!("{id} is gone"))
    }

    /// Its public state.
    pub async fn state(&self, id: ExecutionId) -> PublicState {
        public_state(&self.get(id).await, self.now())
    }

    /// Its state vector.
    pub async fn vector(&self, id: ExecutionId) -> StateVector {
        vector(&self.get(id).await, self.now())
    }

    /// What happened to it, in order.
    pub async fn events(&self, id: ExecutionId) -> Vec<Event> {
        let filter = Filter { execution: Some(id), ..Filter::default() };
        let page = self.store.backend.events(&Cursor::Start, &filter, 1_000).await;
        page.expect("the store works").events.into_iter().map(|event| event.event).collect()
    }

    /// The names of what happened to it, in order.
    pub async fn event_names(&self, id: ExecutionId) -> Vec<&'static str> {
        let events = self.events(id).await;
        events.into_iter().map(|event| event.kind.name().as_str()).collect()
    }

    /// Its attempts that are over and no longer on the execution.
    pub async fn attempts(&self, id: ExecutionId) -> Vec<AttemptRecord> {
        match self.list(&Query::Attempts(id), 1_000).await {
            Rows::Attempts(attempts) => attempts,
            other => panic!("attempts were asked for, not {other:?}"),
        }
    }

    /// The first rows of a query.
    pub async fn list(&self, query: &Query, limit: u32) -> Rows {
        let listing = self.store.backend.list(query, &Page::first(limit)).await;
        listing.expect("the store works").rows
    }

    /// Bytes, if they exist.
    pub async fn blob(&self, at: BlobRef) -> Option<Bytes> {
        let mut found = self.store.backend.blobs(&[at]).await.expect("the store works");
        found.pop().map(|blob| blob.bytes)
    }
}

/// A lane.
pub fn lane(name: &str) -> LaneId {
    LaneId::new(name).expect("a valid lane")
}

/// A namespace.
pub fn namespace(name: &str) -> Namespace {
    Namespace::new(name).expect("a valid namespace")
}

/// A worker whose pool is `pool` and whose instance is its first one.
pub fn worker(name: &str) -> Worker {
    Worker {
        id: WorkerId::new("pool").expect("a valid worker"),
        instance: WorkerInstanceId::new(name).expect("a valid instance"),
    }
}

/// The code of a refusal.
pub fn code<T: std::fmt::Debug>(outcome: Result<T, Rejection>) -> Code {
    outcome.expect_err("it must be refused").code
}

/// What a command sent twice must answer, given its first answer, is written beside its decision.
fn check_echo(command: &Command, first: &Outcome, second: &Outcome) {
    let expected = match first.as_ref().map(Reply::again) {
        Err(_) | Ok(Again::Same) => first.clone(),
        Ok(Again::Reply(reply)) => Ok(reply),
        Ok(Again::Refused(expected)) => {
            assert_eq!(code(second.clone()), expected, "the echo of {command:?}");
            return;
        }
        Ok(Again::Further) => return,
    };
    assert_eq!(*second, expected, "the echo of {command:?}");
}

/// What of an execution must not change when `command` is sent again.
fn settled(command: &Command, x: Option<Execution>) -> Option<Execution> {
    let counts_again = matches!(command, Command::ReportProgress(_));
    x.map(|mut x| {
        if counts_again {
            x.version = 0;
        }
        x
    })
}
