//! What a client says and is told about suspensions, waitpoints and signals.

use ff_core::decide::close_waitpoint::CloseWaitpoint;
use ff_core::decide::create_waitpoint::CreateWaitpoint;
use ff_core::decide::deliver::{Authority, DeliverSignal, Delivered};
use ff_core::decide::keys::{RotateKey, Rotated};
use ff_core::decide::resume::Resume;
use ff_core::decide::suspend::{Binding, Suspend};
use ff_core::state::PublicState;
use ff_core::suspension::Signal;
use ff_core::text::{IdempotencyKey, SignalName};
use ff_core::{Code, ExecutionId, Rejection};

use crate::hidden::Hidden;
use crate::payload::{PAYLOAD, Payload};
use crate::signal::{SignalAnswer, SignalLine, SignalRequest};
use crate::signing_key::{RotateAnswer, RotateRequest};
use crate::step::NewStep;
use crate::suspension::{NewBinding, ResumeAnswer, ResumePolicy, ResumeRequest, SuspendRequest};
use crate::waitpoint::{CloseRequest, NewWaitpoint};

impl From<Suspend> for SuspendRequest {
    fn from(suspend: Suspend) -> Self {
        let policy = ResumePolicy {
            resume_delay_ms: Some(suspend.resume_delay_ms),
            ..ResumePolicy::default()
        };
        Self {
            fence: suspend.fence.into(),
            suspension_id: Some(suspend.suspension.to_string()),
            waitpoints: suspend.waitpoints.into_iter().map(NewBinding::from).collect(),
            resume_condition: suspend.condition,
            resume_policy: (suspend.resume_delay_ms > 0).then_some(policy),
            reason_code: suspend.reason,
            requested_by: suspend.requested_by,
            timeout_at: suspend.deadline,
            timeout_in_ms: None,
            timeout_behavior: suspend.timeout_behavior,
            continuation_metadata_pointer: suspend.continuation,
            idempotency_key: suspend.idempotency_key.map(String::from),
            steps: suspend.steps.into_iter().map(NewStep::from).collect(),
        }
    }
}

impl From<Binding> for NewBinding {
    fn from(binding: Binding) -> Self {
        match binding {
            Binding::Fresh { id, key } => {
                Self::Fresh { waitpoint_id: Some(id.to_string()), waitpoint_key: key.into() }
            }
            Binding::Pending { id } => Self::Pending { waitpoint_id: id.to_string() },
        }
    }
}

impl From<CreateWaitpoint> for NewWaitpoint {
    fn from(create: CreateWaitpoint) -> Self {
        Self {
            fence: create.fence.into(),
            waitpoint_key: create.key.into(),
            waitpoint_id: Some(create.waitpoint.to_string()),
            expires_in_ms: create.expires_in_ms,
            steps: create.steps.into_iter().map(NewStep::from).collect(),
        }
    }
}

impl From<CloseWaitpoint> for CloseRequest {
    fn from(close: CloseWaitpoint) -> Self {
        Self { fence: close.fence.into() }
    }
}

impl From<Resume> for ResumeRequest {
    fn from(resume: Resume) -> Self {
        let Resume { id: _, suspension, reason, resume_delay_ms } = resume;
        let suspension_id = suspension.map(|id| id.to_string());
        Self { suspension_id, reason, resume_delay_ms }
    }
}

impl From<ResumeAnswer> for PublicState {
    fn from(answer: ResumeAnswer) -> Self {
        let ResumeAnswer::Resumed { public_state } = answer;
        public_state
    }
}

impl From<RotateKey> for RotateRequest {
    fn from(rotate: RotateKey) -> Self {
        let RotateKey { kid, secret_hex, grace_ms, withdraw } = rotate;
        Self { new_kid: kid, secret_hex: Hidden::new(secret_hex.0), grace_ms, withdraw }
    }
}

impl From<RotateAnswer> for Rotated {
    fn from(answer: RotateAnswer) -> Self {
        match answer {
            RotateAnswer::Rotated { previous_kid, new_kid: _, gc_count } => {
                Self::Rotated { previous_kid, gc_count }
            }
            RotateAnswer::Noop { kid: _ } => Self::Noop,
        }
    }
}

impl TryFrom<DeliverSignal> for SignalRequest {
    type Error = Rejection;

    /// A link is not sent in a body: it is followed at its own path.
    fn try_from(signal: DeliverSignal) -> Result<Self, Rejection> {
        let waitpoint_token = match signal.authority {
            Authority::Token(token) => Some(Hidden::new(token)),
            Authority::Operator => None,
            Authority::Link(_) => {
                let why = "is followed at its own path, /v1/signals/<link>";
                return Err(Rejection::invalid(Code::InvalidInput, "link", "", why));
            }
        };
        let encoding = signal.encoding;
        let payload = signal.payload.map(|bytes| Payload { encoding, bytes }.write());
        let (payload, payload_base64, encoding) = payload.unwrap_or_default();
        Ok(Self {
            waitpoint_id: signal.waitpoint.to_string(),
            waitpoint_token,
            signal_id: Some(signal.signal.to_string()),
            signal_name: signal.name.into(),
            signal_category: signal.category,
            source_type: signal.source_type,
            source_identity: signal.source_identity,
            subject: signal.subject,
            correlation_id: signal.correlation_id,
            idempotency_key: signal.idempotency_key.map(String::from),
            dedup_ttl_ms: signal.dedup_ttl_ms,
            created_at: signal.created_at,
            payload,
            payload_base64,
            encoding,
            resume_delay_ms: signal.resume_delay_ms,
        })
    }
}

impl From<SignalAnswer> for Delivered {
    fn from(answer: SignalAnswer) -> Self {
        match answer {
            SignalAnswer::Accepted { signal_id, effect } => Self::Accepted { signal_id, effect },
            SignalAnswer::Duplicate { existing_signal_id } => {
                Self::Duplicate { existing_signal_id }
            }
        }
    }
}

impl SignalLine {
    /// What it carries, if anything.
    pub fn into_payload(self) -> Result<Option<Payload>, Rejection> {
        Payload::read(PAYLOAD, (self.payload, self.payload_base64, self.encoding))
    }

    /// The signal that it shows.
    pub fn into_signal(self, execution: ExecutionId) -> Result<Signal, Rejection> {
        let payload = Payload::read(PAYLOAD, (self.payload, self.payload_base64, self.encoding))?;
        let (payload, encoding) =
            payload.map_or((None, None), |payload| (Some(payload.bytes), payload.encoding));
        Ok(Signal {
            execution,
            id: self.signal_id,
            waitpoint: self.waitpoint_id,
            number: self.number,
            name: SignalName::new(self.signal_name)?,
            category: self.signal_category,
            source_type: self.source_type,
            source_identity: self.source_identity,
            subject: self.subject,
            correlation_id: self.correlation_id,
            idempotency_key: self.idempotency_key.map(IdempotencyKey::new).transpose()?,
            dedup_until: self.dedup_until,
            created_at: self.created_at,
            accepted_at: self.accepted_at,
            encoding,
            payload,
            effect: self.effect,
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use bytes::Bytes;
    use ff_core::condition::ResumeCondition;
    use ff_core::suspension::{Effect, RequestedBy, SuspensionReason, TimeoutBehavior};
    use ff_core::{Fence, Millis};
    use uuid::Uuid;

    use super::*;

    const FENCE: Fence = Fence { attempt_index: 1, lease_epoch: 2 };

    fn id() -> ExecutionId {
        ExecutionId::solo(Uuid::from_u128(9))
    }

    #[test]
    fn a_suspension_is_read_as_it_was_meant() {
        let suspend = Suspend {
            id: id(),
            fence: FENCE,
            suspension: Uuid::from_u128(1),
            waitpoints: vec![
                Binding::Pending { id: Uuid::from_u128(2) },
                Binding::Fresh { id: Uuid::from_u128(3), key: "b".parse().unwrap() },
            ],
            condition: ResumeCondition::TimeoutOnly,
            resume_delay_ms: 4,
            reason: SuspensionReason::StepBoundary,
            requested_by: RequestedBy::Policy,
            deadline: Some(Millis(5)),
            timeout_behavior: TimeoutBehavior::AutoResume,
            continuation: Some("page 6".to_owned()),
            idempotency_key: Some("k".parse().unwrap()),
            steps: Vec::new(),
        };
        let body = serde_json::to_string(&SuspendRequest::from(suspend.clone())).unwrap();
        let request: SuspendRequest = serde_json::from_str(&body).unwrap();
        assert_eq!(request.into_command(id(), Millis(0), Uuid::nil()).unwrap(), suspend);
    }

    #[test]
    fn a_signal_is_read_as_it_was_meant_and_shown_as_it_is_kept() {
        let mut signal = DeliverSignal {
            id: id(),
            waitpoint: Uuid::from_u128(1),
            signal: Uuid::from_u128(2),
            authority: Authority::Token("k1:00".to_owned()),
            name: "paid".parse().unwrap(),
            category: "webhook".to_owned(),
            source_type: "service".to_owned(),
            source_identity: "payments".to_owned(),
            subject: Some("sha256:00".to_owned()),
            correlation_id: Some("order 7".to_owned()),
            idempotency_key: Some("k".parse().unwrap()),
            dedup_ttl_ms: Some(3),
            created_at: Some(Millis(4)),
            encoding: Some("raw".parse().unwrap()),
            payload: Some(Bytes::from_static(&[0, 255])),
            resume_delay_ms: Some(5),
        };
        let body = SignalRequest::try_from(signal.clone()).unwrap();
        let body: SignalRequest =
            serde_json::from_str(&serde_json::to_string(&body).unwrap()).unwrap();
        assert_eq!(body.into_command(id(), Uuid::nil()).unwrap(), signal);
        signal.authority = Authority::Link("AQAB".to_owned());
        assert_eq!(SignalRequest::try_from(signal).unwrap_err().field, Some("link"));

        let kept = Signal {
            execution: id(),
            id: Uuid::from_u128(2),
            waitpoint: Uuid::from_u128(1),
            number: 3,
            name: "paid".parse().unwrap(),
            category: "webhook".to_owned(),
            source_type: "service".to_owned(),
            source_identity: String::new(),
            subject: None,
            correlation_id: None,
            idempotency_key: Some("k".parse().unwrap()),
            dedup_until: Some(Millis(9)),
            created_at: Millis(4),
            accepted_at: Millis(5),
            encoding: Some("json".parse().unwrap()),
            payload: Some(Bytes::from_static(b"{\"sum\":7}")),
            effect: Effect::Appended,
        };
        let shown = serde_json::to_string(&SignalLine::from(kept.clone())).unwrap();
        let shown: SignalLine = serde_json::from_str(&shown).unwrap();
        assert_eq!(shown.into_signal(id()).unwrap(), kept);
    }
}
