//! Finding flows and what belongs to them.

use ff_core::backend::StoreError;
use ff_core::flow::{Buckets, Edge, Flow, Group};
use ff_core::ids::{ExecutionId, FlowId, Partition};
use ff_core::query::{After, Direction, FlowSearch, Listing, Page, Rows};
use ff_core::row::number;
use ff_core::time::Millis;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::rows::{read_edge, read_flow, read_group};
use crate::codec::{Params, Reader};
use crate::connection::Connections;
use crate::list::{cut, load_found, place_of, read_state};
use crate::statements::list;

/// Flows of a partition.
pub async fn of_partition(
    connections: &Connections,
    of: Partition,
    page: &Page,
) -> Result<Listing, StoreError> {
    let params = Params::new()
        .one(i16::from(of.index()), Type::INT2)
        .one(page.uuid(), Type::UUID)
        .count(page.size() + 1);
    let rows = connections.read(list::flow_partition, params).await?;
    let flows = rows.iter().map(|row| read_flow(row)?.1).collect::<Result<_, _>>()?;
    Ok(cut(flows, page, |flow: &Flow| After::Uuid(flow.id.0), Rows::Flows))
}

/// Flows, newest first.
pub async fn search(
    connections: &Connections,
    search: &FlowSearch,
    page: &Page,
) -> Result<Listing, StoreError> {
    let params = Params::new()
        .text(search.namespace.as_ref().map(|namespace| namespace.as_str()))
        .text(search.kind.as_ref().map(|kind| kind.as_str()))
        .text(search.state.map(|state| state.as_str()))
        .tag(search.tag.as_ref())
        .place(place_of(page).unwrap_or((i64::MAX, i16::MAX, Uuid::max())))
        .count(page.size() + 1);
    let rows = connections.read(list::flows, params).await?;
    let flows = rows.iter().map(|row| read_flow(row)?.1).collect::<Result<_, _>>()?;
    let place = |flow: &Flow| {
        After::Created(flow.spec.created_at, ExecutionId::for_flow(flow.id, flow.id.0))
    };
    Ok(cut(flows, page, place, Rows::Flows))
}

/// What belongs to a flow, from a page on.
fn of_flow(flow: FlowId, page: &Page) -> Params<'static> {
    Params::new().flow(flow).one(page.uuid(), Type::UUID).count(page.size() + 1)
}

/// Edges of a flow.
pub async fn edges(
    connections: &Connections,
    (flow, direction): (FlowId, Direction),
    page: &Page,
) -> Result<Listing, StoreError> {
    let params = of_flow(flow, page);
    let (sql, params) = match direction {
        Direction::All => (list::edges, params),
        Direction::Outgoing(id) | Direction::Incoming(id) if id.partition() != flow.partition() => {
            // Nobody outside its partition belongs to a flow.
            return Ok(Listing { rows: Rows::Edges(Vec::new()), next: None });
        }
        Direction::Outgoing(id) => (list::outgoing, params.one(id.uuid(), Type::UUID)),
        Direction::Incoming(id) => (list::incoming, params.one(id.uuid(), Type::UUID)),
    };
    let rows = connections.read(sql, params).await?;
    let edges = rows.iter().map(|row| read_edge(row)?.1).collect::<Result<_, _>>()?;
    Ok(cut(edges, page, |edge: &Edge| After::Uuid(edge.id.0), Rows::Edges))
}

/// Groups of a flow.
pub async fn groups(
    connections: &Connections,
    flow: FlowId,
    page: &Page,
) -> Result<Listing, StoreError> {
    let rows = connections.read(list::groups, of_flow(flow, page)).await?;
    let groups = rows.iter().map(|row| read_group(row)?.1).collect::<Result<_, _>>()?;
    Ok(cut(groups, page, |group: &Group| After::Id(group.downstream), Rows::Groups))
}

/// Members of a flow.
pub async fn members(
    connections: &Connections,
    flow: FlowId,
    page: &Page,
) -> Result<Listing, StoreError> {
    let rows = connections.read(list::members, of_flow(flow, page)).await?;
    let read = |row| Reader::new(row).id().map(|id| (id, After::Id(id)));
    let found = rows.iter().map(read).collect::<Result<_, _>>()?;
    load_found(connections, found, page).await
}

/// How many members of a flow are in each public state, and how many its groups spared.
pub async fn buckets(
    connections: &Connections,
    flow: FlowId,
    now: Millis,
) -> Result<Listing, StoreError> {
    let of_flow = || Params::new().flow(flow);
    let mut buckets = Buckets::default();
    for row in connections.read(list::buckets, of_flow().number(now.0)).await? {
        let mut r = Reader::new(&row);
        let state = read_state(&mut r)?;
        let count: u64 = number("count", r.take("count")?)?;
        *buckets.members.entry(state).or_default() += count;
    }
    for row in connections.read(list::spared, of_flow()).await? {
        buckets.spared += number::<u64>("spared", Reader::new(&row).take("spared")?)?;
    }
    Ok(Listing { rows: Rows::Buckets(buckets), next: None })
}
