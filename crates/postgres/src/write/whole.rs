//! Batches that one statement writes, which is its own transaction.

use ff_core::fold::{GraphWrites, WaitWrites, WriteSet};
use ff_core::text::Kid;
use ff_core::time::Millis;

use super::{
    Rows, event_rows, executions, kept_until, leases, new_executions, payloads, ready_rows, renews,
    step_rows, timer_rows,
};
use crate::codec::{Params, ToWrite};
use crate::connection::Step;
use crate::statements::hot;
use crate::waits::{signals, suspensions, waitpoints};

/// The key that signs, and since when.
pub type Signs = (Kid, Millis);

impl Rows<'_> {
    /// The one statement that writes everything, where there is one: for creations, claims and
    /// ends of leases that touch nothing else.
    pub fn whole<'a>(&'a self, signs: Option<&'a Signs>) -> Option<Step<'a>> {
        let set = self.set;
        if set.waits != WaitWrites::default() {
            return self.wait(signs);
        }
        let other = has_other(set) || !set.timers.remove.is_empty();
        let (inserted, updated) = (self.inserted.len(), self.updated.len());
        let (before, after) = (
            || set.leases.iter().filter_map(|write| write.before.as_ref()),
            || set.leases.iter().filter_map(|write| write.after.as_ref()),
        );
        let (ended, granted) = (before().count(), after().count());
        let placed = self.updated.iter().all(ToWrite::is_placed);
        let journal = !set.held.is_empty() || !set.steps.is_empty();
        match (inserted, updated, ended, granted) {
            _ if other || !placed || self.alike.is_some() => None, // not ours: a guard, not a variant
            (0, 0, 0, 0) if journal => {
                let only = set.blobs.is_empty() && set.events.is_empty();
                let params = step_rows(self.held(), &set.steps);
                only.then_some(Step::Run(hot::step, params))
            }
            _ if journal => None, // not ours: a guard, not a variant
            (1.., 0, 0, 0)
                if set.ready.remove.is_empty()
                    && set.timers.insert.is_empty()
                    && set.events.is_empty() =>
            {
                let params = payloads(new_executions(&self.inserted), &self.apart);
                Some(Step::Run(hot::create, ready_rows(params, &set.ready.insert)))
            }
            (1.., 0, 0, 1..)
                if set.ready.remove.is_empty()
                    && set.timers.insert.is_empty()
                    && set.events.is_empty() =>
            {
                let params = payloads(new_executions(&self.inserted), &self.apart);
                let params = ready_rows(params, &set.ready.insert);
                Some(Step::Run(hot::start, leases(params, after().map(|row| (row, None)))))
            }
            (0, 1.., 0, 1..) => self.claim(),
            (0, 1.., 1.., 0) if set.ready.remove.is_empty() && !set.events.is_empty() => {
                if let Some(step) = self.complete() {
                    return Some(step);
                }
                let params = executions(&self.updated);
                let params = leases(params, before().map(|row| (row, Some(row))));
                let params = timer_rows(payloads(params, &self.apart), &set.timers.insert);
                let params = ready_rows(event_rows(params, self.event_rows()), &set.ready.insert);
                Some(Step::Run(hot::finish, params.count(updated).count(ended)))
            }
            _ => None, // not ours: counts
        }
    }

    /// The same where executions are suspended or told something, beside others that end.
    fn wait<'a>(&'a self, signs: Option<&'a Signs>) -> Option<Step<'a>> {
        let set = self.set;
        let others = has_other(set)
            || !self.inserted.is_empty()
            || !self.updated.iter().all(ToWrite::is_placed)
            || self.alike.is_some()
            || !self.apart.is_empty()
            || !set.held.is_empty()
            || !set.ready.remove.is_empty()
            || set.timers.remove.iter().any(|timer| kept_until(timer).is_some())
            || set.leases.iter().any(renews);
        let waits = self.waits.hot().filter(|_| !others)?;
        let ended = || set.leases.iter().filter_map(|write| write.before.as_ref());
        let granted = set.leases.iter().filter_map(|write| write.after.as_ref());
        let params = leases(executions(&self.updated), ended().map(|row| (row, Some(row))));
        let params = step_rows(leases(params, granted.map(|row| (row, None))), &set.steps)
            .rows("ff_suspension_row", suspensions(waits.suspensions))
            .rows("ff_waitpoint_row", waitpoints(waits.opened))
            .rows("ff_waitpoint_row", waitpoints(waits.waitpoints))
            .rows("ff_signal_row", signals(waits.signals));
        let params = timer_rows(ready_rows(params, &set.ready.insert), &set.timers.insert);
        let params = event_rows(params, self.event_rows()).count(self.updated.len());
        let params: Params<'a> = timer_rows(params.count(ended().count()), &set.timers.remove);
        let params = params.text(signs.map(|(kid, _)| kid.as_str()));
        Some(Step::Run(hot::wait, params.number(signs.map_or(0, |(_, since)| since.0))))
    }

    /// Whatever writes everything.
    pub fn fewest(&self) -> Vec<Step<'_>> {
        self.whole(None).map_or_else(|| self.steps(), |step| vec![step])
    }
}

/// Whether there is something to write that no statement writes together with executions.
fn has_other(set: &WriteSet) -> bool {
    !set.removed.is_empty()
        || !set.keys.is_empty()
        || !set.cleared.is_empty()
        || !set.consumers.is_empty()
        || !set.attempts.is_empty()
        || !set.queues.is_empty()
        || !set.tags.remove.is_empty()
        || !set.tags.insert.is_empty()
        || set.graph != GraphWrites::default()
}
