//! Flows on the page: a list, and each as a graph that follows what happens.

use ff_core::flow::FlowWord;
use flowfabric::node;
use serde_json::{Value, json};

use crate::browser::Browser;
use crate::world::World;

/// The kinds of all flows, newest first.
const KINDS: &str =
    "[...document.querySelectorAll('#flow-rows .kind')].map((kind) => kind.textContent)";

/// The states of all nodes, by name.
const STATES: &str = "Object.fromEntries([...document.querySelectorAll('svg.graph .node')].map(
    (node) => [node.querySelector('.name').textContent, [...node.classList].at(-1)]))";

fn count(selector: &str) -> String {
    format!("document.querySelectorAll({}).length", json!(selector))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_list_of_flows_follows_them_and_keeps_its_filter() {
    let world = World::new().await;
    let mut page = Browser::start();
    page.open(&world.url);
    page.click("#tabs [href='#/flows']");
    page.until("document.querySelector('#flow-foot h3')?.textContent === 'No flows yet'");
    let fan = world.fan(3).await.unwrap();
    page.until(&format!("JSON.stringify({KINDS}) === '[\"fan\"]'"));
    page.until("document.querySelector('#flow-rows .progress-line').innerText === '0 of 6'");
    fan.cancel("the customer left").await.unwrap();
    page.until("document.querySelector('#flow-rows .state').textContent === 'cancelled'");
    page.until("document.querySelector('#flow-rows .progress-line').innerText === '6 of 6'");
    page.until("document.querySelector('#flow-rows').innerText.includes('the customer left')");
    world.fabric.flow("lone").node(node("a", "import", ()).lane("bulk")).await.unwrap();
    page.until(&format!("JSON.stringify({KINDS}) === '[\"lone\",\"fan\"]'"));

    page.click("#flow-states .is-cancelled");
    page.until("location.hash === '#/flows?state=cancelled'");
    page.until(&format!("JSON.stringify({KINDS}) === '[\"fan\"]'"));
    page.click("#flow-filters [name=tag]");
    page.enter("shop.customer:ada");
    page.until("location.hash === '#/flows?state=cancelled&tag=shop.customer%3Aada'");
    page.call("Page.reload", json!({}));
    page.until(&format!("JSON.stringify({KINDS}) === '[\"fan\"]'"));
    page.click("#flow-clear");
    page.until(&format!("{KINDS}.length === 2"));
    page.click("#flow-rows .kind");
    page.until("document.querySelector('#flow-view h1')?.textContent === 'lone'");
    page.is_clean(&world.url);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_graph_shows_what_its_nodes_do_while_they_do_it() {
    let world = World::new().await;
    let mut page = Browser::start();
    world.free_the_gate().await;
    let fan = world.fan(4).await.unwrap();
    page.open(&world.page_of_flow(&fan));
    page.until(&format!(
        "{} === 7 && {} === 9",
        count("svg.graph .node"),
        count("svg.graph .edge")
    ));
    page.until(&format!("{STATES}.first === 'is-active'"));
    assert_eq!(page.get(&format!("{STATES}.last")), "is-waiting_children");
    let joins = "[...document.querySelectorAll('.join-text')].map((join) => join.textContent)";
    assert_eq!(page.get(joins), json!(["3 of 4"]));
    page.get("window.node = document.querySelector('svg.graph .node'); 0");

    // One permit is one member that ends.
    world.gate.add_permits(1);
    page.until(&format!("{STATES}.first === 'is-completed' && {STATES}['part-1'] === 'is-active'"));
    page.until(&format!("{STATES}['part-0'] === 'is-failed' && {STATES}.then === 'is-skipped'"));
    page.until("document.querySelector('.buckets').innerText.includes('skipped')");
    assert_eq!(page.get("node.isConnected"), true);
    world.gate.add_permits(4);
    page.until("document.querySelector('#flow-view .head-line .state').textContent === 'failed'");
    assert_eq!(fan.ended().await.unwrap(), FlowWord::Failed);
    page.until(&format!("{} === 7", count(".edge.state-satisfied")));
    page.until(&format!("{} === 2", count(".edge.state-impossible")));
    assert_eq!(page.get("document.title"), "fan · failed · FlowFabric");

    page.click("[data-bucket=skipped]");
    page.until(&format!("{} === 1", count("table.members tbody tr")));
    page.click("svg.graph .node.is-failed");
    page.until("document.querySelector('#execution-view h1')?.textContent === 'broken'");
    page.click("#execution-view .to-flow");
    page.until(&format!("{} === 7", count("svg.graph .node")));
    page.is_clean(&world.url);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_stream_of_events_alone_keeps_a_graph_up_to_date() {
    let world = World::new().await;
    let mut page = Browser::start();
    // Without the timers that make it read again now and then, only events are left: what they lead to
    // may be put off for longer where reading takes long.
    let quiet = "const later = setTimeout;
        window.setTimeout = (call, ms, ...more) =>
            ms < 1000 || call === refresh ? later(call, ms, ...more) : 0;";
    page.call("Page.addScriptToEvaluateOnNewDocument", json!({"source": quiet}));
    world.free_the_gate().await;
    let fan = world.fan(2).await.unwrap();
    page.open(&world.page_of_flow(&fan));
    page.until(&format!("stream.open && {STATES}.first"));
    world.gate.add_permits(1);
    page.until(&format!("{STATES}.first === 'is-completed'"));
    fan.cancel("never mind").await.unwrap();
    page.until(&format!("{STATES}['part-1'] === 'is-cancelled'"));
    page.until("document.querySelector('#flow-view').innerText.includes('never mind')");
    page.is_clean(&world.url);
}

#[tokio::test(flavor = "multi_thread")]
async fn graphs_of_every_size_fit_their_window() {
    let world = World::new().await;
    let mut page = Browser::start();
    let chain = (0..30).map(|number| {
        let stage = node(format!("stage-{number}"), "import", ()).lane("bulk");
        if number == 0 { stage } else { stage.after(format!("stage-{}", number - 1)) }
    });
    let chain = world.fabric.flow("chain").nodes(chain).await.unwrap();
    let (small, wide, large) = (world.fan(3), world.fan(100), world.fan(400));
    for (flow, nodes) in [
        (chain, 30),
        (small.await.unwrap(), 6),
        (wide.await.unwrap(), 103),
        // Too many to be drawn.
        (large.await.unwrap(), 0),
    ] {
        page.open(&world.page_of_flow(&flow));
        page.until(&format!("{} > 0", count("table.members tbody tr")));
        assert_eq!(page.get(&count("svg.graph .node")), nodes);
        let mut seen = [Value::Null, Value::Null];
        for (scheme, seen) in ["light", "dark"].into_iter().zip(&mut seen) {
            let feature = json!([{"name": "prefers-color-scheme", "value": scheme}]);
            page.call("Emulation.setEmulatedMedia", json!({"features": feature}));
            *seen = page.get("getComputedStyle(document.body).backgroundColor");
        }
        assert_ne!(seen[0], seen[1]);
        for width in [360, 1280] {
            page.width(width);
            page.until(&format!("innerWidth === {width}"));
            page.until("document.documentElement.scrollWidth <= innerWidth");
        }
        if nodes > 100 {
            let drawn = "document.querySelector('svg.graph').getBoundingClientRect()";
            assert!(page.get(&format!("{drawn}.height")).as_f64().unwrap() > 3_000.0);
            page.click("[data-scale=fit]");
            page.until(&format!("{drawn}.height <= innerHeight"));
        }
    }
    page.is_clean(&world.url);
}
