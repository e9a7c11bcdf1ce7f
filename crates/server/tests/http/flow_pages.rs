//! Listing flows, their members and their edges, page by page.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::flows::{edges, node, submit};
use crate::site::{Site, flow_id, flow_path, member};

/// Everything a listing has under `field`, page by page, none larger than two.
async fn all(site: &Site, path: &str, field: &str) -> Vec<Value> {
    let mut found = Vec::new();
    let mut next = String::new();
    loop {
        let page = site.get(&format!("{path}limit=2{next}")).await;
        assert_eq!(page.status, 200, "{page:?}");
        let rows = page.body[field].as_array().unwrap();
        assert!(rows.len() <= 2);
        found.extend(rows.iter().cloned());
        match page.body["next"].as_str() {
            Some(place) => next = format!("&after={place}"),
            None => return found,
        }
    }
}

#[tokio::test]
async fn flows_are_found_newest_first() {
    let site = Site::open().await;
    for number in 1..=5 {
        site.clock.advance(1);
        let kind = if number % 2 == 0 { "even" } else { "odd" };
        let body = json!({"flow_id": flow_id(number), "flow_kind": kind,
                          "namespace": if number == 5 { "shop" } else { "default" },
                          "tags": {"shop.number": number.to_string()}});
        site.post("/v1/flows", body).await;
    }
    let cancel = json!({"cancellation_policy": "cancel_all"});
    site.post(&flow_path(flow_id(3), "/cancel"), cancel).await;
    for (query, numbers) in [
        ("", vec![5, 4, 3, 2, 1]),
        ("flow_kind=odd&", vec![5, 3, 1]),
        ("flow_kind=odd&state=open&", vec![5, 1]),
        ("state=cancelled&", vec![3]),
        ("namespace=shop&", vec![5]),
        ("tag=shop.number:4&", vec![4]),
        ("state=failed&", vec![]),
    ] {
        let found = all(&site, &format!("/v1/flows?{query}"), "flows").await;
        let ids: Vec<_> = found.iter().map(|flow| flow["flow_id"].clone()).collect();
        let wanted: Vec<_> = numbers.into_iter().map(|n| json!(flow_id(n))).collect();
        assert_eq!(ids, wanted, "{query}");
    }
}

#[tokio::test]
async fn members_and_edges_are_listed_by_id() {
    let site = Site::open().await;
    let flow = flow_id(1);
    let names = ["a", "b", "c", "d", "end"];
    let ends = [("a", "end"), ("b", "end"), ("c", "end"), ("d", "end"), ("a", "b")];
    submit(&site, 1, &names.map(node), &edges(&ends)).await;
    let members = all(&site, &flow_path(flow, "/members?"), "members").await;
    let found: Vec<_> = members.iter().map(|x| x["execution_id"].as_str().unwrap()).collect();
    assert!(found.is_sorted());
    let wanted: BTreeSet<_> = names.iter().map(|name| member(flow, name).to_string()).collect();
    assert_eq!(found.iter().map(|id| (*id).to_owned()).collect::<BTreeSet<_>>(), wanted);

    let (a, end) = (member(flow, "a"), member(flow, "end"));
    for (query, wanted) in [
        (String::new(), 5),
        ("direction=all&".to_owned(), 5),
        (format!("direction=incoming&execution_id={end}&"), 4),
        (format!("direction=outgoing&execution_id={a}&"), 2),
        (format!("direction=outgoing&execution_id={end}&"), 0),
    ] {
        let found = all(&site, &flow_path(flow, &format!("/edges?{query}")), "edges").await;
        let ids: Vec<_> = found.iter().map(|edge| edge["edge_id"].as_str().unwrap()).collect();
        assert!(ids.is_sorted_by(|a, b| a < b), "{query}");
        assert_eq!(ids.len(), wanted, "{query}");
    }
}

#[tokio::test]
async fn an_empty_flow_has_no_members_and_no_edges() {
    let site = Site::open().await;
    site.post("/v1/flows", json!({"flow_id": flow_id(1), "flow_kind": "order"})).await;
    let members = site.get(&flow_path(flow_id(1), "/members")).await.body;
    assert_eq!(members, json!({"members": [], "next": null}));
    let edges = site.get(&flow_path(flow_id(1), "/edges")).await.body;
    assert_eq!(edges, json!({"edges": [], "next": null}));
}

#[tokio::test]
async fn a_page_that_makes_no_sense_is_refused_by_field() {
    let site = Site::open().await;
    site.post("/v1/flows", json!({"flow_id": flow_id(1), "flow_kind": "order"})).await;
    for (path, field) in [
        ("/v1/flows?limit=0".to_owned(), "limit"),
        ("/v1/flows?limit=1001".to_owned(), "limit"),
        ("/v1/flows?after=here".to_owned(), "after"),
        ("/v1/flows?state=blocked".to_owned(), "state"),
        ("/v1/flows?tag=red".to_owned(), "tag"),
        (flow_path(flow_id(1), "/members?after=here"), "after"),
        (flow_path(flow_id(1), "/members?limit=0"), "limit"),
        (flow_path(flow_id(1), "/edges?after=here"), "after"),
        (flow_path(flow_id(1), "/edges?limit=0"), "limit"),
        (flow_path(flow_id(1), "/edges?direction=up"), "direction"),
        (flow_path(flow_id(1), "/edges?direction=incoming"), "execution_id"),
        (flow_path(flow_id(1), "/edges?execution_id=7"), "execution_id"),
        (flow_path(flow_id(1), "?wait_ms=60001"), "wait_ms"),
    ] {
        let refused = site.get(&path).await;
        assert_eq!((refused.status, &refused.body["field"]), (400, &json!(field)), "{path}");
    }
}
