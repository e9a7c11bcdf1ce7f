//! Links: what somebody sees who follows one, and that looking decides nothing.

use expect_test::expect;
use reqwest::Method;
use serde_json::{Value, json};

use crate::refusals::shows;
use crate::site::{Answer, Site, path};
use crate::suspensions::{Waiting, any, approval, tells, waiting};

const BROWSER: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";

/// The path of a new link.
async fn link(site: &Site, to: &Waiting, body: Value) -> String {
    let links = format!("/waitpoints/{}/links", to.waitpoint.as_str().unwrap());
    let made = site.post(&path(to.id, &links), body).await;
    assert_eq!(made.status, 200, "{made:?}");
    let path = made.body["path"].as_str().unwrap();
    assert_eq!(path, format!("/v1/signals/{}", made.body["link"].as_str().unwrap()));
    path.to_owned()
}

/// Looks at a link as a browser does.
async fn browse(site: &Site, path: &str) -> Answer {
    site.ask(site.request(Method::GET, path).header("accept", BROWSER)).await
}

/// Presses the button.
async fn press(site: &Site, path: &str) -> Answer {
    let form = "application/x-www-form-urlencoded";
    let request = site.request(Method::POST, path).header("accept", BROWSER);
    site.ask(request.header("content-type", form).header("origin", "null").body("")).await
}

async fn digest(site: &Site, x: &Waiting) -> Value {
    let listed = site.get(&path(x.id, "/waitpoints")).await.body;
    listed["waitpoints"][0]["approval"]["subject_digest"].clone()
}

#[tokio::test]
async fn a_link_takes_any_json_and_says_it_on() {
    for carried in [json!([1, {"a": 2}]), json!("yes"), json!(7)] {
        let site = Site::open().await;
        let x = waiting(&site, 1, &any()).await;
        let link = link(&site, &x, json!({"signal_name": "done", "source_identity": "ci"})).await;
        let sent = site.post(&link, carried.clone()).await;
        assert_eq!(sent.status, 200, "{sent:?}");
        let came = site.get(&path(x.id, "/signals")).await.body;
        assert_eq!(came["signals"][0]["payload"], carried);
    }
}

#[tokio::test]
async fn a_page_hides_nothing_of_what_is_decided_on() {
    let site = Site::open().await;
    let about = json!({"subject": "pay \u{202e}0001\u{202c} EUR", "by": ["ann"]});
    let x = waiting(&site, 1, &approval(&about)).await;
    let body = json!({"signal_name": "approved", "source_identity": "ann",
                      "subject": digest(&site, &x).await});
    let link = link(&site, &x, body).await;
    let page = site.request(Method::GET, &link).header("accept", BROWSER).send().await.unwrap();
    let page = page.text().await.unwrap();
    assert!(page.contains("pay \\u202e0001\\u202c EUR"), "{page}");
}

#[tokio::test]
async fn looking_at_a_link_changes_nothing_and_following_it_twice_is_once() {
    let site = Site::open().await;
    let about = json!({"subject": "deploy 7", "by": ["ann"]});
    let x = waiting(&site, 1, &approval(&about)).await;
    let body = json!({"signal_name": "approved", "source_identity": "ann",
                      "subject": digest(&site, &x).await});
    let link = link(&site, &x, body).await;
    let before = site.get(&path(x.id, "/history")).await.body;
    tells(
        &site.get(&link).await,
        &expect![[r#"
            200
            {
              "execution_id": "{fp:33}:00000000-0000-0000-0000-000000000001",
              "open": true,
              "pending": false,
              "signal_name": "approved",
              "source_identity": "ann",
              "subject": "sha256:bd4377357ccc6ade0fee78af46c39ae53e480f71cd48cf01b1789d045462838a",
              "subject_text": "deploy 7",
              "waitpoint_id": "00000000-0000-0000-0000-000000001001",
              "waitpoint_key": "a"
            }
        "#]],
    );
    for _ in 0..3 {
        site.get(&link).await;
        browse(&site, &link).await;
        let head = site.request(Method::HEAD, &link).send().await.unwrap();
        assert_eq!(head.status(), 200);
    }
    assert_eq!(site.get(&path(x.id, "/history")).await.body, before);
    assert_eq!(site.get(&path(x.id, "/signals")).await.body["signals"], json!([]));

    let carried = json!({"comment": "fine"});
    let sent = site.post(&link, carried.clone()).await.body;
    assert_eq!(
        (&sent["status"], &sent["effect"]),
        (&json!("accepted"), &json!("resume_condition_satisfied"))
    );
    let again = site.post(&link, carried.clone()).await.body;
    assert_eq!(again, json!({"status": "duplicate", "existing_signal_id": sent["signal_id"]}));
    let kept = site.get(&path(x.id, "/signals")).await.body["signals"].clone();
    assert_eq!(kept.as_array().unwrap().len(), 1);
    assert_eq!(
        [&kept[0]["payload"], &kept[0]["source_identity"], &kept[0]["source_type"]],
        [&carried, &json!("ann"), &json!("person")]
    );
    assert_eq!(site.get(&link).await.body["open"], false);
}

#[tokio::test]
async fn a_person_sees_what_would_be_decided_and_presses_a_button() {
    let site = Site::open().await;
    let x = waiting(&site, 1, &approval(&json!({"subject": "deploy 7"}))).await;
    let body = json!({"signal_name": "approved", "source_identity": "ann",
                      "subject": digest(&site, &x).await});
    let link = link(&site, &x, body).await;
    let page = browse(&site, &link).await;
    assert_eq!(
        (page.status, &page.headers["content-type"]),
        (200, &"text/html; charset=utf-8".parse().unwrap())
    );
    let policy = page.headers["content-security-policy"].to_str().unwrap();
    assert!(policy.starts_with("default-src 'none';") && !policy.contains("unsafe"), "{policy}");
    assert!(policy.contains("frame-ancestors 'none'") && policy.contains("form-action 'self'"));
    assert_eq!(page.headers["referrer-policy"], "no-referrer");
    assert_eq!(page.headers["cache-control"], "no-store");
    let text = page.body.as_str().unwrap().split_once("<body>").unwrap().1;
    let text = text.replace("><", ">\n<").replace("</dd>\n<dt>", "</dd>\n\n<dt>");
    expect![[r#"
        <h1>Approve?</h1>
        <dl>
        <dt>What</dt>
        <dd>
        <pre dir="auto">
        <bdi>deploy 7</bdi>
        </pre>
        </dd>

        <dt>In the name of</dt>
        <dd>
        <pre dir="auto">
        <bdi>ann</bdi>
        </pre>
        </dd>

        <dt>Signal</dt>
        <dd>
        <pre dir="auto">
        <bdi>approved</bdi>
        </pre>
        </dd>

        <dt>Waitpoint</dt>
        <dd>
        <pre dir="auto">
        <bdi>a</bdi>
        </pre>
        </dd>

        <dt>Execution</dt>
        <dd>
        <pre dir="auto">
        <bdi>{fp:33}:00000000-0000-0000-0000-000000000001</bdi>
        </pre>
        </dd>
        </dl>
        <form method="post">
        <button>Approve</button>
        </form>
        </body>
        </html>
    "#]]
    .assert_eq(&text);

    let done = press(&site, &link).await;
    assert_eq!(done.status, 200);
    let sent = "<h1>Sent</h1><p>It was waited for: the work goes on now.</p>";
    assert!(done.body.as_str().unwrap().contains(sent), "{done:?}");
    let again = press(&site, &link).await;
    assert!(again.body.as_str().unwrap().contains("<h1>Sent before</h1>"), "{again:?}");
    let over = browse(&site, &link).await.body;
    assert!(!over.as_str().unwrap().contains("<button>"), "{over}");
    assert_eq!(
        site.get(&path(x.id, "/signals")).await.body["signals"].as_array().unwrap().len(),
        1
    );
}

#[tokio::test]
async fn nobody_decides_on_what_he_is_not_shown_yet() {
    let site = Site::open().await;
    let (id, fence) = site.held(1).await;
    let new = json!({"fence": fence, "waitpoint_key": "a", "expires_in_ms": 60_000});
    let made = site.post(&path(id, "/waitpoints"), new).await.body;
    let x = Waiting { id, waitpoint: made["waitpoint_id"].clone(), token: made["token"].clone() };
    let subject = format!("sha256:{}", "0".repeat(64));
    for subject in [json!(subject), Value::Null] {
        let ask = json!({"signal_name": "approved", "source_identity": "ann", "subject": subject});
        let link = link(&site, &x, ask).await;
        let page = browse(&site, &link).await.body;
        let page = page.as_str().unwrap();
        assert!(page.contains("It is not asked yet") && !page.contains("<button>"), "{page}");
    }
}

#[tokio::test]
async fn a_link_that_cannot_count_has_no_button() {
    let site = Site::open().await;
    let about =
        json!({"subject": "deploy 7", "by": ["ann", "bob", "cleo"], "needed": 2, "not_by": "cleo"});
    let x = waiting(&site, 1, &approval(&about)).await;
    let made = |name: &'static str, who: Option<&'static str>| {
        let body = json!({"signal_name": name, "source_identity": who});
        link(&site, &x, body)
    };
    let (ann, bob) = (made("approved", Some("ann")).await, made("approved", Some("bob")).await);
    let others = [
        made("approved", Some("mallory")).await,
        made("approved", Some("cleo")).await,
        made("approved", None).await,
        made("deployed", Some("ann")).await,
    ];
    let button = async |link: &str| {
        let page = browse(&site, link).await.body;
        let open = site.get(link).await.body["open"].clone();
        let button = page.as_str().unwrap().contains("<button>");
        assert_eq!(open, json!(button), "{page}");
        button
    };
    assert!(button(&ann).await && button(&bob).await);
    for link in &others {
        assert!(!button(link).await, "{link}");
    }
    press(&site, &ann).await;
    let rejects = made("rejected", Some("ann")).await;
    assert!(!button(&ann).await && !button(&rejects).await, "she has said what she says");
    let late = press(&site, &rejects).await.body;
    assert!(late.as_str().unwrap().contains("What was said first stands"), "{late}");
    assert!(button(&bob).await);
}

#[tokio::test]
async fn what_others_wrote_is_never_markup() {
    let site = Site::open().await;
    let hostile = "</pre><script>alert('x')</script><img src=x onerror=\"alert(1)\">&lt;";
    let x = waiting(&site, 1, &approval(&json!({"subject": hostile}))).await;
    let body = json!({"signal_name": "<b>approved</b>", "source_identity": "<i>ann</i>",
                      "subject": digest(&site, &x).await});
    let link = link(&site, &x, body).await;
    let page = browse(&site, &link).await.body;
    let page = page.as_str().unwrap();
    for markup in ["<script", "<img", "<b>", "<i>", "\"alert"] {
        assert!(!page.contains(markup), "{markup} in {page}");
    }
    assert!(page.contains("&lt;script&gt;alert('x')&lt;/script&gt;"), "{page}");
    assert!(page.contains("&amp;lt;"), "{page}");
}

#[tokio::test]
async fn a_link_about_something_else_is_shown_as_over_and_refused() {
    let site = Site::open().await;
    let x = waiting(&site, 1, &approval(&json!({"subject": "deploy 7"}))).await;
    let stale = format!("sha256:{}", "0".repeat(64));
    let body = json!({"signal_name": "approved", "source_identity": "ann", "subject": stale});
    let link = link(&site, &x, body).await;
    let offer = site.get(&link).await.body;
    assert_eq!((&offer["open"], &offer["subject_text"]), (&json!(false), &Value::Null));
    let refused = site.ask(site.request(Method::POST, &link)).await;
    assert_eq!((refused.status, refused.code()), (409, "subject_mismatch"));
    let page = press(&site, &link).await;
    assert_eq!(page.status, 409);
    assert!(page.body.as_str().unwrap().contains("subject_mismatch"), "{page:?}");
}

#[tokio::test]
async fn what_is_no_link_is_refused_without_a_word_more() {
    let site = Site::open().await;
    let x = waiting(&site, 1, &any()).await;
    let genuine = link(&site, &x, json!({"signal_name": "paid"})).await;
    let forged = format!("{}{}", &genuine[..genuine.len() - 2], "AA");
    for path in ["/v1/signals/guess".to_owned(), forged, format!("{genuine}A")] {
        for method in [Method::GET, Method::POST] {
            let refused = site.ask(site.request(method, &path)).await;
            assert_eq!((refused.status, refused.code()), (403, "invalid_token"), "{path}");
        }
        let page = browse(&site, &path).await;
        assert_eq!(page.status, 403);
        let page = page.body.as_str().unwrap();
        assert!(
            page.contains("not a link as it was made") && page.contains("invalid_token"),
            "{page}"
        );
    }
    shows(
        &site,
        site.request(Method::GET, "/v1/signals/guess"),
        expect![[r#"
        403 invalid_token
        {
          "code": "invalid_token",
          "detail": "the token is not valid for this waitpoint",
          "hint": "Send the token that was handed out with the waitpoint, unchanged.",
          "retryable": false,
          "status": 403,
          "title": "The token is not one for this waitpoint, or there is no such waitpoint.",
          "type": "/docs/errors#invalid_token"
        }
    "#]],
    )
    .await;
    let spoken = site.request(Method::POST, &genuine).body("hello");
    let refused = site.ask(spoken.header("content-type", "text/plain")).await;
    assert_eq!((refused.status, refused.code()), (415, "unsupported_media_type"));
    let torn = site.request(Method::POST, &genuine).header("content-type", "application/json");
    let refused = site.ask(torn.body("{")).await;
    assert_eq!((refused.status, refused.code()), (400, "invalid_input"));
    let form = site.request(Method::POST, &genuine).body("a=b");
    let form = form.header("content-type", "application/x-www-form-urlencoded");
    assert_eq!(site.ask(form).await.status, 400);
    assert_eq!(site.get(&path(x.id, "/signals")).await.body["signals"], json!([]));
}

#[tokio::test]
async fn a_link_that_makes_no_sense_is_refused_by_field() {
    let site = Site::open().await;
    let x = waiting(&site, 1, &any()).await;
    let links = format!("/waitpoints/{}/links", x.waitpoint.as_str().unwrap());
    for (body, field) in [
        (json!({"signal_name": ""}), "signal_name"),
        (json!({"signal_name": "__x"}), "signal_name"),
        (json!({"signal_name": "a", "source_identity": ""}), "source_identity"),
        (json!({"signal_name": "a", "subject": "x".repeat(257)}), "subject"),
        (json!({"signal_name": "a", "colour": "red"}), "colour"),
    ] {
        let refused = site.post(&path(x.id, &links), body).await;
        assert_eq!((refused.status, &refused.body["field"]), (400, &json!(field)), "{refused:?}");
    }
    let nowhere = format!("/waitpoints/{}/links", uuid::Uuid::from_u128(77));
    let refused = site.post(&path(x.id, &nowhere), json!({"signal_name": "a"})).await;
    assert_eq!((refused.status, refused.code()), (404, "waitpoint_not_found"));
}
