//! The pages for people: part of the program, cached by their content, and closed to other sites.

use reqwest::Method;

use crate::contract::DOCUMENT;
use crate::site::Site;

#[tokio::test]
async fn a_page_is_served_with_its_type_and_only_once_while_it_stays_the_same() {
    let site = Site::open().await;
    for (path, media_type) in [
        ("/", "text/html; charset=utf-8"),
        ("/page/index.html", "text/html; charset=utf-8"),
        ("/page/app.js", "text/javascript; charset=utf-8"),
        ("/page/waits.js", "text/javascript; charset=utf-8"),
        ("/page/style.css", "text/css; charset=utf-8"),
        ("/page/icon.svg", "image/svg+xml"),
        ("/docs", "text/html; charset=utf-8"),
        ("/docs/errors", "text/html; charset=utf-8"),
        ("/docs/docs.css", "text/css; charset=utf-8"),
        ("/openapi.json", "application/json"),
    ] {
        let first = site.get(path).await;
        assert_eq!(
            (first.status, &first.headers["content-type"]),
            (200, &media_type.parse().unwrap())
        );
        assert_eq!(first.headers["cache-control"], "no-cache");
        let policy = first.headers["content-security-policy"].to_str().unwrap();
        assert!(
            policy.starts_with("default-src 'self';") && !policy.contains("unsafe"),
            "{policy}"
        );
        let tag = first.headers["etag"].clone();
        let again = site.request(Method::GET, path).header("if-none-match", tag);
        let again = site.ask(again).await;
        assert_eq!((again.status, again.body.as_str()), (304, Some("")), "{path}");
    }
    let missing = site.get("/page/secrets.js").await;
    assert_eq!((missing.status, missing.code()), (404, "route_not_found"));
}

#[tokio::test]
async fn the_documentation_shows_every_operation_type_and_code() {
    let site = Site::open().await;
    let docs = site.get("/docs").await.body;
    let docs = docs.as_str().unwrap();
    for methods in DOCUMENT["paths"].as_object().unwrap().values() {
        for operation in methods.as_object().unwrap().values() {
            let id = operation["operationId"].as_str().unwrap();
            assert!(docs.contains(&format!("<details id=\"{id}\">")), "{id}");
        }
    }
    for name in DOCUMENT["components"]["schemas"].as_object().unwrap().keys() {
        assert!(docs.contains(&format!("<h3 id=\"type-{name}\">")), "{name}");
    }
    let errors = site.get("/docs/errors").await.body;
    for code in ff_core::Code::ALL {
        assert!(errors.as_str().unwrap().contains(&format!("<tr id=\"{code}\">")), "{code}");
    }
}

#[tokio::test]
async fn nothing_on_a_page_comes_from_elsewhere() {
    let site = Site::open().await;
    for path in ["/", "/docs", "/docs/errors", "/docs/docs.css", "/page/style.css"] {
        let page = site.get(path).await.body;
        let text = page.as_str().unwrap();
        for word in [
            "src=\"http",
            "href=\"http",
            "url(http",
            "@import",
            "<script>",
            " onclick=",
            " style=\"",
        ] {
            assert!(!text.contains(word), "{path} has {word}");
        }
    }
}
