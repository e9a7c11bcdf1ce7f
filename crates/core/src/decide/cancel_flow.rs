//! Cancel a flow, and what its policy says of its members.
//!
//! Members that ended are never touched. With `cancel_all`, every edge that is not resolved is
//! impossible from then on, and nothing is dispatched: all members end here. With more members than one
//! transaction ends, they are owed, and ended in bounded pieces. Sent twice: the stored policy and
//! reason, and nothing is written.

use std::collections::BTreeMap;

use super::graph::{Draft, with_flow};
use super::{Again, COMMAND_BYTES, Decide, check_reason};
use crate::command::Traffic;
use crate::error::{Code, Rejection};
use crate::event::EventKind;
use crate::execution::State;
use crate::flow::{Backlog, CancellationPolicy, FlowState};
use crate::fold::{Change, Cx, Key, WorkingSet};
use crate::ids::{ExecutionId, FlowId};
use crate::limits::{CANCEL_AT_ONCE_MAX, Config};
use crate::state::Phase;

/// Cancel a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CancelFlow {
    /// Which.
    pub flow: FlowId,
    /// What becomes of its members.
    pub policy: CancellationPolicy,
    /// Why; `flow_cancelled` when it is empty.
    pub reason: String,
}

/// What is said when nobody says why.
pub const FLOW_CANCELLED: &str = "flow_cancelled";

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowCancelled {
    /// What becomes of its members.
    pub policy: CancellationPolicy,
    /// Why.
    pub reason: String,
    /// The members that this concerned, in order of their ids; none when it was cancelled before.
    pub members: Vec<ExecutionId>,
    /// Whether some of them are owed.
    pub scheduled: bool,
    /// Whether it was cancelled before.
    pub repeated: bool,
}

impl CancelFlow {
    /// The members that the policy concerns, those that the batch added or ended included.
    fn affected(&self, have: &WorkingSet) -> Vec<ExecutionId> {
        let members = have.graph.members.get(&self.flow).into_iter().flatten();
        let mut members: BTreeMap<_, _> = members.copied().collect();
        let known = have.executions.values().flatten().filter(|x| x.flow() == Some(self.flow));
        members.extend(known.map(|x| (x.id, x.state.phase())));
        let meant = members.into_iter().filter(|(_, phase)| match (self.policy, phase) {
            (CancellationPolicy::FlowOnly, _) | (_, Phase::Terminal) => false,
            (CancellationPolicy::All, Phase::Runnable | Phase::Active | Phase::Suspended) => true,
            (CancellationPolicy::Pending, phase) => *phase == Phase::Runnable,
        });
        meant.map(|(id, _)| id).collect()
    }
}

impl Decide for CancelFlow {
    type Reply = FlowCancelled;
    const NAME: &'static str = "cancel_flow";
    const TRAFFIC: Traffic = Traffic::Admin;

    fn validate(&self, _: &Config) -> Result<(), Rejection> {
        check_reason("reason", &self.reason)
    }

    fn bytes(&self) -> usize {
        COMMAND_BYTES
    }

    fn keys(&self, have: &WorkingSet) -> Vec<Key> {
        let mut keys = vec![Key::Flow(self.flow)];
        let open = have.graph.known_flow(self.flow).is_some_and(|flow| !flow.is_terminal());
        if open && self.policy != CancellationPolicy::FlowOnly {
            keys.push(Key::Members(self.flow));
            let affected = self.affected(have);
            if affected.len() <= CANCEL_AT_ONCE_MAX {
                keys.extend(affected.into_iter().map(Key::Execution));
            }
        }
        keys
    }

    fn decide(
        &self,
        have: &WorkingSet,
        cx: &mut Cx<'_>,
    ) -> Result<Change<FlowCancelled>, Rejection> {
        let flow = have.graph.flow(self.flow)?;
        match &flow.state {
            FlowState::Open => {}
            FlowState::Cancelled { policy, reason, .. } => {
                let (policy, reason) = (*policy, reason.clone());
                let (members, scheduled) = (Vec::new(), false);
                let reply = FlowCancelled { policy, reason, members, scheduled, repeated: true };
                return Ok(Change::none(reply));
            }
            FlowState::Completed { .. } | FlowState::Failed { .. } => {
                let said = format!("flow {} is {}", flow.id, flow.state.word());
                return Err(Rejection::new(Code::FlowAlreadyTerminal, said));
            }
        }
        let reason = if self.reason.is_empty() { FLOW_CANCELLED } else { self.reason.as_str() };
        let members = self.affected(have);
        let scheduled = members.len() > CANCEL_AT_ONCE_MAX;
        let mut draft = Draft::new(have, flow, cx);
        let at = draft.at;
        draft.flow.state =
            FlowState::Cancelled { at, policy: self.policy, reason: reason.to_owned() };
        draft.tell(EventKind::FlowCancelRequested {
            policy: self.policy,
            reason: reason.to_owned(),
            members: u32::try_from(members.len()).unwrap_or(u32::MAX),
        });
        if !scheduled {
            cancel_members(&mut draft, &members, reason, cx);
        }
        let mut change = draft.change(FlowCancelled {
            policy: self.policy,
            reason: reason.to_owned(),
            members: members.clone(),
            scheduled,
            repeated: false,
        });
        if let (true, Some(graph)) = (scheduled, &mut change.effects.graph) {
            graph.backlog = Some((flow.id, Some(Backlog { flow: flow.id, requested_at: at })));
            graph.owed = members.into_iter().map(|id| (flow.id, id, true)).collect();
        }
        Ok(change)
    }

    fn again(reply: &FlowCancelled) -> Again<FlowCancelled> {
        let (members, scheduled) = (Vec::new(), false);
        Again::Reply(FlowCancelled { members, scheduled, repeated: true, ..reply.clone() })
    }
}

/// Ends members that have not ended. If all end, the flow counts them here and nothing is dispatched.
pub(super) fn cancel_members(
    draft: &mut Draft<'_>,
    members: &[ExecutionId],
    reason: &str,
    cx: &Cx<'_>,
) -> u32 {
    let told = !draft.flow.is_closed();
    let mut cancelled = 0;
    for id in members {
        let Some(x) = draft.execution(*id).cloned() else { continue };
        if matches!(x.state, State::Terminal(_)) {
            continue;
        }
        cancelled += 1;
        draft.end(&x, with_flow(reason), reason, cx, told);
        let ended = draft.execution(*id).map(|x| x.state.clone());
        if let (false, Some(State::Terminal(terminal))) = (told, ended) {
            draft.count(&terminal);
        }
    }
    cancelled
}
