//! Dividing a batch: a row that somebody else keeps holds up only the commands that need it.
//!
//! Parts are tried in turn and halved until what meets the row stands alone; each part that meets
//! nothing is done at once. What is left over waits a little longer, and is then refused as
//! contended: it may be sent again. A command that names the same execution or flow as one that was
//! left over stays behind it.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::Range;
use std::time::{Duration, Instant};

use ff_core::backend::StoreError;
use ff_core::command::{Command, Outcome};
use ff_core::error::{Code, Rejection};
use ff_core::fold::{Key, WorkingSet};
use ff_core::needs;

use super::rounds::Known;
use super::{State, TRIES, Tape, locked, once};
use crate::connection::Trouble;

/// How long to search for what is free.
const SEARCH: Duration = Duration::from_secs(1);
/// So many parts are tried however long they take: where the database is far away, each does.
const PARTS_MIN: u32 = 24;
/// How long to wait for the others then.
const WAIT: Duration = Duration::from_millis(250);

/// Does what can be done of a batch that others hold up.
pub async fn divide(
    state: &State,
    batch: &[Command],
    cause: String,
) -> Result<Vec<Outcome>, StoreError> {
    let (done, left) = (vec![None; batch.len()], BTreeSet::new());
    let mut division = Division { state, batch, done, left, cause };
    division.search().await?;
    division.wait().await?;
    division.outcomes()
}

struct Division<'b> {
    state: &'b State,
    batch: &'b [Command],
    /// Nothing where somebody was in the way.
    done: Vec<Option<Outcome>>,
    /// Executions and flows of commands that were left over.
    left: BTreeSet<Key>,
    cause: String,
}

impl Division<'_> {
    /// Does what meets nobody.
    async fn search(&mut self) -> Result<(), StoreError> {
        let (begun, mut tried) = (Instant::now(), 0);
        let mut parts = halves(&(0..self.batch.len())).to_vec();
        while let Some(part) = parts.pop()
            && (tried < PARTS_MIN || begun.elapsed() < SEARCH)
        {
            tried += 1;
            if !self.is_behind(&part) && self.attempt(part.clone(), true).await? {
                continue;
            }
            if part.len() > 1 {
                parts.extend(halves(&part));
            } else {
                self.left.extend(subjects(&self.batch[part.start]));
            }
        }
        Ok(())
    }

    /// Tries what is left, one by one.
    async fn wait(&mut self) -> Result<(), StoreError> {
        let until = Instant::now() + WAIT;
        self.left.clear();
        for at in 0..self.batch.len() {
            if self.done[at].is_some() {
                continue;
            }
            let part = at..at + 1;
            let late = Instant::now() >= until;
            if late || self.is_behind(&part) || !self.attempt(part, false).await? {
                self.left.extend(subjects(&self.batch[at]));
            }
        }
        Ok(())
    }

    /// Whether a part holds a command that must not overtake one that was left over.
    fn is_behind(&self, part: &Range<usize>) -> bool {
        let named = || self.batch[part.clone()].iter().flat_map(subjects);
        !self.left.is_empty() && named().any(|key| self.left.contains(&key))
    }

    /// Tries a part; whether nobody was in the way.
    async fn attempt(&mut self, part: Range<usize>, brief: bool) -> Result<bool, StoreError> {
        let commands = &self.batch[part.clone()];
        let mut tape = Tape::default();
        let outcomes = match again(self.state, commands, brief, &mut tape).await {
            Ok(outcomes) => outcomes,
            Err(Trouble::Locked(cause) | Trouble::Busy(cause)) => {
                self.cause = cause;
                return Ok(false);
            }
            Err(Trouble::Guard) => return Ok(false),
            Err(Trouble::Broken(error)) => return Err(error),
            Err(Trouble::Wide | Trouble::Poison(_) | Trouble::Lost(_)) => {
                // What the lost try decided on is pinned on the tape.
                Box::pin(locked(self.state, Cow::Borrowed(commands), &mut tape)).await?
            }
        };
        for (done, outcome) in self.done[part].iter_mut().zip(outcomes) {
            *done = Some(outcome);
        }
        Ok(true)
    }

    /// What became of each command; an error when nothing became of any.
    fn outcomes(self) -> Result<Vec<Outcome>, StoreError> {
        let Self { done, cause, .. } = self;
        if done.iter().all(Option::is_none) {
            return Err(StoreError::RetryExhausted { cause });
        }
        let refused = || Err(Rejection::new(Code::RetryExhausted, cause.clone()));
        Ok(done.into_iter().map(|outcome| outcome.unwrap_or_else(refused)).collect())
    }
}

/// The executions and flows that a command names: what is done to each is done in its order.
fn subjects(command: &Command) -> impl Iterator<Item = Key> {
    let named = needs(command, &WorkingSet::default()).into_iter();
    named.filter(|key| matches!(key, Key::Execution(_) | Key::Flow(_) | Key::FreeFlow(_)))
}

/// Both halves of a part, the one that comes next last.
fn halves(part: &Range<usize>) -> [Range<usize>; 2] {
    let middle = part.start + part.len() / 2;
    [middle..part.end, part.start..middle]
}

/// One try, begun anew as often as more turns out to be needed.
async fn again(
    state: &State,
    commands: &[Command],
    brief: bool,
    tape: &mut Tape,
) -> Result<Vec<Outcome>, Trouble> {
    let mut known = Known { brief, ..Known::default() };
    for _ in 0..=TRIES {
        if let Some(outcomes) = once(state, commands, tape, &mut known).await? {
            return Ok(outcomes);
        }
    }
    Err(Trouble::Guard)
}
