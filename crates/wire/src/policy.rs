//! The policy document as a schema. `ff_core::Policy` reads it; a test holds the two together.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// How an execution is to be treated. Absent fields take their defaults; unknown ones are refused.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Policy {
    /// When to try again; absent means never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_policy: Option<RetryPolicy>,
    /// How long it may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_policy: Option<TimeoutPolicy>,
    /// Leases that may be lost in a row, without progress in between, before it fails (default 100).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 10000)]
    pub max_reclaim_count: Option<u32>,
    /// Replays allowed (default 10).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 10000)]
    pub max_replay_count: Option<u32>,
    /// Who may run it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub routing_requirements: Option<RoutingRequirements>,
    /// How long its idempotency key is remembered (default 24 hours, or what the deployment says).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 315_360_000_000_i64)]
    pub dedup_window_ms: Option<u64>,
    /// How long it is kept after it ended (default 24 hours, or what the deployment says).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 315_360_000_000_i64)]
    pub retention_ms: Option<u64>,
}

/// When to try again after a failure.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RetryPolicy {
    /// Retries after the first attempt (default 3).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 10000)]
    pub max_retries: Option<u32>,
    /// How long to wait before each (default: from 1 second, doubling, to 1 minute).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff: Option<Backoff>,
    /// Failures of these categories are retried; empty means all.
    pub retryable_categories: BTreeSet<String>,
}

/// How long to wait before a retry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Backoff {
    /// Longer each time, up to a bound.
    Exponential {
        /// Before the first retry (default 1000).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schema(maximum = 315_360_000_000_i64)]
        initial_delay_ms: Option<u64>,
        /// Never longer (default 60000).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schema(maximum = 315_360_000_000_i64)]
        max_delay_ms: Option<u64>,
        /// Growth per retry (default 2).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schema(minimum = 1, maximum = 100)]
        multiplier: Option<f64>,
        /// Spread over the upper half of the delay.
        #[serde(default)]
        jitter: bool,
    },
    /// Always the same.
    Fixed {
        /// Before each retry.
        #[schema(maximum = 315_360_000_000_i64)]
        delay_ms: u64,
        /// Spread over the upper half of the delay.
        #[serde(default)]
        jitter: bool,
    },
}

/// How long it may take.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TimeoutPolicy {
    /// Running time of one attempt; over it, the attempt has failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 315_360_000_000_i64)]
    pub attempt_timeout_ms: Option<u64>,
    /// Time from creation (or replay) to the end; over it, the execution has expired.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 315_360_000_000_i64)]
    pub execution_deadline_ms: Option<u64>,
}

/// Who may run it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RoutingRequirements {
    /// A worker must offer all of these.
    pub required_capabilities: BTreeSet<String>,
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use ff_core::limits::{COUNT_MAX, DURATION_MS_MAX};
    use serde_json::{Value, json};
    use utoipa::PartialSchema;

    use super::*;

    #[test]
    fn the_schema_and_the_engine_know_the_same_bounds() {
        let maxima = |schema: utoipa::openapi::RefOr<utoipa::openapi::Schema>| {
            let schema = serde_json::to_value(schema).unwrap();
            let fields = schema["properties"].as_object().unwrap().clone();
            fields.into_iter().filter_map(|(name, field)| Some((name, field["maximum"].as_u64()?)))
        };
        let retry = |(name, max)| (format!("retry_policy.{name}"), max);
        let timeout = |(name, max)| (format!("timeout_policy.{name}"), max);
        let all = maxima(Policy::schema())
            .chain(maxima(RetryPolicy::schema()).map(retry))
            .chain(maxima(TimeoutPolicy::schema()).map(timeout));
        let mut seen = 0;
        for (path, max) in all {
            let with = |number: u64| {
                let value = path.rsplit('.').fold(json!(number), |inner, name| {
                    Value::Object([(name.to_owned(), inner)].into_iter().collect())
                });
                ff_core::Policy::parse(&value).is_ok()
            };
            assert!([DURATION_MS_MAX, COUNT_MAX.into()].contains(&max), "{path}: {max}");
            assert!(with(max) && !with(max + 1), "{path}: {max}");
            seen += 1;
        }
        assert_eq!(seen, 7);
    }

    #[test]
    fn the_schema_and_the_engine_know_the_same_fields() {
        for backoff in [
            json!({"type": "exponential", "initial_delay_ms": 1, "max_delay_ms": 2,
                   "multiplier": 3.0, "jitter": true}),
            json!({"type": "fixed", "delay_ms": 1, "jitter": true}),
        ] {
            let full = json!({
                "retry_policy": {"max_retries": 1, "backoff": backoff,
                                 "retryable_categories": ["a"]},
                "timeout_policy": {"attempt_timeout_ms": 1, "execution_deadline_ms": 2},
                "max_reclaim_count": 1, "max_replay_count": 2, "dedup_window_ms": 3,
                "retention_ms": 4,
                "routing_requirements": {"required_capabilities": ["gpu"]},
            });
            let documented: Policy = serde_json::from_value(full.clone()).unwrap();
            assert_eq!(serde_json::to_value(&documented).unwrap(), full);
            let read = ff_core::Policy::parse(&full).unwrap();
            assert_eq!(serde_json::to_value(&read).unwrap(), full);
        }
    }
}
