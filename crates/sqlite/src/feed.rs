//! The event feed. With one writer at a time, commit order is number order.

use ff_core::backend::{EventPage, StoreError};
use ff_core::event::{Cursor, CursorKind, FeedEvent, Filter};
use ff_core::execution::Tags;
use ff_core::limits::PAGE_MAX;
use ff_core::row::{EventRow, corrupt, number, parse};
use rusqlite::{Row, Transaction, params};

use crate::codec::{Reader, key};
use crate::connection::store_error;
use crate::load::{all, one};
use crate::statements::event;

/// The cursors of this store.
pub const CURSORS: CursorKind = CursorKind::Seq;

/// Events after `from` that the filter lets through.
pub fn events(
    tx: &Transaction<'_>,
    from: &Cursor,
    filter: &Filter,
    limit: u32,
) -> Result<EventPage, StoreError> {
    CURSORS.check(from).map_err(StoreError::Rejected)?;
    let limit = limit.min(PAGE_MAX);
    if limit == 0 {
        return Ok(EventPage { events: Vec::new(), next: from.clone() });
    }
    let kinds: Vec<&str> = filter.kinds.iter().map(|kind| kind.as_str()).collect();
    let kinds = serde_json::to_string(&kinds).expect("a list of texts is JSON");
    let (partition, uuid) = filter.execution.map(key).unzip();
    let home = filter.flow.map(|flow| i64::from(flow.partition().index()));
    let (tag, value) = filter.tag.as_ref().map(|(key, value)| (key, value)).unzip();
    let params = params![
        i64::try_from(from.seq()).unwrap_or(i64::MAX),
        (!filter.kinds.is_empty()).then_some(kinds),
        filter.namespace.as_ref().map(|namespace| namespace.as_str()),
        filter.lane.as_ref().map(|lane| lane.as_str()),
        partition.or(home),
        uuid,
        tag,
        value,
        filter.flow.map(|flow| flow.0.into_bytes()),
        limit
    ];
    let sql = match (filter.execution, filter.flow) {
        (Some(_), _) => event::history,
        (None, Some(_)) => event::flow,
        (None, None) => event::read,
    };
    let events = all(tx, sql, params, read)?;
    let full = events.len() == usize::try_from(limit).unwrap_or(usize::MAX);
    let next = match events.last().filter(|_| full) {
        Some(last) => last.cursor.clone(),
        None => match tail(tx)? {
            tail if from.is_beyond(&tail) => from.clone(),
            tail => tail,
        },
    };
    Ok(EventPage { events, next })
}

/// The newest place in the feed.
pub fn tail(tx: &Transaction<'_>) -> Result<Cursor, StoreError> {
    let seq = one(tx, event::tail, (), |row| row.get::<_, i64>(0).map_err(store_error))?;
    let seq: u64 = number("sqlite_sequence.seq", seq.unwrap_or(0))?;
    Ok(if seq == 0 { Cursor::Start } else { Cursor::Seq(seq) })
}

fn read(row: &Row<'_>) -> Result<FeedEvent, StoreError> {
    let mut r = Reader::new(row);
    let seq = number("seq", r.take("seq")?)?;
    let columns = EventRow {
        partition_key: r.take("partition_key")?,
        execution_id: r.take("execution_id")?,
        at_ms: r.take("at_ms")?,
        namespace: r.take("namespace")?,
        lane_id: r.take("lane_id")?,
        flow_id: r.take("flow_id")?,
        kind: r.take("kind")?,
        attempt_index: r.take("attempt_index")?,
        outcome: r.take("outcome")?,
        reason: r.take("reason")?,
        failure_category: r.take("failure_category")?,
        worker_id: r.take("worker_id")?,
        worker_instance_id: r.take("worker_instance_id")?,
        retry_at_ms: r.take("retry_at_ms")?,
        priority_from: r.take("priority_from")?,
        priority_to: r.take("priority_to")?,
        members: r.take("members")?,
        signal_id: r.take("signal_id")?,
        waitpoint_id: r.take("waitpoint_id")?,
        source_identity: r.take("source_identity")?,
        subject: r.take("subject")?,
    };
    let kind: Option<String> = r.take("execution_kind")?;
    let tags: Option<String> = r.take("tags")?;
    let tags: Option<Tags> = tags
        .map(|text| serde_json::from_str(&text).map_err(|why| corrupt("tags", &text, why)))
        .transpose()?;
    Ok(FeedEvent {
        cursor: Cursor::Seq(seq),
        event: columns.read()?,
        execution_kind: kind.map(|kind| parse("kind", &kind)).transpose()?,
        tags: tags.unwrap_or_default(),
    })
}
