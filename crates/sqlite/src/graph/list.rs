//! Finding flows and what belongs to them: one statement per query.

use ff_core::backend::StoreError;
use ff_core::execution::Execution;
use ff_core::flow::{Buckets, Flow};
use ff_core::ids::{ExecutionId, FlowId};
use ff_core::query::{After, Direction, FlowSearch, Listing, Page, Query, Rows};
use ff_core::row::number;
use ff_core::time::Millis;
use rusqlite::{Transaction, params};

use super::rows::{read_edge, read_flow, read_group};
use super::{flow_key, member_key};
use crate::codec::{Reader, bound, key};
use crate::list::{cut, executions_of, read_state};
use crate::load::all;
use crate::statements::list;

/// A page of what `query` finds.
pub fn list(
    tx: &Transaction<'_>,
    query: &Query,
    page: &Page,
    now: Millis,
) -> Result<Listing, StoreError> {
    // One more than asked for tells whether there is a next page.
    let limit = bound(page.size()) + 1;
    let after = page.uuid().map(|uuid| *uuid.as_bytes());
    match query {
        Query::FlowPartition(partition) => {
            let params = params![partition.index(), after, limit];
            let flows = all(tx, list::flow_partition, params, read_flow)?;
            Ok(cut(flows, page, |flow| After::Uuid(flow.id.0), Rows::Flows))
        }
        Query::Flows(search) => {
            let found = flows(tx, search, page, limit)?;
            let place = |flow: &Flow| After::Created(flow.spec.created_at, subject(flow.id));
            Ok(cut(found, page, place, Rows::Flows))
        }
        Query::Edges(flow, direction) => {
            let (partition, uuid) = flow_key(*flow);
            let edges = match direction {
                Direction::All => {
                    all(tx, list::edges, params![partition, uuid, after, limit], read_edge)?
                }
                Direction::Outgoing(id) => {
                    let (_, _, of) = member_key(*flow, *id);
                    let params = params![partition, uuid, after, limit, of];
                    all(tx, list::outgoing, params, read_edge)?
                }
                Direction::Incoming(id) => {
                    let (_, _, of) = member_key(*flow, *id);
                    let params = params![partition, uuid, after, limit, of];
                    all(tx, list::incoming, params, read_edge)?
                }
            };
            Ok(cut(edges, page, |edge| After::Uuid(edge.id.0), Rows::Edges))
        }
        Query::Groups(flow) => {
            let (partition, uuid) = flow_key(*flow);
            let params = params![partition, uuid, after, limit];
            let groups = all(tx, list::groups, params, read_group)?;
            Ok(cut(groups, page, |group| After::Id(group.downstream), Rows::Groups))
        }
        Query::Members(flow) => {
            let (partition, uuid) = flow_key(*flow);
            let params = params![partition, uuid, after, limit];
            let ids = all(tx, list::members, params, |row| Reader::new(row).id())?;
            let place = |x: &Execution| After::Id(x.id);
            Ok(cut(executions_of(tx, &ids)?, page, place, Rows::Executions))
        }
        Query::Buckets(flow) => {
            Ok(Listing { rows: Rows::Buckets(buckets(tx, *flow, now)?), next: None })
        }
        Query::Partition(_)
        | Query::Executions(_)
        | Query::Attempts(_)
        | Query::Steps(_)
        | Query::Lanes
        | Query::Depths
        | Query::Counts
        | Query::Consumers
        | Query::Waitpoints(_)
        | Query::Suspended(_)
        | Query::Signals(_)
        | Query::SomeSignals(..) => unreachable!("nothing of a flow: {query:?}"),
    }
}

/// Where a flow stands among executions.
fn subject(flow: FlowId) -> ExecutionId {
    ExecutionId::for_flow(flow, flow.0)
}

fn flows(
    tx: &Transaction<'_>,
    search: &FlowSearch,
    page: &Page,
    limit: i64,
) -> Result<Vec<Flow>, StoreError> {
    let (tag, value) = search.tag.as_ref().map(|(key, value)| (key, value)).unzip();
    let before = match &page.after {
        Some(After::Created(at, id)) => {
            let (partition, uuid) = key(*id);
            (at.0, partition, uuid)
        }
        Some(
            After::Id(_) | After::Number(_) | After::Name(_) | After::Uuid(_) | After::Within(..),
        )
        | None => (i64::MAX, i64::MAX, [u8::MAX; 16]),
    };
    let params = params![
        search.namespace.as_ref().map(|namespace| namespace.as_str()),
        search.kind.as_ref().map(|kind| kind.as_str()),
        search.state.map(|state| state.as_str()),
        tag,
        value,
        before.0,
        before.1,
        before.2,
        limit
    ];
    all(tx, list::flows, params, read_flow)
}

fn buckets(tx: &Transaction<'_>, flow: FlowId, now: Millis) -> Result<Buckets, StoreError> {
    let (partition, uuid) = flow_key(flow);
    let counted = all(tx, list::buckets, (partition, uuid, now.0), |row| {
        let mut r = Reader::new(row);
        read_state(&mut r)
    })?;
    let spared: Vec<u64> = all(tx, list::spared, (partition, uuid), |row| {
        number("spared", Reader::new(row).take("spared")?)
    })?;
    let mut buckets = Buckets { spared: spared.into_iter().sum(), ..Buckets::default() };
    for (state, count) in counted {
        *buckets.members.entry(state).or_default() += count;
    }
    Ok(buckets)
}
