//! Joins: what it takes to let an execution go, counted over the ends of those it waits for.
#![allow(clippy::many_single_char_names, reason = "nodes of a sketch are called a, b, c")]

use std::sync::Arc;

use ff_core::ExecutionId;
use ff_core::backend::Duty;
use ff_core::flow::{DependencyKind, EdgePolicy, EdgeWord, GroupWord, OnImpossible, OnSatisfied};
use ff_core::state::PublicState;

use crate::world::{Drawn, World, any_let_run, any_of, quorum_let_run};

/// How an upstream is to end.
#[derive(Clone, Copy, Debug)]
enum End {
    Succeeds,
    Fails,
    IsSkipped,
}

use End::{Fails as F, IsSkipped as K, Succeeds as S};

/// A flow in which `z` waits for `total` upstreams, the first of which end as said.
/// Each upstream `n` waits for a root of its own, `rn`, so that it may be skipped.
async fn joined(w: &World, policy: EdgePolicy, total: usize, ends: &[End]) -> Drawn {
    let sketch = (0..total).map(|n| format!("r{n}>n{n}>z")).collect::<Vec<_>>().join(" ");
    let drawn = w.sketch(&sketch).open().join("z", policy).submit().await;
    for (n, end) in ends.iter().enumerate() {
        let [root, own] = [drawn.id(&format!("r{n}")), drawn.id(&format!("n{n}"))];
        match end {
            S | F => {
                w.succeed(root).await;
                w.dispatch().await;
                if matches!(end, S) { w.succeed(own).await } else { w.fail_for_good(own).await }
            }
            K => w.fail_for_good(root).await,
        }
        w.dispatch().await;
    }
    drawn
}

fn count(ends: &[End], wanted: fn(&End) -> bool) -> u32 {
    u32::try_from(ends.iter().filter(|end| wanted(end)).count()).expect("a small count")
}

/// The published decisions, by real executions that end in the order given.
pub async fn groups_decide_as_published(w: Arc<World>) {
    let (satisfied, impossible, pending) =
        (GroupWord::Satisfied, GroupWord::Impossible, GroupWord::Pending);
    let all = EdgePolicy::AllOf;
    let any = any_let_run();
    let of = quorum_let_run;
    for (policy, total, ends, expected) in [
        (all, 3, &[S, S, S][..], satisfied),
        (all, 3, &[S, S, F], impossible),
        (all, 3, &[S], pending),
        (all, 3, &[S, S, K], impossible),
        (any, 3, &[S], satisfied),
        (any, 3, &[F, F, F], impossible),
        (any, 3, &[F, F], pending),
        (any, 3, &[F, F, K], impossible),
        (of(2), 3, &[S, K, S], satisfied),
        (of(2), 3, &[S, F], pending),
        (of(2), 3, &[F, F], impossible),
        (of(2), 3, &[S, F, F], impossible),
        (of(3), 5, &[F, F, F], impossible),
        (of(3), 5, &[S, F, S, F], pending),
        (of(3), 5, &[S, F, S, F, S], satisfied),
    ] {
        let drawn = joined(&w, policy, total, ends).await;
        let (flow, z) = (drawn.flow, drawn.id("z"));
        let state = w.group(flow, z).await.state.word();
        assert_eq!(state, expected, "{policy:?} of {total}: {ends:?}");
        let waits = match expected {
            GroupWord::Satisfied => PublicState::Waiting,
            GroupWord::Impossible => PublicState::Skipped,
            GroupWord::Pending | GroupWord::Cancelled => PublicState::WaitingChildren,
        };
        assert_eq!(w.state(z).await, waits, "{policy:?} of {total}: {ends:?}");
        let [succeeded, failed, skipped] = [
            count(ends, |end| matches!(end, S)),
            count(ends, |end| matches!(end, F)),
            count(ends, |end| matches!(end, K)),
        ];
        let total = u32::try_from(total).expect("a small count");
        assert_eq!(w.counted(flow, z).await, [total, succeeded, failed, skipped]);
    }
}

/// A quorum of more edges than there are is lost with the first that is resolved.
pub async fn a_quorum_of_too_many_is_lost_at_once(w: Arc<World>) {
    let flow = w.empty_flow().await;
    let [a, b, z] = w.members(flow).await;
    w.wait_for(flow, z, quorum_let_run(3)).await.expect("nothing is staged");
    w.link(flow, a, z).await;
    w.link(flow, b, z).await;
    assert_eq!(w.state(z).await, PublicState::WaitingChildren);
    w.succeed(a).await;
    w.dispatch().await;
    assert_eq!(w.state(z).await, PublicState::Skipped);
    assert_eq!(w.counted(flow, z).await, [2, 1, 0, 0]);
}

/// What comes after a group fired moves its counters and nothing else.
pub async fn a_late_end_moves_counters_only(w: Arc<World>) {
    let drawn = w.sketch("a>z b>z c>z").join("z", any_let_run()).submit().await;
    let (flow, z) = (drawn.flow, drawn.id("z"));
    w.succeed(drawn.id("a")).await;
    w.dispatch().await;
    let fence = w.start(z).await;
    let (fired, running) = (w.group(flow, z).await, w.get(z).await);
    w.pass(5);
    w.succeed(drawn.id("b")).await;
    w.fail_for_good(drawn.id("c")).await;
    w.dispatch().await;
    let group = w.group(flow, z).await;
    assert_eq!((group.state, group.siblings), (fired.state, None));
    assert_eq!(w.counted(flow, z).await, [3, 2, 1, 0]);
    assert_eq!(w.get(z).await, running);
    assert_eq!(w.edge(flow, drawn.id("c"), z).await.state.word(), EdgeWord::Impossible);
    assert_eq!(w.complete(z, fence).await, Ok(()));
}

/// A success does not revive what was given up.
pub async fn a_success_after_impossible_satisfies_nothing(w: Arc<World>) {
    let drawn = w.sketch("a>z b>z c>z").submit().await;
    let (flow, z) = (drawn.flow, drawn.id("z"));
    w.fail_for_good(drawn.id("a")).await;
    w.dispatch().await;
    let fired = w.group(flow, z).await.state;
    assert_eq!(fired.word(), GroupWord::Impossible);
    w.pass(5);
    w.succeed(drawn.id("b")).await;
    w.succeed(drawn.id("c")).await;
    w.dispatch().await;
    assert_eq!(w.group(flow, z).await.state, fired);
    assert_eq!(w.counted(flow, z).await, [3, 2, 1, 0]);
    assert_eq!(w.state(z).await, PublicState::Skipped);
    assert_eq!(w.event_names(z).await, ["completion"]);
}

/// A straggler under `let_run` finishes, and lets its own children go.
pub async fn a_straggler_serves_its_other_children(w: Arc<World>) {
    let drawn = w.sketch("a>z b>z b>y").join("z", any_let_run()).submit().await;
    w.succeed(drawn.id("a")).await;
    w.dispatch().await;
    assert!(w.due(Duty::EdgeCancelDispatcher, 10).await.commands.is_empty());
    w.succeed(drawn.id("b")).await;
    w.dispatch().await;
    assert_eq!(w.state(drawn.id("y")).await, PublicState::Waiting);
}

/// Skipped upstreams only use up the room that a choice has.
pub async fn a_choice_survives_skipped_upstreams(w: Arc<World>) {
    let drawn = w.sketch("r>a>z r>b>z c>z").join("z", any_of()).submit().await;
    let (flow, z) = (drawn.flow, drawn.id("z"));
    w.fail_for_good(drawn.id("r")).await;
    w.dispatch().await;
    assert_eq!(w.counted(flow, z).await, [3, 0, 0, 2]);
    assert_eq!(w.state(z).await, PublicState::WaitingChildren);
    w.succeed(drawn.id("c")).await;
    w.dispatch().await;
    assert_eq!(w.state(z).await, PublicState::Waiting);
}

async fn ended(w: &World, kind: DependencyKind, end: End) -> PublicState {
    let drawn = w.sketch("r>a>z").kind("a", "z", kind).submit().await;
    let [r, a, z] = drawn.ids(["r", "a", "z"]);
    match end {
        S | F => {
            w.succeed(r).await;
            w.dispatch().await;
            if matches!(end, S) { w.succeed(a).await } else { w.fail_for_good(a).await }
        }
        K => w.fail_for_good(r).await,
    }
    w.dispatch().await;
    w.state(z).await
}

/// An edge may ask for success, for failure, or for any end.
pub async fn each_kind_of_edge_has_its_ends(w: Arc<World>) {
    let (goes, skipped) = (PublicState::Waiting, PublicState::Skipped);
    for (kind, expected) in [
        (DependencyKind::SuccessOnly, [goes, skipped, skipped]),
        (DependencyKind::AnyTerminal, [goes, goes, goes]),
        (DependencyKind::FailureOnly, [skipped, goes, skipped]),
    ] {
        let mut states = Vec::new();
        for end in [S, F, K] {
            states.push(ended(&w, kind, end).await);
        }
        assert_eq!(states, expected, "{kind}");
    }
}

/// Cancelled and expired count as failures for who asks for a failure.
pub async fn a_cancelled_or_expired_upstream_counts_as_failed(w: Arc<World>) {
    let sketch = w.sketch("a>y b>z").node("b", |create| create.deadline_at = Some(w.now()));
    let sketch = sketch.kind("a", "y", DependencyKind::FailureOnly);
    let drawn = sketch.kind("b", "z", DependencyKind::FailureOnly).submit().await;
    w.cancel(drawn.id("a")).await.expect("it waits");
    w.tick(Duty::Deadline).await;
    w.dispatch().await;
    for id in drawn.ids(["y", "z"]) {
        assert_eq!(w.state(id).await, PublicState::Waiting);
        assert_eq!(w.counted(drawn.flow, id).await, [1, 1, 0, 0]);
    }
}

/// Edges of different kinds into one execution are judged each by its own.
pub async fn kinds_mix_in_one_group(w: Arc<World>) {
    let sketch = w.sketch("a>z b>z c>z").kind("b", "z", DependencyKind::FailureOnly);
    let drawn = sketch.kind("c", "z", DependencyKind::AnyTerminal).submit().await;
    let [a, b, c, z] = drawn.ids(["a", "b", "c", "z"]);
    w.succeed(a).await;
    w.fail_for_good(b).await;
    w.cancel(c).await.expect("it waits");
    w.dispatch().await;
    assert_eq!(w.state(z).await, PublicState::Waiting);
    assert_eq!(w.counted(drawn.flow, z).await, [3, 3, 0, 0]);
}

fn running_on(k: Option<u32>) -> EdgePolicy {
    let (on_satisfied, on_impossible) = (OnSatisfied::LetRun, OnImpossible::Run);
    match k {
        None => EdgePolicy::AnyOf { on_satisfied, on_impossible },
        Some(k) => EdgePolicy::Quorum { k, on_satisfied, on_impossible },
    }
}

/// Who says so runs even when what it waited for can never be, and learns how it came.
pub async fn what_waits_may_run_all_the_same(w: Arc<World>) {
    for policy in [running_on(None), running_on(Some(2))] {
        let drawn = w.sketch("a>z b>z").join("z", policy).submit().await;
        let (flow, z) = (drawn.flow, drawn.id("z"));
        w.fail_for_good(drawn.id("a")).await;
        w.fail_for_good(drawn.id("b")).await;
        w.dispatch().await;
        assert_eq!(w.group(flow, z).await.state.word(), GroupWord::Impossible);
        assert_eq!(w.state(z).await, PublicState::Waiting);
        w.take(z).await;
        assert_eq!(w.counted(flow, z).await, [2, 0, 2, 0]);
        w.cancel(z).await.expect("it runs");
    }
}

/// A diamond joins what it split, once.
pub async fn a_diamond_runs_through(w: Arc<World>) {
    let drawn = w.sketch("a>b>d a>c>d").submit().await;
    let mut order: Vec<ExecutionId> = Vec::new();
    for _ in 0..4 {
        for id in w.take_ids(10).await {
            order.push(id);
            let fence = w.get(id).await.fence();
            w.complete(id, fence).await.expect("it is held");
        }
        w.dispatch().await;
    }
    assert_eq!(order.len(), 4);
    assert_eq!((order[0], order[3]), (drawn.id("a"), drawn.id("d")));
}
