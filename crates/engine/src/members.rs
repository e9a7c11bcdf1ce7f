//! Members of flows that this process hands out: when one ends here, its flow is told in the commit
//! that ends it, and what that lets go is started for a claim that waits here.
//!
//! It is a shortcut and nothing rests on it: a flow that somebody else holds is told a moment later by
//! the duty that does it for everybody.

use std::collections::HashMap;
use std::sync::Mutex;

use ff_core::command::Command;
use ff_core::decide::dispatch::DispatchCompletion;
use ff_core::{Claimed, ExecutionId, FlowId};

/// Members that are remembered; beyond it all are forgotten, and the duty tells their flows.
const KNOWN_MAX: usize = 10_000;

/// Which flows the executions belong to that were handed out here.
#[derive(Default)]
pub struct Members(Mutex<HashMap<ExecutionId, FlowId>>);

impl Members {
    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<ExecutionId, FlowId>> {
        self.0.lock().expect("no holder of this lock panics")
    }

    /// Remembers those of the work that are members.
    pub fn learn<'c>(&self, work: impl IntoIterator<Item = &'c Claimed>) {
        let flow = |claimed: &Claimed| {
            let x = &claimed.leased.execution;
            x.flow().map(|flow| (x.id, flow))
        };
        let mut found = work.into_iter().filter_map(flow).peekable();
        if found.peek().is_none() {
            return;
        }
        let mut known = self.lock();
        // Many of them ended in ways that nobody here hears of.
        if known.len() >= KNOWN_MAX {
            known.clear();
        }
        known.extend(found);
    }

    /// The flows that some commands tell of an end.
    pub fn flows<'c>(&self, commands: impl IntoIterator<Item = &'c Command>) -> Vec<FlowId> {
        let known = self.lock();
        if known.is_empty() {
            return Vec::new();
        }
        let ended = commands.into_iter().filter_map(ends);
        ended.filter_map(|id| known.get(&id).copied()).collect()
    }

    /// The commands that tell flows of the ends in a batch.
    pub fn tell(&self, commands: &[Command]) -> Vec<Command> {
        let mut known = self.lock();
        if known.is_empty() {
            return Vec::new();
        }
        let tell = |id: ExecutionId| {
            let flow = known.remove(&id)?;
            Some(DispatchCompletion { flow, execution: id, eager: true }.into())
        };
        commands.iter().filter_map(ends).filter_map(tell).collect()
    }
}

/// What a command ends, if it succeeds.
fn ends(command: &Command) -> Option<ExecutionId> {
    match command {
        Command::Complete(complete) => Some(complete.id),
        Command::Fail(fail) => Some(fail.id),
        Command::Cancel(cancel) => Some(cancel.id),
        _ => None, // not ours: nothing else that a worker says ends anything
    }
}
