//! Signing keys: replaced by operators, and given to a store that has none when a server starts.

use expect_test::expect;
use ff_server::{Options, ServeError, SigningKey, serve};
use reqwest::Method;
use serde_json::json;
use tokio::net::TcpListener;

use crate::refusals::wrapped;
use crate::signals::signal;
use crate::site::{Site, path};
use crate::suspensions::{any, tells, waiting};

/// A secret that must never be seen.
fn secret() -> String {
    "c0ffee00".repeat(8)
}

#[tokio::test]
async fn a_key_is_replaced_and_the_old_one_keeps_its_word_for_a_while() {
    let site = Site::open().await;
    assert_eq!(site.get("/v1/signing-keys").await.body, json!({"keys": []}));
    let x = waiting(&site, 1, &any()).await;
    let rotate = json!({"new_kid": "2026-11", "secret_hex": secret(), "grace_ms": 100});
    let rotated = site.post("/v1/signing-keys/rotate", rotate.clone()).await;
    tells(
        &rotated,
        &expect![[r#"
        200
        {
          "gc_count": 0,
          "new_kid": "2026-11",
          "previous_kid": "k1",
          "status": "rotated"
        }
    "#]],
    );
    let again = site.post("/v1/signing-keys/rotate", rotate).await;
    assert_eq!(again.body, json!({"status": "noop", "kid": "2026-11"}));
    tells(
        &site.get("/v1/signing-keys").await,
        &expect![[r#"
        200
        {
          "keys": [
            {
              "created_at": 1700000000000,
              "kid": "2026-11"
            },
            {
              "created_at": 1700000000000,
              "expires_at": 1700000000100,
              "kid": "k1"
            }
          ]
        }
    "#]],
    );
    site.clock.advance(101);
    let late = site.post(&path(x.id, "/signals"), signal(&x)).await;
    assert_eq!((late.status, late.code()), (403, "token_expired"));
    let token = format!("/waitpoints/{}/token", x.waitpoint.as_str().unwrap());
    let other = site.get(&path(x.id, &token)).await.body["token"].clone();
    assert!(other.as_str().unwrap().starts_with("2026-11:"), "{other}");
    let tokens: [_; 2] = [&x.token, &other].map(|token| token.as_str().unwrap());
    let next = json!({"new_kid": "2026-12", "secret_hex": "00".repeat(32)});
    let rotated = site.post("/v1/signing-keys/rotate", next).await.body;
    assert_eq!((&rotated["previous_kid"], &rotated["gc_count"]), (&json!("2026-11"), &json!(1)));
    // The key that signed it first is forgotten. The one before this is still accepted.
    let last = site.get(&path(x.id, &token)).await.body["token"].clone();
    assert!(
        last.as_str().unwrap().starts_with("2026-12:") && !tokens.contains(&last.as_str().unwrap())
    );
    let mut sent = signal(&x);
    sent["waitpoint_token"] = other;
    assert_eq!(site.post(&path(x.id, "/signals"), sent).await.body["status"], "accepted");
    let keys = site.get("/v1/signing-keys").await.body;
    let installed = keys["keys"][0]["created_at"].as_i64().unwrap();
    assert_eq!(keys["keys"][1]["expires_at"], json!(installed + 86_400_000));
}

#[tokio::test]
async fn a_key_that_cannot_be_one_is_refused_without_its_secret() {
    let site = Site::open().await;
    let first = json!({"new_kid": "k1", "secret_hex": secret()});
    site.post("/v1/signing-keys/rotate", first).await;
    let other = format!("{}ff", secret());
    for (body, status, code, field) in [
        (json!({"new_kid": "a:b", "secret_hex": secret()}), 400, "invalid_kid", "new_kid"),
        (json!({"new_kid": "", "secret_hex": secret()}), 400, "invalid_kid", "new_kid"),
        (
            json!({"new_kid": "k2", "secret_hex": "c0ffee0"}),
            400,
            "invalid_secret_hex",
            "secret_hex",
        ),
        (json!({"new_kid": "k2", "secret_hex": ""}), 400, "invalid_secret_hex", "secret_hex"),
        (
            json!({"new_kid": "k2", "secret_hex": "00".repeat(15)}),
            400,
            "invalid_secret_hex",
            "secret_hex",
        ),
        (json!({"new_kid": "k2", "secret_hex": 12_648_430}), 400, "invalid_input", "secret_hex"),
        (
            json!({"new_kid": "k2", "secret_hex": secret(), "grace_ms": u64::MAX}),
            400,
            "invalid_grace_ms",
            "grace_ms",
        ),
        (json!({"new_kid": "k1", "secret_hex": other}), 409, "rotation_conflict", "new_kid"),
        (
            json!({"new_kid": "k2", "secret_hex": secret(), "colour": 1}),
            400,
            "invalid_input",
            "colour",
        ),
    ] {
        let refused = site.post("/v1/signing-keys/rotate", body).await;
        assert_eq!((refused.status, refused.code()), (status, code), "{refused:?}");
        assert_eq!(refused.body["field"], field, "{refused:?}");
        let text = refused.body.to_string();
        assert!(!text.contains("c0ffee") && !text.contains("12648430"), "{text}");
    }
    let kept = site.ask(site.request(Method::GET, "/v1/signing-keys")).await.body.to_string();
    assert!(!kept.contains("c0ffee"), "{kept}");
}

/// Serves an engine for a moment, with this first key.
async fn served(site: &Site, key: &str) -> Result<(), ServeError> {
    let mut options = Options::new(site.engine.clone(), "model");
    options.signing_key = Some(SigningKey::parse(key).unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    serve(listener, options, std::future::ready(())).await.map(drop)
}

#[tokio::test]
async fn a_server_gives_a_store_its_first_key_and_never_another() {
    let site = Site::open().await;
    let first = format!("prod:{}", secret());
    served(&site, &first).await.unwrap();
    assert_eq!(site.get("/v1/signing-keys").await.body["keys"][0]["kid"], "prod");
    // A restart changes nothing.
    served(&site, &first).await.unwrap();
    let other = served(&site, &format!("next:{}", secret())).await.unwrap_err().to_string();
    expect![[r#"
        cannot sign with the key of FLOWFABRIC_SIGNING_KEY: kid "next" is not the current key
              "prod"; use rotate (POST /v1/signing-keys/rotate)
    "#]]
    .assert_eq(&wrapped(&other));
    let odd = served(&site, &format!("prod:{}", "00".repeat(32))).await.unwrap_err().to_string();
    expect![[r#"
        cannot sign with the key of FLOWFABRIC_SIGNING_KEY: kid "prod" is stored with another
              secret; rotate to a key with a new name
    "#]]
    .assert_eq(&wrapped(&odd));
    // Once it was replaced, a server that still has it starts.
    let next = json!({"new_kid": "next", "secret_hex": "00".repeat(32)});
    site.post("/v1/signing-keys/rotate", next).await;
    served(&site, &first).await.unwrap();
    assert_eq!(site.get("/v1/signing-keys").await.body["keys"][0]["kid"], "next");
}
