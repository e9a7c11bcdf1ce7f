//! Extend a flow by a graph: nodes, edges to and from what is there, and joins, in one transaction.
//!
//! Anybody may extend a flow that is not sealed; a running member may always extend its own. An
//! execution outside any flow that does so becomes the root of a new one. Sent twice: what is there
//! already, and the same, is left as it is.

use std::collections::BTreeSet;

use super::graph::{Draft, growing, not_a_member, unfinished, unnamed};
use super::submit_flow::{member, reachable, taken, unknown};
use super::{COMMAND_BYTES, Decide, Repeat, group_policy, holder};
use crate::command::Traffic;
use crate::decide::create_flow::CreateFlow;
use crate::error::{Code, Rejection};
use crate::execution::{Execution, Fence, Fingerprint};
use crate::flow::{
    Edge, EdgePolicy, EdgeState, Flow, Graph, GroupState, Link, Member, Node, NodeRef, Reach,
    circle, second_input,
};
use crate::fold::{Change, Cx, Key, WorkingSet};
use crate::ids::{ExecutionId, FlowId};
use crate::limits::{Config, FLOW_EDGES_MAX, FLOW_NODES_MAX};
use crate::text::FlowKind;

/// Extend a flow.
#[derive(Clone, Debug, PartialEq)]
pub struct ExtendFlow {
    /// The flow.
    pub flow: FlowId,
    /// What to add.
    pub graph: Graph,
    /// Whether it is complete then.
    pub seal: bool,
    /// The running member that adds it, with its proof.
    pub by: Option<(ExecutionId, Fence)>,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extended {
    /// The flow.
    pub flow_id: FlowId,
    /// The graph as it is now.
    pub graph_revision: u64,
    /// How many members there are.
    pub node_count: u32,
}

/// What a flow is called that an execution begins by adding others to itself.
const ROOTED: &str = "rooted";

impl ExtendFlow {
    /// The flow, and whether it begins with this.
    fn found(
        &self,
        have: &WorkingSet,
        cx: &Cx<'_>,
    ) -> Result<(Flow, Option<Execution>), Rejection> {
        let by = match self.by {
            None => None,
            Some((id, fence)) => {
                let x = have.execution(id)?;
                holder(x, fence, cx.at(x))?;
                Some(x)
            }
        };
        match (have.graph.known_flow(self.flow), by) {
            (Some(flow), Some(x)) if x.flow() != Some(flow.id) => Err(not_a_member(flow.id, x.id)),
            (Some(flow), by) => {
                if !self.repeats(have, flow) {
                    growing(flow, by.is_some())?;
                }
                Ok((flow.clone(), None))
            }
            (None, Some(x))
                if x.flow().is_none()
                    && self.flow == FlowId::rooted_at(x.id)
                    && x.id.partition() == self.flow.partition() =>
            {
                let kind = FlowKind::new(ROOTED).expect("a valid kind");
                let mut create = CreateFlow::new(self.flow, kind);
                create.namespace = x.spec.namespace.clone();
                create.creator = x.spec.creator.clone();
                let mut flow = create.flow(Fingerprint::of(&[]), cx.now);
                flow.sealed = true;
                flow.nodes = 1;
                flow.revision = 1;
                let mut root = x.changed(cx.at(x));
                root.member = Some(Member { flow: flow.id, node: None });
                Ok((flow, Some(root)))
            }
            (None, _) => Err(have.graph.flow(self.flow).expect_err("it is not there")),
        }
    }

    /// Whether all of it is there, so that even a flow that grows no more has it.
    fn repeats(&self, have: &WorkingSet, flow: &Flow) -> bool {
        let Graph { nodes, links, joins } = &self.graph;
        let asks = self.seal || !(nodes.is_empty() && links.is_empty() && joins.is_empty());
        asks && (flow.sealed || !self.seal)
            && nodes
                .iter()
                .all(|node| have.execution(node.create.id).is_ok_and(|x| is_node(x, flow.id, node)))
            && links.iter().all(|link| link_of(have, flow.id, link).is_some_and(|(_, same)| same))
            && joins.iter().all(|(node, _)| have.graph.group((flow.id, node.id(flow.id))).is_some())
    }

    /// Refuses edges that would close a circle through what is there.
    fn check_circles(&self, have: &WorkingSet) -> Result<(), Rejection> {
        let flow = self.flow;
        let mut links: Vec<_> =
            self.graph.links.iter().map(|link| (link.from.id(flow), link.to.id(flow))).collect();
        // What the batch added before is not in what was loaded.
        links.extend(have.graph.added.iter().filter(|row| row.0 == flow).map(|row| (row.1, row.2)));
        let upstream: BTreeSet<_> = links.iter().map(|(from, _)| *from).collect();
        let known = upstream.iter().any(|from| have.execution(*from).is_ok());
        let ends: BTreeSet<_> = links.iter().map(|(_, to)| *to).collect();
        for to in ends {
            match have.graph.reach.get(&(flow, to)) {
                None => {}
                // Nothing that is there leads to what comes with this call.
                Some(Reach::TooMany) if !known => {}
                Some(Reach::TooMany) => {
                    let said = format!("too many executions lie behind {to} to look at");
                    return Err(Rejection::new(Code::CycleUnverifiable, said));
                }
                Some(Reach::All(reached)) => {
                    links.extend(reached.intersection(&upstream).map(|from| (to, *from)));
                }
            }
        }
        match circle(&links) {
            None => Ok(()),
            Some(circle) => Err(self.graph.circular(flow, &circle)),
        }
    }
}

impl Decide for ExtendFlow {
    type Reply = Extended;
    const NAME: &'static str = "extend_flow";
    const TRAFFIC: Traffic = Traffic::Create;
    const REPEAT: Repeat = Repeat {
        by: "the ids of its nodes and edges",
        late: "what is there, and the same, is left as it is",
    };

    fn validate(&self, config: &Config) -> Result<(), Rejection> {
        self.graph.validate(self.flow, None, config)
    }

    fn bytes(&self) -> usize {
        COMMAND_BYTES + self.graph.bytes()
    }

    fn keys(&self, have: &WorkingSet) -> Vec<Key> {
        let flow = self.flow;
        let mut keys = vec![Key::Flow(flow)];
        keys.extend(self.by.map(|(id, _)| Key::Execution(id)));
        keys.extend(self.graph.nodes.iter().map(|node| Key::Execution(node.create.id)));
        for link in &self.graph.links {
            let (from, to) = (link.from.id(flow), link.to.id(flow));
            keys.extend([Key::Execution(from), Key::Execution(to)]);
            keys.extend([Key::Group(flow, to), Key::Pair(flow, from, to)]);
            if link.name.is_some() || link.data_passing_ref.is_some() {
                keys.push(Key::Incoming(flow, to));
            }
            if have.execution(to).is_ok() {
                keys.push(Key::Reach(flow, to));
            }
        }
        for (node, _) in &self.graph.joins {
            keys.extend([Key::Execution(node.id(flow)), Key::Group(flow, node.id(flow))]);
        }
        if self.seal {
            keys.push(Key::Groups(flow));
        }
        keys.sort();
        keys.dedup();
        keys
    }

    fn decide(&self, have: &WorkingSet, cx: &mut Cx<'_>) -> Result<Change<Extended>, Rejection> {
        let (flow, root) = self.found(have, cx)?;
        let mut draft = Draft::new(have, &flow, cx);
        if let Some(root) = root {
            draft.put_execution(root);
        }
        self.check_circles(have)?;
        for node in &self.graph.nodes {
            add_node(&mut draft, node, cx)?;
        }
        for (node, policy) in &self.graph.joins {
            self.join(&mut draft, node, *policy, have)?;
        }
        let mut applied = Vec::with_capacity(self.graph.links.len());
        for link in &self.graph.links {
            applied.extend(add_link(&mut draft, link, have)?);
        }
        // Only when all are counted: a group must not fire before it is whole.
        for edge in &applied {
            draft.settle(edge, cx)?;
        }
        if draft.flow.nodes > FLOW_NODES_MAX || draft.flow.edges > FLOW_EDGES_MAX {
            let said = format!(
                "flow {} would have {} members and {} edges",
                flow.id, draft.flow.nodes, draft.flow.edges
            );
            return Err(Rejection::new(Code::FlowTooLarge, said));
        }
        self.check_joins(&draft, have)?;
        self.check_inputs(&draft, have)?;
        draft.flow.sealed |= self.seal;
        draft.finish();
        let reply = Extended {
            flow_id: flow.id,
            graph_revision: draft.flow.revision,
            node_count: draft.flow.nodes,
        };
        Ok(draft.change(reply))
    }
}

impl ExtendFlow {
    /// Sets what a node waits for, in the round that its new edges belong to. If none of them is new
    /// it was sent again: a member that runs anew tells of its earlier rounds, too.
    fn join(
        &self,
        draft: &mut Draft<'_>,
        node: &NodeRef,
        policy: EdgePolicy,
        have: &WorkingSet,
    ) -> Result<(), Rejection> {
        let flow = self.flow;
        let Some(x) = draft.member(node.id(flow)).cloned() else { return Err(unknown(node)) };
        let into: Vec<_> =
            self.graph.links.iter().filter(|link| link.to.id(flow) == x.id).collect();
        let there: Vec<_> = into.iter().filter_map(|link| link_of(have, flow, link)).collect();
        if let Some(group) = draft.group(x.id).filter(|group| group.staged > 0) {
            let again = there.len() == into.len();
            let current =
                into.is_empty() || there.iter().any(|(edge, _)| edge.round == group.round);
            let pending = group.state == GroupState::Pending;
            if again && (!current || group.policy == policy) {
                return Ok(());
            }
            if pending && group.policy != policy {
                return Err(group_policy::fixed(node));
            }
        }
        unfinished(&x)?;
        let mut group = draft.open_group(&x)?;
        group.policy = policy;
        draft.put_group(group);
        Ok(())
    }

    /// A quorum must be reachable once nothing is added any more; one in this graph at once.
    fn check_joins(&self, draft: &Draft<'_>, have: &WorkingSet) -> Result<(), Rejection> {
        let flow = self.flow;
        let own = self.graph.joins.iter().map(|(node, _)| node.clone());
        let sealed = have.graph.groups.keys().filter(|(of, _)| self.seal && *of == flow);
        for node in own.chain(sealed.map(|(_, id)| NodeRef::Execution(*id))) {
            let group = draft.group(node.id(flow));
            if let Some(group) = group.filter(|group| group.state == GroupState::Pending) {
                reachable(&node, group.policy, group.staged)?;
            }
        }
        Ok(())
    }

    /// What waits for all takes one result as its input.
    fn check_inputs(&self, draft: &Draft<'_>, have: &WorkingSet) -> Result<(), Rejection> {
        let flow = self.flow;
        let mut taken = BTreeSet::new();
        for link in self.graph.links.iter().filter(|link| link.data_passing_ref.is_some()) {
            let to = link.to.id(flow);
            let group = draft.group(to).filter(|group| group.policy == EdgePolicy::AllOf);
            let Some(group) = group.filter(|_| link_of(have, flow, link).is_none()) else {
                continue;
            };
            let into = have.graph.incoming.get(&(flow, to));
            let passes =
                |edge: &&Edge| edge.round == group.round && edge.data_passing_ref.is_some();
            let before = have.graph.edges_of(flow, into).into_iter().find(passes);
            if !taken.insert(to) || before.is_some() {
                return Err(second_input(&link.from, &link.to));
            }
        }
        Ok(())
    }
}

/// Whether `x` is what the node was created as.
fn is_node(x: &Execution, flow: FlowId, node: &Node) -> bool {
    x.flow() == Some(flow) && x.spec.fingerprint == node.create.fingerprint()
}

/// The edge between the ends of `link`, if there is one, and whether it is the same.
fn link_of<'a>(have: &'a WorkingSet, flow: FlowId, link: &Link) -> Option<(&'a Edge, bool)> {
    let pair = (flow, link.from.id(flow), link.to.id(flow));
    let id = have.graph.pairs.get(&pair).copied().flatten()?;
    let edge = have.graph.edges.get(&(flow, id))?.as_ref()?;
    let same = edge.kind == link.kind
        && edge.name == link.name
        && edge.data_passing_ref == link.data_passing_ref;
    Some((edge, same))
}

fn add_node(draft: &mut Draft<'_>, node: &Node, cx: &Cx<'_>) -> Result<(), Rejection> {
    if let Some(x) = draft.execution(node.create.id) {
        if is_node(x, draft.flow.id, node) {
            return Ok(());
        }
        return Err(taken(node));
    }
    if node.create.namespace != draft.flow.spec.namespace {
        let why = format!("of node {} is not that of the flow", node.name);
        let namespace = &node.create.namespace;
        return Err(Rejection::invalid(Code::InvalidInput, "namespace", namespace, why));
    }
    let (x, blob) = member(node, draft.flow.id, false, cx.now)?;
    draft.put_execution(x);
    draft.put_blob(blob);
    draft.flow.nodes += 1;
    draft.flow.revision += 1;
    Ok(())
}

/// The refusal of an edge that is there and is not the same.
fn differs(link: &Link, edge: &Edge) -> Rejection {
    let (from, to) = (&link.from, &link.to);
    let said = format!("edge {} leads from {from} to {to}, and is another one", edge.id);
    Rejection::new(Code::DependencyAlreadyExists, said)
}

fn add_link(
    draft: &mut Draft<'_>,
    link: &Link,
    have: &WorkingSet,
) -> Result<Option<Edge>, Rejection> {
    let flow = draft.flow.id;
    let (upstream, downstream) = (link.from.id(flow), link.to.id(flow));
    if let Some((edge, same)) = link_of(have, flow, link) {
        return if same { Ok(None) } else { Err(differs(link, edge)) };
    }
    if draft.member(upstream).is_none() {
        return Err(unknown(&link.from));
    }
    if let Some(name) = &link.name {
        unnamed(have, (flow, downstream), name, &link.to)?;
    }
    let Some(x) = draft.member(downstream).cloned() else { return Err(unknown(&link.to)) };
    unfinished(&x)?;
    let mut group = draft.open_group(&x)?;
    group.staged += 1;
    let edge = Edge {
        id: link.id(flow),
        flow,
        upstream,
        downstream,
        kind: link.kind,
        name: link.name.clone(),
        data_passing_ref: link.data_passing_ref.clone(),
        round: group.round,
        created_at: draft.at,
        state: EdgeState::Staged,
    };
    draft.put_group(group);
    draft.flow.edges += 1;
    draft.flow.revision += 1;
    draft.apply(&edge).map(Some)
}
