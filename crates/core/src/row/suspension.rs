//! Suspensions, waitpoints, signals and signing keys as columns.

use bytes::Bytes;
use uuid::Uuid;

use super::{absent, corrupt, execution_id, number, parse, present, stored};
use crate::backend::StoreError;
use crate::keyring::SigningKey;
use crate::suspension::{
    Arrival, Counts, Signal, SuspendKey, Suspension, SuspensionEnd, Waitpoint, WaitpointState,
    WaitpointWord,
};
use crate::text::Encoding;
use crate::time::Millis;
use crate::token::Secret;

/// The columns of a suspension, named as in the table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is the column of the same name, documented in the schema")]
pub struct SuspensionRow {
    pub partition_key: i64,
    pub execution_id: [u8; 16],
    pub suspension_id: [u8; 16],
    pub epoch: i64,
    pub attempt_index: i64,
    pub primary_waitpoint_id: [u8; 16],
    pub condition: String,
    pub resume_delay_ms: i64,
    pub reason: String,
    pub requested_by: String,
    pub since_ms: i64,
    pub timeout_behavior: String,
    pub continuation: Option<String>,
    pub closed_at_ms: Option<i64>,
    pub close_reason: Option<String>,
    /// The ids of the signals that satisfied it, as a JSON list.
    pub satisfied_by: Option<String>,
}

impl From<&Suspension> for SuspensionRow {
    fn from(row: &Suspension) -> Self {
        let end = row.end.as_ref();
        Self {
            partition_key: i64::from(row.execution.partition().index()),
            execution_id: row.execution.uuid().into_bytes(),
            suspension_id: row.id.into_bytes(),
            epoch: stored(row.epoch),
            attempt_index: i64::from(row.attempt_index),
            primary_waitpoint_id: row.primary.into_bytes(),
            condition: serde_json::to_string(&row.condition).expect("a condition is JSON"),
            resume_delay_ms: stored(row.resume_delay_ms),
            reason: row.reason.to_string(),
            requested_by: row.requested_by.to_string(),
            since_ms: row.since.0,
            timeout_behavior: row.timeout_behavior.to_string(),
            continuation: row.continuation.clone(),
            closed_at_ms: end.map(|end| end.at.0),
            close_reason: end.map(|end| end.how.to_string()),
            satisfied_by: end
                .map(|end| serde_json::to_string(&end.by).expect("a list of ids is JSON")),
        }
    }
}

impl SuspensionRow {
    /// The suspension that the columns describe.
    pub fn read(&self) -> Result<Suspension, StoreError> {
        let json = |why: serde_json::Error| corrupt("condition", &self.condition, why);
        if self.closed_at_ms.is_none() {
            absent("close_reason", self.close_reason.as_deref())?;
            absent("satisfied_by", self.satisfied_by.as_deref())?;
        }
        let end = self.closed_at_ms.map(|at| {
            let by = present("satisfied_by", self.satisfied_by.as_deref())?;
            let how = present("close_reason", self.close_reason.as_deref())?;
            Ok(SuspensionEnd {
                at: Millis(at),
                how: parse("close_reason", how)?,
                by: serde_json::from_str(by).map_err(|why| corrupt("satisfied_by", by, why))?,
            })
        });
        Ok(Suspension {
            execution: execution_id(self.partition_key, &self.execution_id)?,
            id: Uuid::from_bytes(self.suspension_id),
            epoch: number("epoch", self.epoch)?,
            attempt_index: number("attempt_index", self.attempt_index)?,
            primary: Uuid::from_bytes(self.primary_waitpoint_id),
            condition: serde_json::from_str(&self.condition).map_err(json)?,
            resume_delay_ms: number("resume_delay_ms", self.resume_delay_ms)?,
            reason: parse("reason", &self.reason)?,
            requested_by: parse("requested_by", &self.requested_by)?,
            since: Millis(self.since_ms),
            timeout_behavior: parse("timeout_behavior", &self.timeout_behavior)?,
            continuation: self.continuation.clone(),
            end: end.transpose()?,
        })
    }
}

/// The columns of a waitpoint, named as in the table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is the column of the same name, documented in the schema")]
pub struct WaitpointRow {
    pub partition_key: i64,
    pub execution_id: [u8; 16],
    pub waitpoint_id: [u8; 16],
    pub waitpoint_key: String,
    pub attempt_index: i64,
    pub suspension_id: Option<[u8; 16]>,
    pub kid: String,
    pub token_digest: Vec<u8>,
    pub created_at_ms: i64,
    pub signal_count: i64,
    pub matched_count: i64,
    pub last_signal_at_ms: Option<i64>,
    pub state: String,
    pub activated_at_ms: Option<i64>,
    pub expires_at_ms: Option<i64>,
    pub closed_at_ms: Option<i64>,
    pub close_reason: Option<String>,
}

impl From<&Waitpoint> for WaitpointRow {
    fn from(row: &Waitpoint) -> Self {
        let base = Self {
            partition_key: i64::from(row.execution.partition().index()),
            execution_id: row.execution.uuid().into_bytes(),
            waitpoint_id: row.id.into_bytes(),
            waitpoint_key: row.key.to_string(),
            attempt_index: i64::from(row.attempt_index),
            suspension_id: row.suspension.map(Uuid::into_bytes),
            kid: row.kid.to_string(),
            token_digest: row.token_digest.to_vec(),
            created_at_ms: row.created_at.0,
            signal_count: i64::from(row.counts.signals),
            matched_count: i64::from(row.counts.matched),
            last_signal_at_ms: row.counts.last_at.map(|at| at.0),
            state: row.state.word().to_string(),
            ..Self::default()
        };
        match row.state {
            WaitpointState::Pending { expires_at } => {
                Self { expires_at_ms: Some(expires_at.0), ..base }
            }
            WaitpointState::Active { since, expires_at } => Self {
                activated_at_ms: Some(since.0),
                expires_at_ms: expires_at.map(|at| at.0),
                ..base
            },
            WaitpointState::Closed { at, reason, activated_at } => Self {
                activated_at_ms: activated_at.map(|at| at.0),
                closed_at_ms: Some(at.0),
                close_reason: Some(reason.to_string()),
                ..base
            },
        }
    }
}

impl WaitpointRow {
    /// The waitpoint that the columns describe.
    pub fn read(&self) -> Result<Waitpoint, StoreError> {
        let at = |ms: Option<i64>| ms.map(Millis);
        let open = || {
            absent("closed_at_ms", self.closed_at_ms)?;
            absent("close_reason", self.close_reason.as_deref())
        };
        let state = match parse("state", &self.state)? {
            WaitpointWord::Pending => {
                open()?;
                absent("activated_at_ms", self.activated_at_ms)?;
                let expires_at = present("expires_at_ms", self.expires_at_ms)?;
                WaitpointState::Pending { expires_at: Millis(expires_at) }
            }
            WaitpointWord::Active => {
                open()?;
                let since = Millis(present("activated_at_ms", self.activated_at_ms)?);
                WaitpointState::Active { since, expires_at: at(self.expires_at_ms) }
            }
            WaitpointWord::Closed => {
                absent("expires_at_ms", self.expires_at_ms)?;
                let reason = present("close_reason", self.close_reason.as_deref())?;
                WaitpointState::Closed {
                    at: Millis(present("closed_at_ms", self.closed_at_ms)?),
                    reason: parse("close_reason", reason)?,
                    activated_at: at(self.activated_at_ms),
                }
            }
        };
        let digest = <[u8; 32]>::try_from(self.token_digest.as_slice())
            .map_err(|why| corrupt("token_digest", self.token_digest.len(), why))?;
        Ok(Waitpoint {
            execution: execution_id(self.partition_key, &self.execution_id)?,
            id: Uuid::from_bytes(self.waitpoint_id),
            key: parse("waitpoint_key", &self.waitpoint_key)?,
            attempt_index: number("attempt_index", self.attempt_index)?,
            suspension: self.suspension_id.map(Uuid::from_bytes),
            kid: parse("kid", &self.kid)?,
            token_digest: digest,
            created_at: Millis(self.created_at_ms),
            counts: Counts {
                signals: number("signal_count", self.signal_count)?,
                matched: number("matched_count", self.matched_count)?,
                last_at: at(self.last_signal_at_ms),
            },
            state,
        })
    }
}

/// The columns of a signal, named as in the table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is the column of the same name, documented in the schema")]
pub struct SignalRow {
    pub partition_key: i64,
    pub execution_id: [u8; 16],
    pub signal_id: [u8; 16],
    pub waitpoint_id: [u8; 16],
    pub number: i64,
    pub name: String,
    pub category: String,
    pub source_type: String,
    pub source_identity: String,
    pub subject: Option<String>,
    pub correlation_id: Option<String>,
    pub idempotency_key: Option<String>,
    pub dedup_until_ms: Option<i64>,
    pub created_at_ms: i64,
    pub accepted_at_ms: i64,
    pub encoding: Option<String>,
    pub payload: Option<Bytes>,
    pub effect: String,
}

impl From<&Signal> for SignalRow {
    fn from(row: &Signal) -> Self {
        Self {
            partition_key: i64::from(row.execution.partition().index()),
            execution_id: row.execution.uuid().into_bytes(),
            signal_id: row.id.into_bytes(),
            waitpoint_id: row.waitpoint.into_bytes(),
            number: i64::from(row.number),
            name: row.name.to_string(),
            category: row.category.clone(),
            source_type: row.source_type.clone(),
            source_identity: row.source_identity.clone(),
            subject: row.subject.clone(),
            correlation_id: row.correlation_id.clone(),
            idempotency_key: row.idempotency_key.as_ref().map(ToString::to_string),
            dedup_until_ms: row.dedup_until.map(|at| at.0),
            created_at_ms: row.created_at.0,
            accepted_at_ms: row.accepted_at.0,
            encoding: row.encoding.as_ref().map(ToString::to_string),
            payload: row.payload.clone(),
            effect: row.effect.to_string(),
        }
    }
}

impl SignalRow {
    /// The signal that the columns describe.
    pub fn read(&self) -> Result<Signal, StoreError> {
        let key = self.idempotency_key.as_deref();
        match key {
            None => absent("dedup_until_ms", self.dedup_until_ms)?,
            Some(_) => drop(present("dedup_until_ms", self.dedup_until_ms)?),
        }
        let encoding = self.encoding.as_deref();
        Ok(Signal {
            execution: execution_id(self.partition_key, &self.execution_id)?,
            id: Uuid::from_bytes(self.signal_id),
            waitpoint: Uuid::from_bytes(self.waitpoint_id),
            number: number("number", self.number)?,
            name: parse("name", &self.name)?,
            category: self.category.clone(),
            source_type: self.source_type.clone(),
            source_identity: self.source_identity.clone(),
            subject: self.subject.clone(),
            correlation_id: self.correlation_id.clone(),
            idempotency_key: key.map(|key| parse("idempotency_key", key)).transpose()?,
            dedup_until: self.dedup_until_ms.map(Millis),
            created_at: Millis(self.created_at_ms),
            accepted_at: Millis(self.accepted_at_ms),
            encoding: encoding.map(|text| parse::<Encoding>("encoding", text)).transpose()?,
            payload: self.payload.clone(),
            effect: parse("effect", &self.effect)?,
        })
    }
}

/// The columns of a signal that a condition looks at, named as in the table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is the column of the same name, documented in the schema")]
pub struct ArrivalRow {
    pub partition_key: i64,
    pub execution_id: [u8; 16],
    pub signal_id: [u8; 16],
    pub waitpoint_id: [u8; 16],
    pub number: i64,
    pub name: String,
    pub source_type: String,
    pub source_identity: String,
    pub subject: Option<String>,
}

impl ArrivalRow {
    /// What the columns describe.
    pub fn read(self) -> Result<Arrival, StoreError> {
        Ok(Arrival {
            execution: execution_id(self.partition_key, &self.execution_id)?,
            id: Uuid::from_bytes(self.signal_id),
            waitpoint: Uuid::from_bytes(self.waitpoint_id),
            number: number("number", self.number)?,
            name: parse("name", &self.name)?,
            source_type: self.source_type,
            source_identity: self.source_identity,
            subject: self.subject,
        })
    }
}

/// The columns of what a repeated suspension is answered with, named as in the table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is the column of the same name, documented in the schema")]
pub struct SuspendKeyRow {
    pub partition_key: i64,
    pub execution_id: [u8; 16],
    pub idempotency_key: String,
    pub suspension_id: [u8; 16],
    /// The ids of its waitpoints, as a JSON list.
    pub waitpoints: String,
    pub already_satisfied: bool,
    pub expires_at_ms: i64,
}

impl From<&SuspendKey> for SuspendKeyRow {
    fn from(row: &SuspendKey) -> Self {
        Self {
            partition_key: i64::from(row.execution.partition().index()),
            execution_id: row.execution.uuid().into_bytes(),
            idempotency_key: row.key.to_string(),
            suspension_id: row.suspension.into_bytes(),
            waitpoints: serde_json::to_string(&row.waitpoints).expect("a list of ids is JSON"),
            already_satisfied: row.already_satisfied,
            expires_at_ms: row.expires_at.0,
        }
    }
}

impl SuspendKeyRow {
    /// What the columns describe.
    pub fn read(&self) -> Result<SuspendKey, StoreError> {
        let list = &self.waitpoints;
        Ok(SuspendKey {
            execution: execution_id(self.partition_key, &self.execution_id)?,
            key: parse("idempotency_key", &self.idempotency_key)?,
            suspension: Uuid::from_bytes(self.suspension_id),
            waitpoints: serde_json::from_str(list)
                .map_err(|why| corrupt("waitpoints", list, why))?,
            already_satisfied: self.already_satisfied,
            expires_at: Millis(self.expires_at_ms),
        })
    }
}

/// The columns of a signing key, named as in the table.
#[derive(Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is the column of the same name, documented in the schema")]
pub struct KeyColumns {
    pub kid: String,
    pub secret: Vec<u8>,
    pub created_at_ms: i64,
    /// Nothing while it is the current one.
    pub expires_at_ms: Option<i64>,
}

impl KeyColumns {
    /// The key that the columns describe.
    pub fn read(self) -> Result<(SigningKey, Option<Millis>), StoreError> {
        let kid = parse("kid", &self.kid)?;
        let secret = Secret::new(self.secret);
        let key = SigningKey { kid, secret, created_at: Millis(self.created_at_ms) };
        Ok((key, self.expires_at_ms.map(Millis)))
    }
}
