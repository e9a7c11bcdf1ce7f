//! Many executions that never ran and end alike, as when their flow is cancelled: all their rows get the
//! same words, so these travel once, and their events are made of the rows themselves.

use ff_core::event::{Event, EventKind};
use ff_core::execution::{CancelledBy, Ending, Execution, Facts, Next, Runnable, State, Terminal};
use ff_core::fold::{Write, WriteSet};
use ff_core::state::TerminalOutcome;
use tokio_postgres::types::Type;

use super::{Places, stored};
use crate::codec::{Params, Tid};
use crate::connection::Step;
use crate::statements::hot;

/// From so many on it is worth it.
const ALIKE_MIN: usize = 100;

/// Executions that end alike, with their events.
pub struct Alike<'s> {
    writes: &'s [Write<Execution>],
    by: CancelledBy,
    reason: &'s str,
    /// Where they stand.
    at: Vec<Tid>,
    /// Events of the set that come before theirs.
    pub before: usize,
}

impl<'s> Alike<'s> {
    /// All executions of `set`, and as many of its last events but those that end their flow, if it is
    /// known where they stand.
    pub fn of(set: &'s WriteSet, places: &Places) -> Option<Self> {
        let writes = set.executions.as_slice();
        let after = set.events.iter().rev().take_while(|event| event.execution.is_none()).count();
        let before = set.events.len().checked_sub(after + writes.len())?;
        if writes.len() < ALIKE_MIN || !set.blobs.is_empty() {
            return None;
        }
        let (by, reason) = match &writes.first()?.after.as_ref()?.state {
            State::Terminal(Terminal { ending: Ending::Cancelled { by, reason }, .. }) => {
                (*by, reason.as_str())
            }
            State::Terminal(_) | State::Runnable(_) | State::Active(_) | State::Suspended(_) => {
                return None;
            }
        };
        let place =
            |write: &Write<Execution>| places.executions.get(&write.after.as_ref()?.id).copied();
        let at = writes.iter().map(place).collect::<Option<Vec<_>>>()?;
        let alike = Self { writes, by, reason, at, before };
        let all = writes.iter().zip(&set.events[before..]).all(|(write, event)| {
            let both = write.before.as_ref().zip(write.after.as_ref());
            both.is_some_and(|(before, after)| alike.suits(before, after, event))
        });
        all.then_some(alike)
    }

    fn suits(&self, before: &Execution, after: &Execution, event: &Event) -> bool {
        // Whatever is not named here would be lost.
        let Facts {
            id,
            version,
            spec,
            priority,
            tags,
            deadline_at,
            epoch,
            counts,
            progress,
            member,
            input_from,
            started_at,
            updated_at,
            state,
        } = &**after;
        let fresh = matches!(
            &before.state,
            State::Runnable(Runnable { next: Next::First, last_lease: None, .. })
        );
        let ended = matches!(state, State::Terminal(Terminal {
            ending: Ending::Cancelled { by, reason }, at, attempt: None, last_lease: None, ..
        }) if *by == self.by && reason == self.reason && at == updated_at);
        let kept = *version == before.version + 1
            && *spec == before.spec
            && *priority == before.priority
            && *tags == before.tags
            && *deadline_at == before.deadline_at
            && *epoch == before.epoch
            && *counts == before.counts
            && *progress == before.progress
            && *member == before.member
            && *input_from == before.input_from
            && *started_at == before.started_at;
        let told = event.subject() == *id
            && event.at == *updated_at
            && matches!(&event.kind, EventKind::Completion {
                outcome: TerminalOutcome::Cancelled, attempt_index: None, reason: Some(reason),
            } if reason == self.reason);
        fresh && ended && kept && told
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.writes.len()
    }

    /// The statement that ends them and appends their events.
    pub fn step(&self) -> Step<'s> {
        let (before, after) = (
            || self.writes.iter().filter_map(|write| write.before.as_ref()),
            || self.writes.iter().filter_map(|write| write.after.as_ref()),
        );
        let kept = |x: &Execution| match &x.state {
            State::Terminal(terminal) => terminal.retain_until.0,
            State::Runnable(_) | State::Active(_) | State::Suspended(_) => x.updated_at.0,
        };
        let params = Params::new()
            .ids(after().map(|x| x.id))
            .all(before().map(|x| stored(x.version)), Type::INT8_ARRAY)
            .all(after().map(|x| x.updated_at.0), Type::INT8_ARRAY)
            .all(after().map(kept), Type::INT8_ARRAY)
            .text(Some(self.by.as_str()))
            .text(Some(self.reason))
            .count(self.len())
            .all(self.at.iter().copied(), Type::TID_ARRAY);
        Step::Run(hot::cancel, params)
    }
}
