//! What problems look like: one of each class, and everything that can go wrong before a handler.

use std::fmt::Write as _;

use expect_test::{Expect, expect};
use ff_core::{Code, Rejection, StoreError};
use reqwest::{Method, RequestBuilder};
use serde_json::json;

use crate::gate::Fault;
use crate::site::{Site, id, path};

/// A problem, as text.
pub async fn shows(site: &Site, request: RequestBuilder, expected: Expect) {
    let answer = site.ask(request).await;
    let mut text = format!("{} {}\n", answer.status, answer.code());
    for name in ["allow", "retry-after"] {
        if let Some(value) = answer.headers.get(name) {
            writeln!(text, "{name}: {}", value.to_str().unwrap()).unwrap();
        }
    }
    for line in serde_json::to_string_pretty(&answer.body).unwrap().lines() {
        text.push_str(&wrapped(line));
    }
    expected.assert_eq(&text);
}

/// A line, broken at spaces where it is too long to be shown.
pub fn wrapped(line: &str) -> String {
    let mut text = String::new();
    let mut width = 0;
    for word in line.split_inclusive(' ') {
        if width + word.len() > 90 {
            text.push_str("\n      ");
            width = 6;
        }
        text.push_str(word);
        width += word.len();
    }
    text.lines().flat_map(|line| [line.trim_end(), "\n"]).collect()
}

#[tokio::test]
async fn what_is_not_there_is_not_found() {
    let site = Site::open().await;
    shows(
        &site,
        site.request(Method::GET, &path(id(1), "")),
        expect![[r#"
        404 execution_not_found
        {
          "code": "execution_not_found",
          "detail": "there is no execution {fp:33}:00000000-0000-0000-0000-000000000001",
          "hint": "Check the id; list executions to find it.",
          "retryable": false,
          "status": 404,
          "title": "No execution has this id, or it was removed by retention.",
          "type": "/docs/errors#execution_not_found",
          "value": "{fp:33}:00000000-0000-0000-0000-000000000001"
        }
    "#]],
    )
    .await;
}

#[tokio::test]
async fn a_malformed_field_is_named() {
    let site = Site::open().await;
    let body = json!({"lane_id": "default", "execution_kind": "job", "tags": {"colour": "red"}});
    let request = site.request(Method::POST, "/v1/executions");
    shows(
        &site,
        request.json(&body),
        expect![[r#"
        400 invalid_tag_key
        {
          "code": "invalid_tag_key",
          "detail": "tags \"colour\" must look like owner.name: lower-case letters, digits and
              underscores, at most 128 bytes",
          "field": "tags",
          "hint": "Use lower-case letters, digits and underscores around a dot.",
          "operation": "create_execution",
          "retryable": false,
          "status": 400,
          "title": "A tag key is not of the form owner.name.",
          "type": "/docs/errors#invalid_tag_key",
          "value": "colour"
        }
    "#]],
    )
    .await;
    shows(
        &site,
        site.request(Method::GET, "/v1/executions/7"),
        expect![[r#"
        400 invalid_input
        {
          "code": "invalid_input",
          "detail": "execution_id \"7\" must begin with its partition, like {fp:7}:<uuid>",
          "field": "execution_id",
          "hint": "Correct the field that the answer names.",
          "retryable": false,
          "status": 400,
          "title": "A field is malformed or outside its range.",
          "type": "/docs/errors#invalid_input",
          "value": "7"
        }
    "#]],
    )
    .await;
}

#[tokio::test]
async fn an_unknown_field_is_refused_with_the_path_to_it() {
    let site = Site::open().await;
    let new = json!({"lane_id": "a", "execution_kind": "b"});
    let odd = json!({"lane_id": "a", "execution_kind": "b", "colour": "red"});
    let request = site.request(Method::POST, "/v1/executions/batch");
    shows(
        &site,
        request.json(&json!({"executions": [new, odd]})),
        expect![[r#"
        400 invalid_input
        {
          "code": "invalid_input",
          "detail": "the body cannot be read: unknown field `colour`, expected one of
              `execution_id`, `namespace`, `lane_id`, `execution_kind`, `input`, `input_base64`,
              `encoding`, `priority`, `creator_identity`, `idempotency_key`, `tags`, `policy`,
              `delay_until`, `delay_ms`, `deadline_at` at line 1 column 61",
          "field": "executions[1].colour",
          "hint": "Correct the field that the answer names.",
          "retryable": false,
          "status": 400,
          "title": "A field is malformed or outside its range.",
          "type": "/docs/errors#invalid_input"
        }
    "#]],
    )
    .await;
    let request = site.request(Method::GET, "/v1/executions?colour=red");
    shows(
        &site,
        request,
        expect![[r#"
        400 invalid_input
        {
          "code": "invalid_input",
          "detail": "the query cannot be read: unknown field `colour`, expected one of `lane_id`,
              `namespace`, `execution_kind`, `state`, `tag`, `created_from`, `created_to`,
              `limit`, `after`",
          "field": "colour",
          "hint": "Correct the field that the answer names.",
          "retryable": false,
          "status": 400,
          "title": "A field is malformed or outside its range.",
          "type": "/docs/errors#invalid_input"
        }
    "#]],
    )
    .await;
}

#[tokio::test]
async fn a_clash_says_with_what() {
    let site = Site::open().await;
    site.create(1).await;
    let body = json!({"execution_id": id(1), "lane_id": "default", "execution_kind": "other"});
    let request = site.request(Method::POST, "/v1/executions");
    shows(
        &site,
        request.json(&body),
        expect![[r#"
        409 execution_id_conflict
        {
          "code": "execution_id_conflict",
          "detail": "execution_id \"{fp:33}:00000000-0000-0000-0000-000000000001\" belongs to
              execution {fp:33}:00000000-0000-0000-0000-000000000001, created with another
              execution_kind",
          "field": "execution_kind",
          "hint": "Use a new id, or send the original content.",
          "operation": "create_execution",
          "retryable": false,
          "status": 409,
          "title": "An execution with this id exists and was created with other content.",
          "type": "/docs/errors#execution_id_conflict",
          "value": "{fp:33}:00000000-0000-0000-0000-000000000001"
        }
    "#]],
    )
    .await;
}

#[tokio::test]
async fn a_stale_worker_is_told_where_the_execution_stands() {
    let site = Site::open().await;
    let (x, fence) = site.held(1).await;
    site.post(&path(x, "/cancel"), json!({})).await;
    let request = site.request(Method::POST, &path(x, "/complete"));
    shows(
        &site,
        request.json(&json!({"fence": fence})),
        expect![[r#"
        409 execution_not_active
        {
          "code": "execution_not_active",
          "detail": "{fp:33}:00000000-0000-0000-0000-000000000001 has ended: cancelled",
          "hint": "Stop working on it.",
          "operation": "complete_execution",
          "retryable": false,
          "standing": {
            "attempts": 1,
            "lease_epoch": 3400000000002,
            "outcome": "cancelled",
            "phase": "terminal"
          },
          "status": 409,
          "title": "No worker holds the execution; the answer carries its phase and outcome.",
          "type": "/docs/errors#execution_not_active"
        }
    "#]],
    )
    .await;
}

#[tokio::test]
async fn a_result_that_is_not_there_yet_is_a_conflict() {
    let site = Site::open().await;
    let x = site.create(1).await;
    shows(
        &site,
        site.request(Method::GET, &path(x, "/result")),
        expect![[r#"
        409 execution_not_terminal
        {
          "code": "execution_not_terminal",
          "detail": "{fp:33}:00000000-0000-0000-0000-000000000001 is runnable, not terminal",
          "hint": "Wait for it, or cancel it first.",
          "operation": "get_execution_result",
          "retryable": false,
          "standing": {
            "attempts": 0,
            "lease_epoch": 3400000000000,
            "outcome": null,
            "phase": "runnable"
          },
          "status": 409,
          "title": "The execution has not ended: only one that has can be replayed or has a
              result.",
          "type": "/docs/errors#execution_not_terminal"
        }
    "#]],
    )
    .await;
}

#[tokio::test]
async fn a_busy_store_asks_to_come_back() {
    let site = Site::open().await;
    let busy = Rejection::new(Code::Overloaded, "too many calls or bytes are waiting");
    site.gate.fail(Fault::Store(StoreError::Rejected(busy)));
    shows(
        &site,
        site.request(Method::GET, "/v1/counts"),
        expect![[r#"
        503 overloaded
        retry-after: 1
        {
          "code": "overloaded",
          "detail": "too many calls or bytes are waiting",
          "hint": "Wait a moment and send the same call again.",
          "retryable": true,
          "status": 503,
          "title": "Too many calls or bytes are queued in this process.",
          "type": "/docs/errors#overloaded"
        }
    "#]],
    )
    .await;
}

#[tokio::test]
async fn a_store_that_cannot_be_reached_asks_to_come_back() {
    let site = Site::open().await;
    let lost = || StoreError::Transport { cause: "connection refused".to_owned() };
    site.gate.fail(Fault::Store(lost()));
    let body = json!({"lane_id": "default", "execution_kind": "job"});
    let request = site.request(Method::POST, "/v1/executions");
    shows(
        &site,
        request.json(&body),
        expect![[r#"
        503 transport
        retry-after: 1
        {
          "code": "transport",
          "detail": "connection refused",
          "hint": "Send the same call again: every call may be repeated.",
          "operation": "create_execution",
          "retryable": true,
          "status": 503,
          "title": "The store could not be reached or failed; whether the call took effect is
              unknown.",
          "type": "/docs/errors#transport"
        }
    "#]],
    )
    .await;
    site.gate.fail(Fault::Store(lost()));
    let unready = site.get("/readyz").await;
    assert_eq!((unready.status, unready.code()), (503, "transport"));
}

#[tokio::test]
async fn a_broken_store_is_an_error_of_the_server() {
    let site = Site::open().await;
    site.gate.fail(Fault::Store(StoreError::Corruption {
        column: "ff_exec_core.phase".to_owned(),
        value: "purple".to_owned(),
        why: "not a known literal".to_owned(),
    }));
    shows(
        &site,
        site.request(Method::GET, &path(id(1), "")),
        expect![[r#"
        500 corruption
        {
          "code": "corruption",
          "detail": "column ff_exec_core.phase holds \"purple\": not a known literal",
          "hint": "Restore the row from a backup, or correct it by hand.",
          "retryable": false,
          "status": 500,
          "title": "A stored value cannot be read; the answer names column and value.",
          "type": "/docs/errors#corruption",
          "value": "purple"
        }
    "#]],
    )
    .await;
}

#[tokio::test]
async fn a_panic_is_answered_without_its_words() {
    let site = Site::open().await;
    site.gate.fail(Fault::Panic);
    shows(
        &site,
        site.request(Method::GET, "/v1/counts"),
        expect![[r#"
        500 internal_error
        {
          "code": "internal_error",
          "detail": "the request could not be served",
          "hint": "Report it, with the request id of the answer.",
          "retryable": false,
          "status": 500,
          "title": "The server failed in a way that nobody foresaw; its log says more.",
          "type": "/docs/errors#internal_error"
        }
    "#]],
    )
    .await;
    assert_eq!(site.get("/v1/counts").await.status, 200);
}

#[tokio::test]
async fn what_is_no_request_of_ours_is_refused_with_a_code() {
    let site = Site::open().await;
    shows(
        &site,
        site.request(Method::GET, "/v1/nothing"),
        expect![[r#"
        404 route_not_found
        {
          "code": "route_not_found",
          "detail": "there is nothing at /v1/nothing",
          "hint": "See /docs for the paths there are.",
          "retryable": false,
          "status": 404,
          "title": "There is nothing at this path.",
          "type": "/docs/errors#route_not_found"
        }
    "#]],
    )
    .await;
    shows(
        &site,
        site.request(Method::DELETE, &path(id(1), "")),
        expect![[r#"
        405 method_not_allowed
        allow: GET,HEAD
        {
          "code": "method_not_allowed",
          "detail": "/v1/executions/%7Bfp:33%7D:00000000-0000-0000-0000-000000000001 does not
              take DELETE",
          "hint": "Use a method that the Allow header names.",
          "retryable": false,
          "status": 405,
          "title": "The path does not take this method.",
          "type": "/docs/errors#method_not_allowed"
        }
    "#]],
    )
    .await;
}

#[tokio::test]
async fn a_body_that_cannot_be_read_is_refused_with_a_code() {
    let site = Site::open().await;
    let request = || site.request(Method::POST, "/v1/executions");
    shows(
        &site,
        request().body("{}"),
        expect![[r#"
        415 unsupported_media_type
        {
          "code": "unsupported_media_type",
          "detail": "the body has no content type; application/json is needed",
          "hint": "Send the header Content-Type: application/json.",
          "retryable": false,
          "status": 415,
          "title": "The body of the request is not declared as JSON.",
          "type": "/docs/errors#unsupported_media_type"
        }
    "#]],
    )
    .await;
    let json_body =
        |body: &'static str| request().header("content-type", "application/json").body(body);
    shows(
        &site,
        json_body("{\"lane_id\":"),
        expect![[r#"
        400 invalid_input
        {
          "code": "invalid_input",
          "detail": "the body is not JSON: EOF while parsing a value at line 1 column 11",
          "hint": "Correct the field that the answer names.",
          "retryable": false,
          "status": 400,
          "title": "A field is malformed or outside its range.",
          "type": "/docs/errors#invalid_input"
        }
    "#]],
    )
    .await;
    shows(
        &site,
        json_body("[]"),
        expect![[r#"
        400 invalid_input
        {
          "code": "invalid_input",
          "detail": "the body cannot be read: it is an array, and an object is needed",
          "hint": "Correct the field that the answer names.",
          "retryable": false,
          "status": 400,
          "title": "A field is malformed or outside its range.",
          "type": "/docs/errors#invalid_input"
        }
    "#]],
    )
    .await;
    shows(
        &site,
        json_body("{} {}"),
        expect![[r#"
        400 invalid_input
        {
          "code": "invalid_input",
          "detail": "the body cannot be read: missing field `lane_id` at line 1 column 2",
          "field": "lane_id",
          "hint": "Correct the field that the answer names.",
          "retryable": false,
          "status": 400,
          "title": "A field is malformed or outside its range.",
          "type": "/docs/errors#invalid_input"
        }
    "#]],
    )
    .await;
    shows(
        &site,
        json_body("{\"lane_id\": 7}"),
        expect![[r#"
        400 invalid_input
        {
          "code": "invalid_input",
          "detail": "the body cannot be read: invalid type: integer `7`, expected a string at
              line 1 column 13",
          "field": "lane_id",
          "hint": "Correct the field that the answer names.",
          "retryable": false,
          "status": 400,
          "title": "A field is malformed or outside its range.",
          "type": "/docs/errors#invalid_input"
        }
    "#]],
    )
    .await;
}

#[tokio::test]
async fn a_path_that_is_not_text_is_refused() {
    let site = Site::open().await;
    let refused = site
        .raw("GET /v1/executions/%ff HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        .await;
    assert!(refused.starts_with("HTTP/1.1 400"), "{refused}");
    assert!(refused.contains("application/problem+json"), "{refused}");
}
