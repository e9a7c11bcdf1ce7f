//! What is refused about suspensions, waitpoints and signals, by field and code.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::site::{Answer, Site, id, path};
use crate::suspensions::{any, approval, request, waiting};

fn refused(answer: &Answer, status: u16, code: &str) {
    assert_eq!((answer.status, answer.code()), (status, code), "{answer:?}");
}

#[tokio::test]
async fn a_suspension_that_makes_no_sense_is_refused_and_changes_nothing() {
    let site = Site::open().await;
    let (x, fence) = site.held(1).await;
    let fresh = |key: &str| json!({"fresh": {"waitpoint_key": key}});
    for (name, value, field) in [
        ("colour", json!("red"), "colour"),
        ("reason_code", json!("tired"), "reason_code"),
        ("suspension_id", json!("mine"), "suspension_id"),
        ("waitpoints", json!([]), "waitpoints"),
        ("waitpoints", json!([fresh("b")]), "waitpoint_key"),
        ("waitpoints", json!([fresh("")]), "waitpoint_key"),
        ("waitpoints", json!([{"pending": {"waitpoint_id": "here"}}]), "waitpoint_id"),
        ("waitpoints", json!([{"old": {}}]), "waitpoints[0]"),
        ("resume_condition", json!("timeout_only"), "timeout_at"),
        ("resume_condition", json!({"all_of": []}), "resume_condition"),
        ("resume_condition", json!({"any_of": []}), "resume_condition"),
        ("resume_condition", json!(null), "resume_condition"),
        ("timeout_in_ms", json!(-1), "timeout_in_ms"),
        ("timeout_behavior", json!("shrug"), "timeout_behavior"),
        ("timeout_at", json!(-700_000), "timeout_at"),
        ("resume_policy", json!({"resume_delay_ms": 315_360_000_001_i64}), "resume_delay_ms"),
        (
            "resume_policy",
            json!({"close_waitpoint_on_resume": false}),
            "resume_policy.close_waitpoint_on_resume",
        ),
        (
            "continuation_metadata_pointer",
            json!("x".repeat(4_097)),
            "continuation_metadata_pointer",
        ),
    ] {
        let mut body = request(&fence, &any());
        body[name] = value;
        let answer = site.post(&path(x, "/suspend"), body).await;
        refused(&answer, 400, "invalid_input");
        assert_eq!(answer.body["field"], field, "{answer:?}");
    }
    let done = site.post(&path(x, "/complete"), json!({"fence": fence})).await;
    assert_eq!(done.status, 200, "{done:?}");
}

#[tokio::test]
async fn only_the_holder_suspends_and_only_once() {
    let site = Site::open().await;
    let x = waiting(&site, 1, &any()).await;
    let stale = json!({"attempt_index": 0, "lease_epoch": 0});
    let mut again = request(&stale, &any());
    again["suspension_id"] = json!(Uuid::from_u128(8));
    let answer = site.post(&path(x.id, "/suspend"), again).await;
    refused(&answer, 409, "already_suspended");
    assert_eq!(answer.body["standing"]["phase"], "suspended");
    let y = site.create(2).await;
    let answer = site.post(&path(y, "/suspend"), request(&stale, &any())).await;
    refused(&answer, 409, "stale_lease");
    let answer = site.post(&path(y, "/resume"), json!({})).await;
    refused(&answer, 409, "execution_not_suspended");
    let answer = site.post(&path(id(9), "/suspend"), request(&stale, &any())).await;
    refused(&answer, 404, "execution_not_found");
    for tail in ["/suspension", "/waitpoints", "/signals", "/observed-signals?attempt_index=0"] {
        refused(&site.get(&path(id(9), tail)).await, 404, "execution_not_found");
    }
}

#[tokio::test]
async fn a_page_that_makes_no_sense_is_refused_by_field() {
    let site = Site::open().await;
    let x = site.create(1).await;
    for (path, field) in [
        ("/v1/waitpoints?limit=0".to_owned(), "limit"),
        ("/v1/waitpoints?limit=1001".to_owned(), "limit"),
        ("/v1/waitpoints?after=here".to_owned(), "after"),
        ("/v1/suspended?limit=0".to_owned(), "limit"),
        ("/v1/suspended?after=here".to_owned(), "after"),
        ("/v1/suspended?reason=tired".to_owned(), "reason"),
        ("/v1/suspended?partition=256".to_owned(), "partition"),
        ("/v1/suspended?partition=-1".to_owned(), "partition"),
        (path(x, "/waitpoints?after=here"), "after"),
        (path(x, "/signals?limit=0"), "limit"),
        (path(x, "/signals?after=here"), "after"),
        (path(x, "/observed-signals"), "attempt_index"),
        (path(x, "/waitpoints/here/token"), "waitpoint_id"),
    ] {
        let answer = site.get(&path).await;
        assert_eq!((answer.status, &answer.body["field"]), (400, &json!(field)), "{path}");
    }
}

#[tokio::test]
async fn a_signal_that_makes_no_sense_is_refused_by_field() {
    let site = Site::open().await;
    let x = waiting(&site, 1, &any()).await;
    let long = "x".repeat(257);
    for (name, value, status, code, field) in [
        ("colour", json!("red"), 400, "invalid_input", "colour"),
        ("waitpoint_id", json!("here"), 400, "invalid_input", "waitpoint_id"),
        ("signal_id", json!("mine"), 400, "invalid_input", "signal_id"),
        ("signal_name", json!("__timeout"), 400, "invalid_input", "signal_name"),
        ("signal_category", json!(long), 400, "invalid_input", "signal_category"),
        ("source_type", json!(long), 400, "invalid_input", "source_type"),
        ("source_identity", json!(long), 400, "invalid_input", "source_identity"),
        ("correlation_id", json!(long), 400, "invalid_input", "correlation_id"),
        ("idempotency_key", json!(""), 400, "invalid_input", "idempotency_key"),
        ("dedup_ttl_ms", json!(-1), 400, "invalid_input", "dedup_ttl_ms"),
        ("resume_delay_ms", json!(u64::MAX), 400, "invalid_input", "resume_delay_ms"),
        ("payload_base64", json!("?"), 400, "invalid_input", "payload_base64"),
        ("payload", json!("x".repeat(65_536)), 413, "payload_too_large", "payload"),
    ] {
        let mut body = json!({"waitpoint_id": x.waitpoint, "waitpoint_token": x.token,
                              "signal_name": "paid", "signal_category": "webhook",
                              "source_type": "service", "source_identity": "payments"});
        body[name] = value;
        let answer = site.post(&path(x.id, "/signals"), body).await;
        refused(&answer, status, code);
        assert_eq!(answer.body["field"], field, "{answer:?}");
    }
    let huge = site.post(&path(x.id, "/signals"), json!({"payload": "x".repeat(300_000)})).await;
    refused(&huge, 413, "body_too_large");
    let text = site.request(reqwest::Method::POST, &path(x.id, "/signals")).body("{}");
    refused(&site.ask(text).await, 415, "unsupported_media_type");
    assert_eq!(site.get(&path(x.id, "/signals")).await.body["signals"], json!([]));
}

#[tokio::test]
async fn a_decision_that_nobody_waits_for_is_refused() {
    let site = Site::open().await;
    let x = waiting(&site, 1, &any()).await;
    let decide = |more: &Value| {
        let mut body = json!({"word": "approved", "by": "ann"});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    let answer = site.post(&path(x.id, "/decisions"), decide(&json!({}))).await;
    refused(&answer, 404, "waitpoint_not_found");
    let y = waiting(&site, 2, &approval(&json!({"subject": "deploy 7"}))).await;
    for (more, field) in [
        (json!({"word": "perhaps"}), "word"),
        (json!({"by": ""}), "by"),
        (json!({"waitpoint_id": "here"}), "waitpoint_id"),
        (json!({"colour": "red"}), "colour"),
    ] {
        let answer = site.post(&path(y.id, "/decisions"), decide(&more)).await;
        refused(&answer, 400, "invalid_input");
        assert_eq!(answer.body["field"], field, "{answer:?}");
    }
    let unseen = site.post(&path(y.id, "/decisions"), decide(&json!({}))).await;
    refused(&unseen, 409, "subject_mismatch");
    assert_eq!(unseen.body["operation"], "deliver_approval_signal");
}
