//! The page of a server in a real browser: what it shows, and that it follows what happens.
#![allow(clippy::unwrap_used, missing_docs)]

mod browser;
mod flows;
mod waits;
mod world;

use browser::Browser;
use serde_json::{Value, json};
use world::{WAITING, World};

/// Everything but the executions that only wait in `bulk`.
const OTHERS: usize = 5;

/// The kinds of all rows, newest first.
const KINDS: &str = "[...document.querySelectorAll('#rows .kind')].map((kind) => kind.textContent)";

#[tokio::test(flavor = "multi_thread")]
async fn the_list_grows_by_itself_and_keeps_its_filter() {
    let world = World::new().await;
    let mut page = Browser::start();
    page.open(&world.url);
    page.until("document.querySelectorAll('#rows tr').length === 50");
    page.until("document.querySelector('#live').dataset.status === 'live'");
    let lanes =
        "[...document.querySelectorAll('#lanes .lane-name')].map((lane) => lane.textContent)";
    assert_eq!(page.get(lanes), json!(["bulk", "mail", "orders"]));
    page.until(&format!(
        "document.querySelector('.chip.is-waiting').textContent === 'waiting{WAITING}'"
    ));
    page.click(".more");
    page.until(&format!("document.querySelectorAll('#rows tr').length === {}", WAITING + OTHERS));
    page.until("document.querySelector('#list-foot').textContent.includes('that is all')");

    // Who looks at the beginning of the list sees what is new; its rows stay the ones they were.
    page.get("scrollTo(0, 0); window.row = document.querySelector('#rows tr'); 0");
    world.fabric.create("newcomer", ()).lane("mail").await.unwrap();
    page.until(&format!("{KINDS}[0] === 'newcomer' && row.isConnected"));

    page.click("#lanes [data-key='mail']");
    page.until("location.hash === '#/executions?lane_id=mail'");
    let mail = r#"["newcomer","reminder","welcome"]"#;
    page.until(&format!("JSON.stringify({KINDS}) === '{mail}'"));
    page.click("[name=execution_kind]");
    page.enter("welcome");
    page.until("location.hash === '#/executions?lane_id=mail&execution_kind=welcome'");
    page.until(&format!("JSON.stringify({KINDS}) === '[\"welcome\"]'"));
    page.call("Page.reload", json!({}));
    page.until(&format!("JSON.stringify({KINDS}) === '[\"welcome\"]'"));
    assert_eq!(page.get("document.querySelector('[name=execution_kind]').value"), "welcome");
    page.click("#clear");
    page.until("document.querySelectorAll('#rows tr').length === 50");
    page.is_clean(&world.url);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_execution_shows_its_life_and_goes_on_while_it_is_watched() {
    let world = World::new().await;
    let mut page = Browser::start();
    page.open(&format!("{}/#/executions?execution_kind=flaky", world.url));
    page.click("#rows tr .c-took");
    page.until("document.querySelector('#execution-view h1')?.textContent === 'flaky'");
    assert!(page.get("location.href").as_str().unwrap().eq(&world.page_of(&world.flaky)));
    let drawn = "['.attempt-bar', '.step-bar', '.event-mark'].map((part) =>
        document.querySelectorAll(`svg.timeline ${part}`).length)";
    assert_eq!(page.get(drawn), json!([2, 2, 2]));
    let listed = "[...document.querySelectorAll('.card-title')].map((title) => title.innerText)";
    let listed = page.get(listed).to_string().to_lowercase();
    for section in ["timeline", "steps", "attempts", "events", "input", "result"] {
        assert!(listed.contains(section), "{section} in {listed}");
    }
    let text = "document.querySelector('#execution-view').textContent";
    for told in ["connection reset by peer", "ended failure", "ended success", "completion"] {
        page.until(&format!("{text}.includes('{told}')"));
    }
    // What came from outside is text, to the last digit.
    page.until(&format!("{text}.includes('12345678901234567890')"));
    page.until(&format!("{text}.includes('<b>Ada</b>')"));

    page.open(&world.page_of(&world.watched));
    page.click("svg.timeline [data-step='0']");
    page.until("document.querySelector('#step-0[open] pre')?.textContent === '\"look is done\"'");
    page.get("window.pre = document.querySelector('#step-0 pre'); 0");
    world.gate.add_permits(1);
    page.until("document.querySelectorAll('.line.step').length === 2");
    assert_eq!(page.get("pre.isConnected && document.querySelector('#step-0').open"), true);
    world.gate.add_permits(2);
    page.until("document.querySelector('.head-line .state').textContent === 'completed'");
    page.until(&format!("{text}.includes('all is done')"));
    page.until("document.title === 'watched · completed · FlowFabric'");
    assert_eq!(page.get("pre.isConnected && document.querySelector('#step-0').open"), true);
    page.is_clean(&world.url);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_stream_of_events_alone_keeps_the_page_up_to_date() {
    let world = World::new().await;
    let mut page = Browser::start();
    // Without the timers that make it read again now and then, only events are left: what they lead to
    // may be put off for longer where reading takes long.
    let quiet = "const later = setTimeout;
        window.setTimeout = (call, ms, ...more) =>
            ms < 1000 || call === refresh ? later(call, ms, ...more) : 0;";
    page.call("Page.addScriptToEvaluateOnNewDocument", json!({"source": quiet}));
    page.open(&world.url);
    page.until("stream.open && document.querySelectorAll('#rows tr').length === 50");
    let made = world.fabric.create("short", ()).lane("mail").await.unwrap();
    made.cancel("never mind").await.unwrap();
    page.until(&format!("{KINDS}[0] === 'short'"));

    page.open(&world.page_of(&world.watched));
    page.until(
        "stream.open && document.querySelector('.head-line .state')?.textContent === 'active'",
    );
    world.gate.add_permits(3);
    page.until("document.querySelector('.head-line .state').textContent === 'completed'");
    page.is_clean(&world.url);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_fits_light_dark_and_narrow_windows() {
    let world = World::new().await;
    let mut page = Browser::start();
    let (flaky, broken) = (&world.flaky, &world.broken);
    let views = [format!("{}/", world.url), world.page_of(flaky), world.page_of(broken)];
    let colours =
        "['color', 'backgroundColor'].map((name) => getComputedStyle(document.body)[name])";
    for view in views {
        page.open(&view);
        page.until("document.querySelector('#rows tr, svg.timeline')");
        let mut seen = [Value::Null, Value::Null];
        for (scheme, seen) in ["light", "dark"].into_iter().zip(&mut seen) {
            let feature = json!([{"name": "prefers-color-scheme", "value": scheme}]);
            page.call("Emulation.setEmulatedMedia", json!({"features": feature}));
            *seen = page.get(colours);
        }
        assert!(seen[0][0] != seen[1][0] && seen[0][1] != seen[1][1], "{seen:?}");
        for width in [360, 1280] {
            page.width(width);
            page.until(&format!("innerWidth === {width}"));
            page.until("document.documentElement.scrollWidth <= innerWidth");
        }
    }
    page.is_clean(&world.url);

    // And this is noticed when it happens.
    page.get("setTimeout(() => { throw new Error('on purpose'); }); 0");
    page.get("document.body.append(Object.assign(new Image(), { src: 'http://127.0.0.2:1/' })); 0");
    let script = "Object.assign(document.createElement('script'), { text: '0' })";
    page.get(&format!("document.body.append({script}); 0"));
    page.until("document.images[0].complete");
    let faults = page.faults().join("\n");
    for fault in ["on purpose", "img-src", "script-src"] {
        assert!(faults.contains(fault), "{fault} in {faults}");
    }
}
