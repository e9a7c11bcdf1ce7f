//! Drop consumer: a durable consumer is no longer waited for.
//!
//! Sent twice: `consumer_not_found` tells that it is gone. Sent again after it was registered again, it is
//! kept.

use super::consumer::moved;
use super::{Again, COMMAND_BYTES, Decide, Repeat};
use crate::command::Traffic;
use crate::error::{Code, Rejection};
use crate::fold::{Change, Cx, Effects, Key, WorkingSet};
use crate::limits::Config;
use crate::text::ConsumerName;
use crate::time::Millis;

/// Forget a consumer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropConsumer {
    /// Which.
    pub consumer: ConsumerName,
    /// Only if it was last saved then; whenever it was when it does not say.
    pub saved: Option<Millis>,
}

impl Decide for DropConsumer {
    type Reply = ();
    const NAME: &'static str = "drop_consumer";
    const TRAFFIC: Traffic = Traffic::Admin;
    const REPEAT: Repeat = Repeat {
        by: "the last save of the consumer",
        late: "`consumer_not_found`, or `version_conflict` once the name was registered again",
    };

    fn validate(&self, _: &Config) -> Result<(), Rejection> {
        Ok(())
    }

    fn bytes(&self) -> usize {
        COMMAND_BYTES
    }

    fn keys(&self, _: &WorkingSet) -> Vec<Key> {
        vec![Key::Consumer(self.consumer.clone())]
    }

    fn decide(&self, have: &WorkingSet, _: &mut Cx<'_>) -> Result<Change<()>, Rejection> {
        let row = have.consumer(&self.consumer)?;
        if self.saved.is_some_and(|seen| seen != row.updated_at) {
            return Err(moved(&self.consumer));
        }
        let consumer = Some((self.consumer.clone(), None));
        Ok(Change { reply: (), effects: Effects { consumer, ..Effects::default() } })
    }

    fn pinned(&self, have: &WorkingSet) -> Option<Self> {
        let row = have.consumer(&self.consumer).ok()?;
        self.saved.is_none().then(|| Self { saved: Some(row.updated_at), ..self.clone() })
    }

    fn again((): &()) -> Again<()> {
        Again::Refused(Code::ConsumerNotFound)
    }
}
