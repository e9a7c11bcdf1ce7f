//! The life of an execution over HTTP, alone and in batches.

use reqwest::Method;
use serde_json::{Value, json};

use crate::site::{Site, id, path};

#[tokio::test]
async fn an_execution_is_created_claimed_completed_and_read() {
    let site = Site::open().await;
    let input = json!({"to": "ada", "n": [1, 2.50]});
    let body = json!({"lane_id": "default", "execution_kind": "greet", "input": input,
                      "tags": {"shop.customer": "ada"}, "priority": 7});
    let created = site.post("/v1/executions", body).await;
    assert_eq!((created.status, &created.body["status"]), (201, &json!("created")));
    assert_eq!(created.body["public_state"], "waiting");
    let location = created.headers["location"].to_str().unwrap();

    let claimed = site.claim().await;
    assert_eq!(claimed["execution_id"], created.body["execution_id"]);
    assert_eq!((&claimed["kind"], &claimed["priority"]), (&json!("first"), &json!(7)));
    assert_eq!((&claimed["input"], &claimed["encoding"]), (&input, &json!("json")));

    let fence = &claimed["fence"];
    let progress = json!({"fence": fence, "percent": 50, "message": "half way"});
    let recorded = site.post(&format!("{location}/progress"), progress).await;
    assert_eq!(recorded.body, json!({"status": "recorded"}));
    let running = site.get(location).await.body;
    assert_eq!(running["public_state"], "active");
    assert_eq!(running["progress"]["message"], "half way");
    assert_eq!(&running["current_lease"]["fence"], fence);

    let done = json!({"fence": fence, "result": "hello, ada"});
    let completed = site.post(&format!("{location}/complete"), done.clone()).await;
    assert_eq!(completed.body, json!({"status": "completed"}));
    // Sent again, it is answered again.
    let again = site.post(&format!("{location}/complete"), done).await;
    assert_eq!(again.body, json!({"status": "completed"}));

    let result = site.get(&format!("{location}/result")).await;
    let left = json!({"status": "completed", "result": "hello, ada", "encoding": "json"});
    assert_eq!(result.body, left);
    let given = site.get(&format!("{location}/input")).await;
    assert_eq!(given.body, json!({"input": input, "encoding": "json"}));

    let history = site.get(&format!("{location}/history")).await.body;
    assert_eq!(history["snapshot"]["public_state"], "completed");
    assert_eq!(history["attempts"][0]["outcome"], "ended_success");
    assert_eq!(history["events"][0]["event"], "completion");
    assert_eq!(history["more"], false);
}

#[tokio::test]
async fn bytes_that_are_not_json_keep_their_encoding() {
    let site = Site::open().await;
    let input = json!({"input_base64": "AP8=", "encoding": "raw"});
    let x = site.create_with(1, input.clone()).await;
    let claimed = site.claim().await;
    assert_eq!(claimed["input_base64"], "AP8=");
    assert_eq!(site.get(&path(x, "/input")).await.body, input);
    let done = json!({"fence": claimed["fence"], "result_base64": ""});
    site.post(&path(x, "/complete"), done).await;
    let result = site.get(&path(x, "/result")).await.body;
    assert_eq!(result, json!({"status": "completed", "result_base64": ""}));
}

#[tokio::test]
async fn nothing_given_is_nothing_answered() {
    let site = Site::open().await;
    let (x, fence) = site.held(1).await;
    assert_eq!(site.get(&path(x, "/input")).await.body, json!({}));
    site.post(&path(x, "/complete"), json!({"fence": fence})).await;
    assert_eq!(site.get(&path(x, "/result")).await.body, json!({"status": "completed"}));
}

#[tokio::test]
async fn an_idempotency_key_makes_twice_once_in_the_header_as_in_the_body() {
    let site = Site::open().await;
    let body = json!({"lane_id": "default", "execution_kind": "job", "input": {"a": 1}});
    let keyed = |key: &'static str| {
        site.request(Method::POST, "/v1/executions").header("idempotency-key", key)
    };
    let first = site.ask(keyed("k").json(&body)).await;
    assert_eq!(first.status, 201);
    // The same value with other whitespace is the same creation.
    let spaced = "{\"lane_id\":\"default\",\"execution_kind\":\"job\",\"input\":\n {\"a\" : 1 } }";
    let json_type = "application/json; charset=utf-8";
    let second = site.ask(keyed("k").header("content-type", json_type).body(spaced)).await;
    assert_eq!((second.status, &second.body["status"]), (200, &json!("duplicate")));
    assert_eq!(second.body["execution_id"], first.body["execution_id"]);
    let mut in_body = body.clone();
    in_body["idempotency_key"] = "k".into();
    assert_eq!(site.ask(keyed("k").json(&in_body)).await.status, 200);
    let torn = site.ask(keyed("other").json(&in_body)).await;
    assert_eq!((torn.status, torn.code()), (400, "invalid_input"));
    let clash = json!({"lane_id": "default", "execution_kind": "job", "input": {"a": 2}});
    let clash = site.ask(keyed("k").json(&clash)).await;
    assert_eq!((clash.status, clash.code()), (409, "idempotency_key_conflict"));
    assert_eq!(clash.body["field"], "input");
}

#[tokio::test]
async fn each_creation_of_a_batch_has_its_own_answer() {
    let site = Site::open().await;
    let old = site.create(1).await;
    let new = |number: u128, kind: &str| {
        let id = id(number);
        json!({"execution_id": id, "lane_id": "default", "execution_kind": kind})
    };
    let batch = json!({"executions": [new(2, "job"), new(3, ""), new(1, "job"), new(1, "other")]});
    let answer = site.post("/v1/executions/batch", batch).await;
    assert_eq!(answer.status, 200);
    let results = answer.body["results"].as_array().unwrap();
    let statuses: Vec<_> = results.iter().map(|one| one["status"].as_str().unwrap()).collect();
    assert_eq!(statuses, ["created", "rejected", "duplicate", "rejected"]);
    assert_eq!(results[1]["problem"]["field"], "execution_kind");
    assert_eq!(results[2]["execution_id"], json!(old));
    assert_eq!(results[3]["problem"]["code"], "execution_id_conflict");
    assert_eq!(results[3]["problem"]["operation"], "create_execution");
}

#[tokio::test]
async fn executions_are_found_page_by_page() {
    let site = Site::open().await;
    for number in 1..=5 {
        site.clock.advance(1);
        let colour = if number % 2 == 0 { "red" } else { "blue" };
        site.create_with(number, json!({"tags": {"shop.colour": colour}})).await;
    }
    let first = site.get("/v1/executions?limit=2&tag=shop.colour:blue&state=waiting").await.body;
    assert_eq!(ids(&first), [id(5).to_string(), id(3).to_string()]);
    let next = first["next"].as_str().unwrap();
    let query = format!("/v1/executions?limit=2&tag=shop.colour:blue&after={next}");
    let second = site.get(&query).await.body;
    assert_eq!((ids(&second), &second["next"]), (vec![id(1).to_string()], &Value::Null));
    let none = site.get("/v1/executions?lane_id=nowhere").await.body;
    assert_eq!(none, json!({"executions": [], "next": null}));
}

fn ids(page: &Value) -> Vec<String> {
    let executions = page["executions"].as_array().unwrap();
    executions.iter().map(|x| x["execution_id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn whoever_waits_for_an_end_is_told_when_it_comes() {
    let site = Site::open().await;
    let (x, fence) = site.held(1).await;
    let (described, result) = (path(x, "?wait_ms=60000"), path(x, "/result?wait_ms=60000"));
    let waiting = async { tokio::join!(site.get(&described), site.get(&result)) };
    let completing = async {
        site.in_flight(2).await;
        site.post(&path(x, "/complete"), json!({"fence": fence, "result": 7})).await
    };
    let ((described, result), _) = tokio::join!(waiting, completing);
    assert_eq!(described.body["public_state"], "completed");
    assert_eq!(result.body["result"], 7);
}

#[tokio::test]
async fn a_failure_is_retried_and_the_next_worker_is_told_of_it() {
    let site = Site::open().await;
    let policy = json!({"retry_policy": {"max_retries": 1,
                        "backoff": {"type": "fixed", "delay_ms": 100}}});
    let x = site.create_with(1, json!({"policy": policy})).await;
    let claimed = site.claim().await;
    let fail = json!({"fence": claimed["fence"], "reason": "no route", "category": "network"});
    let failed = site.post(&path(x, "/fail"), fail).await.body;
    assert_eq!(
        (&failed["status"], &failed["next_attempt_index"]),
        (&json!("retry_scheduled"), &json!(1))
    );
    assert_eq!(site.claim().await, Value::Null);
    site.clock.advance(100);
    let execution = site.claim().await;
    assert_eq!(execution["kind"], "retried");
    assert_eq!(execution["failure"], json!({"reason": "no route", "category": "network"}));
    let fail = json!({"fence": execution["fence"], "reason": "no route", "class": "permanent"});
    let failed = site.post(&path(x, "/fail"), fail).await.body;
    assert_eq!(failed, json!({"status": "failed"}));
    let refused = site.get(&path(x, "/result")).await;
    assert_eq!((refused.status, refused.code()), (409, "execution_not_successful"));
    assert_eq!(refused.body["standing"]["outcome"], "failed");
}
