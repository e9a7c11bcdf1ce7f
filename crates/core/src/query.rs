//! Reads that find things: a closed list of queries, each backed by an index and paged, except
//! for counts, which look at every execution.

use serde::Serialize;

use crate::execution::{AttemptRecord, Execution, Tags};
use crate::ids::{ExecutionId, Partition};
use crate::limits::PAGE_MAX;
use crate::state::PublicState;
use crate::text::{ConsumerName, Kind, LaneId, Namespace};
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
    /// Lanes in lexical order.
    Lanes,
    /// How many executions are in each lane and public state. Not paged.
    Counts,
    /// Durable consumers by name.
    Consumers,
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

    /// The limit that applies.
    pub fn size(&self) -> usize {
        usize::try_from(self.limit.min(PAGE_MAX)).unwrap_or(0)
    }
}

/// A place in a listing. Which variant belongs to which query is fixed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum After {
    /// Of a partition listing.
    Id(ExecutionId),
    /// Of a search.
    Created(Millis, ExecutionId),
    /// Of the attempts.
    Attempt(u32),
    /// Of lanes and consumers.
    Name(String),
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
    /// Lanes.
    Lanes(Vec<LaneId>),
    /// Counts.
    Counts(Vec<Count>),
    /// Consumers.
    Consumers(Vec<ConsumerName>),
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
