//! Every reader of the feed is given every event once, and those of one execution in one order.

use std::collections::{BTreeMap, BTreeSet};

use crate::checker::{Lives, Violation, tell};
use crate::record::{Reader, Record, Seen, What};
use crate::settled::Settled;

/// Events that an order or a failure causes once, by its reason.
const ONCE: [&str; 6] =
    ["replayed", "lease_revoked", "held", "attempt_failed", "flow_cancel_requested", "completion"];

/// Checks all readers against each other and against the calls.
pub fn check(record: &Record, lives: &Lives<'_>, settled: &Settled, found: &mut Vec<Violation>) {
    let readers: Vec<_> =
        record.readers.iter().map(|reader| (reader.name, distinct(reader, found))).collect();
    let all: BTreeSet<&Seen> = readers.iter().flat_map(|(_, seen)| seen.iter().copied()).collect();
    for (name, seen) in &readers {
        let own: BTreeSet<&Seen> = seen.iter().copied().collect();
        for missing in all.difference(&own) {
            // A plain reader is not waited for when something is removed.
            if *name == "consumer" || settled.has(&missing.subject) {
                let text = format!("the {name} was not given {}", missing.text);
                found.push(Violation::new("an event is lost to a reader", 0, text));
            }
        }
    }
    orders(&readers, found);
    reasons(&all, found);
    endings(&all, lives, settled, found);
}

/// What a reader was given, without what it may be given again.
fn distinct<'a>(reader: &'a Reader, found: &mut Vec<Violation>) -> Vec<&'a Seen> {
    let mut known = BTreeSet::new();
    let mut seen = Vec::new();
    for event in &reader.seen {
        if known.insert(event) {
            seen.push(event);
        } else if !reader.repeats {
            let text = format!("the {} was given twice {}", reader.name, event.text);
            found.push(Violation::new("an event came twice", 0, text));
        }
    }
    seen
}

/// The events of one subject come in one order, whoever reads them.
fn orders(readers: &[(&str, Vec<&Seen>)], found: &mut Vec<Violation>) {
    let Some(((first, reference), others)) = readers.split_first() else { return };
    let places: BTreeMap<&Seen, usize> =
        reference.iter().enumerate().map(|(place, seen)| (*seen, place)).collect();
    for (name, seen) in others {
        let mut last = BTreeMap::<&str, usize>::new();
        for event in seen {
            let Some(place) = places.get(event).copied() else { continue };
            let before = last.insert(&event.subject, place).unwrap_or(0);
            if place < before {
                let text = format!("{name} against {first}: {}", event.text);
                found.push(Violation::new("two readers saw another order", 0, text));
            }
        }
    }
}

fn reasons(all: &BTreeSet<&Seen>, found: &mut Vec<Violation>) {
    let mut said = BTreeMap::<(&str, &str, &str), Vec<&Seen>>::new();
    for event in all.iter().filter(|event| ONCE.contains(&event.kind.as_str())) {
        let Some(reason) = event.reason.as_deref() else { continue };
        if reason.starts_with("order-") || reason.starts_with("fail-") {
            said.entry((&event.kind, reason, &event.subject)).or_default().push(event);
        }
    }
    for ((kind, reason, subject), events) in said.iter().filter(|(_, events)| events.len() > 1) {
        let lines: Vec<_> = events.iter().map(|event| event.text.as_str()).collect();
        let text = format!("{kind} of {subject} by {reason}\n      {}", lines.join("\n      "));
        found.push(Violation::new("one order was carried out twice", 0, text));
    }
}

/// What has ended has ended once for each time that it began.
fn endings(
    all: &BTreeSet<&Seen>,
    lives: &Lives<'_>,
    settled: &Settled,
    found: &mut Vec<Violation>,
) {
    let mut counts = BTreeMap::<&str, (usize, usize)>::new();
    for event in all {
        let (ended, replayed) = counts.entry(&event.subject).or_default();
        *ended += usize::from(event.kind == "completion");
        *replayed += usize::from(event.kind == "replayed");
    }
    for (id, life) in lives {
        let Some(state) = settled.states.get(id) else { continue };
        let (ended, replayed) = counts.get(id.to_string().as_str()).copied().unwrap_or((0, 0));
        let member = life.iter().any(|call| matches!(call.what, What::Submit { .. }));
        let expected = replayed + usize::from(state.ended);
        let wrong = if member { ended < usize::from(state.ended) } else { ended != expected };
        if wrong {
            let text = format!("{id} ended {ended} times, replayed {replayed}{}", tell(*id, life));
            found.push(Violation::new("endings and events differ", 0, text));
        }
    }
}
