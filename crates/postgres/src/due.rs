//! What the engine has to do by itself: found by time, or because a flow has work for it.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard};

use ff_core::backend::{Due, Duty, StoreError, WorkFilter};
use ff_core::command::Command;
use ff_core::decide::attempt_timeout::TimeOutAttempt;
use ff_core::decide::cancel_owed::CancelOwed;
use ff_core::decide::deadline::ExpireExecution;
use ff_core::decide::dispatch::DispatchCompletion;
use ff_core::decide::key_expiry::ForgetKey;
use ff_core::decide::lease_expiry::ExpireLease;
use ff_core::decide::reconcile_group::ReconcileGroup;
use ff_core::decide::retention::Trim;
use ff_core::decide::sibling_cancel::CancelSiblings;
use ff_core::decide::sibling_reconcile::ReconcileSiblings;
use ff_core::decide::suspension_timeout::TimeOutSuspension;
use ff_core::decide::trim_flow::TrimFlow;
use ff_core::decide::waitpoint_expiry::ExpireWaitpoint;
use ff_core::fold::GroupKey;
use ff_core::ids::{ExecutionId, FlowId};
use ff_core::index::TimerKind;
use ff_core::row::{number, parse};
use ff_core::time::Millis;
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

use crate::apply::State;
use crate::codec::{Params, Reader, home};
use crate::connection::Step;
use crate::statements::{
    backlog, cancel, dispatch, flow, group, idempotency, lease, retention, timer, waitpoint,
};

/// Groups that the reconciler looks at beyond what it is asked for: nothing that works leaves a
/// stuck one behind, and finding none must not mean looking at all.
const LOOK_SPARE: u32 = 300;

/// Reads the command that a row asks for; nothing when the row only tells when the next is due.
type Read = fn(&mut Reader<'_>) -> Result<Option<Command>, StoreError>;

/// What `duty` has to check now.
pub async fn due(
    state: &State,
    duty: Duty,
    filter: &WorkFilter,
    limit: u32,
) -> Result<Due, StoreError> {
    let mut now = state.clock.now();
    if takes_leases(duty) {
        let Some(error_ms) = state.clock.error_ms() else {
            tracing::warn!(?duty, "the database's time is not known well enough to take leases");
            return Ok(Due::default());
        };
        // Only what is over by the latest that the database's clock can be behind ours.
        now = now.minus(error_ms);
    }
    let by_time = || Params::new().number(now.0).number(i64::from(limit));
    let timed = |kind: TimerKind, read: Read| {
        (timer::due, filtered(by_time().text(Some(kind.as_str())), filter), read)
    };
    let (sql, params, read): (_, _, Read) = match duty {
        Duty::AttemptTimeout => {
            timed(TimerKind::AttemptTimeout, |r| of_id(r, |id| TimeOutAttempt { id }))
        }
        Duty::Deadline => timed(TimerKind::Deadline, |r| of_id(r, |id| ExpireExecution { id })),
        Duty::SuspensionTimeout => {
            timed(TimerKind::Suspension, |r| of_id(r, |id| TimeOutSuspension { id }))
        }
        Duty::WaitpointExpiry => (waitpoint::due, filtered(by_time(), filter), read_waitpoint),
        Duty::LeaseExpiry => (lease::due, filtered(by_time(), filter), read_lease),
        Duty::IdempotencyExpiry => {
            // A key has no tags: whoever looks after one tag leaves the keys to others.
            let limit = if filter.tag.is_some() { 0 } else { limit };
            let params = Params::new().number(now.0).number(i64::from(limit));
            (idempotency::due, params.text(namespace(filter)), read_key)
        }
        Duty::Retention => {
            let of = || filtered(by_time(), filter);
            let steps = [timer::retention, retention::due, flow::due];
            let steps = steps.into_iter().map(|sql| Step::Run(sql, of())).collect();
            return kept(state, steps, limit).await;
        }
        Duty::CompletionDispatch => {
            let params = listed(filter, limit);
            return found(state, dispatch::due, params, read_dispatch).await;
        }
        Duty::DependencyReconciler => return stuck(state, filter, limit).await,
        Duty::EdgeCancelDispatcher => return siblings(state, filter, limit).await,
        Duty::EdgeCancelReconciler => {
            let command = |(flow, downstream)| ReconcileSiblings { flow, downstream }.into();
            let params = listed(filter, limit);
            return found(state, cancel::reconcile, params, |r| r.group().map(command)).await;
        }
        Duty::CancelBacklog => {
            let command = |flow| CancelOwed { flow }.into();
            let params = listed(filter, limit);
            return found(state, backlog::due, params, |r| r.flow().map(command)).await;
        }
    };
    let mut due = Due::default();
    for row in state.connections.read(sql, params).await? {
        read_timed(&row, read, &mut due)?;
    }
    Ok(due)
}

/// Whether a duty takes leases away by the clock: a healthy worker would lose its work to a wrong one.
fn takes_leases(duty: Duty) -> bool {
    matches!(duty, Duty::LeaseExpiry | Duty::AttemptTimeout | Duty::Deadline)
}

fn namespace(filter: &WorkFilter) -> Option<&str> {
    filter.namespace.as_ref().map(|namespace| namespace.as_str())
}

/// The three parameters of a filter.
fn filtered<'a>(params: Params<'a>, filter: &'a WorkFilter) -> Params<'a> {
    params.text(namespace(filter)).tag(filter.tag.as_ref())
}

/// Adds what a row asks for, and when the next is due.
fn read_timed(row: &Row, read: Read, due: &mut Due) -> Result<(), StoreError> {
    let mut r = Reader::new(row);
    due.commands.extend(read(&mut r)?);
    next(r.take("next_ms")?, due);
    Ok(())
}

/// Something is due then.
fn next(at: Option<i64>, due: &mut Due) {
    due.next = due.next.into_iter().chain(at.map(Millis)).min();
}

/// The command for the execution that a row names, if it names one.
fn of_id<C: Into<Command>>(
    r: &mut Reader<'_>,
    command: impl Fn(ExecutionId) -> C,
) -> Result<Option<Command>, StoreError> {
    Ok(r.maybe_id()?.map(|id| command(id).into()))
}

fn read_lease(r: &mut Reader<'_>) -> Result<Option<Command>, StoreError> {
    let id = r.maybe_id()?;
    let epoch = r.take::<Option<i64>>("epoch")?;
    let epoch = epoch.map(|epoch| number("epoch", epoch)).transpose()?;
    Ok(id.zip(epoch).map(|(id, lease_epoch)| ExpireLease { id, lease_epoch }.into()))
}

fn read_waitpoint(r: &mut Reader<'_>) -> Result<Option<Command>, StoreError> {
    let id = r.maybe_id()?;
    let waitpoint = r.take::<Option<Uuid>>("waitpoint_id")?;
    Ok(id.zip(waitpoint).map(|(id, waitpoint)| ExpireWaitpoint { id, waitpoint }.into()))
}

fn read_key(r: &mut Reader<'_>) -> Result<Option<Command>, StoreError> {
    let namespace = r.take::<Option<&str>>("namespace")?;
    let namespace = namespace.map(|text| parse("namespace", text)).transpose()?;
    let key = r.take::<Option<&str>>("key")?;
    let key = key.map(|text| parse("key", text)).transpose()?;
    Ok(namespace.zip(key).map(|(namespace, key)| ForgetKey { namespace, key }.into()))
}

fn read_dispatch(r: &mut Reader<'_>) -> Result<Command, StoreError> {
    let (execution, flow) = (r.id()?, r.flow()?);
    Ok(DispatchCompletion { flow, execution, eager: false }.into())
}

/// The parameters of what is not found by time.
fn listed(filter: &WorkFilter, limit: u32) -> Params<'_> {
    filtered(Params::new().number(i64::from(limit)), filter)
}

/// What is not found by time.
async fn found(
    state: &State,
    sql: &'static str,
    params: Params<'_>,
    read: impl Fn(&mut Reader<'_>) -> Result<Command, StoreError>,
) -> Result<Due, StoreError> {
    let rows = state.connections.read(sql, params).await?;
    let commands = rows.iter().map(|row| read(&mut Reader::new(row)));
    Ok(Due { commands: commands.collect::<Result<_, _>>()?, next: None })
}

/// Groups whose siblings are to be cancelled: those that say so themselves, then the others.
async fn siblings(state: &State, filter: &WorkFilter, limit: u32) -> Result<Due, StoreError> {
    let mut due = Due::default();
    for flagged in [true, false] {
        let done = u32::try_from(due.commands.len()).unwrap_or(u32::MAX);
        let left = limit.saturating_sub(done);
        if left == 0 {
            break;
        }
        let params = listed(filter, left).one(flagged, Type::BOOL);
        let command = |(flow, downstream)| CancelSiblings { flow, downstream }.into();
        let more = found(state, cancel::due, params, |r| r.group().map(command)).await?;
        due.commands.extend(more.commands);
    }
    Ok(due)
}

/// Executions whose time is up, by one kind of row or the other, then flows.
async fn kept(state: &State, steps: Vec<Step<'_>>, limit: u32) -> Result<Due, StoreError> {
    let mut answers = state.connections.read_all(steps).await?;
    let flows = answers.pop().unwrap_or_default();
    let (mut due, mut up) = (Due::default(), BTreeSet::new());
    for row in answers.iter().flatten() {
        let mut r = Reader::new(row);
        let id = r.maybe_id()?;
        up.extend(r.take::<Option<i64>>("due_ms")?.zip(id));
        next(r.take("next_ms")?, &mut due);
    }
    due.commands = up.into_iter().map(|(_, id)| Trim { id }.into()).collect();
    for row in &flows {
        let trim: Read = |r| {
            let flow = r.take::<Option<Uuid>>("flow_id")?.map(FlowId);
            Ok(flow.map(|flow| TrimFlow { flow }.into()))
        };
        read_timed(row, trim, &mut due)?;
    }
    due.commands.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    Ok(due)
}

/// How far the groups that wait were looked at: each look goes on from there, and begins anew at
/// the end.
#[derive(Default)]
pub struct Walk(Mutex<Option<GroupKey>>);

impl Walk {
    fn lock(&self) -> MutexGuard<'_, Option<GroupKey>> {
        self.0.lock().expect("no holder of this lock panics")
    }
}

/// Groups that wait in vain, among the next that wait at all.
async fn stuck(state: &State, filter: &WorkFilter, limit: u32) -> Result<Due, StoreError> {
    let from = *state.walk.lock();
    let looks = limit.saturating_add(LOOK_SPARE);
    let (partition, of, after) = match from {
        Some((flow, id)) => (home(flow), flow.0, id.uuid()),
        None => (-1, Uuid::nil(), Uuid::nil()),
    };
    let params =
        listed(filter, looks).one(partition, Type::INT2).one(of, Type::UUID).one(after, Type::UUID);
    let rows = state.connections.read(group::due, params).await?;
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let (mut due, mut last) = (Due::default(), None);
    for row in &rows {
        if due.commands.len() == limit {
            break;
        }
        let mut r = Reader::new(row);
        let (flow, downstream) = r.group()?;
        last = Some((flow, downstream));
        if r.take("stuck")? {
            due.commands.push(ReconcileGroup { flow, downstream }.into());
        }
    }
    // What one look covers is looked at as a whole each time.
    let more = rows.len() == usize::try_from(looks).unwrap_or(usize::MAX);
    *state.walk.lock() = last.filter(|_| more);
    Ok(due)
}
