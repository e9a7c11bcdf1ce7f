//! Measures our operations beside a floor: plain prepared SQL through the same driver, on the
//! same disk, in the same run. Read the ratios; absolute figures belong to a machine.
//!
//! `ff-bench [--check] [--json] [--runs N] [--backend sqlite|postgres] [ROW]`; with `--check` it fails
//! when a row does not reach its bar.

mod floor;
mod ours;
mod place;
mod rows;

use anyhow::{Context, bail};
use serde_json::json;

use rows::{Figure, ROWS, Row, names};

struct Arguments {
    check: bool,
    json: bool,
    runs: usize,
    backend: Option<String>,
    row: Option<String>,
}

fn main() -> anyhow::Result<()> {
    let mut words = std::env::args().skip(1);
    let mut arguments = Arguments { check: false, json: false, runs: 3, backend: None, row: None };
    while let Some(word) = words.next() {
        match word.as_str() {
            "--check" => arguments.check = true,
            "--json" => arguments.json = true,
            "--runs" => arguments.runs = words.next().context("--runs takes a number")?.parse()?,
            "--backend" => arguments.backend = Some(words.next().context("which backend?")?),
            // The other process of a row that needs two.
            "--idle-worker" => {
                let url = words.next().context("on which database?")?;
                return threads()?.block_on(async {
                    ours::speed::idle_worker(place::engine(&url).await?).await
                });
            }
            "--batch-worker" => {
                let url = words.next().context("on which database?")?;
                return threads()?.block_on(async {
                    ours::load::batch_worker(place::engine(&url).await?).await
                });
            }
            "--noop-worker" => {
                let url = words.next().context("on which database?")?;
                return threads()?.block_on(ours::worker::noop_worker(&url));
            }
            row if ROWS.iter().any(|known| known.name == row) => arguments.row = Some(word),
            other => bail!("unknown row {other:?}; there are {}", names()),
        }
    }
    refuse_beside_a_compiler()?;
    measure_all(&arguments)
}

/// Threads of their own for every run and every floor: on threads that have just done something
/// else, the same work was seen to be switched between processors a third more often, and to take
/// a seventh longer.
fn threads() -> anyhow::Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().enable_all().build()?)
}

fn measure_all(arguments: &Arguments) -> anyhow::Result<()> {
    let wanted = |name: &Option<String>, is: &str| name.as_deref().is_none_or(|name| name == is);
    let chosen = ROWS
        .iter()
        .filter(|row| wanted(&arguments.row, row.name) && wanted(&arguments.backend, row.backend));
    let mut table = comfy_table::Table::new();
    table.set_header(["row", "backend", "value", "unit", "floor", "ratio", "bar", "holds"]);
    let mut missed = Vec::new();
    for row in chosen {
        let figure = row.measure(arguments.runs)?;
        if row.holds(&figure) == Some(false) {
            missed.push(format!("{} on {}", row.name, row.backend));
        }
        if arguments.json {
            println!("{}", as_json(row, &figure));
        } else {
            table.add_row(as_line(row, &figure));
            eprintln!("{:<28}{:<10}{:.3}", row.name, row.backend, figure.value);
        }
    }
    if !arguments.json {
        println!("{table}");
        println!(
            "Medians of {}; a floor is plain prepared SQL on the same disk in the same run.",
            arguments.runs
        );
    }
    if arguments.check && !missed.is_empty() {
        bail!("below their bars: {}", missed.join(", "));
    }
    Ok(())
}

fn as_json(row: &Row, figure: &Figure) -> serde_json::Value {
    let mut line = json!({
        "row": row.name, "backend": row.backend, "value": figure.value, "unit": row.unit,
        "floor": figure.floor, "ratio": figure.ratio(), "bar": row.bar.map(|bar| bar.to_string()),
        "holds": row.holds(figure),
    });
    for (name, value) in &figure.beside {
        line[*name] = (*value).into();
    }
    line
}

fn as_line(row: &Row, figure: &Figure) -> Vec<String> {
    let shown = |value: f64| {
        let digits = if value.abs() >= 100.0 { 0 } else { 3 };
        format!("{value:.digits$}")
    };
    let mut value = vec![shown(figure.value)];
    let beside = figure.beside.iter();
    value.extend(beside.map(|(name, value)| format!("(+{} {name})", shown(*value))));
    vec![
        row.name.to_owned(),
        row.backend.to_owned(),
        value.join(" "),
        row.unit.to_owned(),
        figure.floor.map(shown).unwrap_or_default(),
        figure.ratio().map(|ratio| format!("{ratio:.2}")).unwrap_or_default(),
        row.bar.map(|bar| bar.to_string()).unwrap_or_default(),
        row.holds(figure).map_or("", |holds| if holds { "yes" } else { "NO" }).to_owned(),
    ]
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
