//! Rows that follow from executions: places in queues, timers, leases and tags.

use std::collections::BTreeSet;

use super::{Delta, LeaseRow, Write, WriteSet};
use crate::execution::{Execution, LeaseEnd, State};
use crate::index::{self, TagRow, Timer, TimerKind};
use crate::time::Millis;

impl WriteSet {
    /// Whether a lease is taken away from its holder.
    pub fn takes_leases(&self) -> bool {
        let held = |x: &Execution| matches!(x.state, State::Active(_));
        let ended = |x: &Execution| match &x.state {
            State::Runnable(runnable) => runnable.last_lease,
            State::Suspended(suspended) => suspended.last_lease,
            State::Terminal(terminal) => terminal.last_lease,
            State::Active(_) => None,
        };
        let by_others = |end: LeaseEnd| match end {
            LeaseEnd::Cancelled | LeaseEnd::Expired | LeaseEnd::Revoked => true,
            LeaseEnd::Completed
            | LeaseEnd::Failed
            | LeaseEnd::Delayed
            | LeaseEnd::Waiting
            | LeaseEnd::Suspended
            | LeaseEnd::Released => false,
        };
        self.executions.iter().any(|Write { before, after }| {
            before.as_ref().is_some_and(held)
                && after.as_ref().and_then(ended).is_some_and(by_others)
        })
    }
}

/// Adds the difference between the derived rows of `before` and `after`.
pub(super) fn derive(
    before: Option<&Execution>,
    after: Option<&Execution>,
    now: Millis,
    set: &mut WriteSet,
) {
    let (was, is) = (before.and_then(index::place), after.and_then(index::place));
    if was != is {
        let delay = |place: index::Place, due| Timer {
            kind: TimerKind::Delay,
            due,
            execution: place.ready.execution,
            ready: Some(place.ready),
        };
        if let Some(place) = was {
            set.ready.remove.push(place.ready);
            // It stands in one of the two tables: whether it was promoted is not on the row.
            set.timers.remove.extend(place.from.map(|due| delay(place, due)));
        }
        if let Some(place) = is {
            match place.from {
                Some(due) if due > now => set.timers.insert.push(delay(place, due)),
                Some(_) | None => set.ready.insert.push(place.ready),
            }
        }
    }
    let (was, is) = (before.and_then(LeaseRow::of), after.and_then(LeaseRow::of));
    if was != is {
        set.leases.push(Write { before: was, after: is });
    }
    let rows = |x: Option<&Execution>| -> BTreeSet<Timer> {
        x.into_iter().flat_map(index::timers).collect()
    };
    difference(&rows(before), &rows(after), &mut set.timers);
    let rows = |x: Option<&Execution>| -> BTreeSet<TagRow> {
        x.into_iter().flat_map(index::tags).collect()
    };
    difference(&rows(before), &rows(after), &mut set.tags);
}

fn difference<T: Ord + Clone>(was: &BTreeSet<T>, is: &BTreeSet<T>, delta: &mut Delta<T>) {
    delta.remove.extend(was.difference(is).cloned());
    delta.insert.extend(is.difference(was).cloned());
}

/// What is written is checked by being written: only leases that are not need to be held, each
/// once and in order.
pub(super) fn hold_unwritten(set: &mut WriteSet) {
    if set.held.is_empty() {
        return;
    }
    let executions = set.executions.iter().filter_map(|write| write.before.as_ref().map(|x| x.id));
    let leases = set.leases.iter().filter_map(|write| Some(write.before.as_ref()?.execution));
    let written: BTreeSet<_> = executions.chain(leases).collect();
    set.held.retain(|row| !written.contains(&row.execution));
    set.held.sort_by_key(|row| row.execution);
    set.held.dedup_by_key(|row| row.execution);
}
