//! Claim: a worker takes an execution under a lease.
//!
//! One decision serves new, retried, reclaimed, replayed and resumed work. Sent twice with the
//! same claim id while that lease holds: the same lease again, renewed, so that a late release of
//! what the first answer did not deliver leaves it alone.

use std::collections::BTreeSet;

use serde::Serialize;
use uuid::Uuid;

use super::{OnExecution, Repeat, check_lease_ttl};
use crate::command::Traffic;
use crate::error::{Code, Rejection};
use crate::event::{Event, EventKind};
use crate::execution::{
    Active, Attempt, AttemptKind, Execution, Fence, Lease, Next, Runnable, State, Worker,
};
use crate::fold::{Change, Cx, Effects};
use crate::ids::ExecutionId;
use crate::limits::Config;
use crate::state::words;
use crate::text::check_capabilities;
use crate::time::Millis;

/// Claim one execution.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    /// Which.
    pub id: ExecutionId,
    /// Who.
    pub worker: Worker,
    /// What the worker offers.
    pub capabilities: BTreeSet<String>,
    /// How long the lease lasts unless renewed.
    pub lease_ttl_ms: u64,
    /// Names the claim, so that it can be repeated.
    pub claim_id: Uuid,
}

words! {
    /// What a claim handed out.
    ClaimKind {
        First = "first", Retried = "retried", Reclaimed = "reclaimed",
        Replayed = "replayed", Resumed = "resumed",
    }
}

/// A lease on an execution.
#[derive(Clone, Debug, PartialEq)]
pub struct Leased {
    /// What sort of work it is.
    pub kind: ClaimKind,
    /// Proof to present with every call.
    pub fence: Fence,
    /// Ends then, unless renewed.
    pub lease_until: Millis,
    /// The execution as claimed.
    pub execution: Execution,
}

impl Leased {
    /// The claim under which it is held: asked again under it, a claim finds it.
    pub fn claim_id(&self) -> Uuid {
        let State::Active(active) = &self.execution.state else {
            unreachable!("what was claimed is held, not {:?}", self.execution.state)
        };
        active.lease.claim_id
    }
}

impl Serialize for Leased {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct;
        let mut out = serializer.serialize_struct("Leased", 4)?;
        out.serialize_field("execution_id", &self.execution.id)?;
        out.serialize_field("kind", &self.kind)?;
        out.serialize_field("fence", &self.fence)?;
        out.serialize_field("lease_until", &self.lease_until)?;
        out.end()
    }
}

impl OnExecution for Claim {
    type Reply = Leased;
    const NAME: &'static str = "claim_execution";
    const TRAFFIC: Traffic = Traffic::Admin;
    const REPEAT: Repeat = Repeat {
        by: "its claim id",
        late: "the same lease while it holds; afterwards the execution is claimed if it waits",
    };

    fn id(&self) -> ExecutionId {
        self.id
    }

    fn check(&self, _: &Config) -> Result<(), Rejection> {
        check_lease_ttl(self.lease_ttl_ms)?;
        check_capabilities("worker_capabilities", self.capabilities.iter().map(String::as_str))
    }

    fn on(&self, x: &Execution, cx: &mut Cx<'_>) -> Result<Change<Leased>, Rejection> {
        let at = cx.at(x);
        let runnable = match &x.state {
            State::Runnable(runnable) => runnable,
            State::Active(active) => {
                let same = active.lease.claim_id == self.claim_id
                    && active.attempt.worker == self.worker
                    && active.lease.until > at;
                if same {
                    return Ok(self.hand_out_again(x, active, at));
                }
                return Err(not_leaseable(x, "is held by a worker"));
            }
            State::Suspended(suspended) => {
                return Err(not_leaseable(x, &format!("is suspended: {}", suspended.reason)));
            }
            State::Terminal(t) => {
                return Err(not_leaseable(x, &format!("has ended: {}", t.ending.outcome())));
            }
        };
        if runnable.gated {
            return Err(not_leaseable(x, "waits for others in its flow"));
        }
        if runnable.hold.is_some() {
            return Err(not_leaseable(x, "is held by an operator"));
        }
        if let Some(wait) = runnable.wait.filter(|wait| wait.until > at) {
            return Err(not_leaseable(x, &format!("is delayed until {}", wait.until)));
        }
        let required = x.spec.policy.required_capabilities();
        if let Some(missing) = required.difference(&self.capabilities).next() {
            let said = format!("{} requires {missing:?}, which the worker does not offer", x.id);
            return Err(Rejection::new(Code::CapabilityMismatch, said));
        }
        Ok(self.lease(x, runnable, at))
    }
}

fn not_leaseable(x: &Execution, why: &str) -> Rejection {
    let said = format!("{} {why}", x.id);
    Rejection::new(Code::ExecutionNotLeaseable, said).standing(x.standing())
}

impl Claim {
    /// The lease that this claim has taken, renewed: its worker counts the time from this answer on.
    fn hand_out_again(&self, x: &Execution, active: &Active, at: Millis) -> Change<Leased> {
        let until = at.plus(self.lease_ttl_ms);
        if until <= active.lease.until {
            return Change::none(leased(x, active));
        }
        let (mut renewed, mut active) = (x.clone(), active.clone());
        (active.lease.renewed_at, active.lease.until) = (at, until);
        renewed.state = State::Active(active.clone());
        let reply = leased(&renewed, &active);
        Change { reply, effects: Effects { execution: Some(renewed), ..Effects::default() } }
    }

    /// Leases what may be.
    pub(super) fn lease(&self, x: &Execution, runnable: &Runnable, at: Millis) -> Change<Leased> {
        let mut claimed = x.changed(at);
        claimed.epoch += 1;
        claimed.started_at = x.started_at.or(Some(at));
        let (kind, after) = match &runnable.next {
            Next::First => (Some(AttemptKind::Initial), None),
            Next::Retry(failure) => (Some(AttemptKind::Retry), Some(failure.clone())),
            Next::Reclaim => (Some(AttemptKind::Reclaim), None),
            Next::Replay => (Some(AttemptKind::Replay), None),
            Next::Resume(_) => (None, None),
        };
        let attempt = match (&runnable.next, kind) {
            (Next::Resume(attempt), _) => {
                Attempt { worker: self.worker.clone(), ..attempt.clone() }
            }
            (Next::First | Next::Retry(_) | Next::Reclaim | Next::Replay, kind) => {
                claimed.counts.attempts += 1;
                claimed.progress = None;
                Attempt {
                    index: x.counts.attempts,
                    kind: kind.expect("only a resumed attempt has no new kind"),
                    worker: self.worker.clone(),
                    started_at: at,
                    ran_ms: 0,
                    after,
                }
            }
        };
        let timeout_at = x.spec.policy.attempt_timeout_ms();
        let timeout_at = timeout_at.map(|ms| at.plus(ms.saturating_sub(attempt.ran_ms)));
        let until = at.plus(self.lease_ttl_ms);
        let lease = Lease {
            claim_id: self.claim_id,
            acquired_at: at,
            renewed_at: at,
            until,
            check_at: until,
        };
        let events = match kind {
            Some(AttemptKind::Reclaim) => {
                let worker = self.worker.clone();
                let kind = EventKind::LeaseReclaimed { attempt_index: attempt.index, worker };
                vec![Event::new(x, at, kind)]
            }
            Some(AttemptKind::Initial | AttemptKind::Retry | AttemptKind::Replay) | None => vec![],
        };
        let active = Active { attempt, lease, resumed: kind.is_none(), timeout_at };
        claimed.state = State::Active(active.clone());
        let reply = leased(&claimed, &active);
        Change {
            reply,
            effects: Effects { execution: Some(claimed), events, ..Effects::default() },
        }
    }
}

fn leased(x: &Execution, active: &Active) -> Leased {
    let kind = match active.attempt.kind {
        _ if active.resumed => ClaimKind::Resumed, // not ours: a guard, not a variant
        AttemptKind::Initial => ClaimKind::First,
        AttemptKind::Retry => ClaimKind::Retried,
        AttemptKind::Reclaim => ClaimKind::Reclaimed,
        AttemptKind::Replay => ClaimKind::Replayed,
    };
    Leased { kind, fence: x.fence(), lease_until: active.lease.until, execution: x.clone() }
}
