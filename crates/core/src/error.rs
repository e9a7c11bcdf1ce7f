//! Rejections: why a command was refused, with a stable code and what to do next.
//!
//! A rejection is an answer, not a failure of the machinery (that is
//! [`StoreError`](crate::StoreError)). Codes never change their meaning once published;
//! `docs/errors.md` is generated from the table below.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::ids::ExecutionId;
use crate::state::{Phase, TerminalOutcome};

/// What kind of answer a code is; decides how a caller reacts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// The thing does not exist.
    NotFound,
    /// The input is wrong; the same call will never succeed.
    Validation,
    /// Somebody else was faster or the store is busy.
    Contention,
    /// The call clashes with something permanent.
    Conflict,
    /// The thing is in a state that does not allow it.
    State,
    /// It took too long.
    Timeout,
    /// Stored data or the machinery is broken.
    Fault,
}

macro_rules! codes {
    ($($name:ident $text:literal $class:ident $retryable:literal $meaning:literal $hint:literal)*) => {
        /// A stable code.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[derive(Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Code { $(#[doc = $meaning] $name,)* }

        impl Code {
            /// All of them, in the order of the documentation.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// The literal that users see.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text),* }
            }

            /// How a caller should react.
            pub fn class(self) -> Class {
                match self { $(Self::$name => Class::$class),* }
            }

            /// Whether the same call may succeed later.
            pub fn retryable(self) -> bool {
                match self { $(Self::$name => $retryable),* }
            }

            /// When it is answered.
            pub fn meaning(self) -> &'static str {
                match self { $(Self::$name => $meaning),* }
            }

            /// What to do next.
            pub fn hint(self) -> &'static str {
                match self { $(Self::$name => $hint),* }
            }
        }
    };
}

codes! {
    ExecutionNotFound "execution_not_found" NotFound false
        "No execution has this id, or it was removed by retention."
        "Check the id; list executions to find it."
    ConsumerNotFound "consumer_not_found" NotFound false
        "No consumer of the event feed has this name."
        "Save a cursor under the name first."
    FlowNotFound "flow_not_found" NotFound false
        "No flow has this id, or it was removed by retention."
        "Check the id; list flows to find it."
    EdgeNotFound "edge_not_found" NotFound false
        "The flow has no edge with this id."
        "List the edges of the flow, or stage the edge first."
    WaitpointNotFound "waitpoint_not_found" NotFound false
        "The execution has no waitpoint with this id."
        "List the waitpoints of the execution."
    InvalidInput "invalid_input" Validation false
        "A field is malformed or outside its range."
        "Correct the field that the answer names."
    InvalidPolicyJson "invalid_policy_json" Validation false
        "The policy is not a JSON object, or has an unknown or malformed field."
        "Remove or correct the field that the answer names."
    InvalidCapabilities "invalid_capabilities" Validation false
        "A capability token is malformed, or there are too many."
        "Use short tokens without commas, whitespace or control characters."
    InvalidTagKey "invalid_tag_key" Validation false
        "A tag key is not of the form owner.name."
        "Use lower-case letters, digits and underscores around a dot."
    PayloadTooLarge "payload_too_large" Validation false
        "A payload or result is larger than the deployment allows."
        "Store it elsewhere and pass a reference; payload_bytes_max is for inputs and results."
    MissingToken "missing_token" Validation false
        "The signal carries no token."
        "Send the token or the link that was handed out with the waitpoint."
    InvalidToken "invalid_token" Validation false
        "The token is not one for this waitpoint, or there is no such waitpoint."
        "Send the token that was handed out with the waitpoint, unchanged."
    TokenExpired "token_expired" Validation false
        "The token is genuine, but the key that signed it is no longer accepted."
        "Ask for a new token; an operator can read it."
    InvalidKid "invalid_kid" Validation false
        "The name of a signing key is empty, too long, or holds a colon or whitespace."
        "Use a short name, such as the date."
    InvalidSecretHex "invalid_secret_hex" Validation false
        "The secret of a signing key is not a whole number of bytes in hexadecimal."
        "Send 64 random hexadecimal digits."
    InvalidGraceMs "invalid_grace_ms" Validation false
        "The time for which a replaced key is still accepted is out of range."
        "Send milliseconds from 0 to 2^53-1."
    RotationConflict "rotation_conflict" Conflict false
        "A signing key with this name is stored with another secret, or was replaced already."
        "Use a new name for the new key."
    ExecutionIdConflict "execution_id_conflict" Conflict false
        "An execution with this id exists and was created with other content."
        "Use a new id, or send the original content."
    IdempotencyKeyConflict "idempotency_key_conflict" Conflict false
        "The idempotency key was used for a creation with other content."
        "Use a new key, or send the original content."
    FlowIdConflict "flow_id_conflict" Conflict false
        "A flow with this id exists and was created with other content."
        "Use a new id, or send the original content."
    NodeConflict "node_conflict" Conflict false
        "The flow has a member with this name that was created with other content."
        "Use a new name, or send the original content."
    ResultConflict "result_conflict" Conflict false
        "The attempt was completed before, with another result, which stays."
        "Read the result; do not complete it again."
    VersionConflict "version_conflict" Conflict false
        "It changed since the version, replay or save that the call names."
        "Read it; the call may have been carried out before. If not, send it for what is there now."
    ExecutionAlreadyInFlow "execution_already_in_flow" Conflict false
        "The execution belongs to another flow, for ever; the answer names it."
        "Create another execution for this flow."
    SelfReferencingEdge "self_referencing_edge" Conflict false
        "An edge leads from an execution to itself."
        "Name two different executions."
    CycleDetected "cycle_detected" Conflict false
        "The edges would form a circle: nothing in it could ever begin."
        "Remove one of the edges of the circle."
    CycleUnverifiable "cycle_unverifiable" Conflict false
        "Too many executions lie behind the edge to be sure that it closes no circle."
        "Submit the graph in one call, or add the edge before what follows it."
    DependencyAlreadyExists "dependency_already_exists" Conflict false
        "There is an edge with this id, or one between these two executions."
        "Use the edge that is there; the answer names it."
    PartitionMismatch "partition_mismatch" Validation false
        "The execution lies in another partition than the flow."
        "Create members with an id made for the flow."
    UnknownNode "unknown_node" Validation false
        "An edge or a policy names a node that is neither in the graph nor in the flow."
        "Correct the name, or add the node."
    QuorumTooLarge "quorum_too_large" Validation false
        "A quorum asks for more edges than lead into its execution."
        "Lower k, or add edges."
    StaleGraphRevision "stale_graph_revision" Contention false
        "The graph was changed since the revision that the caller saw."
        "Read the flow again and decide anew."
    FlowAlreadyTerminal "flow_already_terminal" State false
        "The flow has ended: nothing can be added to it."
        "Create another flow."
    FlowSealed "flow_sealed" State false
        "The flow is sealed: only its running members may add to it."
        "Create another flow, or add from a running member."
    FlowTooLarge "flow_too_large" State false
        "The flow has as many members or edges as it may."
        "Split the work over several flows."
    ExecutionNotInFlow "execution_not_in_flow" State false
        "The execution is not a member of the flow."
        "Add it first."
    ExecutionTerminal "execution_terminal" State false
        "The execution has ended: it cannot join a flow or wait for anything."
        "Replay it first, or use another one."
    GroupAlreadyFired "group_already_fired" State false
        "The execution was let go already: it cannot wait for more."
        "Add edges before the ones that are there are resolved, or from the running execution."
    DepsNotSatisfied "deps_not_satisfied" State false
        "What the execution waits for ended so that it can never run."
        "Replay the executions that it waits for first."
    StepConflict "step_conflict" Conflict false
        "A step with this number is recorded under another name or with another result."
        "Run the code that recorded it, or create a new execution; steps keep one order, side by side too."
    JournalFull "journal_full" State false
        "The execution has recorded as many steps, or as many bytes of results, as it may."
        "Split the work over several executions, or keep large results elsewhere."
    AlreadySuspended "already_suspended" State false
        "The execution is suspended already."
        "Read its suspension; resume it, or send it the signal it waits for."
    ExecutionNotSuspended "execution_not_suspended" State false
        "The execution is not suspended."
        "Describe the execution to see where it stands."
    TargetNotSignalable "target_not_signalable" State false
        "The execution has ended, or does not listen at this waitpoint."
        "Describe the execution; send the signal to one that waits."
    WaitpointClosed "waitpoint_closed" State false
        "Nothing more arrives at this waitpoint: its suspension is over, or it was closed."
        "List the waitpoints of the execution to see what it waits for now."
    WaitpointNotPending "waitpoint_not_pending" State false
        "The waitpoint is in use, or closed."
        "Suspend on a fresh waitpoint, or on one that is pending."
    PendingWaitpointExpired "pending_waitpoint_expired" State false
        "The waitpoint was made too long ago, and nobody suspended on it."
        "Make another one, and hand its token out."
    WaitpointAlreadyExists "waitpoint_already_exists" Conflict false
        "Another waitpoint of this execution has this id."
        "Use a new id."
    SubjectMismatch "subject_mismatch" State false
        "Somebody decided on something else than what is to be decided on."
        "Read again what waits for a decision, and send the digest of it."
    SignalLimitExceeded "signal_limit_exceeded" State false
        "The execution has received as many signals as it may."
        "Let it finish; start another execution for what is still to come."
    TooManyWaitpoints "too_many_waitpoints" State false
        "The execution has as many waitpoints as it may."
        "Send several signals to one waitpoint, or split the work."
    ExecutionNotLeaseable "execution_not_leaseable" Contention true
        "The execution cannot be claimed now: it is delayed, held, running or finished."
        "Claim other work; this one becomes claimable by itself, if ever."
    CapabilityMismatch "capability_mismatch" Validation false
        "The worker does not offer every capability that the execution requires."
        "Claim with a worker that offers them."
    ExecutionNotActive "execution_not_active" State false
        "No worker holds the execution; the answer carries its phase and outcome."
        "Stop working on it."
    StaleLease "stale_lease" State false
        "Another lease was granted since the one presented."
        "Stop working on it; another worker has it."
    LeaseExpired "lease_expired" State false
        "The lease presented ran out and was not renewed in time."
        "Stop working on it; it will be handed out again."
    LeaseRevoked "lease_revoked" State false
        "The lease presented was taken away."
        "Stop working on it; it will be handed out again."
    NoActiveLease "no_active_lease" State false
        "There is no lease to revoke."
        "Nothing to do."
    ExecutionNotEligible "execution_not_eligible" State false
        "The execution is not waiting for a worker right now."
        "Look at its state; try again when it waits."
    NotRunnable "not_runnable" State false
        "The execution is running, suspended or finished."
        "Cancel or revoke what is running, resume what is suspended, replay what has ended."
    ExecutionNotTerminal "execution_not_terminal" State false
        "The execution has not ended: only one that has can be replayed or has a result."
        "Wait for it, or cancel it first."
    MaxReplaysExhausted "max_replays_exhausted" State false
        "The execution was replayed as often as its policy allows."
        "Create a new execution."
    Timeout "timeout" Timeout true
        "What was waited for did not happen in time; it goes on by itself."
        "Ask again, or look at the state."
    Overloaded "overloaded" Contention true
        "Too many calls or bytes are queued in this process."
        "Wait a moment and send the same call again."
    RetryExhausted "retry_exhausted" Contention true
        "The store was busy; the call was tried three times and changed nothing."
        "Wait a moment and send the same call again."
    Corruption "corruption" Fault false
        "A stored value cannot be read; the answer names column and value."
        "Restore the row from a backup, or correct it by hand."
    SchemaTooNew "schema_too_new" Fault false
        "The database was migrated by a newer version."
        "Run a binary at least as new as the one that migrated it."
    Transport "transport" Fault true
        "The store could not be reached or failed; whether the call took effect is unknown."
        "Send the same call again: every call may be repeated."
    HmacSecretNotInitialized "hmac_secret_not_initialized" Fault true
        "The store holds no signing key: no token can be made or checked."
        "Give the store its first key, then send the same call again."
    Closed "closed" Fault false
        "The engine in this process is shut down."
        "Open it again."
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Where an execution stands, for a worker that no longer holds it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standing {
    /// Its phase.
    pub phase: Phase,
    /// How it ended, if it has.
    pub outcome: Option<TerminalOutcome>,
    /// The epoch now stored.
    pub lease_epoch: u64,
    /// Attempts so far.
    pub attempts: u32,
}

/// Why a command was refused. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("{code}: {message}")]
pub struct Rejection {
    /// The stable code.
    pub code: Code,
    /// A sentence that names the thing.
    pub message: String,
    /// The offending field, where there is one.
    pub field: Option<&'static str>,
    /// The offending value, shortened.
    pub value: Option<String>,
    /// Where the execution stands, where that is the reason.
    pub standing: Option<Box<Standing>>,
}

/// How much of an offending value an answer shows.
const SHOWN_CHARS_MAX: usize = 80;

impl Rejection {
    /// A refusal that is about a state or a thing rather than a field.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), field: None, value: None, standing: None }
    }

    /// A refusal of one field; `why` continues the sentence "field value …".
    pub fn invalid(
        code: Code,
        field: &'static str,
        value: impl fmt::Display,
        why: impl fmt::Display,
    ) -> Self {
        let value = shorten(&value.to_string());
        let message = if value.is_empty() {
            format!("{field} {why}")
        } else {
            format!("{field} {value:?} {why}")
        };
        Self { field: Some(field), value: Some(value), ..Self::new(code, message) }
    }

    /// The execution is not there.
    pub fn execution_not_found(id: ExecutionId) -> Self {
        let mut gone = Self::new(Code::ExecutionNotFound, format!("there is no execution {id}"));
        gone.value = Some(id.to_string());
        gone
    }

    /// With where the execution stands.
    #[must_use]
    pub fn standing(mut self, standing: Standing) -> Self {
        self.standing = Some(Box::new(standing));
        self
    }
}

fn shorten(value: &str) -> String {
    match value.char_indices().nth(SHOWN_CHARS_MAX) {
        None => value.to_owned(),
        Some((at, _)) => format!("{}…", &value[..at]),
    }
}
