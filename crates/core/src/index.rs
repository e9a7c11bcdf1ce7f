//! Rows that exist only to find executions: where to claim, when to wake, what carries a tag.
//!
//! They are functions of the execution. [`fold`](crate::fold()) writes the difference between
//! before and after, so no decision mentions them and no backend computes them.

use std::collections::BTreeSet;

use sha2::{Digest, Sha256};

use crate::execution::{Execution, State};
use crate::ids::ExecutionId;
use crate::limits::PRIORITY_MAX;
use crate::state::words;
use crate::text::LaneId;
use crate::time::Millis;

/// Numbers a (lane, required capabilities) pair: everything in one queue suits the same workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueId(pub i64);

/// What a queue number stands for; a claim selects queues by it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Queue {
    /// Its number.
    pub id: QueueId,
    /// The lane.
    pub lane: LaneId,
    /// What a worker must offer.
    pub capabilities: BTreeSet<String>,
}

impl Queue {
    /// The number is a digest of its content: nothing is allocated, and every process and every
    /// backend computes the same one.
    pub fn new(lane: LaneId, capabilities: BTreeSet<String>) -> Self {
        let mut hash = Sha256::new();
        hash.update(lane.as_str());
        for capability in &capabilities {
            hash.update([0]);
            hash.update(capability);
        }
        let mut head = [0; 8];
        head.copy_from_slice(&hash.finalize()[..8]);
        Self { id: QueueId(i64::from_be_bytes(head)), lane, capabilities }
    }

    /// The queue an execution waits in.
    pub fn of(x: &Execution) -> Self {
        Self::new(x.spec.lane.clone(), x.spec.policy.required_capabilities().clone())
    }
}

/// A place in a queue: highest priority first, then oldest, then by id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ready {
    /// Priority turned round, so that ascending order is claim order.
    pub rank: i32,
    /// Creation time: a retried execution keeps its age.
    pub turn: Millis,
    /// Which.
    pub execution: ExecutionId,
    /// In which queue.
    pub queue: QueueId,
}

words! {
    /// What happens when a timer is due.
    TimerKind {
        Delay = "delay",
        AttemptTimeout = "attempt_timeout",
        Deadline = "deadline",
        Suspension = "suspension",
        Retention = "retention",
    }
}

/// Something is to happen to an execution at some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timer {
    /// What.
    pub kind: TimerKind,
    /// When.
    pub due: Millis,
    /// To which.
    pub execution: ExecutionId,
    /// For a delay: where it becomes claimable, so that promoting it only moves a row.
    pub ready: Option<Ready>,
}

/// A tag, to find the executions that carry it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TagRow {
    /// `owner.name`.
    pub key: String,
    /// The value.
    pub value: String,
    /// On which.
    pub execution: ExecutionId,
}

/// A claimable place, and from when on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Where.
    pub ready: Ready,
    /// Not before; nothing when it never waited.
    pub from: Option<Millis>,
}

/// Where `x` is, or will be, claimable.
///
/// A place with a time in the past may still stand among the timers, until somebody claims.
pub fn place(x: &Execution) -> Option<Place> {
    let State::Runnable(runnable) = &x.state else {
        return None;
    };
    if runnable.hold.is_some() || runnable.gated {
        return None;
    }
    let ready = Ready {
        rank: PRIORITY_MAX - x.priority.get(),
        turn: x.spec.created_at,
        execution: x.id,
        queue: Queue::of(x).id,
    };
    Some(Place { ready, from: runnable.wait.map(|wait| wait.until) })
}

/// The timers of `x`, without its delay (which is a [`place`]).
pub fn timers(x: &Execution) -> Vec<Timer> {
    let timer = |kind, due| Timer { kind, due, execution: x.id, ready: None };
    let timeout = match &x.state {
        State::Runnable(_) => None,
        State::Active(active) => active.timeout_at.map(|at| (TimerKind::AttemptTimeout, at)),
        State::Suspended(suspended) => suspended.deadline.map(|at| (TimerKind::Suspension, at)),
        // A member is kept as long as its flow, which has a time of its own.
        State::Terminal(_) if x.member.is_some() => return Vec::new(),
        State::Terminal(terminal) => {
            return vec![timer(TimerKind::Retention, terminal.retain_until)];
        }
    };
    let deadline = x.deadline_at.map(|at| timer(TimerKind::Deadline, at));
    let timeout = timeout.map(|(kind, at)| timer(kind, at));
    deadline.into_iter().chain(timeout).collect()
}

/// The tag rows of `x`.
pub fn tags(x: &Execution) -> impl Iterator<Item = TagRow> + '_ {
    x.tags.iter().map(|(key, value)| TagRow {
        key: key.clone(),
        value: value.clone(),
        execution: x.id,
    })
}
