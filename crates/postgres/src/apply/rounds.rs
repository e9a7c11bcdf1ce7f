//! Locking and loading what a batch needs, in rounds: some rows tell which others are needed.
//!
//! A round is one flight: its rows are locked in the order of locks, then read. What a later round
//! locks must come after all that is locked already: a round therefore leaves alone what comes
//! after locks that it may yet learn of. If that was not enough, the batch begins anew with every
//! key that is known by then, so that two batches never wait for each other in a circle.

use std::collections::{BTreeMap, BTreeSet};

use ff_core::backend::StoreError;
use ff_core::command::Command;
use ff_core::error::Rejection;
use ff_core::fold::Key;
use ff_core::limits::CANCEL_AT_ONCE_MAX;
use ff_core::needs;

use super::ahead::Ahead;
use super::starts::Starts;
use crate::connection::{Session, Step, Trouble};
use crate::load::{Loaded, Lock, Wanted};

/// Rounds until nothing is missing; decisions take four at most.
pub const ROUNDS_MAX: usize = 8;

/// What a batch needs.
#[derive(Default)]
pub struct Found {
    /// The rows.
    pub loaded: Loaded,
    /// Commands that need a row which cannot be read, or are not to be tried again, by their place in the
    /// batch.
    pub refused: BTreeMap<usize, Rejection>,
}

impl Found {
    /// How many executions there are, with those that are missing.
    fn executions(&self, missing: &BTreeSet<Key>) -> usize {
        let missing = missing.iter().filter(|key| matches!(key, Key::Execution(_)));
        self.loaded.have.executions.len() + missing.count()
    }

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

/// What is locked after flows, in the order of locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Group,
    Execution,
}

/// What a key locks, or what must be locked while it is read, if that comes after flows; and the first kind
/// of lock that a batch with such keys learns of by reading them.
fn locks(key: &Key) -> (Option<Kind>, Option<Kind>) {
    match key {
        Key::Group(..) => (Some(Kind::Group), None),
        Key::FreeGroup(..) => (Some(Kind::Group), Some(Kind::Execution)),
        Key::Execution(_) => (Some(Kind::Execution), None),
        // Installing a key that signs finds out whether it was read too early.
        Key::Wait(key) => (key.execution().map(|_| Kind::Execution), None),
        Key::Outgoing(..) | Key::Behind(..) => (None, Some(Kind::Group)),
        Key::Incoming(..) | Key::Members(_) | Key::Owed(_) | Key::First(_) => {
            (None, Some(Kind::Execution))
        }
        Key::Flow(_)
        | Key::FreeFlow(_)
        | Key::Idempotency(..)
        | Key::Consumer(_)
        | Key::Step(..)
        | Key::Stepped(..)
        | Key::Input(_)
        | Key::Unseen(_)
        | Key::UnseenFlow(_)
        | Key::Groups(_)
        | Key::Edge(..)
        | Key::Pair(..)
        | Key::Reach(..)
        | Key::Dispatch(_)
        | Key::Cancel(..)
        | Key::Backlog(_) => (None, None),
    }
}

/// What is known from earlier tries of a batch.
#[derive(Default)]
pub struct Known {
    /// Keys that they asked for, to begin with.
    pub keys: BTreeSet<Key>,
    /// Whether others got in the way: leases that workers keep renewing are then locked too, and nothing
    /// is started.
    pub firm: bool,
    /// Whether to wait only a moment for what others hold.
    pub brief: bool,
}

/// Begins a transaction, locks and loads. What it asks for is added to `known`. Nothing when it has to
/// begin anew.
pub async fn gather(
    session: &mut Session<'_>,
    batch: &[Command],
    known: &mut Known,
) -> Result<Option<Found>, Trouble> {
    let mut found = Found::default();
    if known.firm {
        Starts::of(batch).refuse(&mut found.refused);
    }
    let mut last: Option<Lock> = None;
    for round in 0..ROUNDS_MAX {
        let mut missing = found.missing(batch)?;
        if batch.len() > 1 && found.executions(&missing) > CANCEL_AT_ONCE_MAX {
            return Err(Trouble::Wide);
        }
        if round > 0 && missing.is_empty() {
            return Ok(Some(found));
        }
        let anew = round == 0 && !known.keys.is_empty();
        if anew {
            missing.extend(known.keys.iter().cloned());
        }
        known.keys.extend(missing.iter().cloned());
        let eager = round == 0 && !known.firm;
        let ahead = eager.then(|| Ahead::of(batch, &missing)).flatten();
        if ahead.is_some() {
            missing.retain(|key| !matches!(key, Key::Execution(_)));
        } else if !anew {
            let learned = missing.iter().filter_map(|key| locks(key).1).min();
            missing.retain(|key| learned.is_none() || locks(key).0 < learned);
        }
        let wanted = Wanted::new(missing);
        if wanted.locks().min().is_some_and(|first| Some(first) < last) {
            return Ok(None);
        }
        last = match ahead {
            Some(_) => Some(Lock::LAST),
            None => last.max(wanted.locks().max()),
        };
        let begin = (round == 0).then_some(Step::Begin);
        let locks = wanted.lock(known.firm);
        fly(session, begin, (&wanted, locks), ahead.as_ref(), &mut found.loaded).await?;
    }
    let cause = "rows kept telling of others that are needed".to_owned();
    Err(Trouble::Broken(StoreError::RetryExhausted { cause }))
}

/// One flight: locks, then reads.
async fn fly(
    session: &mut Session<'_>,
    begin: Option<Step<'_>>,
    (wanted, locks): (&Wanted, Vec<Step<'_>>),
    ahead: Option<&Ahead>,
    loaded: &mut Loaded,
) -> Result<(), Trouble> {
    let loads = wanted.load();
    let (own_locks, own_loads) = (locks.len(), loads.len());
    let more_locks = ahead.map(Ahead::lock).unwrap_or_default();
    let locked = own_locks + more_locks.len();
    let more_loads = ahead.map(Ahead::load).unwrap_or_default();
    let steps = begin.into_iter().chain(locks).chain(more_locks).chain(loads).chain(more_loads);
    let mut answers = session.fly(&steps.collect::<Vec<_>>()).await?;
    let mut rows = answers.split_off(locked);
    let more_rows = rows.split_off(own_loads);
    let held = wanted.held(&answers[..own_locks])?;
    wanted.read_into(loaded, rows, Some(&held))?;
    if let Some(ahead) = ahead {
        ahead.read(&answers[own_locks..], &more_rows, loaded)?;
    }
    Ok(())
}
