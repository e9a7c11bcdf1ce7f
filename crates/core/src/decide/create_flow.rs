//! Create a flow, to which members and edges are then added.
//!
//! Sent twice: `Duplicate`, whatever became of it; a flow with this id of another kind or in another
//! namespace is a conflict.

use super::create::check_tags;
use super::{Again, COMMAND_BYTES, Decide};
use crate::command::Traffic;
use crate::error::{Code, Rejection};
use crate::execution::{Fingerprint, Tags};
use crate::flow::{Ended, Flow, FlowSpec, FlowState};
use crate::fold::{Change, Cx, Effects, GraphEffects, Key, WorkingSet};
use crate::ids::FlowId;
use crate::limits::Config;
use crate::text::{Creator, FlowKind, Namespace};
use crate::time::Millis;

/// Create a flow.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateFlow {
    /// The id, minted by the caller.
    pub id: FlowId,
    /// Tenancy scope.
    pub namespace: Namespace,
    /// What sort of flow.
    pub kind: FlowKind,
    /// Who creates it.
    pub creator: Creator,
    /// Its tags.
    pub tags: Tags,
}

impl CreateFlow {
    /// A flow with nothing but what every one needs, in namespace `default`. Set what else is wanted.
    pub fn new(id: FlowId, kind: FlowKind) -> Self {
        Self {
            id,
            namespace: Namespace::new("default").expect("a valid namespace"),
            kind,
            creator: Creator::new("").expect("a creator may be empty"),
            tags: Tags::new(),
        }
    }

    /// The flow that is created at `now`.
    pub(super) fn flow(&self, fingerprint: Fingerprint, now: Millis) -> Flow {
        Flow {
            id: self.id,
            version: 1,
            spec: FlowSpec {
                namespace: self.namespace.clone(),
                kind: self.kind.clone(),
                creator: self.creator.clone(),
                idempotency_key: None,
                fingerprint,
                created_at: now,
            },
            revision: 0,
            nodes: 0,
            edges: 0,
            ended: Ended::default(),
            sealed: false,
            tags: self.tags.clone(),
            updated_at: now,
            retain_until: now,
            state: FlowState::Open,
        }
    }
}

/// The answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowCreated {
    /// It exists now.
    Created {
        /// Its id.
        flow_id: FlowId,
    },
    /// It existed already.
    Duplicate {
        /// The id of the original.
        flow_id: FlowId,
    },
}

impl FlowCreated {
    /// The flow, new or not.
    pub fn flow_id(self) -> FlowId {
        match self {
            Self::Created { flow_id } | Self::Duplicate { flow_id } => flow_id,
        }
    }
}

/// A clash with a flow that is there.
pub(super) fn conflict(id: FlowId, field: &'static str) -> Rejection {
    let why = format!("belongs to a flow created with other content ({field})");
    let refused = Rejection::invalid(Code::FlowIdConflict, "flow_id", id, why);
    Rejection { field: Some(field), ..refused }
}

impl Decide for CreateFlow {
    type Reply = FlowCreated;
    const NAME: &'static str = "create_flow";
    const TRAFFIC: Traffic = Traffic::Create;

    fn validate(&self, _: &Config) -> Result<(), Rejection> {
        check_tags(&self.tags)
    }

    fn bytes(&self) -> usize {
        COMMAND_BYTES
    }

    fn keys(&self, _: &WorkingSet) -> Vec<Key> {
        vec![Key::Flow(self.id)]
    }

    fn decide(&self, have: &WorkingSet, cx: &mut Cx<'_>) -> Result<Change<FlowCreated>, Rejection> {
        let flow_id = self.id;
        if let Some(flow) = have.graph.known_flow(flow_id) {
            if flow.spec.kind != self.kind {
                return Err(conflict(flow_id, "flow_kind"));
            }
            if flow.spec.namespace != self.namespace {
                return Err(conflict(flow_id, "namespace"));
            }
            return Ok(Change::none(FlowCreated::Duplicate { flow_id }));
        }
        let flow = Some(self.flow(Fingerprint::of(&[]), cx.now));
        let graph = Some(Box::new(GraphEffects { flow, ..GraphEffects::default() }));
        let reply = FlowCreated::Created { flow_id };
        Ok(Change { reply, effects: Effects { graph, ..Effects::default() } })
    }

    fn again(created: &FlowCreated) -> Again<FlowCreated> {
        Again::Reply(FlowCreated::Duplicate { flow_id: created.flow_id() })
    }
}
