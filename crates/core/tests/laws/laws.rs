//! The laws that every command keeps, whatever the history.

use std::collections::BTreeSet;

use ff_core::decide::Again;
use ff_core::decide::lease_expiry::LeaseChecked;
use ff_core::decide::sibling_cancel::SiblingsCancelled;
use ff_core::event::{Event, EventKind, EventName};
use ff_core::execution::{Ending, Fence, LeaseEnd, Next, State, first_epoch};
use ff_core::flow::{
    CancellationPolicy, Edge, EdgePolicy, EdgeState, FlowState, FlowWord, GroupState, Node,
};
use ff_core::fold::{Consumer, GraphSet};
use ff_core::state::Phase;
use ff_core::{Command, Execution, ExecutionId, FlowId, Outcome, Reply, WriteSet};
use proptest::test_runner::TestCaseError;

use crate::store::present;
use crate::world::World;

/// Kept, or how it was broken.
pub type Law = Result<(), TestCaseError>;

pub fn law(kept: bool, broken: impl FnOnce() -> String) -> Law {
    if kept {
        return Ok(());
    }
    Err(TestCaseError::fail(broken()))
}

/// One command and what came of it.
pub struct Turn<'a> {
    pub command: &'a Command,
    pub before: &'a World,
    pub after: &'a World,
    pub outcome: &'a Outcome,
    pub set: &'a WriteSet,
}

pub fn every_law_is_kept(turn: &Turn<'_>) -> Law {
    a_rejected_command_leaves_no_trace(turn)?;
    only_the_holder_writes(turn)?;
    a_cancelled_flow_ends_once(turn)?;
    let ids: BTreeSet<ExecutionId> = turn.after.rows.executions.keys().copied().collect();
    for id in ids {
        match (turn.before.find(id), turn.after.find(id)) {
            (None, None) => {}
            (None, Some(x)) => an_execution_begins_by_its_creation(turn, x)?,
            (Some(x), None) => an_execution_goes_by_retention(turn, x)?,
            (Some(was), Some(is)) => {
                versions_are_dense(was, is)?;
                time_never_runs_backwards(was, is)?;
                the_epoch_counts_leases(was, is)?;
                the_end_is_final(turn, was, is)?;
                counts_are_bounded(is)?;
                what_is_lost_in_a_row_is_counted(turn, was, is)?;
                each_end_is_told_once(turn, was, is)?;
                only_needed_siblings_go_on(turn, was, is)?;
            }
        }
    }
    Ok(())
}

fn a_rejected_command_leaves_no_trace(turn: &Turn<'_>) -> Law {
    if turn.outcome.is_ok() {
        return Ok(());
    }
    law(turn.set.is_empty(), || format!("a rejection wrote {:#?}", turn.set))?;
    law(same_rows(turn.before, turn.after), || "a rejection changed a row".to_owned())
}

/// Cancelling siblings ends an upstream that no other group keeps, and goes on with every one that
/// another does: one that has not fired and whose execution can still run afterwards, or one that fired
/// and lets its upstreams run.
fn only_needed_siblings_go_on(turn: &Turn<'_>, was: &Execution, is: &Execution) -> Law {
    let Command::CancelSiblings(cancel) = turn.command else { return Ok(()) };
    let graph = &turn.before.rows.graph;
    let fired = graph.group((cancel.flow, cancel.downstream));
    let done =
        matches!(turn.outcome, Ok(Reply::CancelSiblings(SiblingsCancelled::Dispatched { .. })));
    let (Some(fired), true) = (fired.filter(|_| done), was.state.phase() != Phase::Terminal) else {
        return law(is == was || !done, || format!("{was:#?} became {is:#?}"));
    };
    let own = |edge: &&Edge| edge.flow == cancel.flow && edge.upstream == is.id;
    let out: Vec<&Edge> = graph.edges.values().flatten().filter(own).collect();
    let into = |edge: &&&Edge| edge.downstream == cancel.downstream;
    let is_sibling = out.iter().filter(into).any(|edge| fired.cancels(edge));
    let keeper = out.iter().find(|edge| !into(edge) && keeps(turn, edge));
    let ends = is.state.phase() == Phase::Terminal;
    law(ends == (is_sibling && keeper.is_none()), || {
        format!("{keeper:#?} keeps {is:#?}, a sibling: {is_sibling}")
    })
}

/// Whether an edge keeps its upstream from being cancelled as a sibling.
fn keeps(turn: &Turn<'_>, edge: &Edge) -> bool {
    let unresolved = matches!(edge.state, EdgeState::Staged | EdgeState::Unsatisfied { .. });
    let group = turn.before.rows.graph.group((edge.flow, edge.downstream));
    let Some(group) = group.filter(|group| unresolved && group.round == edge.round) else {
        return false;
    };
    if group.state != GroupState::Pending {
        return group.policy != EdgePolicy::AllOf && !group.policy.cancels_remaining();
    }
    let open = turn.before.rows.graph.known_flow(edge.flow).map(|flow| &flow.state);
    let waits = turn.after.find(edge.downstream).filter(|x| x.flow() == Some(edge.flow));
    waits.is_some_and(|x| match &x.state {
        State::Runnable(_) | State::Active(_) | State::Suspended(_) => true,
        // It waits again when its group fires, if it may be replayed.
        State::Terminal(terminal) => {
            matches!(terminal.ending, Ending::Skipped { .. })
                && open == Some(&FlowState::Open)
                && x.counts.replays < x.spec.policy.max_replays()
        }
    })
}

/// A cancelled flow says that it ended when, and only when, it does.
fn a_cancelled_flow_ends_once(turn: &Turn<'_>) -> Law {
    let ended = |world: &World, id: FlowId| {
        let Some(flow) = world.rows.graph.known_flow(id) else { return false };
        match &flow.state {
            FlowState::Cancelled { policy: CancellationPolicy::All, .. } => {
                !matches!(world.rows.graph.backlogs.get(&id), Some(Some(_)))
            }
            FlowState::Cancelled { .. } => flow.ended.total() == flow.nodes,
            FlowState::Open | FlowState::Completed { .. } | FlowState::Failed { .. } => false,
        }
    };
    for id in turn.after.rows.graph.flows.keys() {
        let end = EventKind::FlowEnded { state: FlowWord::Cancelled };
        let own = |event: &&Event| event.flow == Some(*id) && event.kind == end;
        let told = turn.set.events.iter().filter(own).count();
        let ends = ended(turn.after, *id) && !ended(turn.before, *id);
        law(told == usize::from(ends), || format!("{told} ends of {id}, {:#?}", turn.command))?;
    }
    Ok(())
}

fn only_the_holder_writes(turn: &Turn<'_>) -> Law {
    let Some((id, fence)) = presented(turn.command) else {
        return Ok(());
    };
    if turn.set.is_empty() {
        return Ok(());
    }
    let Some(State::Active(active)) = turn.before.find(id).map(|x| &x.state) else {
        return law(false, || "a worker wrote what nobody held".to_owned());
    };
    let holds = turn.before.find(id).map(Execution::fence) == Some(fence)
        && active.lease.until > turn.before.now;
    law(holds, || format!("{fence:?} opened {active:#?}"))
}

fn an_execution_begins_by_its_creation(turn: &Turn<'_>, x: &Execution) -> Law {
    let is_own = |node: &Node| node.create.id == x.id && x.flow().is_some();
    let (named, may_be_skipped) = match turn.command {
        Command::Create(create) => (create.id == x.id && x.flow().is_none(), false),
        Command::SubmitFlow(submit) => (submit.graph.nodes.iter().any(is_own), false),
        Command::ExtendFlow(extend) => (extend.graph.nodes.iter().any(is_own), true),
        _ => (false, false), // not ours: no other command makes any
    };
    let begins = named
        && (x.version, x.epoch) == (1, first_epoch(turn.before.now))
        && x.epoch.is_multiple_of(2)
        && (may_be_skipped || x.state.phase() == Phase::Runnable)
        && (may_be_skipped || turn.set.events.is_empty());
    law(begins, || format!("{} began as {x:#?}", turn.command.name()))
}

fn an_execution_goes_by_retention(turn: &Turn<'_>, x: &Execution) -> Law {
    let trimmed = match turn.command {
        Command::Trim(trim) => {
            trim.id == x.id && x.flow().is_none() && turn.set.removed == BTreeSet::from([x.id])
        }
        Command::TrimFlow(trim) => x.flow() == Some(trim.flow) && turn.set.removed.contains(&x.id),
        _ => false, // not ours: no other command removes any
    };
    let goes = trimmed && x.state.phase() == Phase::Terminal;
    law(goes, || format!("{} removed {x:#?}", turn.command.name()))
}

/// Each change counts one, except of the lease alone.
fn versions_are_dense(was: &Execution, is: &Execution) -> Law {
    let expected = was.version + u64::from(!same_but_for_the_lease(was, is));
    law(is.version == expected, || format!("{was:#?} became {is:#?}"))
}

fn same_but_for_the_lease(was: &Execution, is: &Execution) -> bool {
    let mut renewed = was.clone();
    if let (State::Active(old), State::Active(new)) = (&mut renewed.state, &is.state) {
        old.lease = new.lease.clone();
    }
    renewed == *is
}

fn time_never_runs_backwards(was: &Execution, is: &Execution) -> Law {
    let mut forwards = is.updated_at >= was.updated_at
        && is.spec == was.spec
        && (was.started_at.is_none() || is.started_at == was.started_at);
    if let State::Active(active) = &is.state {
        let lease = &active.lease;
        forwards &= lease.acquired_at <= lease.renewed_at
            && lease.renewed_at < lease.until
            && lease.check_at <= lease.until;
    }
    if let (State::Active(old), State::Active(new)) = (&was.state, &is.state) {
        forwards &= old.lease.renewed_at <= new.lease.renewed_at
            && old.lease.acquired_at == new.lease.acquired_at
            && old.lease.claim_id == new.lease.claim_id;
    }
    law(forwards, || format!("{was:#?} became {is:#?}"))
}

fn is_held(x: &Execution) -> bool {
    x.state.phase() == Phase::Active
}

/// Odd exactly while somebody holds it; one more on every acquire and on every release.
fn the_epoch_counts_leases(was: &Execution, is: &Execution) -> Law {
    let expected = was.epoch + u64::from(is_held(was) != is_held(is));
    let counted = is.epoch == expected && (is.epoch % 2 == 1) == is_held(is);
    law(counted, || format!("{was:#?} became {is:#?}"))
}

fn the_end_is_final(turn: &Turn<'_>, was: &Execution, is: &Execution) -> Law {
    let State::Terminal(_) = &was.state else {
        return Ok(());
    };
    let skipped = matches!(&was.state, State::Terminal(terminal)
        if matches!(terminal.ending, Ending::Skipped { .. }));
    let replayed = match turn.command {
        Command::Replay(replay) => {
            let upstream = turn.before.find(replay.id).and_then(|x| x.flow());
            let behind = skipped && replay.downstream && upstream == is.flow();
            replay.id == is.id || behind
        }
        Command::DispatchCompletion(dispatch) => skipped && Some(dispatch.flow) == is.flow(),
        Command::ReconcileGroup(group) => skipped && group.downstream == is.id,
        _ => false, // not ours: no other command has anything run again
    };
    let kept = match &is.state {
        State::Terminal(_) => is.state == was.state && is.counts == was.counts,
        State::Runnable(_) => replayed && is.counts.replays == was.counts.replays + 1,
        State::Active(_) | State::Suspended(_) => false,
    };
    law(kept, || format!("{was:#?} became {is:#?}"))
}

fn counts_are_bounded(x: &Execution) -> Law {
    let (policy, counts) = (&x.spec.policy, &x.counts);
    let retries = policy.retry_policy.as_ref().map_or(0, |retry| retry.max_retries);
    let bounded = counts.retries <= retries
        && counts.reclaims <= policy.max_reclaims()
        && counts.replays <= policy.max_replays();
    law(bounded, || format!("{counts:?} under {policy:?}"))
}

/// A lost lease counts one more than those before it, or one if the attempt recorded a step or went on
/// after a pause; only what ran out again without either waits before it is taken over.
fn what_is_lost_in_a_row_is_counted(turn: &Turn<'_>, was: &Execution, is: &Execution) -> Law {
    let (State::Active(active), State::Runnable(waits)) = (&was.state, &is.state) else {
        return law(is.counts.reclaims == was.counts.reclaims || is.counts.reclaims == 0, || {
            format!("{was:#?} became {is:#?}")
        });
    };
    if waits.next != Next::Reclaim {
        return Ok(());
    }
    let mut steps = turn.before.rows.steps.values().flatten();
    let stepped =
        steps.any(|step| step.execution == is.id && step.attempt_index == active.attempt.index);
    let row = if stepped || active.resumed { 1 } else { was.counts.reclaims + 1 };
    let waits_ms = waits.wait.map_or(0, |wait| wait.until.since(is.updated_at));
    let expired = waits.last_lease == Some(LeaseEnd::Expired);
    let due_ms = if expired && row > 1 { (1_000 << (row - 2).min(6)).min(60_000) } else { 0 };
    let released = waits.last_lease == Some(LeaseEnd::Released);
    law(released || (is.counts.reclaims, waits_ms) == (row, due_ms), || {
        format!("{was:#?} became {is:#?}")
    })
}

fn each_end_is_told_once(turn: &Turn<'_>, was: &Execution, is: &Execution) -> Law {
    let events = turn.set.events.iter().filter(|e| e.execution == Some(is.id));
    let ends = events.filter(|e| e.kind.name() == EventName::Completion);
    let ended = was.state.phase() != Phase::Terminal && is.state.phase() == Phase::Terminal;
    let told = ends.count();
    law(told == usize::from(ended), || format!("told {told} times: {was:#?} became {is:#?}"))
}

/// Sending an accepted command again changes nothing more, now or at another time.
pub fn a_repeat_changes_nothing_more(turn: &Turn<'_>, again_ms: i64) -> Law {
    let Ok(reply) = turn.outcome else {
        return Ok(());
    };
    let mut world = turn.after.clone();
    let (again, _) = world.send(turn.command.clone());
    if let Command::ExtendFlow(extend) = turn.command
        && extend.by.is_some_and(|(id, _)| turn.after.find(id).is_none_or(|x| !is_held(x)))
    {
        // It waits for what is lost, and was skipped for it: nobody holds it any more.
        return law(again.is_err(), || format!("{reply:?}, then {again:?}"));
    }
    let goes_on = reply.again() == Again::Further;
    law(goes_on || same_after_repeat(turn.command, turn.after, &world), || {
        "a repeat changed something".to_owned()
    })?;
    let promised = match reply.again() {
        Again::Further => return Ok(()),
        Again::Same => again.as_ref() == Ok(reply),
        Again::Reply(other) => again.as_ref() == Ok(&other),
        Again::Refused(code) => again.as_ref().is_err_and(|refused| refused.code == code),
    };
    law(promised, || format!("{reply:?}, then {again:?}"))?;
    // What came too early to do anything may do it later.
    let early = turn.set.is_empty() || *reply == Reply::ExpireLease(LeaseChecked::Renewed);
    if early {
        return Ok(());
    }
    let mut world = turn.after.clone();
    world.now.0 += again_ms;
    let _ = world.send(turn.command.clone());
    law(same_after_repeat(turn.command, turn.after, &world), || {
        format!("a repeat {again_ms} ms later changed something")
    })
}

/// A renewal moves the lease again, a lease is handed out again, progress is reported again, a cursor is
/// saved again.
fn same_after_repeat(command: &Command, once: &World, twice: &World) -> bool {
    let mut twice = twice.clone();
    for (id, row) in &mut twice.rows.executions {
        let (Some(first), Some(second)) = (once.find(*id), row) else {
            continue;
        };
        match command {
            Command::Renew(_) | Command::Claim(_) if same_but_for_the_lease(first, second) => {
                *second = first.clone();
            }
            Command::ReportProgress(_) => {
                second.version = first.version;
                second.updated_at = first.updated_at;
                second.progress.clone_from(&first.progress);
            }
            _ => {}
        }
    }
    if let Command::SaveCursor(save) = command
        && let (Ok(first), Some(Some(second))) =
            (once.rows.consumer(&save.consumer), twice.rows.consumers.get_mut(&save.consumer))
    {
        *second = Consumer { updated_at: first.updated_at, ..second.clone() };
    }
    same_rows(once, &twice)
}

pub fn same_rows(a: &World, b: &World) -> bool {
    let same_waits = a.waits == b.waits;
    let (a, b) = (&a.rows, &b.rows);
    same_waits
        && present(&a.executions) == present(&b.executions)
        && present(&a.keys) == present(&b.keys)
        && present(&a.consumers) == present(&b.consumers)
        && present(&a.steps) == present(&b.steps)
        && same_graph(&a.graph, &b.graph)
}

fn same_graph(a: &GraphSet, b: &GraphSet) -> bool {
    present(&a.flows) == present(&b.flows)
        && present(&a.groups) == present(&b.groups)
        && present(&a.edges) == present(&b.edges)
        && present(&a.dispatch) == present(&b.dispatch)
        && present(&a.cancels) == present(&b.cancels)
        && present(&a.backlogs) == present(&b.backlogs)
}

/// The fence that a command presents, for which execution.
fn presented(command: &Command) -> Option<(ExecutionId, Fence)> {
    match command {
        Command::Renew(c) => Some((c.id, c.fence)),
        Command::ReportProgress(c) => Some((c.id, c.fence)),
        Command::RecordSteps(c) => Some((c.id, c.fence)),
        Command::Complete(c) => Some((c.id, c.fence)),
        Command::Fail(c) => Some((c.id, c.fence)),
        Command::Delay(c) => Some((c.id, c.fence)),
        Command::Release(c) => Some((c.id, c.fence)),
        Command::Cancel(c) => c.fence.map(|fence| (c.id, fence)),
        Command::WaitChildren(c) => Some((c.id, c.fence)),
        Command::ExtendFlow(c) => c.by,
        Command::Suspend(c) => Some((c.id, c.fence)),
        Command::CreateWaitpoint(c) => Some((c.id, c.fence)),
        Command::CloseWaitpoint(c) => Some((c.id, c.fence)),
        Command::Create(_)
        | Command::Claim(_)
        | Command::Revoke(_)
        | Command::Replay(_)
        | Command::ChangePriority(_)
        | Command::Hold(_)
        | Command::Unhold(_)
        | Command::SetTags(_)
        | Command::ExpireLease(_)
        | Command::TimeOutAttempt(_)
        | Command::ExpireExecution(_)
        | Command::Trim(_)
        | Command::ForgetKey(_)
        | Command::SaveCursor(_)
        | Command::DropConsumer(_)
        | Command::CreateFlow(_)
        | Command::SubmitFlow(_)
        | Command::AddMember(_)
        | Command::StageEdge(_)
        | Command::ApplyEdge(_)
        | Command::SetGroupPolicy(_)
        | Command::SealFlow(_)
        | Command::SetFlowTags(_)
        | Command::CancelFlow(_)
        | Command::CancelOwed(_)
        | Command::DispatchCompletion(_)
        | Command::StartReleased(_)
        | Command::CancelSiblings(_)
        | Command::ReconcileSiblings(_)
        | Command::ReconcileGroup(_)
        | Command::TrimFlow(_)
        | Command::DeliverSignal(_)
        | Command::Resume(_)
        | Command::TimeOutSuspension(_)
        | Command::ExpireWaitpoint(_)
        | Command::SeedKey(_)
        | Command::RotateKey(_) => None,
    }
}
