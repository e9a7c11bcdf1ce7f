//! Checks that stored rows agree with each other, whatever led to them.

mod flows;
mod waits;

use std::collections::{BTreeMap, BTreeSet};

use ff_core::ExecutionId;
use ff_core::event::EventKind;
use ff_core::execution::State;
use ff_core::index::{self, Queue, TagRow, Timer, TimerKind};
use ff_core::time::Millis;

use crate::model::Tables;

/// Panics unless every derived row follows from its execution and nothing is left over.
pub fn audit(tables: &Tables, now: Millis) {
    let mut timers: BTreeSet<Timer> = BTreeSet::new();
    let mut tags: BTreeSet<TagRow> = BTreeSet::new();
    let mut places = 0;
    let own = Own::of(tables);
    for x in tables.executions.values() {
        timers.extend(index::timers(x));
        tags.extend(index::tags(x));
        assert!(tables.queues.contains(&Queue::of(x)), "the queue of {} is registered", x.id);
        if let Some(place) = index::place(x) {
            places += 1;
            let delay = place.from.map(|due| Timer {
                kind: TimerKind::Delay,
                due,
                execution: x.id,
                ready: Some(place.ready),
            });
            let waits = delay.is_some_and(|timer| tables.timers.contains(&timer));
            let ready = tables.ready.contains(&place.ready);
            assert!(waits != ready, "{} stands in one of ready and timers", x.id);
            assert!(ready || place.from > Some(Millis::ZERO), "{} is claimable", x.id);
        }
        let active = matches!(x.state, State::Active(_));
        assert_eq!(x.epoch % 2 == 1, active, "{}: an odd epoch is a lease", x.id);
        assert!(x.updated_at >= x.spec.created_at && x.version > 0, "{}", x.id);
        check_endings(&own, x);
    }
    let delays: Vec<_> = tables.timers.iter().filter(|t| t.kind == TimerKind::Delay).collect();
    assert_eq!(tables.ready.len() + delays.len(), places, "no place is left over at {now}");
    let others: BTreeSet<Timer> =
        tables.timers.iter().filter(|t| t.kind != TimerKind::Delay).copied().collect();
    assert_eq!(others, timers, "timers follow from executions");
    assert_eq!(tables.tags, tags, "tags follow from executions");
    for owner in tables
        .attempts
        .keys()
        .map(|(id, _)| *id)
        .chain(tables.steps.keys().map(|(id, _)| *id))
        .chain(tables.blobs.keys().map(|at| at.execution()))
        .chain(tables.events.values().filter_map(|event| event.execution))
    {
        assert!(tables.executions.contains_key(&owner), "{owner} is gone but owns rows");
    }
    flows::audit(tables);
    waits::audit(tables);
}

/// What each execution owns, sorted out once.
struct Own<'a> {
    events: BTreeMap<ExecutionId, Vec<&'a EventKind>>,
    attempts: BTreeMap<ExecutionId, usize>,
}

impl<'a> Own<'a> {
    fn of(tables: &'a Tables) -> Self {
        let mut own = Self { events: BTreeMap::new(), attempts: BTreeMap::new() };
        for event in tables.events.values() {
            if let Some(id) = event.execution {
                own.events.entry(id).or_default().push(&event.kind);
            }
        }
        for (id, _) in tables.attempts.keys() {
            *own.attempts.entry(*id).or_default() += 1;
        }
        own
    }
}

/// Every ending is one completion event; a replay takes one back.
fn check_endings(own: &Own<'_>, x: &ff_core::Execution) {
    let (mut ended, mut replayed) = (0, 0);
    for kind in own.events.get(&x.id).into_iter().flatten() {
        match kind {
            EventKind::Completion { .. } => ended += 1,
            EventKind::Replayed { .. } => replayed += 1,
            EventKind::AttemptFailed { .. }
            | EventKind::LeaseExpired { .. }
            | EventKind::LeaseRevoked { .. }
            | EventKind::LeaseReclaimed { .. }
            | EventKind::PriorityChanged { .. }
            | EventKind::Suspended { .. }
            | EventKind::Signal { .. }
            | EventKind::Resumed { .. }
            | EventKind::Escalated
            | EventKind::Held { .. }
            | EventKind::Unheld
            | EventKind::FlowCancelRequested { .. }
            | EventKind::FlowEnded { .. }
            | EventKind::FlowReopened => {}
        }
    }
    let terminal = usize::from(matches!(x.state, State::Terminal(_)));
    assert_eq!(ended, replayed + terminal, "{}: one completion event per ending", x.id);
    assert_eq!(replayed, usize::try_from(x.counts.replays).expect("a small count"), "{}", x.id);
    let current = match &x.state {
        State::Active(_) | State::Suspended(_) => 1,
        State::Terminal(terminal) => usize::from(terminal.attempt.is_some()),
        State::Runnable(runnable) => {
            usize::from(matches!(runnable.next, ff_core::execution::Next::Resume(_)))
        }
    };
    let over = own.attempts.get(&x.id).copied().unwrap_or(0);
    let total = usize::try_from(x.counts.attempts).expect("a small count");
    assert_eq!(over + current, total, "{}: every attempt is kept once", x.id);
}
