//! Steps: the processes that the commands start, always in the workspace root.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What a command ends with: nothing, or the command lines that failed.
pub type Outcome = Result<(), Failed>;

/// The command lines that failed, with how each ended.
#[derive(Debug)]
pub struct Failed(Vec<String>);

impl Failed {
    /// Something that we do ourselves failed, with why.
    pub fn new(what: &str, why: impl fmt::Display) -> Self {
        Self(vec![format!("{what} ({why})")])
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|line| writeln!(out, "failed: {line}"))
    }
}

/// One process to run, and the line that a person would type to run it.
pub struct Step {
    command: Command,
    line: String,
}

impl Step {
    /// A cargo command, by the cargo that started us, so that `cargo +nightly xtask` is honoured.
    pub fn cargo(line: &str) -> Self {
        let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
        Self::new(&cargo, "cargo").words(line)
    }

    /// Another program: the first word is its name.
    pub fn program(line: &str) -> Self {
        let (name, rest) = line.split_once(' ').unwrap_or((line, ""));
        Self::new(name, name).words(rest)
    }

    /// A program of ours that was built beside us.
    pub fn built(name: &str) -> Result<Self, Failed> {
        let own = std::env::current_exe().map_err(|why| Failed::new("finding ourselves", why))?;
        let program = own.with_file_name(name);
        Ok(Self::new(&program.to_string_lossy(), name))
    }

    fn new(program: &str, shown: &str) -> Self {
        let mut command = Command::new(program);
        command.current_dir(workspace_root());
        Self { command, line: shown.into() }
    }

    /// Arguments without spaces in them, as one would type them.
    pub fn words(self, line: &str) -> Self {
        line.split_whitespace().fold(self, Self::arg)
    }

    /// Arguments as they were given to us.
    pub fn args(self, args: &[String]) -> Self {
        args.iter().fold(self, |step, arg| step.arg(arg))
    }

    /// An environment variable for this step only.
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self.line = format!("{name}={value} {}", self.line);
        self
    }

    /// Another place to run in, for programs that leave files where they run.
    pub fn inside(mut self, place: &Path) -> Self {
        self.command.current_dir(place);
        self.line = format!("cd {} && {}", place.display(), self.line);
        self
    }

    fn arg(mut self, arg: &str) -> Self {
        self.command.arg(arg);
        let quote = if arg.is_empty() || arg.contains(char::is_whitespace) { "'" } else { "" };
        self.line.extend([" ", quote, arg, quote]);
        self
    }

    /// Prints the command line, runs it and waits for it.
    pub fn run(mut self) -> Outcome {
        eprintln!("$ {}", self.line);
        match self.command.status() {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(Failed::new(&self.line, status)),
            Err(error) => Err(Failed::new(&self.line, error)),
        }
    }

    /// Whether the step succeeds, showing nothing of it: for asking whether a tool is installed.
    pub fn succeeds_quietly(mut self) -> bool {
        self.command
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    }
}

/// Runs every step, also after a failure, and gathers what failed.
pub fn run_all(steps: impl IntoIterator<Item = Step>) -> Outcome {
    let failed: Vec<String> = steps
        .into_iter()
        .filter_map(|step| step.run().err())
        .flat_map(|Failed(lines)| lines)
        .collect();
    if failed.is_empty() { Ok(()) } else { Err(Failed(failed)) }
}

/// Asked of the cargo that runs us, not of the one that compiled us: two checkouts that share a
/// target directory also share the binary.
pub fn workspace_root() -> PathBuf {
    let manifest = std::env::var("CARGO_MANIFEST_DIR");
    let manifest = manifest.unwrap_or_else(|_| env!("CARGO_MANIFEST_DIR").into());
    PathBuf::from(manifest).join("../..")
}
