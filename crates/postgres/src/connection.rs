//! Connections: one small pool per kind of traffic, so that renewals never wait behind payloads,
//! and flights, in which several statements travel together.
//!
//! What must stay true: a connection goes back to its pool only with no transaction open on it;
//! nothing holds a lock while it awaits anything but the next flight.

mod address;
pub mod clock;
pub mod listener;
mod tls;
mod trouble;

use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, Instant};

use deadpool_postgres::{Manager, ManagerConfig, Object, Pool, RecyclingMethod, Runtime, Timeouts};
use ff_core::backend::StoreError;
use ff_core::command::Traffic;
use futures_util::future::join_all;
use tokio_postgres::{Error, Row};

use crate::codec::{Params, Types};
pub use address::Address;
pub use trouble::Trouble;

/// How long opening a connection may take.
const CONNECT: Duration = Duration::from_secs(10);
/// Connections of one kind of traffic: as many as it has batches under way.
const WRITERS: usize = 2;
/// Connections when all kinds of traffic share them.
const FEW: usize = 3;
/// Connections that read.
const READERS: usize = 3;

/// Which pools there are, and how large.
const POOLS: [(Purpose, usize); 8] = [
    (Purpose::Write(Traffic::Renew), WRITERS),
    (Purpose::Write(Traffic::Step), WRITERS),
    (Purpose::Write(Traffic::Finish), WRITERS),
    (Purpose::Write(Traffic::Create), WRITERS),
    (Purpose::Write(Traffic::Admin), WRITERS),
    (Purpose::Claim, WRITERS),
    (Purpose::Read, READERS),
    (Purpose::Scan, 1),
];

/// The connections of a store. They are opened when they are first needed.
pub struct Connections {
    /// Where they lead.
    pub address: Address,
    /// By [`Purpose::pool`].
    pools: [Pool; POOLS.len()],
    types: Types,
}

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Commands of some kind.
    Write(Traffic),
    /// Claims.
    Claim,
    /// Anything that changes nothing.
    Read,
    /// The same by several statements that see everything as of one moment.
    Snapshot,
    /// Reading a whole table.
    Scan,
}

impl Purpose {
    /// Its pool, as a place in [`POOLS`].
    fn pool(self) -> usize {
        let own = if self == Self::Snapshot { Self::Read } else { self };
        let place = POOLS.iter().position(|(purpose, _)| *purpose == own);
        place.expect("a pool for each purpose")
    }
}

impl Connections {
    /// Connections to `address`; none is open yet.
    pub fn new(address: Address, types: Types) -> Result<Self, StoreError> {
        let pool = |purpose: Purpose, size: usize| {
            let config = address.config(purpose);
            let manager = ManagerConfig { recycling_method: RecyclingMethod::Fast };
            let manager = Manager::from_config(config, address.tls.clone(), manager);
            let patience = Timeouts { create: Some(CONNECT), ..Timeouts::default() };
            let pool = Pool::builder(manager).max_size(size).timeouts(patience);
            let pool = pool.runtime(Runtime::Tokio1).build();
            pool.map_err(|error| StoreError::Transport { cause: error.to_string() })
        };
        let pools = if address.few {
            let one = pool(Purpose::Write(Traffic::Admin), FEW)?;
            std::array::from_fn(|_| one.clone())
        } else {
            let all = POOLS.into_iter().map(|(purpose, size)| pool(purpose, size));
            let all = all.collect::<Result<Vec<_>, _>>()?;
            all.try_into().unwrap_or_else(|_| unreachable!("one pool for each purpose"))
        };
        Ok(Self { address, pools, types })
    }

    /// A connection of the right kind, waiting for one when all are busy.
    pub async fn get(&self, purpose: Purpose) -> Result<Session<'_>, Trouble> {
        let pool = &self.pools[purpose.pool()];
        let client = pool.get().await.map_err(Trouble::unreachable)?;
        let begin = self.address.begin(purpose);
        let (types, pooled) = (&self.types, self.address.pooled);
        Ok(Session { client: Some(client), begin, types, pooled, open: false })
    }

    /// One whose transactions wait only a moment for what others hold.
    pub async fn get_brief(&self, purpose: Purpose) -> Result<Session<'_>, Trouble> {
        let mut session = self.get(purpose).await?;
        session.begin = self.address.begin_brief();
        Ok(session)
    }

    /// Runs one statement that changes nothing.
    pub async fn read(
        &self,
        sql: &'static str,
        params: Params<'_>,
    ) -> Result<Vec<Row>, StoreError> {
        let mut rows = self.read_all(vec![Step::Run(sql, params)]).await?;
        Ok(rows.pop().expect("one answer for one statement"))
    }

    /// Runs one statement, and tells when it was asked and how long the answer took: over a connection
    /// that is there, and that knows the statement.
    pub async fn timed(
        &self,
        sql: &'static str,
    ) -> Result<(Vec<Row>, Instant, Duration), StoreError> {
        let mut session = self.get(Purpose::Read).await.map_err(Trouble::into_error)?;
        let took = session.timed(sql).await;
        session.settle().await;
        took.map_err(Trouble::into_error)
    }

    /// Runs one statement that reads a whole table.
    pub async fn scan(
        &self,
        sql: &'static str,
        params: Params<'_>,
    ) -> Result<Vec<Row>, StoreError> {
        let mut rows = self.look(Purpose::Scan, vec![Step::Run(sql, params)]).await?;
        Ok(rows.pop().expect("one answer for one statement"))
    }

    /// Runs statements that change nothing, in one flight.
    pub async fn read_all(&self, steps: Vec<Step<'_>>) -> Result<Vec<Vec<Row>>, StoreError> {
        self.look(Purpose::Read, steps).await
    }

    /// Runs statements that change nothing, in one flight, and all as of the same moment.
    pub async fn read_together(
        &self,
        mut steps: Vec<Step<'_>>,
    ) -> Result<Vec<Vec<Row>>, StoreError> {
        if steps.len() < 2 {
            return self.read_all(steps).await;
        }
        steps.insert(0, Step::Begin);
        steps.push(Step::Commit);
        self.look(Purpose::Snapshot, steps).await
    }

    /// Tries once more on a connection that turns out to be dead.
    async fn look(
        &self,
        purpose: Purpose,
        steps: Vec<Step<'_>>,
    ) -> Result<Vec<Vec<Row>>, StoreError> {
        let mut tries = 0;
        loop {
            let flown = match self.get(purpose).await {
                Ok(mut session) => session.look(&steps).await,
                Err(trouble) => Err(trouble),
            };
            tries += 1;
            match flown {
                Ok(rows) => return Ok(rows),
                Err(Trouble::Lost(_)) if tries < 2 => {}
                Err(trouble) => return Err(trouble.into_error()),
            }
        }
    }
}

/// One step of a flight.
pub enum Step<'a> {
    /// Begins the transaction.
    Begin,
    /// A statement.
    Run(&'static str, Params<'a>),
    /// Ends it; undoes it when a step before it failed.
    Commit,
}

/// Adds a statement that is run for `rows`, unless there are none.
pub fn run_for<'a, R: IntoIterator + Copy>(
    steps: &mut Vec<Step<'a>>,
    sql: &'static str,
    rows: R,
    params: impl FnOnce(R) -> Params<'a>,
) {
    if rows.into_iter().next().is_some() {
        steps.push(Step::Run(sql, params(rows)));
    }
}

/// A connection while somebody uses it.
pub struct Session<'c> {
    client: Option<Object>,
    begin: &'c str,
    types: &'c Types,
    pooled: bool,
    open: bool,
}

/// What one step is answered with.
type Answer = Result<Vec<Row>, Error>;

type Flying<'f> = Pin<Box<dyn Future<Output = Result<Vec<Row>, Error>> + Send + 'f>>;

impl Session<'_> {
    /// Sends the steps together and waits for all answers: one list of rows for each statement.
    ///
    /// The first failure is the answer; the server has then skipped what followed it.
    pub async fn fly(&mut self, steps: &[Step<'_>]) -> Result<Vec<Vec<Row>>, Trouble> {
        let landed = self.send(steps).await?;
        let mut rows = Vec::with_capacity(landed.len());
        let mut first = Ok(());
        for (step, answer) in steps.iter().zip(landed) {
            match answer {
                Ok(answer) => match step {
                    Step::Run(..) => rows.push(answer),
                    Step::Begin => {}
                    // After a failure it has undone what was open.
                    Step::Commit => self.open = false,
                },
                Err(error) => first = first.and(Err(Trouble::from(error))),
            }
        }
        first.map(|()| rows)
    }

    /// Sends the steps together and waits for the answer to each.
    async fn send(&mut self, steps: &[Step<'_>]) -> Result<Vec<Answer>, Trouble> {
        let client = self.client.as_ref().expect("a session has its client until it is dropped");
        let mut prepared = Vec::with_capacity(steps.len());
        for step in steps {
            prepared.push(match step {
                Step::Run(sql, _) if !self.pooled => {
                    Some(client.prepare_cached(sql).await.map_err(Trouble::from)?)
                }
                Step::Run(..) | Step::Begin | Step::Commit => None,
            });
        }
        self.open |= steps.iter().any(|step| matches!(step, Step::Begin));
        let values: Vec<_> = steps
            .iter()
            .map(|step| match step {
                Step::Run(_, params) if self.pooled => (Vec::new(), params.typed(self.types)),
                Step::Run(_, params) => (params.values(), Vec::new()),
                Step::Begin | Step::Commit => (Vec::new(), Vec::new()),
            })
            .collect();
        let flights = steps.iter().zip(&prepared).zip(&values).map(
            |((step, prepared), (values, typed))| -> Flying<'_> {
                match (step, prepared) {
                    (Step::Run(..), Some(statement)) => Box::pin(client.query(statement, values)),
                    (Step::Run(sql, _), None) => Box::pin(client.query_typed(sql, typed)),
                    (Step::Begin, _) => Box::pin(plain(client, self.begin)),
                    (Step::Commit, _) => Box::pin(plain(client, "commit")),
                }
            },
        );
        Ok(join_all(flights).await)
    }

    /// Runs one statement in a transaction of its own, or in the one that is open.
    pub async fn alone(&mut self, step: Step<'_>) -> Result<Vec<Vec<Row>>, Trouble> {
        if self.pooled && !self.open {
            return self.fly(&[Step::Begin, step, Step::Commit]).await;
        }
        self.fly(&[step]).await
    }

    /// The same, with another statement behind it in the same flight, which may fail for itself: whether
    /// that one went through is told beside the answer to the first.
    pub async fn alone_then(
        &mut self,
        step: Step<'_>,
        then: Step<'_>,
    ) -> Result<(Vec<Vec<Row>>, bool), Trouble> {
        let mut landed = self.send(&[step, then]).await?;
        let then = landed.pop().is_some_and(|answer| answer.is_ok());
        let first = landed.into_iter().collect::<Result<_, _>>();
        Ok((first.map_err(Trouble::from)?, then))
    }

    /// Sends statements that change nothing; where connections are shared, in a transaction, so
    /// that they all reach the same server with our settings.
    async fn look(&mut self, steps: &[Step<'_>]) -> Result<Vec<Vec<Row>>, Trouble> {
        if !self.pooled || matches!(steps.first(), Some(Step::Begin)) {
            return self.fly(steps).await;
        }
        self.fly(&[Step::Begin]).await?;
        let rows = self.fly(steps).await;
        self.settle().await;
        rows
    }

    /// Asks once the connection is ready for it, and nothing else is waited for.
    async fn timed(&mut self, sql: &'static str) -> Result<(Vec<Row>, Instant, Duration), Trouble> {
        if self.pooled {
            self.fly(&[Step::Begin]).await?;
        } else {
            let client =
                self.client.as_ref().expect("a session has its client until it is dropped");
            client.prepare_cached(sql).await.map_err(Trouble::from)?;
        }
        let asked = Instant::now();
        let mut rows = self.fly(&[Step::Run(sql, Params::new())]).await?;
        Ok((rows.pop().unwrap_or_default(), asked, asked.elapsed()))
    }

    /// Ends whatever is open, keeping nothing of it.
    pub async fn settle(&mut self) {
        let Some(client) = self.client.as_ref().filter(|_| self.open) else { return };
        if client.batch_execute("rollback").await.is_ok() {
            self.open = false;
        }
    }
}

async fn plain(client: &Object, sql: &str) -> Result<Vec<Row>, Error> {
    client.batch_execute(sql).await.map(|()| Vec::new())
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        // Whoever used it went away in the middle of a transaction: closing undoes it.
        if let Some(client) = self.client.take_if(|_| self.open) {
            drop(Object::take(client));
        }
    }
}
