//! Apply a staged edge: from now on it holds its downstream back.
//!
//! If the upstream has ended already, the edge is resolved at once. An execution that runs is not
//! stopped: the edge counts when it next waits. Sent twice: `AlreadyApplied`.

use super::graph::{Draft, growing, not_a_member, unfinished};
use super::{Again, COMMAND_BYTES, Decide, Repeat};
use crate::command::Traffic;
use crate::error::{Code, Rejection};
use crate::flow::{EdgeState, GroupState};
use crate::fold::{Change, Cx, Key, WorkingSet};
use crate::ids::{EdgeId, ExecutionId, FlowId};
use crate::limits::Config;

/// Apply a staged edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApplyEdge {
    /// The flow.
    pub flow: FlowId,
    /// The edge.
    pub edge: EdgeId,
    /// What the caller believes is waited for.
    pub upstream: Option<ExecutionId>,
    /// What the caller believes waits.
    pub downstream: Option<ExecutionId>,
}

/// The answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    /// It holds its downstream back, unless it was resolved at once.
    Applied {
        /// Edges that the downstream still waits for.
        unsatisfied_count: u32,
    },
    /// It was applied before.
    AlreadyApplied,
}

impl Decide for ApplyEdge {
    type Reply = Applied;
    const NAME: &'static str = "apply_dependency_to_child";
    const TRAFFIC: Traffic = Traffic::Admin;
    const REPEAT: Repeat =
        Repeat { by: "the edge: it is applied once", late: "it was applied already" };

    fn validate(&self, _: &Config) -> Result<(), Rejection> {
        Ok(())
    }

    fn bytes(&self) -> usize {
        COMMAND_BYTES
    }

    fn keys(&self, have: &WorkingSet) -> Vec<Key> {
        let mut keys = vec![Key::Flow(self.flow), Key::Edge(self.flow, self.edge)];
        if let Some(Some(edge)) = have.graph.edges.get(&(self.flow, self.edge)) {
            keys.push(Key::Group(self.flow, edge.downstream));
            keys.extend([edge.upstream, edge.downstream].map(Key::Execution));
        }
        keys
    }

    fn decide(&self, have: &WorkingSet, cx: &mut Cx<'_>) -> Result<Change<Applied>, Rejection> {
        let flow = have.graph.flow(self.flow)?;
        let edge = have.graph.edges.get(&(flow.id, self.edge)).and_then(Option::as_ref);
        let Some(edge) = edge else {
            let said = format!("flow {} has no edge {}", flow.id, self.edge);
            return Err(Rejection::new(Code::EdgeNotFound, said));
        };
        for (field, sent, stored) in [
            ("upstream_execution_id", self.upstream, edge.upstream),
            ("downstream_execution_id", self.downstream, edge.downstream),
        ] {
            if let Some(sent) = sent.filter(|sent| *sent != stored) {
                let why = format!("is not that of edge {}, which is {stored}", edge.id);
                return Err(Rejection::invalid(Code::InvalidInput, field, sent, why));
            }
        }
        if edge.state != EdgeState::Staged {
            return Ok(Change::none(Applied::AlreadyApplied));
        }
        growing(flow, true)?;
        let mut draft = Draft::new(have, flow, cx);
        let downstream = have.execution(edge.downstream)?;
        if downstream.flow() != Some(flow.id) {
            // The member is gone, and something else has its id.
            return Err(not_a_member(flow.id, downstream.id));
        }
        unfinished(downstream)?;
        let group = draft.group(edge.downstream);
        let late = group
            .is_some_and(|group| group.state != GroupState::Pending || group.round != edge.round);
        if late {
            let said = format!("the group of {} has fired", edge.downstream);
            return Err(Rejection::new(Code::GroupAlreadyFired, said));
        }
        let applied = draft.apply(edge)?;
        draft.settle(&applied, cx)?;
        let group = draft.group(edge.downstream);
        let unsatisfied_count = group.map_or(0, |group| group.counters.running());
        Ok(draft.change(Applied::Applied { unsatisfied_count }))
    }

    fn again(_: &Applied) -> Again<Applied> {
        Again::Reply(Applied::AlreadyApplied)
    }
}
