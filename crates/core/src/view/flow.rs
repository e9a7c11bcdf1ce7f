//! What users read of flows.

use serde::Serialize;

use crate::execution::Tags;
use crate::flow::{
    Buckets, CancellationPolicy, DependencyKind, Edge, EdgePolicy, EdgeWord, Ended, Flow,
    FlowState, FlowWord, Group, GroupWord, PublicFlowState,
};
use crate::ids::{EdgeId, ExecutionId, FlowId};
use crate::state::PublicState;
use crate::text::{Creator, EdgeName, FlowKind, Namespace};
use crate::time::Millis;

/// Everything a person wants to see of a flow, without its members.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FlowSnapshot {
    /// Its id.
    pub flow_id: FlowId,
    /// What sort of flow.
    pub flow_kind: FlowKind,
    /// Tenancy scope.
    pub namespace: Namespace,
    /// Who created it.
    pub creator_identity: Creator,
    /// Where it stands.
    pub state: FlowWord,
    /// Whether only running members may add to it.
    pub sealed: bool,
    /// Counts members and edges added.
    pub graph_revision: u64,
    /// Counts changes.
    pub version: u64,
    /// Members ever added.
    pub node_count: u32,
    /// Edges ever staged.
    pub edge_count: u32,
    /// Members that ended.
    pub ended: Ended,
    /// Created.
    pub created_at: Millis,
    /// Last changed.
    pub last_mutation_at: Millis,
    /// Ended, however it did.
    pub ended_at: Option<Millis>,
    /// Cancelled.
    pub cancelled_at: Option<Millis>,
    /// Why it was cancelled.
    pub cancel_reason: Option<String>,
    /// What became of its members then.
    pub cancellation_policy: Option<CancellationPolicy>,
    /// Its tags.
    pub tags: Tags,
    /// The groups of its edges, by the id of what waits.
    pub edge_groups: Vec<EdgeGroupSnapshot>,
    /// Whether there are more groups than the first thousand shown here.
    pub more_groups: bool,
}

impl FlowSnapshot {
    /// `flow` with its groups.
    pub fn of(flow: &Flow, groups: &[Group], more_groups: bool) -> Self {
        let (cancelled_at, policy, reason) = match &flow.state {
            FlowState::Cancelled { at, policy, reason } => {
                (Some(*at), Some(*policy), Some(reason.clone()))
            }
            FlowState::Open | FlowState::Completed { .. } | FlowState::Failed { .. } => {
                (None, None, None)
            }
        };
        Self {
            flow_id: flow.id,
            flow_kind: flow.spec.kind.clone(),
            namespace: flow.spec.namespace.clone(),
            creator_identity: flow.spec.creator.clone(),
            state: flow.state.word(),
            sealed: flow.sealed,
            graph_revision: flow.revision,
            version: flow.version,
            node_count: flow.nodes,
            edge_count: flow.edges,
            ended: flow.ended,
            created_at: flow.spec.created_at,
            last_mutation_at: flow.updated_at,
            ended_at: flow.state.ended_at(),
            cancelled_at,
            cancel_reason: reason,
            cancellation_policy: policy,
            tags: flow.tags.clone(),
            edge_groups: groups.iter().map(|group| EdgeGroupSnapshot::of(group, flow)).collect(),
            more_groups,
        }
    }
}

/// What an execution waits for, counted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EdgeGroupSnapshot {
    /// What waits.
    pub downstream_execution_id: ExecutionId,
    /// For what.
    pub policy: EdgePolicy,
    /// Edges applied.
    pub total_deps: u32,
    /// Satisfied.
    pub satisfied_count: u32,
    /// Ended otherwise.
    pub failed_count: u32,
    /// Skipped.
    pub skipped_count: u32,
    /// Not resolved.
    pub running_count: u32,
    /// Whether it fired.
    pub group_state: GroupWord,
    /// Why those that still ran were cancelled, if they were.
    pub cancel_siblings_reason: Option<crate::flow::SiblingsReason>,
    /// Those that were spared then, because a group that had not fired waited for them too, and have
    /// not ended since.
    pub spared_count: u32,
}

impl EdgeGroupSnapshot {
    /// `group` of `flow`.
    pub fn of(group: &Group, flow: &Flow) -> Self {
        let state = group.state.word();
        let cancelled = state == GroupWord::Pending && flow.is_closed();
        Self {
            downstream_execution_id: group.downstream,
            policy: group.policy,
            total_deps: group.counters.total,
            satisfied_count: group.counters.satisfied,
            failed_count: group.counters.failed,
            skipped_count: group.counters.skipped,
            running_count: group.counters.running(),
            group_state: if cancelled { GroupWord::Cancelled } else { state },
            cancel_siblings_reason: group.siblings.map(|siblings| siblings.reason),
            spared_count: if flow.is_closed() { 0 } else { group.spared() },
        }
    }
}

/// One execution waits for another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EdgeSnapshot {
    /// Its id.
    pub edge_id: EdgeId,
    /// The flow.
    pub flow_id: FlowId,
    /// What is waited for.
    pub upstream_execution_id: ExecutionId,
    /// What waits.
    pub downstream_execution_id: ExecutionId,
    /// Which ends satisfy it.
    pub dependency_kind: DependencyKind,
    /// Under which name the result is read.
    pub name: Option<EdgeName>,
    /// Whether, and as what, the result becomes the input.
    pub data_passing_ref: Option<String>,
    /// Whether it holds back what waits.
    pub edge_state: EdgeWord,
    /// Staged.
    pub created_at: Millis,
    /// Applied.
    pub applied_at: Option<Millis>,
    /// Resolved.
    pub resolved_at: Option<Millis>,
}

impl EdgeSnapshot {
    /// `edge` of `flow`.
    pub fn of(edge: &Edge, flow: &Flow) -> Self {
        let (applied_at, resolved_at) = edge.state.times();
        let open = matches!(edge.state.word(), EdgeWord::Staged | EdgeWord::Unsatisfied);
        let closed = open && flow.is_closed();
        Self {
            edge_id: edge.id,
            flow_id: edge.flow,
            upstream_execution_id: edge.upstream,
            downstream_execution_id: edge.downstream,
            dependency_kind: edge.kind,
            name: edge.name.clone(),
            data_passing_ref: edge.data_passing_ref.clone(),
            edge_state: if closed { EdgeWord::Impossible } else { edge.state.word() },
            created_at: edge.created_at,
            applied_at,
            resolved_at: if closed { flow.state.ended_at() } else { resolved_at },
        }
    }
}

/// What the members of a flow are doing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FlowSummary {
    /// The flow.
    pub flow_id: FlowId,
    /// What its members make of it.
    pub public_flow_state: PublicFlowState,
    /// How many there are: the sum of those in each state below.
    pub total_members: u64,
    /// Ended successfully.
    pub members_completed: u64,
    /// Failed.
    pub members_failed: u64,
    /// Cancelled.
    pub members_cancelled: u64,
    /// Ran out of time.
    pub members_expired: u64,
    /// Skipped.
    pub members_skipped: u64,
    /// Held by a worker.
    pub members_active: u64,
    /// Wait for a worker.
    pub members_waiting: u64,
    /// Wait for a time.
    pub members_delayed: u64,
    /// Wait for others.
    pub members_waiting_children: u64,
    /// Wait for a signal, an operator or a time.
    pub members_suspended: u64,
    /// Members that go on although a join fired that cancels what remains, because another keeps them:
    /// the sum of `spared_count` over the groups. One that two joins spared counts twice.
    pub spared_count: u64,
    /// When this was so.
    pub as_of: Millis,
}

impl FlowSummary {
    /// What `buckets` make of `flow`.
    pub fn of(flow: &Flow, buckets: &Buckets, as_of: Millis) -> Self {
        let of = |state| buckets.of(state);
        Self {
            flow_id: flow.id,
            public_flow_state: buckets.state(flow),
            total_members: buckets.total(),
            members_completed: of(PublicState::Completed),
            members_failed: of(PublicState::Failed),
            members_cancelled: of(PublicState::Cancelled),
            members_expired: of(PublicState::Expired),
            members_skipped: of(PublicState::Skipped),
            members_active: of(PublicState::Active),
            members_waiting: of(PublicState::Waiting),
            members_delayed: of(PublicState::Delayed),
            members_waiting_children: of(PublicState::WaitingChildren),
            members_suspended: of(PublicState::Suspended),
            spared_count: if flow.is_closed() { 0 } else { buckets.spared },
            as_of,
        }
    }
}
