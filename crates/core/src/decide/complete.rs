//! Complete: the holder ends the execution with success.
//!
//! Sent twice with the fence that ended the attempt: success again if the result is the same, else a
//! conflict. The first result stays. Of one that ended before digests were kept, nothing is compared.

use bytes::Bytes;

use super::{OnExecution, Parting, Repeat, check_payload, end, holder};
use crate::command::Traffic;
use crate::error::{Code, Rejection};
use crate::execution::{Ending, Execution, Fence, LeaseEnd, ResultDigest, State, Terminal};
use crate::fold::{Blob, BlobRef, Change, Cx};
use crate::ids::ExecutionId;
use crate::limits::Config;
use crate::text::Encoding;

/// End an execution with success.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complete {
    /// Which.
    pub id: ExecutionId,
    /// Proof of holding it.
    pub fence: Fence,
    /// What came out of it.
    pub result: Option<Bytes>,
    /// How the result is encoded; not without a result.
    pub encoding: Option<Encoding>,
}

impl Complete {
    fn digest(&self) -> ResultDigest {
        ResultDigest::of(self.result.as_deref(), self.encoding.as_ref())
    }
}

impl OnExecution for Complete {
    type Reply = ();
    const NAME: &'static str = "complete_execution";
    const TRAFFIC: Traffic = Traffic::Finish;
    const REPEAT: Repeat = Repeat {
        by: "the fence that ended the attempt, and a digest of the result",
        late: "success again; `result_conflict` with another result",
    };

    fn id(&self) -> ExecutionId {
        self.id
    }

    fn check(&self, config: &Config) -> Result<(), Rejection> {
        if let (None, Some(encoding)) = (&self.result, &self.encoding) {
            let why = "needs a result to describe";
            return Err(Rejection::invalid(Code::InvalidInput, "payload_encoding", encoding, why));
        }
        check_payload("result", self.payload_bytes(), config)
    }

    fn payload_bytes(&self) -> usize {
        self.result.as_ref().map_or(0, Bytes::len)
    }

    fn on(&self, x: &Execution, cx: &mut Cx<'_>) -> Result<Change<()>, Rejection> {
        if let State::Terminal(Terminal { ending: Ending::Success { digest, .. }, .. }) = &x.state
            && x.ended_by(self.fence, LeaseEnd::Completed)
        {
            if digest.is_some_and(|first| first != self.digest()) {
                let said = format!("{} was completed with another result", x.id);
                return Err(Rejection::new(Code::ResultConflict, said).standing(x.standing()));
            }
            return Ok(Change::none(()));
        }
        holder(x, self.fence, cx.at(x))?;
        let ending = Ending::Success { result: self.result.is_some(), digest: Some(self.digest()) };
        let mut effects = end(x, ending, Parting::own(LeaseEnd::Completed), cx);
        effects.blob = self.result.clone().map(|bytes| Blob {
            at: BlobRef::Result(x.id, self.fence.attempt_index),
            encoding: self.encoding.clone(),
            bytes,
        });
        Ok(Change { reply: (), effects })
    }
}
