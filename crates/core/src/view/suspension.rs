//! What users read of suspensions, waitpoints and signals. No token is ever in it.

use serde::Serialize;
use uuid::Uuid;

use crate::condition::{NO_SIGNAL, ResumeCondition, Word, digest};
use crate::execution::{Execution, State};
use crate::ids::ExecutionId;
use crate::suspension::{
    Arrival, CloseReason, RequestedBy, Suspension, SuspensionReason, TimeoutBehavior, Waitpoint,
    WaitpointState, WaitpointWord,
};
use crate::text::{Kid, SignalName, SourceIdentity, WaitpointKey};
use crate::time::Millis;
use crate::token::fingerprint;

/// A suspension.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SuspensionSnapshot {
    /// Of which execution.
    pub execution_id: ExecutionId,
    /// Its id.
    pub suspension_id: Uuid,
    /// The attempt that is paused, or was.
    pub attempt_index: u32,
    /// Why.
    pub reason: SuspensionReason,
    /// Who asked for it.
    pub requested_by: RequestedBy,
    /// Since when.
    pub suspended_at: Millis,
    /// Until when, while it lasts.
    pub timeout_at: Option<Millis>,
    /// What happens then.
    pub timeout_behavior: TimeoutBehavior,
    /// What it waits for.
    pub resume_condition: ResumeCondition,
    /// How long after that it may be claimed.
    pub resume_delay_ms: u64,
    /// Whatever helps the worker to go on.
    pub continuation_metadata_pointer: Option<String>,
    /// Whether it lasts.
    pub open: bool,
    /// When it ended.
    pub closed_at: Option<Millis>,
    /// How.
    pub close_reason: Option<CloseReason>,
    /// The signals that did it, in the order of their arrival.
    pub satisfied_by: Vec<Uuid>,
}

impl SuspensionSnapshot {
    /// The last suspension of `x`.
    pub fn of(x: &Execution, row: &Suspension) -> Self {
        let timeout_at = match &x.state {
            State::Suspended(suspended) => suspended.deadline,
            State::Runnable(_) | State::Active(_) | State::Terminal(_) => None,
        };
        let open = row.is_open(x);
        let end = row.end.as_ref();
        Self {
            execution_id: row.execution,
            suspension_id: row.id,
            attempt_index: row.attempt_index,
            reason: row.reason,
            requested_by: row.requested_by,
            suspended_at: row.since,
            timeout_at: timeout_at.filter(|_| open),
            timeout_behavior: row.timeout_behavior,
            resume_condition: row.condition.clone(),
            resume_delay_ms: row.resume_delay_ms,
            continuation_metadata_pointer: row.continuation.clone(),
            open,
            closed_at: end.map(|end| end.at),
            close_reason: end.map(|end| end.how),
            satisfied_by: end.map(|end| end.by.clone()).unwrap_or_default(),
        }
    }
}

/// A waitpoint at which signals may arrive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WaitpointSnapshot {
    /// Of which execution.
    pub execution_id: ExecutionId,
    /// Its id.
    pub waitpoint_id: Uuid,
    /// What its author calls it.
    pub waitpoint_key: WaitpointKey,
    /// Where it stands.
    pub state: WaitpointWord,
    /// Why its execution waits, once it does.
    pub reason: Option<SuspensionReason>,
    /// The names that are waited for; empty means any. `__none` alone where no signal ends the wait, but
    /// an operator or the time.
    pub required_signal_names: Vec<String>,
    /// The decision that is waited for here, if it is one.
    pub approval: Option<ApprovalView>,
    /// Made.
    pub created_at: Millis,
    /// Since when its execution waits.
    pub activated_at: Option<Millis>,
    /// Until when.
    pub expires_at: Option<Millis>,
    /// Signals that arrived.
    pub signal_count: u32,
    /// Those that count.
    pub matched_signal_count: u32,
    /// When the last one came.
    pub last_signal_at: Option<Millis>,
    /// The key that signed its token.
    pub token_kid: Kid,
    /// The beginning of the digest of its token.
    pub token_fingerprint: String,
}

/// A decision that people are asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ApprovalView {
    /// How many must approve.
    pub needed: u32,
    /// Who may decide; empty means anybody.
    pub by: Vec<SourceIdentity>,
    /// Who may not.
    pub not_by: Option<SourceIdentity>,
    /// What is to be decided on.
    pub subject: Option<String>,
    /// What whoever decides says of it.
    pub subject_digest: Option<String>,
    /// Who has approved.
    pub approved_by: Vec<String>,
}

impl WaitpointSnapshot {
    /// A waitpoint, the suspension that uses it, and what has arrived there.
    pub fn of(row: &Waitpoint, suspension: Option<&Suspension>, arrived: &[&Arrival]) -> Self {
        let condition = suspension.map(|suspension| &suspension.condition);
        let wanted = condition.map_or_else(Vec::new, |condition| {
            if condition.keys().contains(&row.key) {
                condition.wanted(&row.key).into_iter().map(SignalName::to_string).collect()
            } else {
                vec![NO_SIGNAL.to_owned()]
            }
        });
        let (activated_at, expires_at) = match row.state {
            WaitpointState::Pending { expires_at } => (None, Some(expires_at)),
            WaitpointState::Active { since, expires_at } => (Some(since), expires_at),
            WaitpointState::Closed { activated_at, .. } => (activated_at, None),
        };
        Self {
            execution_id: row.execution,
            waitpoint_id: row.id,
            waitpoint_key: row.key.clone(),
            state: row.state.word(),
            reason: suspension.map(|suspension| suspension.reason),
            required_signal_names: wanted,
            approval: condition.and_then(|condition| approval(condition, row, arrived)),
            created_at: row.created_at,
            activated_at,
            expires_at,
            signal_count: row.counts.signals,
            matched_signal_count: row.counts.matched,
            last_signal_at: row.counts.last_at,
            token_kid: row.kid.clone(),
            token_fingerprint: fingerprint(&row.token_digest),
        }
    }
}

/// The decision that a condition asks for at a waitpoint: of several, the first that is still open.
fn approval(
    condition: &ResumeCondition,
    row: &Waitpoint,
    arrived: &[&Arrival],
) -> Option<ApprovalView> {
    let mut asked = Vec::new();
    approvals(condition, row, arrived, &mut asked);
    let open = asked.iter().position(|(_, open)| *open);
    asked.into_iter().nth(open.unwrap_or_default()).map(|(view, _)| view)
}

/// All of them, each with whether it is still open.
fn approvals(
    condition: &ResumeCondition,
    row: &Waitpoint,
    arrived: &[&Arrival],
    all: &mut Vec<(ApprovalView, bool)>,
) {
    match condition {
        ResumeCondition::Approval { waitpoint, needed, by, not_by, subject }
            if *waitpoint == row.key =>
        {
            let own = arrived.iter().filter(|signal| signal.waitpoint == row.id);
            let seen: Vec<_> = own.map(|signal| signal.seen(&row.key)).collect();
            let counted = condition.contributing(&seen).into_iter().map(|at| &seen[at]);
            let approved = counted.filter(|one| Word::of(one.name) == Some(Word::Approved));
            let view = ApprovalView {
                needed: *needed,
                by: by.clone(),
                not_by: not_by.clone(),
                subject: subject.clone(),
                subject_digest: subject.as_deref().map(digest),
                approved_by: approved.map(|one| one.source_identity.to_owned()).collect(),
            };
            all.push((view, condition.decisions(&seen).is_empty()));
        }
        ResumeCondition::AllOf(members) => {
            for member in members {
                approvals(member, row, arrived, all);
            }
        }
        ResumeCondition::Approval { .. }
        | ResumeCondition::Single { .. }
        | ResumeCondition::OperatorOnly
        | ResumeCondition::TimeoutOnly
        | ResumeCondition::Count { .. } => {}
    }
}
