//! The same storm over waits: every acknowledged signal is heard once, in its turn.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use bytes::Bytes;
use ff_core::ExecutionId;
use ff_core::decide::create::Create;
use ff_core::decide::deliver::{Authority, DeliverSignal, Delivered};
use ff_core::event::EventKind;
use ff_core::policy::Policy;
use ff_core::query::Page;
use ff_core::suspension::Effect;
use ff_core::view::WaitpointSnapshot;
use ff_engine::{Engine, Error};
use serde_json::json;
use tokio::sync::watch;
use uuid::Uuid;

use super::creator::{MAX_RECLAIMS, Progress};
use super::{PATIENCE, check};

/// Signals that each execution waits for.
pub const TURNS: usize = 4;
/// Signals that are sent at the same time.
const SENDERS: usize = 16;

/// What every execution was told, by the waitpoint of each turn.
pub type Told = BTreeMap<ExecutionId, BTreeMap<String, u64>>;

/// Creates so many, and answers whatever they wait for until all were told everything, whatever happens
/// to the server and to the workers.
pub async fn talk(engine: Engine, count: usize, progress: watch::Sender<Progress>) -> Told {
    let drafts: Vec<_> = (0..count).map(|_| draft()).collect();
    let mut told: Told = drafts.iter().map(|create| (create.id, BTreeMap::new())).collect();
    for created in until_answered(&progress, || engine.create_executions(drafts.clone())).await {
        created.unwrap();
    }
    let begun = Instant::now();
    let mut answered = BTreeSet::new();
    while answered.len() < count * TURNS {
        assert!(begun.elapsed() < PATIENCE, "{} of {} told", answered.len(), count * TURNS);
        let all = || engine.list_pending_waitpoints(None, None, Some(1_000));
        let (mut open, _) = until_answered(&progress, all).await;
        open.retain(|one| !answered.contains(&one.waitpoint_id));
        if open.is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        for some in open.chunks(SENDERS) {
            let sending = some.iter().map(|one| {
                let (engine, progress, one) = (engine.clone(), progress.clone(), one.clone());
                tokio::spawn(async move { answer(&engine, &one, &progress).await })
            });
            let sending: Vec<_> = sending.collect();
            for (one, sent) in some.iter().zip(sending) {
                let number = sent.await.unwrap();
                answered.insert(one.waitpoint_id);
                let turns = told.get_mut(&one.execution_id).expect("one of ours");
                let twice = turns.insert(one.waitpoint_key.to_string(), number);
                let (id, turn) = (one.execution_id, &one.waitpoint_key);
                assert_eq!(twice, None, "{id} asks for {turn} again");
            }
            progress.send_modify(|so_far| so_far.acknowledged = answered.len());
        }
    }
    told
}

fn draft() -> Create {
    let policy = json!({"max_reclaim_count": MAX_RECLAIMS});
    let (lane, kind) = ("crash".parse().unwrap(), "talk".parse().unwrap());
    Create {
        input: Bytes::from(TURNS.to_string()),
        policy: Policy::parse(&policy).unwrap(),
        ..Create::new(ExecutionId::solo(Uuid::now_v7()), lane, kind)
    }
}

/// Sends a number to a waitpoint until it is acknowledged. Whoever repeats it says the same.
async fn answer(
    engine: &Engine,
    one: &WaitpointSnapshot,
    progress: &watch::Sender<Progress>,
) -> u64 {
    let number = rand::random_range(0..1_000_000);
    let signal = DeliverSignal {
        id: one.execution_id,
        waitpoint: one.waitpoint_id,
        signal: Uuid::now_v7(),
        authority: Authority::Operator,
        name: "number".parse().unwrap(),
        category: String::new(),
        source_type: String::new(),
        source_identity: String::new(),
        subject: None,
        correlation_id: None,
        idempotency_key: None,
        dedup_ttl_ms: None,
        created_at: None,
        encoding: Some("json".parse().unwrap()),
        payload: Some(Bytes::from(number.to_string())),
        resume_delay_ms: None,
    };
    let delivered = until_answered(progress, || engine.deliver_signal(signal.clone())).await;
    match delivered {
        Delivered::Accepted { effect, .. } => {
            assert!(matches!(effect, Effect::ConditionSatisfied | Effect::Buffered), "{effect}");
        }
        Delivered::Duplicate { existing_signal_id } => {
            assert_eq!(existing_signal_id, signal.signal, "its own, whose answer was lost");
        }
    }
    number
}

/// Asks until there is an answer.
async fn until_answered<T, F>(progress: &watch::Sender<Progress>, ask: impl Fn() -> F) -> T
where
    F: Future<Output = Result<T, Error>>,
{
    loop {
        match ask().await {
            Ok(answer) => return answer,
            Err(error) => {
                assert!(error.retryable(), "{error}");
                progress.send_modify(|so_far| so_far.errors += 1);
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }
}

/// Every execution has ended once and heard what it was told, each turn once, and nothing else.
pub async fn check(engine: &Engine, told: &Told) -> usize {
    let mut reclaims = 0;
    for (id, turns) in told {
        let history = engine.history(*id).await.unwrap().unwrap();
        let heard: Vec<_> = turns.values().copied().collect();
        let result = engine.get_execution_result(*id).await.unwrap();
        let result = result.unwrap_or_else(|| panic!("{id} has no result: {history:?}"));
        let result: Vec<u64> = serde_json::from_slice(&result.bytes).unwrap();
        assert_eq!(result, heard, "{id}: {history:?}");
        let (signals, more) = engine.list_signals(*id, &Page::first(100)).await.unwrap();
        assert_eq!((signals.len(), more.is_some()), (TURNS, false), "{id}: {signals:?}");
        let resumed = history.events.iter().filter(|event| {
            let effect = Effect::ConditionSatisfied;
            matches!(event.event.kind, EventKind::Signal { effect: to, .. } if to == effect)
        });
        let suspended = history
            .events
            .iter()
            .filter(|event| matches!(event.event.kind, EventKind::Suspended { .. }));
        assert_eq!(resumed.count(), suspended.count(), "{id} went on once for each wait");
        reclaims += history.attempts.len() - 1;
    }
    let once: BTreeMap<_, _> = told.keys().map(|id| (*id, 1)).collect();
    assert_eq!(check::completions(engine).await, once, "each ended once");
    let open = engine.list_pending_waitpoints(None, None, None).await.unwrap().0;
    assert!(open.is_empty(), "nothing is waited for: {open:?}");
    reclaims
}
