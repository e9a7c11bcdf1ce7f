//! Nobody is given what another holds, and nobody writes under a lease that was followed by another.

use std::collections::BTreeMap;

use ff_core::ExecutionId;
use uuid::Uuid;

use crate::checker::{Lives, Violation, tell};
use crate::record::{Call, Ending, Fence, Order, What};

/// How much two clocks on one machine may differ.
const CLOCK_MS: i64 = 200;

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
                let text = format!("{id}, epoch {}{}", grant.fence.epoch, tell(life));
                let rule = "one lease was given to two claims";
                found.push(Violation::new(rule, call.answered, text));
            }
            lease.held = lease.held.min(call.answered);
            lease.until = lease.until.max(grant.until);
        }
    }
    for call in life.iter().filter(|call| call.done()) {
        if let What::Renew { fence, until, .. } = &call.what
            && let Some(lease) = leases.get_mut(&fence.epoch)
        {
            lease.until = lease.until.max(*until);
        }
    }
    leases.into_values().collect()
}

fn overlap(
    id: ExecutionId,
    life: &[&Call],
    (before, after): (&Lease, &Lease),
    found: &mut Vec<Violation>,
) {
    let over = life.iter().any(|call| {
        call.may_have_landed() && call.sent <= after.held && may_end(&call.what, before.fence)
    });
    if !over && after.held + CLOCK_MS < before.until {
        let early = before.until - after.held;
        let (first, second) = (before.fence.epoch, after.fence.epoch);
        let text = format!(
            "{id}: epoch {second} was given {early} ms before epoch {first} was over{}",
            tell(life)
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
            Order::Hold | Order::Unhold | Order::Prioritise => false,
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
            let text = format!("{id}, epoch {}{}", before.fence.epoch, tell(life));
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
