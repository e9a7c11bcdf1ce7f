//! Replay: an operator has a finished execution run again, as a new attempt.
//!
//! Retries and reclaims start from zero; a deadline that was relative starts again and an
//! absolute one is dropped once passed; the result is gone until the new attempt succeeds;
//! history stays. One that had succeeded takes all its steps again, and its new journal opens with the
//! record that says which generation it is; any other goes on after the last step that it recorded.
//!
//! A member of a flow takes back what its end had made impossible, and what was skipped because of that
//! waits again, each as a replay of its own. What is satisfied stays, and so does what fired otherwise.
//! With more behind it than one transaction looks at, the rest stays skipped until what it waits for
//! ends ([`unskip`](super::graph)). Sent twice: it runs again once, and nothing more
//! happens: at once because it has not been claimed yet, later because it was replayed more often
//! than the caller saw. The answer then says so and has no lists: no row records which replay had a
//! member wait again, and members move on. The feed has a `replayed` event of each.

use std::cmp::Ordering;

use super::graph::{Draft, behind};
use super::{Again, COMMAND_BYTES, Decide, Repeat, check_reason};
use crate::command::Traffic;
use crate::error::{Code, Rejection};
use crate::event::{Event, EventKind};
use crate::execution::{Counts, Ending, Execution, Next, Runnable, State, Terminal};
use crate::flow::{Counters, Edge, EdgeState, Flow, FlowState, Group, GroupState};
use crate::fold::{Change, Cx, Effects, Key, WaitEffects, WaitKey, WorkingSet};
use crate::ids::{ExecutionId, FlowId};
use crate::limits::{Config, REPLAY_AT_ONCE_MAX};
use crate::step::{Step, StepRecord};
use crate::suspension::{CloseReason, Waitpoint, WaitpointState};
use crate::time::Millis;

/// Run a finished execution again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replay {
    /// Which.
    pub id: ExecutionId,
    /// Why.
    pub reason: String,
    /// Only if it was replayed so often before; however often it was when it does not say.
    pub replays: Option<u32>,
    /// Whether what was skipped because of it waits again.
    pub downstream: bool,
}

/// The answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    /// What was skipped because of it and waits again, nearest first.
    pub unskipped: Vec<ExecutionId>,
    /// What stays skipped because it was replayed as often as its policy allows.
    pub spent: Vec<ExecutionId>,
    /// Whether more was skipped: it waits again when what it waits for has ended.
    pub more: bool,
    /// Whether it had been replayed before: nothing was done, and the lists are empty.
    pub repeated: bool,
}

impl Replayed {
    /// The answer when it had been replayed before.
    fn again() -> Self {
        Self { repeated: true, ..Self::default() }
    }
}

impl Decide for Replay {
    type Reply = Replayed;
    const NAME: &'static str = "replay_execution";
    const TRAFFIC: Traffic = Traffic::Admin;
    const REPEAT: Repeat = Repeat {
        by: "`replays`: how often it had been replayed",
        late: "`repeated`, without the lists of members; it runs again once",
    };

    fn validate(&self, _: &Config) -> Result<(), Rejection> {
        check_reason("reason", &self.reason)
    }

    fn bytes(&self) -> usize {
        COMMAND_BYTES
    }

    fn keys(&self, have: &WorkingSet) -> Vec<Key> {
        let mut keys = vec![Key::Execution(self.id), Key::Wait(WaitKey::Waitpoints(self.id))];
        let Ok(x) = have.execution(self.id) else { return keys };
        // However it stands now: it may end, or be skipped, earlier in the same batch.
        if let Some(flow) = x.flow() {
            keys.extend([Key::Flow(flow), Key::Dispatch(x.id)]);
            keys.extend([Key::Group(flow, x.id), Key::Incoming(flow, x.id)]);
            keys.push(Key::Cancel(flow, x.id));
            keys.extend(lost(flow, x.id, have).map(|edge| Key::Execution(edge.upstream)));
            if self.downstream {
                keys.push(Key::Behind(flow, x.id));
                let found = have.graph.behind.get(&(flow, x.id)).into_iter().flatten();
                // What waits for it may be skipped earlier in the same batch.
                let waits = have.graph.edges_of(flow, have.graph.outgoing.get(&(flow, x.id)));
                let open = |edge: &&Edge| matches!(edge.state, EdgeState::Unsatisfied { .. });
                let waits = waits.into_iter().filter(open);
                let waits = waits.map(|edge| edge.downstream).take(REPLAY_AT_ONCE_MAX);
                let from = [x.id].into_iter().chain(found.copied()).chain(waits);
                keys.extend(from.flat_map(|id| behind(flow, id, have)));
            }
        }
        keys
    }

    fn decide(&self, have: &WorkingSet, cx: &mut Cx<'_>) -> Result<Change<Replayed>, Rejection> {
        let x = have.execution(self.id)?;
        match self.replays.map(|seen| (seen, seen.cmp(&x.counts.replays))) {
            None | Some((_, Ordering::Equal)) => {}
            // It runs again, or did.
            Some((_, Ordering::Less)) => return Ok(Change::none(Replayed::again())),
            Some((seen, Ordering::Greater)) => return Err(super::replayed(x, seen)),
        }
        let terminal = match &x.state {
            State::Terminal(terminal) => terminal,
            State::Runnable(Runnable { next: Next::Replay, last_lease: None, .. }) => {
                return Ok(Change::none(Replayed::again()));
            }
            State::Runnable(_) | State::Active(_) | State::Suspended(_) => {
                let said = format!("{} is {}, not terminal", x.id, x.state.phase());
                let refused = Rejection::new(Code::ExecutionNotTerminal, said);
                return Err(refused.standing(x.standing()));
            }
        };
        let max = x.spec.policy.max_replays();
        if x.counts.replays >= max {
            let said = format!("{} was replayed {} times, which is all", x.id, x.counts.replays);
            return Err(Rejection::new(Code::MaxReplaysExhausted, said));
        }
        let replayed = replayed(x, cx);
        let reason = self.reason.clone();
        let event = EventKind::Replayed { outcome: terminal.ending.outcome(), reason };
        let event = Event::new(x, replayed.updated_at, event);
        let mut change = match x.flow().and_then(|flow| have.graph.known_flow(flow)) {
            None => {
                let effects = Effects { execution: Some(replayed), ..Effects::default() };
                Change { reply: Replayed::default(), effects }
            }
            Some(flow) => {
                let mut draft = in_flow(have, flow, (replayed, terminal), cx)?;
                let skipped = matches!(terminal.ending, Ending::Skipped { .. });
                let onwards = self.downstream.then(|| downstream(&mut draft, (x.id, skipped), cx));
                draft.change(onwards.unwrap_or_default())
            }
        };
        change.effects.attempt = terminal.last_attempt(x.id);
        if matches!(terminal.ending, Ending::Success { .. }) {
            change.effects.cleared = Some(x.id);
            change.effects.steps.push(opening(x, cx.at(x)));
            // Nobody knows of them any more: signals sent there would be kept for nobody.
            let pending = |row: &&Waitpoint| matches!(row.state, WaitpointState::Pending { .. });
            let own = have.waits.waitpoints_of(x.id).filter(pending);
            let never = CloseReason::NeverCommitted;
            let waitpoints = own.map(|row| row.closed(cx.at(x), never)).collect();
            let waits = WaitEffects { waitpoints, ..WaitEffects::default() };
            change.effects.waits = Some(Box::new(waits));
        }
        change.effects.events.insert(0, event);
        Ok(change)
    }

    fn pinned(&self, have: &WorkingSet) -> Option<Self> {
        let x = have.execution(self.id).ok()?;
        self.replays.is_none().then(|| Self { replays: Some(x.counts.replays), ..self.clone() })
    }

    fn again(_: &Replayed) -> Again<Replayed> {
        Again::Reply(Replayed::again())
    }
}

/// What the journal of the new generation opens with. It is no progress of any attempt to come.
fn opening(x: &Execution, at: Millis) -> StepRecord {
    let step = Step::generation(x.counts.replays + 1);
    StepRecord { execution: x.id, step, attempt_index: x.counts.attempts.saturating_sub(1), at }
}

/// Has wait again what was skipped because of how `id` ended.
fn downstream(draft: &mut Draft<'_>, (id, skipped): (ExecutionId, bool), cx: &Cx<'_>) -> Replayed {
    let mut back = draft.take_back(id, skipped);
    let mut replayed = Replayed::default();
    let mut at = 0;
    while let Some(next) = back.waiting.get(at).copied() {
        at += 1;
        if replayed.unskipped.contains(&next) {
            continue;
        }
        if draft.may_unskip(next) {
            let further = draft.unskip(next, true, cx);
            replayed.unskipped.push(next);
            back.waiting.extend(further.waiting);
            back.spent.extend(further.spent);
        } else {
            replayed.more = true;
        }
    }
    back.spent.sort_unstable();
    back.spent.dedup();
    Replayed { spent: back.spent, ..replayed }
}

/// `x` as it runs again.
pub(super) fn replayed(x: &Execution, cx: &Cx<'_>) -> Execution {
    let at = cx.at(x);
    let mut replayed = x.changed(at);
    replayed.counts = Counts { replays: x.counts.replays + 1, retries: 0, reclaims: 0, ..x.counts };
    replayed.progress = None;
    replayed.deadline_at = match x.spec.policy.execution_deadline_ms() {
        Some(ms) => Some(at.plus(ms)),
        None => x.deadline_at.filter(|deadline| *deadline > at),
    };
    replayed.state = State::Runnable(Runnable {
        next: Next::Replay,
        wait: None,
        hold: None,
        gated: false,
        last_lease: None,
    });
    replayed
}

/// The edges into `id` that were not satisfied.
fn lost(flow: FlowId, id: ExecutionId, have: &WorkingSet) -> impl Iterator<Item = &Edge> {
    let lost = |edge: &&Edge| matches!(edge.state, EdgeState::Impossible { .. });
    have.graph.edges_into(flow, id).filter(lost)
}

/// A member runs again: its flow takes its end back, and goes on if it had ended. One that was skipped
/// waits again for those that were lost; if they ended as they did before, it never can.
fn in_flow<'a>(
    have: &'a WorkingSet,
    flow: &Flow,
    (x, terminal): (Execution, &Terminal),
    cx: &Cx<'_>,
) -> Result<Draft<'a>, Rejection> {
    let mut draft = Draft::new(have, flow, cx);
    match &flow.state {
        FlowState::Open => {}
        FlowState::Completed { .. } | FlowState::Failed { .. } => {
            draft.flow.state = FlowState::Open;
            draft.tell(EventKind::FlowReopened);
        }
        FlowState::Cancelled { .. } => {
            let said = format!("flow {} is cancelled: none of its members runs again", flow.id);
            return Err(Rejection::new(Code::FlowAlreadyTerminal, said));
        }
    }
    let id = x.id;
    draft.uncount(id, &terminal.ending);
    let skipped = matches!(terminal.ending, Ending::Skipped { .. });
    draft.put_execution(x.clone());
    if let (true, Some(group)) = (skipped, draft.group(id).cloned()) {
        let counters = Counters { failed: 0, skipped: 0, ..group.counters };
        let round = group.round;
        // Whoever was to be cancelled because it could not run is waited for again.
        draft.spare(id);
        draft.put_group(Group { counters, state: GroupState::Pending, siblings: None, ..group });
        draft.gate(&x, true);
        let own = lost(flow.id, id, have).filter(|edge| edge.round == round);
        let again: Vec<_> = own.map(waiting_again).collect();
        for edge in &again {
            draft.put_edge(edge.clone());
        }
        for edge in &again {
            draft.settle(edge, cx)?;
        }
        draft.judge(id, cx);
        if !matches!(draft.execution(id).map(|x| &x.state), Some(State::Runnable(_))) {
            let said = format!("what {id} waits for ended so that it can never run");
            return Err(Rejection::new(Code::DepsNotSatisfied, said));
        }
    }
    Ok(draft)
}

fn waiting_again(edge: &Edge) -> Edge {
    let applied_at = edge.state.times().0.unwrap_or(edge.created_at);
    Edge { state: EdgeState::Unsatisfied { applied_at }, ..edge.clone() }
}
