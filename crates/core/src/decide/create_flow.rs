//! Create a flow, to which members and edges are then added.
//!
//! Sent twice: `Duplicate`, whatever became of it; with other content it is a conflict that names the
//! first field that differs. A flow that was submitted with nodes has other content.

use super::create::check_tags;
use super::{Again, COMMAND_BYTES, Decide, Repeat};
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

/// The fields of a fingerprint, in the order in which a difference is reported. A creation says the
/// first four of them, a submission all.
pub(super) const FIELDS: [&str; 8] =
    ["namespace", "flow_kind", "creator_identity", "tags", "nodes", "edges", "joins", "seal"];

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

    /// What it says, field by field.
    pub(super) fn fields(&self) -> [Vec<u8>; 4] {
        let text = |value: &dyn ToString| value.to_string().into_bytes();
        [
            text(&self.namespace),
            text(&self.kind),
            text(&self.creator),
            serde_json::to_vec(&self.tags).expect("a map of texts is JSON"),
        ]
    }

    /// The first field in which the creation of `flow` differs.
    fn difference(&self, flow: &Flow) -> Option<&'static str> {
        let (spec, none) = (&flow.spec, Fingerprint::of(&[]));
        if spec.fingerprint != none {
            return spec.fingerprint.difference(&Fingerprint::of(&self.fields()), &FIELDS);
        }
        // Of a flow that is as old as that, or that a running execution is the root of, the tags that
        // it was created with are not known.
        let same = [
            spec.namespace == self.namespace,
            spec.kind == self.kind,
            spec.creator == self.creator,
        ];
        same.iter().position(|same| !same).map(|at| FIELDS[at])
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
    const REPEAT: Repeat =
        Repeat { by: "its id and content", late: "the original, for as long as the flow is kept" };

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
            return match self.difference(flow) {
                None => Ok(Change::none(FlowCreated::Duplicate { flow_id })),
                Some(field) => Err(conflict(flow_id, field)),
            };
        }
        let flow = Some(self.flow(Fingerprint::of(&self.fields()), cx.now));
        let graph = Some(Box::new(GraphEffects { flow, ..GraphEffects::default() }));
        let reply = FlowCreated::Created { flow_id };
        Ok(Change { reply, effects: Effects { graph, ..Effects::default() } })
    }

    fn again(created: &FlowCreated) -> Again<FlowCreated> {
        Again::Reply(FlowCreated::Duplicate { flow_id: created.flow_id() })
    }
}
