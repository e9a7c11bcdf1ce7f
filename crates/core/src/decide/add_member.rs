//! Add an execution to a flow, for ever.
//!
//! It changes nothing about whether the execution may be claimed. Sent twice: `AlreadyMember`.

use super::graph::{Draft, growing, unfinished};
use super::{Again, COMMAND_BYTES, Decide, Repeat};
use crate::command::Traffic;
use crate::error::{Code, Rejection};
use crate::flow::Member;
use crate::fold::{Change, Cx, Key, WorkingSet};
use crate::ids::{ExecutionId, FlowId};
use crate::limits::{Config, FLOW_NODES_MAX};

/// Add an execution to a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddMember {
    /// The flow.
    pub flow: FlowId,
    /// The execution.
    pub execution: ExecutionId,
}

/// The answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Added {
    /// It is a member now.
    Added {
        /// How many members there are.
        node_count: u32,
    },
    /// It was one already.
    AlreadyMember {
        /// How many members there are.
        node_count: u32,
    },
}

impl Decide for AddMember {
    type Reply = Added;
    const NAME: &'static str = "add_execution_to_flow";
    const TRAFFIC: Traffic = Traffic::Admin;
    const REPEAT: Repeat =
        Repeat { by: "the execution: it joins one flow, for ever", late: "it is a member already" };

    fn validate(&self, _: &Config) -> Result<(), Rejection> {
        Ok(())
    }

    fn bytes(&self) -> usize {
        COMMAND_BYTES
    }

    fn keys(&self, _: &WorkingSet) -> Vec<Key> {
        vec![Key::Flow(self.flow), Key::Execution(self.execution)]
    }

    fn decide(&self, have: &WorkingSet, cx: &mut Cx<'_>) -> Result<Change<Added>, Rejection> {
        let flow = have.graph.flow(self.flow)?;
        let member = have.execution(self.execution).ok().filter(|x| x.flow() == Some(flow.id));
        if !flow.is_terminal() && member.is_some() {
            return Ok(Change::none(Added::AlreadyMember { node_count: flow.nodes }));
        }
        growing(flow, false)?;
        let x = have.execution(self.execution)?;
        if x.id.partition() != flow.id.partition() {
            let said = format!(
                "{} lies in partition {}, flow {} in {}",
                x.id,
                x.id.partition(),
                flow.id,
                flow.id.partition()
            );
            return Err(Rejection::new(Code::PartitionMismatch, said));
        }
        if let Some(other) = x.flow() {
            let said = format!("{} belongs to flow {other}", x.id);
            let refused = Rejection::new(Code::ExecutionAlreadyInFlow, said);
            return Err(Rejection { value: Some(other.to_string()), ..refused });
        }
        if x.spec.namespace != flow.spec.namespace {
            let why = format!("of {} is not {}, that of the flow", x.id, flow.spec.namespace);
            let namespace = &x.spec.namespace;
            return Err(Rejection::invalid(Code::InvalidInput, "namespace", namespace, why));
        }
        unfinished(x)?;
        if flow.nodes >= FLOW_NODES_MAX {
            let said = format!("flow {} has {} members", flow.id, flow.nodes);
            return Err(Rejection::new(Code::FlowTooLarge, said));
        }
        let mut draft = Draft::new(have, flow, cx);
        let mut added = x.changed(draft.at.max(x.updated_at));
        added.member = Some(Member { flow: flow.id, node: None });
        draft.put_execution(added);
        draft.flow.nodes += 1;
        draft.flow.revision += 1;
        let reply = Added::Added { node_count: draft.flow.nodes };
        Ok(draft.change(reply))
    }

    fn again(added: &Added) -> Again<Added> {
        let (Added::Added { node_count } | Added::AlreadyMember { node_count }) = *added;
        Again::Reply(Added::AlreadyMember { node_count })
    }
}
