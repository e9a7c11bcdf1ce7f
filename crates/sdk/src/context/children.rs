//! Children: work that a handler hands to others, beside it or for it to wait for.
//!
//! They are members of their parent's flow; a parent in none becomes the root of one. Their names
//! follow from their parent and its journal, so a handler that runs again finds them instead of
//! making new ones. A wait gives the worker's slot back; what came of it is one step of the journal.

mod ends;

use ff_core::decide::create::Create;
use ff_core::decide::extend_flow::ExtendFlow;
use ff_core::decide::wait_children::{WaitChildren, Waiting};
use ff_core::flow::{
    DependencyKind, EdgePolicy, Graph, Link, Node, NodeRef, OnImpossible, OnSatisfied,
};
use ff_core::step::{StepKind, StepOutcome};
use ff_core::text::NodeName;
use ff_core::{ExecutionId, FlowId};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Context, Interrupt, name_of};
use crate::Error;
use crate::client::{Handle, not_successful};
use crate::journal::{Operation, Recalled};
use crate::pauses::persistently;
use crate::task::Task;
use ends::{End, all_of, first_of, value_of, values_of};

/// Bytes of a kind in the name of a child; what follows is short, and makes the name unique.
const KIND_BYTES_MAX: usize = 200;

/// What a parent waits for.
#[derive(Clone, Copy)]
enum Join {
    /// That all its children have ended.
    All,
    /// That one has succeeded, or none can.
    First,
}

impl Context {
    /// Work for a child: of some kind, with an input, in the lane of this execution unless said.
    pub fn task(&self, kind: impl AsRef<str>, input: impl Serialize) -> Task {
        let work = &self.0.work;
        Task::new(kind.as_ref(), &input, (work.lane.clone(), work.namespace.clone()))
    }

    /// Starts a child that runs beside this execution and may outlive it. The flow of both has
    /// ended when both have.
    pub fn spawn(&self, task: Task) -> impl Future<Output = Handle> + Send + '_ {
        let number = self.0.journal.position();
        async move { Handle::new(self.0.fabric.clone(), self.spawned(number, task).await) }
    }

    async fn spawned(&self, number: u32, task: Task) -> ExecutionId {
        let (operation, journal) = (children(number, "spawn"), &self.0.journal);
        if let Some(Recalled::Done(id)) = self.or_stop(journal.recall(&operation)).await {
            return id;
        }
        let nodes = self.or_stop(self.nodes(number, vec![task])).await;
        let id = nodes[0].create.id;
        self.extend(Graph { nodes, ..Graph::default() }).await;
        // Until it is recorded with another step, its name finds it again.
        let step = journal.step(&operation, (StepOutcome::Done, 0), &id);
        journal.keep(self.or_stop(step).await, false);
        id
    }

    /// Runs tasks as children, and waits until all have ended: their results in order. If some did
    /// not succeed, the first of them is the error. The worker's slot is given back meanwhile, as
    /// with a sleep; so what else the handler has under way is dropped, and begun again afterwards.
    pub fn join_all<T, I>(&self, tasks: I) -> impl Future<Output = Result<Vec<T>, Error>> + Send
    where
        T: DeserializeOwned + Send,
        I: IntoIterator<Item = Task>,
    {
        let (number, tasks) = (self.0.journal.position(), tasks.into_iter().collect());
        async move {
            let ends = self.gather((number, "join_all"), tasks, Join::All).await;
            values_of(self, ends).await.into_iter().collect()
        }
    }

    /// Runs tasks as children, and waits until all have ended: how each did, in order.
    pub fn settle_all<T, I>(&self, tasks: I) -> impl Future<Output = Vec<Result<T, Error>>> + Send
    where
        T: DeserializeOwned + Send,
        I: IntoIterator<Item = Task>,
    {
        let (number, tasks) = (self.0.journal.position(), tasks.into_iter().collect());
        async move {
            let ends = self.gather((number, "settle_all"), tasks, Join::All).await;
            values_of(self, ends).await
        }
    }

    /// Runs tasks as children, and waits until one has succeeded: its result. The others are
    /// cancelled. It is an error when none succeeds.
    pub fn race<T, I>(&self, tasks: I) -> impl Future<Output = Result<T, Error>> + Send
    where
        T: DeserializeOwned + Send,
        I: IntoIterator<Item = Task>,
    {
        let (number, tasks) = (self.0.journal.position(), tasks.into_iter().collect());
        async move {
            let ends = self.gather((number, "race"), tasks, Join::First).await;
            match <[End; 1]>::try_from(ends) {
                Ok([only]) => value_of(self, only).await,
                Err(none) => {
                    let why = none.into_iter().find_map(End::into_failure);
                    let why = why.map_or_else(String::new, |why| format!(": {why}"));
                    Err(not_successful(format!("none succeeded{why}")))
                }
            }
        }
    }

    /// How children ended that were waited for, now or before.
    async fn gather(&self, (number, name): (u32, &str), tasks: Vec<Task>, join: Join) -> Vec<End> {
        let (operation, journal) = (children(number, name), &self.0.journal);
        if let Some(Recalled::Done(ends)) = self.or_stop(journal.recall(&operation)).await {
            return ends;
        }
        if tasks.is_empty() {
            let step = journal.step(&operation, (StepOutcome::Done, 0), &[(); 0]);
            journal.keep(self.or_stop(step).await, false);
            return Vec::new();
        }
        let nodes = self.or_stop(self.nodes(number, tasks)).await;
        let ids: Vec<_> = nodes.iter().map(|node| node.create.id).collect();
        // An execution has one group of edges to wait for: side by side, one wait follows another.
        let _turn = self.0.waits.lock().await;
        self.extend(joined(self.0.work.id, nodes, join)).await;
        self.wait_for_children().await;
        let ends = match join {
            Join::All => all_of(&self.0.fabric, &ids).await,
            Join::First => first_of(&self.0.fabric, &ids).await,
        };
        let ends = self.or_stop(ends).await;
        let step = journal.step(&operation, (StepOutcome::Done, 0), &ends);
        let step = self.or_stop(step).await;
        if ends.iter().any(End::is_failure) {
            // If the attempt ends with that, and the child is replayed too, it is waited for anew.
            journal.keep(step, true);
        } else {
            self.record(step).await;
        }
        ends
    }

    /// The nodes that tasks become: the same whenever the handler runs again.
    fn nodes(&self, number: u32, tasks: Vec<Task>) -> Result<Vec<Node>, Error> {
        let (parent, flow) = (self.0.work.id, self.own_flow());
        let generation = self.0.journal.generation();
        let node = |(index, task): (usize, Task)| {
            let create = task.into_create()?;
            let name = name_of_child(parent, create.kind.as_str(), generation, (number, index))?;
            let create = Create { id: ExecutionId::for_node(flow, &name), ..create };
            Ok(Node { name, create })
        };
        tasks.into_iter().enumerate().map(node).collect()
    }

    /// Adds to the flow. What is there from an earlier run is left as it is.
    async fn extend(&self, graph: Graph) {
        // Children rest on what the handler found before.
        self.record_what_is_unsure(self.0.journal.drawn()).await;
        let by = Some(self.held());
        let extend = ExtendFlow { flow: self.own_flow(), graph, seal: false, by };
        let extended = persistently(|| self.0.fabric.extend_flow(extend.clone())).await;
        self.or_stop(extended).await;
        // A parent in no flow is in its own from now on; one that knows its flow keeps it.
        let _ = self.0.flow.set(extend.flow);
    }

    /// Comes back when there is nothing to wait for.
    async fn wait_for_children(&self) {
        let (id, fence) = self.held();
        let wait = WaitChildren { id, flow: self.own_flow(), fence };
        let waiting = persistently(|| self.0.fabric.wait_children(wait)).await;
        match self.or_stop(waiting).await {
            Waiting::Ready => {}
            Waiting::Waiting => self.interrupt(Interrupt::Paused).await,
        }
    }

    /// The flow that children are members of.
    fn own_flow(&self) -> FlowId {
        self.flow_id().unwrap_or_else(|| FlowId::rooted_at(self.0.work.id))
    }
}

/// Nodes whose ends a parent waits for.
fn joined(parent: ExecutionId, nodes: Vec<Node>, join: Join) -> Graph {
    let (kind, policy) = match join {
        Join::All => (DependencyKind::AnyTerminal, None),
        Join::First => {
            let on_satisfied = OnSatisfied::CancelRemaining;
            // When none succeeds, the parent is to learn of it.
            let on_impossible = OnImpossible::Run;
            let policy = EdgePolicy::AnyOf { on_satisfied, on_impossible };
            (DependencyKind::SuccessOnly, Some(policy))
        }
    };
    let parent = NodeRef::Execution(parent);
    let link = |node: &Node| {
        let from = NodeRef::Name(node.name.clone());
        Link { kind, ..Link::new(from, parent.clone()) }
    };
    let links = nodes.iter().map(link).collect();
    let joins = policy.map(|policy| (parent.clone(), policy)).into_iter().collect();
    Graph { nodes, links, joins }
}

/// An operation on children.
fn children(at: u32, name: &str) -> Operation {
    Operation { at, kind: StepKind::Children, name: name_of(name) }
}

/// Other children in every generation: those of the one before had another input perhaps.
fn name_of_child(
    parent: ExecutionId,
    kind: &str,
    generation: u32,
    (at, index): (u32, usize),
) -> Result<NodeName, Error> {
    let kind = &kind[..kind.floor_char_boundary(KIND_BYTES_MAX)];
    let tail = parent.uuid().as_u128() & 0xffff_ffff_ffff;
    let generation = if generation == 0 { String::new() } else { format!("g{generation}.") };
    Ok(NodeName::new(format!("{kind}.{tail:012x}.{generation}{at}.{index}"))?)
}
