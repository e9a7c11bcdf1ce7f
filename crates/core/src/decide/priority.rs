//! Change priority: an operator moves a waiting execution in its queue.
//!
//! Sent twice: the second changes nothing and says so by equal numbers. Sent again after another change,
//! it does not undo that one.

use super::{Again, OnExecution, Repeat, changed};
use crate::command::Traffic;
use crate::error::{Code, Rejection};
use crate::event::{Event, EventKind};
use crate::execution::{Execution, Priority};
use crate::fold::{Change, Cx, Effects};
use crate::ids::ExecutionId;
use crate::limits::Config;
use crate::state::{EligibilityState, vector};

/// Change how urgent an execution is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangePriority {
    /// Which.
    pub id: ExecutionId,
    /// 0 to 9000, higher first.
    pub priority: i32,
    /// Only at this version; at whichever it has when it does not say.
    pub version: Option<u64>,
}

/// The answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PriorityChanged {
    /// Before.
    pub from: i32,
    /// Now.
    pub to: i32,
}

impl OnExecution for ChangePriority {
    type Reply = PriorityChanged;
    const NAME: &'static str = "change_priority";
    const TRAFFIC: Traffic = Traffic::Admin;
    const REPEAT: Repeat = Repeat {
        by: "`version`: the version that was changed",
        late: "the same answer while that priority holds; `version_conflict` once another was set",
    };

    fn id(&self) -> ExecutionId {
        self.id
    }

    fn check(&self, _: &Config) -> Result<(), Rejection> {
        Priority::new(self.priority).map(drop)
    }

    fn on(&self, x: &Execution, cx: &mut Cx<'_>) -> Result<Change<PriorityChanged>, Rejection> {
        let at = cx.at(x);
        let (from, to) = (x.priority.get(), self.priority);
        let reply = PriorityChanged { from, to };
        if let Some(seen) = self.version.filter(|seen| *seen != x.version) {
            let same = from == to;
            return if same {
                Ok(Change::none(reply))
            } else {
                Err(changed(x.id, seen, x.version))
            };
        }
        let eligibility = vector(x, at).eligibility_state;
        if eligibility != EligibilityState::EligibleNow {
            let said = format!("{} is {}, {eligibility}", x.id, x.state.phase());
            return Err(Rejection::new(Code::ExecutionNotEligible, said).standing(x.standing()));
        }
        if from == to {
            return Ok(Change::none(reply));
        }
        let mut moved = x.changed(at);
        moved.priority = Priority::new(to)?;
        let events = vec![Event::new(x, at, EventKind::PriorityChanged { from, to })];
        Ok(Change {
            reply,
            effects: Effects { execution: Some(moved), events, ..Effects::default() },
        })
    }

    fn pinned_to(&self, x: &Execution) -> Option<Self> {
        self.version.is_none().then(|| Self { version: Some(x.version), ..self.clone() })
    }

    fn again(changed: &PriorityChanged) -> Again<PriorityChanged> {
        Again::Reply(PriorityChanged { from: changed.to, ..*changed })
    }
}
