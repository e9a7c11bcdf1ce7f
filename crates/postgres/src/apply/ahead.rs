//! Reading ahead: what the end of a member, or of a whole flow, will touch is known to the database before
//! it is known here, so one flight locks and loads it together with the member and its flow.
//!
//! It saves a flight and changes nothing: what was not read ahead is asked for in the next round.

use std::collections::BTreeSet;

use ff_core::backend::StoreError;
use ff_core::command::Command;
use ff_core::execution::State;
use ff_core::flow::CancellationPolicy;
use ff_core::fold::{GroupKey, Key};
use ff_core::ids::{ExecutionId, FlowId};
use ff_core::limits::CANCEL_AT_ONCE_MAX;
use ff_core::row::corrupt;
use tokio_postgres::Row;
use uuid::Uuid;

use crate::codec::{self, Params, Reader};
use crate::connection::Step;
use crate::graph::read_group;
use crate::load::{Loaded, read_blob};
use crate::statements::ahead;

/// What a batch will touch besides what it names.
pub enum Ahead {
    /// What waits for members that end.
    Ends(Ends),
    /// The members of a flow that is cancelled.
    Cancel(FlowId),
}

/// Members whose ends are told to their flows.
pub struct Ends {
    ended: BTreeSet<GroupKey>,
    executions: BTreeSet<ExecutionId>,
    starts: bool,
}

impl Ahead {
    /// Nothing when `batch` names all that it touches.
    pub fn of(batch: &[Command], named: &BTreeSet<Key>) -> Option<Self> {
        match batch {
            [Command::CancelFlow(cancel)] if cancel.policy == CancellationPolicy::All => {
                Some(Self::Cancel(cancel.flow))
            }
            _ => Ends::of(batch, named).map(Self::Ends), // not ours: the others name what they touch
        }
    }

    /// The statements that lock, to come after the locks of flows and groups.
    pub fn lock(&self) -> Vec<Step<'static>> {
        match self {
            Self::Ends(ends) => ends.lock(),
            Self::Cancel(flow) => vec![Step::Run(ahead::members, members(*flow))],
        }
    }

    /// The statements that load.
    pub fn load(&self) -> Vec<Step<'static>> {
        match self {
            Self::Ends(ends) => ends.load(),
            Self::Cancel(flow) => vec![Step::Run(ahead::open, members(*flow))],
        }
    }

    /// Reads the answers to both.
    pub fn read<'r>(
        &self,
        locked: &'r [Vec<Row>],
        rows: &'r [Vec<Row>],
        loaded: &mut Loaded,
    ) -> Result<(), StoreError> {
        match self {
            Self::Ends(ends) => ends.read(locked, rows, loaded),
            Self::Cancel(flow) => {
                let first =
                    |answers: &'r [Vec<Row>]| answers.first().map_or(&[][..], Vec::as_slice);
                read_members(*flow, (first(locked), first(rows)), loaded)
            }
        }
    }
}

/// One more than are cancelled at once, to see whether there are.
fn members(flow: FlowId) -> Params<'static> {
    Params::new().flows(std::iter::once(flow)).count(CANCEL_AT_ONCE_MAX + 1)
}

/// Reads the members of a flow that is cancelled, unless they are too many to be cancelled at once.
fn read_members(
    flow: FlowId,
    (locked, rows): (&[Row], &[Row]),
    loaded: &mut Loaded,
) -> Result<(), StoreError> {
    if locked.len() > CANCEL_AT_ONCE_MAX {
        return Ok(());
    }
    let locked = locked.iter().map(|row| Reader::new(row).take::<Uuid>("execution_id"));
    let locked: BTreeSet<Uuid> = locked.collect::<Result<_, _>>()?;
    let mut members = Vec::with_capacity(rows.len());
    for row in rows {
        let (id, read) = codec::read_execution(row)?;
        if !locked.contains(&id.uuid()) {
            // It began anew between the two statements: the next round lists them.
            return Ok(());
        }
        match read {
            Ok(x) => {
                let at = row.try_get("at").map_err(|why| corrupt("ctid", id, why))?;
                loaded.places.insert(id, at);
                members.push((id, x.state.phase()));
                loaded.have.executions.insert(id, Some(x));
            }
            Err(error) => {
                loaded.damaged.insert(Key::Members(flow), error);
                return Ok(());
            }
        }
    }
    loaded.have.graph.members.insert(flow, members);
    Ok(())
}

impl Ends {
    /// Nothing when a batch tells no flow of an end, or names groups, which must then all be locked
    /// in one order.
    fn of(batch: &[Command], named: &BTreeSet<Key>) -> Option<Self> {
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

    fn lock(&self) -> Vec<Step<'static>> {
        vec![Step::Run(ahead::groups, self.ended()), Step::Run(ahead::lock, self.both())]
    }

    fn load(&self) -> Vec<Step<'static>> {
        let inputs = self.starts.then(|| Step::Run(ahead::inputs, self.ended()));
        std::iter::once(Step::Run(ahead::load, self.both())).chain(inputs).collect()
    }

    fn read(
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
