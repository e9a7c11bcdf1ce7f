//! Flows, edges and groups as columns.

use serde_json::Value;
use uuid::Uuid;

use super::{corrupt, number, parse, present, stored};
use crate::backend::StoreError;
use crate::execution::{Fingerprint, Tags};
use crate::flow::{
    Counters, Edge, EdgePolicy, EdgeState, EdgeWord, Ended, Flow, FlowSpec, FlowState, FlowWord,
    Group, GroupState, GroupWord, Siblings,
};
use crate::ids::{EdgeId, ExecutionId, FlowId};
use crate::time::Millis;

/// The columns of a flow, named as in the table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is the column of the same name, documented in the schema")]
pub struct FlowRow {
    pub partition_key: i64,
    pub flow_id: [u8; 16],
    pub version: i64,
    pub namespace: String,
    pub kind: String,
    pub creator: String,
    pub idempotency_key: Option<String>,
    pub fingerprint: Vec<u8>,
    pub created_at_ms: i64,
    pub graph_revision: i64,
    pub node_count: i64,
    pub edge_count: i64,
    pub ended_well: i64,
    pub ended_badly: i64,
    pub sealed: bool,
    pub tags: Option<String>,
    pub updated_at_ms: i64,
    pub retain_until_ms: i64,
    pub state: String,
    pub terminal_at_ms: Option<i64>,
    pub cancellation_policy: Option<String>,
    pub cancel_reason: Option<String>,
    pub trim_at_ms: Option<i64>,
}

impl From<&Flow> for FlowRow {
    fn from(flow: &Flow) -> Self {
        let tags = (!flow.tags.is_empty())
            .then(|| serde_json::to_string(&flow.tags).expect("a map of texts is JSON"));
        let (policy, reason) = match &flow.state {
            FlowState::Cancelled { policy, reason, .. } => {
                (Some(policy.to_string()), Some(reason.clone()))
            }
            FlowState::Open | FlowState::Completed { .. } | FlowState::Failed { .. } => {
                (None, None)
            }
        };
        Self {
            partition_key: i64::from(flow.id.partition().index()),
            flow_id: flow.id.0.into_bytes(),
            version: stored(flow.version),
            namespace: flow.spec.namespace.to_string(),
            kind: flow.spec.kind.to_string(),
            creator: flow.spec.creator.to_string(),
            idempotency_key: flow.spec.idempotency_key.as_ref().map(ToString::to_string),
            fingerprint: flow.spec.fingerprint.0.clone(),
            created_at_ms: flow.spec.created_at.0,
            graph_revision: stored(flow.revision),
            node_count: i64::from(flow.nodes),
            edge_count: i64::from(flow.edges),
            ended_well: i64::from(flow.ended.well),
            ended_badly: i64::from(flow.ended.badly),
            sealed: flow.sealed,
            tags,
            updated_at_ms: flow.updated_at.0,
            retain_until_ms: flow.retain_until.0,
            state: flow.state.word().to_string(),
            terminal_at_ms: flow.state.ended_at().map(|at| at.0),
            cancellation_policy: policy,
            cancel_reason: reason,
            trim_at_ms: flow.trim_at().map(|at| at.0),
        }
    }
}

impl FlowRow {
    /// The flow that the columns describe.
    pub fn read(&self) -> Result<Flow, StoreError> {
        let id = FlowId(Uuid::from_bytes(self.flow_id));
        if i64::from(id.partition().index()) != self.partition_key {
            let why = "is not the partition of the flow";
            return Err(corrupt("ff_flow_core.partition_key", self.partition_key, why));
        }
        let tags: Option<Tags> = self
            .tags
            .as_deref()
            .map(|text| serde_json::from_str(text).map_err(|why| corrupt("tags", text, why)))
            .transpose()?;
        let key = self.idempotency_key.as_deref();
        Ok(Flow {
            id,
            version: number("version", self.version)?,
            spec: FlowSpec {
                namespace: parse("namespace", &self.namespace)?,
                kind: parse("kind", &self.kind)?,
                creator: parse("creator", &self.creator)?,
                idempotency_key: key.map(|key| parse("idempotency_key", key)).transpose()?,
                fingerprint: Fingerprint(self.fingerprint.clone()),
                created_at: Millis(self.created_at_ms),
            },
            revision: number("graph_revision", self.graph_revision)?,
            nodes: number("node_count", self.node_count)?,
            edges: number("edge_count", self.edge_count)?,
            ended: Ended {
                well: number("ended_well", self.ended_well)?,
                badly: number("ended_badly", self.ended_badly)?,
            },
            sealed: self.sealed,
            tags: tags.unwrap_or_default(),
            updated_at: Millis(self.updated_at_ms),
            retain_until: Millis(self.retain_until_ms),
            state: self.read_state()?,
        })
    }

    fn read_state(&self) -> Result<FlowState, StoreError> {
        let at = || present("terminal_at_ms", self.terminal_at_ms).map(Millis);
        Ok(match parse("state", &self.state)? {
            FlowWord::Open => FlowState::Open,
            FlowWord::Completed => FlowState::Completed { at: at()? },
            FlowWord::Failed => FlowState::Failed { at: at()? },
            FlowWord::Cancelled => {
                let policy = self.cancellation_policy.as_deref();
                FlowState::Cancelled {
                    at: at()?,
                    policy: parse("cancellation_policy", present("cancellation_policy", policy)?)?,
                    reason: present("cancel_reason", self.cancel_reason.clone())?,
                }
            }
        })
    }
}

/// The columns of an edge, named as in the table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is the column of the same name, documented in the schema")]
pub struct EdgeRow {
    pub partition_key: i64,
    pub flow_id: [u8; 16],
    pub edge_id: [u8; 16],
    pub upstream_id: [u8; 16],
    pub downstream_id: [u8; 16],
    pub kind: String,
    pub name: Option<String>,
    pub data_passing_ref: Option<String>,
    pub round: i64,
    pub created_at_ms: i64,
    pub state: String,
    pub applied_at_ms: Option<i64>,
    pub resolved_at_ms: Option<i64>,
}

impl From<&Edge> for EdgeRow {
    fn from(edge: &Edge) -> Self {
        let (applied, resolved) = edge.state.times();
        Self {
            partition_key: i64::from(edge.flow.partition().index()),
            flow_id: edge.flow.0.into_bytes(),
            edge_id: edge.id.0.into_bytes(),
            upstream_id: edge.upstream.uuid().into_bytes(),
            downstream_id: edge.downstream.uuid().into_bytes(),
            kind: edge.kind.to_string(),
            name: edge.name.as_ref().map(ToString::to_string),
            data_passing_ref: edge.data_passing_ref.clone(),
            round: i64::from(edge.round),
            created_at_ms: edge.created_at.0,
            state: edge.state.word().to_string(),
            applied_at_ms: applied.map(|at| at.0),
            resolved_at_ms: resolved.map(|at| at.0),
        }
    }
}

impl EdgeRow {
    /// The edge that the columns describe.
    pub fn read(&self) -> Result<Edge, StoreError> {
        let flow = FlowId(Uuid::from_bytes(self.flow_id));
        let member = |id| ExecutionId::for_flow(flow, Uuid::from_bytes(id));
        let applied_at = || present("applied_at_ms", self.applied_at_ms).map(Millis);
        let at = || present("resolved_at_ms", self.resolved_at_ms).map(Millis);
        let name = self.name.as_deref();
        Ok(Edge {
            id: EdgeId(Uuid::from_bytes(self.edge_id)),
            flow,
            upstream: member(self.upstream_id),
            downstream: member(self.downstream_id),
            kind: parse("kind", &self.kind)?,
            name: name.map(|name| parse("name", name)).transpose()?,
            data_passing_ref: self.data_passing_ref.clone(),
            round: number("round", self.round)?,
            created_at: Millis(self.created_at_ms),
            state: match parse("state", &self.state)? {
                EdgeWord::Staged => EdgeState::Staged,
                EdgeWord::Unsatisfied => EdgeState::Unsatisfied { applied_at: applied_at()? },
                EdgeWord::Satisfied => {
                    EdgeState::Satisfied { applied_at: applied_at()?, at: at()? }
                }
                EdgeWord::Impossible => {
                    EdgeState::Impossible { applied_at: applied_at()?, at: at()? }
                }
            },
        })
    }
}

/// The columns of a group, named as in the table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is the column of the same name, documented in the schema")]
pub struct GroupRow {
    pub partition_key: i64,
    pub flow_id: [u8; 16],
    pub downstream_id: [u8; 16],
    pub policy: String,
    pub round: i64,
    pub staged: i64,
    pub total: i64,
    pub satisfied: i64,
    pub failed: i64,
    pub skipped: i64,
    pub k_target: i64,
    pub state: String,
    pub fired_at_ms: Option<i64>,
    pub cancel_siblings_pending: bool,
    pub cancel_siblings_reason: Option<String>,
    pub cancel_siblings_round: Option<i64>,
}

impl From<&Group> for GroupRow {
    fn from(group: &Group) -> Self {
        let Counters { total, satisfied, failed, skipped } = group.counters;
        let siblings = group.siblings;
        Self {
            partition_key: i64::from(group.flow.partition().index()),
            flow_id: group.flow.0.into_bytes(),
            downstream_id: group.downstream.uuid().into_bytes(),
            policy: serde_json::to_string(&group.policy).expect("a policy is JSON"),
            round: i64::from(group.round),
            staged: i64::from(group.staged),
            total: i64::from(total),
            satisfied: i64::from(satisfied),
            failed: i64::from(failed),
            skipped: i64::from(skipped),
            k_target: i64::from(group.policy.target(total)),
            state: group.state.word().to_string(),
            fired_at_ms: group.state.at().map(|at| at.0),
            cancel_siblings_pending: siblings.is_some_and(|siblings| siblings.pending),
            cancel_siblings_reason: siblings.map(|siblings| siblings.reason.to_string()),
            cancel_siblings_round: siblings.map(|siblings| i64::from(siblings.round)),
        }
    }
}

impl GroupRow {
    /// The group that the columns describe.
    pub fn read(&self) -> Result<Group, StoreError> {
        let flow = FlowId(Uuid::from_bytes(self.flow_id));
        let value: Value = serde_json::from_str(&self.policy)
            .map_err(|why| corrupt("policy", &self.policy, why))?;
        let policy: EdgePolicy =
            serde_json::from_value(value).map_err(|why| corrupt("policy", &self.policy, why))?;
        let at = || present("fired_at_ms", self.fired_at_ms).map(Millis);
        let siblings = self.cancel_siblings_reason.as_deref().map(|reason| {
            let round = present("cancel_siblings_round", self.cancel_siblings_round)?;
            Ok(Siblings {
                pending: self.cancel_siblings_pending,
                reason: parse("cancel_siblings_reason", reason)?,
                round: number("cancel_siblings_round", round)?,
            })
        });
        let state = match parse("state", &self.state)? {
            GroupWord::Pending => GroupState::Pending,
            GroupWord::Satisfied => GroupState::Satisfied { at: at()? },
            GroupWord::Impossible => GroupState::Impossible { at: at()? },
            GroupWord::Cancelled => {
                return Err(corrupt("state", &self.state, "is shown and never stored"));
            }
        };
        Ok(Group {
            flow,
            downstream: ExecutionId::for_flow(flow, Uuid::from_bytes(self.downstream_id)),
            policy,
            round: number("round", self.round)?,
            staged: number("staged", self.staged)?,
            counters: Counters {
                total: number("total", self.total)?,
                satisfied: number("satisfied", self.satisfied)?,
                failed: number("failed", self.failed)?,
                skipped: number("skipped", self.skipped)?,
            },
            state,
            siblings: siblings.transpose()?,
        })
    }
}
