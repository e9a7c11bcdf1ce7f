//! Duties: what the engine does by itself, for whom, how much at a time, and when next.

use std::sync::Arc;

use ff_core::backend::{Due, Duty, WorkFilter};
use ff_core::command::Reply;
use ff_core::decide::create::Create;
use ff_core::decide::create_waitpoint::CreateWaitpoint;
use ff_core::decide::deadline::ExpireExecution;
use ff_core::decide::suspend::Suspend;
use ff_core::query::Search;
use ff_core::state::PublicState;
use ff_core::suspension::TimeoutBehavior;
use ff_core::text::IdempotencyKey;
use ff_core::{ClaimAsk, Command, ExecutionId, Policy};
use serde_json::{Value, json};

use super::calls::{ids_of, tags};
use crate::world::waits::waitpoint_key;
use crate::world::{TTL_MS, World, lane, namespace};

const TTL: i64 = TTL_MS.cast_signed();

/// Duties that look after executions.
const EXECUTIONS: [Duty; 7] = [
    Duty::LeaseExpiry,
    Duty::AttemptTimeout,
    Duty::Deadline,
    Duty::SuspensionTimeout,
    Duty::WaitpointExpiry,
    Duty::IdempotencyExpiry,
    Duty::Retention,
];

/// Makes of the draft something that `duty` has to deal with a little later.
async fn overdue(w: &World, duty: Duty, draft: Create) -> ExecutionId {
    let policy = |value: Value| Policy::parse(&value).expect("a valid policy");
    let timeout = json!({"timeout_policy": {"attempt_timeout_ms": 1}});
    let deadline = json!({"timeout_policy": {"execution_deadline_ms": 1}});
    match duty {
        Duty::LeaseExpiry => {
            let id = w.create(draft).await;
            w.take(id).await;
            id
        }
        Duty::AttemptTimeout => {
            let policy = policy(timeout);
            let id = w.create(Create { policy, ..draft }).await;
            w.take(id).await;
            id
        }
        Duty::Deadline => {
            let policy = policy(deadline);
            w.create(Create { policy, ..draft }).await
        }
        Duty::SuspensionTimeout => {
            let id = w.create(draft).await;
            let fence = w.take(id).await.leased.fence;
            let timeout_behavior = TimeoutBehavior::Cancel;
            let deadline = Some(w.now().plus(1));
            w.suspend(Suspend { deadline, timeout_behavior, ..w.pause(id, fence) }).await;
            id
        }
        Duty::WaitpointExpiry => {
            let id = w.create(draft).await;
            let fence = w.take(id).await.leased.fence;
            let key = waitpoint_key("callback");
            let waitpoint = w.uuid();
            let made =
                CreateWaitpoint { id, fence, waitpoint, key, expires_in_ms: 1, steps: Vec::new() };
            w.run(made).await.expect("it is held");
            id
        }
        Duty::Retention => {
            let policy = policy(json!({"retention_ms": 1}));
            let id = w.create(Create { policy, ..draft }).await;
            w.cancel(id).await.expect("it waits");
            id
        }
        Duty::CompletionDispatch
        | Duty::EdgeCancelDispatcher
        | Duty::EdgeCancelReconciler
        | Duty::CancelBacklog
        | Duty::DependencyReconciler => unreachable!("these look after flows"),
        Duty::IdempotencyExpiry => {
            let policy = policy(json!({"dedup_window_ms": 1}));
            let idempotency_key = Some(IdempotencyKey::new("k").expect("a valid key"));
            let draft = Create { policy, idempotency_key, ..draft };
            let id = w.create(draft).await;
            w.cancel(id).await.expect("it waits");
            id
        }
    }
}

/// Ends what has not ended, so that the next claim finds nothing old.
async fn clear(w: &World) {
    for state in [PublicState::Waiting, PublicState::Active] {
        let state = Some(state);
        for id in w.search(Search { state, ..Search::default() }).await {
            w.cancel(id).await.expect("it has not ended");
        }
    }
}

async fn selected(w: &World, duty: Duty, filter: &WorkFilter) -> usize {
    let due = w.store.backend.due(duty, filter, 100).await;
    due.expect("the store works").commands.len()
}

/// A process that serves one tenant leaves the others alone.
pub async fn a_duty_may_serve_one_namespace(w: Arc<World>) {
    for duty in &EXECUTIONS {
        overdue(&w, *duty, w.draft()).await;
        let theirs = Create { namespace: namespace("other"), ..w.draft() };
        overdue(&w, *duty, theirs).await;
        w.pass(TTL);
        let only = |name: &str| WorkFilter { namespace: Some(namespace(name)), tag: None };
        assert_eq!(selected(&w, *duty, &only("nobody")).await, 0, "{duty}");
        assert_eq!(w.tick_for(*duty, &only("other")).await.len(), 1, "{duty}");
        assert_eq!(w.due(*duty, 100).await.commands.len(), 1, "{duty}");
        assert_eq!(w.tick_for(*duty, &only("test")).await.len(), 1, "{duty}");
        clear(&w).await;
    }
}

/// A process that serves one tag leaves the others alone.
pub async fn a_duty_may_serve_one_tag(w: Arc<World>) {
    let tagged = |duty: &&Duty| **duty != Duty::IdempotencyExpiry;
    for duty in EXECUTIONS.iter().filter(tagged).copied() {
        let tagged = Create { tags: tags(&[("app.run", "1")]), ..w.draft() };
        overdue(&w, duty, tagged).await;
        overdue(&w, duty, Create { tags: tags(&[("app.run", "2")]), ..w.draft() }).await;
        overdue(&w, duty, w.draft()).await;
        w.pass(TTL);
        let only = |value: &str| WorkFilter {
            namespace: None,
            tag: Some(("app.run".to_owned(), value.to_owned())),
        };
        assert_eq!(selected(&w, duty, &only("3")).await, 0, "{duty}");
        assert_eq!(w.tick_for(duty, &only("1")).await.len(), 1, "{duty}");
        assert_eq!(selected(&w, duty, &only("1")).await, 0, "{duty}");
        assert_eq!(w.tick(duty).await.len(), 2, "{duty}");
        clear(&w).await;
    }
}

/// A key has no tags: whoever serves one tag leaves the keys to others.
pub async fn a_duty_for_one_tag_leaves_keys_alone(w: Arc<World>) {
    let tagged = Create { tags: tags(&[("app.run", "1")]), ..w.draft() };
    overdue(&w, Duty::IdempotencyExpiry, tagged).await;
    w.pass(1);
    let tag = Some(("app.run".to_owned(), "1".to_owned()));
    let filter = WorkFilter { namespace: None, tag };
    assert_eq!(selected(&w, Duty::IdempotencyExpiry, &filter).await, 0);
    assert_eq!(w.tick(Duty::IdempotencyExpiry).await, [Ok(Reply::ForgetKey(true))]);
}

/// Namespace and tag must both match.
pub async fn the_filters_of_a_duty_combine(w: Arc<World>) {
    let tagged = || Create { tags: tags(&[("app.run", "1")]), ..w.draft() };
    let theirs = Create { namespace: namespace("other"), ..tagged() };
    let wanted = overdue(&w, Duty::Deadline, theirs).await;
    overdue(&w, Duty::Deadline, tagged()).await;
    overdue(&w, Duty::Deadline, Create { namespace: namespace("other"), ..w.draft() }).await;
    w.pass(1);
    let filter = WorkFilter {
        namespace: Some(namespace("other")),
        tag: Some(("app.run".to_owned(), "1".to_owned())),
    };
    let due = w.store.backend.due(Duty::Deadline, &filter, 10).await;
    let commands = due.expect("the store works").commands;
    assert_eq!(commands, [Command::from(ExpireExecution { id: wanted })]);
}

/// A bounded bite, the longest overdue first, until nothing is left.
pub async fn a_duty_takes_no_more_than_its_limit(w: Arc<World>) {
    let mut ids = Vec::new();
    for ms in [50, 10, 40, 20, 30] {
        let deadline_at = Some(w.now().plus(ms));
        ids.push((ms, w.create(Create { deadline_at, ..w.draft() }).await));
    }
    ids.sort_unstable();
    w.pass(100);
    let mut done = Vec::new();
    for size in [2, 2, 1, 0] {
        let commands = w.due(Duty::Deadline, 2).await.commands;
        assert_eq!(commands.len(), size);
        for command in commands {
            done.push(command.clone());
            assert_eq!(w.send(command).await, Ok(Reply::ExpireExecution(true)));
        }
    }
    let expected: Vec<Command> =
        ids.iter().map(|(_, id)| ExpireExecution { id: *id }.into()).collect();
    assert_eq!(done, expected);
}

/// A limit of nothing is nothing.
pub async fn a_duty_with_no_room_does_nothing(w: Arc<World>) {
    overdue(&w, Duty::Deadline, w.draft()).await;
    w.pass(1);
    assert!(w.due(Duty::Deadline, 0).await.commands.is_empty());
    assert_eq!(w.due(Duty::Deadline, 1).await.commands.len(), 1);
}

/// A duty knows when to come back.
pub async fn a_duty_tells_when_the_next_is_due(w: Arc<World>) {
    for duty in Duty::ALL {
        assert_eq!(w.due(*duty, 10).await, Due::default(), "{duty}");
    }
    let start = w.now();
    for ms in [10, 30, 20] {
        let deadline_at = Some(start.plus(ms));
        w.create(Create { deadline_at, ..w.draft() }).await;
    }
    assert_eq!(w.due(Duty::Deadline, 10).await.next, Some(start.plus(10)));
    w.pass(10);
    let due = w.due(Duty::Deadline, 10).await;
    assert_eq!((due.commands.len(), due.next), (1, Some(start.plus(20))));
    w.pass(20);
    let due = w.due(Duty::Deadline, 10).await;
    assert_eq!((due.commands.len(), due.next), (3, None));
}

/// What is due is told for each duty alone, with the right time.
pub async fn each_duty_has_its_own_times(w: Arc<World>) {
    let start = w.now();
    let policy = json!({"retention_ms": 40, "dedup_window_ms": 30,
        "timeout_policy": {"attempt_timeout_ms": 10, "execution_deadline_ms": 20}});
    let idempotency_key = Some(IdempotencyKey::new("k").expect("a valid key"));
    let policy = Policy::parse(&policy).expect("a valid policy");
    let id = w.create(Create { policy, idempotency_key, ..w.draft() }).await;
    let fence = w.take(id).await.leased.fence;
    let next = async |duty| w.due(duty, 10).await.next;
    assert_eq!(next(Duty::AttemptTimeout).await, Some(start.plus(10)));
    assert_eq!(next(Duty::Deadline).await, Some(start.plus(20)));
    assert_eq!(next(Duty::IdempotencyExpiry).await, Some(start.plus(30)));
    assert_eq!(next(Duty::LeaseExpiry).await, Some(start.plus(TTL_MS)));
    assert_eq!(next(Duty::Retention).await, None);
    w.complete(id, fence).await.expect("it is held");
    assert_eq!(next(Duty::Retention).await, Some(start.plus(40)));
    assert_eq!(next(Duty::AttemptTimeout).await, None);
    assert_eq!(next(Duty::Deadline).await, None);
    assert_eq!(next(Duty::LeaseExpiry).await, None);
}

/// Lanes that nobody configured are served like the others.
pub async fn duties_serve_every_lane(w: Arc<World>) {
    for name in ["default", "made up just now"] {
        let lane = lane(name);
        let deadline_at = Some(w.now().plus(TTL_MS + 1));
        let id = w.create(Create { lane: lane.clone(), deadline_at, ..w.draft() }).await;
        let lanes = vec![lane];
        let given = w.claim(ClaimAsk { lanes, ..w.ask(1) }).await;
        assert_eq!(ids_of(&given), [id]);
    }
    w.pass(TTL);
    assert_eq!(w.tick(Duty::LeaseExpiry).await.len(), 2);
    w.pass(1);
    assert_eq!(w.tick(Duty::Deadline).await.len(), 2);
}
