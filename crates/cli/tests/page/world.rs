//! A server on a file with executions of every sort, and a worker that does as the test says.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use flowfabric::{
    Context, Error, FlowDraft, FlowFabric, FlowHandle, Handle, Result, Running, node,
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::Semaphore;

/// Executions that nobody works on: more than the page shows at first.
pub const WAITING: usize = 60;

/// Everything, ended with the test.
pub struct World {
    pub fabric: FlowFabric,
    /// Where the server is.
    pub url: String,
    /// Lets the execution that is watched take one more step.
    pub gate: Arc<Semaphore>,
    /// Has failed once, then succeeded.
    pub flaky: Handle,
    /// Has failed for good.
    pub broken: Handle,
    /// Is under way.
    pub watched: Handle,
    _worker: Running,
    server: Child,
    _directory: TempDir,
}

impl World {
    pub async fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("page.db");
        let mut command = Command::new(env!("CARGO_BIN_EXE_ff"));
        command.args(["serve", "--listen", "127.0.0.1:0", "--url"]);
        command.arg(format!("sqlite:{}", file.display())).env_remove("FF_TOKEN");
        let mut server = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let said = BufReader::new(server.stdout.take().unwrap()).lines().next();
        let said = said.expect("a server says where it is").unwrap();
        let url = said.split_whitespace().find(|word| word.starts_with("http://"));
        let url = url.expect("an address").trim_end_matches('/').to_owned();

        let fabric = FlowFabric::connect(&url, None).unwrap();
        let gate = Arc::new(Semaphore::new(0));
        let worker = fabric.worker("orders").name("shop").instance("shop-1");
        let worker = worker.state(Arc::clone(&gate)).handle("gated", gated);
        let worker =
            worker.handle("flaky", flaky).handle("broken", broken).handle("watched", watched);
        let worker = worker.start().unwrap();
        let create =
            |kind: &str| fabric.create(kind, order()).lane("orders").tag("shop.customer", "ada");
        let often = create("flaky").retries_every(3, Duration::from_millis(200));
        let (flaky, broken) = (often.await.unwrap(), create("broken").await.unwrap());
        let watched = create("watched").await.unwrap();
        let left = fabric.create("welcome", "Ada").lane("mail").await.unwrap();
        left.cancel("the customer left").await.unwrap();
        fabric.create("reminder", ()).lane("mail").delay(Duration::from_hours(1)).await.unwrap();
        let all = (0..WAITING).map(|number| fabric.create("import", number).lane("bulk"));
        for one in fabric.create_many(all).await.unwrap() {
            one.unwrap();
        }
        for one in [&flaky, &broken] {
            one.ended().await.unwrap();
        }
        Self {
            fabric,
            url,
            gate,
            flaky,
            broken,
            watched,
            _worker: worker,
            server,
            _directory: directory,
        }
    }

    /// Has the execution that is watched end, so that it takes no more permits.
    pub async fn free_the_gate(&self) {
        self.gate.add_permits(3);
        self.watched.ended().await.unwrap();
    }

    /// A flow: one member that waits for the gate at each end, and `wide` between them, of which
    /// all but one are enough. One of these always fails, and one follows only if it does not.
    pub fn fan(&self, wide: usize) -> FlowDraft {
        let of = |name: &str, kind: &str| node(name, kind, ()).lane("orders");
        let between = |number: usize| {
            of(&format!("part-{number}"), if number == 0 { "broken" } else { "gated" })
        };
        let enough = u32::try_from(wide - 1).unwrap();
        let last = (0..wide).fold(of("last", "gated").quorum(enough), |last, number| {
            last.after(format!("part-{number}"))
        });
        let parts = (0..wide).map(|number| between(number).after("first"));
        let draft = self.fabric.flow("fan").tag("shop.customer", "ada").nodes(parts);
        draft.node(of("first", "gated")).node(last).node(of("then", "gated").after("part-0"))
    }

    /// The address of a flow on the page.
    pub fn page_of_flow(&self, flow: &FlowHandle) -> String {
        format!("{}/#/flows/{}", self.url, flow.id())
    }

    /// The address of an execution on the page.
    pub fn page_of(&self, handle: &Handle) -> String {
        let id = handle.id().to_string();
        let id = id.replace('{', "%7B").replace(':', "%3A").replace('}', "%7D");
        format!("{}/#/executions/{id}", self.url)
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// With what a page could stumble over: markup, a number that JavaScript cannot hold, a long word.
fn order() -> Value {
    json!({"name": "<b>Ada</b>", "number": 12_345_678_901_234_567_890_u64, "long": "x".repeat(400)})
}

async fn flaky(ctx: Context, _: Value) -> Result<String> {
    let quote = ctx.step("quote", async || Ok::<_, Error>("r_5512".to_owned())).await?;
    if ctx.attempt_index() == 0 {
        return Err(Error::transient("connection reset by peer").into());
    }
    ctx.step("book", async || Ok::<_, Error>(())).await?;
    Ok(quote)
}

async fn broken(_: Context, _: Value) -> Result<()> {
    Err(Error::permanent(format!("no route to host {}", "0".repeat(300))).into())
}

/// Ends when the test says so.
async fn gated(ctx: Context, _: Value) -> Result<()> {
    ctx.state::<Arc<Semaphore>>().acquire().await?.forget();
    Ok(())
}

/// Takes a step whenever the test says so; the third is its last.
async fn watched(ctx: Context, _: Value) -> Result<&'static str> {
    for name in ["look", "weigh", "pack"] {
        let gate = ctx.state::<Arc<Semaphore>>();
        ctx.step(name, async || Ok::<_, Error>(format!("{name} is done"))).await?;
        gate.acquire().await?.forget();
    }
    Ok("all is done")
}
