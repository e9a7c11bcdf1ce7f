//! Unhold: an operator lets a held execution be claimed again.
//!
//! A delay that has not passed still applies. Sent twice: nothing more changes.

use super::OnExecution;
use crate::command::Traffic;
use crate::error::{Code, Rejection};
use crate::event::{Event, EventKind};
use crate::execution::{Execution, State};
use crate::fold::{Change, Cx, Effects};
use crate::ids::ExecutionId;
use crate::limits::Config;

/// Let go of a held execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unhold {
    /// Which.
    pub id: ExecutionId,
}

impl OnExecution for Unhold {
    type Reply = ();
    const NAME: &'static str = "unhold_execution";
    const TRAFFIC: Traffic = Traffic::Admin;

    fn id(&self) -> ExecutionId {
        self.id
    }

    fn check(&self, _: &Config) -> Result<(), Rejection> {
        Ok(())
    }

    fn on(&self, x: &Execution, cx: &mut Cx<'_>) -> Result<Change<()>, Rejection> {
        let at = cx.at(x);
        let mut freed = x.changed(at);
        match &mut freed.state {
            State::Runnable(runnable) if runnable.hold.is_none() => Ok(Change::none(())),
            State::Runnable(runnable) => {
                runnable.hold = None;
                let events = vec![Event::new(x, at, EventKind::Unheld)];
                let effects = Effects { execution: Some(freed), events, ..Effects::default() };
                Ok(Change { reply: (), effects })
            }
            State::Active(_) | State::Suspended(_) | State::Terminal(_) => {
                let said = format!("{} is {}, not waiting", x.id, x.state.phase());
                Err(Rejection::new(Code::NotRunnable, said).standing(x.standing()))
            }
        }
    }
}
