//! The directory of a cluster: in memory where that is safe, else among the temporary files.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, io, path, process};

use crate::Error;
use crate::account::Account;

const MEMORY: &str = "/dev/shm";

/// A new cluster takes about 60 MiB and its log of changes grows to 1 GiB. Containers often have
/// no more than 64 MiB of memory for files, and a server that runs out of space panics.
const MEMORY_FREE_MIN_KIB: u64 = 2 * 1024 * 1024;

/// Settings that do not ask for durable files do not need a disk either.
pub fn belongs_in_memory(settings: &[(&str, &str)]) -> bool {
    settings.contains(&("fsync", "off"))
}

/// Makes an empty directory that only the account, or we, may enter.
pub fn create(in_memory: bool, account: Option<Account>) -> Result<PathBuf, Error> {
    let memory = Path::new(MEMORY);
    let made = if in_memory && free_kib(memory).is_some_and(|free| free >= MEMORY_FREE_MIN_KIB) {
        create_in(memory).ok()
    } else {
        None
    };
    let temporary = env::temp_dir();
    let doing = || Error::system(format!("make a directory in {}", temporary.display()));
    let directory = match made {
        Some(directory) => directory,
        None => path::absolute(&temporary).and_then(|parent| create_in(&parent)).map_err(doing())?,
    };
    if let Some(Account { user, group }) = account
        && let Err(error) = chown(&directory, Some(user), Some(group))
    {
        // It is empty, and the first error is the one to tell.
        let _ = fs::remove_dir(&directory);
        return Err(doing()(error));
    }
    Ok(directory)
}

fn create_in(parent: &Path) -> io::Result<PathBuf> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    loop {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let directory = parent.join(format!("ff-cluster-{}-{number}", process::id()));
        match DirBuilder::new().mode(0o700).create(&directory) {
            Ok(()) => return Ok(directory),
            // Left by a process of the same number whose watchdog was killed as well.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
}

/// Asked of `df`, because the standard library cannot tell.
fn free_kib(directory: &Path) -> Option<u64> {
    let mut command = Command::new("df");
    command.arg("-Pk").arg(directory).stdin(Stdio::null()).stderr(Stdio::null());
    let output = command.output().ok()?;
    parse_free_kib(&String::from_utf8(output.stdout).ok()?)
}

/// `filesystem size used available capacity mounted`, under a heading.
fn parse_free_kib(table: &str) -> Option<u64> {
    table.lines().nth(1)?.split_whitespace().nth(3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::FAST;

    #[test]
    fn only_settings_without_durable_files_belong_in_memory() {
        assert!(belongs_in_memory(FAST));
        assert!(!belongs_in_memory(&[]));
        assert!(!belongs_in_memory(&[("fsync", "on"), ("synchronous_commit", "off")]));
    }

    #[test]
    fn free_space_is_read_off_the_table() {
        let table = "Filesystem 1024-blocks Used Available Capacity Mounted on\n\
                     shm 65536 0 65535 0% /dev/shm\n";
        assert_eq!(parse_free_kib(table), Some(65535));
        assert_eq!(parse_free_kib(""), None);
    }

    #[test]
    fn two_directories_are_never_the_same() {
        let parent = tempfile::tempdir().unwrap();
        let first = create_in(parent.path()).unwrap();
        let second = create_in(parent.path()).unwrap();
        assert_ne!(first, second);
        assert!(first.is_dir() && second.is_dir());
    }
}
