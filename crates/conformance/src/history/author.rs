//! Who makes up what happens next: executions, their workers and operators, duties and reads.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use ff_core::backend::{Duty, WorkFilter};
use ff_core::decide::attempt_timeout::TimeOutAttempt;
use ff_core::decide::cancel::Cancel;
use ff_core::decide::claim::Claim;
use ff_core::decide::complete::Complete;
use ff_core::decide::create::Create;
use ff_core::decide::deadline::ExpireExecution;
use ff_core::decide::delay::Delay;
use ff_core::decide::drop_consumer::DropConsumer;
use ff_core::decide::fail::Fail;
use ff_core::decide::hold::Hold;
use ff_core::decide::key_expiry::ForgetKey;
use ff_core::decide::lease_expiry::ExpireLease;
use ff_core::decide::priority::ChangePriority;
use ff_core::decide::progress::ReportProgress;
use ff_core::decide::release::Release;
use ff_core::decide::renew::Renew;
use ff_core::decide::replay::Replay;
use ff_core::decide::retention::Trim;
use ff_core::decide::revoke::Revoke;
use ff_core::decide::steps::RecordSteps;
use ff_core::decide::tags::{Edit, SetTags};
use ff_core::decide::unhold::Unhold;
use ff_core::event::{EventName, Filter};
use ff_core::policy::{FailureClass, Policy};
use ff_core::query::{Page, Query, Search};
use ff_core::state::PublicState;
use ff_core::step::{Step as Recorded, StepOutcome};
use ff_core::text::{Category, ConsumerName, IdempotencyKey, OperationId};
use ff_core::time::Clock;
use ff_core::{ClaimAsk, ExecutionId, Fence, Millis, Partition};
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use serde_json::json;
use uuid::Uuid;

use super::flows::Flows;
use super::waits::Waits;
use super::{Answer, Draft, News, Step};
use crate::cases::steps::step;
use crate::dial::Dial;
use crate::world::{lane, namespace, worker};

/// Makes up what happens next.
pub(super) struct Author {
    pub rng: SmallRng,
    pub clock: Arc<Dial>,
    pub ids: Vec<ExecutionId>,
    pub fences: Vec<(ExecutionId, Fence)>,
    claims: Vec<ClaimAsk>,
    /// How many cursors every store has returned, the start included.
    cursors: usize,
    listing: Option<(Query, Page)>,
    /// Whether there are flows: in two of five histories, so that the others go deep without them.
    pub has_flows: bool,
    pub flows: Flows,
    /// Whether there are suspensions, likewise.
    pub has_waits: bool,
    pub waits: Waits,
}

impl Author {
    pub fn new(seed: u64, clock: Arc<Dial>) -> Self {
        let mut rng = SmallRng::seed_from_u64(seed);
        let (has_flows, has_waits) = (rng.random_bool(0.4), rng.random_bool(0.4));
        Self {
            has_flows,
            rng,
            clock,
            ids: Vec::new(),
            fences: Vec::new(),
            claims: Vec::new(),
            cursors: 1,
            listing: None,
            flows: Flows::default(),
            has_waits,
            waits: Waits::default(),
        }
    }

    pub fn learn(&mut self, answer: Answer) {
        self.flows.held.extend(&answer.fences);
        for news in answer.news {
            if let News::Members(_, ids) = &news {
                self.ids.extend(ids);
            }
            if let News::Token(waitpoint, token) = &news {
                self.waits.learn(*waitpoint, token.clone());
            }
            self.flows.learn(news);
        }
        self.fences.extend(answer.fences);
        self.cursors += answer.cursors;
        if let (Some((_, page)), Some(next)) = (&mut self.listing, answer.page) {
            *page = next;
        }
    }

    pub fn step(&mut self) -> Step {
        match self.rng.random_range(0..100) {
            0..9 if self.has_flows => Step::Send(self.finish_member()),
            9..13 if self.has_flows => Step::Send(self.spawn()),
            0..58 => {
                let size = self.rng.random_range(1..=4);
                Step::Send((0..size).map(|_| self.command()).collect())
            }
            58..76 => Step::Claim((0..self.rng.random_range(0..=2)).map(|_| self.ask()).collect()),
            76..86 => {
                let duty = match self.rng.random_range(0..10) {
                    0..3 if self.has_flows => Duty::CompletionDispatch,
                    3 if self.has_flows => Duty::EdgeCancelDispatcher,
                    4 | 5 if self.has_waits => Duty::SuspensionTimeout,
                    _ => *Duty::ALL.choose(&mut self.rng).expect("there are duties"),
                };
                Step::Tick(duty, self.work_filter(), self.rng.random_range(1..=50))
            }
            86..91 => {
                // A place belongs to the query that returned it: go on with it, or begin anew.
                let (query, page) =
                    self.listing.take().filter(|(_, page)| page.after.is_some()).unwrap_or_else(
                        || (self.query(), Page::first(self.rng.random_range(0..4))),
                    );
                self.listing = Some((query.clone(), page.clone()));
                Step::List(query, page)
            }
            91..94 => {
                let from = self.rng.random_range(0..self.cursors);
                Step::Read(from, Box::new(self.filter()), self.rng.random_range(0..20))
            }
            _ => {
                let ms = match self.rng.random_range(0..10) {
                    0 => -self.ticks(200),
                    1..=6 => self.ticks(20),
                    7 | 8 => self.ticks(600),
                    _ => self.ticks(40_000),
                };
                self.clock.advance(ms);
                Step::Pass
            }
        }
    }

    /// A duration in whole ticks of 100 ms, so that things often fall due at the same moment.
    pub fn ticks(&mut self, up_to: i64) -> i64 {
        self.rng.random_range(0..up_to) * 100
    }

    pub fn some_id(&mut self) -> ExecutionId {
        let unknown = ExecutionId::solo(Uuid::from_u128(0xdead));
        // Mostly a recent one, so that histories go deep.
        let from = self.ids.len().saturating_sub(6);
        *self.ids[from..].choose(&mut self.rng).unwrap_or(&unknown)
    }

    /// An execution with a fence: mostly its latest, sometimes an old or invented one.
    pub fn held(&mut self) -> (ExecutionId, Fence) {
        let near = self.fences.last().map_or(0, |(_, fence)| fence.lease_epoch);
        let forged = Fence {
            attempt_index: self.rng.random_range(0..3),
            lease_epoch: near.saturating_sub(3) + self.rng.random_range(0..8),
        };
        match self.rng.random_range(0..20) {
            0 => (self.some_id(), forged),
            1..=3 => {
                let any = self.fences.choose(&mut self.rng).copied();
                any.unwrap_or((self.some_id(), forged))
            }
            _ => {
                let from = self.fences.len().saturating_sub(4);
                let recent = self.fences[from..].choose(&mut self.rng).copied();
                recent.unwrap_or((self.some_id(), forged))
            }
        }
    }

    pub fn ask(&mut self) -> ClaimAsk {
        if let Some(again) = self.claims.last().filter(|_| self.rng.random_ratio(1, 5)) {
            return again.clone();
        }
        let lanes: Vec<_> = ["default", "slow"].into_iter().map(lane).collect();
        let lanes = lanes[..self.rng.random_range(1..=2)].to_vec();
        let gpu = self.rng.random_bool(0.5).then(|| "gpu".to_owned());
        let ask = ClaimAsk {
            claim_id: Uuid::from_u128(self.rng.random()),
            worker: worker(["w1", "w2"].choose(&mut self.rng).expect("there are two")),
            lanes,
            capabilities: gpu.into_iter().collect(),
            lease_ttl_ms: self.ticks(300).unsigned_abs() + 100,
            max: self.rng.random_range(1..=3),
        };
        self.claims.push(ask.clone());
        ask
    }

    pub fn create(&mut self) -> Create {
        let again = self.ids.last().copied().filter(|_| self.rng.random_ratio(1, 12));
        let id = again.unwrap_or_else(|| {
            if self.has_flows {
                return self.id_in_flows();
            }
            ExecutionId::solo(Uuid::from_u128(self.rng.random()))
        });
        self.ids.push(id);
        let now = self.clock.now();
        let policy = match self.rng.random_range(0..5) {
            0 => json!({}),
            1 => json!({"retry_policy": {"max_retries": 2, "backoff":
                {"type": "exponential", "initial_delay_ms": 100, "jitter": true}}}),
            2 => json!({"retry_policy": {"max_retries": 1, "backoff":
                {"type": "fixed", "delay_ms": 0}, "retryable_categories": ["net"]},
                "timeout_policy": {"attempt_timeout_ms": 1_000}}),
            3 => json!({"max_reclaim_count": 1, "max_replay_count": 1, "retention_ms": 500,
                "timeout_policy": {"execution_deadline_ms": 40_000}}),
            _ => json!({"routing_requirements": {"required_capabilities": ["gpu"]},
                "max_reclaim_count": 0}),
        };
        let key = self.rng.random_bool(0.15).then(|| format!("k{}", self.rng.random_range(0..3)));
        let later = |author: &mut Self, odds, up_to: i64| {
            let chosen = author.rng.random_bool(odds);
            chosen.then(|| now.plus(author.ticks(up_to).unsigned_abs()))
        };
        let tagged = self.rng.random_bool(0.3);
        let delay_until = later(self, 0.2, 30);
        let by_length = delay_until.is_none() && self.rng.random_bool(0.1);
        let delay_ms = by_length.then(|| self.ticks(30).unsigned_abs());
        Create {
            id,
            namespace: namespace(if self.rng.random_bool(0.8) { "test" } else { "other" }),
            lane: lane(if self.rng.random_bool(0.7) { "default" } else { "slow" }),
            kind: "job".parse().expect("a valid kind"),
            input: Bytes::from_static(if self.rng.random() { b"in" } else { b"" }),
            encoding: None,
            priority: self.rng.random_range(0..3) * 100,
            creator: "author".parse().expect("a valid creator"),
            idempotency_key: key.map(|key| IdempotencyKey::new(key).expect("a valid key")),
            tags: if tagged { self.tags() } else { [].into() },
            policy: Policy::parse(&policy).expect("a valid policy"),
            delay_until,
            deadline_at: later(self, 0.1, 300),
            delay_ms,
        }
    }

    pub fn tags(&mut self) -> ff_core::execution::Tags {
        let value = self.rng.random_range(0..2).to_string();
        [(format!("app.t{}", self.rng.random_range(0..2)), value)].into()
    }

    fn command(&mut self) -> Draft {
        if self.has_waits && self.rng.random_bool(0.4) {
            return self.wait();
        }
        if self.has_flows && self.rng.random_bool(0.4) {
            return self.tend_flow();
        }
        match self.rng.random_range(0..100) {
            // Members are created with their flow.
            0..10 if self.has_flows => self.call(),
            0..22 => self.create().into(),
            22..60 => self.call(),
            60..88 => self.operate(),
            _ => self.look_after(),
        }
    }

    /// What workers say.
    fn call(&mut self) -> Draft {
        let member = self.held_member().filter(|_| self.rng.random());
        let (id, fence) = member.map_or_else(|| self.held(), |(_, id, fence)| (id, fence));
        let now = self.clock.now();
        match self.rng.random_range(0..12) {
            10 | 11 => RecordSteps { id, fence, steps: self.steps() }.into(),
            0..=2 => {
                let result = self.rng.random_bool(0.7).then(|| Bytes::from_static(b"out"));
                Complete { id, fence, result, encoding: None }.into()
            }
            3 | 4 => {
                let class =
                    [FailureClass::Transient, FailureClass::Permanent, FailureClass::Timeout]
                        .choose(&mut self.rng);
                let category = ["net", "disk"].choose(&mut self.rng).expect("there are two");
                Fail {
                    id,
                    fence,
                    reason: "broken".to_owned(),
                    category: Category::new(*category).expect("a valid category"),
                    class: *class.expect("there are three"),
                }
                .into()
            }
            5 => Renew { id, fence, lease_ttl_ms: self.ticks(400).unsigned_abs() + 100 }.into(),
            6 => {
                let percent = Some(self.rng.random_range(0..=100));
                ReportProgress { id, fence, percent, message: None, after: None }.into()
            }
            7 => {
                let ms = self.ticks(50).unsigned_abs();
                let delay_until = if self.rng.random() { now.plus(ms) } else { now.minus(ms) };
                let steps = if self.rng.random() { self.steps() } else { Vec::new() };
                Delay { id, fence, delay_until, steps }.into()
            }
            8 => Release { id, fence, untaken: fence.lease_epoch % 4 == 1 }.into(),
            _ => Cancel { id, reason: "mine".to_owned(), fence: Some(fence), replays: None }.into(),
        }
    }

    /// One or two steps that sometimes contradict others of their number.
    pub fn steps(&mut self) -> Vec<Recorded> {
        let first = self.rng.random_range(0..4);
        let count = self.rng.random_range(1..3);
        let name = |number| if self.rng.random_bool(0.9) { number } else { number + 1 };
        let names = (first..first + count).map(name).collect::<Vec<u32>>();
        let step = |(name, number): (u32, u32)| match name % 4 {
            // The operation and what became of it are said anew each time: a repeat may clash.
            0 => Recorded { outcome: StepOutcome::Open, ..step(number, &format!("s{name}")) },
            1 => Recorded {
                operation: OperationId::new(format!("{name}")).ok(),
                time: Some(Millis(i64::from(name))),
                ..step(number, &format!("s{name}"))
            },
            _ => step(number, &format!("s{name}")),
        };
        names.into_iter().zip(first..).map(step).collect()
    }

    /// What operators do.
    fn operate(&mut self) -> Draft {
        let member = (self.has_flows && self.rng.random()).then(|| self.any_member());
        let id = member.unwrap_or_else(|| self.some_id());
        let reason = "because".to_owned();
        match self.rng.random_range(0..10) {
            0 => Cancel { id, reason, fence: None, replays: None }.into(),
            1 | 2 => {
                Replay { id, reason, replays: None, downstream: id.uuid().as_u128() % 4 > 0 }.into()
            }
            3 => ChangePriority { id, priority: self.rng.random_range(0..4) * 100, version: None }
                .into(),
            4 => Hold { id, reason, version: None }.into(),
            5 => Unhold { id, version: None }.into(),
            6 => {
                let set = self.tags();
                let remove = BTreeSet::from(["app.t0".to_owned()]);
                let remove = if self.rng.random() { remove } else { BTreeSet::new() };
                SetTags { id, edit: Edit { set, remove, version: None } }.into()
            }
            7 => {
                let expected = self.rng.random_bool(0.3).then(|| self.held().1);
                Revoke { id, expected, worker_instance: None, reason }.into()
            }
            8 => Claim {
                id,
                worker: worker("w3"),
                capabilities: BTreeSet::from(["gpu".to_owned()]),
                lease_ttl_ms: 5_000,
                claim_id: Uuid::from_u128(self.rng.random()),
            }
            .into(),
            _ => {
                let consumer = ConsumerName::new(format!("c{}", self.rng.random_range(0..2)));
                let consumer = consumer.expect("a valid name");
                if self.rng.random_bool(0.3) {
                    return DropConsumer { consumer, saved: None }.into();
                }
                let latest = self.has_flows && self.rng.random();
                let from = if latest { self.cursors - 1 } else { 0 };
                Draft::SaveCursor(consumer, self.rng.random_range(from..self.cursors))
            }
        }
    }

    /// What duties send, due or not.
    fn look_after(&mut self) -> Draft {
        let id = self.some_id();
        match self.rng.random_range(0..5) {
            0 => ExpireLease { id, lease_epoch: self.held().1.lease_epoch }.into(),
            1 => TimeOutAttempt { id }.into(),
            2 => ExpireExecution { id }.into(),
            3 => Trim { id }.into(),
            _ => {
                let key = IdempotencyKey::new("k0").expect("a valid key");
                ForgetKey { namespace: namespace("test"), key }.into()
            }
        }
    }

    pub fn work_filter(&mut self) -> WorkFilter {
        let some = |author: &mut Self| author.rng.random_bool(0.2);
        let namespace = some(self).then(|| namespace("other"));
        let tag = some(self).then(|| ("app.t0".to_owned(), "1".to_owned()));
        WorkFilter { namespace, tag }
    }

    fn filter(&mut self) -> Filter {
        let kinds = if self.rng.random() { vec![] } else { vec![EventName::Completion] };
        let WorkFilter { namespace, tag } = self.work_filter();
        let lane = self.rng.random_bool(0.2).then(|| lane("slow"));
        let execution = self.rng.random_bool(0.3).then(|| self.some_id());
        let flow = (self.has_flows && self.rng.random_bool(0.3)).then(|| self.some_flow());
        Filter { kinds, namespace, lane, execution, flow, tag }
    }

    fn query(&mut self) -> Query {
        if self.has_waits && self.rng.random_bool(0.4) {
            return self.query_waits();
        }
        if self.has_flows && self.rng.random_bool(0.4) {
            return self.query_flows();
        }
        match self.rng.random_range(0..6) {
            0 => Query::Partition(Partition::of(self.some_id().uuid())),
            1 => Query::Attempts(self.some_id()),
            2 => Query::Lanes,
            3 => Query::Counts,
            4 => Query::Consumers,
            _ => {
                let WorkFilter { namespace, tag } = self.work_filter();
                let state = PublicState::ALL.choose(&mut self.rng).copied();
                let state = state.filter(|_| self.rng.random());
                let created_from = self.rng.random_bool(0.2).then(|| self.clock.now().minus(500));
                let search = Search { namespace, tag, state, created_from, ..Search::default() };
                Query::Executions(Box::new(search))
            }
        }
    }
}
