//! What goes wrong in handlers, and what becomes of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ff_core::state::PublicState;
use ff_engine::Engine;
use ff_sdk::{Client, Context, Error, Handle, Result};

use crate::{HOUR, open, worker};

async fn failure(engine: &Engine, made: &Handle) -> (String, String, u32) {
    made.ended().await.unwrap();
    let x = engine.describe_execution(made.id()).await.unwrap().unwrap();
    let failure = x.failure.unwrap();
    (failure.category.to_string(), failure.reason, x.counts.attempts)
}

async fn create(client: &Client, kind: &str) -> Handle {
    client.create(kind, 1).retries(2).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_failure_says_of_what_sort_it_is() {
    let (engine, client) = open();
    let running = worker(&client)
        .handle("plain", async |_: Context, _: u32| Err::<(), _>(std::io::Error::other("gone")))
        .handle("final", async |_: Context, _: u32| {
            Err::<(), _>(Error::permanent("no address").with_category("customer")?)
        })
        .handle("panics", async |_: Context, n: u32| -> Result<u32> { panic!("oh no, {n}") })
        .handle("typed", async |_: Context, _: String| Ok::<_, Error>(()))
        .handle("large", async |_: Context, _: u32| Ok::<_, Error>("x".repeat(2 << 20)))
        .start()
        .unwrap();
    let made = create(&client, "plain").await;
    assert_eq!(failure(&engine, &made).await, ("error".into(), "gone".into(), 3));
    let made = create(&client, "final").await;
    assert_eq!(failure(&engine, &made).await, ("customer".into(), "no address".into(), 1));
    let made = create(&client, "panics").await;
    let (category, reason, attempts) = failure(&engine, &made).await;
    assert_eq!((category.as_str(), attempts), ("panic", 3));
    assert!(reason.contains("oh no, 1"), "{reason}");
    let made = create(&client, "typed").await;
    let (category, reason, attempts) = failure(&engine, &made).await;
    assert_eq!((category.as_str(), attempts), ("input", 1));
    assert!(reason.contains("expected a string"), "{reason}");
    let made = create(&client, "large").await;
    let (category, reason, attempts) = failure(&engine, &made).await;
    assert_eq!((category.as_str(), attempts), ("result", 1));
    assert!(reason.starts_with("its result was refused: "), "{reason}");
    running.stop().await.unwrap();
}

/// Wraps an error, and shows it as its source or hides it behind its own.
#[derive(Debug)]
enum Wrapped {
    Around(Error),
    Transparent(Error),
}

impl std::fmt::Display for Wrapped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Around(_) => f.write_str("while delivering"),
            Self::Transparent(inner) => inner.fmt(f),
        }
    }
}

impl std::error::Error for Wrapped {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Around(inner) => Some(inner),
            Self::Transparent(inner) => inner.source(),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_failure_keeps_its_nature_in_whatever_wraps_it() {
    fn fails() -> Result<Error, Error> {
        Error::permanent("no address").with_category("customer")
    }
    let (engine, client) = open();
    let running = worker(&client)
        .handle("around", async |_: Context, _: u32| {
            Err::<(), _>(Box::new(Wrapped::Around(fails()?)) as ff_sdk::BoxError)
        })
        .handle("transparent", async |_: Context, _: u32| {
            Err::<(), _>(Box::new(Wrapped::Transparent(fails()?)) as ff_sdk::BoxError)
        })
        .handle("context", async |_: Context, _: u32| {
            Err::<(), _>(fails()?.context("while delivering"))
        })
        .handle("step", async |ctx: Context, _: u32| {
            let tried = async || Err::<(), _>(Wrapped::Around(fails().expect("a category")));
            ctx.step("deliver", tried).retries(3).await
        })
        .start()
        .unwrap();
    let long = "while delivering: no address";
    let said = [("around", long), ("transparent", "no address"), ("context", long), ("step", long)];
    for (kind, said) in said {
        let made = create(&client, kind).await;
        assert_eq!(failure(&engine, &made).await, ("customer".into(), said.into(), 1), "{kind}");
    }
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn work_of_an_unknown_kind_waits_for_a_worker_that_knows_it() {
    let (engine, client) = open();
    let knows = async |_: Context, n: u32| Ok::<_, Error>(n + 1);
    let stranger = worker(&client).handle("other", knows).start().unwrap();
    let made = create(&client, "mystery").await;
    assert_eq!(made.wait(Duration::from_secs(1)).await.unwrap(), PublicState::Delayed);
    let x = engine.describe_execution(made.id()).await.unwrap().unwrap();
    let said = x.progress.unwrap().message.unwrap();
    assert!(said.contains("handles other, not mystery"), "{said}");
    stranger.stop().await.unwrap();
    let running = worker(&client).handle("mystery", knows).start().unwrap();
    assert_eq!(made.result::<u32>().await.unwrap(), 2);
    running.stop().await.unwrap();
}

/// Waits to be stopped, and notes that it heard.
async fn waits(ctx: Context, _: u32) -> Result<()> {
    let heard = ctx.state::<Arc<AtomicBool>>();
    ctx.progress(10, "waiting").await?;
    ctx.cancelled().cancelled().await;
    heard.store(true, Ordering::SeqCst);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_execution_tells_its_handler() {
    let (_, client) = open();
    let heard = Arc::new(AtomicBool::new(false));
    let running = worker(&client).state(Arc::clone(&heard)).handle("waits", waits).start().unwrap();
    let made = create(&client, "waits").await;
    assert_eq!(made.wait(Duration::from_secs(1)).await.unwrap(), PublicState::Active);
    made.cancel("enough").await.unwrap();
    assert_eq!(made.ended().await.unwrap(), PublicState::Cancelled);
    running.stop().await.unwrap();
    assert!(heard.load(Ordering::SeqCst));
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_renewed_for_as_long_as_the_handler_runs() {
    let (engine, client) = open();
    let running = worker(&client)
        .lease(Duration::from_secs(3))
        .handle("long", async |_: Context, n: u32| {
            tokio::time::sleep(HOUR).await;
            Ok::<_, Error>(n)
        })
        .start()
        .unwrap();
    let made = create(&client, "long").await;
    assert_eq!(made.result::<u32>().await.unwrap(), 1);
    let x = engine.find_execution(made.id()).await.unwrap().unwrap();
    assert_eq!((x.counts.attempts, x.counts.reclaims), (1, 0));
    running.stop().await.unwrap();
}
