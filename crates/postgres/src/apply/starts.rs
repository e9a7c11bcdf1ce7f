//! Starts: what a batch creates or releases is leased in the same commit, for claims that wait in this
//! process.
//!
//! The caller of such a claim may have repeated it at another process by then. A lease is taken under a
//! claim only by the transaction that has locked the claim, and what is created is leased only under one
//! that holds nothing yet. Otherwise two processes would lease work under one claim, of which its caller
//! hears of one, and the other would lie until its lease ran out if its process died before it gave it back.
//!
//! Guards see to that. If one fails, the batch is tried again without its starts: what they would have
//! leased is filed in its queue, where every claim finds it.

use std::collections::{BTreeMap, BTreeSet};

use ff_core::command::Command;
use ff_core::error::{Code, Rejection};
use ff_core::fold::WriteSet;
use ff_core::time::Millis;
use tokio_postgres::types::Type;
use uuid::Uuid;

use crate::codec::Params;
use crate::connection::Step;
use crate::statements::lease;

/// The commands of a batch that start something, with their claims and whether that is created here, by
/// their place in the batch.
pub struct Starts(BTreeMap<usize, (Uuid, bool)>);

impl Starts {
    /// A claim of an execution that the batch does not create is no start: its caller names what it wants.
    pub fn of(batch: &[Command]) -> Self {
        let mut created = BTreeSet::new();
        let mut starts = BTreeMap::new();
        for (at, command) in batch.iter().enumerate() {
            match command {
                Command::Create(create) => drop(created.insert(create.id)),
                Command::Claim(claim) if created.contains(&claim.id) => {
                    starts.insert(at, (claim.claim_id, true));
                }
                Command::StartReleased(start) => {
                    starts.insert(at, (start.ask.claim_id, false));
                }
                _ => {} // not ours: the others start nothing
            }
        }
        Self(starts)
    }

    /// The guard of those that are created, if `set` grants leases to any. The others are guarded where
    /// their leases are inserted.
    pub fn guard(&self, set: &WriteSet, now: Millis) -> Option<Step<'static>> {
        let granted = set.leases.iter().filter(|write| write.before.is_none());
        let granted = granted.filter_map(|write| Some(write.after.as_ref()?.lease.claim_id));
        let granted: BTreeSet<_> = granted.collect();
        let created = self.0.values().filter(|(_, created)| *created).map(|(claim, _)| *claim);
        let claims: BTreeSet<_> = created.filter(|claim| granted.contains(claim)).collect();
        let params = || Params::new().all(claims.iter().copied(), Type::UUID_ARRAY);
        (!claims.is_empty()).then(|| Step::Run(lease::free, params().number(now.0)))
    }

    /// Refuses all of them.
    pub fn refuse(&self, refused: &mut BTreeMap<usize, Rejection>) {
        for (at, (claim, _)) in &self.0 {
            let said = format!("nothing is started for the claim {claim}: others are in the way");
            refused.insert(*at, Rejection::new(Code::ExecutionNotLeaseable, said));
        }
    }
}
