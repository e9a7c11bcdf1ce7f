//! The checker finds what it is for, and nothing where all is well.
#![allow(clippy::unwrap_used)]

use ff_core::ExecutionId;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{Violation, check, kept};
use crate::record::{Answer, Call, Ending, Fence, Grant, Order, Reader, Record, Seen, Span, What};
use crate::settled::{Settled, Standing};

const X: Uuid = Uuid::from_u128(7);

pub(crate) fn id() -> ExecutionId {
    ExecutionId::solo(X)
}

pub(crate) fn fence(epoch: u64) -> Fence {
    Fence { attempt: 0, epoch }
}

pub(crate) fn call(sent: i64, answered: i64, what: What) -> Call {
    Call { server: 0, sent, answered, what, answer: Answer::Done }
}

pub(crate) fn created(at: i64) -> Call {
    call(at, at, What::Create { id: Some(id()), lane: "a".into(), due: at, key: None })
}

pub(crate) fn claimed((sent, answered): (i64, i64), epoch: u64, until: i64) -> Call {
    let kind = if epoch == 1 { "first" } else { "reclaimed" };
    let grant = Grant { id: id(), fence: fence(epoch), until, kind: kind.into() };
    let claim = Uuid::from_u128(epoch.into());
    call(sent, answered, What::Claim { claim, lanes: vec!["a".into()], grants: vec![grant] })
}

pub(crate) fn completed(at: i64, epoch: u64) -> Call {
    let how = Ending::Completed(5);
    call(at, at, What::End { id: id(), fence: fence(epoch), lane: "a".into(), how })
}

/// An event of the first attempt; what has an outcome ended well.
pub(crate) fn event(kind: &str, at: i64, reason: Option<&str>) -> Seen {
    event_with(kind, at, reason, &json!({"outcome": "success"}))
}

/// An event with more to it.
pub(crate) fn event_with(kind: &str, at: i64, reason: Option<&str>, more: &Value) -> Seen {
    let subject = id().to_string();
    let mut fields = json!({"event": kind, "at": at, "number": at, "attempt_index": 0});
    fields.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
    let reason = reason.map(str::to_owned);
    Seen { subject, text: fields.to_string(), kind: kind.into(), reason }
}

pub(crate) fn reader(name: &'static str, seen: &[Seen]) -> Reader {
    Reader { name, repeats: name == "consumer", seen: seen.to_vec() }
}

/// One execution that was created, claimed and completed, as three readers saw it.
pub(crate) fn good() -> Record {
    let seen = [event("completion", 30, None)];
    Record {
        calls: vec![created(10), claimed((0, 20), 1, 5_000), completed(30, 1)],
        readers: ["pager", "stream", "consumer"].map(|name| reader(name, &seen)).to_vec(),
        ..Record::default()
    }
}

pub(crate) fn settled(state: &str) -> Settled {
    let ended = state != "active";
    let standing = Standing { state: state.into(), ended, lane: "a".into(), flow: None };
    Settled { states: [(id(), standing)].into(), ..Settled::default() }
}

pub(crate) fn rules(record: &Record, settled: &Settled) -> Vec<&'static str> {
    check(record, settled).iter().map(|Violation { rule, .. }| *rule).collect()
}

#[test]
fn where_all_is_well_nothing_is_found() {
    assert_eq!(rules(&good(), &settled("completed")), [""; 0]);
}

#[test]
fn an_event_that_one_reader_missed_is_found() {
    for missing in 0..3 {
        let mut record = good();
        record.readers[missing].seen.clear();
        assert_eq!(rules(&record, &settled("completed")), ["an event is lost to a reader"]);
    }
}

#[test]
fn an_event_that_all_readers_missed_is_found() {
    let mut record = good();
    record.readers.iter_mut().for_each(|reader| reader.seen.clear());
    let found = rules(&record, &settled("completed"));
    assert_eq!(found, ["endings and events differ", "what was acknowledged is no event"]);
}

#[test]
fn an_event_comes_again_only_to_those_who_may_be_told_again() {
    let mut record = good();
    let seen = record.readers[2].seen.clone();
    record.readers[2].seen.extend(seen.clone());
    assert_eq!(rules(&record, &settled("completed")), [""; 0]);
    record.readers[0].seen.extend(seen);
    assert_eq!(rules(&record, &settled("completed")), ["an event came twice"]);
}

#[test]
fn two_readers_with_another_order_are_found() {
    let mut record = good();
    for reader in &mut record.readers {
        reader.seen.insert(0, event("suspended", 25, None));
    }
    assert_eq!(rules(&record, &settled("completed")), [""; 0]);
    record.readers[1].seen.reverse();
    assert_eq!(rules(&record, &settled("completed")), ["two readers saw another order"]);
}

#[test]
fn a_completion_that_happened_twice_is_found() {
    let mut record = good();
    for reader in &mut record.readers {
        reader.seen.push(event("completion", 40, None));
    }
    assert_eq!(rules(&record, &settled("completed")), ["endings and events differ"]);
    record.calls.push(completed(6_000, 3));
    let found = rules(&record, &settled("completed"));
    assert!(found.contains(&"it was completed twice"), "{found:?}");
}

#[test]
fn a_completion_that_was_undone_is_found() {
    let found = rules(&good(), &settled("cancelled"));
    assert_eq!(found, ["an acknowledged completion was undone"]);
}

#[test]
fn another_result_is_found() {
    let mut settled = settled("completed");
    settled.results.insert(id(), 5);
    assert_eq!(rules(&good(), &settled), [""; 0]);
    settled.results.insert(id(), 6);
    assert_eq!(rules(&good(), &settled), ["an acknowledged result is another"]);
}

#[test]
fn a_creation_that_is_gone_is_found() {
    let mut record = good();
    record.calls.truncate(1);
    record.readers.clear();
    let found = rules(&record, &Settled::default());
    assert_eq!(found, ["an acknowledged creation is gone"]);
    // What has ended may have been removed.
    assert_eq!(rules(&good(), &Settled::default()), [""; 0]);
}

#[test]
fn one_order_that_was_carried_out_twice_is_found() {
    let mut record = good();
    let (order, reason) = (Order::Replay, "order-1".to_owned());
    let status = "replayed".to_owned();
    record.calls.push(call(40, 41, What::Operate { id: id(), order, reason, status }));
    for reader in &mut record.readers {
        reader.seen.push(event("replayed", 41, Some("order-1")));
        reader.seen.push(event("completion", 50, None));
    }
    assert_eq!(rules(&record, &settled("completed")), [""; 0]);
    for reader in &mut record.readers {
        reader.seen.push(event("replayed", 60, Some("order-1")));
        reader.seen.push(event("completion", 70, None));
    }
    assert_eq!(rules(&record, &settled("completed")), ["one order was carried out twice"]);
}

#[test]
fn overlapping_leases_are_found() {
    let mut record = good();
    record.calls = vec![created(10), claimed((0, 20), 1, 5_000), claimed((900, 1_000), 3, 9_000)];
    record.readers.clear();
    let found = rules(&record, &settled("active"));
    assert_eq!(found, ["a lease was given while another was valid"]);
    // The first holder may have ended it, though nobody answered.
    let released = What::End { id: id(), fence: fence(1), lane: "a".into(), how: Ending::Released };
    for answer in [Answer::Lost, Answer::Refused("stale_lease".into())] {
        record.calls.push(Call { answer, ..call(500, 600, released.clone()) });
        assert_eq!(rules(&record, &settled("active")), [""; 0]);
        record.calls.pop();
    }
}

#[test]
fn a_renewed_lease_is_valid_for_longer() {
    let mut record = good();
    let renew = What::Renew { id: id(), fence: fence(1), until: 9_000 };
    record.calls = vec![
        created(10),
        claimed((0, 20), 1, 5_000),
        call(4_000, 4_001, renew),
        claimed((5_500, 5_600), 3, 9_000),
    ];
    record.readers.clear();
    let found = rules(&record, &settled("active"));
    assert_eq!(found, ["a lease was given while another was valid"]);
}

#[test]
fn a_lease_that_was_renewed_for_less_is_over_sooner() {
    for until in [3_101, 0] {
        let mut record = good();
        let renew = What::Renew { id: id(), fence: fence(1), until };
        let renew = call(100, if until > 0 { 101 } else { 4_000 }, renew);
        record.calls =
            vec![created(10), claimed((0, 20), 1, 5_000), renew, claimed((3_200, 3_300), 3, 9_000)];
        record.readers.clear();
        assert_eq!(rules(&record, &settled("active")), [""; 0], "{until}");
    }
}

#[test]
fn one_lease_for_two_claims_is_found() {
    let mut record = good();
    let mut again = claimed((0, 25), 1, 5_000);
    if let What::Claim { claim, .. } = &mut again.what {
        *claim = Uuid::from_u128(99);
    }
    record.calls.push(again);
    assert_eq!(rules(&record, &settled("completed")), ["one lease was given to two claims"]);
}

#[test]
fn a_repeated_claim_that_left_a_lease_behind_is_found() {
    let mut record = good();
    let name = Uuid::from_u128(9);
    let what = |grants| What::Claim { claim: name, lanes: vec!["a".into()], grants };
    let lost = Call { answer: Answer::Lost, ..call(0, 500, what(vec![])) };
    record.calls = vec![created(10), lost, call(1_000, 1_010, what(vec![]))];
    let worker = json!({"id": "storm", "instance": name.to_string()});
    let expired = event_with("lease_expired", 5_000, None, &json!({"worker": worker}));
    record.readers = vec![reader("consumer", &[expired])];
    let mut settled = settled("active");
    settled.attempts.insert(id(), vec![(400, Some(5_000))]);
    assert_eq!(rules(&record, &settled), ["a repeated claim left a lease to run out"]);
    // It was not repeated.
    record.calls.pop();
    assert_eq!(rules(&record, &settled), [""; 0]);
}

#[test]
fn an_event_that_was_removed_with_something_else_is_found() {
    let record = good();
    let there = [id().to_string()].into();
    assert_eq!(kept(&record, &record.readers[0].seen, &there), []);
    assert_eq!(kept(&record, &[], &there).len(), 1);
    assert_eq!(kept(&record, &[], &[].into()), []);
}

#[test]
fn a_stale_write_is_found() {
    let mut record = good();
    record.calls = vec![created(10), claimed((0, 20), 1, 500), claimed((900, 1_000), 3, 9_000)];
    record.readers.clear();
    let step = What::Step { id: id(), fence: fence(1), number: 0, value: 1 };
    record.calls.push(call(2_000, 2_001, step));
    let found = rules(&record, &settled("active"));
    assert_eq!(found, ["a write under a lease that was followed by another"]);
}

#[test]
fn late_work_is_found_only_beside_a_claim_that_waits_and_in_calm() {
    let late = |record: &Record| rules(record, &settled("completed"));
    let mut record = good();
    record.calls[1] = claimed((0, 2_000), 1, 9_000);
    record.calls[2] = completed(2_010, 1);
    assert_eq!(late(&record), ["ready work lay beside a waiting claim"]);
    // No claim waited for it longer than a second.
    record.calls[1] = claimed((1_500, 2_000), 1, 9_000);
    assert_eq!(late(&record), [""; 0]);
    // Another one did, and went away with nothing.
    let (claim, lanes, grants) = (Uuid::from_u128(5), vec!["a".to_owned()], vec![]);
    record.calls.push(call(0, 1_400, What::Claim { claim, lanes, grants }));
    assert_eq!(late(&record), ["ready work lay beside a waiting claim"]);
    // A fault was on.
    record.faults.push(Span { what: "Pause".into(), from: 500, to: 600 });
    assert_eq!(late(&record), [""; 0]);
}

#[test]
fn work_that_nobody_claims_is_late_until_the_end() {
    let empty = |from: i64, to: i64, lane: &str| {
        let (claim, lanes) = (Uuid::from_u128(5), vec![lane.to_owned()]);
        call(from, to, What::Claim { claim, lanes, grants: vec![] })
    };
    let late = |record: &Record| rules(record, &settled("active"));
    let mut record = good();
    record.readers.clear();
    record.calls = vec![created(10), empty(500, 2_000, "a")];
    assert_eq!(late(&record), ["ready work lay beside a waiting claim"]);
    // The claim waited for others.
    record.calls[1] = empty(500, 2_000, "b");
    assert_eq!(late(&record), [""; 0]);
    // An operator may hold it, or it ended without having been claimed.
    record.calls[1] = empty(500, 2_000, "a");
    let (order, reason, status) = (Order::Hold, "order-1".to_owned(), String::new());
    let held = call(20, 21, What::Operate { id: id(), order, reason, status });
    record.calls.push(Call { answer: Answer::Lost, ..held });
    assert_eq!(late(&record), [""; 0]);
    record.calls.pop();
    record.readers = vec![reader("consumer", &[event("completion", 1_900, None)])];
    assert_eq!(rules(&record, &settled("skipped")), [""; 0]);
    // The reply to its first creation was lost, and it had ended when the second one was answered.
    record.readers.clear();
    record.calls =
        vec![claimed((2, 4), 1, 9_000), completed(5, 1), created(10), empty(500, 2_000, "a")];
    let found = late(&record);
    assert!(found.iter().all(|rule| *rule != "ready work lay beside a waiting claim"), "{found:?}");
}

#[test]
fn a_signal_that_counts_twice_is_found() {
    let mut record = good();
    let (signal, key) = (Uuid::from_u128(3), "signal-1".to_owned());
    let (lane, resumes) = ("a".to_owned(), false);
    let what = What::Signal { id: id(), lane, signal, key: key.clone(), resumes };
    record.calls.push(call(22, 23, what));
    for reader in &mut record.readers {
        let more = json!({"signal_id": signal.to_string()});
        reader.seen.insert(0, event_with("signal", 22, None, &more));
    }
    let mut settled = settled("completed");
    settled.signals.insert(id(), vec![(signal, key.clone())]);
    assert_eq!(rules(&record, &settled), [""; 0]);
    settled.signals.insert(id(), vec![(signal, key.clone()), (Uuid::from_u128(4), key)]);
    assert_eq!(rules(&record, &settled), ["a signal does not count once"]);
}

#[test]
fn a_key_that_stands_for_two_is_found() {
    let mut record = good();
    for number in [1, 2] {
        let id = Some(ExecutionId::solo(Uuid::from_u128(number)));
        let what = What::Create { id, lane: "a".into(), due: 0, key: Some("k".into()) };
        record.calls.push(Call { answer: Answer::Done, ..call(1, 2, what) });
    }
    let found = rules(&record, &settled("completed"));
    assert!(found.contains(&"a key stands for several executions"), "{found:?}");
}

#[test]
fn attempts_that_overlap_are_found() {
    let mut settled = settled("completed");
    settled.attempts.insert(id(), vec![(10, Some(20)), (20, Some(30))]);
    assert_eq!(rules(&good(), &settled), [""; 0]);
    settled.attempts.insert(id(), vec![(10, Some(20)), (19, Some(30))]);
    assert_eq!(rules(&good(), &settled), ["two attempts overlap"]);
}
