//! The event feed as Server-Sent Events.
//!
//! Each event carries its cursor as its id, so that a reader that comes back with `Last-Event-ID`
//! misses nothing. While nothing happens, a comment every 15 seconds keeps the connection open, and
//! carries the id of how far the feed was read. The stream begins with one as well: whoever is
//! answered has a place from which nothing is missed.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Sse;
use axum::response::sse::Event;
use ff_core::Rejection;
use ff_core::event::{Cursor, FeedEvent, Filter};
use ff_engine::Error;
use ff_wire::StreamParams;
use futures_util::{Stream, stream};

use crate::Server;
use crate::problem::Refused;
use crate::request::Query;
use crate::responses::Refusals;

/// The longest a stream stays silent.
const SILENCE_MAX: Duration = Duration::from_secs(15);
/// Events read at once.
const READ_MAX: u32 = 100;

/// Follow events
///
/// Server-Sent Events: `id` is the cursor, `event` the kind, `data` a `FeedEvent`. Without a cursor
/// it begins with what happens next. An event `problem` ends the stream; its data is a `Problem`.
#[utoipa::path(
    get, path = "/v1/events/stream", tag = "events", operation_id = "stream_events",
    params(
        StreamParams,
        ("Last-Event-ID" = Option<String>, Header, description = "Resumes; goes before `after`."),
    ),
    responses(
        (status = 200, description = "Events as they happen.", body = String,
         content_type = "text/event-stream"),
        Refusals,
    ),
)]
pub async fn follow(
    State(server): State<Server>,
    headers: HeaderMap,
    Query(params): Query<StreamParams>,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Refused> {
    let query = params.into_query()?;
    let cursor = match last_event_id(&headers)?.or(query.after) {
        Some(cursor) => cursor,
        None => server.engine().feed_tail().await?,
    };
    // A cursor that this store cannot read is refused before the stream begins.
    server.engine().read_events(&cursor, &query.filter, 1, Duration::ZERO).await?;
    let reader = Reader { server, cursor, filter: query.filter, waiting: VecDeque::new() };
    let opening = stream::iter([Ok(silence(&reader.cursor))]);
    let events = stream::unfold(Some(reader), |reader| async {
        let (event, reader) = reader?.next().await?;
        Some((Ok(event), reader))
    });
    Ok(Sse::new(stream::StreamExt::chain(opening, events)))
}

fn last_event_id(headers: &HeaderMap) -> Result<Option<Cursor>, Rejection> {
    let Some(id) = headers.get("last-event-id") else { return Ok(None) };
    let text = id.to_str().unwrap_or("?");
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(Some)
}

/// A comment that also says how far the feed was read.
fn silence(cursor: &Cursor) -> Event {
    Event::default().comment("").id(cursor.to_string())
}

/// Where a stream is.
struct Reader {
    server: Server,
    cursor: Cursor,
    filter: Filter,
    waiting: VecDeque<FeedEvent>,
}

impl Reader {
    /// The next thing to send, and the reader to go on with; nothing when the server closes.
    async fn next(mut self) -> Option<(Event, Option<Self>)> {
        if self.waiting.is_empty() {
            let engine = self.server.engine();
            let read = engine.read_events(&self.cursor, &self.filter, READ_MAX, SILENCE_MAX);
            match self.server.drain().unless_closing(read).await? {
                Ok(page) => {
                    self.cursor = page.next;
                    self.waiting = page.events.into();
                }
                Err(error) => return Some((problem(error), None)),
            }
        }
        let event = match self.waiting.pop_front() {
            Some(fed) => tell(fed),
            None => silence(&self.cursor),
        };
        Some((event, Some(self)))
    }
}

fn tell(fed: FeedEvent) -> Event {
    let (id, kind) = (fed.cursor.to_string(), fed.event.kind.name().as_str());
    let data = serde_json::to_string(&ff_wire::FeedEvent::from(fed));
    Event::default().id(id).event(kind).data(data.expect("an event has only string keys"))
}

fn problem(error: Error) -> Event {
    let problem = Refused::from(error).into_problem();
    let data = serde_json::to_string(&problem).expect("a problem has only string keys");
    Event::default().event("problem").data(data)
}
