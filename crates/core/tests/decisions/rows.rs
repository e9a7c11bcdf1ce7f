//! Rows that exist only to find executions, and what a batch writes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use expect_test::expect_file;
use ff_core::backend::StoreError;
use ff_core::decide::create::Create;
use ff_core::decide::priority::ChangePriority;
use ff_core::decide::retention::Trim;
use ff_core::decide::unhold::Unhold;
use ff_core::execution::first_epoch;
use ff_core::fold::LeaseRow;
use ff_core::index::{self, Place, Queue, TimerKind};
use ff_core::policy::FailureClass;
use ff_core::row::{SignalRow, SuspensionRow, WaitpointRow};
use ff_core::text::LaneId;
use ff_core::{Command, Execution, Policy, State, WriteSet};
use serde_json::json;

use crate::columns::what_is_written_reads_back_the_same;
use crate::commands::{cancel, complete, fail, hold, release, renew};
use crate::samples::{BACKOFF_MS, cases, policy, samples};
use crate::suspensions::{answer, pause};
use crate::world::{DAWN, Life, create, id};

fn active() -> Life {
    let mut life = Life::under(&policy());
    life.claim();
    life
}

/// What the derived rows of `x` say, with times counted from the beginning of the world.
fn rows(x: &Execution) -> Vec<String> {
    let mut rows = Vec::new();
    match index::place(x) {
        None => {}
        Some(Place { from: None, .. }) => rows.push("claimable".to_owned()),
        Some(Place { from: Some(from), .. }) => {
            rows.push(format!("claimable from {}", from.since(DAWN)));
        }
    }
    for timer in index::timers(x) {
        assert_eq!(timer.ready, None, "only a delay leads to a place");
        assert_ne!(timer.kind, TimerKind::Delay, "a delay is a place");
        rows.push(format!("{} at {}", timer.kind, timer.due.since(DAWN)));
    }
    if let Some(row) = LeaseRow::of(x) {
        let until = row.lease.until.since(DAWN);
        let count = row.epoch - first_epoch(x.spec.created_at);
        rows.push(format!("lease {count} until {until}"));
    }
    for tag in index::tags(x) {
        rows.push(format!("tag {}={}", tag.key, tag.value));
    }
    rows
}

#[test]
fn every_state_has_its_rows() {
    let mut table = String::new();
    for sample in samples() {
        let rows = sample.life.find().map(rows).unwrap_or_default();
        writeln!(table, "{}: {}", sample.name, rows.join("; ")).unwrap();
    }
    let table: Vec<_> = table.lines().map(str::trim_end).collect();
    expect_file!["../snapshots/rows.txt"].assert_eq(&(table.join("\n") + "\n"));
}

#[test]
fn whatever_any_command_writes_in_any_state_reads_back_the_same() {
    for sample in samples() {
        for case in cases(&sample.life) {
            let (_, set) = sample.life.world.clone().send(case.command);
            what_is_written_reads_back_the_same(&set);
        }
    }
}

#[test]
fn a_column_that_belongs_to_another_state_is_corrupt() {
    let named = |read: Result<(), StoreError>| match read.unwrap_err() {
        StoreError::Corruption { column, .. } => column,
        other => panic!("{other}"),
    };
    let mut life = active();
    pause(&mut life);
    let waits = &life.written.waits;
    let open = SuspensionRow::from(waits.suspensions[0].after.as_ref().unwrap());
    let suspension = |row: SuspensionRow| named(row.read().map(drop));
    let why = || Some("resumed".to_owned());
    assert_eq!(suspension(SuspensionRow { close_reason: why(), ..open.clone() }), "close_reason");
    let by = Some("[]".to_owned());
    assert_eq!(suspension(SuspensionRow { satisfied_by: by, ..open.clone() }), "satisfied_by");
    assert_eq!(suspension(SuspensionRow { closed_at_ms: Some(1), ..open }), "satisfied_by");
    let row = WaitpointRow::from(waits.waitpoints[0].after.as_ref().unwrap());
    let waitpoint = |row: WaitpointRow| named(row.read().map(drop));
    assert_eq!(waitpoint(WaitpointRow { close_reason: why(), ..row.clone() }), "close_reason");
    assert_eq!(waitpoint(WaitpointRow { closed_at_ms: Some(1), ..row.clone() }), "closed_at_ms");
    let state = |word: &str| word.to_owned();
    let pending = WaitpointRow { state: state("pending"), expires_at_ms: Some(1), ..row.clone() };
    assert_eq!(waitpoint(pending), "activated_at_ms");
    let closed = WaitpointRow { state: state("closed"), expires_at_ms: Some(1), ..row };
    assert_eq!(waitpoint(closed), "expires_at_ms");
    answer(&mut life, 1);
    let row = SignalRow::from(&life.written.waits.signals[0]);
    let signal = |row: SignalRow| named(row.read().map(drop));
    assert_eq!(signal(SignalRow { dedup_until_ms: Some(1), ..row.clone() }), "dedup_until_ms");
    assert_eq!(signal(SignalRow { idempotency_key: why(), ..row }), "dedup_until_ms");
}

#[test]
fn only_what_waits_for_a_worker_has_a_place() {
    for sample in samples() {
        let Some(x) = sample.life.find() else {
            continue;
        };
        let expected = matches!(&x.state, State::Runnable(r) if r.hold.is_none() && !r.gated);
        assert_eq!(index::place(x).is_some(), expected, "{}", sample.name);
    }
}

#[test]
fn higher_priority_comes_first_then_age_then_id() {
    let place = |n: u128, priority: i32, age: u64| {
        let creation = Create { priority, ..create(n) };
        let mut life = Life::unborn(creation.clone());
        life.pass(1_000 - age);
        life.tell(creation);
        index::place(life.x()).unwrap().ready
    };
    let (low, high) = (id(4).min(id(5)), id(4).max(id(5)));
    let number = |x| if x == id(4) { 4 } else { 5 };
    let ordered = [
        place(1, 9_000, 0),
        place(2, 5, 9),
        place(3, 5, 8),
        place(number(low), 5, 7),
        place(number(high), 5, 7),
        place(6, 0, 1_000),
    ];
    assert!(ordered.is_sorted(), "{ordered:#?}");
}

#[test]
fn a_retried_execution_keeps_its_age() {
    let mut life = active();
    let born = life.x().spec.created_at;
    life.pass(500);
    life.tell(fail(life.id, life.fence, FailureClass::Transient));
    let place = index::place(life.x()).unwrap();
    assert_eq!(place.ready.turn, born);
    assert_eq!(place.from, Some(life.world.now.plus(BACKOFF_MS)));
}

#[test]
fn a_queue_is_a_lane_and_a_set_of_capabilities() {
    let queue = |lane: &str, capabilities: &[&str]| {
        let document = json!({"routing_requirements": {"required_capabilities": capabilities}});
        let life = Life::begin(Create {
            lane: LaneId::new(lane).unwrap(),
            policy: Policy::parse(&document).unwrap(),
            ..create(1)
        });
        let queue = Queue::of(life.x());
        assert_eq!(life.written.queues, BTreeSet::from([queue.clone()]));
        queue.id
    };
    assert_eq!(queue("a", &["x", "y"]), queue("a", &["y", "x", "y"]));
    let different = [
        queue("a", &[]),
        queue("b", &[]),
        queue("a", &["x"]),
        queue("a", &["y"]),
        queue("a", &["x", "y"]),
        queue("a", &["xy"]),
        queue("ax", &["y"]),
    ];
    let ids: BTreeSet<_> = different.iter().map(|id| id.0).collect();
    assert_eq!(ids.len(), different.len());
}

#[test]
fn a_delay_stands_among_the_timers_with_its_place_until_it_is_due() {
    let life = Life::begin(Create { delay_until: Some(DAWN.plus(5)), ..create(1) });
    let set = &life.written;
    assert!(set.ready.insert.is_empty());
    assert_eq!(set.timers.insert.len(), 1);
    let timer = set.timers.insert[0];
    assert_eq!((timer.kind, timer.due), (TimerKind::Delay, DAWN.plus(5)));
    assert_eq!(timer.ready, Some(index::place(life.x()).unwrap().ready));
}

#[test]
fn whoever_leaves_a_place_leaves_it_in_both_tables() {
    let mut life = active();
    life.tell(fail(life.id, life.fence, FailureClass::Transient));
    let place = index::place(life.x()).unwrap();
    life.pass(BACKOFF_MS);
    life.claim();
    assert_eq!(life.written.ready.remove, [place.ready]);
    let delays = life.written.timers.remove.iter();
    assert_eq!(delays.filter(|t| t.kind == TimerKind::Delay).count(), 1);
}

#[test]
fn a_changed_priority_moves_the_place() {
    let mut life = Life::under(&policy());
    let before = index::place(life.x()).unwrap().ready;
    life.tell(ChangePriority { id: life.id, priority: 101, version: None });
    let after = index::place(life.x()).unwrap().ready;
    assert_eq!(life.written.ready.remove, [before]);
    assert_eq!(life.written.ready.insert, [after]);
    assert!(after < before);
}

#[test]
fn a_batch_that_ends_where_it_began_moves_no_row() {
    let mut life = Life::under(&policy());
    let batch: [Command; 2] = [hold(life.id).into(), Unhold { id: life.id, version: None }.into()];
    let (_, set) = life.world.fold(&batch);
    assert_eq!((set.executions.len(), set.events.len()), (1, 2));
    assert!(set.ready.remove.is_empty() && set.ready.insert.is_empty());
}

#[test]
fn a_row_touched_by_many_commands_is_written_once() {
    let mut life = active();
    let before = life.x().clone();
    let claim = life.next_claim();
    let batch: [Command; 4] = [
        renew(life.id, life.fence).into(),
        release(life.id, life.fence).into(),
        claim.into(),
        cancel(life.id).into(),
    ];
    let (outcomes, set) = life.world.fold(&batch);
    assert!(outcomes.iter().all(Result::is_ok));
    assert_eq!(set.executions.len(), 1);
    assert_eq!(set.executions[0].before.as_ref(), Some(&before));
    assert_eq!(set.executions[0].after.as_ref(), life.find());
    assert_eq!(life.x().version, before.version + 3);
    assert_eq!(set.leases.len(), 1);
    assert_eq!(set.leases[0].before, LeaseRow::of(&before));
    assert_eq!(set.leases[0].after, None);
}

#[test]
fn a_rejected_command_in_a_batch_leaves_no_trace() {
    let mut life = active();
    let mut alone = life.clone();
    let id = life.id;
    let wrong = complete(id, ff_core::Fence { attempt_index: 9, lease_epoch: 9 });
    let right = Command::from(complete(id, life.fence));
    let batch = [wrong.clone().into(), right.clone(), hold(id).into()];
    let (outcomes, set) = life.world.fold(&batch);
    let refused: Vec<_> = outcomes.iter().map(Result::is_err).collect();
    assert_eq!(refused, [true, false, true]);
    assert_eq!(set, alone.world.fold(&[right]).1);
}

#[test]
fn removing_an_execution_takes_what_the_same_batch_had_written_for_it() {
    let mut life = Life::under(&json!({"retention_ms": 0}));
    life.claim();
    let done: [Command; 2] = [complete(life.id, life.fence).into(), Trim { id: life.id }.into()];
    let (_, set) = life.world.fold(&done);
    assert_eq!(set.removed, BTreeSet::from([life.id]));
    assert_eq!((set.executions.len(), set.blobs.len(), set.events.len()), (0, 0, 0));
    assert_eq!(set.timers.insert, []);
}

/// The tags of an execution after `set` was written over `table`.
fn tag_table(mut table: BTreeMap<String, String>, set: &WriteSet) -> BTreeMap<String, String> {
    for row in &set.tags.remove {
        table.remove(&row.key);
    }
    for row in &set.tags.insert {
        table.insert(row.key.clone(), row.value.clone());
    }
    table
}

#[test]
fn an_execution_trimmed_and_created_again_in_one_batch_has_its_tags() {
    let mut life = Life::begin(Create {
        idempotency_key: None,
        policy: Policy::parse(&json!({"retention_ms": 0})).unwrap(),
        ..create(1)
    });
    let table = tag_table(BTreeMap::new(), &life.written);
    life.tell(cancel(life.id));
    let batch: [Command; 2] = [Trim { id: life.id }.into(), life.creation.clone().into()];
    let (outcomes, set) = life.world.fold(&batch);
    assert!(outcomes.iter().all(Result::is_ok));
    assert_eq!(tag_table(table, &set), life.x().tags);
}
