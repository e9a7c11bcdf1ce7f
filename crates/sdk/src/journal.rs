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

/// A journal.
pub struct Journal(Mutex<Inner>);

struct Inner {
    recorded: HashMap<u32, Step>,
    next: u32,
    bytes: usize,
    /// Taken, and to be recorded with the next one that cannot wait.
    pending: Vec<Step>,
}

impl Journal {
    /// As it was recorded.
    pub fn new(records: Vec<StepRecord>) -> Self {
        let bytes = records.iter().map(|record| record.step.bytes.len()).sum();
        let recorded =
            records.into_iter().map(|record| (record.step.number, record.step)).collect();
        Self(Mutex::new(Inner { recorded, next: 0, bytes, pending: Vec::new() }))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.0.lock().expect("no holder of this lock panics")
    }

    /// The number of the next step.
    pub fn number(&self) -> u32 {
        let mut inner = self.lock();
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
        let Some(step) = inner.recorded.get(&number) else { return Ok(None) };
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
    pub fn keep(&self, step: Step) {
        self.lock().pending.push(step);
    }

    /// What is to be recorded before something rests on it, in order: nothing, unless the time or
    /// chance is among it, because everything else is found again as it was.
    pub fn found(&self) -> Vec<Step> {
        let pending = &mut self.lock().pending;
        let changes = |step: &Step| matches!(step.kind, StepKind::Now | StepKind::Random);
        let mut steps =
            if pending.iter().any(changes) { std::mem::take(pending) } else { Vec::new() };
        steps.sort_by_key(|step| step.number);
        steps
    }

    /// What is to be recorded together with `step`, in order.
    pub fn with(&self, step: Step) -> Vec<Step> {
        self.keep(step);
        self.kept()
    }

    /// Everything that is to be recorded, in order.
    pub fn kept(&self) -> Vec<Step> {
        let mut steps = std::mem::take(&mut self.lock().pending);
        steps.sort_by_key(|step| step.number);
        steps
    }
}
