//! Waiting on the page: an inbox that answers, and executions that go on.

use ff_core::state::PublicState;
use flowfabric::{Context, FlowFabric, Result, ResumeCondition, Running, node};
use serde_json::{Value, json};

use crate::browser::Browser;
use crate::world::World;

/// What would run if it were taken for markup, and what would turn what follows it around.
const HOSTILE: &str =
    "<img src=x onerror=\"window.hacked=1\"><script>window.hacked=1</script>\u{202e}";

const NOBODY: &str =
    "document.querySelector('#inbox-foot h3')?.textContent === 'Nobody is waited for'";
const STATE: &str = "document.querySelector('#execution-view .head-line .state')?.textContent";

/// Works on whatever waits for people.
fn desk(fabric: &FlowFabric) -> Running {
    let desk = fabric.worker("desk").name("desk").instance("desk-1");
    let desk = desk.handle("deploy", deploy).handle("order", order).handle("stuck", stuck);
    desk.start().unwrap()
}

async fn deploy(ctx: Context, subject: Value) -> Result<String> {
    let asked = ctx.approval("go live").of(subject).needs(2).not_by("dave").await?;
    let who: Vec<_> = asked.voices.iter().map(|voice| voice.who.as_str()).collect();
    Ok(format!("{}: {}", if asked.approved { "shipped" } else { "dropped" }, who.join(" and ")))
}

async fn order(ctx: Context, (): ()) -> Result<Value> {
    Ok(ctx.wait_for("payment").signal("paid").await?)
}

async fn stuck(ctx: Context, (): ()) -> Result<&'static str> {
    ctx.try_suspend(ResumeCondition::OperatorOnly).await?;
    Ok("freed")
}

/// Empties a field and types into it, ending with Enter.
fn fill(page: &mut Browser, field: &str, text: &str) {
    page.click(field);
    page.get(&format!("document.querySelector({}).select(); 0", json!(field)));
    page.enter(text);
}

/// A card leaves the inbox, and after that its buttons wait a moment for the hand.
fn settled(page: &mut Browser) {
    page.until("performance.now() > movedAt + MOVED_MS");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decision_is_taken_on_the_page_and_the_execution_goes_on() {
    let world = World::new().await;
    let _desk = desk(&world.fabric);
    let mut page = Browser::start();
    page.open(&world.url);
    page.click("#tabs [href='#/inbox']");
    page.until(NOBODY);
    let subject = json!({"release": HOSTILE, "build": 12_345_678_901_234_567_890_u64});
    let made = world.fabric.create("deploy", subject).lane("desk").await.unwrap();
    page.until("document.querySelectorAll('.inbox-card').length === 1");
    page.until("document.querySelector('.inbox-card .kind').textContent === 'deploy'");
    page.until("document.querySelector('#inbox-count').textContent === '1'");
    // What came from outside is text, all of it, in the order in which it was written.
    let shown = page.get("document.querySelector('.ask pre').textContent");
    let shown = shown.as_str().unwrap();
    assert!(shown.contains("<script>window.hacked=1</script>\\u202e"), "{shown}");
    assert!(shown.contains("12345678901234567890"), "{shown}");
    assert_eq!(page.get("document.querySelectorAll('#inbox img, #inbox script').length"), 0);
    assert_eq!(page.get("typeof window.hacked"), "undefined");

    // Enter in a field decides nothing, and without a name nobody does.
    page.click(".inbox-card .approve");
    fill(&mut page, ".inbox-card [name=by]", "ann");
    fill(&mut page, ".inbox-card [name=comment]", "looks fine");
    let tally = "document.querySelector('.tally').textContent";
    assert!(page.get(tally).as_str().unwrap().starts_with("0 of 2 approved"));
    assert!(!page.requests().iter().any(|url| url.ends_with("/decisions")));
    page.click(".inbox-card .approve");
    page.until(&format!("{tally}.startsWith('1 of 2 approved: ann')"));
    page.until("document.querySelector('#said').textContent.includes('needs more')");
    // Who she is stays known, and her word counts once.
    page.call("Page.reload", json!({}));
    page.until("document.querySelector('.inbox-card [name=by]')?.value === 'ann'");
    page.click(".inbox-card .approve");
    page.until("document.querySelector('.inbox-card .refused')?.textContent.includes('before')");
    fill(&mut page, ".inbox-card [name=by]", "dave");
    page.click(".inbox-card .approve");
    page.until("document.querySelector('.inbox-card .refused')?.textContent.includes('dave')");
    fill(&mut page, ".inbox-card [name=by]", "bob");
    page.click(".inbox-card .approve");
    page.until(NOBODY);
    page.until("document.querySelector('#inbox-count').hidden");
    assert_eq!(made.result::<String>().await.unwrap(), "shipped: ann and bob");

    page.open(&world.page_of(&made));
    page.until(&format!("{STATE} === 'completed'"));
    page.until("document.querySelectorAll('.line.signal').length === 3");
    // The question is drawn as the time it took, the answer stands at its end.
    assert_eq!(page.get("document.querySelectorAll('svg.timeline .kind-wait').length"), 2);
    let text = "document.querySelector('#execution-view').textContent";
    for told in ["approved from ann: counted", "approved from bob: it goes on", "looks fine"] {
        page.until(&format!("{text}.includes('{told}')"));
    }
    page.is_clean(&world.url);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_and_a_reason_let_an_execution_go_on() {
    let world = World::new().await;
    let _desk = desk(&world.fabric);
    let order = world.fabric.create("order", ()).lane("desk").await.unwrap();
    let mut page = Browser::start();
    page.open(&format!("{}/#/inbox", world.url));
    page.until("document.querySelector('.tally')?.textContent === 'payment wants paid'");
    page.click(".send summary");
    fill(&mut page, ".send [name=by]", "bank");
    // A line break in the payload: it sends nothing either.
    fill(&mut page, ".send [name=payload]", "{oops");
    page.click(".send .primary");
    page.until("document.querySelector('.send .refused')?.textContent.includes('not JSON')");
    fill(&mut page, ".send [name=payload]", "{\"sum\": 12345678901234567890}");
    // What is typed survives what happens meanwhile.
    let stuck = world.fabric.create("stuck", ()).lane("desk").await.unwrap();
    page.until("document.querySelectorAll('.inbox-card').length === 2");
    page.click(".send .primary");
    page.until("document.querySelectorAll('.inbox-card').length === 1");
    let sum = order.result::<Value>().await.unwrap();
    assert_eq!(sum, json!({"sum": 12_345_678_901_234_567_890_u64}));
    settled(&mut page);

    page.click(".inbox-card .kind");
    page.until(&format!("{STATE} === 'suspended'"));
    page.until("document.querySelector('.waits dd').textContent === 'an operator'");
    page.until("document.querySelector('.back').textContent === 'Waiting for people'");
    fill(&mut page, ".waits [name=reason]", "checked by hand");
    page.click(".waits .answer-resume .buttons button");
    page.until(&format!("{STATE} === 'completed'"));
    page.until("document.querySelector('#execution-view').textContent.includes('checked by hand')");
    assert_eq!(stuck.ended().await.unwrap(), PublicState::Completed);
    page.is_clean(&world.url);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_suspended_is_seen_in_lists_graphs_and_narrow_windows() {
    let world = World::new().await;
    let _desk = desk(&world.fabric);
    let subject = format!("{HOSTILE}{}", "x".repeat(300));
    let ask = node("ask", "deploy", subject).lane("desk");
    let flow = world.fabric.flow("release").node(ask).await.unwrap();
    let mut page = Browser::start();
    page.open(&world.page_of_flow(&flow));
    page.until("document.querySelector('.node.is-suspended .line')?.textContent === 'waiting for approval'");
    page.until("document.querySelector('.buckets').textContent.includes('suspended1')");
    page.open(&format!("{}/#/executions?state=suspended", world.url));
    page.until("document.querySelector('#rows .c-note')?.textContent === 'waiting for approval'");
    page.open(&format!("{}/#/inbox", world.url));
    page.until("document.querySelector('.ask pre')");
    let colours = "getComputedStyle(document.querySelector('.inbox-card')).backgroundColor";
    let mut seen = Vec::new();
    for scheme in ["light", "dark"] {
        let feature = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        page.call("Emulation.setEmulatedMedia", json!({"features": feature}));
        seen.push(page.get(colours));
    }
    assert_ne!(seen[0], seen[1]);
    for view in [".inbox-card .approve", ".waits .approve"] {
        page.until(&format!("document.querySelector('{view}')"));
        page.width(360);
        page.until("innerWidth === 360 && document.documentElement.scrollWidth <= innerWidth");
        page.width(1280);
        page.click("#inbox-view:not([hidden]) .kind, .waits h2");
    }
    page.is_clean(&world.url);
}
