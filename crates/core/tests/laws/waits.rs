//! What must be true of suspensions, whatever the history.

use ff_core::condition::Verdict;
use ff_core::execution::{Attempt, Next, State};
use ff_core::suspension::{CloseReason, Signal, Suspension, Waitpoint, WaitpointState};
use ff_core::token::mint;
use ff_core::{Command, Execution, ExecutionId};
use uuid::Uuid;

use crate::laws::{Law, Turn, law};
use crate::world::{Waits, World};

pub fn suspensions_keep_every_law(turn: &Turn<'_>) -> Law {
    for x in turn.after.rows.executions.values().flatten() {
        whoever_waits_has_one_open_suspension(turn.after, x)?;
        signals_are_numbered_and_counted(&turn.after.waits, x.id)?;
        who_waits_has_not_got_what_it_waits_for(&turn.after.waits, x)?;
        let Some(was) = turn.before.find(x.id) else { continue };
        a_pause_keeps_the_attempt(was, x)?;
        what_is_closed_stays_closed(turn, x)?;
        what_came_stays(turn, x.id)?;
    }
    the_version_tells_of_every_change(turn)?;
    for row in turn.after.waits.waitpoints.values() {
        there_is_nothing_of_what_is_gone(turn.after, row.execution)?;
        the_times_of_a_waitpoint_follow_each_other(row)?;
    }
    for row in turn.set.waits.waitpoints.iter().filter_map(|write| write.after.as_ref()) {
        the_digest_is_that_of_its_token(&turn.after.waits, row)?;
    }
    Ok(())
}

/// Whoever remembers an execution at a version knows what belongs to it, until it ended.
fn the_version_tells_of_every_change(turn: &Turn<'_>) -> Law {
    let set = &turn.set.waits;
    let suspensions = set.suspensions.iter().filter_map(|write| write.after.as_ref());
    let waitpoints = set.waitpoints.iter().filter_map(|write| write.after.as_ref());
    let of = suspensions.map(|row| row.execution).chain(waitpoints.map(|row| row.execution));
    for id in of.chain(set.signals.iter().map(|signal| signal.execution)) {
        let (Some(was), Some(is)) = (turn.before.find(id), turn.after.find(id)) else {
            return law(false, || format!("{id} is not there"));
        };
        let told = is.version > was.version || matches!(was.state, State::Terminal(_));
        law(told, || format!("{:?} left {is:#?}", turn.command))?;
    }
    Ok(())
}

/// Open while it is suspended, and not a moment longer; so are its waitpoints.
fn whoever_waits_has_one_open_suspension(world: &World, x: &Execution) -> Law {
    let last = world.waits.suspensions.get(&x.id);
    let waits = matches!(x.state, State::Suspended(_));
    let open = last.is_some_and(|row| row.is_open(x));
    law(open == waits, || format!("{last:#?} of {x:#?}"))?;
    let ended = last.is_none_or(|row| row.end.is_some());
    law(ended != waits, || format!("{last:#?} of {x:#?}"))?;
    for row in world.waits.waitpoints_of(x.id) {
        let own = last.is_some_and(|last| row.suspension == Some(last.id));
        let active = matches!(row.state, WaitpointState::Active { .. });
        law(!active || waits && own, || format!("{row:#?} of {last:#?} of {x:#?}"))?;
    }
    let primary = last.filter(|_| waits).and_then(|row| world.waits.waitpoint(x.id, row.primary));
    let there = primary.is_some_and(|row| matches!(row.state, WaitpointState::Active { .. }));
    law(there == waits, || format!("{primary:#?} of {x:#?}"))
}

fn signals_are_numbered_and_counted(waits: &Waits, id: ExecutionId) -> Law {
    let numbers: Vec<_> = waits.signals_of(id).map(|signal| signal.number).collect();
    law(numbers.iter().copied().eq((0..).take(numbers.len())), || format!("{numbers:?}"))?;
    for row in waits.waitpoints_of(id) {
        let own = waits.signals_of(id).filter(|signal| signal.waitpoint == row.id).count();
        let counted = usize::try_from(row.counts.signals) == Ok(own)
            && row.counts.matched <= row.counts.signals
            && row.counts.last_at.is_some() == (own > 0);
        law(counted, || format!("{own} came to {row:#?}"))?;
    }
    Ok(())
}

/// Judged by all that came to its waitpoints, also by what the decisions do not look at any more.
fn judged(waits: &Waits, row: &Suspension, own: impl Fn(&Waitpoint) -> bool) -> Option<Vec<Uuid>> {
    let id = row.execution;
    let arrivals: Vec<_> = waits.signals_of(id).map(Signal::arrival).collect();
    let seen = arrivals.iter().filter_map(|arrival| {
        let at = waits.waitpoint(id, arrival.waitpoint)?;
        (at.suspension == Some(row.id) && own(at)).then(|| arrival.seen(&at.key))
    });
    let seen: Vec<_> = seen.collect();
    match row.condition.judge(&seen) {
        Verdict::Open => None,
        Verdict::Satisfied { by } => Some(by.into_iter().map(|at| seen[at].id).collect()),
    }
}

fn who_waits_has_not_got_what_it_waits_for(waits: &Waits, x: &Execution) -> Law {
    let open = waits.suspensions.get(&x.id).filter(|row| row.is_open(x));
    let Some(open) = open else { return Ok(()) };
    let own = |row: &Waitpoint| matches!(row.state, WaitpointState::Active { .. });
    let by = judged(waits, open, own);
    law(by.is_none(), || format!("{by:?} are enough, but {open:#?} is open"))
}

/// Whoever pauses and goes on does so with the same attempt.
fn a_pause_keeps_the_attempt(was: &Execution, is: &Execution) -> Law {
    let (Some(before), Some(after)) = (attempt(was), attempt(is)) else { return Ok(()) };
    let paused = |x: &Execution| match &x.state {
        State::Suspended(_) => true,
        State::Runnable(runnable) => matches!(runnable.next, Next::Resume(_)),
        State::Active(_) | State::Terminal(_) => false,
    };
    if !paused(was) {
        return Ok(());
    }
    let same = (before.index, before.kind, before.started_at)
        == (after.index, after.kind, after.started_at)
        && after.ran_ms >= before.ran_ms
        && is.counts.attempts == was.counts.attempts;
    law(same, || format!("{was:#?} became {is:#?}"))
}

fn attempt(x: &Execution) -> Option<&Attempt> {
    match &x.state {
        State::Active(active) => Some(&active.attempt),
        State::Suspended(suspended) => Some(&suspended.attempt),
        State::Terminal(terminal) => terminal.attempt.as_ref(),
        State::Runnable(runnable) => match &runnable.next {
            Next::Resume(attempt) => Some(attempt),
            Next::First | Next::Retry(_) | Next::Reclaim | Next::Replay => None,
        },
    }
}

/// A closed suspension is never judged again, and a closed waitpoint takes nothing more. What closes
/// one because of signals has them as its reason.
fn what_is_closed_stays_closed(turn: &Turn<'_>, x: &Execution) -> Law {
    let (before, after) = (&turn.before.waits, &turn.after.waits);
    let (was, is) = (before.suspensions.get(&x.id), after.suspensions.get(&x.id));
    if let (Some(was), Some(is)) = (was, is) {
        let replaced = matches!(turn.command, Command::Suspend(_)) && is.epoch > was.epoch;
        let same = is.epoch == was.epoch && is.id == was.id && is.condition == was.condition;
        let kept = was.end.is_none() || was == is;
        law(replaced && was.end.is_some() || same && kept, || format!("{was:#?}, then {is:#?}"))?;
    }
    if let Some(is) = is.filter(|_| was != is)
        && let Some(end) = is.end.as_ref().filter(|end| end.how == CloseReason::Resumed)
        && !matches!(turn.command, Command::Resume(_))
    {
        // Names come again: what was closed before is not its own.
        let own = |row: &Waitpoint| {
            let was = before.waitpoint(x.id, row.id);
            was.is_none_or(|was| !matches!(was.state, WaitpointState::Closed { .. }))
        };
        let by = judged(after, is, own);
        law(by.as_ref() == Some(&end.by), || format!("{by:?} satisfy {is:#?}"))?;
    }
    for was in before.waitpoints_of(x.id) {
        let is = after.waitpoint(x.id, was.id).unwrap();
        let kept = match (&was.state, &is.state) {
            (WaitpointState::Closed { .. }, _) => was == is,
            (WaitpointState::Active { since, .. }, WaitpointState::Active { since: is, .. }) => {
                since == is
            }
            (WaitpointState::Active { .. }, WaitpointState::Pending { .. }) => false,
            (
                WaitpointState::Active { .. } | WaitpointState::Pending { .. },
                WaitpointState::Closed { .. } | WaitpointState::Active { .. },
            ) => true,
            (
                WaitpointState::Pending { expires_at },
                WaitpointState::Pending { expires_at: is },
            ) => expires_at == is,
        };
        let same = (&is.key, &is.kid, is.created_at) == (&was.key, &was.kid, was.created_at);
        law(kept && same, || format!("{was:#?}, then {is:#?}"))?;
    }
    Ok(())
}

/// A signal that was accepted stays as it was.
fn what_came_stays(turn: &Turn<'_>, id: ExecutionId) -> Law {
    let (before, after) = (turn.before.waits.signals_of(id), turn.after.waits.signals_of(id));
    let (before, after): (Vec<_>, Vec<_>) = (before.collect(), after.collect());
    law(after.starts_with(&before), || format!("{before:#?}, then {after:#?}"))
}

fn there_is_nothing_of_what_is_gone(world: &World, id: ExecutionId) -> Law {
    law(world.find(id).is_some(), || format!("{id} left a waitpoint behind"))
}

fn the_times_of_a_waitpoint_follow_each_other(row: &Waitpoint) -> Law {
    let last = row.counts.last_at.unwrap_or(row.created_at);
    let ordered = match row.state {
        WaitpointState::Pending { .. } => last >= row.created_at,
        WaitpointState::Active { since, .. } => since >= row.created_at && last >= row.created_at,
        WaitpointState::Closed { at, activated_at, .. } => {
            let since = activated_at.unwrap_or(row.created_at);
            row.created_at <= since && since <= at && last <= at
        }
    };
    law(ordered, || format!("{row:#?}"))
}

fn the_digest_is_that_of_its_token(waits: &Waits, row: &Waitpoint) -> Law {
    let keys = &waits.keyring;
    let mut keys = keys.current.iter().chain(keys.old.iter().map(|old| &old.key));
    let Some(key) = keys.find(|key| key.kid == row.kid) else { return Ok(()) };
    let token = mint(&key.kid, &key.secret, &row.claims());
    // A name that was forgotten may be that of another key now.
    let same = token.digest() == row.token_digest || key.created_at >= row.created_at;
    law(same, || format!("{row:#?} was not made with {key:?}"))
}
