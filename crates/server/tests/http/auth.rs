//! Who is served.

use ff_server::{Options, ServeError, Token, serve};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::contract::DOCUMENT;
use crate::site::{Site, id};

pub async fn guarded() -> Site {
    Site::with(|options| options.token = Some(Token::new("s3cret").unwrap())).await
}

/// Every operation under `/v1` that asks for the token, with an id where one is needed. A link is
/// followed with nothing but itself.
fn operations() -> Vec<(Method, String)> {
    let paths = DOCUMENT["paths"].as_object().unwrap().iter();
    let own = paths.filter(|(path, _)| path.starts_with("/v1/") && *path != "/v1/signals/{link}");
    own.flat_map(|(path, methods)| {
        let path = path.replace("{id}", &id(1).to_string());
        let methods = methods.as_object().unwrap().keys();
        methods.map(move |method| (method.to_uppercase().parse().unwrap(), path.clone()))
    })
    .collect()
}

#[tokio::test]
async fn every_route_of_the_api_asks_for_the_token_in_the_same_words() {
    let site = guarded().await;
    let mut bodies: Vec<Value> = Vec::new();
    for (method, path) in operations() {
        for header in
            [None, Some("Bearer wrong"), Some("Bearer "), Some("Basic s3cret"), Some("s3cret")]
        {
            let request = site.request(method.clone(), &path);
            let request =
                header.into_iter().fold(request, |r, value| r.header("authorization", value));
            let refused = site.ask(request).await;
            assert_eq!((refused.status, refused.code()), (401, "unauthorized"), "{method} {path}");
            assert_eq!(refused.headers["www-authenticate"], "Bearer");
            bodies.push(refused.body);
        }
    }
    assert!(bodies.len() > 100, "{}", bodies.len());
    bodies.dedup();
    assert_eq!(bodies.len(), 1);
}

#[tokio::test]
async fn whoever_presents_the_token_is_served() {
    let site = guarded().await;
    for header in ["Bearer s3cret", "bearer s3cret"] {
        let request = site.request(Method::GET, "/v1/info").header("authorization", header);
        assert_eq!(site.ask(request).await.status, 200);
    }
}

#[tokio::test]
async fn health_metrics_and_pages_need_no_token() {
    let site = guarded().await;
    for path in ["/healthz", "/readyz", "/metrics", "/openapi.json", "/docs", "/docs/errors", "/"] {
        assert_eq!(site.get(path).await.status, 200, "{path}");
    }
}

#[tokio::test]
async fn a_server_without_a_token_refuses_an_address_that_others_can_reach() {
    let site = Site::open().await;
    let listener = TcpListener::bind("0.0.0.0:0").await.unwrap();
    let mut options = None;
    let _other = Site::with(|own| options = Some(own.clone())).await;
    let mut options: Options = options.unwrap();
    let refused = serve(listener, options.clone(), std::future::pending()).await.unwrap_err();
    assert!(matches!(refused, ServeError::Exposed(_)));
    assert!(refused.to_string().contains("set FF_TOKEN"), "{refused}");

    // With one, it serves there.
    options.token = Some(Token::new("s3cret").unwrap());
    let listener = TcpListener::bind("0.0.0.0:0").await.unwrap();
    serve(listener, options, std::future::ready(())).await.unwrap();
    drop(site);
}

#[tokio::test]
async fn without_a_token_no_page_of_another_site_is_served() {
    let site = Site::open().await;
    let ask = |host: &str, origin: &str| {
        let mut request = site.request(Method::GET, "/v1/info");
        if !host.is_empty() {
            request = request.header("host", host);
        }
        if !origin.is_empty() {
            request = request.header("origin", origin);
        }
        request
    };
    let own = format!("http://{}", site.address);
    for (host, origin) in [("", ""), ("", own.as_str()), ("localhost:1", "http://localhost:1")] {
        assert_eq!(site.ask(ask(host, origin)).await.status, 200, "{host} {origin}");
    }
    for (host, origin) in [
        ("evil.example", ""),
        ("", "http://evil.example"),
        ("localhost:1", "http://localhost:2"),
        ("", "null"),
    ] {
        let refused = site.ask(ask(host, origin)).await;
        assert_eq!(
            (refused.status, refused.code()),
            (403, "origin_not_allowed"),
            "{host} {origin}"
        );
    }
    // With a token, the token decides.
    let site = guarded().await;
    let request = site.request(Method::POST, "/v1/executions").header("host", "ff.example");
    let request = request.header("authorization", "Bearer s3cret");
    let body = json!({"lane_id": "default", "execution_kind": "job"});
    assert_eq!(site.ask(request.json(&body)).await.status, 201);
}
