//! Dividing a batch: a row that somebody else keeps holds up only the commands that need it.
//!
//! Parts are tried in turn and halved until what meets the row stands alone; each part that meets
//! nothing is done at once. What is left over waits a little longer, and is then refused as
//! contended: it may be sent again.

use std::borrow::Cow;
use std::ops::Range;
use std::time::{Duration, Instant};

use ff_core::backend::StoreError;
use ff_core::command::{Command, Outcome};
use ff_core::error::{Code, Rejection};

use super::rounds::Known;
use super::{State, TRIES, Tape, locked, once};
use crate::connection::Trouble;

/// How long to look for what is free.
const SEARCH: Duration = Duration::from_millis(500);
/// How long to wait for the others then.
const WAIT: Duration = Duration::from_millis(500);

/// Does what can be done of a batch that others hold up.
pub async fn divide(
    state: &State,
    batch: &[Command],
    cause: String,
) -> Result<Vec<Outcome>, StoreError> {
    let mut division = Division { state, batch, done: vec![None; batch.len()], cause };
    division.search().await?;
    division.wait().await?;
    division.outcomes()
}

struct Division<'b> {
    state: &'b State,
    batch: &'b [Command],
    /// Nothing where somebody was in the way.
    done: Vec<Option<Outcome>>,
    cause: String,
}

impl Division<'_> {
    /// Does what meets nobody.
    async fn search(&mut self) -> Result<(), StoreError> {
        let until = Instant::now() + SEARCH;
        let mut parts = halves(&(0..self.batch.len())).to_vec();
        while let Some(part) = parts.pop()
            && Instant::now() < until
        {
            if !self.attempt(part.clone(), true).await? && part.len() > 1 {
                parts.extend(halves(&part));
            }
        }
        Ok(())
    }

    /// Tries what is left, one by one.
    async fn wait(&mut self) -> Result<(), StoreError> {
        let until = Instant::now() + WAIT;
        for at in 0..self.batch.len() {
            if self.done[at].is_none() && Instant::now() < until {
                self.attempt(at..at + 1, false).await?;
            }
        }
        Ok(())
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
