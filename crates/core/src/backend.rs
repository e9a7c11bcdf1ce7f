//! What a store must do: load, lock and write rows. It never decides.
//!
//! The trait is narrow on purpose and has no default bodies: a backend that cannot do something
//! does not compile. New behaviour is a new command in [`decide`](crate::decide), which no
//! backend notices.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use uuid::Uuid;

use crate::command::{Command, Outcome};
use crate::decide::claim::{Claim, Leased};
use crate::error::{Code, Rejection};
use crate::event::{Cursor, FeedEvent, Filter};
use crate::execution::{Execution, State, Worker};
use crate::fold::{Blob, BlobRef, Key, WorkingSet};
use crate::ids::ExecutionId;
use crate::limits::{self, Config};
use crate::query::{Listing, Page, Query};
use crate::state::{PublicState, words};
use crate::text::{LaneId, Namespace, check_capabilities};
use crate::time::Millis;

/// The machinery failed; nothing is known to have been decided.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// A stored value cannot be read.
    #[error("corruption: column {column} holds {value:?}: {why}")]
    Corruption {
        /// Table and column.
        column: String,
        /// What it holds.
        value: String,
        /// What is wrong with it.
        why: String,
    },
    /// The store was busy through all retries. Nothing was changed.
    #[error("retry_exhausted: {cause}")]
    RetryExhausted {
        /// What it said last.
        cause: String,
    },
    /// The database was migrated by a newer version.
    #[error("schema_too_new: the database has schema {found}; this binary knows {known}")]
    SchemaTooNew {
        /// Its schema version.
        found: i64,
        /// Ours.
        known: i64,
    },
    /// The store failed or cannot be reached; whether the call took effect is unknown.
    #[error("transport: {cause}")]
    Transport {
        /// What it said.
        cause: String,
    },
    /// A read was refused: it makes no sense on this store. Nothing is wrong with the store.
    #[error(transparent)]
    Rejected(Rejection),
    /// The store is shut down.
    #[error("closed: the store is shut down")]
    Closed,
}

impl StoreError {
    /// The refusal of the one call that needs a row which cannot be read, or that makes no sense;
    /// any other error concerns the whole batch.
    pub fn refusal(self) -> Result<Rejection, Self> {
        match self {
            Self::Corruption { column, value, why } => {
                let said = format!("column {column} holds {value:?}: {why}");
                Ok(Rejection { value: Some(value), ..Rejection::new(Code::Corruption, said) })
            }
            Self::Rejected(rejection) => Ok(rejection),
            Self::RetryExhausted { .. }
            | Self::SchemaTooNew { .. }
            | Self::Transport { .. }
            | Self::Closed => Err(self),
        }
    }

    /// What one call of a batch is answered when this error ended it for that call.
    pub fn rejection(&self) -> Rejection {
        Rejection::new(self.code(), self.to_string())
    }

    /// The stable code.
    pub fn code(&self) -> Code {
        match self {
            Self::Corruption { .. } => Code::Corruption,
            Self::RetryExhausted { .. } => Code::RetryExhausted,
            Self::SchemaTooNew { .. } => Code::SchemaTooNew,
            Self::Transport { .. } => Code::Transport,
            Self::Rejected(rejection) => rejection.code,
            Self::Closed => Code::Closed,
        }
    }
}

/// A worker asks for work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimAsk {
    /// Names the claim: asking again with it finds what it was given.
    pub claim_id: Uuid,
    /// Who asks.
    pub worker: Worker,
    /// From these lanes; the most urgent and oldest first over all of them.
    pub lanes: Vec<LaneId>,
    /// What the worker offers.
    pub capabilities: BTreeSet<String>,
    /// How long each lease lasts unless renewed.
    pub lease_ttl_ms: u64,
    /// At most so many.
    pub max: u32,
}

impl ClaimAsk {
    /// An ask for one execution, under a lease of 30 seconds, by a worker without capabilities.
    /// Set what else is wanted.
    pub fn new(claim_id: Uuid, worker: Worker, lanes: Vec<LaneId>) -> Self {
        let capabilities = BTreeSet::new();
        Self { claim_id, worker, lanes, capabilities, lease_ttl_ms: 30_000, max: 1 }
    }

    /// Whether both look in the same queues: what one finds, the other could have.
    pub fn looks_where(&self, other: &Self) -> bool {
        self.lanes == other.lanes && self.capabilities == other.capabilities
    }

    /// The command that claims one execution on behalf of this ask.
    pub fn claim(&self, id: ExecutionId) -> Claim {
        Claim {
            id,
            worker: self.worker.clone(),
            capabilities: self.capabilities.clone(),
            lease_ttl_ms: self.lease_ttl_ms,
            claim_id: self.claim_id,
        }
    }

    /// Refuses what makes no sense.
    pub fn validate(&self) -> Result<(), Rejection> {
        let refuse = |field, value: String, why: String| {
            Err(Rejection::invalid(Code::InvalidInput, field, value, why))
        };
        if self.lanes.is_empty() || self.lanes.len() > limits::CLAIM_LANES_MAX {
            let why = format!("must be 1 to {} in number", limits::CLAIM_LANES_MAX);
            return refuse("lanes", self.lanes.len().to_string(), why);
        }
        if self.max == 0 || self.max > limits::CLAIM_MAX {
            let why = format!("is out of range; use 1 to {}", limits::CLAIM_MAX);
            return refuse("max", self.max.to_string(), why);
        }
        check_capabilities("worker_capabilities", self.capabilities.iter().map(String::as_str))?;
        crate::decide::check_lease_ttl(self.lease_ttl_ms)
    }
}

/// Work that was handed out.
#[derive(Clone, Debug, PartialEq)]
pub struct Claimed {
    /// The lease.
    pub leased: Leased,
    /// The input; nothing when it was created with none.
    pub input: Option<Blob>,
}

/// The answer to claims.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Claims {
    /// For each ask, in order, what it was given.
    pub given: Vec<Vec<Claimed>>,
    /// When a claim that was given nothing should ask again, if nothing else happens: when the next
    /// delayed execution becomes claimable, or sooner where others hold what is there.
    pub next_due: Option<Millis>,
    /// The store's time, to tell how long that is.
    pub now: Millis,
    /// Claims of which an earlier try is being served at this moment: what they are given is not known.
    pub busy: BTreeSet<Uuid>,
}

words! {
    /// Work that the engine does by itself.
    Duty {
        LeaseExpiry = "lease_expiry",
        AttemptTimeout = "attempt_timeout",
        Deadline = "deadline",
        SuspensionTimeout = "suspension_timeout",
        WaitpointExpiry = "waitpoint_expiry",
        IdempotencyExpiry = "idempotency_expiry",
        Retention = "retention",
        CompletionDispatch = "completion_dispatch",
        EdgeCancelDispatcher = "edge_cancel_dispatcher",
        EdgeCancelReconciler = "edge_cancel_reconciler",
        CancelBacklog = "cancel_backlog",
        DependencyReconciler = "dependency_reconciler",
    }
}

/// Whose work a duty looks after. Everything given must match.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkFilter {
    /// In this namespace.
    pub namespace: Option<Namespace>,
    /// With this tag.
    pub tag: Option<(String, String)>,
}

/// What is due.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Due {
    /// Commands that check and do it.
    pub commands: Vec<Command>,
    /// When the next one will be due, if that is known.
    pub next: Option<Millis>,
}

/// Which duties have something to do, and from when on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Agenda {
    /// The store's time.
    pub now: Millis,
    /// When the first thing that a duty looks after is, or was, due. Whether it can be done is for
    /// the duty to find out.
    pub first: BTreeMap<Duty, Millis>,
}

impl Agenda {
    /// Of what a store found: a duty may look after several things.
    pub fn new(now: Millis, found: impl IntoIterator<Item = (Duty, Option<Millis>)>) -> Self {
        let mut agenda = Self { now, first: BTreeMap::new() };
        for (duty, due) in found {
            if let Some(due) = due {
                let first = agenda.first.entry(duty).or_insert(due);
                *first = due.min(*first);
            }
        }
        agenda
    }

    /// Whether a duty has something to look at now.
    pub fn calls(&self, duty: Duty) -> bool {
        self.first.get(&duty).is_some_and(|due| *due <= self.now)
    }

    /// When the next duty will be called that is not now.
    pub fn next(&self) -> Option<Millis> {
        self.first.values().copied().filter(|due| *due > self.now).min()
    }
}

/// A page of the feed.
#[derive(Clone, Debug, PartialEq)]
pub struct EventPage {
    /// What happened, in order.
    pub events: Vec<FeedEvent>,
    /// Where to go on; moves past events that the filter left out.
    pub next: Cursor,
}

/// Whether and how an execution has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// There is no such execution.
    Unknown,
    /// It goes on.
    Open,
    /// It has ended.
    Ended(Ended),
}

/// How an execution ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// In which state it is.
    pub state: PublicState,
    /// Its result, if it succeeded with one.
    pub result: Option<Kept>,
}

/// A result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kept {
    /// This is it.
    Here(Blob),
    /// It is to be read.
    There(BlobRef),
}

impl Fate {
    /// Of an execution that was loaded.
    pub fn of(x: Option<&Execution>) -> Self {
        match x.map(|x| (x, &x.state)) {
            None => Self::Unknown,
            Some((x, State::Terminal(t))) => Self::Ended(Ended {
                state: t.ending.outcome().into(),
                result: BlobRef::result(x).map(Kept::There),
            }),
            Some((_, State::Runnable(_) | State::Active(_) | State::Suspended(_))) => Self::Open,
        }
    }
}

/// What a waiter waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Interest {
    /// Something became claimable, or a delay was filed.
    Work,
    /// Something happened.
    Events,
    /// A member of a flow ended, and its flow is to be told.
    Flows,
    /// A flow is to cancel members: a group fired, or ends are owed.
    Cancels,
    /// A flow ended.
    Ends,
    /// A lease was taken away from its holder: by a cancellation, an operator, or because it ran out.
    Taken,
}

impl Interest {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Work, Self::Events, Self::Flows, Self::Cancels, Self::Ends, Self::Taken];
}

/// A store. See the module for what it may and may not do.
#[async_trait]
pub trait Backend: Send + Sync + 'static {
    /// Loads what the commands need, folds them, writes the result, in one transaction.
    /// Outcomes are in the order of the commands. A command that needs a row which cannot be
    /// read is refused as `corruption`; the others are not affected.
    async fn apply(&self, batch: Vec<Command>) -> Result<Vec<Outcome>, StoreError>;

    /// Moves due delays to the ready table, then hands out what is ready. With no asks, it only
    /// moves.
    ///
    /// Where no ask is given anything, nothing is there. Where some are, the others should ask
    /// again: what other processes have filed may stand where nobody looked.
    async fn claim(&self, asks: &[ClaimAsk]) -> Result<Claims, StoreError>;

    /// Which duties have something to do, cheaply: it is asked every second.
    async fn agenda(&self) -> Result<Agenda, StoreError>;

    /// What a duty has to check now, at most `limit` of it.
    async fn due(&self, duty: Duty, filter: &WorkFilter, limit: u32) -> Result<Due, StoreError>;

    /// Loads rows.
    async fn get(&self, keys: &[Key]) -> Result<WorkingSet, StoreError>;

    /// Finds things.
    async fn list(&self, query: &Query, page: &Page) -> Result<Listing, StoreError>;

    /// Reads the feed after `from`. A cursor of another kind of store is rejected.
    async fn events(
        &self,
        from: &Cursor,
        filter: &Filter,
        limit: u32,
    ) -> Result<EventPage, StoreError>;

    /// The newest place in the feed.
    async fn tail(&self) -> Result<Cursor, StoreError>;

    /// Reads bytes; absent ones are left out.
    async fn blobs(&self, refs: &[BlobRef]) -> Result<Vec<Blob>, StoreError>;

    /// Whether and how an execution has ended, cheaply: it is asked by everybody who waits for one.
    async fn fate(&self, id: ExecutionId) -> Result<Fate, StoreError>;

    /// The number of changes so far that concern `interest`, as far as this process knows.
    fn generation(&self, interest: Interest) -> u64;

    /// Waits until that number differs from `seen`, or something may have happened in another
    /// process. May wake early; a caller bounds it with a timeout of its own.
    async fn wait(&self, interest: Interest, seen: u64);

    /// The bounds it was opened with.
    fn config(&self) -> &Config;

    /// The store's time.
    async fn now(&self) -> Result<Millis, StoreError>;
}
