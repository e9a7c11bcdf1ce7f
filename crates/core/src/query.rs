//! Reads that find things: a closed list of queries, each backed by an index and paged, except
//! for counts, which look at every execution.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use uuid::Uuid;

use crate::execution::{AttemptRecord, Execution, Tags};
use crate::flow::{Buckets, Edge, Flow, FlowWord, Group};
use crate::ids::{ExecutionId, FlowId, Partition};
use crate::limits::{DEPTH_MAX, PAGE_MAX};
use crate::state::PublicState;
use crate::step::StepRecord;
use crate::suspension::{Signal, Suspension, SuspensionReason, Waitpoint};
use crate::text::{ConsumerName, FlowKind, Kind, LaneId, Namespace};
use crate::time::Millis;

/// What to find.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Query {
    /// Ids in one partition, ascending by UUID.
    Partition(Partition),
    /// Executions, newest first.
    Executions(Box<Search>),
    /// Attempts of one execution that are over, oldest first; the current one is on the execution.
    Attempts(ExecutionId),
    /// Steps of one execution, by number.
    Steps(ExecutionId),
    /// Lanes in lexical order.
    Lanes,
    /// How much is claimable in each lane. Not paged.
    Depths,
    /// How many executions are in each lane and public state. Not paged.
    Counts,
    /// Durable consumers by name.
    Consumers,
    /// Flows in one partition, ascending by UUID.
    FlowPartition(Partition),
    /// Flows, newest first.
    Flows(Box<FlowSearch>),
    /// Edges of a flow, by id.
    Edges(FlowId, Direction),
    /// Groups of a flow, by the id of what waits.
    Groups(FlowId),
    /// Members of a flow, by id.
    Members(FlowId),
    /// How many members of a flow are in each public state. Not paged.
    Buckets(FlowId),
    /// Waitpoints at which signals may arrive, of one execution or of all, by id: pending ones of
    /// executions that have not ended, and those that a suspended execution waits at.
    Waitpoints(Option<ExecutionId>),
    /// Suspended executions with their suspensions, longest first.
    Suspended(Box<SuspendedSearch>),
    /// The signals of one execution, in the order of their arrival.
    Signals(ExecutionId),
    /// Some signals of one execution, in the order of their arrival. Not paged.
    SomeSignals(ExecutionId, BTreeSet<Uuid>),
}

/// Which suspended executions to find. Everything given must match.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SuspendedSearch {
    /// In this partition.
    pub partition: Option<Partition>,
    /// In this namespace.
    pub namespace: Option<Namespace>,
    /// For this reason.
    pub reason: Option<SuspensionReason>,
}

/// Which edges of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// All of them.
    All,
    /// Those out of this execution.
    Outgoing(ExecutionId),
    /// Those into this execution.
    Incoming(ExecutionId),
}

impl Direction {
    /// Whether `edge` is meant.
    pub fn matches(self, edge: &Edge) -> bool {
        match self {
            Self::All => true,
            Self::Outgoing(id) => edge.upstream == id,
            Self::Incoming(id) => edge.downstream == id,
        }
    }
}

/// Which flows to find. Everything given must match.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlowSearch {
    /// In this namespace.
    pub namespace: Option<Namespace>,
    /// Of this kind.
    pub kind: Option<FlowKind>,
    /// In this state.
    pub state: Option<FlowWord>,
    /// With this tag.
    pub tag: Option<(String, String)>,
}

impl FlowSearch {
    /// Whether `flow` is meant. Backends select by columns; this says what they must select.
    pub fn matches(&self, flow: &Flow) -> bool {
        self.namespace.as_ref().is_none_or(|namespace| *namespace == flow.spec.namespace)
            && self.kind.as_ref().is_none_or(|kind| *kind == flow.spec.kind)
            && self.state.is_none_or(|state| state == flow.state.word())
            && self.tag.as_ref().is_none_or(|(key, value)| flow.tags.get(key) == Some(value))
    }
}

/// Which executions to find. Everything given must match.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Search {
    /// In this lane.
    pub lane: Option<LaneId>,
    /// In this namespace.
    pub namespace: Option<Namespace>,
    /// Of this kind.
    pub kind: Option<Kind>,
    /// In this state now.
    pub state: Option<PublicState>,
    /// With this tag.
    pub tag: Option<(String, String)>,
    /// Created at or after.
    pub created_from: Option<Millis>,
    /// Created before.
    pub created_to: Option<Millis>,
}

/// How much to return, and from where on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// After this place; a value that an earlier page returned.
    pub after: Option<After>,
    /// Rows; 0 gives an empty page, more than 1000 counts as 1000.
    pub limit: u32,
}

impl Page {
    /// The first `limit` rows.
    pub fn first(limit: u32) -> Self {
        Self { after: None, limit }
    }

    /// The name to go on after.
    pub fn name(&self) -> Option<&str> {
        match &self.after {
            Some(After::Name(name)) => Some(name),
            Some(
                After::Created(..)
                | After::Id(_)
                | After::Number(_)
                | After::Uuid(_)
                | After::Within(..),
            )
            | None => None,
        }
    }

    /// The number to go on after.
    pub fn number(&self) -> Option<u32> {
        match &self.after {
            Some(After::Number(number)) => Some(*number),
            Some(
                After::Created(..)
                | After::Id(_)
                | After::Name(_)
                | After::Uuid(_)
                | After::Within(..),
            )
            | None => None,
        }
    }

    /// The UUID to go on after.
    pub fn uuid(&self) -> Option<Uuid> {
        match &self.after {
            Some(After::Uuid(uuid) | After::Within(uuid, _)) => Some(*uuid),
            Some(After::Id(id)) => Some(id.uuid()),
            Some(After::Created(..) | After::Name(_) | After::Number(_)) | None => None,
        }
    }

    /// The limit that applies.
    pub fn size(&self) -> usize {
        usize::try_from(self.limit.min(PAGE_MAX)).unwrap_or(0)
    }
}

/// A place in a listing. Which variant belongs to which query is fixed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum After {
    /// Of a partition listing, and of the members and groups of a flow.
    Id(ExecutionId),
    /// Of a search, for executions or flows, where a flow stands under its own UUID; of suspended
    /// executions, with the time since when they are.
    Created(Millis, ExecutionId),
    /// Of the attempts, of the steps and of the signals.
    Number(u32),
    /// Of lanes and consumers.
    Name(String),
    /// Of edges, and of the flows of a partition.
    Uuid(Uuid),
    /// Of waitpoints: their ids, and whose they are.
    Within(Uuid, ExecutionId),
}

/// A page of what was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Listing {
    /// The rows.
    pub rows: Rows,
    /// Where the next page begins; nothing when this was the last.
    pub next: Option<After>,
}

/// Rows of one kind.
#[derive(Clone, Debug, PartialEq)]
pub enum Rows {
    /// Of a partition.
    Ids(Vec<ExecutionId>),
    /// Of a search.
    Executions(Vec<Execution>),
    /// Of an execution.
    Attempts(Vec<AttemptRecord>),
    /// Of an execution.
    Steps(Vec<StepRecord>),
    /// Lanes.
    Lanes(Vec<LaneId>),
    /// What is claimable.
    Depths(Vec<Depth>),
    /// Counts.
    Counts(Vec<Count>),
    /// Consumers.
    Consumers(Vec<ConsumerName>),
    /// Of a partition, or of a search.
    Flows(Vec<Flow>),
    /// Of a flow.
    Edges(Vec<Edge>),
    /// Of a flow.
    Groups(Vec<Group>),
    /// Of a flow.
    Buckets(Buckets),
    /// Waitpoints, with the suspension that uses them.
    Waitpoints(Vec<(Waitpoint, Option<Suspension>)>),
    /// Suspended executions, with what they wait for.
    Suspended(Vec<(Execution, Suspension)>),
    /// Of an execution.
    Signals(Vec<Signal>),
}

/// How many executions of a lane are in a state.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Count {
    /// The lane.
    pub lane: LaneId,
    /// The state.
    pub state: PublicState,
    /// How many.
    pub count: u64,
}

/// How much is claimable in a lane.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Depth {
    /// The lane.
    pub lane: LaneId,
    /// How many wait for a worker.
    pub waiting: u64,
    /// Whether there are more than were counted: at most
    /// [`DEPTH_MAX`](crate::limits::DEPTH_MAX) of each queue of the lane are.
    pub capped: bool,
    /// Since when the one waits that has waited longest of those that are next in their queues.
    pub oldest: Option<Millis>,
}

impl Depth {
    /// Adds up the queues of each lane: how many were counted, and since when the first waits.
    pub fn of_lanes(queues: impl IntoIterator<Item = (LaneId, u64, Option<Millis>)>) -> Vec<Self> {
        let mut lanes: BTreeMap<LaneId, Self> = BTreeMap::new();
        for (lane, counted, first) in queues {
            let depth = lanes.entry(lane.clone()).or_insert(Self {
                lane,
                waiting: 0,
                capped: false,
                oldest: None,
            });
            depth.waiting += counted.min(DEPTH_MAX);
            depth.capped |= counted > DEPTH_MAX;
            depth.oldest = depth.oldest.into_iter().chain(first).min();
        }
        lanes.into_values().collect()
    }
}

impl SuspendedSearch {
    /// Whether `x`, which is suspended, is meant.
    pub fn matches(&self, x: &Execution, suspension: &Suspension) -> bool {
        self.partition.is_none_or(|partition| partition == x.id.partition())
            && self.namespace.as_ref().is_none_or(|namespace| *namespace == x.spec.namespace)
            && self.reason.is_none_or(|reason| reason == suspension.reason)
    }
}

impl Search {
    /// Whether `x` is meant. Backends select by columns; this says what they must select.
    pub fn matches(&self, x: &Execution, state: PublicState) -> bool {
        let tagged =
            |tags: &Tags| self.tag.as_ref().is_none_or(|(key, value)| tags.get(key) == Some(value));
        self.lane.as_ref().is_none_or(|lane| *lane == x.spec.lane)
            && self.namespace.as_ref().is_none_or(|namespace| *namespace == x.spec.namespace)
            && self.kind.as_ref().is_none_or(|kind| *kind == x.spec.kind)
            && self.state.is_none_or(|wanted| wanted == state)
            && self.created_from.is_none_or(|from| x.spec.created_at >= from)
            && self.created_to.is_none_or(|to| x.spec.created_at < to)
            && tagged(&x.tags)
    }
}
