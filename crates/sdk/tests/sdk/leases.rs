//! A handler never outlives its lease, its attempt's time or its execution, and its slot is free again.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use ff_core::state::PublicState;
use ff_sdk::fabric::{Call, Observed, Observer};
use ff_sdk::{Client, Context, Error, Result};
use tokio::time::Instant;

use crate::{HOUR, open, worker};

/// Counts the handlers that run at the same time.
#[derive(Clone, Default)]
struct Gauge {
    now: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
    begun: Arc<AtomicUsize>,
}

impl Gauge {
    fn enter(&self) -> Inside {
        self.begun.fetch_add(1, Ordering::SeqCst);
        self.most.fetch_max(self.now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        Inside(self.clone())
    }

    fn read(&self) -> [usize; 3] {
        [&self.begun, &self.most, &self.now].map(|count| count.load(Ordering::SeqCst))
    }
}

struct Inside(Gauge);

impl Drop for Inside {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Runs until it is dropped.
async fn endless(ctx: Context, _: u32) -> Result<()> {
    let _inside = ctx.state::<Gauge>().enter();
    std::future::pending().await
}

/// Waits for something that is about to happen.
async fn eventually(what: impl Fn() -> bool) -> Duration {
    let begun = Instant::now();
    while !what() {
        assert!(begun.elapsed() < HOUR, "it never happened");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    begun.elapsed()
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_execution_stops_its_handler_at_once() {
    let (_, client) = open();
    let gauge = Gauge::default();
    let running = worker(&client).state(gauge.clone()).handle("job", endless).start().unwrap();
    let made = client.create("job", 1).await.unwrap();
    eventually(|| gauge.read() == [1, 1, 1]).await;
    made.cancel("enough").await.unwrap();
    let took = eventually(|| running.held() == 0).await;
    assert!(took < Duration::from_millis(200), "{took:?}");
    assert_eq!(gauge.read(), [1, 1, 0]);
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_revoked_lease_that_the_same_worker_takes_again_runs_one_handler() {
    let (_, client) = open();
    let gauge = Gauge::default();
    let running = worker(&client).state(gauge.clone()).handle("job", endless).start().unwrap();
    let made = client.create("job", 1).await.unwrap();
    for round in 1..=4 {
        let took = eventually(|| gauge.read()[0] == round).await;
        assert!(took < Duration::from_secs(1), "{took:?}");
        assert_eq!(gauge.read(), [round, 1, 1]);
        made.revoke("it hangs").await.unwrap();
    }
    eventually(|| gauge.read() == [5, 1, 1]).await;
    assert_eq!(running.held(), 1);
    running.stop().await.unwrap();
}

/// A handler that cannot be stopped keeps later leases of its execution waiting, however many there are.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_handler_that_blocks_its_thread_is_never_run_beside_itself() {
    async fn blocks(ctx: Context, _: u32) -> Result<()> {
        let _inside = ctx.state::<Gauge>().enter();
        tokio::task::block_in_place(|| std::thread::sleep(Duration::from_secs(3)));
        Ok(())
    }
    let (_, client) = open();
    let gauge = Gauge::default();
    let running = worker(&client).state(gauge.clone()).handle("job", blocks).start().unwrap();
    let made = client.create("job", 1).await.unwrap();
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(2_800) {
        // Whatever lease holds at this moment is taken away; the worker claims the execution again.
        drop(made.revoke("it hangs").await);
        tokio::time::sleep(Duration::from_millis(400)).await;
    }
    made.ended().await.unwrap();
    let [begun, most, _] = gauge.read();
    assert!(begun >= 2 && most == 1, "{begun} handlers, {most} at the same time");
    running.stop().await.unwrap();
}

/// A store that does not answer reports.
struct Mute(Arc<AtomicBool>);

#[async_trait]
impl Observer for Mute {
    async fn before(&self, call: Call<'_>) {
        if !matches!(call, Call::Claim) && self.0.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
    }

    async fn after(&self, _: Call<'_>, _: bool) {}
}

#[tokio::test(start_paused = true)]
async fn a_worker_stops_when_its_leases_have_run_out_also_if_nothing_is_answered() {
    let (_, client) = open();
    let (gauge, mute) = (Gauge::default(), Arc::new(AtomicBool::new(false)));
    let observed = Observed::new(Arc::clone(client.fabric()), Mute(Arc::clone(&mute)));
    let lease = Duration::from_secs(20);
    let running = worker(&Client::new(Arc::new(observed))).lease(lease).drain(Duration::ZERO);
    let running = running.state(gauge.clone()).handle("job", endless).start().unwrap();
    client.create("job", 1).await.unwrap();
    eventually(|| gauge.read() == [1, 1, 1]).await;
    mute.store(true, Ordering::SeqCst);
    let stopped = tokio::time::timeout(2 * lease, running.stop()).await;
    stopped.expect("it stops").unwrap();
    assert_eq!(gauge.read(), [1, 1, 0]);
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_used_up_its_time_stops_its_handler() {
    let (_, client) = open();
    let gauge = Gauge::default();
    let running = worker(&client).state(gauge.clone()).handle("job", endless).start().unwrap();
    let begun = Instant::now();
    let limit = Duration::from_secs(5);
    let made = client.create("job", 1).attempt_timeout(limit).await.unwrap();
    eventually(|| gauge.read() == [1, 1, 1]).await;
    eventually(|| gauge.read() == [1, 1, 0]).await;
    assert!(begun.elapsed() < limit + Duration::from_millis(100), "{:?}", begun.elapsed());
    assert_eq!(made.ended().await.unwrap(), PublicState::Failed);
    running.stop().await.unwrap();
}

/// A store that stops answering renewals.
struct Hung(Arc<AtomicBool>);

#[async_trait]
impl Observer for Hung {
    async fn before(&self, call: Call<'_>) {
        if matches!(call, Call::Renew) && self.0.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
    }

    async fn after(&self, _: Call<'_>, _: bool) {}
}

#[tokio::test(start_paused = true)]
async fn a_handler_ends_with_its_lease_also_when_no_renewal_is_answered() {
    let (_, client) = open();
    let (gauge, hung) = (Gauge::default(), Arc::new(AtomicBool::new(false)));
    let observed = Observed::new(Arc::clone(client.fabric()), Hung(Arc::clone(&hung)));
    let lease = Duration::from_secs(3);
    let first = worker(&Client::new(Arc::new(observed))).lease(lease).state(gauge.clone());
    let first = first.handle("job", endless).start().unwrap();
    client.create("job", 1).await.unwrap();
    eventually(|| gauge.read() == [1, 1, 1]).await;
    // Renewed many times, and then no more.
    tokio::time::sleep(10 * lease).await;
    assert_eq!(gauge.read(), [1, 1, 1]);
    hung.store(true, Ordering::SeqCst);
    let second = worker(&client).state(gauge.clone()).handle("job", endless).start().unwrap();
    let took = eventually(|| gauge.read()[0] == 2).await;
    assert!(took < 2 * lease, "{took:?}");
    assert_eq!(gauge.read(), [2, 1, 1], "never two at the same time");
    drop(first);
    second.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn prefetched_work_that_gets_no_slot_is_released_for_others() {
    let (engine, client) = open();
    let slow = Arc::new(AtomicBool::new(false));
    let job = async |ctx: Context, _: u32| -> Result<()> {
        if ctx.state::<Arc<AtomicBool>>().load(Ordering::SeqCst) {
            tokio::time::sleep(HOUR).await;
        }
        Ok(())
    };
    let open_worker = |name: &str| worker(&client).name(name).concurrency(1).handle("job", job);
    let first = open_worker("first").state(Arc::clone(&slow)).start().unwrap();
    // It learns that it is quick, and so prefetches.
    for n in 0..20 {
        client.create("job", n).await.unwrap().ended().await.unwrap();
    }
    slow.store(true, Ordering::SeqCst);
    let limit = Duration::from_secs(20);
    let drafts = (0..2).map(|n| client.create("job", n).attempt_timeout(limit).retries(0));
    let made = client.create_many(drafts).await.unwrap();
    eventually(|| first.held() == 2).await;
    let second = open_worker("second").state(Arc::new(AtomicBool::new(false))).start().unwrap();
    let begun = Instant::now();
    let mut states = Vec::new();
    for one in made {
        let one = one.unwrap();
        let state = one.ended().await.unwrap();
        let x = engine.find_execution(one.id()).await.unwrap().unwrap();
        states.push((state, x.counts.attempts));
    }
    // The one whose handler is slow runs out of time. The other one ran elsewhere.
    states.sort_unstable_by_key(|(state, _)| state.to_string());
    assert_eq!(states, [(PublicState::Completed, 1), (PublicState::Failed, 1)]);
    assert!(begun.elapsed() < limit + Duration::from_secs(2), "{:?}", begun.elapsed());
    first.stop().await.unwrap();
    second.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn nothing_is_prefetched_when_that_is_switched_off() {
    let (_, client) = open();
    let brief = async |_: Context, _: u32| {
        tokio::time::sleep(Duration::from_millis(1)).await;
        Ok::<_, Error>(())
    };
    for (prefetch, most) in [(true, 2..=4), (false, 2..=2)] {
        let running = worker(&client).concurrency(2).prefetch(prefetch).handle("job", brief);
        let running = running.start().unwrap();
        let drafts = (0..200).map(|n| client.create("job", n));
        let made = client.create_many(drafts).await.unwrap();
        let mut seen = 0;
        for one in made {
            while !one.as_ref().unwrap().wait(Duration::ZERO).await.unwrap().is_terminal() {
                seen = seen.max(running.held());
                tokio::time::sleep(Duration::from_micros(100)).await;
            }
        }
        assert!(most.contains(&seen), "{prefetch}: {seen}");
        running.stop().await.unwrap();
    }
}

/// An error that cannot be printed.
struct Unprintable;

impl fmt::Display for Unprintable {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        panic!("no words")
    }
}

impl fmt::Debug for Unprintable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Unprintable")
    }
}

impl std::error::Error for Unprintable {}

/// Panics when it is dropped.
struct Grenade;

impl Drop for Grenade {
    fn drop(&mut self) {
        panic!("dropped");
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_anywhere_is_a_failure_and_frees_the_slot() {
    let (engine, client) = open();
    let running = worker(&client)
        .concurrency(1)
        .handle("mute", async |_: Context, _: u32| Err::<(), _>(Unprintable))
        .handle("naps", async |ctx: Context, _: u32| {
            let _grenade = Grenade;
            ctx.sleep(Duration::from_secs(1)).await;
            Ok::<_, Error>(())
        })
        .handle("plain", async |_: Context, n: u32| Ok::<_, Error>(n))
        .start()
        .unwrap();
    for (kind, said) in [("mute", "printing its error: no words"), ("naps", "dropped")] {
        let made = client.create(kind, 1).retries(0).await.unwrap();
        assert_eq!(made.ended().await.unwrap(), PublicState::Failed, "{kind}");
        let x = engine.describe_execution(made.id()).await.unwrap().unwrap();
        let failure = x.failure.unwrap();
        assert_eq!(failure.category.to_string(), "panic");
        assert!(failure.reason.contains(said), "{}", failure.reason);
        let took = eventually(|| running.held() == 0).await;
        assert!(took < Duration::from_secs(1), "{took:?}");
    }
    let made = client.create("plain", 3).await.unwrap();
    assert_eq!(made.result::<u32>().await.unwrap(), 3);
    running.stop().await.unwrap();
}
