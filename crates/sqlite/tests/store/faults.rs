//! A fault at any store call, before or after it takes effect, changes nothing in the end.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use ff_conformance::faults::{Fault, Obstructed, Strike};
use ff_conformance::model::Tables;
use ff_conformance::world::{World, worker};
use ff_conformance::{Dial, Store};
use ff_core::backend::{Duty, StoreError, WorkFilter};
use ff_core::command::{Command, Outcome};
use ff_core::decide::cancel::Cancel;
use ff_core::decide::complete::Complete;
use ff_core::decide::create::Create;
use ff_core::decide::delay::Delay;
use ff_core::decide::fail::Fail;
use ff_core::decide::hold::Hold;
use ff_core::decide::priority::ChangePriority;
use ff_core::decide::release::Release;
use ff_core::decide::replay::Replay;
use ff_core::decide::unhold::Unhold;
use ff_core::policy::{FailureClass, Policy};
use ff_core::time::Clock;
use ff_core::{Backend, ClaimAsk, ExecutionId, Fence};
use serde_json::json;
use uuid::Uuid;

use crate::open;

/// A caller that sends a call again when it does not know what became of it.
struct Caller<'a> {
    backend: &'a dyn Backend,
    clock: &'a Dial,
}

impl Caller<'_> {
    async fn send(&self, command: impl Into<Command>) -> Outcome {
        let command = command.into();
        loop {
            match self.backend.apply(vec![command.clone()]).await {
                Ok(mut outcomes) => return outcomes.pop().unwrap(),
                Err(StoreError::Transport { .. }) => {}
                Err(other) => panic!("{other}"),
            }
        }
    }

    async fn claim(&self, claim: u128, id: ExecutionId) -> Fence {
        self.lease(claim, id, 1_000).await
    }

    async fn lease(&self, claim: u128, id: ExecutionId, lease_ttl_ms: u64) -> Fence {
        let ask = ClaimAsk {
            claim_id: Uuid::from_u128(claim),
            worker: worker("w1"),
            lanes: vec![ff_conformance::world::lane("default")],
            capabilities: BTreeSet::new(),
            lease_ttl_ms,
            max: 1,
        };
        loop {
            match self.backend.claim(std::slice::from_ref(&ask)).await {
                Ok(claims) => {
                    let claimed = &claims.given[0][0];
                    assert_eq!(claimed.leased.execution.id, id);
                    return claimed.leased.fence;
                }
                Err(StoreError::Transport { .. }) => {}
                Err(other) => panic!("{other}"),
            }
        }
    }

    /// A duty is tried again at its next tick; here, at once.
    async fn tick(&self, duty: Duty) {
        loop {
            let due = self.backend.due(duty, &WorkFilter::default(), 10).await;
            let Ok(due) = due else { continue };
            if due.commands.is_empty() {
                return;
            }
            if self.backend.apply(due.commands).await.is_ok() {
                return;
            }
        }
    }

    /// A life in which everything happens once.
    async fn live(&self, draft: Create) {
        let id = draft.id;
        let retry = json!({"retry_policy": {"max_retries": 5, "backoff":
            {"type": "fixed", "delay_ms": 10}}, "timeout_policy": {"attempt_timeout_ms": 500}});
        let policy = Policy::parse(&retry).unwrap();
        self.send(Create { policy, ..draft }).await.unwrap();
        self.send(ChangePriority { id, priority: 7, version: None }).await.unwrap();
        self.send(Hold { id, reason: "wait".to_owned(), version: None }).await.unwrap();
        self.send(Unhold { id, version: None }).await.unwrap();

        let fence = self.claim(1, id).await;
        self.send(Release { id, fence, untaken: false }).await.unwrap();
        let fence = self.claim(2, id).await;
        let delay_until = self.clock.now().plus(50);
        self.send(Delay { id, fence, delay_until, steps: Vec::new() }).await.unwrap();
        self.clock.advance(50);
        let fence = self.claim(3, id).await;
        let (reason, category) = ("broke".to_owned(), "net".parse().unwrap());
        let class = FailureClass::Transient;
        self.send(Fail { id, fence, reason, category, class }).await.unwrap();
        self.clock.advance(10);
        self.claim(4, id).await;
        self.clock.advance(500);
        self.tick(Duty::AttemptTimeout).await;
        self.clock.advance(10);
        // This lease runs out before the attempt does.
        self.lease(5, id, 400).await;
        self.clock.advance(400);
        self.tick(Duty::LeaseExpiry).await;
        let fence = self.claim(6, id).await;
        let result = Some(Bytes::from_static(b"out"));
        self.send(Complete { id, fence, result, encoding: None }).await.unwrap();
        self.send(Replay { id, reason: "again".to_owned(), replays: None, downstream: true })
            .await
            .unwrap();
        self.send(Cancel { id, reason: "enough".to_owned(), fence: None, replays: None })
            .await
            .unwrap();
    }
}

/// The rows after a life in which one call failed; nothing when the life had fewer calls.
async fn life(strike: Strike, call: u32) -> Option<Tables> {
    let clock = Arc::new(Dial::default());
    let store: Store = open(Arc::clone(&clock));
    let faulty = Obstructed::new(Arc::clone(&store.backend), Fault::new(strike, call));
    let world = World::new(store, Arc::clone(&clock));
    Caller { backend: &faulty, clock: &clock }.live(world.draft()).await;
    faulty.obstacle.struck().then(|| (world.store.dump)())
}

#[tokio::test]
async fn a_fault_at_any_call_changes_nothing_in_the_end() {
    let clock = Arc::new(Dial::default());
    let store = open(Arc::clone(&clock));
    let backend = Arc::clone(&store.backend);
    let world = World::new(store, Arc::clone(&clock));
    Caller { backend: backend.as_ref(), clock: &clock }.live(world.draft()).await;
    let flawless = (world.store.dump)();
    assert_eq!(flawless.attempts.len(), 4, "four attempts went before the last");
    for strike in [Strike::Before, Strike::After] {
        let mut call = 0;
        while let Some(tables) = life(strike, call).await {
            assert_eq!(tables, flawless, "a fault {strike:?} call {call}");
            call += 1;
        }
        assert!(call > 15, "every call of the life was struck, {call} in all");
    }
}
