//! Record steps: the holder adds to the journal of its execution.
//!
//! Sent twice: the same answer, and recorded once. A number that was recorded with another name or
//! result is refused: the code that runs now is not the code that recorded it.

use super::{COMMAND_BYTES, Decide, check_payload, holder};
use crate::command::Traffic;
use crate::error::{Code, Rejection};
use crate::execution::Fence;
use crate::fold::{Change, Cx, Effects, Key, LeaseRow, WorkingSet};
use crate::ids::ExecutionId;
use crate::limits::{BATCH_MAX, Config, DURATION_MS_MAX, STEPS_MAX};
use crate::step::{Step, StepRecord};

/// Add steps to a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordSteps {
    /// Of which execution.
    pub id: ExecutionId,
    /// Proof of holding it.
    pub fence: Fence,
    /// The steps, by ascending number.
    pub steps: Vec<Step>,
}

impl Decide for RecordSteps {
    type Reply = ();
    const NAME: &'static str = "record_steps";
    const TRAFFIC: Traffic = Traffic::Step;

    fn validate(&self, config: &Config) -> Result<(), Rejection> {
        let count = self.steps.len();
        if count == 0 || count > BATCH_MAX {
            let why = format!("must be 1 to {BATCH_MAX} in number");
            return Err(Rejection::invalid(Code::InvalidInput, "steps", count, why));
        }
        for pair in self.steps.windows(2) {
            if pair[1].number <= pair[0].number {
                let why = format!("does not follow on {}; send them in order", pair[0].number);
                return Err(Rejection::invalid(Code::InvalidInput, "number", pair[1].number, why));
            }
        }
        for step in &self.steps {
            if step.number >= STEPS_MAX {
                let said = format!(
                    "step {} ({}) is beyond the {STEPS_MAX} that an execution may record",
                    step.number, step.name
                );
                return Err(Rejection::new(Code::JournalFull, said));
            }
            if step.ran_ms > DURATION_MS_MAX {
                let why = format!("is out of range; use 0 to {DURATION_MS_MAX}");
                return Err(Rejection::invalid(Code::InvalidInput, "ran_ms", step.ran_ms, why));
            }
            check_payload("step_result", step.bytes.len(), config)?;
        }
        Ok(())
    }

    fn bytes(&self) -> usize {
        COMMAND_BYTES
            + self.steps.iter().map(|step| COMMAND_BYTES + step.bytes.len()).sum::<usize>()
    }

    fn keys(&self, _: &WorkingSet) -> Vec<Key> {
        let steps = self.steps.iter().map(|step| Key::Step(self.id, step.number));
        [Key::Execution(self.id)].into_iter().chain(steps).collect()
    }

    fn decide(&self, have: &WorkingSet, cx: &mut Cx<'_>) -> Result<Change<()>, Rejection> {
        let x = have.execution(self.id)?;
        let at = cx.at(x);
        let active = holder(x, self.fence, at)?;
        let mut new = Vec::with_capacity(self.steps.len());
        for step in &self.steps {
            match have.steps.get(&(self.id, step.number)).and_then(Option::as_ref) {
                Some(known) if known.step.is_again(step) => {}
                Some(known) => return Err(conflict(self.id, known, step)),
                None => new.push(StepRecord {
                    execution: self.id,
                    step: step.clone(),
                    attempt_index: active.attempt.index,
                    at,
                }),
            }
        }
        let held = if new.is_empty() { None } else { LeaseRow::of(x) };
        let effects = Effects { steps: new, held, ..Effects::default() };
        Ok(Change { reply: (), effects })
    }
}

fn conflict(id: ExecutionId, known: &StepRecord, step: &Step) -> Rejection {
    let (was, is) = (&known.step, step);
    let said = if (was.kind, &was.name) == (is.kind, &is.name) {
        format!(
            "step {} of {id}, {:?}, is recorded with another result",
            is.number,
            is.name.as_str()
        )
    } else {
        format!(
            "step {} of {id} is recorded as {} {:?}, not as {} {:?}",
            is.number,
            was.kind,
            was.name.as_str(),
            is.kind,
            is.name.as_str()
        )
    };
    Rejection::new(Code::StepConflict, said)
}
