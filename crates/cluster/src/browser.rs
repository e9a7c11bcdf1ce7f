//! A browser without a window, for tests of pages.
//!
//! It is spoken to over its standard input and output, in the protocol of its developer tools: JSON
//! with a zero byte after each message. There is no port that another process could find, and when
//! its input closes it ends, so it never outlives whoever started it.

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Error;
use crate::account;
use crate::package::{self, Package, program_in};

const PACKAGE: Package = Package {
    name: "chromium",
    missing: "no browser found: install Chromium, e.g. `apt-get install chromium`, or put \
              chromium, chromium-browser or google-chrome in PATH",
};

const NAMES: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// It reads messages from file 3 and writes them to file 4: nothing it prints gets between them.
const SCRIPT: &str = r#"exec "$@" 3<&0 4>&1 </dev/null >/dev/null"#;

/// It shows pages to nobody, and asks nothing of anybody but their servers.
const OPTIONS: [&str; 9] = [
    "--headless",
    "--remote-debugging-pipe",
    "--disable-gpu",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--no-default-browser-check",
];

/// How to start a browser that keeps all it has to keep in `directory`. Finds Chromium or Chrome in
/// PATH; as root with `apt-get` at hand, it installs Chromium when there is none.
pub fn browser(directory: &Path) -> Result<Command, Error> {
    let path = env::var_os("PATH").unwrap_or_default();
    let program = locate(&path, package::installer(&path)?.as_deref())?;
    let mut command = Command::new("sh");
    command.args(["-c", SCRIPT, "sh"]).arg(program).args(OPTIONS);
    // Chromium refuses to run as root inside its sandbox.
    command.args(account::is_root()?.then_some("--no-sandbox"));
    let mut kept = OsString::from("--user-data-dir=");
    kept.push(directory);
    command.arg(kept).arg("about:blank").stdin(Stdio::piped()).stdout(Stdio::piped());
    Ok(command)
}

fn locate(path: &OsStr, installer: Option<&Path>) -> Result<PathBuf, Error> {
    let look = || Ok(NAMES.iter().find_map(|name| program_in(path, name)));
    PACKAGE.find_or_install(installer, look)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::fs;

    use super::*;

    #[test]
    fn without_a_browser_the_error_says_what_to_install() {
        let error = locate(OsStr::new("/nonexistent"), None).unwrap_err();
        assert_eq!(
            error.to_string(),
            "no browser found: install Chromium, e.g. `apt-get install chromium`, or put \
             chromium, chromium-browser or google-chrome in PATH"
        );
    }

    #[test]
    fn a_browser_is_found_by_any_of_its_names() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("google-chrome");
        fs::write(&file, "").unwrap();
        assert_eq!(locate(directory.path().as_os_str(), None).unwrap(), file);
    }

    #[test]
    fn closing_its_input_ends_it() {
        let directory = tempfile::tempdir().unwrap();
        let mut command = browser(directory.path()).unwrap();
        let mut browser = command.stderr(Stdio::null()).spawn().unwrap();
        drop(browser.stdin.take());
        let ended = crate::process::wait_for(&mut browser, std::time::Duration::from_secs(20));
        let _ = browser.kill();
        assert!(ended.unwrap().is_some(), "it goes on with nobody to talk to");
    }
}
