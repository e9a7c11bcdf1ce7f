//! What workers say about executions they hold. Every call carries the fence of its lease.

use bytes::Bytes;
use ff_core::decide::Failed;
use ff_core::decide::cancel::Cancel;
use ff_core::decide::complete::Complete;
use ff_core::decide::delay::{Delay, Delayed};
use ff_core::decide::fail::Fail;
use ff_core::decide::progress::ReportProgress;
use ff_core::decide::release::Release;
use ff_core::decide::renew::{Renew, Renewed};
use ff_core::decide::steps::RecordSteps;
use ff_core::{ExecutionId, Fence, Millis, Rejection};

use crate::{Engine, Error};

impl Engine {
    /// Extends a lease.
    pub async fn renew_lease(
        &self,
        id: ExecutionId,
        fence: Fence,
        lease_ttl_ms: u64,
    ) -> Result<Renewed, Error> {
        self.execute(Renew { id, fence, lease_ttl_ms }).await
    }

    /// Extends many leases together.
    pub async fn renew_leases(
        &self,
        leases: Vec<Renew>,
    ) -> Result<Vec<Result<Renewed, Rejection>>, Error> {
        self.execute_all(leases).await
    }

    /// Records how far the work is.
    pub async fn report_progress(&self, progress: ReportProgress) -> Result<(), Error> {
        self.execute(progress).await
    }

    /// Adds steps to the journal of an execution.
    pub async fn record_steps(&self, steps: RecordSteps) -> Result<(), Error> {
        self.execute(steps).await
    }

    /// Ends an execution with success.
    pub async fn complete_execution(
        &self,
        id: ExecutionId,
        fence: Fence,
        result: Option<Bytes>,
    ) -> Result<(), Error> {
        self.execute(Complete { id, fence, result, encoding: None }).await
    }

    /// Ends an attempt with a failure.
    pub async fn fail_execution(&self, failure: Fail) -> Result<Failed, Error> {
        self.execute(failure).await
    }

    /// Gives an execution back until some time, to go on with the same attempt.
    pub async fn delay_execution(
        &self,
        id: ExecutionId,
        fence: Fence,
        delay_until: Millis,
    ) -> Result<Delayed, Error> {
        self.execute(Delay { id, fence, delay_until, steps: Vec::new() }).await
    }

    /// Undoes a claim; it does not count as an attempt.
    pub async fn release_execution(&self, id: ExecutionId, fence: Fence) -> Result<(), Error> {
        self.execute(Release { id, fence, untaken: false }).await
    }

    /// Cancels an execution that the caller holds.
    pub async fn cancel_held(
        &self,
        id: ExecutionId,
        fence: Fence,
        reason: impl Into<String>,
    ) -> Result<(), Error> {
        self.execute(Cancel { id, reason: reason.into(), fence: Some(fence), replays: None }).await
    }
}
