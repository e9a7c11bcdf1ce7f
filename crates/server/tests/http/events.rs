//! The event feed, page by page and as a stream.

use reqwest::Response;
use serde_json::{Value, json};

use crate::site::{PATIENCE, Site, path};

#[tokio::test]
async fn events_are_read_page_by_page_and_waited_for() {
    let site = Site::open().await;
    let (x, y) = (site.create(1).await, site.create(2).await);
    site.post(&path(x, "/hold"), json!({"reason": "later"})).await;
    site.post(&path(y, "/cancel"), json!({"reason": "never"})).await;
    let first = site.get("/v1/events?limit=1").await.body;
    assert_eq!(
        (&first["events"][0]["event"], &first["events"][0]["execution_id"]),
        (&json!("held"), &json!(x))
    );
    let next = first["next"].as_str().unwrap();
    let second = site.get(&format!("/v1/events?after={next}")).await.body;
    assert_eq!(second["events"][0]["outcome"], "cancelled");
    let of_kind = site.get("/v1/events?event=completion,replayed").await.body;
    assert_eq!(of_kind["events"].as_array().unwrap().len(), 1);

    let next = second["next"].as_str().unwrap();
    let query = format!("/v1/events?after={next}&wait_ms=60000&execution_id={x}");
    let unholding = async {
        site.in_flight(1).await;
        site.post(&path(x, "/unhold"), json!({})).await
    };
    let (waited, _) = tokio::join!(site.get(&query), unholding);
    assert_eq!(waited.body["events"][0]["event"], "unheld");
}

/// A stream of events, read block by block.
struct Stream {
    response: Response,
    text: String,
}

/// What stands between two empty lines.
#[derive(Debug, PartialEq)]
struct Block {
    id: Option<String>,
    event: Option<String>,
    data: Value,
}

impl Stream {
    async fn open(site: &Site, query: &str, last: Option<&str>) -> Self {
        let request = site.request(reqwest::Method::GET, &format!("/v1/events/stream{query}"));
        let request = last.into_iter().fold(request, |r, last| r.header("last-event-id", last));
        let response = request.send().await.unwrap();
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self { response, text: String::new() }
    }

    /// The next block; nothing when the stream has ended.
    async fn next(&mut self) -> Option<Block> {
        while !self.text.contains("\n\n") {
            let chunk = tokio::time::timeout(PATIENCE, self.response.chunk()).await.unwrap();
            self.text.push_str(std::str::from_utf8(&chunk.unwrap()?).unwrap());
        }
        let (block, rest) = self.text.split_once("\n\n").unwrap();
        let field = |name: &str| {
            let line = block.lines().find_map(|line| line.strip_prefix(name));
            line.map(|value| value.trim_start().to_owned())
        };
        let data = field("data:").map_or(Value::Null, |data| serde_json::from_str(&data).unwrap());
        let parsed = Block { id: field("id:"), event: field("event:"), data };
        self.text = rest.into();
        Some(parsed)
    }
}

#[tokio::test]
async fn a_stream_begins_now_and_tells_what_happens() {
    let site = Site::open().await;
    let x = site.create(1).await;
    site.post(&path(x, "/hold"), json!({"reason": "before"})).await;
    let mut stream = Stream::open(&site, "", None).await;
    let opening = stream.next().await.unwrap();
    assert_eq!((opening.id.is_some(), opening.event), (true, None));
    site.post(&path(x, "/unhold"), json!({})).await;
    let told = stream.next().await.unwrap();
    assert_eq!(told.event.as_deref(), Some("unheld"));
    assert_eq!(told.data["execution_id"], json!(x));
    assert_eq!(told.id.as_deref(), told.data["cursor"].as_str());
    let schema = json!({"$ref": "#/components/schemas/FeedEvent"});
    assert_eq!(crate::contract::fits(&schema, &told.data), Ok(()));
}

#[tokio::test]
async fn a_stream_goes_on_after_the_last_event_that_its_reader_saw() {
    let site = Site::open().await;
    let x = site.create(1).await;
    let mut stream = Stream::open(&site, "?after=start", None).await;
    stream.next().await.unwrap();
    site.post(&path(x, "/hold"), json!({"reason": "a"})).await;
    let held = stream.next().await.unwrap();
    drop(stream);
    site.post(&path(x, "/unhold"), json!({})).await;
    site.post(&path(x, "/cancel"), json!({"reason": "b"})).await;
    // What the header says goes before the query, which a browser repeats as it was.
    let mut again = Stream::open(&site, "?after=start", held.id.as_deref()).await;
    again.next().await.unwrap();
    assert_eq!(again.next().await.unwrap().event.as_deref(), Some("unheld"));
    assert_eq!(again.next().await.unwrap().event.as_deref(), Some("completion"));
}

#[tokio::test]
async fn a_stream_tells_only_what_its_reader_asked_for() {
    let site = Site::open().await;
    let (x, y) = (site.create(1).await, site.create(2).await);
    let mut stream = Stream::open(&site, &format!("?execution_id={y}"), None).await;
    stream.next().await.unwrap();
    site.post(&path(x, "/hold"), json!({})).await;
    site.post(&path(y, "/hold"), json!({})).await;
    assert_eq!(stream.next().await.unwrap().data["execution_id"], json!(y));
}

#[tokio::test]
async fn a_place_that_the_feed_does_not_have_is_refused_before_a_stream_begins() {
    let site = Site::open().await;
    for query in ["?after=yesterday", "?after=window:1:1:@0/1:1:@0/0", "?colour=red"] {
        let refused = site.get(&format!("/v1/events/stream{query}")).await;
        assert_eq!((refused.status, refused.code()), (400, "invalid_input"), "{query}");
    }
}

#[tokio::test]
async fn a_stream_ends_when_the_server_closes() {
    let mut site = Site::open().await;
    let mut stream = Stream::open(&site, "", None).await;
    stream.next().await.unwrap();
    site.stop();
    assert_eq!(stream.next().await, None);
    assert_eq!(site.left().await.cut_off, 0);
}
