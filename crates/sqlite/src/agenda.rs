//! Which duties have something to do.

use ff_core::backend::{Agenda, Duty, StoreError};
use ff_core::row::parse;
use ff_core::time::Millis;
use rusqlite::Transaction;

use crate::codec::Reader;
use crate::load::all;
use crate::statements::duty;

/// When the first thing of each duty is, or was, due.
pub fn agenda(tx: &Transaction<'_>, now: Millis) -> Result<Agenda, StoreError> {
    let rows = all(tx, duty::agenda, (), |row| {
        let mut r = Reader::new(row);
        let duty: Duty = parse("duty", &r.take::<String>("duty")?)?;
        Ok((duty, r.take::<Option<i64>>("first_ms")?.map(Millis)))
    })?;
    Ok(Agenda::new(now, rows))
}
