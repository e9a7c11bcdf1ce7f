//! Retention: a finished execution is removed, with everything it owned, when its time is up.
//!
//! Not before every durable consumer has dealt with its events. Its idempotency key stays for its
//! own window: a late repeat must not run the work again. Sent twice, or too early: nothing to do.

use super::{Again, COMMAND_BYTES, Decide, Repeat};
use crate::command::Traffic;
use crate::error::Rejection;
use crate::execution::State;
use crate::fold::{Change, Cx, Effects, Key, WorkingSet};
use crate::ids::ExecutionId;
use crate::limits::Config;

/// Remove an execution if it has been finished for long enough.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trim {
    /// Which.
    pub id: ExecutionId,
}

impl Decide for Trim {
    /// Whether it is gone now.
    type Reply = bool;
    const NAME: &'static str = "trim_execution";
    const TRAFFIC: Traffic = Traffic::Admin;
    const REPEAT: Repeat = Repeat {
        by: "the time: it looks again whether the execution is due",
        late: "does nothing unless the execution is due",
    };

    fn validate(&self, _: &Config) -> Result<(), Rejection> {
        Ok(())
    }

    fn bytes(&self) -> usize {
        COMMAND_BYTES
    }

    fn keys(&self, _: &WorkingSet) -> Vec<Key> {
        vec![Key::Execution(self.id), Key::Unseen(self.id)]
    }

    fn decide(&self, have: &WorkingSet, cx: &mut Cx<'_>) -> Result<Change<bool>, Rejection> {
        // Another process was faster: there is nothing left to remove.
        let Ok(x) = have.execution(self.id) else {
            return Ok(Change::none(false));
        };
        if have.unseen.get(&x.id) == Some(&true) {
            // A durable consumer comes first, however long that takes.
            return Ok(Change::none(false));
        }
        match &x.state {
            // It goes with its flow.
            State::Terminal(_) if x.member.is_some() => Ok(Change::none(false)),
            State::Terminal(terminal) if terminal.retain_until <= cx.at(x) => {
                let effects = Effects { removed: Some(x.id), ..Effects::default() };
                Ok(Change { reply: true, effects })
            }
            // Replayed since, or not due.
            State::Terminal(_) | State::Runnable(_) | State::Active(_) | State::Suspended(_) => {
                Ok(Change::none(false))
            }
        }
    }

    fn again(_: &bool) -> Again<bool> {
        Again::Reply(false)
    }
}
