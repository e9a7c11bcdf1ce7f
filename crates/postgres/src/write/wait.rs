//! Suspensions, and signals that end them: the rows of their executions say only what these may change,
//! and the rest of what is written there follows from them.
//!
//! Whatever else a write would say sends it another way, where all of it is written.

use std::collections::BTreeMap;

use ff_core::event::{Event, EventKind};
use ff_core::execution::{Active, Attempt, Execution, LeaseEnd, Next, Runnable, State, Suspended};
use ff_core::fold::{LeaseRow, Write};
use ff_core::ids::ExecutionId;
use ff_core::suspension::Suspension;
use ff_core::time::Millis;

use super::lean::goes_on;
use super::{Rows, Signs, event_rows, ready_rows, step_rows, timer_rows};
use crate::codec::{Composite, Params, ToWrite};
use crate::connection::Step;
use crate::statements::hot;
use crate::waits::{Hot, signals, suspensions, waitpoints};

/// An execution that is suspended.
struct Paused<'a> {
    row: &'a ToWrite<'a>,
    /// The lease that this ends.
    lease: &'a LeaseRow,
    /// Where its event stands among the others.
    turn: usize,
}

/// An execution whose wait is over.
struct Told<'a> {
    row: &'a ToWrite<'a>,
    /// What it is now, if somebody has claimed it at once.
    active: Option<&'a Active>,
}

impl Rows<'_> {
    /// The statement that suspends what was updated, if that is all.
    pub(super) fn suspend<'a>(
        &'a self,
        waits: &Hot<'_>,
        signs: Option<&'a Signs>,
    ) -> Option<Step<'a>> {
        let set = self.set;
        let count = self.updated.len();
        let alone = waits.waitpoints.is_empty()
            && waits.signals.is_empty()
            && set.ready.insert.is_empty()
            && set.timers.remove.is_empty()
            && [waits.suspensions.len(), set.leases.len(), set.events.len()] == [count; 3];
        if !alone {
            return None;
        }
        let at = set.executions.first()?.after.as_ref()?.updated_at;
        let mut paused = Vec::with_capacity(count);
        let writes = set.executions.iter().zip(&set.leases).zip(self.turns());
        for (row, ((write, lease), (turn, event))) in self.updated.iter().zip(writes) {
            let (before, after) = write.before.as_ref().zip(write.after.as_ref())?;
            let ended = lease.before.as_ref().filter(|_| lease.after.is_none())?;
            let suspended = suspended(before, after)?;
            let kind = EventKind::Suspended {
                attempt_index: suspended.attempt.index,
                reason: suspended.reason,
            };
            let follows = (after.version, after.epoch) == (before.version + 1, ended.epoch + 1)
                && after.updated_at == at
                && ended.execution == after.id;
            if !(follows && tells(event, after, at) && event.kind == kind) {
                return None;
            }
            paused.push(Paused { row, lease: ended, turn });
        }
        let rows = Composite::of(&paused, |Paused { row, lease, turn }, r| {
            let x = &row.row;
            r.id(row.id);
            r.tid(row.at);
            r.long(row.before);
            r.long(x.epoch);
            r.long(x.wait_until_ms);
            r.text(x.wait_reason);
            r.long(x.attempt_ran_ms);
            r.uuid(Some(lease.lease.claim_id));
            r.long(lease.lease.until.0);
            r.int(i64::try_from(*turn).unwrap_or(i64::MAX));
        });
        let params = Params::new().rows("ff_suspended_row", rows).count(count).number(at.0);
        let params = step_rows(params, &set.steps)
            .rows("ff_suspension_row", suspensions(waits.suspensions))
            .rows("ff_waitpoint_row", waitpoints(waits.opened));
        Some(Step::Run(hot::suspend, signing(timer_rows(params, &set.timers.insert), signs)))
    }

    /// The statement that ends the waits of what was updated, if that is all.
    pub(super) fn tell<'a>(
        &'a self,
        waits: &Hot<'_>,
        signs: Option<&'a Signs>,
    ) -> Option<Step<'a>> {
        let set = self.set;
        let count = self.updated.len();
        let alone = waits.opened.is_empty()
            && set.steps.is_empty()
            && set.timers.insert.is_empty()
            && waits.suspensions.len() == count
            && set.waits.suspensions.iter().all(ends);
        if !alone {
            return None;
        }
        let at = set.executions.first()?.after.as_ref()?.updated_at;
        let mut granted = set.leases.iter().map(granted).collect::<Option<BTreeMap<_, _>>>()?;
        let mut told = Vec::with_capacity(count);
        for (row, write) in self.updated.iter().zip(&set.executions) {
            let (before, after) = write.before.as_ref().zip(write.after.as_ref())?;
            let active = match &after.state {
                State::Active(active) => Some(active),
                State::Runnable(_) | State::Suspended(_) | State::Terminal(_) => None,
            };
            let own = match (active, granted.remove(&after.id)) {
                (None, None) => after.epoch == before.epoch,
                (Some(active), Some(lease)) => {
                    let same = lease.lease == active.lease && lease.epoch == after.epoch;
                    same && (active.lease.acquired_at, active.lease.renewed_at) == (at, at)
                }
                (None, Some(_)) | (Some(_), None) => false,
            };
            if !(own && after.updated_at == at && resumes(before, after)) {
                return None;
            }
            told.push(Told { row, active });
        }
        if !granted.is_empty() {
            return None;
        }
        let rows = Composite::of(&told, |Told { row, active }, r| {
            let x = &row.row;
            r.id(row.id);
            r.long(row.before);
            r.long(x.version);
            r.long(x.epoch);
            r.text(Some(x.phase));
            r.text(x.next_attempt);
            r.text(x.lease_end);
            r.text(x.worker_id);
            r.text(x.worker_instance_id);
            r.uuid(row.claim);
            r.bool(x.resumed);
            r.long(x.timeout_at_ms);
            r.long(active.map(|active| active.lease.until.0));
            r.long(active.map(|active| active.lease.check_at.0));
        });
        let params = Params::new()
            .rows("ff_told_row", rows)
            .count(count)
            .number(at.0)
            .rows("ff_suspension_row", suspensions(waits.suspensions))
            .rows("ff_waitpoint_row", waitpoints(waits.waitpoints))
            .rows("ff_signal_row", signals(waits.signals));
        let params = timer_rows(ready_rows(params, &set.ready.insert), &set.timers.remove);
        let params = event_rows(params, self.event_rows());
        Some(Step::Run(hot::tell, signing(params, signs)))
    }
}

/// Adds the key that signs, and since when.
pub(super) fn signing<'a>(params: Params<'a>, signs: Option<&'a Signs>) -> Params<'a> {
    let params = params.text(signs.map(|(kid, _)| kid.as_str()));
    params.number(signs.map_or(0, |(_, since)| since.0))
}

/// Whether `event` is of `x`, now.
fn tells(event: &Event, x: &Execution, at: Millis) -> bool {
    let Event { execution, flow, namespace, lane, at: when, kind: _ } = event;
    (*execution, *flow, *when) == (Some(x.id), x.flow(), at)
        && *namespace == x.spec.namespace
        && lane.as_ref() == Some(&x.spec.lane)
}

/// Whether a suspension ends, and nothing else about it changes.
fn ends(Write { before, after }: &Write<Suspension>) -> bool {
    let both = before.as_ref().zip(after.as_ref());
    both.is_some_and(|(before, after)| {
        *after == Suspension { end: after.end.clone(), ..before.clone() }
    })
}

fn granted(write: &Write<LeaseRow>) -> Option<(ExecutionId, &LeaseRow)> {
    let row = write.after.as_ref().filter(|_| write.before.is_none())?;
    Some((row.execution, row))
}

/// What it waits for, if its holder suspended it and nothing else changed.
fn suspended<'a>(before: &Execution, after: &'a Execution) -> Option<&'a Suspended> {
    // Whatever is not named here would be lost.
    let State::Active(active) = &before.state else { return None };
    let Active { attempt: held, lease: _, resumed: _, timeout_at: _ } = active;
    let State::Suspended(suspended) = &after.state else { return None };
    let Suspended { attempt, reason: _, deadline: _, missed, last_lease } = suspended;
    let paused = Attempt { ran_ms: attempt.ran_ms, ..held.clone() };
    let same = *attempt == paused && missed.is_none() && *last_lease == Some(LeaseEnd::Suspended);
    (same && goes_on(before, after)).then_some(suspended)
}

/// Whether its wait ended, and nothing else changed.
fn resumes(before: &Execution, after: &Execution) -> bool {
    // Whatever is not named here would be lost.
    let State::Suspended(suspended) = &before.state else { return false };
    let Suspended { attempt: paused, reason: _, deadline: _, missed: _, last_lease: _ } = suspended;
    let same = match &after.state {
        State::Runnable(runnable) => {
            let Runnable { next, wait, hold, gated, last_lease: _ } = runnable;
            let free = wait.is_none() && hold.is_none() && !gated;
            free && matches!(next, Next::Resume(attempt) if attempt == paused)
        }
        State::Active(Active { attempt, lease: _, resumed: _, timeout_at: _ }) => {
            *attempt == Attempt { worker: attempt.worker.clone(), ..paused.clone() }
        }
        State::Suspended(_) | State::Terminal(_) => false,
    };
    same && goes_on(before, after)
}
