//! Set the tags of a flow: add, replace and remove, in any state.
//!
//! Sent twice: the second changes nothing. Sent again after another change of the same tags, it does not
//! undo that one.

use super::graph::Draft;
use super::tags::Edit;
use super::{COMMAND_BYTES, Decide, Repeat};
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
    const REPEAT: Repeat = Repeat {
        by: "`version`: the version of the flow that was changed",
        late: "the same answer while those tags hold; `version_conflict` once they were changed",
    };

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
        let tags = self.edit.applied(format_args!("flow {}", flow.id), &flow.tags, flow.version)?;
        let reply = tags.len();
        if tags == flow.tags {
            return Ok(Change::none(reply));
        }
        let mut draft = Draft::new(have, flow, cx);
        draft.flow.tags = tags;
        Ok(draft.change(reply))
    }

    fn pinned(&self, have: &WorkingSet) -> Option<Self> {
        let flow = have.graph.known_flow(self.flow)?;
        Some(Self { edit: self.edit.pinned(flow.version)?, ..self.clone() })
    }
}
