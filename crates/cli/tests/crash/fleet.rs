//! Worker processes of which some die.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use ff_core::{ExecutionId, Fence};

/// Worker processes on one database.
pub struct Fleet {
    directory: PathBuf,
    url: String,
    workers: Vec<Child>,
    started: usize,
}

impl Fleet {
    /// No processes yet; their logs go to the directory.
    pub fn new(directory: &Path, url: String) -> Self {
        Self { directory: directory.to_owned(), url, workers: Vec::new(), started: 0 }
    }

    /// Starts one more.
    pub fn start(&mut self) {
        self.started += 1;
        let name = format!("w{}", self.started);
        let worker = Command::new(env!("CARGO_BIN_EXE_ff"))
            .args(["sample-worker", "--lane", "crash", "--lease-ttl-ms", "500"])
            .args(["--url", &self.url, "--name", &name])
            .arg("--log")
            .arg(self.directory.join(format!("{name}.log")))
            // What it tries again is no news here.
            .env("FF_LOG", "error")
            .stdin(Stdio::null())
            .spawn();
        self.workers.push(worker.unwrap());
    }

    /// How many there have been.
    pub fn started(&self) -> usize {
        self.started
    }

    /// `kill -9`, and a new process in its place.
    pub fn kill_one(&mut self) {
        self.check_alive();
        let mut victim = self.workers.swap_remove(rand::random_range(0..self.workers.len()));
        victim.kill().unwrap();
        victim.wait().unwrap();
        self.start();
    }

    /// Nobody dies unless killed, whatever happens to the server.
    pub fn check_alive(&mut self) {
        for worker in &mut self.workers {
            let ended = worker.try_wait().unwrap();
            assert!(ended.is_none(), "a worker ended by itself: {ended:?}");
        }
    }

    /// What was acknowledged to any worker, dead ones included: the fence it completed under.
    pub fn acknowledged(&self) -> BTreeMap<ExecutionId, Fence> {
        let mut all = BTreeMap::new();
        for number in 1..=self.started {
            let log = std::fs::read_to_string(self.directory.join(format!("w{number}.log")));
            // A killed process may have been cut off in the middle of its last line.
            let log = log.unwrap_or_default();
            for line in log.split_inclusive('\n').filter(|line| line.ends_with('\n')) {
                let mut words = line.split_whitespace();
                let id = words.next().unwrap().parse().unwrap();
                let fence = Fence {
                    attempt_index: words.next().unwrap().parse().unwrap(),
                    lease_epoch: words.next().unwrap().parse().unwrap(),
                };
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
