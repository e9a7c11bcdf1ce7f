//! Waitpoints made while an execution runs: their tokens go out before anybody waits.

use std::sync::Arc;

use ff_core::backend::Duty;
use ff_core::command::Reply;
use ff_core::condition::{Distinct, ResumeCondition};
use ff_core::decide::close_waitpoint::CloseWaitpoint;
use ff_core::decide::create_waitpoint::CreateWaitpoint;
use ff_core::decide::replay::Replay;
use ff_core::decide::suspend::{Binding, Suspend};
use ff_core::error::Code;
use ff_core::execution::{Fence, State};
use ff_core::limits::{DURATION_MS_MAX, WAITPOINTS_MAX};
use ff_core::query::{Page, Query, Rows};
use ff_core::state::PublicState;
use ff_core::suspension::{CloseReason, Effect, WaitpointState, WaitpointWord};
use serde_json::json;

use super::steps::{journal, step};
use crate::world::waits::{Mailbox, mailboxes, single, waitpoint_key};
use crate::world::{TTL_MS, World, code};

/// Suspends on a pending waitpoint; whether what it waits for had happened.
async fn use_pending(
    w: &World,
    mailbox: &Mailbox,
    fence: Fence,
    condition: ResumeCondition,
) -> bool {
    let waitpoints = vec![Binding::Pending { id: mailbox.waitpoint }];
    let suspend = Suspend { waitpoints, condition, ..w.pause(mailbox.id, fence) };
    let reply = w.run(suspend).await.expect("the waitpoint is pending");
    let kept = mailboxes(mailbox.id, &reply).remove(0);
    assert_eq!(kept.token, mailbox.token, "what was handed out stays good");
    reply.already_satisfied
}

/// A token handed out before the suspension is good after it.
pub async fn a_pending_waitpoint_is_used_with_its_token(w: Arc<World>) {
    let (id, fence) = w.running(json!({})).await;
    let mailbox = w.pending(id, fence, "callback").await;
    let row = w.waitpoint(&mailbox).await;
    assert_eq!(row.state, WaitpointState::Pending { expires_at: w.now().plus(60_000) });
    assert_eq!(w.state(id).await, PublicState::Active, "its worker goes on");
    assert!(!use_pending(&w, &mailbox, fence, single("callback", None)).await);
    assert_eq!(w.waitpoint(&mailbox).await.state.word(), WaitpointWord::Active);
    assert_eq!(w.deliver(mailbox.signal(&w, "done")).await, Effect::ConditionSatisfied);
    assert_eq!(w.state(id).await, PublicState::Waiting);
}

/// Signals that came before are enough: the worker keeps its lease, and reads them.
pub async fn buffered_signals_satisfy_at_once(w: Arc<World>) {
    let (id, fence) = w.running(json!({})).await;
    let mailbox = w.pending(id, fence, "callback").await;
    for name in ["first", "second"] {
        assert_eq!(w.deliver(mailbox.signal(&w, name)).await, Effect::Buffered);
    }
    let two = ResumeCondition::Count {
        n: 2,
        distinct: Distinct::Signals,
        signal: None,
        waitpoints: vec![waitpoint_key("callback")],
    };
    assert!(use_pending(&w, &mailbox, fence, two).await);
    assert!(matches!(w.get(id).await.state, State::Active(_)), "the lease holds");
    assert_eq!(w.get(id).await.epoch, fence.lease_epoch);
    let end = w.suspension(id).await.end.expect("it is over");
    let sent: Vec<_> = w.signals(id).await.iter().map(|signal| signal.id).collect();
    assert_eq!((end.how, end.by), (CloseReason::Resumed, sent));
    assert_eq!(code(w.run(mailbox.signal(&w, "late")).await), Code::WaitpointClosed);
    assert_eq!(w.event_names(id).await, ["signal", "signal"]);
    w.renew(id, fence).await.expect("it is held");
    w.complete(id, fence).await.expect("it is held");
}

/// What came before counts towards what is still missing.
pub async fn buffered_signals_count_with_later_ones(w: Arc<World>) {
    let (id, fence) = w.running(json!({})).await;
    let mailbox = w.pending(id, fence, "votes").await;
    w.deliver(mailbox.signal_from(&w, "vote", "ann")).await;
    w.deliver(mailbox.signal_from(&w, "vote", "ann")).await;
    let three = ResumeCondition::Count {
        n: 3,
        distinct: Distinct::Sources,
        signal: None,
        waitpoints: vec![waitpoint_key("votes")],
    };
    assert!(!use_pending(&w, &mailbox, fence, three).await);
    let counts = w.waitpoint(&mailbox).await.counts;
    assert_eq!((counts.signals, counts.matched), (2, 1), "what came before counts");
    let again = mailbox.signal_from(&w, "vote", "ann");
    assert_eq!(w.deliver(again).await, Effect::AppendedDuplicate);
    assert_eq!(w.deliver(mailbox.signal_from(&w, "vote", "bob")).await, Effect::Appended);
    let last = mailbox.signal_from(&w, "vote", "cem");
    assert_eq!(w.deliver(last).await, Effect::ConditionSatisfied);
    let own = w.signals(id).await;
    let by: Vec<_> = [0, 3, 4].iter().map(|at: &usize| own[*at].id).collect();
    assert_eq!(w.suspension(id).await.end.expect("it is over").by, by);
}

/// A waitpoint outlives the worker that made it: its token was handed out.
pub async fn a_pending_waitpoint_outlives_its_attempt(w: Arc<World>) {
    let (id, fence) = w.running(json!({})).await;
    let mailbox = w.pending(id, fence, "callback").await;
    w.pass(i64::try_from(TTL_MS).expect("small"));
    w.tick(Duty::LeaseExpiry).await;
    w.deliver(mailbox.signal(&w, "done")).await;
    let next = w.take(id).await.leased.fence;
    assert_eq!(next.attempt_index, 1);
    let again = CreateWaitpoint {
        id,
        fence: next,
        waitpoint: mailbox.waitpoint,
        key: waitpoint_key("callback"),
        expires_in_ms: 1,
        steps: Vec::new(),
    };
    let token = w.run(again).await.expect("it is known").expect("its key is there");
    assert_eq!(token.as_str(), mailbox.token);
    assert!(use_pending(&w, &mailbox, next, single("callback", None)).await);
}

/// A replay takes every step again, and knows nothing of what was made before: nothing arrives there.
pub async fn a_replay_closes_what_nobody_waited_at(w: Arc<World>) {
    let (id, fence) = w.running(json!({})).await;
    let mailbox = w.pending(id, fence, "callback").await;
    w.complete(id, fence).await.expect("it is held");
    w.run(Replay { id, reason: "again".to_owned(), replays: None, downstream: true })
        .await
        .expect("it has ended");
    assert_eq!(code(w.run(mailbox.signal(&w, "late")).await), Code::WaitpointClosed);
    let never = WaitpointState::Closed {
        at: w.now(),
        reason: CloseReason::NeverCommitted,
        activated_at: None,
    };
    assert_eq!(w.waitpoint(&mailbox).await.state, never);
    // One that failed goes on with what it has recorded, and so with what it made.
    let (id, fence) = w.running(json!({})).await;
    let mailbox = w.pending(id, fence, "callback").await;
    w.cancel(id).await.expect("it runs");
    w.run(Replay { id, reason: "again".to_owned(), replays: None, downstream: true })
        .await
        .expect("it has ended");
    w.deliver(mailbox.signal(&w, "early")).await;
}

/// A waitpoint that is closed has no token any more.
pub async fn a_closed_waitpoint_is_not_made_again(w: Arc<World>) {
    let (id, fence) = w.running(json!({})).await;
    let mailbox = w.pending(id, fence, "callback").await;
    w.run(CloseWaitpoint { id, fence, waitpoint: mailbox.waitpoint }).await.expect("it is held");
    let again = CreateWaitpoint {
        id,
        fence,
        waitpoint: mailbox.waitpoint,
        key: waitpoint_key("callback"),
        expires_in_ms: 1,
        steps: Vec::new(),
    };
    assert_eq!(code(w.run(again).await), Code::WaitpointClosed);
}

/// What says that a waitpoint was made is recorded with it, or neither is.
pub async fn a_waitpoint_is_recorded_with_the_steps_that_tell_of_it(w: Arc<World>) {
    let (id, fence) = w.running(json!({})).await;
    let (waitpoint, key) = (w.uuid(), waitpoint_key("callback"));
    let steps = vec![step(0, "made")];
    let make = CreateWaitpoint { id, fence, waitpoint, key, expires_in_ms: 60_000, steps };
    w.run(make.clone()).await.expect("it is held");
    w.run(make.clone()).await.expect("sent twice");
    let names = async || {
        let found = journal(&w, id).await;
        found.iter().map(|record| record.step.name.to_string()).collect::<Vec<_>>()
    };
    assert_eq!((names().await, w.listening(Some(id)).await.len()), (vec!["made".to_owned()], 1));
    let clash =
        CreateWaitpoint { steps: vec![step(0, "else")], waitpoint: w.uuid(), ..make.clone() };
    assert_eq!(code(w.run(clash).await), Code::StepConflict);
    let clash = CreateWaitpoint {
        steps: vec![step(1, "next")],
        key: waitpoint_key("other"),
        ..make.clone()
    };
    assert_eq!(code(w.run(clash).await), Code::WaitpointAlreadyExists);
    assert_eq!((names().await.len(), w.listening(Some(id)).await.len()), (1, 1), "neither");
    // One that is there may be told of later.
    w.run(CreateWaitpoint { steps: vec![step(1, "next")], ..make }).await.expect("it is held");
    assert_eq!(names().await, ["made", "next"]);
}

/// Only who holds an execution makes waitpoints for it; an id means one waitpoint.
pub async fn waitpoints_belong_to_who_holds_the_execution(w: Arc<World>) {
    let (id, fence) = w.running(json!({})).await;
    let make = |fence, waitpoint, key: &str| CreateWaitpoint {
        id,
        fence,
        waitpoint,
        key: waitpoint_key(key),
        expires_in_ms: 60_000,
        steps: Vec::new(),
    };
    let stale = Fence { lease_epoch: fence.lease_epoch + 2, ..fence };
    let one = w.uuid();
    assert_eq!(code(w.run(make(stale, one, "a")).await), Code::StaleLease);
    w.run(make(fence, one, "a")).await.expect("it is held");
    assert_eq!(code(w.run(make(fence, one, "b")).await), Code::WaitpointAlreadyExists);
    let taken = vec![Binding::Fresh { id: one, key: waitpoint_key("answer") }];
    let suspend = Suspend { waitpoints: taken, ..w.pause(id, fence) };
    assert_eq!(code(w.run(suspend).await), Code::WaitpointAlreadyExists);
    for expires_in_ms in [0, DURATION_MS_MAX + 1] {
        let absurd = CreateWaitpoint { expires_in_ms, ..make(fence, w.uuid(), "a") };
        assert_eq!(code(w.run(absurd).await), Code::InvalidInput);
    }
    w.complete(id, fence).await.expect("it is held");
    assert_eq!(code(w.run(make(fence, w.uuid(), "a")).await), Code::ExecutionNotActive);
    assert!(w.listening(None).await.is_empty(), "nothing arrives at what has ended");
}

/// Nobody suspends on a waitpoint that is unknown, used or another execution's.
pub async fn only_own_pending_waitpoints_can_be_used(w: Arc<World>) {
    let (theirs, their_fence) = w.running(json!({})).await;
    let foreign = w.pending(theirs, their_fence, "answer").await;
    let (id, fence) = w.running(json!({})).await;
    let on = |waitpoint| Suspend {
        waitpoints: vec![Binding::Pending { id: waitpoint }],
        ..w.pause(id, fence)
    };
    assert_eq!(code(w.run(on(w.uuid())).await), Code::WaitpointNotFound);
    assert_eq!(code(w.run(on(foreign.waitpoint)).await), Code::WaitpointNotFound);
    let own = w.pending(id, fence, "answer").await;
    let close = CloseWaitpoint { id, fence, waitpoint: own.waitpoint };
    w.run(close).await.expect("it is held");
    assert_eq!(code(w.run(on(own.waitpoint)).await), Code::WaitpointNotPending);
    let other = w.pending(id, fence, "other").await;
    let refused = w.run(on(other.waitpoint)).await.expect_err("the condition waits elsewhere");
    assert!(refused.message.contains("referenced_waitpoint_key_missing_binding"));
    assert!(matches!(w.get(id).await.state, State::Active(_)), "nothing was changed");
}

/// Nobody came to use it: it closes, the execution runs on, and what was buffered is not read.
pub async fn a_pending_waitpoint_expires(w: Arc<World>) {
    let (id, fence) = w.running(json!({})).await;
    let mailbox = w.pending(id, fence, "answer").await;
    let used = w.pending(id, fence, "used").await;
    w.deliver(mailbox.signal(&w, "early")).await;
    w.pass(59_999 - i64::try_from(TTL_MS).expect("small"));
    w.renew(id, fence).await.expect("it is held");
    w.pass(i64::try_from(TTL_MS).expect("small") - 1);
    w.renew(id, fence).await.expect("it is held");
    assert!(w.tick(Duty::WaitpointExpiry).await.is_empty());
    w.pass(2);
    let on = Suspend {
        waitpoints: vec![Binding::Pending { id: mailbox.waitpoint }],
        ..w.pause(id, fence)
    };
    assert_eq!(code(w.run(on.clone()).await), Code::PendingWaitpointExpired);
    let late = mailbox.signal(&w, "late");
    assert_eq!(code(w.run(late).await), Code::PendingWaitpointExpired);
    let done = w.tick(Duty::WaitpointExpiry).await;
    assert_eq!(done, vec![Ok(Reply::ExpireWaitpoint(true)); 2]);
    for gone in [&mailbox, &used] {
        let WaitpointState::Closed { reason, .. } = w.waitpoint(gone).await.state else {
            panic!("it is closed");
        };
        assert_eq!(reason, CloseReason::NeverCommitted);
    }
    assert_eq!(code(w.run(mailbox.signal(&w, "late")).await), Code::WaitpointClosed);
    assert_eq!(code(w.run(on).await), Code::WaitpointNotPending);
    assert_eq!(w.state(id).await, PublicState::Active);
    assert!(w.listening(None).await.is_empty());
}

/// One that is used does not expire.
pub async fn a_used_waitpoint_does_not_expire(w: Arc<World>) {
    let (id, fence) = w.running(json!({})).await;
    let mailbox = w.pending(id, fence, "answer").await;
    assert!(!use_pending(&w, &mailbox, fence, single("answer", None)).await);
    w.pass(120_000);
    w.tick_all().await;
    assert_eq!(w.deliver(mailbox.signal(&w, "go")).await, Effect::ConditionSatisfied);
}

/// Closing what will not be used; closing twice is fine.
pub async fn a_pending_waitpoint_can_be_closed(w: Arc<World>) {
    let (id, fence) = w.running(json!({})).await;
    let mailbox = w.pending(id, fence, "answer").await;
    let close = CloseWaitpoint { id, fence, waitpoint: mailbox.waitpoint };
    w.run(close.clone()).await.expect("it is held");
    w.run(close).await.expect("nothing is left to do");
    assert_eq!(code(w.run(mailbox.signal(&w, "late")).await), Code::WaitpointClosed);
    let unknown = CloseWaitpoint { id, fence, waitpoint: w.uuid() };
    assert_eq!(code(w.run(unknown).await), Code::WaitpointNotFound);
    assert!(w.listening(Some(id)).await.is_empty());
}

/// So many may be open at a time.
pub async fn the_number_of_open_waitpoints_is_bounded(w: Arc<World>) {
    let (id, fence) = w.running(json!({})).await;
    let make = || CreateWaitpoint {
        id,
        fence,
        waitpoint: w.uuid(),
        key: waitpoint_key("a"),
        expires_in_ms: 60_000,
        steps: Vec::new(),
    };
    let batch = (0..WAITPOINTS_MAX).map(|_| make().into()).collect();
    assert!(w.batch(batch).await.iter().all(Result::is_ok));
    let last = make();
    assert_eq!(code(w.run(last.clone()).await), Code::TooManyWaitpoints);
    assert_eq!(code(w.run(w.pause(id, fence)).await), Code::TooManyWaitpoints);
    let waitpoint = w.listening(Some(id)).await[0].id;
    w.run(CloseWaitpoint { id, fence, waitpoint }).await.expect("it is held");
    w.run(last).await.expect("there is room again");
}

/// All that signals may be sent to, of one execution or of all, in pages; never a token.
pub async fn waitpoints_are_listed(w: Arc<World>) {
    let (first, fence) = w.running(json!({})).await;
    let pending = w.pending(first, fence, "callback").await;
    let any = ResumeCondition::AllOf(vec![single("a", Some("yes")), single("b", None)]);
    let (_, active) = w.waiting_for(&["a", "b"], any).await;
    let (_, over) = w.waiting().await;
    w.deliver(over.signal(&w, "go")).await;
    let mut expected = vec![pending.waitpoint, active[0].waitpoint, active[1].waitpoint];
    expected.sort_unstable();
    let mut page = Page::first(1);
    let mut seen = Vec::new();
    loop {
        let query = Query::Waitpoints(None);
        let listing = w.store.backend.list(&query, &page).await.expect("the store works");
        let Rows::Waitpoints(rows) = listing.rows else { panic!("waitpoints") };
        for (row, suspension) in &rows {
            let waits = row.state.word() == WaitpointWord::Active;
            assert_eq!(suspension.is_some(), waits, "who waits says for what");
            seen.push(row.id);
        }
        let Some(next) = listing.next else { break };
        page.after = Some(next);
    }
    assert_eq!(seen, expected);
    let own: Vec<_> = w.listening(Some(first)).await.iter().map(|row| row.id).collect();
    assert_eq!(own, [pending.waitpoint]);
    let row = w.waitpoint(&pending).await;
    assert_eq!(row.kid.as_str(), pending.token.split(':').next().expect("a kid"));
    assert!(!format!("{row:?}").contains(pending.token.split(':').next_back().expect("a mac")));
}
