//! The life of a suspension: an execution waits, is told, and goes on with the same attempt.

use expect_test::{Expect, expect};
use ff_core::ExecutionId;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::flows::{node, submit};
use crate::site::{Answer, Site, flow_id, flow_path, id, member, path};

/// An execution that waits, and what lets it go on.
pub struct Waiting {
    pub id: ExecutionId,
    pub waitpoint: Value,
    pub token: Value,
}

/// A request to wait at one fresh waitpoint `a` for this condition.
pub fn request(fence: &Value, condition: &Value) -> Value {
    json!({"fence": fence, "suspension_id": Uuid::from_u128(1), "resume_condition": condition,
           "waitpoints": [{"fresh": {"waitpoint_id": Uuid::from_u128(2), "waitpoint_key": "a"}}],
           "reason_code": "waiting_for_signal"})
}

/// Waits for any signal at waitpoint `a`.
pub fn any() -> Value {
    json!({"single": {"waitpoint": "a"}})
}

/// Waits for the word of people at waitpoint `a`.
pub fn approval(more: &Value) -> Value {
    let mut own = json!({"waitpoint": "a", "needed": 1});
    own.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"approval": own})
}

/// Creates an execution that waits at waitpoint `a` for this condition.
pub async fn waiting(site: &Site, number: u128, condition: &Value) -> Waiting {
    let (id, fence) = site.held(number).await;
    let mut ask = request(&fence, condition);
    ask["waitpoints"][0]["fresh"]["waitpoint_id"] = json!(Uuid::from_u128(0x1000 + number));
    let answer = site.post(&path(id, "/suspend"), ask).await;
    assert_eq!((answer.status, &answer.body["status"]), (200, &json!("suspended")), "{answer:?}");
    let opened = &answer.body["waitpoints"][0];
    Waiting { id, waitpoint: opened["waitpoint_id"].clone(), token: opened["token"].clone() }
}

/// An answer as it is written.
pub fn tells(answer: &Answer, expected: &Expect) {
    let text = serde_json::to_string_pretty(&answer.body).unwrap();
    expected.assert_eq(&format!("{}\n{text}\n", answer.status));
}

#[tokio::test]
async fn an_execution_waits_and_says_for_what() {
    let site = Site::open().await;
    let (x, fence) = site.held(1).await;
    site.clock.advance(5);
    let mut ask = request(&fence, &any());
    ask["timeout_in_ms"] = json!(60_000);
    ask["steps"] = json!([{"number": 0, "name": "ask", "result": "sent"}]);
    ask["continuation_metadata_pointer"] = json!("page 7");
    let suspended = site.post(&path(x, "/suspend"), ask.clone()).await;
    tells(
        &suspended,
        &expect![[r#"
        200
        {
          "status": "suspended",
          "suspension_id": "00000000-0000-0000-0000-000000000001",
          "waitpoints": [
            {
              "token": "k1:6a14c307e3d268aebb78b2529e90c4dff3530a0782cad8536e44e45c18107778",
              "waitpoint_id": "00000000-0000-0000-0000-000000000002",
              "waitpoint_key": "a"
            }
          ]
        }
    "#]],
    );
    // Sent again, it is answered again, token included.
    assert_eq!(site.post(&path(x, "/suspend"), ask).await.body, suspended.body);
    let shown = site.get(&path(x, "")).await.body;
    assert_eq!(
        [&shown["public_state"], &shown["blocking_reason"], &shown["current_lease"]],
        [&json!("suspended"), &json!("waiting_for_signal"), &Value::Null]
    );
    let steps = site.get(&path(x, "/steps")).await.body;
    assert_eq!(steps["steps"][0]["result"], "sent");
    tells(
        &site.get(&path(x, "/suspension")).await,
        &expect![[r#"
        200
        {
          "suspension": {
            "attempt_index": 0,
            "close_reason": null,
            "closed_at": null,
            "continuation_metadata_pointer": "page 7",
            "execution_id": "{fp:33}:00000000-0000-0000-0000-000000000001",
            "open": true,
            "reason": "waiting_for_signal",
            "requested_by": "worker",
            "resume_condition": {
              "single": {
                "waitpoint": "a"
              }
            },
            "resume_delay_ms": 0,
            "satisfied_by": [],
            "suspended_at": 1700000000005,
            "suspension_id": "00000000-0000-0000-0000-000000000001",
            "timeout_at": 1700000060005,
            "timeout_behavior": "fail"
          }
        }
    "#]],
    );
    tells(
        &site.get("/v1/waitpoints").await,
        &expect![[r#"
        200
        {
          "next": null,
          "waitpoints": [
            {
              "activated_at": 1700000000005,
              "approval": null,
              "created_at": 1700000000005,
              "execution_id": "{fp:33}:00000000-0000-0000-0000-000000000001",
              "expires_at": 1700000060005,
              "last_signal_at": null,
              "matched_signal_count": 0,
              "reason": "waiting_for_signal",
              "required_signal_names": [],
              "signal_count": 0,
              "state": "active",
              "token_fingerprint": "ec6f56b405d4b5bb",
              "token_kid": "k1",
              "waitpoint_id": "00000000-0000-0000-0000-000000000002",
              "waitpoint_key": "a"
            }
          ]
        }
    "#]],
    );
}

#[tokio::test]
async fn whoever_goes_on_reads_the_signals_that_let_it() {
    let site = Site::open().await;
    let Waiting { id: x, waitpoint, token } = waiting(&site, 1, &any()).await;
    let signal = json!({"waitpoint_id": waitpoint, "signal_id": Uuid::from_u128(3),
                        "waitpoint_token": token,
                        "signal_name": "paid", "signal_category": "webhook",
                        "source_type": "service", "source_identity": "payments",
                        "payload": {"sum": 7.50}, "correlation_id": "order 7"});
    site.clock.advance(5);
    let sent = site.post(&path(x, "/signals"), signal).await;
    tells(
        &sent,
        &expect![[r#"
        200
        {
          "effect": "resume_condition_satisfied",
          "signal_id": "00000000-0000-0000-0000-000000000003",
          "status": "accepted"
        }
    "#]],
    );
    let claimed = site.claim().await;
    assert_eq!(
        [&claimed["execution_id"], &claimed["kind"], &claimed["fence"]["attempt_index"]],
        [&json!(x), &json!("resumed"), &json!(0)]
    );
    let observed = site.get(&path(x, "/observed-signals?attempt_index=0")).await;
    tells(
        &observed,
        &expect![[r#"
            200
            {
              "signals": [
                {
                  "accepted_at": 1700000000005,
                  "correlation_id": "order 7",
                  "created_at": 1700000000005,
                  "dedup_until": null,
                  "effect": "resume_condition_satisfied",
                  "encoding": "json",
                  "idempotency_key": null,
                  "number": 0,
                  "payload": {
                    "sum": 7.5
                  },
                  "signal_category": "webhook",
                  "signal_id": "00000000-0000-0000-0000-000000000003",
                  "signal_name": "paid",
                  "source_identity": "payments",
                  "source_type": "service",
                  "subject": null,
                  "waitpoint_id": "00000000-0000-0000-0000-000000001001"
                }
              ]
            }
        "#]],
    );
    let other = site.get(&path(x, "/observed-signals?attempt_index=1")).await;
    assert_eq!(other.body, json!({"signals": []}));
    let closed = site.get(&path(x, "/suspension")).await.body["suspension"].clone();
    assert_eq!(
        [&closed["open"], &closed["close_reason"], &closed["satisfied_by"]],
        [&json!(false), &json!("resumed"), &json!([Uuid::from_u128(3)])]
    );
}

#[tokio::test]
async fn the_feed_and_the_history_tell_of_a_suspension() {
    let site = Site::open().await;
    let x = waiting(&site, 1, &any()).await;
    let signal = json!({"waitpoint_id": x.waitpoint, "waitpoint_token": x.token,
                        "signal_id": Uuid::from_u128(3), "signal_name": "paid",
                        "signal_category": "webhook", "source_type": "service",
                        "source_identity": "payments"});
    site.post(&path(x.id, "/signals"), signal).await;
    let told = site.get("/v1/events?event=suspended,signal").await.body;
    let told = told["events"].as_array().unwrap();
    assert_eq!([&told[0]["event"], &told[1]["event"]], [&json!("suspended"), &json!("signal")]);
    assert_eq!(told[0]["reason"], "waiting_for_signal");
    assert_eq!(
        [&told[1]["signal_name"], &told[1]["source_identity"], &told[1]["effect"]],
        [&json!("paid"), &json!("payments"), &json!("resume_condition_satisfied")]
    );
    let history = site.get(&path(x.id, "/history")).await.body;
    assert_eq!(history["events"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn an_operator_lets_it_go_on_whatever_it_waits_for() {
    let site = Site::open().await;
    let x = waiting(&site, 1, &json!("operator_only")).await;
    let resumed = site.post(&path(x.id, "/resume"), json!({"reason": "looked at it"})).await;
    tells(
        &resumed,
        &expect![[r#"
        200
        {
          "public_state": "waiting",
          "status": "resumed"
        }
    "#]],
    );
    assert_eq!(site.claim().await["execution_id"], json!(x.id));
    let observed = site.get(&path(x.id, "/observed-signals?attempt_index=0")).await;
    assert_eq!(observed.body, json!({"signals": []}));
    let told = site.get("/v1/events?event=resumed").await.body;
    assert_eq!(told["events"][0]["reason"], "looked at it");

    let y = waiting(&site, 2, &any()).await;
    let later = site.post(&path(y.id, "/resume"), json!({"resume_delay_ms": 100})).await;
    assert_eq!(later.body, json!({"status": "resumed", "public_state": "delayed"}));
    assert_eq!(site.claim().await, Value::Null);
    site.clock.advance(100);
    assert_eq!(site.claim().await["execution_id"], json!(y.id));
}

#[tokio::test]
async fn what_came_before_may_be_enough() {
    let site = Site::open().await;
    let (x, fence) = site.held(1).await;
    let new = json!({"fence": fence, "waitpoint_key": "a", "expires_in_ms": 1_000,
                     "waitpoint_id": Uuid::from_u128(2)});
    let made = site.post(&path(x, "/waitpoints"), new).await.body;
    let signal = json!({"waitpoint_id": made["waitpoint_id"], "waitpoint_token": made["token"],
                        "signal_name": "paid", "signal_category": "webhook",
                        "source_type": "service", "source_identity": "payments"});
    let early = site.post(&path(x, "/signals"), signal).await.body;
    assert_eq!(early["effect"], "buffered_for_pending_waitpoint");
    let mut ask = request(&fence, &any());
    ask["waitpoints"] = json!([{"pending": {"waitpoint_id": made["waitpoint_id"]}}]);
    let answer = site.post(&path(x, "/suspend"), ask).await.body;
    assert_eq!(answer["status"], "already_satisfied");
    assert_eq!(answer["waitpoints"][0]["token"], made["token"]);
    // The lease still holds.
    let done = site.post(&path(x, "/complete"), json!({"fence": fence})).await;
    assert_eq!(done.status, 200, "{done:?}");
}

#[tokio::test]
async fn a_server_mints_what_a_worker_does_not_name() {
    let site = Site::open().await;
    let (x, fence) = site.held(1).await;
    let ask = json!({"fence": fence, "resume_condition": any(), "idempotency_key": "k",
                     "waitpoints": [{"fresh": {"waitpoint_key": "a"}}],
                     "reason_code": "waiting_for_callback"});
    let first = site.post(&path(x, "/suspend"), ask.clone()).await.body;
    assert_eq!(first["status"], "suspended");
    assert!(first["suspension_id"].is_string() && first["waitpoints"][0]["token"].is_string());
    // Under its key, a request without ids is answered as the first time.
    assert_eq!(site.post(&path(x, "/suspend"), ask).await.body, first);

    // Without a key, the id of the suspension does the same.
    let (y, fence) = site.held(2).await;
    let ask = json!({"fence": fence, "resume_condition": any(), "reason_code": "step_boundary",
                     "suspension_id": Uuid::from_u128(9),
                     "waitpoints": [{"fresh": {"waitpoint_key": "a"}}]});
    let first = site.post(&path(y, "/suspend"), ask.clone()).await.body;
    assert!(first["waitpoints"][0]["token"].is_string());
    assert_eq!(site.post(&path(y, "/suspend"), ask).await.body, first);
}

#[tokio::test]
async fn what_is_suspended_is_found_page_by_page() {
    let site = Site::open().await;
    for number in 1..=5 {
        site.clock.advance(1);
        let (x, fence) = {
            let more = json!({"namespace": if number == 5 { "shop" } else { "default" }});
            let id = site.create_with(number, more).await;
            (id, site.claim().await["fence"].clone())
        };
        let mut ask = request(&fence, &any());
        if number % 2 == 0 {
            ask["reason_code"] = json!("manual_pause");
        }
        assert_eq!(site.post(&path(x, "/suspend"), ask).await.body["status"], "suspended");
    }
    for (query, numbers) in [
        ("", vec![1, 2, 3, 4, 5]),
        ("reason=manual_pause&", vec![2, 4]),
        ("namespace=shop&", vec![5]),
        ("partition=0&", vec![]),
    ] {
        let found = all(&site, &format!("/v1/suspended?{query}"), "suspended").await;
        let ids: Vec<_> = found.iter().map(|one| one["execution_id"].clone()).collect();
        let wanted: Vec<_> = numbers.into_iter().map(|n| json!(id(n))).collect();
        assert_eq!(ids, wanted, "{query}");
    }
}

/// Everything a listing has under `field`, page by page, none larger than two.
pub async fn all(site: &Site, path: &str, field: &str) -> Vec<Value> {
    let mut found = Vec::new();
    let mut next = String::new();
    loop {
        let page = site.get(&format!("{path}limit=2{next}")).await;
        assert_eq!(page.status, 200, "{page:?}");
        let rows = page.body[field].as_array().unwrap();
        assert!(rows.len() <= 2);
        found.extend(rows.iter().cloned());
        match &page.body["next"] {
            Value::Null => return found,
            Value::String(place) => next = format!("&after={place}"),
            place => next = format!("&after={place}"),
        }
    }
}

#[tokio::test]
async fn a_flow_counts_its_suspended_members() {
    let site = Site::open().await;
    let flow = flow_id(1);
    submit(&site, 1, &[node("a")], &[]).await;
    let x = member(flow, "a");
    let fence = site.claim().await["fence"].clone();
    site.post(&path(x, "/suspend"), request(&fence, &any())).await;
    let summary = site.get(&flow_path(flow, "/summary")).await.body;
    assert_eq!([&summary["members_suspended"], &summary["total_members"]], [&json!(1), &json!(1)]);
    let eligibility = site.get(&path(x, "/eligibility")).await.body;
    assert_eq!(eligibility, json!({"status": "not_runnable"}));
    let counts = site.get("/v1/counts").await.body;
    assert_eq!(counts["counts"][0]["state"], "suspended");
    let found = site.get("/v1/executions?state=suspended").await.body;
    assert_eq!(found["executions"][0]["execution_id"], json!(x));
    let result = site.get(&path(x, "/result")).await;
    assert_eq!((result.status, result.code()), (409, "execution_not_terminal"));
}

#[tokio::test]
async fn an_execution_that_never_waited_has_no_suspension() {
    let site = Site::open().await;
    let x = site.create(1).await;
    assert_eq!(site.get(&path(x, "/suspension")).await.body, json!({"suspension": null}));
    assert_eq!(site.get(&path(x, "/signals")).await.body, json!({"signals": [], "next": null}));
    let none = site.get(&path(x, "/waitpoints")).await.body;
    assert_eq!(none, json!({"waitpoints": [], "next": null}));
}
