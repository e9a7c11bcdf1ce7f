//! The record of a storm: every call, when it was sent and answered, what was said, and what the
//! readers of the feed were given. The checker sees nothing else of the clients.

use std::collections::BTreeMap;
use std::sync::Mutex;

use ff_core::ExecutionId;
use uuid::Uuid;

/// What is proved by whoever acts on a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fence {
    /// Of the attempt.
    pub attempt: u64,
    /// Of the lease.
    pub epoch: u64,
}

/// A lease that a claim was given.
#[derive(Clone, Debug, PartialEq)]
pub struct Grant {
    /// Of what.
    pub id: ExecutionId,
    /// Under which fence.
    pub fence: Fence,
    /// How long it is valid, by the store.
    pub until: i64,
    /// `first`, `retried`, `reclaimed`, `replayed` or `resumed`.
    pub kind: String,
}

/// What a worker says that ends its lease.
#[derive(Clone, Debug, PartialEq)]
pub enum Ending {
    /// With this result.
    Completed(u64),
    /// For this reason, and when it will be tried again.
    Failed(String, Option<i64>),
    /// To go on at a time.
    Delayed(Option<i64>),
    /// Given back.
    Released,
    /// Until a signal comes.
    Suspended,
}

/// What an operator says about an execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// End it.
    Cancel,
    /// Keep it from being claimed.
    Hold,
    /// Let it be claimed again.
    Unhold,
    /// Run it again.
    Replay,
    /// Take it away from its worker.
    Revoke,
    /// Change how urgent it is, to this.
    Prioritise(u64),
}

/// How a flow was cancelled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cancellation {
    /// Why, as the first cancellation said.
    pub reason: String,
    /// What becomes of its members.
    pub policy: String,
    /// Whether all members that this ends have ended.
    pub over: bool,
}

/// What was said.
#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// An execution was created, in a lane, claimable from some time on. Without an answer, one that
    /// is known by its key has no id.
    Create { id: Option<ExecutionId>, lane: String, due: i64, key: Option<String> },
    /// A flow was submitted; its roots are claimable at once.
    Submit { flow: Uuid, members: Vec<ExecutionId>, roots: Vec<(ExecutionId, String)> },
    /// A flow was cancelled; which cancellation the answer says is stored.
    CancelFlow { flow: Uuid, members: Vec<ExecutionId>, reason: String, stored: Cancellation },
    /// Work was asked for in lanes, under a name.
    Claim { claim: Uuid, lanes: Vec<String>, grants: Vec<Grant> },
    /// A lease was renewed, until then.
    Renew { id: ExecutionId, fence: Fence, until: i64 },
    /// A step was recorded.
    Step { id: ExecutionId, fence: Fence, number: u64, value: u64 },
    /// A lease ended.
    End { id: ExecutionId, fence: Fence, lane: String, how: Ending },
    /// A signal was sent; whether it lets the execution go on at once.
    Signal { id: ExecutionId, lane: String, signal: Uuid, key: String, resumes: bool },
    /// An operator spoke; a reason is used once. What the answer says became of it.
    Operate { id: ExecutionId, order: Order, reason: String, status: String },
}

/// How a call was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It was done.
    Done,
    /// It was refused, with this code, and changed nothing.
    Refused(String),
    /// Nobody knows.
    Lost,
}

/// One call.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// To which server.
    pub server: usize,
    /// When.
    pub sent: i64,
    /// When it was answered, or given up.
    pub answered: i64,
    /// What was said.
    pub what: What,
    /// What came back.
    pub answer: Answer,
}

impl Call {
    /// Whether it was acknowledged.
    pub fn done(&self) -> bool {
        self.answer == Answer::Done
    }

    /// Whether it may have happened.
    pub fn may_have_landed(&self) -> bool {
        self.answer == Answer::Done || self.answer == Answer::Lost
    }
}

/// An event as a reader was given it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Seen {
    /// What it happened to.
    pub subject: String,
    /// All that it says, without its place in the feed.
    pub text: String,
    /// What sort of event.
    pub kind: String,
    /// Its reason, if it has one.
    pub reason: Option<String>,
}

/// A reader of the feed, and what it was given, in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reader {
    /// What it is called.
    pub name: &'static str,
    /// Whether an event may be given again after an acknowledgement that failed.
    pub repeats: bool,
    /// What it was given.
    pub seen: Vec<Seen>,
}

/// A stretch of time with something wrong in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// What.
    pub what: String,
    /// From when.
    pub from: i64,
    /// Until when.
    pub to: i64,
}

/// All of it.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// The calls, in the order in which they were answered.
    pub calls: Vec<Call>,
    /// The readers.
    pub readers: Vec<Reader>,
    /// The faults.
    pub faults: Vec<Span>,
    /// When the machine was too slow to judge.
    pub starved: Vec<Span>,
    /// Answers that nobody should get: a code, and the first times it was given.
    pub odd: BTreeMap<String, Vec<String>>,
    /// How often each kind of call was answered how.
    pub counts: BTreeMap<String, u64>,
}

/// A record that is being written.
#[derive(Debug, Default)]
pub struct Recorder(Mutex<Record>);

/// How many odd answers of a kind are kept.
const ODD_MAX: usize = 5;

impl Recorder {
    /// Changes the record.
    pub fn with<T>(&self, change: impl FnOnce(&mut Record) -> T) -> T {
        // A task that panicked ends the storm anyway.
        change(&mut self.0.lock().expect("no writer panics"))
    }

    /// One more call.
    pub fn call(&self, call: Call) {
        self.with(|record| record.calls.push(call));
    }

    /// An answer that nobody should get.
    pub fn odd(&self, code: &str, text: String) {
        self.with(|record| {
            let known = record.odd.entry(code.to_owned()).or_default();
            if known.len() < ODD_MAX {
                known.push(text);
            }
        });
    }

    /// Counts something.
    pub fn count(&self, name: &str) {
        self.with(|record| *record.counts.entry(name.to_owned()).or_default() += 1);
    }

    /// Adds what a reader was given.
    pub fn seen(&self, name: &'static str, repeats: bool, seen: Vec<Seen>) {
        self.with(|record| {
            let known = record.readers.iter().position(|reader| reader.name == name);
            let at = known.unwrap_or_else(|| {
                record.readers.push(Reader { name, repeats, seen: Vec::new() });
                record.readers.len() - 1
            });
            record.readers[at].seen.extend(seen);
        });
    }

    /// All that was written.
    pub fn take(&self) -> Record {
        self.with(std::mem::take)
    }
}
