//! Policies and asks that make no sense are refused by name; nothing is stored and ignored.

use std::collections::BTreeSet;
use std::sync::Arc;

use ff_core::decide::create::Create;
use ff_core::error::{Code, Rejection};
use ff_core::limits::{COUNT_MAX, DURATION_MS_MAX};
use ff_core::{ClaimAsk, Policy};
use serde_json::{Value, json};

use super::calls::{capabilities, requiring};
use crate::world::{World, lane};

/// Sends a creation with a policy that was read without being checked.
async fn refused(w: &World, document: Value) -> Rejection {
    let before = w.rows();
    let policy: Policy = serde_json::from_value(document).expect("a readable policy");
    let create = Create { policy, ..w.draft() };
    let refused = w.run(create).await.expect_err("the policy is absurd");
    assert_eq!(w.rows(), before, "{refused}");
    refused
}

/// Durations are at least a millisecond where nothing makes no sense, and at most ten years.
pub async fn absurd_durations_are_refused(w: Arc<World>) {
    let long = DURATION_MS_MAX + 1;
    let timeout = |field: &str, ms: u64| json!({"timeout_policy": {field: ms}});
    let fixed = |ms: u64| json!({"type": "fixed", "delay_ms": ms});
    let growing = |field: &str| json!({"type": "exponential", field: long});
    let retry = |backoff: Value| json!({"retry_policy": {"backoff": backoff}});
    for (field, document) in [
        ("attempt_timeout_ms", timeout("attempt_timeout_ms", 0)),
        ("attempt_timeout_ms", timeout("attempt_timeout_ms", long)),
        ("execution_deadline_ms", timeout("execution_deadline_ms", 0)),
        ("execution_deadline_ms", timeout("execution_deadline_ms", u64::MAX)),
        ("dedup_window_ms", json!({"dedup_window_ms": 0})),
        ("retention_ms", json!({"retention_ms": long})),
        ("delay_ms", retry(fixed(u64::MAX))),
        ("initial_delay_ms", retry(growing("initial_delay_ms"))),
        ("max_delay_ms", retry(growing("max_delay_ms"))),
    ] {
        let refused = refused(&w, document).await;
        assert_eq!(refused.code, Code::InvalidPolicyJson, "{refused}");
        assert_eq!(refused.field, Some(field), "{refused}");
    }
}

/// Counts and factors have limits.
pub async fn absurd_numbers_are_refused(w: Arc<World>) {
    let many = COUNT_MAX + 1;
    let factor = |multiplier: f64| {
        let backoff = json!({"type": "exponential", "multiplier": multiplier});
        json!({"retry_policy": {"backoff": backoff}})
    };
    for (field, value, document) in [
        ("max_retries", "10001", json!({"retry_policy": {"max_retries": many}})),
        ("max_reclaim_count", "10001", json!({"max_reclaim_count": many})),
        ("max_replay_count", "10001", json!({"max_replay_count": many})),
        ("multiplier", "0.5", factor(0.5)),
        ("multiplier", "101.0", factor(101.0)),
    ] {
        let refused = refused(&w, document).await;
        assert_eq!(refused.code, Code::InvalidPolicyJson, "{refused}");
        assert_eq!(refused.field, Some(field), "{refused}");
        assert_eq!(refused.value.as_deref(), Some(value));
    }
}

/// A capability that could never be matched is refused.
pub async fn bad_required_capabilities_are_refused(w: Arc<World>) {
    let long = "x".repeat(4_097);
    let many: Vec<_> = (0..257).map(|n| n.to_string()).collect();
    let many: Vec<_> = many.iter().map(String::as_str).collect();
    for tokens in [&[""][..], &["a,b"], &["a b"], &["a\u{7f}"], &["nul\0"], &[&long], &many] {
        let refused = refused(&w, requiring(tokens)).await;
        assert_eq!(refused.code, Code::InvalidCapabilities, "{refused}");
        assert_eq!(refused.field, Some("required_capabilities"));
    }
}

/// A category that no failure can have is refused.
pub async fn bad_retryable_categories_are_refused(w: Arc<World>) {
    for category in ["", "two words", &"x".repeat(65)] {
        let document = json!({"retry_policy": {"retryable_categories": [category]}});
        let refused = refused(&w, document).await;
        assert_eq!(refused.code, Code::InvalidPolicyJson, "{refused}");
        assert_eq!(refused.field, Some("retryable_categories"));
    }
}

/// What is not honoured is not accepted.
pub async fn unknown_policy_fields_are_refused_by_name(w: Arc<World>) {
    for (named, document) in [
        ("fallback_policy", json!({"fallback_policy": {"tiers": []}})),
        ("stream_policy", json!({"stream_policy": {}})),
        ("budget_ids", json!({"budget_ids": []})),
        ("priority", json!({"priority": 1})),
        ("isolation_level", json!({"routing_requirements": {"isolation_level": "x"}})),
        ("preferred_locality", json!({"routing_requirements": {"preferred_locality": "x"}})),
        ("colour", json!({"colour": "red"})),
        ("max_tries", json!({"retry_policy": {"max_tries": 1}})),
        ("linear", json!({"retry_policy": {"backoff": {"type": "linear"}}})),
    ] {
        let refused = Policy::parse(&document).expect_err("it is not honoured");
        assert_eq!(refused.code, Code::InvalidPolicyJson);
        assert!(refused.message.contains(named), "{refused}");
    }
    let kept = json!({"retention_ms": 5, "max_reclaim_count": 0});
    let id = w.create_with(kept.clone()).await;
    assert_eq!(w.get(id).await.spec.policy, Policy::parse(&kept).expect("a valid policy"));
}

/// An ask that cannot be served is refused before anything is looked at.
pub async fn a_malformed_ask_is_refused(w: Arc<World>) {
    let id = w.create(w.draft()).await;
    let ask = || w.ask(1);
    let offering = |tokens: &[&str]| ClaimAsk { capabilities: capabilities(tokens), ..ask() };
    let lanes: Vec<_> = (0..65).map(|n| lane(&n.to_string())).collect();
    let many: BTreeSet<_> = (0..257).map(|n| n.to_string()).collect();
    let (input, caps) = (Code::InvalidInput, Code::InvalidCapabilities);
    for (ask, code, field) in [
        (ClaimAsk { lanes: vec![], ..ask() }, input, "lanes"),
        (ClaimAsk { lanes, ..ask() }, input, "lanes"),
        (ClaimAsk { max: 0, ..ask() }, input, "max"),
        (ClaimAsk { max: 1_001, ..ask() }, input, "max"),
        (ClaimAsk { lease_ttl_ms: 9, ..ask() }, input, "lease_ttl_ms"),
        (ClaimAsk { lease_ttl_ms: u64::MAX, ..ask() }, input, "lease_ttl_ms"),
        (offering(&[""]), caps, "worker_capabilities"),
        (offering(&["a,b"]), caps, "worker_capabilities"),
        (offering(&["a b"]), caps, "worker_capabilities"),
        (ClaimAsk { capabilities: many, ..ask() }, caps, "worker_capabilities"),
    ] {
        let refused = ask.validate().expect_err("it is malformed");
        assert_eq!((refused.code, refused.field), (code, Some(field)));
    }
    assert_eq!(w.take_ids(1_000).await, [id], "the largest ask is fine");
}
