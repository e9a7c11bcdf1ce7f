//! Worker processes killed with `kill -9` at random moments lose nothing.
//!
//! Three processes work on one file; twenty times one is killed and another started, while the
//! test creates 2,000 executions. Each process logs every completion that was acknowledged to
//! it. In the end every acknowledged creation has ended once, within its policy, and every
//! acknowledged completion stands as it was acknowledged.
#![allow(clippy::unwrap_used, missing_docs)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use ff_backend_sqlite::{Options, Sqlite};
use ff_core::decide::create::Create;
use ff_core::event::{Cursor, EventKind, EventName, Filter};
use ff_core::execution::{LeaseEnd, State};
use ff_core::policy::Policy;
use ff_core::state::TerminalOutcome;
use ff_core::{ExecutionId, WorkFilter};
use ff_engine::Engine;
use serde_json::json;
use uuid::Uuid;

const EXECUTIONS: usize = 2_000;
const WORKERS: usize = 3;
const KILLS: usize = 20;
const MAX_RETRIES: u32 = 3;
const MAX_RECLAIMS: u32 = 50;

/// Worker processes of which some die.
struct Fleet {
    directory: PathBuf,
    workers: Vec<Child>,
    started: usize,
}

impl Fleet {
    fn start(&mut self) {
        self.started += 1;
        let name = format!("w{}", self.started);
        let worker = Command::new(env!("CARGO_BIN_EXE_ff"))
            .args(["sample-worker", "--lane", "crash", "--lease-ttl-ms", "500"])
            .args(["--database", &url(&self.directory), "--name", &name])
            .arg("--log")
            .arg(self.directory.join(format!("{name}.log")))
            .stdin(Stdio::null())
            .spawn();
        self.workers.push(worker.unwrap());
    }

    /// `kill -9`, and a new process in its place.
    fn kill_one(&mut self) {
        let mut victim = self.workers.swap_remove(rand::random_range(0..self.workers.len()));
        victim.kill().unwrap();
        victim.wait().unwrap();
        self.start();
    }

    /// What was acknowledged to any worker, dead ones included.
    fn acknowledged(&self) -> BTreeMap<ExecutionId, (u32, u64)> {
        let mut all = BTreeMap::new();
        for number in 1..=self.started {
            let log = std::fs::read_to_string(self.directory.join(format!("w{number}.log")));
            // A killed process may have been cut off in the middle of its last line.
            let log = log.unwrap_or_default();
            for line in log.split_inclusive('\n').filter(|line| line.ends_with('\n')) {
                let mut words = line.split_whitespace();
                let id = words.next().unwrap().parse().unwrap();
                let fence = (
                    words.next().unwrap().parse().unwrap(),
                    words.next().unwrap().parse().unwrap(),
                );
                let twice = all.insert(id, fence);
                assert!(twice.is_none(), "{id} was completed twice: {twice:?} and {fence:?}");
            }
        }
        all
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        for worker in &mut self.workers {
            let _ = worker.kill();
            let _ = worker.wait();
        }
    }
}

fn url(directory: &Path) -> String {
    format!("sqlite:{}", directory.join("crash.db").display())
}

fn draft(number: usize) -> Create {
    let policy = json!({
        "retry_policy": {"max_retries": MAX_RETRIES,
            "backoff": {"type": "fixed", "delay_ms": 20, "jitter": true}},
        "max_reclaim_count": MAX_RECLAIMS,
    });
    // A mix of quick work, work that fails twice, and work that never succeeds.
    let kind = match number % 10 {
        0..=6 => "greet",
        7 | 8 => "flaky",
        _ => "broken",
    };
    let id = ExecutionId::solo(Uuid::now_v7());
    Create {
        input: Bytes::from_static(b"world"),
        policy: Policy::parse(&policy).unwrap(),
        ..Create::new(id, "crash".parse().unwrap(), kind.parse().unwrap())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_workers_lose_nothing_in_a_crash() {
    let directory = tempfile::tempdir().unwrap();
    let store = Sqlite::open(Options::new(directory.path().join("crash.db"))).unwrap();
    let engine = Engine::new(Arc::new(store));
    let mut fleet =
        Fleet { directory: directory.path().to_owned(), workers: Vec::new(), started: 0 };
    (0..WORKERS).for_each(|_| fleet.start());

    let mut created: Vec<(ExecutionId, &'static str)> = Vec::new();
    for chunk in 0..KILLS {
        let drafts: Vec<Create> =
            (0..EXECUTIONS / KILLS).map(|n| draft(chunk * EXECUTIONS / KILLS + n)).collect();
        let kinds: Vec<_> = drafts.iter().map(|d| (d.id, kind_of(d))).collect();
        for (answer, pair) in engine.create_executions(drafts).await.unwrap().iter().zip(kinds) {
            assert!(answer.is_ok(), "{answer:?}");
            created.push(pair);
        }
        tokio::time::sleep(Duration::from_millis(rand::random_range(50..400))).await;
        fleet.kill_one();
    }
    wait_until_all_ended(&engine).await;
    check(&engine, &created, &fleet.acknowledged()).await;
    assert_eq!(fleet.started, WORKERS + KILLS);
}

fn kind_of(draft: &Create) -> &'static str {
    match draft.kind.as_str() {
        "greet" => "greet",
        "flaky" => "flaky",
        _ => "broken",
    }
}

async fn wait_until_all_ended(engine: &Engine) {
    let begun = Instant::now();
    loop {
        let counts = engine.count_executions().await.unwrap();
        let ended = counts.iter().filter(|count| count.state.is_terminal());
        if ended.map(|count| count.count).sum::<u64>() == u64::try_from(EXECUTIONS).unwrap() {
            return;
        }
        assert!(begun.elapsed() < Duration::from_mins(2), "not all ended: {counts:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn check(
    engine: &Engine,
    created: &[(ExecutionId, &'static str)],
    acknowledged: &BTreeMap<ExecutionId, (u32, u64)>,
) {
    let mut completions = completions(engine).await;
    let (mut reclaimed, mut succeeded) = (0, 0);
    for (id, kind) in created {
        let x = engine.find_execution(*id).await.unwrap().expect("an acknowledged creation");
        let State::Terminal(terminal) = &x.state else { panic!("{id} is {:?}", x.state) };
        assert_eq!(completions.remove(id), Some(1), "{id} ended once");
        let attempt = terminal.attempt.as_ref().expect("it was attempted");
        assert!(x.counts.retries <= MAX_RETRIES && x.counts.reclaims <= MAX_RECLAIMS, "{x:?}");
        assert_eq!(x.counts.attempts, 1 + x.counts.retries + x.counts.reclaims, "{x:?}");
        reclaimed += x.counts.reclaims;
        let success = terminal.ending.outcome() == TerminalOutcome::Success;
        succeeded += usize::from(success);
        assert_eq!(success, *kind != "broken", "{id}, {kind}: {:?}", terminal.ending);
        if let Some((index, epoch)) = acknowledged.get(id) {
            assert!(success, "{id}: the acknowledged completion stands");
            assert_eq!((attempt.index, x.epoch - 1), (*index, *epoch), "{id}: under its fence");
            assert_eq!(terminal.last_lease, Some(LeaseEnd::Completed));
        }
        let attempts = engine.history(*id).await.unwrap().unwrap().attempts;
        assert_eq!(attempts.len(), usize::try_from(x.counts.attempts).unwrap());
    }
    assert!(completions.is_empty(), "nothing else ended: {completions:?}");
    println!(
        "{} created, {succeeded} succeeded, {} acknowledged to workers, {reclaimed} reclaims",
        created.len(),
        acknowledged.len()
    );
    assert!(reclaimed > 0, "the kills hit running work");
    let report = engine.scan_tick(ff_core::Duty::LeaseExpiry, &WorkFilter::default()).await;
    assert_eq!(report.unwrap().processed, 0, "no lease is left");
}

/// How often each execution ended, from the feed.
async fn completions(engine: &Engine) -> BTreeMap<ExecutionId, u32> {
    let filter = Filter { kinds: vec![EventName::Completion], ..Filter::default() };
    let mut ended = BTreeMap::new();
    let mut from = Cursor::Start;
    loop {
        let page = engine.read_events(&from, &filter, 1_000, Duration::ZERO).await.unwrap();
        if page.events.is_empty() {
            return ended;
        }
        for event in page.events {
            assert!(matches!(event.event.kind, EventKind::Completion { .. }));
            *ended.entry(event.event.execution).or_insert(0) += 1;
        }
        from = page.next;
    }
}
