//! The client of the test: creates at the pace of the workers, whatever happens to the server.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use ff_core::ExecutionId;
use ff_core::decide::create::{Create, Created as Answer};
use ff_core::policy::Policy;
use ff_engine::{Engine, Error};
use serde_json::json;
use tokio::sync::watch;
use uuid::Uuid;

/// How often an execution may fail before it has failed for good.
pub const MAX_RETRIES: u32 = 3;
/// How often an execution may lose its worker: more often than workers and servers are killed.
pub const MAX_RECLAIMS: u32 = 50;
/// Creations in one call.
const BATCH_MAX: usize = 40;
/// Executions that may wait or run before the creator waits for the workers.
const BACKLOG_MAX: u64 = 300;

/// What an execution is to become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It succeeds.
    Greet,
    /// It fails twice, then succeeds.
    Flaky,
    /// It never succeeds.
    Broken,
}

/// How far the creator is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Progress {
    /// Creations that were answered.
    pub acknowledged: usize,
    /// Calls that failed and were made again.
    pub errors: usize,
    /// Creations that had been made by a call whose answer was lost.
    pub duplicates: usize,
}

/// What was acknowledged.
pub struct Created {
    /// Every execution, and what it is to become.
    pub kinds: BTreeMap<ExecutionId, Kind>,
    progress: Progress,
}

impl fmt::Display for Created {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Progress { acknowledged, errors, duplicates } = self.progress;
        write!(f, "{acknowledged} created ({errors} calls failed, {duplicates} made it anyway)")
    }
}

/// Creates executions.
pub struct Creator {
    engine: Engine,
    executions: usize,
    kinds: BTreeMap<ExecutionId, Kind>,
    progress: watch::Sender<Progress>,
}

impl Creator {
    /// One that creates so many, and how far it is.
    pub fn new(engine: Engine, executions: usize) -> (Self, watch::Receiver<Progress>) {
        let (progress, seen) = watch::channel(Progress::default());
        (Self { engine, executions, kinds: BTreeMap::new(), progress }, seen)
    }

    /// Creates them all.
    pub async fn run(mut self) -> Created {
        while self.kinds.len() < self.executions {
            self.wait_for_the_workers().await;
            let left = self.executions - self.kinds.len();
            let count = rand::random_range(1..=BATCH_MAX).min(left);
            let drafts = (0..count).map(|n| draft(self.kinds.len() + n)).collect();
            self.create(drafts).await;
        }
        let progress = *self.progress.borrow();
        Created { kinds: self.kinds, progress }
    }

    /// Sends the drafts until every one is answered.
    async fn create(&mut self, drafts: Vec<(Create, Kind)>) {
        let creates: Vec<Create> = drafts.iter().map(|(create, _)| create.clone()).collect();
        let answers = loop {
            match self.engine.create_executions(creates.clone()).await {
                Ok(answers) => break answers,
                Err(error) => {
                    assert!(error.retryable(), "{error}");
                    assert!(matches!(error, Error::Store(_)), "{error}");
                    self.progress.send_modify(|so_far| so_far.errors += 1);
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
        };
        assert_eq!(answers.len(), drafts.len());
        let mut duplicates = 0;
        for (answer, (create, kind)) in answers.into_iter().zip(drafts) {
            let answer = answer.unwrap();
            assert_eq!(answer.execution_id(), create.id);
            duplicates += usize::from(matches!(answer, Answer::Duplicate { .. }));
            self.kinds.insert(create.id, kind);
        }
        self.progress.send_modify(|so_far| {
            so_far.acknowledged = self.kinds.len();
            so_far.duplicates += duplicates;
        });
    }

    /// Waits until little is left to do; goes on at once when nobody knows.
    async fn wait_for_the_workers(&self) {
        while let Ok(counts) = self.engine.count_executions().await {
            let open = counts.iter().filter(|count| !count.state.is_terminal());
            if open.map(|count| count.count).sum::<u64>() < BACKLOG_MAX {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// A mix of quick work, work that fails twice, and work that never succeeds.
fn draft(number: usize) -> (Create, Kind) {
    let policy = json!({
        "retry_policy": {"max_retries": MAX_RETRIES,
            "backoff": {"type": "fixed", "delay_ms": 20, "jitter": true}},
        "max_reclaim_count": MAX_RECLAIMS,
    });
    let (name, kind) = match number % 10 {
        0..=6 => ("greet", Kind::Greet),
        7 | 8 => ("flaky", Kind::Flaky),
        _ => ("broken", Kind::Broken),
    };
    let id = ExecutionId::solo(Uuid::now_v7());
    let create = Create {
        input: Bytes::from_static(br#""world""#),
        policy: Policy::parse(&policy).unwrap(),
        ..Create::new(id, "crash".parse().unwrap(), name.parse().unwrap())
    };
    (create, kind)
}
