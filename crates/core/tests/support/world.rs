//! A world to try commands in: rows in memory, a clock that is a dial, dice with a seed.
//!
//! [`World`] folds like a backend would. [`Life`] follows one execution through it and remembers
//! what its last holder would present. States only ever come about by sending commands.

#![allow(dead_code, reason = "every test binary uses its own part")]

mod graph;
mod waits;

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use ff_core::command::Operation;
use ff_core::decide::claim::{Claim, Leased};
use ff_core::decide::create::Create;
use ff_core::event::{CursorKind, Event, EventName};
use ff_core::execution::{AttemptRecord, Fence, Tags, Worker, first_epoch};
use ff_core::fold::{Blob, BlobRef, Cx, Key, WaitSet};
use ff_core::state::{AttemptState, PublicState, StateVector, vector};
use ff_core::text::{
    Creator, Encoding, IdempotencyKey, Kind, LaneId, Namespace, WorkerId, WorkerInstanceId,
};
use ff_core::time::Entropy;
use ff_core::{
    Command, Config, Execution, ExecutionId, FlowId, Millis, Outcome, Policy, Rejection,
    WorkingSet, WriteSet, fold, needs,
};
use serde_json::Value;
use uuid::Uuid;

pub use waits::Waits;

/// When every world begins.
pub const DAWN: Millis = Millis(1_000_000);
/// How long a lease lasts unless a test says otherwise.
pub const LEASE_TTL_MS: u64 = 1_000;

/// Randomness from a seed (the `SplitMix64` generator).
#[derive(Clone, Debug)]
pub struct Dice(pub u64);

impl Entropy for Dice {
    fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

/// Rows, a clock and dice.
#[derive(Clone)]
pub struct World {
    pub now: Millis,
    pub config: Config,
    pub rows: WorkingSet,
    /// Members that cancelled flows owe.
    pub owed: BTreeSet<(FlowId, ExecutionId)>,
    /// Payloads and results.
    pub blobs: BTreeMap<BlobRef, Blob>,
    /// What is kept of suspensions.
    pub waits: Waits,
    pub dice: Dice,
}

impl World {
    pub fn new(seed: u64) -> Self {
        Self {
            now: DAWN,
            config: Config::default(),
            rows: WorkingSet::default(),
            owed: BTreeSet::new(),
            blobs: BTreeMap::new(),
            waits: Waits::default(),
            dice: Dice(seed),
        }
    }

    /// Loads what the commands need (what was never written is absent) and folds them.
    pub fn fold(&mut self, commands: &[Command]) -> (Vec<Outcome>, WriteSet) {
        graph::begin_batch(&mut self.rows);
        self.rows.waits = WaitSet::default();
        for command in commands {
            command.validate(&self.config).unwrap();
            for _ in 0..3 {
                for key in needs(command, &self.rows) {
                    self.load(&key);
                }
            }
            assert_eq!(needs(command, &self.rows), [], "three rounds of loading are enough");
        }
        let (now, cursors) = (self.now, CursorKind::Seq);
        let mut cx = Cx { now, config: &self.config, entropy: &mut self.dice, cursors };
        let (outcomes, set) = fold(commands, &mut self.rows, &mut cx);
        self.owed.retain(|row| !set.graph.owed.remove.contains(row));
        self.owed.retain(|(flow, _)| !set.graph.removed.contains(flow));
        self.owed.extend(&set.graph.owed.insert);
        self.blobs.retain(|at, _| !set.removed.contains(&at.execution()));
        self.blobs.extend(set.blobs.iter().map(|blob| (blob.at, blob.clone())));
        self.waits.write(&set);
        (outcomes, set)
    }

    /// Loads a row; what was never written is absent.
    pub fn load(&mut self, key: &Key) {
        match key {
            Key::Execution(id) => drop(self.rows.executions.insert(*id, None)),
            Key::Idempotency(space, key) => {
                drop(self.rows.keys.insert((space.clone(), key.clone()), None));
            }
            Key::Consumer(name) => drop(self.rows.consumers.insert(name.clone(), None)),
            Key::Unseen(id) => drop(self.rows.unseen.insert(*id, false)),
            Key::UnseenFlow(flow) => drop(self.rows.graph.unseen.insert(*flow, false)),
            Key::Step(id, number) => drop(self.rows.steps.insert((*id, *number), None)),
            // The steps are among the rows.
            Key::Stepped(id, attempt) => {
                self.rows.stepped.insert((*id, *attempt), false);
            }
            Key::Input(id) => {
                let input = self.blobs.get(&BlobRef::Input(*id)).cloned();
                self.rows.inputs.insert(*id, input);
            }
            Key::Flow(_)
            | Key::FreeFlow(_)
            | Key::Group(..)
            | Key::FreeGroup(..)
            | Key::Groups(_)
            | Key::Edge(..)
            | Key::Pair(..)
            | Key::Outgoing(..)
            | Key::Incoming(..)
            | Key::Reach(..)
            | Key::Behind(..)
            | Key::Members(_)
            | Key::Dispatch(_)
            | Key::Cancel(..)
            | Key::Backlog(_)
            | Key::Owed(_)
            | Key::First(_) => self.load_graph(key),
            Key::Wait(key) => self.waits.load(key, &mut self.rows.waits),
        }
    }

    /// Folds one command.
    pub fn send(&mut self, command: Command) -> (Outcome, WriteSet) {
        let (mut outcomes, set) = self.fold(&[command]);
        (outcomes.remove(0), set)
    }

    pub fn find(&self, id: ExecutionId) -> Option<&Execution> {
        self.rows.executions.get(&id).and_then(Option::as_ref)
    }

    pub fn pass(&mut self, ms: u64) {
        self.now = self.now.plus(ms);
    }
}

/// The life of one execution, from before its creation to after its removal.
#[derive(Clone)]
pub struct Life {
    pub world: World,
    pub id: ExecutionId,
    pub creation: Create,
    /// What its current or last holder presents; the first one it could have, until claimed.
    pub fence: Fence,
    pub events: Vec<Event>,
    pub history: Vec<AttemptRecord>,
    /// What the last accepted command wrote.
    pub written: WriteSet,
    claims: u128,
}

impl Life {
    /// Nothing exists yet; `creation` will be the beginning.
    pub fn unborn(creation: Create) -> Self {
        Self {
            world: World::new(7),
            id: creation.id,
            creation,
            fence: Fence { attempt_index: 0, lease_epoch: first_epoch(DAWN) + 1 },
            events: Vec::new(),
            history: Vec::new(),
            written: WriteSet::default(),
            claims: 0,
        }
    }

    pub fn begin(creation: Create) -> Self {
        let mut life = Self::unborn(creation);
        life.tell(life.creation.clone());
        life
    }

    /// Created with this policy document.
    pub fn under(policy: &Value) -> Self {
        Self::begin(Create { policy: Policy::parse(policy).unwrap(), ..create(1) })
    }

    /// Sends a command that must be accepted.
    pub fn tell<O: Operation>(&mut self, command: O) -> O::Reply {
        let (outcome, set) = self.world.send(command.into());
        self.events.extend(set.events.iter().cloned());
        self.history.extend(set.attempts.iter().cloned());
        self.written = set;
        O::reply(outcome.unwrap()).unwrap()
    }

    /// Sends a command that must be accepted and must change nothing.
    pub fn repeat<O: Operation>(&mut self, command: O) -> O::Reply {
        let reply = self.tell(command);
        assert!(self.written.is_empty(), "{:#?}", self.written);
        reply
    }

    /// Sends a command that must be refused.
    pub fn refused<O: Operation>(&mut self, command: O) -> Rejection {
        let (outcome, set) = self.world.send(command.into());
        assert!(set.is_empty(), "{set:#?}");
        outcome.unwrap_err()
    }

    /// The next claim, under a name of its own.
    pub fn next_claim(&mut self) -> Claim {
        self.claims += 1;
        claim(self.id, self.claims)
    }

    /// A worker takes it.
    pub fn claim(&mut self) -> Leased {
        let claim = self.next_claim();
        self.take(claim)
    }

    /// A worker takes it by this very claim.
    pub fn take(&mut self, claim: Claim) -> Leased {
        let leased = self.tell(claim);
        self.fence = leased.fence;
        leased
    }

    pub fn pass(&mut self, ms: u64) {
        self.world.pass(ms);
    }

    pub fn find(&self) -> Option<&Execution> {
        self.world.find(self.id)
    }

    pub fn x(&self) -> &Execution {
        self.find().unwrap()
    }

    pub fn vector(&self) -> StateVector {
        vector(self.x(), self.world.now)
    }

    /// The public and the attempt state.
    pub fn states(&self) -> (PublicState, AttemptState) {
        let vector = self.vector();
        (vector.public_state, vector.attempt_state)
    }

    /// What was told in the feed since this was last asked.
    pub fn told(&mut self) -> Vec<EventName> {
        self.events.drain(..).map(|event| event.kind.name()).collect()
    }
}

/// The `n`th execution of a world.
pub fn id(n: u128) -> ExecutionId {
    ExecutionId::solo(Uuid::from_u128(n))
}

/// A creation in which every field says something, with the policy that says nothing.
pub fn create(n: u128) -> Create {
    Create {
        id: id(n),
        namespace: Namespace::new("shop").unwrap(),
        lane: LaneId::new("default").unwrap(),
        kind: Kind::new("refund").unwrap(),
        input: Bytes::from_static(b"order 17"),
        encoding: Some(Encoding::new("text").unwrap()),
        priority: 100,
        creator: Creator::new("till").unwrap(),
        idempotency_key: Some(key()),
        tags: tags(&[("shop.city", "Oslo")]),
        policy: Policy::default(),
        delay_until: None,
        deadline_at: None,
        delay_ms: None,
    }
}

/// The idempotency key of every such creation.
pub fn key() -> IdempotencyKey {
    IdempotencyKey::new("order-17").unwrap()
}

pub fn tags(pairs: &[(&str, &str)]) -> Tags {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

pub fn worker(instance: &str) -> Worker {
    Worker {
        id: WorkerId::new("pool").unwrap(),
        instance: WorkerInstanceId::new(instance).unwrap(),
    }
}

/// A claim by a worker process of its own.
pub fn claim(id: ExecutionId, n: u128) -> Claim {
    Claim {
        id,
        worker: worker(&format!("worker-{n}")),
        capabilities: BTreeSet::new(),
        lease_ttl_ms: LEASE_TTL_MS,
        claim_id: Uuid::from_u128(n),
    }
}
