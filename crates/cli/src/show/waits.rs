//! Waits, as their steps tell them: a question, recorded by what suspends, and the answer behind it,
//! recorded by whoever goes on.

use ff_core::step::StepOutcome;
use ff_core::suspension::CloseReason;
use ff_wire::StepLine;
use serde::Deserialize;

use crate::output::clean;

/// What a step is to a wait.
#[derive(Clone, Copy)]
pub enum Part<'h> {
    /// It asks; the answer, unless it is still waited for.
    Question(Option<&'h StepLine>),
    /// It is the answer.
    Answer,
}

/// What a step of this kind is to a wait: the two steps of a wait are of one operation.
pub fn part_of<'h>(steps: &'h [StepLine], step: &StepLine) -> Part<'h> {
    if step.outcome != StepOutcome::Open {
        return Part::Answer;
    }
    let answers = |other: &&StepLine| {
        other.number > step.number && other.operation.is_some() && other.operation == step.operation
    };
    Part::Question(steps.iter().find(answers))
}

/// An answer, as far as it is told.
#[derive(Deserialize)]
struct Waited {
    how: CloseReason,
    signals: Vec<Came>,
}

#[derive(Deserialize)]
struct Came {
    signal_name: String,
    #[serde(default)]
    source_identity: String,
}

/// What an answer says: `approved by ann, approved by bob`.
pub fn answer(step: &StepLine) -> Option<String> {
    let waited: Waited = step.result.as_ref()?.read().ok()?;
    // What then goes on is told so by a signal of its own.
    if waited.how == CloseReason::TimedOutAutoResume {
        return Some("nobody came in time".to_owned());
    }
    if waited.signals.is_empty() {
        return Some(match waited.how {
            CloseReason::Resumed
            | CloseReason::TimedOutAutoResume
            | CloseReason::Cancelled
            | CloseReason::TimedOutFail
            | CloseReason::TimedOutCancel
            | CloseReason::TimedOutExpire
            | CloseReason::NeverCommitted
            | CloseReason::ProactiveClose => "an operator let it go on".to_owned(),
        });
    }
    let told = waited.signals.iter().map(|came| {
        let by = if came.source_identity.is_empty() { "" } else { " by " };
        format!("{}{by}{}", clean(&came.signal_name), clean(&came.source_identity))
    });
    Some(told.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use ff_core::Millis;
    use ff_core::step::StepKind;

    use super::*;

    fn step(number: u32, operation: &str, outcome: StepOutcome) -> StepLine {
        StepLine {
            number,
            operation: Some(operation.to_owned()),
            kind: StepKind::Wait,
            name: "a".to_owned(),
            outcome,
            time: None,
            attempt_index: 0,
            at: Millis(i64::from(number)),
            ran_ms: 0,
            result: None,
            result_base64: None,
            encoding: None,
        }
    }

    #[test]
    fn a_wait_that_nobody_ended_says_so() {
        let came = |how: &str| {
            let signals = [serde_json::json!({"signal_name": "timeout", "source_identity": "x"})];
            let waited = serde_json::json!({"how": how, "signals": signals});
            let result = serde_json::from_value(waited).ok();
            answer(&StepLine { result, ..step(1, "0", StepOutcome::Done) })
        };
        assert_eq!(came("timed_out_auto_resume").as_deref(), Some("nobody came in time"));
        assert_eq!(came("resumed").as_deref(), Some("timeout by x"));
    }

    #[test]
    fn waits_of_one_name_are_told_apart() {
        let steps = [
            step(0, "0", StepOutcome::Open),
            step(1, "1", StepOutcome::Open),
            step(2, "1", StepOutcome::Done),
            step(3, "0", StepOutcome::Done),
            step(4, "2", StepOutcome::Open),
        ];
        let told = steps.iter().map(|step| match part_of(&steps, step) {
            Part::Question(answer) => format!("?{}", answer.map_or(0, |step| step.number)),
            Part::Answer => "!".to_owned(),
        });
        assert_eq!(told.collect::<Vec<_>>().join(" "), "?3 ?2 ! ! ?0");
    }
}
