//! `ff lanes`: how much waits for a worker, lane by lane.

use std::io::Write;

use clap::Args;
use ff_wire::lane::{Lane, LanesAnswer};

use crate::output::{self, Format, Output, clean};
use crate::place::Place;
use crate::span;
use crate::table::{Column, Table, left, right};

const COLUMNS: &[Column] = &[left("LANE"), right("WAITING"), right("OLDEST")];

/// Say how much waits in each lane.
#[derive(Args)]
pub struct Lanes {
    #[command(flatten)]
    output: Output,
}

impl Lanes {
    /// Says it.
    pub async fn run(self, place: &Place) -> anyhow::Result<()> {
        let lanes = place.client().await?.lanes().await?;
        let mut out = std::io::stdout();
        match self.output.output {
            Some(Format::Json) => return output::json(&LanesAnswer { lanes }),
            Some(Format::Ids) => {
                for lane in &lanes {
                    writeln!(out, "{}", clean(&lane.lane_id))?;
                }
            }
            Some(Format::Table) => table(&lanes, &mut out)?,
            None if output::is_terminal() => table(&lanes, &mut out)?,
            None => {
                for lane in &lanes {
                    writeln!(out, "{}", cells(lane).join("\t"))?;
                }
            }
        }
        Ok(())
    }
}

fn table(lanes: &[Lane], out: &mut impl Write) -> anyhow::Result<()> {
    if lanes.is_empty() {
        return Ok(writeln!(out, "no lanes")?);
    }
    let mut table = Table::new(COLUMNS);
    for lane in lanes {
        table.row(cells(lane));
    }
    Ok(table.print(out, output::width(), "")?)
}

fn cells(lane: &Lane) -> [String; 3] {
    let more = if lane.waiting_capped { "+" } else { "" };
    let longest = lane.oldest_waiting_ms.map_or_else(|| "-".to_owned(), span::length);
    [clean(&lane.lane_id), format!("{}{more}", lane.waiting), longest]
}
