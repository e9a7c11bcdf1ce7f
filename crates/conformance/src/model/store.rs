//! The model's rows: the same tables that a database has, as maps.

use std::collections::{BTreeMap, BTreeSet};

use ff_core::backend::{Agenda, Duty, WorkFilter};
use ff_core::event::{Cursor, Event};
use ff_core::execution::{AttemptRecord, Execution};
use ff_core::flow::{Backlog, Dispatch, Edge, Flow, Group, GroupState, PendingCancel};
use ff_core::fold::{
    Blob, BlobRef, Consumer, GroupKey, Key, KeyRow, LeaseRow, WithinKey, WorkingSet, WriteSet,
};
use ff_core::ids::{EdgeId, ExecutionId, FlowId};
use ff_core::index::{Queue, Ready, TagRow, Timer, TimerKind};
use ff_core::keyring::Keyring;
use ff_core::limits::DEPTH_MAX;
use ff_core::query::{After, Depth, Listing, Page, Query, Rows};
use ff_core::state::public_state;
use ff_core::step::StepRecord;
use ff_core::suspension::{Signal, SuspendKey, Suspension, Waitpoint};
use ff_core::text::{ConsumerName, IdempotencyKey, LaneId, Namespace};
use ff_core::time::Millis;

/// Everything stored.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tables {
    /// Executions, with their leases.
    pub executions: BTreeMap<ExecutionId, Execution>,
    /// Idempotency keys.
    pub keys: BTreeMap<(Namespace, IdempotencyKey), KeyRow>,
    /// Durable consumers.
    pub consumers: BTreeMap<ConsumerName, Consumer>,
    /// Attempts that are over.
    pub attempts: BTreeMap<(ExecutionId, u32), AttemptRecord>,
    /// Steps.
    pub steps: BTreeMap<(ExecutionId, u32), StepRecord>,
    /// Payloads and results.
    pub blobs: BTreeMap<BlobRef, Blob>,
    /// Known queues.
    pub queues: BTreeSet<Queue>,
    /// Claimable now.
    pub ready: BTreeSet<Ready>,
    /// Timers.
    pub timers: BTreeSet<Timer>,
    /// Tags.
    pub tags: BTreeSet<TagRow>,
    /// The feed.
    pub events: BTreeMap<u64, Event>,
    /// The number of the newest event ever appended.
    pub last_seq: u64,
    /// Flows.
    pub flows: BTreeMap<FlowId, Flow>,
    /// The groups of their edges.
    pub groups: BTreeMap<GroupKey, Group>,
    /// Their edges.
    pub edges: BTreeMap<(FlowId, EdgeId), Edge>,
    /// Ends that flows have not been told.
    pub dispatch: BTreeMap<ExecutionId, Dispatch>,
    /// Groups whose siblings are to be cancelled.
    pub cancels: BTreeMap<GroupKey, PendingCancel>,
    /// Flows that owe the end of members.
    pub backlogs: BTreeMap<FlowId, Backlog>,
    /// Those members.
    pub owed: BTreeSet<(FlowId, ExecutionId)>,
    /// The last suspension of each execution.
    pub suspensions: BTreeMap<ExecutionId, Suspension>,
    /// Waitpoints.
    pub waitpoints: BTreeMap<WithinKey, Waitpoint>,
    /// Signals, by the order in which they came.
    pub signals: BTreeMap<(ExecutionId, u32), Signal>,
    /// What repeated suspensions are answered with.
    pub suspend_keys: BTreeMap<(ExecutionId, IdempotencyKey), SuspendKey>,
    /// The keys that sign tokens.
    pub keyring: Keyring,
}

impl Tables {
    pub(super) fn load(&self, keys: &[Key], have: &mut WorkingSet) {
        for key in keys {
            match key {
                Key::Execution(id) => {
                    have.executions.insert(*id, self.executions.get(id).cloned());
                }
                Key::Idempotency(namespace, key) => {
                    let key = (namespace.clone(), key.clone());
                    let row = self.keys.get(&key).cloned();
                    have.keys.insert(key, row);
                }
                Key::Unseen(id) => {
                    have.unseen.insert(*id, self.last_event(*id) > self.seen_by_all());
                }
                Key::UnseenFlow(flow) => {
                    let unseen = self.last_flow_event(*flow) > self.seen_by_all();
                    have.graph.unseen.insert(*flow, unseen);
                }
                Key::Step(id, number) => {
                    let at = (*id, *number);
                    have.steps.insert(at, self.steps.get(&at).cloned());
                }
                Key::Stepped(id, attempt) => {
                    let mut own = self.steps.range((*id, 0)..=(*id, u32::MAX));
                    let stepped = own.any(|(_, record)| record.attempt_index == *attempt);
                    have.stepped.insert((*id, *attempt), stepped);
                }
                Key::Consumer(name) => {
                    have.consumers.insert(name.clone(), self.consumers.get(name).cloned());
                }
                Key::Input(id) => {
                    let input = self.blobs.get(&BlobRef::Input(*id)).cloned();
                    have.inputs.insert(*id, input);
                }
                Key::Flow(_)
                | Key::FreeFlow(_)
                | Key::Group(..)
                | Key::FreeGroup(..)
                | Key::Groups(_)
                | Key::Edge(..)
                | Key::Pair(..)
                | Key::Outgoing(..)
                | Key::Incoming(..)
                | Key::Reach(..)
                | Key::Behind(..)
                | Key::Members(_)
                | Key::Dispatch(_)
                | Key::Cancel(..)
                | Key::Backlog(_)
                | Key::Owed(_)
                | Key::First(_) => self.load_graph(key, &mut have.graph),
                Key::Wait(key) => self.load_waits(key, &mut have.waits),
            }
        }
    }

    pub(super) fn write(&mut self, set: WriteSet) {
        let removed = set.removed;
        if !removed.is_empty() {
            self.executions.retain(|id, _| !removed.contains(id));
            self.attempts.retain(|(owner, _), _| !removed.contains(owner));
            self.blobs.retain(|at, _| !removed.contains(&at.execution()));
            self.steps.retain(|(owner, _), _| !removed.contains(owner));
            let stays = |id: ExecutionId| !removed.contains(&id);
            self.events.retain(|_, event| event.execution.is_none_or(stays));
            self.suspensions.retain(|id, _| !removed.contains(id));
            self.waitpoints.retain(|(owner, _), _| !removed.contains(owner));
            self.signals.retain(|(owner, _), _| !removed.contains(owner));
            self.suspend_keys.retain(|(owner, _), _| !removed.contains(owner));
        }
        self.write_graph(set.graph);
        for write in set.executions {
            let stored = write.before.as_ref().and_then(|x| self.executions.get(&x.id));
            assert_eq!(
                stored.map(|x| x.version),
                write.before.as_ref().map(|x| x.version),
                "a write is guarded by the version it was decided on"
            );
            if let Some(x) = write.after {
                self.executions.insert(x.id, x);
            }
        }
        for write in set.leases {
            // The lease is kept on the execution; a renewal writes only it.
            if let Some(row) = write.after
                && let Some(x) = self.executions.get_mut(&row.execution)
                && let ff_core::State::Active(active) = &mut x.state
            {
                active.lease = row.lease;
            }
        }
        for (key, row) in set.keys {
            match row {
                Some(row) => self.keys.insert(key, row),
                None => self.keys.remove(&key),
            };
        }
        for (name, row) in set.consumers {
            match row {
                Some(row) => self.consumers.insert(name, row),
                None => self.consumers.remove(&name),
            };
        }
        self.attempts.extend(set.attempts.into_iter().map(|a| ((a.execution, a.index), a)));
        self.blobs.extend(set.blobs.into_iter().map(|blob| (blob.at, blob)));
        self.steps.retain(|(owner, _), _| !set.cleared.contains(owner));
        for record in set.steps {
            let before = self.steps.insert((record.execution, record.step.number), record);
            assert_eq!(before, None, "a step is recorded once");
        }
        self.write_waits(set.waits);
        self.queues.extend(set.queues);
        take_out(&mut self.ready, &set.ready.remove);
        self.ready.extend(set.ready.insert);
        take_out(&mut self.timers, &set.timers.remove);
        self.timers.extend(set.timers.insert);
        take_out(&mut self.tags, &set.tags.remove);
        self.tags.extend(set.tags.insert);
        for event in set.events {
            self.last_seq += 1;
            self.events.insert(self.last_seq, event);
        }
    }

    pub(super) fn promote(&mut self, now: Millis, max: u32) {
        let max = usize::try_from(max).unwrap_or(usize::MAX);
        let due: Vec<Timer> = self
            .timers_of(TimerKind::Delay)
            .take_while(|timer| timer.due <= now)
            .take(max)
            .copied()
            .collect();
        for timer in due {
            self.timers.remove(&timer);
            self.ready.extend(timer.ready);
        }
    }

    /// Timers of one kind, soonest first.
    pub(super) fn timers_of(&self, kind: TimerKind) -> impl Iterator<Item = &Timer> {
        self.timers.iter().filter(move |timer| timer.kind == kind)
    }

    pub(super) fn serves(&self, id: ExecutionId, filter: &WorkFilter) -> bool {
        let Some(x) = self.executions.get(&id) else {
            return false;
        };
        filter.namespace.as_ref().is_none_or(|namespace| *namespace == x.spec.namespace)
            && filter.tag.as_ref().is_none_or(|(key, value)| x.tags.get(key) == Some(value))
    }

    pub(super) fn leases(&self) -> Vec<LeaseRow> {
        self.executions.values().filter_map(LeaseRow::of).collect()
    }

    pub(super) fn expiring_keys(&self) -> Vec<(Millis, Namespace, IdempotencyKey)> {
        let rows = self.keys.iter();
        let mut keys: Vec<_> =
            rows.map(|((ns, key), row)| (row.expires_at, ns.clone(), key.clone())).collect();
        keys.sort();
        keys
    }

    /// When things that a duty looks after are due, whoever's work it is.
    fn filed(&self, duty: Duty) -> Vec<Millis> {
        let timer = |kind| -> Vec<Millis> { self.timers_of(kind).map(|timer| timer.due).collect() };
        match duty {
            Duty::AttemptTimeout => timer(TimerKind::AttemptTimeout),
            Duty::Deadline => timer(TimerKind::Deadline),
            Duty::SuspensionTimeout => timer(TimerKind::Suspension),
            Duty::WaitpointExpiry => {
                self.expiring_waitpoints().into_iter().map(|(due, ..)| due).collect()
            }
            Duty::Retention => {
                let flows = self.flows.values().filter_map(ff_core::Flow::trim_at);
                timer(TimerKind::Retention).into_iter().chain(flows).collect()
            }
            Duty::LeaseExpiry => self.leases().iter().map(|row| row.lease.check_at).collect(),
            Duty::IdempotencyExpiry => self.keys.values().map(|row| row.expires_at).collect(),
            Duty::CompletionDispatch => self.dispatch.values().map(|row| row.at).collect(),
            Duty::EdgeCancelDispatcher | Duty::EdgeCancelReconciler => {
                self.cancels.values().map(|row| row.enqueued_at).collect()
            }
            Duty::CancelBacklog => self.backlogs.values().map(|row| row.requested_at).collect(),
            Duty::DependencyReconciler => {
                let pending = |group: &&Group| group.state == GroupState::Pending;
                self.groups.values().filter(pending).map(|_| Millis::ZERO).collect()
            }
        }
    }

    /// Which duties have something to do.
    pub(super) fn agenda(&self, now: Millis) -> Agenda {
        let first = |duty: &Duty| Some((*duty, self.filed(*duty).into_iter().min()?));
        Agenda { now, first: Duty::ALL.iter().filter_map(first).collect() }
    }

    /// When a duty has to look again.
    pub(super) fn next_due(&self, duty: Duty, now: Millis) -> Option<Millis> {
        let timed = match duty {
            Duty::LeaseExpiry
            | Duty::AttemptTimeout
            | Duty::Deadline
            | Duty::SuspensionTimeout
            | Duty::WaitpointExpiry
            | Duty::IdempotencyExpiry
            | Duty::Retention => true,
            Duty::CompletionDispatch
            | Duty::EdgeCancelDispatcher
            | Duty::EdgeCancelReconciler
            | Duty::CancelBacklog
            | Duty::DependencyReconciler => false,
        };
        self.filed(duty).into_iter().filter(|due| timed && *due > now).min()
    }

    pub(super) fn seen_by_all(&self) -> u64 {
        self.consumers.values().map(|c| c.cursor.seq()).min().unwrap_or(u64::MAX)
    }

    pub(super) fn last_event(&self, id: ExecutionId) -> u64 {
        let own = self.events.iter().rev().find(|(_, event)| event.execution == Some(id));
        own.map_or(0, |(seq, _)| *seq)
    }

    /// The last event of the flow itself.
    pub(super) fn last_flow_event(&self, flow: FlowId) -> u64 {
        let own = |event: &Event| event.execution.is_none() && event.flow == Some(flow);
        self.events.iter().rev().find(|(_, event)| own(event)).map_or(0, |(seq, _)| *seq)
    }

    pub(super) fn tail(&self) -> Cursor {
        if self.last_seq == 0 { Cursor::Start } else { Cursor::Seq(self.last_seq) }
    }

    fn depths(&self) -> Vec<Depth> {
        Depth::of_lanes(self.queues.iter().map(|queue| {
            let mut own = self.ready.iter().filter(|ready| ready.queue == queue.id).peekable();
            let first = own.peek().map(|ready| ready.turn);
            let counted = own.take(usize::try_from(DEPTH_MAX).unwrap_or(usize::MAX) + 1).count();
            (queue.lane.clone(), u64::try_from(counted).unwrap_or(u64::MAX), first)
        }))
    }

    pub(super) fn paged(&self, query: &Query, page: &Page, now: Millis) -> Listing {
        let after = |place: &After| page.after.as_ref().is_none_or(|from| place > from);
        match query {
            Query::Partition(partition) => {
                let ids = self.executions.keys().filter(|id| id.partition() == *partition);
                let rows = ids.map(|id| (After::Id(*id), *id)).filter(|(place, _)| after(place));
                cut(rows.collect(), page, Rows::Ids)
            }
            Query::Executions(search) => {
                let all = self.executions.values();
                let mut rows: Vec<_> = all
                    .filter(|x| search.matches(x, public_state(x, now)))
                    .map(|x| (After::Created(x.spec.created_at, x.id), x.clone()))
                    .filter(|(place, _)| page.after.as_ref().is_none_or(|from| place < from))
                    .collect();
                rows.sort_by(|a, b| b.0.cmp(&a.0));
                cut(rows, page, Rows::Executions)
            }
            Query::Attempts(id) => {
                let own = self.attempts.iter().filter(|((owner, _), _)| owner == id);
                let rows = own.map(|((_, index), a)| (After::Number(*index), a.clone()));
                cut(rows.filter(|(place, _)| after(place)).collect(), page, Rows::Attempts)
            }
            Query::Steps(id) => {
                let own = self.steps.iter().filter(|((owner, _), _)| owner == id);
                let rows =
                    own.map(|((_, number), record)| (After::Number(*number), record.clone()));
                cut(rows.filter(|(place, _)| after(place)).collect(), page, Rows::Steps)
            }
            Query::Depths => Listing { rows: Rows::Depths(self.depths()), next: None },
            Query::Lanes => {
                let lanes: BTreeSet<LaneId> =
                    self.queues.iter().map(|queue| queue.lane.clone()).collect();
                let rows = lanes.into_iter().map(|lane| (After::Name(lane.to_string()), lane));
                cut(rows.filter(|(place, _)| after(place)).collect(), page, Rows::Lanes)
            }
            Query::Consumers => {
                let names = self.consumers.keys().cloned();
                let rows = names.map(|name| (After::Name(name.to_string()), name));
                cut(rows.filter(|(place, _)| after(place)).collect(), page, Rows::Consumers)
            }
            Query::FlowPartition(_)
            | Query::Flows(_)
            | Query::Edges(..)
            | Query::Groups(_)
            | Query::Members(_)
            | Query::Buckets(_) => self.list_graph(query, page, now),
            Query::Waitpoints(_)
            | Query::Suspended(_)
            | Query::Signals(_)
            | Query::SomeSignals(..) => self.list_waits(query, page),
            Query::Counts => unreachable!("counts are not paged"),
        }
    }
}

/// The first rows of a listing, and where the rest begins.
pub(super) fn cut<T>(mut rows: Vec<(After, T)>, page: &Page, wrap: fn(Vec<T>) -> Rows) -> Listing {
    let more = rows.len() > page.size() && page.size() > 0;
    rows.truncate(page.size());
    let next = rows.last().filter(|_| more).map(|(place, _)| place.clone());
    Listing { rows: wrap(rows.into_iter().map(|(_, row)| row).collect()), next }
}

/// Removes rows; that one of them is not there is fine.
pub(super) fn take_out<T: Ord>(rows: &mut BTreeSet<T>, gone: &[T]) {
    for row in gone {
        rows.remove(row);
    }
}
