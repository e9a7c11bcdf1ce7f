//! Tidy up after sibling cancellation: rows without a group, and groups that are done.
//!
//! It cancels nothing and waits for nobody. A group is done when all its siblings ended or are spared.

use super::graph::Draft;
use super::sibling_cancel::{draining, is_pending, keys, siblings};
use super::{Again, COMMAND_BYTES, Decide, Repeat};
use crate::command::Traffic;
use crate::error::Rejection;
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
    const REPEAT: Repeat =
        Repeat { by: "what there is to repair", late: "finds nothing to repair" };

    fn validate(&self, _: &Config) -> Result<(), Rejection> {
        Ok(())
    }

    fn bytes(&self) -> usize {
        COMMAND_BYTES
    }

    fn keys(&self, have: &WorkingSet) -> Vec<Key> {
        let mut keys = keys(self.flow, self.downstream, have);
        keys.push(Key::FreeFlow(self.flow));
        keys
    }

    fn decide(
        &self,
        have: &WorkingSet,
        cx: &mut Cx<'_>,
    ) -> Result<Change<SiblingsReconciled>, Rejection> {
        let key = (self.flow, self.downstream);
        let there = matches!(have.graph.cancels.get(&key), Some(Some(_)));
        let held = have.graph.busy.contains(&self.flow) || have.graph.taken.contains(&key);
        if !there || held {
            return Ok(Change::none(SiblingsReconciled::NoOp));
        }
        let group = have.graph.group(key).filter(|group| is_pending(group));
        let (Some(flow), Some(group)) = (have.graph.known_flow(self.flow), group) else {
            return Ok(draining(SiblingsReconciled::SremmedStale, self.flow, self.downstream));
        };
        if siblings(group, have).is_none_or(|siblings| !siblings.cancelled.is_empty()) {
            return Ok(Change::none(SiblingsReconciled::NoOp));
        }
        let mut draft = Draft::new(have, flow, cx);
        draft.drain(group, have, cx)?;
        Ok(draft.change(SiblingsReconciled::CompletedDrain))
    }

    fn again(_: &SiblingsReconciled) -> Again<SiblingsReconciled> {
        Again::Reply(SiblingsReconciled::NoOp)
    }
}
