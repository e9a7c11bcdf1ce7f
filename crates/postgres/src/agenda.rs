//! Which duties have something to do.

use ff_core::backend::{Agenda, Duty, StoreError};
use ff_core::row::parse;
use ff_core::time::Millis;

use crate::codec::{Params, Reader};
use crate::connection::Connections;
use crate::statements::duty;

/// When the first thing of each duty is, or was, due.
pub async fn agenda(connections: &Connections, now: Millis) -> Result<Agenda, StoreError> {
    let mut found = Vec::new();
    for row in connections.read(duty::agenda, Params::new()).await? {
        let mut r = Reader::new(&row);
        let duty: Duty = parse("duty", r.take("duty")?)?;
        found.push((duty, r.take::<Option<i64>>("first_ms")?.map(Millis)));
    }
    Ok(Agenda::new(now, found))
}
