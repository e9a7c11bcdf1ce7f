//! What becomes of steps, and what rests on it: in every run the same, and no more than was seen.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use ff_core::ClaimAsk;
use ff_core::decide::steps::RecordSteps;
use ff_core::state::PublicState;
use ff_core::step::{Step, StepKind};
use ff_engine::Engine;
use ff_sdk::{BoxError, Client, Context, Error, Handle, Result};

use crate::{HOUR, open, worker};

type Seen = Arc<Mutex<Vec<String>>>;

/// The time that a handler is told goes on with each step, and later runs are told the same.
#[tokio::test(start_paused = true)]
async fn the_time_goes_on_with_steps_that_are_taken_as_with_those_that_are_read() {
    async fn parent(ctx: Context, (): ()) -> Result<Vec<String>> {
        let seen = ctx.state::<Seen>();
        ctx.step("slow", async || {
            tokio::time::sleep(Duration::from_secs(3)).await;
            Ok::<_, Error>(())
        })
        .await?;
        // A child whose input is the time: another input would be a conflict.
        let input = format!("{:?}", ctx.now().await);
        let told: Vec<String> = ctx.join_all([ctx.task("echo", input)]).await?;
        let now = ctx.now().await;
        seen.lock().unwrap().push(format!("{now:?}"));
        ctx.sleep(HOUR).await;
        Ok(told)
    }
    let (_, client) = open();
    let seen = Seen::default();
    let worker = worker(&client).state(Arc::clone(&seen)).handle("parent", parent);
    let echo = async |_: Context, said: String| Ok::<_, Error>(said);
    let running = worker.handle("echo", echo).start().unwrap();
    let made = client.create("parent", ()).await.unwrap();
    made.result::<Vec<String>>().await.unwrap();
    let seen = seen.lock().unwrap().clone();
    assert!(seen.len() == 2 && seen[0] == seen[1], "{seen:?}");
    running.stop().await.unwrap();
}

/// What fails beside another step is not what that rests on: the next attempt tries it again.
#[tokio::test(start_paused = true)]
async fn a_failure_beside_a_success_is_tried_again() {
    async fn both(ctx: Context, (): ()) -> Result<u32> {
        let tries = ctx.state::<AtomicU32>();
        let flaky = ctx.step("flaky", || async {
            let tries = tries.fetch_add(1, Ordering::SeqCst);
            if tries < 2 { Err(Error::transient("not yet")) } else { Ok(tries) }
        });
        let steady = ctx.step("steady", async || {
            tokio::time::sleep(Duration::from_secs(1)).await;
            Ok::<_, Error>(())
        });
        let (flaky, steady) = tokio::join!(flaky.into_future(), steady.into_future());
        steady?;
        flaky
    }
    let (_, client) = open();
    let worker = worker(&client).state(AtomicU32::default()).handle("both", both);
    let running = worker.start().unwrap();
    let made = client.create("both", ()).retries(5).await.unwrap();
    assert_eq!(made.result::<u32>().await.unwrap(), 2);
    running.stop().await.unwrap();
}

/// However many failures are kept, they fit into the commands that record them.
#[tokio::test(start_paused = true)]
async fn many_failures_are_recorded_before_what_follows() {
    async fn many(ctx: Context, (): ()) -> Result<u32> {
        let tries = ctx.state::<AtomicU32>();
        let calls = (0..1_200).map(|_| {
            let fails = ctx.step("fails", || async {
                tries.fetch_add(1, Ordering::SeqCst);
                Err::<(), _>(Error::permanent("x".repeat(2_000)))
            });
            fails.into_future()
        });
        let failed = futures_util::future::join_all(calls).await;
        assert!(failed.iter().all(std::result::Result::is_err));
        ctx.step("after", async || Ok::<_, Error>(())).await?;
        if ctx.attempt_index() == 0 {
            return Err("once more".into());
        }
        Ok(tries.load(Ordering::SeqCst))
    }
    let (_, client) = open();
    let worker = worker(&client).state(AtomicU32::default()).handle("many", many);
    let running = worker.start().unwrap();
    let made = client.create("many", ()).retries(1).await.unwrap();
    assert_eq!(made.result::<u32>().await.unwrap(), 1_200);
    running.stop().await.unwrap();
}

/// Steps as the release before recorded them: known by their number.
async fn recorded_before(
    engine: &Engine,
    client: &Client,
    steps: &[(StepKind, &str, String)],
) -> Handle {
    let made = client.create("job", ()).await.unwrap();
    let worker = ff_core::execution::Worker {
        id: "before".parse().unwrap(),
        instance: "before".parse().unwrap(),
    };
    let ask = ClaimAsk::new(uuid::Uuid::now_v7(), worker, vec!["default".parse().unwrap()]);
    let work = engine.claim(ask, Duration::from_secs(1)).await.unwrap();
    let (id, fence) = (made.id(), work[0].leased.fence);
    let step = |(number, (kind, name, result)): (usize, &(StepKind, &str, String))| {
        let (number, name) = (u32::try_from(number).unwrap(), name.parse().unwrap());
        Step { kind: *kind, ..Step::run(number, name, Bytes::from(result.clone())) }
    };
    let steps = steps.iter().enumerate().map(step).collect();
    engine.record_steps(RecordSteps { id, fence, steps }).await.unwrap();
    engine.release_execution(id, fence).await.unwrap();
    made
}

#[tokio::test(start_paused = true)]
async fn a_journal_of_the_release_before_is_continued() {
    async fn job(ctx: Context, (): ()) -> Result<Vec<u32>, BoxError> {
        let one = ctx.step("one", async || Err::<u32, _>(Error::permanent("again"))).await?;
        ctx.sleep(HOUR).await;
        let none: Vec<u32> = ctx.join_all([]).await?;
        assert!(none.is_empty());
        let two = ctx.step("two", async || Ok::<_, Error>(2)).await?;
        Ok(vec![one, two])
    }
    let (engine, client) = open();
    let until = engine.server_time_ms().await.unwrap();
    let steps = [
        (StepKind::Run, "one", "1".to_owned()),
        (StepKind::Sleep, "sleep", until.to_string()),
        (StepKind::Run, "join_all", "[]".to_owned()),
    ];
    let made = recorded_before(&engine, &client, &steps).await;
    let running = worker(&client).handle("job", job).start().unwrap();
    assert_eq!(made.result::<Vec<u32>>().await.unwrap(), [1, 2]);
    let (steps, _) = engine.list_steps(made.id(), None, 10).await.unwrap();
    assert_eq!(steps.len(), 4, "only what was not recorded is");
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_journal_that_only_the_release_before_can_continue_is_left_to_it() {
    let (engine, client) = open();
    let steps = [(StepKind::Now, "now", "17".to_owned())];
    let made = recorded_before(&engine, &client, &steps).await;
    let job = async |_: Context, (): ()| Ok::<_, Error>(());
    let running = worker(&client).handle("job", job).start().unwrap();
    assert_eq!(made.wait(Duration::from_secs(5)).await.unwrap(), PublicState::Delayed);
    let said = made.describe().await.unwrap().progress.unwrap().message.unwrap();
    assert!(said.contains("let a worker of that release finish"), "{said}");
    running.stop().await.unwrap();
}
