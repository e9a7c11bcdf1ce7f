//! What the engine has to do by itself, found by time.

use ff_core::backend::{Due, Duty, StoreError, WorkFilter};
use ff_core::command::Command;
use ff_core::decide::attempt_timeout::TimeOutAttempt;
use ff_core::decide::deadline::ExpireExecution;
use ff_core::decide::key_expiry::ForgetKey;
use ff_core::decide::lease_expiry::ExpireLease;
use ff_core::decide::retention::Trim;
use ff_core::decide::suspension_timeout::TimeOutSuspension;
use ff_core::ids::ExecutionId;
use ff_core::index::TimerKind;
use ff_core::row::{number, parse};
use ff_core::time::Millis;
use rusqlite::{Params, Transaction};

use crate::codec::{Reader, bound};
use crate::graph;
use crate::graph::due::Rounds;
use crate::load::{all, one};
use crate::statements::{flow, idempotency, lease, timer, waitpoint};
use crate::waits;

/// Whose work, how much of it, and at what time, as parameters.
#[derive(Clone, Copy)]
pub struct Scope<'a> {
    /// In this namespace.
    pub namespace: Option<&'a str>,
    /// With this tag.
    pub tag: Option<&'a str>,
    /// The value of the tag.
    pub value: Option<&'a str>,
    /// At most so much.
    pub limit: usize,
    /// The store's time.
    pub now: Millis,
}

/// What `duty` has to check now.
pub fn due(
    tx: &Transaction<'_>,
    duty: Duty,
    filter: &WorkFilter,
    (limit, now): (u32, Millis),
    rounds: &Rounds,
) -> Result<Due, StoreError> {
    let (tag, value) = filter.tag.as_ref().map(|(key, value)| (&key[..], &value[..])).unzip();
    let namespace = filter.namespace.as_ref().map(|namespace| namespace.as_str());
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let scope = Scope { namespace, tag, value, limit, now };
    let commands = match duty {
        Duty::AttemptTimeout => {
            timers(tx, TimerKind::AttemptTimeout, &scope, |id| TimeOutAttempt { id }.into())?
        }
        Duty::Deadline => {
            timers(tx, TimerKind::Deadline, &scope, |id| ExpireExecution { id }.into())?
        }
        Duty::SuspensionTimeout => {
            timers(tx, TimerKind::Suspension, &scope, |id| TimeOutSuspension { id }.into())?
        }
        Duty::WaitpointExpiry => waits::due::expired(tx, &scope)?,
        Duty::Retention => trimmable(tx, scope)?,
        Duty::LeaseExpiry => {
            all(tx, lease::due, (now.0, bound(limit), namespace, tag, value), |row| {
                let mut r = Reader::new(row);
                let id = r.id()?;
                Ok(ExpireLease { id, lease_epoch: number("epoch", r.take("epoch")?)? }.into())
            })?
        }
        // A key has no tags: whoever looks after one tag leaves the keys to others.
        Duty::IdempotencyExpiry if tag.is_some() => Vec::new(),
        Duty::IdempotencyExpiry => {
            all(tx, idempotency::due, (now.0, bound(limit), namespace), |row| {
                let mut r = Reader::new(row);
                let namespace = parse("namespace", &r.take::<String>("namespace")?)?;
                let key = parse("key", &r.take::<String>("key")?)?;
                Ok(ForgetKey { namespace, key }.into())
            })?
        }
        Duty::CompletionDispatch => graph::due::undispatched(tx, &scope)?,
        Duty::EdgeCancelDispatcher => graph::due::cancelling(tx, &scope)?,
        Duty::EdgeCancelReconciler => graph::due::cancelled(tx, &scope)?,
        Duty::CancelBacklog => graph::due::owing(tx, &scope)?,
        Duty::DependencyReconciler => graph::due::stuck(tx, &scope, filter, rounds)?,
    };
    Ok(Due { commands, next: next_due(tx, duty, now)? })
}

/// When a duty has to look again, whoever's work it is.
fn next_due(tx: &Transaction<'_>, duty: Duty, now: Millis) -> Result<Option<Millis>, StoreError> {
    match duty {
        Duty::AttemptTimeout => next_timer(tx, TimerKind::AttemptTimeout, now),
        Duty::Deadline => next_timer(tx, TimerKind::Deadline, now),
        Duty::SuspensionTimeout => next_timer(tx, TimerKind::Suspension, now),
        Duty::WaitpointExpiry => next(tx, waitpoint::next, (now.0,)),
        Duty::Retention => {
            let execution = next_timer(tx, TimerKind::Retention, now)?;
            let flow = next(tx, flow::next, (now.0,))?;
            Ok(execution.into_iter().chain(flow).min())
        }
        Duty::LeaseExpiry => next(tx, lease::next, (now.0,)),
        Duty::IdempotencyExpiry => next(tx, idempotency::next, (now.0,)),
        // These do not wait for a time but for something to happen.
        Duty::CompletionDispatch
        | Duty::EdgeCancelDispatcher
        | Duty::EdgeCancelReconciler
        | Duty::CancelBacklog
        | Duty::DependencyReconciler => Ok(None),
    }
}

fn timers(
    tx: &Transaction<'_>,
    kind: TimerKind,
    scope: &Scope<'_>,
    command: fn(ExecutionId) -> Command,
) -> Result<Vec<Command>, StoreError> {
    let Scope { namespace, tag, value, limit, now } = *scope;
    let params = (now.0, bound(limit), kind.as_str(), namespace, tag, value);
    all(tx, timer::due, params, |row| Ok(command(Reader::new(row).id()?)))
}

/// Executions, then flows, whose time is up.
fn trimmable(tx: &Transaction<'_>, scope: Scope<'_>) -> Result<Vec<Command>, StoreError> {
    let Scope { namespace, tag, value, limit, now } = scope;
    let params = (now.0, bound(limit), namespace, tag, value);
    let mut commands: Vec<Command> =
        all(tx, timer::retention, params, |row| Ok(Trim { id: Reader::new(row).id()? }.into()))?;
    let rest = Scope { limit: limit - commands.len(), ..scope };
    commands.extend(graph::due::trimmable(tx, &rest)?);
    Ok(commands)
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
