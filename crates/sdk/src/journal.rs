//! The journal of one execution as its handler sees it: what was recorded before, what it has
//! asked for so far, and what it has yet to record.

use std::collections::HashMap;
use std::sync::Mutex;

use bytes::Bytes;
use ff_core::limits::JOURNAL_BYTES_MAX;
use ff_core::step::{Step, StepKind, StepRecord};
use ff_core::text::StepName;
use ff_core::{Code, Rejection};
use ff_wire::payload::json_encoding;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::Error;
use crate::step::running;

/// Steps that are kept before they are recorded for their own sake: a command holds a thousand.
const KEPT_MAX: usize = 500;

/// How much is kept to be recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "what is too much must be recorded"]
pub enum Kept {
    /// It may wait.
    Some,
    /// It is to be recorded now.
    Many,
}

/// A journal.
pub struct Journal(Mutex<Inner>);

struct Inner {
    recorded: HashMap<u32, Step>,
    next: u32,
    bytes: usize,
    /// Taken, and to be recorded with the next one that cannot wait.
    pending: Vec<Step>,
    /// The step inside of which another operation was asked for.
    nested: Option<String>,
}

impl Journal {
    /// As it was recorded.
    pub fn new(records: Vec<StepRecord>) -> Self {
        let bytes = records.iter().map(|record| record.step.bytes.len()).sum();
        let recorded =
            records.into_iter().map(|record| (record.step.number, record.step)).collect();
        Self(Mutex::new(Inner { recorded, next: 0, bytes, pending: Vec::new(), nested: None }))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.0.lock().expect("no holder of this lock panics")
    }

    /// The number of the next step.
    pub fn number(&self) -> u32 {
        let mut inner = self.lock();
        inner.nested = inner.nested.take().or_else(running);
        inner.next += 1;
        inner.next - 1
    }

    /// The result of a step that was recorded before. A step of another name in its place means
    /// that the code has changed.
    pub fn recall<T: DeserializeOwned>(
        &self,
        number: u32,
        kind: StepKind,
        name: &StepName,
    ) -> Result<Option<T>, Error> {
        let inner = self.lock();
        if let Some(outer) = &inner.nested {
            let said = format!(
                "{kind} {:?} was taken inside of step {outer:?}: a step cannot hold another \
                 operation; take it before or after the step",
                name.as_str()
            );
            return Err(Error::permanent(said));
        }
        let Some(step) = inner.recorded.get(&number).cloned() else { return Ok(None) };
        // What is read back is the user's, and may panic.
        drop(inner);
        if (step.kind, &step.name) != (kind, name) {
            let said = format!(
                "step {number} is recorded as {} {:?}, and the handler now takes {kind} {:?}",
                step.kind,
                step.name.as_str(),
                name.as_str()
            );
            return Err(Rejection::new(Code::StepConflict, said).into());
        }
        let read = serde_json::from_slice(&step.bytes);
        read.map(Some).map_err(|error| {
            let name = name.as_str();
            let said =
                format!("the recorded result of step {number} {name:?} does not fit: {error}");
            Rejection::new(Code::StepConflict, said).into()
        })
    }

    /// Steps of a kind that read as `Q`, and are not followed by another: questions without answer.
    pub fn open_questions<Q: DeserializeOwned>(&self, kind: StepKind) -> Vec<(u32, StepName, Q)> {
        let inner = self.lock();
        let open = inner
            .recorded
            .values()
            .filter(|step| step.kind == kind && !inner.recorded.contains_key(&(step.number + 1)));
        open.filter_map(|step| {
            let question = serde_json::from_slice(&step.bytes).ok()?;
            Some((step.number, step.name.clone(), question))
        })
        .collect()
    }

    /// Remembers a step that was recorded for another that will recall it.
    pub fn learn(&self, step: Step) {
        self.lock().recorded.insert(step.number, step);
    }

    /// A step with its result, if there is room for it.
    pub fn step(
        &self,
        (number, kind, name): (u32, StepKind, StepName),
        ran_ms: u64,
        result: &impl Serialize,
    ) -> Result<Step, Error> {
        let bytes = serde_json::to_vec(result).map_err(|error| {
            let name = name.as_str();
            Error::permanent(format!("the result of step {name:?} cannot be kept: {error}"))
        })?;
        let mut inner = self.lock();
        inner.bytes += bytes.len();
        if inner.bytes > JOURNAL_BYTES_MAX {
            let name = name.as_str();
            let said = format!(
                "with step {number} {name:?} the journal would hold {} bytes of results, more than \
                 {JOURNAL_BYTES_MAX}",
                inner.bytes
            );
            return Err(Rejection::new(Code::JournalFull, said).into());
        }
        let (encoding, bytes) = (Some(json_encoding()), Bytes::from(bytes));
        Ok(Step { number, kind, name, ran_ms, encoding, bytes })
    }

    /// Keeps a step until something follows that must be recorded: if that never happens, nothing
    /// has come of it.
    pub fn keep(&self, step: Step) -> Kept {
        let pending = &mut self.lock().pending;
        pending.push(step);
        if pending.len() < KEPT_MAX { Kept::Some } else { Kept::Many }
    }

    /// What is to be recorded before something rests on it, in order: nothing, unless the time or
    /// chance is among it, or that nobody came in time, because everything else is found again as it was.
    pub fn found(&self) -> Vec<Step> {
        let changes = |step: &Step| match step.kind {
            StepKind::Now | StepKind::Random | StepKind::Wait => true,
            StepKind::Run | StepKind::Sleep | StepKind::Waitpoint => false,
        };
        let kept = self.kept();
        if kept.iter().any(changes) { kept } else { Vec::new() }
    }

    /// Whether that nobody came in time is yet to be recorded.
    pub fn keeps_a_wait(&self) -> bool {
        self.lock().pending.iter().any(|step| step.kind == StepKind::Wait)
    }

    /// What is to be recorded together with `step`, in order.
    pub fn with(&self, step: Step) -> Vec<Step> {
        let mut steps = self.kept();
        steps.push(step);
        steps.sort_by_key(|step| step.number);
        steps
    }

    /// Everything that is to be recorded, in order. Whoever records it [says so](Self::recorded); until
    /// then others beside him record it too, because nobody knows who will be first.
    pub fn kept(&self) -> Vec<Step> {
        let mut steps = self.lock().pending.clone();
        steps.sort_by_key(|step| step.number);
        steps
    }

    /// These are recorded.
    pub fn recorded(&self, steps: &[Step]) {
        let done = |step: &Step| steps.iter().any(|one| one.number == step.number);
        self.lock().pending.retain(|step| !done(step));
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_carried_until_it_is_recorded() {
        let journal = Journal::new(Vec::new());
        let step = |number| {
            let name = StepName::new("now").unwrap();
            journal.step((number, StepKind::Now, name), 0, &number).unwrap()
        };
        let numbers = |steps: &[Step]| steps.iter().map(|step| step.number).collect::<Vec<_>>();
        assert_eq!(journal.keep(step(1)), Kept::Some);
        // Two side by side: whoever is first, the other rests on it too.
        let (one, other) = (journal.with(step(2)), journal.with(step(0)));
        assert_eq!((numbers(&one), numbers(&other)), (vec![1, 2], vec![0, 1]));
        journal.recorded(&one);
        assert_eq!(numbers(&journal.with(step(3))), [3]);
        assert!(journal.found().is_empty());
    }
}
