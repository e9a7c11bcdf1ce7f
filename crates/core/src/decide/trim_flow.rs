//! Remove a flow whose time is up, with its members, a bounded number of them at a time.
//!
//! Nothing goes before every member has ended and the time of the last of them is up, so that a result
//! is there as long as anybody in the flow may read it. Not before every durable consumer has dealt
//! with what is removed. Sent twice, or too early: nothing to do.

use super::{Again, COMMAND_BYTES, Decide, Repeat};
use crate::command::Traffic;
use crate::error::Rejection;
use crate::fold::{Change, Cx, Effects, GraphEffects, Key, WorkingSet};
use crate::ids::{ExecutionId, FlowId};
use crate::limits::{Config, TRIM_CHUNK_MAX};

/// Remove a flow if it has been finished for long enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrimFlow {
    /// Which.
    pub flow: FlowId,
}

/// The answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowTrimmed {
    /// Members that are gone now.
    pub members: u32,
    /// Whether the flow is gone now.
    pub flow: bool,
}

impl TrimFlow {
    fn members<'a>(&self, have: &'a WorkingSet) -> &'a [ExecutionId] {
        have.graph.first.get(&self.flow).map_or(&[], Vec::as_slice)
    }
}

impl Decide for TrimFlow {
    type Reply = FlowTrimmed;
    const NAME: &'static str = "trim_flow";
    const TRAFFIC: Traffic = Traffic::Admin;
    const REPEAT: Repeat = Repeat {
        by: "the time: it looks again whether the flow is due",
        late: "goes on with the next members, or finds none",
    };

    fn validate(&self, _: &Config) -> Result<(), Rejection> {
        Ok(())
    }

    fn bytes(&self) -> usize {
        COMMAND_BYTES
    }

    fn keys(&self, have: &WorkingSet) -> Vec<Key> {
        let flow = self.flow;
        let mut keys = vec![Key::Flow(flow), Key::First(flow), Key::UnseenFlow(flow)];
        for id in self.members(have) {
            keys.extend([Key::Execution(*id), Key::Unseen(*id)]);
        }
        keys
    }

    fn decide(&self, have: &WorkingSet, cx: &mut Cx<'_>) -> Result<Change<FlowTrimmed>, Rejection> {
        let flow = have.graph.known_flow(self.flow);
        let due = flow.and_then(crate::Flow::trim_at).is_some_and(|at| at <= cx.now);
        if !due {
            return Ok(Change::none(FlowTrimmed::default()));
        }
        // Of a member that came in the same batch nobody knows: it stays for now.
        let unseen = |id: &ExecutionId| have.unseen.get(id) != Some(&false);
        let members = self.members(have);
        let gone: Vec<_> = members.iter().copied().filter(|id| !unseen(id)).collect();
        let whole = gone.len() == members.len() && members.len() < TRIM_CHUNK_MAX;
        let whole = whole && have.graph.unseen.get(&self.flow) == Some(&false);
        let reply =
            FlowTrimmed { members: u32::try_from(gone.len()).unwrap_or(u32::MAX), flow: whole };
        let removed = whole.then_some(self.flow);
        let graph = Some(Box::new(GraphEffects { removed, gone, ..GraphEffects::default() }));
        Ok(Change { reply, effects: Effects { graph, ..Effects::default() } })
    }

    fn again(reply: &FlowTrimmed) -> Again<FlowTrimmed> {
        if !reply.flow && reply.members > 0 {
            return Again::Further;
        }
        Again::Reply(FlowTrimmed::default())
    }
}
