//! The reference: every backend's answers, from maps in memory.
//!
//! It is as plain as it can be. What it answers is right by definition; what a backend answers
//! is right when it is the same.

mod graph;
mod store;
mod waits;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use ff_core::backend::{Due, Duty, EventPage, Fate, Interest, StoreError, WorkFilter};
use ff_core::command::{Command, Outcome, Reply};
use ff_core::decide::attempt_timeout::TimeOutAttempt;
use ff_core::decide::deadline::ExpireExecution;
use ff_core::decide::key_expiry::ForgetKey;
use ff_core::decide::lease_expiry::ExpireLease;
use ff_core::decide::retention::Trim;
use ff_core::decide::suspension_timeout::TimeOutSuspension;
use ff_core::event::{Cursor, CursorKind, Event, FeedEvent, Filter};
use ff_core::execution::{State, Tags};
use ff_core::fold::{Blob, BlobRef, Cx, Key, WorkingSet};
use ff_core::ids::ExecutionId;
use ff_core::index::TimerKind;
use ff_core::limits::{CLAIM_BYTES_MAX, Config, PAGE_MAX, PROMOTE_BATCH_MAX};
use ff_core::query::{Count, Listing, Page, Query, Rows};
use ff_core::state::public_state;
use ff_core::text::Kind;
use ff_core::time::{Clock, Entropy, Millis};
use ff_core::{Agenda, Backend, ClaimAsk, Claimed, Claims, fold, needs};
use tokio::sync::watch;

pub use store::Tables;

/// Its cursors.
const CURSORS: CursorKind = CursorKind::Seq;

/// An in-memory store.
pub struct Model {
    tables: Mutex<Tables>,
    entropy: Mutex<Box<dyn Entropy>>,
    clock: Arc<dyn Clock>,
    config: Config,
    work: watch::Sender<u64>,
    events: watch::Sender<u64>,
    flows: watch::Sender<u64>,
    cancels: watch::Sender<u64>,
    ends: watch::Sender<u64>,
    taken: watch::Sender<u64>,
}

impl Model {
    /// An empty one.
    pub fn new(config: Config, clock: Arc<dyn Clock>, entropy: Box<dyn Entropy>) -> Self {
        Self {
            tables: Mutex::default(),
            entropy: Mutex::new(entropy),
            clock,
            config,
            work: watch::Sender::new(0),
            events: watch::Sender::new(0),
            flows: watch::Sender::new(0),
            cancels: watch::Sender::new(0),
            ends: watch::Sender::new(0),
            taken: watch::Sender::new(0),
        }
    }

    /// The rows, to look at.
    pub fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().expect("no holder of this lock panics")
    }

    fn run(&self, tables: &mut Tables, batch: &[Command]) -> Vec<Outcome> {
        let mut have = WorkingSet::default();
        for command in batch {
            loop {
                let missing = needs(command, &have);
                if missing.is_empty() {
                    break;
                }
                tables.load(&missing, &mut have);
            }
        }
        let mut entropy = self.entropy.lock().expect("no holder of this lock panics");
        let (now, entropy) = (self.clock.now(), entropy.as_mut());
        let mut cx = Cx { now, config: &self.config, entropy, cursors: CURSORS };
        let (outcomes, set) = fold(batch, &mut have, &mut cx);
        let delayed = set.timers.insert.iter().any(|timer| timer.kind == TimerKind::Delay);
        if delayed || !set.ready.insert.is_empty() {
            self.work.send_modify(|generation| *generation += 1);
        }
        if !set.events.is_empty() {
            self.events.send_modify(|generation| *generation += 1);
        }
        if !set.graph.dispatch.insert.is_empty() {
            self.flows.send_modify(|generation| *generation += 1);
        }
        if set.takes_leases() {
            self.taken.send_modify(|generation| *generation += 1);
        }
        if set.graph.ends_flows() {
            self.ends.send_modify(|generation| *generation += 1);
        }
        if set.graph.cancels_members() {
            self.cancels.send_modify(|generation| *generation += 1);
        }
        tables.write(set);
        outcomes
    }

    /// What an ask is given.
    fn claim_one(&self, tables: &mut Tables, ask: &ClaimAsk) -> Vec<Claimed> {
        let now = self.clock.now();
        let held = tables.held_under(ask.claim_id, now);
        let claimed = self.grant(tables, ask, held);
        if !claimed.is_empty() {
            return claimed;
        }
        let candidates = tables.candidates(ask);
        self.grant(tables, ask, candidates)
    }

    /// Leases as many of `chosen` as were asked for, passing over what cannot be had: held by
    /// another worker, or waiting again because the clock was turned back.
    fn grant(&self, tables: &mut Tables, ask: &ClaimAsk, chosen: Vec<ExecutionId>) -> Vec<Claimed> {
        let max = usize::try_from(ask.max).unwrap_or(usize::MAX);
        let mut claimed = Vec::new();
        let mut bytes = 0;
        for id in chosen {
            let input = tables.input(id);
            let size = input.as_ref().map_or(0, |blob| blob.bytes.len());
            let full = bytes + size > CLAIM_BYTES_MAX && !claimed.is_empty();
            if claimed.len() == max || full {
                break;
            }
            let claim = ask.claim(id);
            if let Some(Ok(Reply::Claim(leased))) = self.run(tables, &[claim.into()]).pop() {
                bytes += size;
                claimed.push(Claimed { leased, input });
            }
        }
        claimed
    }
}

#[async_trait]
impl Backend for Model {
    async fn apply(&self, batch: Vec<Command>) -> Result<Vec<Outcome>, StoreError> {
        Ok(self.run(&mut self.tables(), &batch))
    }

    async fn claim(&self, asks: &[ClaimAsk]) -> Result<Claims, StoreError> {
        let mut tables = self.tables();
        tables.promote(self.clock.now(), PROMOTE_BATCH_MAX);
        let claims = asks.iter().map(|ask| self.claim_one(&mut tables, ask));
        let given: Vec<_> = claims.collect();
        let nothing = given.iter().all(Vec::is_empty);
        let (next, now) = (tables.timers_of(TimerKind::Delay).next(), self.clock.now());
        let found = asks.iter().flat_map(|ask| tables.candidates(ask));
        let waits = found.filter_map(|id| tables.executions.get(&id)?.waits_until());
        let waits = waits.filter(|until| *until > now);
        let next_due = waits.chain(next.map(|timer| timer.due)).min().filter(|_| nothing);
        Ok(Claims { given, next_due, now, ..Claims::default() })
    }

    async fn agenda(&self) -> Result<Agenda, StoreError> {
        Ok(self.tables().agenda(self.clock.now()))
    }

    async fn due(&self, duty: Duty, filter: &WorkFilter, limit: u32) -> Result<Due, StoreError> {
        let tables = self.tables();
        let now = self.clock.now();
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let timers = |kind: TimerKind, command: fn(ExecutionId) -> Command| {
            let all = tables.timers_of(kind).filter(|timer| tables.serves(timer.execution, filter));
            (all.map(|timer| (timer.due, command(timer.execution)))).collect()
        };
        let filed: Vec<(Millis, Command)> = match duty {
            Duty::AttemptTimeout => {
                timers(TimerKind::AttemptTimeout, |id| TimeOutAttempt { id }.into())
            }
            Duty::Deadline => timers(TimerKind::Deadline, |id| ExpireExecution { id }.into()),
            Duty::SuspensionTimeout => {
                timers(TimerKind::Suspension, |id| TimeOutSuspension { id }.into())
            }
            Duty::WaitpointExpiry => tables.expired_waitpoints(filter),
            Duty::Retention => {
                let seen = tables.seen_by_all();
                let all = tables.timers_of(TimerKind::Retention);
                all.filter(|timer| tables.serves(timer.execution, filter))
                    .filter(|timer| tables.last_event(timer.execution) <= seen)
                    .map(|timer| (timer.due, Trim { id: timer.execution }.into()))
                    .take_while(|(due, _): &(Millis, Command)| *due <= now)
                    .chain(tables.trimmable(filter))
                    .collect()
            }
            Duty::CompletionDispatch => tables.undispatched(filter),
            Duty::EdgeCancelDispatcher => tables.cancelling(filter),
            Duty::EdgeCancelReconciler => tables.cancelled(filter),
            Duty::CancelBacklog => tables.owing(filter),
            Duty::DependencyReconciler => tables.stuck(filter),
            Duty::LeaseExpiry => {
                let mut filed = tables.leases();
                filed.retain(|lease| tables.serves(lease.execution, filter));
                filed.sort_by_key(|lease| (lease.lease.check_at, lease.execution));
                filed
                    .into_iter()
                    .map(|row| {
                        let (id, lease_epoch) = (row.execution, row.epoch);
                        (row.lease.check_at, ExpireLease { id, lease_epoch }.into())
                    })
                    .collect()
            }
            // A key has no tags: whoever looks after one tag leaves the keys to others.
            Duty::IdempotencyExpiry if filter.tag.is_some() => Vec::new(),
            Duty::IdempotencyExpiry => tables
                .expiring_keys()
                .into_iter()
                .filter(|(_, namespace, _)| {
                    filter.namespace.as_ref().is_none_or(|own| own == namespace)
                })
                .map(|(due, namespace, key)| (due, ForgetKey { namespace, key }.into()))
                .collect(),
        };
        let next = tables.next_due(duty, now);
        let due = filed.into_iter().take_while(|(due, _)| *due <= now);
        Ok(Due { commands: due.map(|(_, command)| command).take(limit).collect(), next })
    }

    async fn get(&self, keys: &[Key]) -> Result<WorkingSet, StoreError> {
        let mut have = WorkingSet::default();
        self.tables().load(keys, &mut have);
        Ok(have)
    }

    async fn list(&self, query: &Query, page: &Page) -> Result<Listing, StoreError> {
        Ok(self.tables().list(query, page, self.clock.now()))
    }

    async fn events(
        &self,
        from: &Cursor,
        filter: &Filter,
        limit: u32,
    ) -> Result<EventPage, StoreError> {
        CURSORS.check(from).map_err(StoreError::Rejected)?;
        let tables = self.tables();
        let limit = usize::try_from(limit.min(PAGE_MAX)).unwrap_or(0);
        let mut page = EventPage { events: Vec::new(), next: from.clone() };
        if limit == 0 {
            return Ok(page);
        }
        for (seq, event) in tables.events.range(from.seq() + 1..) {
            let Some((execution_kind, tags)) = tables.subject_of(event) else { continue };
            if !matches(filter, event, &tags) {
                continue;
            }
            page.next = Cursor::Seq(*seq);
            page.events.push(FeedEvent {
                cursor: page.next.clone(),
                event: event.clone(),
                execution_kind,
                tags,
            });
            if page.events.len() == limit {
                return Ok(page);
            }
        }
        let tail = tables.tail();
        if !page.next.is_beyond(&tail) {
            page.next = tail;
        }
        Ok(page)
    }

    async fn tail(&self) -> Result<Cursor, StoreError> {
        Ok(self.tables().tail())
    }

    async fn blobs(&self, refs: &[BlobRef]) -> Result<Vec<Blob>, StoreError> {
        let tables = self.tables();
        Ok(refs.iter().filter_map(|at| tables.blobs.get(at).cloned()).collect())
    }

    async fn fate(&self, id: ExecutionId) -> Result<Fate, StoreError> {
        Ok(Fate::of(self.tables().executions.get(&id)))
    }

    fn generation(&self, interest: Interest) -> u64 {
        *self.signal(interest).borrow()
    }

    async fn wait(&self, interest: Interest, seen: u64) {
        let mut signal = self.signal(interest).subscribe();
        // The sender lives as long as the model, so waiting cannot fail.
        let _ = signal.wait_for(|generation| *generation != seen).await;
    }

    fn config(&self) -> &Config {
        &self.config
    }

    async fn now(&self) -> Result<Millis, StoreError> {
        Ok(self.clock.now())
    }
}

impl Model {
    fn signal(&self, interest: Interest) -> &watch::Sender<u64> {
        match interest {
            Interest::Work => &self.work,
            Interest::Events => &self.events,
            Interest::Flows => &self.flows,
            Interest::Cancels => &self.cancels,
            Interest::Ends => &self.ends,
            Interest::Taken => &self.taken,
        }
    }
}

fn matches(filter: &Filter, event: &Event, tags: &Tags) -> bool {
    (filter.kinds.is_empty() || filter.kinds.contains(&event.kind.name()))
        && filter.namespace.as_ref().is_none_or(|namespace| *namespace == event.namespace)
        && filter.lane.as_ref().is_none_or(|lane| Some(lane) == event.lane.as_ref())
        && filter.execution.is_none_or(|id| event.execution == Some(id))
        && filter.flow.is_none_or(|flow| Some(flow) == event.flow)
        && filter.tag.as_ref().is_none_or(|(key, value)| tags.get(key) == Some(value))
}

impl Tables {
    /// What an execution is to work on.
    fn input(&self, id: ExecutionId) -> Option<Blob> {
        let x = self.executions.get(&id)?;
        let upstream = x.input_from.and_then(|id| self.executions.get(&id));
        self.blobs.get(&BlobRef::input(x, upstream)).cloned()
    }

    /// The kind and the tags of what an event happened to.
    fn subject_of(&self, event: &Event) -> Option<(Option<Kind>, Tags)> {
        match (event.execution, event.flow) {
            (Some(id), _) => {
                let x = self.executions.get(&id)?;
                Some((Some(x.spec.kind.clone()), x.tags.clone()))
            }
            (None, flow) => Some((None, self.flows.get(&flow?)?.tags.clone())),
        }
    }

    /// The most urgent and oldest places in the lanes asked for that suit the worker.
    fn candidates(&self, ask: &ClaimAsk) -> Vec<ExecutionId> {
        let suits: BTreeSet<_> = self
            .queues
            .iter()
            .filter(|queue| ask.lanes.contains(&queue.lane))
            .filter(|queue| queue.capabilities.is_subset(&ask.capabilities))
            .map(|queue| queue.id)
            .collect();
        let ready = self.ready.iter().filter(|ready| suits.contains(&ready.queue));
        ready.map(|ready| ready.execution).collect()
    }

    /// What is held under a claim already made.
    fn held_under(&self, claim_id: uuid::Uuid, now: Millis) -> Vec<ExecutionId> {
        let live = |x: &&ff_core::Execution| match &x.state {
            State::Active(active) => active.lease.claim_id == claim_id && active.lease.until > now,
            State::Runnable(_) | State::Suspended(_) | State::Terminal(_) => false,
        };
        self.executions.values().filter(live).map(|x| x.id).collect()
    }

    fn list(&self, query: &Query, page: &Page, now: Millis) -> Listing {
        match query {
            Query::Counts => {
                let mut counts = std::collections::BTreeMap::new();
                for x in self.executions.values() {
                    let key = (x.spec.lane.clone(), public_state(x, now));
                    *counts.entry(key).or_insert(0) += 1;
                }
                let counts = counts.into_iter();
                let rows = counts.map(|((lane, state), count)| Count { lane, state, count });
                Listing { rows: Rows::Counts(rows.collect()), next: None }
            }
            Query::Partition(_)
            | Query::Executions(_)
            | Query::Attempts(_)
            | Query::Steps(_)
            | Query::Depths
            | Query::Lanes
            | Query::FlowPartition(_)
            | Query::Flows(_)
            | Query::Edges(..)
            | Query::Groups(_)
            | Query::Members(_)
            | Query::Buckets(_)
            | Query::Waitpoints(_)
            | Query::Suspended(_)
            | Query::Signals(_)
            | Query::SomeSignals(..)
            | Query::Consumers => self.paged(query, page, now),
        }
    }
}
