//! Delay: the holder gives the execution back, to go on with the same attempt later.
//!
//! The time until then does not count against the attempt timeout. A time in the past means at
//! once. Steps that come with it are recorded with it, or neither happens. Sent twice with the fence
//! that gave it back: the same answer, and the first steps stay.

use super::{Decide, Repeat, check_time, holder, requeue, steps};
use crate::command::Traffic;
use crate::error::Rejection;
use crate::execution::{Fence, LeaseEnd, Next, State, Wait, WaitReason};
use crate::fold::{Change, Cx, Effects, Key, WorkingSet};
use crate::ids::ExecutionId;
use crate::limits::Config;
use crate::step::Step;
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
    /// What to add to its journal, by ascending number.
    pub steps: Vec<Step>,
}

/// The answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delayed {
    /// Not claimed before.
    pub delay_until: Millis,
}

impl Decide for Delay {
    type Reply = Delayed;
    const NAME: &'static str = "delay_execution";
    const TRAFFIC: Traffic = Traffic::Finish;
    const REPEAT: Repeat = Repeat {
        by: "the fence that gave it back",
        late: "the same answer until the execution is claimed again, then `stale_lease`",
    };

    fn validate(&self, config: &Config) -> Result<(), Rejection> {
        steps::check(&self.steps, 0, config)
    }

    fn bytes(&self) -> usize {
        steps::bytes(&self.steps)
    }

    fn keys(&self, _: &WorkingSet) -> Vec<Key> {
        steps::keys(self.id, &self.steps)
    }

    fn decide(&self, have: &WorkingSet, cx: &mut Cx<'_>) -> Result<Change<Delayed>, Rejection> {
        let x = have.execution(self.id)?;
        let at = cx.at(x);
        if let State::Runnable(runnable) = &x.state
            && let Some(wait) = runnable.wait
            && x.ended_by(self.fence, LeaseEnd::Delayed)
        {
            return Ok(Change::none(Delayed { delay_until: wait.until }));
        }
        let active = holder(x, self.fence, at)?;
        check_time("delay_until", self.delay_until, at)?;
        let by = (active.attempt.index, at);
        let steps = steps::new_records(self.id, &self.steps, by, have)?;
        let wait = Wait { until: self.delay_until, reason: WaitReason::Delay };
        let next = Next::Resume(active.paused(at));
        let waiting = requeue(x, next, Some(wait), LeaseEnd::Delayed, at);
        let effects = Effects { execution: Some(waiting), steps, ..Effects::default() };
        Ok(Change { reply: Delayed { delay_until: self.delay_until }, effects })
    }
}
