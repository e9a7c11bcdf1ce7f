//! The checker: what must hold of a record and of what is left in the database.

mod acknowledged;
mod effects;
mod feed;
pub mod late;
mod leases;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use ff_core::ExecutionId;

use crate::record::{Call, Record, Seen, What};
use crate::settled::Settled;

/// Something that must not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which rule is broken.
    pub rule: &'static str,
    /// When, or 0 when that cannot be said.
    pub at: i64,
    /// What, with ids and the calls.
    pub text: String,
}

impl Violation {
    /// One.
    pub fn new(rule: &'static str, at: i64, text: String) -> Self {
        Self { rule, at, text }
    }
}

/// The calls about each execution, in the order in which they were sent.
pub type Lives<'a> = BTreeMap<ExecutionId, Vec<&'a Call>>;

/// Everything that does not hold.
pub fn check(record: &Record, settled: &Settled) -> Vec<Violation> {
    let lives = lives(record);
    let mut found = Vec::new();
    leases::check(&lives, &mut found);
    leases::abandoned(record, settled, &mut found);
    effects::check(record, &lives, settled, &mut found);
    feed::check(record, &lives, settled, &mut found);
    acknowledged::check(record, &lives, settled, &mut found);
    late::check(record, &lives, &mut found);
    for (code, texts) in &record.odd {
        for text in texts {
            let text = format!("{code}: {text}");
            found.push(Violation::new("an answer that nobody should get", 0, text));
        }
    }
    found
}

/// What is there has all its events, also when others are removed.
pub fn kept(record: &Record, again: &[Seen], there: &BTreeSet<String>) -> Vec<Violation> {
    let again: BTreeSet<&Seen> = again.iter().collect();
    let seen: BTreeSet<&Seen> = record.readers.iter().flat_map(|reader| &reader.seen).collect();
    let lost = seen.difference(&again).filter(|seen| there.contains(&seen.subject));
    let rule = "an event of what is still there was removed";
    lost.map(|seen| Violation::new(rule, 0, seen.text.clone())).collect()
}

/// The calls by execution.
pub fn lives(record: &Record) -> Lives<'_> {
    let mut lives = Lives::new();
    for call in &record.calls {
        for id in subjects(&call.what) {
            lives.entry(id).or_default().push(call);
        }
    }
    for life in lives.values_mut() {
        life.sort_by_key(|call| call.sent);
    }
    lives
}

fn subjects(what: &What) -> Vec<ExecutionId> {
    match what {
        What::Create { id, .. } => id.iter().copied().collect(),
        What::Submit { members, .. } | What::CancelFlow { members, .. } => members.clone(),
        What::Claim { grants, .. } => grants.iter().map(|grant| grant.id).collect(),
        What::Renew { id, .. }
        | What::Step { id, .. }
        | What::End { id, .. }
        | What::Signal { id, .. }
        | What::Operate { id, .. } => vec![*id],
    }
}

/// The calls about an execution, for people.
pub fn tell(id: ExecutionId, life: &[&Call]) -> String {
    let mut text = String::new();
    for call in life {
        let Call { server, sent, answered, what, answer } = call;
        let what = match what {
            What::Submit { flow, .. } => format!("Submit {flow}"),
            What::CancelFlow { flow, reason, .. } => format!("CancelFlow {flow} {reason}"),
            What::Claim { claim, lanes, grants } => {
                let own: Vec<_> = grants.iter().filter(|grant| grant.id == id).collect();
                format!("Claim {claim} {lanes:?}, {} granted, of it {own:?}", grants.len())
            }
            What::Create { .. }
            | What::Renew { .. }
            | What::Step { .. }
            | What::End { .. }
            | What::Signal { .. }
            | What::Operate { .. } => format!("{what:?}"),
        };
        let what = what.replace(&format!("{id:?}"), "it");
        // Writing to a string cannot fail.
        let _ = write!(text, "\n      {sent}..{answered} server {server}: {what} -> {answer:?}");
    }
    text
}
