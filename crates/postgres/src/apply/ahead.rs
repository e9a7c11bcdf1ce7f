//! Reading ahead: what the end of a member will touch is known to the database before it is known here,
//! so one flight locks and loads it together with the member and its flow.
//!
//! It saves a flight and changes nothing: what was not read ahead is asked for in the next round.

use std::collections::BTreeSet;

use ff_core::backend::StoreError;
use ff_core::command::Command;
use ff_core::execution::State;
use ff_core::fold::{GroupKey, Key};
use ff_core::ids::ExecutionId;
use tokio_postgres::Row;

use crate::codec::{self, Params};
use crate::connection::Step;
use crate::graph::read_group;
use crate::load::{Loaded, read_blob};
use crate::statements::ahead;

/// Members whose ends are told to their flows.
pub struct Ahead {
    ended: BTreeSet<GroupKey>,
    executions: BTreeSet<ExecutionId>,
    starts: bool,
}

impl Ahead {
    /// What a batch will touch besides what it names; nothing when it tells no flow of an end, or
    /// names groups, which must then all be locked in one order.
    pub fn of(batch: &[Command], named: &BTreeSet<Key>) -> Option<Self> {
        if named.iter().any(|key| matches!(key, Key::Group(..) | Key::FreeGroup(..))) {
            return None;
        }
        let mut ended = BTreeSet::new();
        let mut starts = false;
        for command in batch {
            match command {
                Command::DispatchCompletion(told) => {
                    ended.insert((told.flow, told.execution));
                }
                Command::StartReleased(_) => starts = true,
                _ => {} // not ours: the others name what they touch
            }
        }
        if ended.is_empty() {
            return None;
        }
        let execution = |key: &Key| if let Key::Execution(id) = key { Some(*id) } else { None };
        let mut executions: BTreeSet<_> = named.iter().filter_map(execution).collect();
        executions.extend(ended.iter().map(|(_, id)| *id));
        Some(Self { ended, executions, starts })
    }

    fn ended(&self) -> Params<'static> {
        Params::new().in_flows(self.ended.iter().map(|(flow, id)| (*flow, id.uuid())))
    }

    fn both(&self) -> Params<'static> {
        self.ended().ids(self.executions.iter().copied())
    }

    /// The statements that lock, to come after the locks of flows and groups.
    pub fn lock(&self) -> Vec<Step<'static>> {
        vec![Step::Run(ahead::groups, self.ended()), Step::Run(ahead::lock, self.both())]
    }

    /// The statements that load.
    pub fn load(&self) -> Vec<Step<'static>> {
        let inputs = self.starts.then(|| Step::Run(ahead::inputs, self.ended()));
        std::iter::once(Step::Run(ahead::load, self.both())).chain(inputs).collect()
    }

    /// Reads the answers to both.
    pub fn read(
        &self,
        locked: &[Vec<Row>],
        rows: &[Vec<Row>],
        loaded: &mut Loaded,
    ) -> Result<(), StoreError> {
        for row in locked.first().into_iter().flatten() {
            let (key, read) = read_group(row)?;
            loaded.locked.insert(key);
            match read {
                Ok(group) => drop(loaded.have.graph.groups.insert(key, Some(group))),
                Err(error) => drop(loaded.damaged.insert(Key::Group(key.0, key.1), error)),
            }
        }
        let have = &mut loaded.have;
        have.executions.extend(self.executions.iter().map(|id| (*id, None)));
        for row in rows.first().into_iter().flatten() {
            let (id, read) = codec::read_execution(row)?;
            match read {
                Ok(x) => {
                    let gated = matches!(&x.state, State::Runnable(waits) if waits.gated);
                    if self.starts && gated {
                        have.inputs.insert(id, None);
                    }
                    have.executions.insert(id, Some(x));
                }
                Err(error) => {
                    have.executions.remove(&id);
                    loaded.damaged.insert(Key::Execution(id), error);
                }
            }
        }
        for row in rows.get(1).into_iter().flatten() {
            let blob = read_blob(row)?;
            have.inputs.insert(blob.at.execution(), Some(blob));
        }
        Ok(())
    }
}
