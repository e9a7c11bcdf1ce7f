//! Commands about an execution, with the arguments that do not matter filled in.

#![allow(dead_code, reason = "every test binary uses its own part")]

use bytes::Bytes;
use ff_core::ExecutionId;
use ff_core::decide::cancel::Cancel;
use ff_core::decide::complete::Complete;
use ff_core::decide::consumer::SaveCursor;
use ff_core::decide::delay::Delay;
use ff_core::decide::drop_consumer::DropConsumer;
use ff_core::decide::fail::Fail;
use ff_core::decide::hold::Hold;
use ff_core::decide::progress::ReportProgress;
use ff_core::decide::release::Release;
use ff_core::decide::renew::Renew;
use ff_core::decide::replay::Replay;
use ff_core::decide::revoke::Revoke;
use ff_core::decide::steps::RecordSteps;
use ff_core::decide::tags::{Edit, SetTags};
use ff_core::event::Cursor;
use ff_core::execution::Fence;
use ff_core::policy::FailureClass;
use ff_core::step::{Step, StepKind};
use ff_core::text::{Category, ConsumerName, StepName};
use ff_core::time::Millis;

use crate::world::{LEASE_TTL_MS, tags};

pub fn renew(id: ExecutionId, fence: Fence) -> Renew {
    Renew { id, fence, lease_ttl_ms: LEASE_TTL_MS }
}

pub fn progress(id: ExecutionId, fence: Fence, percent: u8) -> ReportProgress {
    ReportProgress { id, fence, percent: Some(percent), message: Some("under way".to_owned()) }
}

/// Two steps of a journal, from `first` on.
pub fn journal(id: ExecutionId, fence: Fence, first: u32) -> RecordSteps {
    let step = |number| Step {
        number,
        kind: StepKind::Run,
        name: StepName::new(format!("step {number}")).unwrap(),
        ran_ms: 5,
        encoding: None,
        bytes: Bytes::from_static(b"done"),
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
    Release { id, fence }
}

/// By an operator.
pub fn cancel(id: ExecutionId) -> Cancel {
    Cancel { id, reason: "no longer wanted".to_owned(), fence: None }
}

/// By the holder.
pub fn give_up(id: ExecutionId, fence: Fence) -> Cancel {
    Cancel { id, reason: "nothing to do".to_owned(), fence: Some(fence) }
}

/// Whoever holds it.
pub fn revoke(id: ExecutionId) -> Revoke {
    Revoke { id, expected: None, worker_instance: None, reason: "it hangs".to_owned() }
}

pub fn replay(id: ExecutionId) -> Replay {
    Replay { id, reason: "try again".to_owned() }
}

pub fn hold(id: ExecutionId) -> Hold {
    Hold { id, reason: "stocktaking".to_owned() }
}

pub fn set_tags(id: ExecutionId, set: &[(&str, &str)], remove: &[&str]) -> SetTags {
    let edit =
        Edit { set: tags(set), remove: remove.iter().map(|key| (*key).to_owned()).collect() };
    SetTags { id, edit }
}

pub fn save_cursor(seq: u64) -> SaveCursor {
    SaveCursor { consumer: consumer(), cursor: Cursor::Seq(seq) }
}

pub fn drop_consumer() -> DropConsumer {
    DropConsumer { consumer: consumer() }
}

pub fn consumer() -> ConsumerName {
    ConsumerName::new("billing").unwrap()
}
