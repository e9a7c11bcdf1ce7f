//! Creating, reading and steering executions.

use std::collections::BTreeSet;
use std::time::Duration;

use ff_core::backend::{Ended, Fate, Interest, Kept};
use ff_core::decide::cancel::Cancel;
use ff_core::decide::create::{Create, Created};
use ff_core::decide::hold::Hold;
use ff_core::decide::priority::{ChangePriority, PriorityChanged};
use ff_core::decide::replay::{Replay, Replayed};
use ff_core::decide::revoke::{Revoke, Revoked};
use ff_core::decide::tags::{Edit, SetTags};
use ff_core::decide::unhold::Unhold;
use ff_core::event::{Cursor, Filter};
use ff_core::execution::Tags;
use ff_core::fold::{Blob, BlobRef, Key};
use ff_core::limits::PAGE_MAX;
use ff_core::query::{After, Count, Depth, Page, Query, Rows, Search};
use ff_core::state::{PublicState, public_state};
use ff_core::step::StepRecord;
use ff_core::text::{Kind, LaneId, Namespace};
use ff_core::view::{AttemptLine, ExecutionInfo, ExecutionSnapshot, History};
use ff_core::{Code, Execution, ExecutionId, Partition, Rejection};
use tokio::time::Instant;

use crate::{Engine, Error, deadline};

/// What a worker needs to run an execution.
#[derive(Clone, Debug, PartialEq)]
pub struct Context {
    /// What to work on; nothing when it was created with none.
    pub input: Option<Blob>,
    /// What kind of work it is.
    pub execution_kind: Kind,
    /// Its tags.
    pub tags: Tags,
}

impl Engine {
    /// Creates an execution, or finds the one that this creation made before.
    pub async fn create_execution(&self, create: Create) -> Result<Created, Error> {
        self.execute(create).await
    }

    /// Creates many; each has its own answer.
    pub async fn create_executions(
        &self,
        creates: Vec<Create>,
    ) -> Result<Vec<Result<Created, Rejection>>, Error> {
        self.execute_all(creates).await
    }

    /// Cancels an execution as an operator, whatever it is doing.
    pub async fn cancel_execution(
        &self,
        id: ExecutionId,
        reason: impl Into<String>,
    ) -> Result<(), Error> {
        self.execute(Cancel { id, reason: reason.into(), fence: None, replays: None }).await
    }

    /// Has a finished execution run again, and what was skipped because of it wait for it again.
    pub async fn replay_execution(
        &self,
        id: ExecutionId,
        reason: impl Into<String>,
    ) -> Result<Replayed, Error> {
        self.execute(Replay { id, reason: reason.into(), replays: None, downstream: true }).await
    }

    /// Takes a lease away.
    pub async fn revoke_lease(&self, revoke: Revoke) -> Result<Revoked, Error> {
        self.execute(revoke).await
    }

    /// Changes how urgent a waiting execution is.
    pub async fn change_priority(
        &self,
        id: ExecutionId,
        priority: i32,
    ) -> Result<PriorityChanged, Error> {
        self.execute(ChangePriority { id, priority, version: None }).await
    }

    /// Keeps a waiting execution from being claimed.
    pub async fn hold_execution(
        &self,
        id: ExecutionId,
        reason: impl Into<String>,
    ) -> Result<(), Error> {
        self.execute(Hold { id, reason: reason.into(), version: None }).await
    }

    /// Lets a held execution be claimed again.
    pub async fn unhold_execution(&self, id: ExecutionId) -> Result<(), Error> {
        self.execute(Unhold { id, version: None }).await
    }

    /// Sets one tag.
    pub async fn set_execution_tag(
        &self,
        id: ExecutionId,
        key: impl Into<String>,
        value: impl Into<String>,
    ) -> Result<(), Error> {
        let set = Tags::from([(key.into(), value.into())]);
        self.set_execution_tags(id, Edit { set, remove: BTreeSet::new(), version: None })
            .await
            .map(drop)
    }

    /// Sets and removes tags; answers how many there are now.
    pub async fn set_execution_tags(&self, id: ExecutionId, edit: Edit) -> Result<usize, Error> {
        self.execute(SetTags { id, edit }).await
    }

    /// The execution itself, if it exists.
    pub async fn find_execution(&self, id: ExecutionId) -> Result<Option<Execution>, Error> {
        let mut have = self.backend.get(&[Key::Execution(id)]).await?;
        Ok(have.executions.remove(&id).flatten())
    }

    pub(crate) async fn existing(&self, id: ExecutionId) -> Result<Execution, Error> {
        let found = self.find_execution(id).await?;
        found.ok_or_else(|| Rejection::execution_not_found(id).into())
    }

    /// Everything a person wants to see of it.
    pub async fn describe_execution(
        &self,
        id: ExecutionId,
    ) -> Result<Option<ExecutionSnapshot>, Error> {
        let now = self.backend.now().await?;
        let found = self.find_execution(id).await?;
        Ok(found.map(|x| ExecutionSnapshot::of(&x, now)))
    }

    /// Its state vector.
    pub async fn read_execution_info(
        &self,
        id: ExecutionId,
    ) -> Result<Option<ExecutionInfo>, Error> {
        let now = self.backend.now().await?;
        Ok(self.find_execution(id).await?.map(|x| ExecutionInfo::of(&x, now)))
    }

    /// The one word for where it stands.
    pub async fn read_execution_state(
        &self,
        id: ExecutionId,
    ) -> Result<Option<PublicState>, Error> {
        let now = self.backend.now().await?;
        Ok(self.find_execution(id).await?.map(|x| public_state(&x, now)))
    }

    /// What a worker needs to run it.
    pub async fn read_execution_context(&self, id: ExecutionId) -> Result<Context, Error> {
        let x = self.existing(id).await?;
        let upstream = match x.input_from {
            Some(from) => self.find_execution(from).await?,
            None => None,
        };
        let input = self.backend.blobs(&[BlobRef::input(&x, upstream.as_ref())]).await?.pop();
        Ok(Context { input, execution_kind: x.spec.kind.clone(), tags: x.tags.clone() })
    }

    /// The index of the attempt under way, or of the last one.
    pub async fn read_current_attempt_index(&self, id: ExecutionId) -> Result<u32, Error> {
        Ok(self.existing(id).await?.counts.attempts.saturating_sub(1))
    }

    /// Attempts so far.
    pub async fn read_total_attempt_count(&self, id: ExecutionId) -> Result<u32, Error> {
        Ok(self.existing(id).await?.counts.attempts)
    }

    /// Its result; nothing unless it succeeded with one.
    pub async fn get_execution_result(&self, id: ExecutionId) -> Result<Option<Blob>, Error> {
        match self.backend.fate(id).await? {
            Fate::Ended(ended) => self.result_of(ended).await,
            Fate::Unknown | Fate::Open => Ok(None),
        }
    }

    /// Its namespace.
    pub async fn get_execution_namespace(
        &self,
        id: ExecutionId,
    ) -> Result<Option<Namespace>, Error> {
        Ok(self.find_execution(id).await?.map(|x| x.spec.namespace.clone()))
    }

    /// The value of one of its tags.
    pub async fn get_execution_tag(
        &self,
        id: ExecutionId,
        key: &str,
    ) -> Result<Option<String>, Error> {
        Ok(self.find_execution(id).await?.and_then(|x| x.tags.get(key).cloned()))
    }

    /// Everything that happened to it.
    pub async fn history(&self, id: ExecutionId) -> Result<Option<History>, Error> {
        let now = self.backend.now().await?;
        let Some(x) = self.find_execution(id).await? else { return Ok(None) };
        let over = self.backend.list(&Query::Attempts(id), &Page::first(PAGE_MAX)).await?;
        let ended = rows!(Attempts, over.rows).into_iter().map(AttemptLine::from);
        let attempts = ended.chain(AttemptLine::current(&x)).collect();
        let (steps, more_steps) = self.list_steps(id, None, PAGE_MAX).await?;
        let filter = Filter { execution: Some(id), ..Filter::default() };
        let events = self.backend.events(&Cursor::Start, &filter, PAGE_MAX).await?.events;
        let full = usize::try_from(PAGE_MAX).is_ok_and(|max| events.len() >= max);
        let more = over.next.is_some() || more_steps.is_some() || full;
        let snapshot = ExecutionSnapshot::of(&x, now);
        Ok(Some(History { snapshot, attempts, steps, events, more }))
    }

    /// Waits until it has ended, up to `wait`; the state it is in then.
    pub async fn await_execution(
        &self,
        id: ExecutionId,
        wait: Duration,
    ) -> Result<PublicState, Error> {
        Ok(self.ended(id, wait).await?.state)
    }

    /// Waits until it has ended, up to `wait`; the state it is in then, and its result if it succeeded
    /// with one.
    pub async fn await_result(
        &self,
        id: ExecutionId,
        wait: Duration,
    ) -> Result<(PublicState, Option<Blob>), Error> {
        let ended = self.ended(id, wait).await?;
        Ok((ended.state, self.result_of(ended).await?))
    }

    async fn result_of(&self, ended: Ended) -> Result<Option<Blob>, Error> {
        match ended.result {
            None => Ok(None),
            Some(Kept::Here(result)) => Ok(Some(result)),
            Some(Kept::There(at)) => Ok(self.backend.blobs(&[at]).await?.pop()),
        }
    }

    async fn ended(&self, id: ExecutionId, wait: Duration) -> Result<Ended, Error> {
        let deadline = deadline(wait);
        let mut ending = self.queues.shared.endings.of(id);
        tokio::select! {
            // Who is told need not look, whichever wakes first.
            biased;
            ended = ending.told() => Ok(ended),
            ended = self.look_until_terminal(id, deadline) => ended,
        }
    }

    async fn look_until_terminal(
        &self,
        id: ExecutionId,
        deadline: Instant,
    ) -> Result<Ended, Error> {
        loop {
            let seen = self.backend.generation(Interest::Events);
            match self.backend.fate(id).await? {
                Fate::Ended(ended) => return Ok(ended),
                Fate::Unknown => return Err(Rejection::execution_not_found(id).into()),
                Fate::Open => {}
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let now = self.backend.now().await?;
                let x = self.existing(id).await?;
                let result = BlobRef::result(&x).map(Kept::There);
                return Ok(Ended { state: public_state(&x, now), result });
            }
            let news = self.backend.wait(Interest::Events, seen);
            // Either way it is time to look again.
            let _ = tokio::time::timeout(left.min(self.poll), news).await;
        }
    }

    pub(crate) async fn rows(&self, query: &Query) -> Result<Rows, Error> {
        Ok(self.backend.list(query, &Page::first(PAGE_MAX)).await?.rows)
    }

    /// Ids in one partition, ascending, after `after`; and where the next page begins.
    pub async fn list_executions(
        &self,
        partition: Partition,
        after: Option<ExecutionId>,
        limit: u32,
    ) -> Result<(Vec<ExecutionId>, Option<ExecutionId>), Error> {
        if let Some(other) = after.filter(|id| id.partition() != partition) {
            return Err(misplaced(other));
        }
        let page = Page { after: after.map(After::Id), limit };
        let listing = self.backend.list(&Query::Partition(partition), &page).await?;
        let next = listing.next.as_ref().map(id_of);
        Ok((rows!(Ids, listing.rows), next))
    }

    /// Executions over all partitions, newest first; and where the next page begins.
    pub async fn search_executions(
        &self,
        search: Search,
        page: &Page,
    ) -> Result<(Vec<ExecutionSnapshot>, Option<After>), Error> {
        newest_first(page)?;
        let now = self.backend.now().await?;
        let listing = self.backend.list(&Query::Executions(Box::new(search)), page).await?;
        let found = rows!(Executions, listing.rows);
        Ok((found.iter().map(|x| ExecutionSnapshot::of(x, now)).collect(), listing.next))
    }

    /// What it has done, in order, after some number; and where the next page begins.
    pub async fn list_steps(
        &self,
        id: ExecutionId,
        after: Option<u32>,
        limit: u32,
    ) -> Result<(Vec<StepRecord>, Option<u32>), Error> {
        let page = Page { after: after.map(After::Number), limit };
        let listing = self.backend.list(&Query::Steps(id), &page).await?;
        let steps = rows!(Steps, listing.rows);
        let next = listing.next.and_then(|_| Some(steps.last()?.step.number));
        Ok((steps, next))
    }

    /// How much is claimable in each lane.
    pub async fn lane_depths(&self) -> Result<Vec<Depth>, Error> {
        Ok(rows!(Depths, self.rows(&Query::Depths).await?))
    }

    /// How many executions are in each lane and state.
    pub async fn count_executions(&self) -> Result<Vec<Count>, Error> {
        Ok(rows!(Counts, self.rows(&Query::Counts).await?))
    }

    /// Lanes in lexical order after `after`; and where the next page begins.
    pub async fn list_lanes(
        &self,
        after: Option<LaneId>,
        limit: u32,
    ) -> Result<(Vec<LaneId>, Option<LaneId>), Error> {
        let page = Page { after: after.map(|lane| After::Name(lane.into())), limit };
        let listing = self.backend.list(&Query::Lanes, &page).await?;
        let lanes = rows!(Lanes, listing.rows);
        let next = listing.next.and_then(|_| lanes.last().cloned());
        Ok((lanes, next))
    }
}

/// Refuses a position that is not one of a listing by time.
pub(crate) fn newest_first(page: &Page) -> Result<(), Error> {
    match &page.after {
        None | Some(After::Created(..)) => Ok(()),
        Some(
            After::Id(_) | After::Number(_) | After::Name(_) | After::Uuid(_) | After::Within(..),
        ) => Err(misplaced(format!("{:?}", page.after))),
    }
}

/// Where the next page of a listing by id begins.
pub(crate) fn id_of(next: &After) -> ExecutionId {
    let After::Id(id) = next else { unreachable!("ids go on after ids, not {next:?}") };
    *id
}

/// A place in another listing.
fn misplaced(after: impl std::fmt::Display) -> Error {
    let why = "is not a place in this listing; use one that it returned";
    Rejection::invalid(Code::InvalidInput, "after", after, why).into()
}
