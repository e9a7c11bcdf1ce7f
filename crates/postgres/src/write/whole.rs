//! Batches that one statement writes, which is its own transaction.

use ff_core::fold::{GraphWrites, WaitWrites, WriteSet};
use ff_core::text::Kid;
use ff_core::time::Millis;

use super::{
    Rows, event_rows, kept_until, leases, payloads, ready_rows, renews, step_rows, timer_rows,
};
use crate::codec::{Params, ToWrite, inserts, updates};
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
        let plain = set.timers.insert.is_empty() && set.events.is_empty();
        match (inserted, updated, ended, granted) {
            _ if other || !placed || self.alike.is_some() => None, // not ours: a guard, not a variant
            (0, 0, 0, 0) if journal => {
                let only = set.blobs.is_empty() && set.events.is_empty();
                only.then(|| Step::Run(hot::step, self.held().rows(step_rows(&set.steps))))
            }
            _ if journal => None, // not ours: a guard, not a variant
            (1.., 0, 0, _) if set.ready.remove.is_empty() && plain => {
                let params = Params::new()
                    .rows(inserts(&self.inserted))
                    .rows(payloads(&self.apart))
                    .rows(ready_rows(&set.ready.insert));
                if granted == 0 {
                    return Some(Step::Run(hot::create, params));
                }
                let leased = leases(after().map(|row| (row, None)));
                Some(Step::Run(hot::start, params.rows(leased)))
            }
            (0, 1.., 0, 1..) => self.claim(),
            (0, 1.., 1.., 0) if set.ready.remove.is_empty() && !set.events.is_empty() => {
                if let Some(step) = self.complete() {
                    return Some(step);
                }
                let params = Params::new()
                    .rows(updates(&self.updated))
                    .rows(leases(before().map(|row| (row, Some(row)))))
                    .rows(payloads(&self.apart))
                    .rows(timer_rows(&set.timers.insert))
                    .rows(event_rows(self.event_rows()))
                    .rows(ready_rows(&set.ready.insert));
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
        let params = Params::new()
            .rows(updates(&self.updated))
            .rows(leases(ended().map(|row| (row, Some(row)))))
            .rows(leases(granted.map(|row| (row, None))))
            .rows(step_rows(&set.steps))
            .rows(suspensions(waits.suspensions))
            .rows(waitpoints(waits.opened))
            .rows(waitpoints(waits.waitpoints))
            .rows(signals(waits.signals))
            .rows(ready_rows(&set.ready.insert))
            .rows(timer_rows(&set.timers.insert))
            .rows(event_rows(self.event_rows()))
            .count(self.updated.len())
            .count(ended().count())
            .rows(timer_rows(&set.timers.remove))
            .text(signs.map(|(kid, _)| kid.as_str()))
            .number(signs.map_or(0, |(_, since)| since.0));
        Some(Step::Run(hot::wait, params))
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
