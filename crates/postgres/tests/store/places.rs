//! What a deployment chooses: schemas, roles, versions, addresses.

use std::sync::Arc;

use ff_backend_postgres::{Options, Postgres, SCHEMA_VERSION, Standing};
use ff_conformance::model::Tables;
use ff_conformance::{Dial, Dice, Store, World};
use ff_core::ExecutionId;
use ff_core::backend::StoreError;
use ff_core::decide::create::Create;
use ff_core::event::Filter;
use ff_core::query::Search;
use futures_util::future::join_all;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::json;

use crate::server::{self, Schema, connect};
use crate::stores::unique;

/// A store at a URL.
pub async fn open(url: &str, schema: Option<&str>) -> Result<World, StoreError> {
    let clock = Arc::new(Dial::default());
    let options = Options {
        schema: schema.map(str::to_owned),
        clock: Some(Arc::clone(&clock) as _),
        entropy: Box::new(Dice::new(1)),
        ..Options::new(url)
    };
    let backend = Arc::new(Postgres::open(options).await?);
    let store = Store { backend, dump: Box::new(Tables::default), keep: Box::new(()) };
    Ok(World::new(store, clock))
}

/// Creates, claims, completes and hears of it.
pub async fn story(w: &World) -> ExecutionId {
    let id = w.finished(json!({})).await;
    assert_eq!(w.heard(&Filter::default()).await, [id]);
    id
}

/// A name that no schema has yet.
fn absent() -> String {
    format!("p_{}", unique().simple())
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

async fn exists(schema: &str) -> bool {
    let sql = "select exists (select 1 from pg_namespace where nspname = $1)";
    connect().await.query_one(sql, &[&schema]).await.unwrap().get(0)
}

async fn drop_schema(name: &str) {
    let sql = format!("drop schema {} cascade", quoted(name));
    connect().await.batch_execute(&sql).await.unwrap();
}

fn message(error: &StoreError) -> &str {
    let StoreError::Transport { cause } = error else { panic!("{error}") };
    cause
}

#[tokio::test]
async fn a_schema_may_have_any_name_and_is_made_when_absent() {
    let unique = absent();
    for odd in [
        "Upper Case",
        "it's \"quoted\"",
        "dots.and, commas; -- ",
        "back\\slash\\ ",
        "$user $1 %20 ",
        "a=b&c?d#e/f@g:h",
        "größe 行列 ✓",
        "tab\tline\nend\r",
        "select",
    ] {
        let name = format!("{odd}{unique}");
        assert!(!exists(&name).await);
        let id = story(&open(server::url(), Some(&name)).await.unwrap()).await;
        assert!(exists(&name).await, "{name}");
        // The same name in the URL leads to the same place, with and without a pooler.
        let encoded = utf8_percent_encode(&name, NON_ALPHANUMERIC);
        for pooled in ["false", "true"] {
            let url = format!("{}?schema={encoded}&pooled={pooled}", server::url());
            let again = open(&url, None).await.unwrap();
            assert_eq!(again.heard(&Filter::default()).await, [id], "{name}");
        }
        drop_schema(&name).await;
    }
}

#[tokio::test]
async fn two_schemas_of_one_database_know_nothing_of_each_other() {
    let (first, second) = (Schema::empty(), Schema::empty());
    let one = open(server::url(), Some(&first.name)).await.unwrap();
    let other = open(server::url(), Some(&second.name)).await.unwrap();
    let waiting = one.create(one.draft()).await;
    assert_eq!(other.find(waiting).await, None);
    assert!(other.claim_one().await.is_none());
    let done = story(&other).await;
    assert_eq!(one.find(done).await, None);
    assert!(one.heard(&Filter::default()).await.is_empty());
    assert_eq!(one.search(Search::default()).await, [waiting]);
    // The same id may stand for something in each.
    let twin = other.create(Create { id: waiting, ..other.draft() }).await;
    other.cancel(twin).await.unwrap();
    one.take(waiting).await;
}

/// A role of its own, as the URL of a database in which it has no rights yet.
async fn role(name: &str) -> String {
    let (login, place) = server::url().split_once("://").unwrap().1.rsplit_once('@').unwrap();
    let secret = login.split_once(':').map(|(_, secret)| secret);
    let password = secret.map(|secret| format!("password '{secret}'")).unwrap_or_default();
    let sql = format!("create role {name} login {password}");
    connect().await.batch_execute(&sql).await.unwrap();
    let colon = secret.map(|secret| format!(":{secret}")).unwrap_or_default();
    format!("postgres://{name}{colon}@{place}")
}

async fn drop_role(name: &str) {
    let sql = format!("drop owned by {name} cascade; drop role {name}");
    connect().await.batch_execute(&sql).await.unwrap();
}

#[tokio::test]
async fn a_role_that_owns_its_schema_needs_no_other_right() {
    let schema = absent();
    let name = format!("owner_{schema}");
    let url = role(&name).await;
    let sql = format!("create schema {schema} authorization {name}");
    connect().await.batch_execute(&sql).await.unwrap();
    let w = open(&url, Some(&schema)).await.unwrap();
    story(&w).await;
    drop(w);
    drop_role(&name).await;
}

#[tokio::test]
async fn a_role_that_may_only_change_rows_works_on_a_migrated_schema() {
    let schema = absent();
    let name = format!("worker_{schema}");
    let url = role(&name).await;
    Postgres::migrate(&format!("{}?schema={schema}", server::url())).await.unwrap();
    let sql = format!(
        "grant usage on schema {schema} to {name}; \
        grant select, insert, update, delete on all tables in schema {schema} to {name}; \
        grant select on all sequences in schema {schema} to {name}"
    );
    connect().await.batch_execute(&sql).await.unwrap();
    let w = open(&url, Some(&schema)).await.unwrap();
    story(&w).await;
    drop(w);
    drop_role(&name).await;
    drop_schema(&schema).await;
}

#[tokio::test]
async fn a_role_that_may_not_make_the_schema_is_told_so() {
    let schema = absent();
    let name = format!("nobody_{schema}");
    let url = role(&name).await;
    let error = open(&url, Some(&schema)).await.err().unwrap();
    assert!(message(&error).contains("permission denied"), "{error}");
    assert!(!exists(&schema).await);
    drop_role(&name).await;
}

#[tokio::test]
async fn a_schema_of_a_newer_version_is_refused_and_left_alone() {
    let schema = absent();
    let url = format!("{}?schema={schema}", server::url());
    Postgres::migrate(&url).await.unwrap();
    let newer = SCHEMA_VERSION + 1;
    let db = connect().await;
    let tamper = format!(
        "set search_path = {schema}; insert into refinery_schema_history \
        select {newer}, 'later', applied_on, '1' from refinery_schema_history limit 1"
    );
    db.batch_execute(&tamper).await.unwrap();
    let look = "select version, name, applied_on, checksum from refinery_schema_history order by 1";
    let history = async || format!("{:?}", db.query(look, &[]).await.unwrap().len());
    let before = history().await;
    let refused = Err(StoreError::SchemaTooNew { found: newer, known: SCHEMA_VERSION });
    assert_eq!(open(&url, None).await.map(drop), refused);
    assert_eq!(Postgres::migrate(&url).await, refused);
    assert_eq!(Postgres::standing(&url).await.map(drop), refused);
    assert_eq!(history().await, before);
    drop_schema(&schema).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_schema_may_be_opened_by_many_at_once() {
    for _ in 0..3 {
        let schema = absent();
        let opened = join_all((0..10).map(|_| open(server::url(), Some(&schema)))).await;
        let worlds: Vec<World> = opened.into_iter().map(Result::unwrap).collect();
        let id = story(&worlds[0]).await;
        for w in &worlds {
            assert!(w.find(id).await.is_some());
        }
        drop(worlds);
        drop_schema(&schema).await;
    }
}

#[tokio::test]
async fn where_a_schema_stands_is_told_without_changing_it() {
    let schema = absent();
    let url = format!("{}?schema={schema}", server::url());
    let old = ["executions", "flows", "suspensions", "lean_rows", "leaner_rows", "lean_waits"];
    let names = old.into_iter().chain(["result_digests", "step_outcomes"]);
    let missing = (1..).zip(names).map(|(number, name)| (number, name.to_owned())).collect();
    let nothing = Ok(Standing { version: 0, missing });
    assert_eq!(Postgres::standing(&url).await, nothing);
    assert!(!exists(&schema).await);
    let db = connect().await;
    db.batch_execute(&format!("create schema {schema}")).await.unwrap();
    assert_eq!(Postgres::standing(&url).await, nothing);
    let tables = "select count(*) from pg_class c join pg_namespace n on n.oid = c.relnamespace \
        where n.nspname = $1";
    assert_eq!(db.query_one(tables, &[&schema]).await.unwrap().get::<_, i64>(0), 0);
    Postgres::migrate(&url).await.unwrap();
    let done = Standing { version: SCHEMA_VERSION, missing: Vec::new() };
    assert_eq!(Postgres::standing(&url).await, Ok(done));
    drop_schema(&schema).await;
}

#[tokio::test]
async fn a_malformed_address_is_refused_with_a_word_on_what_to_do() {
    for (url, word) in [
        ("", "postgres://user@host/database"),
        ("nonsense", "malformed"),
        ("mysql://u@127.0.0.1/db", "malformed"),
        ("postgres://127.0.0.1/db", "postgres://user@host/database"),
        ("postgres://u@127.0.0.1:port/db", "port"),
        ("postgres://u@127.0.0.1/db?sslmode=verify-ca", "disable, prefer, require and verify-full"),
        ("postgres://u@127.0.0.1/db?sslmode=", "disable, prefer, require and verify-full"),
        ("postgres://u@127.0.0.1/db?pooled=maybe", "neither true nor false"),
        ("postgres://u@127.0.0.1/db?schema=", "1 to 63 bytes"),
        ("postgres://u@127.0.0.1/db?schema=%ff", "schema"),
        ("postgres://u@127.0.0.1/db?colour=blue", "colour"),
        ("postgres://u@127.0.0.1/db?sslmode=verify-full&sslrootcert=/nowhere", "/nowhere"),
    ] {
        let error = open(url, None).await.err().unwrap();
        assert!(message(&error).contains(word), "{url}: {error}");
    }
    let long = "x".repeat(64);
    let error = open("postgres://u@127.0.0.1/db", Some(&long)).await.err().unwrap();
    assert!(message(&error).contains("1 to 63 bytes"), "{error}");
    let error = open("postgres://u@127.0.0.1:1/db", None).await.err().unwrap();
    assert!(message(&error).contains("cannot connect to the database"), "{error}");
}
