//! A line to the server that can be cut, at any time or at one particular message, and that counts
//! what is said on it.
//!
//! It knows just enough of the protocol to find the end of a transaction: a message is a letter, a
//! length and that many bytes.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ff_backend_postgres::STATEMENTS;
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::server::url;

type Incoming = BufReader<OwnedReadHalf>;
/// What one direction of a connection tells the other: whether its transaction counts, and by how
/// much the next answer comes late.
type Aside<'c> = (&'c AtomicBool, &'c Mutex<Option<Duration>>);

/// When a line is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// The server never hears of the end of the transaction.
    BeforeCommit,
    /// The server has committed, and nobody is told.
    AfterCommit,
}

/// A line to the server; many connections go over it.
pub struct Line {
    at: SocketAddr,
    state: Arc<State>,
    accepting: JoinHandle<()>,
}

/// What its connections share.
struct State {
    armed: Mutex<Option<Cut>>,
    /// A statement whose answers come late, how often, and by how much.
    stalled: Mutex<Option<(&'static str, u32, Duration)>>,
    cuts: AtomicU32,
    open: AtomicU32,
    /// The statements that were run, without what begins and ends transactions.
    ran: Mutex<Vec<&'static str>>,
    /// Changes when all connections are to be cut.
    over: watch::Sender<u32>,
    /// Whether a connection that is cut stays silent for a while before it breaks.
    silent: watch::Sender<bool>,
}

impl Line {
    /// A line to the server of the test run.
    pub async fn new() -> Self {
        let there = address_of(url());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        let state = Arc::new(State {
            armed: Mutex::new(None),
            stalled: Mutex::new(None),
            cuts: AtomicU32::new(0),
            open: AtomicU32::new(0),
            ran: Mutex::default(),
            over: watch::Sender::new(0),
            silent: watch::Sender::new(false),
        });
        let shared = Arc::clone(&state);
        let accepting = tokio::spawn(async move {
            loop {
                let (client, _) = listener.accept().await.unwrap();
                let server = TcpStream::connect(&there).await.unwrap();
                client.set_nodelay(true).unwrap();
                server.set_nodelay(true).unwrap();
                tokio::spawn(Arc::clone(&shared).carry(client, server));
            }
        });
        Self { at, state, accepting }
    }

    /// Where it begins.
    pub fn address(&self) -> String {
        self.at.to_string()
    }

    /// The URL of the server over this line.
    pub fn url(&self) -> String {
        let (before, rest) = url().split_once('@').expect("the URL names a user");
        let (_, database) = rest.split_once('/').expect("the URL names a database");
        let (database, _) = database.split_once('?').unwrap_or((database, ""));
        format!("{before}@{}/{database}?sslmode=disable", self.at)
    }

    /// Cuts the next transaction off, once.
    pub fn arm(&self, cut: Cut) {
        *self.state.armed.lock().unwrap() = Some(cut);
    }

    /// Has the next answers to a statement come late.
    pub fn stall(&self, statement: &'static str, times: u32, by: Duration) {
        *self.state.stalled.lock().unwrap() = Some((statement, times, by));
    }

    /// Cuts the next transaction off after its commit; its caller hears of that only when the line is
    /// no longer [silent](Self::speak).
    pub fn silence(&self) {
        self.state.silent.send_replace(true);
        self.arm(Cut::AfterCommit);
    }

    /// Waits until the commit is made of which the caller does not hear.
    pub async fn committed(&self) {
        while self.cuts() == 0 {
            tokio::task::yield_now().await;
        }
    }

    /// Breaks the connection that was cut.
    pub fn speak(&self) {
        self.state.silent.send_replace(false);
    }

    /// How many transactions were cut off.
    pub fn cuts(&self) -> u32 {
        self.state.cuts.load(Ordering::SeqCst)
    }

    /// How many statements were run, without what begins and ends transactions.
    pub fn statements(&self) -> u32 {
        u32::try_from(self.state.ran.lock().unwrap().len()).unwrap()
    }

    /// Which ones, since this was asked last.
    pub fn ran(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.state.ran.lock().unwrap())
    }

    /// How many connections are open.
    pub fn open(&self) -> u32 {
        self.state.open.load(Ordering::SeqCst)
    }

    /// Cuts every connection.
    pub fn cut_all(&self) {
        self.state.over.send_modify(|count| *count += 1);
    }

    /// Cuts every connection and takes no new ones.
    pub async fn close(&self) {
        self.accepting.abort();
        while !self.accepting.is_finished() {
            tokio::task::yield_now().await;
        }
        self.cut_all();
    }
}

/// Host and port of a URL.
fn address_of(url: &str) -> String {
    let (_, rest) = url.split_once('@').expect("the URL names a user");
    rest.split(['/', '?']).next().expect("there is always a first part").to_owned()
}

impl State {
    async fn carry(self: Arc<Self>, client: TcpStream, server: TcpStream) {
        self.open.fetch_add(1, Ordering::SeqCst);
        let mut over = self.over.subscribe();
        let (from_client, to_client) = client.into_split();
        let from_client = BufReader::new(from_client);
        let (from_server, to_server) = server.into_split();
        let from_server = BufReader::new(from_server);
        let (asked, late) = (AtomicBool::new(false), Mutex::new(None));
        tokio::select! {
            () = self.ask(from_client, to_server, (&asked, &late)) => {}
            () = self.answer(from_server, to_client, (&asked, &late)) => {}
            _ = over.changed() => {}
        }
        self.open.fetch_sub(1, Ordering::SeqCst);
    }

    /// By how much the answer to a statement comes late.
    fn stalls(&self, statement: &str) -> Option<Duration> {
        let mut stalled = self.stalled.lock().unwrap();
        let (of, times, by) = stalled.as_mut()?;
        if *of != statement || *times == 0 {
            return None;
        }
        *times -= 1;
        Some(*by)
    }

    /// Whether this is where to cut; only one is told so.
    fn strikes(&self, at: Cut) -> bool {
        let mut armed = self.armed.lock().unwrap();
        let now = *armed == Some(at);
        if now {
            *armed = None;
            self.cuts.fetch_add(1, Ordering::SeqCst);
        }
        now
    }

    fn is_armed(&self) -> bool {
        self.armed.lock().unwrap().is_some()
    }

    /// From the client to the server, message by message.
    async fn ask(&self, mut from: Incoming, mut to: OwnedWriteHalf, (asked, late): Aside<'_>) {
        // The first one has no letter.
        let mut next = message(&mut from, 0).await;
        let mut said = Said::default();
        while let Some(asks) = next {
            let ends = said.ends(&asks);
            if asks[0] == b'E' && !said.looks && !said.listens {
                self.ran.lock().unwrap().push(said.runs);
                *late.lock().unwrap() = self.stalls(said.runs);
            }
            if self.is_armed() && !said.looks {
                asked.store(true, Ordering::SeqCst);
            } else if said.looks {
                asked.store(false, Ordering::SeqCst);
            }
            if ends && self.strikes(Cut::BeforeCommit) {
                return;
            }
            if to.write_all(&asks).await.is_err() {
                return;
            }
            next = message(&mut from, 1).await;
        }
    }

    /// From the server to the client, message by message.
    async fn answer(&self, mut from: Incoming, mut to: OwnedWriteHalf, (asked, late): Aside<'_>) {
        let mut heard = Heard::default();
        loop {
            let Some(message) = message(&mut from, 1).await else { return };
            let wait = late.lock().unwrap().take();
            if let Some(wait) = wait {
                tokio::time::sleep(wait).await;
            }
            let counts = asked.load(Ordering::SeqCst);
            if heard.commits(&message, counts) && self.strikes(Cut::AfterCommit) {
                // The sender lives as long as this does.
                let _ = self.silent.subscribe().wait_for(|silent| !silent).await;
                return;
            }
            if to.write_all(&message).await.is_err() {
                return;
            }
        }
    }
}

/// A whole message, whose length comes after `letters` bytes; nothing when the other hung up.
async fn message(from: &mut Incoming, letters: usize) -> Option<Vec<u8>> {
    let mut message = vec![0; letters + 4];
    from.read_exact(&mut message).await.ok()?;
    let length = u32::from_be_bytes(message[letters..].try_into().ok()?);
    message.resize(usize::try_from(length).ok()? + letters, 0);
    from.read_exact(&mut message[letters + 4..]).await.ok()?;
    Some(message)
}

/// What a client asked for.
#[derive(Default)]
struct Said {
    /// It listens for notes, and is of no interest.
    listens: bool,
    /// A transaction.
    begun: bool,
    /// Statements of the driver's own, which look types up.
    lookups: Vec<Vec<u8>>,
    /// One of them is under way.
    looks: bool,
    /// Statements that are prepared, by the driver's name for them.
    prepared: HashMap<Vec<u8>, &'static str>,
    /// The one that is run next.
    runs: &'static str,
}

impl Said {
    /// Whether the server will commit when it gets this message: the end of a transaction, or a
    /// statement in none.
    fn ends(&mut self, message: &[u8]) -> bool {
        let query = message.get(5..).unwrap_or_default();
        match message[0] {
            b'Q' => {
                let ends = query.starts_with(b"commit");
                self.listens |= contains(query, b"listen ");
                self.begun = !ends && (self.begun || query.starts_with(b"begin"));
                ends && !self.listens
            }
            b'P' => {
                let mut parts = query.split(|byte| *byte == 0);
                let (name, text) = (parts.next().unwrap_or_default(), parts.next());
                if text.is_some_and(|text| contains(text, b"pg_catalog.")) {
                    self.lookups.push(name.to_vec());
                }
                let own = STATEMENTS.iter().find(|(_, sql)| text == Some(sql.as_bytes()));
                self.prepared.insert(name.to_vec(), own.map_or("not ours", |(path, _)| path));
                false
            }
            b'B' => {
                let name = query.split(|byte| *byte == 0).nth(1).unwrap_or_default();
                self.looks = self.lookups.iter().any(|lookup| lookup == name);
                self.runs = self.prepared[name];
                false
            }
            b'E' => !self.begun && !self.listens && !self.looks,
            _ => false,
        }
    }
}

fn contains(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len()).any(|part| part == word)
}

/// What a server answered.
#[derive(Default)]
struct Heard {
    /// It listens for notes, and is of no interest.
    listens: bool,
    /// A statement was done that nothing has committed yet.
    done: bool,
}

impl Heard {
    /// Whether something was committed by what this message says: a transaction, or a statement
    /// in none.
    fn commits(&mut self, message: &[u8], counts: bool) -> bool {
        let (kind, body) = (message[0], &message[5..]);
        match kind {
            b'C' => {
                self.listens |= body.starts_with(b"LISTEN");
                let statements: [&[u8]; 4] = [b"INSERT", b"UPDATE", b"DELETE", b"SELECT"];
                self.done = counts && statements.iter().any(|tag| body.starts_with(tag));
                counts && !self.listens && body.starts_with(b"COMMIT")
            }
            b'Z' => body == b"I" && std::mem::take(&mut self.done) && !self.listens,
            _ => false,
        }
    }
}
