//! Locking and loading what a batch needs, in rounds: some rows tell which others are needed.
//!
//! A round is one flight: its rows are locked in the order of locks, then read. What a later round
//! locks must come after all that is locked already; if it does not, the batch begins anew with
//! every key that is known by then, so that two batches never wait for each other in a circle.

use std::collections::{BTreeMap, BTreeSet};

use ff_core::backend::StoreError;
use ff_core::command::Command;
use ff_core::error::Rejection;
use ff_core::fold::Key;
use ff_core::needs;

use crate::connection::{Session, Step, Trouble};
use crate::load::{Loaded, Lock, Wanted};

/// Rounds until nothing is missing; decisions take four at most.
const ROUNDS_MAX: usize = 8;

/// What a batch needs.
#[derive(Default)]
pub struct Found {
    /// The rows.
    pub loaded: Loaded,
    /// Commands that need a row which cannot be read, by their place in the batch.
    pub refused: BTreeMap<usize, Rejection>,
}

impl Found {
    /// What the commands still need. One that needs a damaged row is refused, and asks for no more.
    fn missing(&mut self, batch: &[Command]) -> Result<BTreeSet<Key>, StoreError> {
        let mut missing = BTreeSet::new();
        for (at, command) in batch.iter().enumerate() {
            if self.refused.contains_key(&at) {
                continue;
            }
            let keys = needs(command, &self.loaded.have);
            match keys.iter().find_map(|key| self.loaded.damaged.get(key)) {
                None => missing.extend(keys),
                Some(error) => {
                    tracing::error!(command = command.name(), %error, "refused: a damaged row");
                    self.refused.insert(at, error.clone().refusal()?);
                }
            }
        }
        Ok(missing)
    }
}

/// Begins a transaction, locks and loads. `known` are keys that earlier tries asked for, to begin
/// with; those of this one are added. Nothing when it has to begin anew.
pub async fn gather(
    session: &mut Session<'_>,
    batch: &[Command],
    known: &mut BTreeSet<Key>,
) -> Result<Option<Found>, Trouble> {
    let mut found = Found::default();
    let mut last: Option<Lock> = None;
    for round in 0..ROUNDS_MAX {
        let mut missing = found.missing(batch)?;
        if round == 0 {
            missing.extend(known.iter().cloned());
        } else if missing.is_empty() {
            return Ok(Some(found));
        }
        known.extend(missing.iter().cloned());
        let wanted = Wanted::new(missing);
        if wanted.locks().min().is_some_and(|first| Some(first) < last) {
            return Ok(None);
        }
        last = last.max(wanted.locks().max());
        let locks = wanted.lock();
        let count = locks.len();
        let begin = (round == 0).then_some(Step::Begin);
        let steps: Vec<_> = begin.into_iter().chain(locks).chain(wanted.load()).collect();
        let mut answers = session.fly(&steps).await?;
        let rows = answers.split_off(count);
        let held = wanted.held(&answers)?;
        wanted.read_into(&mut found.loaded, rows, Some(&held))?;
    }
    let cause = "rows kept telling of others that are needed".to_owned();
    Err(Trouble::Broken(StoreError::RetryExhausted { cause }))
}
