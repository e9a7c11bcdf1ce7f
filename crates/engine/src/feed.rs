//! Following the event feed: with a cursor of one's own, or as a consumer whose place is kept.

use std::time::Duration;

use ff_core::backend::Interest;
use ff_core::decide::consumer::SaveCursor;
use ff_core::decide::drop_consumer::DropConsumer;
use ff_core::event::{Cursor, Filter};
use ff_core::fold::Key;
use ff_core::query::{After, Page, Query, Rows};
use ff_core::text::ConsumerName;
use ff_core::view::ConsumerSnapshot;
use ff_core::{Code, EventPage, Rejection, WorkingSet};
use tokio::time::Instant;

use crate::{Engine, Error, deadline};

impl Engine {
    /// Events after `from`; waits up to `wait` until there are some.
    pub async fn read_events(
        &self,
        from: &Cursor,
        filter: &Filter,
        limit: u32,
        wait: Duration,
    ) -> Result<EventPage, Error> {
        let deadline = deadline(wait);
        let mut from = from.clone();
        loop {
            let seen = self.backend.generation(Interest::Events);
            let page = self.backend.events(&from, filter, limit).await?;
            let left = deadline.saturating_duration_since(Instant::now());
            if !page.events.is_empty() || left.is_zero() {
                return Ok(page);
            }
            from = page.next;
            let news = self.backend.wait(Interest::Events, seen);
            // Either way it is time to look again.
            let _ = tokio::time::timeout(left.min(self.poll), news).await;
        }
    }

    /// The newest place in the feed: what happens from now on.
    pub async fn feed_tail(&self) -> Result<Cursor, Error> {
        Ok(self.backend.tail().await?)
    }

    /// A consumer whose place the store keeps. A new one begins at `Cursor::Start`.
    pub async fn consumer(&self, name: ConsumerName) -> Result<Consumer, Error> {
        let key = Key::Consumer(name.clone());
        let WorkingSet { mut consumers, .. } = self.backend.get(&[key]).await?;
        let at = if let Some(known) = consumers.remove(&name).flatten() {
            known.cursor
        } else {
            // Registered before anything is read, so that retention waits for it from now on.
            let save = SaveCursor { consumer: name.clone(), cursor: Cursor::Start, saved: None };
            self.execute(save).await?;
            Cursor::Start
        };
        Ok(Consumer { engine: self.clone(), name, at })
    }

    /// Consumers by name, after `after`, and when each last said how far it is; and where the next page
    /// begins.
    pub async fn list_consumers(
        &self,
        after: Option<ConsumerName>,
        limit: u32,
    ) -> Result<(Vec<ConsumerSnapshot>, Option<ConsumerName>), Error> {
        let page = Page { after: after.map(|name| After::Name(name.into())), limit };
        let listing = self.backend.list(&Query::Consumers, &page).await?;
        let more = listing.next.is_some();
        let names = rows!(Consumers, listing.rows);
        let next = names.last().filter(|_| more).cloned();
        let keys: Vec<_> = names.iter().cloned().map(Key::Consumer).collect();
        let WorkingSet { mut consumers, .. } = self.backend.get(&keys).await?;
        // One that is gone by now is not listed.
        let found = names.into_iter().filter_map(|name| {
            let acknowledged_at = consumers.remove(&name)??.updated_at;
            Some(ConsumerSnapshot { name, acknowledged_at })
        });
        Ok((found.collect(), next))
    }

    /// Forgets a consumer; retention no longer waits for it.
    pub async fn drop_consumer(&self, consumer: ConsumerName) -> Result<(), Error> {
        self.execute(DropConsumer { consumer, saved: None }).await
    }
}

/// A reader of the feed whose place survives it. Everything is delivered at least once.
pub struct Consumer {
    engine: Engine,
    name: ConsumerName,
    at: Cursor,
}

impl Consumer {
    /// The last acknowledged place.
    pub fn cursor(&self) -> &Cursor {
        &self.at
    }

    /// What happened after the last acknowledged place; waits up to `wait`.
    ///
    /// When nothing that the filter lets through happened, the place moves on by itself, so that
    /// retention does not wait for events that this consumer does not want. When nothing happened
    /// at all, it stays.
    pub async fn next(
        &mut self,
        filter: &Filter,
        limit: u32,
        wait: Duration,
    ) -> Result<EventPage, Error> {
        let page = self.engine.read_events(&self.at, filter, limit, wait).await?;
        if page.events.is_empty() && page.next.has_passed(&self.at) {
            self.acknowledge(&page.next).await?;
        }
        Ok(page)
    }

    /// Everything up to `cursor` is dealt with, for good.
    pub async fn acknowledge(&mut self, cursor: &Cursor) -> Result<(), Error> {
        if cursor.is_beyond(&self.engine.feed_tail().await?) {
            let why = "lies beyond the newest event; acknowledge what a page returned";
            return Err(Rejection::invalid(Code::InvalidInput, "cursor", cursor, why).into());
        }
        // One that was dropped stays dropped: only `Engine::consumer` registers.
        let key = Key::Consumer(self.name.clone());
        self.engine.backend.get(&[key]).await?.consumer(&self.name)?;
        let save = SaveCursor { consumer: self.name.clone(), cursor: cursor.clone(), saved: None };
        self.engine.execute(save).await?;
        self.at = cursor.clone();
        Ok(())
    }
}
