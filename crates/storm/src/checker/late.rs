//! Nothing that is ready waits beside a claim that waits for it.

use std::collections::BTreeMap;

use ff_core::ExecutionId;
use serde_json::Value;

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
    /// When the claim was answered; nothing when none was until the end.
    pub claimed: Option<i64>,
    /// How long, meanwhile, one and the same claim waited that fits it, with nothing wrong.
    pub beside: i64,
    /// That claim.
    pub by: Option<&'a Call>,
    /// Whether a claim waited longer, while something was wrong: how long it was too late then is not known.
    pub disturbed: bool,
}

/// When an execution became claimable, where, and how the claim after it must call that.
struct Ready {
    at: i64,
    lane: String,
    kind: &'static str,
}

/// Checks all of them.
pub fn check(record: &Record, lives: &Lives<'_>, found: &mut Vec<Violation>) {
    found.extend(later_than(LATE_MS, &waits(record, lives), lives));
}

/// Those of the waits that were longer.
pub fn later_than(most_ms: i64, waits: &[Wait<'_>], lives: &Lives<'_>) -> Vec<Violation> {
    let late = waits.iter().filter(|wait| wait.beside > most_ms);
    let violation = |wait: &Wait<'_>| {
        let Wait { id, ready, claimed, beside, by, .. } = wait;
        let by = by.map(|call| tell(*id, &[call])).unwrap_or_default();
        let life = lives.get(id).map(|life| tell(*id, life)).unwrap_or_default();
        let claimed = match claimed {
            Some(claimed) => format!("claimed {} ms later", claimed - ready),
            None => "never claimed".to_owned(),
        };
        let text = format!(
            "{id} was ready at {ready}, {claimed}, {beside} ms of that beside{by}\
             \n      its own calls:{life}"
        );
        Violation::new("ready work lay beside a waiting claim", *ready, text)
    };
    late.map(violation).collect()
}

/// How long those waited beside which a claim waited with nothing wrong.
pub fn beside(waits: &[Wait<'_>]) -> Vec<i64> {
    waits.iter().filter(|wait| wait.by.is_some()).map(|wait| wait.beside).collect()
}

/// All waits of which the beginning is known, and the end, or that there was none.
pub fn waits<'a>(record: &'a Record, lives: &Lives<'a>) -> Vec<Wait<'a>> {
    let claims = Claims::of(record);
    let over = record.calls.iter().map(|call| call.answered).max().unwrap_or(0);
    let told = last_told(record);
    let mut waits = Vec::new();
    for (id, life) in lives {
        for call in life {
            let Some(ready) = ready(*id, call) else { continue };
            if claimed_before(*id, life, call, ready.at) {
                continue;
            }
            let claimed = match claimed(*id, life, &ready) {
                Claim::At(at) => Some(at),
                // Without having been claimed it may have ended, or lost a lease that nobody heard of.
                Claim::Never if told.get(&id.to_string()).is_none_or(|at| *at < ready.at) => None,
                Claim::Never | Claim::Unclear => continue,
            };
            let most = claims.beside(&ready, claimed.unwrap_or(over));
            let Beside { calm_ms, by, disturbed } = most;
            let (ready, beside) = (ready.at, calm_ms);
            waits.push(Wait { id: *id, ready, claimed, beside, by, disturbed });
        }
    }
    waits
}

/// When something last happened to each, by the feed.
fn last_told(record: &Record) -> BTreeMap<String, i64> {
    let mut last = BTreeMap::new();
    for seen in record.readers.iter().flat_map(|reader| &reader.seen) {
        let event: Value = serde_json::from_str(&seen.text).unwrap_or_default();
        let at = event["at"].as_i64().unwrap_or_default();
        let known = last.entry(seen.subject.clone()).or_insert(at);
        *known = at.max(*known);
    }
    last
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
    let since = match said.what {
        // It is created once, also if the reply to its first creation was lost and tells no id.
        What::Create { .. } | What::Submit { .. } => i64::MIN,
        _ => life.iter().filter(same).map(|call| call.sent).min().unwrap_or(said.sent),
    };
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

/// Whether what is ready was claimed.
enum Claim {
    /// The first claim after that was answered then.
    At(i64),
    /// No claim that was answered has it.
    Never,
    /// An operator interfered, or somebody claimed it without hearing so.
    Unclear,
}

fn claimed(id: ExecutionId, life: &[&Call], ready: &Ready) -> Claim {
    let mut first: Option<(i64, &str)> = None;
    for call in life.iter().filter(|call| call.done()) {
        let What::Claim { grants, .. } = &call.what else { continue };
        let grant = grants.iter().find(|grant| grant.id == id);
        let Some(grant) = grant.filter(|_| call.answered >= ready.at) else { continue };
        if first.is_none_or(|(at, _)| call.answered < at) {
            first = Some((call.answered, grant.kind.as_str()));
        }
    }
    // Any order at all: one that was sent before may take effect after.
    let touched = life.iter().any(|call| {
        let order = matches!(call.what, What::Operate { .. } | What::CancelFlow { .. });
        order && first.is_none_or(|(at, _)| call.sent <= at)
    });
    let Some((at, kind)) = first else {
        return if touched { Claim::Unclear } else { Claim::Never };
    };
    let expected = kind != "reclaimed" && (ready.kind.is_empty() || ready.kind == kind);
    if expected && !touched { Claim::At(at) } else { Claim::Unclear }
}

/// The claim that waited longest beside something ready.
#[derive(Default)]
struct Beside<'a> {
    /// How long, with nothing wrong.
    calm_ms: i64,
    /// Which.
    by: Option<&'a Call>,
    /// Whether that is less than it waited, or than another did.
    disturbed: bool,
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
    fn beside(&self, ready: &Ready, until: i64) -> Beside<'a> {
        let from = self.waiting.partition_point(|call| call.sent < ready.at - self.longest);
        let (mut most, mut longest) = (Beside::default(), 0);
        for call in self.waiting[from..].iter().take_while(|call| call.sent < until) {
            let What::Claim { lanes, .. } = &call.what else { continue };
            let both = (call.sent.max(ready.at), call.answered.min(until));
            if lanes.contains(&ready.lane) && both.0 < both.1 {
                let calm = self.calm(both);
                longest = longest.max(both.1 - both.0);
                if calm > most.calm_ms {
                    most = Beside { calm_ms: calm, by: Some(*call), ..most };
                }
            }
        }
        Beside { disturbed: longest > most.calm_ms, ..most }
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
