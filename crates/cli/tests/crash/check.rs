//! What must hold when the storm is over.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use ff_core::event::{Cursor, EventKind, EventName, Filter};
use ff_core::execution::{LeaseEnd, State};
use ff_core::state::TerminalOutcome;
use ff_core::{Duty, ExecutionId, Fence, WorkFilter};
use ff_engine::{Engine, Error};
use tokio::task::JoinSet;

use super::creator::{Created, Kind, MAX_RECLAIMS, MAX_RETRIES};

/// Executions looked at at the same time.
const LOOKERS: usize = 4;

/// What was found.
#[derive(Default)]
pub struct Checked {
    succeeded: usize,
    acknowledged: usize,
    retries: u32,
    reclaims: u32,
}

impl fmt::Display for Checked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { succeeded, acknowledged, retries, reclaims } = self;
        write!(f, "{succeeded} succeeded ({acknowledged} acknowledged), ")?;
        write!(f, "{retries} retries, {reclaims} reclaims")
    }
}

/// Every acknowledged creation has ended once, as it should; every acknowledged completion
/// stands; nothing else is there.
pub async fn everything(
    engine: &Engine,
    created: &Created,
    acknowledged: &BTreeMap<ExecutionId, Fence>,
) -> Checked {
    let mut completions = completions(engine).await;
    let mut looking = JoinSet::new();
    let all: Vec<_> = created.kinds.iter().collect();
    for share in all.chunks(all.len().div_ceil(LOOKERS)) {
        let with = |id| acknowledged.get(id).copied();
        let share: Vec<_> = share.iter().map(|(id, kind)| (**id, **kind, with(id))).collect();
        looking.spawn(several(engine.clone(), share));
    }
    let mut checked = Checked { acknowledged: acknowledged.len(), ..Checked::default() };
    for part in looking.join_all().await {
        checked.succeeded += part.succeeded;
        checked.retries += part.retries;
        checked.reclaims += part.reclaims;
    }
    for id in created.kinds.keys() {
        assert_eq!(completions.remove(id), Some(1), "{id} ended once");
    }
    assert!(completions.is_empty(), "nothing else ended: {completions:?}");
    let stored: u64 = engine.count_executions().await.unwrap().iter().map(|c| c.count).sum();
    assert_eq!(stored, u64::try_from(created.kinds.len()).unwrap(), "nothing else is there");
    assert!(checked.reclaims > 0, "the kills hit running work");
    let report = engine.scan_tick(Duty::LeaseExpiry, &WorkFilter::default()).await;
    assert_eq!(report.unwrap().processed, 0, "no lease is left");
    checked
}

async fn several(engine: Engine, share: Vec<(ExecutionId, Kind, Option<Fence>)>) -> Checked {
    let mut checked = Checked::default();
    for (id, kind, acknowledged) in share {
        one(&engine, (id, kind), acknowledged, &mut checked).await;
    }
    checked
}

async fn one(
    engine: &Engine,
    (id, kind): (ExecutionId, Kind),
    acknowledged: Option<Fence>,
    checked: &mut Checked,
) {
    let x = engine.find_execution(id).await.unwrap().expect("an acknowledged creation");
    let State::Terminal(terminal) = &x.state else { panic!("{id} is {:?}", x.state) };
    let attempt = terminal.attempt.as_ref().expect("it was attempted");
    assert!(x.counts.retries <= MAX_RETRIES && x.counts.reclaims <= MAX_RECLAIMS, "{x:?}");
    checked.retries += x.counts.retries;
    let success = terminal.ending.outcome() == TerminalOutcome::Success;
    checked.succeeded += usize::from(success);
    assert_eq!(success, kind != Kind::Broken, "{id}, {kind:?}: {:?}", terminal.ending);
    if let Some(fence) = acknowledged {
        assert!(success, "{id}: the acknowledged completion stands");
        let last = Fence { attempt_index: attempt.index, lease_epoch: x.epoch - 1 };
        assert_eq!(last, fence, "{id}: under its fence");
        assert_eq!(terminal.last_lease, Some(LeaseEnd::Completed));
    }
    let history = engine.history(id).await.unwrap().unwrap();
    assert_eq!(history.attempts.len(), usize::try_from(x.counts.attempts).unwrap());
    let told = |name: fn(&EventKind) -> bool| {
        let told = history.events.iter().filter(|event| name(&event.event.kind));
        u32::try_from(told.count()).unwrap()
    };
    // Each attempt but the last ended one way, and one event says so.
    let failed = told(|kind| matches!(kind, EventKind::AttemptFailed { .. }));
    let expired = told(|kind| matches!(kind, EventKind::LeaseExpired { .. }));
    assert_eq!(failed, x.counts.retries, "{history:?}");
    assert_eq!(x.counts.attempts, 1 + failed + expired, "{history:?}");
    // Only those that were lost in a row are counted.
    assert!(x.counts.reclaims <= expired, "{history:?}");
    checked.reclaims += expired;
    if expired > 0 {
        // The epoch grew by one when the last lease ended and by two for each before it.
        let earlier = u64::from(x.counts.attempts - 1);
        let fence = Fence { attempt_index: 0, lease_epoch: x.epoch - 1 - 2 * earlier };
        let stale = engine.complete_execution(id, fence, None).await;
        assert!(matches!(stale, Err(Error::Rejected(_))), "{id}: a stale write: {stale:?}");
    }
}

/// How often each execution ended, from the feed.
pub async fn completions(engine: &Engine) -> BTreeMap<ExecutionId, u32> {
    let filter = Filter { kinds: vec![EventName::Completion], ..Filter::default() };
    let mut ended = BTreeMap::new();
    let mut from = Cursor::Start;
    loop {
        let page = engine.read_events(&from, &filter, 1_000, Duration::ZERO).await.unwrap();
        if page.events.is_empty() {
            return ended;
        }
        for event in page.events {
            assert!(matches!(event.event.kind, EventKind::Completion { .. }));
            *ended.entry(event.event.subject()).or_insert(0) += 1;
        }
        from = page.next;
    }
}
