//! Submit a whole graph: flow, members, edges and joins, in one transaction.
//!
//! Nothing can be claimed before what it waits for is known. Sent twice, by id or by key: `Duplicate`
//! with the original; with other content it is a conflict that names the first field that differs.

use std::collections::{BTreeMap, BTreeSet};

use super::create_flow::{CreateFlow, FIELDS, FlowCreated, conflict};
use super::{Again, Decide, Repeat};
use crate::command::Traffic;
use crate::error::{Code, Rejection};
use crate::execution::{Execution, Fingerprint, State};
use crate::flow::{
    Edge, EdgePolicy, EdgeState, Flow, Graph, Group, Member, Node, NodeRef, second_input,
};
use crate::fold::{Blob, Change, Cx, Effects, GraphEffects, Key, KeyRow, WorkingSet};
use crate::ids::{ExecutionId, FlowId};
use crate::limits::{Config, DURATION_MS_MAX};
use crate::text::{IdempotencyKey, Namespace};
use crate::time::Millis;

/// Submit a graph.
#[derive(Clone, Debug, PartialEq)]
pub struct SubmitFlow {
    /// The flow.
    pub flow: CreateFlow,
    /// Its members and edges.
    pub graph: Graph,
    /// Whether it is complete: only its running members may add to it.
    pub seal: bool,
    /// Makes the submission repeatable whatever its id.
    pub idempotency_key: Option<IdempotencyKey>,
    /// How long the key is remembered.
    pub dedup_window_ms: Option<u64>,
}

impl SubmitFlow {
    /// Digests each field and the whole. Ids that follow from the flow's id are left out, so that a
    /// key finds a submission under another id.
    fn fingerprint(&self) -> Fingerprint {
        let nodes = self.graph.nodes.iter().flat_map(|node| {
            let print = node.create.fingerprint().0;
            [node.name.as_str().as_bytes(), &[0], &print].concat()
        });
        let links = self.graph.links.iter().flat_map(|link| {
            let name = link.name.as_ref().map(ToString::to_string);
            format!(
                "{}\0{}\0{}\0{name:?}\0{:?}\0",
                link.from, link.to, link.kind, link.data_passing_ref
            )
            .into_bytes()
        });
        let joins = self.graph.joins.iter();
        let joins = joins.flat_map(|(node, policy)| format!("{node}\0{policy:?}\0").into_bytes());
        let [namespace, kind, creator, tags] = self.flow.fields();
        let (nodes, links, joins) = (nodes.collect(), links.collect(), joins.collect());
        let seal = self.seal.to_string().into_bytes();
        Fingerprint::of(&[namespace, kind, creator, tags, nodes, links, joins, seal])
    }

    fn key(&self) -> Option<(Namespace, IdempotencyKey)> {
        let key = self.idempotency_key.clone()?;
        Some((self.flow.namespace.clone(), key))
    }

    /// How many edges lead into each node, all of which must be in the graph.
    fn joins(&self) -> Result<BTreeMap<ExecutionId, (u32, EdgePolicy)>, Rejection> {
        let flow = self.flow.id;
        let known: BTreeMap<_, _> =
            self.graph.nodes.iter().map(|node| (node.create.id, &node.name)).collect();
        let find = |node: &NodeRef| {
            let id = node.id(flow);
            known.contains_key(&id).then_some(id).ok_or_else(|| unknown(node))
        };
        let mut joins: BTreeMap<_, (u32, EdgePolicy)> = BTreeMap::new();
        for link in &self.graph.links {
            find(&link.from)?;
            joins.entry(find(&link.to)?).or_default().0 += 1;
        }
        for (node, policy) in &self.graph.joins {
            let Some((edges, join)) = joins.get_mut(&find(node)?) else {
                let why = format!("of node {node} has no edges to join");
                return Err(Rejection::invalid(Code::InvalidInput, "join", "", why));
            };
            reachable(node, *policy, *edges)?;
            *join = *policy;
        }
        let mut taken = BTreeSet::new();
        for link in self.graph.links.iter().filter(|link| link.data_passing_ref.is_some()) {
            let to = link.to.id(flow);
            let all = joins.get(&to).is_some_and(|(_, policy)| *policy == EdgePolicy::AllOf);
            if all && !taken.insert(to) {
                return Err(second_input(&link.from, &link.to));
            }
        }
        Ok(joins)
    }
}

/// A node whose id belongs to something else.
pub(super) fn taken(node: &Node) -> Rejection {
    let why = "is the name of an execution that was created with other content";
    Rejection::invalid(Code::NodeConflict, "node", &node.name, why)
}

/// A node that is nowhere.
pub(super) fn unknown(node: &NodeRef) -> Rejection {
    let said = format!("there is no node {node}");
    let refused = Rejection::new(Code::UnknownNode, said);
    Rejection { field: Some("node"), value: Some(node.to_string()), ..refused }
}

/// Refuses a quorum of more edges than there are.
pub(super) fn reachable(
    node: &dyn std::fmt::Display,
    policy: EdgePolicy,
    edges: u32,
) -> Result<(), Rejection> {
    let k = policy.target(edges);
    if k <= edges {
        return Ok(());
    }
    let said = format!("node {node} waits for {k} of {edges} edges");
    let refused = Rejection::new(Code::QuorumTooLarge, said);
    Err(Rejection { field: Some("k"), value: Some(k.to_string()), ..refused })
}

/// The member that a node becomes; `gated` if it waits for others.
pub(super) fn member(
    node: &Node,
    flow: FlowId,
    gated: bool,
    now: Millis,
) -> Result<(Execution, Option<Blob>), Rejection> {
    let mut x = node.create.execution(node.create.fingerprint(), now)?;
    x.member = Some(Member { flow, node: Some(node.name.clone()) });
    if let State::Runnable(runnable) = &mut x.state {
        runnable.gated = gated;
    }
    Ok((x, node.create.kept_input()))
}

impl Decide for SubmitFlow {
    type Reply = FlowCreated;
    const NAME: &'static str = "submit_flow";
    const TRAFFIC: Traffic = Traffic::Create;
    const REPEAT: Repeat = Repeat {
        by: "its id or idempotency key, and its content",
        late: "the original, for as long as the flow is kept",
    };

    fn validate(&self, config: &Config) -> Result<(), Rejection> {
        self.flow.validate(config)?;
        if self.graph.nodes.is_empty() {
            let why = "must be at least one";
            return Err(Rejection::invalid(Code::InvalidInput, "nodes", "", why));
        }
        if let Some(ms) = self.dedup_window_ms {
            let refuse =
                |why| Err(Rejection::invalid(Code::InvalidInput, "dedup_window_ms", ms, why));
            if self.idempotency_key.is_none() {
                return refuse("needs an idempotency_key to apply to");
            }
            if ms > DURATION_MS_MAX {
                return refuse("is more than ten years");
            }
        }
        self.graph.validate(self.flow.id, Some(&self.flow.namespace), config)?;
        self.joins().map(drop)
    }

    fn bytes(&self) -> usize {
        self.flow.bytes() + self.graph.bytes()
    }

    fn keys(&self, _: &WorkingSet) -> Vec<Key> {
        let key = self.key().map(|(namespace, key)| Key::Idempotency(namespace, key));
        let nodes = self.graph.nodes.iter().map(|node| Key::Execution(node.create.id));
        std::iter::once(Key::Flow(self.flow.id)).chain(nodes).chain(key).collect()
    }

    fn decide(&self, have: &WorkingSet, cx: &mut Cx<'_>) -> Result<Change<FlowCreated>, Rejection> {
        let (flow_id, fingerprint, key) = (self.flow.id, self.fingerprint(), self.key());
        let known = key.as_ref().and_then(|key| have.keys.get(key)?.as_ref());
        if let Some(row) = known.filter(|row| row.expires_at > cx.now) {
            let original = FlowId(row.execution.uuid());
            let Some(field) = row.fingerprint.difference(&fingerprint, &FIELDS) else {
                return Ok(Change::none(FlowCreated::Duplicate { flow_id: original }));
            };
            let why = format!("belongs to flow {original}, created with other content ({field})");
            let key = key.as_ref().map_or("", |(_, key)| key.as_str());
            let code = Code::IdempotencyKeyConflict;
            let refused = Rejection::invalid(code, "idempotency_key", key, why);
            return Err(Rejection { field: Some(field), ..refused });
        }
        if let Some(flow) = have.graph.known_flow(flow_id) {
            return match flow.spec.fingerprint.difference(&fingerprint, &FIELDS) {
                None => Ok(Change::none(FlowCreated::Duplicate { flow_id })),
                Some(field) => Err(conflict(flow_id, field)),
            };
        }
        // Where there is no flow there are no members, but anybody may create what has such an id.
        let mut nodes = self.graph.nodes.iter();
        if let Some(node) = nodes.find(|node| have.execution(node.create.id).is_ok()) {
            return Err(taken(node));
        }
        let mut flow = self.flow.flow(fingerprint.clone(), cx.now);
        flow.sealed = self.seal;
        flow.spec.idempotency_key.clone_from(&self.idempotency_key);
        let graph = Some(Box::new(self.grown(flow, cx.now)?));
        let window = self.dedup_window_ms.unwrap_or(cx.config.dedup_window_ms);
        let row = KeyRow {
            execution: ExecutionId::for_flow(flow_id, flow_id.0),
            fingerprint,
            expires_at: cx.now.plus(window),
        };
        let key = key.map(|key| (key, Some(row)));
        let effects = Effects { key, graph, ..Effects::default() };
        Ok(Change { reply: FlowCreated::Created { flow_id }, effects })
    }

    fn again(created: &FlowCreated) -> Again<FlowCreated> {
        Again::Reply(FlowCreated::Duplicate { flow_id: created.flow_id() })
    }
}

impl SubmitFlow {
    fn grown(&self, mut flow: Flow, now: Millis) -> Result<GraphEffects, Rejection> {
        let joins = self.joins()?;
        let id = flow.id;
        let mut effects = GraphEffects::default();
        for node in &self.graph.nodes {
            let (x, blob) = member(node, id, joins.contains_key(&node.create.id), now)?;
            effects.executions.push(x);
            effects.blobs.extend(blob);
        }
        effects.edges.extend(self.graph.links.iter().map(|link| Edge {
            id: link.id(id),
            flow: id,
            upstream: link.from.id(id),
            downstream: link.to.id(id),
            kind: link.kind,
            name: link.name.clone(),
            data_passing_ref: link.data_passing_ref.clone(),
            round: 0,
            created_at: now,
            state: EdgeState::Unsatisfied { applied_at: now },
        }));
        effects.groups.extend(joins.into_iter().map(|(downstream, (edges, policy))| {
            let mut group = Group::new(id, downstream, policy);
            group.staged = edges;
            group.counters.total = edges;
            group
        }));
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        flow.nodes = count(self.graph.nodes.len());
        flow.edges = count(self.graph.links.len());
        flow.revision = u64::from(flow.nodes) + u64::from(flow.edges);
        effects.flow = Some(flow);
        Ok(effects)
    }
}
