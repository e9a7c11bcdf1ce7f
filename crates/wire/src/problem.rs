//! Problems: what is answered instead of a result, after RFC 9457.

use ff_core::error::Rejection;
use ff_core::state::{Phase, TerminalOutcome};
use ff_core::{Code, StoreError, error};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::code::{HttpCode, status_of};
use crate::words;

/// The media type of a problem.
pub const MEDIA_TYPE: &str = "application/problem+json";

/// Why a request was refused or failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// Where the code is explained.
    #[serde(rename = "type")]
    #[schema(example = "/docs/errors#stale_lease")]
    pub reference: String,
    /// What the code means.
    pub title: String,
    /// The status of the answer, or the one it would have had on its own.
    #[schema(example = 409)]
    pub status: u16,
    /// What is wrong this time.
    pub detail: String,
    /// The stable code; decide by it.
    #[schema(example = "stale_lease")]
    pub code: String,
    /// Whether the same request may succeed later.
    pub retryable: bool,
    /// What to do next.
    pub hint: String,
    /// The offending field, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// The offending value, shortened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// The operation that was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "complete_execution")]
    pub operation: Option<String>,
    /// Where the execution stands, where that is the reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standing: Option<Standing>,
}

/// Where an execution stands, for a worker that no longer holds it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Standing {
    /// Its phase.
    #[schema(value_type = words::Phase)]
    pub phase: Phase,
    /// How it ended, if it has.
    #[schema(value_type = Option<words::TerminalOutcome>)]
    pub outcome: Option<TerminalOutcome>,
    /// The epoch now stored.
    pub lease_epoch: u64,
    /// Attempts so far.
    pub attempts: u32,
}

/// Fields that the engine knows under another name than users of HTTP.
const RENAMED: &[(&str, &str)] = &[
    ("input_payload", "input"),
    ("payload_encoding", "encoding"),
    ("execution_deadline_at", "deadline_at"),
    ("failure_reason", "reason"),
    ("failure_category", "category"),
    ("worker_capabilities", "capabilities"),
    ("step_result", "result"),
    ("cursor", "after"),
    ("edge_name", "name"),
    ("kid", "new_kid"),
];

impl Problem {
    /// A refusal of the HTTP layer.
    pub fn http(code: HttpCode, detail: impl Into<String>) -> Self {
        Self {
            reference: reference(code.as_str()),
            title: code.meaning().to_owned(),
            status: code.status(),
            detail: detail.into(),
            code: code.as_str().to_owned(),
            retryable: code.retryable(),
            hint: code.hint().to_owned(),
            field: None,
            value: None,
            operation: None,
            standing: None,
        }
    }

    /// A refusal of the engine.
    fn engine(code: Code, detail: String) -> Self {
        Self {
            reference: reference(code.as_str()),
            title: code.meaning().to_owned(),
            status: status_of(code),
            detail,
            code: code.as_str().to_owned(),
            retryable: code.retryable(),
            hint: code.hint().to_owned(),
            field: None,
            value: None,
            operation: None,
            standing: None,
        }
    }

    /// A refusal of a request that could not be read; `field` is the path to what is wrong.
    pub fn unreadable(field: Option<String>, detail: impl Into<String>) -> Self {
        Self { field, ..Self::engine(Code::InvalidInput, detail.into()) }
    }

    /// With the operation that was refused.
    #[must_use]
    pub fn during(mut self, operation: &str) -> Self {
        self.operation = Some(operation.to_owned());
        self
    }

    /// With where the execution stands.
    #[must_use]
    pub fn standing(mut self, standing: error::Standing) -> Self {
        self.standing = Some(standing.into());
        self
    }
}

fn reference(code: &str) -> String {
    format!("/docs/errors#{code}")
}

impl From<Rejection> for Problem {
    fn from(rejection: Rejection) -> Self {
        let Rejection { code, message, field, value, standing } = rejection;
        let renamed = RENAMED.iter().find(|(own, _)| field == Some(*own));
        let (field, detail) = match renamed {
            Some((own, known)) => (Some(*known), message.replacen(own, known, 1)),
            None => (field, message),
        };
        Self {
            field: field.map(str::to_owned),
            value: value.filter(|value| !value.is_empty()),
            standing: standing.map(|standing| (*standing).into()),
            ..Self::engine(code, detail)
        }
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        match error.refusal() {
            Ok(rejection) => rejection.into(),
            Err(error) => {
                let said = error.to_string();
                let prefix = format!("{}: ", error.code());
                let detail = said.strip_prefix(&prefix).unwrap_or(&said).to_owned();
                Self::engine(error.code(), detail)
            }
        }
    }
}

impl From<error::Standing> for Standing {
    fn from(standing: error::Standing) -> Self {
        let error::Standing { phase, outcome, lease_epoch, attempts } = standing;
        Self { phase, outcome, lease_epoch, attempts }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use ff_core::text::Encoding;

    use super::*;

    #[test]
    fn a_field_is_named_as_users_of_http_know_it() {
        let problem = Problem::from(Encoding::new("").unwrap_err());
        assert_eq!(problem.field.as_deref(), Some("encoding"));
        assert_eq!(problem.detail, "encoding must not be empty");
        assert_eq!(problem.value, None);
    }

    #[test]
    fn a_problem_reads_back_as_it_is_written() {
        let cause = "connection refused".to_owned();
        let problem = Problem::from(StoreError::Transport { cause }).during("renew_lease");
        let text = serde_json::to_string_pretty(&problem).unwrap();
        assert_eq!(serde_json::from_str::<Problem>(&text).unwrap(), problem);
        expect_test::expect![[r#"
            {
              "type": "/docs/errors#transport",
              "title": "The store could not be reached or failed; whether the call took effect is unknown.",
              "status": 503,
              "detail": "connection refused",
              "code": "transport",
              "retryable": true,
              "hint": "Send the same call again: every call may be repeated.",
              "operation": "renew_lease"
            }"#]].assert_eq(&text);
    }
}
