//! Serving: accepting connections, and leaving in good order.
//!
//! What must stay true: no connection outlives [`serve`]; when it returns, what was under way has
//! been answered or, after the drain timeout, cut off.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use ff_core::Code;
use ff_core::decide::keys::Seeded;
use ff_engine::Error;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;

use crate::Server;
use crate::auth::{Exposed, check_address};
use crate::drain::Phase;
use crate::options::{Options, SigningKey};
use crate::router::assemble;

/// How long to wait when no connection can be accepted: usually there are too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Why a server could not serve.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Others could reach it, and there is no token.
    #[error(transparent)]
    Exposed(#[from] Exposed),
    /// The store does not sign with the key that it was to begin with.
    #[error("cannot sign with the key of {}: {why}", SigningKey::VARIABLE)]
    SigningKey {
        /// What stands against it.
        why: String,
    },
    /// The store does not answer.
    #[error(transparent)]
    Store(ff_engine::Error),
    /// The listener cannot tell its address.
    #[error("cannot tell the address of the listener")]
    Listener(#[from] io::Error),
}

/// How a server left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drained {
    /// Connections that were cut off, because they did not finish in time.
    pub cut_off: usize,
}

/// Serves until `shutdown`, then leaves in good order: `/readyz` answers 503, for as long as
/// `drain_notice` says nothing else changes, then nothing is accepted any more, what waits is
/// answered at once, and what runs may finish until `drain_timeout`.
///
/// Refuses to serve an address that others could reach without a token, and a store that has
/// another signing key than the one it is to begin with.
pub async fn serve(
    listener: TcpListener,
    options: Options,
    shutdown: impl Future<Output = ()>,
) -> Result<Drained, ServeError> {
    check_address(listener.local_addr()?, options.token.as_ref())?;
    seed(&options).await?;
    let server = Server::new(options);
    let limits = server.limits();
    let mut doors = Doors {
        app: assemble(&server),
        slots: Arc::new(Semaphore::new(limits.connections_max)),
        open: JoinSet::new(),
        server: server.clone(),
    };
    doors.accept_until(&listener, shutdown).await;
    server.drain().enter(Phase::Leaving);
    doors.accept_until(&listener, tokio::time::sleep(limits.drain_notice)).await;
    drop(listener);
    server.drain().enter(Phase::Closing);
    Ok(doors.close(limits.drain_timeout).await)
}

/// Gives a store its first signing key, if there is one to give. [`serve`] does so as well; whoever has
/// work done before that does it first.
pub async fn seed(options: &Options) -> Result<(), ServeError> {
    let Some(key) = options.signing_key.clone() else { return Ok(()) };
    let kid = key.kid().to_owned();
    let refuse = |why| Err(ServeError::SigningKey { why });
    match options.engine.seed_waitpoint_hmac_secret(key.into_command()).await {
        // One that was replaced since is still known for a while: nothing is wrong with that.
        Ok(Seeded::Seeded | Seeded::AlreadySeeded { same_secret: true }) => Ok(()),
        Ok(Seeded::AlreadySeeded { same_secret: false }) => {
            let why = "is stored with another secret; rotate to a key with a new name";
            refuse(format!("kid {kid:?} {why}"))
        }
        // Another key signs.
        Err(Error::Rejected(rejection)) if rejection.code == Code::InvalidInput => {
            refuse(format!("{} (POST /v1/signing-keys/rotate)", rejection.message))
        }
        Err(Error::Rejected(rejection)) => refuse(rejection.message),
        Err(error @ Error::Store(_)) => Err(ServeError::Store(error)),
    }
}

/// Open connections, and what serves them.
struct Doors {
    app: axum::Router,
    slots: Arc<Semaphore>,
    open: JoinSet<()>,
    server: Server,
}

impl Doors {
    async fn accept_until(&mut self, listener: &TcpListener, end: impl Future<Output = ()>) {
        let mut end = pin!(end);
        loop {
            tokio::select! {
                biased;
                () = &mut end => return,
                Some(_) = self.open.join_next() => {}
                (stream, slot) = accept(listener, &self.slots) => {
                    self.open.spawn(converse(stream, slot, self.app.clone(), self.server.clone()));
                }
            }
        }
    }

    /// Waits for what is under way, and cuts off what does not finish in time.
    async fn close(mut self, limit: Duration) -> Drained {
        let finished = async { while self.open.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(limit, finished).await;
        let cut_off = self.open.len();
        if cut_off > 0 {
            tracing::warn!(cut_off, "connections were cut off: they did not finish in time");
        }
        self.open.shutdown().await;
        Drained { cut_off }
    }
}

/// The next connection, once there is room for one.
async fn accept(
    listener: &TcpListener,
    slots: &Arc<Semaphore>,
) -> (TcpStream, OwnedSemaphorePermit) {
    let slot = Arc::clone(slots).acquire_owned().await.expect("never closed");
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return (stream, slot),
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Serves one connection to its end. A client that goes away drops the request it was waiting for.
async fn converse(
    stream: TcpStream,
    slot: OwnedSemaphorePermit,
    app: axum::Router,
    server: Server,
) {
    // Answers are written whole; waiting to fill a packet would only delay them.
    let _ = stream.set_nodelay(true);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(server.limits().idle_timeout)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(app));
    let mut connection = pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = server.drain().closing() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended early");
    }
    drop(slot);
}
