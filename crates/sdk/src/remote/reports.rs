//! Reports of many handlers in few requests: while one is under way, others gather.

use std::sync::Arc;

use ff_core::limits::BATCH_MAX;
use ff_wire::report::batch::ReportOutcome;
use ff_wire::{ReportsAnswer, ReportsRequest};
use tokio::sync::{Semaphore, mpsc, oneshot};

use super::Caller;
use crate::Error;
use crate::fabric::Report;

/// Reports that may wait to be sent; a worker holds no more executions than this.
const WAITING_MAX: usize = 10_000;

/// Bytes in a request after which no more are added: with one more of the largest, and written as JSON,
/// it is still one that a server takes.
const BYTES_MAX: usize = 2 << 20;

/// Requests under way.
const REQUESTS: usize = 2;

type Waiting = (Report, oneshot::Sender<Result<(), Error>>);

/// A queue of reports before a server.
pub struct Reports(mpsc::Sender<Waiting>);

impl Reports {
    /// Starts it.
    pub fn start(caller: Caller) -> Self {
        let (sender, waiting) = mpsc::channel(WAITING_MAX);
        tokio::spawn(drive(caller, waiting));
        Self(sender)
    }

    /// Sends one and waits for its answer.
    pub async fn send(&self, report: Report) -> Result<(), Error> {
        let (reply, answer) = oneshot::channel();
        let sent = self.0.send((report, reply)).await;
        let answer = if sent.is_ok() { answer.await.ok() } else { None };
        answer.unwrap_or_else(|| Err(ff_core::StoreError::Closed.into()))
    }
}

async fn drive(caller: Caller, mut waiting: mpsc::Receiver<Waiting>) {
    let requests = Arc::new(Semaphore::new(REQUESTS));
    while let Some(first) = waiting.recv().await {
        let under_way = Arc::clone(&requests).acquire_owned().await;
        let mut bytes = first.0.bytes();
        let mut batch = vec![first];
        while batch.len() < BATCH_MAX
            && bytes < BYTES_MAX
            && let Ok(next) = waiting.try_recv()
        {
            bytes += next.0.bytes();
            batch.push(next);
        }
        let caller = caller.clone();
        tokio::spawn(async move {
            send(&caller, batch).await;
            drop(under_way);
        });
    }
}

async fn send(caller: &Caller, batch: Vec<Waiting>) {
    let (reports, replies): (Vec<_>, Vec<_>) = batch.into_iter().unzip();
    let body = ReportsRequest { reports: reports.into_iter().map(ff_wire::Report::from).collect() };
    match caller.post::<ReportsAnswer>("v1/reports", &body).await {
        Ok(answer) => {
            for (reply, outcome) in replies.into_iter().zip(answer.results) {
                let outcome = match outcome {
                    ReportOutcome::Rejected { problem } => Err((*problem).into()),
                    _ => Ok(()), // not ours: it is done, however it is called
                };
                // Whoever reported may be gone.
                drop(reply.send(outcome));
            }
        }
        Err(error) => {
            for reply in replies {
                drop(reply.send(Err(error.clone())));
            }
        }
    }
}
