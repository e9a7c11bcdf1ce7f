//! Dividing a batch: a row that another transaction keeps holds up only the commands that need it.
//!
//! One statement finds the executions that others hold; all commands that name no such execution are tried
//! together. If they meet another locked row, they are halved until it stands alone; each part that meets
//! none is committed at once. What is left over waits a little longer, and is then refused as contended: it
//! may be sent again. A command that names the same execution or flow as one that was left over stays
//! behind it.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use ff_core::backend::StoreError;
use ff_core::command::{Command, Outcome};
use ff_core::fold::{Key, WorkingSet};
use ff_core::needs;

use super::rounds::Known;
use super::{State, TRIES, Tape, locked, once, purpose};
use crate::codec::{Params, Reader};
use crate::connection::{Step, Trouble};
use crate::statements::execution;

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
    let stopped = match division.search().await {
        Ok(()) => division.wait().await.err(),
        Err(error) => Some(error),
    };
    division.outcomes(stopped)
}

struct Division<'b> {
    state: &'b State,
    batch: &'b [Command],
    /// None while a lock or a guard has kept the command from being committed.
    done: Vec<Option<Outcome>>,
    /// Executions and flows of commands that were left over.
    left: BTreeSet<Key>,
    cause: String,
}

impl Division<'_> {
    /// Commits the commands that meet no locked row.
    async fn search(&mut self) -> Result<(), StoreError> {
        let (begun, mut tried) = (Instant::now(), 0);
        self.left = self.held().await.unwrap_or_default();
        let mut free = Vec::new();
        for at in 0..self.batch.len() {
            if self.is_behind(&[at]) { self.leave(at) } else { free.push(at) }
        }
        let mut parts = vec![free];
        while let Some(mut part) = parts.pop()
            && (tried < PARTS_MIN || begun.elapsed() < SEARCH)
        {
            tried += 1;
            if part.is_empty() || !self.is_behind(&part) && self.attempt(&part, true).await? {
                continue;
            }
            if let [at] = part[..] {
                self.leave(at);
            } else {
                let second = part.split_off(part.len() / 2);
                parts.extend([second, part]);
            }
        }
        Ok(())
    }

    /// The executions that others hold. Where that cannot be found out, the parts show it too.
    async fn held(&self) -> Result<BTreeSet<Key>, Trouble> {
        let named = self.batch.iter().flat_map(subjects);
        let ids: BTreeSet<_> = named
            .filter_map(|key| if let Key::Execution(id) = key { Some(id) } else { None })
            .collect();
        let mut session = self.state.connections.get(purpose(self.batch)).await?;
        let find = Step::Run(execution::held, Params::new().ids(ids.iter().copied()));
        let found = session.alone(find).await?;
        let keys = found.iter().flatten().map(|row| Ok(Key::Execution(Reader::new(row).id()?)));
        keys.collect()
    }

    /// Tries what is left, one by one.
    async fn wait(&mut self) -> Result<(), StoreError> {
        let until = Instant::now() + WAIT;
        self.left.clear();
        for at in 0..self.batch.len() {
            if self.done[at].is_some() {
                continue;
            }
            let late = Instant::now() >= until;
            if late || self.is_behind(&[at]) || !self.attempt(&[at], false).await? {
                self.leave(at);
            }
        }
        Ok(())
    }

    /// A command is left over.
    fn leave(&mut self, at: usize) {
        self.left.extend(subjects(&self.batch[at]));
    }

    /// Whether a part holds a command that must not overtake one that was left over.
    fn is_behind(&self, part: &[usize]) -> bool {
        let mut named = part.iter().flat_map(|at| subjects(&self.batch[*at]));
        !self.left.is_empty() && named.any(|key| self.left.contains(&key))
    }

    /// Tries a part; whether it met no locked row.
    async fn attempt(&mut self, part: &[usize], brief: bool) -> Result<bool, StoreError> {
        let commands: Vec<_> = part.iter().map(|at| self.batch[*at].clone()).collect();
        let mut tape = Tape::default();
        let outcomes = match again(self.state, &commands, brief, &mut tape).await {
            Ok(outcomes) => outcomes,
            Err(Trouble::Locked(cause) | Trouble::Busy(cause)) => {
                self.cause = cause;
                return Ok(false);
            }
            Err(Trouble::Guard) => return Ok(false),
            Err(Trouble::Broken(error)) => return Err(error),
            Err(Trouble::Wide | Trouble::Poison(_) | Trouble::Lost(_)) => {
                // What the lost try decided on is pinned on the tape.
                Box::pin(locked(self.state, Cow::Owned(commands), &mut tape)).await?
            }
        };
        for (at, outcome) in part.iter().zip(outcomes) {
            self.done[*at] = Some(outcome);
        }
        Ok(true)
    }

    /// What became of each command; an error when nothing became of any.
    fn outcomes(self, stopped: Option<StoreError>) -> Result<Vec<Outcome>, StoreError> {
        let Self { done, cause, .. } = self;
        let error = stopped.unwrap_or(StoreError::RetryExhausted { cause });
        if done.iter().all(Option::is_none) {
            return Err(error);
        }
        let outcome = |one: Option<Outcome>| one.unwrap_or_else(|| Err(error.rejection()));
        Ok(done.into_iter().map(outcome).collect())
    }
}

/// The executions and flows that a command names: what is done to each is done in its order.
fn subjects(command: &Command) -> impl Iterator<Item = Key> {
    let named = needs(command, &WorkingSet::default()).into_iter();
    named.filter(|key| matches!(key, Key::Execution(_) | Key::Flow(_) | Key::FreeFlow(_)))
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
