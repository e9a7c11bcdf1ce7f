//! Applying a batch: load, fold, write, inside the writer's transaction.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ff_core::backend::{Interest, StoreError};
use ff_core::command::{Command, Outcome};
use ff_core::fold::{Cx, WorkingSet};
use ff_core::index::{QueueId, TimerKind};
use ff_core::limits::{CANCEL_AT_ONCE_MAX, Config};
use ff_core::time::{Clock, Entropy};
use ff_core::{fold, needs};
use rusqlite::Transaction;

use crate::{Signals, feed, load, write};

/// What the writer keeps between transactions.
pub struct State {
    /// The store's clock.
    pub clock: Arc<dyn Clock>,
    /// What the deployment set.
    pub config: Config,
    /// For jitter.
    pub entropy: Box<dyn Entropy>,
    /// Queues that are registered for certain.
    pub queues: BTreeSet<QueueId>,
    /// Who to wake.
    pub signals: Arc<Signals>,
    /// What the current transaction did.
    pub pending: Pending,
}

/// What a transaction did, to be told once it is durable.
#[derive(Default)]
pub struct Pending {
    queues: BTreeSet<QueueId>,
    moved: BTreeSet<Interest>,
}

impl State {
    /// A transaction begins; anything remembered from one that failed is forgotten.
    pub fn begin(&mut self) {
        self.pending = Pending::default();
    }

    /// The transaction is durable: wake those who wait for what it did.
    pub fn committed(&mut self) {
        self.queues.append(&mut self.pending.queues);
        for interest in &self.pending.moved {
            self.signals.tell(*interest);
        }
    }
}

/// Loads what the commands need, folds them and writes the result: of all of them, or of as many from
/// the first on as one transaction may do.
///
/// A command that needs a row which cannot be read is refused alone.
pub fn apply(
    tx: &Transaction<'_>,
    state: &mut State,
    batch: &[Command],
) -> Result<Vec<Outcome>, StoreError> {
    apply_over(tx, state, batch, WorkingSet::default())
}

/// The same, over rows that were loaded in this transaction.
pub fn apply_over(
    tx: &Transaction<'_>,
    state: &mut State,
    batch: &[Command],
    mut have: WorkingSet,
) -> Result<Vec<Outcome>, StoreError> {
    let mut refused = BTreeMap::new();
    let mut readable = Vec::with_capacity(batch.len());
    let mut taken = 0;
    for (at, command) in batch.iter().enumerate() {
        let loaded = load_for(tx, command, &mut have);
        if at > 0 && have.executions.len() > CANCEL_AT_ONCE_MAX {
            break;
        }
        taken += 1;
        match loaded {
            Ok(()) => readable.push(command.clone()),
            Err(error) => {
                tracing::error!(command = command.name(), %error, "refused: a damaged row");
                refused.insert(at, error.refusal()?);
            }
        }
    }
    let (now, cursors) = (state.clock.now(), feed::CURSORS);
    let mut cx = Cx { now, config: &state.config, entropy: state.entropy.as_mut(), cursors };
    let (outcomes, mut set) = fold(&readable, &mut have, &mut cx);
    set.queues.retain(|queue| !state.queues.contains(&queue.id));
    write::write(tx, &set)?;
    let pending = &mut state.pending;
    pending.queues.extend(set.queues.iter().map(|queue| queue.id));
    let delayed = set.timers.insert.iter().any(|timer| timer.kind == TimerKind::Delay);
    let moved = [
        (Interest::Work, delayed || !set.ready.insert.is_empty()),
        (Interest::Events, !set.events.is_empty()),
        (Interest::Flows, !set.graph.dispatch.insert.is_empty()),
        (Interest::Cancels, set.graph.cancels_members()),
        (Interest::Ends, set.graph.ends_flows()),
        (Interest::Taken, set.takes_leases()),
    ];
    pending.moved.extend(moved.into_iter().filter(|(_, moved)| *moved).map(|(of, _)| of));
    let mut outcomes = outcomes.into_iter();
    let all = (0..taken).map(|at| match refused.remove(&at) {
        Some(rejection) => Err(rejection),
        None => outcomes.next().expect("an outcome for each command"),
    });
    Ok(all.collect())
}

fn load_for(
    tx: &Transaction<'_>,
    command: &Command,
    have: &mut WorkingSet,
) -> Result<(), StoreError> {
    loop {
        let missing = needs(command, have);
        if missing.is_empty() {
            return Ok(());
        }
        load::load(tx, &missing, have)?;
    }
}
