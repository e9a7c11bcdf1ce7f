//! Who gets what: the asks in their order, each from what it held already or from its queues.

use std::collections::{BTreeMap, BTreeSet};

use ff_core::ClaimAsk;
use ff_core::command::Command;
use ff_core::decide::claim::Leased;
use ff_core::fold::{Blob, BlobRef, WorkingSet, WriteSet};
use ff_core::ids::ExecutionId;
use ff_core::limits::CLAIM_BYTES_MAX;
use ff_core::time::Millis;
use uuid::Uuid;

use super::look::{Look, Place};
use crate::apply::{State, Tape};

/// What the asks are given.
pub struct Choice {
    /// What that writes.
    pub set: WriteSet,
    /// For each ask, in order, its leases.
    pub leased: Vec<Vec<Leased>>,
    /// Inputs that came with their executions.
    pub inputs: BTreeMap<BlobRef, Blob>,
    /// Inputs that are yet to be read.
    pub absent: Vec<BlobRef>,
    /// When it was decided.
    pub decided_at: Millis,
    wanted: usize,
    passed: usize,
}

impl Choice {
    /// Chooses, and decides; what is refused is passed over, and the choice made again.
    pub fn make(state: &State, asks: &[ClaimAsk], look: &Look<'_>) -> Self {
        let mut refused: BTreeSet<ExecutionId> = BTreeSet::new();
        for place in asks.iter().flat_map(|ask| look.places(ask)) {
            if let Err(error) = &place.execution
                && refused.insert(place.id)
            {
                tracing::error!(id = %place.id, %error, "passed over a damaged execution");
            }
        }
        loop {
            let chosen = choose(asks, look, &refused);
            let mut have = WorkingSet::default();
            let mut commands: Vec<Command> = Vec::new();
            for (ask, ids) in asks.iter().zip(&chosen) {
                commands.extend(ids.iter().map(|id| Command::from(ask.claim(*id))));
            }
            let chosen_ids: BTreeSet<_> = chosen.iter().flatten().copied().collect();
            for place in asks.iter().flat_map(|ask| look.places(ask)) {
                if let (true, Ok(x)) = (chosen_ids.contains(&place.id), &place.execution) {
                    have.executions.insert(place.id, Some(x.clone()));
                }
            }
            for (id, x) in look.known.iter().filter(|(id, _)| chosen_ids.contains(id)) {
                have.executions.insert(*id, Some(x.clone()));
            }
            let (outcomes, set, decided_at) =
                state.fold(&commands, &mut have, &mut Tape::default());
            let ids = chosen.iter().flatten();
            let no: Vec<_> =
                ids.zip(&outcomes).filter(|(_, o)| o.is_err()).map(|(id, _)| *id).collect();
            if !no.is_empty() {
                refused.extend(no);
                continue;
            }
            let mut all = super::leases(outcomes).into_iter();
            let leased = chosen.iter().map(|ids| all.by_ref().take(ids.len()).collect()).collect();
            let max = |ask: &ClaimAsk| usize::try_from(ask.max).unwrap_or(usize::MAX);
            let wanted = asks.iter().map(max).sum();
            let (inputs, absent) = inputs(asks, look, &chosen);
            let passed = refused.len();
            return Self { set, leased, inputs, absent, decided_at, wanted, passed };
        }
    }

    /// Whether nobody is given anything.
    pub fn is_empty(&self) -> bool {
        self.leased.iter().all(Vec::is_empty)
    }

    /// How many are given.
    pub fn count(&self) -> usize {
        self.leased.iter().map(Vec::len).sum()
    }

    /// Whether somebody could be given more.
    pub fn is_short(&self) -> bool {
        self.count() < self.wanted
    }

    /// How many could not be had.
    pub fn passed(&self) -> usize {
        self.passed
    }
}

/// The ids that each ask is to be given.
fn choose(
    asks: &[ClaimAsk],
    look: &Look<'_>,
    refused: &BTreeSet<ExecutionId>,
) -> Vec<Vec<ExecutionId>> {
    let mut taken: BTreeSet<ExecutionId> = BTreeSet::new();
    let mut granted: BTreeMap<Uuid, BTreeSet<ExecutionId>> = BTreeMap::new();
    let mut chosen = Vec::with_capacity(asks.len());
    for ask in asks {
        let max = usize::try_from(ask.max).unwrap_or(usize::MAX);
        let free = |id: &ExecutionId| !refused.contains(id);
        let held = look.held.get(&ask.claim_id).into_iter().flatten();
        let held = held.filter(|id| look.known.contains_key(id) && free(id));
        // What an ask before this one was given under the same claim is held as well.
        let granted = granted.entry(ask.claim_id).or_default();
        granted.extend(held);
        let mut ids: Vec<_> = granted.iter().copied().take(max).collect();
        if ids.is_empty() && !look.busy.contains(&ask.claim_id) {
            let mut bytes = 0;
            for place in look.places(ask).iter().filter(|place| free(&place.id)) {
                if taken.contains(&place.id) {
                    continue;
                }
                let size = look.passed.size(place.id).or(place.size).unwrap_or(0);
                let full = bytes + size > CLAIM_BYTES_MAX && !ids.is_empty();
                if ids.len() == max || full {
                    break;
                }
                bytes += size;
                ids.push(place.id);
            }
        }
        granted.extend(&ids);
        taken.extend(&ids);
        chosen.push(ids);
    }
    chosen
}

fn inputs(
    asks: &[ClaimAsk],
    look: &Look<'_>,
    chosen: &[Vec<ExecutionId>],
) -> (BTreeMap<BlobRef, Blob>, Vec<BlobRef>) {
    let (mut inputs, mut absent) = (BTreeMap::new(), BTreeSet::new());
    for (ask, ids) in asks.iter().zip(chosen) {
        let places: BTreeMap<_, &Place> =
            look.places(ask).iter().map(|place| (place.id, place)).collect();
        for id in ids {
            let at = look.passed.input(*id);
            let own = places.get(id).filter(|_| at == BlobRef::Input(*id));
            match own.map(|place| (place.size, &place.bytes, &place.encoding)) {
                Some((Some(_), Some(bytes), encoding)) => {
                    let blob = Blob { at, encoding: encoding.clone(), bytes: bytes.clone() };
                    inputs.insert(at, blob);
                }
                // It has no input.
                Some((None, ..)) => {}
                Some((Some(_), None, _)) | None => drop(absent.insert(at)),
            }
        }
    }
    (inputs, absent.into_iter().collect())
}
