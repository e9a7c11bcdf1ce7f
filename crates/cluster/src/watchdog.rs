//! The watchdog: a shell outside our process that ends the server when we are done or dead.
//!
//! It reads a pipe whose other end we hold. However we go, the system closes our end, and the
//! watchdog stops the server and removes the directory. This is the only code that does so: dropping
//! a cluster closes the pipe and waits.
//!
//! Every program starts through a shell that writes its own number to the pipe and then becomes the
//! program. Until it has done so it holds the pipe open itself, so at the end of the pipe the
//! watchdog always knows what runs: there is no moment at which killing us leaves a server behind.

use std::ffi::OsStr;
use std::io::{self, PipeWriter, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

/// SIGQUIT is PostgreSQL's immediate shutdown. Its lock file goes when its children are gone; the
/// process itself may linger as long as nobody collects it, so it is not waited for. What is being
/// started or initialised has no lock file yet, and fails when its directory goes.
const SCRIPT: &str = r#"
server=none
while read -r line; do server=$line; done
if [ "$server" != none ]; then
    kill -s QUIT "$server"
    tries=0
    while [ -e "$1/data/postmaster.pid" ] && kill -s 0 "$server"; do
        tries=$((tries + 1))
        if [ "$tries" -gt 500 ]; then
            kill -s KILL "$server"
            break
        fi
        sleep 0.02
    done
fi
tries=0
until rm -rf "$1" || [ "$tries" -gt 250 ]; do
    tries=$((tries + 1))
    sleep 0.02
done
"#;

/// Its process, and our end of its pipe until we are done.
#[derive(Debug)]
pub struct Watchdog {
    pipe: Option<PipeWriter>,
    process: Child,
}

impl Watchdog {
    /// Watches over `directory`, which it will remove.
    pub fn start(directory: &Path) -> io::Result<Self> {
        let (reader, writer) = io::pipe()?;
        let process = Command::new("sh")
            .args(["-c", SCRIPT, "sh"])
            .arg(directory)
            .current_dir("/")
            // An interrupt from the keyboard is for us; the watchdog has its work still to do.
            .process_group(0)
            .stdin(reader)
            // A test runner waits for whoever holds its output.
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        Ok(Self { pipe: Some(writer), process })
    }

    /// Runs `program` with its output in `log`, under the eyes of the watchdog.
    ///
    /// The command is only lent to `prepare`: as long as it exists, it holds the pipe open.
    pub fn spawn(
        &self,
        program: &OsStr,
        log: impl Into<Stdio>,
        prepare: impl FnOnce(&mut Command),
    ) -> io::Result<Child> {
        let pipe = self.pipe.as_ref().expect("the pipe is open until the watchdog is let go");
        let mut command = Command::new("sh");
        command
            .args(["-c", r#"echo $$; exec "$@" >&2"#, "sh"])
            .arg(program)
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(pipe.try_clone()?)
            .stderr(log);
        prepare(&mut command);
        command.spawn()
    }

    /// Says that the program ended: its number may soon be another's.
    pub fn forget(&self) {
        if let Some(mut pipe) = self.pipe.as_ref() {
            // Without a reader there is nobody to signal the wrong process either.
            let _ = pipe.write_all(b"none\n");
        }
    }

    /// Lets it do its work, and waits until that is done.
    pub fn let_go(&mut self) -> io::Result<ExitStatus> {
        drop(self.pipe.take());
        self.process.wait()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::fs::{self, File};
    use std::time::Duration;

    use super::*;
    use crate::process::wait_until;

    #[test]
    fn let_go_it_ends_the_program_and_removes_the_directory() {
        let parent = tempfile::tempdir().unwrap();
        let directory = parent.path().join("directory with a space");
        fs::create_dir_all(directory.join("data/deep")).unwrap();
        let log = File::create(parent.path().join("log")).unwrap();

        let mut watchdog = Watchdog::start(&directory).unwrap();
        let sleep = |command: &mut Command| _ = command.arg("1000");
        let mut program = watchdog.spawn("sleep".as_ref(), log, sleep).unwrap();
        assert!(watchdog.let_go().unwrap().success());
        assert!(!program.wait().unwrap().success());
        assert!(!directory.exists());
        assert!(parent.path().exists());
    }

    #[test]
    fn a_forgotten_program_is_left_alone() {
        let parent = tempfile::tempdir().unwrap();
        let directory = parent.path().join("directory");
        fs::create_dir(&directory).unwrap();
        let log = parent.path().join("log");

        let mut watchdog = Watchdog::start(&directory).unwrap();
        let file = File::create(&log).unwrap();
        let listen = |command: &mut Command| _ = command.stdin(Stdio::piped());
        let mut program = watchdog.spawn("cat".as_ref(), file, listen).unwrap();
        program.stdin.as_ref().unwrap().write_all(b"here").unwrap();
        // Its number is in the pipe before its output is in the log.
        assert!(wait_until(Duration::from_secs(10), || fs::read(&log).unwrap() == b"here"));
        watchdog.forget();
        assert!(watchdog.let_go().unwrap().success());
        assert!(!directory.exists());
        drop(program.stdin.take());
        assert!(program.wait().unwrap().success());
    }
}
