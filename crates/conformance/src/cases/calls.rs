//! More words for cases: calls and looks that several groups of them make.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use ff_core::backend::{Due, Duty, EventPage, Interest, WorkFilter};
use ff_core::command::Command;
use ff_core::decide::cancel::Cancel;
use ff_core::decide::claim::{Claim, Leased};
use ff_core::decide::complete::Complete;
use ff_core::decide::delay::Delay;
use ff_core::decide::fail::Fail;
use ff_core::decide::hold::Hold;
use ff_core::decide::priority::{ChangePriority, PriorityChanged};
use ff_core::decide::progress::ReportProgress;
use ff_core::decide::release::Release;
use ff_core::decide::renew::Renew;
use ff_core::decide::replay::{Replay, Replayed};
use ff_core::decide::revoke::{Revoke, Revoked};
use ff_core::decide::tags::{Edit, SetTags};
use ff_core::decide::unhold::Unhold;
use ff_core::error::Rejection;
use ff_core::event::{Cursor, Filter};
use ff_core::execution::{Active, Fence, Tags, Terminal};
use ff_core::policy::FailureClass;
use ff_core::query::{Listing, Page, Query, Rows, Search};
use ff_core::text::Category;
use ff_core::time::Millis;
use ff_core::view::ExecutionSnapshot;
use ff_core::{ClaimAsk, Claimed, ExecutionId, State};
use serde_json::{Value, json};

use crate::world::{TTL_MS, World, worker};

impl World {
    /// Claims exactly this execution from lane `default`, as the worker `name`.
    pub async fn take_as(&self, id: ExecutionId, name: &str) -> Claimed {
        let ask = ClaimAsk { worker: worker(name), ..self.ask(1) };
        let claimed = self.claim(ask).await.pop();
        let claimed = claimed.unwrap_or_else(|| panic!("{id} is not claimable"));
        assert_eq!(claimed.leased.execution.id, id, "another one was next");
        claimed
    }

    /// Claims the ids it can get from lane `default`, in the order in which they were given.
    pub async fn take_ids(&self, max: u32) -> Vec<ExecutionId> {
        ids_of(&self.claim(self.ask(max)).await)
    }

    /// The claim of one execution by name, by worker `w1`.
    pub fn naming(&self, id: ExecutionId) -> Claim {
        Claim {
            id,
            worker: worker("w1"),
            capabilities: BTreeSet::new(),
            lease_ttl_ms: TTL_MS,
            claim_id: self.uuid(),
        }
    }

    /// Claims one execution by name.
    pub async fn claim_by_name(&self, id: ExecutionId) -> Result<Leased, Rejection> {
        self.run(self.naming(id)).await
    }

    /// Creates one, claims it and completes it.
    pub async fn finished(&self, policy: Value) -> ExecutionId {
        let (id, fence) = self.running(policy).await;
        self.complete(id, fence).await.expect("it is held");
        id
    }

    /// Gives an execution back until `delay_until`.
    pub async fn delay(
        &self,
        id: ExecutionId,
        fence: Fence,
        delay_until: Millis,
    ) -> Result<Millis, Rejection> {
        let delayed = self.run(Delay { id, fence, delay_until, steps: Vec::new() }).await?;
        Ok(delayed.delay_until)
    }

    /// Undoes a claim.
    pub async fn release(&self, id: ExecutionId, fence: Fence) -> Result<(), Rejection> {
        self.run(Release { id, fence, untaken: false }).await
    }

    /// Holds, for the reason `look first`.
    pub async fn hold(&self, id: ExecutionId) -> Result<(), Rejection> {
        let reason = "look first".to_owned();
        self.run(Hold { id, reason, version: None }).await
    }

    /// Lets go.
    pub async fn unhold(&self, id: ExecutionId) -> Result<(), Rejection> {
        self.run(Unhold { id, version: None }).await
    }

    /// Replays it alone, for the reason `once more`.
    pub async fn replay(&self, id: ExecutionId) -> Result<(), Rejection> {
        let reason = "once more".to_owned();
        self.run(Replay { id, reason, replays: None, downstream: false }).await.map(drop)
    }

    /// Replays it with what was skipped because of it, for the same reason.
    pub async fn replay_on(&self, id: ExecutionId) -> Result<Replayed, Rejection> {
        let reason = "once more".to_owned();
        self.run(Replay { id, reason, replays: None, downstream: true }).await
    }

    /// Takes whatever lease there is, for the reason `stuck`.
    pub async fn revoke(&self, id: ExecutionId) -> Result<Revoked, Rejection> {
        self.run(revocation(id)).await
    }

    /// Sets one tag.
    pub async fn tag(&self, id: ExecutionId, key: &str, value: &str) -> Result<usize, Rejection> {
        let edit = Edit { set: tags(&[(key, value)]), remove: BTreeSet::new(), version: None };
        self.run(SetTags { id, edit }).await
    }

    /// Changes how urgent it is.
    pub async fn prioritise(
        &self,
        id: ExecutionId,
        priority: i32,
    ) -> Result<PriorityChanged, Rejection> {
        self.run(ChangePriority { id, priority, version: None }).await
    }

    /// Moves due delays to where they are claimable; when the next one is due.
    pub async fn promote(&self) -> Option<Millis> {
        let claims = self.store.backend.claim(&[]).await;
        let claims = claims.expect("the store works");
        assert!(claims.given.is_empty(), "nothing was asked for");
        claims.next_due
    }

    /// What a duty has to do now, without doing it.
    pub async fn due(&self, duty: Duty, limit: u32) -> Due {
        let everything = WorkFilter::default();
        let due = self.store.backend.due(duty, &everything, limit).await;
        due.expect("the store works")
    }

    /// What a person sees of it.
    pub async fn snapshot(&self, id: ExecutionId) -> ExecutionSnapshot {
        ExecutionSnapshot::of(&self.get(id).await, self.now())
    }

    /// How it ended; it must have.
    pub async fn ending(&self, id: ExecutionId) -> Terminal {
        match self.get(id).await.state.clone() {
            State::Terminal(terminal) => terminal,
            other => panic!("{id} has not ended: {other:?}"),
        }
    }

    /// Who holds it; somebody must.
    pub async fn active(&self, id: ExecutionId) -> Active {
        match self.get(id).await.state.clone() {
            State::Active(active) => active,
            other => panic!("nobody holds {id}: {other:?}"),
        }
    }

    /// A page of the feed.
    pub async fn feed(&self, from: &Cursor, filter: &Filter, limit: u32) -> EventPage {
        let page = self.store.backend.events(from, filter, limit).await;
        page.expect("the store works")
    }

    /// The executions in the feed that the filter lets through, in order.
    pub async fn heard(&self, filter: &Filter) -> Vec<ExecutionId> {
        let page = self.feed(&Cursor::Start, filter, 1_000).await;
        page.events.iter().map(|e| e.event.subject()).collect()
    }

    /// A page of a listing.
    pub async fn page(&self, query: &Query, page: &Page) -> Listing {
        let listing = self.store.backend.list(query, page).await;
        listing.expect("the store works")
    }

    /// The executions a search finds, in order.
    pub async fn search(&self, search: Search) -> Vec<ExecutionId> {
        match self.list(&Query::Executions(Box::new(search)), 1_000).await {
            Rows::Executions(found) => found.iter().map(|x| x.id).collect(),
            other => panic!("executions were asked for, not {other:?}"),
        }
    }

    /// Waits for what must have happened since `seen`.
    pub async fn woken(&self, interest: Interest, seen: u64) {
        let wait = self.store.backend.wait(interest, seen);
        // Only a store that forgets to wake its readers reaches the limit.
        let woken = tokio::time::timeout(Duration::from_secs(10), wait).await;
        woken.unwrap_or_else(|_| panic!("nobody was woken: {interest:?}"));
    }

    /// Everything stored, in words, to tell whether anything changed.
    pub fn rows(&self) -> String {
        format!("{:?}", (self.store.dump)())
    }
}

/// The ids of what was claimed, in the order in which it was given.
pub fn ids_of(claimed: &[Claimed]) -> Vec<ExecutionId> {
    claimed.iter().map(|c| c.leased.execution.id).collect()
}

/// Tags.
pub fn tags(pairs: &[(&str, &str)]) -> Tags {
    let owned = pairs.iter();
    owned.map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// A set of capabilities.
pub fn capabilities(tokens: &[&str]) -> BTreeSet<String> {
    tokens.iter().map(|token| (*token).to_owned()).collect()
}

/// A policy that requires capabilities.
pub fn requiring(tokens: &[&str]) -> Value {
    json!({"routing_requirements": {"required_capabilities": tokens}})
}

/// A policy that retries after a fixed time.
pub fn retrying(max_retries: u32, delay_ms: u64) -> Value {
    let backoff = json!({"type": "fixed", "delay_ms": delay_ms});
    json!({"retry_policy": {"max_retries": max_retries, "backoff": backoff}})
}

/// A completion with these bytes.
pub fn completion(id: ExecutionId, fence: Fence, result: &[u8]) -> Complete {
    Complete { id, fence, result: Some(Bytes::copy_from_slice(result)), encoding: None }
}

/// Sizes of inputs and results around those at which a store may keep them in another way.
pub const SIZES: [usize; 6] = [1, 256, 257, 2_000, 8_192, 8_193];

/// A failure of this class and category.
pub fn failure(id: ExecutionId, fence: Fence, class: FailureClass, category: &str) -> Fail {
    Fail {
        id,
        fence,
        reason: "it broke".to_owned(),
        category: Category::new(category).expect("a valid category"),
        class,
    }
}

/// An operator's cancellation.
pub fn cancellation(id: ExecutionId) -> Cancel {
    Cancel { id, reason: "changed my mind".to_owned(), fence: None, replays: None }
}

/// A revocation of whatever lease there is.
pub fn revocation(id: ExecutionId) -> Revoke {
    Revoke { id, expected: None, worker_instance: None, reason: "stuck".to_owned() }
}

/// A report of progress.
pub fn progress(id: ExecutionId, fence: Fence, percent: u8) -> ReportProgress {
    ReportProgress { id, fence, percent: Some(percent), message: None, after: None }
}

/// Every call that needs a lease.
pub fn worker_calls(id: ExecutionId, fence: Fence) -> Vec<Command> {
    let cancel = Cancel { fence: Some(fence), ..cancellation(id) };
    let delay = Delay { id, fence, delay_until: Millis::ZERO, steps: Vec::new() };
    let renew = Renew { id, fence, lease_ttl_ms: TTL_MS };
    vec![
        renew.into(),
        progress(id, fence, 50).into(),
        completion(id, fence, b"late").into(),
        failure(id, fence, FailureClass::Transient, "oops").into(),
        delay.into(),
        Release { id, fence, untaken: false }.into(),
        cancel.into(),
    ]
}

/// Every call that an operator makes.
pub fn operator_calls(id: ExecutionId) -> Vec<Command> {
    let reason = "why not".to_owned();
    vec![
        cancellation(id).into(),
        revocation(id).into(),
        Replay { id, reason: reason.clone(), replays: None, downstream: true }.into(),
        ChangePriority { id, priority: 7, version: None }.into(),
        Hold { id, reason, version: None }.into(),
        Unhold { id, version: None }.into(),
        SetTags { id, edit: Edit::default() }.into(),
    ]
}
