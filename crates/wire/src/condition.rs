//! Resume conditions as a schema. `ff_core::condition::ResumeCondition` reads them; a test holds
//! the two together.

use ff_core::condition::Distinct;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::words;

/// What a waiting execution waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ResumeCondition {
    /// A signal.
    Single {
        /// Sent to the waitpoint of this key.
        waitpoint: String,
        /// With this name; absent means any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signal: Option<String>,
    },
    /// An operator; no signal will do.
    OperatorOnly,
    /// The deadline; no signal will do.
    TimeoutOnly,
    /// Every one of these. To wait for any of several waitpoints, count one.
    #[schema(no_recursion)]
    AllOf(Vec<ResumeCondition>),
    /// So many.
    Count {
        /// How many.
        #[schema(minimum = 1)]
        n: u32,
        /// What is counted.
        #[schema(value_type = words::Distinct)]
        distinct: Distinct,
        /// Only signals with this name; absent means any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signal: Option<String>,
        /// Only signals sent to the waitpoints of these keys.
        waitpoints: Vec<String>,
    },
    /// The word of people: `approved` by so many, or `rejected` by one. The first word of each
    /// stands.
    Approval {
        /// The key of the waitpoint to which they send it.
        waitpoint: String,
        /// How many must approve.
        #[schema(minimum = 1)]
        needed: u32,
        /// Who may decide; empty means anybody who has a name.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        by: Vec<String>,
        /// Who may not: most often the one who asks.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        not_by: Option<String>,
        /// What they decide on. Who decides says its digest, `sha256:` and 64 hexadecimal digits:
        /// nobody approves what he did not see.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        subject: Option<String>,
    },
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use ff_core::condition;
    use serde_json::json;

    use super::*;

    #[test]
    fn the_schema_and_the_engine_know_the_same_conditions() {
        for written in [
            json!({"single": {"waitpoint": "a"}}),
            json!({"single": {"waitpoint": "a", "signal": "done"}}),
            json!("operator_only"),
            json!("timeout_only"),
            json!({"all_of": ["operator_only", {"single": {"waitpoint": "a"}}]}),
            json!({"count": {"n": 2, "distinct": "sources", "signal": "x", "waitpoints": ["a"]}}),
            json!({"approval": {"waitpoint": "a", "needed": 2, "by": ["ann"], "not_by": "bob",
                                "subject": "deploy 7"}}),
        ] {
            let documented: ResumeCondition = serde_json::from_value(written.clone()).unwrap();
            assert_eq!(serde_json::to_value(&documented).unwrap(), written);
            let read: condition::ResumeCondition = serde_json::from_value(written.clone()).unwrap();
            assert_eq!(serde_json::to_value(&read).unwrap(), written);
            let mut odd = written;
            if let Some(fields) = odd.pointer_mut("/single").and_then(|own| own.as_object_mut()) {
                fields.insert("colour".to_owned(), "red".into());
                assert!(serde_json::from_value::<ResumeCondition>(odd.clone()).is_err());
                assert!(serde_json::from_value::<condition::ResumeCondition>(odd).is_err());
            }
        }
    }
}
