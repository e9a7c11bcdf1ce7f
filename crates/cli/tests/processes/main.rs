//! Real processes that are killed or told to stop while they work: servers, and workers between two
//! steps.
#![allow(clippy::unwrap_used, missing_docs)]

mod servers;
mod workers;

use std::process::{Child, Command, Stdio};

/// A process of ours that is killed with the test.
pub struct Process(pub Child);

impl Process {
    /// Starts `ff` with a URL in its environment.
    pub fn start(url: &str, arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ff"));
        // What it tries again is no news here.
        command.args(arguments).env("FF_URL", url).env("FF_LOG", "error").env_remove("FF_TOKEN");
        Self(command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap())
    }

    /// `kill -9`.
    pub fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A schema of its own on the server for tests.
pub fn postgres() -> String {
    let url = ff_cluster::shared().unwrap();
    let mark = if url.contains('?') { '&' } else { '?' };
    format!("{url}{mark}schema=processes_{}", uuid::Uuid::now_v7().simple())
}
