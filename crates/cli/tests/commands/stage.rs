//! A file with known executions, a server before it, and how commands are run there.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use expect_test::Expect;
use ff_backend_sqlite::{Options, Sqlite};
use ff_conformance::Dial;
use ff_core::decide::create::Create;
use ff_core::decide::fail::Fail;
use ff_core::decide::steps::RecordSteps;
use ff_core::execution::Worker;
use ff_core::policy::{FailureClass, Policy};
use ff_core::step::{Step, StepKind, StepOutcome};
use ff_core::{ClaimAsk, ExecutionId, Fence, Millis};
use ff_engine::Engine;
use serde_json::json;
use uuid::Uuid;

/// How long before now the executions of the stage lived: an hour and a half, so that their ages
/// are `1h` for as long as a test takes.
pub const AGO_MS: i64 = 5_400_000;

/// The id of an execution of the stage.
pub const fn uuid(number: u128) -> Uuid {
    Uuid::from_u128(0x0199_0000_0000_7000_8000_0000_0000_0000 + number)
}

/// A file in a directory of its own.
pub struct Stage {
    directory: tempfile::TempDir,
}

/// What a command printed, and how it ended.
pub struct Said {
    pub out: String,
    pub err: String,
    pub code: Option<i32>,
}

impl Stage {
    /// With executions of every sort.
    pub async fn new() -> Self {
        let stage = Self::empty();
        Past::open(&stage).live().await;
        stage
    }

    /// With flows of every sort.
    pub async fn with_flows() -> Self {
        let stage = Self::empty();
        Past::open(&stage).flows().await;
        stage
    }

    /// With executions that wait for signals and people.
    pub async fn with_waits() -> Self {
        let stage = Self::empty();
        Past::open(&stage).waits().await;
        stage
    }

    /// With a file that is not there yet.
    pub fn empty() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    pub fn file(&self) -> PathBuf {
        self.directory.path().join("stage.db")
    }

    pub fn url(&self) -> String {
        format!("sqlite:{}", self.file().display())
    }

    /// Puts a file beside it.
    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.directory.path().join(name), text).unwrap();
    }

    /// Runs a command on the file.
    pub fn ff(&self, arguments: &[&str]) -> Said {
        self.ff_at(&self.url(), arguments, "")
    }

    /// Runs a command at a URL with something to read.
    pub fn ff_at(&self, url: &str, arguments: &[&str], input: &str) -> Said {
        let mut command = ff();
        command.args(arguments).args(["--url", url]).current_dir(self.directory.path());
        let said = finish(command, input);
        Said { out: plain(&said.out, url), err: plain(&said.err, url), code: said.code }
    }
}

/// Without what differs from run to run.
fn plain(text: &str, url: &str) -> String {
    let date = "2026-01-31 09:30:00".len();
    let text = text.replace(url, "<url>");
    let mut parts: Vec<&str> = text.split(" UTC").collect();
    let last = parts.pop().unwrap();
    let dated = parts.iter().map(|part| part[..part.len() - date].to_owned() + "<moment>");
    dated.chain([last.to_owned()]).collect()
}

impl Said {
    /// All of it, as a snapshot.
    pub fn is(&self, expected: &Expect) {
        let code = self.code.unwrap();
        let end = if code == 0 { String::new() } else { format!("exit {code}\n") };
        // Trailing blanks would be lost in the source of the test.
        let all = format!("{}{}{end}", self.out, self.err);
        let lines: Vec<&str> = all.lines().map(str::trim_end).chain([""]).collect();
        expected.assert_eq(&lines.join("\n"));
    }
}

/// The program, with an environment that says nothing.
pub fn ff() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ff"));
    for name in
        ["FF_URL", "FF_TOKEN", "FF_LOG", "NO_COLOR", "CLICOLOR_FORCE", "RUST_BACKTRACE", "USER"]
    {
        command.env_remove(name);
    }
    command.env("COLUMNS", "80");
    command
}

/// Runs a command to its end.
pub fn finish(mut command: Command, input: &str) -> Said {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = command.spawn().unwrap();
    process.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = process.wait_with_output().unwrap();
    Said {
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
        code: output.status.code(),
    }
}

/// `ff serve` before a stage, ended with the test.
pub struct Served {
    pub url: String,
    /// The line it said.
    pub said: String,
    pub process: Child,
}

impl Served {
    pub fn start(stage: &Stage, token: Option<&str>) -> Self {
        let mut command = ff();
        command.args(["serve", "--listen", "127.0.0.1:0", "--url", &stage.url()]);
        command.envs(token.map(|token| ("FF_TOKEN", token))).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let mut said = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut said).unwrap();
        let url = said.split_whitespace().find(|word| word.starts_with("http://")).unwrap();
        Self { url: url.to_owned(), said, process }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The engine of the past, on a clock that only the test turns.
pub struct Past {
    pub engine: Engine,
    pub clock: Arc<Dial>,
}

impl Past {
    pub fn open(stage: &Stage) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
        let clock = Arc::new(Dial::default());
        clock.set(Millis(i64::try_from(now).unwrap() - AGO_MS));
        let options = Options { clock: Arc::clone(&clock) as _, ..Options::new(stage.file()) };
        Self { engine: Engine::new(Arc::new(Sqlite::open(options).unwrap())), clock }
    }

    /// One of each sort.
    async fn live(self) {
        self.order().await;
        self.flaky().await;
        self.broken().await;
        self.create(4, "mail", "greet", &json!({})).await;
        self.engine.cancel_execution(id(4), "the customer left").await.unwrap();
        self.create(5, "mail", "greet", &json!({})).await;
    }

    pub async fn create(&self, number: u128, lane: &str, kind: &str, policy: &serde_json::Value) {
        let create = Create {
            input: Bytes::from_static(b"{}"),
            tags: [("shop.customer".to_owned(), format!("c{number}"))].into(),
            policy: Policy::parse(policy).unwrap(),
            ..Create::new(id(number), lane.parse().unwrap(), kind.parse().unwrap())
        };
        self.engine.create_execution(create).await.unwrap();
        self.clock.advance(10);
    }

    /// What the next claim in a lane is given.
    pub async fn claim(&self, lane: &str) -> (ExecutionId, Fence) {
        let worker = Worker { id: "shop".parse().unwrap(), instance: "shop-1".parse().unwrap() };
        let ask = ClaimAsk::new(Uuid::now_v7(), worker, vec![lane.parse().unwrap()]);
        let claimed = self.engine.claim(ask, std::time::Duration::ZERO).await.unwrap();
        let leased = &claimed.first().expect("something to claim").leased;
        (leased.execution.id, leased.fence)
    }

    pub async fn step(&self, held: (ExecutionId, Fence), number: u32, name: &str, ran_ms: u64) {
        self.clock.advance(i64::try_from(ran_ms).unwrap());
        let result = format!("\"{name} done\"");
        self.record(held, (number, StepKind::Run, name), ran_ms, result).await;
    }

    pub async fn record(
        &self,
        (id, fence): (ExecutionId, Fence),
        (number, kind, name): (u32, StepKind, &str),
        ran_ms: u64,
        result: String,
    ) {
        let step = Step { ran_ms, ..step((number, kind, name), result) };
        let steps = RecordSteps { id, fence, steps: vec![step] };
        self.engine.record_steps(steps).await.unwrap();
    }

    /// Steps with a sleep between them.
    async fn order(&self) {
        self.create(1, "orders", "order", &json!({})).await;
        self.clock.advance(40);
        let held = self.claim("orders").await;
        self.step(held, 0, "validate", 60).await;
        self.step(held, 1, "charge the card", 400).await;
        let until = self.engine.server_time_ms().await.unwrap().plus(1_500);
        let sleep = step((2, StepKind::Sleep, "sleep"), until.to_string());
        let sleep = Step { outcome: StepOutcome::Open, time: Some(until), ..sleep };
        let (id, fence) = held;
        self.engine.record_steps(RecordSteps { id, fence, steps: vec![sleep] }).await.unwrap();
        self.engine.delay_execution(held.0, held.1, until).await.unwrap();
        self.clock.advance(1_550);
        let held = self.claim("orders").await;
        self.record(held, (3, StepKind::Random, "random"), 0, "17".to_owned()).await;
        self.step(held, 4, "ship", 300).await;
        let result = Some(Bytes::from_static(br#"{"tracking":"FF17"}"#));
        let complete = ff_core::decide::complete::Complete {
            id: held.0,
            fence: held.1,
            result,
            encoding: Some("json".parse().unwrap()),
        };
        self.engine.execute(complete).await.unwrap();
    }

    pub async fn fail(&self, (id, fence): (ExecutionId, Fence), reason: &str) {
        let category = "network".parse().unwrap();
        let class = FailureClass::Transient;
        let fail = Fail { id, fence, reason: reason.to_owned(), category, class };
        self.engine.fail_execution(fail).await.unwrap();
    }

    /// Fails once, then succeeds.
    async fn flaky(&self) {
        let backoff = json!({"type": "fixed", "delay_ms": 1_000});
        let policy = json!({"retry_policy": {"max_retries": 3, "backoff": backoff}});
        self.create(2, "orders", "flaky", &policy).await;
        let held = self.claim("orders").await;
        self.step(held, 0, "fetch", 120).await;
        self.fail(held, "connection reset by peer").await;
        self.clock.advance(1_000);
        let (id, fence) = self.claim("orders").await;
        self.clock.advance(90);
        self.engine.complete_execution(id, fence, None).await.unwrap();
    }

    /// Fails for good.
    async fn broken(&self) {
        self.create(3, "orders", "broken", &json!({})).await;
        let held = self.claim("orders").await;
        self.clock.advance(5);
        self.fail(held, "no route\n\u{1b}[31mto host").await;
    }
}

/// A step that took no time.
pub fn step((number, kind, name): (u32, StepKind, &str), result: String) -> Step {
    let encoding = Some("json".parse().unwrap());
    Step { kind, encoding, ..Step::run(number, name.parse().unwrap(), Bytes::from(result)) }
}

pub fn id(number: u128) -> ExecutionId {
    ExecutionId::solo(uuid(number))
}
