//! Set the tags of a flow: add, replace and remove, in any state.
//!
//! Sent twice: the second changes nothing.

use super::graph::Draft;
use super::tags::Edit;
use super::{COMMAND_BYTES, Decide};
use crate::command::Traffic;
use crate::error::Rejection;
use crate::fold::{Change, Cx, Key, WorkingSet};
use crate::ids::FlowId;
use crate::limits::Config;

/// Change the tags of a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetFlowTags {
    /// Of which.
    pub flow: FlowId,
    /// What to change.
    pub edit: Edit,
}

impl Decide for SetFlowTags {
    /// How many tags it carries now.
    type Reply = usize;
    const NAME: &'static str = "set_flow_tags";
    const TRAFFIC: Traffic = Traffic::Admin;

    fn validate(&self, _: &Config) -> Result<(), Rejection> {
        self.edit.validate()
    }

    fn bytes(&self) -> usize {
        COMMAND_BYTES
    }

    fn keys(&self, _: &WorkingSet) -> Vec<Key> {
        vec![Key::Flow(self.flow)]
    }

    fn decide(&self, have: &WorkingSet, cx: &mut Cx<'_>) -> Result<Change<usize>, Rejection> {
        let flow = have.graph.flow(self.flow)?;
        let tags = self.edit.applied(&flow.tags)?;
        let reply = tags.len();
        if tags == flow.tags {
            return Ok(Change::none(reply));
        }
        let mut draft = Draft::new(have, flow, cx);
        draft.flow.tags = tags;
        Ok(draft.change(reply))
    }
}
