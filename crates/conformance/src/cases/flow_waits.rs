//! Members of flows that wait for signals.

use std::sync::Arc;

use ff_core::error::Code;
use ff_core::flow::{CancellationPolicy, FlowWord, PublicFlowState};
use ff_core::state::PublicState;
use ff_core::suspension::{CloseReason, WaitpointWord};
use serde_json::json;

use crate::world::waits::Mailbox;
use crate::world::{Drawn, World, any_of, code};

/// Starts a member and suspends it.
async fn suspended(w: &World, drawn: &Drawn, node: &str) -> Mailbox {
    let id = drawn.id(node);
    let fence = w.start(id).await;
    w.suspend(w.pause(id, fence)).await.remove(0)
}

/// What waits for a member waits for its signal too.
pub async fn a_suspended_member_holds_up_what_waits_for_it(w: Arc<World>) {
    let drawn = w.sketch("a>b").submit().await;
    let mailbox = suspended(&w, &drawn, "a").await;
    assert!(w.dispatch().await.is_empty());
    let buckets = w.buckets(drawn.flow).await;
    assert_eq!(buckets.members.get(&PublicState::Suspended), Some(&1));
    assert_eq!(buckets.total(), 2);
    w.deliver(mailbox.signal(&w, "go")).await;
    let fence = w.take(drawn.id("a")).await.leased.fence;
    w.complete(drawn.id("a"), fence).await.expect("it is held");
    w.dispatch().await;
    w.succeed(drawn.id("b")).await;
    w.dispatch().await;
    assert_eq!(w.flow_state(drawn.flow).await, FlowWord::Completed);
}

/// A flow in which nothing runs and something waits is blocked, whatever it waits for.
pub async fn a_flow_of_suspended_members_is_blocked(w: Arc<World>) {
    let drawn = w.sketch("a b").submit().await;
    suspended(&w, &drawn, "a").await;
    let fence = w.start(drawn.id("b")).await;
    let seen = async || w.buckets(drawn.flow).await.state(&w.flow(drawn.flow).await);
    assert_eq!(seen().await, PublicFlowState::Running);
    w.complete(drawn.id("b"), fence).await.expect("it is held");
    w.dispatch().await;
    assert_eq!(seen().await, PublicFlowState::Blocked);
    let drawn = w.sketch("a").submit().await;
    let fence = w.start(drawn.id("a")).await;
    w.delay(drawn.id("a"), fence, w.now().plus(1_000)).await.expect("it is held");
    let delayed = w.buckets(drawn.flow).await.state(&w.flow(drawn.flow).await);
    assert_eq!(delayed, PublicFlowState::Blocked);
}

/// Cancelling all ends a suspended member too, and signals to it are refused.
pub async fn cancelling_all_ends_suspended_members(w: Arc<World>) {
    let drawn = w.sketch("a b").policy(&json!({"retention_ms": 1})).submit().await;
    let mailbox = suspended(&w, &drawn, "a").await;
    let fence = w.start(drawn.id("b")).await;
    w.pass(7);
    w.cancel_flow(drawn.flow, CancellationPolicy::All).await.expect("it is open");
    assert_eq!(w.state(mailbox.id).await, PublicState::Cancelled);
    assert_eq!(w.event_names(mailbox.id).await, ["suspended", "completion"]);
    assert_eq!(code(w.run(mailbox.signal(&w, "go")).await), Code::TargetNotSignalable);
    assert_eq!(code(w.complete(drawn.id("b"), fence).await), Code::ExecutionNotActive);
    let end = w.suspension(mailbox.id).await.end.expect("it is over");
    assert_eq!((end.at, end.how), (w.now(), CloseReason::Cancelled));
    assert_eq!(w.waitpoint(&mailbox).await.state.word(), WaitpointWord::Closed);
    assert!(w.listening(None).await.is_empty() && w.suspended().await.is_empty());
    w.pass(86_400_000 * 30);
    w.tick_all().await;
    w.tick_all().await;
    assert!(w.find(mailbox.id).await.is_none(), "it goes with its flow");
    let left = (w.store.dump)();
    assert!(left.suspensions.is_empty() && left.waitpoints.is_empty());
}

/// Cancelling what is pending leaves alone what has started: it may outlive its flow.
pub async fn cancelling_what_is_pending_leaves_suspended_members(w: Arc<World>) {
    let drawn = w.sketch("a>b").submit().await;
    let mailbox = suspended(&w, &drawn, "a").await;
    let cancelled = w.cancel_flow(drawn.flow, CancellationPolicy::Pending).await;
    assert_eq!(cancelled.expect("it is open").members, [drawn.id("b")]);
    assert_eq!(w.state(mailbox.id).await, PublicState::Suspended);
    w.deliver(mailbox.signal(&w, "go")).await;
    let fence = w.take(mailbox.id).await.leased.fence;
    w.complete(mailbox.id, fence).await.expect("it is held");
}

/// The first of several is enough; a suspended sibling is cancelled, with what it waited for.
pub async fn a_suspended_sibling_is_cancelled(w: Arc<World>) {
    let drawn = w.sketch("a>c b>c").join("c", any_of()).submit().await;
    let mailbox = suspended(&w, &drawn, "a").await;
    w.succeed(drawn.id("b")).await;
    w.dispatch().await;
    w.tick_all().await;
    assert_eq!(w.state(mailbox.id).await, PublicState::Cancelled);
    assert_eq!(code(w.run(mailbox.signal(&w, "go")).await), Code::TargetNotSignalable);
    assert!(w.listening(None).await.is_empty());
}

/// What waits for a member that can no longer succeed is skipped, suspended or not.
pub async fn a_suspended_member_whose_inputs_failed_ends(w: Arc<World>) {
    let drawn = w.sketch("a b").open().submit().await;
    let mailbox = suspended(&w, &drawn, "b").await;
    w.link(drawn.flow, drawn.id("a"), drawn.id("b")).await;
    w.fail_for_good(drawn.id("a")).await;
    w.dispatch().await;
    assert_eq!(w.state(mailbox.id).await, PublicState::Skipped);
    assert_eq!(code(w.run(mailbox.signal(&w, "go")).await), Code::TargetNotSignalable);
    assert!(w.listening(None).await.is_empty());
}
