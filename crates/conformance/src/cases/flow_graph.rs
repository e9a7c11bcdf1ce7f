//! Making flows and adding members: once, for ever, and only where they fit.

use std::sync::Arc;

use ff_core::decide::add_member::{AddMember, Added};
use ff_core::decide::create::Create;
use ff_core::decide::create_flow::{CreateFlow, FlowCreated};
use ff_core::error::{Class, Code};
use ff_core::flow::{CancellationPolicy, Ended, FlowState, FlowWord};
use ff_core::state::{PublicState, TerminalOutcome};
use ff_core::text::Creator;
use ff_core::view::FlowSnapshot;
use ff_core::{ExecutionId, FlowId};

use super::calls::tags;
use crate::world::{World, code, kind, namespace};

/// Whatever became of it, the same creation finds the same flow.
pub async fn a_flow_is_created_once(w: Arc<World>) {
    let draft = w.flow_draft();
    let flow_id = draft.id;
    assert_eq!(w.run(draft.clone()).await, Ok(FlowCreated::Created { flow_id }));
    w.pass(5);
    let before = w.rows();
    assert_eq!(w.run(draft.clone()).await, Ok(FlowCreated::Duplicate { flow_id }));
    assert_eq!(w.rows(), before);
    w.cancel_flow(flow_id, CancellationPolicy::All).await.expect("it is open");
    assert_eq!(w.run(draft).await, Ok(FlowCreated::Duplicate { flow_id }));
}

/// What was said at creation reads back, and the rest begins at nothing.
pub async fn a_created_flow_reads_back(w: Arc<World>) {
    let draft = CreateFlow { tags: tags(&[("app.a", "1")]), ..w.flow_draft() };
    w.run(draft.clone()).await.expect("the creation is valid");
    let flow = w.flow(draft.id).await;
    assert_eq!((flow.version, flow.revision, flow.nodes, flow.edges), (1, 0, 0, 0));
    assert_eq!((flow.sealed, &flow.state, flow.ended), (false, &FlowState::Open, Ended::default()));
    assert_eq!((flow.spec.created_at, flow.updated_at), (w.now(), w.now()));
    let seen = FlowSnapshot::of(&flow, &[], false);
    assert_eq!((seen.flow_kind, seen.namespace), (kind("dag"), namespace("test")));
    assert_eq!((seen.state, seen.tags), (FlowWord::Open, draft.tags));
    assert_eq!((seen.ended_at, seen.cancelled_at, seen.cancellation_policy), (None, None, None));
    assert!(w.flow_events(draft.id).await.is_empty());
    assert_eq!(w.find_flow(w.flow_id()).await, None);
}

/// A flow with other content is another flow; the refusal names the first field that differs.
pub async fn the_same_flow_with_other_content_is_a_conflict(w: Arc<World>) {
    let draft = CreateFlow { tags: tags(&[("app.a", "1")]), ..w.flow_draft() };
    w.run(draft.clone()).await.expect("the creation is valid");
    let creator = Creator::new("somebody").expect("a valid creator");
    let others = [
        ("namespace", CreateFlow { namespace: namespace("other"), ..draft.clone() }),
        ("flow_kind", CreateFlow { kind: kind("pipeline"), ..draft.clone() }),
        ("creator_identity", CreateFlow { creator: creator.clone(), ..draft.clone() }),
        ("tags", CreateFlow { tags: tags(&[("app.a", "2")]), ..draft.clone() }),
        ("tags", CreateFlow { tags: tags(&[]), ..draft.clone() }),
        ("creator_identity", CreateFlow { creator, tags: tags(&[]), ..draft.clone() }),
    ];
    for (field, other) in others {
        let refused = w.refused(other).await;
        assert_eq!((refused.code, refused.field), (Code::FlowIdConflict, Some(field)));
        assert_eq!(refused.code.class(), Class::Conflict);
    }
    // What was said at creation counts, whatever became of its tags since.
    w.tag_flow(draft.id, tags(&[("app.a", "2")])).await.expect("it is open");
    assert_eq!(w.run(draft.clone()).await, Ok(FlowCreated::Duplicate { flow_id: draft.id }));
}

/// A flow that was made by hand cannot be submitted as a graph, nor the other way round.
pub async fn a_flow_made_by_hand_is_not_a_submitted_one(w: Arc<World>) {
    let flow = w.empty_flow().await;
    let refused = w.refused(w.more(flow, "a>b").submission()).await;
    assert_eq!((refused.code, refused.field), (Code::FlowIdConflict, Some("nodes")));
    let drawn = w.sketch("a>b").submit().await;
    let draft = CreateFlow { id: drawn.flow, ..w.flow_draft() };
    let refused = w.refused(draft.clone()).await;
    assert_eq!((refused.code, refused.field), (Code::FlowIdConflict, Some("nodes")));
    let other = CreateFlow { tags: tags(&[("app.a", "1")]), ..draft };
    assert_eq!(w.refused(other).await.field, Some("tags"));
}

/// One membership is one revision, however often it is asked for.
pub async fn a_member_is_added_once(w: Arc<World>) {
    let flow = w.empty_flow().await;
    let id = w.candidate(flow).await;
    w.pass(5);
    assert_eq!(w.add(flow, id).await, Ok(Added::Added { node_count: 1 }));
    let added = w.flow(flow).await;
    assert_eq!((added.revision, added.nodes, added.edges), (1, 1, 0));
    assert_eq!(added.updated_at, w.now());
    assert_eq!(w.get(id).await.flow(), Some(flow));
    assert_eq!(w.snapshot(id).await.flow_id, Some(flow));
    w.pass(5);
    let before = w.rows();
    assert_eq!(w.add(flow, id).await, Ok(Added::AlreadyMember { node_count: 1 }));
    assert_eq!(w.rows(), before);
    let second = w.candidate(flow).await;
    assert_eq!(w.add(flow, second).await, Ok(Added::Added { node_count: 2 }));
    assert_eq!(w.flow(flow).await.revision, 2);
}

/// Members added together are counted together.
pub async fn members_of_one_batch_are_all_counted(w: Arc<World>) {
    let flow = w.empty_flow().await;
    let ids = [w.candidate(flow).await, w.candidate(flow).await];
    let add = |execution| AddMember { flow, execution }.into();
    let outcomes = w.batch(vec![add(ids[0]), add(ids[1]), add(ids[0])]).await;
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    let flow = w.flow(flow).await;
    assert_eq!((flow.nodes, flow.revision), (2, 2));
}

/// A member without edges is claimable as before, and a running one runs on.
pub async fn adding_does_not_keep_a_member_from_work(w: Arc<World>) {
    let flow = w.empty_flow().await;
    let waits = w.member(flow).await;
    assert_eq!(w.state(waits).await, PublicState::Waiting);
    w.take(waits).await;
    let runs = w.candidate(flow).await;
    let fence = w.start(runs).await;
    assert_eq!(w.add(flow, runs).await, Ok(Added::Added { node_count: 2 }));
    assert!(w.renew(runs, fence).await.is_ok());
    assert_eq!(w.complete(runs, fence).await, Ok(()));
    w.dispatch().await;
    assert_eq!(w.flow(flow).await.ended, Ended { well: 1, badly: 0 });
}

/// An execution belongs to one flow, for ever; the refusal names it.
pub async fn a_member_of_another_flow_is_refused(w: Arc<World>) {
    let first = w.empty_flow().await;
    let second = w.flow_beside(first).await;
    let execution = w.member(first).await;
    let refused = w.refused(AddMember { flow: second, execution }).await;
    assert_eq!(refused.code, Code::ExecutionAlreadyInFlow);
    assert_eq!(refused.value, Some(first.to_string()));
    assert_eq!(w.get(execution).await.flow(), Some(first));
}

/// A flow and all its members lie in one partition.
pub async fn an_execution_of_another_partition_is_refused(w: Arc<World>) {
    let flow = w.empty_flow().await;
    let mut id = w.id();
    while id.partition() == flow.partition() {
        id = w.id();
    }
    let execution = w.create(w.draft_of(id)).await;
    assert_eq!(w.refused(AddMember { flow, execution }).await.code, Code::PartitionMismatch);
}

/// The members of a flow are in its namespace.
pub async fn an_execution_of_another_namespace_is_refused(w: Arc<World>) {
    let flow = w.empty_flow().await;
    let id = ExecutionId::for_flow(flow, w.uuid());
    let execution = w.create(Create { namespace: namespace("other"), ..w.draft_of(id) }).await;
    let refused = w.refused(AddMember { flow, execution }).await;
    assert_eq!((refused.code, refused.field), (Code::InvalidInput, Some("namespace")));
}

/// What is not there cannot be joined, and the refusal says which.
pub async fn an_unknown_flow_or_execution_is_not_found(w: Arc<World>) {
    let gone = w.flow_id();
    let execution = w.candidate(gone).await;
    let refused = w.refused(AddMember { flow: gone, execution }).await;
    assert_eq!((refused.code, refused.value), (Code::FlowNotFound, Some(gone.to_string())));
    assert_eq!(refused.code.class(), Class::NotFound);
    let flow = w.empty_flow().await;
    let nobody = ExecutionId::for_flow(flow, w.uuid());
    let refused = w.refused(AddMember { flow, execution: nobody }).await;
    assert_eq!((refused.code, refused.value), (Code::ExecutionNotFound, Some(nobody.to_string())));
}

/// What has ended joins nothing.
pub async fn a_finished_execution_is_refused(w: Arc<World>) {
    let flow = w.empty_flow().await;
    let execution = w.candidate(flow).await;
    w.succeed(execution).await;
    let refused = w.refused(AddMember { flow, execution }).await;
    assert_eq!(refused.code, Code::ExecutionTerminal);
    let outcome = refused.standing.and_then(|standing| standing.outcome);
    assert_eq!(outcome, Some(TerminalOutcome::Success));
}

/// A flow that ended takes nobody, not even those it has.
pub async fn a_flow_that_ended_takes_no_members(w: Arc<World>) {
    let flow = w.empty_flow().await;
    let (member, late) = (w.member(flow).await, w.candidate(flow).await);
    w.cancel_flow(flow, CancellationPolicy::FlowOnly).await.expect("it is open");
    for execution in [member, late] {
        let refused = w.refused(AddMember { flow, execution }).await;
        assert_eq!(refused.code, Code::FlowAlreadyTerminal);
    }
    let done = w.empty_flow().await;
    assert_eq!(w.seal(done).await, Ok(FlowWord::Completed));
    let late = w.candidate(done).await;
    assert_eq!(code(w.add(done, late).await), Code::FlowAlreadyTerminal);
}

/// A sealed flow takes nobody from outside, but knows its own.
pub async fn a_sealed_flow_takes_no_members(w: Arc<World>) {
    let flow = w.empty_flow().await;
    let (member, late) = (w.member(flow).await, w.candidate(flow).await);
    assert_eq!(w.seal(flow).await, Ok(FlowWord::Open));
    let refused = w.refused(AddMember { flow, execution: late }).await;
    assert_eq!((refused.code, refused.code.class()), (Code::FlowSealed, Class::State));
    assert_eq!(w.add(flow, member).await, Ok(Added::AlreadyMember { node_count: 1 }));
}

/// Sealing says where the flow stands, once and again.
pub async fn sealing_twice_answers_the_same(w: Arc<World>) {
    let flow = w.empty_flow().await;
    let id = w.member(flow).await;
    assert_eq!(w.seal(flow).await, Ok(FlowWord::Open));
    w.succeed(id).await;
    w.dispatch().await;
    let before = w.rows();
    assert_eq!(w.seal(flow).await, Ok(FlowWord::Completed));
    assert_eq!(w.rows(), before);
    let cancelled = w.empty_flow().await;
    w.cancel_flow(cancelled, CancellationPolicy::All).await.expect("it is open");
    assert_eq!(code(w.seal(cancelled).await), Code::FlowAlreadyTerminal);
    assert_eq!(code(w.seal(w.flow_id()).await), Code::FlowNotFound);
}

/// Flows and executions may share a UUID without being confused.
pub async fn a_flow_and_an_execution_of_one_uuid_are_two_things(w: Arc<World>) {
    let id = w.create(w.draft()).await;
    let flow = FlowId::rooted_at(id);
    w.run(CreateFlow { id: flow, ..w.flow_draft() }).await.expect("the creation is valid");
    w.cancel_flow(flow, CancellationPolicy::All).await.expect("it is open");
    assert_eq!(w.state(id).await, PublicState::Waiting);
    assert_eq!(w.get(id).await.flow(), None);
}
