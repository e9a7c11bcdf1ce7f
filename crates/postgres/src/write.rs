//! Writing what a fold decided: one statement for each kind of row, whatever their number.

mod alike;
mod lean;
mod whole;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::RangeInclusive;
use std::sync::OnceLock;

use ff_core::backend::StoreError;
use ff_core::event::Cursor;
use ff_core::fold::{Blob, BlobRef, LeaseRow, Write, WriteSet};
use ff_core::ids::ExecutionId;
use ff_core::index::{Ready, Timer, TimerKind};
use ff_core::row::{AttemptRow, EventRow};
use ff_core::step::StepRecord;
use ff_core::time::Millis;
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

use self::alike::Alike;
use crate::codec::{
    Composite, Params, Reader, Stored, Tid, ToWrite, attempt_of, inserts, kind_of, stored, updates,
};
use crate::connection::{Step, run_for};
use crate::graph::GraphRows;
use crate::load::nothing_seen;
use crate::statements::{
    attempt, consumer, event, execution, flow, idempotency, lease, payload, queue, ready,
    retention, step, tag, timer,
};
use crate::waits::{self, WaitRows};
pub use whole::Signs;

/// Bytes of an input or result that stand with their execution. More would make rows so long that
/// few fit on a page, three quarters of which are left empty.
const WITH_EXECUTION_BYTES_MAX: usize = 256;

/// The rows of a write set, flattened, for the statements to borrow.
pub struct Rows<'s> {
    set: &'s WriteSet,
    now: Millis,
    inserted: Vec<ToWrite<'s>>,
    updated: Vec<ToWrite<'s>>,
    /// Those that end alike, if all do: then none is among the others, and neither are their events.
    alike: Option<Alike<'s>>,
    /// Inputs and results that do not stand with their executions.
    apart: Vec<&'s Blob>,
    attempts: Vec<AttemptRow>,
    /// All events but those; made when they are asked for.
    events: OnceLock<Vec<(ExecutionId, EventRow)>>,
    capabilities: Vec<String>,
    graph: GraphRows<'s>,
    waits: WaitRows<'s>,
    places: &'s Places,
}

/// Something for each of some executions, which are looked up for every row that is written.
pub type ById<T> = HashMap<ExecutionId, T, foldhash::fast::RandomState>;

/// Where rows stand, as far as is known.
#[derive(Default)]
pub struct Places {
    /// Executions.
    pub executions: ById<Tid>,
    /// Their places in queues.
    pub ready: ById<Tid>,
}

impl<'s> Rows<'s> {
    /// Flattens `set`, which was decided at `now`.
    pub fn new(set: &'s WriteSet, now: Millis, places: &'s Places) -> Self {
        let (mut inserted, mut updated) = (Vec::new(), Vec::new());
        let mut blobs: BTreeMap<BlobRef, &Blob> =
            set.blobs.iter().map(|blob| (blob.at, blob)).collect();
        let alike = Alike::of(set, places);
        let apart = alike.as_ref().map_or(0, Alike::len);
        for write in &set.executions[apart..] {
            match (&write.before, &write.after) {
                (None, Some(after)) => {
                    let input = BlobRef::Input(after.id);
                    let input = stored_blob(&mut blobs, input..=input);
                    inserted.push(ToWrite::new(after, None, None).with(input));
                }
                (Some(before), Some(after)) => {
                    let at = places.executions.get(&after.id).copied();
                    let row = ToWrite::new(after, Some(stored(before.version)), at);
                    // There is room for one result, the first.
                    let results =
                        BlobRef::Result(after.id, 0)..=BlobRef::Result(after.id, u32::MAX);
                    let first = after.counts.replays == 0;
                    let result = first.then(|| stored_blob(&mut blobs, results)).flatten();
                    updated.push(row.with(result));
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
            apart: blobs.into_values().collect(),
            places,
            attempts: set.attempts.iter().map(AttemptRow::from).collect(),
            alike,
            events: OnceLock::new(),
            capabilities: set.queues.iter().map(|queue| json(&queue.capabilities)).collect(),
            graph: GraphRows::new(set),
            waits: WaitRows::new(&set.waits),
        }
    }

    /// The statements, in the order that [`WriteSet`] fixes, except that flows and groups go before
    /// executions, as they are locked, and delays before places in a queue: whoever promotes holds
    /// the delay, and has filed the place once it lets go.
    /// Every guard comes before the feed, so that a guard that fails costs no number.
    pub fn steps(&self) -> Vec<Step<'_>> {
        let mut steps = Vec::new();
        self.removals(&mut steps);
        self.graph.removals(&mut steps);
        self.graph.parents(&mut steps);
        run_for(&mut steps, execution::insert, &self.inserted, |rows| {
            Params::new().rows(inserts(rows))
        });
        run_for(&mut steps, execution::put, &self.updated, |rows| {
            Params::new().rows(updates(rows)).count(rows.len())
        });
        self.graph.enlist(&mut steps);
        self.leases(&mut steps);
        run_for(&mut steps, lease::hold, &self.set.held, |_| self.held());
        self.keys(&mut steps);
        self.consumers(&mut steps);
        self.attempts_and_blobs(&mut steps);
        self.journals(&mut steps);
        self.queues(&mut steps);
        self.places(&mut steps);
        self.tags(&mut steps);
        self.graph.rest(&mut steps);
        self.waits.steps(&mut steps);
        let own = self.event_rows();
        let (first, last) = own.split_at(self.alike.as_ref().map_or(own.len(), |a| a.before));
        run_for(&mut steps, event::insert, first, |rows| Params::new().rows(event_rows(rows)));
        steps.extend(self.alike.as_ref().map(Alike::step));
        run_for(&mut steps, event::insert, last, |rows| Params::new().rows(event_rows(rows)));
        steps
    }

    /// The statement that takes the flows of a batch without waiting, for one that has not locked them.
    pub fn take(&self) -> Option<Step<'_>> {
        let flows = self.set.graph.flows.iter().filter_map(|write| write.before.as_ref());
        let count = flows.clone().count();
        let params = Params::new()
            .flows(flows.clone().map(|flow| flow.id))
            .all(flows.clone().map(|flow| stored(flow.version)), Type::INT8_ARRAY)
            .all(flows.map(|flow| flow.spec.created_at.0), Type::INT8_ARRAY);
        (count > 0).then(|| Step::Run(flow::take, params.count(count)))
    }

    fn removals<'a>(&'a self, steps: &mut Vec<Step<'a>>) {
        if self.set.removed.is_empty() {
            return;
        }
        let ids = || Params::new().ids(self.set.removed.iter().copied());
        let all = [execution::remove, payload::remove, step::remove, attempt::remove];
        for sql in all.into_iter().chain(waits::REMOVALS) {
            steps.push(Step::Run(sql, ids()));
        }
        steps.push(Step::Run(event::remove, ids().one(false, Type::BOOL)));
    }

    fn leases<'a>(&'a self, steps: &mut Vec<Step<'a>>) {
        let (mut ended, mut renewed, mut refiled, mut granted) = (vec![], vec![], vec![], vec![]);
        for write in &self.set.leases {
            match (&write.before, &write.after) {
                (Some(before), Some(after)) if renews(write) => {
                    let moved = before.lease.check_at != after.lease.check_at;
                    (if moved { &mut refiled } else { &mut renewed }).push((before, after));
                }
                (before, after) => {
                    ended.extend(before);
                    granted.extend(after);
                }
            }
        }
        let kinds = [!ended.is_empty(), !renewed.is_empty(), !refiled.is_empty()];
        if kinds.into_iter().filter(|any| *any).count() > 1 {
            let before = self.set.leases.iter().filter_map(|write| write.before.as_ref());
            let claims = before.clone().map(|row| row.lease.claim_id);
            let params = Params::new().ids(before.map(|row| row.execution));
            steps.push(Step::Run(lease::lock, params.all(claims, Type::UUID_ARRAY)));
        }
        run_for(steps, lease::remove, &ended, |rows| {
            let rows = rows.iter().map(|row| (*row, Some(*row)));
            Params::new().rows(leases(rows)).count(ended.len())
        });
        for (sql, moved) in [(lease::renew, &renewed), (lease::refile, &refiled)] {
            run_for(steps, sql, moved, |rows| {
                let rows = rows.iter().map(|(before, after)| (*after, Some(*before)));
                Params::new().rows(leases(rows)).count(moved.len())
            });
        }
        run_for(steps, lease::insert, &granted, |rows| {
            Params::new().rows(leases(rows.iter().map(|row| (*row, None))))
        });
    }

    fn keys<'a>(&'a self, steps: &mut Vec<Step<'a>>) {
        let put: Vec<_> =
            self.set.keys.iter().filter_map(|(key, row)| Some((key, row.as_ref()?))).collect();
        run_for(steps, idempotency::put, &put, |put| {
            Params::new()
                .all(put.iter().map(|((namespace, _), _)| namespace.as_str()), Type::TEXT_ARRAY)
                .all(put.iter().map(|((_, key), _)| key.as_str()), Type::TEXT_ARRAY)
                .ids(put.iter().map(|(_, row)| row.execution))
                .all(put.iter().map(|(_, row)| row.fingerprint.0.as_slice()), Type::BYTEA_ARRAY)
                .all(put.iter().map(|(_, row)| row.expires_at.0), Type::INT8_ARRAY)
                .number(self.now.0)
                .count(put.len())
        });
        let gone: Vec<_> =
            self.set.keys.iter().filter(|(_, row)| row.is_none()).map(|(key, _)| key).collect();
        run_for(steps, idempotency::remove, &gone, |gone| {
            Params::new()
                .all(gone.iter().map(|(namespace, _)| namespace.as_str()), Type::TEXT_ARRAY)
                .all(gone.iter().map(|(_, key)| key.as_str()), Type::TEXT_ARRAY)
                .number(self.now.0)
        });
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
        run_for(steps, consumer::put, &put, |put| {
            Params::new()
                .all(put.iter().map(|(name, ..)| *name), Type::TEXT_ARRAY)
                .all(put.iter().map(|(_, w, _)| w.base.snapshot.clone()), Type::TEXT_ARRAY)
                .all(put.iter().map(|(_, w, _)| stored(w.base.seq)), Type::INT8_ARRAY)
                .all(put.iter().map(|(_, w, _)| w.upto.snapshot.clone()), Type::TEXT_ARRAY)
                .all(put.iter().map(|(_, w, _)| stored(w.upto.seq)), Type::INT8_ARRAY)
                .all(put.iter().map(|(_, w, _)| stored(w.after)), Type::INT8_ARRAY)
                .all(put.iter().map(|(.., at)| at.0), Type::INT8_ARRAY)
        });
        run_for(steps, consumer::remove, &gone, |gone| {
            Params::new().all(gone.iter().copied(), Type::TEXT_ARRAY)
        });
    }

    fn attempts_and_blobs<'a>(&'a self, steps: &mut Vec<Step<'a>>) {
        run_for(steps, attempt::insert, &self.attempts, |rows| {
            Params::new()
                .ids(self.set.attempts.iter().map(|attempt| attempt.execution))
                .all(rows.iter().map(|a| short(a.attempt_index)), Type::INT4_ARRAY)
                .all(rows.iter().map(|a| a.kind.as_str()), Type::TEXT_ARRAY)
                .all(rows.iter().map(|a| a.worker_id.as_str()), Type::TEXT_ARRAY)
                .all(rows.iter().map(|a| a.worker_instance_id.as_str()), Type::TEXT_ARRAY)
                .all(rows.iter().map(|a| a.started_at_ms), Type::INT8_ARRAY)
                .all(rows.iter().map(|a| a.ended_at_ms), Type::INT8_ARRAY)
                .all(rows.iter().map(|a| a.outcome.as_str()), Type::TEXT_ARRAY)
                .some(rows.iter().map(|a| a.failure_reason.as_deref()), Type::TEXT_ARRAY)
                .some(rows.iter().map(|a| a.failure_category.as_deref()), Type::TEXT_ARRAY)
        });
        run_for(steps, payload::insert, &self.apart, |blobs| Params::new().rows(payloads(blobs)));
    }

    /// Leases that must hold, when, and how many.
    fn held(&self) -> Params<'static> {
        let rows = leases(self.set.held.iter().map(|row| (row, None)));
        Params::new().rows(rows).number(self.now.0).count(self.set.held.len())
    }

    fn journals<'a>(&'a self, steps: &mut Vec<Step<'a>>) {
        run_for(steps, step::remove, &self.set.cleared, |ids| {
            Params::new().ids(ids.iter().copied())
        });
        run_for(steps, step::insert, &self.set.steps, |rows| Params::new().rows(step_rows(rows)));
    }

    fn queues<'a>(&'a self, steps: &mut Vec<Step<'a>>) {
        run_for(steps, queue::insert, &self.set.queues, |rows| {
            Params::new()
                .all(rows.iter().map(|queue| queue.id.0), Type::INT8_ARRAY)
                .all(rows.iter().map(|queue| queue.lane.as_str()), Type::TEXT_ARRAY)
                .all(self.capabilities.iter().map(String::as_str), Type::TEXT_ARRAY)
        });
    }

    fn places<'a>(&'a self, steps: &mut Vec<Step<'a>>) {
        let (ready, timers) = (&self.set.ready, &self.set.timers);
        run_for(steps, timer::remove, &timers.remove, |rows| Params::new().rows(timer_rows(rows)));
        run_for(steps, ready::remove, &ready.remove, |rows| Params::new().rows(ready_rows(rows)));
        run_for(steps, ready::insert, &ready.insert, |rows| Params::new().rows(ready_rows(rows)));
        run_for(steps, timer::insert, &timers.insert, |rows| Params::new().rows(timer_rows(rows)));
        // Those that were completed are listed in batches.
        let kept: BTreeSet<_> = timers.remove.iter().filter_map(kept_until).collect();
        for sql in [retention::lock, retention::clear] {
            run_for(steps, sql, &kept, |kept| {
                Params::new().all(kept.iter().map(|due| due.0), Type::INT8_ARRAY)
            });
        }
    }

    fn tags<'a>(&'a self, steps: &mut Vec<Step<'a>>) {
        let tags = &self.set.tags;
        for (sql, rows) in [(tag::remove, &tags.remove), (tag::insert, &tags.insert)] {
            run_for(steps, sql, rows, |rows| {
                Params::new()
                    .all(rows.iter().map(|row| row.key.as_str()), Type::TEXT_ARRAY)
                    .all(rows.iter().map(|row| row.value.as_str()), Type::TEXT_ARRAY)
                    .ids(rows.iter().map(|row| row.execution))
            });
        }
    }

    fn event_rows(&self) -> &[(ExecutionId, EventRow)] {
        let all = &self.set.events;
        let apart =
            self.alike.as_ref().map_or(0..0, |alike| alike.before..alike.before + alike.len());
        let own = all[..apart.start].iter().chain(&all[apart.end..]);
        let flat = || own.map(|event| (event.subject(), EventRow::from(event))).collect();
        self.events.get_or_init(flat)
    }
}

/// Whether a lease goes on.
fn renews(Write { before, after }: &Write<LeaseRow>) -> bool {
    before.as_ref().zip(after.as_ref()).is_some_and(|(before, after)| before.epoch == after.epoch)
}

/// What the row of an execution says about its input or result; takes it out if it stands there.
fn stored_blob(
    blobs: &mut BTreeMap<BlobRef, &Blob>,
    which: RangeInclusive<BlobRef>,
) -> Option<Stored> {
    let (at, blob) = blobs.range(which).next().map(|(at, blob)| (*at, *blob))?;
    let few = blob.bytes.len() <= WITH_EXECUTION_BYTES_MAX;
    if few {
        blobs.remove(&at);
    }
    Some(Stored::new(blob, few))
}

/// Leases as they are to be, each with what it was, if it is to be found by that.
fn leases<'r>(rows: impl Iterator<Item = (&'r LeaseRow, Option<&'r LeaseRow>)>) -> Composite {
    let rows: Vec<_> = rows.collect();
    Composite::of("ff_lease_row", &rows, |(row, before), r| {
        r.id(row.execution);
        r.long(stored(row.epoch));
        r.uuid(Some(row.lease.claim_id));
        r.long(row.lease.acquired_at.0);
        r.long(row.lease.renewed_at.0);
        r.long(row.lease.until.0);
        r.long(row.lease.check_at.0);
        r.long(before.map(|before| before.lease.until.0));
    })
}

fn payloads(rows: &[&Blob]) -> Composite {
    Composite::of("ff_payload_row", rows, |blob, r| {
        r.id(blob.at.execution());
        r.text(Some(kind_of(blob.at)));
        r.int(attempt_of(blob.at));
        r.text(blob.encoding.as_ref().map(|encoding| encoding.as_str()));
        r.bytes(Some(&blob.bytes));
    })
}

fn step_rows(rows: &[StepRecord]) -> Composite {
    Composite::of("ff_step_row_8", rows, |record, r| {
        let step = &record.step;
        r.id(record.execution);
        r.int(i64::from(step.number));
        r.int(i64::from(record.attempt_index));
        r.text(Some(step.kind.as_str()));
        r.text(Some(step.name.as_str()));
        r.text(step.operation.as_ref().map(|operation| operation.as_str()));
        r.text(Some(step.outcome.as_str()));
        r.long(step.time.map(|time| time.0));
        r.long(stored(step.ran_ms));
        r.long(record.at.0);
        r.text(step.encoding.as_ref().map(|encoding| encoding.as_str()));
        r.bytes(Some(&step.bytes));
    })
}

fn ready_rows(rows: &[Ready]) -> Composite {
    Composite::of("ff_ready_row", rows, |row, r| {
        r.long(row.queue.0);
        r.int(i64::from(row.rank));
        r.long(row.turn.0);
        r.id(row.execution);
        // Where it stands is known to nobody, or told another way.
        r.tid(None);
    })
}

/// Until when an execution would have been kept.
fn kept_until(timer: &Timer) -> Option<Millis> {
    (timer.kind == TimerKind::Retention).then_some(timer.due)
}

fn timer_rows(rows: &[Timer]) -> Composite {
    Composite::of("ff_timer_row", rows, |row, r| {
        r.text(Some(row.kind.as_str()));
        r.long(row.due.0);
        r.id(row.execution);
        r.long(row.ready.map(|ready| ready.queue.0));
        r.int(row.ready.map(|ready| i64::from(ready.rank)));
        r.long(row.ready.map(|ready| ready.turn.0));
    })
}

fn event_rows(rows: &[(ExecutionId, EventRow)]) -> Composite {
    Composite::of("ff_event_row", rows, |(id, e), r| {
        r.id(*id);
        r.long(e.at_ms);
        r.text(Some(&e.namespace));
        r.text(e.lane_id.as_deref());
        r.uuid(e.flow_id.map(Uuid::from_bytes));
        r.text(Some(&e.kind));
        r.int(e.attempt_index);
        r.text(e.outcome.as_deref());
        r.text(e.reason.as_deref());
        r.text(e.failure_category.as_deref());
        r.text(e.worker_id.as_deref());
        r.text(e.worker_instance_id.as_deref());
        r.long(e.retry_at_ms);
        r.int(e.priority_from);
        r.int(e.priority_to);
        r.int(e.members);
        r.uuid(e.signal_id.map(Uuid::from_bytes));
        r.uuid(e.waitpoint_id.map(Uuid::from_bytes));
        r.text(e.source_identity.as_deref());
        r.text(e.subject.as_deref());
    })
}

fn short(number: i64) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

/// Where executions stand after a write, as far as its statements tell.
pub fn read_places<'r>(
    answers: impl Iterator<Item = &'r Vec<Row>>,
) -> Result<ById<Tid>, StoreError> {
    let mut places = ById::default();
    for row in answers.flatten() {
        if row.columns().iter().any(|column| column.name() == "at") {
            let mut r = Reader::new(row);
            let id = r.id()?;
            places.extend(r.take::<Option<Tid>>("at")?.map(|at| (id, at)));
        }
    }
    Ok(places)
}
