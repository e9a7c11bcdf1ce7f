//! `ff`: FlowFabric on the command line.

mod database;
mod dev;
mod worker;

use clap::{Parser, Subcommand};

/// Durable execution on the database you already have.
#[derive(Parser)]
#[command(name = "ff", version, about, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a show of real work on an embedded database, and print what happened to each piece
    Dev(dev::Dev),
    /// Work off the sample executions of `dev` until killed (what `dev` starts and kills)
    #[command(hide = true)]
    SampleWorker(worker::SampleWorker),
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let filter =
        tracing_subscriber::EnvFilter::try_from_env("FF_LOG").unwrap_or_else(|_| "warn".into());
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    match Cli::parse().command {
        Command::Dev(dev) => Box::pin(dev.run()).await,
        Command::SampleWorker(worker) => worker.run().await,
    }
}
