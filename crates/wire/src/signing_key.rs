//! Signing keys: the one that signs tokens and links, and those it replaced. No secret is in any
//! answer.

use ff_core::Millis;
use ff_core::decide::keys::{RotateKey, Rotated, SecretHex};
use ff_core::keyring::ListedKey;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::hidden::Hidden;

/// How long a replaced key still verifies when nobody says: a day.
pub const GRACE_MS: u64 = 86_400_000;

fn grace_ms() -> u64 {
    GRACE_MS
}

/// Sign with another key from now on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RotateRequest {
    /// Its name; not one that was used before.
    #[schema(min_length = 1, max_length = 64, example = "2026-11")]
    pub new_kid: String,
    /// Its secret, in hexadecimal; 64 random digits are right.
    #[schema(value_type = String, min_length = 32, max_length = 2048)]
    pub secret_hex: Hidden,
    /// How long tokens and links of the key before it are still accepted (default 24 hours).
    #[serde(default = "grace_ms")]
    #[schema(maximum = 9_007_199_254_740_991_i64)]
    pub grace_ms: u64,
    /// Keys before that one whose tokens and links are no longer accepted, whatever grace they had, and
    /// that never come back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub withdraw: Vec<String>,
}

impl RotateRequest {
    /// The command.
    pub fn into_command(self) -> RotateKey {
        let Self { new_kid, secret_hex, grace_ms, withdraw } = self;
        let secret_hex = SecretHex(secret_hex.into_shown());
        RotateKey { kid: new_kid, secret_hex, grace_ms, withdraw }
    }
}

/// The key signs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum RotateAnswer {
    /// From now on.
    Rotated {
        /// The key before it; nothing when it is the first.
        previous_kid: Option<String>,
        /// Its name.
        new_kid: String,
        /// Old keys that are gone for good.
        gc_count: usize,
    },
    /// It signed already.
    Noop {
        /// Its name.
        kid: String,
    },
}

impl RotateAnswer {
    /// What became of the key of this name.
    pub fn new(kid: String, rotated: Rotated) -> Self {
        match rotated {
            Rotated::Rotated { previous_kid, gc_count } => {
                Self::Rotated { previous_kid, new_kid: kid, gc_count }
            }
            Rotated::Noop => Self::Noop { kid },
        }
    }
}

/// The keys that verify now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SigningKeysAnswer {
    /// The one that signs first; empty when the store has none yet.
    pub keys: Vec<SigningKeyLine>,
}

/// A key as far as anybody may see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SigningKeyLine {
    /// Its name.
    pub kid: String,
    /// When it was installed.
    #[schema(value_type = i64)]
    pub created_at: Millis,
    /// The last moment at which it verifies; absent for the one that signs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>, nullable = false)]
    pub expires_at: Option<Millis>,
}

impl From<Vec<ListedKey>> for SigningKeysAnswer {
    fn from(keys: Vec<ListedKey>) -> Self {
        let line = |key: ListedKey| SigningKeyLine {
            kid: key.kid.into(),
            created_at: key.created_at,
            expires_at: key.expires_at,
        };
        Self { keys: keys.into_iter().map(line).collect() }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_secret_is_read_and_never_printed() {
        let body = json!({"new_kid": "k2", "secret_hex": "c0ffee"});
        let request: RotateRequest = serde_json::from_value(body).unwrap();
        assert_eq!(request.grace_ms, GRACE_MS);
        assert!(!format!("{request:?}").contains("c0ffee"), "{request:?}");
        let rotate = request.into_command();
        assert_eq!((rotate.kid.as_str(), rotate.secret_hex.0.as_str()), ("k2", "c0ffee"));
        assert!(!format!("{rotate:?}").contains("c0ffee"), "{rotate:?}");
    }
}
