//! What a server is started with.

use std::time::Duration;

use ff_core::decide::keys::{SecretHex, SeedKey};
use ff_core::limits::SEED_SECRET_BYTES;
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
    /// The key that a store without any is to sign with; without one, such a store makes its own.
    pub signing_key: Option<SigningKey>,
}

impl Options {
    /// A server without a token, with the default bounds.
    pub fn new(engine: Engine, backend_name: &'static str) -> Self {
        let limits = Limits::default();
        Self { engine, backend_name, token: None, limits, signing_key: None }
    }
}

/// The first key of a store, as an operator writes it. Its secret shows itself to nobody.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SigningKey {
    kid: String,
    secret_hex: SecretHex,
}

/// A signing key that cannot be one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a signing key is a name, a colon and 64 hexadecimal digits, like k1:00112233…")]
pub struct MalformedKey;

impl SigningKey {
    /// The variable of the environment that holds it.
    pub const VARIABLE: &str = "FLOWFABRIC_SIGNING_KEY";

    /// Reads `<kid>:<64 hexadecimal digits>`.
    pub fn parse(text: &str) -> Result<Self, MalformedKey> {
        let (kid, digits) = text.trim().split_once(':').ok_or(MalformedKey)?;
        let whole = digits.len() == 2 * SEED_SECRET_BYTES;
        if kid.is_empty() || !whole || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(MalformedKey);
        }
        Ok(Self { kid: kid.to_owned(), secret_hex: SecretHex(digits.to_owned()) })
    }

    /// Its name.
    pub fn kid(&self) -> &str {
        &self.kid
    }

    /// The command that gives it to a store.
    pub fn into_command(self) -> SeedKey {
        SeedKey { kid: self.kid, secret_hex: self.secret_hex }
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_signing_key_is_read_and_its_secret_is_never_printed() {
        let digits = "c0ffee00".repeat(8);
        let key = SigningKey::parse(&format!("2026-11:{digits}\n")).unwrap();
        assert_eq!(key.kid(), "2026-11");
        assert!(!format!("{key:?}").contains("c0ffee"), "{key:?}");
        let seed = key.into_command();
        assert_eq!(seed.secret_hex.0, digits);
        for other in ["", "k1", "k1:", ":00", &digits, "k1:c0ffee", &format!("k1:{digits}0")] {
            let refused = SigningKey::parse(other).unwrap_err().to_string();
            assert!(!refused.contains("c0ffee"), "{refused}");
        }
        let odd = format!("k1:{}", "zz".repeat(32));
        assert_eq!(SigningKey::parse(&odd), Err(MalformedKey));
    }
}
