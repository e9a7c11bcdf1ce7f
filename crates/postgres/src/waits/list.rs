//! Finding suspensions and what belongs to them.

use std::collections::BTreeSet;

use ff_core::backend::StoreError;
use ff_core::execution::Execution;
use ff_core::ids::ExecutionId;
use ff_core::query::{After, Listing, Page, Rows, SuspendedSearch};
use ff_core::suspension::{Signal, Suspension, Waitpoint};
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::rows::{read_signal, read_suspension, read_waitpoint};
use crate::codec::{Params, Reader, partition, read_row};
use crate::connection::Connections;
use crate::list::{cut, numbered, place_of};
use crate::statements::{list, signal};

/// A waitpoint, with the suspension that uses it.
type Used = (Waitpoint, Option<Suspension>);

fn read_used(row: &Row) -> Result<Used, StoreError> {
    let mut r = Reader::new(row);
    let waitpoint = read_waitpoint(&mut r)?;
    let used = r.clone().maybe_id()?.is_some();
    Ok((waitpoint, used.then(|| read_suspension(&mut r)).transpose()?))
}

fn used(rows: &[Row], page: &Page) -> Result<Listing, StoreError> {
    let found = rows.iter().map(read_used).collect::<Result<_, _>>()?;
    let place = |(waitpoint, _): &Used| After::Within(waitpoint.id, waitpoint.execution);
    Ok(cut(found, page, place, Rows::Waitpoints))
}

/// Waitpoints at which signals may arrive, of one execution or of all.
pub async fn waitpoints(
    connections: &Connections,
    of: Option<ExecutionId>,
    page: &Page,
) -> Result<Listing, StoreError> {
    if let Some(id) = of {
        return own_waitpoints(connections, id, page).await;
    }
    let after = match &page.after {
        Some(After::Within(waitpoint, id)) => (*waitpoint, partition(*id), id.uuid()),
        Some(
            After::Id(_) | After::Created(..) | After::Number(_) | After::Name(_) | After::Uuid(_),
        )
        | None => (Uuid::nil(), -1, Uuid::nil()),
    };
    let params = Params::new()
        .one(after.0, Type::UUID)
        .one(after.1, Type::INT2)
        .one(after.2, Type::UUID)
        .count(page.size() + 1);
    used(&connections.read(list::waitpoints, params).await?, page)
}

async fn own_waitpoints(
    connections: &Connections,
    id: ExecutionId,
    page: &Page,
) -> Result<Listing, StoreError> {
    let params = Params::new().id(id).one(page.uuid(), Type::UUID).count(page.size() + 1);
    used(&connections.read(list::own_waitpoints, params).await?, page)
}

/// Suspended executions, longest first.
pub async fn suspended(
    connections: &Connections,
    search: &SuspendedSearch,
    page: &Page,
) -> Result<Listing, StoreError> {
    let params = Params::new()
        .one(search.partition.map(|of| i16::from(of.index())), Type::INT2)
        .text(search.namespace.as_ref().map(|namespace| namespace.as_str()))
        .text(search.reason.map(|reason| reason.as_str()))
        .place(place_of(page).unwrap_or((i64::MIN, -1, Uuid::nil())))
        .count(page.size() + 1);
    let rows = connections.read(list::suspended, params).await?;
    let found = rows.iter().map(read_waiting).collect::<Result<_, _>>()?;
    let place = |(x, suspension): &(Execution, Suspension)| After::Created(suspension.since, x.id);
    Ok(cut(found, page, place, Rows::Suspended))
}

fn read_waiting(row: &Row) -> Result<(Execution, Suspension), StoreError> {
    let mut r = Reader::new(row);
    // Nobody holds a lease on it.
    let execution = read_row(&mut r)?.read(None)?;
    Ok((execution, read_suspension(&mut r)?))
}

/// Signals of one execution.
pub async fn signals(
    connections: &Connections,
    id: ExecutionId,
    page: &Page,
) -> Result<Listing, StoreError> {
    let rows = connections.read(list::signals, numbered(id, page)).await?;
    Ok(cut(read(&rows)?, page, |signal| After::Number(signal.number), Rows::Signals))
}

/// Some of them.
pub async fn some(
    connections: &Connections,
    id: ExecutionId,
    some: &BTreeSet<Uuid>,
) -> Result<Listing, StoreError> {
    let params = Params::new().within(some.iter().map(|signal| (id, *signal)));
    let rows = connections.read(signal::load, params).await?;
    Ok(Listing { rows: Rows::Signals(read(&rows)?), next: None })
}

fn read(rows: &[Row]) -> Result<Vec<Signal>, StoreError> {
    rows.iter().map(|row| read_signal(&mut Reader::new(row))).collect()
}
