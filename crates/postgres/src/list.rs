//! Finding things: one statement per query.

use ff_core::backend::StoreError;
use ff_core::execution::Execution;
use ff_core::fold::Key;
use ff_core::ids::ExecutionId;
use ff_core::limits::DEPTH_MAX;
use ff_core::query::{After, Count, Depth, Listing, Page, Query, Rows, Search};
use ff_core::row::{AttemptRow, corrupt, number, parse};
use ff_core::state::{PublicState, StoredState};
use ff_core::text::{ConsumerName, LaneId};
use ff_core::time::Millis;
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

use crate::codec::{Params, Place, Reader, partition, read_step};
use crate::connection::Connections;
use crate::graph;
use crate::load::Wanted;
use crate::statements::list;
use crate::waits;

/// A page of what `query` finds.
pub async fn list(
    connections: &Connections,
    query: &Query,
    page: &Page,
    now: Millis,
) -> Result<Listing, StoreError> {
    match query {
        Query::Partition(of) => {
            let params = Params::new()
                .one(i16::from(of.index()), Type::INT2)
                .one(page.uuid(), Type::UUID)
                .count(page.size() + 1);
            let rows = connections.read(list::partition, params).await?;
            let ids = rows.iter().map(|row| Reader::new(row).id()).collect::<Result<_, _>>()?;
            Ok(cut(ids, page, |id| After::Id(*id), Rows::Ids))
        }
        Query::Executions(search) => {
            let found = executions(connections, search, page, now).await?;
            load_found(connections, found, page).await
        }
        Query::Attempts(id) => {
            let rows = connections.read(list::attempts, numbered(*id, page)).await?;
            let found = rows.iter().map(|row| read_attempt(row)?.read(*id));
            let found = found.collect::<Result<_, _>>()?;
            Ok(cut(found, page, |attempt| After::Number(attempt.index), Rows::Attempts))
        }
        Query::Steps(id) => {
            let rows = connections.read(list::steps, numbered(*id, page)).await?;
            let found = rows.iter().map(|row| read_step(&mut Reader::new(row)));
            let found = found.collect::<Result<Vec<_>, _>>()?;
            Ok(cut(found, page, |record| After::Number(record.step.number), Rows::Steps))
        }
        Query::Depths => {
            let bound = i64::try_from(DEPTH_MAX).unwrap_or(i64::MAX);
            let params = Params::new().number(bound + 1);
            let rows = connections.read(list::depths, params).await?;
            let counted = rows.iter().map(read_depth).collect::<Result<Vec<_>, _>>()?;
            Ok(Listing { rows: Rows::Depths(Depth::of_lanes(counted)), next: None })
        }
        Query::Lanes => {
            let rows = connections.read(list::lanes, named(page)).await?;
            let read = |row| parse("lane_id", Reader::new(row).take("lane_id")?);
            let lanes = rows.iter().map(read).collect::<Result<_, _>>()?;
            Ok(cut(lanes, page, |lane: &LaneId| After::Name(lane.to_string()), Rows::Lanes))
        }
        Query::Consumers => {
            let rows = connections.read(list::consumers, named(page)).await?;
            let read = |row| parse("name", Reader::new(row).take("name")?);
            let names = rows.iter().map(read).collect::<Result<_, _>>()?;
            let place = |name: &ConsumerName| After::Name(name.to_string());
            Ok(cut(names, page, place, Rows::Consumers))
        }
        Query::Counts => {
            let rows = connections.scan(list::counts, Params::new().number(now.0)).await?;
            let mut counts: Vec<Count> = rows.iter().map(read_count).collect::<Result<_, _>>()?;
            counts.sort();
            Ok(Listing { rows: Rows::Counts(counts), next: None })
        }
        Query::FlowPartition(of) => graph::list::of_partition(connections, *of, page).await,
        Query::Flows(search) => graph::list::search(connections, search, page).await,
        Query::Edges(flow, of) => graph::list::edges(connections, (*flow, *of), page).await,
        Query::Groups(flow) => graph::list::groups(connections, *flow, page).await,
        Query::Members(flow) => graph::list::members(connections, *flow, page).await,
        Query::Buckets(flow) => graph::list::buckets(connections, *flow, now).await,
        Query::Waitpoints(of) => waits::list::waitpoints(connections, *of, page).await,
        Query::Suspended(search) => waits::list::suspended(connections, search, page).await,
        Query::Signals(id) => waits::list::signals(connections, *id, page).await,
        Query::SomeSignals(id, some) => waits::list::some(connections, *id, some).await,
    }
}

/// The first rows of a listing, and where the rest begins: one more row than was asked for tells
/// whether there is a next page.
pub fn cut<T>(
    mut rows: Vec<T>,
    page: &Page,
    place: impl Fn(&T) -> After,
    wrap: fn(Vec<T>) -> Rows,
) -> Listing {
    let more = rows.len() > page.size();
    rows.truncate(page.size());
    let next = rows.last().filter(|_| more).map(place);
    Listing { rows: wrap(rows), next }
}

/// Where a page of a listing by time begins, unless it is the first.
pub fn place_of(page: &Page) -> Option<Place> {
    match &page.after {
        Some(After::Created(at, id)) => Some((at.0, partition(*id), id.uuid())),
        Some(
            After::Id(_) | After::Number(_) | After::Name(_) | After::Uuid(_) | After::Within(..),
        )
        | None => None,
    }
}

/// What has a name, from a page on.
fn named(page: &Page) -> Params<'_> {
    Params::new().text(page.name()).count(page.size() + 1)
}

/// What belongs to an execution and has a number, from a page on.
pub fn numbered(id: ExecutionId, page: &Page) -> Params<'static> {
    let after = page.number().map(|number| i32::try_from(number).unwrap_or(i32::MAX));
    Params::new().id(id).one(after, Type::INT4).count(page.size() + 1)
}

fn read_depth(row: &Row) -> Result<(LaneId, u64, Option<Millis>), StoreError> {
    let mut r = Reader::new(row);
    let lane = parse("lane_id", r.take("lane_id")?)?;
    let waiting = number("waiting", r.take("waiting")?)?;
    Ok((lane, waiting, r.take::<Option<i64>>("first_ms")?.map(Millis)))
}

async fn executions(
    connections: &Connections,
    search: &Search,
    page: &Page,
    now: Millis,
) -> Result<Vec<(ExecutionId, After)>, StoreError> {
    let stored = search.state.map(PublicState::stored);
    // Whatever was created before `created_to`, and comes after the last page.
    let latest = (search.created_to.map_or(i64::MAX, |at| at.0), i16::MIN, Uuid::nil());
    let before = place_of(page).map_or(latest, |place| latest.min(place));
    let params = Params::new()
        .text(search.lane.as_ref().map(|lane| lane.as_str()))
        .text(search.namespace.as_ref().map(|namespace| namespace.as_str()))
        .text(search.kind.as_ref().map(|kind| kind.as_str()))
        .text(stored.map(|stored| stored.phase.as_str()))
        .text(stored.and_then(|stored| stored.outcome).map(|outcome| outcome.as_str()))
        .one(stored.and_then(|stored| stored.waits), Type::BOOL)
        .number(now.0)
        .tag(search.tag.as_ref())
        .number(search.created_from.map_or(i64::MIN, |at| at.0))
        .place(before)
        .count(page.size() + 1)
        .one(stored.map(|stored| stored.gated), Type::BOOL);
    let sql = match (&search.lane, &search.tag) {
        (Some(_), _) => list::lane,
        (None, Some(_)) => list::tagged,
        (None, None) => list::executions,
    };
    let rows = connections.read(sql, params).await?;
    let read = |row: &Row| {
        let mut r = Reader::new(row);
        let id = r.id()?;
        Ok((id, After::Created(Millis(r.take("created_at_ms")?), id)))
    };
    rows.iter().map(read).collect()
}

/// The executions that were found, one more than a page holds if there are more. They are read after
/// they were found: those that are gone by then are left out, and the places of those that were found
/// tell where the rest begins.
pub async fn load_found(
    connections: &Connections,
    mut found: Vec<(ExecutionId, After)>,
    page: &Page,
) -> Result<Listing, StoreError> {
    let more = found.len() > page.size();
    found.truncate(page.size());
    let ids: Vec<_> = found.iter().map(|(id, _)| *id).collect();
    let next = found.pop().filter(|_| more).map(|(_, place)| place);
    let rows = Rows::Executions(load_executions(connections, &ids).await?);
    Ok(Listing { rows, next })
}

/// The executions, in this order; those that are gone are left out.
async fn load_executions(
    connections: &Connections,
    ids: &[ExecutionId],
) -> Result<Vec<Execution>, StoreError> {
    let wanted = Wanted::new(ids.iter().map(|id| Key::Execution(*id)));
    let mut loaded = wanted.read(connections.read_all(wanted.load()).await?)?;
    if let Some(error) = loaded.damaged.into_values().next() {
        return Err(error);
    }
    Ok(ids.iter().filter_map(|id| loaded.have.executions.remove(id).flatten()).collect())
}

fn read_attempt(row: &Row) -> Result<AttemptRow, StoreError> {
    let mut r = Reader::new(row);
    Ok(AttemptRow {
        attempt_index: r.int("attempt_index")?,
        kind: r.take("kind")?,
        worker_id: r.take("worker_id")?,
        worker_instance_id: r.take("worker_instance_id")?,
        started_at_ms: r.take("started_at_ms")?,
        ended_at_ms: r.take("ended_at_ms")?,
        outcome: r.take("outcome")?,
        failure_reason: r.take("failure_reason")?,
        failure_category: r.take("failure_category")?,
    })
}

fn read_count(row: &Row) -> Result<Count, StoreError> {
    let mut r = Reader::new(row);
    let lane = parse("lane_id", r.take("lane_id")?)?;
    let state = read_state(&mut r)?;
    Ok(Count { lane, state, count: number("count", r.take("count")?)? })
}

/// The public state of rows that were counted by their columns.
pub fn read_state(r: &mut Reader<'_>) -> Result<PublicState, StoreError> {
    let phase: &str = r.take("phase")?;
    let outcome: Option<&str> = r.take("outcome")?;
    let stored = StoredState {
        phase: parse("phase", phase)?,
        outcome: outcome.map(|text| parse("outcome", text)).transpose()?,
        waits: Some(r.take("waits")?),
        gated: r.take("gated")?,
    };
    PublicState::of_stored(stored)
        .ok_or_else(|| corrupt("outcome", outcome.unwrap_or_default(), "does not fit the phase"))
}
