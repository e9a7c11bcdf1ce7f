//! What the engine has to do for flows by itself.

use std::sync::Mutex;

use ff_core::backend::{StoreError, WorkFilter};
use ff_core::command::Command;
use ff_core::decide::cancel_owed::CancelOwed;
use ff_core::decide::dispatch::DispatchCompletion;
use ff_core::decide::reconcile_group::ReconcileGroup;
use ff_core::decide::sibling_cancel::CancelSiblings;
use ff_core::decide::sibling_reconcile::ReconcileSiblings;
use ff_core::decide::trim_flow::TrimFlow;
use ff_core::ids::{ExecutionId, FlowId};
use rusqlite::{Params, Row, Transaction, params};

use super::{member_key, read_flow_id, read_member_of};
use crate::codec::{Reader, bound};
use crate::due::Scope;
use crate::load::all;
use crate::statements::{backlog, cancel, dispatch, flow, group};

/// Groups that one look examines beyond those asked for.
const SPARE_MAX: usize = 256;
/// Filters whose place is remembered. A process has one, or a few.
const FILTERS_MAX: usize = 16;

/// Flows whose time is up.
pub fn trimmable(tx: &Transaction<'_>, scope: &Scope<'_>) -> Result<Vec<Command>, StoreError> {
    let Scope { namespace, tag, value, limit, now } = *scope;
    let params = (now.0, bound(limit), namespace, tag, value);
    all(tx, flow::due, params, |row| Ok(TrimFlow { flow: only_flow(row)? }.into()))
}

/// Ends that flows have not been told.
pub fn undispatched(tx: &Transaction<'_>, scope: &Scope<'_>) -> Result<Vec<Command>, StoreError> {
    let Scope { namespace, tag, value, limit, .. } = *scope;
    all(tx, dispatch::due, (bound(limit), namespace, tag, value), |row| {
        let mut r = Reader::new(row);
        let execution = r.id()?;
        Ok(DispatchCompletion { flow: read_flow_id(&mut r)?, execution, eager: false }.into())
    })
}

/// Groups whose siblings are to be cancelled: those that say so themselves, then the others.
pub fn cancelling(tx: &Transaction<'_>, scope: &Scope<'_>) -> Result<Vec<Command>, StoreError> {
    let Scope { namespace, tag, value, limit, .. } = *scope;
    let mut commands: Vec<Command> = Vec::new();
    for flagged in [true, false] {
        let params = (bound(limit - commands.len()), namespace, tag, value, flagged);
        commands.extend(groups(tx, cancel::due, params, |flow, downstream| {
            CancelSiblings { flow, downstream }.into()
        })?);
    }
    Ok(commands)
}

/// The same groups, to be looked after.
pub fn cancelled(tx: &Transaction<'_>, scope: &Scope<'_>) -> Result<Vec<Command>, StoreError> {
    let Scope { namespace, tag, value, limit, .. } = *scope;
    let params = (bound(limit), namespace, tag, value);
    groups(tx, cancel::reconcile, params, |flow, downstream| {
        ReconcileSiblings { flow, downstream }.into()
    })
}

/// Flows that owe the end of members.
pub fn owing(tx: &Transaction<'_>, scope: &Scope<'_>) -> Result<Vec<Command>, StoreError> {
    let Scope { namespace, tag, value, limit, .. } = *scope;
    let params = (bound(limit), namespace, tag, value);
    all(tx, backlog::due, params, |row| Ok(CancelOwed { flow: only_flow(row)? }.into()))
}

fn only_flow(row: &Row<'_>) -> Result<FlowId, StoreError> {
    read_flow_id(&mut Reader::new(row))
}

fn groups(
    tx: &Transaction<'_>,
    sql: &str,
    params: impl Params,
    command: fn(FlowId, ExecutionId) -> Command,
) -> Result<Vec<Command>, StoreError> {
    all(tx, sql, params, |row| {
        let mut r = Reader::new(row);
        let flow = read_flow_id(&mut r)?;
        Ok(command(flow, read_member_of(&mut r, "downstream_id", flow)?))
    })
}

/// A group by its place among all groups.
type Place = (FlowId, ExecutionId);

/// How far the groups were examined, for each filter. It is not kept: whoever opens the file next
/// begins again.
#[derive(Default)]
pub struct Rounds(Mutex<Vec<(WorkFilter, Place)>>);

impl Rounds {
    fn place(&self, filter: &WorkFilter) -> Option<Place> {
        let rounds = self.0.lock().expect("no holder of this lock panics");
        rounds.iter().find(|(of, _)| of == filter).map(|(_, place)| *place)
    }

    fn stop(&self, filter: &WorkFilter, place: Option<Place>) {
        let mut rounds = self.0.lock().expect("no holder of this lock panics");
        rounds.retain(|(of, _)| of != filter);
        rounds.truncate(FILTERS_MAX - 1);
        rounds.splice(0..0, place.map(|place| (filter.clone(), place)));
    }
}

/// Groups that wait for something that has ended, which nobody is about to tell them. One look
/// examines a bounded number of groups and goes on where the last one stopped, round and round.
pub fn stuck(
    tx: &Transaction<'_>,
    scope: &Scope<'_>,
    filter: &WorkFilter,
    rounds: &Rounds,
) -> Result<Vec<Command>, StoreError> {
    let max = scope.limit.saturating_add(SPARE_MAX);
    let begin = rounds.place(filter);
    let mut seen = examine(tx, scope, begin, max)?;
    if let Some(begin) = begin
        && seen.len() < max
    {
        // The end was reached: from the top to where this look began.
        let top = examine(tx, scope, None, max - seen.len())?;
        seen.extend(top.into_iter().take_while(|(place, _)| order(*place) <= order(begin)));
    }
    let all = seen.len() < max;
    let found = seen.iter().enumerate().filter(|(_, (_, stuck))| *stuck).map(|(at, _)| at);
    let found: Vec<usize> = found.take(scope.limit).collect();
    let last = match found.last().filter(|_| found.len() == scope.limit) {
        Some(last) => Some(seen[*last].0),
        None => seen.last().filter(|_| !all).map(|(place, _)| *place),
    };
    rounds.stop(filter, last);
    let mut places: Vec<Place> = found.into_iter().map(|at| seen[at].0).collect();
    places.sort_by_key(|place| order(*place));
    let command = |(flow, downstream)| ReconcileGroup { flow, downstream }.into();
    Ok(places.into_iter().map(command).collect())
}

/// As the statement orders them.
fn order((flow, downstream): Place) -> (i64, [u8; 16], [u8; 16]) {
    member_key(flow, downstream)
}

/// So many groups that have not fired, after a place, and whether each is stuck.
fn examine(
    tx: &Transaction<'_>,
    scope: &Scope<'_>,
    after: Option<Place>,
    max: usize,
) -> Result<Vec<(Place, bool)>, StoreError> {
    let Scope { namespace, tag, value, .. } = *scope;
    let after = after.map_or((-1, [0; 16], [0; 16]), order);
    let params = params![bound(max), namespace, tag, value, after.0, after.1, after.2];
    all(tx, group::due, params, |row| {
        let mut r = Reader::new(row);
        let flow = read_flow_id(&mut r)?;
        Ok(((flow, read_member_of(&mut r, "downstream_id", flow)?), r.take("stuck")?))
    })
}
