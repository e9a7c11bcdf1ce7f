//! Worker processes: killed between two steps, and told to stop with a hundred executions in hand.

use std::process::Command;
use std::time::{Duration, Instant};

use flowfabric::{FlowFabric, PublicState};

use crate::servers::serve;
use crate::{Process, postgres};

/// A worker process.
fn worker(url: &str, name: &str) -> Process {
    let lease = ["--lease-ttl-ms", "500", "--concurrency", "100"];
    Process::start(url, &[&["sample-worker", "--name", name][..], &lease].concat())
}

/// Kills a worker between two steps of an order; another process goes on with the next.
async fn killed_between_steps(url: &str) {
    let fabric = FlowFabric::open(url).await.unwrap();
    let order = serde_json::json!({"customer": "ada", "items": {"tea": 2}});
    let mut first = worker(url, "first");
    let made = fabric.create("order", &order).await.unwrap();
    while made.history().await.unwrap().steps.len() < 2 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    first.kill();
    let before = made.history().await.unwrap();
    assert_eq!(before.snapshot.public_state, PublicState::Active, "nobody was told");
    let _second = worker(url, "second");
    assert_eq!(made.ended().await.unwrap(), PublicState::Completed);
    let after = made.history().await.unwrap();
    assert_eq!(after.steps[..before.steps.len()], before.steps, "they were not taken again");
    assert_eq!((after.snapshot.counts.attempts, after.snapshot.counts.reclaims), (2, 1));
    fabric.close().await;
}

#[tokio::test]
async fn killed_between_steps_another_process_goes_on_in_a_file() {
    let directory = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", directory.path().join("fabric.db").display());
    killed_between_steps(&url).await;
}

#[tokio::test]
async fn killed_between_steps_another_process_goes_on_in_postgres() {
    killed_between_steps(&postgres()).await;
}

#[tokio::test]
async fn killed_between_steps_another_process_goes_on_over_http() {
    let directory = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", directory.path().join("fabric.db").display());
    let (_server, address) = serve(&url);
    killed_between_steps(&address).await;
}

#[tokio::test]
async fn told_to_stop_a_worker_gives_back_a_hundred_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", directory.path().join("fabric.db").display());
    let fabric = FlowFabric::open(&url).await.unwrap();
    let minute = ["--lease-ttl-ms", "60000", "--concurrency", "100", "--drain-ms", "100"];
    let mut first =
        Process::start(&url, &[&["sample-worker", "--name", "first"][..], &minute].concat());
    let drafts = (0..100).map(|_| fabric.create("heavy", ()));
    let made: Vec<_> =
        fabric.create_many(drafts).await.unwrap().into_iter().map(Result::unwrap).collect();
    for one in &made {
        while one.describe().await.unwrap().public_state != PublicState::Active {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    let pid = first.0.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    assert!(first.0.wait().unwrap().success(), "it stopped in order");
    for one in &made {
        let x = one.describe().await.unwrap();
        assert_eq!((x.public_state, x.counts.attempts), (PublicState::Waiting, 0));
    }
    let begun = Instant::now();
    let _second = worker(&url, "second");
    for one in &made {
        while one.describe().await.unwrap().public_state == PublicState::Waiting {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    assert!(begun.elapsed() < Duration::from_secs(20), "long before a lease would have run out");
}
