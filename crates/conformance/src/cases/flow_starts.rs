//! Starting what a batch lets go, in the transaction that does, for a claim that waits.

use std::sync::Arc;

use ff_core::command::{Command, Outcome, Reply};
use ff_core::decide::dispatch::DispatchCompletion;
use ff_core::decide::start_released::StartReleased;
use ff_core::state::PublicState;
use ff_core::{ClaimAsk, Claimed, ExecutionId};

use super::calls::completion;
use crate::world::{World, lane};

/// Sends a batch, and then starts what it lets go.
async fn started(w: &World, mut batch: Vec<Command>, ask: ClaimAsk) -> Vec<Claimed> {
    batch.push(StartReleased { ask }.into());
    let mut outcomes: Vec<Outcome> = w.batch(batch).await;
    match outcomes.pop() {
        Some(Ok(Reply::StartReleased(given))) => given,
        other => panic!("nothing was started: {other:?}"),
    }
}

fn ids(given: &[Claimed]) -> Vec<ExecutionId> {
    given.iter().map(|claimed| claimed.leased.execution.id).collect()
}

/// What waited for the member that ends runs with the commit that ends it, with its input.
pub async fn what_an_end_lets_go_is_started_with_it(w: Arc<World>) {
    let drawn = w.sketch("a>b b>c").submit().await;
    let [a, b] = drawn.ids(["a", "b"]);
    let fence = w.start(a).await;
    let tell = DispatchCompletion { flow: drawn.flow, execution: a, eager: true };
    let batch = vec![completion(a, fence, b"out").into(), tell.into()];
    let given = started(&w, batch, w.ask(5)).await;
    assert_eq!(ids(&given), [b]);
    assert_eq!(given[0].input.as_ref().map(|blob| &blob.bytes[..]), Some(&b"in"[..]));
    assert_eq!(w.state(b).await, PublicState::Active);
    assert_eq!(w.complete(b, given[0].leased.fence).await, Ok(()));
}

/// The roots of a graph need not stand in line first.
pub async fn what_is_submitted_and_waits_for_nothing_is_started_with_it(w: Arc<World>) {
    let sketch = w.sketch("a>c b>c");
    let submission = sketch.submission();
    let flow = submission.flow.id;
    let given = started(&w, vec![submission.into()], w.ask(1)).await;
    let [first] = ids(&given)[..] else { panic!("one was asked for: {given:?}") };
    assert_eq!(given[0].input.as_ref().map(|blob| &blob.bytes[..]), Some(&b"in"[..]));
    let second = w.claim_one().await.expect("the other root waits");
    assert_ne!(second.leased.execution.id, first);
    assert!(w.claim_one().await.is_none(), "what waits for both does not run");
    w.complete(first, given[0].leased.fence).await.expect("it holds its lease");
    w.complete(second.leased.execution.id, second.leased.fence).await.expect("it too");
    w.dispatch().await;
    w.take(ExecutionId::for_node(flow, &crate::world::name("c"))).await;
}

/// A claim is given nothing of other lanes.
pub async fn what_does_not_suit_the_claim_stands_in_line(w: Arc<World>) {
    let sketch = w.sketch("a b").node("b", |create| create.lane = lane("slow"));
    let submission = sketch.submission();
    let flow = submission.flow.id;
    let given = started(&w, vec![submission.into()], w.ask(5)).await;
    let [a, b] = ["a", "b"].map(|node| ExecutionId::for_node(flow, &crate::world::name(node)));
    assert_eq!(ids(&given), [a]);
    assert_eq!(w.state(b).await, PublicState::Waiting);
    let ask = ClaimAsk { lanes: vec![lane("slow")], ..w.ask(1) };
    assert_eq!(ids(&w.claim(ask).await), [b]);
}
