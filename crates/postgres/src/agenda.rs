//! Which duties have something to do, and whether anything can be claimed.
//!
//! A process that is killed between a commit and its notification sends none: claims that wait are woken
//! once a second while something is ready or a delay is over.

use ff_core::backend::{Agenda, Duty, Interest, StoreError};
use ff_core::row::parse;
use ff_core::time::Millis;

use crate::codec::{Params, Reader};
use crate::connection::Connections;
use crate::connection::listener::Signals;
use crate::statements::duty;

/// When the first thing of each duty is, or was, due.
pub async fn agenda(
    connections: &Connections,
    signals: &Signals,
    now: Millis,
) -> Result<Agenda, StoreError> {
    let mut found = Vec::new();
    for row in connections.read(duty::agenda, Params::new()).await? {
        let mut r = Reader::new(&row);
        let (duty, first) = (r.take("duty")?, r.take::<Option<i64>>("first_ms")?.map(Millis));
        match duty {
            "ready" | "delay" if first.is_none() => {}
            "delay" if first > Some(now) => {}
            "ready" | "delay" => signals.bump(Interest::Work),
            duty => found.push((parse::<Duty>("duty", duty)?, first)),
        }
    }
    Ok(Agenda::new(now, found))
}
