//! Durable steps: once each, whatever happens between them.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use ff_core::state::PublicState;
use ff_core::step::StepKind;
use ff_sdk::{Context, Error, Result};
use tokio::time::Instant;

use crate::{HOUR, open, worker};

/// What handlers did to the world.
#[derive(Default)]
struct World {
    deeds: Mutex<Vec<String>>,
    runs: AtomicU32,
}

impl World {
    fn note(&self, deed: impl Into<String>) {
        self.deeds.lock().unwrap().push(deed.into());
    }

    fn deeds(&self) -> Vec<String> {
        self.deeds.lock().unwrap().clone()
    }
}

async fn act(world: &World, deed: &str) -> Result<String> {
    tokio::task::yield_now().await;
    world.note(deed);
    Ok(format!("{deed} done"))
}

/// Fails once between its second and third step.
async fn stumbles(ctx: Context, (): ()) -> Result<Vec<String>> {
    let world = ctx.state::<Arc<World>>();
    let one = ctx.step("one", || act(&world, "one")).await?;
    let two = ctx.step("two", || act(&world, "two")).await?;
    if world.runs.fetch_add(1, Ordering::SeqCst) == 0 {
        return Err("the lights went out".into());
    }
    let three = ctx.step("three", || act(&world, "three")).await?;
    Ok(vec![one, two, three])
}

#[tokio::test(start_paused = true)]
async fn a_step_that_is_recorded_is_not_taken_again() {
    let (engine, client) = open();
    let world = Arc::new(World::default());
    let running =
        worker(&client).state(Arc::clone(&world)).handle("stumbles", stumbles).start().unwrap();
    let made = client.create("stumbles", ()).retries(1).await.unwrap();
    let result: Vec<String> = made.result().await.unwrap();
    assert_eq!(result, ["one done", "two done", "three done"]);
    assert_eq!(world.deeds(), ["one", "two", "three"]);
    let (steps, _) = engine.list_steps(made.id(), None, 10).await.unwrap();
    let attempts: Vec<_> = steps.iter().map(|record| record.attempt_index).collect();
    assert_eq!(attempts, [0, 0, 1]);
    running.stop().await.unwrap();
}

async fn naps(ctx: Context, (): ()) -> Result<u64> {
    let world = ctx.state::<Arc<World>>();
    world.note("started");
    let before = ctx.now().await;
    ctx.sleep(HOUR).await;
    ctx.step("after", || act(&world, "after")).await?;
    ctx.sleep_until(before + 3 * HOUR).await;
    Ok(before.duration_since(SystemTime::UNIX_EPOCH)?.as_secs())
}

#[tokio::test(start_paused = true)]
async fn a_sleep_gives_the_slot_back() {
    let (engine, client) = open();
    let world = Arc::new(World::default());
    let running = worker(&client)
        .concurrency(1)
        .state(Arc::clone(&world))
        .handle("naps", naps)
        .handle("quick", async |_: Context, n: u32| Ok::<_, Error>(n))
        .start()
        .unwrap();
    let begun = Instant::now();
    let made = client.create("naps", ()).await.unwrap();
    assert_eq!(made.wait(Duration::from_secs(1)).await.unwrap(), PublicState::Delayed);
    let quick = client.create("quick", 5).await.unwrap();
    assert_eq!(quick.result::<u32>().await.unwrap(), 5, "the only slot is free");
    assert!(begun.elapsed() < HOUR);
    made.result::<u64>().await.unwrap();
    assert!(begun.elapsed() >= 2 * HOUR, "both were slept through");
    assert_eq!(world.deeds().iter().filter(|deed| *deed == "after").count(), 1);
    let (steps, _) = engine.list_steps(made.id(), None, 10).await.unwrap();
    let kinds: Vec<_> = steps.iter().map(|record| record.step.kind).collect();
    assert_eq!(kinds, [StepKind::Now, StepKind::Sleep, StepKind::Run, StepKind::Sleep]);
    let x = engine.find_execution(made.id()).await.unwrap().unwrap();
    assert_eq!(x.counts.attempts, 1, "a sleep does not end the attempt");
    running.stop().await.unwrap();
}

async fn chances(ctx: Context, (): ()) -> Result<(u64, u64, Vec<String>)> {
    let world = ctx.state::<Arc<World>>();
    let first = ctx.random().await;
    world.note(format!("{first}"));
    ctx.step("keep", || act(&world, "keep")).await?;
    let second = ctx.random().await;
    if world.runs.fetch_add(1, Ordering::SeqCst) == 0 {
        return Err("again".into());
    }
    Ok((first, second, world.deeds()))
}

#[tokio::test(start_paused = true)]
async fn chance_is_remembered() {
    let (_, client) = open();
    let world = Arc::new(World::default());
    let running =
        worker(&client).state(Arc::clone(&world)).handle("chances", chances).start().unwrap();
    let made = client.create("chances", ()).retries(1).await.unwrap();
    let (first, _, deeds): (u64, u64, Vec<String>) = made.result().await.unwrap();
    assert_eq!(deeds, [first.to_string(), "keep".into(), first.to_string()]);
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_is_remembered_is_recorded_however_much_it_is() {
    async fn curious(ctx: Context, (): ()) -> Result<u64> {
        for _ in 0..1_999 {
            ctx.random().await;
        }
        let last = ctx.random().await;
        ctx.step("tell", async || Ok::<_, Error>(last)).await
    }
    let (_, client) = open();
    let running = worker(&client).handle("curious", curious).start().unwrap();
    let made = client.create("curious", ()).await.unwrap();
    made.result::<u64>().await.unwrap();
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_step_has_retries_of_its_own_and_a_token_that_stays() {
    async fn shaky(ctx: Context, (): ()) -> Result<u32> {
        let world = ctx.state::<Arc<World>>();
        let step = ctx.step("pay", |info: ff_sdk::StepInfo| {
            let world = Arc::clone(&world);
            async move {
                world.note(info.token.to_string());
                if info.retries < 2 { Err("busy") } else { Ok(info.retries) }
            }
        });
        step.retries_every(3, Duration::from_mins(1)).await
    }
    let (_, client) = open();
    let world = Arc::new(World::default());
    let running = worker(&client).state(Arc::clone(&world)).handle("shaky", shaky).start().unwrap();
    let made = client.create("shaky", ()).await.unwrap();
    let begun = Instant::now();
    assert_eq!(made.result::<u32>().await.unwrap(), 2);
    assert!(begun.elapsed() >= Duration::from_mins(2), "leases were renewed meanwhile");
    let tokens = world.deeds();
    assert_eq!(tokens.len(), 3);
    assert!(tokens.iter().all(|token| *token == tokens[0]));
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_changed_order_is_refused_naming_both_steps() {
    async fn moody(ctx: Context, (): ()) -> Result<()> {
        let world = ctx.state::<Arc<World>>();
        let first = world.runs.fetch_add(1, Ordering::SeqCst) == 0;
        let name = if first { "quote" } else { "pay" };
        // Whatever the handler does about errors, it does not get any further.
        let _ = ctx.step(name, || act(&world, name)).await;
        if first { Err("again".into()) } else { Ok(()) }
    }
    let (engine, client) = open();
    let world = Arc::new(World::default());
    let running = worker(&client).state(Arc::clone(&world)).handle("moody", moody).start().unwrap();
    let made = client.create("moody", ()).retries(5).await.unwrap();
    assert_eq!(made.ended().await.unwrap(), PublicState::Failed);
    assert_eq!(world.deeds(), ["quote"]);
    let x = engine.describe_execution(made.id()).await.unwrap().unwrap();
    let failure = x.failure.unwrap();
    assert!(failure.reason.contains("\"quote\"") && failure.reason.contains("\"pay\""));
    assert_eq!(failure.category.as_str(), "steps");
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn steps_may_run_side_by_side() {
    async fn both(ctx: Context, (): ()) -> Result<(String, String)> {
        let world = ctx.state::<Arc<World>>();
        let (left, right) = (
            ctx.step("left", || act(&world, "left")).into_future(),
            ctx.step("right", || act(&world, "right")).into_future(),
        );
        let (left, right) = tokio::join!(left, right);
        if world.runs.fetch_add(1, Ordering::SeqCst) == 0 {
            return Err("again".into());
        }
        Ok((left?, right?))
    }
    let (_, client) = open();
    let world = Arc::new(World::default());
    let running = worker(&client).state(Arc::clone(&world)).handle("both", both).start().unwrap();
    let made = client.create("both", ()).retries(1).await.unwrap();
    made.result::<(String, String)>().await.unwrap();
    assert_eq!(world.deeds().len(), 2);
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_journal_that_is_too_large_is_refused_with_a_reason() {
    async fn hoards(ctx: Context, (): ()) -> Result<()> {
        for _ in 0..200 {
            ctx.step("hoard", async || Ok::<_, Error>("x".repeat(1 << 19))).await?;
        }
        Ok(())
    }
    let (engine, client) = open();
    let running = worker(&client).handle("hoards", hoards).start().unwrap();
    let made = client.create("hoards", ()).retries(3).await.unwrap();
    assert_eq!(made.ended().await.unwrap(), PublicState::Failed);
    let x = engine.describe_execution(made.id()).await.unwrap().unwrap();
    assert!(x.failure.unwrap().reason.contains("bytes of results"));
    running.stop().await.unwrap();
}

/// Half of it is lost when it is written down.
#[derive(serde::Serialize, serde::Deserialize)]
struct Lossy {
    kept: u32,
    #[serde(skip)]
    lost: u32,
}

#[tokio::test(start_paused = true)]
async fn a_handler_receives_what_was_recorded_also_the_first_time() {
    async fn job(ctx: Context, (): ()) -> Result<Vec<u32>> {
        let seen = ctx.state::<Arc<Mutex<Vec<u32>>>>();
        let lossy = ctx.step("lossy", async || Ok::<_, Error>(Lossy { kept: 1, lost: 7 })).await?;
        let nothing = ctx.step("nothing", async || Ok::<_, Error>(Some(()))).await?;
        seen.lock().unwrap().extend([lossy.kept, lossy.lost, u32::from(nothing.is_some())]);
        ctx.sleep(HOUR).await;
        Ok(seen.lock().unwrap().clone())
    }
    async fn lost(ctx: Context, (): ()) -> Result<u32> {
        let step = ctx.step("no number", async || Ok::<_, Error>(f64::NAN)).await;
        Ok(u32::from(step.is_ok()))
    }
    let (engine, client) = open();
    let worker = worker(&client).state(Arc::new(Mutex::new(Vec::<u32>::new())));
    let running = worker.handle("job", job).handle("lost", lost).start().unwrap();
    let made = client.create("job", ()).await.unwrap();
    assert_eq!(made.result::<Vec<u32>>().await.unwrap(), [1, 0, 0, 1, 0, 0]);
    let made = client.create("lost", ()).retries(3).await.unwrap();
    assert_eq!(made.ended().await.unwrap(), PublicState::Failed);
    let x = engine.describe_execution(made.id()).await.unwrap().unwrap();
    assert_eq!(x.counts.attempts, 1, "its effect took place");
    let reason = x.failure.unwrap().reason;
    assert!(reason.contains("step 0 \"no number\" cannot be read back"), "{reason}");
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_operation_inside_of_a_step_is_refused_before_anything_runs() {
    let (engine, client) = open();
    let world = Arc::new(World::default());
    let nested = async |ctx: Context, kind: String| -> Result<()> {
        let world = ctx.state::<Arc<World>>();
        let inside = async || {
            match kind.as_str() {
                "step" => drop(ctx.step("inner", || act(&world, "inner")).await?),
                "sleep" => ctx.sleep(HOUR).await,
                "now" => drop(ctx.now().await),
                _ => drop(ctx.wait_for::<u32>("word").await?), // not ours: the last of four
            }
            world.note("after");
            Ok::<_, ff_sdk::BoxError>(())
        };
        let caught = ctx.step("outer", inside).retries(3).await;
        world.note(format!("{caught:?}"));
        Ok(())
    };
    let running = worker(&client).state(Arc::clone(&world)).handle("nested", nested);
    let running = running.start().unwrap();
    for kind in ["step", "sleep", "now", "wait"] {
        let made = client.create("nested", kind).retries(3).await.unwrap();
        assert_eq!(made.ended().await.unwrap(), PublicState::Failed, "{kind}");
        let x = engine.describe_execution(made.id()).await.unwrap().unwrap();
        let reason = x.failure.unwrap().reason;
        assert!(reason.contains("was taken inside of step \"outer\""), "{reason}");
        assert_eq!(x.counts.attempts, 1);
    }
    assert_eq!(world.deeds(), [""; 0]);
    running.stop().await.unwrap();
}
