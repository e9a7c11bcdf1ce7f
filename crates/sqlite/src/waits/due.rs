//! What the engine has to do for waitpoints by itself.

use ff_core::backend::StoreError;
use ff_core::command::Command;
use ff_core::decide::waitpoint_expiry::ExpireWaitpoint;
use rusqlite::Transaction;

use super::rows::read_uuid;
use crate::codec::{Reader, bound};
use crate::due::Scope;
use crate::load::all;
use crate::statements::waitpoint;

/// Waitpoints that nobody suspended on in time.
pub fn expired(tx: &Transaction<'_>, scope: &Scope<'_>) -> Result<Vec<Command>, StoreError> {
    let Scope { namespace, tag, value, limit, now } = *scope;
    all(tx, waitpoint::due, (now.0, bound(limit), namespace, tag, value), |row| {
        let mut r = Reader::new(row);
        let id = r.id()?;
        Ok(ExpireWaitpoint { id, waitpoint: read_uuid(&mut r, "waitpoint_id")? }.into())
    })
}
