//! The examples, run on every kind of store, and stopped at every point of every step.
#![allow(clippy::unwrap_used, missing_docs)]

mod everywhere;
mod flows;
mod python;
mod stores;

#[path = "../../examples/agent.rs"]
mod agent;
#[path = "../../examples/media.rs"]
mod media;
#[path = "../../examples/orders.rs"]
mod orders;
#[path = "../../examples/race.rs"]
mod race;

use flowfabric::FlowWord;
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
