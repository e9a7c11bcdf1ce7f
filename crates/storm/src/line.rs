//! A line between two parties that can be cut, lose or delay replies, or stall.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::postgres_line::Messages;
use crate::time::{now, sleep_ms};

/// Bytes that are carried at once.
const CHUNK_BYTES: usize = 16 << 10;
/// How often a stalled line looks whether it still is.
const STALL_POLL_MS: u64 = 10;

/// What is said on a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Requests and answers; a reply is lost whole.
    Http,
    /// The ends of transactions can be told apart.
    Postgres,
}

/// A line; many connections go over it.
pub struct Line {
    at: SocketAddr,
    control: Arc<Control>,
}

struct Control {
    protocol: Protocol,
    target: Mutex<SocketAddr>,
    /// Changes when all connections are to be cut.
    cuts: watch::Sender<u64>,
    /// So many of a hundred replies are lost, and their connections with them.
    loses_percent: AtomicU64,
    /// After so many more commits the reply to one is lost; 0 means never.
    commits_to_loss: AtomicU64,
    /// Until when no reply passes.
    stalled_until: AtomicI64,
    /// By how much every question is late.
    questions_late_ms: AtomicU64,
    /// By how much every reply is late.
    replies_late_ms: AtomicU64,
    /// What chance comes from.
    chance: AtomicU64,
}

impl Line {
    /// A line to `target`.
    pub async fn start(protocol: Protocol, target: SocketAddr) -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let at = listener.local_addr()?;
        let control = Arc::new(Control {
            protocol,
            target: Mutex::new(target),
            cuts: watch::Sender::new(0),
            loses_percent: AtomicU64::new(0),
            commits_to_loss: AtomicU64::new(0),
            stalled_until: AtomicI64::new(0),
            questions_late_ms: AtomicU64::new(0),
            replies_late_ms: AtomicU64::new(0),
            chance: AtomicU64::new(1),
        });
        let shared = Arc::clone(&control);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(Arc::clone(&shared).carry(client));
            }
        });
        Ok(Self { at, control })
    }

    /// Where it begins.
    pub fn at(&self) -> SocketAddr {
        self.at
    }

    /// Where new connections lead.
    pub fn lead_to(&self, target: SocketAddr) {
        *self.control.target.lock().expect("nobody panics") = target;
    }

    /// Cuts every connection.
    pub fn cut(&self) {
        self.control.cuts.send_modify(|count| *count += 1);
    }

    /// Loses so many of a hundred replies from now on.
    pub fn lose_replies(&self, percent: u64) {
        self.control.loses_percent.store(percent, Ordering::SeqCst);
    }

    /// Loses the reply to the commit after `commits` others.
    pub fn lose_commit_after(&self, commits: u64) {
        self.control.commits_to_loss.store(commits + 1, Ordering::SeqCst);
    }

    /// Delays every question from now on.
    pub fn delay_questions(&self, ms: u64) {
        self.control.questions_late_ms.store(ms, Ordering::SeqCst);
    }

    /// Delays every reply from now on.
    pub fn delay_replies(&self, ms: u64) {
        self.control.replies_late_ms.store(ms, Ordering::SeqCst);
    }

    /// Lets no reply pass for a while.
    pub fn stall_ms(&self, ms: i64) {
        self.control.stalled_until.store(now() + ms, Ordering::SeqCst);
    }
}

impl Control {
    async fn carry(self: Arc<Self>, client: TcpStream) {
        let target = *self.target.lock().expect("nobody panics");
        let Ok(server) = TcpStream::connect(target).await else { return };
        let _ = client.set_nodelay(true);
        let _ = server.set_nodelay(true);
        let mut cuts = self.cuts.subscribe();
        let (from_client, to_client) = client.into_split();
        let (from_server, to_server) = server.into_split();
        tokio::select! {
            () = self.ask(from_client, to_server) => {}
            () = self.answer(from_server, to_client) => {}
            _ = cuts.changed() => {}
        }
    }

    async fn ask(&self, mut from: OwnedReadHalf, mut to: OwnedWriteHalf) {
        let mut chunk = vec![0; CHUNK_BYTES];
        while let Ok(read @ 1..) = from.read(&mut chunk).await {
            late(&self.questions_late_ms).await;
            if to.write_all(&chunk[..read]).await.is_err() {
                return;
            }
        }
    }

    async fn answer(&self, mut from: OwnedReadHalf, mut to: OwnedWriteHalf) {
        let mut chunk = vec![0; CHUNK_BYTES];
        let mut messages = Messages::default();
        while let Ok(read @ 1..) = from.read(&mut chunk).await {
            if self.loses(&mut messages, &chunk[..read]) {
                return;
            }
            while now() < self.stalled_until.load(Ordering::SeqCst) {
                sleep_ms(STALL_POLL_MS).await;
            }
            late(&self.replies_late_ms).await;
            if to.write_all(&chunk[..read]).await.is_err() {
                return;
            }
        }
    }

    /// Whether this reply is one to lose.
    fn loses(&self, messages: &mut Messages, chunk: &[u8]) -> bool {
        if self.protocol == Protocol::Http {
            let percent = self.loses_percent.load(Ordering::SeqCst);
            return percent > 0 && self.roll() % 100 < percent;
        }
        let commits = messages.commits(chunk);
        (0..commits).any(|_| self.is_the_one())
    }

    fn is_the_one(&self) -> bool {
        let less = |left: u64| left.checked_sub(1);
        let before = self.commits_to_loss.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less);
        before == Ok(1)
    }

    fn roll(&self) -> u64 {
        let step = 0x9e37_79b9_7f4a_7c15;
        let rolled = self.chance.fetch_add(step, Ordering::SeqCst);
        (rolled ^ (rolled >> 31)).wrapping_mul(0x94d0_49bb_1331_11eb) >> 33
    }
}

async fn late(by_ms: &AtomicU64) {
    match by_ms.load(Ordering::SeqCst) {
        0 => {}
        ms => sleep_ms(ms).await,
    }
}
