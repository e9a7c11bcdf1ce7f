//! Development commands: `cargo xtask` lists them.
//!
//! Every command prints what it runs before it runs it, so that anything here can be repeated by
//! hand, and exits non-zero with the failing command line when something fails.

mod fuzz;
mod process;
mod storm;
mod suite;

use std::process::ExitCode;

use process::{Outcome, Step};

struct Command {
    name: &'static str,
    summary: &'static str,
    run: fn(&[String]) -> Outcome,
}

const COMMANDS: &[Command] = &[
    Command {
        name: "check",
        summary: "formatting, clippy with warnings as errors; cargo-deny and typos when installed",
        run: |_| check(),
    },
    Command {
        name: "test",
        summary: "every test, with a PostgreSQL server of its own; arguments go to the test runner",
        run: suite::test,
    },
    Command {
        name: "quick",
        summary: "format check and the tests of ff-core and xtask: the inner loop",
        run: |_| suite::quick(),
    },
    Command {
        name: "generate",
        summary: "rewrite the documents that are generated from the code",
        run: |_| generate(),
    },
    Command {
        name: "fuzz",
        summary: "made-up requests to a server (python3; downloads schemathesis); --examples N",
        run: fuzz::fuzz,
    },
    Command {
        name: "storm",
        summary: "servers, random clients and faults on one database; --help lists the options",
        run: storm::storm,
    },
    Command {
        name: "soak",
        summary: "a storm of an hour on each store, then nothing late on each; --minutes N",
        run: storm::soak,
    },
    Command {
        name: "bench",
        summary: "the benchmarks, optimised; arguments go to the harness",
        run: |args| Step::cargo("run --release --package ff-bench --").args(args).run(),
    },
    Command {
        name: "dev",
        summary: "a local FlowFabric, optimised; arguments go to `ff dev`",
        run: |args| Step::cargo("run --release -- dev").args(args).run(),
    },
];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let Some((name, rest)) = args.split_first() else {
        print!("{}", usage());
        return ExitCode::SUCCESS;
    };
    if ["help", "--help", "-h"].contains(&name.as_str()) {
        print!("{}", usage());
        return ExitCode::SUCCESS;
    }
    let Some(command) = COMMANDS.iter().find(|command| command.name == name) else {
        eprint!("no such command: {name}\n\n{}", usage());
        return ExitCode::from(2);
    };
    match (command.run)(rest) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failed) => {
            eprint!("\n{failed}");
            ExitCode::FAILURE
        }
    }
}

fn usage() -> String {
    use std::fmt::Write as _;

    let mut text = String::from("usage: cargo xtask <command> [arguments]\n\n");
    for Command { name, summary, .. } in COMMANDS {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {name:<10}{summary}");
    }
    text
}

/// Runs every check even after one failed: a contributor fixes them all in one go.
fn check() -> Outcome {
    let mut steps = vec![
        Step::cargo("fmt --all --check"),
        Step::cargo("test --quiet --package xtask --test tidy"),
        Step::cargo("clippy --workspace --all-targets -- -D warnings"),
    ];
    let optional = [
        (
            Step::cargo("deny --version"),
            Step::cargo("deny check bans licenses sources"),
            "cargo-deny",
            "cargo-deny",
        ),
        (Step::program("typos --version"), Step::program("typos"), "typos", "typos-cli"),
    ];
    for (probe, step, tool, package) in optional {
        if probe.succeeds_quietly() {
            steps.push(step);
        } else {
            println!("not installed, skipped: {tool} (cargo install {package})");
        }
    }
    process::run_all(steps)
}

/// The test that compares the documents with the code also rewrites them when it is told to, so
/// the two can never disagree about what "up to date" means.
fn generate() -> Outcome {
    let told = |step: Step| step.env("UPDATE_EXPECT", "1");
    told(Step::cargo("test -p ff-core --test generated")).run()?;
    told(Step::cargo("test -p ff-server --test http -- published")).run()?;
    told(Step::cargo("test -p xtask --test operations")).run()
}
