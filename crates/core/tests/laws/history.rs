//! Random histories: what is asked of a few executions, by whom, and what the clock does.
//!
//! An [`Ask`] is abstract, so that it shrinks well; it becomes a command when its turn comes and
//! the fences that were granted so far are known.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use bytes::Bytes;
use ff_core::decide::attempt_timeout::TimeOutAttempt;
use ff_core::decide::claim::Claim;
use ff_core::decide::create::Create;
use ff_core::decide::deadline::ExpireExecution;
use ff_core::decide::delay::Delay;
use ff_core::decide::key_expiry::ForgetKey;
use ff_core::decide::lease_expiry::ExpireLease;
use ff_core::decide::priority::ChangePriority;
use ff_core::decide::renew::Renew;
use ff_core::decide::replay::Replay;
use ff_core::decide::retention::Trim;
use ff_core::decide::unhold::Unhold;
use ff_core::execution::Fence;
use ff_core::policy::{FailureClass, Policy};
use ff_core::text::IdempotencyKey;
use ff_core::{Command, Execution, ExecutionId, State};
use proptest::prelude::*;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::commands::{
    cancel, complete, delay, drop_consumer, fail, give_up, hold, journal, progress, release, renew,
    replay, revoke, save_cursor, set_tags,
};
use crate::flows::{Asked, FlowDeed, slot_id};
use crate::waiting::{self, WaitDeed};
use crate::world::{World, create, tags, worker};

/// Commands in a history.
pub const HISTORY: usize = 60;
/// Executions that a history is about.
pub const SLOTS: u128 = 7;
/// Those that are created first; the others are nodes of a flow.
const BORN: u128 = 3;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Deed {
    Create,
    Claim,
    Renew,
    Progress,
    Steps,
    Complete,
    Fail,
    Delay,
    Release,
    Cancel,
    GiveUp,
    Revoke,
    Replay,
    ChangePriority,
    Hold,
    Unhold,
    SetTags,
    ExpireLease,
    TimeOut,
    Expire,
    Trim,
    ForgetKey,
    SaveCursor,
    DropConsumer,
    Flow(FlowDeed),
    Wait(WaitDeed),
}

/// Deeds, each as often as makes lives long and varied.
const DEEDS: &[(Deed, usize)] = &[
    (Deed::Create, 6),
    (Deed::Claim, 14),
    (Deed::Renew, 4),
    (Deed::Steps, 4),
    (Deed::Progress, 4),
    (Deed::Complete, 4),
    (Deed::Fail, 6),
    (Deed::Delay, 4),
    (Deed::Release, 4),
    (Deed::Cancel, 1),
    (Deed::GiveUp, 1),
    (Deed::Revoke, 1),
    (Deed::Replay, 7),
    (Deed::ChangePriority, 2),
    (Deed::Hold, 1),
    (Deed::Unhold, 4),
    (Deed::SetTags, 1),
    (Deed::ExpireLease, 6),
    (Deed::TimeOut, 5),
    (Deed::Expire, 2),
    (Deed::Trim, 3),
    (Deed::ForgetKey, 1),
    (Deed::SaveCursor, 1),
    (Deed::DropConsumer, 1),
];

/// The same for histories of flows.
const FLOW_DEEDS: &[(Deed, usize)] = &[
    (Deed::Create, 2),
    (Deed::Claim, 14),
    (Deed::Complete, 8),
    (Deed::Fail, 5),
    (Deed::Delay, 1),
    (Deed::Release, 1),
    (Deed::Cancel, 1),
    (Deed::Replay, 6),
    (Deed::Hold, 1),
    (Deed::Unhold, 1),
    (Deed::ExpireLease, 1),
    (Deed::Expire, 1),
    (Deed::Trim, 1),
    (Deed::Flow(FlowDeed::CreateFlow), 1),
    (Deed::Flow(FlowDeed::Submit), 3),
    (Deed::Flow(FlowDeed::Extend), 12),
    (Deed::Flow(FlowDeed::Add), 3),
    (Deed::Flow(FlowDeed::Stage), 8),
    (Deed::Flow(FlowDeed::Apply), 6),
    (Deed::Flow(FlowDeed::SetPolicy), 4),
    (Deed::Flow(FlowDeed::Seal), 2),
    (Deed::Flow(FlowDeed::Tag), 1),
    (Deed::Flow(FlowDeed::Wait), 12),
    (Deed::Flow(FlowDeed::CancelFlow), 1),
    (Deed::Flow(FlowDeed::CancelOwed), 1),
    (Deed::Flow(FlowDeed::Dispatch), 14),
    (Deed::Flow(FlowDeed::CancelSiblings), 6),
    (Deed::Flow(FlowDeed::ReconcileSiblings), 5),
    (Deed::Flow(FlowDeed::ReconcileGroup), 4),
    (Deed::Flow(FlowDeed::TrimFlow), 2),
    (Deed::Wait(WaitDeed::Suspend), 2),
    (Deed::Wait(WaitDeed::Signal), 2),
    (Deed::Wait(WaitDeed::TimeOut), 1),
];

/// The same for histories of suspensions.
const WAIT_DEEDS: &[(Deed, usize)] = &[
    (Deed::Create, 2),
    (Deed::Claim, 20),
    (Deed::Renew, 2),
    (Deed::Steps, 1),
    (Deed::Complete, 2),
    (Deed::Fail, 2),
    (Deed::Delay, 1),
    (Deed::Cancel, 2),
    (Deed::Revoke, 1),
    (Deed::Replay, 6),
    (Deed::ExpireLease, 4),
    (Deed::Expire, 1),
    (Deed::Trim, 1),
    (Deed::Wait(WaitDeed::Suspend), 20),
    (Deed::Wait(WaitDeed::Make), 10),
    (Deed::Wait(WaitDeed::Close), 5),
    (Deed::Wait(WaitDeed::Signal), 30),
    (Deed::Wait(WaitDeed::Resume), 3),
    (Deed::Wait(WaitDeed::TimeOut), 8),
    (Deed::Wait(WaitDeed::ExpireWaitpoint), 4),
    (Deed::Wait(WaitDeed::Seed), 1),
    (Deed::Wait(WaitDeed::Rotate), 2),
];

/// Which fence a worker presents.
#[derive(Clone, Copy, Debug)]
pub enum Presented {
    /// The last one that was granted.
    Last,
    /// One that was granted earlier.
    Stale,
    /// One that was never granted.
    Forged,
}

#[derive(Clone, Debug)]
pub struct Ask {
    pub deed: Deed,
    pub slot: u128,
    pub fence: Presented,
    /// Picks among the shapes of the command.
    pub n: u64,
    /// Whether it is asked of an execution that the deed suits, if there is one.
    pub keen: bool,
}

/// One command of a history.
#[derive(Clone)]
pub struct Step {
    /// A new batch begins here, and the clock moves by this much.
    pub jump_ms: Option<i64>,
    pub ask: Ask,
    /// How much later, or earlier, the same command is sent again to see what it does.
    pub again_ms: i64,
}

/// On one line, so that a failing history can be read.
impl fmt::Debug for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(ms) = self.jump_ms {
            write!(f, "after {ms} ms: ")?;
        }
        let Ask { deed, slot, fence, n, keen } = &self.ask;
        let (again_ms, how) = (self.again_ms, if *keen { " keenly" } else { "" });
        write!(f, "{deed:?}{how} {slot} {fence:?} {n}, again after {again_ms} ms")
    }
}

/// First every execution is created, and perhaps a flow; then anything happens. Steps are left out
/// one by one to find the shortest history that shows a failure.
pub fn histories() -> impl Strategy<Value = Vec<Step>> {
    let alone = (prop_oneof![2 => Just(1), 1 => 1..=BORN]).boxed();
    let together = (prop_oneof![1 => 1..=BORN, 3 => BORN + 1..=SLOTS]).boxed();
    let [create, submit] = [FlowDeed::CreateFlow, FlowDeed::Submit].map(Deed::Flow);
    let flow = prop_oneof![1 => birth(create, 2), 3 => birth(submit, 2)].boxed();
    prop_oneof![
        2 => begun_by(Vec::new(), DEEDS, alone.clone()),
        2 => begun_by(Vec::new(), WAIT_DEEDS, alone),
        3 => begun_by(vec![flow], FLOW_DEEDS, together),
    ]
}

fn begun_by(
    beginning: Vec<BoxedStrategy<Step>>,
    deeds: &'static [(Deed, usize)],
    slots: BoxedStrategy<u128>,
) -> impl Strategy<Value = Vec<Step>> {
    let births = (1..=BORN).map(|slot| birth(Deed::Create, slot).boxed());
    let births = births.chain(beginning).collect::<Vec<_>>();
    let steps = prop::option::weighted(0.99, steps(deeds, slots));
    let rest = prop::collection::vec(steps, HISTORY - births.len());
    (births, rest).prop_map(|(births, rest)| {
        let rest = rest.into_iter().flatten();
        births.into_iter().chain(rest).collect()
    })
}

fn birth(deed: Deed, slot: u128) -> impl Strategy<Value = Step> {
    (0_u64..1_000_000).prop_map(move |n| {
        let fence = Presented::Last;
        Step { jump_ms: None, ask: Ask { deed, slot, fence, n, keen: false }, again_ms: 0 }
    })
}

fn steps(
    deeds: &'static [(Deed, usize)],
    slots: BoxedStrategy<u128>,
) -> impl Strategy<Value = Step> {
    let jump_ms = prop_oneof![
        12 => Just(None),
        8 => (0_i64..40).prop_map(Some),
        3 => (40_i64..700).prop_map(Some),
        2 => (-500_i64..0).prop_map(Some),
        1 => (5_000_i64..200_000).prop_map(Some),
    ];
    (jump_ms, asks(deeds, slots), -300_i64..600).prop_map(|(jump_ms, ask, again_ms)| {
        // Retention looks at the members of before its batch, so it has batches of its own.
        let apart = ask.deed == Deed::Flow(FlowDeed::TrimFlow);
        Step { jump_ms: jump_ms.or(apart.then_some(0)), ask, again_ms }
    })
}

fn asks(deeds: &'static [(Deed, usize)], slots: BoxedStrategy<u128>) -> impl Strategy<Value = Ask> {
    let keen = deeds != DEEDS;
    let deeds = deeds
        .iter()
        .flat_map(|(deed, weight)| std::iter::repeat_n(*deed, *weight))
        .collect::<Vec<_>>();
    let fence = prop_oneof![
        10 => Just(Presented::Last),
        1 => Just(Presented::Stale),
        1 => Just(Presented::Forged),
    ];
    (prop::sample::select(deeds), slots, fence, 0_u64..1_000_000)
        .prop_map(move |(deed, slot, fence, n)| Ask { deed, slot, fence, n, keen })
}

/// The policies of a history: everything that is counted or timed runs out somewhere.
fn policies() -> Vec<Value> {
    let retry = json!({"max_retries": 2, "backoff": {
        "type": "exponential", "initial_delay_ms": 20, "max_delay_ms": 100, "jitter": true,
    }});
    vec![
        json!({"retry_policy": retry}),
        json!({"retry_policy": retry, "max_reclaim_count": 1, "max_replay_count": 0,
               "retention_ms": 0}),
        json!({
            "retry_policy": {"max_retries": 1, "retryable_categories": ["bank", "timeout"],
                             "backoff": {"type": "fixed", "delay_ms": 0}},
            "timeout_policy": {"attempt_timeout_ms": 60},
            "max_replay_count": 1,
            "retention_ms": 300,
        }),
        json!({
            "timeout_policy": {"attempt_timeout_ms": 90, "execution_deadline_ms": 400},
            "max_reclaim_count": 0,
            "routing_requirements": {"required_capabilities": ["gpu"]},
        }),
    ]
}

/// The fences granted so far, oldest first.
pub type Granted = BTreeMap<ExecutionId, Vec<Fence>>;

impl Ask {
    /// Whose move it is, as a command. `world` is as it stands before it.
    pub fn command(&self, world: &World, granted: &Granted) -> Command {
        let n = self.n;
        let (id, fence) = self.target(world, granted);
        let soon = world.now.plus(n % 100);
        let first = u32::try_from(n % 3).unwrap();
        let lease_ttl_ms = [10 + n % 100, 10_000][bit(n / 7)];
        match self.deed {
            Deed::Create => self.create(world).into(),
            Deed::Claim => self.claim(id, lease_ttl_ms).into(),
            Deed::Renew => Renew { lease_ttl_ms, ..renew(id, fence) }.into(),
            Deed::Progress => progress(id, fence, u8::try_from(n % 101).unwrap()).into(),
            Deed::Steps => journal(id, fence, first).into(),
            Deed::Complete => complete(id, fence).into(),
            Deed::Fail => fail(id, fence, class(n)).into(),
            Deed::Delay => {
                let steps =
                    if n.is_multiple_of(2) { journal(id, fence, first).steps } else { Vec::new() };
                Delay { steps, ..delay(id, fence, soon) }.into()
            }
            Deed::Release => release(id, fence).into(),
            Deed::Cancel => cancel(id).into(),
            Deed::GiveUp => give_up(id, fence).into(),
            Deed::Revoke => revoke(id).into(),
            Deed::Replay => Replay { downstream: !n.is_multiple_of(4), ..replay(id) }.into(),
            Deed::ChangePriority => {
                ChangePriority { id, priority: i32::try_from(n % 3).unwrap(), version: None }.into()
            }
            Deed::Hold => hold(id).into(),
            Deed::Unhold => Unhold { id, version: None }.into(),
            Deed::SetTags => {
                set_tags(id, [&[("a.b", "1")][..], &[]][bit(n)], &["shop.city"]).into()
            }
            Deed::ExpireLease => {
                let lease_epoch = fence.lease_epoch;
                ExpireLease { id, lease_epoch }.into()
            }
            Deed::TimeOut => TimeOutAttempt { id }.into(),
            Deed::Expire => ExpireExecution { id }.into(),
            Deed::Trim => Trim { id }.into(),
            Deed::ForgetKey => ForgetKey { namespace: create(1).namespace, key: key(n) }.into(),
            Deed::SaveCursor => save_cursor(n).into(),
            Deed::DropConsumer => drop_consumer().into(),
            Deed::Flow(deed) => {
                let asked = Asked { deed, slot: self.slot, fence, n };
                asked.command(world).unwrap_or_else(|| Unhold { id, version: None }.into())
            }
            Deed::Wait(deed) => waiting::Asked { deed, id, fence, n }.command(world),
        }
    }

    /// Of which execution it is asked, by whom.
    fn target(&self, world: &World, granted: &Granted) -> (ExecutionId, Fence) {
        let suits = |x: &&Execution| match (self.deed, &x.state) {
            (Deed::Claim, State::Runnable(runnable)) => !runnable.gated,
            (Deed::Replay, State::Terminal(_))
            | (Deed::Complete | Deed::Fail | Deed::Delay | Deed::Release, State::Active(_)) => true,
            _ => false, // not ours: nothing to be keen on
        };
        let all = || world.rows.executions.values().flatten();
        let in_flow = all().any(|x| x.flow().is_some());
        let own = all().filter(|x| x.flow().is_some() == in_flow);
        let mut suited: Vec<_> = own.filter(suits).map(|x| (x.id, x.fence())).collect();
        if self.keen && !suited.is_empty() {
            let at = usize::try_from(self.n / 5).unwrap() % suited.len();
            return suited.swap_remove(at);
        }
        (slot_id(self.slot), self.fence(world, granted))
    }

    /// Few enough shapes that repeats, and few enough fields that differ that clashes, come about.
    fn create(&self, world: &World) -> Create {
        let shape = usize::try_from(self.n / 100 % 4).unwrap();
        let keyed = self.n.is_multiple_of(4);
        let policy = Policy::parse(&policies()[shape]).unwrap();
        // A relative deadline excludes an absolute one.
        let bounded = self.n.is_multiple_of(11) && policy.execution_deadline_ms().is_none();
        Create {
            policy,
            idempotency_key: keyed.then(|| key(self.n / 12)),
            tags: tags(&[("shop.city", ["Oslo", "Rome"][bit(self.n / 3)])]),
            input: if self.n.is_multiple_of(5) {
                Bytes::new()
            } else {
                Bytes::from_static(b"order 17")
            },
            delay_until: self.n.is_multiple_of(7).then(|| world.now.plus(self.n % 90)),
            deadline_at: bounded.then(|| world.now.plus(self.n % 900)),
            id: slot_id(self.slot),
            ..create(1)
        }
    }

    /// Five workers, some of which offer what some executions require; claim ids come again.
    fn claim(&self, id: ExecutionId, lease_ttl_ms: u64) -> Claim {
        let capable = !self.n.is_multiple_of(5);
        Claim {
            id,
            worker: worker(&format!("worker-{}", self.n % 5)),
            capabilities: capable.then(|| "gpu".to_owned()).into_iter().collect::<BTreeSet<_>>(),
            lease_ttl_ms,
            claim_id: Uuid::from_u128(u128::from(self.n % 20)),
        }
    }

    fn fence(&self, world: &World, granted: &Granted) -> Fence {
        let id = slot_id(self.slot);
        let epoch = world.find(id).map_or(0, |x| x.epoch);
        let none = Fence { attempt_index: 0, lease_epoch: epoch + 1 };
        let fences = granted.get(&id).map_or(&[][..], Vec::as_slice);
        let last = fences.last().copied().unwrap_or(none);
        match self.fence {
            Presented::Last => last,
            Presented::Stale => {
                let count = fences.len().saturating_sub(1).max(1);
                let at = usize::try_from(self.n).unwrap() % count;
                fences.get(at).copied().unwrap_or(none)
            }
            Presented::Forged => Fence {
                attempt_index: [0, last.attempt_index + 1, u32::MAX][bit(self.n)],
                lease_epoch: [epoch + 2, epoch, u64::MAX][usize::try_from(self.n % 3).unwrap()],
            },
        }
    }
}

fn bit(n: u64) -> usize {
    usize::from(n % 2 == 1)
}

fn key(n: u64) -> IdempotencyKey {
    IdempotencyKey::new(format!("key-{}", bit(n))).unwrap()
}

fn class(n: u64) -> FailureClass {
    if n.is_multiple_of(4) { FailureClass::Permanent } else { FailureClass::Transient }
}
