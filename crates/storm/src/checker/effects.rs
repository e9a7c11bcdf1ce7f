//! What was acknowledged is there, once.

use std::collections::{BTreeMap, BTreeSet};

use ff_core::ExecutionId;

use crate::checker::{Lives, Violation, tell};
use crate::record::{Call, Ending, Order, Record, What};
use crate::settled::Settled;

/// Checks every execution and every key.
pub fn check(record: &Record, lives: &Lives<'_>, settled: &Settled, found: &mut Vec<Violation>) {
    let ended: BTreeSet<&str> = record
        .readers
        .iter()
        .flat_map(|reader| &reader.seen)
        .filter(|seen| seen.kind == "completion")
        .map(|seen| seen.subject.as_str())
        .collect();
    for (id, life) in lives {
        let removed = ended.contains(id.to_string().as_str());
        if !settled.states.contains_key(id) && !removed && created(life) {
            let text = format!("{id}{}", tell(*id, life));
            found.push(Violation::new("an acknowledged creation is gone", life[0].sent, text));
        }
        completions(*id, life, settled, found);
        signals(*id, life, settled, found);
        steps(*id, life, settled, found);
        attempts(*id, life, settled, found);
    }
    keys(record, found);
}

fn created(life: &[&Call]) -> bool {
    life.iter()
        .any(|call| call.done() && matches!(call.what, What::Create { .. } | What::Submit { .. }))
}

pub fn replayed(life: &[&Call]) -> bool {
    // Also one that was refused: it may have been done before its server asked again.
    life.iter().any(|call| matches!(call.what, What::Operate { order: Order::Replay, .. }))
}

fn completions(id: ExecutionId, life: &[&Call], settled: &Settled, found: &mut Vec<Violation>) {
    if replayed(life) {
        return;
    }
    let mut ends = BTreeMap::new();
    for call in life.iter().filter(|call| call.done()) {
        if let What::End { fence, how: Ending::Completed(result), .. } = &call.what {
            ends.insert(*fence, *result);
        }
    }
    let Some(result) = ends.values().next() else { return };
    if ends.len() > 1 {
        let text = format!("{id}{}", tell(id, life));
        found.push(Violation::new("it was completed twice", life[0].sent, text));
    }
    let state = settled.states.get(&id).map(|state| state.state.as_str());
    if state.is_some_and(|state| state != "completed") {
        let text = format!("{id} is {state:?}{}", tell(id, life));
        found.push(Violation::new("an acknowledged completion was undone", life[0].sent, text));
    }
    if settled.results.get(&id).is_some_and(|stored| stored != result) {
        let text = format!("{id}: {:?}{}", settled.results.get(&id), tell(id, life));
        found.push(Violation::new("an acknowledged result is another", life[0].sent, text));
    }
}

fn signals(id: ExecutionId, life: &[&Call], settled: &Settled, found: &mut Vec<Violation>) {
    let Some(stored) = settled.signals.get(&id) else { return };
    let mut keys = BTreeMap::<&str, usize>::new();
    for (_, key) in stored {
        *keys.entry(key).or_default() += 1;
    }
    for call in life.iter().filter(|call| call.done()) {
        let What::Signal { signal, key, .. } = &call.what else { continue };
        let there = stored.iter().any(|(id, own)| id == signal && own == key);
        let count = keys.get(key.as_str()).copied().unwrap_or(0);
        if !there || count != 1 {
            let text = format!("{id}: {key} is there {count} times{}", tell(id, life));
            found.push(Violation::new("a signal does not count once", call.sent, text));
        }
    }
}

fn steps(id: ExecutionId, life: &[&Call], settled: &Settled, found: &mut Vec<Violation>) {
    let Some(stored) = settled.steps.get(&id) else { return };
    // One that had succeeded takes all its steps again.
    if replayed(life) {
        return;
    }
    for call in life.iter().filter(|call| call.done()) {
        if let What::Step { number, value, .. } = &call.what
            && stored.get(number) != Some(value)
        {
            let text = format!("{id}, step {number}: {:?}{}", stored.get(number), tell(id, life));
            found.push(Violation::new("an acknowledged step is gone", call.sent, text));
        }
    }
}

/// One attempt ends before the next begins.
fn attempts(id: ExecutionId, life: &[&Call], settled: &Settled, found: &mut Vec<Violation>) {
    let Some(attempts) = settled.attempts.get(&id) else { return };
    for pair in attempts.windows(2) {
        let ((_, ended), (began, _)) = (pair[0], pair[1]);
        if ended.is_none_or(|ended| began < ended) {
            let text = format!("{id}: {pair:?}{}", tell(id, life));
            found.push(Violation::new("two attempts overlap", began, text));
        }
    }
}

/// A key stands for one execution.
fn keys(record: &Record, found: &mut Vec<Violation>) {
    let mut keys = BTreeMap::<&str, BTreeSet<ExecutionId>>::new();
    for call in record.calls.iter().filter(|call| call.done()) {
        if let What::Create { key: Some(key), id: Some(id), .. } = &call.what {
            keys.entry(key).or_default().insert(*id);
        }
    }
    for (key, ids) in keys.iter().filter(|(_, ids)| ids.len() > 1) {
        let text = format!("{key}: {ids:?}");
        found.push(Violation::new("a key stands for several executions", 0, text));
    }
}
