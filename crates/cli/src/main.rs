//! `ff`: FlowFabric on the command line.
//!
//! What must stay true: what was asked for goes to standard output and everything else to standard
//! error; whatever goes wrong is told with its code, what to do next, and a documented exit code; no
//! password and no secret is ever printed, and no token or link unless it was asked for by name.

mod config;
mod consumers;
mod create;
mod decide;
mod demo;
mod deploy;
mod dev;
mod failure;
mod flow;
mod graph;
mod handlers;
mod id;
mod keys;
mod lanes;
mod list;
mod migrate;
mod output;
mod parcel;
mod place;
mod result;
mod serve;
mod show;
mod signal;
mod span;
mod steer;
mod table;
mod told;
mod waitpoints;
mod worker;

use std::io::IsTerminal;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use ff_core::condition::Word;

use failure::Failure;
use place::Place;

const AFTER_HELP: &str = "\
Where FlowFabric is:
  --url, or FF_URL in the environment, names a SQLite file (sqlite:fabric.db), a PostgreSQL schema
  (postgres://user:password@host/database?schema=name) or a server (http://host:port). Without
  either it is the server at http://127.0.0.1:7100. FF_TOKEN holds the token of a server.
  dev and demo use a new database, which is gone when they end, unless one is named.

Exit codes:
  0  done
  1  failed
  2  the command line or a value in it is wrong
  3  there is no such thing
  4  refused: its state does not allow it, or it clashes with something else;
     or a decision that does not count (approve, reject)
  5  the database or server cannot be reached or is busy; the same command may succeed later
  6  the execution or flow did not succeed (result, create --wait, flow submit --wait)

Tables and colours are for terminals (NO_COLOR turns colours off); elsewhere lists are lines of
fields with tabs between them. FF_LOG=debug tells more on standard error.";

const URL_HELP: &str = "A database or a server [env: FF_URL] [default: http://127.0.0.1:7100]";

/// Durable execution on the database you already have.
#[derive(Parser)]
#[command(name = "ff", version, max_term_width = 100, after_help = AFTER_HELP)]
struct Cli {
    #[arg(long, global = true, value_name = "URL", help = URL_HELP)]
    url: Option<String>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve a database over HTTP, with a page to watch it
    Serve(serve::Serve),
    /// Create an execution
    Create(create::CreateOne),
    /// List executions, newest first
    Ls(list::List),
    /// Show all about an execution: its timeline, attempts, steps and events
    Show(show::Show),
    /// Print the result of an execution, and nothing else
    Result(result::ReadResult),
    /// Cancel an execution, whatever it is doing
    Cancel(steer::Cancel),
    /// Have an execution that has ended run again
    Replay(steer::Replay),
    /// Take a running execution away from its worker, for another to go on with
    Revoke(steer::TakeAway),
    /// Keep a waiting execution from being claimed
    Hold(steer::Hold),
    /// Let a held execution be claimed again
    Unhold(steer::Unhold),
    /// Say what executions wait for: signals, people and callbacks
    Waitpoints(waitpoints::Waitpoints),
    /// Send a signal to an execution that waits for one
    Signal(signal::Send),
    /// Approve what an execution asks, and let it go on once enough people have
    Approve(decide::Decide),
    /// Reject what an execution asks, and let it go on with that
    Reject(decide::Decide),
    /// Let a suspended execution go on, whatever it waits for
    Resume(steer::LetGoOn),
    /// List the keys that sign tokens and links, or sign with another one
    Keys(keys::Keys),
    /// Change how urgent a waiting execution is
    Priority(steer::Priority),
    /// Set and remove tags of an execution
    Tag(steer::Tag),
    /// Submit, list, show, cancel and seal flows: graphs of executions
    #[command(subcommand)]
    Flow(flow::Flow),
    /// Say how much waits in each lane, and how many executions are in which state
    Lanes(lanes::Lanes),
    /// List who follows the feed with a place that is kept, or forget one
    Consumers(consumers::Consumers),
    /// Say which settings apply, and where they come from
    Config(config::ShowConfig),
    /// Bring the schema of a database up to date, or say what is missing
    Migrate(migrate::Migrate),
    /// Start a server with a worker and some work, to try things out
    ///
    /// Its database is a file that is gone afterwards, unless --url names one to keep.
    Dev(dev::Dev),
    /// Run a show of real work, a killed worker process included, and print what happened
    Demo(demo::Demo),
    /// Work off the sample executions of `demo` until killed (what `demo` starts and kills)
    #[command(hide = true)]
    SampleWorker(worker::SampleWorker),
}

#[tokio::main]
async fn main() -> ExitCode {
    let filter =
        tracing_subscriber::EnvFilter::try_from_env("FF_LOG").unwrap_or_else(|_| "warn".into());
    let colours = std::io::stderr().is_terminal();
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(colours)
        .with_writer(std::io::stderr)
        .init();
    let Cli { url, command } = Cli::parse();
    let place = Place::of(url);
    match Box::pin(run(command, &place)).await {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever reads our output has seen enough.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => Failure::of(error, &place).tell(),
    }
}

async fn run(command: Command, place: &Place) -> anyhow::Result<()> {
    match command {
        Command::Serve(serve) => serve.run(place).await,
        Command::Create(create) => create.run(place).await,
        Command::Ls(list) => list.run(place).await,
        Command::Show(show) => show.run(place).await,
        Command::Result(result) => result.run(place).await,
        Command::Cancel(cancel) => cancel.run(place).await,
        Command::Replay(replay) => replay.run(place).await,
        Command::Revoke(revoke) => revoke.run(place).await,
        Command::Hold(hold) => hold.run(place).await,
        Command::Unhold(unhold) => unhold.run(place).await,
        Command::Waitpoints(waitpoints) => waitpoints.run(place).await,
        Command::Signal(signal) => signal.run(place).await,
        Command::Approve(decide) => decide.run(place, Word::Approved).await,
        Command::Reject(decide) => decide.run(place, Word::Rejected).await,
        Command::Resume(resume) => resume.run(place).await,
        Command::Keys(keys) => keys.run(place).await,
        Command::Priority(priority) => priority.run(place).await,
        Command::Tag(tag) => tag.run(place).await,
        Command::Flow(flow) => flow.run(place).await,
        Command::Lanes(lanes) => lanes.run(place).await,
        Command::Consumers(consumers) => consumers.run(place).await,
        Command::Config(config) => config.run(place),
        Command::Migrate(migrate) => migrate.run(place).await,
        Command::Dev(dev) => dev.run(place).await,
        Command::Demo(demo) => demo.run(place).await,
        Command::SampleWorker(worker) => worker.run(place).await,
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let io = error.downcast_ref::<std::io::Error>();
    io.is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}
