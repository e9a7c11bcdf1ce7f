//! Creating executions and asking what became of them.

use std::time::Duration;

use ff_core::state::PublicState;
use ff_core::{Code, ExecutionId};
use ff_sdk::{Context, Error, Result};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{HOUR, open, worker};

#[derive(Serialize, Deserialize, Debug, PartialEq)]
struct Order {
    item: String,
    count: u32,
}

async fn price(_: Context, order: Order) -> Result<u32> {
    Ok(order.count * 3)
}

fn order(count: u32) -> Order {
    Order { item: "tea".to_owned(), count }
}

#[tokio::test(start_paused = true)]
async fn what_goes_in_comes_out_typed() {
    let (_, client) = open();
    let running = worker(&client).handle("price", price).start().unwrap();
    let made = client.create("price", order(7)).await.unwrap();
    assert_eq!(made.result::<u32>().await.unwrap(), 21);
    assert_eq!(made.ended().await.unwrap(), PublicState::Completed);
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_key_makes_one_of_two() {
    let (_, client) = open();
    let first = client.create("price", order(1)).idempotency_key("a").await.unwrap();
    let again = client.create("price", order(1)).idempotency_key("a").await.unwrap();
    assert_eq!((first.id(), again.is_duplicate()), (again.id(), true));
    let other = client.create("price", order(2)).idempotency_key("a").await;
    assert!(other.unwrap_err().is(Code::IdempotencyKeyConflict));
}

#[tokio::test(start_paused = true)]
async fn many_are_created_together_and_answered_one_by_one() {
    let (_, client) = open();
    let drafts = (0..3).map(|count| client.create("price", order(count)));
    let bad = client.create("price", order(9)).lane("");
    let made = client.create_many(drafts.chain([bad])).await.unwrap();
    let fine: Vec<bool> = made.iter().map(|one| one.is_ok()).collect();
    assert_eq!(fine, [true, true, true, false]);
    let refused = made.into_iter().next_back().unwrap().err().unwrap();
    assert!(refused.is(Code::InvalidInput), "{refused:?}");
}

#[tokio::test(start_paused = true)]
async fn what_is_malformed_is_told_before_anything_is_done() {
    let (_, client) = open();
    for draft in [
        client.create("", ()),
        client.create("price", ()).priority(-1),
        client.create("price", ()).tag("nodot", "x"),
        client.create("price", ()).idempotency_key(""),
        client.create("price", ()).delay(Duration::MAX),
    ] {
        let refused = draft.await.err().unwrap();
        assert!(!refused.retryable() && refused.code().is_some(), "{refused:?}");
    }
    assert!(client.worker("").start().is_err());
    assert!(client.worker("default").lease(Duration::ZERO).start().is_err());
}

#[tokio::test(start_paused = true)]
async fn what_does_not_succeed_is_an_error_that_says_so() {
    let (_, client) = open();
    let made = client.create("price", order(1)).await.unwrap();
    made.cancel("changed my mind").await.unwrap();
    let error: Error = made.result::<u32>().await.unwrap_err();
    assert!(error.to_string().contains("cancelled"), "{error}");
    let nobody = client.execution(ExecutionId::solo(Uuid::now_v7()));
    assert!(nobody.wait(HOUR).await.unwrap_err().is(Code::ExecutionNotFound));
}

#[tokio::test(start_paused = true)]
async fn waiting_ends_when_it_was_told_to() {
    let (_, client) = open();
    let made = client.create("price", order(1)).delay(HOUR).await.unwrap();
    assert_eq!(made.wait(HOUR / 2).await.unwrap(), PublicState::Delayed);
}

#[tokio::test(start_paused = true)]
async fn a_replay_runs_again() {
    let (_, client) = open();
    let running = worker(&client).handle("price", price).start().unwrap();
    let made = client.create("price", order(2)).await.unwrap();
    made.ended().await.unwrap();
    made.replay("once more").await.unwrap();
    assert_eq!(made.result::<u32>().await.unwrap(), 6);
    running.stop().await.unwrap();
}

/// An operator who lost the answers says everything again, after others went on from there.
#[tokio::test(start_paused = true)]
async fn a_command_on_what_was_seen_undoes_nothing_that_came_after() {
    let (_, client) = open();
    let made = client.create("price", order(2)).delay(HOUR).await.unwrap();
    let seen = made.as_seen(&made.describe().await.unwrap());
    seen.hold("not yet").await.unwrap();
    made.unhold().await.unwrap();
    assert!(seen.hold("not yet").await.unwrap_err().is(Code::VersionConflict));
    assert!(seen.set_tag("shop.city", "Rome").await.unwrap_err().is(Code::VersionConflict));
    made.set_tag("shop.city", "Rome").await.unwrap();

    let seen = made.as_seen(&made.describe().await.unwrap());
    seen.cancel("changed my mind").await.unwrap();
    seen.replay("changed it again").await.unwrap();
    made.cancel("no").await.unwrap();
    seen.replay("changed it again").await.unwrap();
    let x = made.describe().await.unwrap();
    assert_eq!((x.counts.replays, x.public_state), (1, PublicState::Cancelled), "replayed once");
    made.replay("yes").await.unwrap();
    assert!(seen.cancel("changed my mind").await.unwrap_err().is(Code::VersionConflict));
    assert!(seen.revoke("stuck").await.unwrap_err().is(Code::NoActiveLease));
}

#[tokio::test(start_paused = true)]
async fn what_is_held_waits_until_it_is_let_go() {
    let (_, client) = open();
    let running = worker(&client).handle("price", price).start().unwrap();
    let made = client.create("price", order(2)).delay(HOUR).await.unwrap();
    made.hold("not yet").await.unwrap();
    assert_eq!(made.wait(HOUR * 2).await.unwrap(), PublicState::Waiting);
    let counted: Vec<_> = client.counts().await.unwrap().into_iter().map(|c| c.count).collect();
    assert_eq!(counted, [1]);
    made.unhold().await.unwrap();
    assert_eq!(made.result::<u32>().await.unwrap(), 6);
    running.stop().await.unwrap();
}
