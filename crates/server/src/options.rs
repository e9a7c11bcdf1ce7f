//! What a server is started with.

use std::time::Duration;

use ff_engine::Engine;

use crate::auth::Token;

/// A server before one engine.
#[derive(Clone)]
pub struct Options {
    /// What it serves.
    pub engine: Engine,
    /// What the store is called: `sqlite` or `postgres`.
    pub backend_name: &'static str,
    /// What callers must present; without one, only loopback addresses may be bound.
    pub token: Option<Token>,
    /// Its bounds.
    pub limits: Limits,
}

impl Options {
    /// A server without a token, with the default bounds.
    pub fn new(engine: Engine, backend_name: &'static str) -> Self {
        Self { engine, backend_name, token: None, limits: Limits::default() }
    }
}

/// The bounds of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes in the body of a request (default 8 MiB): a batch of several full payloads.
    pub body_bytes_max: usize,
    /// How long a request may take, besides the time it asks to wait (default 30 s).
    pub request_timeout: Duration,
    /// Connections at the same time; more wait to be accepted (default 4,096).
    pub connections_max: usize,
    /// How long a connection may stay silent between requests, or send headers (default 60 s).
    pub idle_timeout: Duration,
    /// How long to go on serving after being told to stop, while `/readyz` already answers 503, so
    /// that load balancers look elsewhere first (default 0).
    pub drain_notice: Duration,
    /// How long requests under way may take when the server closes (default 10 s).
    pub drain_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body_bytes_max: 8 << 20,
            request_timeout: Duration::from_secs(30),
            connections_max: 4_096,
            idle_timeout: Duration::from_mins(1),
            drain_notice: Duration::ZERO,
            drain_timeout: Duration::from_secs(10),
        }
    }
}
