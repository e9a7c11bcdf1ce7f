//! Suspensions as a person reads them, and finding what is suspended.

use ff_core::condition::ResumeCondition;
use ff_core::query::{After, Page, SuspendedSearch};
use ff_core::suspension::{CloseReason, RequestedBy, SuspensionReason, TimeoutBehavior};
use ff_core::text::Namespace;
use ff_core::{Code, ExecutionId, Millis, Partition, Rejection, view};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use crate::bounds::check_limit;
use crate::search::{read_place, read_word, write_place};
use crate::{condition, words};

/// Suspended executions in a page when nobody says.
pub const LIMIT_DEFAULT: u32 = 100;

/// A suspension.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SuspensionSnapshot {
    /// Of which execution.
    #[schema(value_type = String)]
    pub execution_id: ExecutionId,
    /// Its id.
    #[schema(value_type = String, format = "uuid")]
    pub suspension_id: Uuid,
    /// The attempt that is paused, or was.
    pub attempt_index: u32,
    /// Why.
    #[schema(value_type = words::SuspensionReason)]
    pub reason: SuspensionReason,
    /// Who asked for it.
    #[schema(value_type = words::RequestedBy)]
    pub requested_by: RequestedBy,
    /// Since when.
    #[schema(value_type = i64)]
    pub suspended_at: Millis,
    /// Until when, while it lasts.
    #[schema(value_type = Option<i64>)]
    pub timeout_at: Option<Millis>,
    /// What happens then.
    #[schema(value_type = words::TimeoutBehavior)]
    pub timeout_behavior: TimeoutBehavior,
    /// What it waits for.
    #[schema(value_type = condition::ResumeCondition)]
    pub resume_condition: ResumeCondition,
    /// How long after that it may be claimed.
    pub resume_delay_ms: u64,
    /// Whatever helps the worker to go on.
    pub continuation_metadata_pointer: Option<String>,
    /// Whether it lasts.
    pub open: bool,
    /// When it ended.
    #[schema(value_type = Option<i64>)]
    pub closed_at: Option<Millis>,
    /// How.
    #[schema(value_type = Option<words::CloseReason>)]
    pub close_reason: Option<CloseReason>,
    /// The signals that did it, in the order of their arrival.
    #[schema(value_type = Vec<String>)]
    pub satisfied_by: Vec<Uuid>,
}

impl From<view::SuspensionSnapshot> for SuspensionSnapshot {
    fn from(suspension: view::SuspensionSnapshot) -> Self {
        Self {
            execution_id: suspension.execution_id,
            suspension_id: suspension.suspension_id,
            attempt_index: suspension.attempt_index,
            reason: suspension.reason,
            requested_by: suspension.requested_by,
            suspended_at: suspension.suspended_at,
            timeout_at: suspension.timeout_at,
            timeout_behavior: suspension.timeout_behavior,
            resume_condition: suspension.resume_condition,
            resume_delay_ms: suspension.resume_delay_ms,
            continuation_metadata_pointer: suspension.continuation_metadata_pointer,
            open: suspension.open,
            closed_at: suspension.closed_at,
            close_reason: suspension.close_reason,
            satisfied_by: suspension.satisfied_by,
        }
    }
}

/// The last suspension of an execution.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SuspensionAnswer {
    /// The suspension; nothing when it was never suspended.
    pub suspension: Option<SuspensionSnapshot>,
}

/// Which suspended executions to find. Everything given must match.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct SuspendedParams {
    /// In this namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// For this reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(value_type = Option<words::SuspensionReason>)]
    pub reason: Option<String>,
    /// In this partition.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(minimum = 0, maximum = 255)]
    pub partition: Option<i64>,
    /// Suspended executions in the page (default 100).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u32>,
    /// From where on: `next` of the page before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

impl SuspendedParams {
    /// What to look for, and which page of it.
    pub fn into_query(self) -> Result<(SuspendedSearch, Page), Rejection> {
        let partition = |number: i64| {
            Partition::new(number).ok_or_else(|| {
                let why = "is out of range; use 0 to 255";
                Rejection::invalid(Code::InvalidInput, "partition", number, why)
            })
        };
        let reason = read_word("reason", self.reason, SuspensionReason::ALL, |one| one.as_str());
        let search = SuspendedSearch {
            partition: self.partition.map(partition).transpose()?,
            namespace: self.namespace.map(Namespace::new).transpose()?,
            reason: reason?,
        };
        let limit = check_limit(self.limit.unwrap_or(LIMIT_DEFAULT))?;
        let after = self.after.as_deref().map(read_place).transpose()?;
        Ok((search, Page { after, limit }))
    }
}

/// A page of suspended executions, the longest suspended first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SuspendedPage {
    /// What they wait for.
    pub suspended: Vec<SuspensionSnapshot>,
    /// Where the next page begins, to be sent as `after`; nothing when this was the last.
    pub next: Option<String>,
}

impl SuspendedPage {
    /// What was found, and where it goes on.
    pub fn new(found: Vec<view::SuspensionSnapshot>, next: Option<&After>) -> Self {
        let suspended = found.into_iter().map(SuspensionSnapshot::from).collect();
        Self { suspended, next: next.and_then(write_place) }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_is_written_as_the_engine_writes_it_and_reads_back() {
        let viewed = view::SuspensionSnapshot {
            execution_id: ExecutionId::solo(Uuid::from_u128(1)),
            suspension_id: Uuid::from_u128(2),
            attempt_index: 3,
            reason: SuspensionReason::WaitingForApproval,
            requested_by: RequestedBy::Worker,
            suspended_at: Millis(4),
            timeout_at: Some(Millis(5)),
            timeout_behavior: TimeoutBehavior::Escalate,
            resume_condition: ResumeCondition::OperatorOnly,
            resume_delay_ms: 6,
            continuation_metadata_pointer: Some("page 7".to_owned()),
            open: false,
            closed_at: Some(Millis(8)),
            close_reason: Some(CloseReason::Resumed),
            satisfied_by: vec![Uuid::from_u128(9)],
        };
        let own = serde_json::to_value(&viewed).unwrap();
        let sent = SuspensionSnapshot::from(viewed);
        assert_eq!(serde_json::to_value(&sent).unwrap(), own);
        assert_eq!(serde_json::from_value::<SuspensionSnapshot>(own).unwrap(), sent);
    }

    #[test]
    fn what_cannot_be_found_is_refused_by_field() {
        let none = SuspendedParams::default;
        let text = |text: &str| Some(text.to_owned());
        for (params, field) in [
            (SuspendedParams { namespace: text(""), ..none() }, "namespace"),
            (SuspendedParams { reason: text("tired"), ..none() }, "reason"),
            (SuspendedParams { partition: Some(256), ..none() }, "partition"),
            (SuspendedParams { limit: Some(1001), ..none() }, "limit"),
            (SuspendedParams { after: text("here"), ..none() }, "after"),
        ] {
            assert_eq!(params.into_query().unwrap_err().field, Some(field));
        }
    }
}
