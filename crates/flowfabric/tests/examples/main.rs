//! The examples, run on every kind of store, and stopped at every point of every step.
#![allow(clippy::unwrap_used, missing_docs)]

mod everywhere;
mod flows;
mod late;
mod python;
mod stores;
mod waits;

#[path = "../../examples/agent.rs"]
mod agent;
#[path = "../../examples/deploy_approval.rs"]
mod deploy_approval;
#[path = "../../examples/media.rs"]
mod media;
#[path = "../../examples/orders.rs"]
mod orders;
#[path = "../../examples/race.rs"]
mod race;
#[path = "../../examples/webhook_callback.rs"]
mod webhook_callback;

use std::time::Duration;

use flowfabric::prelude::*;
use flowfabric::{Client, FlowWord};
use stores::every_place;

#[test]
fn the_examples_are_as_short_as_they_look() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |path: &str| std::fs::read_to_string(root.join(path)).unwrap();
    let hello = read("examples/hello.rs");
    assert!(hello.lines().count() <= 20);
    assert!(read("../../README.md").contains(&format!("```rust\n{hello}```")), "shown as it is");
    assert!(read("../../examples/python/worker.py").lines().count() <= 60);
}

#[tokio::test]
async fn an_order_is_fulfilled() {
    for at in every_place() {
        let place = at.open().await;
        let fabric = &place.fabric;
        let shop = orders::Shop::default();
        let worker = orders::worker(fabric, &shop).start().unwrap();
        let made = fabric.create("fulfil", orders::order()).lane("orders").await.unwrap();
        let receipt: orders::Receipt = made.result().await.unwrap();
        assert_eq!(receipt.paid, 900);
        assert_eq!(shop.deeds(), ORDERED);
        worker.stop().await.unwrap();
    }
}

/// What an order does to the world.
const ORDERED: [&str; 7] =
    ["charged", "invoiced", "notified", "packed", "reserved", "shipped", "validated"];

#[tokio::test]
async fn large_results_that_come_together_reach_a_server() {
    const HANDS: usize = 24;
    const LENGTH: usize = 900_000;
    async fn large(ctx: Context, (): ()) -> Result<String> {
        // All end at once, with more than a server takes in one request.
        ctx.state::<tokio::sync::Barrier>().wait().await;
        Ok("x".repeat(LENGTH))
    }
    let place = stores::At::Http.open().await;
    let worker = place.fabric.worker("default").state(tokio::sync::Barrier::new(HANDS));
    let worker = worker.handle("large", large).concurrency(HANDS).start().unwrap();
    let mut made = Vec::new();
    for _ in 0..HANDS {
        made.push(place.fabric.create("large", ()).await.unwrap());
    }
    for one in made {
        assert_eq!(one.result::<String>().await.unwrap().len(), LENGTH);
    }
    worker.stop().await.unwrap();
}

/// What is in the way of a server takes less than the server would: only what it does not take fails.
#[tokio::test]
async fn a_batch_of_reports_that_is_refused_fails_only_what_is_too_large() {
    const HANDS: usize = 24;
    async fn job(ctx: Context, length: usize) -> Result<String> {
        ctx.state::<tokio::sync::Barrier>().wait().await;
        Ok("x".repeat(length))
    }
    let limits = ff_server::Limits { body_bytes_max: 100_000, ..ff_server::Limits::default() };
    let place = stores::At::Http.open_with(limits).await;
    let worker = place.fabric.worker("default").state(tokio::sync::Barrier::new(HANDS));
    let worker = worker.handle("job", job).concurrency(HANDS).start().unwrap();
    let lengths = (0..HANDS).map(|n| if n == 7 { 300_000 } else { 30_000 });
    let drafts = lengths.map(|length| place.fabric.create("job", length).retries(3));
    for (n, made) in place.fabric.create_many(drafts).await.unwrap().into_iter().enumerate() {
        let made = made.unwrap();
        let state = made.wait(Duration::from_mins(1)).await.unwrap();
        assert_eq!(state == PublicState::Failed, n == 7, "{n}: {state}");
        if n == 7 {
            let failure = made.describe().await.unwrap().failure.unwrap();
            assert_eq!(failure.category, "result");
        }
    }
    worker.stop().await.unwrap();
}

#[tokio::test]
async fn a_worker_whose_token_is_refused_says_so_and_ends() {
    let token = Some("a-token-that-is-long-enough");
    let place = stores::At::Http.open_within(ff_server::Limits::default(), token).await;
    let idle = async |_: Context, (): ()| Ok::<_, Error>(());
    let sound = place.fabric.worker("default").handle("job", idle).start().unwrap();
    assert!(sound.health().is_ok());
    sound.stop().await.unwrap();
    let stranger = FlowFabric::connect(place.url(), Some("another-token".to_owned())).unwrap();
    let worker = stranger.worker("default").handle("job", idle).run();
    let refused = tokio::time::timeout(Duration::from_secs(20), worker).await.unwrap();
    assert_eq!(refused.unwrap_err().code(), Some("unauthorized"));
}

#[tokio::test]
async fn an_error_names_the_server_and_not_the_link() {
    let nowhere = FlowFabric::connect("http://127.0.0.1:1", None).unwrap();
    let error = nowhere.follow("http://127.0.0.1:1/v1/signals/c2VjcmV0", ()).await.unwrap_err();
    let said = format!("{error} {error:?}");
    assert!(said.contains("http://127.0.0.1:1") && !said.contains("c2VjcmV0"), "{said}");
}

#[tokio::test]
async fn an_order_without_items_fails_for_good() {
    for at in every_place() {
        let place = at.open().await;
        let fabric = &place.fabric;
        let shop = orders::Shop::default();
        let worker = orders::worker(fabric, &shop).start().unwrap();
        let order = orders::Order { items: [].into(), ..orders::order() };
        let made = fabric.create("fulfil", order).lane("orders").retries(3).await.unwrap();
        let error = made.result::<orders::Receipt>().await.unwrap_err();
        assert!(error.to_string().contains("failed"), "{error}");
        assert_eq!(shop.deeds(), Vec::<String>::new());
        worker.stop().await.unwrap();
    }
}

#[tokio::test]
async fn an_agent_comes_to_an_answer() {
    for at in every_place() {
        let place = at.open().await;
        let fabric = &place.fabric;
        let model = agent::Model::default();
        let worker = agent::worker(fabric, &model).start().unwrap();
        let made = fabric.create("plan", "a weekend in Lisbon").lane("agents").await.unwrap();
        let answer: String = made.result().await.unwrap();
        assert!(answer.contains("24 degrees") && answer.contains("80 a night"), "{answer}");
        assert_eq!(model.asked(), 4);
        worker.stop().await.unwrap();
    }
}

/// What a film is delivered as.
fn packaged() -> media::Package {
    let files = ["metropolis: 1080p.0+1080p.1", "metropolis: 480p.0+480p.1"].map(str::to_owned);
    media::Package { files: files.into(), subtitles: None }
}

/// Members of its flow: four nodes and one for each size, its chunks, and the announcement.
const MEDIA_MEMBERS: u64 = 10;

#[tokio::test]
async fn a_film_is_packaged_without_subtitles() {
    for at in every_place() {
        let place = at.open().await;
        let fabric = &place.fabric;
        let worker = media::worker(fabric).start().unwrap();
        let flow = media::submit(fabric, "metropolis.mov").await.unwrap();
        assert_eq!(flow.result::<media::Package>("package").await.unwrap(), packaged());
        assert_eq!(flow.ended().await.unwrap(), FlowWord::Failed, "the subtitles did");
        let summary = flow.summary().await.unwrap();
        assert_eq!((summary.total_members, summary.members_failed), (MEDIA_MEMBERS, 1));
        assert_eq!(summary.members_completed, MEDIA_MEMBERS - 1);
        worker.stop().await.unwrap();
    }
}

#[tokio::test]
async fn the_fastest_model_answers_and_the_others_stop_thinking() {
    for at in every_place() {
        let place = at.open().await;
        let stopped = race::Stopped::default();
        let worker = race::worker(&place.fabric, &stopped).start().unwrap();
        let asked = place.fabric.create("ask", "What is six times seven?").await.unwrap();
        let answer: String = asked.result().await.unwrap();
        assert_eq!(answer, "small says: What is six times seven? Forty-two.");
        worker.stop().await.unwrap();
        assert_eq!(stopped.models(), ["huge", "large"], "{at:?}");
    }
}

/// What is to be deployed.
fn wish() -> deploy_approval::Wish {
    deploy_approval::Wish { version: "17.2".to_owned(), requested_by: "cleo".to_owned() }
}

/// What comes of it when two approve.
fn deployed() -> &'static str {
    "17.2 runs on 2 machines: approved by ann, approved by bob"
}

#[tokio::test]
async fn a_deployment_waits_for_two_people() {
    for at in every_place() {
        let place = at.open().await;
        let machines = deploy_approval::Machines::default();
        let worker = deploy_approval::worker(&place.fabric, &machines).start().unwrap();
        let made = place.fabric.create("deploy", wish()).lane("deployments").await.unwrap();
        assert!(deploy_approval::asked(&made).await.unwrap().contains("17.2"), "{at:?}");
        for who in ["cleo", "ann"] {
            made.approve(who).await.unwrap();
        }
        assert_eq!(machines.deployments(), 0, "{at:?}: she may not approve her own wish");
        made.approve("bob").of(deploy_approval::plan_of("17.2")).await.unwrap();
        assert_eq!(made.result::<String>().await.unwrap(), deployed(), "{at:?}");
        let made = place.fabric.create("deploy", wish()).lane("deployments").await.unwrap();
        deploy_approval::asked(&made).await.unwrap();
        made.reject("bob").await.unwrap();
        let said: String = made.result().await.unwrap();
        assert_eq!(said, "17.2 stays away: rejected by bob", "{at:?}");
        assert_eq!(machines.deployments(), 1, "{at:?}");
        worker.stop().await.unwrap();
    }
}

/// What comes of a checkout.
fn shipped() -> &'static str {
    "4200 cents paid (P-1): shipped"
}

#[tokio::test]
async fn a_provider_calls_back() {
    for at in every_place() {
        let place = at.open().await;
        let (provider, charges) = webhook_callback::Provider::new();
        let web = Client::clone(&place.fabric);
        let providing = tokio::spawn(webhook_callback::provide(web, charges));
        let worker = webhook_callback::worker(&place.fabric, &provider).start().unwrap();
        let made = place.fabric.create("checkout", 4_200).lane("shop").await.unwrap();
        assert_eq!(made.result::<String>().await.unwrap(), shipped(), "{at:?}");
        worker.stop().await.unwrap();
        drop(provider);
        providing.await.unwrap().unwrap();
    }
}
