//! What is refused about flows, with which code and status.

use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::flows::{edges, joining, node, submit};
use crate::site::{Answer, Site, flow_id, flow_path, id, member, path};

fn refused(answer: &Answer, status: u16, code: &str) {
    assert_eq!((answer.status, answer.code()), (status, code), "{answer:?}");
}

/// A flow that is not sealed, with these nodes.
async fn open_flow(site: &Site, nodes: &[Value], edges: &[Value]) {
    let body = json!({"flow_id": flow_id(1), "flow_kind": "order", "seal": false,
                      "nodes": nodes, "edges": edges});
    assert_eq!(site.post("/v1/flows", body).await.status, 201);
}

#[tokio::test]
async fn a_graph_that_makes_no_sense_is_refused_and_creates_nothing() {
    let site = Site::open().await;
    let ab = || vec![node("a"), node("b")];
    let quorum = |k: i64| joining("b", json!({"kind": "quorum", "k": k}));
    let twice = edges(&[("a", "b"), ("a", "b")]);
    let named = |name: &str| json!({"from": "a", "to": "b", "name": name});
    for (nodes, edges, status, code, field) in [
        (ab(), edges(&[("a", "b"), ("b", "a")]), 409, "cycle_detected", Value::Null),
        (ab(), edges(&[("a", "a")]), 409, "self_referencing_edge", Value::Null),
        (ab(), twice, 409, "dependency_already_exists", Value::Null),
        (ab(), edges(&[("a", "c")]), 400, "unknown_node", json!("node")),
        (vec![node("a"), quorum(2)], edges(&[("a", "b")]), 400, "quorum_too_large", json!("k")),
        (vec![node("a"), quorum(0)], edges(&[("a", "b")]), 400, "invalid_input", json!("k")),
        (
            vec![node("a"), quorum(-1)],
            edges(&[("a", "b")]),
            400,
            "invalid_input",
            json!("nodes[1].join.k"),
        ),
        (vec![node("a"), node("a")], vec![], 400, "invalid_input", json!("node")),
        (vec![node("a"), quorum(1)], vec![], 400, "invalid_input", json!("join")),
        (vec![], vec![], 400, "invalid_input", json!("nodes")),
        (ab(), vec![named("")], 400, "invalid_input", json!("name")),
        (vec![node("")], vec![], 400, "invalid_input", json!("name")),
    ] {
        let body = json!({"flow_kind": "order", "nodes": nodes, "edges": edges});
        let answer = site.post("/v1/flows", body.clone()).await;
        refused(&answer, status, code);
        assert_eq!(answer.body["field"], field, "{answer:?}");
    }
    assert_eq!(site.get("/v1/flows").await.body, json!({"flows": [], "next": null}));
    assert_eq!(site.get("/v1/executions").await.body["executions"], json!([]));
}

#[tokio::test]
async fn a_circle_through_what_is_there_is_refused() {
    let site = Site::open().await;
    open_flow(&site, &["a", "b"].map(node), &edges(&[("a", "b")])).await;
    let close = json!({"nodes": [node("c")], "edges": edges(&[("b", "c"), ("c", "a")])});
    let answer = site.post(&flow_path(flow_id(1), "/extend"), close).await;
    refused(&answer, 409, "cycle_detected");
    let stage = json!({"upstream_execution_id": member(flow_id(1), "b"),
                       "downstream_execution_id": member(flow_id(1), "a"),
                       "expected_graph_revision": 3});
    let answer = site.post(&flow_path(flow_id(1), "/edges"), stage).await;
    refused(&answer, 409, "cycle_detected");
}

#[tokio::test]
async fn nobody_may_say_what_nobody_reads() {
    let site = Site::open().await;
    open_flow(&site, &[node("a")], &[]).await;
    let mut odd = node("b");
    odd["colour"] = "red".into();
    let join = json!({"kind": "all_of", "colour": "red"});
    for (path, body, field) in [
        ("/v1/flows".to_owned(), json!({"flow_kind": "x", "nodes": [odd]}), "nodes[0].colour"),
        (
            "/v1/flows".to_owned(),
            json!({"flow_kind": "x", "nodes": [joining("b", join)]}),
            "nodes[0].join.colour",
        ),
        ("/v1/flows".to_owned(), json!({"flow_kind": "x", "edges": edges(&[("a", "b")])}), "edges"),
        ("/v1/flows".to_owned(), json!({"flow_kind": "x", "seal": true}), "seal"),
        (
            "/v1/flows".to_owned(),
            json!({"flow_kind": "x", "dedup_window_ms": 1}),
            "dedup_window_ms",
        ),
        (
            "/v1/flows".to_owned(),
            json!({"flow_kind": "x", "nodes": [joining("b", json!({"kind": "any_of", "k": 1}))]}),
            "k",
        ),
        (flow_path(flow_id(1), "/extend"), json!({"by": {"execution_id": id(1)}}), "by.fence"),
        (flow_path(flow_id(1), "/seal"), json!({"reason": "done"}), "reason"),
    ] {
        let answer = site.post(&path, body).await;
        refused(&answer, 400, "invalid_input");
        assert_eq!(answer.body["field"], field, "{answer:?}");
    }
    let keyed = site.request(Method::POST, "/v1/flows").header("idempotency-key", "k");
    let answer = site.ask(keyed.json(&json!({"flow_kind": "x"}))).await;
    refused(&answer, 400, "invalid_input");
    assert_eq!(answer.body["field"], "idempotency_key");
}

#[tokio::test]
async fn a_policy_word_that_there_is_not_is_refused() {
    let site = Site::open().await;
    submit(&site, 1, &[node("a")], &[]).await;
    for (query, body, field) in [
        ("", json!({"cancellation_policy": "everything"}), "cancellation_policy"),
        ("", json!({}), "cancellation_policy"),
        ("?wait=maybe", json!({"cancellation_policy": "cancel_all"}), "wait"),
        ("?wait=true&wait_ms=5", json!({"cancellation_policy": "cancel_all"}), "wait_ms"),
        ("?wait_ms=60001", json!({"cancellation_policy": "cancel_all"}), "wait_ms"),
    ] {
        let answer = site.post(&flow_path(flow_id(1), &format!("/cancel{query}")), body).await;
        refused(&answer, 400, "invalid_input");
        assert_eq!(answer.body["field"], field, "{answer:?}");
    }
    assert_eq!(site.get(&flow_path(flow_id(1), "")).await.body["state"], "open");
}

#[tokio::test]
async fn what_was_fixed_or_has_moved_on_is_a_refusal() {
    let site = Site::open().await;
    let flow = flow_id(1);
    open_flow(&site, &["a", "b", "c"].map(node), &edges(&[("a", "b")])).await;
    let [a, b, c] = ["a", "b", "c"].map(|name| member(flow, name));
    let policy = |x| flow_path(flow, &format!("/groups/{x}/policy"));
    let put = |path: String, body: Value| site.ask(site.request(Method::PUT, &path).json(&body));
    let fixed = put(policy(b), json!({"kind": "any_of"})).await;
    refused(&fixed, 400, "invalid_input");
    assert_eq!(fixed.body["field"], "policy");
    assert_eq!(fixed.body["operation"], "set_edge_group_policy");
    let strange = put(policy(id(1)), json!({"kind": "all_of"})).await;
    refused(&strange, 409, "execution_not_in_flow");

    let stage = |from, to, revision: u64| {
        let body = json!({"upstream_execution_id": from, "downstream_execution_id": to,
                          "expected_graph_revision": revision});
        site.request(Method::POST, &flow_path(flow, "/edges")).json(&body)
    };
    let old = site.ask(stage(b, c, 3)).await;
    refused(&old, 409, "stale_graph_revision");
    assert!(old.headers.get("retry-after").is_none());
    refused(&site.ask(stage(a, b, 4)).await, 409, "dependency_already_exists");
    refused(&site.ask(stage(a, a, 4)).await, 409, "self_referencing_edge");
    refused(&site.ask(stage(id(1), c, 4)).await, 409, "execution_not_in_flow");

    let solo = site.create(2).await;
    let members = flow_path(flow, "/members");
    let answer = site.post(&members, json!({"execution_id": solo})).await;
    refused(&answer, 400, "partition_mismatch");
    let answer = site.post(&members, json!({"execution_id": id(3)})).await;
    refused(&answer, 404, "execution_not_found");
    let mut other = node("a");
    other["priority"] = 5.into();
    let answer = site.post(&flow_path(flow, "/extend"), json!({"nodes": [other]})).await;
    refused(&answer, 409, "node_conflict");
    let odd = json!({"nodes": [node("d")], "namespace": "elsewhere"});
    let answer = site.post(&flow_path(flow, "/extend"), odd).await;
    refused(&answer, 400, "invalid_input");
    assert_eq!(answer.body["field"], "namespace");
}

#[tokio::test]
async fn a_flow_that_has_ended_stays_as_it_is() {
    let site = Site::open().await;
    let flow = flow_id(1);
    submit(&site, 1, &[node("a")], &[]).await;
    site.finish(member(flow, "a"), json!(1)).await;
    site.dispatch().await;
    let cancel = json!({"cancellation_policy": "cancel_all"});
    let answer = site.post(&flow_path(flow, "/cancel"), cancel).await;
    refused(&answer, 409, "flow_already_terminal");
    let answer = site.post(&flow_path(flow, "/extend"), json!({"nodes": [node("b")]})).await;
    refused(&answer, 409, "flow_already_terminal");
    let body = json!({"flow_id": flow, "flow_kind": "other", "nodes": [node("a")]});
    let clash = site.post("/v1/flows", body).await;
    refused(&clash, 409, "flow_id_conflict");
    assert_eq!(clash.body["field"], "flow_kind");
}

#[tokio::test]
async fn a_flow_that_is_created_again_with_other_content_says_in_which_field() {
    let site = Site::open().await;
    let submission = json!({"nodes": [node("a")]});
    for (n, operation, nodes) in [(1, "create_flow", json!({})), (2, "submit_flow", submission)] {
        let create = async |other: &Value| {
            let mut body = json!({"flow_id": flow_id(n), "flow_kind": "order", "namespace": "shop",
                                  "creator_identity": "ann", "tags": {"shop.tier": "gold"}});
            for more in [&nodes, other] {
                body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            }
            site.post("/v1/flows", body).await
        };
        assert_eq!(create(&json!({})).await.status, 201);
        assert_eq!(create(&json!({})).await.status, 200, "the same again");
        for (field, other) in [
            ("flow_kind", json!({"flow_kind": "other"})),
            ("namespace", json!({"namespace": "elsewhere"})),
            ("creator_identity", json!({"creator_identity": "bob"})),
            ("creator_identity", json!({"creator_identity": null})),
            ("tags", json!({"tags": {"shop.tier": "silver"}})),
            ("tags", json!({"tags": {}})),
        ] {
            let clash = create(&other).await;
            refused(&clash, 409, "flow_id_conflict");
            assert_eq!(clash.body["field"], field, "{clash:?}");
            assert_eq!(clash.body["operation"], operation, "{clash:?}");
        }
        let flow = site.get(&flow_path(flow_id(n), "")).await.body;
        let kept = [&flow["creator_identity"], &flow["tags"]];
        assert_eq!(kept, [&json!("ann"), &json!({"shop.tier": "gold"})], "nothing is changed");
    }
}

#[tokio::test]
async fn what_is_not_there_is_not_found() {
    let site = Site::open().await;
    submit(&site, 1, &[node("a")], &[]).await;
    let gone = |tail: &str| flow_path(flow_id(2), tail);
    let edge = Uuid::from_u128(9);
    let apply = json!({"edge_id": edge});
    let stage = json!({"upstream_execution_id": id(1), "downstream_execution_id": id(2),
                       "expected_graph_revision": 0});
    let policy = json!({"kind": "all_of"});
    for (method, path, body, code) in [
        (Method::GET, gone(""), Value::Null, "flow_not_found"),
        (Method::GET, gone("/summary"), Value::Null, "flow_not_found"),
        (Method::GET, gone("/members"), Value::Null, "flow_not_found"),
        (Method::GET, gone("/edges"), Value::Null, "flow_not_found"),
        (Method::GET, gone(&format!("/edges/{edge}")), Value::Null, "flow_not_found"),
        (
            Method::GET,
            flow_path(flow_id(1), &format!("/edges/{edge}")),
            Value::Null,
            "edge_not_found",
        ),
        (Method::POST, gone("/extend"), json!({"nodes": [node("b")]}), "flow_not_found"),
        (Method::POST, gone("/members"), json!({"execution_id": id(1)}), "flow_not_found"),
        (Method::POST, gone("/edges"), stage, "flow_not_found"),
        (Method::POST, gone("/edges/apply"), apply.clone(), "flow_not_found"),
        (Method::POST, flow_path(flow_id(1), "/edges/apply"), apply, "edge_not_found"),
        (Method::PUT, gone(&format!("/groups/{}/policy", id(1))), policy, "flow_not_found"),
        (Method::POST, gone("/seal"), json!({}), "flow_not_found"),
        (Method::PATCH, gone("/tags"), json!({"remove": ["a.b"]}), "flow_not_found"),
        (
            Method::POST,
            gone("/cancel"),
            json!({"cancellation_policy": "cancel_all"}),
            "flow_not_found",
        ),
        (Method::GET, path(id(1), "/inputs"), Value::Null, "execution_not_found"),
        (Method::GET, path(id(1), "/eligibility"), Value::Null, "execution_not_found"),
    ] {
        let request = site.request(method.clone(), &path);
        let request = if body.is_null() { request } else { request.json(&body) };
        let answer = site.ask(request).await;
        assert_eq!((answer.status, answer.code()), (404, code), "{method} {path}");
    }
}

#[tokio::test]
async fn an_id_that_is_none_is_refused_by_field() {
    let site = Site::open().await;
    for (method, path, field) in [
        (Method::GET, "/v1/flows/mine".to_owned(), "flow_id"),
        (Method::GET, "/v1/flows/mine/edges/yours".to_owned(), "flow_id"),
        (Method::GET, flow_path(flow_id(1), "/edges/yours"), "edge_id"),
        (Method::PUT, flow_path(flow_id(1), "/groups/a/policy"), "execution_id"),
    ] {
        let request = site.request(method, &path).json(&json!({"kind": "all_of"}));
        let answer = site.ask(request).await;
        refused(&answer, 400, "invalid_input");
        assert_eq!(answer.body["field"], field, "{path}");
    }
}
