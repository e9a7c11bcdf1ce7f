//! Finding things: one statement per query.

use ff_core::backend::StoreError;
use ff_core::execution::Execution;
use ff_core::fold::{Key, WorkingSet};
use ff_core::ids::ExecutionId;
use ff_core::limits::DEPTH_MAX;
use ff_core::query::{After, Count, Depth, Listing, Page, Query, Rows, Search};
use ff_core::row::{AttemptRow, corrupt, number, parse};
use ff_core::state::{PublicState, StoredState};
use ff_core::time::Millis;
use rusqlite::{Row, Transaction, params};

use crate::codec::{Reader, key, read_step};
use crate::graph;
use crate::load::{all, load};
use crate::statements::list;
use crate::waits;

/// A page of what `query` finds.
pub fn list(
    tx: &Transaction<'_>,
    query: &Query,
    page: &Page,
    now: Millis,
) -> Result<Listing, StoreError> {
    // One more than asked for tells whether there is a next page.
    let limit = i64::try_from(page.size()).unwrap_or(0) + 1;
    match query {
        Query::Partition(partition) => {
            let after = page.uuid().map(|uuid| *uuid.as_bytes());
            let params = params![partition.index(), after, limit];
            let ids = all(tx, list::partition, params, |row| Reader::new(row).id())?;
            Ok(cut(ids, page, |id| After::Id(*id), Rows::Ids))
        }
        Query::Executions(search) => {
            let found = executions(tx, search, page, (limit, now))?;
            let place = |x: &Execution| After::Created(x.spec.created_at, x.id);
            Ok(cut(found, page, place, Rows::Executions))
        }
        Query::Attempts(id) => {
            let (partition, uuid) = key(*id);
            let params = params![partition, uuid, page.number(), limit];
            let found = all(tx, list::attempts, params, |row| read_attempt(row)?.read(*id))?;
            Ok(cut(found, page, |attempt| After::Number(attempt.index), Rows::Attempts))
        }
        Query::Steps(id) => {
            let (partition, uuid) = key(*id);
            let params = params![partition, uuid, page.number(), limit];
            let found = all(tx, list::steps, params, |row| read_step(*id, row))?;
            Ok(cut(found, page, |record| After::Number(record.step.number), Rows::Steps))
        }
        Query::Depths => Ok(Listing { rows: Rows::Depths(depths(tx)?), next: None }),
        Query::Lanes => {
            let params = params![page.name(), limit];
            let lanes = all(tx, list::lanes, params, |row| {
                parse("lane_id", &Reader::new(row).take::<String>("lane_id")?)
            })?;
            let place = |lane: &ff_core::text::LaneId| After::Name(lane.to_string());
            Ok(cut(lanes, page, place, Rows::Lanes))
        }
        Query::Consumers => {
            let params = params![page.name(), limit];
            let names = all(tx, list::consumers, params, |row| {
                parse("name", &Reader::new(row).take::<String>("name")?)
            })?;
            let place = |name: &ff_core::text::ConsumerName| After::Name(name.to_string());
            Ok(cut(names, page, place, Rows::Consumers))
        }
        Query::Counts => {
            let mut counts = all(tx, list::counts, (now.0,), read_count)?;
            counts.sort();
            Ok(Listing { rows: Rows::Counts(counts), next: None })
        }
        Query::FlowPartition(_)
        | Query::Flows(_)
        | Query::Edges(..)
        | Query::Groups(_)
        | Query::Members(_)
        | Query::Buckets(_) => graph::list::list(tx, query, page, now),
        Query::Waitpoints(_) | Query::Suspended(_) | Query::Signals(_) | Query::SomeSignals(..) => {
            waits::list::list(tx, query, page)
        }
    }
}

/// The first rows of a listing, and where the rest begins.
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

fn depths(tx: &Transaction<'_>) -> Result<Vec<Depth>, StoreError> {
    let bound = i64::try_from(DEPTH_MAX).unwrap_or(i64::MAX) + 1;
    let counted = all(tx, list::depths, (bound,), |row| {
        let mut r = Reader::new(row);
        let lane = parse("lane_id", &r.take::<String>("lane_id")?)?;
        let waiting = number("waiting", r.take("waiting")?)?;
        Ok((lane, waiting, r.take::<Option<i64>>("first_ms")?.map(Millis)))
    })?;
    Ok(Depth::of_lanes(counted))
}

fn executions(
    tx: &Transaction<'_>,
    search: &Search,
    page: &Page,
    (limit, now): (i64, Millis),
) -> Result<Vec<Execution>, StoreError> {
    let stored = search.state.map(PublicState::stored);
    let (tag, value) = search.tag.as_ref().map(|(key, value)| (key, value)).unzip();
    // Whatever was created before `created_to`, and comes after the last page.
    let latest = (search.created_to.map_or(i64::MAX, |at| at.0), i64::MIN, [0; 16]);
    let before = match &page.after {
        Some(After::Created(at, id)) => {
            let (partition, uuid) = key(*id);
            latest.min((at.0, partition, uuid))
        }
        Some(
            After::Id(_) | After::Number(_) | After::Name(_) | After::Uuid(_) | After::Within(..),
        )
        | None => latest,
    };
    let params = params![
        search.lane.as_ref().map(|lane| lane.as_str()),
        search.namespace.as_ref().map(|namespace| namespace.as_str()),
        search.kind.as_ref().map(|kind| kind.as_str()),
        stored.map(|stored| stored.phase.as_str()),
        stored.and_then(|stored| stored.outcome).map(|outcome| outcome.as_str()),
        stored.and_then(|stored| stored.waits),
        now.0,
        tag,
        value,
        search.created_from.map_or(i64::MIN, |at| at.0),
        before.0,
        before.1,
        before.2,
        limit,
        stored.map(|stored| stored.gated)
    ];
    let sql = match (&search.lane, &search.tag) {
        (Some(_), _) => list::lane,
        (None, Some(_)) => list::tagged,
        (None, None) => list::executions,
    };
    executions_of(tx, &all(tx, sql, params, |row| Reader::new(row).id())?)
}

/// The executions with these ids, in their order.
pub fn executions_of(
    tx: &Transaction<'_>,
    ids: &[ExecutionId],
) -> Result<Vec<Execution>, StoreError> {
    let mut have = WorkingSet::default();
    let keys: Vec<Key> = ids.iter().map(|id| Key::Execution(*id)).collect();
    load(tx, &keys, &mut have)?;
    Ok(ids.iter().filter_map(|id| have.executions.remove(id).flatten()).collect())
}

fn read_attempt(row: &Row<'_>) -> Result<AttemptRow, StoreError> {
    let mut r = Reader::new(row);
    Ok(AttemptRow {
        attempt_index: r.take("attempt_index")?,
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

fn read_count(row: &Row<'_>) -> Result<Count, StoreError> {
    let mut r = Reader::new(row);
    let lane = parse("lane_id", &r.take::<String>("lane_id")?)?;
    let (state, count) = read_state(&mut r)?;
    Ok(Count { lane, state, count })
}

/// How many executions are in a state, from what they hold in their columns.
pub fn read_state(r: &mut Reader<'_, '_>) -> Result<(PublicState, u64), StoreError> {
    let phase: String = r.take("phase")?;
    let outcome: Option<String> = r.take("outcome")?;
    let stored = StoredState {
        phase: parse("phase", &phase)?,
        outcome: outcome.as_deref().map(|text| parse("outcome", text)).transpose()?,
        waits: Some(r.take("waits")?),
        gated: r.take("gated")?,
    };
    let state = PublicState::of_stored(stored)
        .ok_or_else(|| corrupt("outcome", outcome.unwrap_or_default(), "does not fit the phase"))?;
    Ok((state, number("count", r.take("count")?)?))
}
