//! Repeating a claim under its id, and claiming one execution by name.

use std::sync::Arc;

use ff_core::ClaimAsk;
use ff_core::backend::{Claimed, Duty};
use ff_core::decide::claim::{Claim, ClaimKind};
use ff_core::decide::create::Create;
use ff_core::decide::release::Release;
use ff_core::error::Code;
use ff_core::state::{Phase, PublicState, TerminalOutcome};
use serde_json::json;

use super::calls::{capabilities, ids_of, requiring};
use crate::world::{TTL_MS, World, code, worker};

const TTL: i64 = TTL_MS.cast_signed();

/// A worker that lost the answer finds its work again, and no attempt is counted for it. Its leases last
/// as long from then on as they would have.
pub async fn a_repeated_claim_finds_the_same_leases(w: Arc<World>) {
    for _ in 0..3 {
        w.create(w.draft()).await;
    }
    let ask = w.ask(2);
    let first = w.claim(ask.clone()).await;
    w.pass(10);
    let mut again = w.claim(ask).await;
    again.sort_by_key(|c| ids_of(&first).iter().position(|id| *id == c.leased.execution.id));
    let held = |claimed: &[Claimed]| {
        let held = claimed.iter().map(|c| (c.leased.execution.id, c.leased.kind, c.leased.fence));
        held.collect::<Vec<_>>()
    };
    assert_eq!(held(&again), held(&first));
    assert_eq!(again[0].leased.lease_until, first[0].leased.lease_until.plus(10));
    assert_eq!(first[0].leased.execution.counts.attempts, 1);
}

/// What a broken connection did not deliver is released, unless its claim was repeated since, or its
/// holder has renewed it.
pub async fn what_was_not_delivered_is_released_unless_its_claim_was_repeated(w: Arc<World>) {
    let id = w.create(w.draft()).await;
    let untaken = |fence| Release { id, fence, untaken: true };
    let first = w.claim(w.ask(1)).await.remove(0).leased.fence;
    assert_eq!(w.run(untaken(first)).await, Ok(()));
    assert_eq!(w.state(id).await, PublicState::Waiting);
    let ask = w.ask(1);
    let fence = w.claim(ask.clone()).await.remove(0).leased.fence;
    w.pass(1);
    assert_eq!(w.claim(ask).await.remove(0).leased.fence, fence);
    assert_eq!(w.run(untaken(fence)).await, Ok(()));
    assert_eq!(w.state(id).await, PublicState::Active);
    assert_eq!(w.run(Release { untaken: false, ..untaken(fence) }).await, Ok(()));
    let fence = w.claim(w.ask(1)).await.remove(0).leased.fence;
    w.pass(1);
    w.renew(id, fence).await.expect("it is held");
    assert_eq!(w.run(untaken(fence)).await, Ok(()));
    assert_eq!(w.complete(id, fence).await, Ok(()));
}

/// A repeat is the same claim, not a second helping.
pub async fn a_repeated_claim_does_not_reach_for_more(w: Arc<World>) {
    let early = w.create(w.draft()).await;
    let ask = w.ask(5);
    assert_eq!(ids_of(&w.claim(ask.clone()).await), [early]);
    let late = w.create(w.draft()).await;
    assert_eq!(ids_of(&w.claim(ask).await), [early]);
    assert_eq!(w.take_ids(5).await, [late]);
}

/// What has been dealt with is not given again.
pub async fn a_repeated_claim_leaves_out_what_has_ended(w: Arc<World>) {
    let done = w.create(w.draft()).await;
    w.pass(1);
    let open = w.create(w.draft()).await;
    let ask = w.ask(2);
    let given = w.claim(ask.clone()).await;
    assert_eq!(ids_of(&given), [done, open]);
    assert_eq!(w.complete(done, given[0].leased.fence).await, Ok(()));
    assert_eq!(ids_of(&w.claim(ask).await), [open]);
}

/// Knowing the id of a claim does not make one its holder.
pub async fn another_worker_cannot_repeat_a_claim(w: Arc<World>) {
    let (a, b) = (w.create(w.draft()).await, w.create(w.draft()).await);
    let ask = w.ask(1);
    let held = ids_of(&w.claim(ask.clone()).await);
    let thief = ClaimAsk { worker: worker("w2"), ..ask };
    let other = if held == [a] { b } else { a };
    // It gets what is free, as with any other claim.
    assert_eq!(ids_of(&w.claim(thief).await), [other]);
    assert_eq!(w.active(held[0]).await.attempt.worker, worker("w1"));
    assert_eq!(w.active(other).await.attempt.worker, worker("w2"));
}

/// Leases that ran out are not revived by repeating the claim.
pub async fn a_claim_whose_leases_ran_out_begins_anew(w: Arc<World>) {
    let id = w.create(w.draft()).await;
    let ask = w.ask(1);
    let first = w.claim(ask.clone()).await.remove(0).leased;
    w.pass(TTL);
    assert!(w.claim(ask.clone()).await.is_empty(), "it is not swept yet");
    w.tick(Duty::LeaseExpiry).await;
    let second = w.claim(ask).await.remove(0).leased;
    assert_eq!(second.execution.id, id);
    assert_eq!(second.kind, ClaimKind::Reclaimed);
    assert_eq!(second.fence.lease_epoch, first.fence.lease_epoch + 2);
}

/// A name gets around the queue, not around the rules.
pub async fn claiming_by_name_gives_the_same_lease_as_a_queue(w: Arc<World>) {
    let first = w.create(w.draft()).await;
    w.pass(1);
    let named = w.create(w.draft()).await;
    let leased = w.claim_by_name(named).await.expect("it waits");
    assert_eq!((leased.kind, leased.execution.id), (ClaimKind::First, named));
    assert_eq!(w.complete(named, leased.fence).await, Ok(()));
    assert_eq!(w.take_ids(5).await, [first]);
}

/// Nobody may start it early, by name or otherwise.
pub async fn what_is_delayed_cannot_be_claimed_by_name(w: Arc<World>) {
    let delay_until = Some(w.now().plus(100));
    let id = w.create(Create { delay_until, ..w.draft() }).await;
    let (given_back, fence) = w.running(json!({})).await;
    w.delay(given_back, fence, w.now().plus(100)).await.expect("it is held");
    for id in [id, given_back] {
        let refused = w.claim_by_name(id).await.expect_err("it is delayed");
        assert_eq!(refused.code, Code::ExecutionNotLeaseable);
        assert!(refused.message.contains("delayed until"), "{refused}");
    }
}

/// What has ended stays ended, however it ended.
pub async fn what_has_ended_cannot_be_claimed(w: Arc<World>) {
    let done = w.finished(json!({})).await;
    let (failed, fence) = w.running(json!({})).await;
    w.fail(failed, fence).await.expect("it is held");
    let cancelled = w.create(w.draft()).await;
    w.cancel(cancelled).await.expect("it waits");
    let deadline_at = Some(w.now());
    let expired = w.create(Create { deadline_at, ..w.draft() }).await;
    w.tick(Duty::Deadline).await;
    for (id, outcome) in [
        (done, TerminalOutcome::Success),
        (failed, TerminalOutcome::Failed),
        (cancelled, TerminalOutcome::Cancelled),
        (expired, TerminalOutcome::Expired),
    ] {
        let refused = w.claim_by_name(id).await.expect_err("it has ended");
        assert_eq!(refused.code, Code::ExecutionNotLeaseable);
        let standing = refused.standing.expect("it says where it stands");
        assert_eq!((standing.phase, standing.outcome), (Phase::Terminal, Some(outcome)));
    }
    assert!(w.claim_one().await.is_none());
}

/// A held one is told apart from a delayed one.
pub async fn what_an_operator_holds_cannot_be_claimed_by_name(w: Arc<World>) {
    let id = w.create(w.draft()).await;
    w.hold(id).await.expect("it waits");
    let refused = w.claim_by_name(id).await.expect_err("it is held");
    assert_eq!(refused.code, Code::ExecutionNotLeaseable);
    assert!(refused.message.contains("operator"), "{refused}");
}

/// The requirement is checked where the lease is granted.
pub async fn claiming_by_name_needs_the_capabilities(w: Arc<World>) {
    let id = w.create_with(requiring(&["eu", "gpu"])).await;
    let claim = |tokens: &[&str]| Claim { capabilities: capabilities(tokens), ..w.naming(id) };
    let refused = w.run(claim(&["eu"])).await.expect_err("gpu is missing");
    assert_eq!(refused.code, Code::CapabilityMismatch);
    assert!(refused.message.contains("gpu"), "{refused}");
    assert!(w.run(claim(&["eu", "gpu"])).await.is_ok());
}

/// There is nothing to claim where nothing is.
pub async fn claiming_what_does_not_exist_is_not_found(w: Arc<World>) {
    assert_eq!(code(w.claim_by_name(w.id()).await), Code::ExecutionNotFound);
}
