//! `ff`: FlowFabric on the command line.

mod dev;
mod migrate;
mod worker;

use std::io::IsTerminal;

use clap::{Parser, Subcommand};

/// Durable execution on the database you already have.
#[derive(Parser)]
#[command(name = "ff", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a show of real work, by default on an embedded database, and print what happened to
    /// each piece
    Dev(dev::Dev),
    /// Bring the schema of a database up to date, or say what is missing
    Migrate(migrate::Migrate),
    /// Work off the sample executions of `dev` until killed (what `dev` starts and kills)
    #[command(hide = true)]
    SampleWorker(worker::SampleWorker),
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let filter =
        tracing_subscriber::EnvFilter::try_from_env("FF_LOG").unwrap_or_else(|_| "warn".into());
    let colours = std::io::stderr().is_terminal();
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(colours)
        .with_writer(std::io::stderr)
        .init();
    let done = match Cli::parse().command {
        Command::Dev(dev) => Box::pin(dev.run()).await,
        Command::Migrate(migrate) => migrate.run().await,
        Command::SampleWorker(worker) => worker.run().await,
    };
    match done {
        // Whoever reads our output has seen enough.
        Err(error) if is_broken_pipe(&error) => Ok(()),
        done => done,
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let io = error.downcast_ref::<std::io::Error>();
    io.is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}
