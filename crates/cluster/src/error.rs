//! What can go wrong. Every kind tells what to do or shows what the program said.

use std::path::Path;
use std::sync::Arc;
use std::{fmt, fs, io};

const TAIL_LINES_MAX: usize = 30;

/// Why there is no server, or no browser.
#[derive(Debug, Clone)]
pub enum Error {
    /// A program is nowhere, and could not be installed; what to install.
    Missing(&'static str),
    /// The operating system refused something.
    System {
        /// What we were about to do.
        doing: String,
        /// Its answer.
        source: Arc<io::Error>,
    },
    /// A program failed, ended too early or took too long.
    Program {
        /// Which one, and how.
        what: String,
        /// The last lines it wrote; empty when they went to the terminal.
        log: String,
    },
}

impl Error {
    /// For `map_err`: the system refused what we were `doing`.
    pub(crate) fn system(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let doing = doing.into();
        |source| Self::System { doing, source: Arc::new(source) }
    }

    /// A program failed; its last lines are at the end of the file `log`.
    pub(crate) fn program(what: impl Into<String>, log: &Path) -> Self {
        let bytes = fs::read(log).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<&str> = text.lines().collect();
        let tail = &lines[lines.len().saturating_sub(TAIL_LINES_MAX)..];
        Self::Program { what: what.into(), log: tail.join("\n") }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(what) => out.write_str(what),
            Self::System { doing, source } => write!(out, "could not {doing}: {source}"),
            Self::Program { what, log } if log.is_empty() => out.write_str(what),
            Self::Program { what, log } => write!(out, "{what}; its log ends with:\n{log}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::System { source, .. } => Some(source.as_ref()),
            Self::Missing(_) | Self::Program { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_failed_program_shows_the_last_lines_it_wrote() {
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("log");
        let lines: Vec<String> = (0..100).map(|line| format!("line {line}")).collect();
        fs::write(&log, lines.join("\n")).unwrap();
        let text = Error::program("postgres ended", &log).to_string();
        assert!(text.starts_with("postgres ended; its log ends with:\nline 70\n"), "{text}");
        assert!(text.ends_with("\nline 99"), "{text}");
    }

    #[test]
    fn a_missing_log_is_left_out() {
        let error = Error::program("postgres ended", Path::new("/nonexistent"));
        assert_eq!(error.to_string(), "postgres ended");
    }
}
