//! The document of the API: valid, complete, and published.

use std::collections::BTreeSet;
use std::path::Path;

use expect_test::expect_file;
use reqwest::Method;
use serde_json::{Value, json};

use crate::contract::{DOCUMENT, list, resolve};
use crate::site::{Site, flow_id, id};

/// Path, method and operation.
fn operations() -> impl Iterator<Item = (&'static str, &'static str, &'static Value)> {
    DOCUMENT["paths"].as_object().unwrap().iter().flat_map(|(path, methods)| {
        let methods = methods.as_object().unwrap().iter();
        methods.map(move |(method, operation)| (path.as_str(), method.as_str(), operation))
    })
}

/// A path with ids in it.
fn filled(path: &str) -> String {
    let (execution, flow) = (id(1).to_string(), flow_id(1).to_string());
    let own = if path.starts_with("/v1/flows/") { &flow } else { &execution };
    path.replace("{id}", own)
        .replace("{edge_id}", &flow)
        .replace("{execution_id}", &execution)
        .replace("{waitpoint_id}", &flow)
        .replace("{link}", "AQAAAAJrMQ")
        .replace("{file}", "app.js")
}

#[test]
fn the_published_document_is_up_to_date() {
    expect_file!["../../../../docs/openapi.json"].assert_eq(ff_server::document());
}

#[test]
fn the_document_is_valid() {
    assert_eq!(DOCUMENT["openapi"], "3.1.0");
    let mut seen = BTreeSet::new();
    for (path, method, operation) in operations() {
        let here = format!("{method} {path}");
        assert!(seen.insert(operation["operationId"].as_str().unwrap()), "{here}: taken id");
        assert!(operation["summary"].is_string(), "{here}: no summary");
        let in_path = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
        let declared = list(&operation["parameters"]).iter().filter(|p| p["in"] == "path");
        let declared: Vec<_> = declared.map(|p| p["name"].as_str().unwrap()).collect();
        assert_eq!(in_path.collect::<Vec<_>>(), declared, "{here}: parameters");
        let responses = operation["responses"].as_object().unwrap();
        assert!(responses.keys().any(|status| status.starts_with('2')), "{here}: no success");
        for response in responses.values() {
            assert!(response["description"].is_string(), "{here}: no description");
        }
    }
    let tags: BTreeSet<_> =
        list(&DOCUMENT["tags"]).iter().map(|tag| &tag["name"]).map(Value::to_string).collect();
    let used = operations().map(|(_, _, operation)| operation["tags"][0].to_string());
    assert_eq!(used.collect::<BTreeSet<_>>(), tags);
    check_references(&DOCUMENT);
}

fn check_references(value: &Value) {
    resolve(value);
    match value {
        Value::Object(fields) => fields.values().for_each(check_references),
        Value::Array(items) => items.iter().for_each(check_references),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn every_type_is_used_and_every_field_is_explained() {
    let text = DOCUMENT.to_string();
    for (name, schema) in DOCUMENT["components"]["schemas"].as_object().unwrap() {
        let used = text.contains(&format!("\"#/components/schemas/{name}\""));
        assert!(used || name == "FeedEvent", "{name} is not used");
        for (field, own) in schema["properties"].as_object().into_iter().flatten() {
            let nested = own["$ref"].is_string() || own["oneOf"].is_array();
            assert!(own["description"].is_string() || nested, "{name}.{field}: no description");
        }
    }
}

#[test]
fn every_call_of_the_api_lists_what_it_may_be_refused_with() {
    for (path, method, operation) in operations().filter(|(path, ..)| path.starts_with("/v1/")) {
        let has = |status: &str| operation["responses"][status].is_object();
        let mut wanted = vec!["400", "403", "408", "500", "503"];
        // A link is followed with nothing but itself.
        if operation["security"] != json!([{}]) {
            wanted.push("401");
        }
        if operation["requestBody"].is_object() {
            wanted.extend(["413", "415"]);
        }
        if path.contains("{id}") {
            wanted.push("404");
        }
        for status in wanted {
            assert!(has(status), "{method} {path} does not list {status}");
        }
    }
}

/// What others have built upon.
#[test]
fn the_routes_of_flows_stay_where_they_are() {
    for route in [
        "post /v1/flows",
        "get /v1/flows",
        "get /v1/flows/{id}",
        "get /v1/flows/{id}/summary",
        "post /v1/flows/{id}/extend",
        "post /v1/flows/{id}/seal",
        "patch /v1/flows/{id}/tags",
        "post /v1/flows/{id}/cancel",
        "post /v1/flows/{id}/members",
        "get /v1/flows/{id}/members",
        "post /v1/flows/{id}/edges",
        "get /v1/flows/{id}/edges",
        "post /v1/flows/{id}/edges/apply",
        "get /v1/flows/{id}/edges/{edge_id}",
        "put /v1/flows/{id}/groups/{execution_id}/policy",
        "get /v1/executions/{id}/inputs",
        "get /v1/executions/{id}/eligibility",
        "post /v1/executions/{id}/wait_children",
    ] {
        let (method, path) = route.split_once(' ').unwrap();
        assert!(DOCUMENT["paths"][path][method].is_object(), "{route}");
    }
}

/// What others have built upon.
#[test]
fn the_routes_of_suspensions_stay_where_they_are() {
    for route in [
        "post /v1/executions/{id}/suspend",
        "post /v1/executions/{id}/resume",
        "get /v1/executions/{id}/suspension",
        "get /v1/suspended",
        "post /v1/executions/{id}/waitpoints",
        "get /v1/executions/{id}/waitpoints",
        "get /v1/waitpoints",
        "post /v1/executions/{id}/waitpoints/{waitpoint_id}/close",
        "get /v1/executions/{id}/waitpoints/{waitpoint_id}/token",
        "post /v1/executions/{id}/waitpoints/{waitpoint_id}/links",
        "post /v1/executions/{id}/signals",
        "get /v1/executions/{id}/signals",
        "get /v1/executions/{id}/observed-signals",
        "post /v1/executions/{id}/decisions",
        "get /v1/signals/{link}",
        "post /v1/signals/{link}",
        "get /v1/consumers",
        "post /v1/consumers/drop",
        "get /v1/signing-keys",
        "post /v1/signing-keys/rotate",
    ] {
        let (method, path) = route.split_once(' ').unwrap();
        assert!(DOCUMENT["paths"][path][method].is_object(), "{route}");
    }
}

#[tokio::test]
async fn every_route_in_the_document_is_served() {
    let site = Site::open().await;
    for (path, method, _) in operations() {
        if path == "/v1/events/stream" {
            continue;
        }
        let path = filled(path);
        let method: Method = method.to_uppercase().parse().unwrap();
        let answer = site.ask(site.request(method.clone(), &path)).await;
        let code = answer.body["code"].as_str();
        assert!(!matches!(code, Some("route_not_found" | "method_not_allowed")), "{method} {path}");
    }
}

#[tokio::test]
async fn the_files_of_the_page_have_documented_media_types() {
    let site = Site::open().await;
    let documented = &DOCUMENT["paths"]["/page/{file}"]["get"]["responses"]["200"]["content"];
    for file in ["index.html", "app.js", "waits.js", "style.css"] {
        let answer = site.request(Method::GET, &format!("/page/{file}")).send().await.unwrap();
        let declared = answer.headers()["content-type"].to_str().unwrap();
        let essence = declared.split(';').next().unwrap();
        assert!(documented[essence].is_object(), "{file}: {declared}");
    }
}

/// Routes are only added together with their description; this keeps it so.
#[test]
fn every_route_that_is_served_is_in_the_document() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let router = std::fs::read_to_string(source.join("router.rs")).unwrap();
    for word in [".route(", ".nest(", ".nest_service(", ".route_service(", ".fallback_service("] {
        assert!(!router.contains(word), "{word} adds a route that nothing describes");
    }
}

#[tokio::test]
async fn no_request_may_say_what_nobody_reads() {
    let site = Site::open().await;
    for (path, method, operation) in operations() {
        let method: Method = method.to_uppercase().parse().unwrap();
        let path = filled(path);
        // What a link is sent with is for whoever waits.
        if operation["requestBody"].is_object() && operation["operationId"] != "follow_link" {
            let request = site.request(method.clone(), &path).json(&json!({"colour": "red"}));
            let refused = site.ask(request).await;
            assert_eq!(refused.code(), "invalid_input", "{method} {path}");
            assert_eq!(refused.body["field"], "colour", "{method} {path}");
        }
        if list(&operation["parameters"]).iter().any(|parameter| parameter["in"] == "query") {
            let refused =
                site.ask(site.request(method.clone(), &format!("{path}?colour=red"))).await;
            assert_eq!(refused.code(), "invalid_input", "{method} {path}");
        }
    }
}
