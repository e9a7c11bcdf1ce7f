//! Flows and what belongs to them: the rows that decisions need.
//!
//! Flows and groups are locked before they are read; the rest is read while they are. A row that
//! cannot be read is reported under every key that asked for it.

pub mod list;
mod rows;
mod write;

use std::collections::BTreeSet;

use ff_core::backend::StoreError;
use ff_core::flow::{Backlog, Dispatch, PendingCancel, Reach};
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
use crate::connection::{Step, run_for};
use crate::load::{Answers, Damaged, Keyed, Loaded, keep};
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
            | Key::UnseenFlow(_)
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
        run_for(&mut steps, flow::lock, &self.flows, of_flows);
        run_for(&mut steps, flow::free, &self.free_flows, of_flows);
        run_for(&mut steps, group::lock, &self.groups, of_groups);
        run_for(&mut steps, group::free, &self.free, of_groups);
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
        let flows = self.flows.iter().chain(&self.free_flows).copied();
        if flows.clone().next().is_some() {
            steps.push(Step::Run(flow::load, Params::new().flows(flows)));
        }
        let groups = self.groups.iter().chain(&self.free);
        if groups.clone().next().is_some() {
            steps.push(Step::Run(group::load, of_groups(groups)));
        }
        run_for(steps, group::of_flow, &self.grouped, of_flows);
        run_for(steps, edge::load, &self.edges, |edges| {
            Params::new().in_flows(edges.iter().map(|(flow, id)| (*flow, id.0)))
        });
        run_for(steps, edge::pair, &self.pairs, |pairs| {
            let from = pairs.iter().map(|(flow, from, _)| (*flow, from.uuid()));
            let to = pairs.iter().map(|(_, _, to)| to.uuid());
            Params::new().in_flows(from).all(to, Type::UUID_ARRAY)
        });
        run_for(steps, edge::outgoing, &self.outgoing, of_groups);
        run_for(steps, edge::incoming, &self.incoming, of_groups);
        // One more than anybody looks at tells that there are too many.
        let reach = |from| of_groups(from).count(CYCLE_NODES_MAX + 1);
        run_for(steps, edge::reach, &self.reach, reach);
        let behind = |from| of_groups(from).count(REPLAY_AT_ONCE_MAX);
        run_for(steps, edge::behind, &self.behind, behind);
        run_for(steps, flow::members, &self.members, of_flows);
        run_for(steps, dispatch::load, &self.dispatch, |ids| {
            Params::new().ids(ids.iter().copied())
        });
        run_for(steps, cancel::load, &self.cancels, of_groups);
        run_for(steps, backlog::load, &self.backlogs, of_flows);
        let owed = |flows| of_flows(flows).count(CANCEL_CHUNK_MAX + 1);
        run_for(steps, backlog::members, &self.owed, owed);
        let first = |flows| of_flows(flows).count(TRIM_CHUNK_MAX);
        run_for(steps, flow::first, &self.first, first);
    }

    /// Reads the answers to [`GraphWanted::load`]. `held` says what of the free could be locked;
    /// nothing when nothing was to be.
    pub fn read(
        &self,
        answers: &mut Answers,
        held: Option<&Held>,
        loaded: &mut Loaded,
    ) -> Result<(), StoreError> {
        let flows = answers.next(!self.flows.is_empty() || !self.free_flows.is_empty());
        self.read_flows(&flows, held, loaded)?;
        let groups = answers.next(!self.groups.is_empty() || !self.free.is_empty());
        self.read_groups(&groups, held, loaded)?;
        let Loaded { have, damaged, .. } = loaded;
        let have = &mut have.graph;
        let groups = answers.gather(&self.grouped, damaged, Key::Groups, |row| {
            read_group(row).map(|((flow, _), group)| (flow, group))
        })?;
        for (flow, groups) in groups {
            have.load_groups(flow, groups);
        }
        self.read_edges(answers, have, damaged)?;
        self.read_rest(answers, have, damaged)
    }

    fn read_edges(
        &self,
        answers: &mut Answers,
        have: &mut GraphSet,
        damaged: &mut Damaged,
    ) -> Result<(), StoreError> {
        let edge = |(flow, id)| Key::Edge(flow, id);
        answers.fill_readable(&self.edges, (&mut have.edges, damaged), edge, |row| {
            read_edge(row).map(|(ids, edge)| ((ids.flow, ids.id), edge))
        })?;
        have.pairs.extend(self.pairs.iter().map(|key| (*key, None)));
        for row in answers.next(!self.pairs.is_empty()) {
            let (EdgeIds { flow, id, upstream, downstream }, read) = read_edge(&row)?;
            let found = read.map(|edge| drop(have.edges.insert((flow, id), Some(edge))));
            let pair = (flow, upstream, downstream);
            if let Some(error) = keep(&mut have.pairs, pair, found.map(|()| id)) {
                damaged.insert(Key::Pair(flow, upstream, downstream), error);
            }
        }
        let outgoing = |(flow, id)| Key::Outgoing(flow, id);
        let outgoing = answers.gather(&self.outgoing, damaged, outgoing, |row| {
            read_edge(row).map(|(ids, edge)| ((ids.flow, ids.upstream), edge))
        })?;
        for (from, edges) in outgoing {
            have.load_outgoing(from, edges);
        }
        let incoming = |(flow, id)| Key::Incoming(flow, id);
        let incoming = answers.gather(&self.incoming, damaged, incoming, |row| {
            read_edge(row).map(|(ids, edge)| ((ids.flow, ids.downstream), edge))
        })?;
        for (into, edges) in incoming {
            have.load_incoming(into, edges);
        }
        answers.fill(&self.reach, &mut have.reach, Reach::All(BTreeSet::new()), read_reach)?;
        answers.fill(&self.behind, &mut have.behind, Vec::new(), |r| {
            let (flow, id) = r.group()?;
            let behind = r.take::<Vec<Uuid>>("behind")?.into_iter();
            Ok(((flow, id), behind.map(|uuid| ExecutionId::for_flow(flow, uuid)).collect()))
        })
    }

    fn read_rest(
        &self,
        answers: &mut Answers,
        have: &mut GraphSet,
        damaged: &mut Damaged,
    ) -> Result<(), StoreError> {
        let members = answers.gather(&self.members, damaged, Key::Members, |row| {
            let mut r = Reader::new(row);
            let (id, flow) = (r.id()?, r.flow()?);
            let phase = parse::<Phase>("phase", r.take("phase")?);
            Ok((flow, phase.map(|phase| (id, phase))))
        })?;
        have.members.extend(members.into_iter().map(in_order));
        answers.fill(&self.dispatch, &mut have.dispatch, None, |r| {
            let (execution, flow) = (r.id()?, r.flow()?);
            let at = Millis(r.take("at_ms")?);
            Ok((execution, Some(Dispatch { at, flow, execution })))
        })?;
        answers.fill(&self.cancels, &mut have.cancels, None, |r| {
            let (flow, downstream) = r.group()?;
            let enqueued_at = Millis(r.take("enqueued_at_ms")?);
            Ok(((flow, downstream), Some(PendingCancel { enqueued_at, flow, downstream })))
        })?;
        answers.fill(&self.backlogs, &mut have.backlogs, None, |r| {
            let (flow, requested_at) = (r.flow()?, Millis(r.take("requested_at_ms")?));
            Ok((flow, Some(Backlog { flow, requested_at })))
        })?;
        let owed = answers.gather(&self.owed, damaged, Key::Owed, read_member)?;
        have.owed.extend(owed.into_iter().map(in_order));
        let first = answers.gather(&self.first, damaged, Key::First, read_member)?;
        have.first.extend(first.into_iter().map(in_order));
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
            if let Some(error) = keep(&mut have.flows, flow, read) {
                loaded.damaged.insert(Key::Flow(flow), error.clone());
                loaded.damaged.insert(Key::FreeFlow(flow), error);
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
            if let Some(error) = keep(&mut have.groups, key, read) {
                loaded.damaged.insert(Key::Group(key.0, key.1), error.clone());
                loaded.damaged.insert(Key::FreeGroup(key.0, key.1), error);
            }
        }
        Ok(())
    }
}

fn read_reach(r: &mut Reader<'_>) -> Result<(GroupKey, Reach), StoreError> {
    let (flow, id) = r.group()?;
    let reached: Vec<Uuid> = r.take("reached")?;
    let reach = if reached.len() > CYCLE_NODES_MAX {
        Reach::TooMany
    } else {
        let reached = reached.into_iter();
        Reach::All(reached.map(|uuid| ExecutionId::for_flow(flow, uuid)).collect())
    };
    Ok(((flow, id), reach))
}

/// A member, by its flow.
fn read_member(row: &Row) -> Keyed<FlowId, ExecutionId> {
    let mut r = Reader::new(row);
    let (id, flow) = (r.id()?, r.flow()?);
    Ok((flow, Ok(id)))
}

/// Members of a flow, by their ids.
fn in_order<T: Ord>((flow, mut members): (FlowId, Vec<T>)) -> (FlowId, Vec<T>) {
    members.sort_unstable();
    (flow, members)
}

fn of_flows<'a>(flows: &BTreeSet<FlowId>) -> Params<'a> {
    Params::new().flows(flows.iter().copied())
}

fn of_groups<'a, 'k>(keys: impl IntoIterator<Item = &'k GroupKey, IntoIter: Clone>) -> Params<'a> {
    Params::new().in_flows(keys.into_iter().map(|(flow, id)| (*flow, id.uuid())))
}
