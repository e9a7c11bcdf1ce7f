//! Writing what a fold decided: one statement for each kind of row, whatever their number.

use ff_core::event::Cursor;
use ff_core::execution::Execution;
use ff_core::fold::{BlobRef, LeaseRow, WriteSet};
use ff_core::index::{Ready, Timer};
use ff_core::row::{AttemptRow, EventRow};
use ff_core::time::Millis;
use tokio_postgres::types::Type;

use crate::codec::{Params, ToWrite, all_columns, mutable_columns, partition};
use crate::connection::Step;
use crate::load::nothing_seen;
use crate::statements::{
    attempt, consumer, event, execution, idempotency, lease, payload, queue, ready, tag, timer,
};

/// The rows of a write set, flattened, for the statements to borrow.
pub struct Rows<'s> {
    set: &'s WriteSet,
    now: Millis,
    inserted: Vec<ToWrite>,
    updated: Vec<ToWrite>,
    versions: Vec<i64>,
    attempts: Vec<AttemptRow>,
    events: Vec<EventRow>,
    capabilities: Vec<String>,
}

impl<'s> Rows<'s> {
    /// Flattens `set`, which was decided at `now`.
    pub fn new(set: &'s WriteSet, now: Millis) -> Self {
        let (mut inserted, mut updated, mut versions) = (Vec::new(), Vec::new(), Vec::new());
        for write in &set.executions {
            match (&write.before, &write.after) {
                (None, Some(after)) => inserted.push(ToWrite::from(after)),
                (Some(before), Some(after)) => {
                    updated.push(ToWrite::from(after));
                    versions.push(version(before));
                }
                // Removed: that is the first thing written.
                (_, None) => {}
            }
        }
        let json =
            |capabilities| serde_json::to_string(capabilities).expect("a set of texts is JSON");
        Self {
            set,
            now,
            inserted,
            updated,
            versions,
            attempts: set.attempts.iter().map(AttemptRow::from).collect(),
            events: set.events.iter().map(EventRow::from).collect(),
            capabilities: set.queues.iter().map(|queue| json(&queue.capabilities)).collect(),
        }
    }

    /// The statements, in the order that [`WriteSet`] fixes, except that delays go before places
    /// in a queue: whoever promotes holds the delay, and has filed the place once it lets go.
    /// Every guard comes before the feed, so that a guard that fails costs no number.
    pub fn steps(&self) -> Vec<Step<'_>> {
        let mut steps = Vec::new();
        self.removals(&mut steps);
        if !self.inserted.is_empty() {
            steps.push(Step::Run(execution::insert, all_columns(&self.inserted)));
        }
        if !self.updated.is_empty() {
            let versions = self.versions.iter().copied();
            let params = mutable_columns(&self.updated).all(versions, Type::INT8_ARRAY);
            steps.push(Step::Run(execution::put, params.count(self.updated.len())));
        }
        self.leases(&mut steps);
        self.keys(&mut steps);
        self.consumers(&mut steps);
        self.attempts_and_blobs(&mut steps);
        self.queues(&mut steps);
        self.places(&mut steps);
        self.tags(&mut steps);
        self.events(&mut steps);
        steps
    }

    fn removals<'a>(&'a self, steps: &mut Vec<Step<'a>>) {
        if self.set.removed.is_empty() {
            return;
        }
        for sql in [execution::remove, payload::remove, attempt::remove, event::remove] {
            steps.push(Step::Run(sql, Params::new().ids(self.set.removed.iter().copied())));
        }
    }

    fn leases<'a>(&'a self, steps: &mut Vec<Step<'a>>) {
        let (mut ended, mut renewed, mut refiled, mut granted) = (vec![], vec![], vec![], vec![]);
        for write in &self.set.leases {
            match (&write.before, &write.after) {
                (Some(before), Some(after)) if before.epoch == after.epoch => {
                    let moved = before.lease.check_at != after.lease.check_at;
                    (if moved { &mut refiled } else { &mut renewed }).push((before, after));
                }
                (before, after) => {
                    ended.extend(before);
                    granted.extend(after);
                }
            }
        }
        if !ended.is_empty() {
            let params = guards(ended.iter().copied()).count(ended.len());
            steps.push(Step::Run(lease::remove, params));
        }
        for (sql, rows) in [(lease::renew, renewed), (lease::refile, refiled)] {
            if rows.is_empty() {
                continue;
            }
            let (ms, count) = (Type::INT8_ARRAY, rows.len());
            let mut params = guards(rows.iter().map(|(before, _)| *before))
                .all(rows.iter().map(|(_, after)| after.lease.renewed_at.0), ms.clone())
                .all(rows.iter().map(|(_, after)| after.lease.until.0), ms.clone());
            if sql == lease::refile {
                params = params.all(rows.iter().map(|(_, after)| after.lease.check_at.0), ms);
            }
            steps.push(Step::Run(sql, params.count(count)));
        }
        if !granted.is_empty() {
            let ms = Type::INT8_ARRAY;
            let params = Params::new()
                .ids(granted.iter().map(|row| row.execution))
                .all(granted.iter().map(|row| stored(row.epoch)), ms.clone())
                .all(granted.iter().map(|row| row.lease.claim_id), Type::UUID_ARRAY)
                .all(granted.iter().map(|row| row.lease.acquired_at.0), ms.clone())
                .all(granted.iter().map(|row| row.lease.renewed_at.0), ms.clone())
                .all(granted.iter().map(|row| row.lease.until.0), ms.clone())
                .all(granted.iter().map(|row| row.lease.check_at.0), ms);
            steps.push(Step::Run(lease::insert, params));
        }
    }

    fn keys<'a>(&'a self, steps: &mut Vec<Step<'a>>) {
        let text = Type::TEXT_ARRAY;
        let put: Vec<_> =
            self.set.keys.iter().filter_map(|(key, row)| Some((key, row.as_ref()?))).collect();
        if !put.is_empty() {
            let params = Params::new()
                .all(put.iter().map(|((namespace, _), _)| namespace.as_str()), text.clone())
                .all(put.iter().map(|((_, key), _)| key.as_str()), text.clone())
                .ids(put.iter().map(|(_, row)| row.execution))
                .all(put.iter().map(|(_, row)| row.fingerprint.0.as_slice()), Type::BYTEA_ARRAY)
                .all(put.iter().map(|(_, row)| row.expires_at.0), Type::INT8_ARRAY);
            let params = params.number(self.now.0).count(put.len());
            steps.push(Step::Run(idempotency::put, params));
        }
        let gone: Vec<_> =
            self.set.keys.iter().filter(|(_, row)| row.is_none()).map(|(key, _)| key).collect();
        if !gone.is_empty() {
            let params = Params::new()
                .all(gone.iter().map(|(namespace, _)| namespace.as_str()), text.clone())
                .all(gone.iter().map(|(_, key)| key.as_str()), text);
            steps.push(Step::Run(idempotency::remove, params.number(self.now.0)));
        }
    }

    fn consumers<'a>(&'a self, steps: &mut Vec<Step<'a>>) {
        let mut put = Vec::new();
        let mut gone = Vec::new();
        for (name, row) in &self.set.consumers {
            match row {
                None => gone.push(name.as_str()),
                Some(row) => {
                    let window = match &row.cursor {
                        Cursor::Window(window) => (**window).clone(),
                        // Others are refused before they get here.
                        Cursor::Start | Cursor::Seq(_) => nothing_seen(),
                    };
                    put.push((name.as_str(), window, row.updated_at));
                }
            }
        }
        if !put.is_empty() {
            let (text, number) = (Type::TEXT_ARRAY, Type::INT8_ARRAY);
            let params = Params::new()
                .all(put.iter().map(|(name, ..)| *name), text.clone())
                .all(put.iter().map(|(_, w, _)| w.base.snapshot.clone()), text.clone())
                .all(put.iter().map(|(_, w, _)| stored(w.base.seq)), number.clone())
                .all(put.iter().map(|(_, w, _)| w.upto.snapshot.clone()), text)
                .all(put.iter().map(|(_, w, _)| stored(w.upto.seq)), number.clone())
                .all(put.iter().map(|(_, w, _)| stored(w.after)), number.clone())
                .all(put.iter().map(|(.., at)| at.0), number);
            steps.push(Step::Run(consumer::put, params));
        }
        if !gone.is_empty() {
            let params = Params::new().all(gone.into_iter(), Type::TEXT_ARRAY);
            steps.push(Step::Run(consumer::remove, params));
        }
    }

    fn attempts_and_blobs<'a>(&'a self, steps: &mut Vec<Step<'a>>) {
        let text = Type::TEXT_ARRAY;
        if !self.attempts.is_empty() {
            let rows = &self.attempts;
            let params = Params::new()
                .ids(self.set.attempts.iter().map(|attempt| attempt.execution))
                .all(rows.iter().map(|a| short(a.attempt_index)), Type::INT4_ARRAY)
                .all(rows.iter().map(|a| a.kind.as_str()), text.clone())
                .all(rows.iter().map(|a| a.worker_id.as_str()), text.clone())
                .all(rows.iter().map(|a| a.worker_instance_id.as_str()), text.clone())
                .all(rows.iter().map(|a| a.started_at_ms), Type::INT8_ARRAY)
                .all(rows.iter().map(|a| a.ended_at_ms), Type::INT8_ARRAY)
                .all(rows.iter().map(|a| a.outcome.as_str()), text.clone())
                .some(rows.iter().map(|a| a.failure_reason.as_deref()), text.clone())
                .some(rows.iter().map(|a| a.failure_category.as_deref()), text.clone());
            steps.push(Step::Run(attempt::insert, params));
        }
        if !self.set.blobs.is_empty() {
            let rows = &self.set.blobs;
            let place = |at: BlobRef| match at {
                BlobRef::Input(_) => ("input", 0),
                BlobRef::Result(_, attempt) => ("result", i32::try_from(attempt).unwrap_or(0)),
            };
            let params = Params::new()
                .ids(rows.iter().map(|blob| blob.at.execution()))
                .all(rows.iter().map(|blob| place(blob.at).0), text.clone())
                .all(rows.iter().map(|blob| place(blob.at).1), Type::INT4_ARRAY)
                .some(rows.iter().map(|blob| blob.encoding.as_ref().map(|e| e.as_str())), text)
                .all(rows.iter().map(|blob| &blob.bytes[..]), Type::BYTEA_ARRAY);
            steps.push(Step::Run(payload::insert, params));
        }
    }

    fn queues<'a>(&'a self, steps: &mut Vec<Step<'a>>) {
        let rows = &self.set.queues;
        if rows.is_empty() {
            return;
        }
        let params = Params::new()
            .all(rows.iter().map(|queue| queue.id.0), Type::INT8_ARRAY)
            .all(rows.iter().map(|queue| queue.lane.as_str()), Type::TEXT_ARRAY)
            .all(self.capabilities.iter().map(String::as_str), Type::TEXT_ARRAY);
        steps.push(Step::Run(queue::insert, params));
    }

    fn places<'a>(&'a self, steps: &mut Vec<Step<'a>>) {
        let (ready, timers) = (&self.set.ready, &self.set.timers);
        if !timers.remove.is_empty() {
            let rows = &timers.remove;
            let params = Params::new()
                .all(rows.iter().map(|row| row.kind.as_str()), Type::TEXT_ARRAY)
                .all(rows.iter().map(|row| row.due.0), Type::INT8_ARRAY)
                .ids(rows.iter().map(|row| row.execution));
            steps.push(Step::Run(timer::remove, params));
        }
        if !ready.remove.is_empty() {
            steps.push(Step::Run(ready::remove, ready_params(&ready.remove)));
        }
        if !ready.insert.is_empty() {
            steps.push(Step::Run(ready::insert, ready_params(&ready.insert)));
        }
        if !timers.insert.is_empty() {
            steps.push(Step::Run(timer::insert, timer_params(&timers.insert)));
        }
    }

    fn tags<'a>(&'a self, steps: &mut Vec<Step<'a>>) {
        let tags = &self.set.tags;
        for (sql, rows) in [(tag::remove, &tags.remove), (tag::insert, &tags.insert)] {
            if rows.is_empty() {
                continue;
            }
            let params = Params::new()
                .all(rows.iter().map(|row| row.key.as_str()), Type::TEXT_ARRAY)
                .all(rows.iter().map(|row| row.value.as_str()), Type::TEXT_ARRAY)
                .ids(rows.iter().map(|row| row.execution));
            steps.push(Step::Run(sql, params));
        }
    }

    fn events<'a>(&'a self, steps: &mut Vec<Step<'a>>) {
        let rows = &self.events;
        if rows.is_empty() {
            return;
        }
        let (text, int) = (Type::TEXT_ARRAY, Type::INT4_ARRAY);
        let params = Params::new()
            .ids(self.set.events.iter().map(|event| event.execution))
            .all(rows.iter().map(|e| e.at_ms), Type::INT8_ARRAY)
            .all(rows.iter().map(|e| e.namespace.as_str()), text.clone())
            .all(rows.iter().map(|e| e.lane_id.as_str()), text.clone())
            .all(rows.iter().map(|e| e.kind.as_str()), text.clone())
            .some(rows.iter().map(|e| e.attempt_index.map(short)), int.clone())
            .some(rows.iter().map(|e| e.outcome.as_deref()), text.clone())
            .some(rows.iter().map(|e| e.reason.as_deref()), text.clone())
            .some(rows.iter().map(|e| e.failure_category.as_deref()), text.clone())
            .some(rows.iter().map(|e| e.worker_id.as_deref()), text.clone())
            .some(rows.iter().map(|e| e.worker_instance_id.as_deref()), text)
            .some(rows.iter().map(|e| e.retry_at_ms), Type::INT8_ARRAY)
            .some(rows.iter().map(|e| e.priority_from.map(short)), int.clone())
            .some(rows.iter().map(|e| e.priority_to.map(short)), int);
        steps.push(Step::Run(event::insert, params));
    }
}

/// What names a lease and says that it has not moved.
fn guards<'a>(rows: impl Iterator<Item = &'a LeaseRow> + Clone) -> Params<'static> {
    Params::new()
        .ids(rows.clone().map(|row| row.execution))
        .all(rows.clone().map(|row| stored(row.epoch)), Type::INT8_ARRAY)
        .all(rows.clone().map(|row| row.lease.claim_id), Type::UUID_ARRAY)
        .all(rows.map(|row| row.lease.until.0), Type::INT8_ARRAY)
}

fn ready_params(rows: &[Ready]) -> Params<'_> {
    Params::new()
        .all(rows.iter().map(|row| row.queue.0), Type::INT8_ARRAY)
        .all(rows.iter().map(|row| row.rank), Type::INT4_ARRAY)
        .all(rows.iter().map(|row| row.turn.0), Type::INT8_ARRAY)
        .ids(rows.iter().map(|row| row.execution))
}

fn timer_params(rows: &[Timer]) -> Params<'_> {
    Params::new()
        .all(rows.iter().map(|row| row.kind.as_str()), Type::TEXT_ARRAY)
        .all(rows.iter().map(|row| row.due.0), Type::INT8_ARRAY)
        .all(rows.iter().map(|row| partition(row.execution)), Type::INT2_ARRAY)
        .all(rows.iter().map(|row| row.execution.uuid()), Type::UUID_ARRAY)
        .some(rows.iter().map(|row| row.ready.map(|ready| ready.queue.0)), Type::INT8_ARRAY)
        .some(rows.iter().map(|row| row.ready.map(|ready| ready.rank)), Type::INT4_ARRAY)
        .some(rows.iter().map(|row| row.ready.map(|ready| ready.turn.0)), Type::INT8_ARRAY)
}

fn version(x: &Execution) -> i64 {
    stored(x.version)
}

fn stored(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn short(number: i64) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}
