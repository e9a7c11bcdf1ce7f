//! Save cursor: a durable consumer says how far it has dealt with the feed.
//!
//! The first one registers the consumer; from then on retention keeps what it has not seen. A
//! cursor may move back, to read again; one of another kind of store is refused. Sent twice: the
//! same answer.

use super::{COMMAND_BYTES, Decide};
use crate::command::Traffic;
use crate::error::Rejection;
use crate::event::Cursor;
use crate::fold::{Change, Consumer, Cx, Effects, Key, WorkingSet};
use crate::limits::Config;
use crate::text::ConsumerName;

/// Keep a consumer's place in the feed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SaveCursor {
    /// Whose.
    pub consumer: ConsumerName,
    /// It has dealt with everything up to here.
    pub cursor: Cursor,
}

impl Decide for SaveCursor {
    type Reply = ();
    const NAME: &'static str = "save_cursor";
    const TRAFFIC: Traffic = Traffic::Admin;

    fn validate(&self, _: &Config) -> Result<(), Rejection> {
        Ok(())
    }

    fn bytes(&self) -> usize {
        COMMAND_BYTES + self.cursor.bytes()
    }

    fn keys(&self, _: &WorkingSet) -> Vec<Key> {
        vec![Key::Consumer(self.consumer.clone())]
    }

    fn decide(&self, _: &WorkingSet, cx: &mut Cx<'_>) -> Result<Change<()>, Rejection> {
        cx.cursors.check(&self.cursor)?;
        let row = Consumer { cursor: self.cursor.clone(), updated_at: cx.now };
        let consumer = Some((self.consumer.clone(), Some(row)));
        Ok(Change { reply: (), effects: Effects { consumer, ..Effects::default() } })
    }
}
