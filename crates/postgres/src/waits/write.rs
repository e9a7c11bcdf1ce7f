//! Writing what a fold decided about suspensions: one statement for each kind of row, whatever their
//! number. Executions are locked by then, and suspensions come before waitpoints.

use std::collections::{BTreeMap, BTreeSet};

use ff_core::fold::{WaitWrites, Write};
use ff_core::keyring::{KeyChange, SigningKey};
use ff_core::row::{SignalRow, SuspendKeyRow, SuspensionRow, WaitpointRow};
use ff_core::suspension::Waitpoint;
use ff_core::text::{IdempotencyKey, Kid};
use ff_core::time::Millis;
use tokio_postgres::types::Type;

use super::rows::{signals, suspend_keys, suspensions, waitpoints};
use crate::codec::Params;
use crate::connection::{Step, run_for};
use crate::statements::{signal, signing_key, suspend_key, suspension, waitpoint};

/// What removes everything that belongs to the suspensions of executions.
pub const REMOVALS: [&str; 4] =
    [suspension::remove, waitpoint::remove, signal::remove, suspend_key::remove];

/// The rows of suspensions in a write set, flattened, for the statements to borrow.
pub struct WaitRows<'s> {
    set: &'s WaitWrites,
    suspensions: Vec<SuspensionRow>,
    /// New ones.
    opened: Vec<WaitpointRow>,
    waitpoints: Vec<WaitpointRow>,
    signals: Vec<SignalRow>,
    suspend_keys: Vec<SuspendKeyRow>,
    keys: KeyRows<'s>,
}

/// What most batches write of suspensions.
pub struct Hot<'a> {
    /// Suspensions.
    pub suspensions: &'a [SuspensionRow],
    /// New waitpoints.
    pub opened: &'a [WaitpointRow],
    /// Other waitpoints.
    pub waitpoints: &'a [WaitpointRow],
    /// Signals.
    pub signals: &'a [SignalRow],
}

/// What becomes of the keys in the end.
#[derive(Default)]
struct KeyRows<'s> {
    forgotten: BTreeSet<&'s Kid>,
    /// The key that was current before the batch.
    retired: Option<(&'s Kid, Millis)>,
    /// Old ones that end before their time.
    withdrawn: BTreeSet<&'s Kid>,
    /// New ones, each with its end if it was replaced in the same batch.
    installed: Vec<(&'s SigningKey, Option<Millis>)>,
}

impl<'s> KeyRows<'s> {
    /// Adds up changes, so that however many there are, few statements make them. The answer is the
    /// same as that of one after the other.
    fn new(changes: &'s [KeyChange]) -> Self {
        let mut rows = Self::default();
        for KeyChange { forget, retire, withdraw, install } in changes {
            for kid in forget {
                let own = rows.installed.len();
                rows.installed.retain(|(key, _)| key.kid != *kid);
                if rows.installed.len() == own {
                    rows.forgotten.insert(kid);
                }
            }
            if let Some((kid, expires_at)) = retire {
                match rows.installed.iter_mut().find(|(key, _)| key.kid == *kid) {
                    Some((_, end)) => *end = Some(*expires_at),
                    None => rows.retired = Some((kid, *expires_at)),
                }
            }
            for kid in withdraw {
                match rows.installed.iter_mut().find(|(key, _)| key.kid == *kid) {
                    Some((_, end)) => *end = Some(Millis::ZERO),
                    None => drop(rows.withdrawn.insert(kid)),
                }
            }
            rows.installed.push((install, None));
        }
        rows
    }

    fn steps<'a>(&'a self, steps: &mut Vec<Step<'a>>) {
        let kids = |kids: &BTreeSet<&'s Kid>| {
            Params::new().all(kids.iter().map(|kid| kid.as_str()), Type::TEXT_ARRAY)
        };
        run_for(steps, signing_key::remove, &self.forgotten, kids);
        if let Some((kid, expires_at)) = self.retired {
            let params = Params::new().text(Some(kid.as_str())).number(expires_at.0);
            steps.push(Step::Run(signing_key::retire, params));
        }
        run_for(steps, signing_key::withdraw, &self.withdrawn, |old| {
            kids(old).number(Millis::ZERO.0)
        });
        run_for(steps, signing_key::insert, &self.installed, |rows| {
            Params::new()
                .all(rows.iter().map(|(key, _)| key.kid.as_str()), Type::TEXT_ARRAY)
                .all(rows.iter().map(|(key, _)| key.secret.bytes()), Type::BYTEA_ARRAY)
                .all(rows.iter().map(|(key, _)| key.created_at.0), Type::INT8_ARRAY)
                .all(rows.iter().map(|(_, end)| end.map(|at| at.0)), Type::INT8_ARRAY)
                .count(rows.len())
        });
    }
}

impl<'s> WaitRows<'s> {
    /// Flattens what a fold says of suspensions.
    pub fn new(set: &'s WaitWrites) -> Self {
        let suspensions = set.suspensions.iter().filter_map(|write| write.after.as_ref());
        let (opened, waitpoints): (Vec<_>, Vec<_>) =
            set.waitpoints.iter().partition(|write| write.before.is_none());
        let rows = |writes: Vec<&Write<Waitpoint>>| {
            let rows = writes.into_iter().filter_map(|write| write.after.as_ref());
            rows.map(WaitpointRow::from).collect()
        };
        // A statement writes a row once: of several under one key the last one counts.
        let last: BTreeMap<(_, &IdempotencyKey), _> =
            set.suspend_keys.iter().map(|row| ((row.execution, &row.key), row)).collect();
        Self {
            set,
            suspensions: suspensions.map(SuspensionRow::from).collect(),
            opened: rows(opened),
            waitpoints: rows(waitpoints),
            signals: set.signals.iter().map(SignalRow::from).collect(),
            suspend_keys: last.into_values().map(SuspendKeyRow::from).collect(),
            keys: KeyRows::new(&set.keys),
        }
    }

    /// Suspensions, new waitpoints, other waitpoints and signals, if there is nothing else.
    pub fn hot(&self) -> Option<Hot<'_>> {
        let WaitWrites { left, keys, .. } = self.set;
        let alone = left.is_empty() && keys.is_empty() && self.suspend_keys.is_empty();
        let Self { suspensions, opened, waitpoints, signals, .. } = self;
        alone.then_some(Hot { suspensions, opened, waitpoints, signals })
    }

    /// The statements. What an execution left open is closed first, for it may be replayed and
    /// suspended again in the same batch.
    pub fn steps<'a>(&'a self, steps: &mut Vec<Step<'a>>) {
        for sql in [suspension::close, waitpoint::close] {
            run_for(steps, sql, &self.set.left, |left| {
                let params = Params::new().ids(left.iter().map(|(id, _)| *id));
                params.all(left.iter().map(|(_, at)| at.0), Type::INT8_ARRAY)
            });
        }
        run_for(steps, suspension::put, &self.suspensions, |rows| {
            Params::new().rows(suspensions(rows))
        });
        for (sql, rows) in [(waitpoint::insert, &self.opened), (waitpoint::put, &self.waitpoints)] {
            run_for(steps, sql, rows, |rows| Params::new().rows(waitpoints(rows)));
        }
        run_for(steps, signal::insert, &self.signals, |rows| Params::new().rows(signals(rows)));
        run_for(steps, suspend_key::put, &self.suspend_keys, |rows| {
            Params::new().rows(suspend_keys(rows))
        });
        self.keys.steps(steps);
    }
}
