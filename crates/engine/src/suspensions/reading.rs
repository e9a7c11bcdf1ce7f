//! Reading what waits, for what, and what came.

use std::collections::BTreeMap;

use ff_core::decide::mailbox::token;
use ff_core::fold::WaitKey;
use ff_core::query::{After, Page, Query, Rows, SuspendedSearch};
use ff_core::suspension::{Arrival, Signal};
use ff_core::token::Token;
use ff_core::view::{SuspensionSnapshot, WaitpointSnapshot};
use ff_core::{ExecutionId, Fence, Key};
use uuid::Uuid;

use crate::{Engine, Error};

/// Entries of a page when nobody says.
const PAGE_DEFAULT: u32 = 100;
/// Signals that are read together: each may carry 64 KiB.
const SIGNALS_AT_ONCE: usize = 100;

impl Engine {
    /// Waitpoints at which signals may arrive, of one execution or of all, by id; and where the next
    /// page begins.
    pub async fn list_pending_waitpoints(
        &self,
        of: Option<ExecutionId>,
        after: Option<After>,
        limit: Option<u32>,
    ) -> Result<(Vec<WaitpointSnapshot>, Option<After>), Error> {
        if let Some(id) = of {
            self.existing(id).await?;
        }
        let page = Page { after, limit: limit.unwrap_or(PAGE_DEFAULT) };
        let listing = self.backend.list(&Query::Waitpoints(of), &page).await?;
        let rows = rows!(Waitpoints, listing.rows);
        // What came is looked at only where it says who has decided.
        let asked = rows.iter().filter(|(row, suspension)| {
            WaitpointSnapshot::of(row, suspension.as_ref(), &[]).approval.is_some()
        });
        let arrived = self.arrived(asked.map(|(row, _)| row.execution)).await?;
        let seen = rows.iter().map(|(row, suspension)| {
            let own = arrived.get(&row.execution).into_iter().flat_map(BTreeMap::values);
            WaitpointSnapshot::of(row, suspension.as_ref(), &own.collect::<Vec<_>>())
        });
        Ok((seen.collect(), listing.next))
    }

    /// What arrived at the open waitpoints of executions.
    async fn arrived(
        &self,
        ids: impl Iterator<Item = ExecutionId>,
    ) -> Result<BTreeMap<ExecutionId, BTreeMap<u32, Arrival>>, Error> {
        let mut keys: Vec<_> = ids.map(|id| Key::Wait(WaitKey::Arrived(id))).collect();
        keys.sort_unstable();
        keys.dedup();
        if keys.is_empty() {
            return Ok(BTreeMap::new());
        }
        Ok(self.backend.get(&keys).await?.waits.arrived)
    }

    /// Suspended executions with what they wait for, the longest suspended first; and where the next
    /// page begins.
    pub async fn list_suspended(
        &self,
        search: SuspendedSearch,
        page: &Page,
    ) -> Result<(Vec<SuspensionSnapshot>, Option<After>), Error> {
        let listing = self.backend.list(&Query::Suspended(Box::new(search)), page).await?;
        let rows = rows!(Suspended, listing.rows);
        let seen = rows.iter().map(|(x, row)| SuspensionSnapshot::of(x, row)).collect();
        Ok((seen, listing.next))
    }

    /// The last suspension of an execution, if it has been suspended.
    pub async fn describe_suspension(
        &self,
        id: ExecutionId,
    ) -> Result<Option<SuspensionSnapshot>, Error> {
        let have =
            self.backend.get(&[Key::Execution(id), Key::Wait(WaitKey::Suspension(id))]).await?;
        let x = have.execution(id)?;
        Ok(have.waits.suspension(id).map(|row| SuspensionSnapshot::of(x, row)))
    }

    /// The signals of an execution in the order in which they came; and where the next page begins.
    pub async fn list_signals(
        &self,
        id: ExecutionId,
        page: &Page,
    ) -> Result<(Vec<Signal>, Option<After>), Error> {
        let listing = self.backend.list(&Query::Signals(id), page).await?;
        Ok((rows!(Signals, listing.rows), listing.next))
    }

    /// The signals that satisfied the last suspension, for the attempt that goes on with them:
    /// nothing after an operator resumed it, or when another attempt waited.
    pub async fn observe_signals(
        &self,
        id: ExecutionId,
        fence: Fence,
    ) -> Result<Vec<Signal>, Error> {
        match self.describe_suspension(id).await? {
            Some(last) if last.attempt_index == fence.attempt_index => {
                self.satisfying(id, &last.satisfied_by).await
            }
            Some(_) | None => Ok(Vec::new()),
        }
    }

    /// Those of the signals of an execution, in the order in which they came.
    pub async fn satisfying(&self, id: ExecutionId, ids: &[Uuid]) -> Result<Vec<Signal>, Error> {
        let mut found: Vec<Signal> = Vec::with_capacity(ids.len());
        for some in ids.chunks(SIGNALS_AT_ONCE) {
            let some = Query::SomeSignals(id, some.iter().copied().collect());
            found.extend(rows!(Signals, self.rows(&some).await?));
        }
        found.sort_by_key(|signal| signal.number);
        Ok(found)
    }

    /// The token of a waitpoint, made again: with the current key, once the one that signed it first is no
    /// longer accepted. Nothing where the store has no keys.
    pub async fn read_waitpoint_token(
        &self,
        id: ExecutionId,
        waitpoint: Uuid,
    ) -> Result<Option<Token>, Error> {
        let (row, _) = self.waitpoint(id, waitpoint).await?;
        let now = self.backend.now().await?;
        Ok(token(&row, Some(&self.keyring().await?), now))
    }
}
