//! The event feed. Many transactions write at once, so a place in it is a window between two
//! snapshots, read in the order of numbers: what became visible between them is new, whatever its
//! number; when all of it is read, the later snapshot becomes the earlier one. No transaction of
//! anybody's, however long it stays open, holds a reader up.
//!
//! After a crash the server gives the numbers of aborted transactions again, and a snapshot from
//! before takes the new ones for old. So a snapshot is asked only about events up to the highest
//! number that it saw; what lies above is new. Numbers of events that were visible, and so durable,
//! are never given again.
//!
//! Cursors of earlier versions bear the newest number of the sequence instead, which an aborted transaction
//! may have drawn. One that lies above every number given since tells of a crash, and not of what was read
//! before it: its reader begins anew. Such a cursor that is acknowledged is refused, and the consumer goes
//! on from the place that is kept for it.

use ff_core::backend::{EventPage, StoreError};
use ff_core::event::{Cursor, CursorKind, FeedEvent, Filter, Horizon, Window};
use ff_core::execution::Tags;
use ff_core::limits::PAGE_MAX;
use ff_core::row::{EventRow, corrupt, number, parse};
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

use crate::codec::{Params, Reader, stored};
use crate::connection::{Connections, Step};
use crate::load::nothing_seen;
use crate::statements::event;

/// The cursors of this store.
pub const CURSORS: CursorKind = CursorKind::Window;

/// Events after `from` that the filter lets through.
pub async fn events(
    connections: &Connections,
    from: &Cursor,
    filter: &Filter,
    limit: u32,
) -> Result<EventPage, StoreError> {
    CURSORS.check(from).map_err(StoreError::Rejected)?;
    let limit = usize::try_from(limit.min(PAGE_MAX)).unwrap_or(0);
    let mut page = EventPage { events: Vec::new(), next: from.clone() };
    if limit == 0 {
        return Ok(page);
    }
    let mut window = match from {
        Cursor::Window(window) => (**window).clone(),
        Cursor::Start | Cursor::Seq(_) => nothing_seen(),
    };
    loop {
        let fresh = window.after >= window.upto.seq;
        if fresh {
            let newest;
            (window, newest) = next_window(connections, window.upto).await?;
            if window.base.seq > newest {
                tracing::warn!(cursor = %from, newest, "a crash took back numbers of a cursor");
                (window, _) = next_window(connections, nothing_seen().upto).await?;
            }
        }
        let left = limit - page.events.len();
        if window.after < window.upto.seq {
            page.events.extend(read(connections, &window, filter, left).await?);
        }
        if page.events.len() == limit
            && let Some(last) = page.events.last()
        {
            page.next = last.cursor.clone();
            return Ok(page);
        }
        window.after = window.upto.seq;
        if fresh {
            page.next = Cursor::Window(Box::new(window));
            return Ok(page);
        }
    }
}

/// The newest place in the feed. It counts what retention removed as read, so that no cursor of a
/// reader lies beyond it.
pub async fn tail(connections: &Connections) -> Result<Cursor, StoreError> {
    let (mut window, newest) = next_window(connections, nothing_seen().upto).await?;
    window.after = window.upto.seq.max(newest);
    Ok(Cursor::Window(Box::new(window)))
}

/// What became visible since `base`, and the highest number ever given to an event.
async fn next_window(
    connections: &Connections,
    base: Horizon,
) -> Result<(Window, u64), StoreError> {
    let params = Params::new().text(Some(&base.snapshot)).number(stored(base.seq));
    let steps = vec![Step::Run(event::tail, params), Step::Run(event::newest, Params::new())];
    let answers = connections.read_all(steps).await?;
    let rows: Vec<&Row> = answers.iter().flatten().collect();
    let [tail, newest] = rows[..] else {
        return Err(corrupt("ff_event", rows.len(), "two answers are expected"));
    };
    let newest = number("last_value", Reader::new(newest).take("newest")?)?;
    let mut r = Reader::new(tail);
    let upto = Horizon { snapshot: r.take("snapshot")?, seq: number("seq", r.take("highest")?)? };
    let after = number("seq", r.take("before")?)?;
    Ok((Window { base, upto, after }, newest))
}

async fn read(
    connections: &Connections,
    window: &Window,
    filter: &Filter,
    limit: usize,
) -> Result<Vec<FeedEvent>, StoreError> {
    let kinds: Vec<&str> = filter.kinds.iter().map(|kind| kind.as_str()).collect();
    let params = Params::new()
        .text(Some(&window.base.snapshot))
        .text(Some(&window.upto.snapshot))
        .number(stored(window.after))
        .number(stored(window.upto.seq))
        .one((!kinds.is_empty()).then_some(kinds), Type::TEXT_ARRAY)
        .text(filter.namespace.as_ref().map(|namespace| namespace.as_str()))
        .text(filter.lane.as_ref().map(|lane| lane.as_str()))
        .tag(filter.tag.as_ref())
        .count(limit)
        .number(stored(window.base.seq));
    let (sql, params) = match (filter.execution, filter.flow) {
        (None, None) => (event::read, params),
        (None, Some(flow)) => (event::flow, params.flow(flow)),
        (Some(id), flow) => {
            (event::history, params.id(id).one(flow.map(|flow| flow.0), Type::UUID))
        }
    };
    let rows = connections.read(sql, params).await?;
    rows.iter().map(|row| read_event(row, window)).collect()
}

fn read_event(row: &Row, window: &Window) -> Result<FeedEvent, StoreError> {
    let mut r = Reader::new(row);
    let after = number("seq", r.take("seq")?)?;
    let columns = EventRow {
        partition_key: i64::from(r.take::<i16>("partition_key")?),
        execution_id: r.take::<Uuid>("execution_id")?.as_bytes().to_vec(),
        at_ms: r.take("at_ms")?,
        namespace: r.take("namespace")?,
        lane_id: r.take("lane_id")?,
        flow_id: r.maybe_uuid("flow_id")?,
        kind: r.take("kind")?,
        attempt_index: r.maybe_int("attempt_index")?,
        outcome: r.take("outcome")?,
        reason: r.take("reason")?,
        failure_category: r.take("failure_category")?,
        worker_id: r.take("worker_id")?,
        worker_instance_id: r.take("worker_instance_id")?,
        retry_at_ms: r.take("retry_at_ms")?,
        priority_from: r.maybe_int("priority_from")?,
        priority_to: r.maybe_int("priority_to")?,
        members: r.maybe_int("members")?,
        signal_id: r.maybe_uuid("signal_id")?,
        waitpoint_id: r.maybe_uuid("waitpoint_id")?,
        source_identity: r.take("source_identity")?,
        subject: r.take("subject")?,
    };
    let kind: Option<&str> = r.take("execution_kind")?;
    let tags: Option<&str> = r.take("tags")?;
    let tags: Option<Tags> = tags
        .map(|text| serde_json::from_str(text).map_err(|why| corrupt("tags", text, why)))
        .transpose()?;
    Ok(FeedEvent {
        cursor: Cursor::Window(Box::new(Window { after, ..window.clone() })),
        event: columns.read()?,
        execution_kind: kind.map(|kind| parse("kind", kind)).transpose()?,
        tags: tags.unwrap_or_default(),
    })
}
