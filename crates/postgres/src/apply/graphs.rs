//! Flows that were submitted here, as last written: what ends in one of them is told to it in one flight.
//!
//! Like everything that is remembered it is a guess which the write checks. Whoever changes an edge or a
//! group holds the flow and gives it a new version, so the version of the flow answers for them. A group
//! that cancels siblings is read again all the same: processes of earlier releases take its flag down
//! without holding the flow. An execution answers for itself, unless it still waits for others
//! afterwards: then nothing was decided on it.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard};

use ff_core::execution::{Execution, State};
use ff_core::flow::{Edge, Flow, Group};
use ff_core::fold::{Blob, BlobRef, Key, WorkingSet, Write, WriteSet};
use ff_core::ids::{EdgeId, ExecutionId, FlowId};

/// Rows of flows that are remembered; beyond it the oldest flows are forgotten.
const ROWS_MAX: usize = 50_000;
/// Bytes of an input that is remembered.
const INPUT_BYTES_MAX: usize = 1_024;

/// Flows that were submitted here.
#[derive(Default)]
pub struct Graphs(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    graphs: HashMap<FlowId, Graph>,
    /// In the order of their submission; some are forgotten since.
    order: VecDeque<FlowId>,
    /// Members that wait for others.
    gated: HashMap<ExecutionId, Gated>,
    rows: usize,
}

struct Graph {
    flow: Flow,
    groups: HashMap<ExecutionId, Group>,
    edges: HashMap<ExecutionId, HashMap<EdgeId, Edge>>,
    members: Vec<ExecutionId>,
    rows: usize,
}

struct Gated {
    execution: Execution,
    input: Input,
}

/// The input of an execution that waits.
#[derive(Clone, Default)]
pub enum Input {
    /// It has this one.
    Known(Blob),
    /// It has none.
    Empty,
    /// It is long, or nobody read it.
    #[default]
    Unknown,
}

impl Input {
    /// What is remembered of it.
    pub fn new(blob: Option<&Blob>) -> Self {
        match blob {
            None => Self::Empty,
            Some(blob) if blob.bytes.len() <= INPUT_BYTES_MAX => Self::Known(blob.clone()),
            Some(_) => Self::Unknown,
        }
    }
}

impl Graphs {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().expect("no holder of this lock panics")
    }

    /// Puts what is remembered under `key` into `have`; answers whether anything is.
    pub fn recall(&self, key: &Key, have: &mut WorkingSet) -> bool {
        let inner = self.lock();
        match key {
            Key::FreeFlow(flow) => inner.graphs.get(flow).is_some_and(|graph| {
                have.graph.flows.insert(*flow, Some(graph.flow.clone()));
                true
            }),
            Key::Outgoing(flow, id) => inner.graphs.get(flow).is_some_and(|graph| {
                let edges = graph.edges.get(id).into_iter().flat_map(HashMap::values);
                have.graph.load_outgoing((*flow, *id), edges.cloned().collect());
                true
            }),
            Key::Group(flow, id) => {
                let group = inner.graphs.get(flow).and_then(|graph| graph.groups.get(id));
                let group = group.filter(|group| group.siblings.is_none());
                group.is_some_and(|group| {
                    have.graph.groups.insert((*flow, *id), Some(group.clone()));
                    true
                })
            }
            // Whoever runs has nothing to be told: its end is in the batch.
            Key::Dispatch(id) => have.graph.dispatch.insert(*id, None).is_none(),
            Key::Execution(id) => inner.gated.get(id).is_some_and(|gated| {
                have.executions.insert(*id, Some(gated.execution.clone()));
                true
            }),
            Key::Input(id) => {
                let input = match inner.gated.get(id).map(|gated| &gated.input) {
                    Some(Input::Known(blob)) => Some(blob.clone()),
                    Some(Input::Empty) => None,
                    Some(Input::Unknown) | None => return false,
                };
                have.inputs.insert(*id, input);
                true
            }
            Key::Flow(_)
            | Key::FreeGroup(..)
            | Key::Idempotency(..)
            | Key::Consumer(_)
            | Key::Step(..)
            | Key::Stepped(..)
            | Key::Unseen(_)
            | Key::UnseenFlow(_)
            | Key::Groups(_)
            | Key::Edge(..)
            | Key::Pair(..)
            | Key::Incoming(..)
            | Key::Reach(..)
            | Key::Behind(..)
            | Key::Members(_)
            | Key::Cancel(..)
            | Key::Backlog(_)
            | Key::Owed(_)
            | Key::First(_)
            | Key::Wait(_) => false,
        }
    }

    /// Remembers what was written.
    pub fn learn(&self, set: &WriteSet) {
        let graph = &set.graph;
        let mut inner = self.lock();
        if inner.graphs.is_empty() && graph.flows.is_empty() {
            return;
        }
        graph.removed.iter().for_each(|flow| inner.forget(*flow));
        graph.flows.iter().for_each(|write| inner.learn_flow(write));
        for group in graph.groups.iter().filter_map(|write| write.after.as_ref()) {
            if let Some(graph) = inner.graphs.get_mut(&group.flow) {
                let grown = graph.groups.insert(group.downstream, group.clone()).is_none();
                inner.grow(group.flow, grown);
            }
        }
        for edge in graph.edges.iter().filter_map(|write| write.after.as_ref()) {
            if let Some(graph) = inner.graphs.get_mut(&edge.flow) {
                let edges = graph.edges.entry(edge.upstream).or_default();
                let grown = edges.insert(edge.id, edge.clone()).is_none();
                inner.grow(edge.flow, grown);
            }
        }
        inner.learn_members(set);
        while inner.rows > ROWS_MAX
            && let Some(oldest) = inner.order.pop_front()
        {
            inner.forget(oldest);
        }
    }

    /// Forgets the flows that a batch would have written.
    pub fn forget(&self, set: &WriteSet) {
        let mut inner = self.lock();
        for write in &set.graph.flows {
            let either = write.before.as_ref().or(write.after.as_ref());
            if let Some(flow) = either {
                inner.forget(flow.id);
            }
        }
        for write in &set.executions {
            let either = write.before.as_ref().or(write.after.as_ref());
            if let Some(x) = either {
                inner.gated.remove(&x.id);
            }
        }
    }
}

impl Inner {
    fn learn_flow(&mut self, write: &Write<Flow>) {
        match (&write.before, &write.after) {
            (None, Some(flow)) if !flow.is_closed() => {
                self.forget(flow.id);
                let graph = Graph {
                    flow: flow.clone(),
                    groups: HashMap::new(),
                    edges: HashMap::new(),
                    members: Vec::new(),
                    rows: 0,
                };
                self.graphs.insert(flow.id, graph);
                self.order.push_back(flow.id);
                self.grow(flow.id, true);
            }
            (Some(before), Some(after)) if !after.is_closed() => {
                let known = self.graphs.get_mut(&after.id);
                match known.filter(|known| known.flow.version == before.version) {
                    Some(known) => known.flow = after.clone(),
                    // Somebody else wrote it in between.
                    None => self.forget(after.id),
                }
            }
            (before, after) => {
                let either = before.as_ref().or(after.as_ref());
                if let Some(flow) = either {
                    self.forget(flow.id);
                }
            }
        }
    }

    fn learn_members(&mut self, set: &WriteSet) {
        let mut inputs: HashMap<ExecutionId, &Blob> = HashMap::new();
        for blob in &set.blobs {
            if let BlobRef::Input(id) = blob.at {
                inputs.insert(id, blob);
            }
        }
        for write in &set.executions {
            let Some(x) = &write.after else { continue };
            let known = self.gated.remove(&x.id);
            let waits = matches!(&x.state, State::Runnable(runnable) if runnable.gated);
            let flow = x.flow().filter(|flow| waits && self.graphs.contains_key(flow));
            let Some(flow) = flow else { continue };
            let fresh = known.is_none();
            let input = match write.before {
                None => Input::new(inputs.get(&x.id).copied()),
                Some(_) => known.map_or(Input::Unknown, |known| known.input),
            };
            let gated = Gated { execution: x.clone(), input };
            self.gated.insert(x.id, gated);
            if let (true, Some(graph)) = (fresh, self.graphs.get_mut(&flow)) {
                graph.members.push(x.id);
                self.grow(flow, true);
            }
        }
    }

    fn grow(&mut self, flow: FlowId, grown: bool) {
        if let (true, Some(graph)) = (grown, self.graphs.get_mut(&flow)) {
            graph.rows += 1;
            self.rows += 1;
        }
    }

    fn forget(&mut self, flow: FlowId) {
        if let Some(graph) = self.graphs.remove(&flow) {
            self.rows -= graph.rows;
            graph.members.iter().for_each(|id| drop(self.gated.remove(id)));
        }
        // What was forgotten out of turn stays in line; it must not become a line without an end.
        if self.order.len() > ROWS_MAX {
            let known = &self.graphs;
            self.order.retain(|flow| known.contains_key(flow));
        }
    }
}
