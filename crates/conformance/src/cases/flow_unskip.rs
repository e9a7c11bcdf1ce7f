//! Replaying members with what is behind them: what was skipped because of one waits for it again.

use std::sync::Arc;

use ff_core::command::Command;
use ff_core::decide::dispatch::DispatchCompletion;
use ff_core::decide::replay::{Replay, Replayed};
use ff_core::error::Code;
use ff_core::event::EventKind;
use ff_core::flow::{DependencyKind, EdgeWord, Ended, FlowState, FlowWord, GroupWord};
use ff_core::limits::REPLAY_AT_ONCE_MAX;
use ff_core::state::{AttemptState, PublicState, TerminalOutcome};
use ff_core::{ExecutionId, FlowId};
use serde_json::json;

use crate::world::{World, any_let_run, code};

fn waiting_again(unskipped: &[ExecutionId]) -> Replayed {
    Replayed { unskipped: unskipped.to_vec(), ..Replayed::default() }
}

/// The command that tells a flow of an end.
fn telling(flow: FlowId, execution: ExecutionId) -> Command {
    DispatchCompletion { flow, execution, eager: false }.into()
}

fn replaying(id: ExecutionId) -> Command {
    Replay { downstream: true, ..super::flow_replay::replaying(id) }.into()
}

async fn tell(w: &World, flow: FlowId, id: ExecutionId) {
    w.send(telling(flow, id)).await.expect("it has ended");
}

/// A whole branch waits again for the member that failed, and runs when that succeeds.
pub async fn what_was_skipped_waits_again(w: Arc<World>) {
    let drawn = w.sketch("a>b>c b>d").submit().await;
    let (flow, [a, b, c, last]) = (drawn.flow, drawn.ids(["a", "b", "c", "d"]));
    w.fail_for_good(a).await;
    w.dispatch().await;
    assert_eq!(w.flow(flow).await.ended, Ended { well: 3, badly: 1 });
    w.pass(5);
    let replayed = w.replay_on(a).await.expect("it has ended");
    assert_eq!(replayed.unskipped[0], b);
    assert_eq!(replayed.unskipped.len(), 3);
    assert_eq!((replayed.spent, replayed.more), (vec![], false));
    let row = w.flow(flow).await;
    assert_eq!((row.state, row.ended), (FlowState::Open, Ended::default()));
    for (from, to) in [(a, b), (b, c), (b, last)] {
        let vector = w.vector(to).await;
        assert_eq!(vector.public_state, PublicState::WaitingChildren);
        assert_eq!(vector.attempt_state, AttemptState::PendingReplayAttempt);
        assert_eq!(w.edge(flow, from, to).await.state.word(), EdgeWord::Unsatisfied);
        assert_eq!(w.counted(flow, to).await, [1, 0, 0, 0]);
        assert_eq!(w.group(flow, to).await.state.word(), GroupWord::Pending);
        assert_eq!(w.get(to).await.counts.replays, 1);
    }
    let told = EventKind::Replayed {
        outcome: TerminalOutcome::Skipped,
        reason: "dependency_replayed".to_owned(),
    };
    assert_eq!(w.events(c).await[1].kind, told);
    for id in [a, b, c, last] {
        w.succeed(id).await;
        w.dispatch().await;
    }
    assert_eq!(w.flow(flow).await.ended, Ended { well: 4, badly: 0 });
    let told = ["flow_ended", "flow_reopened", "flow_ended"];
    assert_eq!(w.flow_event_names(flow).await, told);
}

/// Sent again, at once or late, a replay says that it was carried out before, and names no members: what it
/// had wait again may have moved on.
pub async fn a_repeated_replay_names_no_members(w: Arc<World>) {
    let drawn = w.sketch("a>b").submit().await;
    let [a, b] = drawn.ids(["a", "b"]);
    w.fail_for_good(a).await;
    w.dispatch().await;
    let base = super::flow_replay::replaying(a);
    let replay = Replay { downstream: true, replays: Some(0), ..base };
    assert_eq!(w.run(replay.clone()).await, Ok(waiting_again(&[b])));
    let repeated = Replayed { repeated: true, ..Replayed::default() };
    assert_eq!(w.run(replay.clone()).await, Ok(repeated.clone()));
    assert_eq!(w.event_names(b).await, ["completion", "replayed"], "the feed names them");
    w.succeed(a).await;
    w.dispatch().await;
    let before = w.rows();
    assert_eq!(w.run(replay).await, Ok(repeated));
    assert_eq!((w.rows(), w.state(b).await), (before, PublicState::Waiting));
}

/// An operator may replay one member and nothing behind it.
pub async fn a_replay_alone_leaves_what_was_skipped(w: Arc<World>) {
    let drawn = w.sketch("a>b").submit().await;
    let (flow, [a, b]) = (drawn.flow, drawn.ids(["a", "b"]));
    w.fail_for_good(a).await;
    w.dispatch().await;
    w.replay(a).await.expect("it has ended");
    w.succeed(a).await;
    w.dispatch().await;
    assert_eq!(w.state(b).await, PublicState::Skipped);
    assert_eq!(w.edge(flow, a, b).await.state.word(), EdgeWord::Impossible);
    assert_eq!(w.flow_state(flow).await, FlowWord::Completed);
}

/// A member with two failures before it waits again when the second one is replayed.
pub async fn what_others_made_impossible_stays_impossible(w: Arc<World>) {
    let drawn = w.sketch("a>z b>z z>y").submit().await;
    let (flow, [a, b, z, last]) = (drawn.flow, drawn.ids(["a", "b", "z", "y"]));
    for id in [a, b] {
        w.fail_for_good(id).await;
    }
    w.dispatch().await;
    assert_eq!(w.replay_on(a).await, Ok(Replayed::default()));
    assert_eq!(w.state(z).await, PublicState::Skipped);
    assert_eq!(w.edge(flow, a, z).await.state.word(), EdgeWord::Unsatisfied);
    assert_eq!(w.counted(flow, z).await, [2, 0, 1, 0]);
    w.succeed(a).await;
    w.dispatch().await;
    assert_eq!(w.state(z).await, PublicState::Skipped);
    assert_eq!(w.replay_on(b).await, Ok(waiting_again(&[z, last])));
    assert_eq!(w.counted(flow, z).await, [2, 1, 0, 0], "what is satisfied stays");
    for id in [b, z, last] {
        w.succeed(id).await;
        w.dispatch().await;
    }
    assert_eq!(w.flow_state(flow).await, FlowWord::Completed);
}

/// A join that had what it needed is not undone, and its edges stay as they were resolved.
pub async fn what_fired_stays_fired(w: Arc<World>) {
    let drawn = w.sketch("a>z b>z").join("z", any_let_run()).submit().await;
    let (flow, [a, b, z]) = (drawn.flow, drawn.ids(["a", "b", "z"]));
    w.fail_for_good(a).await;
    w.succeed(b).await;
    w.dispatch().await;
    w.succeed(z).await;
    w.dispatch().await;
    assert_eq!(w.flow_state(flow).await, FlowWord::Failed);
    assert_eq!(w.replay_on(a).await, Ok(Replayed::default()));
    assert_eq!(w.state(z).await, PublicState::Completed);
    assert_eq!(w.counted(flow, z).await, [2, 1, 1, 0]);
    w.succeed(a).await;
    w.dispatch().await;
    assert_eq!(w.counted(flow, z).await, [2, 1, 1, 0]);
    assert_eq!(w.flow_state(flow).await, FlowWord::Completed);
}

/// What waits for a failure waits again when the success that it was skipped for is taken back.
pub async fn a_completed_flow_waits_for_its_failure_again(w: Arc<World>) {
    let sketch = w.sketch("a>c").kind("a", "c", DependencyKind::FailureOnly);
    let drawn = sketch.submit().await;
    let (flow, [a, c]) = (drawn.flow, drawn.ids(["a", "c"]));
    w.succeed(a).await;
    w.dispatch().await;
    assert_eq!(w.flow_state(flow).await, FlowWord::Completed);
    assert_eq!(w.replay_on(a).await, Ok(waiting_again(&[c])));
    w.fail_for_good(a).await;
    w.dispatch().await;
    assert_eq!(w.state(c).await, PublicState::Waiting);
    // What was satisfied by the failure stays satisfied.
    assert_eq!(w.replay_on(a).await, Ok(Replayed::default()));
    assert_eq!(w.state(c).await, PublicState::Waiting);
}

/// A skip of which the flow was not told yet is never told, and goes no further.
pub async fn a_skip_that_was_not_told_is_taken_back(w: Arc<World>) {
    let drawn = w.sketch("a>b>c").submit().await;
    let (flow, [a, b, c]) = (drawn.flow, drawn.ids(["a", "b", "c"]));
    w.fail_for_good(a).await;
    tell(&w, flow, a).await;
    assert_eq!(w.state(b).await, PublicState::Skipped);
    assert_eq!(w.replay_on(a).await, Ok(waiting_again(&[b])));
    assert!(w.dispatch().await.is_empty());
    assert_eq!(w.state(c).await, PublicState::WaitingChildren);
    assert_eq!(w.get(c).await.counts.replays, 0);
    assert_eq!(w.flow(flow).await.ended, Ended::default());
    w.fail_for_good(a).await;
    w.dispatch().await;
    assert_eq!(w.state(c).await, PublicState::Skipped);
    assert_eq!(w.flow(flow).await.ended, Ended { well: 2, badly: 1 });
}

/// Each replay counts for each: what has none left stays skipped, with what is behind it.
pub async fn what_has_no_replay_left_stays_skipped(w: Arc<World>) {
    let sketch = w.sketch("a>b>c a>d");
    let sketch = sketch.node("b", |node| node.policy.max_replay_count = Some(1));
    let drawn = sketch.submit().await;
    let (flow, [a, b, c, other]) = (drawn.flow, drawn.ids(["a", "b", "c", "d"]));
    w.fail_for_good(a).await;
    w.dispatch().await;
    assert_eq!(w.replay_on(a).await.expect("it has ended").unskipped.len(), 3);
    w.fail_for_good(a).await;
    w.dispatch().await;
    let replayed = w.replay_on(a).await.expect("it has ended");
    let spent = vec![b];
    assert_eq!(replayed, Replayed { spent, ..waiting_again(&[other]) });
    w.succeed(a).await;
    w.dispatch().await;
    assert_eq!(w.state(other).await, PublicState::Waiting);
    assert_eq!((w.state(b).await, w.state(c).await), (PublicState::Skipped, PublicState::Skipped));
    assert_eq!(w.edge(flow, a, b).await.state.word(), EdgeWord::Impossible);
}

/// A skipped member that is replayed itself takes with it what was skipped because of it.
pub async fn a_skipped_member_takes_back_its_own_skips(w: Arc<World>) {
    let drawn = w.sketch("a>b>c").submit().await;
    let [a, b, c] = drawn.ids(["a", "b", "c"]);
    w.fail_for_good(a).await;
    w.dispatch().await;
    assert_eq!(code(w.replay_on(b).await), Code::DepsNotSatisfied);
    w.replay(a).await.expect("it has ended");
    assert_eq!(w.replay_on(b).await, Ok(waiting_again(&[c])));
    for id in [a, b, c] {
        w.succeed(id).await;
        w.dispatch().await;
    }
    assert_eq!(w.flow_state(drawn.flow).await, FlowWord::Completed);
}

/// A flow `a>b>c` in which `a` failed and was replayed in the batch that skipped the others, so that
/// `c` stays skipped in a group that is pending again.
async fn lagging(w: &World) -> (FlowId, [ExecutionId; 3]) {
    let drawn = w.sketch("a>b>c").submit().await;
    let (flow, [a, b, c]) = (drawn.flow, drawn.ids(["a", "b", "c"]));
    w.fail_for_good(a).await;
    let batch = vec![telling(flow, a), telling(flow, b), replaying(a)];
    let outcomes = w.batch(batch).await;
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    assert_eq!(w.state(b).await, PublicState::WaitingChildren);
    assert_eq!(w.state(c).await, PublicState::Skipped);
    assert_eq!(w.group(flow, c).await.state.word(), GroupWord::Pending);
    (flow, [a, b, c])
}

/// What could not be looked at waits no longer than it has to: it goes when its upstream succeeds.
pub async fn what_is_not_at_hand_waits_again_later(w: Arc<World>) {
    let (flow, [a, b, c]) = lagging(&w).await;
    w.dispatch().await;
    w.succeed(a).await;
    w.dispatch().await;
    assert_eq!(w.state(c).await, PublicState::Skipped);
    w.succeed(b).await;
    w.dispatch().await;
    assert_eq!(w.state(c).await, PublicState::Waiting);
    assert_eq!(w.flow_state(flow).await, FlowWord::Open);
    w.succeed(c).await;
    w.dispatch().await;
    assert_eq!(w.flow(flow).await.ended, Ended { well: 3, badly: 0 });
    assert_eq!(w.flow_state(flow).await, FlowWord::Completed);
    assert_eq!(w.event_names(c).await, ["completion", "replayed", "completion"]);
}

/// If its upstream fails again, it stays skipped, counted once, and may wait again another time.
pub async fn what_is_not_at_hand_stays_skipped_with_its_upstream(w: Arc<World>) {
    let (flow, [a, b, c]) = lagging(&w).await;
    w.dispatch().await;
    w.fail_for_good(a).await;
    w.dispatch().await;
    for id in [b, c] {
        assert_eq!(w.state(id).await, PublicState::Skipped);
    }
    assert_eq!(w.counted(flow, c).await, [1, 0, 0, 1]);
    assert_eq!(w.flow(flow).await.ended, Ended { well: 2, badly: 1 });
    assert_eq!(w.flow_state(flow).await, FlowWord::Failed);
    assert_eq!(w.event_names(c).await, ["completion"]);
    assert_eq!(w.replay_on(a).await, Ok(waiting_again(&[b, c])));
}

/// Behind a member with very many others, one transaction looks at some; all wait again in time.
pub async fn of_very_many_some_wait_again_later(w: Arc<World>) {
    let many = REPLAY_AT_ONCE_MAX + 5;
    let links: Vec<_> = (0..many).map(|n| format!("b>n{n}")).collect();
    let text = format!("a>b {}", links.join(" "));
    let sketch = w.sketch(&text).policy(&json!({"max_replay_count": 3}));
    let drawn = sketch.submit().await;
    let (flow, [a, b]) = (drawn.flow, drawn.ids(["a", "b"]));
    w.fail_for_good(a).await;
    tell(&w, flow, a).await;
    tell(&w, flow, b).await;
    assert_eq!(w.buckets(flow).await.of(PublicState::Skipped), 1 + count(many));
    let replayed = w.replay_on(a).await.expect("it has ended");
    assert_eq!((replayed.unskipped.len(), replayed.more), (REPLAY_AT_ONCE_MAX, true));
    assert_eq!(w.buckets(flow).await.of(PublicState::Skipped), 6);
    for id in [a, b] {
        w.succeed(id).await;
        tell(&w, flow, id).await;
    }
    assert_eq!(w.buckets(flow).await.of(PublicState::Waiting), count(many));
    assert_eq!(w.flow(flow).await.ended, Ended { well: 2, badly: 0 });
}

fn count(n: usize) -> u64 {
    u64::try_from(n).expect("a small count")
}
