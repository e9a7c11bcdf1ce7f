//! Cancelling flows, and waiting until that is done.

use std::time::Duration;

use ff_core::decide::cancel_flow::{CancelFlow, FlowCancelled};
use ff_core::decide::cancel_owed::CancelOwed;
use ff_core::flow::CancellationPolicy;
use ff_core::fold::Key;
use ff_core::{Code, ExecutionId, FlowId, Rejection};
use tokio::time::Instant;

use crate::{Engine, Error, deadline};

/// How long a call waits for members to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Not at all.
    No,
    /// So long; then the call answers `timeout`, and the rest goes on by itself.
    For(Duration),
    /// As long as anybody may wait: five minutes.
    Indefinitely,
}

/// The longest wait.
const WAIT_MAX: Duration = Duration::from_mins(5);
/// Members that are named when a cancellation is repeated.
const NAMED_MAX: u32 = 1_000;

/// What a cancellation did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowCancellation {
    /// What became of the members.
    pub policy: CancellationPolicy,
    /// Why.
    pub reason: String,
    /// The members concerned; at most the first thousand of all when it is repeated.
    pub members: Vec<ExecutionId>,
    /// How many they are; all of the flow when it is repeated.
    pub member_count: u64,
    /// Whether members are still being cancelled.
    pub scheduled: bool,
    /// Whether a cancellation that ends as much was carried out before: nothing was done.
    pub repeated: bool,
}

impl Engine {
    /// Cancels a flow and, as `policy` says, its members; waits for them as `wait` says.
    pub async fn cancel_flow(
        &self,
        flow: FlowId,
        policy: CancellationPolicy,
        reason: impl Into<String>,
        wait: Wait,
    ) -> Result<FlowCancellation, Error> {
        let reason = reason.into();
        let cancelled = self.execute(CancelFlow { flow, policy, reason }).await?;
        let FlowCancelled { policy, reason, mut members, repeated, .. } = cancelled;
        let limit = match wait {
            Wait::No => Duration::ZERO,
            Wait::For(limit) => limit.min(WAIT_MAX),
            Wait::Indefinitely => WAIT_MAX,
        };
        let scheduled = self.cancel_owed(flow, limit).await?;
        if scheduled && wait != Wait::No {
            let said =
                format!("flow {flow} is cancelled; some of its members are not, after {limit:?}");
            return Err(Rejection::new(Code::Timeout, said).into());
        }
        let mut member_count = members.len() as u64;
        if repeated {
            member_count = self.existing_flow(flow).await?.nodes.into();
            let (all, _) = self.list_members(flow, None, NAMED_MAX).await?;
            members = all.into_iter().map(|member| member.execution_id).collect();
        }
        Ok(FlowCancellation { policy, reason, members, member_count, scheduled, repeated })
    }

    /// Ends what a flow owes, up to `limit`; answers whether something is left.
    async fn cancel_owed(&self, flow: FlowId, limit: Duration) -> Result<bool, Error> {
        let deadline = deadline(limit);
        loop {
            let have = self.backend.get(&[Key::Backlog(flow)]).await?;
            let owes = have.graph.backlogs.get(&flow).is_some_and(Option::is_some);
            if !owes || Instant::now() >= deadline {
                return Ok(owes);
            }
            self.execute(CancelOwed { flow }).await?;
        }
    }
}
