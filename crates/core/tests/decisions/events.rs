//! The feed: endings, failed attempts, lost leases, operators. Nothing about the daily routine.

use ff_core::decide::attempt_timeout::TimeOutAttempt;
use ff_core::decide::claim::Claim;
use ff_core::decide::deadline::ExpireExecution;
use ff_core::decide::lease_expiry::ExpireLease;
use ff_core::decide::priority::ChangePriority;
use ff_core::decide::unhold::Unhold;
use ff_core::event::EventName::{
    AttemptFailed, Completion, Held, LeaseExpired, LeaseReclaimed, LeaseRevoked, PriorityChanged,
    Replayed, Unheld,
};
use ff_core::event::{EventKind, EventName};
use ff_core::policy::FailureClass;

use crate::commands::{
    cancel, complete, delay, fail, give_up, hold, progress, release, renew, replay, revoke,
    set_tags,
};
use crate::samples::{ATTEMPT_MS, BACKOFF_MS, DEADLINE_MS, cases, policy, samples};
use crate::world::{LEASE_TTL_MS, Life, worker};

fn active() -> Life {
    let mut life = Life::under(&policy());
    life.claim();
    life
}

fn lapse(life: &mut Life) {
    life.pass(LEASE_TTL_MS);
    life.tell(ExpireLease { id: life.id, lease_epoch: life.fence.lease_epoch });
}

#[test]
fn a_quiet_life_leaves_one_event() {
    let mut life = active();
    life.tell(renew(life.id, life.fence));
    life.tell(progress(life.id, life.fence, 50));
    life.tell(set_tags(life.id, &[("a.b", "c")], &[]));
    life.tell(release(life.id, life.fence));
    life.claim();
    life.tell(delay(life.id, life.fence, life.world.now));
    life.claim();
    assert_eq!(life.told(), []);
    life.tell(complete(life.id, life.fence));
    assert_eq!(life.told(), [Completion]);
}

#[test]
fn a_hard_life_leaves_one_event_for_each_blow() {
    let mut life = active();
    lapse(&mut life);
    assert_eq!(life.told(), [LeaseExpired]);
    life.claim();
    assert_eq!(life.told(), [LeaseReclaimed]);
    life.tell(fail(life.id, life.fence, FailureClass::Transient));
    assert_eq!(life.told(), [AttemptFailed]);
    life.pass(BACKOFF_MS);
    life.claim();
    assert_eq!(life.told(), []);
    life.tell(fail(life.id, life.fence, FailureClass::Transient));
    assert_eq!(life.told(), [Completion]);
    life.tell(replay(life.id));
    assert_eq!(life.told(), [Replayed]);
    life.claim();
    assert_eq!(life.told(), []);
    life.tell(give_up(life.id, life.fence));
    assert_eq!(life.told(), [Completion]);
}

#[test]
fn what_operators_do_is_told() {
    let mut life = Life::under(&policy());
    life.tell(ChangePriority { id: life.id, priority: 7, version: None });
    life.tell(hold(life.id));
    life.tell(Unhold { id: life.id, version: None });
    life.claim();
    life.tell(revoke(life.id));
    life.tell(cancel(life.id));
    let expected = [PriorityChanged, Held, Unheld, LeaseRevoked, Completion];
    assert_eq!(life.told(), expected);
}

#[test]
fn a_lease_that_the_engine_takes_away_is_told_before_what_follows() {
    let mut life = Life::under(&policy());
    let claim = Claim { lease_ttl_ms: 2 * DEADLINE_MS, ..life.next_claim() };
    life.take(claim);
    life.pass(ATTEMPT_MS);
    let mut overdue = life.clone();
    life.tell(TimeOutAttempt { id: life.id });
    assert_eq!(life.told(), [LeaseRevoked, AttemptFailed]);
    overdue.pass(DEADLINE_MS);
    overdue.tell(ExpireExecution { id: overdue.id });
    let EventKind::LeaseRevoked { reason, .. } = &overdue.events[0].kind else {
        panic!("{:?}", overdue.events)
    };
    assert_eq!(reason, "execution_deadline");
    assert_eq!(overdue.told(), [LeaseRevoked, Completion]);
}

#[test]
fn the_events_of_a_lease_name_its_attempt_and_its_worker() {
    let mut life = active();
    lapse(&mut life);
    life.claim();
    let expected = [
        EventKind::LeaseExpired { attempt_index: 0, worker: worker("worker-1"), retry_at: None },
        EventKind::LeaseReclaimed { attempt_index: 1, worker: worker("worker-2") },
    ];
    let told: Vec<_> = life.events.into_iter().map(|event| event.kind).collect();
    assert_eq!(told, expected);
}

#[test]
fn every_event_says_whose_it_is_and_when_it_happened() {
    for sample in samples() {
        for case in cases(&sample.life) {
            let mut world = sample.life.world.clone();
            let (_, set) = world.send(case.command);
            for event in set.events {
                assert_eq!(event.execution.is_none(), event.kind.of_flow());
                let Some(id) = event.execution else {
                    let flow = world.rows.graph.flow(event.flow.unwrap()).unwrap();
                    assert_eq!((event.namespace, event.lane), (flow.spec.namespace.clone(), None));
                    assert_eq!(event.at, flow.updated_at);
                    continue;
                };
                let x = world.find(id).unwrap();
                assert_eq!(event.flow, x.flow());
                assert_eq!(event.namespace, x.spec.namespace);
                assert_eq!(event.lane.as_ref(), Some(&x.spec.lane));
                assert_eq!(event.at, x.updated_at);
            }
        }
    }
}

#[test]
fn every_kind_of_event_comes_about() {
    let mut seen = std::collections::BTreeSet::new();
    for sample in samples() {
        seen.extend(sample.life.events.iter().map(|event| event.kind.name()));
        for case in cases(&sample.life) {
            let (_, set) = sample.life.world.clone().send(case.command);
            seen.extend(set.events.iter().map(|event| event.kind.name()));
        }
    }
    assert_eq!(seen, EventName::ALL.iter().copied().collect());
}
