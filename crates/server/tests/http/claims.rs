//! Claims that wait, that are repeated, and whose client goes away; and leases that are renewed.

use serde_json::{Value, json};

use crate::site::{Site, ask, path};

fn patient() -> Value {
    let mut ask = ask();
    ask["wait_ms"] = 60_000.into();
    ask
}

#[tokio::test]
async fn a_claim_that_waits_is_woken_by_a_creation() {
    let site = Site::open().await;
    let creating = async {
        // The store was asked and had nothing: the claim waits from here on.
        site.gate.claims(1).await;
        site.create(1).await
    };
    let (claimed, x) = tokio::join!(site.post("/v1/claims", patient()), creating);
    assert_eq!(claimed.body["executions"][0]["execution_id"], json!(x));
    assert_eq!(claimed.body["server_time"], 1_700_000_000_000_i64);
}

#[tokio::test]
async fn a_claim_without_a_wait_is_answered_at_once() {
    let site = Site::open().await;
    let answer = site.post("/v1/claims", ask()).await;
    assert_eq!((answer.status, &answer.body["executions"]), (200, &json!([])));
}

#[tokio::test]
async fn asked_again_under_its_id_a_claim_finds_what_it_was_given() {
    let site = Site::open().await;
    let x = site.create(1).await;
    site.create(2).await;
    let first = site.post("/v1/claims", ask()).await.body;
    let mut again = ask();
    again["claim_id"] = first["claim_id"].clone();
    let second = site.post("/v1/claims", again).await.body;
    assert_eq!(second["executions"], first["executions"]);
    assert_eq!(second["executions"][0]["execution_id"], json!(x));
}

#[tokio::test]
async fn a_claim_takes_as_many_as_it_asks_for_from_all_its_lanes() {
    let site = Site::open().await;
    for number in 1..=3 {
        let lane = if number == 2 { "other" } else { "default" };
        site.create_with(
            number,
            json!({"lane_id": lane, "policy": {"routing_requirements":
            {"required_capabilities": ["gpu"]}}}),
        )
        .await;
    }
    let mut many = ask();
    many["max"] = 2.into();
    many["lanes"] = json!(["default", "other"]);
    assert_eq!(site.post("/v1/claims", many.clone()).await.body["executions"], json!([]));
    many["capabilities"] = json!(["gpu", "cuda"]);
    let given = site.post("/v1/claims", many).await.body;
    let lanes: Vec<_> =
        given["executions"].as_array().unwrap().iter().map(|x| &x["lane_id"]).collect();
    assert_eq!(lanes, ["default", "other"]);
}

#[tokio::test]
async fn a_claim_whose_client_goes_away_while_it_waits_takes_nothing() {
    let site = Site::open().await;
    let request = site.request(reqwest::Method::POST, "/v1/claims").json(&patient());
    let gone = tokio::spawn(request.send());
    site.gate.claims(1).await;
    gone.abort();
    site.in_flight(0).await;
    let x = site.create(1).await;
    let claimed = site.claim().await;
    assert_eq!((&claimed["execution_id"], &claimed["kind"]), (&json!(x), &json!("first")));
}

#[tokio::test]
async fn what_a_claim_was_given_after_its_client_went_away_is_given_back() {
    let site = Site::open().await;
    let x = site.create(1).await;
    site.gate.shut();
    let request = site.request(reqwest::Method::POST, "/v1/claims").json(&ask());
    let gone = tokio::spawn(request.send());
    // The store has handed it out; the answer is on its way.
    site.gate.claims(1).await;
    gone.abort();
    site.in_flight(0).await;
    site.gate.open();
    let claimed = site.post("/v1/claims", patient()).await.body["executions"][0].clone();
    assert_eq!(claimed["execution_id"], json!(x));
    // It does not count as an attempt.
    assert_eq!(
        (&claimed["kind"], &claimed["fence"]["attempt_index"]),
        (&json!("first"), &json!(0))
    );
}

#[tokio::test]
async fn leases_are_renewed_together_and_a_worker_learns_of_a_cancellation() {
    let site = Site::open().await;
    let (x, held) = site.held(1).await;
    let (y, cancelled) = site.held(2).await;
    site.post(&path(y, "/cancel"), json!({"reason": "changed my mind"})).await;
    site.clock.advance(1_000);
    let leases =
        json!([{"execution_id": x, "fence": held}, {"execution_id": y, "fence": cancelled}]);
    let renewed =
        site.post("/v1/leases/renew", json!({"leases": leases, "lease_ttl_ms": 5_000})).await;
    let results = &renewed.body["results"];
    let until = 1_700_000_000_000_i64 + 6_000;
    assert_eq!(results[0], json!({"status": "renewed", "execution_id": x, "lease_until": until}));
    assert_eq!((&results[1]["status"], &results[1]["execution_id"]), (&json!("lost"), &json!(y)));
    let problem = &results[1]["problem"];
    assert_eq!(
        (&problem["code"], &problem["operation"]),
        (&json!("execution_not_active"), &json!("renew_lease"))
    );
    assert_eq!(problem["standing"]["outcome"], "cancelled");
}

#[tokio::test]
async fn a_lease_that_ran_out_is_lost() {
    let site = Site::open().await;
    let (x, fence) = site.held(1).await;
    site.clock.advance(30_000);
    let leases = json!([{"execution_id": x, "fence": fence}]);
    let lost = site.post("/v1/leases/renew", json!({"leases": leases})).await.body;
    assert_eq!(lost["results"][0]["problem"]["code"], "lease_expired");
}

#[tokio::test]
async fn a_released_claim_does_not_count_as_an_attempt() {
    let site = Site::open().await;
    let (x, fence) = site.held(1).await;
    let released = site.post(&path(x, "/release"), json!({"fence": fence})).await;
    assert_eq!(released.body, json!({"status": "released"}));
    let claimed = site.claim().await;
    assert_eq!(claimed["fence"]["attempt_index"], 0);
}

#[tokio::test]
async fn what_is_delayed_goes_on_with_the_same_attempt() {
    let site = Site::open().await;
    let (x, fence) = site.held(1).await;
    let delayed = site.post(&path(x, "/delay"), json!({"fence": fence, "delay_ms": 500})).await;
    let until = 1_700_000_000_500_i64;
    assert_eq!(delayed.body, json!({"status": "delayed", "delay_until": until}));
    assert_eq!(site.claim().await, Value::Null);
    site.clock.advance(500);
    let resumed = site.claim().await;
    assert_eq!(
        (&resumed["kind"], &resumed["fence"]["attempt_index"]),
        (&json!("resumed"), &json!(0))
    );
}
