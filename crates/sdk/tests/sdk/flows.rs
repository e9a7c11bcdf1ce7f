//! Flows that are submitted as a whole: drawn, run, read and cancelled.

use std::collections::BTreeMap;
use std::time::Duration;

use ff_core::flow::{CancellationPolicy, DependencyKind, FlowWord, PublicFlowState};
use ff_core::state::PublicState;
use ff_core::{Code, FlowId};
use ff_sdk::{Client, Context, Error, FlowHandle, Result, Running, node};
use ff_wire::flow::{EdgeParams, FlowSearchParams, MemberParams};
use uuid::Uuid;

use crate::{HOUR, open, worker};

/// Doubles a number.
async fn double(_: Context, n: u32) -> Result<u32> {
    Ok(n * 2)
}

/// Adds up the named inputs `a` and `b`, one of which may be missing.
async fn add(ctx: Context, (): ()) -> Result<u32> {
    let a: u32 = ctx.input("a").await?;
    let b: Option<u32> = ctx.input("b").await?;
    Ok(a + b.unwrap_or(100))
}

async fn fail(_: Context, _: Option<u32>) -> Result<u32> {
    Err(Error::permanent("no").into())
}

async fn never(ctx: Context, _: u32) -> Result<()> {
    ctx.cancelled().cancelled().await;
    Ok(())
}

fn start(client: &Client) -> Running {
    let worker = worker(client).handle("double", double).handle("add", add);
    worker.handle("fail", fail).handle("never", never).start().unwrap()
}

async fn states(flow: &FlowHandle) -> BTreeMap<String, PublicState> {
    let page = flow.members(MemberParams::default()).await.unwrap();
    let state = |x: ff_wire::ExecutionSnapshot| (x.node.unwrap(), x.public_state);
    page.members.into_iter().map(state).collect()
}

#[tokio::test(start_paused = true)]
async fn results_travel_along_the_edges() {
    let (_, client) = open();
    let running = start(&client);
    let flow = client
        .flow("sums")
        .node(node("sum", "add", ()).reads("four", "b").reads("two", "a"))
        .node(node("two", "double", 1))
        .node(node("four", "double", 0).takes("two"))
        .node(node("twelve", "double", 0).takes("sum"))
        .await
        .unwrap();
    assert_eq!(flow.result::<u32>("twelve").await.unwrap(), 12);
    assert_eq!(flow.result::<u32>("sum").await.unwrap(), 6);
    assert_eq!(flow.ended().await.unwrap(), FlowWord::Completed);
    let summary = flow.summary().await.unwrap();
    assert_eq!((summary.total_members, summary.members_completed), (4, 4));
    assert_eq!(summary.public_flow_state, PublicFlowState::Completed);
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_graph_is_submitted_as_it_was_drawn() {
    let (_, client) = open();
    let id = FlowId(Uuid::now_v7());
    let flow = client
        .flow("drawn")
        .id(id)
        .namespace("studio")
        .tag("studio.film", "seven")
        .node(node("a", "double", 1).lane("slow").priority(7).retries(2).tag("studio.part", "a"))
        .node(node("b", "double", 1).delay(HOUR).deadline(2 * HOUR))
        .node(node("c", "add", ()).after("a").reads("a", "first").after_end("b").after_failure("x"))
        .node(node("x", "fail", 1).any_of().let_run().after("a").takes("b"))
        .await
        .unwrap();
    assert_eq!((flow.id(), flow.is_duplicate()), (id, false));
    let drawn = flow.describe().await.unwrap();
    assert_eq!((drawn.flow.flow_kind.as_str(), drawn.flow.namespace.as_str()), ("drawn", "studio"));
    assert_eq!((drawn.flow.node_count, drawn.flow.edge_count, drawn.flow.sealed), (4, 5, true));
    assert_eq!(drawn.flow.tags["studio.film"], "seven");
    let a = flow.node("a").unwrap().describe().await.unwrap();
    assert_eq!((a.lane_id.as_str(), a.priority, a.namespace.as_str()), ("slow", 7, "studio"));
    assert_eq!(flow.node("b").unwrap().wait(Duration::ZERO).await.unwrap(), PublicState::Delayed);
    let edges = flow.edges(EdgeParams::default()).await.unwrap().edges;
    let found = |from: &str, to: &str| {
        let (from, to) = (flow.node(from).unwrap().id(), flow.node(to).unwrap().id());
        let between = |e: &&ff_wire::flow::EdgeSnapshot| {
            (e.upstream_execution_id, e.downstream_execution_id) == (from, to)
        };
        let edge = edges.iter().find(between).unwrap();
        (edge.dependency_kind, edge.name.clone(), edge.data_passing_ref.is_some())
    };
    let first = Some("first".to_owned());
    assert_eq!(found("a", "c"), (DependencyKind::SuccessOnly, first, false));
    assert_eq!(found("b", "c"), (DependencyKind::AnyTerminal, None, false));
    assert_eq!(found("x", "c"), (DependencyKind::FailureOnly, None, false));
    assert_eq!(found("b", "x"), (DependencyKind::SuccessOnly, None, true));
    let join = |name: &str| {
        let id = flow.node(name).unwrap().id();
        let group = drawn.edge_groups.iter().find(|g| g.downstream_execution_id == id).unwrap();
        (serde_json::to_value(group.policy).unwrap(), group.total_deps)
    };
    let any = serde_json::json!({"kind": "any_of", "on_satisfied": "let_run"});
    assert_eq!(join("x"), (any, 2));
    assert_eq!(join("c"), (serde_json::json!({"kind": "all_of"}), 3));
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_drawn_is_told_before_anything_is_done() {
    let (_, client) = open();
    let flow = || client.flow("bad");
    let one = || node("a", "double", 1);
    for (draft, code) in [
        (flow(), Code::InvalidInput),
        (client.flow("").node(one()), Code::InvalidInput),
        (flow().node(one().lane("")), Code::InvalidInput),
        (flow().node(one()).node(one()), Code::InvalidInput),
        (flow().node(one().after("b")), Code::UnknownNode),
        (flow().node(one().after("a")), Code::SelfReferencingEdge),
        (flow().node(one().after("b")).node(node("b", "x", ()).after("a")), Code::CycleDetected),
        (flow().node(one()).node(node("b", "x", ()).after("a").quorum(2)), Code::QuorumTooLarge),
        (flow().node(one()).node(node("b", "x", ()).after("a").let_run()), Code::InvalidInput),
        (
            flow().node(one()).node(node("b", "x", ()).after("a").run_if_impossible()),
            Code::InvalidInput,
        ),
        (
            flow().node(one()).node(node("b", "x", ()).reads("a", "x").reads("a", "y")),
            Code::InvalidInput,
        ),
    ] {
        let refused = draft.await.unwrap_err();
        assert!(refused.is(code) && !refused.retryable(), "{refused:?}");
    }
    assert_eq!(client.flows(FlowSearchParams::default()).await.unwrap().flows, []);
    let nobody = client.flow_by_id(FlowId(Uuid::now_v7()));
    assert!(nobody.describe().await.unwrap_err().is(Code::FlowNotFound));
    assert!(nobody.wait(HOUR).await.unwrap_err().is(Code::FlowNotFound));
    assert!(nobody.node("").is_err());
}

#[tokio::test(start_paused = true)]
async fn a_key_makes_one_flow_of_two() {
    let (_, client) = open();
    let running = start(&client);
    let draft = |n| client.flow("once").idempotency_key("k").node(node("a", "double", n));
    let first = draft(1).await.unwrap();
    let again = draft(1).await.unwrap();
    assert_eq!((first.id(), again.is_duplicate()), (again.id(), true));
    assert_eq!(again.result::<u32>("a").await.unwrap(), 2);
    assert!(draft(2).await.unwrap_err().is(Code::IdempotencyKeyConflict));
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn failures_skip_what_rests_on_them_and_nothing_else() {
    let (_, client) = open();
    let running = start(&client);
    let flow = client
        .flow("mixed")
        .node(node("good", "double", 2))
        .node(node("bad", "fail", 1))
        .node(node("skipped", "double", 1).after("bad"))
        .node(node("skipped too", "double", 1).after("skipped"))
        .await;
    assert!(flow.unwrap_err().is(Code::InvalidInput), "names have no spaces");
    let flow = client
        .flow("mixed")
        .node(node("good", "double", 2))
        .node(node("bad", "fail", 1))
        .node(node("skipped", "double", 1).after("bad"))
        .node(node("also", "double", 1).after("skipped"))
        .node(node("repair", "double", 1).after_failure("bad"))
        .node(node("needless", "double", 1).after_failure("good"))
        .node(node("sum", "add", ()).reads("good", "a").reads("bad", "b").after_end("bad"))
        .await
        .unwrap();
    assert_eq!(flow.ended().await.unwrap(), FlowWord::Failed);
    let states = states(&flow).await;
    let of = |name: &str| states[name];
    assert_eq!((of("skipped"), of("also")), (PublicState::Skipped, PublicState::Skipped));
    assert_eq!((of("repair"), of("needless")), (PublicState::Completed, PublicState::Skipped));
    assert_eq!(flow.result::<u32>("sum").await.unwrap(), 104, "what failed gave nothing");
    let error = flow.result::<u32>("skipped").await.unwrap_err();
    assert!(error.to_string().contains("skipped"), "{error}");
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn enough_is_enough() {
    let (_, client) = open();
    let running = start(&client);
    let flow = client
        .flow("quorum")
        .node(node("one", "double", 1))
        .node(node("two", "double", 2))
        .node(node("slow", "never", 1))
        .node(node("go", "double", 5).after("one").after("two").after("slow").quorum(2))
        .await
        .unwrap();
    assert_eq!(flow.result::<u32>("go").await.unwrap(), 10);
    assert_eq!(flow.ended().await.unwrap(), FlowWord::Completed, "nobody misses what is slow");
    assert_eq!(states(&flow).await["slow"], PublicState::Cancelled);
    let flow = client
        .flow("any")
        .node(node("one", "double", 1))
        .node(node("late", "double", 2).delay(HOUR))
        .node(node("go", "double", 5).after("one").after("late").any_of().let_run())
        .await
        .unwrap();
    assert_eq!(flow.result::<u32>("go").await.unwrap(), 10);
    assert_eq!(flow.wait(Duration::ZERO).await.unwrap(), FlowWord::Open);
    assert_eq!(flow.result::<u32>("late").await.unwrap(), 4, "it was let run");
    assert_eq!(flow.ended().await.unwrap(), FlowWord::Completed);
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_input_that_is_not_there_is_told_by_name() {
    async fn asks(ctx: Context, (): ()) -> Result<()> {
        let error = ctx.input::<u32>("nobody").await.unwrap_err();
        assert!(error.to_string().contains("there are: a, b"), "{error}");
        let error = ctx.input::<Option<u32>>("nobody").await.unwrap_err();
        assert!(error.to_string().contains("there is no input \"nobody\""), "{error}");
        let error = ctx.input::<u32>("b").await.unwrap_err();
        assert!(error.to_string().contains("left no result"), "{error}");
        ctx.input::<String>("a").await?;
        Ok(())
    }
    let (_, client) = open();
    let running = start(&client);
    let asking = client.worker("asking").handle("asks", asks).start().unwrap();
    let flow = client
        .flow("asked")
        .node(node("n", "double", 1))
        .node(node("f", "fail", 1))
        .node(
            node("q", "asks", ())
                .lane("asking")
                .retries(9)
                .reads("n", "a")
                .reads("f", "b")
                .after_end("f"),
        )
        .await
        .unwrap();
    let error = flow.result::<()>("q").await.unwrap_err().to_string();
    assert!(error.contains("\"a\" does not fit"), "{error}");
    let q = flow.node("q").unwrap().describe().await.unwrap();
    assert_eq!((q.failure.unwrap().category.as_str(), q.counts.attempts), ("input", 1));
    asking.stop().await.unwrap();
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn who_lost_gave_nothing() {
    async fn asks(ctx: Context, (): ()) -> Result<(u32, Option<u32>)> {
        let error = ctx.input::<u32>("slow").await.unwrap_err();
        assert!(error.to_string().contains("its edge is unsatisfied"), "{error}");
        Ok((ctx.input("fast").await?, ctx.input("slow").await?))
    }
    let (_, client) = open();
    let running = start(&client);
    let asking = client.worker("asking").handle("asks", asks).start().unwrap();
    let join = node("end", "asks", ()).lane("asking").reads("one", "fast").reads("two", "slow");
    let flow = client
        .flow("any")
        .node(node("one", "double", 1))
        .node(node("two", "double", 2).delay(HOUR))
        .node(join.any_of().let_run())
        .await
        .unwrap();
    assert_eq!(flow.result::<(u32, Option<u32>)>("end").await.unwrap(), (2, None));
    asking.stop().await.unwrap();
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_open_flow_ends_when_it_is_sealed() {
    let (_, client) = open();
    let running = start(&client);
    let flow = client.flow("open").open().node(node("a", "double", 1)).await.unwrap();
    assert_eq!(flow.result::<u32>("a").await.unwrap(), 2);
    assert_eq!(flow.wait(HOUR).await.unwrap(), FlowWord::Open);
    assert_eq!(flow.seal().await.unwrap(), FlowWord::Completed);
    assert_eq!(flow.ended().await.unwrap(), FlowWord::Completed);
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_open_flow_is_added_to_until_it_is_sealed() {
    let (_, client) = open();
    let running = start(&client);
    let flow = client.flow("open").namespace("studio").open().node(node("a", "double", 1));
    let flow = flow.await.unwrap();
    let more = || flow.extend().node(node("sum", "add", ()).reads("a", "a").reads("b", "b"));
    let refused = more().await.unwrap_err();
    assert!(refused.is(Code::UnknownNode), "{refused}");
    let more = || more().node(node("b", "double", 2)).seal();
    more().await.unwrap();
    assert_eq!(flow.result::<u32>("sum").await.unwrap(), 6);
    assert_eq!(flow.ended().await.unwrap(), FlowWord::Completed);
    more().await.unwrap();
    let refused = flow.extend().node(node("c", "double", 1)).await.unwrap_err();
    assert!(refused.is(Code::FlowAlreadyTerminal), "{refused}");
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_join_that_can_never_be_runs_if_it_was_asked_to() {
    async fn asks(ctx: Context, (): ()) -> Result<Option<u32>> {
        Ok(ctx.input("first").await?)
    }
    let (_, client) = open();
    let running = start(&client);
    let asking = client.worker("asking").handle("asks", asks).start().unwrap();
    let flow = client
        .flow("alternatives")
        .node(node("one", "fail", 1))
        .node(node("two", "fail", 1))
        .node(
            node("end", "asks", ())
                .lane("asking")
                .any_of()
                .run_if_impossible()
                .reads("one", "first")
                .after("two"),
        )
        .await
        .unwrap();
    assert_eq!(flow.result::<Option<u32>>("end").await.unwrap(), None);
    asking.stop().await.unwrap();
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_flow_is_cancelled_with_all_with_what_waits_or_alone() {
    let (_, client) = open();
    let running = start(&client);
    let draft = || {
        let flow = client.flow("endless").node(node("runs", "never", 1));
        flow.node(node("waits", "double", 1).after("runs"))
    };
    for policy in CancellationPolicy::ALL {
        let flow = draft().await.unwrap();
        let runs = flow.node("runs").unwrap();
        assert_eq!(runs.wait(Duration::from_secs(1)).await.unwrap(), PublicState::Active);
        let cancel = |reason: &str| match policy {
            CancellationPolicy::All => flow.cancel(reason),
            CancellationPolicy::Pending => flow.cancel(reason).pending(),
            CancellationPolicy::FlowOnly => flow.cancel(reason).flow_only(),
        };
        let done = cancel("enough").wait(HOUR).await.unwrap();
        assert_eq!((done.cancellation_policy, done.repeated), (*policy, false));
        let members = match policy {
            CancellationPolicy::All => 2,
            CancellationPolicy::Pending => 1,
            CancellationPolicy::FlowOnly => 0,
        };
        assert_eq!((done.member_count, done.is_going_on()), (members, false));
        let again = cancel("again").await.unwrap();
        assert_eq!((again.cancellation_policy, again.reason.as_str()), (*policy, "enough"));
        assert!(again.repeated);
        assert_eq!(flow.ended().await.unwrap(), FlowWord::Cancelled);
        let states = states(&flow).await;
        let or = |cancelled, kept| if cancelled { PublicState::Cancelled } else { kept };
        assert_eq!(states["waits"], or(members > 0, PublicState::WaitingChildren));
        assert_eq!(states["runs"], or(members > 1, PublicState::Active));
        assert_eq!(flow.describe().await.unwrap().flow.cancel_reason.as_deref(), Some("enough"));
        if members < 2 {
            runs.cancel("enough").await.unwrap();
        }
    }
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn flows_are_found_again() {
    let (_, client) = open();
    let mut ids = Vec::new();
    for n in 0..3 {
        let flow = client.flow("found").node(node("a", "double", n)).await.unwrap();
        flow.set_tag("test.number", n.to_string()).await.unwrap();
        ids.push(flow.id());
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let all = |search| async { client.flows(search).await.unwrap() };
    let first = all(FlowSearchParams { limit: Some(2), ..FlowSearchParams::default() }).await;
    let rest = all(FlowSearchParams { after: first.next, ..FlowSearchParams::default() }).await;
    let found: Vec<_> = first.flows.iter().chain(&rest.flows).map(|flow| flow.flow_id).collect();
    ids.reverse();
    assert_eq!(found, ids, "newest first");
    let tag = Some("test.number:1".to_owned());
    let tagged = all(FlowSearchParams { tag, ..FlowSearchParams::default() }).await;
    assert_eq!(tagged.flows.iter().map(|flow| flow.flow_id).collect::<Vec<_>>(), [ids[1]]);
    let flow = client.flow_by_id(ids[0]);
    let page = flow.members(MemberParams { limit: Some(1), ..MemberParams::default() }).await;
    assert_eq!(page.unwrap().members[0].node.as_deref(), Some("a"));
}
