//! Every command, as a person or a script runs it: what it prints, and how it ends.
//!
//! The stage is a SQLite file whose executions lived on a clock that the test turned, so that their
//! times are the same on every run. Commands read it directly and over a server.
#![allow(clippy::unwrap_used, missing_docs)]
#![allow(clippy::needless_raw_string_hashes, reason = "what UPDATE_EXPECT=1 writes")]

mod creating;
mod failures;
mod flows;
mod graphs;
mod reading;
mod serving;
mod showing;
mod stage;
mod submitting;
mod waiting;
mod waits;
