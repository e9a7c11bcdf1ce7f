//! Edges of flows: staging, applying and reading them one by one.

use ff_core::decide::apply_edge::{Applied, ApplyEdge};
use ff_core::decide::stage_edge::{StageEdge, Staged};
use ff_core::flow::{DependencyKind, EdgeWord};
use ff_core::query::Direction;
use ff_core::text::EdgeName;
use ff_core::{Code, EdgeId, ExecutionId, FlowId, Millis, Rejection, view};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::graph::renamed;
use crate::bounds::check_limit;
use crate::words;

/// Edges in a page when nobody says.
pub const LIMIT_DEFAULT: u32 = 100;

/// Write an edge down; it holds nothing back until it is applied.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StageRequest {
    /// Its id; follows from its ends when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(format = "uuid")]
    pub edge_id: Option<String>,
    /// What is waited for.
    pub upstream_execution_id: String,
    /// What waits.
    pub downstream_execution_id: String,
    /// Which ends satisfy it (default `success_only`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<words::DependencyKind>)]
    pub dependency_kind: Option<DependencyKind>,
    /// Under which name the result is read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 256)]
    pub name: Option<String>,
    /// Any text makes the result of the upstream the input of the downstream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 256)]
    pub data_passing_ref: Option<String>,
    /// The `graph_revision` that you saw: another is refused.
    pub expected_graph_revision: u64,
}

impl StageRequest {
    /// The command.
    pub fn into_command(self, flow: FlowId) -> Result<StageEdge, Rejection> {
        let upstream = read_end(UPSTREAM, &self.upstream_execution_id)?;
        let downstream = read_end(DOWNSTREAM, &self.downstream_execution_id)?;
        let derived = || Ok(EdgeId::between(flow, upstream, downstream));
        Ok(StageEdge {
            flow,
            edge: self.edge_id.as_deref().map_or_else(derived, str::parse)?,
            upstream,
            downstream,
            kind: self.dependency_kind.unwrap_or(DependencyKind::SuccessOnly),
            name: self.name.map(EdgeName::new).transpose()?,
            data_passing_ref: self.data_passing_ref,
            expected_revision: self.expected_graph_revision,
        })
    }
}

const UPSTREAM: &str = "upstream_execution_id";
const DOWNSTREAM: &str = "downstream_execution_id";

fn read_end(field: &'static str, text: &str) -> Result<ExecutionId, Rejection> {
    text.parse().map_err(|refused| renamed(refused, field))
}

/// The edge is written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum StageAnswer {
    /// It holds nothing back yet.
    Staged {
        /// Its id.
        #[schema(value_type = String, format = "uuid")]
        edge_id: EdgeId,
        /// The graph as it is now.
        graph_revision: u64,
    },
}

impl From<Staged> for StageAnswer {
    fn from(staged: Staged) -> Self {
        let Staged { edge_id, graph_revision } = staged;
        Self::Staged { edge_id, graph_revision }
    }
}

/// Have a staged edge hold back what waits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ApplyRequest {
    /// Which.
    #[schema(format = "uuid")]
    pub edge_id: String,
    /// What you believe is waited for: another is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upstream_execution_id: Option<String>,
    /// What you believe waits: another is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub downstream_execution_id: Option<String>,
}

impl ApplyRequest {
    /// The command.
    pub fn into_command(self, flow: FlowId) -> Result<ApplyEdge, Rejection> {
        let end = |field, said: Option<String>| said.map(|id| read_end(field, &id)).transpose();
        Ok(ApplyEdge {
            flow,
            edge: self.edge_id.parse()?,
            upstream: end(UPSTREAM, self.upstream_execution_id)?,
            downstream: end(DOWNSTREAM, self.downstream_execution_id)?,
        })
    }
}

/// The edge counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum ApplyAnswer {
    /// It holds its downstream back, unless its upstream has ended.
    Applied {
        /// Edges that the downstream still waits for.
        unsatisfied_count: u32,
    },
    /// It was applied before.
    AlreadyApplied,
}

impl From<Applied> for ApplyAnswer {
    fn from(applied: Applied) -> Self {
        match applied {
            Applied::Applied { unsatisfied_count } => Self::Applied { unsatisfied_count },
            Applied::AlreadyApplied => Self::AlreadyApplied,
        }
    }
}

/// Which edges of a flow, and which page of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct EdgeParams {
    /// All of them (default), or those into or out of `execution_id`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(inline)]
    pub direction: Option<Way>,
    /// The execution, for `incoming` and `outgoing`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub execution_id: Option<String>,
    /// From where on: `next` of the page before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// Edges in the page (default 100).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u32>,
}

/// Which way edges lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// Any.
    All,
    /// Into the execution.
    Incoming,
    /// Out of the execution.
    Outgoing,
}

impl EdgeParams {
    /// Which edges, after which, and how many.
    pub fn into_query(self) -> Result<(Direction, Option<EdgeId>, u32), Rejection> {
        let refuse = |value: &str, why: &str| {
            Err(Rejection::invalid(Code::InvalidInput, "execution_id", value, why))
        };
        let way = self.direction.unwrap_or(Way::All);
        let direction = match (way, self.execution_id) {
            (Way::All, None) => Direction::All,
            (Way::All, Some(id)) => {
                return refuse(&id, "needs a direction: incoming or outgoing");
            }
            (Way::Incoming, Some(id)) => Direction::Incoming(id.parse()?),
            (Way::Outgoing, Some(id)) => Direction::Outgoing(id.parse()?),
            (Way::Incoming | Way::Outgoing, None) => {
                return refuse("", "is missing: a direction is that of an execution");
            }
        };
        let after = self.after.as_deref().map(str::parse).transpose();
        let after = after.map_err(|refused| renamed(refused, "after"))?;
        Ok((direction, after, check_limit(self.limit.unwrap_or(LIMIT_DEFAULT))?))
    }
}

/// A page of the edges of a flow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EdgePage {
    /// The edges, by id.
    pub edges: Vec<EdgeSnapshot>,
    /// Where the next page begins, to be sent as `after`; nothing when this was the last.
    #[schema(value_type = Option<String>, format = "uuid")]
    pub next: Option<EdgeId>,
}

impl EdgePage {
    /// What was found, and where it goes on.
    pub fn new(found: Vec<view::EdgeSnapshot>, next: Option<EdgeId>) -> Self {
        Self { edges: found.into_iter().map(EdgeSnapshot::from).collect(), next }
    }
}

/// One execution waits for the end of another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EdgeSnapshot {
    /// Its id.
    #[schema(value_type = String, format = "uuid")]
    pub edge_id: EdgeId,
    /// The flow.
    #[schema(value_type = String, format = "uuid")]
    pub flow_id: FlowId,
    /// What is waited for.
    #[schema(value_type = String)]
    pub upstream_execution_id: ExecutionId,
    /// What waits.
    #[schema(value_type = String)]
    pub downstream_execution_id: ExecutionId,
    /// Which ends satisfy it.
    #[schema(value_type = words::DependencyKind)]
    pub dependency_kind: DependencyKind,
    /// Under which name the result is read.
    pub name: Option<String>,
    /// Any text makes the result of the upstream the input of the downstream.
    pub data_passing_ref: Option<String>,
    /// Whether it holds its downstream back.
    #[schema(value_type = words::EdgeWord)]
    pub edge_state: EdgeWord,
    /// Staged.
    #[schema(value_type = i64)]
    pub created_at: Millis,
    /// Applied.
    #[schema(value_type = Option<i64>)]
    pub applied_at: Option<Millis>,
    /// Resolved.
    #[schema(value_type = Option<i64>)]
    pub resolved_at: Option<Millis>,
}

impl From<view::EdgeSnapshot> for EdgeSnapshot {
    fn from(edge: view::EdgeSnapshot) -> Self {
        Self {
            edge_id: edge.edge_id,
            flow_id: edge.flow_id,
            upstream_execution_id: edge.upstream_execution_id,
            downstream_execution_id: edge.downstream_execution_id,
            dependency_kind: edge.dependency_kind,
            name: edge.name.map(String::from),
            data_passing_ref: edge.data_passing_ref,
            edge_state: edge.edge_state,
            created_at: edge.created_at,
            applied_at: edge.applied_at,
            resolved_at: edge.resolved_at,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn an_edge_without_an_id_has_the_one_of_its_ends() {
        let flow = FlowId(Uuid::from_u128(7));
        let [a, b] = [1, 2].map(|n| ExecutionId::for_flow(flow, Uuid::from_u128(n)));
        let request = StageRequest {
            upstream_execution_id: a.to_string(),
            downstream_execution_id: b.to_string(),
            ..StageRequest::default()
        };
        let stage = request.clone().into_command(flow).unwrap();
        assert_eq!(stage.edge, EdgeId::between(flow, a, b));
        let named = StageRequest { edge_id: Some("mine".to_owned()), ..request.clone() };
        assert_eq!(named.into_command(flow).unwrap_err().field, Some("edge_id"));
        let lost = StageRequest { downstream_execution_id: "b".to_owned(), ..request };
        let refused = lost.into_command(flow).unwrap_err();
        assert_eq!(refused.field, Some("downstream_execution_id"));
        assert!(refused.message.starts_with("downstream_execution_id \"b\""), "{refused}");
    }

    #[test]
    fn a_direction_is_that_of_an_execution() {
        let none = EdgeParams::default;
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(none().into_query().unwrap(), (Direction::All, None, LIMIT_DEFAULT));
        for (params, field) in [
            (EdgeParams { direction: Some(Way::Incoming), ..none() }, "execution_id"),
            (EdgeParams { execution_id: text("{fp:1}:x"), ..none() }, "execution_id"),
            (EdgeParams { after: text("here"), ..none() }, "after"),
            (EdgeParams { limit: Some(0), ..none() }, "limit"),
        ] {
            assert_eq!(params.into_query().unwrap_err().field, Some(field));
        }
    }
}
