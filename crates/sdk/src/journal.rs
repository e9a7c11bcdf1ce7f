//! The journal of one execution as its handler sees it: what was recorded before, what it has
//! asked for so far, and what it has yet to record.
//!
//! An operation is known by its position: the handler takes the same ones in the same order whenever it
//! runs. What is recorded of one is its outcome, and before that, of what is waited for, that it is open.
//! What must stay true: what an effect rests on is durable before the effect begins. A failure that the
//! handler caught is *pending* until then: if the attempt ends with it, the next one tries again.

use std::collections::{HashMap, HashSet};
use std::sync::Mutex;

use bytes::Bytes;
use ff_core::limits::JOURNAL_BYTES_MAX;
use ff_core::step::{Step, StepFailure, StepKind, StepOutcome, StepRecord};
use ff_core::text::{OperationId, StepName};
use ff_core::{Code, Millis, Rejection};
use ff_wire::payload::json_encoding;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use crate::Error;
use crate::step::running;

/// A step that is to be recorded with what follows.
#[derive(Clone)]
struct Pending {
    step: Step,
    /// Whether it may come out otherwise when it is done again: as a failure, a child that failed, or a
    /// wait that timed out.
    unsure: bool,
}

/// A journal.
pub struct Journal(Mutex<Inner>);

struct Inner {
    /// What became of operations, by position.
    ended: HashMap<u32, (Step, Millis)>,
    /// What is known of those of which nothing has become.
    open: HashMap<u32, (Step, Millis)>,
    /// The position of the next operation.
    position: u32,
    /// The number of the next step.
    number: u32,
    generation: u32,
    bytes: usize,
    /// To be recorded with whatever is recorded next, or before the next effect begins.
    pending: Vec<Pending>,
    /// The latest time among the outcomes that the handler has seen.
    seen: Millis,
    /// The store's time when the execution was claimed, and when that was here.
    claimed: (Millis, Instant),
    /// The step inside of which another operation was asked for.
    nested: Option<String>,
}

/// One operation of a handler.
#[derive(Clone, Debug)]
pub struct Operation {
    /// Its position.
    pub at: u32,
    /// What it is.
    pub kind: StepKind,
    /// What its author calls it.
    pub name: StepName,
}

/// What became of an operation before.
pub enum Recalled<T> {
    /// It is done, with this value.
    Done(T),
    /// It failed, and the handler went on.
    Failed(StepFailure),
}

impl Journal {
    /// As it was recorded, of an execution that began at `begun` and was claimed at `claimed`.
    pub fn new(records: Vec<StepRecord>, begun: Millis, claimed: Millis) -> Result<Self, Error> {
        let mut inner = Inner {
            ended: HashMap::new(),
            open: HashMap::new(),
            position: 0,
            number: 0,
            generation: 0,
            bytes: 0,
            pending: Vec::new(),
            seen: begun,
            claimed: (claimed, Instant::now()),
            nested: None,
        };
        records.into_iter().try_for_each(|record| inner.read(record))?;
        Ok(Self(Mutex::new(inner)))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.0.lock().expect("no holder of this lock panics")
    }

    /// The position of the next operation.
    pub fn position(&self) -> u32 {
        let mut inner = self.lock();
        inner.nested = inner.nested.take().or_else(running);
        inner.position += 1;
        inner.position - 1
    }

    /// Which generation of the execution this is: how often it had been replayed when it last began anew.
    pub fn generation(&self) -> u32 {
        self.lock().generation
    }

    /// The latest time among the outcomes that the handler has seen, or when the execution began.
    pub fn now(&self) -> Millis {
        self.lock().seen
    }

    /// Refuses an operation inside of a step: one that was asked for there, or is awaited there.
    pub fn check_nested(&self, kind: &str, name: &str) -> Result<(), Error> {
        let nested = self.lock().nested.clone().or_else(running);
        nested.map_or(Ok(()), |outer| Err(Error::permanent(inside(kind, name, &outer))))
    }

    /// What became of an operation before. Another one in its place means that the code has changed.
    pub fn recall<T: DeserializeOwned>(
        &self,
        operation: &Operation,
    ) -> Result<Option<Recalled<T>>, Error> {
        let (kind, name) = (operation.kind, operation.name.as_str());
        self.check_nested(kind.as_str(), name)?;
        let mut inner = self.lock();
        inner.check_same(operation)?;
        let Some((step, at)) = inner.ended.get(&operation.at).cloned() else { return Ok(None) };
        inner.seen = inner.seen.max(at);
        // What is read back is the user's, and may panic.
        drop(inner);
        let unfit = |error: serde_json::Error| {
            let said =
                format!("the recorded result of {} {name:?} does not fit: {error}", place(&step));
            Error::from(Rejection::new(Code::StepConflict, said))
        };
        if step.outcome == StepOutcome::Failed {
            let failure = serde_json::from_slice(&step.bytes).map_err(unfit)?;
            return Ok(Some(Recalled::Failed(failure)));
        }
        serde_json::from_slice(&step.bytes).map_err(unfit).map(|value| Some(Recalled::Done(value)))
    }

    /// What was begun of an operation: what it said then, and its time.
    pub fn begun(&self, operation: &Operation) -> Result<Option<(Bytes, Millis)>, Error> {
        self.check_nested(operation.kind.as_str(), operation.name.as_str())?;
        let inner = self.lock();
        inner.check_same(operation)?;
        Ok(inner.open.get(&operation.at).map(|(step, at)| (step.bytes.clone(), *at)))
    }

    /// Operations of a kind that were begun, and of which nothing has become.
    pub fn open(&self, kind: StepKind) -> Vec<(Operation, Bytes)> {
        let inner = self.lock();
        let open = inner.open.iter().filter(|(_, (step, _))| step.kind == kind);
        open.map(|(at, (step, _))| {
            (Operation { at: *at, kind, name: step.name.clone() }, step.bytes.clone())
        })
        .collect()
    }

    /// The handler sees an outcome of this time.
    pub fn see(&self, time: Millis) {
        let mut inner = self.lock();
        inner.seen = inner.seen.max(time);
    }

    /// What is to be recorded of an operation, if there is room for it. Its time is the store's, as far
    /// as it is known here.
    pub fn step(
        &self,
        operation: &Operation,
        (outcome, ran_ms): (StepOutcome, u64),
        result: &impl Serialize,
    ) -> Result<Step, Error> {
        let name = operation.name.clone();
        let bytes = serde_json::to_vec(result).map_err(|error| {
            Error::permanent(format!("the result of step {name:?} cannot be kept: {error}"))
        })?;
        let mut inner = self.lock();
        inner.make_room(operation, bytes.len())?;
        let number = inner.number;
        inner.number += 1;
        let (claimed, since) = inner.claimed;
        let passed = u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX);
        Ok(Step {
            operation: Some(operation_id(operation.at)),
            kind: operation.kind,
            outcome,
            time: Some(claimed.plus(passed)),
            ran_ms,
            encoding: Some(json_encoding()),
            ..Step::run(number, name, Bytes::from(bytes))
        })
    }

    /// Knows a step, as a later run will: before it is recorded, if it only is if something follows.
    pub fn learn(&self, step: Step) {
        let mut inner = self.lock();
        let at = step.time.unwrap_or(inner.seen);
        if step.outcome != StepOutcome::Open {
            inner.seen = inner.seen.max(at);
        }
        inner.know(step, at);
    }

    /// Keeps a step until something follows that must be recorded: if that never happens, nothing has
    /// come of it. A later run does it again, and the same comes of it unless it is `unsure`.
    pub fn keep(&self, step: Step, unsure: bool) {
        self.learn(step.clone());
        self.lock().pending.push(Pending { step, unsure });
    }

    /// The number that is drawn next: what is kept under a lower one was seen before.
    pub fn drawn(&self) -> u32 {
        self.lock().number
    }

    /// Everything that is to be recorded, in order.
    pub fn kept(&self) -> Vec<Step> {
        self.pending(|_| true)
    }

    /// What an effect rests on that was asked for when `drawn` numbers were drawn, and is to be recorded
    /// before it begins, in order. What failed later, beside it, it does not rest on: if the attempt ends
    /// with that, the next one tries it again.
    pub fn unsure(&self, drawn: u32) -> Vec<Step> {
        self.pending(|pending| pending.unsure && pending.step.number < drawn)
    }

    /// What is to be recorded together with the result of a step, in order: also what is sure and kept.
    pub fn with(&self, step: Step) -> Vec<Step> {
        let mut steps = self.pending(|pending| !pending.unsure);
        steps.push(step);
        steps.sort_by_key(|step| step.number);
        steps
    }

    /// Every pending step and `step`, in order: what a command that suspends the handler records. The caller
    /// removes them with [`recorded`](Self::recorded); until then, other commands carry them too.
    pub fn with_all(&self, step: Step) -> Vec<Step> {
        let mut steps = self.kept();
        steps.push(step);
        steps.sort_by_key(|step| step.number);
        steps
    }

    fn pending(&self, which: impl Fn(&Pending) -> bool) -> Vec<Step> {
        let inner = self.lock();
        let chosen = inner.pending.iter().filter(|pending| which(pending));
        let mut steps: Vec<_> = chosen.map(|pending| pending.step.clone()).collect();
        steps.sort_by_key(|step| step.number);
        steps
    }

    /// These are recorded.
    pub fn recorded(&self, steps: &[Step]) {
        let done: HashSet<_> = steps.iter().map(|step| step.number).collect();
        self.lock().pending.retain(|pending| !done.contains(&pending.step.number));
    }
}

impl Inner {
    fn read(&mut self, record: StepRecord) -> Result<(), Error> {
        let StepRecord { step, at, .. } = record;
        self.number = self.number.max(step.number + 1);
        self.bytes += step.bytes.len();
        if step.kind == StepKind::Generation {
            self.generation = serde_json::from_slice(&step.bytes).unwrap_or_default();
            self.seen = self.seen.max(at);
            return Ok(());
        }
        // Of what is recorded twice, as one that was open, the last counts.
        let step = as_known_now(step)?;
        let time = step.time.unwrap_or(at);
        self.know(step, time);
        Ok(())
    }

    fn know(&mut self, step: Step, at: Millis) {
        let position = position_of(&step);
        if step.outcome == StepOutcome::Open {
            self.open.insert(position, (step, at));
        } else {
            self.open.remove(&position);
            self.ended.insert(position, (step, at));
        }
    }

    fn check_same(&self, operation: &Operation) -> Result<(), Error> {
        let known = self.ended.get(&operation.at).or_else(|| self.open.get(&operation.at));
        let (kind, name) = (operation.kind, &operation.name);
        match known {
            // Earlier releases recorded what came of children as steps of their own code.
            Some((step, _))
                if step.operation.is_none()
                    && (step.kind, kind) == (StepKind::Run, StepKind::Children)
                    && step.name == *name =>
            {
                Ok(())
            }
            Some((step, _)) if (step.kind, &step.name) != (kind, name) => {
                let said = format!(
                    "{} is recorded as {} {:?}, and the handler now takes {kind} {:?}",
                    place(step),
                    step.kind,
                    step.name.as_str(),
                    name.as_str()
                );
                Err(Rejection::new(Code::StepConflict, said).into())
            }
            Some(_) | None => Ok(()),
        }
    }

    fn make_room(&mut self, operation: &Operation, bytes: usize) -> Result<(), Error> {
        self.bytes += bytes;
        if self.bytes <= JOURNAL_BYTES_MAX {
            return Ok(());
        }
        let said = format!(
            "with step {} {:?} the journal would hold {} bytes of results, more than \
             {JOURNAL_BYTES_MAX}",
            operation.at,
            operation.name.as_str(),
            self.bytes
        );
        Err(Rejection::new(Code::JournalFull, said).into())
    }
}

fn operation_id(at: u32) -> OperationId {
    OperationId::new(at.to_string()).expect("digits are valid")
}

/// Where a step is, for messages.
fn place(step: &Step) -> String {
    format!("step {}", position_of(step))
}

fn position_of(step: &Step) -> u32 {
    let said = step.operation.as_ref().and_then(|operation| operation.as_str().parse().ok());
    said.unwrap_or(step.number)
}

fn inside(kind: &str, name: &str, outer: &str) -> String {
    format!(
        "{kind} {name:?} was taken inside of step {outer:?}: a step cannot hold another operation; \
         take it before or after the step"
    )
}

/// What an earlier release recorded, as it is recorded now. It counted other operations than we do, so a
/// journal that holds one of those cannot be continued.
fn as_known_now(step: Step) -> Result<Step, Error> {
    if step.operation.is_some() {
        return Ok(step);
    }
    match step.kind {
        StepKind::Sleep => {
            let until: Option<Millis> = serde_json::from_slice(&step.bytes).ok();
            Ok(Step { outcome: StepOutcome::Open, time: until, ..step })
        }
        StepKind::Run | StepKind::Waitpoint => Ok(step),
        StepKind::Now
        | StepKind::Random
        | StepKind::Wait
        | StepKind::Children
        | StepKind::Race
        | StepKind::Timeout
        | StepKind::Generation => {
            let said = format!(
                "the journal holds {} {:?} (step {}), recorded by an earlier release: let a worker of \
                 that release finish the execution, or create it anew",
                step.kind,
                step.name.as_str(),
                step.number
            );
            Err(Rejection::new(Code::StepConflict, said).into())
        }
    }
}
