//! The words in which cases speak about suspensions.

use ff_core::ExecutionId;
use ff_core::condition::ResumeCondition;
use ff_core::decide::create_waitpoint::CreateWaitpoint;
use ff_core::decide::deliver::{Authority, DeliverSignal, Delivered};
use ff_core::decide::suspend::{Binding, Opened, Suspend, SuspendedReply};
use ff_core::error::Rejection;
use ff_core::execution::Fence;
use ff_core::fold::{Key, WaitKey};
use ff_core::query::{Query, Rows};
use ff_core::suspension::{
    Effect, RequestedBy, Signal, Suspension, SuspensionReason, TimeoutBehavior, Waitpoint,
};
use ff_core::text::{SignalName, WaitpointKey};
use ff_core::time::Millis;
use uuid::Uuid;

use super::World;

/// A waitpoint, and what lets a case send signals to it.
#[derive(Clone, Debug)]
pub struct Mailbox {
    /// Of which execution.
    pub id: ExecutionId,
    /// Its id.
    pub waitpoint: Uuid,
    /// Its token.
    pub token: String,
}

impl Mailbox {
    fn of(id: ExecutionId, opened: &Opened) -> Self {
        let token = opened.token.as_ref().expect("its key is there").as_str().to_owned();
        Self { id, waitpoint: opened.waitpoint_id, token }
    }

    /// A signal to it.
    pub fn signal(&self, w: &World, name: &str) -> DeliverSignal {
        DeliverSignal {
            id: self.id,
            waitpoint: self.waitpoint,
            signal: w.uuid(),
            authority: Authority::Token(self.token.clone()),
            name: signal_name(name),
            category: "callback".to_owned(),
            source_type: "webhook".to_owned(),
            source_identity: "shop".to_owned(),
            subject: None,
            correlation_id: None,
            idempotency_key: None,
            dedup_ttl_ms: None,
            created_at: None,
            encoding: None,
            payload: None,
            resume_delay_ms: None,
        }
    }

    /// A signal to it from somebody whom the server knows.
    pub fn signal_from(&self, w: &World, name: &str, who: &str) -> DeliverSignal {
        DeliverSignal {
            authority: Authority::Operator,
            source_type: "person".to_owned(),
            source_identity: who.to_owned(),
            ..self.signal(w, name)
        }
    }
}

impl World {
    /// A suspension to adapt: of what `fence` holds, for any signal at one new waitpoint `answer`.
    pub fn pause(&self, id: ExecutionId, fence: Fence) -> Suspend {
        Suspend {
            id,
            fence,
            suspension: self.uuid(),
            waitpoints: vec![self.fresh("answer")],
            condition: single("answer", None),
            resume_delay_ms: 0,
            reason: SuspensionReason::WaitingForSignal,
            requested_by: RequestedBy::Worker,
            deadline: None,
            timeout_behavior: TimeoutBehavior::Fail,
            continuation: None,
            idempotency_key: None,
            steps: Vec::new(),
        }
    }

    /// A new waitpoint for a suspension.
    pub fn fresh(&self, key: &str) -> Binding {
        Binding::Fresh { id: self.uuid(), key: waitpoint_key(key) }
    }

    /// Suspends, which must be accepted and must not have happened already; its waitpoints.
    pub async fn suspend(&self, suspend: Suspend) -> Vec<Mailbox> {
        let id = suspend.id;
        let reply = self.run(suspend).await.expect("the suspension is valid");
        assert!(!reply.already_satisfied, "nothing arrived before");
        mailboxes(id, &reply)
    }

    /// Creates an execution, claims it and suspends it for any signal.
    pub async fn waiting(&self) -> (Fence, Mailbox) {
        let (id, fence) = self.running(serde_json::json!({})).await;
        let mut own = self.suspend(self.pause(id, fence)).await;
        (fence, own.pop().expect("it has a waitpoint"))
    }

    /// Creates an execution, claims it and suspends it for a condition on new waitpoints.
    pub async fn waiting_for(
        &self,
        keys: &[&str],
        condition: ResumeCondition,
    ) -> (Fence, Vec<Mailbox>) {
        let (id, fence) = self.running(serde_json::json!({})).await;
        let waitpoints = keys.iter().map(|key| self.fresh(key)).collect();
        let suspend = Suspend { waitpoints, condition, ..self.pause(id, fence) };
        (fence, self.suspend(suspend).await)
    }

    /// Makes a waitpoint of a running execution, for a minute.
    pub async fn pending(&self, id: ExecutionId, fence: Fence, key: &str) -> Mailbox {
        let waitpoint = self.uuid();
        let key = waitpoint_key(key);
        let made =
            CreateWaitpoint { id, fence, waitpoint, key, expires_in_ms: 60_000, steps: Vec::new() };
        let token = self.run(made).await.expect("it is held").expect("its key is there");
        Mailbox { id, waitpoint, token: token.as_str().to_owned() }
    }

    /// Sends a signal, which must be accepted; what it led to.
    pub async fn deliver(&self, signal: DeliverSignal) -> Effect {
        effect(self.run(signal).await)
    }

    /// The last suspension of an execution.
    pub async fn suspension(&self, id: ExecutionId) -> Suspension {
        let have = self
            .store
            .backend
            .get(&[Key::Wait(WaitKey::Suspension(id))])
            .await
            .expect("the store works");
        have.waits.suspension(id).cloned().expect("it was suspended")
    }

    /// A waitpoint, which must exist.
    pub async fn waitpoint(&self, mailbox: &Mailbox) -> Waitpoint {
        let key = Key::Wait(WaitKey::Waitpoint(mailbox.id, mailbox.waitpoint));
        let have = self.store.backend.get(&[key]).await.expect("the store works");
        let found = have.waits.waitpoint(mailbox.id, mailbox.waitpoint);
        found.cloned().expect("the waitpoint was made")
    }

    /// All signals of an execution.
    pub async fn signals(&self, id: ExecutionId) -> Vec<Signal> {
        match self.list(&Query::Signals(id), 1_000).await {
            Rows::Signals(signals) => signals,
            other => panic!("signals were asked for, not {other:?}"),
        }
    }

    /// The waitpoints at which signals may arrive, of one execution or of all.
    pub async fn listening(&self, of: Option<ExecutionId>) -> Vec<Waitpoint> {
        match self.list(&Query::Waitpoints(of), 1_000).await {
            Rows::Waitpoints(rows) => rows.into_iter().map(|(row, _)| row).collect(),
            other => panic!("waitpoints were asked for, not {other:?}"),
        }
    }

    /// All suspended executions, the longest suspended first.
    pub async fn suspended(&self) -> Vec<ExecutionId> {
        match self.list(&Query::Suspended(Box::default()), 1_000).await {
            Rows::Suspended(rows) => rows.into_iter().map(|(x, _)| x.id).collect(),
            other => panic!("suspended executions were asked for, not {other:?}"),
        }
    }
}

/// The waitpoints of an answer.
pub fn mailboxes(id: ExecutionId, reply: &SuspendedReply) -> Vec<Mailbox> {
    reply.waitpoints.iter().map(|opened| Mailbox::of(id, opened)).collect()
}

/// What an accepted signal led to.
pub fn effect(outcome: Result<Delivered, Rejection>) -> Effect {
    match outcome.expect("the signal is accepted") {
        Delivered::Accepted { effect, .. } => effect,
        Delivered::Duplicate { existing_signal_id } => panic!("{existing_signal_id} was first"),
    }
}

/// A signal at a waitpoint, of this name or of any.
pub fn single(key: &str, signal: Option<&str>) -> ResumeCondition {
    ResumeCondition::Single { waitpoint: waitpoint_key(key), signal: signal.map(signal_name) }
}

/// The key of a waitpoint.
pub fn waitpoint_key(key: &str) -> WaitpointKey {
    WaitpointKey::new(key).expect("a valid key")
}

/// The name of a signal.
pub fn signal_name(name: &str) -> SignalName {
    SignalName::new(name).expect("a valid name")
}

/// Some time from now.
pub fn soon(w: &World, ms: u64) -> Option<Millis> {
    Some(w.now().plus(ms))
}
