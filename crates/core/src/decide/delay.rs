//! Delay: the holder gives the execution back, to go on with the same attempt later.
//!
//! The time until then does not count against the attempt timeout. A time in the past means at
//! once. Sent twice with the fence that gave it back: the same answer.

use super::{OnExecution, check_time, holder, requeue};
use crate::command::Traffic;
use crate::error::Rejection;
use crate::execution::{Execution, Fence, LeaseEnd, Next, State, Wait, WaitReason};
use crate::fold::{Change, Cx, Effects};
use crate::ids::ExecutionId;
use crate::limits::Config;
use crate::time::Millis;

/// Give an execution back until some time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delay {
    /// Which.
    pub id: ExecutionId,
    /// Proof of holding it.
    pub fence: Fence,
    /// Not to be claimed before.
    pub delay_until: Millis,
}

/// The answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delayed {
    /// Not claimed before.
    pub delay_until: Millis,
}

impl OnExecution for Delay {
    type Reply = Delayed;
    const NAME: &'static str = "delay_execution";
    const TRAFFIC: Traffic = Traffic::Finish;

    fn id(&self) -> ExecutionId {
        self.id
    }

    fn check(&self, _: &Config) -> Result<(), Rejection> {
        Ok(())
    }

    fn on(&self, x: &Execution, cx: &mut Cx<'_>) -> Result<Change<Delayed>, Rejection> {
        let at = cx.at(x);
        if let State::Runnable(runnable) = &x.state
            && let Some(wait) = runnable.wait
            && x.ended_by(self.fence, LeaseEnd::Delayed)
        {
            return Ok(Change::none(Delayed { delay_until: wait.until }));
        }
        let active = holder(x, self.fence, at)?;
        check_time("delay_until", self.delay_until, at)?;
        let wait = Wait { until: self.delay_until, reason: WaitReason::Delay };
        let next = Next::Resume(active.paused(at));
        let waiting = requeue(x, next, Some(wait), LeaseEnd::Delayed, at);
        let effects = Effects { execution: Some(waiting), ..Effects::default() };
        Ok(Change { reply: Delayed { delay_until: self.delay_until }, effects })
    }
}
