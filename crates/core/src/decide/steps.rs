//! Record steps: the holder adds to the journal of its execution.
//!
//! Sent twice: the same answer, and recorded once. A number that was recorded with another name or
//! result is refused: the code that runs now is not the code that recorded it.

use super::{COMMAND_BYTES, Decide, Repeat, check_payload, check_time, holder};
use crate::command::Traffic;
use crate::error::{Code, Rejection};
use crate::execution::Fence;
use crate::fold::{Change, Cx, Effects, Key, LeaseRow, WorkingSet};
use crate::ids::ExecutionId;
use crate::limits::{BATCH_MAX, Config, DURATION_MS_MAX, REASON_BYTES_MAX, STEPS_MAX};
use crate::step::{Step, StepFailure, StepKind, StepOutcome, StepRecord};
use crate::text::prose;
use crate::time::Millis;

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
    const REPEAT: Repeat = Repeat {
        by: "its fence and the number of each step",
        late: "what is recorded stays; another content is refused",
    };

    fn validate(&self, config: &Config) -> Result<(), Rejection> {
        check(&self.steps, 1, config)
    }

    fn bytes(&self) -> usize {
        bytes(&self.steps)
    }

    fn keys(&self, _: &WorkingSet) -> Vec<Key> {
        keys(self.id, &self.steps)
    }

    fn decide(&self, have: &WorkingSet, cx: &mut Cx<'_>) -> Result<Change<()>, Rejection> {
        let x = have.execution(self.id)?;
        let at = cx.at(x);
        let active = holder(x, self.fence, at)?;
        let steps = new_records(self.id, &self.steps, (active.attempt.index, at), have)?;
        let held = if steps.is_empty() { None } else { LeaseRow::of(x) };
        let effects = Effects { steps, held, ..Effects::default() };
        Ok(Change { reply: (), effects })
    }
}

/// Refuses steps that make no sense, or fewer than `least`.
pub(super) fn check(steps: &[Step], least: usize, config: &Config) -> Result<(), Rejection> {
    let count = steps.len();
    if !(least..=BATCH_MAX).contains(&count) {
        let why = format!("must be {least} to {BATCH_MAX} in number");
        return Err(Rejection::invalid(Code::InvalidInput, "steps", count, why));
    }
    for pair in steps.windows(2) {
        if pair[1].number <= pair[0].number {
            let why = format!("does not follow on {}; send them in order", pair[0].number);
            return Err(Rejection::invalid(Code::InvalidInput, "number", pair[1].number, why));
        }
    }
    for step in steps {
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
        check_result(step)?;
    }
    Ok(())
}

/// Refuses a result that its outcome does not have.
fn check_result(step: &Step) -> Result<(), Rejection> {
    let refuse = |field, value: &str, why: &str| {
        let why = format!("{why} (step {} {:?})", step.number, step.name.as_str());
        Err(Rejection::invalid(Code::InvalidInput, field, value, why))
    };
    if step.kind == StepKind::Generation {
        return refuse("kind", "generation", "is recorded by the engine alone");
    }
    match step.outcome {
        StepOutcome::Done | StepOutcome::Open => Ok(()),
        StepOutcome::Failed => match serde_json::from_slice::<StepFailure>(&step.bytes) {
            Ok(failure) => prose("message", &failure.message, REASON_BYTES_MAX),
            Err(why) => {
                refuse("result", "", &format!("is not the failure of a step that failed: {why}"))
            }
        },
        StepOutcome::Won => match serde_json::from_slice::<u32>(&step.bytes) {
            Ok(_) => Ok(()),
            Err(why) => {
                refuse("result", "", &format!("is not the number of an arm that won: {why}"))
            }
        },
        StepOutcome::Fired | StepOutcome::Abandoned if step.bytes.is_empty() => Ok(()),
        StepOutcome::Fired | StepOutcome::Abandoned => {
            refuse("result", "", "is not to be there: only what is done has one")
        }
    }
}

/// What a command with these steps weighs in a queue.
pub(super) fn bytes(steps: &[Step]) -> usize {
    COMMAND_BYTES + steps.iter().map(|step| COMMAND_BYTES + step.bytes.len()).sum::<usize>()
}

/// An execution and its steps of these numbers.
pub(super) fn keys(id: ExecutionId, steps: &[Step]) -> Vec<Key> {
    let steps = steps.iter().map(|step| Key::Step(id, step.number));
    [Key::Execution(id)].into_iter().chain(steps).collect()
}

/// Those of `steps` that are not recorded yet, as recorded by an attempt at some time.
pub(super) fn new_records(
    id: ExecutionId,
    steps: &[Step],
    (attempt_index, at): (u32, Millis),
    have: &WorkingSet,
) -> Result<Vec<StepRecord>, Rejection> {
    let mut new = Vec::with_capacity(steps.len());
    for step in steps {
        match have.steps.get(&(id, step.number)).and_then(Option::as_ref) {
            Some(known) if known.step.is_again(step) => {}
            Some(known) => return Err(conflict(id, known, step)),
            None => {
                step.time.map_or(Ok(()), |time| check_time("time", time, at))?;
                new.push(StepRecord { execution: id, step: step.clone(), attempt_index, at });
            }
        }
    }
    Ok(new)
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
