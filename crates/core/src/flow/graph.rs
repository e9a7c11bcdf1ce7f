//! Graphs as their authors write them: named nodes, edges between names, and how each node joins.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

use crate::decide::create::Create;
use crate::error::{Code, Rejection};
use crate::flow::{DependencyKind, EdgePolicy};
use crate::ids::{EdgeId, ExecutionId, FlowId};
use crate::limits::{Config, DATA_PASSING_BYTES_MAX, GRAPH_EDGES_MAX, GRAPH_NODES_MAX};
use crate::text::{EdgeName, Kind, LaneId, Namespace, NodeName, prose};

/// What is to be added to a flow.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Graph {
    /// Executions to create.
    pub nodes: Vec<Node>,
    /// What waits for what.
    pub links: Vec<Link>,
    /// How those join that do not wait for everything.
    pub joins: Vec<(NodeRef, EdgePolicy)>,
}

/// An execution to create, under a name.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Its name, which decides its id.
    pub name: NodeName,
    /// What to create.
    pub create: Create,
}

impl Node {
    /// A node of `flow` with nothing but what every one needs. Set what else is wanted.
    pub fn new(flow: FlowId, name: NodeName, lane: LaneId, kind: Kind) -> Self {
        let create = Create::new(ExecutionId::for_node(flow, &name), lane, kind);
        Self { name, create }
    }
}

/// Names an execution of a flow.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NodeRef {
    /// By its name.
    Name(NodeName),
    /// By its id.
    Execution(ExecutionId),
}

impl NodeRef {
    /// The execution that is meant.
    pub fn id(&self, flow: FlowId) -> ExecutionId {
        match self {
            Self::Name(name) => ExecutionId::for_node(flow, name),
            Self::Execution(id) => *id,
        }
    }
}

impl std::fmt::Display for NodeRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Name(name) => name.fmt(f),
            Self::Execution(id) => id.fmt(f),
        }
    }
}

/// One waits for another.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// What is waited for.
    pub from: NodeRef,
    /// What waits.
    pub to: NodeRef,
    /// Which ends satisfy it.
    pub kind: DependencyKind,
    /// Under which name the result is read.
    pub name: Option<EdgeName>,
    /// Any text asks that the result become the input.
    pub data_passing_ref: Option<String>,
}

impl Link {
    /// `to` waits for the success of `from`.
    pub fn new(from: NodeRef, to: NodeRef) -> Self {
        let kind = DependencyKind::SuccessOnly;
        Self { from, to, kind, name: None, data_passing_ref: None }
    }

    /// The id of its edge.
    pub fn id(&self, flow: FlowId) -> EdgeId {
        EdgeId::between(flow, self.from.id(flow), self.to.id(flow))
    }
}

/// The field that asks for a result as input.
const PASSING: &str = "data_passing_ref";

/// Refuses a data passing reference that says nothing or too much, or passes what is never there.
pub(crate) fn check_reference(kind: DependencyKind, text: Option<&str>) -> Result<(), Rejection> {
    let refuse = |why| Err(Rejection::invalid(Code::InvalidInput, PASSING, "", why));
    match (text, kind) {
        (None, _) => Ok(()),
        (Some(""), _) => refuse("must not be empty; leave it out"),
        (Some(_), DependencyKind::FailureOnly) => {
            refuse("has no use on a failure_only edge: what failed leaves no result")
        }
        (Some(text), DependencyKind::SuccessOnly | DependencyKind::AnyTerminal) => {
            prose(PASSING, text, DATA_PASSING_BYTES_MAX)
        }
    }
}

/// The refusal of a second result as the input of what waits for all, and has one input.
pub(crate) fn second_input(from: &dyn Display, to: &dyn Display) -> Rejection {
    let why = format!(
        "of the edge from {from} to {to} is a second one: {to} waits for all, and has one input; \
         give the edges names instead"
    );
    Rejection::invalid(Code::InvalidInput, PASSING, "", why)
}

impl Graph {
    /// Refuses what can be refused without looking at the flow.
    pub fn validate(
        &self,
        flow: FlowId,
        namespace: Option<&Namespace>,
        config: &Config,
    ) -> Result<(), Rejection> {
        for (field, count, max) in [
            ("nodes", self.nodes.len(), GRAPH_NODES_MAX),
            ("edges", self.links.len(), GRAPH_EDGES_MAX),
        ] {
            if count > max {
                let why = format!("are {count} in number; at most {max} fit in one call");
                return Err(Rejection::invalid(Code::InvalidInput, field, "", why));
            }
        }
        let mut names = BTreeSet::new();
        for node in &self.nodes {
            node.validate(flow, namespace, config)?;
            if !names.insert(&node.name) {
                let why = "is the name of two nodes";
                return Err(Rejection::invalid(Code::InvalidInput, "node", &node.name, why));
            }
        }
        self.validate_links(flow)?;
        for (node, policy) in &self.joins {
            policy.validate().map_err(|refused| Rejection {
                message: format!("the join of node {node}: {}", refused.message),
                ..refused
            })?;
        }
        let joined: BTreeSet<_> = self.joins.iter().map(|(node, _)| node.id(flow)).collect();
        if joined.len() < self.joins.len() {
            let why = "has two joins for one node";
            return Err(Rejection::invalid(Code::InvalidInput, "join", "", why));
        }
        let ends = self.links.iter().map(|link| (link.from.id(flow), link.to.id(flow)));
        match circle(ends.collect::<Vec<_>>().as_slice()) {
            None => Ok(()),
            Some(circle) => Err(self.circular(flow, &circle)),
        }
    }

    fn validate_links(&self, flow: FlowId) -> Result<(), Rejection> {
        let (mut pairs, mut inputs) = (BTreeSet::new(), BTreeSet::new());
        for link in &self.links {
            let (from, to) = (link.from.id(flow), link.to.id(flow));
            check_reference(link.kind, link.data_passing_ref.as_deref())?;
            if from == to {
                let said = format!("node {} waits for itself", link.from);
                return Err(Rejection::new(Code::SelfReferencingEdge, said));
            }
            if !pairs.insert((from, to)) {
                let said = format!("two edges lead from {} to {}", link.from, link.to);
                return Err(Rejection::new(Code::DependencyAlreadyExists, said));
            }
            if let Some(name) = &link.name
                && !inputs.insert((to, name))
            {
                let why = format!("is the name of two edges into {}", link.to);
                return Err(Rejection::invalid(Code::InvalidInput, "edge_name", name, why));
            }
        }
        Ok(())
    }

    /// The refusal of a circle, which at least one edge of this graph is part of.
    pub(crate) fn circular(&self, flow: FlowId, circle: &[Ends]) -> Rejection {
        let ends = |link: &&Link| circle.contains(&(link.from.id(flow), link.to.id(flow)));
        let said = match self.links.iter().find(ends) {
            Some(link) => format!("the edge from {} to {} is part of a circle", link.from, link.to),
            None => "the edges form a circle with those that are there".to_owned(),
        };
        Rejection::new(Code::CycleDetected, said)
    }

    /// Bytes it carries.
    pub fn bytes(&self) -> usize {
        use crate::decide::Decide;
        let nodes = self.nodes.iter().map(|node| node.create.bytes());
        nodes.sum::<usize>() + 64 * self.links.len()
    }
}

impl Node {
    fn validate(
        &self,
        flow: FlowId,
        namespace: Option<&Namespace>,
        config: &Config,
    ) -> Result<(), Rejection> {
        use crate::decide::Decide;
        let name = &self.name;
        let refuse = |field, why: &str| {
            let why = format!("of node {name} {why}");
            Err(Rejection::invalid(Code::InvalidInput, field, "", why))
        };
        if self.create.id != ExecutionId::for_node(flow, name) {
            return refuse("execution_id", "is not the one that its name gives it");
        }
        if self.create.idempotency_key.is_some() {
            return refuse("idempotency_key", "has no use: the flow is created once");
        }
        if namespace.is_some_and(|namespace| *namespace != self.create.namespace) {
            return refuse("namespace", "is not that of the flow");
        }
        self.create.validate(config).map_err(|refused| Rejection {
            message: format!("node {name}: {}", refused.message),
            ..refused
        })
    }
}

/// The ends of an edge: what is waited for, and what waits.
pub(crate) type Ends = (ExecutionId, ExecutionId);

/// Finds a circle, if there is one: takes away what waits for nothing until all is gone.
pub(crate) fn circle(links: &[Ends]) -> Option<Vec<Ends>> {
    let mut waits: BTreeMap<ExecutionId, usize> = BTreeMap::new();
    let mut follow: BTreeMap<ExecutionId, Vec<ExecutionId>> = BTreeMap::new();
    for (from, to) in links {
        waits.entry(*from).or_default();
        *waits.entry(*to).or_default() += 1;
        follow.entry(*from).or_default().push(*to);
    }
    let free = waits.iter().filter(|(_, count)| **count == 0).map(|(id, _)| *id);
    let mut free: Vec<_> = free.collect();
    while let Some(id) = free.pop() {
        waits.remove(&id);
        for next in follow.remove(&id).into_iter().flatten() {
            if let Some(count) = waits.get_mut(&next) {
                *count -= 1;
                if *count == 0 {
                    free.push(next);
                }
            }
        }
    }
    // What is left is in a circle or behind one; going backwards from anything in it, one comes round.
    let mut back: BTreeMap<ExecutionId, ExecutionId> = BTreeMap::new();
    for (from, to) in links.iter().filter(|(from, _)| waits.contains_key(from)) {
        back.entry(*to).or_insert(*from);
    }
    let mut at = *waits.keys().next()?;
    let (mut path, mut seen) = (Vec::new(), BTreeSet::new());
    while seen.insert(at) {
        let from = *back.get(&at)?;
        path.push((from, at));
        at = from;
    }
    // It was seen before: the path from there on is the circle.
    let begin = path.iter().position(|(_, to)| *to == at)?;
    Some(path.split_off(begin))
}
