//! Waitpoints: made while an execution runs, listed without their tokens, closed.

use expect_test::expect;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::site::{Site, id, path};
use crate::suspensions::{all, any, approval, request, tells, waiting};

fn new(fence: &Value, number: u128, key: &str) -> Value {
    json!({"fence": fence, "waitpoint_id": Uuid::from_u128(number), "waitpoint_key": key,
           "expires_in_ms": 1_000})
}

#[tokio::test]
async fn a_waitpoint_is_made_listed_and_closed() {
    let site = Site::open().await;
    let (x, fence) = site.held(1).await;
    let made = site.post(&path(x, "/waitpoints"), new(&fence, 2, "callback")).await;
    tells(
        &made,
        &expect![[r#"
        200
        {
          "token": "k1:19bbd30c3f3faa97d6fd3d59ca68fea9775a846950e402ac69f66959aa7910ef",
          "waitpoint_id": "00000000-0000-0000-0000-000000000002"
        }
    "#]],
    );
    let again = site.post(&path(x, "/waitpoints"), new(&fence, 2, "callback")).await;
    assert_eq!(again.body, made.body);
    let listed = site.get(&path(x, "/waitpoints")).await;
    tells(
        &listed,
        &expect![[r#"
        200
        {
          "next": null,
          "waitpoints": [
            {
              "activated_at": null,
              "approval": null,
              "created_at": 1700000000000,
              "execution_id": "{fp:33}:00000000-0000-0000-0000-000000000001",
              "expires_at": 1700000001000,
              "last_signal_at": null,
              "matched_signal_count": 0,
              "reason": null,
              "required_signal_names": [],
              "signal_count": 0,
              "state": "pending",
              "token_fingerprint": "4727d94fa311ac06",
              "token_kid": "k1",
              "waitpoint_id": "00000000-0000-0000-0000-000000000002",
              "waitpoint_key": "callback"
            }
          ]
        }
    "#]],
    );
    let token = site.get(&path(x, &format!("/waitpoints/{}/token", Uuid::from_u128(2)))).await;
    assert_eq!(token.body, made.body);
    for _ in 0..2 {
        let close = format!("/waitpoints/{}/close", Uuid::from_u128(2));
        let closed = site.post(&path(x, &close), json!({"fence": fence})).await;
        assert_eq!((closed.status, closed.body), (200, json!({"status": "closed"})));
    }
    assert_eq!(site.get(&path(x, "/waitpoints")).await.body["waitpoints"], json!([]));
    let mut unnamed = new(&fence, 0, "other");
    unnamed.as_object_mut().unwrap().remove("waitpoint_id");
    let minted = site.post(&path(x, "/waitpoints"), unnamed).await.body;
    assert!(minted["waitpoint_id"].is_string() && minted["token"].is_string(), "{minted}");
}

#[tokio::test]
async fn waitpoints_are_listed_page_by_page() {
    let site = Site::open().await;
    let (x, fence) = site.held(1).await;
    for number in 10..15 {
        site.post(&path(x, "/waitpoints"), new(&fence, number, &format!("w{number}"))).await;
    }
    let y = waiting(&site, 2, &any()).await;
    let keys = |found: Vec<Value>| -> Vec<Value> {
        found.iter().map(|row| row["waitpoint_key"].clone()).collect()
    };
    let own = all(&site, &path(x, "/waitpoints?"), "waitpoints").await;
    assert_eq!(json!(keys(own)), json!(["w10", "w11", "w12", "w13", "w14"]));
    let every = all(&site, "/v1/waitpoints?", "waitpoints").await;
    assert_eq!(json!(keys(every)), json!(["w10", "w11", "w12", "w13", "w14", "a"]));
    let other = all(&site, &path(y.id, "/waitpoints?"), "waitpoints").await;
    assert_eq!(json!(keys(other)), json!(["a"]));
}

#[tokio::test]
async fn a_decision_that_is_waited_for_shows_what_on_and_who_has_decided() {
    let site = Site::open().await;
    let about = json!({"needed": 2, "not_by": "bob", "subject": "deploy 7"});
    let x = waiting(&site, 1, &approval(&about)).await;
    let listed = site.get(&path(x.id, "/waitpoints")).await.body["waitpoints"][0].clone();
    let digest = listed["approval"]["subject_digest"].clone();
    let word = json!({"word": "approved", "by": "ann", "subject": digest, "comment": "fine"});
    let said = site.post(&path(x.id, "/decisions"), word.clone()).await.body;
    assert_eq!(
        (&said["status"], &said["effect"]),
        (&json!("accepted"), &json!("appended_to_waitpoint"))
    );
    let again = site.post(&path(x.id, "/decisions"), word).await.body;
    assert_eq!(again, json!({"status": "duplicate", "existing_signal_id": said["signal_id"]}));
    let listed = site.get(&path(x.id, "/waitpoints")).await.body["waitpoints"][0].clone();
    assert_eq!(
        listed["approval"],
        json!({"needed": 2, "by": [], "not_by": "bob", "subject": "deploy 7",
               "subject_digest": digest, "approved_by": ["ann"]})
    );
    assert_eq!(listed["required_signal_names"], json!(["approved", "rejected"]));
    let word = json!({"word": "approved", "by": "Jürgen", "subject": digest});
    let said = site.post(&path(x.id, "/decisions"), word.clone()).await.body;
    assert_eq!(said["effect"], "resume_condition_satisfied");
    // The word that decided is known as well, and nobody else's is waited for.
    let again = site.post(&path(x.id, "/decisions"), word).await.body;
    assert_eq!(again, json!({"status": "duplicate", "existing_signal_id": said["signal_id"]}));
    let late = json!({"word": "approved", "by": "cleo", "subject": digest});
    assert_eq!(site.post(&path(x.id, "/decisions"), late).await.code(), "waitpoint_not_found");
    let signals = site.get(&path(x.id, "/signals")).await.body;
    assert_eq!(signals["signals"][0]["payload_base64"], "ZmluZQ==");
    assert_eq!(signals["signals"][0]["encoding"], "text");
}

#[tokio::test]
async fn a_wait_that_no_signal_ends_wants_none() {
    let site = Site::open().await;
    for (number, condition) in [(1, json!("operator_only")), (2, json!("timeout_only"))] {
        let (x, fence) = site.held(number).await;
        let mut ask = request(&fence, &condition);
        ask["suspension_id"] = json!(Uuid::from_u128(number));
        ask["timeout_in_ms"] = json!(1_000);
        ask["waitpoints"] = json!([{"fresh": {"waitpoint_key": "a"}}]);
        let asked = site.post(&path(x, "/suspend"), ask).await;
        assert_eq!(asked.body["status"], "suspended", "{asked:?}");
        let listed = site.get(&path(x, "/waitpoints")).await.body["waitpoints"][0].clone();
        assert_eq!(listed["required_signal_names"], json!(["__none"]));
    }
}

#[tokio::test]
async fn a_word_on_something_else_does_not_stand_in_the_way_of_a_decision() {
    let site = Site::open().await;
    let (x, fence) = site.held(1).await;
    site.post(&path(x, "/waitpoints"), new(&fence, 2, "a")).await;
    let mut word = json!({"word": "approved", "by": "ann", "waitpoint_id": Uuid::from_u128(2)});
    let early = site.post(&path(x, "/decisions"), word.clone()).await.body;
    assert_eq!(early["effect"], "buffered_for_pending_waitpoint");
    let mut ask = request(&fence, &approval(&json!({"needed": 1, "subject": "deploy 7"})));
    ask["waitpoints"] = json!([{"pending": {"waitpoint_id": Uuid::from_u128(2)}}]);
    let asked = site.post(&path(x, "/suspend"), ask).await;
    assert_eq!(asked.body["status"], "suspended", "{asked:?}");
    let listed = site.get(&path(x, "/waitpoints")).await.body["waitpoints"][0].clone();
    word["subject"] = listed["approval"]["subject_digest"].clone();
    let said = site.post(&path(x, "/decisions"), word).await.body;
    assert_eq!(said["effect"], "resume_condition_satisfied", "{said}");
}

#[tokio::test]
async fn a_waitpoint_that_cannot_be_is_refused() {
    let site = Site::open().await;
    let (x, fence) = site.held(1).await;
    for (name, value, field) in [
        ("waitpoint_key", json!(""), "waitpoint_key"),
        ("waitpoint_id", json!("here"), "waitpoint_id"),
        ("expires_in_ms", json!(0), "expires_in_ms"),
        ("colour", json!("red"), "colour"),
    ] {
        let mut body = new(&fence, 2, "callback");
        body[name] = value;
        let answer = site.post(&path(x, "/waitpoints"), body).await;
        assert_eq!((answer.status, answer.code()), (400, "invalid_input"), "{answer:?}");
        assert_eq!(answer.body["field"], field);
    }
    site.post(&path(x, "/waitpoints"), new(&fence, 2, "callback")).await;
    let taken = site.post(&path(x, "/waitpoints"), new(&fence, 2, "other")).await;
    assert_eq!((taken.status, taken.code()), (409, "waitpoint_already_exists"));
    let gone = format!("/waitpoints/{}/close", Uuid::from_u128(9));
    let gone = site.post(&path(x, &gone), json!({"fence": fence})).await;
    assert_eq!((gone.status, gone.code()), (404, "waitpoint_not_found"));
    let gone = format!("/waitpoints/{}/token", Uuid::from_u128(9));
    assert_eq!(site.get(&path(x, &gone)).await.code(), "waitpoint_not_found");
    let mut stale = new(&fence, 3, "late");
    stale["fence"]["lease_epoch"] = json!(99);
    let stale = site.post(&path(x, "/waitpoints"), stale).await;
    assert_eq!((stale.status, stale.code()), (409, "stale_lease"));
    let nobody = site.post(&path(id(9), "/waitpoints"), new(&fence, 3, "late")).await;
    assert_eq!((nobody.status, nobody.code()), (404, "execution_not_found"));
    // What was made too long ago is not waited at.
    site.clock.advance(1_000);
    let mut ask = request(&fence, &json!({"single": {"waitpoint": "callback"}}));
    ask["waitpoints"] = json!([{"pending": {"waitpoint_id": Uuid::from_u128(2)}}]);
    let late = site.post(&path(x, "/suspend"), ask).await;
    assert_eq!((late.status, late.code()), (409, "pending_waitpoint_expired"));
}
