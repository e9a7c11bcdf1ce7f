//! Packages of Debian: what is missing is installed where we may.

use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, iter};

use crate::Error;
use crate::account;

/// A package, and what to say where we may not install it.
pub struct Package {
    pub name: &'static str,
    pub missing: &'static str,
}

impl Package {
    /// What `look` finds; when that is nothing, what it finds after an installation.
    pub fn find_or_install<T>(
        &self,
        installer: Option<&Path>,
        look: impl Fn() -> Result<Option<T>, Error>,
    ) -> Result<T, Error> {
        if let Some(found) = look()? {
            return Ok(found);
        }
        let installer = installer.ok_or(Error::Missing(self.missing))?;
        // Test processes start side by side: one installs, and those that waited find it done. The
        // installer itself serves as the lock, because it is there and nothing else locks it.
        let held = File::open(installer).and_then(|file| file.lock().map(|()| file));
        let _held = held.map_err(Error::system(format!("lock {}", installer.display())))?;
        if let Some(found) = look()? {
            return Ok(found);
        }
        self.install(installer)?;
        look()?.ok_or(Error::Missing(self.missing))
    }

    fn install(&self, installer: &Path) -> Result<(), Error> {
        let steps: [&[&str]; 2] =
            [&["update", "-qq"], &["install", "-qq", "-y", "--no-install-recommends", self.name]];
        for args in steps {
            let words = iter::once("apt-get").chain(args.iter().copied()).collect::<Vec<_>>();
            let line = words.join(" ");
            eprintln!("$ {line}");
            let status = Command::new(installer)
                .args(args)
                .env("DEBIAN_FRONTEND", "noninteractive")
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .status()
                .map_err(Error::system(format!("run {line}")))?;
            if !status.success() {
                return Err(Error::Program {
                    what: format!("{line} failed, {status}"),
                    log: String::new(),
                });
            }
        }
        Ok(())
    }
}

/// The `apt-get` to install with: only root may.
pub fn installer(path: &OsStr) -> Result<Option<PathBuf>, Error> {
    Ok(if account::is_root()? { program_in(path, "apt-get") } else { None })
}

/// The first program of this name in `path`.
pub fn program_in(path: &OsStr, name: &str) -> Option<PathBuf> {
    env::split_paths(path).map(|directory| directory.join(name)).find(|file| file.is_file())
}
