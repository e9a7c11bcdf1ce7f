//! What the clients of a storm share: the servers, the record, and what there is to do.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use ff_core::ExecutionId;
use tokio::sync::watch;
use uuid::Uuid;

use crate::caller::Caller;
use crate::dice::Dice;
use crate::record::Recorder;
use crate::time::{now, sleep_ms};

/// The lanes that are used. For the last two, one server each has claims.
pub const LANES: [&str; 5] = ["a", "b", "c", "first", "last"];
/// The lanes that workers of all servers claim from.
const SHARED_LANES: usize = 3;
/// Once in so long there is nothing new for a while: what was forgotten is then not noticed because of
/// something else.
const LULL_EVERY_MS: i64 = 2_500;
/// How long that lasts.
const LULL_MS: i64 = 1_200;
/// How many recent executions and flows operators choose from.
const RECENT_MAX: usize = 150;

/// What a storm is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Everything happens.
    Storm,
    /// Nothing new, no faults: what there is comes to its end.
    Settle,
    /// It is over.
    Over,
}

/// Where somebody waits for a signal.
#[derive(Clone, Debug)]
pub struct Waiting {
    /// Who.
    pub id: ExecutionId,
    /// In which lane it goes on.
    pub lane: String,
    /// Where.
    pub waitpoint: String,
    /// What opens it.
    pub token: String,
}

/// A flow and its members.
#[derive(Clone, Debug)]
pub struct Flow {
    /// Its id.
    pub id: Uuid,
    /// All of them.
    pub members: Vec<ExecutionId>,
}

/// What there is to do.
#[derive(Debug, Default)]
pub struct Board {
    /// Waits that nobody has answered.
    pub waiting: Vec<Waiting>,
    /// What was created lately.
    pub recent: VecDeque<ExecutionId>,
    /// Flows that were submitted lately.
    pub flows: VecDeque<Flow>,
    /// What ended lately.
    pub ended: VecDeque<ExecutionId>,
    /// What operators hold.
    pub held: Vec<ExecutionId>,
}

/// All of it.
#[derive(Clone)]
pub struct World {
    /// Who calls.
    pub caller: Caller,
    /// What was said.
    pub recorder: Arc<Recorder>,
    /// What there is to do.
    pub board: Arc<Mutex<Board>>,
    seed: u64,
    phase: watch::Receiver<Phase>,
    reasons: Arc<AtomicU64>,
}

impl World {
    /// One at the beginning of a storm.
    pub fn new(
        caller: Caller,
        recorder: Arc<Recorder>,
        seed: u64,
        phase: watch::Receiver<Phase>,
    ) -> Self {
        let (board, reasons) = (Arc::default(), Arc::default());
        Self { caller, recorder, board, seed, phase, reasons }
    }

    /// The choices of a client.
    pub fn dice(&self, name: &str) -> Dice {
        Dice::new(self.seed, name)
    }

    /// What it is at.
    pub fn phase(&self) -> Phase {
        *self.phase.borrow()
    }

    /// Waits until it is at something else than the storm.
    pub async fn calmed(&self) {
        // Without a sender it is over as well.
        let _ = self.phase.clone().wait_for(|phase| *phase != Phase::Storm).await;
    }

    /// A reason that nobody else gives.
    pub fn reason(&self, word: &str) -> String {
        format!("{word}-{}", self.reasons.fetch_add(1, Ordering::SeqCst))
    }

    /// The lanes that workers of a server claim from.
    pub fn lanes_of(&self, server: usize) -> Vec<&'static str> {
        let mut lanes = LANES[..SHARED_LANES].to_vec();
        lanes.extend((server == 0).then_some("first"));
        lanes.extend((server + 1 == self.caller.servers()).then_some("last"));
        lanes
    }

    /// Waits while there is to be nothing new.
    pub async fn lull(&self) {
        let into = now() % LULL_EVERY_MS;
        if into < LULL_MS {
            sleep_ms(u64::try_from(LULL_MS - into).unwrap_or(0)).await;
        }
    }

    /// Looks at the board, or changes it.
    pub fn board<T>(&self, change: impl FnOnce(&mut Board) -> T) -> T {
        change(&mut self.board.lock().expect("nobody panics"))
    }
}

/// Adds to a bounded list, whose oldest entry goes.
pub fn push<T>(list: &mut VecDeque<T>, item: T) {
    if list.len() == RECENT_MAX {
        list.pop_front();
    }
    list.push_back(item);
}
