//! Retention of flows: all of one goes together, when the time of the last of it is up.

use std::sync::Arc;

use ff_core::backend::{Duty, WorkFilter};
use ff_core::command::{Command, Reply};
use ff_core::decide::cancel_flow::CancelFlow;
use ff_core::decide::consumer::SaveCursor;
use ff_core::decide::create::Create;
use ff_core::decide::create_flow::FlowCreated;
use ff_core::decide::drop_consumer::DropConsumer;
use ff_core::decide::retention::Trim;
use ff_core::decide::trim_flow::{FlowTrimmed, TrimFlow};
use ff_core::event::{Cursor, Event, Filter};
use ff_core::flow::{CancellationPolicy, FlowWord};
use ff_core::limits::TRIM_CHUNK_MAX;
use ff_core::state::PublicState;
use ff_core::text::ConsumerName;
use ff_core::{ExecutionId, FlowId, Policy};
use serde_json::{Value, json};

use super::calls::tags;
use crate::world::{Drawn, World, any_of, namespace};

const DAY: i64 = 86_400_000;
const NOTHING: FlowTrimmed = FlowTrimmed { members: 0, flow: false };

fn trimmed(members: u32) -> Reply {
    Reply::TrimFlow(FlowTrimmed { members, flow: true })
}

/// A flow `a>b`, all of it succeeded, and done.
async fn done(w: &World, policy: &Value) -> Drawn {
    let drawn = w.sketch("a>b").policy(policy).submit().await;
    for id in drawn.ids(["a", "b"]) {
        w.succeed(id).await;
        w.dispatch().await;
    }
    assert_eq!(w.flow_state(drawn.flow).await, FlowWord::Completed);
    drawn
}

async fn is_gone(w: &World, drawn: Drawn, nodes: &[&str]) {
    assert_eq!(w.find_flow(drawn.flow).await, None);
    for node in nodes {
        assert_eq!(w.find(drawn.id(node)).await, None);
        assert!(w.events(drawn.id(node)).await.is_empty());
    }
    assert!(w.flow_events(drawn.flow).await.is_empty());
}

/// After its time nothing of a flow is left.
pub async fn a_finished_flow_goes_with_all_of_it(w: Arc<World>) {
    let drawn = w.sketch("a>z b>z").join("z", any_of()).passing("a", "z").submit().await;
    w.succeed(drawn.id("a")).await;
    w.dispatch().await;
    w.tick(Duty::EdgeCancelDispatcher).await;
    w.succeed(drawn.id("z")).await;
    w.dispatch().await;
    w.pass(DAY - 1);
    assert!(w.tick(Duty::Retention).await.is_empty());
    assert_eq!(w.run(TrimFlow { flow: drawn.flow }).await, Ok(NOTHING), "it is too early");
    w.pass(1);
    assert_eq!(w.tick(Duty::Retention).await, [Ok(trimmed(3))]);
    is_gone(&w, drawn, &["a", "b", "z"]).await;
    let tables = (w.store.dump)();
    assert!(tables.executions.is_empty() && tables.blobs.is_empty() && tables.events.is_empty());
    assert!(tables.flows.is_empty() && tables.groups.is_empty() && tables.edges.is_empty());
    assert!(tables.dispatch.is_empty() && tables.cancels.is_empty() && tables.timers.is_empty());
}

/// Nothing goes before everything in the flow has ended, however old it is.
pub async fn nothing_goes_before_the_last_member_ended(w: Arc<World>) {
    let drawn = w.sketch("a>b c").submit().await;
    w.succeed(drawn.id("a")).await;
    w.succeed(drawn.id("c")).await;
    w.dispatch().await;
    w.pass(10 * DAY);
    assert!(w.tick(Duty::Retention).await.is_empty());
    assert_eq!(w.run(Trim { id: drawn.id("a") }).await, Ok(false), "it goes with its flow");
    w.succeed(drawn.id("b")).await;
    assert!(w.tick(Duty::Retention).await.is_empty(), "its end is not counted");
    w.dispatch().await;
    assert!(w.tick(Duty::Retention).await.is_empty());
    w.pass(DAY);
    assert_eq!(w.tick(Duty::Retention).await, [Ok(trimmed(3))]);
}

/// A flow to which more may come stays.
pub async fn an_open_flow_stays(w: Arc<World>) {
    let drawn = w.sketch("a").open().submit().await;
    w.succeed(drawn.id("a")).await;
    w.dispatch().await;
    w.pass(10 * DAY);
    assert!(w.tick(Duty::Retention).await.is_empty());
    assert_eq!(w.run(TrimFlow { flow: drawn.flow }).await, Ok(NOTHING));
    assert_eq!(w.state(drawn.id("a")).await, PublicState::Completed);
}

/// Of all times that members are kept, the longest counts for all of them.
pub async fn the_longest_retention_decides(w: Arc<World>) {
    let keep = |ms: i64| Policy::parse(&json!({"retention_ms": ms})).expect("a valid policy");
    let sketch = w.sketch("a>b>c").node("a", |create| create.policy = keep(0));
    let sketch = sketch.node("b", |create| create.policy = keep(3 * DAY));
    let drawn = sketch.node("c", |create| create.policy = keep(0)).submit().await;
    w.succeed(drawn.id("a")).await;
    w.dispatch().await;
    w.succeed(drawn.id("b")).await;
    w.dispatch().await;
    w.pass(DAY);
    w.succeed(drawn.id("c")).await;
    w.dispatch().await;
    w.pass(2 * DAY - 1);
    assert!(w.tick(Duty::Retention).await.is_empty());
    w.pass(1);
    assert_eq!(w.tick(Duty::Retention).await, [Ok(trimmed(3))]);
}

/// A flow whose members are not to be kept goes as soon as it ends.
pub async fn a_flow_may_go_at_once(w: Arc<World>) {
    let drawn = done(&w, &json!({"retention_ms": 0})).await;
    assert_eq!(w.tick(Duty::Retention).await, [Ok(trimmed(2))]);
    is_gone(&w, drawn, &["a", "b"]).await;
}

/// A cancelled flow goes like any other, with those that ended before and those that it ended.
pub async fn a_cancelled_flow_goes_with_its_members(w: Arc<World>) {
    for policy in [CancellationPolicy::All, CancellationPolicy::Pending] {
        let drawn = w.sketch("a>b c d").submit().await;
        w.succeed(drawn.id("a")).await;
        w.dispatch().await;
        w.fail_for_good(drawn.id("c")).await;
        w.cancel_flow(drawn.flow, policy).await.expect("it is open");
        w.dispatch().await;
        w.pass(DAY);
        assert_eq!(w.tick(Duty::Retention).await, [Ok(trimmed(4))], "{policy}");
        is_gone(&w, drawn, &["a", "b", "c", "d"]).await;
    }
}

/// A flow that was cancelled alone stays until its members have ended.
pub async fn a_flow_cancelled_alone_waits_for_its_members(w: Arc<World>) {
    let drawn = w.sketch("a").submit().await;
    w.cancel_flow(drawn.flow, CancellationPolicy::FlowOnly).await.expect("it is open");
    w.pass(10 * DAY);
    assert!(w.tick(Duty::Retention).await.is_empty());
    w.succeed(drawn.id("a")).await;
    w.dispatch().await;
    w.pass(DAY);
    assert_eq!(w.tick(Duty::Retention).await, [Ok(trimmed(1))]);
}

/// A large flow goes in bounded pieces, itself with the last.
pub async fn a_large_flow_goes_in_pieces(w: Arc<World>) {
    let total = TRIM_CHUNK_MAX + 300;
    let names = (0..total).map(|n| format!("n{n}")).collect::<Vec<_>>().join(" ");
    let drawn = w.sketch(&names).policy(&json!({"retention_ms": 0})).submit().await;
    w.cancel_flow(drawn.flow, CancellationPolicy::All).await.expect("it is open");
    let commands = w.due(Duty::Retention, 10).await.commands;
    assert_eq!(commands, [Command::from(TrimFlow { flow: drawn.flow })]);
    let piece = u32::try_from(TRIM_CHUNK_MAX).expect("a small count");
    for (members, flow) in [(piece, false), (300, true), (0, false)] {
        let outcomes = w.batch(commands.clone()).await;
        assert_eq!(outcomes, [Ok(Reply::TrimFlow(FlowTrimmed { members, flow }))]);
        assert_eq!(w.find_flow(drawn.flow).await.is_some(), members == piece);
    }
    assert!((w.store.dump)().executions.is_empty());
}

/// The id of a flow that is gone may be used again.
pub async fn the_id_of_a_trimmed_flow_is_free(w: Arc<World>) {
    let submission = w.sketch("a>b").policy(&json!({"retention_ms": 0})).submission();
    let drawn = Drawn { flow: submission.flow.id };
    let created = Ok(FlowCreated::Created { flow_id: drawn.flow });
    for _ in 0..2 {
        assert_eq!(w.run(submission.clone()).await, created);
        w.cancel_flow(drawn.flow, CancellationPolicy::All).await.expect("it is open");
        assert_eq!(w.tick(Duty::Retention).await, [Ok(trimmed(2))]);
    }
}

/// A flow may go and come back in one batch.
pub async fn a_flow_may_be_trimmed_and_submitted_in_one_batch(w: Arc<World>) {
    let submission = w.sketch("a>b").policy(&json!({"retention_ms": 0})).submission();
    let drawn = Drawn { flow: submission.flow.id };
    w.run(submission.clone()).await.expect("it is valid");
    w.cancel_flow(drawn.flow, CancellationPolicy::All).await.expect("it is open");
    let trim = TrimFlow { flow: drawn.flow };
    let outcomes = w.batch(vec![trim.into(), submission.into()]).await;
    assert_eq!(outcomes[0], Ok(trimmed(2)));
    assert!(outcomes[1].is_ok(), "{outcomes:?}");
    let flow = w.flow(drawn.flow).await;
    assert_eq!((flow.version, flow.nodes, flow.state.word()), (1, 2, FlowWord::Open));
    assert!(w.flow_events(drawn.flow).await.is_empty());
    w.succeed(drawn.id("a")).await;
    w.dispatch().await;
    assert_eq!(w.state(drawn.id("b")).await, PublicState::Waiting);
}

/// A flow that was submitted in the same batch keeps its members: nobody has looked for them yet.
pub async fn a_flow_does_not_go_in_the_batch_that_brings_it(w: Arc<World>) {
    let submission = w.sketch("a>b").policy(&json!({"retention_ms": 0})).submission();
    let (drawn, policy) = (Drawn { flow: submission.flow.id }, CancellationPolicy::All);
    let cancel = CancelFlow { flow: drawn.flow, policy, reason: "enough".to_owned() };
    let trim = TrimFlow { flow: drawn.flow };
    let outcomes = w.batch(vec![submission.into(), cancel.into(), trim.into()]).await;
    assert_eq!(outcomes[2], Ok(Reply::TrimFlow(NOTHING)), "{outcomes:?}");
    assert_eq!(w.state(drawn.id("a")).await, PublicState::Cancelled);
    assert_eq!(w.tick(Duty::Retention).await, [Ok(trimmed(2))]);
    is_gone(&w, drawn, &["a", "b"]).await;
}

/// What a batch changes in a flow that then goes leaves no trace.
pub async fn changes_before_a_trim_leave_no_trace(w: Arc<World>) {
    let sketch = w.sketch("a>z b>z").join("z", any_of()).policy(&json!({"retention_ms": 0}));
    let drawn = sketch.submit().await;
    let (flow, z) = (drawn.flow, drawn.id("z"));
    w.succeed(drawn.id("a")).await;
    w.dispatch().await;
    w.cancel_flow(flow, CancellationPolicy::All).await.expect("it is open");
    let edit = ff_core::decide::tags::Edit { set: tags(&[("app.a", "1")]), ..Default::default() };
    let batch = vec![
        ff_core::decide::sibling_cancel::CancelSiblings { flow, downstream: z }.into(),
        ff_core::decide::flow_tags::SetFlowTags { flow, edit }.into(),
        TrimFlow { flow }.into(),
    ];
    let outcomes = w.batch(batch).await;
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    let tables = (w.store.dump)();
    assert!(tables.flows.is_empty() && tables.groups.is_empty() && tables.cancels.is_empty());
}

/// A flow and an execution with the same UUID, both with something that happened to them.
async fn namesakes(w: &World, policies: [Value; 2]) -> (FlowId, ExecutionId) {
    let [of_flow, of_execution] = policies;
    let submission = w.sketch("a").policy(&of_flow).submission();
    let drawn = Drawn { flow: submission.flow.id };
    w.run(submission).await.expect("it is new");
    w.succeed(drawn.id("a")).await;
    w.dispatch().await;
    let id = ExecutionId::for_flow(drawn.flow, drawn.flow.0);
    let policy = Policy::parse(&of_execution).expect("the policy is valid");
    assert_eq!(w.create(Create { id, policy, ..w.draft() }).await, id);
    w.cancel(id).await.expect("it waits");
    assert_eq!(happened(w, drawn.flow, id).await, (1, 1));
    (drawn.flow, id)
}

/// How many events are of the flow itself, and of the execution.
async fn happened(w: &World, flow: FlowId, id: ExecutionId) -> (usize, usize) {
    let events = w.feed(&Cursor::Start, &Filter::default(), 100).await.events;
    let count = |of: &dyn Fn(&Event) -> bool| events.iter().filter(|e| of(&e.event)).count();
    let own = |event: &Event| event.execution.is_none() && event.flow == Some(flow);
    (count(&own), count(&|event| event.execution == Some(id)))
}

/// What happened to an execution stays when a flow with its UUID goes.
pub async fn a_flow_goes_without_the_events_of_its_namesake(w: Arc<World>) {
    let (flow, id) = namesakes(&w, [json!({"retention_ms": 0}), json!({})]).await;
    w.tick(Duty::Retention).await;
    assert_eq!(w.find_flow(flow).await, None);
    assert_eq!(happened(&w, flow, id).await, (0, 1));
}

/// What happened to a flow stays when an execution with its UUID goes.
pub async fn an_execution_goes_without_the_events_of_its_namesake(w: Arc<World>) {
    let (flow, id) = namesakes(&w, [json!({}), json!({"retention_ms": 0})]).await;
    w.tick(Duty::Retention).await;
    assert_eq!(w.find(id).await, None);
    assert_eq!(happened(&w, flow, id).await, (1, 0));
}

/// Reads the feed durably up to the event that `last` picks.
async fn read_up_to(w: &World, last: impl Fn(&Event) -> bool) {
    let events = w.feed(&Cursor::Start, &Filter::default(), 100).await.events;
    let last = events.iter().find(|event| last(&event.event)).expect("it happened");
    let save = SaveCursor { consumer: consumer(), cursor: last.cursor.clone(), saved: None };
    w.run(save).await.expect("valid");
}

/// What a consumer has yet to read of an execution does not hold a flow with its UUID.
pub async fn a_flow_goes_before_the_events_of_its_namesake_are_read(w: Arc<World>) {
    let kept = json!({"retention_ms": 0});
    let (flow, id) = namesakes(&w, [kept.clone(), kept]).await;
    read_up_to(&w, |event| event.kind.of_flow()).await;
    w.tick(Duty::Retention).await;
    assert_eq!(w.find_flow(flow).await, None);
    assert!(w.find(id).await.is_some(), "it was not read");
    assert_eq!(w.run(Trim { id }).await, Ok(false));
}

/// What a consumer has yet to read of a flow does not hold an execution with its UUID, in whatever way it
/// ended.
pub async fn an_execution_goes_before_the_events_of_its_namesake_are_read(w: Arc<World>) {
    let kept = json!({"retention_ms": 0});
    for completes in [false, true] {
        let submission = w.sketch("a").policy(&kept).submission();
        let flow = submission.flow.id;
        let id = ExecutionId::for_flow(flow, flow.0);
        let policy = Policy::parse(&kept).expect("the policy is valid");
        assert_eq!(w.create(Create { id, policy, ..w.draft() }).await, id);
        if completes {
            w.succeed(id).await;
        } else {
            w.cancel(id).await.expect("it waits");
        }
        w.run(submission).await.expect("it is new");
        w.succeed(Drawn { flow }.id("a")).await;
        w.dispatch().await;
        read_up_to(&w, |event| event.execution == Some(id)).await;
        w.tick(Duty::Retention).await;
        assert_eq!(w.find(id).await, None);
        assert!(w.find_flow(flow).await.is_some(), "it was not read");
        assert_eq!(w.run(TrimFlow { flow }).await, Ok(NOTHING));
    }
}

/// The history of an execution is its own, also where a flow has its UUID; and so is that of the flow.
pub async fn namesakes_have_histories_of_their_own(w: Arc<World>) {
    let (flow, id) = namesakes(&w, [json!({}), json!({})]).await;
    assert_eq!(w.event_names(id).await, ["completion"]);
    assert_eq!(w.flow_event_names(flow).await, ["flow_ended"]);
    let both = Filter { execution: Some(id), flow: Some(flow), ..Filter::default() };
    assert!(w.feed(&Cursor::Start, &both, 10).await.events.is_empty(), "it is no member");
}

fn consumer() -> ConsumerName {
    "slow".parse().expect("a valid name")
}

/// Whoever reads durably has seen everything of a flow before it goes.
pub async fn a_durable_consumer_holds_a_flow(w: Arc<World>) {
    w.run(SaveCursor { consumer: consumer(), cursor: Cursor::Start, saved: None })
        .await
        .expect("valid");
    let drawn = done(&w, &json!({"retention_ms": 0})).await;
    assert!(w.tick(Duty::Retention).await.is_empty());
    assert_eq!(w.run(TrimFlow { flow: drawn.flow }).await, Ok(NOTHING));
    let cursor = w.store.backend.tail().await.expect("the store works");
    w.run(SaveCursor { consumer: consumer(), cursor, saved: None }).await.expect("valid");
    assert_eq!(w.tick(Duty::Retention).await, [Ok(trimmed(2))]);
}

/// What was seen of a flow may go before the rest; the flow itself goes last.
pub async fn a_flow_goes_as_far_as_it_was_seen(w: Arc<World>) {
    let drawn = done(&w, &json!({"retention_ms": 0})).await;
    let filter = ff_core::event::Filter { flow: Some(drawn.flow), ..Default::default() };
    let page = w.feed(&Cursor::Start, &filter, 1).await;
    assert_eq!(page.events[0].event.subject(), drawn.id("a"));
    let cursor = page.events[0].cursor.clone();
    w.run(SaveCursor { consumer: consumer(), cursor, saved: None }).await.expect("valid");
    assert!(w.due(Duty::Retention, 10).await.commands.is_empty());
    let outcomes = w.batch(vec![TrimFlow { flow: drawn.flow }.into()]).await;
    let partly = FlowTrimmed { members: 1, flow: false };
    assert_eq!(outcomes, [Ok(Reply::TrimFlow(partly))]);
    assert_eq!(w.find(drawn.id("a")).await, None);
    assert_eq!(w.event_names(drawn.id("b")).await, ["completion"]);
    w.run(DropConsumer { consumer: consumer(), saved: None }).await.expect("it is there");
    assert_eq!(w.tick(Duty::Retention).await, [Ok(trimmed(1))]);
}

/// A replayed member keeps its flow.
pub async fn a_replay_keeps_a_flow(w: Arc<World>) {
    let drawn = done(&w, &json!({})).await;
    w.pass(DAY - 1);
    w.replay(drawn.id("b")).await.expect("it has ended");
    w.pass(10 * DAY);
    assert!(w.tick(Duty::Retention).await.is_empty());
    w.succeed(drawn.id("b")).await;
    w.dispatch().await;
    w.pass(DAY);
    assert_eq!(w.tick(Duty::Retention).await, [Ok(trimmed(2))]);
}

/// Executions go before flows, each the oldest first, no more at a time than asked for.
pub async fn retention_takes_executions_and_flows_in_turn(w: Arc<World>) {
    let start = w.now();
    let first = done(&w, &json!({"retention_ms": 10})).await;
    let second = done(&w, &json!({"retention_ms": 30})).await;
    let solo = w.finished(json!({"retention_ms": 20})).await;
    assert_eq!(w.due(Duty::Retention, 10).await.next, Some(start.plus(10)));
    w.pass(10);
    let due = w.due(Duty::Retention, 10).await;
    assert_eq!(due.commands, [Command::from(TrimFlow { flow: first.flow })]);
    assert_eq!(due.next, Some(start.plus(20)));
    w.pass(10);
    assert_eq!(w.due(Duty::Retention, 10).await.next, Some(start.plus(30)));
    w.pass(10);
    let expected: [Command; 3] = [
        Trim { id: solo }.into(),
        TrimFlow { flow: first.flow }.into(),
        TrimFlow { flow: second.flow }.into(),
    ];
    for limit in 0..=3 {
        let due = w.due(Duty::Retention, limit).await;
        let count = usize::try_from(limit).expect("a small count");
        assert_eq!((&due.commands[..], due.next), (&expected[..count], None));
    }
}

/// A process that serves one tenant, or one tag, removes their flows only.
pub async fn retention_may_serve_some_flows(w: Arc<World>) {
    let theirs = w.sketch("a").policy(&json!({"retention_ms": 0})).with(|submission| {
        submission.flow.namespace = namespace("other");
        submission.graph.nodes[0].create.namespace = namespace("other");
    });
    let tagged = w.sketch("a").policy(&json!({"retention_ms": 0}));
    let tagged = tagged.with(|submission| submission.flow.tags = tags(&[("app.run", "1")]));
    let drawn = [theirs.submit().await, tagged.submit().await];
    for drawn in &drawn {
        w.cancel_flow(drawn.flow, CancellationPolicy::All).await.expect("it is open");
    }
    let due = async |filter: WorkFilter| {
        let due = w.store.backend.due(Duty::Retention, &filter, 10).await;
        due.expect("the store works").commands
    };
    let only = |flow: FlowId| vec![Command::from(TrimFlow { flow })];
    let namespace = Some(namespace("other"));
    let tag = Some(("app.run".to_owned(), "1".to_owned()));
    let by_namespace = WorkFilter { namespace: namespace.clone(), tag: None };
    assert_eq!(due(by_namespace).await, only(drawn[0].flow));
    let by_tag = WorkFilter { namespace: None, tag: tag.clone() };
    assert_eq!(due(by_tag).await, only(drawn[1].flow));
    assert!(due(WorkFilter { namespace, tag }).await.is_empty());
}

/// What is not there has nothing to remove.
pub async fn an_unknown_flow_is_not_trimmed(w: Arc<World>) {
    assert_eq!(w.run(TrimFlow { flow: w.flow_id() }).await, Ok(NOTHING));
}
