//! The test suite: what `cargo xtask test` and `cargo xtask quick` run.
//!
//! Compilation and tests are timed apart, because only the second is ours to keep short. The tests
//! share one PostgreSQL server, which is there from the end of the compilation to the last test. Two
//! short storms come after them, each with a database of its own.

use std::env;
use std::time::Instant;

use ff_cluster::{Cluster, FAST, VARIABLE};

use crate::process::{self, Failed, Outcome, Step};
use crate::storm;

/// The packages with tests that ask for a PostgreSQL server.
const NEED_A_SERVER: [&str; 4] = ["ff", "ff-backend-postgres", "ff-bench", "ff-engine"];

/// Every test of the workspace, or those that `args` select.
pub fn test(args: &[String]) -> Outcome {
    let selection = Selection::from_args(args);
    let nextest = Step::cargo("nextest --version").succeeds_quietly();
    let runner = || {
        let verb = if nextest { "nextest run" } else { "test" };
        let step = Step::cargo(verb);
        if selection.packages.is_empty() {
            step.words("--workspace")
        } else {
            step.args(&selection.packages)
        }
    };

    let compiling = Instant::now();
    runner().words("--no-run").run()?;
    if args.is_empty() {
        storm::build()?;
    }
    let compiled = compiling.elapsed();

    let server = if selection.needs_server() { start_server()? } else { None };
    let with_server = |step: Step| match &server {
        Some(server) => step.env(VARIABLE, &server.url()),
        None => step,
    };

    let testing = Instant::now();
    let mut steps = Vec::new();
    if nextest {
        steps.push(with_server(runner().args(&selection.rest)));
        // Plain `cargo test` runs documentation tests by itself; nextest has none. They do not
        // understand nextest's arguments, so a narrowed run leaves them out.
        if args.is_empty() {
            steps.push(with_server(Step::cargo("test --workspace --doc")));
        } else {
            println!("arguments given, skipped: documentation tests");
        }
    } else {
        steps.push(with_server(runner().words("--no-fail-fast").args(&selection.rest)));
    }
    if args.is_empty() {
        steps.extend(storm::of_suite()?);
    } else {
        println!("arguments given, skipped: storms");
    }
    let outcome = process::run_all(steps);

    println!("\ncompilation took {:.1} s", compiled.as_secs_f64());
    println!("tests took {:.1} s", testing.elapsed().as_secs_f64());
    outcome
}

/// The checks that are quick enough to run after every save.
pub fn quick() -> Outcome {
    process::run_all([Step::cargo("fmt --all --check"), Step::cargo("test -p ff-core -p xtask")])
}

/// A server for the tests; `None` when the environment names one already.
fn start_server() -> Result<Option<Cluster>, Failed> {
    if env::var_os(VARIABLE).is_some_and(|url| !url.is_empty()) {
        return Ok(None);
    }
    let failed = |error| Failed::new("starting PostgreSQL", error);
    let server = Cluster::start(FAST).map_err(failed)?;
    println!("started PostgreSQL {} on port {}", server.version(), server.port());
    Ok(Some(server))
}

/// The arguments of `test`, with the packages apart: the compile step needs them too, and would
/// reject most of the others.
#[derive(Debug, PartialEq, Eq)]
struct Selection {
    packages: Vec<String>,
    rest: Vec<String>,
}

impl Selection {
    fn from_args(args: &[String]) -> Self {
        let mut selection = Self { packages: Vec::new(), rest: Vec::new() };
        let mut args = args.iter().cloned();
        while let Some(arg) = args.next() {
            if arg == "--" {
                selection.rest.push(arg);
                selection.rest.extend(args.by_ref());
            } else if arg == "-p" || arg == "--package" {
                selection.packages.push(arg);
                selection.packages.extend(args.next());
            } else if arg.starts_with("--package=") {
                selection.packages.push(arg);
            } else {
                selection.rest.push(arg);
            }
        }
        selection
    }

    fn needs_server(&self) -> bool {
        let mut names = self.packages.iter().map(|arg| arg.trim_start_matches("--package="));
        self.packages.is_empty() || names.any(|name| NEED_A_SERVER.contains(&name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(String::from).collect()
    }

    #[test]
    fn packages_are_taken_apart_from_the_other_arguments() {
        let selection = Selection::from_args(&words("-p ff-core lease --package=ff"));
        assert_eq!(selection.packages, words("-p ff-core --package=ff"));
        assert_eq!(selection.rest, words("lease"));
    }

    #[test]
    fn what_follows_two_dashes_is_never_a_package() {
        let selection = Selection::from_args(&words("-- -p x"));
        assert_eq!(selection, Selection { packages: vec![], rest: words("-- -p x") });
    }

    #[test]
    fn a_server_is_started_for_the_packages_that_need_one() {
        for (line, needed) in [
            ("", true),
            ("lease", true),
            ("-p ff-core", false),
            ("-p ff-core -p ff", true),
            ("--package=ff-backend-postgres lease", true),
            ("-p ff-core ff", false),
        ] {
            let selection = Selection::from_args(&words(line));
            assert_eq!(selection.needs_server(), needed, "{line}");
        }
    }
}
