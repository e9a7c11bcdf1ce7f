//! Wake-ups between processes: coalesced, sent only while somebody idles, and never relied upon.
//!
//! What flows have to do is told to nobody else: whoever commits it does it, and others find what
//! it leaves behind when they next look.
//!
//! One connection listens. A process that idles holds a shared advisory lock on it; whoever has
//! committed something checks that lock with the one statement that also notifies, at most once
//! in [`PAUSE`]; while others are known to idle, the wake-up travels with what they are to be woken for.
//! A process that begins to idle looks again after it took the lock, so nothing
//! falls between. While the connection is down, waiters look for themselves.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use ff_core::backend::Interest;
use futures_util::StreamExt;
use futures_util::stream::poll_fn;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio_postgres::types::Type;
use tokio_postgres::{AsyncMessage, Client, Error};

use super::{Address, Purpose, Step};
use crate::codec::Params;
use crate::statements::wake;

/// Between two wake-ups of one process.
const PAUSE: Duration = Duration::from_millis(1);
/// The same while nobody idles. Whoever begins to idle looks once more by itself.
const PAUSE_UNHEARD: Duration = Duration::from_millis(20);
/// For how long others are taken to idle that were found to.
const HEARD: Duration = Duration::from_millis(100);
/// How long a process counts as idle after its last waiter went.
const LINGER: Duration = Duration::from_secs(2);
/// Between two tries to connect.
const RECONNECT: Duration = Duration::from_millis(500);

/// The letters that tell others.
const NOTES: [(Interest, char); 3] =
    [(Interest::Work, 'w'), (Interest::Events, 'e'), (Interest::Taken, 't')];

/// Counts what was committed, here and elsewhere, for those who wait.
pub struct Signals {
    counts: [watch::Sender<u64>; Interest::ALL.len()],
    /// Whether others have yet to be told.
    untold: [AtomicBool; NOTES.len()],
    /// Something is to be told, or somebody began to wait.
    stir: Notify,
    waiters: AtomicUsize,
    /// Whether other processes can reach us.
    listening: AtomicBool,
    /// Where others listen.
    channel: String,
    /// What we sign with, so that we do not wake ourselves. It is made of digits, and NOTES of letters.
    name: u64,
    told: Mutex<Told>,
}

/// When others were last told something.
#[derive(Default)]
struct Told {
    at: Option<Instant>,
    /// When it was last found that some idled.
    heard: Option<Instant>,
}

impl Signals {
    /// Nothing has happened yet in `schema`.
    pub fn new(schema: &str) -> Arc<Self> {
        Arc::new(Self {
            counts: Interest::ALL.map(|_| watch::Sender::new(0)),
            untold: [const { AtomicBool::new(false) }; NOTES.len()],
            stir: Notify::new(),
            waiters: AtomicUsize::new(0),
            listening: AtomicBool::new(false),
            channel: Meeting::of(schema).channel,
            name: rand::random(),
            told: Mutex::default(),
        })
    }

    /// Counts changes that concern `interest`.
    pub fn of(&self, interest: Interest) -> &watch::Sender<u64> {
        &self.counts[interest as usize]
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().expect("no holder of this lock panics")
    }

    /// The statement that tells others of what is about to be committed, to travel behind it; nothing
    /// unless some idle for certain and have not been told something just now.
    pub fn note(&self, concerns: impl Fn(Interest) -> bool) -> Option<Step<'_>> {
        let letters = NOTES.iter().filter(|(interest, _)| concerns(*interest));
        let note = self.signed(letters.map(|(_, letter)| *letter))?;
        let mut told = self.told();
        let within = |at: Option<Instant>, time| at.is_some_and(|at| at.elapsed() < time);
        if !within(told.heard, HEARD) || within(told.at, PAUSE) {
            return None;
        }
        told.at = Some(Instant::now());
        Some(Step::Run(wake::note, Params::new().text(Some(&self.channel)).one(note, Type::TEXT)))
    }

    /// Something was committed here that concerns some: wakes who waits here, and soon who waits
    /// elsewhere, unless they were `told` with it.
    pub fn committed(&self, told: bool, concerns: impl Fn(Interest) -> bool) {
        for interest in Interest::ALL.into_iter().filter(|interest| concerns(*interest)) {
            self.bump(interest);
        }
        if told {
            return;
        }
        let mut any = false;
        for ((interest, _), untold) in NOTES.iter().zip(&self.untold) {
            if concerns(*interest) {
                untold.store(true, Ordering::SeqCst);
                any = true;
            }
        }
        if any {
            self.stir.notify_one();
        }
    }

    /// What others have yet to be notified of, taken off the list until it is dropped.
    fn take_untold(&self) -> Untold<'_> {
        let untold = self.untold.iter().enumerate();
        let taken = untold.filter(|(_, untold)| untold.swap(false, Ordering::SeqCst));
        Untold { signals: self, taken: taken.map(|(at, _)| at).collect() }
    }

    fn signed(&self, letters: impl Iterator<Item = char>) -> Option<String> {
        let letters: String = letters.collect();
        (!letters.is_empty()).then(|| format!("{letters}{}", self.name))
    }

    /// Wakes those of this process that wait for `interest`.
    pub fn bump(&self, interest: Interest) {
        self.of(interest).send_modify(|generation| *generation += 1);
    }

    /// Whether other processes tell us what they commit.
    pub fn hears(&self) -> bool {
        self.listening.load(Ordering::SeqCst)
    }

    /// Waits until the count of `interest` is not `seen`; no longer than `poll` while other
    /// processes cannot reach us.
    pub async fn wait(&self, interest: Interest, seen: u64, poll: Duration) {
        if interest == Interest::Taken || !NOTES.iter().any(|(told, _)| *told == interest) {
            // Other processes notify nobody of it, or only those that idle, not a worker that has work.
            // The sender lives as long as we do, so waiting cannot fail.
            let _ = self.of(interest).subscribe().wait_for(|now| *now != seen).await;
            return;
        }
        self.waiters.fetch_add(1, Ordering::SeqCst);
        self.stir.notify_one();
        let _waiting = Waiting(self);
        let mut signal = self.of(interest).subscribe();
        let changed = signal.wait_for(|generation| *generation != seen);
        if self.hears() {
            // The sender lives as long as we do, so waiting cannot fail.
            let _ = changed.await;
        } else {
            let _ = tokio::time::timeout(poll, changed).await;
        }
    }
}

/// What others are being notified of. A connection that breaks ends the task that waits for the answer,
/// so that whatever was not answered goes back on the list here.
struct Untold<'s> {
    signals: &'s Signals,
    taken: Vec<usize>,
}

impl Drop for Untold<'_> {
    fn drop(&mut self) {
        for at in &self.taken {
            self.signals.untold[*at].store(true, Ordering::SeqCst);
        }
    }
}

struct Waiting<'s>(&'s Signals);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiters.fetch_sub(1, Ordering::SeqCst);
    }
}

/// What processes that share a schema have in common: a channel and a lock.
#[derive(Clone)]
struct Meeting {
    channel: String,
    lock: i64,
}

impl Meeting {
    fn of(schema: &str) -> Self {
        // FNV-1a: every process computes the same number, and a clash costs only a wake-up.
        let hash = schema.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Self { channel: format!("ff_{hash:016x}"), lock: hash.cast_signed() }
    }
}

/// Starts listening and telling, until `tasks` is dropped.
pub fn start(address: Address, signals: Arc<Signals>, tasks: &mut JoinSet<()>) {
    tasks.spawn(async move {
        let meeting = Meeting::of(&address.schema);
        loop {
            if let Err(error) = Box::pin(session(&address, &signals, &meeting)).await {
                tracing::warn!(%error, "lost the connection that listens; waiting looks again");
            }
            signals.listening.store(false, Ordering::SeqCst);
            wake_all(&signals);
            tokio::time::sleep(RECONNECT).await;
        }
    });
}

/// Something may have happened that we did not hear of.
fn wake_all(signals: &Signals) {
    for (interest, _) in NOTES {
        signals.bump(interest);
    }
}

/// Listens and tells on one connection, until it breaks.
async fn session(address: &Address, signals: &Signals, meeting: &Meeting) -> Result<(), Error> {
    let config = address.config(Purpose::Read);
    let (client, mut connection) = config.connect(address.tls.clone()).await?;
    let mut messages = poll_fn(move |cx| connection.poll_message(cx));
    let own = signals.name.to_string();
    let hear = async {
        while let Some(message) = messages.next().await {
            if let AsyncMessage::Notification(note) = message?
                && note.payload().trim_start_matches(|letter: char| letter.is_alphabetic()) != own
            {
                for (interest, letter) in NOTES {
                    if note.payload().contains(letter) {
                        signals.bump(interest);
                    }
                }
            }
        }
        Ok(())
    };
    let speak = async {
        // What is told here need not outlive the server, so nobody waits for it to be flushed.
        let listen = format!("set synchronous_commit = off; listen {}", meeting.channel);
        client.batch_execute(&listen).await?;
        speak(&client, signals, meeting).await
    };
    tokio::select! {
        done = hear => done,
        done = speak => done,
    }
}

/// Tells others of what was committed here, and that we idle when we do.
async fn speak(client: &Client, signals: &Signals, meeting: &Meeting) -> Result<(), Error> {
    let arm = client.prepare(wake::arm).await?;
    let disarm = client.prepare(wake::disarm).await?;
    let tell = client.prepare(wake::tell).await?;
    let mut armed = false;
    loop {
        let idle = signals.waiters.load(Ordering::SeqCst) > 0;
        if idle && !armed {
            client.query(&arm, &[&meeting.lock]).await?;
            armed = true;
            signals.listening.store(true, Ordering::SeqCst);
            // Whatever came before the lock was told to nobody: look again.
            wake_all(signals);
        }
        let mut untold = signals.take_untold();
        if let Some(note) = signals.signed(untold.taken.iter().map(|at| NOTES[*at].1)) {
            let heard = client.query(&tell, &[&meeting.lock, &meeting.channel, &note]).await?;
            untold.taken.clear();
            let now = Some(Instant::now());
            *signals.told() = Told { at: now, heard: now.filter(|_| !heard.is_empty()) };
            tokio::time::sleep(if heard.is_empty() { PAUSE_UNHEARD } else { PAUSE }).await;
            continue;
        }
        let stirred = tokio::time::timeout(LINGER, signals.stir.notified()).await;
        if armed && stirred.is_err() && signals.waiters.load(Ordering::SeqCst) == 0 {
            signals.listening.store(false, Ordering::SeqCst);
            client.query(&disarm, &[&meeting.lock]).await?;
            armed = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_answered_is_told_again() {
        let signals = Signals::new("schema");
        signals.committed(false, |interest| interest == Interest::Work);
        // The connection breaks: the task that waits for the answer is dropped.
        assert_eq!(signals.take_untold().taken, [0]);
        let mut again = signals.take_untold();
        assert_eq!(again.taken, [0]);
        again.taken.clear();
        drop(again);
        assert!(signals.take_untold().taken.is_empty());
    }
}
