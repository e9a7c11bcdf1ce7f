//! The examples, run on every kind of store, and stopped at every point of every step.
#![allow(clippy::unwrap_used, missing_docs)]

mod everywhere;
mod python;
mod stores;

#[path = "../../examples/agent.rs"]
mod agent;
#[path = "../../examples/orders.rs"]
mod orders;

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
