//! Signals: who may send them, and what comes of sending them twice or too late.

use expect_test::expect;
use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::refusals::shows;
use crate::site::{Site, id, path};
use crate::suspensions::{Waiting, all, any, request, tells, waiting};

/// A signal to a waitpoint, with its token.
pub fn signal(to: &Waiting) -> Value {
    json!({"waitpoint_id": to.waitpoint, "waitpoint_token": to.token, "signal_name": "paid",
           "signal_category": "webhook", "source_type": "service", "source_identity": "payments"})
}

#[tokio::test]
async fn a_wrong_token_says_nothing_about_waitpoints() {
    let site = Site::open().await;
    let (x, y) = (waiting(&site, 1, &any()).await, waiting(&site, 2, &any()).await);
    let token = x.token.as_str().unwrap();
    let flipped = format!("{}{}", &token[..token.len() - 1], i32::from(token.ends_with('0')));
    let mut bodies = Vec::new();
    for (waitpoint, token) in [
        // There is no such waitpoint; it belongs to another execution; it was not signed so; it is
        // the token of another; its key is not known; it is no token.
        (json!(Uuid::from_u128(77)), x.token.clone()),
        (y.waitpoint.clone(), y.token.clone()),
        (x.waitpoint.clone(), json!(flipped)),
        (x.waitpoint.clone(), y.token.clone()),
        (x.waitpoint.clone(), json!(token.replace("k1:", "k9:"))),
        (x.waitpoint.clone(), json!("guess")),
    ] {
        let mut body = signal(&x);
        body["waitpoint_id"] = waitpoint;
        body["waitpoint_token"] = token;
        let refused = site.post(&path(x.id, "/signals"), body).await;
        assert_eq!((refused.status, refused.code()), (403, "invalid_token"));
        bodies.push(refused.body);
    }
    let foreign = site.post(&path(y.id, "/signals"), signal(&x)).await;
    bodies.push(foreign.body);
    bodies.dedup();
    assert_eq!(bodies.len(), 1, "{bodies:?}");
    let mut body = signal(&x);
    body["waitpoint_token"] = json!("guess");
    let request = site.request(Method::POST, &path(x.id, "/signals")).json(&body);
    shows(
        &site,
        request,
        expect![[r#"
        403 invalid_token
        {
          "code": "invalid_token",
          "detail": "the token is not valid for this waitpoint",
          "hint": "Send the token that was handed out with the waitpoint, unchanged.",
          "operation": "deliver_signal",
          "retryable": false,
          "status": 403,
          "title": "The token is not one for this waitpoint, or there is no such waitpoint.",
          "type": "/docs/errors#invalid_token"
        }
    "#]],
    )
    .await;
    body["waitpoint_token"] = json!("");
    let refused = site.post(&path(x.id, "/signals"), body).await;
    assert_eq!((refused.status, refused.code()), (403, "missing_token"));
    assert_eq!(site.get(&path(x.id, "/signals")).await.body["signals"], json!([]));
}

#[tokio::test]
async fn a_signal_sent_twice_is_a_duplicate_by_its_id_and_by_its_key() {
    let site = Site::open().await;
    let x = waiting(&site, 1, &json!({"single": {"waitpoint": "a", "signal": "done"}})).await;
    let mut named = signal(&x);
    named["signal_id"] = json!(Uuid::from_u128(5));
    let first = site.post(&path(x.id, "/signals"), named.clone()).await;
    tells(
        &first,
        &expect![[r#"
        200
        {
          "effect": "signal_ignored_matcher_failed",
          "signal_id": "00000000-0000-0000-0000-000000000005",
          "status": "accepted"
        }
    "#]],
    );
    tells(
        &site.post(&path(x.id, "/signals"), named).await,
        &expect![[r#"
        200
        {
          "existing_signal_id": "00000000-0000-0000-0000-000000000005",
          "status": "duplicate"
        }
    "#]],
    );
    let mut keyed = signal(&x);
    keyed["idempotency_key"] = json!("k");
    keyed["dedup_ttl_ms"] = json!(100);
    let first = site.post(&path(x.id, "/signals"), keyed.clone()).await.body;
    assert_eq!(first["status"], "accepted");
    let again = site.post(&path(x.id, "/signals"), keyed.clone()).await.body;
    assert_eq!(again, json!({"status": "duplicate", "existing_signal_id": first["signal_id"]}));
    site.clock.advance(100);
    let later = site.post(&path(x.id, "/signals"), keyed).await.body;
    assert_eq!(later["status"], "accepted");
}

#[tokio::test]
async fn an_operator_sends_signals_without_a_token() {
    let site = Site::open().await;
    let x = waiting(&site, 1, &any()).await;
    let mut body = signal(&x);
    body.as_object_mut().unwrap().remove("waitpoint_token");
    body["payload_base64"] = json!("AP8=");
    body["encoding"] = json!("raw");
    body["resume_delay_ms"] = json!(50);
    let mut nowhere = body.clone();
    nowhere["waitpoint_id"] = json!(Uuid::from_u128(77));
    let refused = site.post(&path(x.id, "/signals"), nowhere).await;
    assert_eq!((refused.status, refused.code()), (404, "waitpoint_not_found"));
    let sent = site.post(&path(x.id, "/signals"), body.clone()).await.body;
    assert_eq!(sent["effect"], "resume_condition_satisfied");
    assert_eq!(site.claim().await, Value::Null);
    site.clock.advance(50);
    assert_eq!(site.claim().await["execution_id"], json!(x.id));
    let kept = site.get(&path(x.id, "/signals")).await.body["signals"][0].clone();
    assert_eq!((&kept["payload_base64"], &kept["encoding"]), (&json!("AP8="), &json!("raw")));
    // What came is enough: nothing more is taken there.
    let late = site.post(&path(x.id, "/signals"), body).await;
    assert_eq!((late.status, late.code()), (409, "waitpoint_closed"));
}

#[tokio::test]
async fn what_has_ended_takes_no_signals() {
    let site = Site::open().await;
    let x = waiting(&site, 1, &any()).await;
    site.post(&path(x.id, "/cancel"), json!({})).await;
    let late = site.post(&path(x.id, "/signals"), signal(&x)).await;
    assert_eq!((late.status, late.code()), (409, "target_not_signalable"));
    let gone = site.post(&path(id(9), "/signals"), signal(&x)).await;
    assert_eq!((gone.status, gone.code()), (404, "execution_not_found"));
}

#[tokio::test]
async fn signals_are_listed_page_by_page_in_the_order_they_came() {
    let site = Site::open().await;
    let x = waiting(&site, 1, &json!({"single": {"waitpoint": "a", "signal": "done"}})).await;
    for number in 0..5 {
        let mut body = signal(&x);
        body["signal_name"] = json!(format!("n{number}"));
        site.post(&path(x.id, "/signals"), body).await;
    }
    let found = all(&site, &path(x.id, "/signals?"), "signals").await;
    let names: Vec<_> = found.iter().map(|one| one["signal_name"].clone()).collect();
    assert_eq!(json!(names), json!(["n0", "n1", "n2", "n3", "n4"]));
    assert!(found.iter().all(|one| one["effect"] == "signal_ignored_matcher_failed"));
}

#[tokio::test]
async fn several_waitpoints_are_counted_together() {
    let site = Site::open().await;
    let (x, fence) = site.held(1).await;
    let count = json!({"count": {"n": 2, "distinct": "waitpoints", "waitpoints": ["a", "b"]}});
    let mut ask = request(&fence, &count);
    ask["waitpoints"] =
        json!([{"fresh": {"waitpoint_key": "a"}}, {"fresh": {"waitpoint_key": "b"}}]);
    let opened = site.post(&path(x, "/suspend"), ask).await.body["waitpoints"].clone();
    let mut effects = Vec::new();
    for at in [0, 0, 1] {
        let to = Waiting {
            id: x,
            waitpoint: opened[at]["waitpoint_id"].clone(),
            token: opened[at]["token"].clone(),
        };
        let sent = site.post(&path(x, "/signals"), signal(&to)).await.body;
        effects.push(sent["effect"].clone());
    }
    assert_eq!(
        json!(effects),
        json!([
            "appended_to_waitpoint",
            "appended_to_waitpoint_duplicate",
            "resume_condition_satisfied"
        ])
    );
}
