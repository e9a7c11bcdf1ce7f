//! The servers: real processes, killed, paused and started again, gone with the storm.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::Mutex;

use crate::database::Database;
use crate::line::{Line, Protocol};

/// Runs a program until our end of its input closes, so that it never outlives us; says its number.
const KEEPER: &str =
    r#""$@" & child=$!; echo "pid $child"; cat >/dev/null; kill -9 $child; wait $child"#;

/// One server with the lines before and behind it.
pub struct Server {
    /// What clients call.
    pub front: Line,
    /// To the database; a SQLite file needs none.
    pub back: Option<Line>,
    url: String,
    log: PathBuf,
    process: Mutex<Option<Process>>,
}

struct Process {
    keeper: Child,
    id: String,
}

impl Server {
    /// Starts one.
    pub async fn start(
        database: &Database,
        directory: &Path,
        index: usize,
    ) -> anyhow::Result<Self> {
        let back = match database.address() {
            Some(address) => Some(Line::start(Protocol::Postgres, address).await?),
            None => None,
        };
        let url = database.url(back.as_ref().map(Line::at));
        let nowhere = SocketAddr::from(([127, 0, 0, 1], 9));
        let front = Line::start(Protocol::Http, nowhere).await?;
        let log = directory.join(format!("server-{index}.log"));
        let server = Self { front, back, url, log, process: Mutex::default() };
        server.launch().await?;
        Ok(server)
    }

    /// Starts the process, unless it runs.
    pub async fn launch(&self) -> anyhow::Result<()> {
        let mut process = self.process.lock().await;
        if process.is_some() {
            return Ok(());
        }
        let log = std::fs::File::options().create(true).append(true).open(&self.log)?;
        let mut keeper = Command::new("sh")
            .args(["-c", KEEPER, "sh"])
            .arg(program()?)
            .args(["serve", "--listen", "127.0.0.1:0", "--url", &self.url])
            .env_remove("FF_TOKEN")
            .env("FF_LOG", std::env::var("FF_STORM_LOG").unwrap_or_else(|_| "error".into()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .process_group(0)
            .spawn()
            .context("start a server")?;
        let output = keeper.stdout.take().context("the output is a pipe")?;
        let mut lines = BufReader::new(output).lines();
        let mut id = None;
        let address = loop {
            let Some(line) = lines.next_line().await? else {
                bail!("a server does not start; see {}", self.log.display());
            };
            if let Some(number) = line.strip_prefix("pid ") {
                id = Some(number.to_owned());
            } else if let Some((_, rest)) = line.split_once("http://") {
                break rest.split([' ', '/']).next().unwrap_or_default().parse()?;
            }
        };
        // What else it says is of no interest, but it must be able to say it.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        self.front.lead_to(address);
        *process = Some(Process { keeper, id: id.context("the keeper says the number first")? });
        Ok(())
    }

    /// `kill -9`.
    pub async fn kill(&self) {
        if let Some(mut process) = self.process.lock().await.take() {
            signal("KILL", &process.id).await;
            drop(process.keeper.stdin.take());
            let _ = process.keeper.wait().await;
        }
    }

    /// Stops the process where it is.
    pub async fn pause(&self) {
        if let Some(process) = self.process.lock().await.as_ref() {
            signal("STOP", &process.id).await;
        }
    }

    /// Lets it go on.
    pub async fn go_on(&self) {
        if let Some(process) = self.process.lock().await.as_ref() {
            signal("CONT", &process.id).await;
        }
    }

    /// What it has said about itself.
    pub fn said(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

async fn signal(name: &str, id: &str) {
    let _ = Command::new("kill").args(["-s", name, id]).stderr(Stdio::null()).status().await;
}

/// The `ff` that was built beside us.
fn program() -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe()?;
    let found = own.with_file_name("ff");
    if !found.exists() {
        bail!("there is no {}; build it: cargo build -p ff", found.display());
    }
    Ok(found)
}

/// All servers of a storm.
pub type Fleet = Arc<Vec<Server>>;

/// Starts so many.
pub async fn start(database: &Database, directory: &Path, count: u8) -> anyhow::Result<Fleet> {
    let mut servers = Vec::new();
    for index in 0..usize::from(count) {
        servers.push(Server::start(database, directory, index).await?);
    }
    Ok(Arc::new(servers))
}
