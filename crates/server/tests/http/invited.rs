//! Who is served without the token of the server: whoever was invited, and only with that signal.

use reqwest::Method;
use serde_json::{Value, json};

use crate::auth::guarded;
use crate::signals::signal;
use crate::site::{Answer, Site, ask, id, path};
use crate::suspensions::{Waiting, any, request};

/// Asks with the token of the server.
async fn known(site: &Site, method: Method, path: &str, body: Option<Value>) -> Answer {
    let request = site.request(method, path).header("authorization", "Bearer s3cret");
    site.ask(body.iter().fold(request, |request, body| request.json(body))).await
}

/// An execution that waits, behind a server with a token.
async fn waiting(site: &Site) -> Waiting {
    let new = json!({"execution_id": id(1), "lane_id": "default", "execution_kind": "job"});
    known(site, Method::POST, "/v1/executions", Some(new)).await;
    let claimed = known(site, Method::POST, "/v1/claims", Some(ask())).await.body;
    let ask = request(&claimed["executions"][0]["fence"], &any());
    let answer = known(site, Method::POST, &path(id(1), "/suspend"), Some(ask)).await.body;
    let opened = &answer["waitpoints"][0];
    let (waitpoint, token) = (opened["waitpoint_id"].clone(), opened["token"].clone());
    Waiting { id: id(1), waitpoint, token }
}

#[tokio::test]
async fn a_signal_with_the_token_of_its_waitpoint_needs_no_other() {
    let site = guarded().await;
    let x = waiting(&site).await;
    let mut wrong = signal(&x);
    wrong["waitpoint_token"] = json!("k1:guess");
    let refused = site.post(&path(x.id, "/signals"), wrong).await;
    assert_eq!((refused.status, refused.code()), (403, "invalid_token"));
    let mut odd = signal(&x);
    odd["colour"] = json!("red");
    let refused = site.post(&path(x.id, "/signals"), odd).await;
    assert_eq!((refused.status, refused.code()), (400, "invalid_input"));
    let sent = site.post(&path(x.id, "/signals"), signal(&x)).await;
    assert_eq!((sent.status, &sent.body["status"]), (200, &json!("accepted")), "{sent:?}");
    assert_eq!(sent.headers["cache-control"], "no-store");
}

#[tokio::test]
async fn whoever_brings_nothing_is_asked_for_the_token_of_the_server() {
    let site = guarded().await;
    let x = waiting(&site).await;
    let mut bare = signal(&x);
    bare.as_object_mut().unwrap().remove("waitpoint_token");
    for body in [bare.to_string(), "{".to_owned(), String::new(), "x".repeat(300_000)] {
        let request = site.request(Method::POST, &path(x.id, "/signals")).body(body);
        let refused = site.ask(request.header("content-type", "application/json")).await;
        assert_eq!((refused.status, refused.code()), (401, "unauthorized"));
    }
    for path in [
        path(x.id, "/signals"),
        path(x.id, "/waitpoints"),
        path(x.id, &format!("/waitpoints/{}/token", x.waitpoint.as_str().unwrap())),
        "/v1/waitpoints".to_owned(),
        "/v1/suspended".to_owned(),
        "/v1/signing-keys".to_owned(),
    ] {
        let refused = site.get(&path).await;
        assert_eq!((refused.status, refused.code()), (401, "unauthorized"), "{path}");
    }
    let sent = known(&site, Method::POST, &path(x.id, "/signals"), Some(bare)).await;
    assert_eq!((sent.status, &sent.body["status"]), (200, &json!("accepted")));
}

#[tokio::test]
async fn a_link_needs_nothing_but_itself() {
    let site = guarded().await;
    let x = waiting(&site).await;
    let links = format!("/waitpoints/{}/links", x.waitpoint.as_str().unwrap());
    let body = json!({"signal_name": "paid"});
    let refused = site.post(&path(x.id, &links), body.clone()).await;
    assert_eq!((refused.status, refused.code()), (401, "unauthorized"));
    let made = known(&site, Method::POST, &path(x.id, &links), Some(body)).await.body;
    let link = made["path"].as_str().unwrap();
    assert_eq!(site.get(link).await.body["open"], true);
    let sent = site.ask(site.request(Method::POST, link)).await;
    assert_eq!((sent.status, &sent.body["status"]), (200, &json!("accepted")));
}

#[tokio::test]
async fn without_a_token_the_server_asks_strangers_for_an_invitation() {
    let site = Site::open().await;
    let x = crate::suspensions::waiting(&site, 1, &any()).await;
    let from_afar = |body: &Value| {
        let request = site.request(Method::POST, &path(x.id, "/signals"));
        request.header("host", "hooks.example").json(body)
    };
    let mut bare = signal(&x);
    bare.as_object_mut().unwrap().remove("waitpoint_token");
    let refused = site.ask(from_afar(&bare)).await;
    assert_eq!((refused.status, refused.code()), (403, "origin_not_allowed"));
    assert_eq!(site.ask(from_afar(&signal(&x))).await.status, 200);
}
