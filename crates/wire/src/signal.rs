//! Signals: what is sent to a waitpoint, by whoever was invited or by an operator, and what came.

use ff_core::condition::Word;
use ff_core::decide::deliver::{Authority, DeliverSignal, Delivered};
use ff_core::suspension::{Effect, Signal, WaitpointWord};
use ff_core::text::{IdempotencyKey, SignalName, SourceIdentity};
use ff_core::token::Link;
use ff_core::{ExecutionId, Millis, Rejection, view};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use crate::bounds::check_limit;
use crate::flow::graph::renamed;
use crate::hidden::Hidden;
use crate::id::read_uuid;
use crate::payload::{Json, PAYLOAD, Payload, present};
use crate::words;

/// Signals in a page when nobody says.
pub const LIMIT_DEFAULT: u32 = 100;

/// Send a signal to a waitpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SignalRequest {
    /// To which.
    #[schema(format = "uuid")]
    pub waitpoint_id: String,
    /// The token of the waitpoint. Whoever has it needs no other; without it, an operator sends the
    /// signal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub waitpoint_token: Option<Hidden>,
    /// The id of the signal; the server mints one when absent. Sent again under the same id, it is
    /// a duplicate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(format = "uuid")]
    pub signal_id: Option<String>,
    /// What it says.
    #[schema(min_length = 1, max_length = 256, example = "paid")]
    pub signal_name: String,
    /// What kind of thing it is.
    #[schema(max_length = 256, example = "webhook")]
    pub signal_category: String,
    /// What kind of thing sends it.
    #[schema(max_length = 256, example = "service")]
    pub source_type: String,
    /// Who sends it.
    #[schema(max_length = 256, example = "payments")]
    pub source_identity: String,
    /// The digest of what its sender decides on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 256)]
    pub subject: Option<String>,
    /// What it belongs to, for its sender.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 256)]
    pub correlation_id: Option<String>,
    /// Sent once under this key to this waitpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 256)]
    pub idempotency_key: Option<String>,
    /// How long the key is remembered (default 24 hours, or what the deployment says); 0 means not
    /// at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 315_360_000_000_i64)]
    pub dedup_ttl_ms: Option<u64>,
    /// When it was made, as its sender says (default: when it is accepted).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>)]
    pub created_at: Option<Millis>,
    /// What it carries, at most 64 KiB: any JSON value.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Json>, nullable = false)]
    pub payload: Option<Json>,
    /// What it carries, when it is not JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(content_encoding = "base64")]
    pub payload_base64: Option<String>,
    /// What the bytes of `payload_base64` are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoding: Option<String>,
    /// How long after this signal the execution may go on, if it is the last that was missing
    /// (default: what the suspension says).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 315_360_000_000_i64)]
    pub resume_delay_ms: Option<u64>,
}

impl SignalRequest {
    /// The command; `minted` is the id of the signal if it has none.
    pub fn into_command(self, id: ExecutionId, minted: Uuid) -> Result<DeliverSignal, Rejection> {
        let signal = self.signal_id.as_deref().map(|id| read_uuid("signal_id", id)).transpose()?;
        let authority = match self.waitpoint_token {
            Some(token) => Authority::Token(token.into_shown()),
            None => Authority::Operator,
        };
        let payload = Payload::read(PAYLOAD, (self.payload, self.payload_base64, self.encoding))?;
        let (payload, encoding) =
            payload.map_or((None, None), |payload| (Some(payload.bytes), payload.encoding));
        Ok(DeliverSignal {
            id,
            waitpoint: read_uuid("waitpoint_id", &self.waitpoint_id)?,
            signal: signal.unwrap_or(minted),
            authority,
            name: SignalName::new(self.signal_name)?,
            category: self.signal_category,
            source_type: self.source_type,
            source_identity: self.source_identity,
            subject: self.subject,
            correlation_id: self.correlation_id,
            idempotency_key: self.idempotency_key.map(IdempotencyKey::new).transpose()?,
            dedup_ttl_ms: self.dedup_ttl_ms,
            created_at: self.created_at,
            encoding,
            payload,
            resume_delay_ms: self.resume_delay_ms,
        })
    }
}

/// What became of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum SignalAnswer {
    /// It was kept.
    Accepted {
        /// Its id.
        #[schema(value_type = String, format = "uuid")]
        signal_id: Uuid,
        /// What it led to.
        #[schema(value_type = words::Effect)]
        effect: Effect,
    },
    /// It was sent before; the first one stands.
    Duplicate {
        /// The one that was kept.
        #[schema(value_type = String, format = "uuid")]
        existing_signal_id: Uuid,
    },
}

impl From<Delivered> for SignalAnswer {
    fn from(delivered: Delivered) -> Self {
        match delivered {
            Delivered::Accepted { signal_id, effect } => Self::Accepted { signal_id, effect },
            Delivered::Duplicate { existing_signal_id } => Self::Duplicate { existing_signal_id },
        }
    }
}

/// Say what a person decided. The same word of the same person, said again, is a duplicate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DecisionRequest {
    /// What.
    #[schema(value_type = words::Word)]
    pub word: Word,
    /// Who.
    #[schema(min_length = 1, max_length = 256, example = "ann")]
    pub by: String,
    /// The digest of what was decided on: `subject_digest` of the decision that is waited for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 256)]
    pub subject: Option<String>,
    /// Why, for whoever reads it later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// At which waitpoint; the only one that waits for a decision when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(format = "uuid")]
    pub waitpoint_id: Option<String>,
}

impl DecisionRequest {
    /// Who, and at which waitpoint if it says.
    pub fn who_and_where(&self) -> Result<(SourceIdentity, Option<Uuid>), Rejection> {
        let by = SourceIdentity::new(self.by.as_str());
        let waitpoint = self.waitpoint_id.as_deref().map(|id| read_uuid("waitpoint_id", id));
        Ok((by.map_err(|refused| renamed(refused, "by"))?, waitpoint.transpose()?))
    }
}

/// What whoever follows a link would do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OfferAnswer {
    /// To which execution.
    #[schema(value_type = String)]
    pub execution_id: ExecutionId,
    /// To which waitpoint.
    #[schema(value_type = String, format = "uuid")]
    pub waitpoint_id: Uuid,
    /// What its author calls it.
    pub waitpoint_key: String,
    /// What would be said.
    pub signal_name: String,
    /// In whose name; nothing for nobody in particular.
    pub source_identity: Option<String>,
    /// The digest of what would be decided on.
    pub subject: Option<String>,
    /// What would be decided on, in words, if that is what is waited for.
    pub subject_text: Option<String>,
    /// Whether it would count now: not when nobody waits there, or for something else, or for others.
    pub open: bool,
    /// Whether nobody waits there yet. What is sent is kept, and may count then.
    pub pending: bool,
}

impl OfferAnswer {
    /// What a link says to a waitpoint; `listening` is whether signals arrive there.
    pub fn new(link: Link, waitpoint: &view::WaitpointSnapshot, listening: bool) -> Self {
        let asked = waitpoint.approval.as_ref();
        let digest = asked.and_then(|asked| asked.subject_digest.as_ref());
        let same = digest == link.subject.as_ref();
        let decides = Word::of(&link.signal).is_some() && digest.is_some();
        let text = asked.and_then(|asked| asked.subject.clone());
        Self {
            execution_id: link.execution,
            waitpoint_id: link.waitpoint,
            waitpoint_key: link.key.into(),
            signal_name: link.signal.into(),
            source_identity: link.source_identity.map(String::from),
            subject: link.subject,
            subject_text: text.filter(|_| same),
            open: listening && (same || !decides),
            pending: waitpoint.state == WaitpointWord::Pending,
        }
    }
}

/// Which page of the signals of an execution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct SignalParams {
    /// After this number: `next` of the page before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<u32>,
    /// Signals in the page (default 100).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u32>,
}

impl SignalParams {
    /// The limit that applies.
    pub fn limit(self) -> Result<u32, Rejection> {
        check_limit(self.limit.unwrap_or(LIMIT_DEFAULT))
    }
}

/// For which attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ObservedParams {
    /// The attempt that goes on with them.
    pub attempt_index: u32,
}

/// A page of the signals of an execution.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SignalPage {
    /// The signals, in the order in which they were accepted.
    pub signals: Vec<SignalLine>,
    /// Where the next page begins, to be sent as `after`; nothing when this was the last.
    pub next: Option<u32>,
}

/// The signals that satisfied the last suspension.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ObservedAnswer {
    /// In the order in which they were accepted; empty when another attempt waited, or when it goes
    /// on without them.
    pub signals: Vec<SignalLine>,
}

/// A signal as it is kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SignalLine {
    /// Its id.
    #[schema(value_type = String, format = "uuid")]
    pub signal_id: Uuid,
    /// Where it arrived.
    #[schema(value_type = String, format = "uuid")]
    pub waitpoint_id: Uuid,
    /// Counts the signals of the execution.
    pub number: u32,
    /// What it says.
    pub signal_name: String,
    /// What kind of thing it is.
    pub signal_category: String,
    /// What kind of thing sent it.
    pub source_type: String,
    /// Who sent it; empty when nobody in particular.
    pub source_identity: String,
    /// The digest of what its sender decided on.
    pub subject: Option<String>,
    /// What it belongs to, for its sender.
    pub correlation_id: Option<String>,
    /// Sent once under this key.
    pub idempotency_key: Option<String>,
    /// Until when the key is remembered.
    #[schema(value_type = Option<i64>)]
    pub dedup_until: Option<Millis>,
    /// When it was made, as its sender says.
    #[schema(value_type = i64)]
    pub created_at: Millis,
    /// When it was accepted.
    #[schema(value_type = i64)]
    pub accepted_at: Millis,
    /// What it carries, when it is JSON.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Json>, nullable = false)]
    pub payload: Option<Json>,
    /// What it carries, when it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(content_encoding = "base64", nullable = false)]
    pub payload_base64: Option<String>,
    /// What it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub encoding: Option<String>,
    /// What it led to.
    #[schema(value_type = words::Effect)]
    pub effect: Effect,
}

impl From<Signal> for SignalLine {
    fn from(signal: Signal) -> Self {
        let encoding = signal.encoding;
        let payload = signal.payload.map(|bytes| Payload { encoding, bytes }.write());
        let (payload, payload_base64, encoding) = payload.unwrap_or_default();
        Self {
            signal_id: signal.id,
            waitpoint_id: signal.waitpoint,
            number: signal.number,
            signal_name: signal.name.into(),
            signal_category: signal.category,
            source_type: signal.source_type,
            source_identity: signal.source_identity,
            subject: signal.subject,
            correlation_id: signal.correlation_id,
            idempotency_key: signal.idempotency_key.map(String::from),
            dedup_until: signal.dedup_until,
            created_at: signal.created_at,
            accepted_at: signal.accepted_at,
            payload,
            payload_base64,
            encoding,
            effect: signal.effect,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::*;

    fn body() -> serde_json::Value {
        json!({"waitpoint_id": Uuid::from_u128(2), "waitpoint_token": "k1:00",
               "signal_name": "paid", "signal_category": "webhook", "source_type": "service",
               "source_identity": "payments", "payload": {"sum": 7}})
    }

    #[test]
    fn a_token_is_read_and_never_printed() {
        let request: SignalRequest = serde_json::from_str(&body().to_string()).unwrap();
        assert!(!format!("{request:?}").contains("k1:00"), "{request:?}");
        let id = ExecutionId::solo(Uuid::nil());
        let signal = request.into_command(id, Uuid::from_u128(3)).unwrap();
        assert_eq!(signal.authority, Authority::Token("k1:00".to_owned()));
        assert_eq!(signal.signal, Uuid::from_u128(3));
        assert_eq!(&signal.payload.unwrap()[..], br#"{"sum":7}"#);
        assert!(!format!("{:?}", signal.authority).contains("k1:00"));
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_field() {
        for (field, value) in [
            ("waitpoint_id", json!("here")),
            ("signal_id", json!("mine")),
            ("signal_name", json!("__timeout")),
            ("idempotency_key", json!("")),
            ("payload_base64", json!("?")),
        ] {
            let mut body = body();
            body[field] = value;
            if field == "payload_base64" {
                body.as_object_mut().unwrap().remove("payload");
            }
            let request: SignalRequest = serde_json::from_str(&body.to_string()).unwrap();
            let id = ExecutionId::solo(Uuid::nil());
            let refused = request.into_command(id, Uuid::nil()).unwrap_err();
            assert_eq!(refused.field, Some(field));
        }
        let nobody = DecisionRequest {
            word: Word::Approved,
            by: String::new(),
            subject: None,
            comment: None,
            waitpoint_id: None,
        };
        assert_eq!(nobody.who_and_where().unwrap_err().field, Some("by"));
    }
}
