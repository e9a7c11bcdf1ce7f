//! Flows: graphs of executions, submitted as a whole.

mod extension;
mod handle;
mod node;

use std::pin::Pin;
use std::sync::Arc;

use ff_core::decide::create_flow::{CreateFlow, FlowCreated};
use ff_core::decide::submit_flow::SubmitFlow;
use ff_core::flow::Graph;
use ff_core::text::{FlowKind, IdempotencyKey, Namespace};
use ff_core::{ExecutionId, FlowId};
use uuid::Uuid;

use crate::Error;
use crate::fabric::Fabric;
use crate::settings::say;

pub use extension::FlowExtension;
pub use handle::{FlowCancel, FlowHandle};
pub use node::{Node, node};

/// A flow that is about to be submitted: await it. What is malformed is told then, and nothing is
/// created.
#[must_use = "nothing is submitted until it is awaited"]
pub struct FlowDraft {
    fabric: Arc<dyn Fabric>,
    submit: Result<SubmitFlow, Error>,
}

impl FlowDraft {
    pub(crate) fn new(fabric: Arc<dyn Fabric>, kind: &str) -> Self {
        let submit = || {
            Ok(SubmitFlow {
                flow: CreateFlow::new(FlowId(Uuid::now_v7()), FlowKind::new(kind)?),
                graph: Graph::default(),
                seal: true,
                idempotency_key: None,
                dedup_window_ms: None,
            })
        };
        Self { fabric, submit: submit() }
    }

    fn set(mut self, set: impl FnOnce(&mut SubmitFlow) -> Result<(), Error>) -> Self {
        say(&mut self.submit, set);
        self
    }

    /// With this node. What it waits for may be added before or after it.
    pub fn node(self, node: Node) -> Self {
        self.set(|submit| node.add_to(&mut submit.graph))
    }

    /// With these nodes.
    pub fn nodes(self, nodes: impl IntoIterator<Item = Node>) -> Self {
        nodes.into_iter().fold(self, Self::node)
    }

    /// Under this id, instead of a new one.
    pub fn id(self, id: FlowId) -> Self {
        self.set(|submit| {
            submit.flow.id = id;
            Ok(())
        })
    }

    /// In this namespace, with all its members, instead of `default`.
    pub fn namespace(self, namespace: impl Into<String>) -> Self {
        self.set(|submit| {
            submit.flow.namespace = Namespace::new(namespace.into())?;
            Ok(())
        })
    }

    /// Tagged. Keys are of the form `owner.name`.
    pub fn tag(self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.set(|submit| {
            submit.flow.tags.insert(key.into(), value.into());
            Ok(())
        })
    }

    /// Submitted once, however often it is asked for under this key.
    pub fn idempotency_key(self, key: impl Into<String>) -> Self {
        self.set(|submit| {
            submit.idempotency_key = Some(IdempotencyKey::new(key.into())?);
            Ok(())
        })
    }

    /// Left open: more may be [added](FlowHandle::extend), and it does not end before it is
    /// [sealed](FlowHandle::seal).
    pub fn open(self) -> Self {
        self.set(|submit| {
            submit.seal = false;
            Ok(())
        })
    }
}

impl IntoFuture for FlowDraft {
    type Output = Result<FlowHandle, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let mut submit = self.submit?;
            settle(&mut submit.graph, submit.flow.id, &submit.flow.namespace);
            let created = self.fabric.submit_flow(submit).await?;
            let duplicate = matches!(created, FlowCreated::Duplicate { .. });
            Ok(FlowHandle::new(self.fabric, created.flow_id(), duplicate))
        })
    }
}

/// Gives the nodes what only their flow can tell.
fn settle(graph: &mut Graph, flow: FlowId, namespace: &Namespace) {
    for node in &mut graph.nodes {
        node.create.id = ExecutionId::for_node(flow, &node.name);
        node.create.namespace = namespace.clone();
    }
}
