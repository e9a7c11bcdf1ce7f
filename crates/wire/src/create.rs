//! Creating executions, one or many.

use std::collections::BTreeMap;

use bytes::Bytes;
use ff_core::decide::create::{Create, Created};
use ff_core::state::PublicState;
use ff_core::text::{Creator, IdempotencyKey, Kind, LaneId, Namespace};
use ff_core::{ExecutionId, Millis, Policy, Rejection};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::bounds::check_items;
use crate::payload::{INPUT, Json, Payload, present};
use crate::problem::Problem;
use crate::{policy, words};

/// A new execution.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewExecution {
    /// Its id; the server mints one when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "{fp:77}:6ba7b810-9dad-11d1-80b4-00c04fd430c8")]
    pub execution_id: Option<String>,
    /// Tenancy scope; `default` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 256)]
    pub namespace: Option<String>,
    /// The queue it belongs to.
    #[schema(pattern = "^[ -~]{1,64}$", example = "emails")]
    pub lane_id: String,
    /// What kind of work it is; selects the handler in a worker.
    #[schema(min_length = 1, max_length = 256, example = "welcome")]
    pub execution_kind: String,
    /// What to work on: any JSON value.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Json>, nullable = false)]
    pub input: Option<Json>,
    /// What to work on, when it is not JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(content_encoding = "base64")]
    pub input_base64: Option<String>,
    /// What the bytes of `input_base64` are, for the worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoding: Option<String>,
    /// How urgent: 0 (default) to 9000, higher first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 9000)]
    pub priority: Option<i32>,
    /// Who creates it, for the record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub creator_identity: Option<String>,
    /// Makes the creation repeatable: twice is once. The header `Idempotency-Key` says the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 256)]
    pub idempotency_key: Option<String>,
    /// Its tags, `owner.name` to text.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
    /// How it is to be treated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<policy::Policy>)]
    pub policy: Option<Value>,
    /// Not to be claimed before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>)]
    pub delay_until: Option<Millis>,
    /// Not to be claimed for so long after its creation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 315_360_000_000_i64)]
    pub delay_ms: Option<u64>,
    /// Expires for good at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>)]
    pub deadline_at: Option<Millis>,
}

impl NewExecution {
    /// The command; `mint` makes an id where none was given.
    pub fn into_command(self, mint: impl FnOnce() -> ExecutionId) -> Result<Create, Rejection> {
        let id = self.execution_id.map_or_else(|| Ok(mint()), |id| id.parse())?;
        let lane = LaneId::new(self.lane_id)?;
        let kind = Kind::new(self.execution_kind)?;
        let input = Payload::read(INPUT, (self.input, self.input_base64, self.encoding))?;
        let (input, encoding) =
            input.map_or((Bytes::new(), None), |input| (input.bytes, input.encoding));
        let mut create = Create::new(id, lane, kind);
        if let Some(namespace) = self.namespace {
            create.namespace = Namespace::new(namespace)?;
        }
        if let Some(creator) = self.creator_identity {
            create.creator = Creator::new(creator)?;
        }
        if let Some(policy) = self.policy {
            create.policy = Policy::parse(&policy)?;
        }
        Ok(Create {
            input,
            encoding,
            priority: self.priority.unwrap_or(0),
            idempotency_key: self.idempotency_key.map(IdempotencyKey::new).transpose()?,
            tags: self.tags,
            delay_until: self.delay_until,
            delay_ms: self.delay_ms,
            deadline_at: self.deadline_at,
            ..create
        })
    }
}

/// The answer to a creation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum CreateAnswer {
    /// It exists now.
    Created {
        /// Its id.
        #[schema(value_type = String)]
        execution_id: ExecutionId,
        /// Waiting or delayed.
        #[schema(value_type = words::PublicState)]
        public_state: PublicState,
    },
    /// It existed already.
    Duplicate {
        /// The id of the original.
        #[schema(value_type = String)]
        execution_id: ExecutionId,
    },
}

impl From<Created> for CreateAnswer {
    fn from(created: Created) -> Self {
        match created {
            Created::Created { execution_id, public_state } => {
                Self::Created { execution_id, public_state }
            }
            Created::Duplicate { execution_id } => Self::Duplicate { execution_id },
        }
    }
}

/// Many new executions. Each has its own answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BatchRequest {
    /// At least one, at most 1000.
    #[schema(min_items = 1, max_items = 1000)]
    pub executions: Vec<NewExecution>,
}

impl BatchRequest {
    /// The commands, in order; what one of them is refused for concerns no other.
    pub fn into_commands(
        self,
        mint: impl Fn() -> ExecutionId,
    ) -> Result<Vec<Result<Create, Rejection>>, Rejection> {
        check_items("executions", self.executions.len())?;
        Ok(self.executions.into_iter().map(|new| new.into_command(&mint)).collect())
    }
}

/// The answers, in the order of the request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BatchAnswer {
    /// One for each.
    pub results: Vec<CreateOutcome>,
}

/// What became of one creation of many.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum CreateOutcome {
    /// It exists now.
    Created {
        /// Its id.
        #[schema(value_type = String)]
        execution_id: ExecutionId,
        /// Waiting or delayed.
        #[schema(value_type = words::PublicState)]
        public_state: PublicState,
    },
    /// It existed already.
    Duplicate {
        /// The id of the original.
        #[schema(value_type = String)]
        execution_id: ExecutionId,
    },
    /// It was refused; the others were not affected.
    Rejected {
        /// Why.
        problem: Box<Problem>,
    },
}

impl From<Result<Created, Rejection>> for CreateOutcome {
    fn from(outcome: Result<Created, Rejection>) -> Self {
        match outcome.map(CreateAnswer::from) {
            Ok(CreateAnswer::Created { execution_id, public_state }) => {
                Self::Created { execution_id, public_state }
            }
            Ok(CreateAnswer::Duplicate { execution_id }) => Self::Duplicate { execution_id },
            Err(refused) => {
                let problem = Problem::from(refused).during("create_execution");
                Self::Rejected { problem: Box::new(problem) }
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use ff_core::Code;
    use serde_json::json;
    use uuid::Uuid;

    use super::*;

    fn command(body: &Value) -> Result<Create, Rejection> {
        let new: NewExecution = serde_json::from_str(&body.to_string()).unwrap();
        new.into_command(|| ExecutionId::solo(Uuid::nil()))
    }

    #[test]
    fn the_least_that_can_be_said_is_a_lane_and_a_kind() {
        let create = command(&json!({"lane_id": "a", "execution_kind": "b"})).unwrap();
        let lane = LaneId::new("a").unwrap();
        let least = Create::new(ExecutionId::solo(Uuid::nil()), lane, Kind::new("b").unwrap());
        assert_eq!(create, least);
    }

    #[test]
    fn everything_that_is_said_reaches_the_command() {
        let id = ExecutionId::solo(Uuid::from_u128(7));
        let create = command(&json!({
            "execution_id": id, "namespace": "shop", "lane_id": "a", "execution_kind": "b",
            "input": null, "priority": 5, "creator_identity": "ada", "idempotency_key": "k",
            "tags": {"shop.order": "7"}, "policy": {"max_replay_count": 1},
            "delay_ms": 9, "deadline_at": 12,
        }))
        .unwrap();
        assert_eq!((create.id, create.namespace.as_str()), (id, "shop"));
        assert_eq!((&create.input[..], create.encoding.unwrap().as_str()), (&b"null"[..], "json"));
        assert_eq!((create.priority, create.creator.as_str()), (5, "ada"));
        assert_eq!(create.idempotency_key.unwrap().as_str(), "k");
        assert_eq!(create.tags["shop.order"], "7");
        assert_eq!(create.policy.max_replays(), 1);
        assert_eq!((create.delay_until, create.delay_ms), (None, Some(9)));
        assert_eq!(create.deadline_at, Some(Millis(12)));
    }

    #[test]
    fn what_cannot_be_meant_is_refused_by_field() {
        for (body, code, field) in [
            (json!({"lane_id": "", "execution_kind": "b"}), Code::InvalidInput, "lane_id"),
            (
                json!({"lane_id": "a", "execution_kind": "b c"}),
                Code::InvalidInput,
                "execution_kind",
            ),
            (
                json!({"lane_id": "a", "execution_kind": "b", "execution_id": "7"}),
                Code::InvalidInput,
                "execution_id",
            ),
            (
                json!({"lane_id": "a", "execution_kind": "b", "policy": {"budget_ids": []}}),
                Code::InvalidPolicyJson,
                "budget_ids",
            ),
        ] {
            let refused = command(&body).unwrap_err();
            assert_eq!((refused.code, refused.field), (code, Some(field)));
        }
    }
}
