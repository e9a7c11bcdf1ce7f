//! The installation: where the programs of the server are, and how they get there.
//!
//! A program counts only if it runs for the account of the server: what stands first in PATH may be
//! a wrapper for somebody else, or lie in a home directory that the account cannot enter.

use std::cmp::Reverse;
use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Error;
use crate::account::{self, Account};
use crate::package::{self, Package, program_in};

const PACKAGE: Package = Package {
    name: "postgresql",
    missing: "no PostgreSQL server found: install the PostgreSQL server, e.g. `apt-get install \
              postgresql`, or put initdb and postgres in PATH",
};

/// The programs of one version, and who runs them.
#[derive(Debug, Clone)]
pub struct Installation {
    pub programs: PathBuf,
    pub version: String,
    pub account: Option<Account>,
}

impl Installation {
    /// The installation of this machine; installs one where we may.
    pub fn locate() -> Result<Self, Error> {
        let path = env::var_os("PATH").unwrap_or_default();
        let installer = package::installer(&path)?;
        Places { path, versions: "/usr/lib/postgresql".into(), installer }.locate()
    }

    /// The programs in `directory`, if they are there and run for the account.
    fn probe(directory: &Path, account: Option<Account>) -> Option<Self> {
        let version_of = |name: &str| {
            let mut command = Command::new(directory.join(name));
            command.arg("--version").current_dir("/").stdin(Stdio::null());
            let output = account::run_as(account, &mut command).output().ok()?;
            let text = String::from_utf8(output.stdout).ok()?;
            // `postgres (PostgreSQL) 17.2 (Debian 17.2-1)`
            let version = text.split_whitespace().nth(2)?.to_owned();
            output.status.success().then_some(version)
        };
        version_of("initdb")?;
        let version = version_of("postgres")?;
        Some(Self { programs: directory.to_owned(), version, account })
    }
}

/// Where to look, and the `apt-get` to use when nothing is found.
struct Places {
    path: OsString,
    versions: PathBuf,
    installer: Option<PathBuf>,
}

impl Places {
    fn locate(&self) -> Result<Installation, Error> {
        PACKAGE.find_or_install(self.installer.as_deref(), || self.look())
    }

    fn look(&self) -> Result<Option<Installation>, Error> {
        // Read every time: installing the server also makes its account.
        let account = Account::for_server()?;
        // Behind a link in PATH stands the directory with all the programs.
        let linked = program_in(&self.path, "initdb").and_then(|initdb| initdb.canonicalize().ok());
        let linked = linked.and_then(|initdb| initdb.parent().map(Path::to_owned));
        let mut directories = linked.into_iter().chain(newest_first(&self.versions));
        Ok(directories.find_map(|directory| Installation::probe(&directory, account)))
    }
}

/// The `bin` directories under `versions`, which holds one directory per version.
fn newest_first(versions: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(versions).into_iter().flatten().flatten();
    let mut found: Vec<(Vec<u32>, PathBuf)> = entries
        .map(|entry| {
            let name = entry.file_name();
            let parts = name.to_str().into_iter().flat_map(|name| name.split('.'));
            (parts.filter_map(|part| part.parse().ok()).collect(), entry.path().join("bin"))
        })
        .collect();
    found.sort_by_key(|(version, _)| Reverse(version.clone()));
    found.into_iter().map(|(_, directory)| directory).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use tempfile::TempDir;

    use super::*;

    /// A directory that the account of the server may enter.
    fn open_directory() -> TempDir {
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        directory
    }

    /// Written by a shell: a file that this process has open for writing, and any fork of it in
    /// another thread with it, cannot be executed.
    fn write_program(file: &Path, script: &str) {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        let write = r#"printf '#!/bin/sh\n%s\n' "$2" >"$1" && chmod 755 "$1""#;
        let status = Command::new("sh").args(["-c", write, "sh"]).arg(file).arg(script).status();
        assert!(status.unwrap().success());
    }

    fn write_programs(directory: &Path, version: &str) {
        for name in ["initdb", "postgres"] {
            let script = format!("echo '{name} (PostgreSQL) {version} (Debian)'");
            write_program(&directory.join(name), &script);
        }
    }

    fn places(path: &Path, versions: &Path) -> Places {
        Places { path: path.into(), versions: versions.into(), installer: None }
    }

    #[test]
    fn without_a_server_the_error_says_what_to_install() {
        let empty = open_directory();
        let error = places(empty.path(), &empty.path().join("none")).locate().unwrap_err();
        assert_eq!(
            error.to_string(),
            "no PostgreSQL server found: install the PostgreSQL server, e.g. `apt-get install \
             postgresql`, or put initdb and postgres in PATH"
        );
    }

    #[test]
    fn the_newest_version_is_taken() {
        let versions = open_directory();
        for version in ["9.6", "10", "17", "16"] {
            write_programs(&versions.path().join(version).join("bin"), version);
        }
        let found = places(Path::new(""), versions.path()).locate().unwrap();
        assert_eq!(found.version, "17");
        assert_eq!(found.programs, versions.path().join("17/bin"));
    }

    #[test]
    fn a_link_in_path_leads_to_the_other_programs() {
        let directory = open_directory();
        let real = directory.path().join("real");
        write_programs(&real, "17.2");
        let path = directory.path().join("path");
        fs::create_dir(&path).unwrap();
        symlink(real.join("initdb"), path.join("initdb")).unwrap();
        let found = places(&path, Path::new("/nonexistent")).locate().unwrap();
        assert_eq!(found.programs, real.canonicalize().unwrap());
        assert_eq!(found.version, "17.2");
    }

    #[test]
    fn a_program_that_does_not_run_is_passed_over() {
        let directory = open_directory();
        let broken = directory.path().join("broken");
        write_programs(&broken, "17");
        write_program(&broken.join("initdb"), "echo 'initdb (PostgreSQL) 17'; exit 1");
        let versions = directory.path().join("versions");
        write_programs(&versions.join("16/bin"), "16.1");
        assert_eq!(places(&broken, &versions).locate().unwrap().version, "16.1");
    }

    #[test]
    fn a_missing_server_is_installed_without_questions() {
        let directory = open_directory();
        let (ready, versions) = (directory.path().join("ready"), directory.path().join("versions"));
        write_programs(&ready.join("16/bin"), "16.1");
        let installer = directory.path().join("apt-get");
        let asked = directory.path().join("asked");
        let script = format!(
            "echo $DEBIAN_FRONTEND $* >>{}; [ $1 = update ] || mv {} {}",
            asked.display(),
            ready.display(),
            versions.display(),
        );
        write_program(&installer, &script);
        let places = Places { installer: Some(installer), ..places(Path::new(""), &versions) };
        assert_eq!(places.locate().unwrap().version, "16.1");
        assert_eq!(
            fs::read_to_string(asked).unwrap(),
            "noninteractive update -qq\n\
             noninteractive install -qq -y --no-install-recommends postgresql\n"
        );
    }

    #[test]
    fn a_failed_installation_is_an_error() {
        let directory = open_directory();
        let installer = directory.path().join("apt-get");
        write_program(&installer, "exit 100");
        let places = Places {
            installer: Some(installer),
            ..places(Path::new(""), &directory.path().join("none"))
        };
        let error = places.locate().unwrap_err().to_string();
        assert!(error.starts_with("apt-get update -qq failed, "), "{error}");
    }
}
