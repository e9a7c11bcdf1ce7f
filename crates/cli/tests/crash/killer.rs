//! Work that kills its worker: every process that takes it is dead a moment later, and a supervisor starts
//! the next. The pauses between two of them grow, and in the end it has failed.

use std::time::{Duration, Instant};

use bytes::Bytes;
use ff_core::ExecutionId;
use ff_core::decide::create::Create;
use ff_core::event::EventKind;
use ff_core::execution::{AttemptOutcome, Ending, State};
use ff_core::policy::Policy;
use ff_engine::Engine;
use serde_json::json;
use uuid::Uuid;

use crate::fleet::Fleet;

/// Nothing here takes longer, on a busy machine either.
const PATIENCE: Duration = Duration::from_mins(1);
/// How often it is taken over.
const RECLAIMS: u32 = 3;

/// Has each of its workers die until it has failed.
pub async fn dies_until_it_fails(engine: &Engine, fleet: &mut Fleet) -> ExecutionId {
    let id = ExecutionId::solo(Uuid::now_v7());
    let create = Create {
        input: Bytes::from_static(b"null"),
        policy: Policy::parse(&json!({"max_reclaim_count": RECLAIMS})).unwrap(),
        // It reports its progress all the time, which is none.
        ..Create::new(id, "crash".parse().unwrap(), "endless".parse().unwrap())
    };
    engine.create_executions(vec![create]).await.unwrap().remove(0).unwrap();
    let begun = Instant::now();
    let mut killed = None;
    loop {
        let x = engine.find_execution(id).await.unwrap().expect("it was created");
        match &x.state {
            State::Terminal(_) => return id,
            State::Active(_) if killed != Some(x.epoch) => {
                killed = Some(x.epoch);
                fleet.kill_one();
            }
            State::Active(_) | State::Runnable(_) | State::Suspended(_) => {}
        }
        assert!(begun.elapsed() < PATIENCE, "{x:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// It failed for that reason after as many attempts as it may have, and paused longer before each.
pub async fn check(engine: &Engine, id: ExecutionId) {
    let x = engine.find_execution(id).await.unwrap().unwrap();
    let State::Terminal(terminal) = &x.state else { panic!("{:?}", x.state) };
    let Ending::Failed(failure) = &terminal.ending else { panic!("{:?}", terminal.ending) };
    assert_eq!(failure.reason, "max_reclaims_exceeded");
    assert_eq!((x.counts.reclaims, x.counts.attempts), (RECLAIMS, RECLAIMS + 1));
    let history = engine.history(id).await.unwrap().unwrap();
    let lost = Some(AttemptOutcome::Interrupted);
    let interrupted = history.attempts.iter().filter(|attempt| attempt.outcome == lost);
    assert_eq!(interrupted.count(), usize::try_from(RECLAIMS).unwrap(), "{history:?}");
    let (mut paused_ms, mut not_before) = (Vec::new(), None);
    for event in history.events.iter().map(|event| &event.event) {
        match &event.kind {
            EventKind::LeaseExpired { retry_at, .. } => {
                paused_ms.push(retry_at.map_or(0, |retry_at| retry_at.since(event.at)));
                not_before = *retry_at;
            }
            EventKind::LeaseReclaimed { .. } => {
                let early = not_before.is_some_and(|retry_at| event.at < retry_at);
                assert!(!early, "it was taken over too early: {history:?}");
            }
            _ => {} // not ours: how it ended was looked at above
        }
    }
    // The last loss ends it.
    assert_eq!(paused_ms, [0, 1_000, 2_000, 0], "{history:?}");
}
