//! The model's suspensions: the same rows that a database has, as maps.

use ff_core::backend::WorkFilter;
use ff_core::command::Command;
use ff_core::decide::waitpoint_expiry::ExpireWaitpoint;
use ff_core::execution::State;
use ff_core::fold::{WaitKey, WaitSet, WaitWrites, Write};
use ff_core::ids::ExecutionId;
use ff_core::query::{After, Listing, Page, Query, Rows};
use ff_core::suspension::{
    CloseReason, Suspension, SuspensionEnd, Waitpoint, WaitpointState, WaitpointWord,
};
use ff_core::time::Millis;

use super::store::{Tables, cut};

impl Tables {
    pub(super) fn load_waits(&self, key: &WaitKey, have: &mut WaitSet) {
        match key {
            WaitKey::Suspension(id) => {
                have.suspensions.insert(*id, self.suspensions.get(id).cloned());
            }
            WaitKey::Waitpoints(id) => {
                have.gathered.insert(*id);
                have.load_waitpoints(self.open_waitpoints(*id).cloned());
            }
            WaitKey::Waitpoint(id, waitpoint) => {
                let at = (*id, *waitpoint);
                have.waitpoints.insert(at, self.waitpoints.get(&at).cloned());
            }
            WaitKey::Received(id) => {
                let last = self.signals.range((*id, 0)..=(*id, u32::MAX)).next_back();
                have.received.insert(*id, last.map_or(0, |((_, number), _)| number + 1));
            }
            WaitKey::Arrived(id) => {
                let open: Vec<_> = self.open_waitpoints(*id).map(|row| row.id).collect();
                let own = self.signals.range((*id, 0)..=(*id, u32::MAX)).map(|(_, row)| row);
                let own = own.filter(|row| row.effect.may_count() && open.contains(&row.waitpoint));
                have.arrived.insert(*id, own.map(|row| (row.number, row.arrival())).collect());
            }
            WaitKey::Signal(id, signal) => {
                let mut own = self.signals.range((*id, 0)..=(*id, u32::MAX));
                have.signals.insert((*id, *signal), own.any(|(_, row)| row.id == *signal));
            }
            WaitKey::SignalKey(id, waitpoint, key) => {
                let own = self.signals.range((*id, 0)..=(*id, u32::MAX)).rev();
                let mut own = own.map(|(_, row)| row).filter(|row| row.waitpoint == *waitpoint);
                let last = own.find(|row| row.idempotency_key.as_ref() == Some(key));
                let last = last.and_then(|row| Some((row.id, row.dedup_until?)));
                have.keyed.insert((*id, *waitpoint, key.clone()), last);
            }
            WaitKey::SuspendKey(id, key) => {
                let at = (*id, key.clone());
                let row = self.suspend_keys.get(&at).cloned();
                have.suspend_keys.insert(at, row);
            }
            WaitKey::Keyring => have.keyring = Some(self.keyring.clone()),
        }
    }

    fn open_waitpoints(&self, id: ExecutionId) -> impl Iterator<Item = &Waitpoint> {
        let own = self.waitpoints.values().filter(move |row| row.execution == id);
        own.filter(|row| row.state.word() != WaitpointWord::Closed)
    }

    pub(super) fn write_waits(&mut self, set: WaitWrites) {
        for Write { before, after } in &set.suspensions {
            let stored = after.as_ref().and_then(|row| self.suspensions.get(&row.execution));
            assert_eq!(stored, before.as_ref(), "a suspension is written as it was read");
        }
        for Write { before, after } in &set.waitpoints {
            let row = after.as_ref().map(|row| (row.execution, row.id));
            let stored = row.and_then(|at| self.waitpoints.get(&at));
            assert_eq!(stored, before.as_ref(), "a waitpoint is written as it was read");
        }
        for (id, at) in set.left {
            self.leave(id, at);
        }
        for row in set.suspensions.into_iter().filter_map(|write| write.after) {
            self.suspensions.insert(row.execution, row);
        }
        for row in set.waitpoints.into_iter().filter_map(|write| write.after) {
            self.waitpoints.insert((row.execution, row.id), row);
        }
        for signal in set.signals {
            let before = self.signals.insert((signal.execution, signal.number), signal);
            assert_eq!(before, None, "a signal is kept once");
        }
        for row in set.suspend_keys {
            self.suspend_keys.insert((row.execution, row.key.clone()), row);
        }
        for change in set.keys {
            self.keyring.apply(change);
        }
    }

    /// Closes what an execution waited at when it ended.
    fn leave(&mut self, id: ExecutionId, at: Millis) {
        let how = CloseReason::Cancelled;
        if let Some(row) = self.suspensions.get_mut(&id) {
            row.end.get_or_insert(SuspensionEnd { at, how, by: Vec::new() });
        }
        for row in self.waitpoints.values_mut().filter(|row| row.execution == id) {
            if row.state.word() == WaitpointWord::Active {
                *row = row.closed(at, how);
            }
        }
    }

    /// When pending waitpoints expire.
    pub(super) fn expiring_waitpoints(&self) -> Vec<(Millis, ExecutionId, uuid::Uuid)> {
        let pending = |row: &Waitpoint| match row.state {
            WaitpointState::Pending { expires_at } => Some((expires_at, row.execution, row.id)),
            WaitpointState::Active { .. } | WaitpointState::Closed { .. } => None,
        };
        let mut rows: Vec<_> = self.waitpoints.values().filter_map(pending).collect();
        rows.sort_unstable();
        rows
    }

    pub(super) fn expired_waitpoints(&self, filter: &WorkFilter) -> Vec<(Millis, Command)> {
        let rows = self.expiring_waitpoints().into_iter();
        let own = rows.filter(|(_, id, _)| self.serves(*id, filter));
        own.map(|(at, id, waitpoint)| (at, ExpireWaitpoint { id, waitpoint }.into())).collect()
    }

    /// Whether signals may arrive at a waitpoint.
    fn listens(&self, row: &Waitpoint) -> bool {
        let Some(x) = self.executions.get(&row.execution) else { return false };
        match row.state.word() {
            WaitpointWord::Pending => !matches!(x.state, State::Terminal(_)),
            WaitpointWord::Active => matches!(x.state, State::Suspended(_)),
            WaitpointWord::Closed => false,
        }
    }

    fn suspension_of(&self, row: &Waitpoint) -> Option<Suspension> {
        let own = self.suspensions.get(&row.execution)?;
        (Some(own.id) == row.suspension).then(|| own.clone())
    }

    pub(super) fn list_waits(&self, query: &Query, page: &Page) -> Listing {
        let after = |place: &After| page.after.as_ref().is_none_or(|from| place > from);
        match query {
            Query::Waitpoints(of) => {
                let all = self.waitpoints.values().filter(|row| self.listens(row));
                let own = all.filter(|row| of.is_none_or(|id| id == row.execution));
                let rows = own.map(|row| {
                    let place = After::Within(row.id, row.execution);
                    (place, (row.clone(), self.suspension_of(row)))
                });
                let mut rows: Vec<_> = rows.filter(|(place, _)| after(place)).collect();
                rows.sort_by(|a, b| a.0.cmp(&b.0));
                cut(rows, page, Rows::Waitpoints)
            }
            Query::Suspended(search) => {
                let all = self.suspensions.values().filter_map(|row| {
                    let x = self.executions.get(&row.execution).filter(|x| row.is_open(x))?;
                    search.matches(x, row).then(|| (x.clone(), row.clone()))
                });
                let rows = all.map(|(x, row)| (After::Created(row.since, x.id), (x, row)));
                let mut rows: Vec<_> = rows.filter(|(place, _)| after(place)).collect();
                rows.sort_by(|a, b| a.0.cmp(&b.0));
                cut(rows, page, Rows::Suspended)
            }
            Query::Signals(id) => {
                let own = self.signals.range((*id, 0)..=(*id, u32::MAX));
                let rows = own.map(|((_, number), row)| (After::Number(*number), row.clone()));
                cut(rows.filter(|(place, _)| after(place)).collect(), page, Rows::Signals)
            }
            Query::SomeSignals(id, some) => {
                let own = self.signals.range((*id, 0)..=(*id, u32::MAX)).map(|(_, row)| row);
                let rows = own.filter(|row| some.contains(&row.id)).cloned().collect();
                Listing { rows: Rows::Signals(rows), next: None }
            }
            other => unreachable!("{other:?} is not of suspensions"),
        }
    }
}
