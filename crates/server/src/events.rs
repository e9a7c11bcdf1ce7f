//! The event feed, page by page.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use ff_core::event::Cursor;
use ff_wire::{EventPage, EventParams};

use crate::Server;
use crate::problem::Refused;
use crate::request::Query;
use crate::responses::Refusals;

/// Read events
///
/// After `after`, or from the first that is kept. With `wait_ms`, waits until there are some.
/// Always send `next` of the last page as `after`: it also moves past what the filter left out.
#[utoipa::path(
    get, path = "/v1/events", tag = "events", operation_id = "read_events",
    params(EventParams),
    responses((status = 200, description = "A page.", body = EventPage), Refusals),
)]
pub async fn read(
    State(server): State<Server>,
    Query(params): Query<EventParams>,
) -> Result<Json<EventPage>, Refused> {
    let query = params.into_query()?;
    let from = query.after.unwrap_or(Cursor::Start);
    let wait = Duration::from_millis(query.wait_ms);
    let read = server.engine().read_events(&from, &query.filter, query.limit, wait);
    match server.drain().unless_closing(read).await.transpose()? {
        Some(page) => Ok(Json(page.into())),
        None => Ok(Json(EventPage { events: Vec::new(), next: from.to_string() })),
    }
}
