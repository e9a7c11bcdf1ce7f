//! What authors make up about suspensions: waits for all sorts of things, and signals early, late and
//! forged.

use bytes::Bytes;
use ff_core::condition::{Distinct, PERSON, ResumeCondition, Word, digest};
use ff_core::decide::close_waitpoint::CloseWaitpoint;
use ff_core::decide::create_waitpoint::CreateWaitpoint;
use ff_core::decide::deliver::{Authority, DeliverSignal};
use ff_core::decide::keys::{RotateKey, SecretHex, SeedKey};
use ff_core::decide::resume::Resume;
use ff_core::decide::suspend::{Binding, Suspend};
use ff_core::decide::suspension_timeout::TimeOutSuspension;
use ff_core::decide::waitpoint_expiry::ExpireWaitpoint;
use ff_core::query::{Query, SuspendedSearch};
use ff_core::suspension::{RequestedBy, SuspensionReason, TimeoutBehavior};
use ff_core::text::{IdempotencyKey, SourceIdentity};
use ff_core::{Clock, ExecutionId, Partition};
use rand::RngExt;
use rand::seq::IndexedRandom;
use uuid::Uuid;

use super::Draft;
use super::author::Author;
use crate::world::waits::{signal_name, single, waitpoint_key};

/// What an author remembers of suspensions.
#[derive(Default)]
pub(super) struct Waits {
    /// Waitpoints that were asked for, with their keys.
    asked: Vec<(ExecutionId, Uuid, &'static str)>,
    /// Tokens that were handed out.
    tokens: Vec<(Uuid, String)>,
    sent: Vec<Uuid>,
}

impl Waits {
    pub fn learn(&mut self, waitpoint: Uuid, token: String) {
        self.tokens.push((waitpoint, token));
    }
}

const PEOPLE: [&str; 3] = ["ann", "bob", ""];

fn person(name: &str) -> SourceIdentity {
    SourceIdentity::new(name).expect("a valid identity")
}

impl Author {
    /// Something that concerns suspensions.
    pub fn wait(&mut self) -> Draft {
        match self.rng.random_range(0..20) {
            0..6 => self.suspend(),
            6..8 => {
                let ((id, fence), waitpoint) = (self.held(), Uuid::from_u128(self.rng.random()));
                let key = *["a", "b"].choose(&mut self.rng).expect("there are two");
                self.waits.asked.push((id, waitpoint, key));
                let expires_in_ms = self.ticks(100).unsigned_abs() + 1;
                let key = waitpoint_key(key);
                let steps = if self.rng.random_bool(0.3) { self.steps() } else { Vec::new() };
                CreateWaitpoint { id, fence, waitpoint, key, expires_in_ms, steps }.into()
            }
            8..16 => self.signal(),
            16 => {
                let id = self.some_id();
                let resume_delay_ms = self.delay();
                Resume { id, suspension: None, reason: "go on".to_owned(), resume_delay_ms }.into()
            }
            17 => TimeOutSuspension { id: self.some_id() }.into(),
            18 => {
                let (id, waitpoint, _) = self.asked();
                if self.rng.random() {
                    return ExpireWaitpoint { id, waitpoint }.into();
                }
                let (_, fence) = self.held();
                CloseWaitpoint { id, fence, waitpoint }.into()
            }
            _ => self.change_keys(),
        }
    }

    fn delay(&mut self) -> u64 {
        if self.rng.random_bool(0.8) { 0 } else { self.ticks(30).unsigned_abs() }
    }

    /// A waitpoint that was asked for: mostly a recent one.
    fn asked(&mut self) -> (ExecutionId, Uuid, &'static str) {
        let from = self.waits.asked.len().saturating_sub(5);
        let known = self.waits.asked[from..].choose(&mut self.rng).copied();
        known.unwrap_or((self.some_id(), Uuid::nil(), "a"))
    }

    fn suspend(&mut self) -> Draft {
        let (id, fence) = self.held();
        let own = self.waits.asked.iter().rev().find(|(of, ..)| *of == id).copied();
        let pending = own.filter(|_| self.rng.random_bool(0.4));
        let two = pending.is_none() && self.rng.random_bool(0.4);
        let (waitpoints, keys) = if let Some((_, waitpoint, key)) = pending {
            (vec![Binding::Pending { id: waitpoint }], vec![key])
        } else {
            let keys = if two { vec!["a", "b"] } else { vec!["a"] };
            let fresh = keys.iter().map(|key| {
                let waitpoint = Uuid::from_u128(self.rng.random());
                self.waits.asked.push((id, waitpoint, key));
                Binding::Fresh { id: waitpoint, key: waitpoint_key(key) }
            });
            (fresh.collect(), keys)
        };
        let condition = self.condition(&keys);
        let timed = condition == ResumeCondition::TimeoutOnly || self.rng.random_bool(0.4);
        let deadline = timed.then(|| self.clock.now().plus(self.ticks(60).unsigned_abs()));
        let behavior = TimeoutBehavior::ALL.choose(&mut self.rng);
        let reason = SuspensionReason::ALL.choose(&mut self.rng);
        let key = self.rng.random_bool(0.2).then(|| format!("s{}", self.rng.random_range(0..2)));
        let steps = if self.rng.random_bool(0.1) { self.steps() } else { Vec::new() };
        let suspend = Suspend {
            id,
            fence,
            suspension: Uuid::from_u128(self.rng.random()),
            waitpoints,
            condition,
            resume_delay_ms: self.delay(),
            reason: *reason.expect("there are reasons"),
            requested_by: RequestedBy::Worker,
            deadline,
            timeout_behavior: *behavior.expect("there are behaviours"),
            continuation: self.rng.random_bool(0.1).then(|| "page 2".to_owned()),
            idempotency_key: key.map(|key| IdempotencyKey::new(key).expect("a valid key")),
            steps,
        };
        suspend.into()
    }

    fn condition(&mut self, keys: &[&str]) -> ResumeCondition {
        let name = self.rng.random_bool(0.5).then_some("approved");
        let leaf = single(keys[0], name);
        if let [one, other] = keys {
            let both = ResumeCondition::AllOf(vec![leaf, single(other, None)]);
            let waitpoints = vec![waitpoint_key(one), waitpoint_key(other)];
            let n = self.rng.random_range(1..=2);
            let distinct = *Distinct::ALL.choose(&mut self.rng).expect("there are three");
            let count = ResumeCondition::Count { n, distinct, signal: None, waitpoints };
            return if self.rng.random() { both } else { count };
        }
        match self.rng.random_range(0..6) {
            0 => ResumeCondition::OperatorOnly,
            1 => ResumeCondition::TimeoutOnly,
            2 | 3 => ResumeCondition::Approval {
                waitpoint: waitpoint_key(keys[0]),
                needed: self.rng.random_range(1..=2),
                by: Vec::new(),
                not_by: self.rng.random_bool(0.3).then(|| person("ann")),
                subject: self.rng.random_bool(0.3).then(|| "plan".to_owned()),
            },
            _ => leaf,
        }
    }

    fn signal(&mut self) -> Draft {
        let (id, waitpoint, _) = self.asked();
        let token = self.waits.tokens.iter().rev().find(|(of, _)| *of == waitpoint);
        let authority = match (token, self.rng.random_range(0..10)) {
            (_, 0) => Authority::Token("k1:rubbish".to_owned()),
            (Some((_, token)), 1..=6) => Authority::Token(token.clone()),
            _ => Authority::Operator, // not ours: a choice, not a variant
        };
        let source_type = if authority == Authority::Operator { PERSON } else { "webhook" };
        let again = self.waits.sent.last().copied().filter(|_| self.rng.random_bool(0.1));
        let signal = again.unwrap_or_else(|| Uuid::from_u128(self.rng.random()));
        self.waits.sent.push(signal);
        let word = [Word::Approved, Word::Rejected].choose(&mut self.rng).expect("there are two");
        let key = self.rng.random_bool(0.2).then(|| format!("d{}", self.rng.random_range(0..2)));
        let subject = self.rng.random_bool(0.4).then(|| digest("plan"));
        DeliverSignal {
            id,
            waitpoint,
            signal,
            authority,
            name: signal_name(if self.rng.random() { word.as_str() } else { "other" }),
            category: "test".to_owned(),
            source_type: source_type.to_owned(),
            source_identity: PEOPLE.choose(&mut self.rng).map_or("", |who| who).to_owned(),
            subject,
            correlation_id: None,
            idempotency_key: key.map(|key| IdempotencyKey::new(key).expect("a valid key")),
            dedup_ttl_ms: self.rng.random_bool(0.3).then(|| self.ticks(10).unsigned_abs()),
            created_at: None,
            encoding: None,
            payload: self.rng.random_bool(0.3).then(|| Bytes::from_static(b"\0\xff")),
            resume_delay_ms: self.rng.random_bool(0.2).then(|| self.delay()),
        }
        .into()
    }

    fn change_keys(&mut self) -> Draft {
        let kid = format!("k{}", self.rng.random_range(1..4));
        let digit = if self.rng.random() { "1" } else { "2" };
        let secret_hex = SecretHex(digit.repeat(64));
        if self.rng.random_bool(0.3) {
            return SeedKey { kid, secret_hex }.into();
        }
        let grace_ms = self.ticks(20).unsigned_abs();
        let earlier = self.rng.random_bool(0.2).then(|| self.rng.random_range(1..4));
        let withdraw = earlier.map(|n| format!("k{n}")).into_iter().collect();
        RotateKey { kid, secret_hex, grace_ms, withdraw }.into()
    }

    pub fn query_waits(&mut self) -> Query {
        match self.rng.random_range(0..5) {
            0 => Query::Waitpoints(None),
            1 => Query::Waitpoints(Some(self.some_id())),
            2 => Query::Signals(self.some_id()),
            3 => Query::SomeSignals(self.some_id(), self.waits.sent.iter().copied().collect()),
            _ => {
                let partition = Partition::of(self.some_id().uuid());
                let reason = SuspensionReason::ALL.choose(&mut self.rng).copied();
                let search = SuspendedSearch {
                    partition: self.rng.random_bool(0.2).then_some(partition),
                    namespace: self.work_filter().namespace,
                    reason: reason.filter(|_| self.rng.random_bool(0.2)),
                };
                Query::Suspended(Box::new(search))
            }
        }
    }
}
