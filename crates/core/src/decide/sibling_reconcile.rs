//! Tidy up after sibling cancellation: rows without a group, and groups that are done.
//!
//! It cancels nothing and waits for nobody.

use super::sibling_cancel::{drained, draining, is_pending, keys, member, siblings};
use super::{Again, COMMAND_BYTES, Decide};
use crate::command::Traffic;
use crate::error::Rejection;
use crate::execution::State;
use crate::fold::{Change, Cx, Key, WorkingSet};
use crate::ids::{ExecutionId, FlowId};
use crate::limits::Config;
use crate::state::words;

/// Look after a group whose siblings are to be cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReconcileSiblings {
    /// The flow.
    pub flow: FlowId,
    /// The execution whose group it is.
    pub downstream: ExecutionId,
}

words! {
    /// What was done.
    SiblingsReconciled {
        SremmedStale = "sremmed_stale", CompletedDrain = "completed_drain", NoOp = "no_op",
    }
}

impl Decide for ReconcileSiblings {
    type Reply = SiblingsReconciled;
    const NAME: &'static str = "reconcile_siblings";
    const TRAFFIC: Traffic = Traffic::Admin;

    fn validate(&self, _: &Config) -> Result<(), Rejection> {
        Ok(())
    }

    fn bytes(&self) -> usize {
        COMMAND_BYTES
    }

    fn keys(&self, have: &WorkingSet) -> Vec<Key> {
        keys(self.flow, self.downstream, have)
    }

    fn decide(
        &self,
        have: &WorkingSet,
        _: &mut Cx<'_>,
    ) -> Result<Change<SiblingsReconciled>, Rejection> {
        let key = (self.flow, self.downstream);
        let there = matches!(have.graph.cancels.get(&key), Some(Some(_)));
        if !there || have.graph.taken.contains(&key) {
            return Ok(Change::none(SiblingsReconciled::NoOp));
        }
        let group = have.graph.group(key);
        let graph = drained(group, self.flow, self.downstream);
        let Some(group) = group.filter(|group| is_pending(group)) else {
            return Ok(draining(SiblingsReconciled::SremmedStale, graph));
        };
        let runs = |id: &ExecutionId| {
            let sibling = member(self.flow, *id, have);
            sibling.is_some_and(|x| !matches!(x.state, State::Terminal(_)))
        };
        if siblings(group, have).iter().any(runs) {
            return Ok(Change::none(SiblingsReconciled::NoOp));
        }
        Ok(draining(SiblingsReconciled::CompletedDrain, graph))
    }

    fn again(_: &SiblingsReconciled) -> Again<SiblingsReconciled> {
        Again::Reply(SiblingsReconciled::NoOp)
    }
}
