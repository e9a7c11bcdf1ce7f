//! Cancel a flow, and what its policy says of its members.
//!
//! Members that ended are never touched. With `cancel_pending`, those with an attempt under way go on.
//! With `cancel_all`, every edge that is not resolved is impossible from then on, and nothing is
//! dispatched: all members end here. With more members than one transaction ends, they are owed, and
//! ended in bounded pieces.
//!
//! The commit that ends the last member says that the flow has ended, if it is this command or a piece of
//! it. A member that ends otherwise is counted when its end is dispatched, for completing never writes
//! the row of a flow. Unless the policy is `cancel_all`, the flow waits until all are counted: if that
//! takes longer, the commit that counts the last says so.
//!
//! A policy that ends more than the stored one takes its place and is carried out; the reason and the time
//! of the first cancellation stay. Sent twice, or with a policy that ends no more: the stored policy and
//! reason, and nothing is written.

use std::collections::BTreeMap;

use super::graph::{Draft, with_flow};
use super::{Again, COMMAND_BYTES, Decide, Repeat, check_reason};
use crate::command::Traffic;
use crate::error::{Code, Rejection};
use crate::event::EventKind;
use crate::execution::State;
use crate::flow::{Backlog, CancellationPolicy, Flow, FlowState};
use crate::fold::{Change, Cx, Key, WorkingSet};
use crate::ids::{ExecutionId, FlowId};
use crate::limits::{CANCEL_AT_ONCE_MAX, Config};

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
    /// What becomes of its members: the strongest policy that was carried out.
    pub policy: CancellationPolicy,
    /// Why, as the first cancellation said.
    pub reason: String,
    /// The members that this concerned, in order of their ids; none when it repeats a cancellation.
    pub members: Vec<ExecutionId>,
    /// Whether some of them are owed.
    pub scheduled: bool,
    /// Whether it repeats a cancellation that was carried out before, and did nothing.
    pub repeated: bool,
}

impl CancelFlow {
    /// The members that the policy concerns, those that the batch added or ended included. Of those
    /// that were not loaded only the phase is known: some may turn out to be let go on.
    fn affected(&self, have: &WorkingSet) -> Vec<ExecutionId> {
        let listed = have.graph.members.get(&self.flow).into_iter().flatten();
        let mut members: BTreeMap<_, _> =
            listed.map(|(id, phase)| (*id, self.policy.may_end(*phase))).collect();
        let known = have.executions.values().flatten().filter(|x| x.flow() == Some(self.flow));
        members.extend(known.map(|x| (x.id, self.policy.ends(&x.state))));
        members.into_iter().filter(|(_, meant)| *meant).map(|(id, _)| id).collect()
    }

    /// Whether it has anything to do, as far as the flow tells: one that is open, or that was cancelled
    /// by a policy that ends less and has members left.
    fn is_due(&self, flow: &Flow) -> bool {
        match &flow.state {
            FlowState::Open => true,
            FlowState::Cancelled { policy, .. } => {
                self.policy.exceeds(*policy) && flow.ended.total() < flow.nodes
            }
            FlowState::Completed { .. } | FlowState::Failed { .. } => false,
        }
    }

    /// Carries it out. Members that were not loaded are owed.
    fn carry_out(
        &self,
        (have, flow): (&WorkingSet, &Flow),
        reason: &str,
        cx: &Cx<'_>,
    ) -> Change<FlowCancelled> {
        let (policy, members) = (self.policy, self.affected(have));
        let loaded = members.iter().all(|id| have.execution(*id).is_ok());
        let scheduled = !loaded || members.len() > CANCEL_AT_ONCE_MAX;
        let mut draft = Draft::new(have, flow, cx);
        let at = flow.state.ended_at().unwrap_or(draft.at);
        draft.flow.state = FlowState::Cancelled { at, policy, reason: reason.to_owned() };
        draft.tell(EventKind::FlowCancelRequested {
            policy,
            reason: reason.to_owned(),
            members: u32::try_from(members.len()).unwrap_or(u32::MAX),
        });
        if !scheduled {
            cancel_members(&mut draft, &members, reason, cx);
        }
        // What is owed may be owed since an earlier cancellation.
        let owed = matches!(have.graph.backlogs.get(&flow.id), Some(Some(_)));
        match policy {
            CancellationPolicy::All if scheduled || owed => {}
            CancellationPolicy::All => draft.tell_end(),
            CancellationPolicy::Pending | CancellationPolicy::FlowOnly => draft.finish_cancelled(),
        }
        let requested_at = draft.at;
        let reason = reason.to_owned();
        let reply =
            FlowCancelled { policy, reason, members: members.clone(), scheduled, repeated: false };
        let mut change = draft.change(reply);
        if let (true, Some(graph)) = (scheduled, &mut change.effects.graph) {
            graph.backlog = Some((flow.id, Some(Backlog { flow: flow.id, requested_at })));
            graph.owed = members.into_iter().map(|id| (flow.id, id, true)).collect();
        }
        change
    }
}

impl Decide for CancelFlow {
    type Reply = FlowCancelled;
    const NAME: &'static str = "cancel_flow";
    const TRAFFIC: Traffic = Traffic::Admin;
    const REPEAT: Repeat = Repeat {
        by: "the flow: a cancelled one stays so, and only a policy that ends more is carried out",
        late: "`repeated`, the policy that is stored by then and the first reason; it ends nothing",
    };

    fn validate(&self, _: &Config) -> Result<(), Rejection> {
        check_reason("reason", &self.reason)
    }

    fn bytes(&self) -> usize {
        COMMAND_BYTES
    }

    fn keys(&self, have: &WorkingSet) -> Vec<Key> {
        let mut keys = vec![Key::Flow(self.flow)];
        let due = have.graph.known_flow(self.flow).is_some_and(|flow| self.is_due(flow));
        if due && self.policy != CancellationPolicy::FlowOnly {
            keys.extend([Key::Members(self.flow), Key::Backlog(self.flow)]);
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
            FlowState::Open if self.reason.is_empty() => {
                Ok(self.carry_out((have, flow), FLOW_CANCELLED, cx))
            }
            FlowState::Open => Ok(self.carry_out((have, flow), &self.reason, cx)),
            FlowState::Cancelled { reason, .. } if self.is_due(flow) => {
                Ok(self.carry_out((have, flow), reason, cx))
            }
            FlowState::Cancelled { policy, reason, .. } => {
                let (policy, reason) = (*policy, reason.clone());
                let (members, scheduled) = (Vec::new(), false);
                let reply = FlowCancelled { policy, reason, members, scheduled, repeated: true };
                Ok(Change::none(reply))
            }
            FlowState::Completed { .. } | FlowState::Failed { .. } => {
                let said = format!("flow {} is {}", flow.id, flow.state.word());
                Err(Rejection::new(Code::FlowAlreadyTerminal, said))
            }
        }
    }

    fn again(reply: &FlowCancelled) -> Again<FlowCancelled> {
        let (members, scheduled) = (Vec::new(), false);
        Again::Reply(FlowCancelled { members, scheduled, repeated: true, ..reply.clone() })
    }
}

/// Ends those of `members` that the policy of their flow ends; answers how many. If it ends all, or these
/// are the last, the flow counts them here and nothing is dispatched: nobody is left who could wait for
/// them.
pub(super) fn cancel_members(
    draft: &mut Draft<'_>,
    members: &[ExecutionId],
    reason: &str,
    cx: &Cx<'_>,
) -> u32 {
    let FlowState::Cancelled { policy, .. } = draft.flow.state else { return 0 };
    let known = members.iter().filter_map(|id| draft.execution(*id));
    let ending: Vec<_> = known.filter(|x| policy.ends(&x.state)).cloned().collect();
    let cancelled = u32::try_from(ending.len()).unwrap_or(u32::MAX);
    let last = draft.flow.ended.total().checked_add(cancelled) == Some(draft.flow.nodes);
    let told = policy != CancellationPolicy::All && !last;
    for x in ending {
        draft.end(&x, with_flow(reason), reason, cx, told);
        let ended = draft.execution(x.id).map(|x| x.state.clone());
        if let (false, Some(State::Terminal(terminal))) = (told, ended) {
            draft.count(&terminal);
        }
    }
    cancelled
}
