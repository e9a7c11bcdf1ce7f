//! Fuzzing: a server of our own, and schemathesis making up requests from the document it serves.
//!
//! What must stay true: nothing is answered with a failure of the server, and nothing is answered
//! that the document does not describe.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;

use crate::process::{Failed, Outcome, Step, workspace_root};

/// Pinned, so that a run fails because of the server and not because of a new check.
const SCHEMATHESIS: &str = "schemathesis==4.32.5";

/// Requests made up for every operation, besides those that the document itself leads to.
const EXAMPLES: u32 = 50;

/// Longer than any wait that the hooks let through.
const REQUEST_TIMEOUT_S: u32 = 10;

const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,\
                      response_headers_conformance,response_schema_conformance";

/// The stream of events never ends, and schemathesis reads answers to their end.
const ENDLESS: &str = "/v1/events/stream";

/// Makes up requests; fails when one of them finds something.
pub fn fuzz(args: &[String]) -> Outcome {
    let examples = examples(args)?;
    Step::cargo("build --package ff").run()?;
    let target = target_directory();
    let place = target.join("fuzz");
    fs::create_dir_all(&place).map_err(|error| Failed::new(&shown(&place), error))?;
    let python = install(&place)?;
    let server = Server::start(&target.join("debug/ff"), &place)?;
    let hooks = workspace_root().join("crates/xtask/src/fuzz");
    Step::program(&shown(&python))
        .words("-m schemathesis.cli run --no-color --continue-on-failure")
        // Threads would make runs impossible to repeat, and trip over a bug of Python 3.11.
        .words("--workers 1 --generation-database none")
        .words(&format!("--checks {CHECKS} --exclude-path {ENDLESS}"))
        // Some bodies are hard to make up, and the tool gives up on them with some seeds.
        .words("--suppress-health-check filter_too_much")
        .words(&format!("--max-examples {examples} --request-timeout {REQUEST_TIMEOUT_S}"))
        .words(&format!("{}/openapi.json", server.url))
        .env("SCHEMATHESIS_HOOKS", "hooks")
        .env("PYTHONPATH", &shown(&hooks))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .inside(&place)
        .run()
}

fn examples(args: &[String]) -> Result<u32, Failed> {
    let number = match args {
        [] => return Ok(EXAMPLES),
        [flag, number] if flag == "--examples" => number.parse().ok().filter(|n| *n > 0),
        _ => None,
    };
    number.ok_or_else(|| Failed::new("fuzz", "takes --examples and a number, and nothing else"))
}

/// Where cargo builds, and what is made here is ignored by git.
fn target_directory() -> PathBuf {
    let root = workspace_root();
    std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), |own| root.join(own))
}

/// A Python with schemathesis in it; installing is quick when it is there already.
fn install(place: &Path) -> Result<PathBuf, Failed> {
    let python = place.join("venv/bin/python");
    if !python.exists() {
        Step::program("python3 -m venv").args(&[shown(&place.join("venv"))]).run()?;
    }
    let pip = Step::program(&shown(&python)).words("-m pip install --quiet");
    pip.words("--disable-pip-version-check").words(SCHEMATHESIS).run()?;
    Ok(python)
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

/// `ff serve` on a database of its own; stopped when dropped.
struct Server {
    process: Child,
    database: PathBuf,
    url: String,
}

impl Server {
    fn start(program: &Path, place: &Path) -> Result<Self, Failed> {
        let line = format!("{} serve", shown(program));
        let failed = |error| Failed::new(&line, error);
        let database = place.join(format!("{}.sqlite", std::process::id()));
        eprintln!("$ {line} --url sqlite:{} --listen 127.0.0.1:0", shown(&database));
        let mut process = Command::new(program)
            .args(["serve", "--listen", "127.0.0.1:0", "--url"])
            .arg(format!("sqlite:{}", shown(&database)))
            .stdout(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let mut said = BufReader::new(process.stdout.take().expect("it is piped"));
        let mut server = Self { process, database, url: String::new() };
        let mut first = String::new();
        said.read_line(&mut first).map_err(failed)?;
        let url = first.split_whitespace().find(|word| word.starts_with("http://"));
        url.ok_or_else(|| Failed::new(&line, "it does not say where"))?.clone_into(&mut server.url);
        // A pipe that nobody reads would stop the server.
        thread::spawn(move || said.lines().map_while(Result::ok).for_each(drop));
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself; either way nothing is left of it.
        let _ = self.process.kill();
        let _ = self.process.wait();
        for suffix in ["", "-wal", "-shm"] {
            let _ = fs::remove_file(format!("{}{suffix}", shown(&self.database)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_examples_can_be_chosen() {
        let words = |line: &str| line.split_whitespace().map(String::from).collect::<Vec<_>>();
        assert_eq!(examples(&words("")).ok(), Some(EXAMPLES));
        assert_eq!(examples(&words("--examples 7")).ok(), Some(7));
        for refused in ["--examples", "--examples 0", "--examples many", "7"] {
            assert!(examples(&words(refused)).is_err(), "{refused}");
        }
    }
}
