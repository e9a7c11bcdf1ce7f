//! Nobody is given what another holds, and nobody writes under a lease that was followed by another.

use std::collections::{BTreeMap, BTreeSet};

use ff_core::ExecutionId;
use serde_json::Value;
use uuid::Uuid;

use crate::checker::{Lives, Violation, tell};
use crate::clients::workers::RENEWED_MS;
use crate::record::{Call, Ending, Fence, Order, Record, What};
use crate::settled::Settled;

/// How much two clocks on one machine may differ.
pub const CLOCK_MS: i64 = 200;

/// How long after a lease began every try of its claim must find it.
const TRIES_MS: i64 = 60;

/// A lease as its holder knows it.
struct Lease {
    claim: Uuid,
    fence: Fence,
    /// When its holder had it at the latest.
    held: i64,
    until: i64,
}

/// Checks every execution.
pub fn check(lives: &Lives<'_>, found: &mut Vec<Violation>) {
    for (id, life) in lives {
        let leases = leases(*id, life, found);
        for pair in leases.windows(2) {
            let [before, after] = pair else { continue };
            overlap(*id, life, (before, after), found);
            stale_writes(*id, life, (before, after), found);
        }
    }
}

/// The leases of an execution by epoch.
fn leases(id: ExecutionId, life: &[&Call], found: &mut Vec<Violation>) -> Vec<Lease> {
    let mut leases = BTreeMap::<u64, Lease>::new();
    for call in life.iter().filter(|call| call.done()) {
        let What::Claim { claim, grants, .. } = &call.what else { continue };
        for grant in grants.iter().filter(|grant| grant.id == id) {
            let lease = leases.entry(grant.fence.epoch).or_insert(Lease {
                claim: *claim,
                fence: grant.fence,
                held: call.answered,
                until: grant.until,
            });
            if lease.claim != *claim {
                let text = format!("{id}, epoch {}{}", grant.fence.epoch, tell(id, life));
                let rule = "one lease was given to two claims";
                found.push(Violation::new(rule, call.answered, text));
            }
            lease.held = lease.held.min(call.answered);
            lease.until = lease.until.max(grant.until);
        }
    }
    for call in life {
        if let What::Renew { fence, until, .. } = &call.what
            && let Some(lease) = leases.get_mut(&fence.epoch)
        {
            // One whose answer is not known may have ended the lease sooner than its claim would have.
            let known = call.done() && *until > 0;
            lease.until = if known { *until } else { lease.until.min(call.sent + RENEWED_MS) };
        }
    }
    leases.into_values().collect()
}

/// A claim that is sent again, by whom it may be, is given what it was given before, and leaves
/// nothing to run out.
pub fn abandoned(record: &Record, settled: &Settled, found: &mut Vec<Violation>) {
    let mut claims = BTreeMap::<String, Vec<&Call>>::new();
    for call in &record.calls {
        if let What::Claim { claim, .. } = &call.what {
            claims.entry(claim.to_string()).or_default().push(call);
        }
    }
    let seen: BTreeSet<_> = record.readers.iter().flat_map(|reader| &reader.seen).collect();
    for expired in seen.iter().filter(|seen| seen.kind == "lease_expired") {
        let Ok(id) = expired.subject.parse::<ExecutionId>() else { continue };
        let Ok(event) = serde_json::from_str::<Value>(&expired.text) else { continue };
        // The claim is what the worker calls itself.
        let worker = event["worker"]["instance"].as_str().unwrap_or_default();
        let tries = claims.get(worker).map_or(&[][..], Vec::as_slice);
        let attempt = event["attempt_index"].as_u64().and_then(|index| index.try_into().ok());
        let Some(over) = event["at"].as_i64() else { continue };
        let attempts = settled.attempts.get(&id).map_or(&[][..], Vec::as_slice);
        let Some((began, _)) = attempt.and_then(|attempt: usize| attempts.get(attempt)) else {
            continue;
        };
        let held = |call: &&&Call| match &call.what {
            What::Claim { grants, .. } => grants.iter().any(|grant| grant.id == id),
            What::Create { .. }
            | What::Submit { .. }
            | What::CancelFlow { .. }
            | What::Renew { .. }
            | What::Step { .. }
            | What::End { .. }
            | What::Signal { .. }
            | What::Operate { .. } => false,
        };
        if tries.iter().any(|call| held(&call)) {
            continue;
        }
        // One try may be answered while another, to another server, is being given something.
        let margin = if tries.len() == 1 { 0 } else { TRIES_MS };
        let again = |call: &&&Call| {
            call.done() && call.answered > began + margin && call.answered < over - CLOCK_MS
        };
        if let Some(again) = tries.iter().find(again) {
            let text = format!("{id} began at {began}: {}{}", expired.text, tell(id, tries));
            found.push(Violation::new(
                "a repeated claim left a lease to run out",
                again.sent,
                text,
            ));
        }
    }
}

fn overlap(
    id: ExecutionId,
    life: &[&Call],
    (before, after): (&Lease, &Lease),
    found: &mut Vec<Violation>,
) {
    // Also if it was refused: a server that lost the reply of its database asks again, and is told
    // what is there by then.
    let over = life.iter().any(|call| call.sent <= after.held && may_end(&call.what, before.fence));
    if !over && after.held + CLOCK_MS < before.until {
        let early = before.until - after.held;
        let (first, second) = (before.fence.epoch, after.fence.epoch);
        let text = format!(
            "{id}: epoch {second} was given {early} ms before epoch {first} was over{}",
            tell(id, life)
        );
        found.push(Violation::new("a lease was given while another was valid", after.held, text));
    }
}

/// Whether this may have ended a lease under `fence`.
fn may_end(what: &What, fence: Fence) -> bool {
    match what {
        What::End { fence: own, .. } => *own == fence,
        What::CancelFlow { .. } => true,
        What::Operate { order, .. } => match order {
            Order::Cancel | Order::Revoke | Order::Replay => true,
            Order::Hold | Order::Unhold | Order::Prioritise(_) => false,
        },
        What::Create { .. }
        | What::Submit { .. }
        | What::Claim { .. }
        | What::Renew { .. }
        | What::Step { .. }
        | What::Signal { .. } => false,
    }
}

/// Whoever has lost a lease cannot write, except to hear again what was done before.
fn stale_writes(
    id: ExecutionId,
    life: &[&Call],
    (before, after): (&Lease, &Lease),
    found: &mut Vec<Violation>,
) {
    for call in life.iter().filter(|call| call.done() && call.sent > after.held) {
        let (stale, renews) = match &call.what {
            What::Renew { fence, until, .. } => (*fence == before.fence && *until > 0, true),
            What::Step { fence, .. } | What::End { fence, .. } => (*fence == before.fence, false),
            What::Create { .. }
            | What::Submit { .. }
            | What::CancelFlow { .. }
            | What::Claim { .. }
            | What::Signal { .. }
            | What::Operate { .. } => (false, false),
        };
        let said_before = life.iter().any(|earlier| {
            earlier.what_matches(&call.what)
                && earlier.sent <= after.held
                && earlier.may_have_landed()
        });
        if stale && (renews || !said_before) {
            let text = format!("{id}, epoch {}{}", before.fence.epoch, tell(id, life));
            let rule = "a write under a lease that was followed by another";
            found.push(Violation::new(rule, call.sent, text));
        }
    }
}

impl Call {
    /// Whether both say the same, whatever was answered.
    fn what_matches(&self, other: &What) -> bool {
        match (&self.what, other) {
            (
                What::End { fence: a, how: Ending::Failed(x, _), .. },
                What::End { fence: b, how: Ending::Failed(y, _), .. },
            ) => a == b && x == y,
            (a, b) => a == b,
        }
    }
}
