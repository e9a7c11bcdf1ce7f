//! Durable steps: once each, whatever happens between them.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use ff_core::state::PublicState;
use ff_core::step::{StepKind, StepOutcome};
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
    assert_eq!(kinds, [StepKind::Sleep, StepKind::Run, StepKind::Sleep]);
    let x = engine.find_execution(made.id()).await.unwrap().unwrap();
    assert_eq!(x.counts.attempts, 1, "a sleep does not end the attempt");
    running.stop().await.unwrap();
}

async fn chances(ctx: Context, (): ()) -> Result<Vec<String>> {
    let world = ctx.state::<Arc<World>>();
    let token = |ctx: &Context| (ctx.random("dice"), ctx.random("coin"), ctx.uuid("id"));
    let time = ctx.now().await;
    world.note(format!("{:?} {time:?}", token(&ctx)));
    ctx.sleep(HOUR).await;
    ctx.step("keep", || act(&world, "keep")).await?;
    assert!(ctx.now().await >= time + HOUR, "time goes on with what is seen");
    if world.runs.fetch_add(1, Ordering::SeqCst) < 2 {
        tokio::time::sleep(Duration::from_secs(7)).await;
        return Err("again".into());
    }
    world.note(format!("{:?}", ctx.now().await));
    Ok(world.deeds())
}

#[tokio::test(start_paused = true)]
async fn time_and_chance_are_the_same_in_every_run() {
    let (engine, client) = open();
    let world = Arc::new(World::default());
    let running =
        worker(&client).state(Arc::clone(&world)).handle("chances", chances).start().unwrap();
    let made = client.create("chances", ()).retries(3).await.unwrap();
    let deeds: Vec<String> = made.result().await.unwrap();
    let found: Vec<_> = deeds.iter().filter(|deed| deed.starts_with('(')).collect();
    assert!(found.len() >= 3 && found.iter().all(|deed| *deed == found[0]), "{found:?}");
    // Nothing of that is recorded, and a replay of a success rolls the dice anew.
    let (steps, _) = engine.list_steps(made.id(), None, 10).await.unwrap();
    assert_eq!(steps.len(), 2);
    made.replay("once more").await.unwrap();
    let deeds: Vec<String> = made.result().await.unwrap();
    let last = deeds.iter().rfind(|deed| deed.starts_with('('));
    assert_ne!(last, Some(found[0]));
    running.stop().await.unwrap();
}

/// Charges, fails to ship, and goes on after that: what it then did must not be contradicted.
async fn refunds(ctx: Context, (): ()) -> Result<String> {
    let world = ctx.state::<Arc<World>>();
    ctx.step("charge", || act(&world, "charge")).await?;
    let shipped = ctx
        .step("ship", || async {
            world.note("ship");
            // The second time it would work.
            if world.runs.fetch_add(1, Ordering::SeqCst) == 0 {
                let busy = Error::transient("no van").with_category("van").unwrap();
                return Err(busy.context("calling the carrier"));
            }
            Ok("shipped".to_owned())
        })
        .await;
    let Err(why) = shipped else { return Ok("it shipped".to_owned()) };
    let failed = why.downcast_ref::<ff_sdk::StepFailed>().expect("a step that failed");
    assert_eq!((failed.step(), failed.category(), failed.retryable()), ("ship", "van", true));
    ctx.step("refund", || act(&world, "refund")).await?;
    if world.deeds().iter().filter(|deed| *deed == "crash").count() < 2 {
        world.note("crash");
        return Err("the lights went out".into());
    }
    Ok(failed.message().to_owned())
}

#[tokio::test(start_paused = true)]
async fn a_failure_that_the_handler_went_on_after_is_final() {
    let (engine, client) = open();
    let world = Arc::new(World::default());
    let running =
        worker(&client).state(Arc::clone(&world)).handle("refunds", refunds).start().unwrap();
    let made = client.create("refunds", ()).retries(5).await.unwrap();
    assert_eq!(made.result::<String>().await.unwrap(), "calling the carrier: no van");
    assert_eq!(world.deeds(), ["charge", "ship", "refund", "crash", "crash"]);
    let (steps, _) = engine.list_steps(made.id(), None, 10).await.unwrap();
    let outcomes: Vec<_> = steps.iter().map(|record| record.step.outcome).collect();
    assert_eq!(outcomes, [StepOutcome::Done, StepOutcome::Failed, StepOutcome::Done]);
    running.stop().await.unwrap();
}

/// A failure that ends the attempt leaves no trace: the next one tries again.
#[tokio::test(start_paused = true)]
async fn a_failure_that_ends_the_attempt_is_tried_again() {
    async fn ships(ctx: Context, (): ()) -> Result<u32> {
        let world = ctx.state::<Arc<World>>();
        let tries = ctx.step("ship", || async {
            let tries = world.runs.fetch_add(1, Ordering::SeqCst);
            if tries < 2 { Err("no van") } else { Ok(tries) }
        });
        tries.await
    }
    let (engine, client) = open();
    let world = Arc::new(World::default());
    let running = worker(&client).state(world).handle("ships", ships).start().unwrap();
    let made = client.create("ships", ()).retries(5).await.unwrap();
    assert_eq!(made.result::<u32>().await.unwrap(), 2);
    let (steps, _) = engine.list_steps(made.id(), None, 10).await.unwrap();
    assert_eq!(steps.len(), 1);
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
