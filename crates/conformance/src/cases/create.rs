//! Creating executions.

use std::sync::Arc;

use bytes::Bytes;
use ff_core::decide::claim::ClaimKind;
use ff_core::decide::create::{Create, Created};
use ff_core::error::Code;
use ff_core::execution::{Counts, Priority, first_epoch};
use ff_core::fold::BlobRef;
use ff_core::ids::{FlowId, Partition};
use ff_core::limits::{PARTITIONS, PRIORITY_MAX};
use ff_core::query::{Query, Rows};
use ff_core::state::{AttemptState, BlockingReason, EligibilityState, OwnershipState};
use ff_core::state::{Phase, PublicState, StateVector};
use ff_core::text::Encoding;
use ff_core::{Config, ExecutionId, Policy};
use serde_json::json;

use super::calls::{SIZES, ids_of, tags};
use crate::world::{World, lane, namespace};

/// Creating leaves nothing for anyone else to do first.
pub async fn a_created_execution_is_claimable_at_once(w: Arc<World>) {
    let id = w.create_with(json!({})).await;
    assert_eq!(w.state(id).await, PublicState::Waiting);
    let claimed = w.take(id).await;
    assert_eq!(claimed.leased.kind, ClaimKind::First);
    assert_eq!(&claimed.input.expect("it was created with input").bytes[..], b"in");
    assert_eq!(w.state(id).await, PublicState::Active);
}

/// Every dimension of the state is what a worker or a person expects of new work.
pub async fn a_created_execution_waits_for_a_worker(w: Arc<World>) {
    let id = w.create(w.draft()).await;
    let expected = StateVector {
        lifecycle_phase: Phase::Runnable,
        ownership_state: OwnershipState::Unowned,
        eligibility_state: EligibilityState::EligibleNow,
        blocking_reason: BlockingReason::WaitingForWorker,
        terminal_outcome: None,
        attempt_state: AttemptState::PendingFirstAttempt,
        public_state: PublicState::Waiting,
        blocking_detail: None,
    };
    assert_eq!(w.vector(id).await, expected);
}

/// A caller need not read back what it has just made.
pub async fn creation_answers_with_the_state_it_left(w: Arc<World>) {
    let now = w.draft();
    let later = Create { delay_until: Some(w.now().plus(1)), ..w.draft() };
    for (draft, public_state) in [(now, PublicState::Waiting), (later, PublicState::Delayed)] {
        let execution_id = draft.id;
        let created = w.run(draft).await.expect("the creation is valid");
        let expected = Created::Created { execution_id, public_state };
        assert_eq!(created, expected);
        assert_eq!(w.state(execution_id).await, public_state);
    }
}

/// A delay given at creation is honoured.
pub async fn a_delayed_creation_waits_for_its_time(w: Arc<World>) {
    let until = w.now().plus(5_000);
    let delay_until = Some(until);
    let id = w.create(Create { delay_until, ..w.draft() }).await;
    let vector = w.vector(id).await;
    assert_eq!(vector.eligibility_state, EligibilityState::NotEligibleUntilTime);
    assert_eq!(vector.blocking_reason, BlockingReason::WaitingForDelay);
    assert_eq!(vector.blocking_detail, Some(format!("delayed until {until}")));
    assert_eq!(vector.attempt_state, AttemptState::PendingFirstAttempt);
    assert!(w.claim_one().await.is_none());
    w.pass(5_000);
    assert_eq!(w.take(id).await.leased.kind, ClaimKind::First);
}

/// A delay that is over must not file the execution where nobody looks.
pub async fn a_delay_in_the_past_means_at_once(w: Arc<World>) {
    for until in [w.now().minus(60_000), w.now()] {
        let delay_until = Some(until);
        let id = w.create(Create { delay_until, ..w.draft() }).await;
        assert_eq!(w.state(id).await, PublicState::Waiting);
        assert_eq!(w.vector(id).await.blocking_detail, None);
        w.take(id).await;
    }
}

/// Nothing a caller says is dropped.
pub async fn everything_said_at_creation_reads_back(w: Arc<World>) {
    let policy = json!({"max_replay_count": 2, "retention_ms": 7, "retry_policy": {}});
    let draft = Create {
        namespace: namespace("tenant"),
        lane: lane("bulk mail"),
        priority: PRIORITY_MAX,
        tags: tags(&[("app.customer", "Zoë")]),
        policy: Policy::parse(&policy).expect("the policy is valid"),
        deadline_at: Some(w.now().plus(9_000)),
        ..w.draft()
    };
    let x = w.get(w.create(draft.clone()).await).await;
    assert_eq!(x.spec.namespace, draft.namespace);
    assert_eq!(x.spec.lane, draft.lane);
    assert_eq!(x.spec.kind, draft.kind);
    assert_eq!(x.spec.creator, draft.creator);
    assert_eq!(x.spec.policy, draft.policy);
    assert_eq!(x.priority, Priority::new(PRIORITY_MAX).expect("in range"));
    assert_eq!(x.tags, draft.tags);
    assert_eq!(x.deadline_at, draft.deadline_at);
    assert_eq!((x.spec.created_at, x.updated_at), (w.now(), w.now()));
    assert_eq!((x.epoch, x.counts), (first_epoch(w.now()), Counts::default()));
    assert_eq!((x.started_at, x.progress.clone()), (None, None));
}

/// Payloads are bytes, not text.
pub async fn binary_input_is_kept_byte_for_byte(w: Arc<World>) {
    let input: Bytes = (0..=255).chain([0, 0xC3, 0x28, 0xFF]).collect();
    let encoding = Encoding::new("msgpack").ok();
    let id =
        w.create(Create { input: input.clone(), encoding: encoding.clone(), ..w.draft() }).await;
    let given = w.take(id).await.input.expect("it has input");
    assert_eq!((given.bytes, given.encoding), (input, encoding));
    assert_eq!(given.at, BlobRef::Input(id));
}

/// No input is not an empty row to look up.
pub async fn an_empty_input_is_no_input(w: Arc<World>) {
    let input = Bytes::new();
    let id = w.create(Create { input, ..w.draft() }).await;
    assert_eq!(w.blob(BlobRef::Input(id)).await, None);
    assert_eq!(w.take(id).await.input, None);
}

/// How it is encoded is said of an empty input too, and is not lost.
pub async fn an_empty_input_keeps_its_encoding(w: Arc<World>) {
    let (input, encoding) = (Bytes::new(), Encoding::new("json").ok());
    let id =
        w.create(Create { input: input.clone(), encoding: encoding.clone(), ..w.draft() }).await;
    let given = w.take(id).await.input.expect("it says how it is encoded");
    assert_eq!((given.bytes, given.encoding), (input, encoding));
}

/// The limit is the size that still fits.
pub async fn the_largest_payload_fits(w: Arc<World>) {
    let input = Bytes::from(vec![7; Config::default().payload_bytes_max]);
    let id = w.create(Create { input: input.clone(), ..w.draft() }).await;
    assert_eq!(w.blob(BlobRef::Input(id)).await, Some(input));
}

/// Small or large, it is there for who is given the work, and for who reads it.
pub async fn an_input_of_any_size_comes_with_its_work(w: Arc<World>) {
    for size in SIZES {
        let (input, encoding) = (Bytes::from(vec![7; size]), Encoding::new("cbor").ok());
        let draft = Create { input: input.clone(), encoding: encoding.clone(), ..w.draft() };
        let id = w.create(draft).await;
        let given = w.take(id).await.input.expect("it has input");
        assert_eq!((&given.bytes, given.encoding), (&input, encoding), "{size}");
        assert_eq!(w.blob(BlobRef::Input(id)).await, Some(input), "{size}");
    }
}

/// Creation is the row itself; the feed tells what happens to it afterwards.
pub async fn creation_appends_no_event(w: Arc<World>) {
    let id = w.create(w.draft()).await;
    assert!(w.event_names(id).await.is_empty());
}

/// Lanes need not be declared.
pub async fn creation_makes_its_lane_known(w: Arc<World>) {
    let lane = lane("never seen before");
    w.create(Create { lane: lane.clone(), ..w.draft() }).await;
    assert_eq!(w.list(&Query::Lanes, 10).await, Rows::Lanes(vec![lane]));
}

/// No partition is out of reach of a claim.
pub async fn work_in_every_partition_is_claimable(w: Arc<World>) {
    let every = (0..i64::from(PARTITIONS)).filter_map(Partition::new);
    let mut ids: Vec<_> =
        every.map(|partition| ExecutionId::from_parts(partition, w.uuid())).collect();
    let batch = ids.iter().map(|id| Create { id: *id, ..w.draft() }.into());
    for outcome in w.batch(batch.collect()).await {
        outcome.expect("the creation is valid");
    }
    let mut claimed = ids_of(&w.claim(w.ask(1_000)).await);
    ids.sort_unstable();
    claimed.sort_unstable();
    assert_eq!(claimed, ids);
}

/// The partition is part of the id and is never computed again.
pub async fn an_id_keeps_the_partition_it_names(w: Arc<World>) {
    let flow = FlowId(w.uuid());
    let id = ExecutionId::for_flow(flow, w.uuid());
    assert_ne!(id, ExecutionId::solo(id.uuid()), "the case needs both");
    w.create(Create { id, ..w.draft() }).await;
    assert_eq!(w.snapshot(id).await.execution_id, id);
    assert_eq!(w.find(ExecutionId::solo(id.uuid())).await, None);
    let listed = w.list(&Query::Partition(flow.partition()), 10).await;
    assert_eq!(listed, Rows::Ids(vec![id]));
}

/// A delay by length ends like one by time, and says the same when it is sent again later.
pub async fn a_delay_by_length_survives_a_repeat(w: Arc<World>) {
    let key = Some("later".parse().expect("a valid key"));
    let first = Create { delay_ms: Some(1_000), idempotency_key: key, ..w.draft() };
    let id = w.create(first.clone()).await;
    assert_eq!(w.state(id).await, PublicState::Delayed);
    w.pass(600);
    let again = Create { id: w.id(), ..first };
    assert_eq!(w.run(again).await, Ok(Created::Duplicate { execution_id: id }));
    w.pass(399);
    assert_eq!(w.claim_one().await, None);
    w.pass(1);
    w.take(id).await;
}

/// One delay is enough, and ten years are.
pub async fn two_delays_and_absurd_ones_are_refused(w: Arc<World>) {
    let delay_until = Some(w.now().plus(5));
    let both = Create { delay_ms: Some(5), delay_until, ..w.draft() };
    let refused = w.run(both).await.expect_err("one delay is enough");
    assert_eq!((refused.code, refused.field), (Code::InvalidInput, Some("delay_until")));
    let long = Create { delay_ms: Some(u64::MAX), ..w.draft() };
    let refused = w.run(long).await.expect_err("nobody waits that long");
    assert_eq!((refused.code, refused.field), (Code::InvalidInput, Some("delay_ms")));
}
