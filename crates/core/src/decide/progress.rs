//! Progress: the holder says how far it is.
//!
//! Sent twice: recorded twice, with the same content. A store that sends it again does so for the report
//! that it replaces, and never over a newer one.

use super::{OnExecution, Repeat, holder};
use crate::command::Traffic;
use crate::error::{Code, Rejection};
use crate::execution::{Execution, Fence, Progress};
use crate::fold::{Change, Cx, Effects};
use crate::ids::ExecutionId;
use crate::limits::{Config, PROGRESS_BYTES_MAX};
use crate::text::prose;
use crate::time::Millis;

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
    /// Only if the last report was made then, at [`Millis::ZERO`] if there was none; whenever it was when it
    /// does not say.
    pub after: Option<Millis>,
}

impl OnExecution for ReportProgress {
    type Reply = ();
    const NAME: &'static str = "report_progress";
    const TRAFFIC: Traffic = Traffic::Finish;
    const REPEAT: Repeat = Repeat {
        by: "its fence, and the report that it replaces",
        late: "changes nothing once a newer report was made",
    };

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
        // A newer report was made: perhaps this one, perhaps one after it.
        if self.after.is_some_and(|seen| seen != last(x)) {
            return Ok(Change::none(()));
        }
        let mut reported = x.changed(at);
        let message = self.message.clone();
        reported.progress = Some(Progress { percent: self.percent, message, at });
        let effects = Effects { execution: Some(reported), ..Effects::default() };
        Ok(Change { reply: (), effects })
    }

    fn pinned_to(&self, x: &Execution) -> Option<Self> {
        self.after.is_none().then(|| Self { after: Some(last(x)), ..self.clone() })
    }
}

/// When the last report was made.
fn last(x: &Execution) -> Millis {
    x.progress.as_ref().map_or(Millis::ZERO, |progress| progress.at)
}
