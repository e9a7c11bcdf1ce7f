//! What the engine has to do by itself, found by time.

use ff_core::backend::{Due, Duty, StoreError, WorkFilter};
use ff_core::command::Command;
use ff_core::decide::attempt_timeout::TimeOutAttempt;
use ff_core::decide::deadline::ExpireExecution;
use ff_core::decide::key_expiry::ForgetKey;
use ff_core::decide::lease_expiry::ExpireLease;
use ff_core::decide::retention::Trim;
use ff_core::ids::ExecutionId;
use ff_core::index::TimerKind;
use ff_core::row::{number, parse};
use ff_core::time::Millis;
use rusqlite::{Params, Transaction};

use crate::codec::Reader;
use crate::load::{all, one};
use crate::statements::{idempotency, lease, timer};

/// What `duty` has to check now.
pub fn due(
    tx: &Transaction<'_>,
    duty: Duty,
    filter: &WorkFilter,
    (limit, now): (u32, Millis),
) -> Result<Due, StoreError> {
    let namespace = filter.namespace.as_ref().map(|namespace| namespace.as_str());
    let (tag, value) = match &filter.tag {
        Some((key, value)) => (Some(key.as_str()), Some(value.as_str())),
        None => (None, None),
    };
    let timers = |kind: TimerKind, command: fn(ExecutionId) -> Command| {
        let params = (now.0, limit, kind.as_str(), namespace, tag, value);
        all(tx, timer::due, params, |row| Ok(command(Reader::new(row).id()?)))
    };
    let commands = match duty {
        Duty::AttemptTimeout => {
            timers(TimerKind::AttemptTimeout, |id| TimeOutAttempt { id }.into())?
        }
        Duty::Deadline => timers(TimerKind::Deadline, |id| ExpireExecution { id }.into())?,
        Duty::Retention => {
            let params = (now.0, limit, namespace, tag, value);
            all(tx, timer::retention, params, |row| Ok(Trim { id: Reader::new(row).id()? }.into()))?
        }
        Duty::LeaseExpiry => {
            let params = (now.0, limit, namespace, tag, value);
            all(tx, lease::due, params, |row| {
                let mut r = Reader::new(row);
                let id = r.id()?;
                Ok(ExpireLease { id, lease_epoch: number("epoch", r.take("epoch")?)? }.into())
            })?
        }
        // A key has no tags: whoever looks after one tag leaves the keys to others.
        Duty::IdempotencyExpiry if tag.is_some() => Vec::new(),
        Duty::IdempotencyExpiry => all(tx, idempotency::due, (now.0, limit, namespace), |row| {
            let mut r = Reader::new(row);
            let namespace = parse("namespace", &r.take::<String>("namespace")?)?;
            let key = parse("key", &r.take::<String>("key")?)?;
            Ok(ForgetKey { namespace, key }.into())
        })?,
    };
    let next = match duty {
        Duty::AttemptTimeout => next_timer(tx, TimerKind::AttemptTimeout, now)?,
        Duty::Deadline => next_timer(tx, TimerKind::Deadline, now)?,
        Duty::Retention => next_timer(tx, TimerKind::Retention, now)?,
        Duty::LeaseExpiry => next(tx, lease::next, (now.0,))?,
        Duty::IdempotencyExpiry => next(tx, idempotency::next, (now.0,))?,
    };
    Ok(Due { commands, next })
}

/// When the next timer of a kind is due.
pub fn next_timer(
    tx: &Transaction<'_>,
    kind: TimerKind,
    now: Millis,
) -> Result<Option<Millis>, StoreError> {
    next(tx, timer::next, (kind.as_str(), now.0))
}

fn next(
    tx: &Transaction<'_>,
    sql: &str,
    params: impl Params,
) -> Result<Option<Millis>, StoreError> {
    let least = |row: &rusqlite::Row<'_>| {
        row.get::<_, Option<i64>>(0).map_err(crate::connection::store_error)
    };
    Ok(one(tx, sql, params, least)?.flatten().map(Millis))
}
