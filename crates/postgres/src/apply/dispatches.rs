//! Ends of members that this process has written and that their flows are to be told: whoever
//! commits them need not ask the database for them.
//!
//! Nothing rests on it. What is handed out is forgotten, and what is forgotten stands in its table
//! until it is done: others find it there, and so does this process, which looks there whenever it
//! remembers nothing, and every [`PERIOD`] while there is always something.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use ff_core::flow::Dispatch;
use ff_core::fold::Delta;
use ff_core::ids::{ExecutionId, FlowId};
use ff_core::time::Millis;

/// Ends remembered; those beyond are left to the table.
const ENDS_MAX: usize = 10_000;
/// How long ends that nobody remembers, because their process is gone, may wait behind those that
/// somebody does.
const PERIOD: Duration = Duration::from_secs(1);

/// Ends of members that their flows are to be told.
#[derive(Default)]
pub struct Dispatches(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    /// In the order in which the table hands them out.
    ends: BTreeMap<(Millis, ExecutionId), FlowId>,
    /// Since when ends were handed out without asking the table.
    unasked: Option<Instant>,
}

impl Dispatches {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().expect("no holder of this lock panics")
    }

    /// Some were written, and some were told or taken back.
    pub fn learn(&self, delta: &Delta<Dispatch>) {
        if delta.remove.is_empty() && delta.insert.is_empty() {
            return;
        }
        let mut inner = self.lock();
        for row in &delta.remove {
            inner.ends.remove(&(row.at, row.execution));
        }
        for row in &delta.insert {
            if inner.ends.len() < ENDS_MAX {
                inner.ends.insert((row.at, row.execution), row.flow);
            }
        }
    }

    /// The oldest of those that are remembered, at most `limit`. None when the table is to be
    /// asked.
    pub fn take(&self, limit: usize) -> Vec<(FlowId, ExecutionId)> {
        let mut inner = self.lock();
        if inner.ends.is_empty() {
            return Vec::new();
        }
        let unasked = *inner.unasked.get_or_insert_with(Instant::now);
        if unasked.elapsed() >= PERIOD {
            return Vec::new();
        }
        let mut taken = Vec::new();
        while taken.len() < limit
            && let Some(((_, execution), flow)) = inner.ends.pop_first()
        {
            taken.push((flow, execution));
        }
        taken
    }

    /// The table was asked and said these: they are not handed out again.
    pub fn asked(&self, said: &[(Millis, ExecutionId)]) {
        let mut inner = self.lock();
        inner.unasked = None;
        for end in said {
            inner.ends.remove(end);
        }
    }
}
