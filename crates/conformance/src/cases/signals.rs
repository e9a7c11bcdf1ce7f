//! Signals: kept once, judged by what is waited for, and refused without a word too many.

use std::sync::Arc;

use bytes::Bytes;
use ff_core::Millis;
use ff_core::condition::ResumeCondition;
use ff_core::decide::deliver::{Authority, DeliverSignal, Delivered};
use ff_core::decide::suspend::Suspend;
use ff_core::error::Code;
use ff_core::event::EventKind;
use ff_core::limits::{SIGNAL_PAYLOAD_BYTES_MAX, SIGNAL_TEXT_BYTES_MAX, SIGNALS_MAX};
use ff_core::query::{Query, Rows};
use ff_core::state::PublicState;
use ff_core::suspension::{CloseReason, Effect, WaitpointWord};
use ff_core::text::IdempotencyKey;
use serde_json::json;

use crate::world::waits::{Mailbox, single};
use crate::world::{World, code};

fn key(text: &str) -> IdempotencyKey {
    IdempotencyKey::new(text).expect("a valid key")
}

/// Everything said of a signal is kept, bytes as they are, and it is in the history.
pub async fn a_signal_is_kept_as_it_was_sent(w: Arc<World>) {
    let (_, mailbox) = w.waiting().await;
    w.pass(5);
    let payload = Some(Bytes::from_static(b"\x00\xff\xfe binary"));
    let sent = DeliverSignal {
        payload: payload.clone(),
        encoding: Some("octets".parse().expect("a valid encoding")),
        correlation_id: Some("order 17".to_owned()),
        created_at: Some(Millis(12)),
        idempotency_key: Some(key("once")),
        ..mailbox.signal(&w, "paid")
    };
    assert_eq!(w.deliver(sent.clone()).await, Effect::ConditionSatisfied);
    let kept = w.signals(mailbox.id).await.remove(0);
    assert_eq!((kept.id, kept.waitpoint, kept.number), (sent.signal, mailbox.waitpoint, 0));
    assert_eq!((kept.name, kept.category), (sent.name.clone(), sent.category));
    assert_eq!((kept.source_type, kept.source_identity), (sent.source_type, sent.source_identity));
    assert_eq!(
        (kept.correlation_id, kept.idempotency_key),
        (sent.correlation_id, Some(key("once")))
    );
    assert_eq!((kept.created_at, kept.accepted_at), (Millis(12), w.now()));
    assert_eq!((kept.payload, kept.encoding), (payload, sent.encoding));
    assert_eq!(kept.effect, Effect::ConditionSatisfied);
    let events = w.events(mailbox.id).await;
    let EventKind::Signal { signal_id, waitpoint_id, name, source_identity, effect, .. } =
        &events[1].kind
    else {
        panic!("the signal is in the history: {events:?}");
    };
    assert_eq!((*signal_id, *waitpoint_id), (sent.signal, mailbox.waitpoint));
    assert_eq!((name, source_identity.as_str()), (&sent.name, "shop"));
    assert_eq!(*effect, Effect::ConditionSatisfied);
    let end = w.suspension(mailbox.id).await.end.expect("it is over");
    assert_eq!((end.at, end.how, end.by), (w.now(), CloseReason::Resumed, vec![sent.signal]));
}

/// Some signals are read by their ids: in the order in which they came, and no others.
pub async fn signals_are_read_by_their_ids(w: Arc<World>) {
    let (_, mailbox) = w.waiting_for(&["answer"], single("answer", Some("go"))).await;
    let own = &mailbox[0];
    let mut ids = Vec::new();
    for name in ["one", "two", "three", "go"] {
        let signal = own.signal(&w, name);
        ids.push(signal.signal);
        w.deliver(signal).await;
    }
    let (_, other) = w.waiting().await;
    let elsewhere = other.signal(&w, "done");
    let foreign = elsewhere.signal;
    w.deliver(elsewhere).await;
    let some = [ids[3], foreign, ids[1], w.uuid()].into();
    let Rows::Signals(found) = w.list(&Query::SomeSignals(own.id, some), 1).await else {
        panic!("signals were asked for");
    };
    let found: Vec<_> = found.iter().map(|row| (row.number, row.id, row.name.as_str())).collect();
    assert_eq!(found, [(1, ids[1], "two"), (3, ids[3], "go")]);
}

/// What is not waited for is kept, and changes nothing.
pub async fn a_signal_that_is_not_wanted_is_only_recorded(w: Arc<World>) {
    let (id, fence) = w.running(json!({})).await;
    let condition = single("answer", Some("yes"));
    let mailbox = w.suspend(Suspend { condition, ..w.pause(id, fence) }).await.remove(0);
    assert_eq!(w.deliver(mailbox.signal(&w, "no")).await, Effect::IgnoredMatcherFailed);
    assert_eq!(w.state(id).await, PublicState::Suspended);
    let counts = w.waitpoint(&mailbox).await.counts;
    assert_eq!((counts.signals, counts.matched, counts.last_at), (1, 0, Some(w.now())));
    assert_eq!(w.deliver(mailbox.signal(&w, "yes")).await, Effect::ConditionSatisfied);
    let counts = w.waitpoint(&mailbox).await.counts;
    assert_eq!((counts.signals, counts.matched), (2, 1));
    assert_eq!(w.state(id).await, PublicState::Waiting);
}

/// The same signal, by its id or under its key, is kept once, and is no event.
pub async fn a_signal_sent_again_is_told_so(w: Arc<World>) {
    let (id, fence) = w.running(json!({})).await;
    let condition = single("answer", Some("never"));
    let mailbox = w.suspend(Suspend { condition, ..w.pause(id, fence) }).await.remove(0);
    let first = DeliverSignal { idempotency_key: Some(key("k")), ..mailbox.signal(&w, "no") };
    w.deliver(first.clone()).await;
    let existing_signal_id = first.signal;
    let duplicate = Ok(Delivered::Duplicate { existing_signal_id });
    assert_eq!(w.run(first.clone()).await, duplicate);
    let by_key = DeliverSignal { signal: w.uuid(), ..first.clone() };
    assert_eq!(w.run(by_key).await, duplicate);
    let by_id = DeliverSignal { idempotency_key: None, ..first.clone() };
    assert_eq!(w.run(by_id).await, duplicate);
    assert_eq!(w.signals(id).await.len(), 1);
    assert_eq!(w.event_names(id).await, ["suspended", "signal"]);
}

/// A key stands for a day, or as long as its sender says; zero means not at all.
pub async fn a_key_of_a_signal_is_forgotten(w: Arc<World>) {
    for (ttl_ms, kept_ms) in [(None, 86_400_000), (Some(10), 10), (Some(0), 0)] {
        let (id, fence) = w.running(json!({})).await;
        let condition = single("answer", Some("never"));
        let mailbox = w.suspend(Suspend { condition, ..w.pause(id, fence) }).await.remove(0);
        let first = DeliverSignal {
            idempotency_key: Some(key("k")),
            dedup_ttl_ms: ttl_ms,
            ..mailbox.signal(&w, "no")
        };
        w.deliver(first.clone()).await;
        let again = || DeliverSignal { signal: w.uuid(), ..first.clone() };
        if kept_ms > 0 {
            w.pass(kept_ms - 1);
            assert!(matches!(w.run(again()).await, Ok(Delivered::Duplicate { .. })));
            w.pass(1);
        }
        assert!(matches!(w.run(again()).await, Ok(Delivered::Accepted { .. })), "{ttl_ms:?}");
        w.cancel(id).await.expect("it waits");
    }
}

/// Keys belong to their waitpoint.
pub async fn the_same_key_at_two_waitpoints_is_independent(w: Arc<World>) {
    let (_, here) = w.waiting().await;
    let (_, there) = w.waiting().await;
    for mailbox in [here, there] {
        let signal = DeliverSignal { idempotency_key: Some(key("k")), ..mailbox.signal(&w, "go") };
        assert_eq!(w.deliver(signal).await, Effect::ConditionSatisfied);
    }
}

/// Whoever may not send learns nothing: not that the waitpoint is there, not that it is closed.
pub async fn everything_wrong_with_a_token_has_one_answer(w: Arc<World>) {
    let (_, mailbox) = w.waiting().await;
    let (_, other) = w.waiting().await;
    let (_, closed) = w.waiting().await;
    w.deliver(closed.signal(&w, "go")).await;
    let with = |mailbox: &Mailbox, token: &str| DeliverSignal {
        authority: Authority::Token(token.to_owned()),
        ..mailbox.signal(&w, "go")
    };
    let (kid, mac) = mailbox.token.split_once(':').expect("a token has two parts");
    let unknown = Mailbox { waitpoint: w.uuid(), ..mailbox.clone() };
    let foreign = Mailbox { waitpoint: other.waitpoint, ..mailbox.clone() };
    let flipped = if mac.starts_with('0') { "1" } else { "0" };
    let wrong = [
        with(&mailbox, &other.token),
        with(&mailbox, &format!("k9:{mac}")),
        with(&mailbox, &format!("{kid}:{}", &mac[1..])),
        with(&mailbox, &format!("{kid}:{flipped}{}", &mac[1..])),
        with(&mailbox, &mailbox.token.to_uppercase()),
        with(&mailbox, "rubbish"),
        with(&unknown, &mailbox.token),
        with(&foreign, &mailbox.token),
        with(&foreign, &other.token),
        with(&closed, &mailbox.token),
    ];
    let mut said = std::collections::BTreeSet::new();
    for signal in wrong {
        let refused = w.run(signal.clone()).await.expect_err("it is wrong");
        assert_eq!(refused.code, Code::InvalidToken, "{signal:?}");
        said.insert(format!("{refused:?}"));
    }
    assert_eq!(said.len(), 1, "all answers are the same: {said:?}");
    assert_eq!(code(w.run(with(&mailbox, "")).await), Code::MissingToken);
    assert!(w.signals(mailbox.id).await.is_empty());
    assert_eq!(w.event_names(mailbox.id).await, ["suspended"]);
    let nowhere = Mailbox { id: w.id(), ..mailbox };
    assert_eq!(code(w.run(nowhere.signal(&w, "go")).await), Code::ExecutionNotFound);
}

/// An operator needs no token, and is told the truth.
pub async fn an_operator_needs_no_token(w: Arc<World>) {
    let (_, mailbox) = w.waiting().await;
    let signal = || DeliverSignal { authority: Authority::Operator, ..mailbox.signal(&w, "go") };
    let unknown = DeliverSignal { waitpoint: w.uuid(), ..signal() };
    assert_eq!(code(w.run(unknown).await), Code::WaitpointNotFound);
    assert_eq!(w.deliver(signal()).await, Effect::ConditionSatisfied);
    assert_eq!(code(w.run(signal()).await), Code::WaitpointClosed);
}

/// A signal is never what brings something back that has ended, or wakes it twice.
pub async fn a_signal_to_what_goes_on_or_has_ended_is_refused(w: Arc<World>) {
    let (_, mailbox) = w.waiting().await;
    let id = mailbox.id;
    w.deliver(mailbox.signal(&w, "go")).await;
    assert_eq!(code(w.run(mailbox.signal(&w, "again")).await), Code::WaitpointClosed);
    let fence = w.take(id).await.leased.fence;
    assert_eq!(code(w.run(mailbox.signal(&w, "again")).await), Code::WaitpointClosed);
    w.complete(id, fence).await.expect("it is held");
    assert_eq!(code(w.run(mailbox.signal(&w, "again")).await), Code::TargetNotSignalable);
    assert_eq!(w.state(id).await, PublicState::Completed);
    assert_eq!(w.signals(id).await.len(), 1);
}

/// A later suspension is not judged by what came to an earlier one.
pub async fn signals_of_an_earlier_suspension_do_not_count(w: Arc<World>) {
    let (_, first) = w.waiting().await;
    w.deliver(first.signal(&w, "yes")).await;
    let fence = w.take(first.id).await.leased.fence;
    let second = w.suspend(w.pause(first.id, fence)).await.remove(0);
    assert_eq!(w.state(first.id).await, PublicState::Suspended);
    assert_eq!(code(w.run(first.signal(&w, "yes")).await), Code::WaitpointClosed);
    assert_eq!(w.deliver(second.signal(&w, "yes")).await, Effect::ConditionSatisfied);
    assert_eq!(w.suspension(first.id).await.end.expect("it is over").by.len(), 1);
}

/// The sender may ask for a delay; otherwise the suspension's own applies.
pub async fn a_delay_after_a_signal_is_honoured(w: Arc<World>) {
    for (own_ms, asked_ms, expected_ms) in [(0, Some(30), 30), (20, None, 20), (20, Some(0), 0)] {
        let (id, fence) = w.running(json!({})).await;
        let suspend = Suspend { resume_delay_ms: own_ms, ..w.pause(id, fence) };
        let mailbox = w.suspend(suspend).await.remove(0);
        let signal = DeliverSignal { resume_delay_ms: asked_ms, ..mailbox.signal(&w, "go") };
        w.deliver(signal).await;
        if expected_ms > 0 {
            assert_eq!(w.state(id).await, PublicState::Delayed);
            w.pass(expected_ms - 1);
            assert!(w.claim_one().await.is_none(), "not yet");
            w.pass(1);
        }
        let fence = w.take(id).await.leased.fence;
        w.complete(id, fence).await.expect("it is held");
    }
}

/// Sizes and names are bounded.
pub async fn oversize_signals_are_refused(w: Arc<World>) {
    let (_, mailbox) = w.waiting().await;
    let long = "x".repeat(SIGNAL_TEXT_BYTES_MAX + 1);
    let payload = Some(Bytes::from(vec![0; SIGNAL_PAYLOAD_BYTES_MAX + 1]));
    let base = || mailbox.signal(&w, "go");
    let large = DeliverSignal { payload, ..base() };
    assert_eq!(code(w.run(large).await), Code::PayloadTooLarge);
    let wrong = [
        DeliverSignal { category: long.clone(), ..base() },
        DeliverSignal { source_type: long.clone(), ..base() },
        DeliverSignal { source_identity: long.clone(), ..base() },
        DeliverSignal { correlation_id: Some(long), ..base() },
        DeliverSignal { source_identity: "a\0b".to_owned(), ..base() },
        DeliverSignal { resume_delay_ms: Some(u64::MAX), ..base() },
        DeliverSignal { dedup_ttl_ms: Some(u64::MAX), ..base() },
    ];
    for signal in wrong {
        assert_eq!(code(w.run(signal).await), Code::InvalidInput);
    }
    assert!(ff_core::text::SignalName::new("__timeout_only__").is_err());
    assert!(w.signals(mailbox.id).await.is_empty());
    let payload = Some(Bytes::from(vec![7; SIGNAL_PAYLOAD_BYTES_MAX]));
    let largest = DeliverSignal { payload, ..base() };
    assert_eq!(w.deliver(largest).await, Effect::ConditionSatisfied);
}

/// An execution takes so many signals and no more, counted over all its waitpoints.
pub async fn the_number_of_signals_is_bounded(w: Arc<World>) {
    let (id, fence) = w.running(json!({})).await;
    let condition = single("answer", Some("never"));
    let mailbox = w.suspend(Suspend { condition, ..w.pause(id, fence) }).await.remove(0);
    for _ in 0..SIGNALS_MAX / 500 {
        let batch = (0..500).map(|_| mailbox.signal(&w, "no").into()).collect();
        let outcomes = w.batch(batch).await;
        assert!(outcomes.iter().all(Result::is_ok));
    }
    assert_eq!(code(w.run(mailbox.signal(&w, "never")).await), Code::SignalLimitExceeded);
    assert_eq!(w.state(id).await, PublicState::Suspended);
}

/// Many signals in one batch are judged one after the other: one resumes, the rest come late.
pub async fn signals_of_one_batch_see_each_other(w: Arc<World>) {
    let (_, mailbox) = w.waiting().await;
    let batch = (0..5).map(|_| mailbox.signal(&w, "go").into()).collect();
    let outcomes = w.batch(batch).await;
    let accepted = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
    assert_eq!(accepted, 1);
    for outcome in outcomes.into_iter().skip(1) {
        assert_eq!(code(outcome), Code::WaitpointClosed);
    }
    assert_eq!(w.signals(mailbox.id).await.len(), 1);
}

/// A suspension and its signal may travel in one batch.
pub async fn a_suspension_and_its_end_may_share_a_batch(w: Arc<World>) {
    let (id, fence) = w.running(json!({})).await;
    let mailbox = w.suspend(w.pause(id, fence)).await.remove(0);
    w.deliver(mailbox.signal(&w, "go")).await;
    let fence = w.take(id).await.leased.fence;
    let suspend = w.pause(id, fence);
    let waitpoint = suspend.waitpoints[0].id();
    let next = Mailbox { id, waitpoint, token: String::new() };
    let signal = DeliverSignal { authority: Authority::Operator, ..next.signal(&w, "go") };
    let resumed = w.batch(vec![suspend.into(), signal.into()]).await;
    assert!(resumed.iter().all(Result::is_ok), "{resumed:?}");
    assert_eq!(w.state(id).await, PublicState::Waiting);
    let fence = w.take(id).await.leased.fence;
    let suspend = w.pause(id, fence);
    let cancel =
        ff_core::decide::cancel::Cancel { id, reason: "no".to_owned(), fence: None, replays: None };
    let ended = w.batch(vec![suspend.into(), cancel.into()]).await;
    assert!(ended.iter().all(Result::is_ok), "{ended:?}");
    assert_eq!(w.suspension(id).await.end.map(|end| end.how), Some(CloseReason::Cancelled));
    assert!(w.listening(None).await.is_empty());
}

/// All waitpoints of a suspension close together.
pub async fn every_waitpoint_closes_with_its_suspension(w: Arc<World>) {
    let any = ResumeCondition::Count {
        n: 1,
        distinct: ff_core::condition::Distinct::Waitpoints,
        signal: None,
        waitpoints: ["a", "b", "c"].map(crate::world::waits::waitpoint_key).to_vec(),
    };
    let (_, own) = w.waiting_for(&["a", "b", "c"], any).await;
    assert_eq!(w.listening(Some(own[0].id)).await.len(), 3);
    w.deliver(own[1].signal(&w, "go")).await;
    for mailbox in &own {
        assert_eq!(w.waitpoint(mailbox).await.state.word(), WaitpointWord::Closed);
    }
    assert!(w.listening(None).await.is_empty());
    assert_eq!(code(w.run(own[0].signal(&w, "go")).await), Code::WaitpointClosed);
}
