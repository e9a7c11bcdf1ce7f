//! Conditions over stored signals: each part judged on its own, by what came to its waitpoints.

use std::sync::Arc;

use ff_core::condition::{Distinct, ResumeCondition, digest};
use ff_core::decide::deliver::DeliverSignal;
use ff_core::decide::suspend::Suspend;
use ff_core::error::Code;
use ff_core::event::EventKind;
use ff_core::state::PublicState;
use ff_core::suspension::Effect;
use ff_core::text::SourceIdentity;
use serde_json::json;

use crate::world::waits::{single, waitpoint_key};
use crate::world::{World, code};

fn count(n: u32, distinct: Distinct, keys: &[&str]) -> ResumeCondition {
    let waitpoints = keys.iter().map(|key| waitpoint_key(key)).collect();
    ResumeCondition::Count { n, distinct, signal: None, waitpoints }
}

fn person(name: &str) -> SourceIdentity {
    SourceIdentity::new(name).expect("a valid identity")
}

/// All of all of two people and one word, and another word: open until the last piece is there.
pub async fn nested_conditions_resume_with_the_last_piece(w: Arc<World>) {
    let inner = vec![count(2, Distinct::Sources, &["votes"]), single("legal", Some("ok"))];
    let condition =
        ResumeCondition::AllOf(vec![ResumeCondition::AllOf(inner), single("ops", None)]);
    let (_, own) = w.waiting_for(&["votes", "legal", "ops"], condition).await;
    let (votes, legal, ops) = (&own[0], &own[1], &own[2]);
    let sent = [
        (votes.signal_from(&w, "yes", "ann"), Effect::Appended),
        (legal.signal(&w, "hm"), Effect::IgnoredMatcherFailed),
        (votes.signal_from(&w, "yes", "ann"), Effect::AppendedDuplicate),
        (ops.signal(&w, "whatever"), Effect::Appended),
        (legal.signal(&w, "ok"), Effect::Appended),
    ];
    for (signal, effect) in sent {
        assert_eq!(w.deliver(signal).await, effect);
        assert_eq!(w.state(ops.id).await, PublicState::Suspended);
    }
    let last = votes.signal_from(&w, "yes", "bob");
    assert_eq!(w.deliver(last).await, Effect::ConditionSatisfied);
    assert_eq!(w.state(ops.id).await, PublicState::Waiting);
    let sent = w.signals(ops.id).await;
    let by: Vec<_> = [0, 3, 4, 5].iter().map(|at: &usize| sent[*at].id).collect();
    assert_eq!(w.suspension(ops.id).await.end.expect("it is over").by, by);
}

/// What one count counted is nothing to another.
pub async fn two_counts_do_not_share_what_they_count(w: Arc<World>) {
    let condition = ResumeCondition::AllOf(vec![
        count(2, Distinct::Sources, &["a"]),
        count(2, Distinct::Sources, &["b"]),
    ]);
    let (_, own) = w.waiting_for(&["a", "b"], condition).await;
    for who in ["ann", "bob", "cem"] {
        w.deliver(own[0].signal_from(&w, "yes", who)).await;
    }
    assert_eq!(w.state(own[0].id).await, PublicState::Suspended);
    w.deliver(own[1].signal_from(&w, "yes", "ann")).await;
    assert_eq!(w.state(own[0].id).await, PublicState::Suspended);
    let last = own[1].signal_from(&w, "yes", "bob");
    assert_eq!(w.deliver(last).await, Effect::ConditionSatisfied);
}

/// Any of several waitpoints, and some of several.
pub async fn waitpoints_are_counted_once_each(w: Arc<World>) {
    let keys = ["a", "b", "c"];
    let (_, own) = w.waiting_for(&keys, count(2, Distinct::Waitpoints, &keys)).await;
    assert_eq!(w.deliver(own[2].signal(&w, "go")).await, Effect::Appended);
    assert_eq!(w.deliver(own[2].signal(&w, "go")).await, Effect::AppendedDuplicate);
    assert_eq!(w.deliver(own[0].signal(&w, "go")).await, Effect::ConditionSatisfied);
}

/// A condition too deep or empty is refused with the path to the mistake.
pub async fn malformed_conditions_are_refused(w: Arc<World>) {
    let (id, fence) = w.running(json!({})).await;
    let about = |subject: Option<&str>| ResumeCondition::Approval {
        waitpoint: waitpoint_key("answer"),
        needed: 1,
        by: Vec::new(),
        not_by: None,
        subject: subject.map(str::to_owned),
    };
    let (on, anything) = (|subject: &str| about(Some(subject)), about(None));
    let mut deep = single("answer", None);
    for _ in 0..5 {
        deep = ResumeCondition::AllOf(vec![deep]);
    }
    let wrong = [
        (deep, "depth 5 exceeds cap 4"),
        (ResumeCondition::AllOf(vec![]), "allof_empty_members"),
        (count(0, Distinct::Signals, &["answer"]), "count_n_zero"),
        (count(1, Distinct::Signals, &[]), "count_waitpoints_empty"),
        (count(2, Distinct::Waitpoints, &["answer"]), "count_exceeds_waitpoint_set"),
        (ResumeCondition::AllOf(vec![on("this"), on("that")]), "approval_subjects_differ"),
        (ResumeCondition::AllOf(vec![on("this"), anything]), "approval_subjects_differ"),
    ];
    for (condition, word) in wrong {
        let refused = w.run(Suspend { condition, ..w.pause(id, fence) }).await;
        let refused = refused.expect_err(word);
        assert_eq!(refused.code, Code::InvalidInput);
        assert!(refused.message.contains(word), "{}", refused.message);
    }
    assert_eq!(w.state(id).await, PublicState::Active);
}

fn approval(needed: u32, by: &[&str], not_by: Option<&str>) -> ResumeCondition {
    ResumeCondition::Approval {
        waitpoint: waitpoint_key("deploy"),
        needed,
        by: by.iter().map(|who| person(who)).collect(),
        not_by: not_by.map(person),
        subject: None,
    }
}

/// Two of three people, each once, and not the one who asked.
pub async fn people_approve_by_name(w: Arc<World>) {
    let condition = approval(2, &[], Some("ann"));
    let (_, own) = w.waiting_for(&["deploy"], condition).await;
    let say = |word: &str, who: &str| own[0].signal_from(&w, word, who);
    assert_eq!(w.deliver(say("approved", "ann")).await, Effect::IgnoredMatcherFailed);
    assert_eq!(w.deliver(say("approved", "bob")).await, Effect::Appended);
    assert_eq!(w.deliver(say("approved", "bob")).await, Effect::AppendedDuplicate);
    assert_eq!(w.deliver(say("approved", "")).await, Effect::IgnoredMatcherFailed);
    assert_eq!(w.deliver(say("perhaps", "cem")).await, Effect::IgnoredMatcherFailed);
    assert_eq!(w.deliver(say("approved", "cem")).await, Effect::ConditionSatisfied);
    let events = w.events(own[0].id).await;
    let who = events.iter().filter_map(|event| match &event.kind {
        EventKind::Signal { source_identity, .. } => Some(source_identity.as_str()),
        _ => None, // not ours: whatever else happened
    });
    assert_eq!(who.collect::<Vec<_>>(), ["ann", "bob", "bob", "", "cem", "cem"]);
}

/// One rejection ends the wait; a word once said stands.
pub async fn one_rejection_decides(w: Arc<World>) {
    let (_, own) = w.waiting_for(&["deploy"], approval(2, &["ann", "bob", "cem"], None)).await;
    let say = |word: &str, who: &str| own[0].signal_from(&w, word, who);
    assert_eq!(w.deliver(say("rejected", "eve")).await, Effect::IgnoredMatcherFailed);
    assert_eq!(w.deliver(say("approved", "ann")).await, Effect::Appended);
    assert_eq!(w.deliver(say("rejected", "ann")).await, Effect::AppendedDuplicate);
    assert_eq!(w.deliver(say("rejected", "bob")).await, Effect::ConditionSatisfied);
    assert_eq!(w.state(own[0].id).await, PublicState::Waiting);
}

/// Who approves says what; something else is refused, and the history keeps it.
pub async fn an_approval_is_bound_to_what_is_approved(w: Arc<World>) {
    let plan = r#"{"version": "1.4.2"}"#;
    let ResumeCondition::Approval { waitpoint, needed, by, not_by, .. } = approval(1, &[], None)
    else {
        unreachable!("it is one");
    };
    let subject = Some(plan.to_owned());
    let condition = ResumeCondition::Approval { waitpoint, needed, by, not_by, subject };
    let (_, own) = w.waiting_for(&["deploy"], condition).await;
    let say = |subject: Option<String>| DeliverSignal {
        subject,
        ..own[0].signal_from(&w, "approved", "ann")
    };
    for other in [None, Some(digest("something else")), Some(plan.to_owned())] {
        assert_eq!(code(w.run(say(other)).await), Code::SubjectMismatch);
    }
    assert!(w.signals(own[0].id).await.is_empty());
    let said = Some(digest(plan));
    assert_eq!(w.deliver(say(said.clone())).await, Effect::ConditionSatisfied);
    assert_eq!(w.signals(own[0].id).await[0].subject, said);
    let events = w.events(own[0].id).await;
    let kept = events
        .iter()
        .any(|event| matches!(&event.kind, EventKind::Signal { subject, .. } if *subject == said));
    assert!(kept, "who approved what is in the history");
}
