//! `ff result`: what came out of an execution, byte for byte.

use std::io::Write;
use std::time::Duration;

use clap::Args;
use ff_core::state::PublicState;
use ff_core::{Code, ExecutionId};
use ff_wire::HttpCode;
use flowfabric::Client;

use crate::failure::{Exit, Failure};
use crate::id;
use crate::place::Place;

/// Print a result.
#[derive(Args)]
pub struct ReadResult {
    /// The execution: its id, or enough of the beginning or end of it
    id: String,
    /// Wait until it has ended
    #[arg(long)]
    wait: bool,
}

impl ReadResult {
    /// Prints it.
    pub async fn run(self, place: &Place) -> anyhow::Result<()> {
        let client = place.client().await?;
        let id = id::find(&client, place, &self.id).await?;
        print(&client, place, id, self.wait).await
    }
}

/// That an execution succeeded, perhaps once it has ended; otherwise why it has no result.
pub async fn succeeded(
    client: &Client,
    place: &Place,
    id: ExecutionId,
    wait: bool,
) -> anyhow::Result<()> {
    let handle = client.execution(id);
    let state = if wait { handle.ended().await? } else { handle.wait(Duration::ZERO).await? };
    if !state.is_terminal() {
        let said = format!("{id} is {state}: it has no result yet");
        let next = place.ff(&format!("result {id} --wait"));
        return Err(Failure::new(Exit::Refused, said)
            .code(Code::ExecutionNotTerminal.as_str())
            .next(next)
            .into());
    }
    if state != PublicState::Completed {
        let why = handle.describe().await?.ended_because;
        let why = why.map_or_else(String::new, |why| format!(": {why}"));
        let failure = Failure::new(Exit::Unsuccessful, format!("{id} is {state}{why}"));
        return Err(failure
            .code(HttpCode::ExecutionNotSuccessful.as_str())
            .next(place.ff(&format!("show {id}")))
            .into());
    }
    Ok(())
}

/// Prints the result of an execution, perhaps once it has ended. One that did not succeed has none.
pub async fn print(
    client: &Client,
    place: &Place,
    id: ExecutionId,
    wait: bool,
) -> anyhow::Result<()> {
    succeeded(client, place, id, wait).await?;
    let data = client.fabric().result(id).await?;
    let mut out = std::io::stdout().lock();
    match data {
        // Bytes that somebody else has to understand are not touched.
        Some(data) if data.encoding.as_ref().is_none_or(|encoding| encoding.as_str() != "json") => {
            out.write_all(&data.bytes)?;
        }
        Some(data) => {
            out.write_all(&data.bytes)?;
            writeln!(out)?;
        }
        None => writeln!(out, "null")?,
    }
    Ok(out.flush()?)
}
