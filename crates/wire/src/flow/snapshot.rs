//! A flow as a person reads it.

use std::collections::BTreeMap;

use ff_core::flow::{
    CancellationPolicy, Ended, FlowWord, GroupWord, PublicFlowState, SiblingsReason,
};
use ff_core::{ExecutionId, FlowId, Millis, view};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::graph::Join;
use crate::words;

/// A flow, without its members and edges.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FlowLine {
    /// Its id.
    #[schema(value_type = String, format = "uuid")]
    pub flow_id: FlowId,
    /// What sort of flow.
    pub flow_kind: String,
    /// Tenancy scope.
    pub namespace: String,
    /// Who created it.
    pub creator_identity: String,
    /// Where it stands.
    #[schema(value_type = words::FlowWord)]
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
    pub ended: EndedCounts,
    /// Created.
    #[schema(value_type = i64)]
    pub created_at: Millis,
    /// Last changed.
    #[schema(value_type = i64)]
    pub last_mutation_at: Millis,
    /// Ended, however it did.
    #[schema(value_type = Option<i64>)]
    pub ended_at: Option<Millis>,
    /// Cancelled.
    #[schema(value_type = Option<i64>)]
    pub cancelled_at: Option<Millis>,
    /// Why it was cancelled.
    pub cancel_reason: Option<String>,
    /// What became of its members then.
    #[schema(value_type = Option<words::CancellationPolicy>)]
    pub cancellation_policy: Option<CancellationPolicy>,
    /// Its tags.
    pub tags: BTreeMap<String, String>,
}

/// Members that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EndedCounts {
    /// Successfully, skipped, or cancelled by the engine because nobody needed them any more.
    pub well: u32,
    /// Failed, expired, or cancelled by somebody.
    pub badly: u32,
}

/// A flow, with what its members wait for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FlowSnapshot {
    /// The flow itself.
    #[serde(flatten)]
    pub flow: FlowLine,
    /// What its members wait for, by their ids.
    pub edge_groups: Vec<EdgeGroupSnapshot>,
    /// Whether there are more groups than the first thousand shown here.
    pub more_groups: bool,
}

/// What an execution waits for, counted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EdgeGroupSnapshot {
    /// What waits.
    #[schema(value_type = String)]
    pub downstream_execution_id: ExecutionId,
    /// For how many of its edges.
    pub policy: Join,
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
    /// Whether it let the execution go.
    #[schema(value_type = words::GroupWord)]
    pub group_state: GroupWord,
    /// Why those that still ran were cancelled, if they were.
    #[schema(value_type = Option<words::SiblingsReason>)]
    pub cancel_siblings_reason: Option<SiblingsReason>,
    /// Those that were spared then, because another execution waited for them too, and that have
    /// not ended since.
    #[serde(default)]
    pub spared_count: u32,
}

/// What the members of a flow are doing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FlowSummary {
    /// The flow.
    #[schema(value_type = String, format = "uuid")]
    pub flow_id: FlowId,
    /// What its members make of it.
    #[schema(value_type = words::PublicFlowState)]
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
    /// Wait for signals, for an operator or for a time.
    pub members_suspended: u64,
    /// Members that go on although a join fired that cancels what remains, because another keeps them:
    /// the sum of `spared_count` over the groups. One that two joins spared counts twice.
    #[serde(default)]
    pub spared_count: u64,
    /// When this was so.
    #[schema(value_type = i64)]
    pub as_of: Millis,
}

impl From<view::FlowSnapshot> for FlowSnapshot {
    fn from(flow: view::FlowSnapshot) -> Self {
        let Ended { well, badly } = flow.ended;
        let line = FlowLine {
            flow_id: flow.flow_id,
            flow_kind: flow.flow_kind.into(),
            namespace: flow.namespace.into(),
            creator_identity: flow.creator_identity.into(),
            state: flow.state,
            sealed: flow.sealed,
            graph_revision: flow.graph_revision,
            version: flow.version,
            node_count: flow.node_count,
            edge_count: flow.edge_count,
            ended: EndedCounts { well, badly },
            created_at: flow.created_at,
            last_mutation_at: flow.last_mutation_at,
            ended_at: flow.ended_at,
            cancelled_at: flow.cancelled_at,
            cancel_reason: flow.cancel_reason,
            cancellation_policy: flow.cancellation_policy,
            tags: flow.tags,
        };
        let edge_groups = flow.edge_groups.into_iter().map(EdgeGroupSnapshot::from).collect();
        Self { flow: line, edge_groups, more_groups: flow.more_groups }
    }
}

impl From<view::EdgeGroupSnapshot> for EdgeGroupSnapshot {
    fn from(group: view::EdgeGroupSnapshot) -> Self {
        Self {
            downstream_execution_id: group.downstream_execution_id,
            policy: group.policy.into(),
            total_deps: group.total_deps,
            satisfied_count: group.satisfied_count,
            failed_count: group.failed_count,
            skipped_count: group.skipped_count,
            running_count: group.running_count,
            group_state: group.group_state,
            cancel_siblings_reason: group.cancel_siblings_reason,
            spared_count: group.spared_count,
        }
    }
}

impl From<view::FlowSummary> for FlowSummary {
    fn from(summary: view::FlowSummary) -> Self {
        Self {
            flow_id: summary.flow_id,
            public_flow_state: summary.public_flow_state,
            total_members: summary.total_members,
            members_completed: summary.members_completed,
            members_failed: summary.members_failed,
            members_cancelled: summary.members_cancelled,
            members_expired: summary.members_expired,
            members_skipped: summary.members_skipped,
            members_active: summary.members_active,
            members_waiting: summary.members_waiting,
            members_delayed: summary.members_delayed,
            members_waiting_children: summary.members_waiting_children,
            members_suspended: summary.members_suspended,
            spared_count: summary.spared_count,
            as_of: summary.as_of,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use ff_core::flow::{
        Buckets, DependencyKind, Edge, EdgePolicy, EdgeState, Flow, FlowSpec, FlowState, Group,
        OnImpossible, OnSatisfied,
    };
    use ff_core::state::PublicState;
    use ff_core::{EdgeId, execution};
    use uuid::Uuid;

    use super::*;
    use crate::flow::edge::EdgeSnapshot;

    const FLOW: FlowId = FlowId(Uuid::from_u128(7));

    fn member(number: u128) -> ExecutionId {
        ExecutionId::for_flow(FLOW, Uuid::from_u128(number))
    }

    fn flow() -> Flow {
        Flow {
            id: FLOW,
            version: 3,
            spec: FlowSpec {
                namespace: "shop".parse().unwrap(),
                kind: "order".parse().unwrap(),
                creator: "ada".parse().unwrap(),
                idempotency_key: None,
                fingerprint: execution::Fingerprint::of(&[]),
                created_at: Millis(1),
            },
            revision: 9,
            nodes: 3,
            edges: 2,
            ended: Ended { well: 1, badly: 1 },
            sealed: true,
            tags: [("shop.order".to_owned(), "7".to_owned())].into(),
            updated_at: Millis(5),
            retain_until: Millis(6),
            state: FlowState::Cancelled {
                at: Millis(4),
                policy: CancellationPolicy::Pending,
                reason: "late".to_owned(),
            },
        }
    }

    #[test]
    fn a_flow_is_written_as_the_engine_writes_it_and_reads_back() {
        let policies = [
            EdgePolicy::AllOf,
            EdgePolicy::any_of(OnSatisfied::LetRun),
            EdgePolicy::Quorum {
                k: 2,
                on_satisfied: OnSatisfied::CancelRemaining,
                on_impossible: OnImpossible::Run,
            },
        ];
        let groups = policies.map(|policy| Group::new(FLOW, member(1), policy));
        let viewed = view::FlowSnapshot::of(&flow(), &groups, true);
        let own = serde_json::to_value(&viewed).unwrap();
        let sent = FlowSnapshot::from(viewed);
        assert_eq!(serde_json::to_value(&sent).unwrap(), own);
        assert_eq!(serde_json::from_value::<FlowSnapshot>(own).unwrap(), sent);
        for (group, policy) in sent.edge_groups.iter().zip(policies) {
            assert_eq!(group.policy.into_policy().unwrap(), policy);
        }
    }

    #[test]
    fn an_edge_is_written_as_the_engine_writes_it_and_reads_back() {
        let edge = Edge {
            id: EdgeId::between(FLOW, member(1), member(2)),
            flow: FLOW,
            upstream: member(1),
            downstream: member(2),
            kind: DependencyKind::AnyTerminal,
            name: Some("first".parse().unwrap()),
            data_passing_ref: None,
            round: 0,
            created_at: Millis(1),
            state: EdgeState::Satisfied { applied_at: Millis(2), at: Millis(3) },
        };
        let viewed = view::EdgeSnapshot::of(&edge, &flow());
        let own = serde_json::to_value(&viewed).unwrap();
        let sent = EdgeSnapshot::from(viewed);
        assert_eq!(serde_json::to_value(&sent).unwrap(), own);
        assert_eq!(serde_json::from_value::<EdgeSnapshot>(own).unwrap(), sent);
    }

    #[test]
    fn a_summary_is_written_as_the_engine_writes_it_and_reads_back() {
        let counts = PublicState::ALL.iter().zip(1..).map(|(state, count)| (*state, count));
        let buckets = Buckets { members: counts.collect(), spared: 11 };
        let viewed = view::FlowSummary::of(&flow(), &buckets, Millis(9));
        let own = serde_json::to_value(&viewed).unwrap();
        let sent = FlowSummary::from(viewed);
        assert_eq!(serde_json::to_value(&sent).unwrap(), own);
        assert_eq!(serde_json::from_value::<FlowSummary>(own).unwrap(), sent);
    }
}
