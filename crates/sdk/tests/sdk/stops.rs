//! Stopping in order: nothing is lost, nothing waits for a lease to run out.

use std::time::Duration;

use ff_core::state::PublicState;
use ff_sdk::{Context, Error};
use tokio::time::Instant;

use crate::{HOUR, open, worker};

async fn endless(_: Context, _: u32) -> Result<(), Error> {
    tokio::time::sleep(1000 * HOUR).await;
    Ok(())
}

async fn brief(_: Context, n: u32) -> Result<u32, Error> {
    tokio::time::sleep(Duration::from_secs(2)).await;
    Ok(n)
}

#[tokio::test(start_paused = true)]
async fn what_is_running_finishes_within_its_time() {
    let (_, client) = open();
    let running = worker(&client).handle("brief", brief).start().unwrap();
    let made = client.create("brief", 4).await.unwrap();
    assert_eq!(made.wait(Duration::from_secs(1)).await.unwrap(), PublicState::Active);
    running.stop().await.unwrap();
    assert_eq!(made.wait(Duration::ZERO).await.unwrap(), PublicState::Completed);
}

async fn quick(_: Context, _: u32) -> Result<(), Error> {
    tokio::time::sleep(Duration::from_millis(200)).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_hundred_that_cannot_finish_are_given_back_at_once() {
    let (engine, client) = open();
    let lease = 100 * HOUR;
    let first = worker(&client).concurrency(100).lease(lease / 200);
    let first = first.drain(Duration::ZERO).handle("job", endless).start().unwrap();
    let drafts = (0..100).map(|n| client.create("job", n));
    let made = client.create_many(drafts).await.unwrap();
    let made: Vec<_> = made.into_iter().map(Result::unwrap).collect();
    for one in &made {
        assert_eq!(one.wait(Duration::from_secs(1)).await.unwrap(), PublicState::Active);
    }
    first.stop().await.unwrap();
    let begun = Instant::now();
    let second = worker(&client).concurrency(100).handle("job", brief).start().unwrap();
    for one in &made {
        one.result::<u32>().await.unwrap();
        let x = engine.find_execution(one.id()).await.unwrap().unwrap();
        assert_eq!((x.counts.attempts, x.counts.reclaims), (1, 0), "it does not count");
    }
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    second.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_was_claimed_ahead_is_given_back_as_well() {
    let (engine, client) = open();
    let running = worker(&client).concurrency(2).handle("job", quick).start().unwrap();
    let drafts = (0..100).map(|n| client.create("job", n));
    let made = client.create_many(drafts).await.unwrap();
    // Some rounds, so that the worker knows its pace and claims ahead.
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(running.held() > 2, "{} are held", running.held());
    running.stop().await.unwrap();
    let mut ended = 0;
    for one in made {
        let x = engine.find_execution(one.unwrap().id()).await.unwrap().unwrap();
        match x.state {
            ff_core::State::Terminal(_) => ended += 1,
            ff_core::State::Runnable(_) => assert_eq!(x.counts.attempts, 0),
            ff_core::State::Active(_) | ff_core::State::Suspended(_) => {
                panic!("nobody holds {}", x.id)
            }
        }
    }
    assert!((4..100).contains(&ended), "{ended}");
}
