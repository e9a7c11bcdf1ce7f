//! Flows that are larger than one transaction may touch.

use std::sync::Arc;

use ff_core::backend::{Duty, Interest};
use ff_core::command::{Command, Reply};
use ff_core::decide::cancel_flow::CancelFlow;
use ff_core::decide::cancel_owed::{CancelOwed, OwedCancelled};
use ff_core::error::Code;
use ff_core::flow::{CancellationPolicy, FlowWord, NodeRef};
use ff_core::limits::{CANCEL_AT_ONCE_MAX, CANCEL_CHUNK_MAX, CYCLE_NODES_MAX, GRAPH_NODES_MAX};
use ff_core::state::PublicState;

use crate::world::{Drawn, World};

/// A flow of as many members as one call adds, each called by its number from `n1` on.
async fn full(w: &World, shape: impl Fn(usize) -> String) -> Drawn {
    let sketch = (2..=GRAPH_NODES_MAX).map(shape).collect::<Vec<_>>().join(" ");
    w.sketch(&sketch).open().submit().await
}

/// A flow with more members than fit is cancelled in pieces, and no piece is half done.
pub async fn a_large_flow_is_cancelled_in_pieces(w: Arc<World>) {
    let drawn = full(&w, |n| if n == 2 { "n1 n2".to_owned() } else { format!("n{n}") }).await;
    let flow = drawn.flow;
    w.more(flow, "x>y z").extend().await.expect("it is open");
    let total = CANCEL_AT_ONCE_MAX + 3;
    let seen = w.store.backend.generation(Interest::Cancels);
    let cancelled = w.cancel_flow(flow, CancellationPolicy::All).await.expect("it is open");
    assert_eq!((cancelled.members.len(), cancelled.scheduled), (total, true));
    w.woken(Interest::Cancels, seen).await;
    assert_eq!(w.flow_state(flow).await, FlowWord::Cancelled);
    let buckets = w.buckets(flow).await;
    assert_eq!(buckets.of(PublicState::Cancelled), 0, "nothing is half done");
    assert_eq!(buckets.total(), u64::try_from(total).expect("a small count"));
    w.succeed(drawn.id("x")).await;
    let fence = w.start(drawn.id("z")).await;
    w.dispatch().await;
    assert_eq!(w.state(drawn.id("y")).await, PublicState::WaitingChildren, "it is over");
    let due = w.due(Duty::CancelBacklog, 10).await;
    assert_eq!((due.commands, due.next), (vec![Command::from(CancelOwed { flow })], None));
    while !w.tick(Duty::CancelBacklog).await.is_empty() {}
    let buckets = w.buckets(flow).await;
    let ended = [PublicState::Cancelled, PublicState::Completed].map(|state| buckets.of(state));
    assert_eq!(ended, [u64::try_from(total - 1).expect("a small count"), 1]);
    assert_eq!(w.complete(drawn.id("z"), fence).await.map_err(|r| r.code), {
        Err(Code::ExecutionNotActive)
    });
    let row = w.flow(flow).await;
    assert_eq!((row.ended.well, row.ended.total()), (1, row.nodes));
    let tables = (w.store.dump)();
    assert!(tables.backlogs.is_empty() && tables.owed.is_empty() && tables.dispatch.is_empty());
    assert_eq!(w.flow_event_names(flow).await, ["flow_cancel_requested", "flow_ended"]);
}

/// The piece that ends the last member says that the flow has ended, also when it is a full one.
pub async fn the_last_piece_ends_a_large_flow(w: Arc<World>) {
    let drawn = full(&w, |n| if n == 2 { "n1 n2".to_owned() } else { format!("n{n}") }).await;
    let flow = drawn.flow;
    let rest = (1..=CANCEL_CHUNK_MAX).map(|n| format!("m{n}")).collect::<Vec<_>>().join(" ");
    w.more(flow, &rest).extend().await.expect("it is open");
    w.cancel_flow(flow, CancellationPolicy::All).await.expect("it is open");
    let row = w.flow(flow).await;
    assert_eq!((row.ended.total(), row.nodes % 1_000), (0, 0));
    loop {
        let pieces = w.tick(Duty::CancelBacklog).await.len();
        let row = w.flow(flow).await;
        let over = row.ended.total() == row.nodes;
        let told = w.flow_event_names(flow).await.last() == Some(&"flow_ended");
        assert_eq!(told, over, "{:?} of {}", row.ended, row.nodes);
        if pieces == 0 {
            return assert!(over);
        }
    }
}

/// A stronger cancellation takes over what an earlier one owes, and what that let go on.
pub async fn a_stronger_cancellation_takes_over_what_is_owed(w: Arc<World>) {
    let drawn = full(&w, |n| if n == 2 { "n1 n2".to_owned() } else { format!("n{n}") }).await;
    let flow = drawn.flow;
    w.more(flow, "x y").extend().await.expect("it is open");
    let fence = w.start(drawn.id("x")).await;
    w.delay(drawn.id("x"), fence, w.now().plus(1_000)).await.expect("it is held");
    w.start(drawn.id("y")).await;
    let cancelled = w.cancel_flow(flow, CancellationPolicy::Pending).await.expect("it is open");
    assert!(cancelled.scheduled);
    assert_eq!(w.tick(Duty::CancelBacklog).await.len(), 1);
    assert_eq!(w.state(drawn.id("x")).await, PublicState::Delayed);
    let cancelled = w.cancel_flow(flow, CancellationPolicy::All).await.expect("it asks for more");
    assert!(!cancelled.repeated);
    while !w.tick(Duty::CancelBacklog).await.is_empty() {}
    w.dispatch().await;
    let row = w.flow(flow).await;
    assert_eq!((row.ended.badly, row.ended.total()), (row.nodes, row.nodes));
    let tables = (w.store.dump)();
    assert!(tables.backlogs.is_empty() && tables.owed.is_empty() && tables.dispatch.is_empty());
    let requested = "flow_cancel_requested";
    assert_eq!(w.flow_event_names(flow).await, [requested, requested, "flow_ended"]);
}

/// A piece that ends in the batch of a stronger cancellation leaves the rest of that owed.
pub async fn what_a_batch_owes_is_not_forgotten_in_it(w: Arc<World>) {
    let drawn = full(&w, |n| if n == 2 { "n1 n2".to_owned() } else { format!("n{n}") }).await;
    let flow = drawn.flow;
    w.more(flow, "x").extend().await.expect("it is open");
    let (policy, reason) = (CancellationPolicy::All, "enough".to_owned());
    let cancel = CancelFlow { flow, policy, reason };
    let outcomes = w.batch(vec![cancel.into(), CancelOwed { flow }.into()]).await;
    let nothing = Reply::CancelOwed(OwedCancelled { cancelled: 0, more: true });
    assert_eq!(outcomes[1], Ok(nothing));
    while !w.tick(Duty::CancelBacklog).await.is_empty() {}
    let row = w.flow(flow).await;
    assert_eq!((row.ended.badly, row.ended.total()), (row.nodes, row.nodes));
}

/// What sleeps is not pending, however many members there are.
pub async fn a_large_cancellation_leaves_attempts_alone(w: Arc<World>) {
    let drawn = full(&w, |n| if n == 2 { "n1 n2".to_owned() } else { format!("n{n}") }).await;
    w.more(drawn.flow, "x").extend().await.expect("it is open");
    let x = drawn.id("x");
    let fence = w.start(x).await;
    w.delay(x, fence, w.now().plus(1_000)).await.expect("it is held");
    w.cancel_flow(drawn.flow, CancellationPolicy::Pending).await.expect("it is open");
    while !w.tick(Duty::CancelBacklog).await.is_empty() {}
    assert_eq!(w.state(x).await, PublicState::Delayed);
    let tables = (w.store.dump)();
    assert!(tables.backlogs.is_empty() && tables.owed.is_empty());
}

/// An edge behind which too much lies is refused rather than searched for ever.
pub async fn an_edge_before_too_much_is_not_verified(w: Arc<World>) {
    let drawn = full(&w, |n| format!("n1>n{n}")).await;
    let flow = drawn.flow;
    let [root, hub, last] = drawn.ids(["root", "n1", "last"]);
    let more = w.more(flow, "root next>last");
    let to = |id| [NodeRef::Execution(hub), NodeRef::Execution(id)];
    let [from, next] = to(drawn.id("next"));
    more.between(from, next).extend().await.expect("it is open");
    assert_eq!(w.state(last).await, PublicState::WaitingChildren);
    let staging = w.staging(flow, root, hub).await;
    assert_eq!(w.refused(staging).await.code, Code::CycleUnverifiable);
    assert!(w.flow(flow).await.nodes > u32::try_from(CYCLE_NODES_MAX).expect("a small count"));
    w.stage(flow, drawn.id("n7"), root).await.expect("nothing lies behind it");
}
