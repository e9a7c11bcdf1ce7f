//! Commands about an execution, with the arguments that do not matter filled in.

#![allow(dead_code, reason = "every test binary uses its own part")]

use bytes::Bytes;
use ff_core::ExecutionId;
use ff_core::condition::{ResumeCondition, digest};
use ff_core::decide::cancel::Cancel;
use ff_core::decide::close_waitpoint::CloseWaitpoint;
use ff_core::decide::complete::Complete;
use ff_core::decide::consumer::SaveCursor;
use ff_core::decide::create_waitpoint::CreateWaitpoint;
use ff_core::decide::delay::Delay;
use ff_core::decide::deliver::{Authority, DeliverSignal};
use ff_core::decide::drop_consumer::DropConsumer;
use ff_core::decide::fail::Fail;
use ff_core::decide::hold::Hold;
use ff_core::decide::keys::{RotateKey, SecretHex, SeedKey};
use ff_core::decide::progress::ReportProgress;
use ff_core::decide::release::Release;
use ff_core::decide::renew::Renew;
use ff_core::decide::replay::Replay;
use ff_core::decide::resume::Resume;
use ff_core::decide::revoke::Revoke;
use ff_core::decide::steps::RecordSteps;
use ff_core::decide::suspend::{Binding, Suspend};
use ff_core::decide::tags::{Edit, SetTags};
use ff_core::event::Cursor;
use ff_core::execution::Fence;
use ff_core::policy::FailureClass;
use ff_core::step::Step;
use ff_core::suspension::{RequestedBy, SuspensionReason, TimeoutBehavior};
use ff_core::text::{Category, ConsumerName, Encoding, SignalName, StepName, WaitpointKey};
use ff_core::time::Millis;
use ff_core::token::mint;
use uuid::Uuid;

use crate::world::{LEASE_TTL_MS, World, tags};

/// The waitpoint of a suspension.
pub const ANSWER: Uuid = Uuid::from_u128(0xA0);
/// A waitpoint that is made before anybody waits there.
pub const EARLY: Uuid = Uuid::from_u128(0xB0);
/// How long it may stay unused.
pub const UNUSED_MS: u64 = 500;

pub fn renew(id: ExecutionId, fence: Fence) -> Renew {
    Renew { id, fence, lease_ttl_ms: LEASE_TTL_MS }
}

pub fn progress(id: ExecutionId, fence: Fence, percent: u8) -> ReportProgress {
    ReportProgress {
        id,
        fence,
        percent: Some(percent),
        message: Some("under way".to_owned()),
        after: None,
    }
}

/// Two steps of a journal, from `first` on.
pub fn journal(id: ExecutionId, fence: Fence, first: u32) -> RecordSteps {
    let step = |number| {
        let name = StepName::new(format!("step {number}")).unwrap();
        Step { ran_ms: 5, ..Step::run(number, name, Bytes::from_static(b"done")) }
    };
    RecordSteps { id, fence, steps: vec![step(first), step(first + 1)] }
}

pub fn complete(id: ExecutionId, fence: Fence) -> Complete {
    Complete { id, fence, result: Some(Bytes::from_static(b"paid")), encoding: None }
}

pub fn fail(id: ExecutionId, fence: Fence, class: FailureClass) -> Fail {
    Fail {
        id,
        fence,
        reason: "the bank is closed".to_owned(),
        category: Category::new("bank").unwrap(),
        class,
    }
}

pub fn delay(id: ExecutionId, fence: Fence, delay_until: Millis) -> Delay {
    Delay { id, fence, delay_until, steps: Vec::new() }
}

pub fn release(id: ExecutionId, fence: Fence) -> Release {
    Release { id, fence, untaken: false }
}

/// By an operator.
pub fn cancel(id: ExecutionId) -> Cancel {
    Cancel { id, reason: "no longer wanted".to_owned(), fence: None, replays: None }
}

/// By the holder.
pub fn give_up(id: ExecutionId, fence: Fence) -> Cancel {
    Cancel { id, reason: "nothing to do".to_owned(), fence: Some(fence), replays: None }
}

/// Whoever holds it.
pub fn revoke(id: ExecutionId) -> Revoke {
    Revoke { id, expected: None, worker_instance: None, reason: "it hangs".to_owned() }
}

pub fn replay(id: ExecutionId) -> Replay {
    Replay { id, reason: "try again".to_owned(), replays: None, downstream: true }
}

pub fn hold(id: ExecutionId) -> Hold {
    Hold { id, reason: "stocktaking".to_owned(), version: None }
}

pub fn set_tags(id: ExecutionId, set: &[(&str, &str)], remove: &[&str]) -> SetTags {
    let edit = Edit {
        set: tags(set),
        remove: remove.iter().map(|key| (*key).to_owned()).collect(),
        version: None,
    };
    SetTags { id, edit }
}

pub fn save_cursor(seq: u64) -> SaveCursor {
    SaveCursor { consumer: consumer(), cursor: Cursor::Seq(seq), saved: None }
}

pub fn drop_consumer() -> DropConsumer {
    DropConsumer { consumer: consumer(), saved: None }
}

pub fn consumer() -> ConsumerName {
    ConsumerName::new("billing").unwrap()
}

/// Until any signal comes to a new waitpoint.
pub fn suspend(id: ExecutionId, fence: Fence) -> Suspend {
    Suspend {
        id,
        fence,
        suspension: Uuid::from_u128(0x50),
        waitpoints: vec![fresh(ANSWER, "answer")],
        condition: single("answer"),
        resume_delay_ms: 0,
        reason: SuspensionReason::WaitingForSignal,
        requested_by: RequestedBy::Worker,
        deadline: None,
        timeout_behavior: TimeoutBehavior::Fail,
        continuation: None,
        idempotency_key: None,
        steps: Vec::new(),
    }
}

/// The same, at the waitpoint that was made before.
pub fn suspend_early(id: ExecutionId, fence: Fence) -> Suspend {
    let waitpoints = vec![Binding::Pending { id: EARLY }];
    let suspension = Uuid::from_u128(0x5E);
    Suspend { suspension, waitpoints, condition: single("early"), ..suspend(id, fence) }
}

/// The same, with names of its own.
pub fn suspend_anew(id: ExecutionId, fence: Fence) -> Suspend {
    Suspend {
        suspension: Uuid::from_u128(0x5F),
        waitpoints: vec![fresh(Uuid::from_u128(0xAF), "answer")],
        ..suspend(id, fence)
    }
}

pub fn fresh(id: Uuid, key: &str) -> Binding {
    Binding::Fresh { id, key: waitpoint_key(key) }
}

pub fn single(key: &str) -> ResumeCondition {
    ResumeCondition::Single { waitpoint: waitpoint_key(key), signal: None }
}

pub fn waitpoint_key(text: &str) -> WaitpointKey {
    WaitpointKey::new(text).unwrap()
}

pub fn make_waitpoint(id: ExecutionId, fence: Fence) -> CreateWaitpoint {
    let key = waitpoint_key("early");
    CreateWaitpoint {
        id,
        fence,
        waitpoint: EARLY,
        key,
        expires_in_ms: UNUSED_MS,
        steps: Vec::new(),
    }
}

pub fn close_waitpoint(id: ExecutionId, fence: Fence) -> CloseWaitpoint {
    CloseWaitpoint { id, fence, waitpoint: EARLY }
}

/// The `n`th signal to a waitpoint, from whoever was given its token.
pub fn signal(world: &World, id: ExecutionId, waitpoint: Uuid, n: u128) -> DeliverSignal {
    DeliverSignal {
        id,
        waitpoint,
        signal: Uuid::from_u128(n),
        authority: Authority::Token(token_of(world, id, waitpoint)),
        name: SignalName::new("done").unwrap(),
        category: "callback".to_owned(),
        source_type: "webhook".to_owned(),
        source_identity: "bank".to_owned(),
        subject: Some(digest("order 17")),
        correlation_id: Some("order 17".to_owned()),
        idempotency_key: None,
        dedup_ttl_ms: None,
        created_at: None,
        encoding: Some(Encoding::new("text").unwrap()),
        payload: Some(Bytes::from_static(b"paid")),
        resume_delay_ms: None,
    }
}

/// What the holder of a token presents; somebody who has none makes one up.
pub fn token_of(world: &World, id: ExecutionId, waitpoint: Uuid) -> String {
    let keys = &world.waits.keyring;
    let mut all = keys.current.iter().chain(keys.old.iter().map(|old| &old.key));
    let row = world.waits.waitpoint(id, waitpoint);
    let key = row.and_then(|row| all.find(|key| key.kid == row.kid));
    match (row, key) {
        (Some(row), Some(key)) => mint(&key.kid, &key.secret, &row.claims()).as_str().to_owned(),
        (None, _) | (_, None) => forged_token(),
    }
}

/// Spelled like a token, and signed by nobody.
pub fn forged_token() -> String {
    format!("k1:{}", "0a".repeat(32))
}

pub fn resume(id: ExecutionId) -> Resume {
    Resume { id, suspension: None, reason: "she called".to_owned(), resume_delay_ms: 0 }
}

pub fn seed_key() -> SeedKey {
    SeedKey { kid: "k1".to_owned(), secret_hex: secret_hex(1) }
}

/// The `n`th key takes over.
pub fn rotate_key(n: u8, grace_ms: u64) -> RotateKey {
    RotateKey { kid: format!("k{n}"), secret_hex: secret_hex(n), grace_ms, withdraw: Vec::new() }
}

fn secret_hex(n: u8) -> SecretHex {
    SecretHex(format!("{n:064x}"))
}
