//! One server: started, killed, restarted, and gone with its owner.
//!
//! It is ready when the lock file that it wrote itself says so and its port answers. The lock file
//! of a killed server still says "ready", hence the look at the process number in it.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::{OpenOptionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::time::Duration;

use crate::Error;
use crate::account::{self, Account};
use crate::installation::Installation;
use crate::process::{self, Process};
use crate::scratch;
use crate::watchdog::Watchdog;

const INIT_TIMEOUT: Duration = Duration::from_mins(2);
const READY_TIMEOUT: Duration = Duration::from_secs(30);
/// After a kill the server first replays its log of changes, at most 1 GiB with stock settings.
const RECOVERY_TIMEOUT: Duration = Duration::from_mins(2);
const STOP_TIMEOUT: Duration = Duration::from_secs(30);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// Between finding a port free and listening on it somebody else may take it, for good or for a
/// moment. Why a server ended is not asked: one that cannot start fails as quickly every time.
const TRIES_MAX: u32 = 3;

/// A running PostgreSQL server of our own. Dropping it stops the server and removes its directory.
#[derive(Debug)]
pub struct Cluster {
    installation: Installation,
    /// Holds the log, the socket and the data directory.
    scratch: PathBuf,
    data: PathBuf,
    port: u16,
    /// `None` between a kill and the next start.
    server: Option<Child>,
    watchdog: Watchdog,
}

impl Cluster {
    /// Starts a server with stock settings plus `settings` (name, value) on a free port of
    /// 127.0.0.1. Takes a second or two, most of it for `initdb`.
    pub fn start(settings: &[(&str, &str)]) -> Result<Self, Error> {
        let installation = Installation::locate()?;
        let in_memory = scratch::belongs_in_memory(settings);
        let scratch = scratch::create(in_memory, installation.account)?;
        let watchdog = Watchdog::start(&scratch).map_err(|error| {
            // It is empty, and the first error is the one to tell.
            let _ = fs::remove_dir(&scratch);
            Error::system("run sh")(error)
        })?;
        let data = scratch.join("data");
        let mut cluster = Self { installation, scratch, data, port: 0, server: None, watchdog };
        cluster.initialise(settings, in_memory)?;
        cluster.launch(READY_TIMEOUT, |_| free_port())?;
        Ok(cluster)
    }

    /// How to connect: as the superuser, to the database `postgres`, without a password.
    pub fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    /// The port of 127.0.0.1 that it listens on, the same after every restart.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The version of the server, such as `17.2`.
    pub fn version(&self) -> &str {
        &self.installation.version
    }

    /// The file that the server logs to.
    pub fn log(&self) -> PathBuf {
        self.scratch.join("log")
    }

    /// The data directory. Lines added to its `postgresql.conf` hold from the next restart on;
    /// [`Cluster::put`] adds files.
    pub fn directory(&self) -> &Path {
        &self.data
    }

    /// Puts a file into the data directory that only the server may read, such as a TLS key.
    pub fn put(&self, name: &str, contents: &[u8]) -> Result<(), Error> {
        let path = self.data.join(name);
        let mut options = File::options();
        options.write(true).create(true).truncate(true).mode(0o600);
        let written = options.open(&path).and_then(|mut file| file.write_all(contents));
        let owned = written.and_then(|()| match self.installation.account {
            Some(Account { user, group }) => chown(&path, Some(user), Some(group)),
            None => Ok(()),
        });
        owned.map_err(Error::system(format!("write {}", path.display())))
    }

    /// Kills the server and all its processes with `kill -9`, and waits until they are gone.
    pub fn kill(&mut self) -> Result<(), Error> {
        let Some(mut server) = self.server.take() else {
            return Ok(());
        };
        let killed = kill_family(&mut server);
        self.watchdog.forget();
        killed
            .map_err(Error::system("kill the server"))?
            .then_some(())
            .ok_or_else(|| Error::program("postgres survived its killing", &self.log()))
    }

    /// Starts the server again on the same data and the same port, and waits until it accepts
    /// connections. One that still runs is shut down in good order first.
    pub fn restart(&mut self) -> Result<(), Error> {
        self.stop()?;
        self.launch(RECOVERY_TIMEOUT, |port| {
            // A client that tries to reconnect may for a moment be given the port itself.
            process::wait_until(READY_TIMEOUT, || is_free(port));
            Ok(port)
        })
    }

    fn initialise(&self, settings: &[(&str, &str)], in_memory: bool) -> Result<(), Error> {
        let mut args = vec!["--auth=trust", "--username=postgres", "--no-locale"];
        args.extend(["--encoding=UTF8", "--pgdata=data"]);
        if in_memory {
            args.push("--no-sync");
        }
        let mut initdb = self.spawn("initdb", &args)?;
        let ended = wait_or_kill(&mut initdb, INIT_TIMEOUT).map_err(Error::system("run initdb"))?;
        self.watchdog.forget();
        if !ended.success() {
            return Err(Error::program(format!("initdb failed, {ended}"), &self.log()));
        }
        let lines: String = settings.iter().map(|(name, value)| setting(name, value)).collect();
        let file = self.data.join("postgresql.conf");
        let file = File::options().append(true).open(file);
        file.and_then(|mut file| file.write_all(lines.as_bytes()))
            .map_err(Error::system("write postgresql.conf"))
    }

    /// Starts the server on the port that `choose` makes of the current one, and waits until it is
    /// ready.
    fn launch(
        &mut self,
        timeout: Duration,
        choose: impl Fn(u16) -> io::Result<u16>,
    ) -> Result<(), Error> {
        for _ in 0..TRIES_MAX {
            self.port = choose(self.port).map_err(Error::system("find a free port"))?;
            if self.try_launch(timeout)? {
                return Ok(());
            }
        }
        let what = format!("postgres does not start on port {}", self.port);
        Err(Error::program(what, &self.log()))
    }

    /// `false` when the server ended instead of becoming ready.
    fn try_launch(&mut self, timeout: Duration) -> Result<bool, Error> {
        // As arguments, so that nothing a test writes to the settings can make the server listen
        // elsewhere.
        let port = format!("port={}", self.port);
        let socket = format!("unix_socket_directories={}", self.scratch.display());
        let listen = "listen_addresses=127.0.0.1";
        let args = ["-D", "data", "-c", &port, "-c", listen, "-c", &socket];
        let server = self.spawn("postgres", &args)?;
        let id = server.id();
        let server = self.server.insert(server);
        let mut ended = Ok(None);
        let waited = process::wait_until(timeout, || {
            ended = server.try_wait();
            !matches!(ended, Ok(None)) || is_ready(&self.data, id, self.port)
        });
        if ended.map_err(Error::system("wait for the server"))?.is_some() {
            self.server = None;
            self.watchdog.forget();
            return Ok(false);
        }
        if !waited {
            let error = Error::program("postgres did not become ready in time", &self.log());
            return self.kill().and(Err(error));
        }
        Ok(true)
    }

    /// Shuts the server down in good order, without waiting for its clients.
    fn stop(&mut self) -> Result<(), Error> {
        let Some(server) = &mut self.server else {
            return Ok(());
        };
        process::signal("INT", [server.id()])
            .and_then(|()| process::wait_for(server, STOP_TIMEOUT))
            .map_err(Error::system("stop the server"))?
            .ok_or_else(|| Error::program("postgres did not stop in time", &self.log()))?;
        self.server = None;
        self.watchdog.forget();
        Ok(())
    }

    /// Runs a program of the server in our directory, with its output in the log.
    fn spawn(&self, program: &str, args: &[&str]) -> Result<Child, Error> {
        let file = self.installation.programs.join(program);
        let log = File::options().append(true).create(true).open(self.log());
        log.and_then(|log| {
            self.watchdog.spawn(file.as_ref(), log, |command| {
                command.args(args).current_dir(&self.scratch);
                account::run_as(self.installation.account, command);
            })
        })
        .map_err(Error::system(format!("run {program}")))
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let watched = self.watchdog.let_go();
        // Only somebody who kills watchdogs as well can make us do it ourselves.
        if !watched.is_ok_and(|status| status.success()) {
            // Nothing can be done about an error here.
            let _ = self.kill();
            let _ = fs::remove_dir_all(&self.scratch);
        }
        if let Some(server) = &mut self.server {
            let _ = server.wait();
        }
    }
}

/// A line of `postgresql.conf`, where quotes and backslashes are written twice.
fn setting(name: &str, value: &str) -> String {
    format!("{name} = '{}'\n", value.replace('\\', r"\\").replace('\'', "''"))
}

fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}

/// The first line of the lock file is the process number, the eighth its state.
fn is_ready(data: &Path, id: u32, port: u16) -> bool {
    let lock = fs::read_to_string(data.join("postmaster.pid")).unwrap_or_default();
    let lines: Vec<&str> = lock.lines().map(str::trim).collect();
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    lines.first() == Some(&id.to_string().as_str())
        && lines.get(7) == Some(&"ready")
        && TcpStream::connect_timeout(&address, CONNECT_TIMEOUT).is_ok()
}

/// Kills our child and everything it started; `false` when some of it does not go away.
fn kill_family(server: &mut Child) -> io::Result<bool> {
    let id = server.id();
    let mut family = Vec::new();
    // While it is stopped it cannot start a process that we would not know of.
    process::signal("STOP", [id])?;
    process::wait_until(STOP_TIMEOUT, || Process::alive(id).is_none_or(|now| now.is_stopped()));
    if let Some(process) = Process::alive(id) {
        family = process.family()?;
        process::signal("KILL", family.iter().map(|process| process.id))?;
    }
    // Where there is no `/proc`, at least the server itself is killed.
    server.kill()?;
    server.wait()?;
    Ok(process::wait_until(STOP_TIMEOUT, || family.iter().all(Process::is_gone)))
}

fn wait_or_kill(child: &mut Child, timeout: Duration) -> io::Result<ExitStatus> {
    match process::wait_for(child, timeout)? {
        Some(status) => Ok(status),
        None => child.kill().and_then(|()| child.wait()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_is_quoted() {
        assert_eq!(setting("fsync", "off"), "fsync = 'off'\n");
        assert_eq!(setting("a.b", r"it's \d"), "a.b = 'it''s \\\\d'\n");
    }
}
