//! The rows of flows in a batch: what is loaded of them, what one command changes, what is written.

use std::collections::{BTreeMap, BTreeSet};

use uuid::Uuid;

use crate::error::{Code, Rejection};
use crate::execution::{AttemptRecord, Execution};
use crate::flow::{Backlog, Dispatch, Edge, Flow, Group, PendingCancel, Reach};
use crate::fold::{Blob, Delta, Key, Write, changes, put};
use crate::ids::{EdgeId, ExecutionId, FlowId};
use crate::limits::CYCLE_NODES_MAX;
use crate::state::Phase;

/// Names a group: the flow and the execution that waits.
pub type GroupKey = (FlowId, ExecutionId);

/// Loaded rows of flows; `None` is a row known to be absent.
#[derive(Clone, Debug, Default)]
pub struct GraphSet {
    /// Flows.
    pub flows: BTreeMap<FlowId, Option<Flow>>,
    /// Flows that somebody else holds; they were not waited for.
    pub busy: BTreeSet<FlowId>,
    /// Groups.
    pub groups: BTreeMap<GroupKey, Option<Group>>,
    /// Groups that somebody else holds; they were not waited for.
    pub taken: BTreeSet<GroupKey>,
    /// Flows of which every group was loaded.
    pub grouped: BTreeSet<FlowId>,
    /// Edges.
    pub edges: BTreeMap<(FlowId, EdgeId), Option<Edge>>,
    /// Which edge leads from one execution to another.
    pub pairs: BTreeMap<(FlowId, ExecutionId, ExecutionId), Option<EdgeId>>,
    /// The edges out of an execution.
    pub outgoing: BTreeMap<GroupKey, BTreeSet<EdgeId>>,
    /// The edges into an execution.
    pub incoming: BTreeMap<GroupKey, BTreeSet<EdgeId>>,
    /// What can be reached from an execution, as of before the batch.
    pub reach: BTreeMap<GroupKey, Reach>,
    /// What lies behind an execution along edges that are impossible, as of before the batch.
    pub behind: BTreeMap<GroupKey, Vec<ExecutionId>>,
    /// Edges that the batch added, from where and to where.
    pub added: Vec<(FlowId, ExecutionId, ExecutionId)>,
    /// Members of a flow that have not ended, in order of their ids, as of before the batch.
    pub members: BTreeMap<FlowId, Vec<(ExecutionId, Phase)>>,
    /// Members whose end is still to be dispatched.
    pub dispatch: BTreeMap<ExecutionId, Option<Dispatch>>,
    /// Groups whose siblings are still to be cancelled.
    pub cancels: BTreeMap<GroupKey, Option<PendingCancel>>,
    /// Cancellations that are not done.
    pub backlogs: BTreeMap<FlowId, Option<Backlog>>,
    /// The first owed members of such a flow, in order of their ids, as of before the batch.
    pub owed: BTreeMap<FlowId, Vec<ExecutionId>>,
    /// Flows that owe members since the batch.
    pub owing: BTreeSet<FlowId>,
    /// Whether some consumer has yet to deal with an event of these flows themselves.
    pub unseen: BTreeMap<FlowId, bool>,
    /// The first members of a flow that is to be removed, and those that the batch brings.
    pub first: BTreeMap<FlowId, Vec<ExecutionId>>,
}

impl GraphSet {
    /// Whether the row was looked up.
    pub(super) fn has(&self, key: &Key) -> bool {
        match key {
            Key::Flow(id) => self.flows.contains_key(id),
            Key::FreeFlow(id) => self.flows.contains_key(id) || self.busy.contains(id),
            Key::Group(flow, id) => self.groups.contains_key(&(*flow, *id)),
            Key::FreeGroup(flow, id) => {
                let key = (*flow, *id);
                self.groups.contains_key(&key) || self.taken.contains(&key)
            }
            Key::UnseenFlow(flow) => self.unseen.contains_key(flow),
            Key::Groups(flow) => self.grouped.contains(flow),
            Key::Edge(flow, id) => self.edges.contains_key(&(*flow, *id)),
            Key::Pair(flow, from, to) => self.pairs.contains_key(&(*flow, *from, *to)),
            Key::Outgoing(flow, id) => self.outgoing.contains_key(&(*flow, *id)),
            Key::Incoming(flow, id) => self.incoming.contains_key(&(*flow, *id)),
            Key::Reach(flow, id) => self.reach.contains_key(&(*flow, *id)),
            Key::Behind(flow, id) => self.behind.contains_key(&(*flow, *id)),
            Key::Members(flow) => self.members.contains_key(flow),
            Key::Dispatch(id) => self.dispatch.contains_key(id),
            Key::Cancel(flow, id) => self.cancels.contains_key(&(*flow, *id)),
            Key::Backlog(flow) => self.backlogs.contains_key(flow),
            Key::Owed(flow) => self.owed.contains_key(flow),
            Key::First(flow) => self.first.contains_key(flow),
            Key::Execution(_)
            | Key::Idempotency(..)
            | Key::Consumer(_)
            | Key::Step(..)
            | Key::Stepped(..)
            | Key::Input(_)
            | Key::Unseen(_)
            | Key::Wait(_) => false,
        }
    }

    /// The flow, or the answer that there is none.
    pub fn flow(&self, id: FlowId) -> Result<&Flow, Rejection> {
        self.known_flow(id).ok_or_else(|| {
            let mut gone = Rejection::new(Code::FlowNotFound, format!("there is no flow {id}"));
            gone.value = Some(id.to_string());
            gone
        })
    }

    /// The flow, if there is one.
    pub fn known_flow(&self, id: FlowId) -> Option<&Flow> {
        self.flows.get(&id).and_then(Option::as_ref)
    }

    /// The group, if there is one.
    pub fn group(&self, key: GroupKey) -> Option<&Group> {
        self.groups.get(&key).and_then(Option::as_ref)
    }

    /// The edges whose ids are in `of`.
    pub fn edges_of(&self, flow: FlowId, of: Option<&BTreeSet<EdgeId>>) -> Vec<&Edge> {
        let ids = of.into_iter().flatten();
        ids.filter_map(|id| self.edges.get(&(flow, *id))?.as_ref()).collect()
    }

    /// The edges into an execution, as far as they were loaded or added.
    pub fn edges_into(&self, flow: FlowId, id: ExecutionId) -> impl Iterator<Item = &Edge> {
        let edges = self.edges.range((flow, EdgeId(Uuid::nil()))..);
        let edges = edges.take_while(move |((of, _), _)| *of == flow);
        edges.filter_map(|(_, edge)| edge.as_ref()).filter(move |edge| edge.downstream == id)
    }

    /// Takes in all edges out of an execution.
    pub fn load_outgoing(&mut self, of: GroupKey, edges: Vec<Edge>) {
        self.outgoing.insert(of, edges.iter().map(|edge| edge.id).collect());
        self.load_edges(edges);
    }

    /// Takes in all edges into an execution.
    pub fn load_incoming(&mut self, of: GroupKey, edges: Vec<Edge>) {
        self.incoming.insert(of, edges.iter().map(|edge| edge.id).collect());
        self.load_edges(edges);
    }

    fn load_edges(&mut self, edges: Vec<Edge>) {
        self.edges.extend(edges.into_iter().map(|edge| ((edge.flow, edge.id), Some(edge))));
    }

    /// Takes in every group of a flow.
    pub fn load_groups(&mut self, flow: FlowId, groups: Vec<Group>) {
        self.grouped.insert(flow);
        let rows = groups.into_iter().map(|group| ((flow, group.downstream), Some(group)));
        self.groups.extend(rows);
    }

    /// Whether an edge from `from` to `to` would close a circle, given what was reachable before the
    /// batch and what it added since. Nothing when there is too much to look at.
    pub fn closes_circle(&self, flow: FlowId, from: ExecutionId, to: ExecutionId) -> Option<bool> {
        let mut seen = BTreeSet::from([to]);
        let mut fresh = vec![to];
        while let Some(at) = fresh.pop() {
            if at == from {
                return Some(true);
            }
            if seen.len() > CYCLE_NODES_MAX {
                return None;
            }
            let mut next = Vec::new();
            match self.reach.get(&(flow, at)) {
                Some(Reach::TooMany) => return None,
                Some(Reach::All(reached)) => next.extend(reached.iter().copied()),
                // It was reached through what was loaded, or it is new: nothing else leads on.
                None => {}
            }
            let added = self.added.iter().filter(|(of, up, _)| *of == flow && *up == at);
            next.extend(added.map(|(_, _, down)| *down));
            fresh.extend(next.into_iter().filter(|id| seen.insert(*id)));
        }
        Some(false)
    }
}

/// What one accepted command changes in a flow.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GraphEffects {
    /// The flow as it is to be.
    pub flow: Option<Flow>,
    /// A flow that goes, with its edges and groups.
    pub removed: Option<FlowId>,
    /// Groups as they are to be.
    pub groups: Vec<Group>,
    /// Edges as they are to be.
    pub edges: Vec<Edge>,
    /// Executions as they are to be.
    pub executions: Vec<Execution>,
    /// Attempts that are over.
    pub attempts: Vec<AttemptRecord>,
    /// Executions that go, with everything they owned.
    pub gone: Vec<ExecutionId>,
    /// Bytes to keep.
    pub blobs: Vec<Blob>,
    /// Members whose end is to be dispatched, or was.
    pub dispatch: Vec<(ExecutionId, Option<Dispatch>)>,
    /// Groups whose siblings are to be cancelled, or were.
    pub cancels: Vec<(GroupKey, Option<PendingCancel>)>,
    /// A cancellation that is not done, or is.
    pub backlog: Option<(FlowId, Option<Backlog>)>,
    /// Members that are owed, or are not any more.
    pub owed: Vec<(FlowId, ExecutionId, bool)>,
}

/// What a batch changes in flows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GraphWrites {
    /// Flows that go, with their edges and groups.
    pub removed: BTreeSet<FlowId>,
    /// Flows to insert or update.
    pub flows: Vec<Write<Flow>>,
    /// Groups to insert or update.
    pub groups: Vec<Write<Group>>,
    /// Edges to insert, or to change the state of.
    pub edges: Vec<Write<Edge>>,
    /// Ends to be dispatched.
    pub dispatch: Delta<Dispatch>,
    /// Groups whose siblings are to be cancelled.
    pub cancels: Delta<PendingCancel>,
    /// Cancellations that are not done.
    pub backlogs: BTreeMap<FlowId, Option<Backlog>>,
    /// Owed members.
    pub owed: Delta<(FlowId, ExecutionId)>,
}

impl GraphWrites {
    /// Whether a flow ends.
    pub fn ends_flows(&self) -> bool {
        let ended = |flow: &Option<Flow>| flow.as_ref().is_some_and(Flow::is_terminal);
        self.flows.iter().any(|write| ended(&write.after) && !ended(&write.before))
    }

    /// Whether members are to be cancelled: a group fired, or ends are owed.
    pub fn cancels_members(&self) -> bool {
        !self.cancels.insert.is_empty() || self.backlogs.values().any(Option::is_some)
    }
}

/// Rows as they were before the batch.
#[derive(Default)]
pub(super) struct Before {
    flows: BTreeMap<FlowId, Option<Flow>>,
    groups: BTreeMap<GroupKey, Option<Group>>,
    edges: BTreeMap<(FlowId, EdgeId), Option<Edge>>,
    dispatch: BTreeMap<ExecutionId, Option<Dispatch>>,
    cancels: BTreeMap<GroupKey, Option<PendingCancel>>,
}

impl Before {
    /// What goes with its flow is gone before anything is written.
    fn forget(&mut self, removed: &BTreeSet<FlowId>) {
        if removed.is_empty() {
            return;
        }
        let flows = self.flows.iter_mut().filter(|(flow, _)| removed.contains(flow));
        flows.for_each(|(_, row)| *row = None);
        let groups = self.groups.iter_mut().filter(|((flow, _), _)| removed.contains(flow));
        groups.for_each(|(_, row)| *row = None);
        let edges = self.edges.iter_mut().filter(|((flow, _), _)| removed.contains(flow));
        edges.for_each(|(_, row)| *row = None);
        let cancels = self.cancels.iter_mut().filter(|((flow, _), _)| removed.contains(flow));
        cancels.for_each(|(_, row)| *row = None);
    }
}

/// Puts a row in place and remembers what stood there before the batch.
impl GraphSet {
    /// Takes over what one command changes in a flow; executions and bytes are the caller's.
    pub(super) fn absorb(
        &mut self,
        effects: GraphEffects,
        set: &mut GraphWrites,
        was: &mut Before,
    ) {
        if let Some(flow) = effects.removed {
            put(&mut self.flows, &mut was.flows, flow, None);
            self.forget(flow);
            set.backlogs.remove(&flow);
            set.owed.insert.retain(|(of, _)| *of != flow);
            set.owed.remove.retain(|(of, _)| *of != flow);
            set.removed.insert(flow);
        }
        if let Some(flow) = effects.flow {
            put(&mut self.flows, &mut was.flows, flow.id, Some(flow));
        }
        for group in effects.groups {
            let key = (group.flow, group.downstream);
            put(&mut self.groups, &mut was.groups, key, Some(group));
        }
        for edge in effects.edges {
            self.absorb_edge(edge, was);
        }
        for (id, row) in effects.dispatch {
            put(&mut self.dispatch, &mut was.dispatch, id, row);
        }
        for (key, row) in effects.cancels {
            put(&mut self.cancels, &mut was.cancels, key, row);
        }
        if let Some((flow, row)) = effects.backlog {
            self.backlogs.insert(flow, row);
            set.backlogs.insert(flow, row);
        }
        for (flow, id, owes) in effects.owed {
            if owes {
                self.owing.insert(flow);
                set.owed.insert.push((flow, id));
            } else {
                set.owed.remove.push((flow, id));
            }
        }
    }

    /// Nothing is left of what belonged to a flow that goes; its id may be used again at once.
    fn forget(&mut self, flow: FlowId) {
        let groups = self.groups.iter_mut().filter(|((of, _), _)| *of == flow);
        groups.for_each(|(_, group)| *group = None);
        let edges = self.edges.iter_mut().filter(|((of, _), _)| *of == flow);
        edges.for_each(|(_, edge)| *edge = None);
        let pairs = self.pairs.iter_mut().filter(|((of, ..), _)| *of == flow);
        pairs.for_each(|(_, edge)| *edge = None);
        let cancels = self.cancels.iter_mut().filter(|((of, _), _)| *of == flow);
        cancels.for_each(|(_, row)| *row = None);
        for ends in [&mut self.outgoing, &mut self.incoming] {
            let own = ends.iter_mut().filter(|((of, _), _)| *of == flow);
            own.for_each(|(_, edges)| edges.clear());
        }
        let reach = self.reach.iter_mut().filter(|((of, _), _)| *of == flow);
        reach.for_each(|(_, reach)| *reach = Reach::All(BTreeSet::new()));
        let behind = self.behind.iter_mut().filter(|((of, _), _)| *of == flow);
        behind.for_each(|(_, ids)| ids.clear());
        self.added.retain(|(of, ..)| *of != flow);
        self.backlogs.entry(flow).and_modify(|row| *row = None);
        self.members.entry(flow).and_modify(Vec::clear);
        self.owed.entry(flow).and_modify(Vec::clear);
        self.owing.remove(&flow);
        self.first.entry(flow).and_modify(Vec::clear);
    }

    /// Takes note of a new member.
    pub(super) fn joined(&mut self, flow: FlowId, id: ExecutionId) {
        self.first.entry(flow).and_modify(|first| first.push(id));
    }

    fn absorb_edge(&mut self, edge: Edge, was: &mut Before) {
        let (flow, id) = (edge.flow, edge.id);
        if !matches!(self.edges.get(&(flow, id)), Some(Some(_))) {
            self.added.push((flow, edge.upstream, edge.downstream));
            self.pairs.insert((flow, edge.upstream, edge.downstream), Some(id));
            if let Some(edges) = self.outgoing.get_mut(&(flow, edge.upstream)) {
                edges.insert(id);
            }
            if let Some(edges) = self.incoming.get_mut(&(flow, edge.downstream)) {
                edges.insert(id);
            }
        }
        put(&mut self.edges, &mut was.edges, (flow, id), Some(edge));
    }

    /// What the batch changed, in the end.
    pub(super) fn writes(&self, mut was: Before, set: &mut GraphWrites) {
        was.forget(&set.removed);
        set.flows = changes(was.flows, &self.flows);
        set.groups = changes(was.groups, &self.groups);
        set.edges = changes(was.edges, &self.edges);
        for write in changes(was.dispatch, &self.dispatch) {
            set.dispatch.remove.extend(write.before);
            set.dispatch.insert.extend(write.after);
        }
        for write in changes(was.cancels, &self.cancels) {
            set.cancels.remove.extend(write.before);
            set.cancels.insert.extend(write.after);
        }
        set.owed.insert.sort_unstable();
        set.owed.remove.sort_unstable();
    }
}
