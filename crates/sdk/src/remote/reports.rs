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
pub const BYTES_MAX: usize = 2 << 20;

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

/// Sends a batch. One that is refused as a whole is halved, until what is wrong with it stands alone.
async fn send(caller: &Caller, batch: Vec<Waiting>) {
    let mut parts = vec![batch];
    while let Some(mut part) = parts.pop() {
        let reports =
            part.iter().map(|(report, _)| ff_wire::Report::from(report.clone())).collect();
        let answer = caller.post::<ReportsAnswer>("v1/reports", &ReportsRequest { reports }).await;
        match answer {
            Err(error) if part.len() > 1 && error.is_final() => {
                let second = part.split_off(part.len() / 2);
                parts.extend([second, part]);
            }
            Err(error) => {
                for (_, reply) in part {
                    // Whoever reported may be gone.
                    drop(reply.send(Err(error.clone())));
                }
            }
            Ok(answer) => {
                for ((_, reply), outcome) in part.into_iter().zip(answer.results) {
                    let outcome = match outcome {
                        ReportOutcome::Rejected { problem } => Err((*problem).into()),
                        _ => Ok(()), // not ours: it is done, however it is called
                    };
                    drop(reply.send(outcome));
                }
            }
        }
    }
}
