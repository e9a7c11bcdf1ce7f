//! What operators may do besides cancelling and replaying: priority, hold, tags, revocation.

use ff_core::Code;
use ff_core::decide::Lost;
use ff_core::decide::consumer::SaveCursor;
use ff_core::decide::create::Create;
use ff_core::decide::lease_expiry::ExpireLease;
use ff_core::decide::priority::{ChangePriority, PriorityChanged};
use ff_core::decide::revoke::{Revoke, Revoked};
use ff_core::decide::unhold::Unhold;
use ff_core::event::{Cursor, EventKind, EventName};
use ff_core::execution::{Fence, LeaseEnd};
use ff_core::limits::TAGS_MAX;
use ff_core::policy::FailureClass;
use ff_core::state::{AttemptState, BlockingReason, EligibilityState, Phase, PublicState};
use serde_json::json;

use crate::commands::{
    complete, consumer, delay, drop_consumer, fail, hold, release, revoke, save_cursor, set_tags,
};
use crate::samples::{BACKOFF_MS, policy, samples};
use crate::world::{LEASE_TTL_MS, Life, create, tags, worker};

fn active() -> Life {
    let mut life = Life::under(&policy());
    life.claim();
    life
}

#[test]
fn priority_changes_only_while_it_waits_for_a_worker_right_now() {
    for sample in samples() {
        let mut life = sample.life;
        if life.find().is_none() {
            continue;
        }
        let change = ChangePriority { id: life.id, priority: 9_000, version: None };
        if life.vector().eligibility_state == EligibilityState::EligibleNow {
            let changed = life.tell(change.clone());
            assert_eq!(changed, PriorityChanged { from: 100, to: 9_000 });
            assert_eq!(life.written.events.len(), 1);
            let again = life.repeat(change);
            assert_eq!(again, PriorityChanged { from: 9_000, to: 9_000 });
        } else {
            let refused = life.refused(change);
            assert_eq!(refused.code, Code::ExecutionNotEligible, "{}", sample.name);
        }
    }
}

#[test]
fn a_priority_out_of_range_is_refused_not_clamped() {
    let life = Life::under(&policy());
    for priority in [-1, 9_001, i32::MIN, i32::MAX] {
        let command =
            ff_core::Command::from(ChangePriority { id: life.id, priority, version: None });
        let refused = command.validate(&life.world.config).unwrap_err();
        assert_eq!(refused.field, Some("priority"));
    }
}

#[test]
fn what_is_held_cannot_be_claimed_until_it_is_let_go() {
    let mut life = Life::under(&policy());
    life.tell(hold(life.id));
    let vector = life.vector();
    assert_eq!(vector.public_state, PublicState::Waiting);
    assert_eq!(vector.eligibility_state, EligibilityState::BlockedByOperator);
    assert_eq!(vector.blocking_reason, BlockingReason::PausedByOperator);
    assert_eq!(vector.blocking_detail.unwrap(), "held: stocktaking");
    let claim = life.next_claim();
    assert_eq!(life.refused(claim).code, Code::ExecutionNotLeaseable);
    life.tell(Unhold { id: life.id, version: None });
    life.claim();
    assert_eq!(life.told(), [EventName::Held, EventName::Unheld]);
}

#[test]
fn a_second_hold_and_a_second_unhold_change_nothing() {
    let mut life = Life::under(&policy());
    life.tell(hold(life.id));
    let mut other = hold(life.id);
    other.reason = "lunch".to_owned();
    life.repeat(other);
    assert_eq!(life.vector().blocking_detail.unwrap(), "held: stocktaking");
    life.tell(Unhold { id: life.id, version: None });
    life.repeat(Unhold { id: life.id, version: None });
}

#[test]
fn a_hold_neither_shortens_nor_forgets_a_delay() {
    let mut life = active();
    life.tell(fail(life.id, life.fence, FailureClass::Transient));
    life.tell(hold(life.id));
    life.tell(Unhold { id: life.id, version: None });
    assert_eq!(life.states().0, PublicState::Delayed);
    life.tell(hold(life.id));
    life.pass(BACKOFF_MS);
    life.tell(Unhold { id: life.id, version: None });
    let states = (PublicState::Waiting, AttemptState::PendingRetryAttempt);
    assert_eq!(life.states(), states);
}

#[test]
fn only_what_waits_can_be_held_or_let_go() {
    for sample in samples() {
        let mut life = sample.life;
        let Some(phase) = life.find().map(|x| x.state.phase()) else {
            continue;
        };
        if phase == Phase::Runnable {
            life.tell(hold(life.id));
            life.tell(Unhold { id: life.id, version: None });
        } else {
            assert_eq!(life.refused(hold(life.id)).code, Code::NotRunnable);
            let refused = life.refused(Unhold { id: life.id, version: None });
            assert_eq!(refused.code, Code::NotRunnable);
        }
    }
}

#[test]
fn tags_can_be_changed_in_every_state_without_an_event() {
    for sample in samples() {
        let mut life = sample.life;
        if life.find().is_none() {
            continue;
        }
        let state = life.x().state.clone();
        let change = set_tags(life.id, &[("shop.city", "Rome"), ("a.b", "")], &[]);
        assert_eq!(life.tell(change.clone()), 2);
        assert_eq!(life.x().tags, tags(&[("a.b", ""), ("shop.city", "Rome")]));
        assert_eq!(life.x().state, state, "{}", sample.name);
        assert!(life.written.events.is_empty());
        assert_eq!(life.repeat(change), 2);
    }
}

#[test]
fn a_tag_is_set_or_removed_and_not_both() {
    let mut life = Life::under(&policy());
    let change = set_tags(life.id, &[("shop.city", "Rome")], &["shop.city", "no.such"]);
    let refused = ff_core::Command::from(change).validate(&life.world.config).unwrap_err();
    assert_eq!((refused.code, refused.field), (Code::InvalidInput, Some("remove")));
    let change = set_tags(life.id, &[("shop.city", "Rome")], &["no.such"]);
    assert_eq!(life.tell(change), 1);
    assert_eq!(life.x().tags, tags(&[("shop.city", "Rome")]));
    assert_eq!(life.tell(set_tags(life.id, &[], &["shop.city"])), 0);
}

#[test]
fn tags_have_a_number_and_a_form() {
    let many: Vec<_> = (1..=TAGS_MAX).map(|n| format!("n.t{n}")).collect();
    let many: Vec<_> = many.iter().map(|key| (key.as_str(), "")).collect();
    let mut life = Life::under(&policy());
    let refused = life.refused(set_tags(life.id, &many, &[]));
    assert_eq!((refused.code, refused.field), (Code::InvalidInput, Some("tags")));
    assert_eq!(life.tell(set_tags(life.id, &many, &["shop.city"])), TAGS_MAX);
    for bad in ["plain", "Shop.city", ".x", "a.", "a b.c", "1a.b"] {
        for command in [set_tags(life.id, &[(bad, "")], &[]), set_tags(life.id, &[], &[bad])] {
            let command = ff_core::Command::from(command);
            let refused = command.validate(&life.world.config).unwrap_err();
            assert_eq!(refused.code, Code::InvalidTagKey, "{bad}");
        }
    }
}

#[test]
fn a_revoked_lease_sends_it_to_the_next_worker() {
    let mut life = active();
    let revoked = life.tell(revoke(life.id));
    let lost = Lost::Requeued;
    assert_eq!(revoked, Revoked::Revoked { lease_epoch: life.fence.lease_epoch, lost });
    let states = (PublicState::Waiting, AttemptState::PendingReclaimAttempt);
    assert_eq!(life.states(), states);
    let how = LeaseEnd::Revoked;
    assert_eq!(life.repeat(revoke(life.id)), Revoked::AlreadySatisfied { how });
    let expected = EventKind::LeaseRevoked {
        attempt_index: 0,
        worker: worker("worker-1"),
        reason: "it hangs".to_owned(),
    };
    assert_eq!(life.events[0].kind, expected);
}

#[test]
fn revoking_what_already_ran_out_says_so() {
    let mut life = active();
    life.pass(LEASE_TTL_MS);
    life.tell(ExpireLease { id: life.id, lease_epoch: life.fence.lease_epoch });
    let how = LeaseEnd::Expired;
    assert_eq!(life.repeat(revoke(life.id)), Revoked::AlreadySatisfied { how });
}

#[test]
fn a_revocation_may_name_the_lease_or_the_worker_it_means() {
    let mut life = active();
    let lease_epoch = life.fence.lease_epoch + 2;
    let other_fence =
        Revoke { expected: Some(Fence { lease_epoch, ..life.fence }), ..revoke(life.id) };
    assert_eq!(life.refused(other_fence).code, Code::StaleLease);
    let other_worker =
        Revoke { worker_instance: Some(worker("worker-2").instance), ..revoke(life.id) };
    assert_eq!(life.refused(other_worker).code, Code::StaleLease);
    life.tell(Revoke {
        expected: Some(life.fence),
        worker_instance: Some(worker("worker-1").instance),
        ..revoke(life.id)
    });
}

#[test]
fn there_is_no_lease_to_revoke_where_nobody_lost_one() {
    let mut life = Life::under(&policy());
    assert_eq!(life.refused(revoke(life.id)).code, Code::NoActiveLease);
    life.claim();
    let mut released = life.clone();
    released.tell(release(life.id, life.fence));
    assert_eq!(released.refused(revoke(life.id)).code, Code::NoActiveLease);
    life.tell(delay(life.id, life.fence, life.world.now));
    assert_eq!(life.refused(revoke(life.id)).code, Code::NoActiveLease);
    life.claim();
    life.tell(complete(life.id, life.fence));
    assert_eq!(life.refused(revoke(life.id)).code, Code::ExecutionNotActive);
}

#[test]
fn a_delayed_execution_reads_waiting_once_its_time_has_come() {
    let mut life = Life::begin(Create {
        delay_until: Some(crate::world::DAWN.plus(5)),
        policy: ff_core::Policy::parse(&json!({})).unwrap(),
        ..create(1)
    });
    let vector = life.vector();
    assert_eq!(vector.public_state, PublicState::Delayed);
    assert_eq!(vector.eligibility_state, EligibilityState::NotEligibleUntilTime);
    assert_eq!(vector.blocking_detail.unwrap(), "delayed until 1000005");
    life.pass(5);
    let vector = life.vector();
    assert_eq!(vector.public_state, PublicState::Waiting);
    assert_eq!(vector.eligibility_state, EligibilityState::EligibleNow);
    assert_eq!(vector.blocking_detail, None);
}

#[test]
fn a_consumer_keeps_its_place_may_go_back_and_may_leave() {
    let mut life = Life::under(&policy());
    for seq in [5, 9, 2] {
        life.tell(save_cursor(seq));
        let row = life.world.rows.consumer(&consumer()).unwrap();
        assert_eq!(row.cursor, Cursor::Seq(seq));
        assert_eq!(row.updated_at, life.world.now);
    }
    life.tell(drop_consumer());
    assert_eq!(life.refused(drop_consumer()).code, Code::ConsumerNotFound);
}

#[test]
fn a_cursor_of_another_kind_of_store_is_not_saved() {
    let mut life = Life::under(&policy());
    life.tell(save_cursor(5));
    let cursor = "window:5:5:@1/7:9:8@2/2".parse().unwrap();
    let refused = life.refused(SaveCursor { consumer: consumer(), cursor, saved: None });
    assert_eq!((refused.code, refused.field), (Code::InvalidInput, Some("cursor")));
    assert_eq!(life.world.rows.consumer(&consumer()).unwrap().cursor, Cursor::Seq(5));
}
