//! One piece of work: from being claimed to being reported or given back.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use ff_core::Code;
use ff_core::ExecutionId;
use ff_core::Fence;
use ff_core::decide::complete::Complete;
use ff_core::decide::delay::Delay;
use ff_core::decide::fail::Fail;
use ff_core::decide::progress::ReportProgress;
use ff_core::decide::release::Release;
use ff_core::limits::{PROGRESS_BYTES_MAX, REASON_BYTES_MAX};
use ff_core::policy::FailureClass;
use ff_core::text::Category;
use futures_util::FutureExt;
use tokio::sync::{AcquireError, SemaphorePermit};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::Crew;
use super::held::{Kept, Lease};
use crate::context::Interrupt;
use crate::error::{Nature, chain, truncate};
use crate::fabric::{Report, Work};
use crate::handler::Handled;
use crate::journal::Journal;
use crate::pauses::persistently;
use crate::step::plain;
use crate::{Context, Error};

/// How long prefetched work waits for a slot before it is released for other workers; if its attempt has
/// little time, a part of that.
const PREFETCH_WAIT: Duration = Duration::from_secs(1);
const PREFETCH_PART: u32 = 4;

/// How soon work of an unknown kind is looked at again: a worker that knows it may come.
const UNKNOWN_AGAIN: Duration = Duration::from_secs(10);

/// How it went.
enum Went {
    /// The handler came back.
    Handled(Handled),
    /// It panicked.
    Panicked(String),
    /// It was given back by itself.
    Paused,
    /// It must not go on.
    Stopped(Error),
    /// Somebody else has it, or it is over.
    Lost,
    /// The worker stops.
    Unfinished,
}

/// Runs work when there is a slot for it, and says how it went.
pub async fn run(crew: Arc<Crew>, work: Work, kept: Kept) {
    let (id, fence) = (work.id, work.fence);
    let span = tracing::info_span!(
        "attempt", execution = %id, kind = %work.kind, lane = %work.lane,
        attempt = fence.attempt_index
    );
    let lease = Arc::clone(&kept.lease);
    let over_at = work.time_limit.map(|limit| Instant::now() + limit);
    let patience =
        work.time_limit.map_or(PREFETCH_WAIT, |limit| PREFETCH_WAIT.min(limit / PREFETCH_PART));
    let whole = async {
        let went = tokio::select! {
            // What could start is started: whoever drains waits for it.
            slot = place(&crew, &lease) => {
                let _slot = slot.expect("never closed");
                let begun = Instant::now();
                let started = AssertUnwindSafe(start(&crew, work, &lease, over_at)).catch_unwind().await;
                crew.pace.took(begun.elapsed());
                // What the handler held when it was stopped may panic while it is dropped.
                started.unwrap_or_else(|panic| Went::Panicked(text_of(panic.as_ref())))
            }
            () = tokio::time::sleep(patience) => {
                crew.pace.is_slow(&crew.settings);
                Went::Unfinished
            }
            () = crew.draining.cancelled() => Went::Unfinished,
            () = lease.lost.cancelled() => Went::Lost,
        };
        // So may an error while it is printed.
        let report = catch_unwind(AssertUnwindSafe(|| report_of(id, fence, went)));
        let report = report.unwrap_or_else(|panic| {
            let said = format!("printing its error: {}", text_of(panic.as_ref()));
            report_of(id, fence, Went::Panicked(said))
        });
        if let Some(report) = report {
            say(&crew, report, &lease).await;
        }
    };
    let whole = AssertUnwindSafe(whole.instrument(span)).catch_unwind();
    tokio::select! {
        done = whole => if let Err(panic) = done {
            tracing::error!(%id, panic = text_of(panic.as_ref()), "the task of a handler panicked");
        },
        () = crew.dropped.cancelled() => {}
    }
    // It stays in the list until the handler of an earlier lease has ended, for a later lease to wait for.
    lease.lost.cancel();
    tokio::select! {
        () = lease.turn() => {}
        () = crew.dropped.cancelled() => {}
    }
    drop(kept);
}

/// Waits for a place, and for an earlier handler of the same execution to be gone.
async fn place<'c>(crew: &'c Crew, lease: &Lease) -> Result<SemaphorePermit<'c>, AcquireError> {
    lease.turn().await;
    crew.slots.acquire().await
}

/// Runs the handler, for as long as the worker holds the execution and its time lasts.
async fn start(crew: &Arc<Crew>, work: Work, lease: &Lease, over_at: Option<Instant>) -> Went {
    tokio::select! {
        biased;
        // Before the handler is polled: a process that slept past its lease begins nothing.
        () = lease.run_out() => Went::Lost,
        () = over(over_at) => Went::Lost,
        () = crew.ended.cancelled() => Went::Unfinished,
        went = work_on(crew, work, &lease.lost) => went,
        // After it: a handler that waits for the token may clean up until its next await.
        () = lease.lost.cancelled() => Went::Lost,
    }
}

/// Waits until the attempt has used up its time: the store ends it.
async fn over(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
    tracing::info!("the attempt has used up its time");
}

async fn work_on(crew: &Arc<Crew>, work: Work, lost: &CancellationToken) -> Went {
    let Some(body) = crew.handlers.of(work.kind.as_str()).map(Arc::clone) else {
        return unknown(crew, &work).await;
    };
    let records = if work.may_have_steps {
        persistently(|| crew.fabric.journal(work.id)).await
    } else {
        Ok(Vec::new())
    };
    let journal =
        records.and_then(|records| Journal::new(records, work.started_at, work.claimed_at));
    let journal = match journal {
        Ok(journal) => journal,
        // Of an earlier release: a worker of that one can go on with it.
        Err(error) if error.is(Code::StepConflict) => {
            return back_for_others(crew, &work, error.to_string()).await;
        }
        Err(error) => return Went::Stopped(error),
    };
    let input = work.input.clone();
    let fabric = Arc::clone(&crew.fabric);
    let shared = Arc::clone(&crew.shared);
    let (context, interrupted) = Context::new(fabric, work, journal, shared, lost.clone());
    let handled = AssertUnwindSafe(async move { body(context, input).await }).catch_unwind();
    tokio::select! {
        handled = handled => match handled {
            Ok(handled) => Went::Handled(handled),
            Err(panic) => Went::Panicked(text_of(panic.as_ref())),
        },
        Ok(interrupt) = interrupted => match interrupt {
            Interrupt::Paused => Went::Paused,
            Interrupt::Stopped(error) => Went::Stopped(error),
        },
    }
}

/// What no handler is here for.
async fn unknown(crew: &Crew, work: &Work) -> Went {
    let known = crew.handlers.kinds().join(", ");
    back_for_others(crew, work, format!("this worker handles {known}, not {}", work.kind)).await
}

/// Gives back what another worker may be able to do, and says why where people look.
async fn back_for_others(crew: &Crew, work: &Work, mut message: String) -> Went {
    tracing::error!("{message}; giving it back for {UNKNOWN_AGAIN:?}");
    truncate(&mut message, PROGRESS_BYTES_MAX);
    let (id, fence) = (work.id, work.fence);
    let progress = ReportProgress { id, fence, percent: None, message: Some(message), after: None };
    let report = async {
        crew.fabric.report(Report::Progress(progress)).await?;
        let again = u64::try_from(UNKNOWN_AGAIN.as_millis()).unwrap_or(u64::MAX);
        let delay_until = crew.fabric.now().await?.plus(again);
        crew.fabric.report(Report::Delay(Delay { id, fence, delay_until, steps: Vec::new() })).await
    };
    report.await.map_or_else(Went::Stopped, |()| Went::Paused)
}

/// What is to be said about work that went this way.
fn report_of(id: ExecutionId, fence: Fence, went: Went) -> Option<Report> {
    let category = |name: &str| Category::new(name).expect("a valid category");
    let fail = |mut reason: String, category, class| {
        truncate(&mut reason, REASON_BYTES_MAX);
        Some(Report::Fail(Fail { id, fence, reason, category, class }))
    };
    match went {
        Went::Handled(Ok(output)) => {
            let (result, encoding) =
                output.map_or((None, None), |data| (Some(data.bytes), data.encoding));
            Some(Report::Complete(Complete { id, fence, result, encoding }))
        }
        Went::Handled(Err(error)) => {
            let Nature { category, class } = Nature::of(&*error);
            fail(chain(&error), category.unwrap_or_else(plain), class)
        }
        Went::Panicked(message) => {
            let reason = format!("the handler panicked: {message}");
            fail(reason, category("panic"), FailureClass::Transient)
        }
        Went::Stopped(error) if says_that_it_is_lost(&error) => {
            tracing::info!(%error, "stopped");
            None
        }
        // Another worker may have more luck with the store.
        Went::Stopped(error) if !error.is_final() => {
            tracing::warn!(%error, "given back");
            Some(Report::Release(Release { id, fence, untaken: false }))
        }
        Went::Stopped(error) => fail(error.to_string(), category("steps"), FailureClass::Permanent),
        Went::Paused | Went::Lost => None,
        Went::Unfinished => Some(Report::Release(Release { id, fence, untaken: false })),
    }
}

fn says_that_it_is_lost(error: &Error) -> bool {
    let lost = [
        Code::StaleLease,
        Code::LeaseExpired,
        Code::LeaseRevoked,
        Code::ExecutionNotActive,
        Code::ExecutionNotFound,
        Code::ResultConflict,
        Code::Closed,
    ];
    lost.iter().any(|code| error.is(*code))
}

/// Says it, and again while that may help and the lease may hold.
async fn say(crew: &Crew, report: Report, lease: &Lease) {
    let said = persistently(|| crew.fabric.report(report.clone()));
    tokio::select! {
        said = said => match said {
            Ok(()) => {}
            // Taken away or finished meanwhile: somebody else has it, or it is over.
            Err(error) if says_that_it_is_lost(&error) => {
                tracing::info!(%error, "the report was refused");
            }
            Err(error) => {
                tracing::warn!(%error, "the report was refused");
                if let Some(fail) = refused(&report, &error) {
                    Box::pin(say(crew, fail, lease)).await;
                }
            }
        },
        () = lease.lost.cancelled() => tracing::info!("the report came too late"),
        () = lease.run_out() => {}
    }
}

/// What is said of an execution whose result cannot be kept: nobody else would have more luck with it.
fn refused(report: &Report, error: &Error) -> Option<Report> {
    let Report::Complete(Complete { id, fence, .. }) = report else { return None };
    if !error.is_final() {
        return None;
    }
    let mut reason = format!("its result was refused: {error}");
    truncate(&mut reason, REASON_BYTES_MAX);
    let category = Category::new("result").expect("a valid category");
    let (id, fence, class) = (*id, *fence, FailureClass::Permanent);
    Some(Report::Fail(Fail { id, fence, reason, category, class }))
}

fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "without a message".to_owned())
}
