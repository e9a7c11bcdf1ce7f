//! Promotion: delayed executions whose time has come move to their queues.
//!
//! Claiming does this too; this duty keeps the ready table fresh when nobody claims.

use std::time::Duration;

use ff_core::limits::PROMOTE_BATCH_MAX;
use ff_core::{Backend, StoreError};

use super::{DutyPlan, Report};

pub const PLAN: DutyPlan =
    DutyPlan { interval: Duration::from_secs(5), batch: PROMOTE_BATCH_MAX, ..DutyPlan::USUAL };

/// A claim that asks for nothing only promotes.
pub async fn tick(backend: &dyn Backend) -> Result<Report, StoreError> {
    let claims = backend.claim(&[]).await?;
    Ok(Report { next: claims.next_due, ..Report::default() })
}
