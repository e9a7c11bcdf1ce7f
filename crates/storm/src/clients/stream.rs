//! A reader of the stream of events, which goes on where it was cut off.

use std::time::Duration;

use serde_json::Value;

use crate::clients::readers::seen;
use crate::record::Seen;
use crate::time::sleep_ms;
use crate::world::{Phase, World};

/// How long a stream may be silent before another server is asked.
const SILENCE_MAX: Duration = Duration::from_secs(4);

/// Follows the stream from a place on, over many connections, until nothing comes any more.
pub async fn follow(world: World, from: String) {
    let mut dice = world.dice("stream");
    let mut reader = Reader { last: from, rest: String::new() };
    loop {
        let over = world.phase() == Phase::Over;
        let server = usize::try_from(dice.roll()).unwrap_or(0) % world.caller.servers();
        // Readers come and go.
        let stay = Duration::from_millis(dice.between(500, 10_000));
        let counted = tokio::time::timeout(stay, reader.read(&world, server)).await;
        if over && counted == Ok(Some(0)) {
            return;
        }
        sleep_ms(100).await;
    }
}

struct Reader {
    /// The place after the last event.
    last: String,
    /// What came of an event that is not complete.
    rest: String,
}

impl Reader {
    /// Reads one connection to its end; how many events came, unless it failed at once.
    async fn read(&mut self, world: &World, server: usize) -> Option<usize> {
        self.rest.clear();
        let url = world.caller.url(server, "/v1/events/stream");
        let asked = world.caller.http().get(url).header("Last-Event-ID", &self.last).send();
        let mut response = tokio::time::timeout(SILENCE_MAX, asked).await.ok()?.ok()?;
        if !response.status().is_success() {
            world.recorder.count(&format!("GET events/stream: {}", response.status()));
            return None;
        }
        world.recorder.count("GET events/stream: ok");
        let mut count = 0;
        loop {
            let Ok(chunk) = tokio::time::timeout(SILENCE_MAX, response.chunk()).await else {
                return Some(count);
            };
            let chunk = chunk.ok()??;
            self.rest.push_str(&String::from_utf8_lossy(&chunk));
            let events = self.events();
            count += events.len();
            world.recorder.seen("stream", false, events);
        }
    }

    /// The events that are complete.
    fn events(&mut self) -> Vec<Seen> {
        let mut events = Vec::new();
        while let Some((block, rest)) = self.rest.split_once("\n\n") {
            let field = |name: &str| {
                let found = block.lines().find_map(|line| line.strip_prefix(name));
                found.map(|value| value.trim_start().to_owned())
            };
            let (id, data, kind) = (field("id:"), field("data:"), field("event:"));
            let rest = rest.to_owned();
            if let (Some(data), true) = (data, kind.as_deref() != Some("problem")) {
                events.extend(serde_json::from_str::<Value>(&data).ok().map(seen));
            }
            if let Some(id) = id {
                self.last = id;
            }
            self.rest = rest;
        }
        events
    }
}
