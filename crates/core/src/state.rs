//! The words for where an execution stands: stored ones, and those derived from them.
//!
//! Stored are the phase, the terminal outcome, how the last lease ended and what the next claim
//! will be. The state vector and the public state are computed by [`vector`], and nowhere else.

use serde::Serialize;

use crate::execution::{Execution, Next, Runnable, State, WaitReason};
use crate::suspension::SuspensionReason;
use crate::time::Millis;

/// A stored or shown word that is none of ours.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a known literal")]
pub struct UnknownLiteral(pub String);

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($variant:ident = $text:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[derive(serde::Serialize, serde::Deserialize)]
        pub enum $name {
            $(#[doc = concat!("`", $text, "`")] #[serde(rename = $text)] $variant),*
        }

        impl $name {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// The literal, the same in storage, over the wire and on screen.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),* }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = crate::state::UnknownLiteral;
            fn from_str(text: &str) -> Result<Self, crate::state::UnknownLiteral> {
                Self::ALL
                    .iter()
                    .copied()
                    .find(|word| word.as_str() == text)
                    .ok_or_else(|| crate::state::UnknownLiteral(text.to_owned()))
            }
        }
    };
}
pub(crate) use words;

words! {
    /// Where in its life an execution is.
    Phase {
        Runnable = "runnable", Active = "active", Suspended = "suspended", Terminal = "terminal",
    }
}
words! {
    /// How an execution ended.
    TerminalOutcome {
        Success = "success", Failed = "failed", Cancelled = "cancelled", Expired = "expired",
        Skipped = "skipped",
    }
}
words! {
    /// Who may act on it.
    OwnershipState { Unowned = "unowned", Leased = "leased" }
}
words! {
    /// Whether a worker may claim it.
    EligibilityState {
        EligibleNow = "eligible_now",
        NotEligibleUntilTime = "not_eligible_until_time",
        BlockedByDependencies = "blocked_by_dependencies",
        BlockedByOperator = "blocked_by_operator",
        NotApplicable = "not_applicable",
    }
}
words! {
    /// What it waits for.
    BlockingReason {
        None = "none",
        WaitingForWorker = "waiting_for_worker",
        WaitingForDelay = "waiting_for_delay",
        WaitingForRetryBackoff = "waiting_for_retry_backoff",
        WaitingForReclaimBackoff = "waiting_for_reclaim_backoff",
        WaitingForResumeDelay = "waiting_for_resume_delay",
        WaitingForChildren = "waiting_for_children",
        PausedByOperator = "paused_by_operator",
        WaitingForSignal = "waiting_for_signal",
        WaitingForApproval = "waiting_for_approval",
        WaitingForCallback = "waiting_for_callback",
        WaitingForToolResult = "waiting_for_tool_result",
        PausedByPolicy = "paused_by_policy",
        WaitingForBudget = "waiting_for_budget",
    }
}
words! {
    /// The current attempt, in summary.
    AttemptState {
        None = "none",
        PendingFirstAttempt = "pending_first_attempt",
        RunningAttempt = "running_attempt",
        AttemptInterrupted = "attempt_interrupted",
        PendingRetryAttempt = "pending_retry_attempt",
        PendingReclaimAttempt = "pending_reclaim_attempt",
        PendingReplayAttempt = "pending_replay_attempt",
        AttemptTerminal = "attempt_terminal",
    }
}
words! {
    /// The one word a user looks at.
    PublicState {
        Waiting = "waiting", Delayed = "delayed", WaitingChildren = "waiting_children",
        Active = "active", Suspended = "suspended", Completed = "completed", Failed = "failed",
        Cancelled = "cancelled",
        Expired = "expired", Skipped = "skipped",
    }
}

impl PublicState {
    /// Whether nothing will happen any more unless someone replays it.
    pub fn is_terminal(self) -> bool {
        match self {
            Self::Waiting
            | Self::Delayed
            | Self::WaitingChildren
            | Self::Active
            | Self::Suspended => false,
            Self::Completed | Self::Failed | Self::Cancelled | Self::Expired | Self::Skipped => {
                true
            }
        }
    }
}

/// All dimensions of an execution's state at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StateVector {
    /// Where in its life it is.
    pub lifecycle_phase: Phase,
    /// Who may act on it.
    pub ownership_state: OwnershipState,
    /// Whether a worker may claim it.
    pub eligibility_state: EligibilityState,
    /// What it waits for.
    pub blocking_reason: BlockingReason,
    /// How it ended.
    pub terminal_outcome: Option<TerminalOutcome>,
    /// The current attempt.
    pub attempt_state: AttemptState,
    /// The one word for it.
    pub public_state: PublicState,
    /// What it waits for, in words.
    pub blocking_detail: Option<String>,
}

/// Derives the state vector. A wait that is over at `now` reads as none.
pub fn vector(x: &Execution, now: Millis) -> StateVector {
    let mut v = StateVector {
        lifecycle_phase: x.state.phase(),
        ownership_state: OwnershipState::Unowned,
        eligibility_state: EligibilityState::NotApplicable,
        blocking_reason: BlockingReason::None,
        terminal_outcome: None,
        attempt_state: AttemptState::None,
        public_state: public_state(x, now),
        blocking_detail: None,
    };
    match &x.state {
        State::Runnable(r) => {
            v.attempt_state = match r.next {
                Next::First => AttemptState::PendingFirstAttempt,
                Next::Retry(_) => AttemptState::PendingRetryAttempt,
                Next::Reclaim => AttemptState::PendingReclaimAttempt,
                Next::Replay => AttemptState::PendingReplayAttempt,
                Next::Resume(_) => AttemptState::AttemptInterrupted,
            };
            (v.eligibility_state, v.blocking_reason, v.blocking_detail) = waiting(x, r, now);
        }
        State::Active(_) => {
            v.ownership_state = OwnershipState::Leased;
            v.attempt_state = AttemptState::RunningAttempt;
        }
        State::Suspended(s) => {
            v.attempt_state = AttemptState::AttemptInterrupted;
            v.blocking_reason = blocking(s.reason);
            v.blocking_detail = Some(match (s.deadline, s.missed) {
                (Some(at), _) => format!("{}, until {at}", s.reason),
                (None, Some(at)) => format!("{}, nobody came by {at}", s.reason),
                (None, None) => s.reason.to_string(),
            });
        }
        State::Terminal(t) => {
            v.terminal_outcome = Some(t.ending.outcome());
            if x.counts.attempts > 0 {
                v.attempt_state = AttemptState::AttemptTerminal;
            }
        }
    }
    v
}

/// Whether a runnable execution may be claimed, what it waits for, and that in words.
fn waiting(
    x: &Execution,
    r: &Runnable,
    now: Millis,
) -> (EligibilityState, BlockingReason, Option<String>) {
    if r.gated {
        let said = "waits for others in its flow".to_owned();
        let eligibility = EligibilityState::BlockedByDependencies;
        return (eligibility, BlockingReason::WaitingForChildren, Some(said));
    }
    if let Some(hold) = &r.hold {
        let said = format!("held: {}", hold.reason);
        let eligibility = EligibilityState::BlockedByOperator;
        return (eligibility, BlockingReason::PausedByOperator, Some(said));
    }
    let Some(wait) = r.wait.filter(|wait| wait.until > now) else {
        return (EligibilityState::EligibleNow, BlockingReason::WaitingForWorker, None);
    };
    let said = format!("delayed until {}", wait.until);
    let (blocking, said) = match wait.reason {
        WaitReason::Delay => (BlockingReason::WaitingForDelay, said),
        WaitReason::RetryBackoff if r.next == Next::Reclaim => {
            let said = format!("lost {} leases in a row, {said}", x.counts.reclaims);
            (BlockingReason::WaitingForReclaimBackoff, said)
        }
        WaitReason::RetryBackoff => (BlockingReason::WaitingForRetryBackoff, said),
        WaitReason::ResumeDelay => (BlockingReason::WaitingForResumeDelay, said),
    };
    (EligibilityState::NotEligibleUntilTime, blocking, Some(said))
}

/// What a suspended execution waits for.
fn blocking(reason: SuspensionReason) -> BlockingReason {
    match reason {
        SuspensionReason::WaitingForSignal | SuspensionReason::StepBoundary => {
            BlockingReason::WaitingForSignal
        }
        SuspensionReason::WaitingForApproval => BlockingReason::WaitingForApproval,
        SuspensionReason::WaitingForCallback => BlockingReason::WaitingForCallback,
        SuspensionReason::WaitingForToolResult => BlockingReason::WaitingForToolResult,
        SuspensionReason::WaitingForOperatorReview | SuspensionReason::ManualPause => {
            BlockingReason::PausedByOperator
        }
        SuspensionReason::PausedByPolicy => BlockingReason::PausedByPolicy,
        SuspensionReason::PausedByBudget => BlockingReason::WaitingForBudget,
    }
}

/// Derives the one word a user looks at.
pub fn public_state(x: &Execution, now: Millis) -> PublicState {
    match &x.state {
        State::Runnable(r) if r.gated => PublicState::WaitingChildren,
        State::Runnable(r) if r.hold.is_some() => PublicState::Waiting,
        State::Runnable(r) => match r.wait {
            Some(wait) if wait.until > now => PublicState::Delayed,
            Some(_) | None => PublicState::Waiting,
        },
        State::Active(_) => PublicState::Active,
        State::Suspended(_) => PublicState::Suspended,
        State::Terminal(t) => t.ending.outcome().into(),
    }
}

impl From<TerminalOutcome> for PublicState {
    fn from(outcome: TerminalOutcome) -> Self {
        match outcome {
            TerminalOutcome::Success => Self::Completed,
            TerminalOutcome::Failed => Self::Failed,
            TerminalOutcome::Cancelled => Self::Cancelled,
            TerminalOutcome::Expired => Self::Expired,
            TerminalOutcome::Skipped => Self::Skipped,
        }
    }
}

/// What the stored columns of an execution in some public state hold; how a store finds them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredState {
    /// The phase column.
    pub phase: Phase,
    /// The outcome column.
    pub outcome: Option<TerminalOutcome>,
    /// Whether a wait must lie in the future (`true`), must not (`false`), or does not matter.
    pub waits: Option<bool>,
    /// The gated column.
    pub gated: bool,
}

impl PublicState {
    /// The inverse of [`public_state`], as column values.
    pub fn stored(self) -> StoredState {
        let gated = self == Self::WaitingChildren;
        let (phase, outcome, waits) = match self {
            Self::Waiting => (Phase::Runnable, None, Some(false)),
            Self::Delayed => (Phase::Runnable, None, Some(true)),
            Self::WaitingChildren => (Phase::Runnable, None, None),
            Self::Active => (Phase::Active, None, None),
            Self::Suspended => (Phase::Suspended, None, None),
            Self::Completed => (Phase::Terminal, Some(TerminalOutcome::Success), None),
            Self::Failed => (Phase::Terminal, Some(TerminalOutcome::Failed), None),
            Self::Cancelled => (Phase::Terminal, Some(TerminalOutcome::Cancelled), None),
            Self::Expired => (Phase::Terminal, Some(TerminalOutcome::Expired), None),
            Self::Skipped => (Phase::Terminal, Some(TerminalOutcome::Skipped), None),
        };
        StoredState { phase, outcome, waits, gated }
    }

    /// The public state of rows that a store counted by their columns.
    pub fn of_stored(stored: StoredState) -> Option<Self> {
        Self::ALL.iter().copied().find(|state| {
            let own = state.stored();
            own.phase == stored.phase
                && own.outcome == stored.outcome
                && own.gated == stored.gated
                && (own.waits.is_none() || own.waits == stored.waits)
        })
    }
}
