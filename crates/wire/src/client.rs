//! The other direction: what a client says, from the commands it means, and what it was told, as
//! the engine's own types.

mod flow;
mod suspension;

use ff_core::decide::cancel::Cancel;
use ff_core::decide::create::Create;
use ff_core::decide::hold::Hold;
use ff_core::decide::priority::ChangePriority;
use ff_core::decide::replay::Replay;
use ff_core::decide::revoke::Revoke;
use ff_core::decide::unhold::Unhold;
use ff_core::execution;
use ff_core::fold::{Blob, BlobRef};
use ff_core::step::Step;
use ff_core::text::Category;
use ff_core::{ExecutionId, Rejection, policy};

use crate::claim::ClaimedExecution;
use crate::create::NewExecution;
use crate::payload::{INPUT, Payload, RESULT, fields_of};
use crate::report::FailureClass;
use crate::report::batch::{Op, Order, Report};
use crate::result::ResultAnswer;
use crate::snapshot::Failure;
use crate::steer::{
    CancelRequest, HoldRequest, PriorityRequest, ReplayRequest, RevokeRequest, UnholdRequest,
};
use crate::step::NewStep;

impl From<Cancel> for CancelRequest {
    fn from(cancel: Cancel) -> Self {
        let Cancel { id: _, reason, fence, replays } = cancel;
        Self { reason, fence: fence.map(Into::into), replays }
    }
}

impl From<Replay> for ReplayRequest {
    fn from(replay: Replay) -> Self {
        let Replay { id: _, reason, replays, downstream } = replay;
        Self { reason, replays, downstream }
    }
}

impl From<Hold> for HoldRequest {
    fn from(hold: Hold) -> Self {
        let Hold { id: _, reason, version } = hold;
        Self { reason, version }
    }
}

impl From<Unhold> for UnholdRequest {
    fn from(Unhold { id: _, version }: Unhold) -> Self {
        Self { version }
    }
}

impl From<ChangePriority> for PriorityRequest {
    fn from(change: ChangePriority) -> Self {
        let ChangePriority { id: _, priority, version } = change;
        Self { priority, version }
    }
}

impl From<Revoke> for RevokeRequest {
    fn from(revoke: Revoke) -> Self {
        Self {
            reason: revoke.reason,
            fence: revoke.expected.map(Into::into),
            worker_instance_id: revoke.worker_instance.map(String::from),
        }
    }
}

impl From<Create> for NewExecution {
    fn from(create: Create) -> Self {
        let (input, input_base64, encoding) = fields_of(create.kept_input());
        let policy = serde_json::to_value(&create.policy).expect("a policy is JSON");
        Self {
            execution_id: Some(create.id.to_string()),
            namespace: Some(create.namespace.into()),
            lane_id: create.lane.into(),
            execution_kind: create.kind.into(),
            input,
            input_base64,
            encoding,
            priority: Some(create.priority),
            creator_identity: Some(create.creator.into()),
            idempotency_key: create.idempotency_key.map(String::from),
            tags: create.tags,
            policy: Some(policy),
            delay_until: create.delay_until,
            delay_ms: create.delay_ms,
            deadline_at: create.deadline_at,
        }
    }
}

impl ResultAnswer {
    /// The result, if there is one.
    pub fn into_payload(self) -> Result<Option<Payload>, Rejection> {
        Payload::read(RESULT, (self.result, self.result_base64, self.encoding))
    }
}

impl ClaimedExecution {
    /// Takes the input out of it, if there is one.
    pub fn take_input(&mut self) -> Result<Option<Payload>, Rejection> {
        Payload::read(INPUT, (self.input.take(), self.input_base64.take(), self.encoding.take()))
    }
}

impl TryFrom<Failure> for execution::Failure {
    type Error = Rejection;

    fn try_from(failure: Failure) -> Result<Self, Rejection> {
        Ok(Self { reason: failure.reason, category: Category::new(failure.category)? })
    }
}

impl From<policy::FailureClass> for FailureClass {
    fn from(class: policy::FailureClass) -> Self {
        match class {
            policy::FailureClass::Transient => Self::Transient,
            policy::FailureClass::Permanent => Self::Permanent,
            policy::FailureClass::InfraCrash => Self::InfraCrash,
            policy::FailureClass::Timeout => Self::Timeout,
            policy::FailureClass::Cancelled => Self::Cancelled,
        }
    }
}

impl From<Order> for Report {
    fn from(order: Order) -> Self {
        let new = |op, id: ExecutionId, fence: execution::Fence| Self::new(op, id, fence.into());
        let steps = |steps: Vec<Step>| steps.into_iter().map(NewStep::from).collect();
        match order {
            Order::Complete(c) => {
                let (encoding, id) = (c.encoding, c.id);
                let result = c.result.map(|bytes| Blob { at: BlobRef::Input(id), encoding, bytes });
                let (result, result_base64, encoding) = fields_of(result);
                Self { result, result_base64, encoding, ..new(Op::Complete, id, c.fence) }
            }
            Order::Fail(f) => Self {
                reason: Some(f.reason),
                category: Some(f.category.into()),
                class: Some(f.class.into()),
                ..new(Op::Fail, f.id, f.fence)
            },
            Order::Delay(d) => Self {
                steps: steps(d.steps),
                delay_until: Some(d.delay_until),
                ..new(Op::Delay, d.id, d.fence)
            },
            Order::Release(r) => new(Op::Release, r.id, r.fence),
            Order::Progress(p) => {
                Self { percent: p.percent, message: p.message, ..new(Op::Progress, p.id, p.fence) }
            }
            Order::Steps(s) => Self { steps: steps(s.steps), ..new(Op::Steps, s.id, s.fence) },
        }
    }
}
