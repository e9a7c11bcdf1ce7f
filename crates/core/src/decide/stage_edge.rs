//! Stage an edge: it is written down, and holds nothing back until it is applied.
//!
//! Sent twice: the graph has moved on, or the edge is there; both say so. An execution may be claimed
//! between staging and applying; submitting a graph in one call leaves no such gap.

use super::graph::{Draft, acyclic, exists, growing, not_a_member, unfinished, unnamed};
use super::{Again, COMMAND_BYTES, Decide, Repeat};
use crate::command::Traffic;
use crate::error::{Code, Rejection};
use crate::flow::{DependencyKind, Edge, EdgeState, check_reference};
use crate::fold::{Change, Cx, Key, WorkingSet};
use crate::ids::{EdgeId, ExecutionId, FlowId};
use crate::limits::{Config, FLOW_EDGES_MAX};
use crate::text::EdgeName;

/// Stage an edge.
#[derive(Clone, Debug, PartialEq)]
pub struct StageEdge {
    /// The flow.
    pub flow: FlowId,
    /// The id, minted by the caller.
    pub edge: EdgeId,
    /// What is waited for.
    pub upstream: ExecutionId,
    /// What waits.
    pub downstream: ExecutionId,
    /// Which ends satisfy it.
    pub kind: DependencyKind,
    /// Under which name the result is read.
    pub name: Option<EdgeName>,
    /// Any text asks that the result become the input.
    pub data_passing_ref: Option<String>,
    /// The graph as the caller saw it.
    pub expected_revision: u64,
}

/// The answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Staged {
    /// The edge.
    pub edge_id: EdgeId,
    /// The graph as it is now.
    pub graph_revision: u64,
}

impl Decide for StageEdge {
    type Reply = Staged;
    const NAME: &'static str = "stage_dependency_edge";
    const TRAFFIC: Traffic = Traffic::Admin;
    const REPEAT: Repeat = Repeat {
        by: "the id of the edge, and the revision of the graph",
        late: "the edge is there, which is refused",
    };

    fn validate(&self, _: &Config) -> Result<(), Rejection> {
        if self.upstream == self.downstream {
            let said = format!("{} would wait for itself", self.upstream);
            return Err(Rejection::new(Code::SelfReferencingEdge, said));
        }
        check_reference(self.kind, self.data_passing_ref.as_deref())
    }

    fn bytes(&self) -> usize {
        COMMAND_BYTES
    }

    fn keys(&self, _: &WorkingSet) -> Vec<Key> {
        let (flow, from, to) = (self.flow, self.upstream, self.downstream);
        let mut keys = vec![
            Key::Flow(flow),
            Key::Group(flow, to),
            Key::Execution(from),
            Key::Execution(to),
            Key::Edge(flow, self.edge),
            Key::Pair(flow, from, to),
            Key::Reach(flow, to),
        ];
        if self.name.is_some() {
            keys.push(Key::Incoming(flow, to));
        }
        keys
    }

    fn decide(&self, have: &WorkingSet, cx: &mut Cx<'_>) -> Result<Change<Staged>, Rejection> {
        let flow = have.graph.flow(self.flow)?;
        growing(flow, false)?;
        if flow.revision != self.expected_revision {
            let said = format!(
                "flow {} is at revision {}, not {}",
                flow.id, flow.revision, self.expected_revision
            );
            return Err(Rejection::new(Code::StaleGraphRevision, said));
        }
        let mut draft = Draft::new(have, flow, cx);
        let member = |id| draft.member(id).cloned().ok_or_else(|| not_a_member(flow.id, id));
        member(self.upstream)?;
        let downstream = member(self.downstream)?;
        unfinished(&downstream)?;
        acyclic(&draft, self.upstream, self.downstream)?;
        let pair = have.graph.pairs.get(&(flow.id, self.upstream, self.downstream));
        let same = [Some(self.edge), pair.copied().flatten()];
        let known = same.into_iter().flatten();
        for id in known {
            if let Some(Some(edge)) = have.graph.edges.get(&(flow.id, id)) {
                return Err(exists(edge));
            }
        }
        if let Some(name) = &self.name {
            unnamed(have, (flow.id, self.downstream), name, &self.downstream)?;
        }
        if flow.edges >= FLOW_EDGES_MAX {
            let said = format!("flow {} has {} edges", flow.id, flow.edges);
            return Err(Rejection::new(Code::FlowTooLarge, said));
        }
        let mut group = draft.open_group(&downstream)?;
        group.staged += 1;
        let edge = Edge {
            id: self.edge,
            flow: flow.id,
            upstream: self.upstream,
            downstream: self.downstream,
            kind: self.kind,
            name: self.name.clone(),
            data_passing_ref: self.data_passing_ref.clone(),
            round: group.round,
            created_at: draft.at,
            state: EdgeState::Staged,
        };
        draft.put_group(group);
        draft.put_edge(edge);
        draft.flow.edges += 1;
        draft.flow.revision += 1;
        let reply = Staged { edge_id: self.edge, graph_revision: draft.flow.revision };
        Ok(draft.change(reply))
    }

    fn again(_: &Staged) -> Again<Staged> {
        Again::Refused(Code::StaleGraphRevision)
    }
}
