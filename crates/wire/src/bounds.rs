//! How much one request may ask for.

use ff_core::limits::{BATCH_MAX, PAGE_MAX};
use ff_core::{Code, Rejection};

/// The longest a call may wait: longer than most proxies let a connection stay silent.
pub const WAIT_MS_MAX: u64 = 60_000;

/// Refuses to wait longer than connections live.
pub fn check_wait(wait_ms: u64) -> Result<(), Rejection> {
    if wait_ms <= WAIT_MS_MAX {
        return Ok(());
    }
    let why = format!("is out of range; use 0 to {WAIT_MS_MAX}, and ask again");
    Err(Rejection::invalid(Code::InvalidInput, "wait_ms", wait_ms, why))
}

/// Refuses a page of nothing or of too much.
pub fn check_limit(limit: u32) -> Result<u32, Rejection> {
    if (1..=PAGE_MAX).contains(&limit) {
        return Ok(limit);
    }
    let why = format!("is out of range; use 1 to {PAGE_MAX}");
    Err(Rejection::invalid(Code::InvalidInput, "limit", limit, why))
}

/// Refuses a list of nothing or of too much.
pub(crate) fn check_items(field: &'static str, count: usize) -> Result<(), Rejection> {
    if (1..=BATCH_MAX).contains(&count) {
        return Ok(());
    }
    let why = format!("are {count} in number; send 1 to {BATCH_MAX}");
    Err(Rejection::invalid(Code::InvalidInput, field, "", why))
}
