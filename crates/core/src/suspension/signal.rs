//! Signals: what was sent to a waitpoint.

use bytes::Bytes;
use uuid::Uuid;

use crate::condition::Seen;
use crate::ids::ExecutionId;
use crate::state::words;
use crate::text::{Encoding, IdempotencyKey, SignalName, WaitpointKey};
use crate::time::Millis;

words! {
    /// What a signal led to.
    Effect {
        ConditionSatisfied = "resume_condition_satisfied",
        Appended = "appended_to_waitpoint",
        AppendedDuplicate = "appended_to_waitpoint_duplicate",
        IgnoredNotInCondition = "signal_ignored_not_in_condition",
        IgnoredMatcherFailed = "signal_ignored_matcher_failed",
        Buffered = "buffered_for_pending_waitpoint",
    }
}

/// What was sent to a waitpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signal {
    /// To which execution.
    pub execution: ExecutionId,
    /// Its id, which its sender may choose.
    pub id: Uuid,
    /// To which waitpoint.
    pub waitpoint: Uuid,
    /// Counts the signals of the execution, in the order in which they were accepted.
    pub number: u32,
    /// What it says.
    pub name: SignalName,
    /// What kind of thing it is.
    pub category: String,
    /// What kind of thing sent it.
    pub source_type: String,
    /// Who sent it.
    pub source_identity: String,
    /// The digest of what its sender decided on.
    pub subject: Option<String>,
    /// What it belongs to, for its sender.
    pub correlation_id: Option<String>,
    /// Sent once under this key.
    pub idempotency_key: Option<IdempotencyKey>,
    /// For how long.
    pub dedup_until: Option<Millis>,
    /// When it was made, as its sender says.
    pub created_at: Millis,
    /// When it was accepted.
    pub accepted_at: Millis,
    /// How its payload is encoded.
    pub encoding: Option<Encoding>,
    /// Its payload.
    pub payload: Option<Bytes>,
    /// What it led to.
    pub effect: Effect,
}

impl Signal {
    /// What a condition looks at.
    pub fn arrival(&self) -> Arrival {
        Arrival {
            execution: self.execution,
            id: self.id,
            waitpoint: self.waitpoint,
            number: self.number,
            name: self.name.clone(),
            source_type: self.source_type.clone(),
            source_identity: self.source_identity.clone(),
            subject: self.subject.clone(),
        }
    }
}

impl Effect {
    /// Whether a signal with this effect is looked at when the next one arrives. Of the others, none
    /// can ever count for the suspension that they met.
    pub fn may_count(self) -> bool {
        match self {
            Self::Appended | Self::Buffered => true,
            Self::ConditionSatisfied
            | Self::AppendedDuplicate
            | Self::IgnoredNotInCondition
            | Self::IgnoredMatcherFailed => false,
        }
    }
}

/// As much of a signal as a condition looks at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// To which execution.
    pub execution: ExecutionId,
    /// Its id.
    pub id: Uuid,
    /// To which waitpoint.
    pub waitpoint: Uuid,
    /// Counts the signals of the execution.
    pub number: u32,
    /// What it says.
    pub name: SignalName,
    /// What kind of thing sent it.
    pub source_type: String,
    /// Who sent it.
    pub source_identity: String,
    /// The digest of what its sender decided on.
    pub subject: Option<String>,
}

impl Arrival {
    /// As a condition looks at it.
    pub fn seen<'s>(&'s self, waitpoint: &'s WaitpointKey) -> Seen<'s> {
        Seen {
            waitpoint,
            id: self.id,
            name: &self.name,
            source_type: &self.source_type,
            source_identity: &self.source_identity,
            subject: self.subject.as_deref().unwrap_or_default(),
        }
    }
}
