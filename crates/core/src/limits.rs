//! Every bound in one place, with its unit, and the few that a deployment may change.

use serde::{Deserialize, Serialize};

/// Partitions of the execution space; fixed, because it is part of every id.
pub const PARTITIONS: u16 = 256;
/// Highest priority; 0 is the lowest and the default.
pub const PRIORITY_MAX: i32 = 9_000;
/// Bytes in a lane name.
pub const LANE_BYTES_MAX: usize = 64;
/// Bytes in a namespace, kind, step, worker name, idempotency key or consumer name.
pub const NAME_BYTES_MAX: usize = 256;
/// Bytes in a payload encoding name.
pub const ENCODING_BYTES_MAX: usize = 64;
/// Bytes in a failure category.
pub const CATEGORY_BYTES_MAX: usize = 64;
/// Bytes in a failure, cancellation, hold or revocation reason.
pub const REASON_BYTES_MAX: usize = 4_096;
/// Bytes in a progress message.
pub const PROGRESS_BYTES_MAX: usize = 1_024;
/// Steps that one execution may record.
pub const STEPS_MAX: u32 = 10_000;
/// Bytes of all results in one journal that the workers of the SDK accept.
pub const JOURNAL_BYTES_MAX: usize = 64 << 20;
/// Claimable executions of one queue that are counted.
pub const DEPTH_MAX: u64 = 10_000;
/// Tags on one execution.
pub const TAGS_MAX: usize = 32;
/// Bytes in a tag key.
pub const TAG_KEY_BYTES_MAX: usize = 128;
/// Bytes in a tag value.
pub const TAG_VALUE_BYTES_MAX: usize = 1_024;
/// Capability tokens an execution may require or a worker may offer.
pub const CAPABILITIES_MAX: usize = 256;
/// Bytes of all capability tokens, joined with commas.
pub const CAPABILITIES_BYTES_MAX: usize = 4_096;
/// Bytes of a policy document.
pub const POLICY_BYTES_MAX: usize = 16_384;
/// The longest duration or the farthest point in the future anyone may ask for: ten years.
pub const DURATION_MS_MAX: u64 = 10 * 365 * 86_400_000;
/// The shortest lease: below it a healthy worker cannot renew in time.
pub const LEASE_TTL_MS_MIN: u64 = 10;
/// The longest lease: a crashed worker is noticed at the latest after it.
pub const LEASE_TTL_MS_MAX: u64 = 86_400_000;
/// Retries, reclaims or replays a policy may allow.
pub const COUNT_MAX: u32 = 10_000;
/// Reclaims when the policy does not say.
pub const RECLAIMS_DEFAULT: u32 = 100;
/// Pause before the second reclaim in a row; it doubles with each more.
pub const RECLAIM_DELAY_MS: u64 = 1_000;
/// Longest pause before a reclaim.
pub const RECLAIM_DELAY_MS_MAX: u64 = 60_000;
/// Replays when the policy does not say.
pub const REPLAYS_DEFAULT: u32 = 10;
/// Largest factor of an exponential backoff.
pub const MULTIPLIER_MAX: f64 = 100.0;
/// Executions one claim may ask for.
pub const CLAIM_MAX: u32 = 1_000;
/// Bytes of input that one claim hands out; the first execution may be larger on its own.
pub const CLAIM_BYTES_MAX: usize = 32 << 20;
/// Lanes one claim may ask for.
pub const CLAIM_LANES_MAX: usize = 64;
/// Delayed executions that one claim moves to the ready table at most.
pub const PROMOTE_BATCH_MAX: u32 = 500;
/// Bytes of a cursor as text. Two snapshots with 1,500 transactions in progress each fit.
pub const CURSOR_BYTES_MAX: usize = 65_536;
/// Rows a page holds at most.
pub const PAGE_MAX: u32 = 1_000;
/// Commands in one batch.
pub const BATCH_MAX: usize = 1_000;

/// Members of one flow.
pub const FLOW_NODES_MAX: u32 = 100_000;
/// Edges of one flow.
pub const FLOW_EDGES_MAX: u32 = 200_000;
/// Nodes that one call may add to a flow.
pub const GRAPH_NODES_MAX: usize = 10_000;
/// Edges that one call may add to a flow.
pub const GRAPH_EDGES_MAX: usize = 50_000;
/// Edges that a quorum may ask for.
pub const QUORUM_MAX: u32 = i32::MAX.unsigned_abs();
/// Bytes in a data passing reference.
pub const DATA_PASSING_BYTES_MAX: usize = 256;
/// Executions that are looked at before an edge is taken for safe: more are not searched for a cycle.
pub const CYCLE_NODES_MAX: usize = 10_000;
/// Members that a cancelled flow ends in the transaction that cancels it; the rest is owed.
pub const CANCEL_AT_ONCE_MAX: usize = 10_000;
/// Members that a replay looks at for what was skipped; what lies further behind waits again later.
pub const REPLAY_AT_ONCE_MAX: usize = 1_000;
/// Owed members that one transaction cancels.
pub const CANCEL_CHUNK_MAX: usize = 1_000;
/// Members that one transaction removes with their flow.
pub const TRIM_CHUNK_MAX: usize = 1_000;

/// Bytes in a waitpoint key, the name of a signal or the identity of who sent it.
pub const SIGNAL_TEXT_BYTES_MAX: usize = 256;
/// How deep conditions that hold or count others may nest.
pub const CONDITION_DEPTH_MAX: usize = 4;
/// Conditions in a condition, itself included.
pub const CONDITION_NODES_MAX: usize = 256;
/// Waitpoints that one count may list.
pub const COUNT_WAITPOINTS_MAX: usize = 256;
/// People that one approval may list.
pub const APPROVERS_MAX: usize = 256;
/// Bytes in the name of a signing key.
pub const KID_BYTES_MAX: usize = 64;
/// Bytes of the secret that a store is first given.
pub const SEED_SECRET_BYTES: usize = 32;
/// Bytes of a secret that a store is given later, at least: fewer can be guessed from a token.
pub const SECRET_BYTES_MIN: usize = 16;
/// The same, at most.
pub const SECRET_BYTES_MAX: usize = 1_024;
/// How long a replaced key may still verify: the largest whole number that JSON carries safely.
pub const GRACE_MS_MAX: u64 = (1 << 53) - 1;
/// Characters of a signed link.
pub const LINK_BYTES_MAX: usize = 2_048;

/// Waitpoints of one execution that are not closed.
pub const WAITPOINTS_MAX: usize = 1_000;
/// Bytes of what an approval is about.
pub const SUBJECT_BYTES_MAX: usize = 4_096;
/// Waitpoints that one suspension may use.
pub const BINDINGS_MAX: usize = 256;
/// Signals that one execution may receive.
pub const SIGNALS_MAX: u32 = 10_000;
/// Bytes in the payload of a signal.
pub const SIGNAL_PAYLOAD_BYTES_MAX: usize = 65_536;
/// Bytes in a continuation, which helps a worker to go on after a suspension.
pub const CONTINUATION_BYTES_MAX: usize = 4_096;
/// How long a suspension is remembered under its key after it is due.
pub const SUSPEND_KEY_GRACE_MS: u64 = 60_000;
/// How long it is remembered at most.
pub const SUSPEND_KEY_MS_MAX: u64 = 7 * 86_400_000;
/// How far in the past the deadline of a suspension may lie: clocks differ.
pub const DEADLINE_SKEW_MS_MAX: u64 = 600_000;

/// What a deployment may set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Bytes in an input payload or a result.
    pub payload_bytes_max: usize,
    /// How long a finished execution is kept when its policy does not say.
    pub retention_ms: u64,
    /// How long an idempotency key is remembered when the policy does not say.
    pub dedup_window_ms: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self { payload_bytes_max: 1 << 20, retention_ms: 86_400_000, dedup_window_ms: 86_400_000 }
    }
}
