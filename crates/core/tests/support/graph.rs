//! Loading what belongs to flows: the rows of a world are all there is, and what is derived from
//! them is derived anew for every batch.

use std::collections::{BTreeMap, BTreeSet};

use ff_core::flow::{Edge, EdgeState, Reach};
use ff_core::fold::{GraphSet, Key};
use ff_core::limits::{CANCEL_CHUNK_MAX, CYCLE_NODES_MAX, TRIM_CHUNK_MAX};
use ff_core::state::Phase;
use ff_core::{Execution, ExecutionId, FlowId, WorkingSet};

use super::World;

/// Forgets what was derived from rows for an earlier batch.
pub fn begin_batch(rows: &mut WorkingSet) {
    rows.inputs.clear();
    let GraphSet { flows, groups, edges, dispatch, cancels, backlogs, .. } =
        std::mem::take(&mut rows.graph);
    rows.graph =
        GraphSet { flows, groups, edges, dispatch, cancels, backlogs, ..GraphSet::default() };
}

impl World {
    fn edges(&self, flow: FlowId) -> Vec<Edge> {
        let edges = self.rows.graph.edges.values().flatten();
        edges.filter(|edge| edge.flow == flow).cloned().collect()
    }

    fn members(&self, flow: FlowId) -> impl Iterator<Item = &Execution> {
        let all = self.rows.executions.values().flatten();
        all.filter(move |x| x.flow() == Some(flow))
    }

    /// Loads a key of flows; what was never written is absent.
    pub(super) fn load_graph(&mut self, key: &Key) {
        let edges = |world: &Self, flow: FlowId, of: fn(&Edge) -> ExecutionId, id: ExecutionId| {
            let edges = world.edges(flow).into_iter();
            edges.filter(|edge| of(edge) == id).collect::<Vec<_>>()
        };
        match key {
            Key::Flow(id) | Key::FreeFlow(id) => {
                self.rows.graph.flows.insert(*id, None);
            }
            Key::Group(flow, id) | Key::FreeGroup(flow, id) => {
                self.rows.graph.groups.insert((*flow, *id), None);
            }
            Key::Groups(flow) => {
                let groups = self.rows.graph.groups.values().flatten();
                let groups = groups.filter(|group| group.flow == *flow).cloned().collect();
                self.rows.graph.load_groups(*flow, groups);
            }
            Key::Edge(flow, id) => {
                self.rows.graph.edges.insert((*flow, *id), None);
            }
            Key::Pair(flow, from, to) => {
                let mut out = edges(self, *flow, |edge| edge.upstream, *from).into_iter();
                let id = out.find(|edge| edge.downstream == *to).map(|edge| edge.id);
                self.rows.graph.pairs.insert((*flow, *from, *to), id);
            }
            Key::Outgoing(flow, id) => {
                let out = edges(self, *flow, |edge| edge.upstream, *id);
                self.rows.graph.load_outgoing((*flow, *id), out);
            }
            Key::Incoming(flow, id) => {
                let into = edges(self, *flow, |edge| edge.downstream, *id);
                self.rows.graph.load_incoming((*flow, *id), into);
            }
            Key::Reach(flow, id) => {
                let reach = reach(&self.edges(*flow), *id);
                self.rows.graph.reach.insert((*flow, *id), reach);
            }
            Key::Behind(flow, id) => {
                let behind = behind(&self.edges(*flow), *id);
                self.rows.graph.behind.insert((*flow, *id), behind);
            }
            Key::Dispatch(id) => {
                self.rows.graph.dispatch.insert(*id, None);
            }
            Key::Cancel(flow, id) => {
                self.rows.graph.cancels.insert((*flow, *id), None);
            }
            Key::Backlog(flow) => {
                self.rows.graph.backlogs.insert(*flow, None);
            }
            Key::Members(_) | Key::Owed(_) | Key::First(_) => self.load_members(key),
            Key::Execution(_)
            | Key::Idempotency(..)
            | Key::Consumer(_)
            | Key::Step(..)
            | Key::Stepped(..)
            | Key::Input(_)
            | Key::Unseen(_)
            | Key::UnseenFlow(_)
            | Key::Wait(_) => unreachable!("these are not of flows"),
        }
    }

    fn load_members(&mut self, key: &Key) {
        match key {
            Key::Members(flow) => {
                let phases = self.members(*flow).map(|x| (x.id, x.state.phase()));
                let members = phases.filter(|(_, phase)| *phase != Phase::Terminal).collect();
                self.rows.graph.members.insert(*flow, members);
            }
            Key::Owed(flow) => {
                let owed = self.owed.iter().filter(|(of, _)| of == flow).map(|(_, id)| *id);
                let owed = owed.take(CANCEL_CHUNK_MAX + 1).collect();
                self.rows.graph.owed.insert(*flow, owed);
            }
            Key::First(flow) => {
                let first = self.members(*flow).map(|x| x.id).take(TRIM_CHUNK_MAX).collect();
                self.rows.graph.first.insert(*flow, first);
            }
            _ => unreachable!("these are not of members"), // not ours: see above
        }
    }
}

fn behind(edges: &[Edge], from: ExecutionId) -> Vec<ExecutionId> {
    let lost = edges.iter().filter(|edge| matches!(edge.state, EdgeState::Impossible { .. }));
    let lost: Vec<_> = lost.collect();
    let (mut found, mut at) = (vec![from], 0);
    while let Some(id) = found.get(at).copied() {
        let next = lost.iter().filter(|edge| edge.upstream == id).map(|edge| edge.downstream);
        let fresh: BTreeSet<_> = next.filter(|id| !found.contains(id)).collect();
        found.extend(fresh);
        at += 1;
    }
    found.split_off(1)
}

fn reach(edges: &[Edge], from: ExecutionId) -> Reach {
    let mut follow: BTreeMap<ExecutionId, Vec<ExecutionId>> = BTreeMap::new();
    for edge in edges {
        follow.entry(edge.upstream).or_default().push(edge.downstream);
    }
    let (mut seen, mut fresh) = (BTreeSet::new(), vec![from]);
    while let Some(at) = fresh.pop() {
        let next = follow.get(&at).into_iter().flatten().copied();
        fresh.extend(next.filter(|id| seen.insert(*id)));
        if seen.len() > CYCLE_NODES_MAX {
            return Reach::TooMany;
        }
    }
    Reach::All(seen)
}
