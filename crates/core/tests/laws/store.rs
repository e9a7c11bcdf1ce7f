//! What a backend would hold: tables that change only by write sets.

use std::collections::{BTreeMap, BTreeSet};

use ff_core::event::Event;
use ff_core::execution::{AttemptRecord, Ending, Next, State};
use ff_core::fold::{Blob, BlobRef, Consumer, Delta, KeyRow, LeaseRow};
use ff_core::index::{self, Queue, Ready, TagRow, Timer, TimerKind};
use ff_core::text::{ConsumerName, IdempotencyKey, Namespace};
use ff_core::{Execution, ExecutionId, Millis, WriteSet};

use crate::graph::Graph;
use crate::laws::{Law, law};
use crate::world::World;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Store {
    executions: BTreeMap<ExecutionId, Execution>,
    leases: BTreeMap<ExecutionId, LeaseRow>,
    keys: BTreeMap<(Namespace, IdempotencyKey), KeyRow>,
    consumers: BTreeMap<ConsumerName, Consumer>,
    attempts: BTreeMap<(ExecutionId, u32), AttemptRecord>,
    blobs: BTreeMap<BlobRef, Blob>,
    queues: BTreeSet<Queue>,
    ready: BTreeSet<Ready>,
    timers: BTreeSet<Timer>,
    tags: BTreeSet<TagRow>,
    pub events: Vec<Event>,
    graph: Graph,
}

impl Store {
    /// Writes a set in the order in which it says it is to be written.
    pub fn write(&mut self, set: &WriteSet, now: Millis) -> Law {
        for id in &set.removed {
            self.remove(*id);
        }
        self.graph.write(&set.graph)?;
        for flow in &set.graph.removed {
            self.events.retain(|event| event.execution.is_some() || event.flow != Some(*flow));
        }
        self.write_rows(set)?;
        for record in &set.attempts {
            let at = (record.execution, record.index);
            let fresh = self.attempts.insert(at, record.clone()).is_none();
            law(fresh, || format!("an attempt is over once: {record:?}"))?;
        }
        for blob in &set.blobs {
            let fresh = self.blobs.insert(blob.at, blob.clone()).is_none();
            law(fresh, || format!("bytes are written once: {:?}", blob.at))?;
        }
        self.queues.extend(set.queues.iter().cloned());
        for timer in &set.timers.insert {
            let later = timer.kind != TimerKind::Delay || timer.due > now;
            law(later, || format!("what is due is not filed as a delay: {timer:?}"))?;
        }
        change(&mut self.ready, &set.ready)?;
        change(&mut self.timers, &set.timers)?;
        change(&mut self.tags, &set.tags)?;
        self.events.extend(set.events.iter().cloned());
        Ok(())
    }

    fn write_rows(&mut self, set: &WriteSet) -> Law {
        for write in &set.executions {
            let id = write.before.iter().chain(&write.after).next().unwrap().id;
            let guarded = self.read(id) == write.before;
            law(guarded, || format!("an update starts from what is stored: {write:#?}"))?;
            put(&mut self.executions, id, write.after.clone());
        }
        for write in &set.leases {
            let row = write.before.iter().chain(&write.after).next().unwrap();
            let guarded = self.leases.get(&row.execution) == write.before.as_ref();
            law(guarded, || format!("a lease starts from what is stored: {write:#?}"))?;
            put(&mut self.leases, row.execution, write.after.clone());
        }
        for (key, row) in &set.keys {
            put(&mut self.keys, key.clone(), row.clone());
        }
        for (name, row) in &set.consumers {
            put(&mut self.consumers, name.clone(), row.clone());
        }
        Ok(())
    }

    /// The row goes, with its bytes, its attempts and its events. Its lease and the rows to find it
    /// by go by the differences that the same set holds; its idempotency key is not its own.
    fn remove(&mut self, id: ExecutionId) {
        self.executions.remove(&id);
        self.attempts.retain(|(owner, _), _| *owner != id);
        self.blobs.retain(|at, _| at.execution() != id);
        self.events.retain(|event| event.execution != Some(id));
    }

    /// An execution as it is read back: a renewal wrote only its lease.
    fn read(&self, id: ExecutionId) -> Option<Execution> {
        let mut x = self.executions.get(&id)?.clone();
        if let (State::Active(active), Some(row)) = (&mut x.state, self.leases.get(&id)) {
            active.lease = row.lease.clone();
        }
        Some(x)
    }

    fn read_all(&self) -> BTreeMap<ExecutionId, Execution> {
        let ids = self.executions.keys();
        ids.filter_map(|id| Some((*id, self.read(*id)?))).collect()
    }

    /// Moves what is due to where it can be claimed.
    pub fn promote(&mut self, now: Millis) {
        let due = |timer: &Timer| timer.kind == TimerKind::Delay && timer.due <= now;
        let ready = self.timers.iter().filter(|timer| due(timer));
        self.ready.extend(ready.filter_map(|timer| timer.ready));
        self.timers.retain(|timer| !due(timer));
    }

    /// The tables hold what the rows of `world` entail, and nothing else.
    pub fn agrees_with(&self, world: &World) -> Law {
        let rows = present(&world.rows.executions);
        same("executions", &self.read_all(), &rows)?;
        let leases = rows.values().filter_map(LeaseRow::of);
        let leases = leases.map(|row| (row.execution, row)).collect();
        same("leases", &self.leases, &leases)?;
        let tags = rows.values().flat_map(index::tags).collect();
        same("tags", &self.tags, &tags)?;
        let filed = self.timers.iter().copied();
        let filed: BTreeSet<_> = filed.filter(|t| t.kind != TimerKind::Delay).collect();
        let timers = rows.values().flat_map(index::timers).collect();
        same("timers", &filed, &timers)?;
        same("keys", &self.keys, &present(&world.rows.keys))?;
        same("consumers", &self.consumers, &present(&world.rows.consumers))?;
        self.graph.agrees_with(world)?;
        self.has_places_for(&rows)?;
        rows.values().try_for_each(|x| self.knows_the_past_of(x))
    }

    /// Each execution stands in one place at most, and exactly where it can be claimed.
    fn has_places_for(&self, rows: &BTreeMap<ExecutionId, Execution>) -> Law {
        let mut count = 0;
        for place in rows.values().filter_map(index::place) {
            count += 1;
            let now = usize::from(self.ready.contains(&place.ready));
            let later = place.from.map_or(0, |due| {
                let timer = Timer {
                    kind: TimerKind::Delay,
                    due,
                    execution: place.ready.execution,
                    ready: Some(place.ready),
                };
                usize::from(self.timers.contains(&timer))
            });
            law(now + later == 1, || format!("{place:?} is in {now} + {later} tables"))?;
        }
        let delays = self.timers.iter().filter(|t| t.kind == TimerKind::Delay);
        let standing = self.ready.len() + delays.count();
        law(standing == count, || format!("{standing} places for {count} executions"))
    }

    /// What is due stands where it can be claimed.
    pub fn hands_out_what_is_due(&self, world: &World) -> Law {
        let rows = world.rows.executions.values().flatten();
        for place in rows.filter_map(index::place) {
            let due = place.from.is_none_or(|from| from <= world.now);
            let there = self.ready.contains(&place.ready);
            law(there || !due, || format!("{place:?} waits for nothing"))?;
        }
        Ok(())
    }

    /// History has a line for each attempt that is over, and the result that is promised is there.
    fn knows_the_past_of(&self, x: &Execution) -> Law {
        let current = match &x.state {
            State::Active(active) => Some(&active.attempt),
            State::Suspended(suspended) => Some(&suspended.attempt),
            State::Terminal(terminal) => terminal.attempt.as_ref(),
            State::Runnable(runnable) => match &runnable.next {
                Next::Resume(attempt) => Some(attempt),
                Next::First | Next::Retry(_) | Next::Reclaim | Next::Replay => None,
            },
        };
        let current = current.map(|attempt| attempt.index);
        let over: Vec<_> = (0..x.counts.attempts).filter(|n| Some(*n) != current).collect();
        let lines = self.attempts.keys().filter(|(id, _)| *id == x.id);
        let lines: Vec<_> = lines.map(|(_, index)| *index).collect();
        law(lines == over, || format!("history has {lines:?}, not {over:?}: {x:#?}"))?;
        if let (State::Terminal(terminal), Some(index)) = (&x.state, current)
            && matches!(terminal.ending, Ending::Success { result: true, .. })
        {
            let kept = self.blobs.contains_key(&BlobRef::Result(x.id, index));
            law(kept, || format!("the result of {x:#?} is lost"))?;
        }
        let queue = Queue::of(x);
        law(self.queues.contains(&queue), || format!("{queue:?} is not known"))
    }

    /// Both hold the same. Whether a delay was promoted already is no difference.
    pub fn equals(&self, other: &Self) -> Law {
        let (mut a, mut b) = (self.clone(), other.clone());
        a.promote(Millis(i64::MAX));
        b.promote(Millis(i64::MAX));
        same("executions", &a.read_all(), &b.read_all())?;
        same("leases", &a.leases, &b.leases)?;
        same("keys", &a.keys, &b.keys)?;
        same("consumers", &a.consumers, &b.consumers)?;
        same("attempts", &a.attempts, &b.attempts)?;
        same("blobs", &a.blobs, &b.blobs)?;
        same("queues", &a.queues, &b.queues)?;
        same("ready", &a.ready, &b.ready)?;
        same("timers", &a.timers, &b.timers)?;
        same("tags", &a.tags, &b.tags)?;
        same("flows", &a.graph, &b.graph)?;
        same("events", &a.events, &b.events)
    }
}

pub fn same<T: PartialEq + std::fmt::Debug>(table: &str, a: &T, b: &T) -> Law {
    law(a == b, || format!("{table} differ:\n{a:?}\n{b:?}"))
}

/// The rows that are there.
pub fn present<K: Ord + Clone, V: Clone>(rows: &BTreeMap<K, Option<V>>) -> BTreeMap<K, V> {
    let rows = rows.iter();
    rows.filter_map(|(key, row)| Some((key.clone(), row.clone()?))).collect()
}

pub fn put<K: Ord, V>(table: &mut BTreeMap<K, V>, key: K, row: Option<V>) {
    match row {
        Some(row) => table.insert(key, row),
        None => table.remove(&key),
    };
}

fn change<T: Ord + Clone + std::fmt::Debug>(table: &mut BTreeSet<T>, delta: &Delta<T>) -> Law {
    for row in &delta.remove {
        table.remove(row);
    }
    for row in &delta.insert {
        let fresh = table.insert(row.clone());
        law(fresh, || format!("a row is inserted once: {row:?}"))?;
    }
    Ok(())
}
