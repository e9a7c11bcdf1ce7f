//! Texts that open something: they travel, and are not printed by accident.

use std::fmt;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// A token, a link or a secret.
#[derive(Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Hidden(String);

impl Hidden {
    /// Hides a text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text, for whoever it is meant for.
    pub fn show(&self) -> &str {
        &self.0
    }

    /// The text, for whoever it is meant for.
    pub fn into_shown(self) -> String {
        self.0
    }
}

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

impl<'de> Deserialize<'de> for Hidden {
    fn deserialize<D: Deserializer<'de>>(field: D) -> Result<Self, D::Error> {
        match Value::deserialize(field)? {
            Value::String(text) => Ok(Self(text)),
            // An error of the library would show what was sent.
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::Array(_)
            | Value::Object(_) => Err(D::Error::custom("expected a text")),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn what_is_hidden_is_sent_and_never_printed() {
        let hidden: Hidden = serde_json::from_str("\"s3cret\"").unwrap();
        assert_eq!(serde_json::to_string(&hidden).unwrap(), "\"s3cret\"");
        assert_eq!(format!("{hidden:?}"), "…");
        let refused = serde_json::from_str::<Hidden>("1234").unwrap_err().to_string();
        assert!(!refused.contains("1234"), "{refused}");
    }
}
