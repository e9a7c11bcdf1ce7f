//! Work that this process has just let go and knows to be first in line: a claim takes it without
//! looking.
//!
//! That is known where a look has found everything there was and nothing was filed since but what is
//! remembered here. What other processes file is noticed by the next look, which is never far; what
//! they take fails the write of who rests on this.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use ff_core::ClaimAsk;
use ff_core::fold::WriteSet;
use ff_core::ids::ExecutionId;
use ff_core::index::Ready;

use crate::codec::Tid;
use crate::write::Places;

/// For how long a look is good.
const FRESH: Duration = Duration::from_millis(100);
/// Places remembered.
const FILED_MAX: usize = 1_000;
/// Looks remembered; there is one for each set of lanes and capabilities that is asked for.
const LOOKS_MAX: usize = 64;

/// What was filed since it was known that nothing else was there.
#[derive(Default)]
pub struct Loose(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    looks: Vec<(ClaimAsk, Instant)>,
    filed: BTreeMap<Ready, Tid>,
    /// How often something was filed that is not remembered.
    lost: u64,
}

/// A look that has begun.
#[derive(Clone, Copy)]
pub struct Begun {
    lost: u64,
    at: Instant,
}

impl Loose {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().expect("no holder of this lock panics")
    }

    /// A look begins; what to say when it has ended.
    pub fn begin(&self) -> Begun {
        Begun { lost: self.lock().lost, at: Instant::now() }
    }

    /// A look has found everything there was for these asks.
    pub fn emptied<'a>(&self, look: Begun, asks: impl Iterator<Item = &'a ClaimAsk>) {
        let mut inner = self.lock();
        if inner.lost != look.lost {
            return;
        }
        for ask in asks {
            inner.looks.retain(|(known, _)| !known.looks_where(ask));
            if inner.looks.len() == LOOKS_MAX {
                inner.looks.remove(0);
            }
            inner.looks.push((ask.clone(), look.at));
        }
    }

    /// Something was filed or moved of which nothing is remembered.
    pub fn lose(&self) {
        let mut inner = self.lock();
        inner.lost += 1;
        inner.looks.clear();
        inner.filed.clear();
    }

    /// A write set is durable, and its places stand there.
    pub fn learn(&self, set: &WriteSet, places: &Places) {
        let filed = &set.ready.insert;
        if filed.iter().any(|ready| !places.ready.contains_key(&ready.execution)) {
            return self.lose();
        }
        let mut inner = self.lock();
        for ready in &set.ready.remove {
            inner.filed.remove(ready);
        }
        for ready in filed {
            inner.filed.insert(*ready, places.ready[&ready.execution]);
        }
        if inner.filed.len() > FILED_MAX {
            drop(inner);
            self.lose();
        }
    }

    /// Everything that stands in the queues of `asks`, in order, and more; nothing unless that is known.
    pub fn known(&self, asks: &[ClaimAsk]) -> Option<Vec<(ExecutionId, Tid)>> {
        let inner = self.lock();
        let fresh = |ask: &ClaimAsk| {
            let look = inner.looks.iter().find(|(known, _)| known.looks_where(ask));
            look.is_some_and(|(_, at)| at.elapsed() < FRESH)
        };
        if inner.filed.is_empty() || !asks.iter().all(fresh) {
            return None;
        }
        Some(inner.filed.iter().map(|(ready, at)| (ready.execution, *at)).collect())
    }
}
