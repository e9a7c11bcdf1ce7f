//! What is added to a flow that is open, from outside.

use std::pin::Pin;

use ff_core::decide::extend_flow::ExtendFlow;
use ff_core::flow::Graph;
use ff_core::text::Namespace;

use super::{FlowHandle, Node, settle};
use crate::Error;
use crate::settings::say;

/// Nodes that are about to be added to a flow: await it. All of them are, or none. What is there
/// already, and the same, is left as it is, so that it may be sent again.
#[must_use = "nothing is added until it is awaited"]
pub struct FlowExtension {
    flow: FlowHandle,
    graph: Result<Graph, Error>,
    seal: bool,
}

impl FlowExtension {
    pub(super) fn new(flow: FlowHandle) -> Self {
        Self { flow, graph: Ok(Graph::default()), seal: false }
    }

    /// With this node. What it waits for may be there already, or be added before or after it.
    pub fn node(mut self, node: Node) -> Self {
        say(&mut self.graph, |graph| node.add_to(graph));
        self
    }

    /// With these nodes.
    pub fn nodes(self, nodes: impl IntoIterator<Item = Node>) -> Self {
        nodes.into_iter().fold(self, Self::node)
    }

    /// The last of it: the flow is [sealed](FlowHandle::seal) then.
    pub fn seal(mut self) -> Self {
        self.seal = true;
        self
    }
}

impl IntoFuture for FlowExtension {
    type Output = Result<(), Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let (flow, mut graph) = (self.flow.id(), self.graph?);
            let namespace = Namespace::new(self.flow.describe().await?.flow.namespace)?;
            settle(&mut graph, flow, &namespace);
            let extend = ExtendFlow { flow, graph, seal: self.seal, by: None };
            self.flow.fabric().extend_flow(extend).await.map(drop)
        })
    }
}
