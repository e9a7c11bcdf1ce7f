//! Texts that users choose: names with a bound on their length and alphabet.
//!
//! A value of one of these types is valid, and cheap to clone. Constructors answer a [`Rejection`]
//! that names the field and shows the value, so that bad input never travels further than the
//! boundary.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::error::{Code, Rejection};
use crate::limits;

/// Which characters a text may hold.
#[derive(Clone, Copy)]
enum Alphabet {
    /// Printable ASCII, space included.
    Printable,
    /// What people are called.
    Name,
    /// Anything but whitespace and control characters.
    Word,
    /// Anything but NUL.
    Prose,
}

/// Refuses `value` unless it fits; `field` is how the caller knows it.
fn check(
    field: &'static str,
    value: &str,
    max: usize,
    alphabet: Alphabet,
) -> Result<(), Rejection> {
    let fault = if value.is_empty() && !matches!(alphabet, Alphabet::Prose) {
        Some("must not be empty".to_owned())
    } else if value.len() > max {
        Some(format!("is {} bytes long; at most {max} are allowed", value.len()))
    } else {
        value
            .char_indices()
            .find(|(_, c)| !alphabet.allows(*c))
            .map(|(at, c)| format!("has {c:?} at byte {at}; {} are allowed", alphabet.describe()))
    };
    match fault {
        None => Ok(()),
        Some(why) => Err(Rejection::invalid(Code::InvalidInput, field, value, why)),
    }
}

impl Alphabet {
    fn allows(self, c: char) -> bool {
        match self {
            Self::Printable => (' '..='~').contains(&c),
            Self::Name => !c.is_control(),
            Self::Word => !c.is_whitespace() && !c.is_control(),
            Self::Prose => c != '\0',
        }
    }

    fn describe(self) -> &'static str {
        match self {
            Self::Printable => "only printable ASCII characters",
            Self::Name => "only characters other than control characters",
            Self::Word => "only characters other than whitespace and control characters",
            Self::Prose => "only characters other than NUL",
        }
    }
}

/// Refuses a free text (reason, message) that is too long or holds NUL.
pub fn prose(field: &'static str, value: &str, max: usize) -> Result<(), Rejection> {
    check(field, value, max, Alphabet::Prose)
}

/// Refuses a text for more than its length and alphabet; the answer continues "field value …".
type Rule = fn(&str) -> Option<&'static str>;

/// Names with two underscores in front are the engine's own.
const NOT_RESERVED: Rule =
    |name| name.starts_with("__").then_some("must not begin with two underscores");

/// A colon ends the name of a key in a token.
const NO_COLON: Rule = |kid| kid.contains(':').then_some("must not hold a colon");

macro_rules! text {
    ($(#[$doc:meta])* $name:ident, $field:literal, $max:expr, $alphabet:ident) => {
        text!($(#[$doc])* $name, $field, $max, $alphabet, |_| None);
    };
    ($(#[$doc:meta])* $name:ident, $field:literal, $max:expr, $alphabet:ident, $rule:expr) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks length and alphabet.
            pub fn new(value: impl Into<Arc<str>>) -> Result<Self, Rejection> {
                let value = value.into();
                check($field, &value, $max, Alphabet::$alphabet)?;
                let rule: Rule = $rule;
                match rule(&value) {
                    None => Ok(Self(value)),
                    Some(why) => Err(Rejection::invalid(Code::InvalidInput, $field, value, why)),
                }
            }

            /// The text itself.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl TryFrom<String> for $name {
            type Error = Rejection;
            fn try_from(value: String) -> Result<Self, Rejection> {
                Self::new(value)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> String {
                name.as_str().to_owned()
            }
        }

        impl std::str::FromStr for $name {
            type Err = Rejection;
            fn from_str(value: &str) -> Result<Self, Rejection> {
                Self::new(value)
            }
        }
    };
}

text!(
    /// What the author of a step calls it.
    StepName,
    "step_name",
    limits::NAME_BYTES_MAX,
    Prose
);
text!(
    /// Identifies the operation of a handler that a step records. The worker chooses it; the engine never
    /// interprets it.
    OperationId, "operation", limits::NAME_BYTES_MAX, Printable
);
text!(
    /// A queue of work; workers ask for lanes by name.
    LaneId, "lane_id", limits::LANE_BYTES_MAX, Printable
);
text!(
    /// Tenancy scope: idempotency keys are unique inside one.
    Namespace, "namespace", limits::NAME_BYTES_MAX, Word
);
text!(
    /// What kind of work an execution is; selects the handler in a worker.
    Kind, "execution_kind", limits::NAME_BYTES_MAX, Word
);
text!(
    /// What sort of flow it is, in its author's vocabulary; never interpreted.
    FlowKind, "flow_kind", limits::NAME_BYTES_MAX, Word
);
text!(
    /// What an execution is called in its flow.
    NodeName, "node", limits::NAME_BYTES_MAX, Word
);
text!(
    /// Under which name an execution reads the result of one it waited for.
    EdgeName, "edge_name", limits::NAME_BYTES_MAX, Word
);
text!(
    /// A logical worker pool, stable over restarts.
    WorkerId, "worker_id", limits::NAME_BYTES_MAX, Word
);
text!(
    /// One incarnation of a worker process.
    WorkerInstanceId, "worker_instance_id", limits::NAME_BYTES_MAX, Word
);
text!(
    /// A caller's promise that two creations with it are the same one.
    IdempotencyKey, "idempotency_key", limits::NAME_BYTES_MAX, Word
);
text!(
    /// A named reader of the event feed whose position the store keeps.
    ConsumerName, "consumer", limits::NAME_BYTES_MAX, Word
);
text!(
    /// Who created an execution, for the record.
    Creator, "creator_identity", limits::NAME_BYTES_MAX, Prose
);
text!(
    /// How payload bytes are encoded (`json`, `msgpack`); handed on, never interpreted.
    Encoding, "payload_encoding", limits::ENCODING_BYTES_MAX, Printable
);
text!(
    /// What sort of failure it was, in the worker's own vocabulary.
    Category, "failure_category", limits::CATEGORY_BYTES_MAX, Word
);
text!(
    /// A mailbox of an execution, as its author names it.
    WaitpointKey, "waitpoint_key", limits::SIGNAL_TEXT_BYTES_MAX, Printable
);
text!(
    /// What a signal says.
    SignalName, "signal_name", limits::SIGNAL_TEXT_BYTES_MAX, Word, NOT_RESERVED
);
text!(
    /// Who sends a signal.
    SourceIdentity, "source_identity", limits::SIGNAL_TEXT_BYTES_MAX, Name
);
text!(
    /// The name of a signing key; every token says which key signed it.
    Kid, "kid", limits::KID_BYTES_MAX, Word, NO_COLON
);

/// Refuses a tag key that is not `<owner>.<name>`.
///
/// Keys without a dot are the engine's own; nobody else may set them.
pub fn check_tag_key(key: &str) -> Result<(), Rejection> {
    let lower = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let fits = key.len() <= limits::TAG_KEY_BYTES_MAX
        && key.split_once('.').is_some_and(|(owner, name)| {
            owner.starts_with(|c: char| c.is_ascii_lowercase())
                && owner.chars().all(lower)
                && name.starts_with(lower)
                && name.chars().all(|c| lower(c) || c == '.')
        });
    if fits {
        return Ok(());
    }
    let why = format!(
        "must look like owner.name: lower-case letters, digits and underscores, at most {} bytes",
        limits::TAG_KEY_BYTES_MAX
    );
    Err(Rejection::invalid(Code::InvalidTagKey, "tags", key, why))
}

/// Refuses a tag value that is too long or holds NUL.
pub fn check_tag_value(value: &str) -> Result<(), Rejection> {
    prose("tags", value, limits::TAG_VALUE_BYTES_MAX)
}

/// Refuses a capability token that could not be matched byte by byte.
pub fn check_capabilities<'a>(
    field: &'static str,
    tokens: impl ExactSizeIterator<Item = &'a str>,
) -> Result<(), Rejection> {
    let refuse = |token: &str, why: String| {
        Err(Rejection::invalid(Code::InvalidCapabilities, field, token, why))
    };
    if tokens.len() > limits::CAPABILITIES_MAX {
        let why = format!("has {} tokens; at most {} fit", tokens.len(), limits::CAPABILITIES_MAX);
        return refuse("", why);
    }
    let mut bytes = 0;
    for token in tokens {
        if token.is_empty() {
            return refuse(token, "has an empty token".to_owned());
        }
        if token.contains(',') {
            return refuse(token, "has a comma in a token".to_owned());
        }
        if token.bytes().any(|b| b <= 0x20 || b == 0x7f) {
            return refuse(token, "has whitespace or a control character in a token".to_owned());
        }
        bytes += token.len() + 1;
    }
    if bytes > limits::CAPABILITIES_BYTES_MAX + 1 {
        let why =
            format!("is {bytes} bytes joined; at most {} fit", limits::CAPABILITIES_BYTES_MAX);
        return refuse("", why);
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn names_of_signals_and_keys_are_told_from_others() {
        assert!(SignalName::new("approved").is_ok() && SignalName::new("_x").is_ok());
        assert!(Kid::new("2026-11").is_ok());
        for (refused, field, why) in [
            (SignalName::new("__timeout__").unwrap_err(), "signal_name", "two underscores"),
            (SignalName::new("two words").unwrap_err(), "signal_name", "whitespace"),
            (SignalName::new("x".repeat(257)).unwrap_err(), "signal_name", "257 bytes"),
            (WaitpointKey::new("").unwrap_err(), "waitpoint_key", "empty"),
            (WaitpointKey::new("é").unwrap_err(), "waitpoint_key", "ASCII"),
            (SourceIdentity::new("").unwrap_err(), "source_identity", "empty"),
            (Kid::new("a:b").unwrap_err(), "kid", "colon"),
            (Kid::new("x".repeat(65)).unwrap_err(), "kid", "65 bytes"),
        ] {
            assert_eq!((refused.code, refused.field), (Code::InvalidInput, Some(field)));
            assert!(refused.message.contains(why), "{refused}");
        }
    }
}
