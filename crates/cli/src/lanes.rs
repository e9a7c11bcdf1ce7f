//! `ff lanes`: how much waits for a worker, and how many executions are in which state, lane by
//! lane.

use std::io::Write;

use clap::Args;
use ff_core::state::PublicState;
use ff_wire::lane::{Lane, LaneCount};
use serde::Serialize;

use crate::output::{self, Format, Output, clean};
use crate::place::Place;
use crate::span;
use crate::table::{Column, Table, left, right};

/// Ready is what a worker would be given now; the one that is next in line has waited so long.
const DEPTH: [Column; 3] = [left("LANE"), right("READY"), right("OLDEST")];

/// Say how much is in each lane.
#[derive(Args)]
pub struct Lanes {
    #[command(flatten)]
    output: Output,
}

/// What the server answers to two questions.
#[derive(Serialize)]
struct Answer {
    lanes: Vec<Lane>,
    counts: Vec<LaneCount>,
}

impl Lanes {
    /// Says it.
    pub async fn run(self, place: &Place) -> anyhow::Result<()> {
        let client = place.client().await?;
        let answer = Answer { lanes: client.lanes().await?, counts: client.counts().await? };
        let mut out = std::io::stdout();
        match self.output.output {
            Some(Format::Json) => return output::json(&answer),
            Some(Format::Ids) => {
                for lane in &answer.lanes {
                    writeln!(out, "{}", clean(&lane.lane_id))?;
                }
            }
            Some(Format::Table) => answer.table(&mut out)?,
            None if output::is_terminal() => answer.table(&mut out)?,
            None => {
                for lane in &answer.lanes {
                    writeln!(out, "{}", answer.cells(lane, PublicState::ALL).join("\t"))?;
                }
            }
        }
        Ok(())
    }
}

impl Answer {
    /// For people: without the states that no execution is in.
    fn table(&self, out: &mut impl Write) -> anyhow::Result<()> {
        if self.lanes.is_empty() {
            return Ok(writeln!(out, "no lanes")?);
        }
        let taken = |state: &PublicState| self.counts.iter().any(|count| count.state == *state);
        let states: Vec<_> = PublicState::ALL.iter().copied().filter(taken).collect();
        let columns = states.iter().map(|state| right(head(*state)));
        let mut table = Table::new(&DEPTH.into_iter().chain(columns).collect::<Vec<_>>());
        for lane in &self.lanes {
            table.row(self.cells(lane, &states));
        }
        Ok(table.print(out, output::width(), "")?)
    }

    fn cells(&self, lane: &Lane, states: &[PublicState]) -> Vec<String> {
        let more = if lane.waiting_capped { "+" } else { "" };
        let longest = lane.oldest_waiting_ms.map_or_else(|| "-".to_owned(), span::length);
        let depth = [clean(&lane.lane_id), format!("{}{more}", lane.waiting), longest];
        let counts = states.iter().map(|state| self.count(lane, *state).to_string());
        depth.into_iter().chain(counts).collect()
    }

    fn count(&self, lane: &Lane, state: PublicState) -> u64 {
        let mut own = self.counts.iter().filter(|count| count.lane_id == lane.lane_id);
        own.find(|count| count.state == state).map_or(0, |count| count.count)
    }
}

fn head(state: PublicState) -> &'static str {
    match state {
        PublicState::Waiting => "WAITING",
        PublicState::Delayed => "DELAYED",
        PublicState::WaitingChildren => "CHILDREN",
        PublicState::Active => "ACTIVE",
        PublicState::Suspended => "SUSPENDED",
        PublicState::Completed => "COMPLETED",
        PublicState::Failed => "FAILED",
        PublicState::Cancelled => "CANCELLED",
        PublicState::Expired => "EXPIRED",
        PublicState::Skipped => "SKIPPED",
    }
}
