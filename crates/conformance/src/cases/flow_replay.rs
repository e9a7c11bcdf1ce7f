//! Replaying members: their flow takes the end back, and what was skipped waits again.

use std::sync::Arc;

use ff_core::backend::Duty;
use ff_core::command::{Command, Reply};
use ff_core::decide::claim::ClaimKind;
use ff_core::decide::dispatch::{DispatchCompletion, Dispatched};
use ff_core::decide::replay::Replay;
use ff_core::error::Code;
use ff_core::flow::{
    CancellationPolicy, EdgePolicy, EdgeWord, Ended, FlowState, FlowWord, GroupWord,
};
use ff_core::state::{AttemptState, PublicState};
use ff_core::{ExecutionId, FlowId};
use serde_json::json;

use super::calls::cancellation;
use crate::world::{Drawn, World, any_let_run, any_of, code, quorum, quorum_let_run};

/// A replay of it alone.
pub fn replaying(id: ExecutionId) -> Replay {
    Replay { id, reason: "once more".to_owned(), replays: None, downstream: false }
}

/// A flow `a>b` in which `a` failed, so that `b` was skipped; all of it dispatched.
async fn broken(w: &World) -> (FlowId, ExecutionId, ExecutionId) {
    let drawn = w.sketch("a>b").submit().await;
    let [a, b] = drawn.ids(["a", "b"]);
    w.fail_for_good(a).await;
    w.dispatch().await;
    assert_eq!(w.flow_state(drawn.flow).await, FlowWord::Failed);
    (drawn.flow, a, b)
}

/// A flow that failed goes on when a member is replayed, and may end better.
pub async fn a_replay_reopens_its_flow(w: Arc<World>) {
    let (flow, a, _) = broken(&w).await;
    w.pass(5);
    assert_eq!(w.replay(a).await, Ok(()));
    let row = w.flow(flow).await;
    assert_eq!((row.state, row.ended), (FlowState::Open, Ended { well: 1, badly: 0 }));
    assert_eq!((row.sealed, row.updated_at), (true, w.now()));
    w.succeed(a).await;
    w.dispatch().await;
    let row = w.flow(flow).await;
    assert_eq!((row.state.word(), row.ended), (FlowWord::Completed, Ended { well: 2, badly: 0 }));
    let told = ["flow_ended", "flow_reopened", "flow_ended"];
    assert_eq!(w.flow_event_names(flow).await, told);
    assert_eq!(w.event_names(a).await, ["completion", "replayed", "completion"]);
}

/// A completed flow may be reopened like a failed one.
pub async fn a_completed_flow_may_be_reopened(w: Arc<World>) {
    let drawn = w.sketch("a>b").submit().await;
    for id in drawn.ids(["a", "b"]) {
        w.succeed(id).await;
        w.dispatch().await;
    }
    w.replay(drawn.id("b")).await.expect("it has ended");
    assert_eq!(w.flow(drawn.flow).await.state, FlowState::Open);
    w.fail_for_good(drawn.id("b")).await;
    w.dispatch().await;
    assert_eq!(w.flow_state(drawn.flow).await, FlowWord::Failed);
}

/// A flow that is still open just goes on.
pub async fn a_replay_in_an_open_flow_is_told_by_the_member_only(w: Arc<World>) {
    let drawn = w.sketch("a c").submit().await;
    w.fail_for_good(drawn.id("a")).await;
    w.dispatch().await;
    w.replay(drawn.id("a")).await.expect("it has ended");
    assert!(w.flow_events(drawn.flow).await.is_empty());
    assert_eq!(w.flow(drawn.flow).await.ended, Ended::default());
}

/// What was skipped waits again for an upstream that runs again.
pub async fn a_skipped_member_waits_again(w: Arc<World>) {
    let (flow, a, b) = broken(&w).await;
    w.replay(a).await.expect("it has ended");
    w.pass(5);
    w.replay(b).await.expect("what it waits for runs again");
    let vector = w.vector(b).await;
    assert_eq!(vector.public_state, PublicState::WaitingChildren);
    assert_eq!(vector.attempt_state, AttemptState::PendingReplayAttempt);
    assert_eq!(w.edge(flow, a, b).await.state.word(), EdgeWord::Unsatisfied);
    assert_eq!(w.counted(flow, b).await, [1, 0, 0, 0]);
    assert_eq!(w.group(flow, b).await.state.word(), GroupWord::Pending);
    assert_eq!(w.flow(flow).await.ended, Ended::default());
    w.succeed(a).await;
    w.dispatch().await;
    let leased = w.claim_by_name(b).await.expect("it was let go");
    assert_eq!(leased.kind, ClaimKind::Replayed);
    w.complete(b, leased.fence).await.expect("it is held");
    w.dispatch().await;
    assert_eq!(w.flow(flow).await.ended, Ended { well: 2, badly: 0 });
    assert_eq!(w.event_names(b).await, ["completion", "replayed", "completion"]);
}

/// What was skipped goes at once if its upstream has succeeded meanwhile, told or not.
pub async fn a_skipped_member_may_go_at_once(w: Arc<World>) {
    for told in [true, false] {
        let (flow, a, b) = broken(&w).await;
        w.replay(a).await.expect("it has ended");
        w.succeed(a).await;
        if told {
            w.dispatch().await;
            assert_eq!(w.state(b).await, PublicState::Skipped, "nothing goes by itself");
        }
        w.replay(b).await.expect("what it waits for succeeded");
        assert_eq!(w.counted(flow, b).await, [1, 1, 0, 0]);
        w.succeed(b).await;
        w.dispatch().await;
        assert_eq!(w.flow_state(flow).await, FlowWord::Completed);
        assert_eq!(w.counted(flow, b).await, [1, 1, 0, 0]);
    }
}

/// What waited for a failure that stays a failure is not replayed: it could never run.
pub async fn a_skipped_member_is_not_replayed_in_vain(w: Arc<World>) {
    let (_, a, b) = broken(&w).await;
    let refused = w.refused(replaying(b)).await;
    assert_eq!(refused.code, Code::DepsNotSatisfied);
    w.replay(a).await.expect("it has ended");
    w.fail_for_good(a).await;
    assert_eq!(w.refused(replaying(b)).await.code, Code::DepsNotSatisfied, "told or not");
    w.dispatch().await;
    assert_eq!(w.refused(replaying(b)).await.code, Code::DepsNotSatisfied);
}

/// A replayed member that waits again may be skipped again.
pub async fn a_replayed_member_may_be_skipped_again(w: Arc<World>) {
    let (flow, a, b) = broken(&w).await;
    w.replay(a).await.expect("it has ended");
    w.replay(b).await.expect("what it waits for runs again");
    w.fail_for_good(a).await;
    w.dispatch().await;
    assert_eq!(w.state(b).await, PublicState::Skipped);
    assert_eq!(w.counted(flow, b).await, [1, 0, 1, 0]);
    assert_eq!(w.event_names(b).await, ["completion", "replayed", "completion"]);
    assert_eq!(w.flow(flow).await.ended, Ended { well: 1, badly: 1 });
}

/// A whole branch is replayed from the top.
pub async fn a_branch_is_replayed_from_the_top(w: Arc<World>) {
    let drawn = w.sketch("a>b>c").submit().await;
    let [a, b, c] = drawn.ids(["a", "b", "c"]);
    w.fail_for_good(a).await;
    w.dispatch().await;
    assert_eq!(code(w.replay(c).await), Code::DepsNotSatisfied);
    for id in [a, b, c] {
        w.replay(id).await.expect("what it waits for runs again");
    }
    for id in [a, b, c] {
        w.succeed(id).await;
        w.dispatch().await;
    }
    assert_eq!(w.flow(drawn.flow).await.ended, Ended { well: 3, badly: 0 });
}

/// What was satisfied stays satisfied, however its upstream ends the next time.
pub async fn satisfied_edges_stay_satisfied(w: Arc<World>) {
    let drawn = w.sketch("a>z b>z").submit().await;
    let (flow, [a, b, z]) = (drawn.flow, drawn.ids(["a", "b", "z"]));
    w.succeed(a).await;
    w.fail_for_good(b).await;
    w.dispatch().await;
    w.replay(a).await.expect("it has ended");
    w.fail_for_good(a).await;
    w.dispatch().await;
    assert_eq!(w.edge(flow, a, z).await.state.word(), EdgeWord::Satisfied);
    assert_eq!(w.counted(flow, z).await, [2, 1, 1, 0]);
    w.replay(b).await.expect("it has ended");
    w.replay(z).await.expect("what it waits for runs again");
    assert_eq!(w.counted(flow, z).await, [2, 1, 0, 0]);
    w.succeed(b).await;
    w.dispatch().await;
    assert_eq!(w.state(z).await, PublicState::Waiting);
}

/// A replay of what nobody was told about takes back the telling.
pub async fn a_replay_before_the_dispatch_is_never_told(w: Arc<World>) {
    let drawn = w.sketch("a>b").submit().await;
    let [a, b] = drawn.ids(["a", "b"]);
    w.fail_for_good(a).await;
    let stale = w.due(Duty::CompletionDispatch, 10).await.commands;
    w.replay(a).await.expect("it has ended");
    assert!(w.dispatch().await.is_empty());
    let outcomes = w.batch(stale).await;
    assert_eq!(outcomes, [Ok(Reply::DispatchCompletion(Dispatched::NoOp))]);
    assert_eq!(w.state(b).await, PublicState::WaitingChildren);
    w.succeed(a).await;
    assert_eq!(w.dispatch().await.len(), 1);
    assert_eq!(w.state(b).await, PublicState::Waiting);
    assert_eq!(w.flow(drawn.flow).await.ended, Ended { well: 1, badly: 0 });
}

/// A cancelled flow is over for good, for all its members.
pub async fn members_of_a_cancelled_flow_stay_ended(w: Arc<World>) {
    for policy in CancellationPolicy::ALL {
        let drawn = w.sketch("a b").submit().await;
        w.fail_for_good(drawn.id("a")).await;
        w.dispatch().await;
        w.cancel_flow(drawn.flow, *policy).await.expect("it is open");
        let refused = w.refused(replaying(drawn.id("a"))).await;
        assert_eq!(refused.code, Code::FlowAlreadyTerminal, "{policy}");
        w.dispatch().await;
    }
}

/// Of several upstreams, those that run again are waited for; the others are lost as before.
pub async fn a_choice_waits_for_what_runs_again(w: Arc<World>) {
    let drawn = w.sketch("a>z b>z c>z").join("z", any_let_run()).submit().await;
    let (flow, z) = (drawn.flow, drawn.id("z"));
    for id in drawn.ids(["a", "b", "c"]) {
        w.fail_for_good(id).await;
    }
    w.dispatch().await;
    assert_eq!(code(w.replay(z).await), Code::DepsNotSatisfied);
    w.replay(drawn.id("b")).await.expect("it has ended");
    w.replay(z).await.expect("one of them runs again");
    assert_eq!(w.counted(flow, z).await, [3, 0, 2, 0]);
    assert_eq!(w.state(z).await, PublicState::WaitingChildren);
    w.succeed(drawn.id("b")).await;
    w.dispatch().await;
    assert_eq!(w.state(z).await, PublicState::Waiting);
}

/// A quorum that never could be reached cannot be waited for again.
pub async fn a_quorum_out_of_reach_is_not_replayed(w: Arc<World>) {
    let flow = w.empty_flow().await;
    let [a, b, z] = w.members(flow).await;
    w.wait_for(flow, z, quorum_let_run(3)).await.expect("nothing is staged");
    w.link(flow, a, z).await;
    w.link(flow, b, z).await;
    w.succeed(a).await;
    w.succeed(b).await;
    w.dispatch().await;
    assert_eq!(w.state(z).await, PublicState::Skipped);
    assert_eq!(w.refused(replaying(z)).await.code, Code::DepsNotSatisfied);
}

/// A group that fires again after a replay cancels its siblings again.
pub async fn a_replayed_group_may_fire_again(w: Arc<World>) {
    let drawn = w.sketch("a>z b>z").join("z", any_of()).submit().await;
    let (flow, z) = (drawn.flow, drawn.id("z"));
    for id in drawn.ids(["a", "b"]) {
        w.fail_for_good(id).await;
    }
    w.dispatch().await;
    w.tick(Duty::EdgeCancelDispatcher).await;
    for id in drawn.ids(["a", "b", "z"]) {
        w.replay(id).await.expect("what it waits for runs again");
    }
    w.succeed(drawn.id("a")).await;
    w.dispatch().await;
    assert_eq!(w.group(flow, z).await.state.word(), GroupWord::Satisfied);
    w.tick(Duty::EdgeCancelDispatcher).await;
    assert_eq!(w.state(drawn.id("b")).await, PublicState::Cancelled);
    assert_eq!(w.state(z).await, PublicState::Waiting);
}

/// A straggler that the engine cancelled may be replayed; it is counted as it ends then.
pub async fn a_cancelled_straggler_may_be_replayed(w: Arc<World>) {
    let drawn = w.sketch("a>z b>z").join("z", any_of()).submit().await;
    w.succeed(drawn.id("a")).await;
    w.dispatch().await;
    w.tick(Duty::EdgeCancelDispatcher).await;
    w.dispatch().await;
    assert_eq!(w.flow(drawn.flow).await.ended, Ended { well: 2, badly: 0 });
    w.replay(drawn.id("b")).await.expect("it has ended");
    assert_eq!(w.flow(drawn.flow).await.ended, Ended { well: 1, badly: 0 });
    w.fail_for_good(drawn.id("b")).await;
    w.dispatch().await;
    assert_eq!(w.flow(drawn.flow).await.ended, Ended { well: 1, badly: 1 });
    assert_eq!(w.counted(drawn.flow, drawn.id("z")).await, [2, 1, 1, 0], "resolved once");
}

/// A member that is cancelled and replayed in one batch is told once, when it ends again.
pub async fn an_end_and_a_replay_in_one_batch(w: Arc<World>) {
    let drawn = w.sketch("a>b").submit().await;
    let [a, b] = drawn.ids(["a", "b"]);
    let outcomes = w.batch(vec![cancellation(a).into(), replaying(a).into()]).await;
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    assert!(w.dispatch().await.is_empty());
    w.succeed(a).await;
    w.dispatch().await;
    assert_eq!(w.state(b).await, PublicState::Waiting);
    assert_eq!(w.flow(drawn.flow).await.ended, Ended { well: 1, badly: 0 });
}

/// A member that is skipped and replayed in one batch waits for nothing that is lost.
pub async fn a_skip_and_a_replay_in_one_batch(w: Arc<World>) {
    let drawn = w.sketch("a>b").submit().await;
    let (flow, [a, b]) = (drawn.flow, drawn.ids(["a", "b"]));
    w.fail_for_good(a).await;
    let dispatch: Command = DispatchCompletion { flow, execution: a, eager: false }.into();
    let outcomes = w.batch(vec![dispatch, replaying(b).into()]).await;
    assert_eq!(outcomes[1].as_ref().map_err(|r| r.code), Err(Code::DepsNotSatisfied));
    let batch = vec![replaying(a).into(), replaying(b).into()];
    let outcomes = w.batch(batch).await;
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    assert_eq!(w.state(b).await, PublicState::WaitingChildren);
    w.succeed(a).await;
    w.dispatch().await;
    assert_eq!(w.state(b).await, PublicState::Waiting);
}

/// What is added, skipped at once and replayed in one batch is refused like any other.
pub async fn an_addition_and_a_replay_in_one_batch(w: Arc<World>) {
    let drawn = w.sketch("a").open().submit().await;
    w.fail_for_good(drawn.id("a")).await;
    w.dispatch().await;
    let more = w.more(drawn.flow, "a>b").extension(None);
    let outcomes = w.batch(vec![more.into(), replaying(drawn.id("b")).into()]).await;
    assert!(outcomes[0].is_ok(), "{outcomes:?}");
    assert_eq!(outcomes[1].as_ref().map_err(|r| r.code), Err(Code::DepsNotSatisfied));
    assert_eq!(w.state(drawn.id("b")).await, PublicState::Skipped);
    assert_eq!(w.counted(drawn.flow, drawn.id("b")).await, [1, 0, 1, 0]);
}

/// A parent that was skipped in a later round waits again for that round only.
pub async fn a_replay_waits_for_the_last_round(w: Arc<World>) {
    let drawn = w.sketch("p").submit().await;
    let (flow, p) = (drawn.flow, drawn.id("p"));
    let mut fence = w.start(p).await;
    for children in ["a b", "c"] {
        let mut more = w.more(flow, children);
        for child in children.split(' ') {
            let [from, to] =
                [child, "p"].map(|n| ff_core::flow::NodeRef::Name(crate::world::name(n)));
            more = more.between(from, to);
        }
        let any = if children == "c" { EdgePolicy::AllOf } else { any_let_run() };
        more.join("p", any).extend_as(p, fence).await.expect("it runs");
        w.wait_children(flow, p, fence).await.expect("it is held");
        if children == "c" {
            break;
        }
        w.succeed(drawn.id("a")).await;
        w.fail_for_good(drawn.id("b")).await;
        w.dispatch().await;
        fence = w.start(p).await;
    }
    w.fail_for_good(drawn.id("c")).await;
    w.dispatch().await;
    assert_eq!(w.state(p).await, PublicState::Skipped);
    w.replay(drawn.id("c")).await.expect("it has ended");
    w.replay(p).await.expect("what it waits for runs again");
    assert_eq!(w.edge(flow, drawn.id("b"), p).await.state.word(), EdgeWord::Impossible);
    w.succeed(drawn.id("c")).await;
    w.dispatch().await;
    assert_eq!(w.state(p).await, PublicState::Waiting);
}

/// Replays of members run out like those of anything else.
pub async fn replays_of_members_run_out(w: Arc<World>) {
    let sketch = w.sketch("a").policy(&json!({"max_replay_count": 1}));
    let drawn: Drawn = sketch.submit().await;
    let a = drawn.id("a");
    for expected in [Ok(()), Err(Code::MaxReplaysExhausted)] {
        w.fail_for_good(a).await;
        w.dispatch().await;
        assert_eq!(w.replay(a).await.map_err(|refused| refused.code), expected);
    }
    assert_eq!(w.flow_state(drawn.flow).await, FlowWord::Failed);
}

/// What was replayed is not cancelled because its join had failed before.
pub async fn what_is_replayed_is_not_cancelled_as_a_sibling(w: Arc<World>) {
    let sketch = w.sketch("a>d b>d c>d").join("d", quorum(2));
    let drawn = sketch.submit().await;
    let (failed, running, join) = (drawn.ids(["a", "b"]), drawn.id("c"), drawn.id("d"));
    w.start(running).await;
    for id in failed {
        w.fail_for_good(id).await;
    }
    w.dispatch().await;
    assert_eq!(w.state(join).await, PublicState::Skipped);
    for id in failed.into_iter().chain([join]) {
        w.replay(id).await.expect("it has ended");
    }
    w.tick(Duty::EdgeCancelDispatcher).await;
    w.tick(Duty::EdgeCancelReconciler).await;
    assert_eq!(w.state(running).await, PublicState::Active);
    for id in failed {
        w.succeed(id).await;
    }
    w.dispatch().await;
    assert_eq!(w.state(join).await, PublicState::Waiting);
}
