//! Creating: what a repeat is, what a clash is, and how long a key is remembered.

use bytes::Bytes;
use ff_core::decide::create::{Create, Created};
use ff_core::decide::key_expiry::ForgetKey;
use ff_core::decide::retention::Trim;
use ff_core::execution::{State, first_epoch};
use ff_core::fold::BlobRef;
use ff_core::limits::DURATION_MS_MAX;
use ff_core::policy::Policy;
use ff_core::state::{AttemptState, PublicState};
use ff_core::text::{Creator, Encoding, IdempotencyKey, Kind, LaneId, Namespace};
use ff_core::time::Millis;
use ff_core::{Code, Command};
use serde_json::json;

use crate::commands::cancel;
use crate::world::{DAWN, Life, create, id, key, tags};

/// A creation without a key.
fn keyless(n: u128) -> Create {
    Create { idempotency_key: None, ..create(n) }
}

fn forget() -> ForgetKey {
    ForgetKey { namespace: create(1).namespace, key: key() }
}

fn duplicate_of(n: u128) -> Created {
    Created::Duplicate { execution_id: id(n) }
}

#[test]
fn a_new_execution_is_claimable_from_the_moment_it_exists() {
    let mut life = Life::unborn(create(1));
    let created = life.tell(create(1));
    let expected = Created::Created { execution_id: id(1), public_state: PublicState::Waiting };
    assert_eq!(created, expected);
    assert_eq!(life.states().1, AttemptState::PendingFirstAttempt);
    let x = life.x();
    assert_eq!((x.version, x.epoch, x.started_at), (1, first_epoch(DAWN), None));
    assert_eq!((x.spec.created_at, x.updated_at), (DAWN, DAWN));
    assert!(life.events.is_empty());
    life.claim();
}

#[test]
fn a_delay_applies_only_when_it_lies_in_the_future() {
    for (delay_until, state) in [
        (DAWN.plus(1), PublicState::Delayed),
        (DAWN, PublicState::Waiting),
        (Millis::ZERO, PublicState::Waiting),
    ] {
        let creation = Create { delay_until: Some(delay_until), ..create(1) };
        let mut life = Life::unborn(creation.clone());
        let Created::Created { public_state, .. } = life.tell(creation) else {
            panic!("{:?}", life.x())
        };
        assert_eq!(public_state, state);
        let State::Runnable(runnable) = &life.x().state else { panic!("{:?}", life.x()) };
        assert_eq!(runnable.wait.is_some(), state == PublicState::Delayed);
    }
}

#[test]
fn the_input_is_kept_unless_there_is_nothing_to_keep() {
    let life = Life::begin(create(1));
    let blob = &life.written.blobs[0];
    assert_eq!(blob.at, BlobRef::Input(id(1)));
    assert_eq!(blob.bytes, create(1).input);
    let empty = Create { input: Bytes::new(), ..create(1) };
    let life = Life::begin(empty.clone());
    assert_eq!(life.written.blobs[0].encoding, create(1).encoding);
    let life = Life::begin(Create { encoding: None, ..empty });
    assert!(life.written.blobs.is_empty());
}

#[test]
fn the_same_key_and_content_is_a_duplicate_whatever_the_id() {
    let mut life = Life::begin(create(1));
    assert_eq!(life.repeat(create(1)), duplicate_of(1));
    assert_eq!(life.repeat(create(2)), duplicate_of(1));
    assert!(life.world.find(id(2)).is_none());
}

#[test]
fn the_same_id_and_content_is_a_duplicate_without_any_key() {
    let mut life = Life::begin(keyless(1));
    assert_eq!(life.repeat(keyless(1)), duplicate_of(1));
    life.claim();
    life.tell(cancel(life.id));
    life.pass(1_000_000);
    assert_eq!(life.repeat(keyless(1)), duplicate_of(1));
}

#[test]
fn a_key_belongs_to_its_namespace() {
    let mut life = Life::begin(create(1));
    let elsewhere = Create { namespace: Namespace::new("bank").unwrap(), ..create(2) };
    assert_eq!(life.tell(elsewhere).execution_id(), id(2));
}

#[test]
fn a_key_is_remembered_for_its_window_and_no_longer() {
    let policy = Policy::parse(&json!({"dedup_window_ms": 500})).unwrap();
    let create = |n| Create { policy: policy.clone(), ..create(n) };
    let mut life = Life::begin(create(1));
    life.pass(499);
    assert_eq!(life.repeat(create(2)), duplicate_of(1));
    assert!(!life.repeat(forget()));
    life.pass(1);
    let mut forgotten = life.clone();
    assert!(forgotten.tell(forget()));
    assert!(!forgotten.repeat(forget()));
    for mut life in [life, forgotten] {
        assert_eq!(life.repeat(create(1)), duplicate_of(1), "the id still tells");
        assert!(matches!(life.tell(create(2)), Created::Created { .. }));
        assert_eq!(life.repeat(create(3)), duplicate_of(2), "the key is taken again");
    }
}

#[test]
fn without_a_policy_the_deployment_says_how_long_a_key_is_remembered() {
    let mut life = Life::unborn(create(1));
    life.world.config.dedup_window_ms = 77;
    life.tell(create(1));
    life.pass(76);
    assert!(!life.repeat(forget()));
    life.pass(1);
    assert!(life.tell(forget()));
}

#[test]
fn a_key_outlives_the_execution_it_stands_for() {
    let policy = Policy::parse(&json!({"retention_ms": 0})).unwrap();
    let create = |n| Create { policy: policy.clone(), ..create(n) };
    let mut life = Life::begin(create(1));
    life.tell(cancel(life.id));
    assert!(life.tell(Trim { id: life.id }));
    assert_eq!(life.repeat(create(2)), duplicate_of(1));
}

/// The same creation with one field changed, by the name under which a clash reports it.
fn one_field_changed() -> Vec<(&'static str, Create)> {
    let policy = Policy::parse(&json!({"max_replay_count": 1})).unwrap();
    let changed = |change: fn(&mut Create)| {
        let mut creation = create(1);
        change(&mut creation);
        creation
    };
    vec![
        ("namespace", changed(|c| c.namespace = Namespace::new("x").unwrap())),
        ("lane_id", changed(|c| c.lane = LaneId::new("x").unwrap())),
        ("execution_kind", changed(|c| c.kind = Kind::new("x").unwrap())),
        ("input_payload", changed(|c| c.input = Bytes::from_static(b"x"))),
        ("payload_encoding", changed(|c| c.encoding = Some(Encoding::new("x").unwrap()))),
        ("payload_encoding", changed(|c| c.encoding = None)),
        ("priority", changed(|c| c.priority = 101)),
        ("creator_identity", changed(|c| c.creator = Creator::new("x").unwrap())),
        (
            "idempotency_key",
            changed(|c| c.idempotency_key = Some(IdempotencyKey::new("x").unwrap())),
        ),
        ("idempotency_key", changed(|c| c.idempotency_key = None)),
        ("tags", changed(|c| c.tags = tags(&[("shop.city", "Rome")]))),
        ("policy", Create { policy, ..create(1) }),
        ("delay_until", changed(|c| c.delay_until = Some(DAWN))),
        ("execution_deadline_at", changed(|c| c.deadline_at = Some(DAWN.plus(1)))),
    ]
}

#[test]
fn an_id_used_with_other_content_is_a_conflict_that_names_the_field() {
    let mut life = Life::begin(create(1));
    for (field, other) in one_field_changed() {
        // The key would speak first; once it is forgotten, the id does.
        let known_by_key = !matches!(field, "namespace" | "idempotency_key");
        let code =
            if known_by_key { Code::IdempotencyKeyConflict } else { Code::ExecutionIdConflict };
        let refused = life.refused(other.clone());
        assert_eq!((refused.code, refused.field), (code, Some(field)));
        let mut later = life.clone();
        later.pass(86_400_000);
        let refused = later.refused(other);
        let expected = (Code::ExecutionIdConflict, Some(field));
        assert_eq!((refused.code, refused.field), expected);
    }
}

#[test]
fn a_key_used_with_other_content_is_a_conflict_that_names_the_field() {
    let mut life = Life::begin(create(1));
    for (field, other) in one_field_changed() {
        let other = Create { id: id(2), ..other };
        if matches!(field, "namespace" | "idempotency_key") {
            continue; // another key altogether
        }
        let refused = life.refused(other);
        let expected = (Code::IdempotencyKeyConflict, Some(field));
        assert_eq!((refused.code, refused.field), expected);
        assert!(refused.message.contains(&id(1).to_string()), "{refused}");
    }
}

#[test]
fn of_several_differences_the_first_is_named() {
    let mut life = Life::begin(create(1));
    let refused = life.refused(Create {
        tags: tags(&[]),
        priority: 1,
        kind: Kind::new("x").unwrap(),
        ..create(1)
    });
    assert_eq!(refused.field, Some("execution_kind"));
}

#[test]
fn creations_in_one_batch_see_each_other() {
    let mut life = Life::unborn(create(1));
    let other = Create { priority: 1, ..create(3) };
    let batch = [create(1), create(2), other].map(Command::from);
    let (outcomes, set) = life.world.fold(&batch);
    assert!(outcomes[0].is_ok() && outcomes[1].is_ok());
    let clash = outcomes[2].as_ref().unwrap_err();
    assert_eq!(clash.code, Code::IdempotencyKeyConflict);
    assert_eq!((set.executions.len(), set.keys.len(), set.blobs.len()), (1, 1, 1));
}

#[test]
fn times_before_the_epoch_or_too_far_away_are_refused() {
    let mut life = Life::unborn(create(1));
    for at in [Millis(-1), DAWN.plus(DURATION_MS_MAX + 1), Millis(i64::MAX)] {
        let delayed = Create { delay_until: Some(at), ..create(1) };
        assert_eq!(life.refused(delayed).field, Some("delay_until"));
        let bounded = Create { deadline_at: Some(at), ..create(1) };
        let refused = life.refused(bounded);
        assert_eq!(refused.field, Some("execution_deadline_at"));
        assert_eq!(refused.code, Code::InvalidInput);
    }
}

#[test]
fn what_makes_no_sense_is_refused_before_any_row_is_read() {
    let life = Life::unborn(create(1));
    let config = ff_core::Config { payload_bytes_max: 4, ..life.world.config };
    let window = Policy::parse(&json!({"dedup_window_ms": 5})).unwrap();
    for (creation, code, field) in [
        (create(1), Code::PayloadTooLarge, "input_payload"),
        (Create { priority: -1, ..create(1) }, Code::InvalidInput, "priority"),
        (
            Create { tags: tags(&[("plain", "")]), input: Bytes::new(), ..create(1) },
            Code::InvalidTagKey,
            "tags",
        ),
        (
            Create { policy: window, input: Bytes::new(), ..keyless(1) },
            Code::InvalidInput,
            "dedup_window_ms",
        ),
    ] {
        let refused = Command::from(creation).validate(&config).unwrap_err();
        assert_eq!((refused.code, refused.field), (code, Some(field)));
    }
}
