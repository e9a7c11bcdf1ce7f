//! Signals: kept, judged, counted once, and the last one that was missing lets the execution go on.

use ff_core::condition::{DECISION, PERSON, ResumeCondition, Word, digest};
use ff_core::decide::deliver::{Authority, DeliverSignal, Delivered};
use ff_core::decide::resume::Resume;
use ff_core::decide::suspend::Suspend;
use ff_core::event::{EventKind, EventName};
use ff_core::limits::{
    Config, DURATION_MS_MAX, SIGNAL_PAYLOAD_BYTES_MAX, SIGNAL_TEXT_BYTES_MAX, SIGNALS_MAX,
};
use ff_core::state::{BlockingReason, PublicState};
use ff_core::suspension::{CloseReason, Effect, Signal, WaitpointState};
use ff_core::text::{IdempotencyKey, SignalName};
use ff_core::{Code, Command};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::columns::what_is_written_reads_back_the_same;
use crate::commands::{ANSWER, EARLY, fresh, make_waitpoint, resume, signal, suspend};
use crate::samples::{BACKOFF_MS, policy};
use crate::suspensions::{answer, pause};
use crate::world::Life;

const OTHER: Uuid = Uuid::from_u128(0xC0);

fn active() -> Life {
    let mut life = Life::under(&policy());
    life.claim();
    life
}

fn suspended() -> Life {
    let mut life = active();
    pause(&mut life);
    life.told();
    life
}

/// Waits at `answer`, and at `other` if the condition looks there too.
fn waiting_for(condition: Value) -> Life {
    let condition: ResumeCondition = serde_json::from_value(condition).unwrap();
    let mut waitpoints = vec![fresh(ANSWER, "answer")];
    waitpoints.extend((condition.keys().len() > 1).then(|| fresh(OTHER, "other")));
    let mut life = active();
    life.tell(Suspend { waitpoints, condition, ..suspend(life.id, life.fence) });
    life.told();
    life
}

/// A signal `name` from somebody whom the server knows, to some waitpoint.
fn said(life: &Life, waitpoint: Uuid, n: u128, (name, who): (&str, &str)) -> DeliverSignal {
    DeliverSignal {
        authority: Authority::Operator,
        source_type: PERSON.to_owned(),
        name: SignalName::new(name).unwrap(),
        source_identity: who.to_owned(),
        ..signal(&life.world, life.id, waitpoint, n)
    }
}

/// What the signals lead to, one after the other.
fn effects(life: &mut Life, story: &[(Uuid, &str, &str)]) -> Vec<Effect> {
    let story = (1..).zip(story);
    let effects = story.map(|(n, (waitpoint, name, who))| {
        let sent = said(life, *waitpoint, n, (name, who));
        match life.tell(sent) {
            Delivered::Accepted { effect, .. } => effect,
            Delivered::Duplicate { .. } => panic!("{n} is new"),
        }
    });
    effects.collect()
}

#[test]
fn each_signal_is_told_what_it_led_to() {
    use Effect::{
        Appended, AppendedDuplicate, ConditionSatisfied, IgnoredMatcherFailed,
        IgnoredNotInCondition,
    };
    let count =
        json!({"count": {"n": 2, "distinct": "sources", "signal": "go", "waitpoints": ["answer"]}});
    let mut counted = waiting_for(count);
    let story = [
        (ANSWER, "stay", "ann"),
        (ANSWER, "go", "ann"),
        (ANSWER, "go", "ann"),
        (ANSWER, "go", "bob"),
    ];
    let expected = [IgnoredMatcherFailed, Appended, AppendedDuplicate, ConditionSatisfied];
    assert_eq!(effects(&mut counted, &story), expected);
    let both = json!({"all_of": [
        {"single": {"waitpoint": "answer", "signal": "go"}},
        {"approval": {"waitpoint": "other", "needed": 1, "not_by": "ann"}},
    ]});
    let mut decided = waiting_for(both);
    let story = [
        (ANSWER, "go", ""),
        (OTHER, "approved", "ann"),
        (OTHER, "approved", ""),
        (OTHER, "approved", "bob"),
    ];
    let expected = [Appended, IgnoredMatcherFailed, IgnoredMatcherFailed, ConditionSatisfied];
    assert_eq!(effects(&mut decided, &story), expected);
    let by = &decided.world.waits.suspensions[&decided.id].end.as_ref().unwrap().by;
    assert_eq!(*by, [1, 4].map(Uuid::from_u128), "those that count, in order");
    let mut operator = waiting_for(json!("operator_only"));
    assert_eq!(effects(&mut operator, &[(ANSWER, "go", "")]), [IgnoredNotInCondition]);
}

#[test]
fn a_signal_is_kept_as_it_was_sent_and_told_once() {
    let mut life = suspended();
    life.pass(5);
    let idempotency_key = Some(IdempotencyKey::new("once").unwrap());
    let created_at = Some(life.world.now.minus(3));
    let sent = signal(&life.world, life.id, ANSWER, 1);
    let sent = DeliverSignal { idempotency_key, created_at, ..sent };
    life.tell(sent.clone());
    let expected = Signal {
        execution: life.id,
        id: sent.signal,
        waitpoint: ANSWER,
        number: 0,
        name: sent.name.clone(),
        category: sent.category,
        source_type: sent.source_type,
        source_identity: sent.source_identity.clone(),
        subject: sent.subject.clone(),
        correlation_id: sent.correlation_id,
        idempotency_key: sent.idempotency_key,
        dedup_until: Some(life.world.now.plus(Config::default().dedup_window_ms)),
        created_at: life.world.now.minus(3),
        accepted_at: life.world.now,
        encoding: sent.encoding,
        payload: sent.payload,
        effect: Effect::ConditionSatisfied,
    };
    assert_eq!(life.world.waits.signals_of(life.id).collect::<Vec<_>>(), [&expected]);
    what_is_written_reads_back_the_same(&life.written);
    let told = EventKind::Signal {
        signal_id: sent.signal,
        waitpoint_id: ANSWER,
        name: sent.name,
        source_identity: sent.source_identity,
        subject: sent.subject,
        effect: Effect::ConditionSatisfied,
    };
    assert_eq!(life.events[0].kind, told);
    assert_eq!(life.told(), [EventName::Signal], "a resume is no completion");
}

#[test]
fn the_last_signal_closes_every_waitpoint_of_the_suspension_and_no_other() {
    let mut life = active();
    life.tell(make_waitpoint(life.id, life.fence));
    let condition =
        json!({"count": {"n": 1, "distinct": "signals", "waitpoints": ["answer", "other"]}});
    let waitpoints = vec![fresh(ANSWER, "answer"), fresh(OTHER, "other")];
    let condition = serde_json::from_value(condition).unwrap();
    life.tell(Suspend { waitpoints, condition, ..suspend(life.id, life.fence) });
    life.pass(5);
    answer(&mut life, 1);
    for waitpoint in [ANSWER, OTHER] {
        let state = life.world.waits.waitpoint(life.id, waitpoint).unwrap().state;
        let closed = matches!(state, WaitpointState::Closed { reason: CloseReason::Resumed, .. });
        assert!(closed, "{state:?}");
        let late = signal(&life.world, life.id, waitpoint, 9);
        assert_eq!(life.refused(late).code, Code::WaitpointClosed);
    }
    let early = signal(&life.world, life.id, EARLY, 2);
    let (effect, signal_id) = (Effect::Buffered, early.signal);
    assert_eq!(life.tell(early), Delivered::Accepted { signal_id, effect });
}

#[test]
fn a_signal_sent_twice_counts_once() {
    let mut life =
        waiting_for(json!({"count": {"n": 3, "distinct": "signals", "waitpoints": ["answer"]}}));
    let sent = signal(&life.world, life.id, ANSWER, 1);
    life.tell(sent.clone());
    let duplicate = Delivered::Duplicate { existing_signal_id: sent.signal };
    assert_eq!(life.repeat(sent.clone()), duplicate);
    // Under another id it is another one, unless they share a key and the key is remembered.
    let key = |n: u128, ttl_ms: Option<u64>| DeliverSignal {
        signal: Uuid::from_u128(n),
        idempotency_key: Some(IdempotencyKey::new("once").unwrap()),
        dedup_ttl_ms: ttl_ms,
        ..sent.clone()
    };
    life.tell(key(2, Some(100)));
    life.pass(99);
    let duplicate = Delivered::Duplicate { existing_signal_id: Uuid::from_u128(2) };
    assert_eq!(life.repeat(key(3, None)), duplicate);
    let mut forgotten = life.clone();
    forgotten.pass(1);
    forgotten.tell(key(3, None));
    assert_eq!(forgotten.states().0, PublicState::Waiting);
    // The one that closed it is known as well.
    let duplicate = Delivered::Duplicate { existing_signal_id: Uuid::from_u128(3) };
    assert_eq!(forgotten.repeat(key(3, None)), duplicate);
    let mut kept = waiting_for(json!("operator_only"));
    let never = |n| DeliverSignal { authority: Authority::Operator, ..key(n, Some(0)) };
    kept.tell(never(1));
    kept.tell(never(2));
}

#[test]
fn a_key_is_remembered_as_long_as_others_when_the_sender_does_not_say() {
    let mut life = waiting_for(json!("operator_only"));
    let sent = |life: &Life, n| DeliverSignal {
        idempotency_key: Some(IdempotencyKey::new("once").unwrap()),
        ..signal(&life.world, life.id, ANSWER, n)
    };
    life.tell(sent(&life, 1));
    life.pass(Config::default().dedup_window_ms - 1);
    life.repeat(sent(&life, 2));
    life.pass(1);
    life.tell(sent(&life, 2));
}

#[test]
fn a_resumed_execution_waits_as_long_as_it_is_asked_to() {
    let delayed = |delay_ms: Option<u64>, own_ms: u64| {
        let mut life = active();
        let own = suspend(life.id, life.fence);
        life.tell(Suspend { resume_delay_ms: own_ms, ..own });
        let sent = signal(&life.world, life.id, ANSWER, 1);
        life.tell(DeliverSignal { resume_delay_ms: delay_ms, ..sent });
        life
    };
    let mut let_on = suspended();
    let reply = let_on.tell(Resume { resume_delay_ms: BACKOFF_MS, ..resume(let_on.id) });
    assert_eq!(reply, PublicState::Delayed);
    for mut life in [delayed(Some(BACKOFF_MS), 7), delayed(None, BACKOFF_MS), let_on] {
        assert_eq!(life.vector().blocking_reason, BlockingReason::WaitingForResumeDelay);
        assert_eq!(life.states().0, PublicState::Delayed);
        life.pass(BACKOFF_MS - 1);
        let early = life.next_claim();
        assert_eq!(life.refused(early).code, Code::ExecutionNotLeaseable);
        life.pass(1);
        life.claim();
    }
    let at_once = delayed(Some(0), BACKOFF_MS);
    assert_eq!(at_once.states().0, PublicState::Waiting);
    assert_eq!(suspended().tell(resume(suspended().id)), PublicState::Waiting);
}

#[test]
fn an_execution_takes_so_many_signals_and_no_more() {
    let mut life = waiting_for(json!("operator_only"));
    answer(&mut life, 1);
    let mut last = life.world.waits.signals_of(life.id).next().unwrap().clone();
    (last.number, last.id) = (SIGNALS_MAX - 2, Uuid::from_u128(0xFF));
    life.world.waits.signals.insert((life.id, last.number), last);
    answer(&mut life, 2);
    let refused = life.refused(signal(&life.world, life.id, ANSWER, 3));
    assert_eq!(refused.code, Code::SignalLimitExceeded);
    // What came before is still known.
    life.repeat(signal(&life.world, life.id, ANSWER, 2));
}

#[test]
fn whoever_decides_says_on_what() {
    let mut life = waiting_for(
        json!({"approval": {"waitpoint": "answer", "needed": 1, "subject": "release 17"}}),
    );
    for (n, subject) in [(1, None), (2, Some(digest("release 18"))), (3, Some("release 17".into()))]
    {
        let sent = DeliverSignal { subject, ..said(&life, ANSWER, n, ("approved", "ann")) };
        let refused = life.refused(sent);
        assert_eq!((refused.code, refused.field), (Code::SubjectMismatch, Some("subject")));
        assert!(refused.message.contains(&digest("release 17")), "{refused}");
    }
    // Whoever has only a token is not told what he should have seen.
    let blind = signal(&life.world, life.id, ANSWER, 6);
    let refused = life.refused(DeliverSignal { name: Word::Approved.name().clone(), ..blind });
    assert_eq!(refused.code, Code::SubjectMismatch);
    assert!(!refused.message.contains(&digest("release 17")), "{refused}");
    // Other words decide nothing.
    life.tell(said(&life, ANSWER, 4, ("hello", "ann")));
    let subject = Some(digest("release 17"));
    life.tell(DeliverSignal { subject, ..said(&life, ANSWER, 5, ("approved", "ann")) });
    assert_eq!(life.states().0, PublicState::Waiting);
}

#[test]
fn whoever_has_only_a_token_decides_for_nobody() {
    let mut life =
        waiting_for(json!({"approval": {"waitpoint": "answer", "needed": 1, "by": ["ann"]}}));
    let sent = DeliverSignal {
        name: Word::Approved.name().clone(),
        source_identity: "ann".to_owned(),
        ..signal(&life.world, life.id, ANSWER, 1)
    };
    let config = Config::default();
    let key = IdempotencyKey::new(format!("{DECISION}rejected:x")).unwrap();
    for (pretends, field) in [
        (DeliverSignal { source_type: PERSON.to_owned(), ..sent.clone() }, "source_type"),
        (DeliverSignal { idempotency_key: Some(key), ..sent.clone() }, "idempotency_key"),
    ] {
        let refused = Command::from(pretends.clone()).validate(&config).unwrap_err();
        assert_eq!((refused.code, refused.field), (Code::InvalidInput, Some(field)));
        let known = DeliverSignal { authority: Authority::Operator, ..pretends };
        Command::from(known).validate(&config).unwrap();
    }
    let effect = Effect::IgnoredMatcherFailed;
    assert_eq!(life.tell(sent), Delivered::Accepted { signal_id: Uuid::from_u128(1), effect });
    life.tell(said(&life, ANSWER, 2, ("approved", "ann")));
    assert_eq!(life.states().0, PublicState::Waiting);
}

#[test]
fn an_operator_needs_no_token_and_learns_that_there_is_no_waitpoint() {
    let mut life = suspended();
    let sent = |waitpoint| DeliverSignal {
        authority: Authority::Operator,
        ..signal(&life.world, life.id, waitpoint, 1)
    };
    let (nowhere, here) = (sent(EARLY), sent(ANSWER));
    assert_eq!(life.refused(nowhere).code, Code::WaitpointNotFound);
    life.tell(here);
    assert_eq!(life.states().0, PublicState::Waiting);
}

#[test]
fn an_operator_resumes_whatever_it_waits_for_and_no_signal_says_why() {
    for condition in [
        json!("operator_only"),
        json!({"single": {"waitpoint": "answer"}}),
        json!({"count": {"n": 9, "distinct": "signals", "waitpoints": ["answer", "other"]}}),
    ] {
        let mut life = waiting_for(condition);
        life.tell(resume(life.id));
        assert_eq!(life.told(), [EventName::Resumed]);
        let end = life.world.waits.suspensions[&life.id].end.clone().unwrap();
        assert_eq!((end.how, end.by), (CloseReason::Resumed, Vec::new()));
        assert_eq!(life.refused(resume(life.id)).code, Code::ExecutionNotSuspended);
    }
}

#[test]
fn a_signal_that_is_too_large_is_refused_at_once() {
    let life = suspended();
    let sent = signal(&life.world, life.id, ANSWER, 1);
    let long = "x".repeat(SIGNAL_TEXT_BYTES_MAX + 1);
    let payload =
        |bytes: usize| DeliverSignal { payload: Some(vec![0; bytes].into()), ..sent.clone() };
    let config = Config::default();
    Command::from(payload(SIGNAL_PAYLOAD_BYTES_MAX)).validate(&config).unwrap();
    for (command, code, field) in [
        (payload(SIGNAL_PAYLOAD_BYTES_MAX + 1), Code::PayloadTooLarge, "payload"),
        (
            DeliverSignal { category: long.clone(), ..sent.clone() },
            Code::InvalidInput,
            "signal_category",
        ),
        (
            DeliverSignal { source_type: long.clone(), ..sent.clone() },
            Code::InvalidInput,
            "source_type",
        ),
        (
            DeliverSignal { source_identity: long.clone(), ..sent.clone() },
            Code::InvalidInput,
            "source_identity",
        ),
        (
            DeliverSignal { subject: Some(long.clone()), ..sent.clone() },
            Code::InvalidInput,
            "subject",
        ),
        (
            DeliverSignal { correlation_id: Some(long), ..sent.clone() },
            Code::InvalidInput,
            "correlation_id",
        ),
        (
            DeliverSignal { resume_delay_ms: Some(DURATION_MS_MAX + 1), ..sent.clone() },
            Code::InvalidInput,
            "resume_delay_ms",
        ),
        (
            DeliverSignal { dedup_ttl_ms: Some(DURATION_MS_MAX + 1), ..sent.clone() },
            Code::InvalidInput,
            "dedup_ttl_ms",
        ),
    ] {
        let refused = Command::from(command).validate(&config).unwrap_err();
        assert_eq!((refused.code, refused.field), (code, Some(field)), "{refused}");
    }
}
