//! Claims and completions, which most writes are: their rows say only what these may change, and the
//! rest of what is written follows from them.
//!
//! Whatever else a write would say sends it another way, where all of it is written.

use ff_core::event::{Event, EventKind};
use ff_core::execution::{
    Active, Attempt, Counts, Ending, Execution, Facts, LeaseEnd, State, Terminal,
};
use ff_core::fold::{LeaseRow, Write};
use ff_core::state::TerminalOutcome;

use super::{Rows, kept_until};
use crate::codec::{Composite, Params, Tid, ToWrite, here};
use crate::connection::Step;
use crate::statements::hot;

/// An execution that is claimed.
struct Claimed<'a> {
    row: &'a ToWrite<'a>,
    active: &'a Active,
    place: Tid,
}

/// An execution that is completed.
struct Completed<'a> {
    row: &'a ToWrite<'a>,
    /// The lease that this ends.
    lease: &'a LeaseRow,
    /// Where its event stands among the others.
    turn: usize,
}

impl Rows<'_> {
    /// The statement that leases what was updated, if that is all.
    pub(super) fn claim(&self) -> Option<Step<'_>> {
        let set = self.set;
        let alone = set.blobs.is_empty()
            && set.ready.insert.is_empty()
            && set.timers.insert.is_empty()
            && set.events.is_empty()
            && set.ready.remove.len() == self.updated.len()
            && set.leases.len() == self.updated.len();
        if !alone {
            return None;
        }
        let claims = self.updated.iter().zip(&set.executions).zip(&set.leases);
        let claims = claims.map(|((row, write), lease)| self.claimed(row, write, lease));
        let claims = claims.collect::<Option<Vec<_>>>()?;
        let rows = Composite::of("ff_claim_row", &claims, |Claimed { row, active, place }, r| {
            let x = &row.row;
            r.id(row.id);
            r.tid(row.at);
            r.tid(Some(*place));
            r.long(row.before);
            r.long(x.version);
            r.long(x.epoch);
            r.int(x.attempts);
            r.int(x.progress_percent);
            r.text(x.progress_message);
            r.long(x.progress_at_ms);
            r.long(x.started_at_ms);
            r.long(x.updated_at_ms);
            r.int(x.attempt_index);
            r.text(x.attempt_kind);
            r.text(x.worker_id);
            r.text(x.worker_instance_id);
            r.long(x.attempt_started_at_ms);
            r.long(x.attempt_ran_ms);
            r.uuid(row.claim);
            r.bool(x.resumed);
            r.long(x.timeout_at_ms);
            r.text(x.failure_reason);
            r.text(x.failure_category);
            r.long(active.lease.until.0);
            r.long(active.lease.check_at.0);
        });
        let params = Params::new().rows(rows).count(claims.len());
        Some(Step::Run(hot::claim, params))
    }

    fn claimed<'a>(
        &self,
        row: &'a ToWrite<'a>,
        Write { before, after }: &'a Write<Execution>,
        lease: &Write<LeaseRow>,
    ) -> Option<Claimed<'a>> {
        let (before, after) = before.as_ref().zip(after.as_ref())?;
        let State::Active(active) = &after.state else { return None };
        let granted = lease.after.as_ref().filter(|_| lease.before.is_none())?;
        let at = after.updated_at;
        let own = granted.execution == after.id
            && granted.epoch == after.epoch
            && granted.lease == active.lease
            && (active.lease.acquired_at, active.lease.renewed_at) == (at, at);
        let Counts { attempts: _, retries, reclaims, replays } = after.counts;
        let old = before.counts;
        let counts = (retries, reclaims, replays) == (old.retries, old.reclaims, old.replays);
        let place = self.places.ready.get(&after.id).copied()?;
        (own && counts && keeps(before, after)).then_some(Claimed { row, active, place })
    }

    /// The events by execution, each with where it stands among the others.
    fn turns(&self) -> impl Iterator<Item = (usize, &Event)> {
        let mut turns: Vec<_> = self.set.events.iter().enumerate().collect();
        turns.sort_unstable_by_key(|(_, event)| event.execution);
        turns.into_iter()
    }

    /// The statement that completes what was updated, if that is all.
    pub(super) fn complete(&self) -> Option<Step<'_>> {
        let set = self.set;
        let count = self.updated.len();
        let alone = self.apart.is_empty()
            && set.ready.insert.is_empty()
            && set.ready.remove.is_empty()
            && set.timers.remove.is_empty()
            && [set.timers.insert.len(), set.leases.len(), set.events.len()] == [count; 3];
        if !alone {
            return None;
        }
        let at = set.executions.first()?.after.as_ref()?.updated_at;
        let mut kept: Vec<_> = set.timers.insert.iter().collect();
        kept.sort_unstable_by_key(|timer| timer.execution);
        let mut done = Vec::with_capacity(count);
        let writes = set.executions.iter().zip(&set.leases).zip(self.turns().zip(kept));
        for (row, ((write, lease), ((turn, event), timer))) in self.updated.iter().zip(writes) {
            let (before, after) = write.before.as_ref().zip(write.after.as_ref())?;
            let ended = lease.before.as_ref().filter(|_| lease.after.is_none())?;
            let Terminal { retain_until, .. } = completed(before, after)?;
            let result = row.result();
            let follows = (after.version, after.epoch) == (before.version + 1, ended.epoch + 1)
                && after.updated_at == at
                && row.row.has_result == Some(result.is_some())
                && result.is_none_or(|result| Some(result.attempt) == row.row.attempt_index);
            let told = event.execution == Some(after.id)
                && event.flow.is_none()
                && event.at == after.updated_at
                && event.kind
                    == EventKind::Completion {
                        outcome: TerminalOutcome::Success,
                        attempt_index: row.row.attempt_index.and_then(|n| u32::try_from(n).ok()),
                        reason: None,
                    };
            let later = kept_until(timer) == Some(*retain_until)
                && timer.execution == after.id
                && timer.ready.is_none();
            if !(told && later && follows && ended.execution == after.id) {
                return None;
            }
            done.push(Completed { row, lease: ended, turn });
        }
        let rows =
            Composite::of("ff_completed_row_7", &done, |Completed { row, lease, turn }, r| {
                let x = &row.row;
                r.id(row.id);
                r.tid(row.at);
                r.long(row.before);
                r.long(x.epoch);
                r.long(x.attempt_ran_ms);
                r.long(x.retain_until_ms);
                here(row.result(), r);
                r.long(x.result_digest);
                r.uuid(Some(lease.lease.claim_id));
                r.long(lease.lease.until.0);
                r.int(i64::try_from(*turn).unwrap_or(i64::MAX));
            });
        let params = Params::new().rows(rows).count(done.len()).number(at.0);
        Some(Step::Run(hot::complete, params))
    }
}

/// How it ended, if its holder completed it and nothing else changed.
fn completed<'a>(before: &Execution, after: &'a Execution) -> Option<&'a Terminal> {
    let State::Active(Active { attempt: held, .. }) = &before.state else { return None };
    let State::Terminal(terminal) = &after.state else { return None };
    let Terminal { ending, at, attempt, last_lease, retain_until: _ } = terminal;
    let Attempt { index, kind, worker, started_at, ran_ms: _, after: failure } =
        attempt.as_ref()?;
    let same = matches!(ending, Ending::Success { .. })
        && *last_lease == Some(LeaseEnd::Completed)
        && *at == after.updated_at
        && failure.is_none()
        && (*index, *kind, *started_at) == (held.index, held.kind, held.started_at)
        && *worker == held.worker;
    (same && goes_on(before, after)).then_some(terminal)
}

/// Whether nothing changed but where the execution stands.
fn goes_on(before: &Execution, after: &Execution) -> bool {
    after.counts == before.counts
        && after.progress == before.progress
        && after.started_at == before.started_at
        && keeps(before, after)
}

/// Whether nothing changed but what says where the execution stands, and how far it got.
fn keeps(before: &Execution, after: &Execution) -> bool {
    // Whatever is not named here would be lost.
    let Facts {
        id,
        version: _,
        spec,
        priority,
        tags,
        deadline_at,
        epoch: _,
        counts: _,
        progress: _,
        member,
        input_from,
        started_at: _,
        updated_at: _,
        state: _,
    } = &**after;
    *id == before.id
        && *spec == before.spec
        && *priority == before.priority
        && *tags == before.tags
        && *deadline_at == before.deadline_at
        && *member == before.member
        && *input_from == before.input_from
}
