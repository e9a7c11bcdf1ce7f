//! Set what an execution waits for: all of its edges, any of them, or so many.
//!
//! Only before its first edge is staged: afterwards the rule must not change. Sent twice: `AlreadySet`.
//! Sent again after another policy was set, it does not undo that.

use super::graph::{Draft, growing, not_a_member, unfinished};
use super::{Again, COMMAND_BYTES, Decide, Repeat, changed};
use crate::command::Traffic;
use crate::error::{Code, Rejection};
use crate::flow::EdgePolicy;
use crate::fold::{Change, Cx, Key, WorkingSet};
use crate::ids::{ExecutionId, FlowId};
use crate::limits::Config;

/// Set the policy of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetGroupPolicy {
    /// The flow.
    pub flow: FlowId,
    /// The execution that waits.
    pub downstream: ExecutionId,
    /// What it waits for.
    pub policy: EdgePolicy,
    /// Only at this version of the flow; at whichever it has when it does not say.
    pub version: Option<u64>,
}

/// The answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicySet {
    /// It holds now.
    Set,
    /// It held already.
    AlreadySet,
}

/// Refuses to change the rule under edges that were staged under another.
pub(super) fn fixed(downstream: &dyn std::fmt::Display) -> Rejection {
    let said = format!(
        "edge_group_policy_already_fixed: dependencies already staged into {downstream}; \
         set the join before the first edge"
    );
    Rejection { field: Some("policy"), ..Rejection::new(Code::InvalidInput, said) }
}

impl Decide for SetGroupPolicy {
    type Reply = PolicySet;
    const NAME: &'static str = "set_edge_group_policy";
    const TRAFFIC: Traffic = Traffic::Admin;
    const REPEAT: Repeat = Repeat {
        by: "`version`: the version of the flow that was changed",
        late: "the same answer while that policy holds; `version_conflict` once another was set",
    };

    fn validate(&self, _: &Config) -> Result<(), Rejection> {
        self.policy.validate()
    }

    fn bytes(&self) -> usize {
        COMMAND_BYTES
    }

    fn keys(&self, _: &WorkingSet) -> Vec<Key> {
        vec![
            Key::Flow(self.flow),
            Key::Group(self.flow, self.downstream),
            Key::Execution(self.downstream),
        ]
    }

    fn decide(&self, have: &WorkingSet, cx: &mut Cx<'_>) -> Result<Change<PolicySet>, Rejection> {
        let flow = have.graph.flow(self.flow)?;
        growing(flow, false)?;
        let mut draft = Draft::new(have, flow, cx);
        let Some(x) = draft.member(self.downstream) else {
            return Err(not_a_member(flow.id, self.downstream));
        };
        unfinished(x)?;
        if draft.group(x.id).is_some_and(|group| group.staged > 0 && group.state.at().is_none()) {
            return Err(fixed(&x.id));
        }
        let mut group = draft.open_group(x)?;
        if draft.group(x.id).is_some_and(|stored| stored == &group) && group.policy == self.policy {
            return Ok(Change::none(PolicySet::AlreadySet));
        }
        if let Some(seen) = self.version.filter(|seen| *seen != flow.version) {
            return Err(changed(format_args!("flow {}", flow.id), seen, flow.version));
        }
        group.policy = self.policy;
        draft.put_group(group);
        draft.flow.updated_at = draft.at;
        Ok(draft.change(PolicySet::Set))
    }

    fn pinned(&self, have: &WorkingSet) -> Option<Self> {
        let flow = have.graph.known_flow(self.flow)?;
        self.version.is_none().then_some(Self { version: Some(flow.version), ..*self })
    }

    fn again(_: &PolicySet) -> Again<PolicySet> {
        Again::Reply(PolicySet::AlreadySet)
    }
}
