//! Drop consumer: a durable consumer is no longer waited for.
//!
//! Sent twice: `consumer_not_found` tells that it is gone.

use super::{Again, COMMAND_BYTES, Decide};
use crate::command::Traffic;
use crate::error::{Code, Rejection};
use crate::fold::{Change, Cx, Effects, Key, WorkingSet};
use crate::limits::Config;
use crate::text::ConsumerName;

/// Forget a consumer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropConsumer {
    /// Which.
    pub consumer: ConsumerName,
}

impl Decide for DropConsumer {
    type Reply = ();
    const NAME: &'static str = "drop_consumer";
    const TRAFFIC: Traffic = Traffic::Admin;

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
        have.consumer(&self.consumer)?;
        let consumer = Some((self.consumer.clone(), None));
        Ok(Change { reply: (), effects: Effects { consumer, ..Effects::default() } })
    }

    fn again((): &()) -> Again<()> {
        Again::Refused(Code::ConsumerNotFound)
    }
}
