//! Nothing that is ready waits beside a claim that waits for it.

use ff_core::ExecutionId;

use crate::checker::{Lives, Violation, tell};
use crate::record::{Call, Ending, Record, Span, What};

/// How long something ready may lie beside a waiting claim in a storm.
const LATE_MS: i64 = 1_000;
/// How long a fault goes on to be felt: leases of lost replies run out, connections come back.
const AFTERMATH_MS: i64 = 4_000;

/// How long something that was ready waited until it was claimed.
#[derive(Clone, Debug, PartialEq)]
pub struct Wait<'a> {
    /// What.
    pub id: ExecutionId,
    /// Since when it was claimable, by an acknowledgement.
    pub ready: i64,
    /// When the claim was answered.
    pub claimed: i64,
    /// How long, meanwhile, one and the same claim waited that fits it, with nothing wrong.
    pub beside: i64,
    /// That claim.
    pub by: Option<&'a Call>,
}

/// When an execution became claimable, where, and how the claim after it must call that.
struct Ready {
    at: i64,
    lane: String,
    kind: &'static str,
}

/// Checks all of them.
pub fn check(record: &Record, lives: &Lives<'_>, found: &mut Vec<Violation>) {
    for wait in waits(record, lives).iter().filter(|wait| wait.beside > LATE_MS) {
        let Wait { id, ready, claimed, beside, by } = wait;
        let by = by.map(|call| tell(*id, &[call])).unwrap_or_default();
        let life = lives.get(id).map(|life| tell(*id, life)).unwrap_or_default();
        let text = format!(
            "{id} was ready at {ready}, claimed {} ms later, {beside} ms of them beside{by}\
             \n      its own calls:{life}",
            claimed - ready
        );
        found.push(Violation::new("ready work lay beside a waiting claim", *ready, text));
    }
}

/// How long those waited beside which a claim waited.
pub fn beside(waits: &[Wait<'_>]) -> Vec<i64> {
    waits.iter().filter(|wait| wait.by.is_some()).map(|wait| wait.beside).collect()
}

/// All waits of which the beginning and the end are known.
pub fn waits<'a>(record: &'a Record, lives: &Lives<'a>) -> Vec<Wait<'a>> {
    let claims = Claims::of(record);
    let mut waits = Vec::new();
    for (id, life) in lives {
        for call in life {
            let Some(ready) = ready(*id, call) else { continue };
            if claimed_before(*id, life, call, ready.at) {
                continue;
            }
            let Some(claimed) = claimed(*id, life, &ready) else { continue };
            let (beside, by) = claims.beside(&ready, claimed);
            waits.push(Wait { id: *id, ready: ready.at, claimed, beside, by });
        }
    }
    waits
}

fn ready(id: ExecutionId, call: &Call) -> Option<Ready> {
    if !call.done() {
        return None;
    }
    let ready = |at: i64, lane: &str, kind| Some(Ready { at, lane: lane.to_owned(), kind });
    let answered = call.answered;
    match &call.what {
        What::Create { lane, due, .. } => ready(answered.max(*due), lane, "first"),
        What::Submit { roots, .. } => {
            let (_, lane) = roots.iter().find(|(root, _)| *root == id)?;
            ready(answered, lane, "first")
        }
        What::End { lane, how, .. } => match how {
            Ending::Failed(_, Some(retry)) => ready(answered.max(*retry), lane, "retried"),
            Ending::Delayed(Some(until)) => ready(answered.max(*until), lane, ""),
            Ending::Released => ready(answered, lane, ""),
            Ending::Completed(_)
            | Ending::Failed(_, None)
            | Ending::Delayed(None)
            | Ending::Suspended => None,
        },
        What::Signal { lane, resumes: true, .. } => ready(answered, lane, "resumed"),
        What::Signal { resumes: false, .. }
        | What::CancelFlow { .. }
        | What::Claim { .. }
        | What::Renew { .. }
        | What::Step { .. }
        | What::Operate { .. } => None,
    }
}

/// Whether it was claimed since this was first said: a repetition tells nothing new.
fn claimed_before(id: ExecutionId, life: &[&Call], said: &Call, ready: i64) -> bool {
    let same = |call: &&&Call| match (&call.what, &said.what) {
        (What::Create { .. }, What::Create { .. }) => true,
        (What::End { fence: one, .. }, What::End { fence: other, .. }) => one == other,
        (one, other) => one == other,
    };
    let since = life.iter().filter(same).map(|call| call.sent).min().unwrap_or(said.sent);
    life.iter().any(|call| match &call.what {
        What::Claim { grants, .. } => {
            let granted = grants.iter().any(|grant| grant.id == id);
            granted && call.answered >= since && call.answered < ready
        }
        What::Create { .. }
        | What::Submit { .. }
        | What::CancelFlow { .. }
        | What::Renew { .. }
        | What::Step { .. }
        | What::End { .. }
        | What::Signal { .. }
        | What::Operate { .. } => false,
    })
}

/// When it was claimed, unless an operator interfered, or somebody claimed it without hearing so.
fn claimed(id: ExecutionId, life: &[&Call], ready: &Ready) -> Option<i64> {
    let mut first: Option<(i64, &str)> = None;
    for call in life.iter().filter(|call| call.done()) {
        let What::Claim { grants, .. } = &call.what else { continue };
        let grant = grants.iter().find(|grant| grant.id == id);
        let Some(grant) = grant.filter(|_| call.answered >= ready.at) else { continue };
        if first.is_none_or(|(at, _)| call.answered < at) {
            first = Some((call.answered, grant.kind.as_str()));
        }
    }
    let (at, kind) = first?;
    // Any order at all: one that was sent before may take effect after.
    let touched = life.iter().any(|call| {
        let order = matches!(call.what, What::Operate { .. } | What::CancelFlow { .. });
        order && call.sent <= at
    });
    let expected = kind != "reclaimed" && (ready.kind.is_empty() || ready.kind == kind);
    (expected && !touched).then_some(at)
}

/// Claims that waited, and the times at which that says nothing.
struct Claims<'a> {
    waiting: Vec<&'a Call>,
    /// The longest of them, so that few have to be looked at.
    longest: i64,
    wrong: Vec<(i64, i64)>,
}

impl<'a> Claims<'a> {
    fn of(record: &'a Record) -> Self {
        let is_claim = |call: &&Call| call.done() && matches!(call.what, What::Claim { .. });
        let mut waiting: Vec<_> = record.calls.iter().filter(is_claim).collect();
        waiting.sort_by_key(|call| call.sent);
        let longest = waiting.iter().map(|call| call.answered - call.sent).max().unwrap_or(0);
        let felt = record.faults.iter().map(|Span { from, to, .. }| (*from, to + AFTERMATH_MS));
        let starved = record.starved.iter().map(|Span { from, to, .. }| (from - 100, to + 500));
        let mut wrong: Vec<_> = felt.chain(starved).collect();
        wrong.sort_unstable();
        Self { waiting, longest, wrong }
    }

    /// How long one claim waited beside it with nothing wrong, at most.
    fn beside(&self, ready: &Ready, claimed: i64) -> (i64, Option<&'a Call>) {
        let from = self.waiting.partition_point(|call| call.sent < ready.at - self.longest);
        let mut most = (0, None);
        for call in self.waiting[from..].iter().take_while(|call| call.sent < claimed) {
            let What::Claim { lanes, .. } = &call.what else { continue };
            if lanes.contains(&ready.lane) {
                let both = (call.sent.max(ready.at), call.answered.min(claimed));
                let calm = self.calm(both);
                if calm > most.0 {
                    most = (calm, Some(*call));
                }
            }
        }
        most
    }

    /// The longest stretch with nothing wrong in it.
    fn calm(&self, (from, to): (i64, i64)) -> i64 {
        let (mut at, mut most) = (from, 0);
        for (begins, ends) in self.wrong.iter().filter(|(_, ends)| *ends > from) {
            if *begins >= to {
                break;
            }
            most = most.max(begins - at);
            at = at.max(*ends);
        }
        most.max(to - at)
    }
}
