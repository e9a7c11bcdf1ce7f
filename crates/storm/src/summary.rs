//! What a storm says at its end: figures, and every violation.

use std::collections::BTreeMap;
use std::path::Path;

use crate::checker::{Violation, late, lives};
use crate::record::{Record, What};
use crate::settled::Settled;

/// Violations of one rule that are shown.
const SHOWN_MAX: usize = 6;

/// Calls, executions, flows, faults, and how long ready work waited.
pub fn print(record: &Record, settled: &Settled) {
    let lives = lives(record);
    let flows =
        record.calls.iter().filter(|call| call.done() && matches!(call.what, What::Submit { .. }));
    println!("calls {}, executions {}, flows {}", record.calls.len(), lives.len(), flows.count());
    for reader in &record.readers {
        println!("{}: {} events", reader.name, reader.seen.len());
    }
    let mut states = BTreeMap::<&str, usize>::new();
    for standing in settled.states.values() {
        *states.entry(&standing.state).or_default() += 1;
    }
    println!("left: {states:?}");
    for (name, count) in &record.counts {
        println!("  {name}: {count}");
    }
    for fault in &record.faults {
        println!("  fault {} {}..{}", fault.what, fault.from, fault.to);
    }
    let slow: i64 = record.starved.iter().map(|span| span.to - span.from).sum();
    println!("too slow to judge: {} times, {slow} ms", record.starved.len());
    let waits = late::waits(record, &lives);
    let mut beside = late::beside(&waits);
    println!("ready to claimed, beside a waiting claim, no fault on: {}", spread(&mut beside));
}

/// p50, p99 and p100 of some times.
pub fn spread(times: &mut [i64]) -> String {
    times.sort_unstable();
    let Some(last) = times.len().checked_sub(1) else { return "none".to_owned() };
    let at = |percent: usize| times[last * percent / 100];
    format!("p50 {} ms, p99 {} ms, p100 {} ms of {}", at(50), at(99), at(100), last + 1)
}

/// All violations by rule, a few of each in full.
pub fn print_violations(seed: u64, violations: &[Violation], record: &Record) {
    let mut rules = BTreeMap::<&str, Vec<&Violation>>::new();
    for violation in violations {
        rules.entry(violation.rule).or_default().push(violation);
    }
    for (rule, all) in rules {
        println!("\nVIOLATION, seed {seed}: {rule}: {} times", all.len());
        for violation in all.iter().take(SHOWN_MAX) {
            let near = |from: i64, to: i64| {
                violation.at > 0 && from - 10_000 < violation.at && violation.at < to + 10_000
            };
            let faults = record.faults.iter().filter(|fault| near(fault.from, fault.to));
            let faults: Vec<_> = faults
                .map(|fault| format!("{} {}..{}", fault.what, fault.from, fault.to))
                .collect();
            println!("  - at {}: {}", violation.at, violation.text);
            if !faults.is_empty() {
                println!("      faults nearby: {}", faults.join(", "));
            }
        }
    }
}

/// Keeps the record and what the servers said, to look at.
pub fn keep(place: &Path, seed: u64, record: &Record, directory: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(place)?;
    let lines: Vec<_> = record.calls.iter().map(|call| format!("{call:?}")).collect();
    std::fs::write(place.join(format!("calls-{seed}")), lines.join("\n"))?;
    for reader in &record.readers {
        let lines: Vec<_> = reader.seen.iter().map(|seen| seen.text.as_str()).collect();
        std::fs::write(place.join(format!("{}-{seed}", reader.name)), lines.join("\n"))?;
    }
    for entry in std::fs::read_dir(directory)?.flatten() {
        let name = entry.file_name();
        if name.to_string_lossy().ends_with(".log") {
            std::fs::copy(entry.path(), place.join(name))?;
        }
    }
    Ok(())
}
