//! Flows and what belongs to them: the rows that decisions need.
//!
//! Flows and groups are locked before they are read; the rest is read while they are. A row that
//! cannot be read is reported under every key that asked for it.

pub mod list;
mod rows;
mod write;

use std::collections::{BTreeMap, BTreeSet};

use ff_core::backend::StoreError;
use ff_core::flow::{Backlog, Dispatch, Edge, PendingCancel, Reach};
use ff_core::fold::{GraphSet, GroupKey, Key};
use ff_core::ids::{EdgeId, ExecutionId, FlowId};
use ff_core::limits::{CANCEL_CHUNK_MAX, CYCLE_NODES_MAX, REPLAY_AT_ONCE_MAX, TRIM_CHUNK_MAX};
use ff_core::row::parse;
use ff_core::state::Phase;
use ff_core::time::Millis;
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

use crate::codec::{Params, Reader};
use crate::connection::Step;
use crate::load::Loaded;
use crate::statements::{backlog, cancel, dispatch, edge, flow, group};
pub use rows::{EdgeIds, read_edge, read_flow, read_group};
pub use write::{GraphRows, unlocked};

/// Rows of flows to load, by kind.
#[derive(Default)]
pub struct GraphWanted {
    /// Locked.
    pub flows: BTreeSet<FlowId>,
    /// Locked unless somebody else holds them.
    pub free_flows: BTreeSet<FlowId>,
    /// Locked.
    pub groups: BTreeSet<GroupKey>,
    /// Locked unless somebody else holds them.
    pub free: BTreeSet<GroupKey>,
    grouped: BTreeSet<FlowId>,
    edges: BTreeSet<(FlowId, EdgeId)>,
    pairs: BTreeSet<(FlowId, ExecutionId, ExecutionId)>,
    outgoing: BTreeSet<GroupKey>,
    incoming: BTreeSet<GroupKey>,
    reach: BTreeSet<GroupKey>,
    behind: BTreeSet<GroupKey>,
    members: BTreeSet<FlowId>,
    dispatch: BTreeSet<ExecutionId>,
    cancels: BTreeSet<GroupKey>,
    backlogs: BTreeSet<FlowId>,
    owed: BTreeSet<FlowId>,
    first: BTreeSet<FlowId>,
}

/// What was locked of that which was not to be waited for.
#[derive(Default)]
pub struct Held {
    flows: BTreeSet<FlowId>,
    groups: BTreeSet<GroupKey>,
}

impl GraphWanted {
    /// One more; a key of something else is left to the caller.
    pub fn add(&mut self, key: &Key) {
        match *key {
            Key::Flow(flow) => drop(self.flows.insert(flow)),
            Key::FreeFlow(flow) => drop(self.free_flows.insert(flow)),
            Key::Group(flow, id) => drop(self.groups.insert((flow, id))),
            Key::FreeGroup(flow, id) => drop(self.free.insert((flow, id))),
            Key::Groups(flow) => drop(self.grouped.insert(flow)),
            Key::Edge(flow, id) => drop(self.edges.insert((flow, id))),
            Key::Pair(flow, from, to) => drop(self.pairs.insert((flow, from, to))),
            Key::Outgoing(flow, id) => drop(self.outgoing.insert((flow, id))),
            Key::Incoming(flow, id) => drop(self.incoming.insert((flow, id))),
            Key::Reach(flow, id) => drop(self.reach.insert((flow, id))),
            Key::Behind(flow, id) => drop(self.behind.insert((flow, id))),
            Key::Members(flow) => drop(self.members.insert(flow)),
            Key::Dispatch(id) => drop(self.dispatch.insert(id)),
            Key::Cancel(flow, id) => drop(self.cancels.insert((flow, id))),
            Key::Backlog(flow) => drop(self.backlogs.insert(flow)),
            Key::Owed(flow) => drop(self.owed.insert(flow)),
            Key::First(flow) => drop(self.first.insert(flow)),
            Key::Execution(_)
            | Key::Idempotency(..)
            | Key::Consumer(_)
            | Key::Step(..)
            | Key::Stepped(..)
            | Key::Input(_)
            | Key::Unseen(_)
            | Key::Wait(_) => {}
        }
    }

    /// What is waited for anyway need not be free.
    pub fn settle(&mut self) {
        self.free_flows.retain(|flow| !self.flows.contains(flow));
        self.free.retain(|key| !self.groups.contains(key));
    }

    /// The statements that lock, in the order of locks; of each kind, what is free comes last.
    pub fn lock(&self) -> Vec<Step<'_>> {
        let mut steps = Vec::new();
        if !self.flows.is_empty() {
            steps.push(Step::Run(flow::lock, of_flows(&self.flows)));
        }
        if !self.free_flows.is_empty() {
            steps.push(Step::Run(flow::free, of_flows(&self.free_flows)));
        }
        if !self.groups.is_empty() {
            steps.push(Step::Run(group::lock, of_groups(self.groups.iter())));
        }
        if !self.free.is_empty() {
            steps.push(Step::Run(group::free, of_groups(self.free.iter())));
        }
        steps
    }

    /// Reads the answers to [`GraphWanted::lock`].
    pub fn held(&self, answers: &[Vec<Row>]) -> Result<Held, StoreError> {
        let mut answers = answers.iter();
        let mut next = |any: bool| any.then(|| answers.next()).flatten().into_iter().flatten();
        next(!self.flows.is_empty()).for_each(drop);
        let flows = next(!self.free_flows.is_empty()).map(|row| Reader::new(row).flow());
        let flows = flows.collect::<Result<_, _>>()?;
        next(!self.groups.is_empty()).for_each(drop);
        let groups = next(!self.free.is_empty()).map(|row| Reader::new(row).group());
        Ok(Held { flows, groups: groups.collect::<Result<_, _>>()? })
    }

    /// The statements that load everything; one for each kind of row.
    pub fn load<'a>(&'a self, steps: &mut Vec<Step<'a>>) {
        let mut run = |any: bool, sql, params: &dyn Fn() -> Params<'a>| {
            if any {
                steps.push(Step::Run(sql, params()));
            }
        };
        let flows = || self.flows.iter().chain(&self.free_flows).copied();
        run(flows().next().is_some(), flow::load, &|| Params::new().flows(flows()));
        let groups = || self.groups.iter().chain(&self.free);
        run(groups().next().is_some(), group::load, &|| of_groups(groups()));
        run(!self.grouped.is_empty(), group::of_flow, &|| of_flows(&self.grouped));
        run(!self.edges.is_empty(), edge::load, &|| {
            Params::new().in_flows(self.edges.iter().map(|(flow, id)| (*flow, id.0)))
        });
        run(!self.pairs.is_empty(), edge::pair, &|| {
            let params = Params::new()
                .in_flows(self.pairs.iter().map(|(flow, from, _)| (*flow, from.uuid())));
            params.all(self.pairs.iter().map(|(_, _, to)| to.uuid()), Type::UUID_ARRAY)
        });
        run(!self.outgoing.is_empty(), edge::outgoing, &|| of_groups(self.outgoing.iter()));
        run(!self.incoming.is_empty(), edge::incoming, &|| of_groups(self.incoming.iter()));
        // One more than anybody looks at tells that there are too many.
        run(!self.reach.is_empty(), edge::reach, &|| {
            of_groups(self.reach.iter()).count(CYCLE_NODES_MAX + 1)
        });
        run(!self.behind.is_empty(), edge::behind, &|| {
            of_groups(self.behind.iter()).count(REPLAY_AT_ONCE_MAX)
        });
        run(!self.members.is_empty(), flow::members, &|| of_flows(&self.members));
        run(!self.dispatch.is_empty(), dispatch::load, &|| {
            Params::new().ids(self.dispatch.iter().copied())
        });
        run(!self.cancels.is_empty(), cancel::load, &|| of_groups(self.cancels.iter()));
        run(!self.backlogs.is_empty(), backlog::load, &|| of_flows(&self.backlogs));
        run(!self.owed.is_empty(), backlog::members, &|| {
            of_flows(&self.owed).count(CANCEL_CHUNK_MAX)
        });
        run(!self.first.is_empty(), flow::first, &|| of_flows(&self.first).count(TRIM_CHUNK_MAX));
    }

    /// Reads the answers to [`GraphWanted::load`]. `held` says what of the free could be locked;
    /// nothing when nothing was to be.
    pub fn read(
        &self,
        answers: &mut dyn Iterator<Item = Vec<Row>>,
        held: Option<&Held>,
        loaded: &mut Loaded,
    ) -> Result<(), StoreError> {
        let mut next = |any: bool| any.then(|| answers.next()).flatten().unwrap_or_default();
        let flows = next(!self.flows.is_empty() || !self.free_flows.is_empty());
        self.read_flows(&flows, held, loaded)?;
        let groups = next(!self.groups.is_empty() || !self.free.is_empty());
        self.read_groups(&groups, held, loaded)?;
        self.read_grouped(&next(!self.grouped.is_empty()), loaded)?;
        self.read_edges(&next(!self.edges.is_empty()), loaded)?;
        self.read_pairs(&next(!self.pairs.is_empty()), loaded)?;
        let way = |ids: EdgeIds| (ids.flow, ids.upstream);
        let key = |(flow, id)| Key::Outgoing(flow, id);
        let rows = next(!self.outgoing.is_empty());
        let takes = (key, GraphSet::load_outgoing as Take);
        read_ways(&rows, (&self.outgoing, way), takes, loaded)?;
        let way = |ids: EdgeIds| (ids.flow, ids.downstream);
        let key = |(flow, id)| Key::Incoming(flow, id);
        let rows = next(!self.incoming.is_empty());
        let takes = (key, GraphSet::load_incoming as Take);
        read_ways(&rows, (&self.incoming, way), takes, loaded)?;
        self.read_reach(&next(!self.reach.is_empty()), loaded)?;
        self.read_behind(&next(!self.behind.is_empty()), loaded)?;
        self.read_members(&next(!self.members.is_empty()), loaded)?;
        self.read_dispatch(&next(!self.dispatch.is_empty()), loaded)?;
        self.read_cancels(&next(!self.cancels.is_empty()), loaded)?;
        self.read_backlogs(&next(!self.backlogs.is_empty()), loaded)?;
        let owed = read_first(&self.owed, &next(!self.owed.is_empty()))?;
        loaded.have.graph.owed.extend(owed);
        let first = read_first(&self.first, &next(!self.first.is_empty()))?;
        loaded.have.graph.first.extend(first);
        Ok(())
    }

    fn read_flows(
        &self,
        rows: &[Row],
        held: Option<&Held>,
        loaded: &mut Loaded,
    ) -> Result<(), StoreError> {
        let have = &mut loaded.have.graph;
        have.flows.extend(self.flows.iter().chain(&self.free_flows).map(|flow| (*flow, None)));
        for row in rows {
            let (flow, read) = read_flow(row)?;
            let free = self.free_flows.contains(&flow);
            if free && held.is_some_and(|held| !held.flows.contains(&flow)) {
                have.flows.remove(&flow);
                have.busy.insert(flow);
                continue;
            }
            match read {
                Ok(row) => drop(have.flows.insert(flow, Some(row))),
                Err(error) => {
                    have.flows.remove(&flow);
                    loaded.damaged.insert(Key::Flow(flow), error.clone());
                    loaded.damaged.insert(Key::FreeFlow(flow), error);
                }
            }
        }
        Ok(())
    }

    fn read_groups(
        &self,
        rows: &[Row],
        held: Option<&Held>,
        loaded: &mut Loaded,
    ) -> Result<(), StoreError> {
        let have = &mut loaded.have.graph;
        have.groups.extend(self.groups.iter().chain(&self.free).map(|key| (*key, None)));
        for row in rows {
            let (key, read) = read_group(row)?;
            let free = self.free.contains(&key);
            if free && held.is_some_and(|held| !held.groups.contains(&key)) {
                have.groups.remove(&key);
                have.taken.insert(key);
                continue;
            }
            loaded.locked.insert(key);
            match read {
                Ok(group) => drop(have.groups.insert(key, Some(group))),
                Err(error) => {
                    have.groups.remove(&key);
                    loaded.damaged.insert(Key::Group(key.0, key.1), error.clone());
                    loaded.damaged.insert(Key::FreeGroup(key.0, key.1), error);
                }
            }
        }
        Ok(())
    }

    fn read_grouped(&self, rows: &[Row], loaded: &mut Loaded) -> Result<(), StoreError> {
        let mut groups: BTreeMap<FlowId, Result<Vec<_>, StoreError>> =
            self.grouped.iter().map(|flow| (*flow, Ok(Vec::new()))).collect();
        for row in rows {
            let ((flow, _), read) = read_group(row)?;
            gather(groups.entry(flow).or_insert(Ok(Vec::new())), read);
        }
        for (flow, read) in groups {
            match read {
                Ok(groups) => loaded.have.graph.load_groups(flow, groups),
                Err(error) => drop(loaded.damaged.insert(Key::Groups(flow), error)),
            }
        }
        Ok(())
    }

    fn read_edges(&self, rows: &[Row], loaded: &mut Loaded) -> Result<(), StoreError> {
        let have = &mut loaded.have.graph.edges;
        have.extend(self.edges.iter().map(|key| (*key, None)));
        for row in rows {
            let (EdgeIds { flow, id, .. }, read) = read_edge(row)?;
            match read {
                Ok(edge) => drop(have.insert((flow, id), Some(edge))),
                Err(error) => {
                    have.remove(&(flow, id));
                    loaded.damaged.insert(Key::Edge(flow, id), error);
                }
            }
        }
        Ok(())
    }

    fn read_pairs(&self, rows: &[Row], loaded: &mut Loaded) -> Result<(), StoreError> {
        let have = &mut loaded.have.graph;
        have.pairs.extend(self.pairs.iter().map(|key| (*key, None)));
        for row in rows {
            let (EdgeIds { flow, id, upstream, downstream }, read) = read_edge(row)?;
            let pair = (flow, upstream, downstream);
            match read {
                Ok(edge) => {
                    have.pairs.insert(pair, Some(id));
                    have.edges.insert((flow, id), Some(edge));
                }
                Err(error) => {
                    have.pairs.remove(&pair);
                    loaded.damaged.insert(Key::Pair(flow, upstream, downstream), error);
                }
            }
        }
        Ok(())
    }

    fn read_behind(&self, rows: &[Row], loaded: &mut Loaded) -> Result<(), StoreError> {
        let have = &mut loaded.have.graph.behind;
        have.extend(self.behind.iter().map(|key| (*key, Vec::new())));
        for row in rows {
            let mut r = Reader::new(row);
            let (flow, id) = r.group()?;
            let ids: Vec<Uuid> = r.take("behind")?;
            let ids = ids.into_iter().map(|uuid| ExecutionId::for_flow(flow, uuid));
            have.insert((flow, id), ids.collect());
        }
        Ok(())
    }

    fn read_reach(&self, rows: &[Row], loaded: &mut Loaded) -> Result<(), StoreError> {
        let have = &mut loaded.have.graph.reach;
        have.extend(self.reach.iter().map(|key| (*key, Reach::All(BTreeSet::new()))));
        for row in rows {
            let mut r = Reader::new(row);
            let (flow, id) = r.group()?;
            let reached: Vec<Uuid> = r.take("reached")?;
            let reach = if reached.len() > CYCLE_NODES_MAX {
                Reach::TooMany
            } else {
                let reached = reached.into_iter();
                Reach::All(reached.map(|uuid| ExecutionId::for_flow(flow, uuid)).collect())
            };
            have.insert((flow, id), reach);
        }
        Ok(())
    }

    fn read_members(&self, rows: &[Row], loaded: &mut Loaded) -> Result<(), StoreError> {
        let mut members: BTreeMap<FlowId, Result<Vec<_>, StoreError>> =
            self.members.iter().map(|flow| (*flow, Ok(Vec::new()))).collect();
        for row in rows {
            let mut r = Reader::new(row);
            let (id, flow) = (r.id()?, r.flow()?);
            let phase = parse::<Phase>("phase", r.take("phase")?);
            gather(members.entry(flow).or_insert(Ok(Vec::new())), phase.map(|phase| (id, phase)));
        }
        for (flow, read) in members {
            match read {
                Ok(mut members) => {
                    members.sort_unstable_by_key(|(id, _)| *id);
                    loaded.have.graph.members.insert(flow, members);
                }
                Err(error) => drop(loaded.damaged.insert(Key::Members(flow), error)),
            }
        }
        Ok(())
    }

    fn read_dispatch(&self, rows: &[Row], loaded: &mut Loaded) -> Result<(), StoreError> {
        let have = &mut loaded.have.graph.dispatch;
        have.extend(self.dispatch.iter().map(|id| (*id, None)));
        for row in rows {
            let mut r = Reader::new(row);
            let (execution, flow) = (r.id()?, r.flow()?);
            let at = Millis(r.take("at_ms")?);
            have.insert(execution, Some(Dispatch { at, flow, execution }));
        }
        Ok(())
    }

    fn read_cancels(&self, rows: &[Row], loaded: &mut Loaded) -> Result<(), StoreError> {
        let have = &mut loaded.have.graph.cancels;
        have.extend(self.cancels.iter().map(|key| (*key, None)));
        for row in rows {
            let mut r = Reader::new(row);
            let (flow, downstream) = r.group()?;
            let enqueued_at = Millis(r.take("enqueued_at_ms")?);
            let row = PendingCancel { enqueued_at, flow, downstream };
            have.insert((flow, downstream), Some(row));
        }
        Ok(())
    }

    fn read_backlogs(&self, rows: &[Row], loaded: &mut Loaded) -> Result<(), StoreError> {
        let have = &mut loaded.have.graph.backlogs;
        have.extend(self.backlogs.iter().map(|flow| (*flow, None)));
        for row in rows {
            let mut r = Reader::new(row);
            let flow = r.flow()?;
            let requested_at = Millis(r.take("requested_at_ms")?);
            have.insert(flow, Some(Backlog { flow, requested_at }));
        }
        Ok(())
    }
}

/// One more of those that must all be readable.
pub fn gather<T>(all: &mut Result<Vec<T>, StoreError>, read: Result<T, StoreError>) {
    match (&mut *all, read) {
        (Ok(rows), Ok(row)) => rows.push(row),
        (Ok(_), Err(error)) => *all = Err(error),
        (Err(_), _) => {}
    }
}

/// Takes in all edges out of, or into, an execution.
type Take = fn(&mut GraphSet, GroupKey, Vec<Edge>);

/// Edges that were loaded because they lead out of, or into, an execution.
fn read_ways(
    rows: &[Row],
    (wanted, way): (&BTreeSet<GroupKey>, impl Fn(EdgeIds) -> GroupKey),
    (key, load): (impl Fn(GroupKey) -> Key, Take),
    loaded: &mut Loaded,
) -> Result<(), StoreError> {
    let mut ways: BTreeMap<GroupKey, Result<Vec<Edge>, StoreError>> =
        wanted.iter().map(|way| (*way, Ok(Vec::new()))).collect();
    for row in rows {
        let (ids, read) = read_edge(row)?;
        gather(ways.entry(way(ids)).or_insert(Ok(Vec::new())), read);
    }
    for (way, read) in ways {
        match read {
            Ok(edges) => load(&mut loaded.have.graph, way, edges),
            Err(error) => drop(loaded.damaged.insert(key(way), error)),
        }
    }
    Ok(())
}

/// The first members, or the first owed ones, of each flow, in order.
fn read_first(
    wanted: &BTreeSet<FlowId>,
    rows: &[Row],
) -> Result<BTreeMap<FlowId, Vec<ExecutionId>>, StoreError> {
    let mut first: BTreeMap<FlowId, Vec<ExecutionId>> =
        wanted.iter().map(|flow| (*flow, Vec::new())).collect();
    for row in rows {
        let mut r = Reader::new(row);
        let (id, flow) = (r.id()?, r.flow()?);
        first.entry(flow).or_default().push(id);
    }
    for ids in first.values_mut() {
        ids.sort_unstable();
    }
    Ok(first)
}

fn of_flows<'a>(flows: &BTreeSet<FlowId>) -> Params<'a> {
    Params::new().flows(flows.iter().copied())
}

fn of_groups<'a, 'k>(keys: impl Iterator<Item = &'k GroupKey> + Clone) -> Params<'a> {
    Params::new().in_flows(keys.map(|(flow, id)| (*flow, id.uuid())))
}
