//! Save cursor: a durable consumer says how far it has dealt with the feed.
//!
//! The first one registers the consumer; from then on retention keeps what it has not seen. A
//! cursor may move back, to read again; one of another kind of store is refused. Sent twice: the
//! same answer. A store that sends it again does so for the save that it follows: neither is a newer
//! one undone, nor a consumer that was dropped registered again.

use super::{COMMAND_BYTES, Decide, Repeat};
use crate::command::Traffic;
use crate::error::{Code, Rejection};
use crate::event::Cursor;
use crate::fold::{Change, Consumer, Cx, Effects, Key, WorkingSet};
use crate::limits::Config;
use crate::text::ConsumerName;
use crate::time::Millis;

/// Keep a consumer's place in the feed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SaveCursor {
    /// Whose.
    pub consumer: ConsumerName,
    /// It has dealt with everything up to here.
    pub cursor: Cursor,
    /// Only if it was last saved then, at [`Millis::ZERO`] if never; whenever it was when it does not say.
    pub saved: Option<Millis>,
}

impl Decide for SaveCursor {
    type Reply = ();
    const NAME: &'static str = "save_cursor";
    const TRAFFIC: Traffic = Traffic::Admin;
    const REPEAT: Repeat = Repeat {
        by: "the save that it follows",
        late: "`version_conflict` once the consumer was saved elsewhere or dropped; \
            the first save registers it",
    };

    fn validate(&self, _: &Config) -> Result<(), Rejection> {
        Ok(())
    }

    fn bytes(&self) -> usize {
        COMMAND_BYTES + self.cursor.bytes()
    }

    fn keys(&self, _: &WorkingSet) -> Vec<Key> {
        vec![Key::Consumer(self.consumer.clone())]
    }

    fn decide(&self, have: &WorkingSet, cx: &mut Cx<'_>) -> Result<Change<()>, Rejection> {
        cx.cursors.check(&self.cursor)?;
        let row = have.consumers.get(&self.consumer).and_then(Option::as_ref);
        if self.saved.is_some_and(|seen| seen != last(row)) {
            if row.is_some_and(|row| row.cursor == self.cursor) {
                return Ok(Change::none(()));
            }
            return Err(moved(&self.consumer));
        }
        let row = Consumer { cursor: self.cursor.clone(), updated_at: cx.now };
        let consumer = Some((self.consumer.clone(), Some(row)));
        Ok(Change { reply: (), effects: Effects { consumer, ..Effects::default() } })
    }

    fn pinned(&self, have: &WorkingSet) -> Option<Self> {
        let row = have.consumers.get(&self.consumer)?.as_ref();
        self.saved.is_none().then(|| Self { saved: Some(last(row)), ..self.clone() })
    }
}

/// When a consumer was last saved.
fn last(row: Option<&Consumer>) -> Millis {
    row.map_or(Millis::ZERO, |row| row.updated_at)
}

/// Somebody else saved or dropped it.
pub(super) fn moved(consumer: &ConsumerName) -> Rejection {
    let said = format!("consumer {consumer} was saved or dropped in between");
    Rejection::new(Code::VersionConflict, said)
}
