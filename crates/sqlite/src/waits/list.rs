//! Finding suspensions and what belongs to them: one statement per query.

use ff_core::backend::StoreError;
use ff_core::execution::Execution;
use ff_core::ids::ExecutionId;
use ff_core::query::{After, Listing, Page, Query, Rows, SuspendedSearch};
use ff_core::suspension::{Signal, Suspension, Waitpoint};
use rusqlite::{Row, Transaction, params};

use super::rows::{read_signal, read_suspension, read_waitpoint};
use super::within_key;
use crate::codec::{Reader, bound, key};
use crate::list::{cut, executions_of};
use crate::load::all;
use crate::statements::{list, signal};

/// A page of what `query` finds.
pub fn list(tx: &Transaction<'_>, query: &Query, page: &Page) -> Result<Listing, StoreError> {
    // One more than asked for tells whether there is a next page.
    let limit = bound(page.size()) + 1;
    match query {
        Query::Waitpoints(of) => {
            let found = waitpoints(tx, *of, page, limit)?;
            let place = |(row, _): &Used| After::Within(row.id, row.execution);
            Ok(cut(found, page, place, Rows::Waitpoints))
        }
        Query::Suspended(search) => {
            let found = suspended(tx, search, page, limit)?;
            let place = |(x, row): &(Execution, Suspension)| After::Created(row.since, x.id);
            Ok(cut(found, page, place, Rows::Suspended))
        }
        Query::Signals(id) => {
            let (partition, uuid) = key(*id);
            let params = params![partition, uuid, page.number(), limit];
            let found = all(tx, list::signals, params, read_signal)?;
            Ok(cut(found, page, |row: &Signal| After::Number(row.number), Rows::Signals))
        }
        Query::SomeSignals(id, some) => {
            let (partition, uuid) = key(*id);
            let mut found = Vec::with_capacity(some.len());
            for one in some {
                let params = params![partition, uuid, one.as_bytes()];
                found.extend(all(tx, signal::load, params, read_signal)?);
            }
            found.sort_by_key(|row| row.number);
            Ok(Listing { rows: Rows::Signals(found), next: None })
        }
        Query::Partition(_)
        | Query::Executions(_)
        | Query::Attempts(_)
        | Query::Steps(_)
        | Query::Lanes
        | Query::Depths
        | Query::Counts
        | Query::Consumers
        | Query::FlowPartition(_)
        | Query::Flows(_)
        | Query::Edges(..)
        | Query::Groups(_)
        | Query::Members(_)
        | Query::Buckets(_) => unreachable!("nothing of a suspension: {query:?}"),
    }
}

/// A waitpoint, with the suspension that uses it.
type Used = (Waitpoint, Option<Suspension>);

fn waitpoints(
    tx: &Transaction<'_>,
    of: Option<ExecutionId>,
    page: &Page,
    limit: i64,
) -> Result<Vec<Used>, StoreError> {
    if let Some(id) = of {
        let (partition, uuid) = key(id);
        let after = page.uuid().map(|uuid| *uuid.as_bytes());
        let params = params![partition, uuid, after, limit];
        return all(tx, list::own_waitpoints, params, read_used);
    }
    let (partition, uuid, within) = match &page.after {
        Some(After::Within(within, id)) => within_key(*id, *within),
        Some(
            After::Id(_) | After::Created(..) | After::Number(_) | After::Name(_) | After::Uuid(_),
        )
        | None => (-1, [0; 16], [0; 16]),
    };
    all(tx, list::waitpoints, params![within, partition, uuid, limit], read_used)
}

fn read_used(row: &Row<'_>) -> Result<Used, StoreError> {
    let mut r = Reader::new(row);
    let waitpoint = read_waitpoint(&mut r)?;
    let used: bool = r.take("used")?;
    Ok((waitpoint, used.then(|| read_suspension(&mut r)).transpose()?))
}

fn suspended(
    tx: &Transaction<'_>,
    search: &SuspendedSearch,
    page: &Page,
    limit: i64,
) -> Result<Vec<(Execution, Suspension)>, StoreError> {
    let after = match &page.after {
        Some(After::Created(since, id)) => {
            let (partition, uuid) = key(*id);
            (since.0, partition, uuid)
        }
        Some(
            After::Id(_) | After::Number(_) | After::Name(_) | After::Uuid(_) | After::Within(..),
        )
        | None => (i64::MIN, -1, [0; 16]),
    };
    let params = params![
        after.0,
        after.1,
        after.2,
        search.partition.map(|partition| partition.index()),
        search.namespace.as_ref().map(|namespace| namespace.as_str()),
        search.reason.map(|reason| reason.as_str()),
        limit
    ];
    let read = |row: &Row<'_>| read_suspension(&mut Reader::new(row));
    let suspensions = all(tx, list::suspended, params, read)?;
    let ids: Vec<ExecutionId> = suspensions.iter().map(|row| row.execution).collect();
    // Each was found beside its execution, in this transaction.
    Ok(executions_of(tx, &ids)?.into_iter().zip(suspensions).collect())
}
