//! A call that was acknowledged and left nothing is found; one that another call explains is not.
#![allow(clippy::unwrap_used)]

use std::slice::from_ref;

use serde_json::json;
use uuid::Uuid;

use super::{RULE, UNDONE};
use crate::checker::tests::{
    call, claimed, created, event, event_with, fence, good, id, reader, rules, settled,
};
use crate::record::{Answer, Call, Cancellation, Ending, Order, Record, Seen, What};
use crate::settled::Settled;

const FLOW: Uuid = Uuid::from_u128(70);

fn ordered(at: i64, order: Order, status: &str) -> Call {
    let (reason, status) = (format!("order-{at}"), status.to_owned());
    call(at, at + 2, What::Operate { id: id(), order, reason, status })
}

fn ended(at: i64, how: Ending) -> Call {
    call(at, at + 2, What::End { id: id(), fence: fence(1), lane: "a".into(), how })
}

/// Calls about one execution, and its history as every reader was given it.
fn story(calls: &[Call], history: &[Seen]) -> Record {
    let mut record = good();
    record.calls = calls.to_vec();
    record.readers = ["pager", "stream", "consumer"].map(|name| reader(name, history)).to_vec();
    record
}

fn cancelled(at: i64, reason: &str) -> Seen {
    event_with("completion", at, Some(reason), &json!({"outcome": "cancelled"}))
}

fn revoked(at: i64, reason: &str) -> Seen {
    let worker = json!({"id": "storm", "instance": Uuid::from_u128(1).to_string()});
    event_with("lease_revoked", at, Some(reason), &json!({"worker": worker}))
}

/// Nothing is found with the event, and without it that it is missing.
fn is_found_when_lost(calls: &[Call], mut history: Vec<Seen>, state: &str) {
    let settled = settled(state);
    assert_eq!(rules(&story(calls, &history), &settled), [""; 0]);
    history.remove(0);
    let found = rules(&story(calls, &history), &settled);
    assert!(found.contains(&RULE), "{found:?}");
    // An answer that did not come says nothing.
    let mut unheard = calls.to_vec();
    unheard.last_mut().unwrap().answer = Answer::Lost;
    let found = rules(&story(&unheard, &history), &settled);
    assert!(!found.contains(&RULE), "{found:?}");
}

#[test]
fn a_lost_order_is_found() {
    let cancel = [created(10), ordered(40, Order::Cancel, "cancelled")];
    is_found_when_lost(&cancel, vec![cancelled(41, "order-40")], "cancelled");
    let hold = [created(10), ordered(40, Order::Hold, "held")];
    is_found_when_lost(&hold, vec![event("held", 41, Some("order-40"))], "active");
    let revoke = [created(10), ordered(40, Order::Revoke, "revoked")];
    is_found_when_lost(&revoke, vec![revoked(41, "order-40")], "active");
    let replay = [created(10), ordered(40, Order::Replay, "replayed")];
    let replayed = vec![event("replayed", 41, Some("order-40")), event("completion", 20, None)];
    is_found_when_lost(&replay, replayed, "active");
    let change = [created(10), ordered(40, Order::Prioritise(77), "changed")];
    let changed = event_with("priority_changed", 41, None, &json!({"from": 0, "to": 77}));
    is_found_when_lost(&change, vec![changed], "active");
}

#[test]
fn a_lost_unhold_is_found() {
    let calls =
        [created(10), ordered(40, Order::Hold, "held"), ordered(60, Order::Unhold, "unheld")];
    let held = event("held", 41, Some("order-40"));
    let history = [held.clone(), event("unheld", 61, None)];
    assert_eq!(rules(&story(&calls, &history), &settled("active")), [""; 0]);
    assert_eq!(rules(&story(&calls, &[held]), &settled("active")), [RULE]);
}

#[test]
fn an_unhold_of_what_nobody_held_leaves_nothing() {
    let calls = [created(10), ordered(60, Order::Unhold, "unheld")];
    assert_eq!(rules(&story(&calls, &[]), &settled("active")), [""; 0]);
}

#[test]
fn an_order_that_another_had_done_before_needs_no_event_of_its_own() {
    for (order, status, before) in [
        (Order::Cancel, "cancelled", vec![cancelled(30, "order-1")]),
        (Order::Hold, "held", vec![event("held", 30, Some("order-1"))]),
        (
            Order::Replay,
            "replayed",
            vec![event("completion", 20, None), event("replayed", 30, Some("order-1"))],
        ),
        (Order::Revoke, "already_satisfied", vec![revoked(30, "order-1")]),
    ] {
        let state = if order == Order::Cancel { "cancelled" } else { "active" };
        let calls = [created(10), ordered(40, order, status)];
        let found = rules(&story(&calls, &before), &settled(state));
        assert_eq!(found, [""; 0], "{order:?}");
        assert_eq!(rules(&story(&calls, &[]), &settled("active"))[0], RULE, "{order:?}");
    }
    // A lease that this very call took is under its own reason.
    let calls = [created(10), ordered(40, Order::Revoke, "revoked")];
    assert_eq!(rules(&story(&calls, &[revoked(30, "order-1")]), &settled("active")), [RULE]);
}

#[test]
fn what_happened_after_the_answer_or_was_over_before_the_call_explains_nothing() {
    let calls = [created(10), ordered(40_000, Order::Hold, "held")];
    let late = [event("held", 45_000, Some("order-1"))];
    assert_eq!(rules(&story(&calls, &late), &settled("active")), [RULE]);
    let over = [event("held", 20, Some("order-1")), event("unheld", 30, None)];
    assert_eq!(rules(&story(&calls, &over), &settled("active")), [RULE]);
}

#[test]
fn a_cancellation_that_was_undone_is_found() {
    let calls = [created(10), ordered(40, Order::Cancel, "cancelled")];
    let history = [cancelled(41, "order-40")];
    let mut active = settled("active");
    active.states.get_mut(&id()).unwrap().ended = true;
    assert_eq!(rules(&story(&calls, &history), &active), [UNDONE]);
    // Somebody had it run again, or asked for it.
    let replay = Call { answer: Answer::Lost, ..ordered(50, Order::Replay, "") };
    let again = [calls.to_vec(), vec![replay]].concat();
    assert_eq!(rules(&story(&again, &history), &active), [""; 0]);
}

#[test]
fn a_lost_end_of_an_attempt_is_found() {
    let claim = claimed((0, 20), 1, 5_000);
    let fail = ended(30, Ending::Failed("fail-1".into(), Some(90)));
    let failed = event("attempt_failed", 31, Some("fail-1"));
    is_found_when_lost(&[created(10), claim.clone(), fail], vec![failed], "active");
    let suspend = ended(30, Ending::Suspended);
    let suspended = event("suspended", 31, None);
    is_found_when_lost(&[created(10), claim.clone(), suspend], vec![suspended], "active");
    let signal = Uuid::from_u128(3);
    let (lane, key) = ("a".to_owned(), "signal-1".to_owned());
    let what = What::Signal { id: id(), lane, signal, key, resumes: false };
    let sent = event_with("signal", 31, None, &json!({"signal_id": signal.to_string()}));
    is_found_when_lost(&[created(10), claim, call(30, 31, what)], vec![sent], "active");
}

#[test]
fn a_suspension_counts_once_however_often_it_was_acknowledged() {
    let calls = [
        created(10),
        claimed((0, 20), 1, 5_000),
        ended(30, Ending::Suspended),
        ended(40, Ending::Suspended),
    ];
    let suspended = event("suspended", 31, None);
    assert_eq!(rules(&story(&calls, from_ref(&suspended)), &settled("active")), [""; 0]);
    // Under the next lease it is another one.
    let what = What::End { id: id(), fence: fence(3), lane: "a".into(), how: Ending::Suspended };
    let more = [calls.to_vec(), vec![call(60, 61, what)]].concat();
    assert_eq!(rules(&story(&more, &[suspended]), &settled("active")), [RULE]);
}

#[test]
fn a_completion_that_ended_as_something_else_is_found() {
    let mut record = good();
    for reader in &mut record.readers {
        reader.seen = vec![cancelled(30, "order-1")];
    }
    let found = rules(&record, &settled("completed"));
    assert_eq!(found, [RULE]);
}

#[test]
fn a_lease_that_was_given_back_and_ran_out_is_found() {
    for how in [Ending::Released, Ending::Delayed(Some(50))] {
        let mut calls = vec![created(10), claimed((0, 20), 1, 5_000), ended(30, how)];
        let worker = json!({"id": "storm", "instance": Uuid::from_u128(1).to_string()});
        let expired = [event_with("lease_expired", 5_000, None, &json!({"worker": worker}))];
        assert_eq!(rules(&story(&calls, &[]), &settled("active")), [""; 0]);
        let found = rules(&story(&calls, &expired), &settled("active"));
        assert_eq!(found, ["a lease was lost after its holder had ended it"]);
        // Another try of the claim may have been given it later.
        let lost = Call { answer: Answer::Lost, ..claimed((0, 19), 1, 5_000) };
        calls.insert(1, lost);
        assert_eq!(rules(&story(&calls, &expired), &settled("active")), [""; 0]);
    }
}

/// A flow of one member was cancelled, and the answer says that `policy` and `reason` are stored.
fn flow_cancelled(policy: &str, reason: &str) -> Call {
    let stored = Cancellation { reason: reason.into(), policy: policy.into(), over: true };
    let (members, reason) = (vec![id()], "order-40".to_owned());
    call(40, 42, What::CancelFlow { flow: FLOW, members, reason, stored })
}

fn flow_event(reason: &str) -> Seen {
    let requested = event_with("flow_cancel_requested", 41, Some(reason), &json!({}));
    Seen { subject: FLOW.to_string(), ..requested }
}

fn flow_settled(state: &str) -> Settled {
    let flows = [(FLOW.to_string(), state.to_owned())].into();
    Settled { flows, ..settled("cancelled") }
}

#[test]
fn a_lost_cancellation_of_a_flow_is_found() {
    let cancelled_member = cancelled(41, "flow_cancelled:order-40");
    let story = |call: Call, told: &str| {
        story(&[created(10), call], &[cancelled_member.clone(), flow_event(told)])
    };
    let all = || flow_cancelled("cancel_all", "order-40");
    let record = story(all(), "order-40 cancel_all");
    assert_eq!(rules(&record, &flow_settled("cancelled")), [""; 0]);
    assert_eq!(rules(&record, &flow_settled("completed")), [UNDONE]);
    // Another policy than the one that was acknowledged.
    let record = story(all(), "order-40 cancel_pending");
    assert_eq!(rules(&record, &flow_settled("cancelled")), [RULE]);
    // It had been cancelled before, for another reason.
    let record = story(flow_cancelled("cancel_all", "order-1"), "order-1 cancel_all");
    assert_eq!(rules(&record, &flow_settled("cancelled")), [""; 0]);
}

#[test]
fn a_member_that_goes_on_after_its_flow_was_cancelled_is_found() {
    let told = flow_event("order-40 cancel_all");
    let call = flow_cancelled("cancel_all", "order-40");
    let record = story(&[created(10), call], &[told, cancelled(2_000, "order-40")]);
    let found = rules(&record, &flow_settled("cancelled"));
    assert_eq!(found, ["a member of a cancelled flow went on"]);
    // With this policy it may.
    let told = flow_event("order-40 cancel_pending");
    let call = flow_cancelled("cancel_pending", "order-40");
    let record = story(&[created(10), call], &[told, cancelled(2_000, "order-40")]);
    assert_eq!(rules(&record, &flow_settled("cancelled")), [""; 0]);
}
