//! A storm: real servers on one database, random clients over HTTP, faults, and a checker.
//!
//! Everything random comes from one seed, though not the order in which threads and processes run:
//! a violation prints its seed because the same seed meets the same kinds of faults at about the same
//! times. What must stay true: a client sends a call again only where the protocol says that it may,
//! and the checker believes only what was answered.

mod caller;
mod checker;
mod clients;
mod database;
mod dice;
mod faults;
mod fleet;
mod health;
mod line;
mod postgres_line;
mod prompt;
mod record;
mod recount;
mod round;
mod settled;
mod summary;
mod time;
mod world;

use std::process::ExitCode;

use clap::{Parser, ValueEnum};

use faults::Fault;

/// How long one round lasts at most: each begins with an empty database, so that what is kept of a
/// long storm stays small.
const ROUND_SECONDS_MAX: u64 = 300;

/// Several servers on one database, in bad weather.
#[derive(Clone, Debug, Parser)]
struct Options {
    /// Which store
    #[arg(long, value_enum, default_value_t = Store::Postgres)]
    store: Store,
    /// What all chance comes from; taken from the clock when absent
    #[arg(long)]
    seed: Option<u64>,
    /// How long the clients run
    #[arg(long, default_value_t = 120)]
    seconds: u64,
    /// How many servers
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=9))]
    servers: u8,
    /// What to do
    #[arg(long, value_enum, default_value_t = Mode::Faults)]
    mode: Mode,
    /// Only faults of this kind
    #[arg(long, value_enum)]
    fault: Option<Fault>,
    /// How many executions the prompt mode creates, with two servers and again with three
    #[arg(long, default_value_t = 10_000)]
    executions: u64,
}

/// A store that several processes can share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Store {
    /// A throw-away server
    Postgres,
    /// A throw-away file
    Sqlite,
}

/// What a storm is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// Faults, and nothing lost or done twice
    Faults,
    /// With two servers and with three, no fault, and nothing late: between ready and claimed, beside a
    /// waiting claim, are at most 150 ms
    Prompt,
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> ExitCode {
    let options = Options::parse();
    match Box::pin(run(&options)).await {
        Ok(0) => ExitCode::SUCCESS,
        Ok(violations) => {
            eprintln!("\n{violations} violations");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("\nthe storm itself failed: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// All rounds; answers how many violations there were.
async fn run(options: &Options) -> anyhow::Result<usize> {
    let mut seed = options.seed.unwrap_or_else(|| time::now().unsigned_abs() % 1_000_000);
    let mut left = options.seconds;
    let mut violations = 0;
    loop {
        let seconds = left.min(ROUND_SECONDS_MAX);
        left -= seconds;
        println!("{:?}, seed {seed}, {} servers", options.store, options.servers);
        violations += match options.mode {
            Mode::Faults => Box::pin(round::play(options, seed, seconds)).await?,
            Mode::Prompt => Box::pin(prompt::play(options, seed)).await?,
        };
        if left == 0 || options.mode == Mode::Prompt {
            return Ok(violations);
        }
        seed += 1;
    }
}
