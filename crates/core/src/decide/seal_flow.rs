//! Seal a flow: it is complete, and ends when all its members have.
//!
//! Sent twice: the same answer, as long as nothing else happens.

use super::graph::Draft;
use super::submit_flow::reachable;
use super::{COMMAND_BYTES, Decide, Repeat};
use crate::command::Traffic;
use crate::error::{Code, Rejection};
use crate::flow::{FlowWord, GroupState};
use crate::fold::{Change, Cx, Key, WorkingSet};
use crate::ids::FlowId;
use crate::limits::Config;

/// Seal a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SealFlow {
    /// Which.
    pub flow: FlowId,
}

impl Decide for SealFlow {
    /// Where it stands.
    type Reply = FlowWord;
    const NAME: &'static str = "seal_flow";
    const TRAFFIC: Traffic = Traffic::Admin;
    const REPEAT: Repeat =
        Repeat { by: "the flow: it is sealed for ever", late: "it is sealed already" };

    fn validate(&self, _: &Config) -> Result<(), Rejection> {
        Ok(())
    }

    fn bytes(&self) -> usize {
        COMMAND_BYTES
    }

    fn keys(&self, _: &WorkingSet) -> Vec<Key> {
        vec![Key::Flow(self.flow), Key::Groups(self.flow)]
    }

    fn decide(&self, have: &WorkingSet, cx: &mut Cx<'_>) -> Result<Change<FlowWord>, Rejection> {
        let flow = have.graph.flow(self.flow)?;
        if flow.sealed {
            return Ok(Change::none(flow.state.word()));
        }
        if flow.is_terminal() {
            let said = format!("flow {} is {}", flow.id, flow.state.word());
            return Err(Rejection::new(Code::FlowAlreadyTerminal, said));
        }
        let groups = have.graph.groups.range((flow.id, crate::ids::ExecutionId::FIRST)..);
        let own = groups.take_while(|((of, _), _)| *of == flow.id);
        for group in own.filter_map(|(_, group)| group.as_ref()) {
            if group.state == GroupState::Pending {
                reachable(&group.downstream, group.policy, group.staged)?;
            }
        }
        let mut draft = Draft::new(have, flow, cx);
        draft.flow.sealed = true;
        draft.finish();
        let reply = draft.flow.state.word();
        Ok(draft.change(reply))
    }
}
