//! One piece of work: from being claimed to being reported or given back.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

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
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::Crew;
use crate::context::Interrupt;
use crate::fabric::{Report, Work};
use crate::handler::Handled;
use crate::journal::Journal;
use crate::pauses::persistently;
use crate::step::plain;
use crate::{BoxError, Context, Error};

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
pub async fn run(crew: Arc<Crew>, work: Work, lost: CancellationToken) {
    let (id, fence) = (work.id, work.fence);
    let span = tracing::info_span!(
        "attempt", execution = %id, kind = %work.kind, lane = %work.lane,
        attempt = fence.attempt_index
    );
    let whole = async {
        let went = tokio::select! {
            // What could start is started: whoever drains waits for it.
            slot = crew.slots.acquire() => {
                let _slot = slot.expect("never closed");
                let begun = Instant::now();
                let went = start(&crew, work, &lost).await;
                crew.pace.took(begun.elapsed());
                went
            }
            () = crew.draining.cancelled() => Went::Unfinished,
            () = lost.cancelled() => Went::Lost,
        };
        if let Some(report) = report_of(id, fence, went) {
            say(&crew, report, &lost).await;
        }
    };
    tokio::select! {
        () = whole.instrument(span) => {}
        () = crew.dropped.cancelled() => {}
    }
    crew.held.remove(id, fence);
    crew.freed.notify_one();
}

async fn start(crew: &Arc<Crew>, work: Work, lost: &CancellationToken) -> Went {
    tokio::select! {
        went = work_on(crew, work, lost) => went,
        () = overdue(lost, crew.settings.grace) => Went::Lost,
        () = crew.ended.cancelled() => Went::Unfinished,
    }
}

async fn work_on(crew: &Arc<Crew>, work: Work, lost: &CancellationToken) -> Went {
    let Some(body) = crew.handlers.of(work.kind.as_str()).map(Arc::clone) else {
        return unknown(crew, &work).await;
    };
    let journal = if work.may_have_steps {
        match persistently(|| crew.fabric.journal(work.id)).await {
            Ok(records) => Journal::new(records),
            Err(error) => return Went::Stopped(error),
        }
    } else {
        Journal::new(Vec::new())
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

/// Waits until a handler has had its time after its execution was lost.
async fn overdue(lost: &CancellationToken, grace: Duration) {
    lost.cancelled().await;
    tokio::time::sleep(grace).await;
}

/// Gives back what no handler is here for, and says so where people look.
async fn unknown(crew: &Crew, work: &Work) -> Went {
    let known = crew.handlers.kinds().join(", ");
    let mut message = format!("this worker handles {known}, not {}", work.kind);
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
            let (category, class) = nature(&error);
            fail(chain(&error), category, class)
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
        Went::Stopped(error) if error.retryable() => {
            tracing::warn!(%error, "given back");
            Some(Report::Release(Release { id, fence }))
        }
        Went::Stopped(error) => fail(error.to_string(), category("steps"), FailureClass::Permanent),
        Went::Paused | Went::Lost => None,
        Went::Unfinished => Some(Report::Release(Release { id, fence })),
    }
}

fn says_that_it_is_lost(error: &Error) -> bool {
    use ff_core::Code;
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

fn nature(error: &BoxError) -> (Category, FailureClass) {
    match error.downcast_ref::<Error>() {
        Some(known) => (known.category().cloned().unwrap_or_else(plain), known.class()),
        None => (plain(), FailureClass::Transient),
    }
}

/// An error with what caused it. Many errors repeat the text of their source at the end of their own:
/// that is said once.
fn chain(error: &BoxError) -> String {
    let mut said = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let text = cause.to_string();
        if !said.ends_with(&text) {
            said.push_str(": ");
            said.push_str(&text);
        }
        source = cause.source();
    }
    said
}

/// Says it, and again while that may help and the lease may hold.
async fn say(crew: &Crew, report: Report, lost: &CancellationToken) {
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
                    Box::pin(say(crew, fail, lost)).await;
                }
            }
        },
        () = lost.cancelled() => tracing::info!("the report came too late"),
    }
}

/// What is said of an execution whose result cannot be kept: nobody else would have more luck with it.
fn refused(report: &Report, error: &Error) -> Option<Report> {
    let Report::Complete(Complete { id, fence, .. }) = report else { return None };
    let mut reason = format!("its result was refused: {error}");
    truncate(&mut reason, REASON_BYTES_MAX);
    let category = Category::new("result").expect("a valid category");
    let (id, fence, class) = (*id, *fence, FailureClass::Permanent);
    Some(Report::Fail(Fail { id, fence, reason, category, class }))
}

fn text_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "without a message".to_owned())
}

fn truncate(text: &mut String, max: usize) {
    while text.len() > max {
        text.pop();
    }
    text.retain(|c| c != '\0');
}
