//! What histories ask of suspensions: few names, so that they come again, and few people to decide.

use ff_core::condition::{Distinct, PERSON, ResumeCondition, digest};
use ff_core::decide::close_waitpoint::CloseWaitpoint;
use ff_core::decide::create_waitpoint::CreateWaitpoint;
use ff_core::decide::deliver::{Authority, DeliverSignal};
use ff_core::decide::keys::{SecretHex, SeedKey};
use ff_core::decide::resume::Resume;
use ff_core::decide::suspend::{Binding, Suspend};
use ff_core::decide::suspension_timeout::TimeOutSuspension;
use ff_core::decide::waitpoint_expiry::ExpireWaitpoint;
use ff_core::execution::State;
use ff_core::fold::WithinKey;
use ff_core::state::Phase;
use ff_core::suspension::{SuspensionReason, TimeoutBehavior, Waitpoint, WaitpointWord};
use ff_core::text::{IdempotencyKey, SignalName, SourceIdentity, WaitpointKey};
use ff_core::token::{self, Link};
use ff_core::{Command, ExecutionId, Fence};
use uuid::Uuid;

use crate::commands::{
    forged_token, journal, resume, rotate_key, signal, suspend, token_of, waitpoint_key,
};
use crate::world::World;

/// What is asked of suspensions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum WaitDeed {
    Suspend,
    Make,
    Close,
    Signal,
    Resume,
    TimeOut,
    ExpireWaitpoint,
    Seed,
    Rotate,
}

/// What approvals are about.
const SUBJECT: &str = "release 17";

/// Who asks, of what, and which of the many shapes it takes.
#[derive(Clone, Copy)]
pub struct Asked {
    pub deed: WaitDeed,
    pub id: ExecutionId,
    pub fence: Fence,
    pub n: u64,
}

impl Asked {
    /// A small number, the same for the same ask.
    fn pick(self, salt: u64, below: u64) -> u64 {
        (self.n / (salt + 1)).wrapping_mul(31).wrapping_add(salt) % below
    }

    fn one_of<T: Copy>(self, salt: u64, all: &[T]) -> T {
        all[usize::try_from(self.pick(salt, u64::try_from(all.len()).unwrap())).unwrap()]
    }

    /// Mostly one of those that there is something to do about.
    fn mostly<T>(self, rows: impl Iterator<Item = T>) -> Option<T> {
        let mut rows: Vec<T> = rows.collect();
        let at = usize::try_from(self.n / 2).unwrap();
        (!rows.is_empty() && !self.n.is_multiple_of(9)).then(|| rows.swap_remove(at % rows.len()))
    }

    /// Somebody who holds something, or whoever was asked for.
    fn holder(self, world: &World) -> (ExecutionId, Fence) {
        let all = world.rows.executions.values().flatten();
        let held = all.filter(|x| x.state.phase() == Phase::Active).map(|x| (x.id, x.fence()));
        let held = self.mostly(held).filter(|_| self.pick(1, 5) > 0);
        held.unwrap_or((self.id, self.fence))
    }

    fn new_waitpoint(self, salt: u64) -> Uuid {
        Uuid::from_u128(0xA000 + u128::from(4 * self.pick(3, 12) + salt))
    }

    /// A waitpoint in one of these states, or one that may not be there.
    fn waitpoint(self, world: &World, words: &[WaitpointWord]) -> WithinKey {
        let rows = world.waits.waitpoints.values();
        let fit = rows.filter(|row| words.contains(&row.state.word()));
        let fit = self.mostly(fit.map(|row| (row.execution, row.id)));
        fit.unwrap_or((self.id, self.new_waitpoint(0)))
    }

    fn condition(self) -> ResumeCondition {
        let single = |key: &str, signal: Option<&str>| ResumeCondition::Single {
            waitpoint: waitpoint_key(key),
            signal: signal.map(name),
        };
        let count = |n, distinct, keys: &[&str]| ResumeCondition::Count {
            n,
            distinct,
            signal: None,
            waitpoints: keys.iter().map(|key| waitpoint_key(key)).collect(),
        };
        let approval = |needed, subject: Option<&str>| ResumeCondition::Approval {
            waitpoint: waitpoint_key("a"),
            needed,
            by: Vec::new(),
            not_by: Some(SourceIdentity::new("cy").unwrap()),
            subject: subject.map(str::to_owned),
        };
        match self.pick(7, 11) {
            0 => single("a", None),
            1 => single("a", Some("go")),
            2 => ResumeCondition::AllOf(vec![single("a", None), single("b", Some("go"))]),
            3 => count(2, Distinct::Signals, &["a"]),
            4 => count(2, Distinct::Sources, &["a"]),
            5 => count(2, Distinct::Waitpoints, &["a", "b", "c"]),
            6 => approval(2, None),
            7 => approval(1, Some(SUBJECT)),
            8 => ResumeCondition::OperatorOnly,
            9 => ResumeCondition::TimeoutOnly,
            _ => ResumeCondition::AllOf(vec![
                count(1, Distinct::Sources, &["a", "b"]),
                approval(1, None),
            ]),
        }
    }

    /// New waitpoints for all that the condition looks at; instead of the first, one that was made
    /// before, if there is a fitting one.
    fn bindings(self, world: &World, id: ExecutionId, condition: &ResumeCondition) -> Vec<Binding> {
        let mut keys: Vec<WaitpointKey> = condition.keys().into_iter().cloned().collect();
        if keys.is_empty() {
            keys.push(waitpoint_key("a"));
        }
        let fresh = |(at, key)| Binding::Fresh { id: self.new_waitpoint(at), key };
        let mut bindings: Vec<_> = (0..).zip(keys.clone()).map(fresh).collect();
        let made = |row: &&Waitpoint| row.key == keys[0] && !self.n.is_multiple_of(3);
        let mut made = world.waits.waitpoints_of(id).filter(made);
        let usable =
            made.find(|row| row.state.word() == WaitpointWord::Pending || self.pick(2, 3) == 0);
        if let Some(row) = usable {
            bindings[0] = Binding::Pending { id: row.id };
        }
        bindings
    }

    fn suspension(self, world: &World) -> Suspend {
        let (id, fence) = self.holder(world);
        let condition = self.condition();
        let timed = condition == ResumeCondition::TimeoutOnly || self.pick(5, 3) > 0;
        let first = u32::try_from(self.pick(6, 3)).unwrap();
        let steps = if self.pick(8, 6) == 0 { journal(id, fence, first).steps } else { Vec::new() };
        Suspend {
            suspension: Uuid::from_u128(0x500 + u128::from(self.pick(9, 3))),
            waitpoints: self.bindings(world, id, &condition),
            condition,
            resume_delay_ms: self.one_of(10, &[0, 0, 40]),
            reason: self.one_of(11, SuspensionReason::ALL),
            deadline: timed.then(|| world.now.plus(self.pick(12, 150))),
            timeout_behavior: self.one_of(13, TimeoutBehavior::ALL),
            idempotency_key: (self.pick(14, 4) == 0).then(|| key(self.pick(15, 2))),
            steps,
            ..suspend(id, fence)
        }
    }

    fn delivery(self, world: &World) -> DeliverSignal {
        use WaitpointWord::{Active, Closed, Pending};
        let words = if self.pick(20, 6) == 0 { [Closed, Closed] } else { [Pending, Active] };
        let (id, waitpoint) = self.waitpoint(world, &words);
        let name = name(self.one_of(21, &["approved", "approved", "go", "rejected", "x"]));
        let who = self.one_of(22, &["ann", "bob", "cy", ""]);
        let subject = self.one_of(23, &[None, None, Some(SUBJECT), Some("release 18")]);
        let subject = subject.map(digest);
        let about = (name.clone(), who, subject.clone());
        let authority = match self.pick(24, 16) {
            0 => Authority::Token(forged_token()),
            1 => Authority::Token(String::new()),
            2..8 => Authority::Operator,
            8 | 9 => Authority::Link(link(world, id, waitpoint, &about)),
            _ => Authority::Token(token_of(world, id, waitpoint)),
        };
        // A token does not say who has it.
        let source_type = if matches!(authority, Authority::Token(_)) { "service" } else { PERSON };
        let n = u128::from(self.pick(25, 80));
        DeliverSignal {
            authority,
            source_type: source_type.to_owned(),
            name,
            source_identity: who.to_owned(),
            subject,
            idempotency_key: (self.pick(26, 4) == 0).then(|| key(self.pick(27, 2))),
            dedup_ttl_ms: self.one_of(28, &[None, Some(0), Some(30)]),
            resume_delay_ms: self.one_of(29, &[None, Some(0), Some(25)]),
            ..signal(world, id, waitpoint, n)
        }
    }

    /// As a command.
    pub fn command(self, world: &World) -> Command {
        match self.deed {
            WaitDeed::Suspend => self.suspension(world).into(),
            WaitDeed::Make => {
                let (id, fence) = self.holder(world);
                let key = waitpoint_key(self.one_of(1, &["a", "a", "b"]));
                let expires_in_ms = 1 + self.pick(2, 300);
                let waitpoint = self.new_waitpoint(0);
                CreateWaitpoint { id, fence, waitpoint, key, expires_in_ms, steps: Vec::new() }
                    .into()
            }
            WaitDeed::Close => {
                let held = |row: &&Waitpoint| {
                    let x = world.find(row.execution);
                    x.is_some_and(|x| x.state.phase() == Phase::Active)
                };
                let rows = world.waits.waitpoints.values().filter(held);
                let pending = rows.filter(|row| row.state.word() == WaitpointWord::Pending);
                let chosen = self.mostly(pending.map(|row| (row.execution, row.id)));
                let (id, waitpoint) = chosen.unwrap_or((self.id, self.new_waitpoint(0)));
                let holder = world.find(id).map(ff_core::Execution::fence);
                CloseWaitpoint { id, fence: holder.unwrap_or(self.fence), waitpoint }.into()
            }
            WaitDeed::Signal => self.delivery(world).into(),
            WaitDeed::Resume => {
                let resume_delay_ms = self.one_of(1, &[0, 0, 30]);
                Resume { resume_delay_ms, ..resume(self.suspended(world)) }.into()
            }
            WaitDeed::TimeOut => TimeOutSuspension { id: self.suspended(world) }.into(),
            WaitDeed::ExpireWaitpoint => {
                let (id, waitpoint) = self.waitpoint(world, &[WaitpointWord::Pending]);
                ExpireWaitpoint { id, waitpoint }.into()
            }
            WaitDeed::Seed => {
                let secret_hex = SecretHex(format!("{:064x}", self.pick(1, 2)));
                SeedKey { kid: format!("k{}", self.pick(2, 3)), secret_hex }.into()
            }
            WaitDeed::Rotate => {
                rotate_key(u8::try_from(self.pick(1, 5)).unwrap(), self.pick(2, 400)).into()
            }
        }
    }

    /// One that waits, or whichever was asked for.
    fn suspended(self, world: &World) -> ExecutionId {
        let all = world.rows.executions.values().flatten();
        let waits = all.filter(|x| matches!(x.state, State::Suspended(_))).map(|x| x.id);
        self.mostly(waits).unwrap_or(self.id)
    }
}

/// A link to a waitpoint, signed by the current key.
fn link(
    world: &World,
    id: ExecutionId,
    waitpoint: Uuid,
    (signal, who, subject): &(SignalName, &str, Option<String>),
) -> String {
    let row = world.waits.waitpoint(id, waitpoint);
    let (Some(row), Some(key)) = (row, &world.waits.keyring.current) else {
        return forged_token();
    };
    let link = Link {
        execution: id,
        waitpoint,
        key: row.key.clone(),
        created_at: row.created_at,
        signal: signal.clone(),
        source_identity: SourceIdentity::new(*who).ok(),
        subject: subject.clone(),
    };
    token::sign(&link, &key.kid, &key.secret)
}

fn name(text: &str) -> SignalName {
    SignalName::new(text).unwrap()
}

fn key(n: u64) -> IdempotencyKey {
    IdempotencyKey::new(format!("wait-{n}")).unwrap()
}
