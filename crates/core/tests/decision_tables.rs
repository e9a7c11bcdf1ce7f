//! What every command does to an execution in every state, as one table.
//!
//! Each line reads: the command; then either the code it is refused with, or what it leads to (the
//! public state and the state of the attempt) and the events it appends. `nothing` was accepted and
//! changed nothing; `lease` moved only the lease; `key` and `consumer` touch other rows. In a flow,
//! `others` changed other executions, `flow`, `group` and `edge` such rows, and `dispatch` and
//! `siblings` what the flow is still to be told or to cancel. `suspension`, `waitpoint`, `signal` and
//! `signing key` touch what belongs to suspensions.

#![allow(clippy::unwrap_used)]

#[path = "support/commands.rs"]
mod commands;
#[path = "support/members.rs"]
mod members;
#[path = "support/samples.rs"]
mod samples;
#[path = "support/suspensions.rs"]
mod suspensions;
#[path = "support/world.rs"]
mod world;

use std::collections::BTreeSet;
use std::fmt::Write as _;

use expect_test::expect_file;
use ff_core::fold::Delta;
use ff_core::{Command, ExecutionId, WriteSet, state};

use samples::{Case, Sample, cases, samples};
use world::World;

#[test]
fn every_command_has_one_answer_in_every_state() {
    let mut table = String::new();
    for sample in samples() {
        let at = standing(&sample.life.world, sample.life.id);
        writeln!(table, "{}: {}\n  [{at}]", sample.name, sample.about).unwrap();
        for case in cases(&sample.life) {
            writeln!(table, "  {:<32} {}", case.label, answer(&sample, &case)).unwrap();
        }
        table.push('\n');
    }
    table.truncate(table.trim_end().len() + 1);
    expect_file!["snapshots/decisions.txt"].assert_eq(&table);
}

#[test]
fn no_command_is_left_out() {
    for sample in samples() {
        let tried: BTreeSet<_> =
            cases(&sample.life).iter().map(|case| case.command.name()).collect();
        assert_eq!(tried, Command::NAMES.iter().copied().collect());
    }
}

#[test]
fn no_two_samples_share_a_name() {
    let names: BTreeSet<_> = samples().iter().map(|sample| sample.name).collect();
    assert_eq!(names.len(), samples().len());
}

#[test]
fn every_word_for_a_state_is_sampled() {
    let lives: Vec<_> = samples().into_iter().map(|sample| sample.life).collect();
    let vectors: Vec<_> =
        lives.iter().filter(|life| life.find().is_some()).map(world::Life::vector).collect();
    for state in state::PublicState::ALL {
        assert!(vectors.iter().any(|v| v.public_state == *state), "{state}");
    }
    for state in state::AttemptState::ALL {
        assert!(vectors.iter().any(|v| v.attempt_state == *state), "{state}");
    }
    for state in state::EligibilityState::ALL {
        assert!(vectors.iter().any(|v| v.eligibility_state == *state), "{state}");
    }
    for reason in state::BlockingReason::ALL {
        assert!(vectors.iter().any(|v| v.blocking_reason == *reason), "{reason}");
    }
}

fn answer(sample: &Sample, case: &Case) -> String {
    let mut world = sample.life.world.clone();
    let (outcome, set) = world.send(case.command.clone());
    match outcome {
        Err(refused) => {
            assert!(set.is_empty(), "{} was refused and left a trace", case.label);
            refused.code.to_string()
        }
        Ok(_) => effect(&world, sample.life.id, &set),
    }
}

fn effect(world: &World, id: ExecutionId, set: &WriteSet) -> String {
    let mut parts = Vec::new();
    let is_own = |x: &ff_core::Execution| x.id == id;
    let writes = set.executions.iter();
    let changed =
        writes.filter(|write| write.before.iter().chain(&write.after).any(is_own)).count();
    if changed > 0 || set.removed.contains(&id) {
        parts.push(format!("-> {}", standing(world, id)));
    } else if set.executions.is_empty() && !set.leases.is_empty() {
        parts.push("lease".to_owned());
    }
    if !set.events.is_empty() {
        let names: Vec<_> = set.events.iter().map(|e| e.kind.name().as_str()).collect();
        parts.push(format!("+ {}", names.join(", ")));
    }
    if set.executions.is_empty() {
        parts.extend(set.keys.iter().map(|_| "key".to_owned()));
    }
    parts.extend(set.consumers.iter().map(|_| "consumer".to_owned()));
    let (graph, waits) = (&set.graph, &set.waits);
    for (there, word) in [
        (!set.steps.is_empty(), "steps"),
        (set.executions.len() > changed, "others"),
        (!graph.flows.is_empty() || !graph.removed.is_empty(), "flow"),
        (!graph.groups.is_empty(), "group"),
        (!graph.edges.is_empty(), "edge"),
        (graph.dispatch != Delta::default(), "dispatch"),
        (graph.cancels != Delta::default(), "siblings"),
        (!waits.suspensions.is_empty() || !waits.left.is_empty(), "suspension"),
        (!waits.waitpoints.is_empty(), "waitpoint"),
        (!waits.signals.is_empty(), "signal"),
        (!waits.keys.is_empty(), "signing key"),
    ] {
        parts.extend(there.then(|| word.to_owned()));
    }
    if parts.is_empty() {
        assert!(set.is_empty());
        return "nothing".to_owned();
    }
    parts.join(" ")
}

/// The public state and the state of the attempt.
fn standing(world: &World, id: ExecutionId) -> String {
    world.find(id).map_or_else(
        || "absent".to_owned(),
        |x| {
            let vector = state::vector(x, world.now);
            format!("{}, {}", vector.public_state, vector.attempt_state)
        },
    )
}
