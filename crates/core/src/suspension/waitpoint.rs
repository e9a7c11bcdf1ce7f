//! Waitpoints: where signals to an execution arrive.

use uuid::Uuid;

use super::CloseReason;
use crate::ids::ExecutionId;
use crate::state::words;
use crate::text::{Kid, WaitpointKey};
use crate::time::Millis;
use crate::token::Claims;

/// Where signals to an execution arrive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waitpoint {
    /// Of which execution.
    pub execution: ExecutionId,
    /// Its id.
    pub id: Uuid,
    /// What conditions call it.
    pub key: WaitpointKey,
    /// The attempt that made it.
    pub attempt_index: u32,
    /// The suspension it belongs to, once it does.
    pub suspension: Option<Uuid>,
    /// The key that signed its token.
    pub kid: Kid,
    /// The digest of its token; the token itself is stored nowhere.
    pub token_digest: [u8; 32],
    /// Made.
    pub created_at: Millis,
    /// What has arrived.
    pub counts: Counts,
    /// Where it stands.
    pub state: WaitpointState,
}

/// What has arrived at a waitpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Signals.
    pub signals: u32,
    /// Those that its condition counts.
    pub matched: u32,
    /// When the last one came.
    pub last_at: Option<Millis>,
}

/// Where a waitpoint stands, as stored: one of a suspension that its execution has left is closed too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitpointState {
    /// Its execution runs; signals are kept for when it suspends.
    Pending {
        /// Closed at this time.
        expires_at: Millis,
    },
    /// Its execution waits.
    Active {
        /// Since when.
        since: Millis,
        /// Until when.
        expires_at: Option<Millis>,
    },
    /// Nothing more arrives.
    Closed {
        /// Since when.
        at: Millis,
        /// Why.
        reason: CloseReason,
        /// Since when its execution waited, if it did.
        activated_at: Option<Millis>,
    },
}

words! {
    /// Where a waitpoint stands, in a word.
    WaitpointWord { Pending = "pending", Active = "active", Closed = "closed" }
}

impl WaitpointState {
    /// In a word.
    pub fn word(&self) -> WaitpointWord {
        match self {
            Self::Pending { .. } => WaitpointWord::Pending,
            Self::Active { .. } => WaitpointWord::Active,
            Self::Closed { .. } => WaitpointWord::Closed,
        }
    }
}

impl Waitpoint {
    /// What its token says.
    pub fn claims(&self) -> Claims<'_> {
        Claims {
            execution: self.execution,
            waitpoint: self.id,
            key: &self.key,
            created_at: self.created_at,
        }
    }

    /// One that is used goes on without a deadline; nothing for the others.
    pub fn without_deadline(&self) -> Option<Self> {
        match self.state {
            WaitpointState::Active { since, .. } => {
                let state = WaitpointState::Active { since, expires_at: None };
                Some(Self { state, ..self.clone() })
            }
            WaitpointState::Pending { .. } | WaitpointState::Closed { .. } => None,
        }
    }

    /// Nothing more arrives.
    #[must_use]
    pub fn closed(&self, at: Millis, reason: CloseReason) -> Self {
        let activated_at = match self.state {
            WaitpointState::Pending { .. } => None,
            WaitpointState::Active { since, .. } => Some(since),
            WaitpointState::Closed { .. } => return self.clone(),
        };
        Self { state: WaitpointState::Closed { at, reason, activated_at }, ..self.clone() }
    }
}
