//! Graphs: what the edges into an execution add up to, which ends satisfy them, and what is a circle.

use ff_core::backend::ClaimAsk;
use ff_core::decide::create::Create;
use ff_core::decide::dispatch::{DispatchCompletion, Dispatched};
use ff_core::decide::sibling_cancel::{CancelSiblings, SiblingsCancelled};
use ff_core::decide::sibling_reconcile::{ReconcileSiblings, SiblingsReconciled};
use ff_core::decide::start_released::StartReleased;
use ff_core::error::Code;
use ff_core::event::CursorKind;
use ff_core::flow::{
    Counters, DependencyKind, EdgePolicy, Graph, Link, Node, NodeRef, OnSatisfied, Verdict,
};
use ff_core::fold::{Cx, Key};
use ff_core::state::TerminalOutcome;
use ff_core::text::{Kind, LaneId, NodeName};
use ff_core::{Command, Config, ExecutionId, FlowId, Reply, State, fold, needs};
use uuid::Uuid;

use crate::members::{any_of, flow_beside, link, member, others, succeed};
use crate::world::{Dice, Life, World, create, worker};

/// Satisfied, failed and skipped, of so many.
fn counted(total: u32, [satisfied, failed, skipped]: [u32; 3]) -> Counters {
    Counters { total, satisfied, failed, skipped }
}

#[test]
fn groups_are_judged_as_published() {
    use Verdict::{Impossible, Pending, Satisfied};
    let (all, any) = (EdgePolicy::AllOf, EdgePolicy::any_of(OnSatisfied::LetRun));
    let of = |k| EdgePolicy::quorum(k, OnSatisfied::CancelRemaining);
    for (policy, total, counts, expected) in [
        (all, 3, [3, 0, 0], Satisfied),
        (all, 3, [2, 1, 0], Impossible),
        (all, 3, [1, 0, 0], Pending),
        (all, 3, [2, 0, 1], Impossible),
        (any, 3, [1, 0, 0], Satisfied),
        (any, 3, [0, 3, 0], Impossible),
        (any, 3, [0, 2, 0], Pending),
        (any, 3, [0, 2, 1], Impossible),
        (of(2), 3, [2, 0, 1], Satisfied),
        (of(2), 3, [1, 1, 0], Pending),
        (of(2), 3, [0, 2, 0], Impossible),
        (of(2), 3, [1, 2, 0], Impossible),
        (of(3), 5, [0, 3, 0], Impossible),
        (of(3), 5, [2, 2, 0], Pending),
        (of(3), 2, [1, 0, 0], Impossible),
        (of(3), 2, [0, 1, 0], Impossible),
    ] {
        let verdict = policy.judge(counted(total, counts));
        assert_eq!(verdict, expected, "{policy:?} of {total}: {counts:?}");
    }
}

#[test]
fn a_group_without_edges_decides_nothing() {
    for policy in [EdgePolicy::AllOf, EdgePolicy::any_of(OnSatisfied::LetRun)] {
        assert_eq!(policy.judge(Counters::default()), Verdict::Pending);
    }
}

#[test]
fn absurd_counters_do_not_overflow() {
    let full = counted(u32::MAX, [u32::MAX; 3]);
    assert_eq!((full.resolved(), full.running()), (u32::MAX, 0));
    let policy = EdgePolicy::quorum(u32::MAX, OnSatisfied::LetRun);
    assert_eq!(policy.judge(counted(u32::MAX, [0, u32::MAX, u32::MAX])), Verdict::Impossible);
}

#[test]
fn any_of_is_a_quorum_of_one() {
    let any = EdgePolicy::any_of(OnSatisfied::LetRun);
    let one = EdgePolicy::quorum(1, OnSatisfied::LetRun);
    for total in 1..4 {
        for satisfied in 0..=total {
            for failed in 0..=total - satisfied {
                for skipped in 0..=total - satisfied - failed {
                    let counters = counted(total, [satisfied, failed, skipped]);
                    assert_eq!(any.judge(counters), one.judge(counters), "{counters:?}");
                }
            }
        }
    }
}

#[test]
fn each_kind_of_edge_is_satisfied_by_its_own_ends() {
    let ends = |kind: DependencyKind| -> Vec<_> {
        let all = TerminalOutcome::ALL.iter().copied();
        all.filter(|outcome| kind.satisfied_by(*outcome)).collect()
    };
    let (success, skipped) = (TerminalOutcome::Success, TerminalOutcome::Skipped);
    assert_eq!(ends(DependencyKind::SuccessOnly), [success]);
    assert_eq!(ends(DependencyKind::AnyTerminal), TerminalOutcome::ALL);
    let failures = ends(DependencyKind::FailureOnly);
    assert_eq!(failures.len(), TerminalOutcome::ALL.len() - 2);
    assert!(!failures.contains(&success) && !failures.contains(&skipped));
}

fn flow() -> FlowId {
    FlowId(Uuid::from_u128(0x77))
}

/// A graph of these chains; nodes are called by their letters.
fn graph(chains: &str) -> Graph {
    let mut graph = Graph::default();
    let node = |name: char| NodeName::new(name.to_string()).unwrap();
    for chain in chains.split(' ') {
        let names: Vec<char> = chain.chars().collect();
        for name in &names {
            if graph.nodes.iter().all(|own| own.name != node(*name)) {
                let (lane, kind) = (LaneId::new("default").unwrap(), Kind::new("job").unwrap());
                graph.nodes.push(Node::new(flow(), node(*name), lane, kind));
            }
        }
        for pair in names.windows(2) {
            let [from, to] = [pair[0], pair[1]].map(|name| NodeRef::Name(node(name)));
            graph.links.push(Link::new(from, to));
        }
    }
    graph
}

#[test]
fn every_circle_is_found_and_named_by_one_of_its_edges() {
    for (chains, circle) in [
        ("ABA", "AB"),
        ("ABCA", "ABC"),
        ("XABCAY", "ABC"),
        ("ABCD DB", "BCD"),
        ("AB BC CD XY YZ ZX", "XYZ"),
        ("AB AC BD CD DE EA", "ABCDE"),
        ("ABC BAD", "AB"),
    ] {
        let refused = graph(chains).validate(flow(), None, &Config::default()).unwrap_err();
        assert_eq!(refused.code, Code::CycleDetected, "{chains}");
        let named: Vec<_> =
            refused.message.split(' ').filter(|word| word.len() == 1 && *word != "a").collect();
        assert_eq!(named.len(), 2, "{chains}: {refused}");
        assert!(named.iter().all(|name| circle.contains(name)), "{chains}: {refused}");
    }
}

#[test]
fn what_only_looks_like_a_circle_is_none() {
    for chains in ["a", "ab", "abc ac", "abd acd", "abcd efgh ah eb", "ab cb cd ed"] {
        let answer = graph(chains).validate(flow(), None, &Config::default());
        assert_eq!(answer, Ok(()), "{chains}");
    }
}

#[test]
fn a_long_chain_is_no_circle_and_a_long_circle_is_one() {
    let name = |n: u32| NodeName::new(n.to_string()).unwrap();
    let id = |n| NodeRef::Execution(ExecutionId::for_node(flow(), &name(n)));
    let mut links: Vec<_> = (0..5_000).map(|n| Link::new(id(n), id(n + 1))).collect();
    let chain = Graph { links: links.clone(), ..Graph::default() };
    assert_eq!(chain.validate(flow(), None, &Config::default()), Ok(()));
    links.push(Link::new(id(5_000), id(0)));
    let circle = Graph { links, ..Graph::default() };
    let refused = circle.validate(flow(), None, &Config::default()).unwrap_err();
    assert_eq!(refused.code, Code::CycleDetected);
}

/// A member that waits for the first of two others to succeed.
fn racing() -> Life {
    let mut life = member(Life::begin(create(1)));
    any_of(&mut life);
    link(&mut life, 0);
    link(&mut life, 1);
    life
}

/// Folds one command over what was loaded, after `held` took something away from it.
fn fold_while(world: &World, command: &Command, held: impl Fn(&mut World, &Key) -> bool) -> Reply {
    let mut world = world.clone();
    for _ in 0..3 {
        for key in needs(command, &world.rows) {
            if !held(&mut world, &key) {
                world.load(&key);
            }
        }
    }
    let (now, cursors) = (world.now, CursorKind::Seq);
    let mut dice = Dice(1);
    let mut cx = Cx { now, config: &world.config, entropy: &mut dice, cursors };
    let (mut outcomes, set) = fold(std::slice::from_ref(command), &mut world.rows, &mut cx);
    assert!(set.is_empty(), "{set:#?}");
    outcomes.remove(0).unwrap()
}

#[test]
fn nobody_waits_for_a_group_that_somebody_else_holds() {
    let mut life = racing();
    succeed(&mut life, 0);
    let flow = flow_beside(life.id);
    let dispatch = DispatchCompletion { flow, execution: others(flow)[0], eager: false };
    life.tell(dispatch);
    let key = (flow, life.id);
    life.world.rows.graph.groups.remove(&key);
    let taken = |world: &mut World, asked: &Key| {
        let free = *asked == Key::FreeGroup(key.0, key.1);
        free && world.rows.graph.taken.insert(key)
    };
    let cancel = CancelSiblings { flow, downstream: life.id }.into();
    let skipped = Reply::CancelSiblings(SiblingsCancelled::SkippedLocked);
    assert_eq!(fold_while(&life.world, &cancel, taken), skipped);
    let reconcile = ReconcileSiblings { flow, downstream: life.id }.into();
    let nothing = Reply::ReconcileSiblings(SiblingsReconciled::NoOp);
    assert_eq!(fold_while(&life.world, &reconcile, taken), nothing);
}

#[test]
fn an_eager_dispatch_does_not_wait_for_a_flow_that_somebody_else_holds() {
    let mut life = racing();
    succeed(&mut life, 0);
    let flow = flow_beside(life.id);
    life.world.rows.graph.flows.remove(&flow);
    let dispatch = DispatchCompletion { flow, execution: others(flow)[0], eager: true };
    let busy = |world: &mut World, asked: &Key| {
        *asked == Key::FreeFlow(flow) && world.rows.graph.busy.insert(flow)
    };
    let later = Reply::DispatchCompletion(Dispatched::Later);
    assert_eq!(fold_while(&life.world, &dispatch.into(), busy), later);
}

fn ask() -> ClaimAsk {
    let lanes = vec![LaneId::new("default").unwrap()];
    ClaimAsk { max: 10, ..ClaimAsk::new(Uuid::from_u128(0x700), worker("idle"), lanes) }
}

#[test]
fn what_a_batch_lets_go_is_started_in_it() {
    let mut life = racing();
    succeed(&mut life, 0);
    let flow = flow_beside(life.id);
    let dispatch = DispatchCompletion { flow, execution: others(flow)[0], eager: false };
    let start = StartReleased { ask: ask() };
    let (outcomes, set) = life.world.fold(&[dispatch.into(), start.into()]);
    let Ok(Reply::StartReleased(given)) = &outcomes[1] else { panic!("{outcomes:?}") };
    let [claimed] = given.as_slice() else { panic!("one was let go: {given:?}") };
    assert_eq!(claimed.leased.execution.id, life.id);
    assert_eq!(claimed.input.as_ref().map(|blob| &blob.bytes[..]), Some(&b"order 17"[..]));
    assert!(matches!(life.x().state, State::Active(_)));
    assert!(
        set.ready.insert.is_empty() && set.ready.remove.is_empty(),
        "it never stood in a queue"
    );
}

#[test]
fn only_what_the_batch_lets_go_is_started() {
    let mut life = racing();
    let flow = flow_beside(life.id);
    let nothing = life.tell(StartReleased { ask: ask() });
    assert_eq!(nothing, [], "it waits, and the others stand in a queue");
    succeed(&mut life, 0);
    life.tell(DispatchCompletion { flow, execution: others(flow)[0], eager: false });
    assert_eq!(life.tell(StartReleased { ask: ask() }), [], "it stands in a queue");
}

#[test]
fn what_is_held_delayed_or_of_another_lane_is_not_started() {
    let later = crate::world::DAWN.plus(1_000);
    let delayed = Create { delay_until: Some(later), ..create(1) };
    let elsewhere = Create { lane: LaneId::new("elsewhere").unwrap(), ..create(1) };
    for (creation, held) in [(delayed, false), (elsewhere, false), (create(1), true)] {
        let mut life = member(Life::begin(creation));
        link(&mut life, 0);
        if held {
            life.tell(crate::commands::hold(life.id));
        }
        succeed(&mut life, 0);
        let flow = flow_beside(life.id);
        let dispatch = DispatchCompletion { flow, execution: others(flow)[0], eager: false };
        let start = StartReleased { ask: ask() };
        let (outcomes, _) = life.world.fold(&[dispatch.into(), start.into()]);
        assert_eq!(outcomes[1], Ok(Reply::StartReleased(Vec::new())));
    }
}
