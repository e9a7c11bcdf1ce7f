//! Connections and the threads that own them.
//!
//! The writer takes every job that waits, runs them all in one transaction and answers after the
//! commit: nothing waiting, go at once; while one commit is under way, gather. When a job fails,
//! the transaction is undone and each job runs again in its own, so that one bad job cannot fail
//! the others.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded};
use ff_core::backend::StoreError;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, Transaction, TransactionBehavior};
use tokio::sync::oneshot;

use crate::apply::State;

/// Jobs in one transaction.
const JOBS_MAX: usize = 64;
/// Jobs that may wait; callers beyond it wait for a place.
const QUEUE_MAX: usize = 1_024;
/// Tries of a call that finds the file locked by another process.
const TRIES: u32 = 3;
/// Prepared statements kept per connection: more than there are.
const STATEMENTS_CACHED: usize = 128;
/// How long a writer waits for another process, unless told, before the call is tried again.
pub const BUSY: Duration = Duration::from_secs(5);

/// Opens a connection with the settings that everything here relies on.
pub fn open(path: &Path, busy: Duration) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = connect(path, flags)?;
    if db.is_readonly("main").map_err(store_error)? {
        return Err(StoreError::Transport { cause: format!("{} is read-only", path.display()) });
    }
    db.busy_timeout(busy).map_err(store_error)?;
    enter_wal(&db, busy)?;
    db.pragma_update(None, "synchronous", "full").map_err(store_error)?;
    // Without this, binding a new value makes SQLite plan many statements anew, which costs ten
    // times what running them does.
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map_err(store_error)?;
    db.set_prepared_statement_cache_capacity(STATEMENTS_CACHED);
    Ok(db)
}

/// Opens a connection to a file that exists, only to look. It writes nothing, but may write:
/// SQLite leaves files beside the database behind when whoever reads it must not.
pub fn look(path: &Path) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = connect(path, flags)?;
    db.busy_timeout(BUSY).map_err(store_error)?;
    Ok(db)
}

fn connect(path: &Path, flags: OpenFlags) -> Result<Connection, StoreError> {
    Connection::open_with_flags(path, flags).map_err(|why| StoreError::Transport {
        cause: format!("cannot open {}: {why}", path.display()),
    })
}

/// Switches to write-ahead logging. The switch does not always wait for other connections by
/// itself, so it is tried until `busy` has passed.
fn enter_wal(db: &Connection, busy: Duration) -> Result<(), StoreError> {
    /// Between two tries.
    const PAUSE: Duration = Duration::from_millis(5);
    let begun = Instant::now();
    loop {
        let mode =
            db.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get::<_, String>(0));
        match mode.map_err(store_error) {
            Ok(mode) if mode == "wal" => return Ok(()),
            Ok(mode) => {
                let cause = format!("the file stays in journal mode {mode}; FlowFabric needs wal");
                return Err(StoreError::Transport { cause });
            }
            Err(StoreError::RetryExhausted { .. }) if begun.elapsed() < busy => {
                thread::sleep(PAUSE);
            }
            Err(error) => return Err(error),
        }
    }
}

/// Moves when another connection commits to the file, and not for commits of this one.
pub fn data_version(db: &Connection) -> Result<i64, StoreError> {
    db.pragma_query_value(None, "data_version", |row| row.get(0)).map_err(store_error)
}

/// What the database said, as one of our errors.
#[allow(clippy::needless_pass_by_value, reason = "what `map_err` calls takes its error")]
pub fn store_error(error: rusqlite::Error) -> StoreError {
    let busy = matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)
    );
    let cause = error.to_string();
    if busy { StoreError::RetryExhausted { cause } } else { StoreError::Transport { cause } }
}

type WriteJob = Box<dyn Work>;

/// A job for the writer: may run more than once, is answered once.
trait Work: Send {
    fn run(&mut self, tx: &Transaction<'_>, state: &mut State) -> Result<(), StoreError>;
    fn answer(self: Box<Self>, committed: Result<(), StoreError>);
}

struct Job<T, F> {
    work: F,
    done: Option<T>,
    reply: oneshot::Sender<Result<T, StoreError>>,
}

impl<T, F> Work for Job<T, F>
where
    T: Send,
    F: FnMut(&Transaction<'_>, &mut State) -> Result<T, StoreError> + Send,
{
    fn run(&mut self, tx: &Transaction<'_>, state: &mut State) -> Result<(), StoreError> {
        self.done = Some((self.work)(tx, state)?);
        Ok(())
    }

    fn answer(self: Box<Self>, committed: Result<(), StoreError>) {
        let Self { done, reply, .. } = *self;
        let answer = committed.map(|()| done.expect("a committed job ran"));
        // Whoever asked may be gone; what was committed stays committed.
        drop(reply.send(answer));
    }
}

/// What the writer is asked to do.
enum Order {
    /// To run a job in a transaction.
    Run(WriteJob),
    /// To tell whether another process has committed.
    Look(oneshot::Sender<Result<i64, StoreError>>),
}

/// The thread that writes.
pub struct Writer {
    orders: Sender<Order>,
}

impl Writer {
    /// Starts it. It ends when the last handle is dropped.
    pub fn start(mut db: Connection, mut state: State) -> Self {
        let (orders, waiting) = bounded::<Order>(QUEUE_MAX);
        thread::spawn(move || {
            while let Ok(first) = waiting.recv() {
                let mut batch = Vec::new();
                for order in std::iter::once(first).chain(waiting.try_iter().take(JOBS_MAX - 1)) {
                    match order {
                        Order::Run(job) => batch.push(job),
                        Order::Look(reply) => drop(reply.send(data_version(&db))),
                    }
                }
                if !batch.is_empty() {
                    commit(&mut db, &mut state, batch);
                }
            }
        });
        Self { orders }
    }

    /// Runs `work` in a transaction, with whatever else waits; answers after the commit.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl FnMut(&Transaction<'_>, &mut State) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        self.order(Order::Run(Box::new(Job { work, done: None, reply }))).await?;
        answer.await.unwrap_or(Err(StoreError::Closed))
    }

    /// A number that moves when another process commits.
    pub async fn foreign_version(&self) -> Result<i64, StoreError> {
        let (reply, answer) = oneshot::channel();
        self.order(Order::Look(reply)).await?;
        answer.await.unwrap_or(Err(StoreError::Closed))
    }

    async fn order(&self, order: Order) -> Result<(), StoreError> {
        let Err(full) = self.orders.try_send(order) else { return Ok(()) };
        let (orders, order) = (self.orders.clone(), full.into_inner());
        // The queue is full, which the engine's bounds make rare: wait off the runtime.
        let sent = tokio::task::spawn_blocking(move || orders.send(order).is_ok()).await;
        if sent.unwrap_or(false) { Ok(()) } else { Err(StoreError::Closed) }
    }
}

fn commit(db: &mut Connection, state: &mut State, mut batch: Vec<WriteJob>) {
    // A panic is a bug in one job. It undoes the transaction and must not take the writer, and
    // with it every later call, down.
    let done = catch_unwind(AssertUnwindSafe(|| attempt(db, state, &mut batch)));
    let bug = || Err(StoreError::Transport { cause: "a call panicked; see the log".to_owned() });
    match done.unwrap_or_else(|_| bug()) {
        Ok(()) => batch.into_iter().for_each(|job| job.answer(Ok(()))),
        // When the file is locked, one by one they would only wait again, each as long.
        Err(error) if batch.len() == 1 || matches!(error, StoreError::RetryExhausted { .. }) => {
            for job in batch {
                job.answer(Err(error.clone()));
            }
        }
        Err(_) => {
            for job in batch {
                commit(db, state, vec![job]);
            }
        }
    }
}

/// Runs the jobs in one transaction, again if another process holds the file.
fn attempt(
    db: &mut Connection,
    state: &mut State,
    batch: &mut [WriteJob],
) -> Result<(), StoreError> {
    let mut last = StoreError::Closed;
    for _ in 0..TRIES {
        match transact(db, state, batch) {
            Err(busy @ StoreError::RetryExhausted { .. }) => last = busy,
            done @ (Ok(())
            | Err(
                StoreError::Corruption { .. }
                | StoreError::SchemaTooNew { .. }
                | StoreError::Transport { .. }
                | StoreError::Rejected(_)
                | StoreError::Closed,
            )) => return done,
        }
    }
    Err(last)
}

fn transact(
    db: &mut Connection,
    state: &mut State,
    batch: &mut [WriteJob],
) -> Result<(), StoreError> {
    let tx = db.transaction_with_behavior(TransactionBehavior::Immediate).map_err(store_error)?;
    state.begin();
    for job in batch.iter_mut() {
        job.run(&tx, state)?;
    }
    tx.commit().map_err(store_error)?;
    state.committed();
    Ok(())
}

type ReadJob = Box<dyn FnOnce(&mut Connection) + Send>;

/// Threads that read.
pub struct Readers {
    jobs: Sender<ReadJob>,
}

impl Readers {
    /// Starts `threads` of them. They end when the last handle is dropped.
    pub fn start(path: &Path, busy: Duration, threads: usize) -> Result<Self, StoreError> {
        let (jobs, waiting) = bounded::<ReadJob>(QUEUE_MAX);
        for _ in 0..threads {
            serve(open(path, busy)?, waiting.clone());
        }
        Ok(Self { jobs })
    }

    /// Runs `work` on one snapshot of the data.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let job = move |db: &mut Connection| {
            let tx = db.transaction().map_err(store_error)?;
            work(&tx)
        };
        submit(&self.jobs, job).await
    }
}

async fn submit<T: Send + 'static>(
    jobs: &Sender<ReadJob>,
    work: impl FnOnce(&mut Connection) -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    let (reply, answer) = oneshot::channel();
    let job: ReadJob = Box::new(move |db| drop(reply.send(work(db))));
    if jobs.try_send(job).is_err() {
        let cause = format!("{QUEUE_MAX} reads are waiting");
        return Err(StoreError::RetryExhausted { cause });
    }
    answer.await.unwrap_or(Err(StoreError::Closed))
}

fn serve(mut db: Connection, waiting: Receiver<ReadJob>) {
    thread::spawn(move || {
        while let Ok(job) = waiting.recv() {
            // A panic is a bug in one read; the others must still be served.
            drop(catch_unwind(AssertUnwindSafe(|| job(&mut db))));
        }
    });
}
