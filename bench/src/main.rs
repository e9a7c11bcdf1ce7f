//! Measures our operations beside a floor: plain prepared SQL through the same driver, on the
//! same disk, in the same run. Read the ratios; absolute figures belong to a machine.
//!
//! `ff-bench [--json] [--runs N] [ROW]`

mod floor;
mod ours;

use std::path::Path;

use anyhow::{Context, bail};
use serde_json::json;

/// One thing that is measured.
struct Row {
    name: &'static str,
    unit: &'static str,
    /// Whether a larger value is better.
    rate: bool,
    measure: fn(&Path) -> anyhow::Result<f64>,
    floor: fn(&Path) -> anyhow::Result<f64>,
}

const ROWS: [Row; 4] = [
    Row {
        name: "create_callers32",
        unit: "executions/s",
        rate: true,
        measure: ours::create_callers32,
        floor: floor::insert_each,
    },
    Row {
        name: "create_batch1000",
        unit: "executions/s",
        rate: true,
        measure: ours::create_batch1000,
        floor: floor::insert_hundreds,
    },
    Row {
        name: "drain",
        unit: "executions/s",
        rate: true,
        measure: ours::drain,
        floor: floor::pop_hundreds,
    },
    Row {
        name: "latency_p50",
        unit: "ms",
        rate: false,
        measure: ours::latency_p50,
        floor: floor::three_commits,
    },
];

fn main() -> anyhow::Result<()> {
    let (mut as_json, mut runs, mut only) = (false, 3, None);
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--json" => as_json = true,
            "--runs" => runs = words.next().context("--runs takes a number")?.parse()?,
            row if ROWS.iter().any(|known| known.name == row) => only = Some(word),
            other => bail!("unknown row {other:?}; there are {}", names()),
        }
    }
    refuse_beside_a_compiler()?;
    let chosen = ROWS.iter().filter(|row| only.as_ref().is_none_or(|name| name == row.name));
    let mut table = comfy_table::Table::new();
    table.set_header(["row", "backend", "value", "unit", "floor", "ratio"]);
    for row in chosen {
        let (value, floor) = measure(row, runs)?;
        let ratio = value / floor;
        if as_json {
            let line = json!({"row": row.name, "backend": "sqlite", "value": value,
                "unit": row.unit, "floor": floor, "ratio": ratio});
            println!("{line}");
        } else {
            let digits = if row.rate { 0 } else { 3 };
            table.add_row([
                row.name.to_owned(),
                "sqlite".to_owned(),
                format!("{value:.digits$}"),
                row.unit.to_owned(),
                format!("{floor:.digits$}"),
                format!("{ratio:.2}"),
            ]);
        }
    }
    if !as_json {
        println!("{table}");
        println!("Medians of {runs} runs; the floor is plain prepared SQL on the same disk.");
    }
    Ok(())
}

fn names() -> String {
    ROWS.map(|row| row.name).join(", ")
}

/// Medians of the value and of the floor, taken in turn so that both see the same noise.
fn measure(row: &Row, runs: usize) -> anyhow::Result<(f64, f64)> {
    let (mut values, mut floors) = (Vec::new(), Vec::new());
    for _ in 0..runs.max(1) {
        for (figures, measure) in [(&mut floors, row.floor), (&mut values, row.measure)] {
            let directory = tempfile::tempdir().context("cannot make a directory")?;
            figures.push(measure(&directory.path().join("bench.db"))?);
        }
    }
    Ok((median(values), median(floors)))
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// With a compiler running, a commit takes many times as long.
fn refuse_beside_a_compiler() -> anyhow::Result<()> {
    let Ok(processes) = std::fs::read_dir("/proc") else { return Ok(()) };
    for process in processes.flatten() {
        let name = std::fs::read_to_string(process.path().join("comm")).unwrap_or_default();
        if ["rustc", "cc1", "cc1plus", "ld"].contains(&name.trim()) {
            bail!("a compiler is running ({}): figures would be worthless", name.trim());
        }
    }
    Ok(())
}
