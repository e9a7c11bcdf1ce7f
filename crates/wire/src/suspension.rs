//! Suspensions: an execution gives its slot back and waits for people, callbacks or a time.

pub mod snapshot;

use ff_core::condition::ResumeCondition;
use ff_core::decide::resume::Resume;
use ff_core::decide::suspend::{Binding, Opened, Suspend, SuspendedReply};
use ff_core::state::PublicState;
use ff_core::suspension::{RequestedBy, SuspensionReason, TimeoutBehavior};
use ff_core::text::{IdempotencyKey, WaitpointKey};
use ff_core::{Code, ExecutionId, Millis, Rejection};
use serde::de::IntoDeserializer;
use serde::{Deserialize, Deserializer, Serialize};
use sha2::{Digest, Sha256};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::hidden::Hidden;
use crate::id::read_uuid;
use crate::lease::Fence;
use crate::step::{NewStep, into_steps};
use crate::{condition, words};

pub use snapshot::{SuspendedPage, SuspendedParams, SuspensionAnswer, SuspensionSnapshot};

/// The short word for a timeout that lets the execution go on.
const AUTO_RESUME: &str = "auto_resume";
/// The only place where what was suspended goes on.
const RUNNABLE: &str = "runnable";

/// Give an execution back until something happens, to go on with the same attempt then.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SuspendRequest {
    /// Proof of holding it.
    pub fence: Fence,
    /// The id of the suspension; the server mints one when absent. Sent again under the same id,
    /// the request is answered like the first time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(format = "uuid")]
    pub suspension_id: Option<String>,
    /// Where signals arrive; the first is the one to show.
    #[schema(min_items = 1, max_items = 256)]
    pub waitpoints: Vec<NewBinding>,
    /// What it waits for.
    #[schema(value_type = condition::ResumeCondition)]
    pub resume_condition: ResumeCondition,
    /// How it goes on then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume_policy: Option<ResumePolicy>,
    /// Why it waits.
    #[schema(value_type = words::SuspensionReason)]
    pub reason_code: SuspensionReason,
    /// Who asks for it (default `worker`).
    #[serde(default = "worker")]
    #[schema(value_type = words::RequestedBy, required = false)]
    pub requested_by: RequestedBy,
    /// Until when; absent means for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>)]
    pub timeout_at: Option<Millis>,
    /// For how long; instead of `timeout_at`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 315_360_000_000_i64)]
    pub timeout_in_ms: Option<u64>,
    /// What happens when nobody comes in time (default `fail`). `auto_resume` is short for
    /// `auto_resume_with_timeout_signal`.
    #[serde(default = "fail", deserialize_with = "behavior")]
    #[schema(value_type = words::TimeoutBehavior, required = false)]
    pub timeout_behavior: TimeoutBehavior,
    /// Whatever helps the worker to go on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 4096)]
    pub continuation_metadata_pointer: Option<String>,
    /// Repeats under this key are answered like the first; empty means none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 256)]
    pub idempotency_key: Option<String>,
    /// Steps to record in the same transaction, so that whoever goes on finds them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 1000)]
    pub steps: Vec<NewStep>,
}

/// A waitpoint of a suspension.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum NewBinding {
    /// A new one.
    Fresh {
        /// Its id; one that follows from the suspension and the key when absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schema(format = "uuid")]
        waitpoint_id: Option<String>,
        /// What the condition calls it.
        waitpoint_key: String,
    },
    /// One that was made while the execution ran. Signals that arrived there count.
    Pending {
        /// Its id.
        #[schema(format = "uuid")]
        waitpoint_id: String,
    },
}

/// How an execution goes on when it has what it waits for. Only the delay can be chosen; the other
/// fields are read so that nobody relies on what is not done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ResumePolicy {
    /// How long after that it may be claimed (default 0).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 315_360_000_000_i64)]
    pub resume_delay_ms: Option<u64>,
    /// Always `runnable`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resume_target: Option<String>,
    /// Always true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consume_matched_signals: Option<bool>,
    /// Always false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retain_signal_buffer_until_closed: Option<bool>,
    /// Always true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub close_waitpoint_on_resume: Option<bool>,
}

fn worker() -> RequestedBy {
    RequestedBy::Worker
}

fn fail() -> TimeoutBehavior {
    TimeoutBehavior::Fail
}

/// Reads what happens when nobody comes in time, by its long word or its short one.
fn behavior<'de, D: Deserializer<'de>>(field: D) -> Result<TimeoutBehavior, D::Error> {
    let word = String::deserialize(field)?;
    if word == AUTO_RESUME {
        return Ok(TimeoutBehavior::AutoResume);
    }
    TimeoutBehavior::deserialize(word.into_deserializer())
}

impl ResumePolicy {
    /// The delay, unless it asks for what is not done.
    fn delay_ms(self) -> Result<u64, Rejection> {
        let switches = [
            ("resume_policy.consume_matched_signals", self.consume_matched_signals, true),
            (
                "resume_policy.retain_signal_buffer_until_closed",
                self.retain_signal_buffer_until_closed,
                false,
            ),
            ("resume_policy.close_waitpoint_on_resume", self.close_waitpoint_on_resume, true),
        ];
        if let Some((field, Some(said), always)) =
            switches.into_iter().find(|(_, said, always)| said.is_some_and(|said| said != *always))
        {
            let why = format!("is not supported; leave it out, or say {always}");
            return Err(Rejection::invalid(Code::InvalidInput, field, said, why));
        }
        match self.resume_target {
            Some(target) if target != RUNNABLE => {
                let why = format!("is not supported; leave it out, or say {RUNNABLE}");
                let field = "resume_policy.resume_target";
                Err(Rejection::invalid(Code::InvalidInput, field, target, why))
            }
            Some(_) | None => Ok(self.resume_delay_ms.unwrap_or_default()),
        }
    }
}

impl NewBinding {
    fn into_binding(self, suspension: Uuid) -> Result<Binding, Rejection> {
        match self {
            Self::Fresh { waitpoint_id, waitpoint_key } => {
                let key = WaitpointKey::new(waitpoint_key)?;
                let id = match waitpoint_id {
                    Some(id) => read_uuid("waitpoint_id", &id)?,
                    None => derived(suspension, &key),
                };
                Ok(Binding::Fresh { id, key })
            }
            Self::Pending { waitpoint_id } => {
                Ok(Binding::Pending { id: read_uuid("waitpoint_id", &waitpoint_id)? })
            }
        }
    }
}

/// The id of a fresh waitpoint: a repeated request names the same ones, and so gets their tokens.
fn derived(suspension: Uuid, key: &WaitpointKey) -> Uuid {
    let digest = Sha256::new().chain_update(suspension).chain_update(key.as_str()).finalize();
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    uuid::Builder::from_custom_bytes(bytes).into_uuid()
}

impl SuspendRequest {
    /// The command; a length of time counts from `now`, and `minted` is its id if it has none.
    pub fn into_command(
        self,
        id: ExecutionId,
        now: Millis,
        minted: Uuid,
    ) -> Result<Suspend, Rejection> {
        let deadline = match (self.timeout_at, self.timeout_in_ms) {
            (Some(_), Some(_)) => {
                let why = "and timeout_in_ms exclude each other";
                return Err(Rejection::invalid(Code::InvalidInput, "timeout_at", "", why));
            }
            (at, None) => at,
            (None, Some(ms)) => Some(now.plus(ms)),
        };
        let suspension = self.suspension_id.as_deref();
        let suspension = suspension.map(|id| read_uuid("suspension_id", id)).transpose()?;
        let suspension = suspension.unwrap_or(minted);
        let bindings = self.waitpoints.into_iter().map(|one| one.into_binding(suspension));
        let key = self.idempotency_key.filter(|key| !key.is_empty());
        Ok(Suspend {
            id,
            fence: self.fence.into(),
            suspension,
            waitpoints: bindings.collect::<Result<_, _>>()?,
            condition: self.resume_condition,
            resume_delay_ms: self.resume_policy.unwrap_or_default().delay_ms()?,
            reason: self.reason_code,
            requested_by: self.requested_by,
            deadline,
            timeout_behavior: self.timeout_behavior,
            continuation: self.continuation_metadata_pointer,
            idempotency_key: key.map(IdempotencyKey::new).transpose()?,
            steps: into_steps(self.steps)?,
        })
    }
}

/// Whether it waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum SuspendAnswer {
    /// It does: the lease is gone.
    Suspended {
        /// The suspension.
        #[schema(value_type = String, format = "uuid")]
        suspension_id: Uuid,
        /// Its waitpoints, in the order of the request.
        waitpoints: Vec<OpenedWaitpoint>,
    },
    /// What it waits for had happened: the lease still holds.
    AlreadySatisfied {
        /// The suspension.
        #[schema(value_type = String, format = "uuid")]
        suspension_id: Uuid,
        /// Its waitpoints, in the order of the request.
        waitpoints: Vec<OpenedWaitpoint>,
    },
}

/// A waitpoint, and what lets others send signals to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OpenedWaitpoint {
    /// Its id.
    #[schema(value_type = String, format = "uuid")]
    pub waitpoint_id: Uuid,
    /// What the condition calls it.
    pub waitpoint_key: String,
    /// What its senders present; nothing when the key that signed it is gone.
    #[schema(value_type = Option<String>)]
    pub token: Option<Hidden>,
}

impl From<Opened> for OpenedWaitpoint {
    fn from(opened: Opened) -> Self {
        let Opened { waitpoint_id, waitpoint_key, token } = opened;
        let token = token.map(|token| Hidden::new(token.as_str()));
        Self { waitpoint_id, waitpoint_key: waitpoint_key.into(), token }
    }
}

impl From<SuspendedReply> for SuspendAnswer {
    fn from(reply: SuspendedReply) -> Self {
        let SuspendedReply { suspension_id, waitpoints, already_satisfied } = reply;
        let waitpoints = waitpoints.into_iter().map(OpenedWaitpoint::from).collect();
        if already_satisfied {
            Self::AlreadySatisfied { suspension_id, waitpoints }
        } else {
            Self::Suspended { suspension_id, waitpoints }
        }
    }
}

/// Let a suspended execution go on, whatever it waits for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ResumeRequest {
    /// From which suspension, if not from whichever it is in: sent again, it then releases no other.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = "uuid")]
    pub suspension_id: Option<String>,
    /// Why.
    #[schema(max_length = 4096)]
    pub reason: String,
    /// How long after this it may be claimed.
    #[schema(maximum = 315_360_000_000_i64)]
    pub resume_delay_ms: u64,
}

impl ResumeRequest {
    /// The command.
    pub fn into_command(self, id: ExecutionId) -> Result<Resume, Rejection> {
        let Self { suspension_id, reason, resume_delay_ms } = self;
        let suspension = suspension_id.as_deref().map(|id| read_uuid("suspension_id", id));
        Ok(Resume { id, suspension: suspension.transpose()?, reason, resume_delay_ms })
    }
}

/// It goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum ResumeAnswer {
    /// With the same attempt.
    Resumed {
        /// Where it stands.
        #[schema(value_type = words::PublicState)]
        public_state: PublicState,
    },
}

impl From<PublicState> for ResumeAnswer {
    fn from(public_state: PublicState) -> Self {
        Self::Resumed { public_state }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(more: &Value) -> Result<Suspend, Rejection> {
        let mut body = json!({
            "fence": {"attempt_index": 0, "lease_epoch": 1}, "reason_code": "waiting_for_signal",
            "waitpoints": [{"fresh": {"waitpoint_key": "a"}}],
            "resume_condition": {"single": {"waitpoint": "a"}},
        });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let request: SuspendRequest = serde_json::from_value(body).unwrap();
        request.into_command(ExecutionId::solo(Uuid::nil()), Millis(1_000), Uuid::from_u128(7))
    }

    #[test]
    fn what_is_not_said_takes_its_default() {
        let suspend = read(&json!({})).unwrap();
        assert_eq!(suspend.suspension, Uuid::from_u128(7));
        assert_eq!((suspend.resume_delay_ms, suspend.deadline), (0, None));
        assert_eq!(suspend.requested_by, RequestedBy::Worker);
        assert_eq!(suspend.timeout_behavior, TimeoutBehavior::Fail);
        let none = read(&json!({"idempotency_key": ""})).unwrap();
        assert_eq!(none.idempotency_key, None);
    }

    #[test]
    fn a_repeat_names_the_same_waitpoints() {
        let named = json!({"suspension_id": Uuid::from_u128(9)});
        let (first, second) = (read(&named).unwrap(), read(&named).unwrap());
        assert_eq!(first.waitpoints, second.waitpoints);
        let other = read(&json!({"suspension_id": Uuid::from_u128(8)})).unwrap();
        assert_ne!(first.waitpoints, other.waitpoints);
    }

    #[test]
    fn a_time_is_said_in_one_way() {
        let until = read(&json!({"timeout_at": 5_000})).unwrap();
        assert_eq!(until.deadline, Some(Millis(5_000)));
        let within = read(&json!({"timeout_in_ms": 500, "timeout_behavior": "auto_resume"}));
        let within = within.unwrap();
        assert_eq!(within.deadline, Some(Millis(1_500)));
        assert_eq!(within.timeout_behavior, TimeoutBehavior::AutoResume);
        let both = read(&json!({"timeout_at": 1, "timeout_in_ms": 1})).unwrap_err();
        assert_eq!(both.field, Some("timeout_at"));
    }

    #[test]
    fn a_policy_that_is_not_kept_is_refused() {
        let kept = json!({"resume_policy": {
            "resume_delay_ms": 5, "resume_target": "runnable", "consume_matched_signals": true,
            "retain_signal_buffer_until_closed": false, "close_waitpoint_on_resume": true,
        }});
        assert_eq!(read(&kept).unwrap().resume_delay_ms, 5);
        for (field, value) in [
            ("resume_target", json!("waiting")),
            ("consume_matched_signals", json!(false)),
            ("retain_signal_buffer_until_closed", json!(true)),
            ("close_waitpoint_on_resume", json!(false)),
        ] {
            let refused = read(&json!({"resume_policy": {field: value}})).unwrap_err();
            assert_eq!(refused.field, Some(format!("resume_policy.{field}").leak() as &str));
            assert!(refused.message.contains("is not supported"), "{refused:?}");
        }
    }
}
