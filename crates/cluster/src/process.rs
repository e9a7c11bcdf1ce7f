//! Processes of the operating system, read from `/proc` and signalled through `sh`.
//!
//! A process is its number and the moment it began: the number alone may be given to another.

use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use std::{fs, io};

const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// What `/proc` says about one process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    pub id: u32,
    parent: u32,
    state: char,
    began: u64,
}

impl Process {
    /// The process with this number; `None` when there is none, or only what its parent has not
    /// collected yet.
    pub fn alive(id: u32) -> Option<Self> {
        let process = Self::parse(id, &fs::read_to_string(format!("/proc/{id}/stat")).ok()?)?;
        (!['Z', 'X'].contains(&process.state)).then_some(process)
    }

    /// `id (name) state parent … began …`, where the name may hold spaces and parentheses.
    fn parse(id: u32, stat: &str) -> Option<Self> {
        let (_, rest) = stat.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        Some(Self {
            id,
            state: fields.first()?.chars().next()?,
            parent: fields.get(1)?.parse().ok()?,
            began: fields.get(19)?.parse().ok()?,
        })
    }

    /// This process and everything it has started that still descends from it.
    pub fn family(self) -> io::Result<Vec<Self>> {
        let names = fs::read_dir("/proc")?.flatten().map(|entry| entry.file_name());
        let ids = names.filter_map(|name| name.to_str()?.parse().ok());
        let mut others: Vec<Self> = ids.filter_map(Self::alive).collect();
        let mut family = vec![self];
        let mut next = 0;
        while let Some(parent) = family.get(next).map(|process| process.id) {
            family.extend(others.extract_if(.., |process| process.parent == parent));
            next += 1;
        }
        Ok(family)
    }

    pub fn is_stopped(&self) -> bool {
        self.state == 'T'
    }

    pub fn is_gone(&self) -> bool {
        Self::alive(self.id).is_none_or(|now| now.began != self.began)
    }
}

/// Sends a signal by its name. That some process is gone already is no error.
pub fn signal(name: &str, ids: impl IntoIterator<Item = u32>) -> io::Result<()> {
    let script = r#"signal=$1; shift; kill -s "$signal" "$@""#;
    Command::new("sh")
        .args(["-c", script, "sh", name])
        .args(ids.into_iter().map(|id| id.to_string()))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .map(|_| ())
}

/// Waits until `done` holds; `false` when it does not after `timeout`.
pub fn wait_until(timeout: Duration, mut done: impl FnMut() -> bool) -> bool {
    let began = Instant::now();
    while !done() {
        if began.elapsed() > timeout {
            return false;
        }
        thread::sleep(POLL_INTERVAL);
    }
    true
}

/// Waits until our child ends; `None` when it does not within `timeout`.
pub fn wait_for(child: &mut Child, timeout: Duration) -> io::Result<Option<ExitStatus>> {
    let mut ended = Ok(None);
    wait_until(timeout, || {
        ended = child.try_wait();
        !matches!(ended, Ok(None))
    });
    ended
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_process_is_read_whatever_its_name() {
        let stat = "7 (a) b (c)) S 3 7 7 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 2041 9 8\n";
        let expected = Process { id: 7, parent: 3, state: 'S', began: 2041 };
        assert_eq!(Process::parse(7, stat), Some(expected));
        assert_eq!(Process::parse(7, "7 (a) S"), None);
    }

    #[test]
    fn a_family_holds_the_children_of_children() {
        let mut child = Command::new("sh")
            .args(["-c", "sh -c 'cat; :'; :"])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let family = || Process::alive(child.id()).unwrap().family().unwrap();
        assert!(wait_until(Duration::from_secs(10), || family().len() == 3));
        let family = family();
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(wait_until(Duration::from_secs(10), || family.iter().all(Process::is_gone)));
    }

    #[test]
    fn a_killed_child_is_gone_before_it_is_collected() {
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        let process = Process::alive(child.id()).unwrap();
        assert!(!process.is_gone());
        signal("KILL", [child.id()]).unwrap();
        assert!(wait_until(Duration::from_secs(10), || process.is_gone()));
        assert!(wait_for(&mut child, Duration::from_secs(10)).unwrap().is_some());
    }
}
