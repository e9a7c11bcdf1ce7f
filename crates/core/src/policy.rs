//! The policy document: how often to try, how long, who may run it, how long to keep it.
//!
//! Every accepted field is honoured. Every other one is refused by name, because a setting that
//! is stored and ignored is worse than none.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::{Code, Rejection};
use crate::execution::Failure;
use crate::limits::{self, COUNT_MAX, DURATION_MS_MAX, MULTIPLIER_MAX};
use crate::limits::{RECLAIM_DELAY_MS, RECLAIM_DELAY_MS_MAX};
use crate::text::{Category, check_capabilities};
use crate::time::Entropy;

/// How an execution is to be treated. Absent fields take the documented defaults.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Policy {
    /// When to try again; absent means never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_policy: Option<RetryPolicy>,
    /// How long it may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_policy: Option<TimeoutPolicy>,
    /// Leases that may be lost in a row, without a step, a pause or a retried failure in
    /// between, before it fails (default 100).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_reclaim_count: Option<u32>,
    /// Replays allowed (default 10).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_replay_count: Option<u32>,
    /// Who may run it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub routing_requirements: Option<RoutingRequirements>,
    /// How long its idempotency key is remembered (default: the deployment's, 24 h).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dedup_window_ms: Option<u64>,
    /// How long it is kept after it ended (default: the deployment's, 24 h).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retention_ms: Option<u64>,
}

/// When to try again after a failure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RetryPolicy {
    /// Retries after the first attempt.
    pub max_retries: u32,
    /// How long to wait before each.
    pub backoff: Backoff,
    /// Failures of these categories are retried; empty means all.
    pub retryable_categories: BTreeSet<String>,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { max_retries: 3, backoff: Backoff::default(), retryable_categories: BTreeSet::new() }
    }
}

/// How long to wait before a retry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Backoff {
    /// `initial × multiplier^n`, at most `max`.
    Exponential {
        /// Before the first retry.
        #[serde(default = "one_second")]
        initial_delay_ms: u64,
        /// Never longer.
        #[serde(default = "one_minute")]
        max_delay_ms: u64,
        /// Growth per retry.
        #[serde(default = "doubling")]
        multiplier: f64,
        /// Spread over the upper half of the delay, so that failures do not return together.
        #[serde(default)]
        jitter: bool,
    },
    /// Always the same.
    Fixed {
        /// Before each retry.
        delay_ms: u64,
        /// Spread over the upper half of the delay.
        #[serde(default)]
        jitter: bool,
    },
}

fn one_second() -> u64 {
    1_000
}

fn one_minute() -> u64 {
    60_000
}

fn doubling() -> f64 {
    2.0
}

impl Default for Backoff {
    fn default() -> Self {
        Self::Exponential {
            initial_delay_ms: one_second(),
            max_delay_ms: one_minute(),
            multiplier: doubling(),
            jitter: false,
        }
    }
}

/// How long it may take.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TimeoutPolicy {
    /// Running time of one attempt; over it, the attempt has failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt_timeout_ms: Option<u64>,
    /// Time from creation (or replay) to the end; over it, the execution has expired.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub execution_deadline_ms: Option<u64>,
}

/// Who may run it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RoutingRequirements {
    /// A worker must offer all of these.
    pub required_capabilities: BTreeSet<String>,
}

/// What sort of failure a worker reports; decides whether a retry makes sense at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureClass {
    /// May succeed next time.
    Transient,
    /// Will never succeed.
    Permanent,
    /// The machinery under the worker failed.
    InfraCrash,
    /// It took too long.
    Timeout,
    /// The work was abandoned on purpose.
    Cancelled,
}

impl FailureClass {
    /// Whether trying again can help.
    pub fn retryable(self) -> bool {
        match self {
            Self::Transient | Self::InfraCrash | Self::Timeout => true,
            Self::Permanent | Self::Cancelled => false,
        }
    }
}

/// Fields that other systems have and we refuse, with what to do instead.
const REFUSED: &[(&str, &str)] = &[
    ("priority", "is an argument of create_execution, not a policy"),
    ("delay_until", "is an argument of create_execution, not a policy"),
    ("suspension_policy", "is not supported yet"),
    ("stream_policy", "is not supported yet; retention_ms sets how long an execution is kept"),
    ("budget_ids", "is not supported yet"),
    ("quota_policy_id", "is not supported yet"),
    ("max_signals_per_execution", "is not supported yet"),
    ("fallback_policy", "is not supported: let the worker choose a fallback"),
];

impl Policy {
    /// Reads a document, refusing by name whatever it does not honour.
    pub fn parse(document: &Value) -> Result<Self, Rejection> {
        let Value::Object(fields) = document else {
            return Err(refuse("policy", document, "must be a JSON object"));
        };
        for (name, why) in REFUSED {
            if let Some(value) = fields.get(*name) {
                return Err(refuse(name, value, why));
            }
        }
        if let Some(Value::Object(routing)) = fields.get("routing_requirements") {
            for name in ["preferred_locality", "isolation_level"] {
                if let Some(value) = routing.get(name) {
                    return Err(refuse(name, value, "is not supported: use required_capabilities"));
                }
            }
        }
        let policy: Self = serde_json::from_value(document.clone())
            .map_err(|error| refuse("policy", document, &error.to_string()))?;
        policy.validate()?;
        Ok(policy)
    }

    /// The compact document to store; parsing it gives the same policy.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a policy has only string keys and finite numbers")
    }

    /// Refuses numbers and tokens that make no sense.
    pub fn validate(&self) -> Result<(), Rejection> {
        if let Some(retry) = &self.retry_policy {
            retry.validate()?;
        }
        if let Some(timeout) = &self.timeout_policy {
            positive("attempt_timeout_ms", timeout.attempt_timeout_ms)?;
            positive("execution_deadline_ms", timeout.execution_deadline_ms)?;
        }
        count("max_reclaim_count", self.max_reclaim_count.unwrap_or(0))?;
        count("max_replay_count", self.max_replay_count.unwrap_or(0))?;
        positive("dedup_window_ms", self.dedup_window_ms)?;
        duration("retention_ms", self.retention_ms.unwrap_or(0))?;
        let required = self.required_capabilities();
        check_capabilities("required_capabilities", required.iter().map(String::as_str))?;
        let bytes = self.to_json().len();
        if bytes > limits::POLICY_BYTES_MAX {
            let why = format!("is {bytes} bytes long; at most {} fit", limits::POLICY_BYTES_MAX);
            return Err(Rejection::invalid(Code::InvalidPolicyJson, "policy", "", why));
        }
        Ok(())
    }

    /// What a worker must offer.
    pub fn required_capabilities(&self) -> &BTreeSet<String> {
        static NONE: BTreeSet<String> = BTreeSet::new();
        self.routing_requirements.as_ref().map_or(&NONE, |r| &r.required_capabilities)
    }

    /// Running time of one attempt.
    pub fn attempt_timeout_ms(&self) -> Option<u64> {
        self.timeout_policy.as_ref().and_then(|t| t.attempt_timeout_ms)
    }

    /// Time from creation or replay to the end.
    pub fn execution_deadline_ms(&self) -> Option<u64> {
        self.timeout_policy.as_ref().and_then(|t| t.execution_deadline_ms)
    }

    /// Leases that may be lost in a row before it fails.
    pub fn max_reclaims(&self) -> u32 {
        self.max_reclaim_count.unwrap_or(limits::RECLAIMS_DEFAULT)
    }

    /// Replays allowed.
    pub fn max_replays(&self) -> u32 {
        self.max_replay_count.unwrap_or(limits::REPLAYS_DEFAULT)
    }

    /// How long to wait before trying again, or nothing when it must not be tried again:
    /// the class allows it, the categories allow it, and a retry is left.
    pub fn retry_after(
        &self,
        class: FailureClass,
        failure: &Failure,
        retries: u32,
        entropy: &mut dyn Entropy,
    ) -> Option<u64> {
        let retry = self.retry_policy.as_ref()?;
        let listed = retry.retryable_categories.is_empty()
            || retry.retryable_categories.contains(failure.category.as_str());
        (class.retryable() && listed && retries < retry.max_retries)
            .then(|| retry.backoff.delay_ms(retries, entropy))
    }
}

impl RetryPolicy {
    fn validate(&self) -> Result<(), Rejection> {
        count("max_retries", self.max_retries)?;
        match self.backoff {
            Backoff::Exponential { initial_delay_ms, max_delay_ms, multiplier, jitter: _ } => {
                duration("initial_delay_ms", initial_delay_ms)?;
                duration("max_delay_ms", max_delay_ms)?;
                if !(1.0..=MULTIPLIER_MAX).contains(&multiplier) {
                    let why = format!("must be from 1 to {MULTIPLIER_MAX}");
                    return Err(refuse("multiplier", &multiplier.into(), &why));
                }
            }
            Backoff::Fixed { delay_ms, jitter: _ } => duration("delay_ms", delay_ms)?,
        }
        for category in &self.retryable_categories {
            Category::new(category.clone()).map_err(|bad| {
                refuse("retryable_categories", &category.clone().into(), &bad.message)
            })?;
        }
        Ok(())
    }
}

impl Backoff {
    /// The delay before retry number `retries` (from zero), in whole milliseconds.
    pub fn delay_ms(&self, retries: u32, entropy: &mut dyn Entropy) -> u64 {
        let (delay, jitter) = match *self {
            Self::Fixed { delay_ms, jitter } => (delay_ms, jitter),
            Self::Exponential { initial_delay_ms, max_delay_ms, multiplier, jitter } => {
                let exponent = i32::try_from(retries).unwrap_or(i32::MAX);
                #[expect(clippy::cast_precision_loss, reason = "durations stay below 2^53 ms")]
                let grown = initial_delay_ms as f64 * multiplier.powi(exponent);
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "a float-to-integer cast saturates, and min() bounds it"
                )]
                let grown = grown.round() as u64;
                (grown.min(max_delay_ms), jitter)
            }
        };
        if !jitter {
            return delay;
        }
        let half = delay / 2;
        half + entropy.next_u64() % (delay - half + 1)
    }
}

/// How long work that lost its lease waits for another worker, when it had lost so many in a row
/// before that one: not at all after the first, then one second, and twice as long each time up to
/// a minute.
///
/// The first is most likely a worker that crashed or was replaced, and was paid for with a whole
/// lease already. A minute keeps work that kills its workers from taking more than one a minute, and
/// work that was only unlucky from waiting long once an outage is over.
pub fn reclaim_delay_ms(lost_before: u32) -> Option<u64> {
    let doublings = lost_before.checked_sub(1)?;
    let doubled = 1_u64.checked_shl(doublings).unwrap_or(u64::MAX);
    Some(RECLAIM_DELAY_MS.saturating_mul(doubled).min(RECLAIM_DELAY_MS_MAX))
}

fn refuse(field: &'static str, value: &Value, why: &str) -> Rejection {
    Rejection::invalid(Code::InvalidPolicyJson, field, value, why)
}

fn count(field: &'static str, value: u32) -> Result<(), Rejection> {
    if value <= COUNT_MAX {
        return Ok(());
    }
    Err(refuse(field, &value.into(), &format!("is more than {COUNT_MAX}")))
}

fn duration(field: &'static str, value: u64) -> Result<(), Rejection> {
    if value <= DURATION_MS_MAX {
        return Ok(());
    }
    Err(refuse(field, &value.into(), &format!("is more than {DURATION_MS_MAX} ms, ten years")))
}

fn positive(field: &'static str, value: Option<u64>) -> Result<(), Rejection> {
    match value {
        None => Ok(()),
        Some(0) => Err(refuse(field, &0.into(), "must be at least 1 ms")),
        Some(ms) => duration(field, ms),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::*;

    struct Fixed(u64);

    impl Entropy for Fixed {
        fn next_u64(&mut self) -> u64 {
            self.0
        }
    }

    #[test]
    fn an_empty_document_never_retries_and_takes_the_defaults() {
        let policy = Policy::parse(&json!({})).unwrap();
        assert_eq!(policy, Policy::default());
        assert_eq!((policy.max_reclaims(), policy.max_replays()), (100, 10));
        let failure = Failure { reason: String::new(), category: Category::new("x").unwrap() };
        let again = policy.retry_after(FailureClass::Transient, &failure, 0, &mut Fixed(0));
        assert_eq!(again, None);
    }

    #[test]
    fn every_field_that_is_not_honoured_is_refused_by_name() {
        for (document, field) in [
            (json!({"fallback_policy": {"tiers": []}}), "fallback_policy"),
            (json!({"budget_ids": []}), "budget_ids"),
            (json!({"stream_policy": {}}), "stream_policy"),
            (json!({"suspension_policy": {}}), "suspension_policy"),
            (json!({"priority": 3}), "priority"),
            (json!({"delay_until": 3}), "delay_until"),
            (json!({"max_signals_per_execution": 3}), "max_signals_per_execution"),
            (json!({"routing_requirements": {"isolation_level": "x"}}), "isolation_level"),
            (json!({"routing_requirements": {"preferred_locality": "x"}}), "preferred_locality"),
        ] {
            let refused = Policy::parse(&document).unwrap_err();
            assert_eq!(refused.code, Code::InvalidPolicyJson);
            assert_eq!(refused.field, Some(field));
        }
        for (document, named) in [
            (json!({"colour": "red"}), "colour"),
            (json!({"retry_policy": {"max_retry": 1}}), "max_retry"),
            (json!({"timeout_policy": {"max_reclaim_count": 1}}), "max_reclaim_count"),
            (json!({"retry_policy": {"backoff": {"type": "linear"}}}), "linear"),
            (json!({"retry_policy": {"backoff": {"type": "fixed", "delay_ms": 1, "x": 1}}}), "x"),
            (json!([]), "object"),
        ] {
            let refused = Policy::parse(&document).unwrap_err();
            assert!(refused.message.contains(named), "{refused}");
        }
    }

    #[test]
    fn absurd_numbers_are_refused() {
        for document in [
            json!({"retention_ms": DURATION_MS_MAX + 1}),
            json!({"dedup_window_ms": 0}),
            json!({"max_reclaim_count": COUNT_MAX + 1}),
            json!({"timeout_policy": {"attempt_timeout_ms": 0}}),
            json!({"timeout_policy": {"execution_deadline_ms": u64::MAX}}),
            json!({"timeout_policy": {"attempt_timeout_ms": -1}}),
            json!({"retry_policy": {"backoff": {"type": "exponential", "multiplier": 0.5}}}),
            json!({"retry_policy": {"backoff": {"type": "fixed", "delay_ms": u64::MAX}}}),
            json!({"routing_requirements": {"required_capabilities": ["a,b"]}}),
            json!({"routing_requirements": {"required_capabilities": [""]}}),
            json!({"routing_requirements": {"required_capabilities": ["a b"]}}),
            json!({"routing_requirements": {"required_capabilities": ["x".repeat(4097)]}}),
        ] {
            assert!(Policy::parse(&document).is_err(), "{document}");
        }
    }

    #[test]
    fn backoff_grows_is_bounded_and_is_a_whole_number() {
        let backoff = Backoff::Exponential {
            initial_delay_ms: 100,
            max_delay_ms: 1_000,
            multiplier: 1.5,
            jitter: false,
        };
        let delays: Vec<_> = (0..8).map(|n| backoff.delay_ms(n, &mut Fixed(0))).collect();
        assert_eq!(delays, [100, 150, 225, 338, 506, 759, 1_000, 1_000]);
        assert_eq!(backoff.delay_ms(u32::MAX, &mut Fixed(0)), 1_000);
    }

    #[test]
    fn leases_lost_in_a_row_are_taken_over_ever_later() {
        let delays: Vec<_> = (0..9).map(reclaim_delay_ms).collect();
        let seconds = [1, 2, 4, 8, 16, 32, 60, 60].map(|s| Some(s * 1_000));
        assert_eq!((delays[0], &delays[1..]), (None, &seconds[..]));
        assert_eq!(reclaim_delay_ms(u32::MAX), Some(60_000));
    }

    #[test]
    fn jitter_stays_in_the_upper_half() {
        let backoff = Backoff::Fixed { delay_ms: 101, jitter: true };
        for bits in [0, 1, 50, 51, 52, u64::MAX] {
            assert!((50..=101).contains(&backoff.delay_ms(0, &mut Fixed(bits))));
        }
        let none = Backoff::Fixed { delay_ms: 0, jitter: true };
        assert_eq!(none.delay_ms(0, &mut Fixed(7)), 0);
    }

    #[test]
    fn a_policy_reads_back_as_it_is_stored() {
        let policy = Policy::parse(&json!({
            "retry_policy": {"max_retries": 2, "backoff": {"type": "fixed", "delay_ms": 5},
                             "retryable_categories": ["net"]},
            "timeout_policy": {"attempt_timeout_ms": 10, "execution_deadline_ms": 20},
            "max_reclaim_count": 1, "max_replay_count": 0, "retention_ms": 0,
            "dedup_window_ms": 9, "routing_requirements": {"required_capabilities": ["gpu"]},
        }))
        .unwrap();
        let stored: Value = serde_json::from_str(&policy.to_json()).unwrap();
        assert_eq!(Policy::parse(&stored).unwrap(), policy);
    }
}
