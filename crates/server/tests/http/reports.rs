//! Many reports at once, and the journal of steps.

use serde_json::{Value, json};

use crate::site::{Site, id, path};

#[tokio::test]
async fn reports_of_every_kind_travel_together_and_are_answered_in_order() {
    let site = Site::open().await;
    let mut held = Vec::new();
    for number in 1..=6 {
        held.push(site.held(number).await);
    }
    let report = |op: &str, n: usize, more: Value| {
        let (id, fence) = &held[n];
        let mut report = json!({"op": op, "execution_id": id, "fence": fence});
        report.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        report
    };
    let step = json!({"number": 0, "name": "quote", "result": 42});
    let reports = json!([
        report("complete", 0, json!({"result": {"sum": 7}})),
        report("fail", 1, json!({"reason": "no"})),
        report("delay", 2, json!({"delay_ms": 9})),
        report("release", 3, json!({})),
        report("progress", 4, json!({"percent": 10})),
        report("steps", 5, json!({"steps": [step]})),
        report("release", 0, json!({"reason": "tired"})),
        report("complete", 1, json!({})),
    ]);
    let answer = site.post("/v1/reports", json!({"reports": reports})).await;
    let results = answer.body["results"].as_array().unwrap();
    let statuses: Vec<_> = results.iter().map(|one| one["status"].as_str().unwrap()).collect();
    assert_eq!(
        statuses,
        [
            "completed",
            "failed",
            "delayed",
            "released",
            "recorded",
            "recorded",
            "rejected",
            "rejected"
        ]
    );
    assert_eq!(results[2]["delay_until"], 1_700_000_000_009_i64);
    assert_eq!(results[6]["problem"]["field"], "reason");
    let late = &results[7]["problem"];
    assert_eq!(
        (&late["code"], &late["operation"]),
        (&json!("execution_not_active"), &json!("complete_execution"))
    );
    assert_eq!(site.get(&path(held[0].0, "/result")).await.body["result"], json!({"sum": 7}));
}

#[tokio::test]
async fn reports_about_one_execution_take_effect_in_their_order() {
    let site = Site::open().await;
    let (x, fence) = site.held(1).await;
    let about = |op: &str, more: Value| {
        let mut report = json!({"op": op, "execution_id": x, "fence": fence});
        report.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        report
    };
    let reports = json!([
        about("progress", json!({"percent": 99})),
        about("steps", json!({"steps": [{"number": 0, "name": "pay"}]})),
        about("complete", json!({"result": 1})),
        about("progress", json!({"percent": 100})),
    ]);
    let answer = site.post("/v1/reports", json!({"reports": reports})).await.body;
    let statuses = answer["results"].as_array().unwrap().iter().map(|one| &one["status"]);
    assert_eq!(statuses.collect::<Vec<_>>(), ["recorded", "recorded", "completed", "rejected"]);
    assert_eq!(site.get(&path(x, "")).await.body["progress"]["percent"], 99);
}

#[tokio::test]
async fn steps_are_recorded_once_and_read_page_by_page() {
    let site = Site::open().await;
    let (x, fence) = site.held(1).await;
    let steps = json!([
        {"number": 0, "name": "quote", "result": {"sum": 7}, "ran_ms": 12},
        {"number": 1, "name": "nap", "kind": "sleep"},
        {"number": 2, "name": "photo", "result_base64": "AP8=", "encoding": "png"},
    ]);
    for _ in 0..2 {
        let recorded = site.post(&path(x, "/steps"), json!({"fence": fence, "steps": steps})).await;
        assert_eq!(recorded.body, json!({"status": "recorded"}));
    }
    let first = site.get(&path(x, "/steps?limit=2")).await.body;
    let at = 1_700_000_000_000_i64;
    assert_eq!(
        first,
        json!({"next": 1, "steps": [
            {"number": 0, "kind": "run", "name": "quote", "attempt_index": 0, "at": at, "ran_ms": 12,
             "result": {"sum": 7}, "encoding": "json"},
            {"number": 1, "kind": "sleep", "name": "nap", "attempt_index": 0, "at": at, "ran_ms": 0},
        ]})
    );
    let second = site.get(&path(x, "/steps?after=1")).await.body;
    assert_eq!(
        (&second["next"], &second["steps"][0]["result_base64"]),
        (&Value::Null, &json!("AP8="))
    );
    let history = site.get(&path(x, "/history")).await.body;
    assert_eq!(history["steps"].as_array().unwrap().len(), 3);

    let other = json!([{"number": 1, "name": "pay"}]);
    let clash = site.post(&path(x, "/steps"), json!({"fence": fence, "steps": other})).await;
    assert_eq!((clash.status, clash.code()), (409, "step_conflict"));
    assert_eq!(site.get(&path(id(9), "/steps")).await.code(), "execution_not_found");
    assert_eq!(site.get(&path(site.create(2).await, "/steps")).await.body["steps"], json!([]));
}

#[tokio::test]
async fn steps_that_come_with_a_delay_are_there_when_it_is_over() {
    let site = Site::open().await;
    let (x, fence) = site.held(1).await;
    let (y, other) = site.held(2).await;
    let nap = json!([{"number": 0, "name": "nap", "kind": "sleep", "result": 5}]);
    let pause = json!({"fence": fence, "delay_ms": 5, "steps": nap});
    assert_eq!(site.post(&path(x, "/delay"), pause).await.body["status"], "delayed");
    let report =
        json!({"op": "delay", "execution_id": y, "fence": other, "delay_ms": 5, "steps": nap});
    let answer = site.post("/v1/reports", json!({"reports": [report]})).await.body;
    assert_eq!(answer["results"][0]["status"], "delayed");
    for x in [x, y] {
        let steps = site.get(&path(x, "/steps")).await.body;
        assert_eq!(steps["steps"][0]["name"], "nap");
    }
}
