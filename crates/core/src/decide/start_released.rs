//! Start what a batch lets go: an execution whose group fires, or that is submitted with its flow and waits
//! for nothing, may be leased in the same transaction, on behalf of a claim that waits for work.
//!
//! Only what waited for others, or was not there, when the batch began is started: it stands in no queue,
//! so nobody else can be about to take it. Sent twice: there is nothing left to start.

use super::{Again, COMMAND_BYTES, Decide, Repeat};
use crate::backend::{ClaimAsk, Claimed};
use crate::command::Traffic;
use crate::error::Rejection;
use crate::execution::{Execution, State};
use crate::fold::{Change, Cx, Effects, GraphEffects, Key, WorkingSet};
use crate::index;
use crate::limits::{CLAIM_BYTES_MAX, Config};

/// Lease what this batch lets go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartReleased {
    /// The claim that waits.
    pub ask: ClaimAsk,
}

impl StartReleased {
    fn suits(&self, x: &Execution) -> bool {
        let required = x.spec.policy.required_capabilities();
        self.ask.lanes.contains(&x.spec.lane) && required.is_subset(&self.ask.capabilities)
    }
}

impl Decide for StartReleased {
    /// What the claim is given.
    type Reply = Vec<Claimed>;
    const NAME: &'static str = "start_released";
    const TRAFFIC: Traffic = Traffic::Finish;
    const REPEAT: Repeat = Repeat {
        by: "its claim id; it starts only what its own batch released",
        late: "finds nothing to start",
    };

    fn validate(&self, _: &Config) -> Result<(), Rejection> {
        self.ask.validate()
    }

    fn bytes(&self) -> usize {
        COMMAND_BYTES
    }

    fn keys(&self, have: &WorkingSet) -> Vec<Key> {
        let waits = |x: &&Execution| {
            let waits = match &x.state {
                State::Runnable(runnable) => runnable.gated,
                State::Suspended(_) => true,
                State::Active(_) | State::Terminal(_) => false,
            };
            waits && x.input_from.is_none() && self.suits(x)
        };
        let known = have.executions.values().flatten().filter(waits);
        known.map(|x| Key::Input(x.id)).collect()
    }

    fn decide(
        &self,
        have: &WorkingSet,
        cx: &mut Cx<'_>,
    ) -> Result<Change<Vec<Claimed>>, Rejection> {
        let mut places: Vec<_> = have
            .inputs
            .keys()
            .filter_map(|id| have.execution(*id).ok())
            .filter(|x| x.input_from.is_none() && self.suits(x))
            .filter_map(|x| Some((index::place(x)?, x)))
            .filter(|(place, x)| place.from.is_none_or(|from| from <= cx.at(x)))
            .collect();
        places.sort_by_key(|(place, _)| place.ready);
        let max = usize::try_from(self.ask.max).unwrap_or(usize::MAX);
        let (mut given, mut graph) = (Vec::new(), GraphEffects::default());
        let (mut events, mut bytes) = (Vec::new(), 0);
        for (_, x) in places.into_iter().take(max) {
            let input = have.inputs.get(&x.id).cloned().flatten();
            bytes += input.as_ref().map_or(0, |blob| blob.bytes.len());
            if bytes > CLAIM_BYTES_MAX && !given.is_empty() {
                break;
            }
            let State::Runnable(runnable) = &x.state else { continue };
            let change = self.ask.claim(x.id).lease(x, runnable, cx.at(x));
            graph.executions.extend(change.effects.execution);
            events.extend(change.effects.events);
            given.push(Claimed { leased: change.reply, input });
        }
        let graph = (!given.is_empty()).then(|| Box::new(graph));
        Ok(Change { reply: given, effects: Effects { events, graph, ..Effects::default() } })
    }

    fn again(_: &Vec<Claimed>) -> Again<Vec<Claimed>> {
        Again::Reply(Vec::new())
    }
}
