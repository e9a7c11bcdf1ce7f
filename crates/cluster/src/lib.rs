//! A throw-away PostgreSQL server for tests and benchmarks, and a browser for tests of pages.
//!
//! A [`Cluster`] has its own directory, its own port of 127.0.0.1 and the settings it was given, so
//! a test never meets a database that happens to run on the machine. It accepts every local
//! connection without a password. Whatever happens to the process that started it, `kill -9`
//! included, the server stops and its directory goes: a watchdog outside the process sees to that.
//!
//! [`browser()`] starts Chromium, which goes with its owner as well.
//!
//! It needs a Unix with `sh`, and `/proc` for [`Cluster::kill`]. There are no dependencies, because
//! `cargo xtask` is built before anything else can happen.

mod account;
mod browser;
mod cluster;
mod error;
mod installation;
mod package;
mod process;
mod scratch;
mod watchdog;

use std::env;
use std::sync::OnceLock;

pub use browser::browser;
pub use cluster::Cluster;
pub use error::Error;

/// Settings that make tests fast, and that lose data: all of it when the machine crashes, and what
/// was committed in the last moments before [`Cluster::kill`]. A test of what a kill leaves behind
/// sets `fsync` off and nothing else.
pub const FAST: &[(&str, &str)] = &[
    ("fsync", "off"),
    ("synchronous_commit", "off"),
    ("full_page_writes", "off"),
    // In the directory of the cluster, and gone with it even after a kill.
    ("dynamic_shared_memory_type", "mmap"),
    // Tests run side by side, each with a pool of its own.
    ("max_connections", "200"),
];

/// The environment variable that names the server for tests, as a URL.
pub const VARIABLE: &str = "FF_TEST_POSTGRES";

/// The URL of the server for tests: the one that `FF_TEST_POSTGRES` names, or else one that this
/// process starts for itself with [`FAST`] settings and that dies with it.
///
/// A server that cannot be started is not tried again: every later call gets the same error.
pub fn shared() -> Result<&'static str, Error> {
    static SHARED: OnceLock<Result<(String, Option<Cluster>), Error>> = OnceLock::new();
    let shared = SHARED.get_or_init(|| match env::var(VARIABLE) {
        Ok(url) if !url.is_empty() => Ok((url, None)),
        Ok(_) | Err(_) => Cluster::start(FAST).map(|cluster| (cluster.url(), Some(cluster))),
    });
    shared.as_ref().map(|(url, _)| url.as_str()).map_err(Error::clone)
}
