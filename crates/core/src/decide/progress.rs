//! Progress: the holder says how far it is.
//!
//! Sent twice: recorded twice, with the same content.

use super::{OnExecution, holder};
use crate::command::Traffic;
use crate::error::{Code, Rejection};
use crate::execution::{Execution, Fence, Progress};
use crate::fold::{Change, Cx, Effects};
use crate::ids::ExecutionId;
use crate::limits::{Config, PROGRESS_BYTES_MAX};
use crate::text::prose;

/// Record progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportProgress {
    /// Of which execution.
    pub id: ExecutionId,
    /// Proof of holding it.
    pub fence: Fence,
    /// Percent done, 0 to 100.
    pub percent: Option<u8>,
    /// In words.
    pub message: Option<String>,
}

impl OnExecution for ReportProgress {
    type Reply = ();
    const NAME: &'static str = "report_progress";
    const TRAFFIC: Traffic = Traffic::Finish;

    fn id(&self) -> ExecutionId {
        self.id
    }

    fn check(&self, _: &Config) -> Result<(), Rejection> {
        if let Some(percent) = self.percent.filter(|percent| *percent > 100) {
            let why = "is out of range; use 0 to 100";
            return Err(Rejection::invalid(Code::InvalidInput, "percent", percent, why));
        }
        prose("message", self.message.as_deref().unwrap_or_default(), PROGRESS_BYTES_MAX)
    }

    fn on(&self, x: &Execution, cx: &mut Cx<'_>) -> Result<Change<()>, Rejection> {
        let at = cx.at(x);
        holder(x, self.fence, at)?;
        let mut reported = x.changed(at);
        let message = self.message.clone();
        reported.progress = Some(Progress { percent: self.percent, message, at });
        let effects = Effects { execution: Some(reported), ..Effects::default() };
        Ok(Change { reply: (), effects })
    }
}
