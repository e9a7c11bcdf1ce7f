//! What operators do to executions.

use reqwest::Method;
use serde_json::json;

use crate::site::{Site, path};

#[tokio::test]
async fn a_body_that_says_nothing_may_be_left_out() {
    let site = Site::open().await;
    let x = site.create(1).await;
    for (verb, status) in
        [("hold", "held"), ("unhold", "unheld"), ("cancel", "cancelled"), ("replay", "replayed")]
    {
        let answer = site.ask(site.request(Method::POST, &path(x, &format!("/{verb}")))).await;
        assert_eq!((answer.status, answer.body), (200, json!({"status": status})), "{verb}");
        let answer = site.post(&path(x, &format!("/{verb}")), json!(null)).await;
        let again = match verb {
            "replay" => json!({"status": status, "repeated": true}),
            _ => json!({"status": status}),
        };
        assert_eq!((answer.status, answer.body), (200, again), "{verb}");
    }
}

#[tokio::test]
async fn what_is_held_is_not_claimed_until_it_is_let_go() {
    let site = Site::open().await;
    let x = site.create(1).await;
    site.post(&path(x, "/hold"), json!({"reason": "month end"})).await;
    assert_eq!(site.claim().await, json!(null));
    assert_eq!(site.get(&path(x, "")).await.body["blocking_detail"], "held: month end");
    site.post(&path(x, "/unhold"), json!({})).await;
    assert_eq!(site.claim().await["execution_id"], json!(x));
}

/// Whoever says what was seen may send everything again, also after others went on from there.
#[tokio::test]
async fn a_call_that_says_what_it_saw_is_recognised_when_it_comes_again() {
    let site = Site::open().await;
    let x = site.create(1).await;
    let version = site.get(&path(x, "")).await.body["version"].clone();
    let priority = site.request(Method::PUT, &path(x, "/priority"));
    let priority = priority.json(&json!({"priority": 9, "version": version}));
    assert_eq!(site.ask(priority).await.status, 200);
    let refused = async |verb: &str, body: serde_json::Value| {
        let answer = site.post(&path(x, verb), body).await;
        assert_eq!((answer.status, answer.code()), (409, "version_conflict"), "{verb}");
    };
    refused("/hold", json!({"version": version})).await;
    let tags = json!({"set": {"shop.a": "1"}, "version": version});
    let tags = site.request(Method::PATCH, &path(x, "/tags")).json(&tags);
    assert_eq!(site.ask(tags).await.code(), "version_conflict");
    site.post(&path(x, "/hold"), json!({})).await;
    refused("/unhold", json!({"version": version})).await;

    let once = json!({"replays": 0});
    for (verb, status) in [("cancel", "cancelled"), ("replay", "replayed")] {
        let answer = site.post(&path(x, &format!("/{verb}")), once.clone()).await;
        assert_eq!((answer.status, answer.body), (200, json!({"status": status})), "{verb}");
    }
    refused("/cancel", once.clone()).await;
    let again = site.post(&path(x, "/replay"), once).await;
    assert_eq!((again.status, again.body), (200, json!({"status": "replayed", "repeated": true})));
    assert_eq!(site.get(&path(x, "")).await.body["counts"]["replays"], json!(1));
}

#[tokio::test]
async fn the_more_urgent_is_claimed_first() {
    let site = Site::open().await;
    let (x, y) = (site.create(1).await, site.create(2).await);
    let priority = site.request(Method::PUT, &path(y, "/priority")).json(&json!({"priority": 9}));
    assert_eq!(site.ask(priority).await.body, json!({"status": "changed", "priority": 9}));
    assert_eq!(site.claim().await["execution_id"], json!(y));
    assert_eq!(site.claim().await["execution_id"], json!(x));
}

#[tokio::test]
async fn tags_are_set_and_removed_and_answered() {
    let site = Site::open().await;
    let x = site.create_with(1, json!({"tags": {"shop.a": "1", "shop.b": "2"}})).await;
    let edit = json!({"set": {"shop.c": "3"}, "remove": ["shop.a", "shop.z"]});
    let tags = site.ask(site.request(Method::PATCH, &path(x, "/tags")).json(&edit)).await;
    assert_eq!(tags.body, json!({"tags": {"shop.b": "2", "shop.c": "3"}}));
}

#[tokio::test]
async fn a_lease_that_is_taken_away_goes_to_another_worker() {
    let site = Site::open().await;
    let (x, fence) = site.held(1).await;
    let revoked = site.post(&path(x, "/revoke-lease"), json!({"reason": "stuck"})).await.body;
    assert_eq!((&revoked["status"], &revoked["then"]), (&json!("revoked"), &json!("requeued")));
    let again = site.post(&path(x, "/revoke-lease"), json!({})).await.body;
    assert_eq!(again, json!({"status": "already_satisfied", "how": "revoked"}));
    let late = site.post(&path(x, "/complete"), json!({"fence": fence})).await;
    assert_eq!((late.status, late.code()), (409, "lease_revoked"));
    let taken = site.claim().await;
    assert_eq!(
        (&taken["kind"], &taken["fence"]["attempt_index"]),
        (&json!("reclaimed"), &json!(1))
    );
}

#[tokio::test]
async fn a_worker_cancels_what_it_holds() {
    let site = Site::open().await;
    let (x, fence) = site.held(1).await;
    let cancel = json!({"reason": "out of stock", "fence": fence});
    site.post(&path(x, "/cancel"), cancel).await;
    let cancelled = site.get(&path(x, "")).await.body;
    assert_eq!(
        (&cancelled["cancelled_by"], &cancelled["ended_because"]),
        (&json!("worker"), &json!("out of stock"))
    );
}
