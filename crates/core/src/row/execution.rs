//! An execution as columns.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::Value;
use uuid::Uuid;

use super::{absent, corrupt, execution_id, failure_of, number, parse, present, stored, worker_of};
use crate::backend::StoreError;
use crate::execution::{
    Active, Attempt, Counts, Ending, Execution, Facts, Failure, Fingerprint, Hold, Lease, Next,
    Priority, Progress, ResultDigest, Runnable, Spec, State, Suspended, Tags, Terminal, Wait,
};
use crate::flow::Member;
use crate::ids::{ExecutionId, FlowId};
use crate::policy::Policy;
use crate::state::{Phase, TerminalOutcome, words};
use crate::text::{Creator, IdempotencyKey, Kind, LaneId, Namespace, NodeName};
use crate::time::Millis;

/// The columns of an execution, named as in the table. Texts are borrowed: from the execution that is
/// written, or from the row that is read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is the column of the same name, documented in the schema")]
pub struct ExecutionRow<'a> {
    pub partition_key: i64,
    pub execution_id: [u8; 16],
    pub version: i64,
    pub namespace: &'a str,
    pub lane_id: &'a str,
    pub kind: &'a str,
    pub creator: &'a str,
    pub policy: Option<Cow<'a, str>>,
    pub idempotency_key: Option<&'a str>,
    pub fingerprint: &'a [u8],
    pub created_at_ms: i64,
    pub priority: i64,
    pub tags: Option<Cow<'a, str>>,
    pub deadline_at_ms: Option<i64>,
    pub epoch: i64,
    pub attempts: i64,
    pub retries: i64,
    pub reclaims: i64,
    pub replays: i64,
    pub progress_percent: Option<i64>,
    pub progress_message: Option<&'a str>,
    pub progress_at_ms: Option<i64>,
    pub flow_id: Option<[u8; 16]>,
    pub node: Option<&'a str>,
    pub input_from: Option<[u8; 16]>,
    pub started_at_ms: Option<i64>,
    pub updated_at_ms: i64,
    pub phase: &'a str,
    pub outcome: Option<&'a str>,
    pub next_attempt: Option<&'a str>,
    pub wait_until_ms: Option<i64>,
    pub wait_reason: Option<&'a str>,
    pub held_reason: Option<&'a str>,
    pub held_at_ms: Option<i64>,
    pub gated: bool,
    pub lease_end: Option<&'a str>,
    pub attempt_index: Option<i64>,
    pub attempt_kind: Option<&'a str>,
    pub worker_id: Option<&'a str>,
    pub worker_instance_id: Option<&'a str>,
    pub attempt_started_at_ms: Option<i64>,
    pub attempt_ran_ms: Option<i64>,
    pub resumed: Option<bool>,
    pub timeout_at_ms: Option<i64>,
    pub failure_reason: Option<&'a str>,
    pub failure_category: Option<&'a str>,
    pub has_result: Option<bool>,
    pub result_digest: Option<i64>,
    pub cancelled_by: Option<&'a str>,
    pub end_reason: Option<&'a str>,
    pub terminal_at_ms: Option<i64>,
    pub retain_until_ms: Option<i64>,
}

/// The columns of a lease, beside its execution.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is the column of the same name, documented in the schema")]
pub struct LeaseColumns {
    pub epoch: i64,
    pub claim_id: Vec<u8>,
    pub acquired_at_ms: i64,
    pub renewed_at_ms: i64,
    pub until_ms: i64,
    pub check_at_ms: i64,
}

words! {
    /// The `next_attempt` column: [`Next`] without its data.
    NextWord {
        First = "first", Retry = "retry", Reclaim = "reclaim", Replay = "replay",
        Resume = "resume",
    }
}

impl<'a> From<&'a Execution> for ExecutionRow<'a> {
    fn from(x: &'a Execution) -> Self {
        let policy = (x.spec.policy != Policy::default()).then(|| x.spec.policy.to_json().into());
        let tags = (!x.tags.is_empty())
            .then(|| serde_json::to_string(&x.tags).expect("a map of texts is JSON").into());
        let progress = x.progress.as_ref();
        let row = Self {
            partition_key: i64::from(x.id.partition().index()),
            execution_id: x.id.uuid().into_bytes(),
            version: stored(x.version),
            namespace: x.spec.namespace.as_str(),
            lane_id: x.spec.lane.as_str(),
            kind: x.spec.kind.as_str(),
            creator: x.spec.creator.as_str(),
            policy,
            idempotency_key: x.spec.idempotency_key.as_ref().map(IdempotencyKey::as_str),
            fingerprint: &x.spec.fingerprint.0,
            created_at_ms: x.spec.created_at.0,
            priority: i64::from(x.priority.get()),
            tags,
            deadline_at_ms: x.deadline_at.map(|at| at.0),
            epoch: stored(x.epoch),
            attempts: i64::from(x.counts.attempts),
            retries: i64::from(x.counts.retries),
            reclaims: i64::from(x.counts.reclaims),
            replays: i64::from(x.counts.replays),
            progress_percent: progress.and_then(|p| p.percent.map(i64::from)),
            progress_message: progress.and_then(|p| p.message.as_deref()),
            progress_at_ms: progress.map(|p| p.at.0),
            flow_id: x.flow().map(|flow| flow.0.into_bytes()),
            node: x.member.as_ref().and_then(|member| member.node.as_ref().map(NodeName::as_str)),
            input_from: x.input_from.map(|id| id.uuid().into_bytes()),
            started_at_ms: x.started_at.map(|at| at.0),
            updated_at_ms: x.updated_at.0,
            phase: x.state.phase().as_str(),
            ..Self::default()
        };
        match &x.state {
            State::Runnable(runnable) => row.runnable(runnable),
            State::Active(active) => row.active(active),
            State::Suspended(suspended) => row.suspended(suspended),
            State::Terminal(terminal) => row.terminal(terminal),
        }
    }
}

impl<'a> ExecutionRow<'a> {
    fn runnable(mut self, r: &'a Runnable) -> Self {
        self.wait_until_ms = r.wait.map(|wait| wait.until.0);
        self.wait_reason = r.wait.map(|wait| wait.reason.as_str());
        self.held_at_ms = r.hold.as_ref().map(|hold| hold.at.0);
        self.held_reason = r.hold.as_ref().map(|hold| hold.reason.as_str());
        self.gated = r.gated;
        self.lease_end = r.last_lease.map(|how| how.as_str());
        let word = match &r.next {
            Next::First => NextWord::First,
            Next::Retry(failure) => {
                self = self.failure(failure);
                NextWord::Retry
            }
            Next::Reclaim => NextWord::Reclaim,
            Next::Replay => NextWord::Replay,
            Next::Resume(attempt) => {
                self = self.attempt(attempt);
                NextWord::Resume
            }
        };
        self.next_attempt = Some(word.as_str());
        self
    }

    fn active(mut self, active: &'a Active) -> Self {
        self = self.attempt(&active.attempt);
        self.resumed = Some(active.resumed);
        self.timeout_at_ms = active.timeout_at.map(|at| at.0);
        self
    }

    fn suspended(mut self, s: &'a Suspended) -> Self {
        self = self.attempt(&s.attempt);
        self.wait_reason = Some(s.reason.as_str());
        self.wait_until_ms = s.deadline.map(|at| at.0);
        self.timeout_at_ms = s.missed.map(|at| at.0);
        self.lease_end = s.last_lease.map(|how| how.as_str());
        self
    }

    fn terminal(mut self, t: &'a Terminal) -> Self {
        if let Some(attempt) = &t.attempt {
            self = self.attempt(attempt);
        }
        self.outcome = Some(t.ending.outcome().as_str());
        self.lease_end = t.last_lease.map(|how| how.as_str());
        self.terminal_at_ms = Some(t.at.0);
        self.retain_until_ms = Some(t.retain_until.0);
        match &t.ending {
            Ending::Success { result, digest } => {
                self.has_result = Some(*result);
                self.result_digest = digest.map(|digest| digest.0);
            }
            Ending::Failed(failure) => self = self.failure(failure),
            Ending::Cancelled { by, reason } => {
                self.cancelled_by = Some(by.as_str());
                self.end_reason = Some(reason);
            }
            Ending::Expired { reason } | Ending::Skipped { reason } => {
                self.end_reason = Some(reason);
            }
        }
        self
    }

    fn attempt(mut self, attempt: &'a Attempt) -> Self {
        self.attempt_index = Some(i64::from(attempt.index));
        self.attempt_kind = Some(attempt.kind.as_str());
        self.worker_id = Some(attempt.worker.id.as_str());
        self.worker_instance_id = Some(attempt.worker.instance.as_str());
        self.attempt_started_at_ms = Some(attempt.started_at.0);
        self.attempt_ran_ms = Some(stored(attempt.ran_ms));
        match &attempt.after {
            Some(failure) => self.failure(failure),
            None => self,
        }
    }

    fn failure(mut self, failure: &'a Failure) -> Self {
        self.failure_reason = Some(&failure.reason);
        self.failure_category = Some(failure.category.as_str());
        self
    }

    /// The execution that the columns describe.
    pub fn read(&self, lease: Option<&LeaseColumns>) -> Result<Execution, StoreError> {
        let id = execution_id(self.partition_key, &self.execution_id)?;
        let priority = number::<i32>("priority", self.priority)?;
        let at = |ms: Option<i64>| ms.map(Millis);
        let facts = Facts {
            id,
            version: number("version", self.version)?,
            spec: Arc::new(self.read_spec()?),
            priority: Priority::new(priority)
                .map_err(|why| corrupt("priority", priority, why.message))?,
            tags: self.read_tags()?,
            deadline_at: at(self.deadline_at_ms),
            epoch: number("epoch", self.epoch)?,
            counts: Counts {
                attempts: number("attempts", self.attempts)?,
                retries: number("retries", self.retries)?,
                reclaims: number("reclaims", self.reclaims)?,
                replays: number("replays", self.replays)?,
            },
            progress: self.read_progress()?,
            member: self.read_member()?,
            input_from: self
                .input_from
                .map(|uuid| ExecutionId::from_parts(id.partition(), Uuid::from_bytes(uuid))),
            started_at: at(self.started_at_ms),
            updated_at: Millis(self.updated_at_ms),
            state: self.read_state(lease)?,
        };
        Ok(facts.into())
    }

    fn read_spec(&self) -> Result<Spec, StoreError> {
        let policy = match &self.policy {
            None => Policy::default(),
            Some(text) => {
                let value: Value =
                    serde_json::from_str(text).map_err(|why| corrupt("policy", text, why))?;
                Policy::parse(&value).map_err(|why| corrupt("policy", text, why.message))?
            }
        };
        let key = self.idempotency_key;
        Ok(Spec {
            namespace: parse::<Namespace>("namespace", self.namespace)?,
            lane: parse::<LaneId>("lane_id", self.lane_id)?,
            kind: parse::<Kind>("kind", self.kind)?,
            creator: parse::<Creator>("creator", self.creator)?,
            policy,
            idempotency_key: key
                .map(|key| parse::<IdempotencyKey>("idempotency_key", key))
                .transpose()?,
            fingerprint: Fingerprint(self.fingerprint.to_vec()),
            created_at: Millis(self.created_at_ms),
        })
    }

    fn read_member(&self) -> Result<Option<Member>, StoreError> {
        let Some(flow) = self.flow_id else { return Ok(None) };
        let node = self.node.map(|node| parse::<NodeName>("node", node)).transpose()?;
        Ok(Some(Member { flow: FlowId(Uuid::from_bytes(flow)), node }))
    }

    fn read_tags(&self) -> Result<Tags, StoreError> {
        let text = self.tags.as_deref();
        let tags =
            text.map(|text| serde_json::from_str(text).map_err(|why| corrupt("tags", text, why)));
        Ok(tags.transpose()?.unwrap_or_default())
    }

    fn read_progress(&self) -> Result<Option<Progress>, StoreError> {
        let Some(at) = self.progress_at_ms else {
            return Ok(None);
        };
        let percent = self.progress_percent;
        Ok(Some(Progress {
            percent: percent.map(|n| number("progress_percent", n)).transpose()?,
            message: self.progress_message.map(str::to_owned),
            at: Millis(at),
        }))
    }

    fn read_state(&self, lease: Option<&LeaseColumns>) -> Result<State, StoreError> {
        let phase = parse("phase", self.phase)?;
        if phase != Phase::Terminal {
            absent("outcome", self.outcome)?;
        }
        if phase != Phase::Active {
            absent("ff_lease", lease.map(|lease| lease.epoch))?;
        }
        if phase != Phase::Runnable {
            absent("gated", self.gated.then_some(true))?;
        }
        Ok(match phase {
            Phase::Runnable => State::Runnable(self.read_runnable()?),
            Phase::Active => State::Active(self.read_active(lease)?),
            Phase::Suspended => State::Suspended(self.read_suspended()?),
            Phase::Terminal => State::Terminal(self.read_terminal()?),
        })
    }

    fn read_runnable(&self) -> Result<Runnable, StoreError> {
        let word = present("next_attempt", self.next_attempt)?;
        let next = match parse("next_attempt", word)? {
            NextWord::First => Next::First,
            NextWord::Retry => Next::Retry(present("failure_reason", self.read_failure()?)?),
            NextWord::Reclaim => Next::Reclaim,
            NextWord::Replay => Next::Replay,
            NextWord::Resume => Next::Resume(self.read_attempt(self.read_failure()?)?),
        };
        let wait = self.wait_until_ms.map(|until| {
            let reason = present("wait_reason", self.wait_reason)?;
            Ok(Wait { until: Millis(until), reason: parse("wait_reason", reason)? })
        });
        let hold = self.held_at_ms.map(|at| {
            let reason = present("held_reason", self.held_reason)?.to_owned();
            Ok(Hold { reason, at: Millis(at) })
        });
        Ok(Runnable {
            next,
            wait: wait.transpose()?,
            hold: hold.transpose()?,
            gated: self.gated,
            last_lease: self.read_lease_end()?,
        })
    }

    fn read_active(&self, lease: Option<&LeaseColumns>) -> Result<Active, StoreError> {
        let lease = present("ff_lease", lease)?;
        if lease.epoch != self.epoch {
            return Err(corrupt("ff_lease.epoch", lease.epoch, "is not the execution's epoch"));
        }
        let claim_id = Uuid::from_slice(&lease.claim_id)
            .map_err(|why| corrupt("claim_id", format!("{:?}", lease.claim_id), why))?;
        Ok(Active {
            attempt: self.read_attempt(self.read_failure()?)?,
            lease: Lease {
                claim_id,
                acquired_at: Millis(lease.acquired_at_ms),
                renewed_at: Millis(lease.renewed_at_ms),
                until: Millis(lease.until_ms),
                check_at: Millis(lease.check_at_ms),
            },
            resumed: present("resumed", self.resumed)?,
            timeout_at: self.timeout_at_ms.map(Millis),
        })
    }

    fn read_suspended(&self) -> Result<Suspended, StoreError> {
        let reason = present("wait_reason", self.wait_reason)?;
        Ok(Suspended {
            attempt: self.read_attempt(self.read_failure()?)?,
            reason: parse("wait_reason", reason)?,
            deadline: self.wait_until_ms.map(Millis),
            missed: self.timeout_at_ms.map(Millis),
            last_lease: self.read_lease_end()?,
        })
    }

    fn read_terminal(&self) -> Result<Terminal, StoreError> {
        let outcome = present("outcome", self.outcome)?;
        let reason = || present("end_reason", self.end_reason).map(str::to_owned);
        let ending = match parse("outcome", outcome)? {
            TerminalOutcome::Success => {
                let result = present("has_result", self.has_result)?;
                Ending::Success { result, digest: self.result_digest.map(ResultDigest) }
            }
            TerminalOutcome::Failed => {
                Ending::Failed(present("failure_reason", self.read_failure()?)?)
            }
            TerminalOutcome::Cancelled => {
                let by = present("cancelled_by", self.cancelled_by)?;
                Ending::Cancelled { by: parse("cancelled_by", by)?, reason: reason()? }
            }
            TerminalOutcome::Expired => Ending::Expired { reason: reason()? },
            TerminalOutcome::Skipped => Ending::Skipped { reason: reason()? },
        };
        let attempt = self.attempt_index.map(|_| self.read_attempt(None)).transpose()?;
        Ok(Terminal {
            ending,
            at: Millis(present("terminal_at_ms", self.terminal_at_ms)?),
            attempt,
            last_lease: self.read_lease_end()?,
            retain_until: Millis(present("retain_until_ms", self.retain_until_ms)?),
        })
    }

    fn read_attempt(&self, after: Option<Failure>) -> Result<Attempt, StoreError> {
        let index = present("attempt_index", self.attempt_index)?;
        let kind = present("attempt_kind", self.attempt_kind)?;
        let started = present("attempt_started_at_ms", self.attempt_started_at_ms)?;
        let ran = present("attempt_ran_ms", self.attempt_ran_ms)?;
        Ok(Attempt {
            index: number("attempt_index", index)?,
            kind: parse("attempt_kind", kind)?,
            worker: worker_of(self.worker_id, self.worker_instance_id)?,
            started_at: Millis(started),
            ran_ms: number("attempt_ran_ms", ran)?,
            after,
        })
    }

    fn read_failure(&self) -> Result<Option<Failure>, StoreError> {
        failure_of(self.failure_reason, self.failure_category)
    }

    fn read_lease_end(&self) -> Result<Option<crate::execution::LeaseEnd>, StoreError> {
        self.lease_end.map(|how| parse("lease_end", how)).transpose()
    }
}
