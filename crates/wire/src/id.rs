//! Ids that are plain UUIDs.

use ff_core::{Code, Rejection};
use uuid::Uuid;

/// A UUID; `field` is how the caller knows it.
pub fn read_uuid(field: &'static str, text: &str) -> Result<Uuid, Rejection> {
    Uuid::try_parse(text)
        .map_err(|_| Rejection::invalid(Code::InvalidInput, field, text, "is not a UUID"))
}
