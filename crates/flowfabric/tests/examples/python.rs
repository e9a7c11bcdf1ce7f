//! The worker in plain Python: it needs nothing but `python3` and a server.

use std::process::Stdio;
use std::time::Duration;

use flowfabric::PublicState;
use tokio::process::{Child, Command};

use crate::stores::{At, Place};

const WORKER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/python/worker.py");

/// Starts it before a server, with leases of this length and a pause in every step.
fn start(place: &Place, lease_ms: &str, pause: &str) -> Child {
    Command::new("python3")
        .arg(WORKER)
        .env("FF_URL", place.url())
        .env("FF_LEASE_MS", lease_ms)
        .env("FF_PAUSE", pause)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .expect("python3 can be started; install it (apt-get install python3)")
}

#[tokio::test]
async fn a_python_worker_does_its_work() {
    let place = At::Http.open().await;
    let _worker = start(&place, "30000", "0");
    let made = place.fabric.create("count", 4).await.unwrap();
    assert_eq!(made.result::<Vec<u32>>().await.unwrap(), [0, 1, 4, 9]);
    let failing = place.fabric.create("unheard_of", 4).await.unwrap();
    let error = failing.result::<Vec<u32>>().await.unwrap_err();
    assert!(error.to_string().contains("unheard_of"), "{error}");
}

#[tokio::test]
async fn killed_half_way_another_one_goes_on_after_the_last_step() {
    let place = At::Http.open().await;
    let mut first = start(&place, "1500", "0.05");
    let made = place.fabric.create("count", 100).await.unwrap();
    while made.history().await.unwrap().steps.len() < 3 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    first.kill().await.unwrap();
    let before = made.history().await.unwrap();
    assert_eq!(before.snapshot.public_state, PublicState::Active, "nobody was told");
    let _second = start(&place, "30000", "0");
    let squares: Vec<u32> = (0..100).map(|n| n * n).collect();
    assert_eq!(made.result::<Vec<u32>>().await.unwrap(), squares);
    let after = made.history().await.unwrap();
    assert_eq!(after.steps[..before.steps.len()], before.steps, "they were not taken again");
    assert_eq!(after.snapshot.counts.reclaims, before.snapshot.counts.reclaims + 1);
}
