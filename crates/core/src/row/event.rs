//! An event as columns.

use uuid::Uuid;

use super::{execution_id, failure_of, number, parse, present, worker_of};
use crate::backend::StoreError;
use crate::event::{Event, EventKind, EventName};
use crate::ids::FlowId;
use crate::text::{LaneId, Namespace};
use crate::time::Millis;

/// The columns of an event, named as in the table; those that a kind does not use are null.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is the column of the same name, documented in the schema")]
pub struct EventRow {
    pub partition_key: i64,
    pub execution_id: Vec<u8>,
    pub at_ms: i64,
    pub namespace: String,
    pub lane_id: Option<String>,
    pub flow_id: Option<[u8; 16]>,
    pub kind: String,
    pub attempt_index: Option<i64>,
    pub outcome: Option<String>,
    pub reason: Option<String>,
    pub failure_category: Option<String>,
    pub worker_id: Option<String>,
    pub worker_instance_id: Option<String>,
    pub retry_at_ms: Option<i64>,
    pub priority_from: Option<i64>,
    pub priority_to: Option<i64>,
    pub members: Option<i64>,
    pub signal_id: Option<[u8; 16]>,
    pub waitpoint_id: Option<[u8; 16]>,
    pub source_identity: Option<String>,
    pub subject: Option<String>,
}

impl From<&Event> for EventRow {
    fn from(event: &Event) -> Self {
        let mut row = Self {
            partition_key: i64::from(event.subject().partition().index()),
            execution_id: event.subject().uuid().as_bytes().to_vec(),
            flow_id: event.flow.map(|flow| flow.0.into_bytes()),
            at_ms: event.at.0,
            namespace: event.namespace.to_string(),
            lane_id: event.lane.as_ref().map(ToString::to_string),
            kind: event.kind.name().to_string(),
            ..Self::default()
        };
        match &event.kind {
            EventKind::Completion { outcome, attempt_index, reason } => {
                row.outcome = Some(outcome.to_string());
                row.attempt_index = attempt_index.map(i64::from);
                row.reason.clone_from(reason);
            }
            EventKind::AttemptFailed { attempt_index, failure, retry_at } => {
                row.attempt_index = Some(i64::from(*attempt_index));
                row.reason = Some(failure.reason.clone());
                row.failure_category = Some(failure.category.to_string());
                row.retry_at_ms = Some(retry_at.0);
            }
            EventKind::LeaseExpired { attempt_index, worker, .. }
            | EventKind::LeaseRevoked { attempt_index, worker, .. }
            | EventKind::LeaseReclaimed { attempt_index, worker } => {
                row.attempt_index = Some(i64::from(*attempt_index));
                row.worker_id = Some(worker.id.to_string());
                row.worker_instance_id = Some(worker.instance.to_string());
                if let EventKind::LeaseRevoked { reason, .. } = &event.kind {
                    row.reason = Some(reason.clone());
                }
                if let EventKind::LeaseExpired { retry_at, .. } = &event.kind {
                    row.retry_at_ms = retry_at.map(|at| at.0);
                }
            }
            EventKind::PriorityChanged { from, to } => {
                row.priority_from = Some(i64::from(*from));
                row.priority_to = Some(i64::from(*to));
            }
            EventKind::Replayed { outcome, reason } => {
                row.outcome = Some(outcome.to_string());
                row.reason = Some(reason.clone());
            }
            EventKind::Suspended { attempt_index, reason } => {
                row.attempt_index = Some(i64::from(*attempt_index));
                row.outcome = Some(reason.to_string());
            }
            EventKind::Signal { .. } => row.signal(&event.kind),
            EventKind::Held { reason } | EventKind::Resumed { reason } => {
                row.reason = Some(reason.clone());
            }
            EventKind::FlowCancelRequested { policy, reason, members } => {
                row.outcome = Some(policy.to_string());
                row.reason = Some(reason.clone());
                row.members = Some(i64::from(*members));
            }
            EventKind::FlowEnded { state } => row.outcome = Some(state.to_string()),
            EventKind::Unheld | EventKind::Escalated | EventKind::FlowReopened => {}
        }
        row
    }
}

impl EventRow {
    fn signal(&mut self, kind: &EventKind) {
        if let EventKind::Signal {
            signal_id,
            waitpoint_id,
            name,
            source_identity,
            subject,
            effect,
        } = kind
        {
            self.signal_id = Some(signal_id.into_bytes());
            self.waitpoint_id = Some(waitpoint_id.into_bytes());
            self.reason = Some(name.to_string());
            self.source_identity = Some(source_identity.clone());
            self.subject.clone_from(subject);
            self.outcome = Some(effect.to_string());
        }
    }

    fn read_signal(&self) -> Result<EventKind, StoreError> {
        Ok(EventKind::Signal {
            signal_id: Uuid::from_bytes(present("signal_id", self.signal_id)?),
            waitpoint_id: Uuid::from_bytes(present("waitpoint_id", self.waitpoint_id)?),
            name: parse("reason", present("reason", self.reason.as_deref())?)?,
            source_identity: present("source_identity", self.source_identity.clone())?,
            subject: self.subject.clone(),
            effect: parse("outcome", present("outcome", self.outcome.as_deref())?)?,
        })
    }

    /// The event that the columns describe.
    pub fn read(&self) -> Result<Event, StoreError> {
        let subject = execution_id(self.partition_key, &self.execution_id)?;
        let kind = self.read_kind()?;
        let lane = self.lane_id.as_deref();
        Ok(Event {
            execution: (!kind.of_flow()).then_some(subject),
            flow: self.flow_id.map(|id| FlowId(Uuid::from_bytes(id))),
            namespace: parse::<Namespace>("namespace", &self.namespace)?,
            lane: lane.map(|lane| parse::<LaneId>("lane_id", lane)).transpose()?,
            at: Millis(self.at_ms),
            kind,
        })
    }

    fn read_kind(&self) -> Result<EventKind, StoreError> {
        let index = || number("attempt_index", present("attempt_index", self.attempt_index)?);
        let worker = || worker_of(self.worker_id.as_deref(), self.worker_instance_id.as_deref());
        let reason = || present("reason", self.reason.clone());
        let outcome = || parse("outcome", present("outcome", self.outcome.as_deref())?);
        Ok(match parse("kind", &self.kind)? {
            EventName::Completion => EventKind::Completion {
                outcome: outcome()?,
                attempt_index: self
                    .attempt_index
                    .map(|index| number("attempt_index", index))
                    .transpose()?,
                reason: self.reason.clone(),
            },
            EventName::AttemptFailed => {
                let failure = failure_of(self.reason.as_deref(), self.failure_category.as_deref())?;
                EventKind::AttemptFailed {
                    attempt_index: index()?,
                    failure: present("reason", failure)?,
                    retry_at: Millis(present("retry_at_ms", self.retry_at_ms)?),
                }
            }
            EventName::LeaseExpired => EventKind::LeaseExpired {
                attempt_index: index()?,
                worker: worker()?,
                retry_at: self.retry_at_ms.map(Millis),
            },
            EventName::LeaseRevoked => EventKind::LeaseRevoked {
                attempt_index: index()?,
                worker: worker()?,
                reason: reason()?,
            },
            EventName::LeaseReclaimed => {
                EventKind::LeaseReclaimed { attempt_index: index()?, worker: worker()? }
            }
            EventName::PriorityChanged => EventKind::PriorityChanged {
                from: number("priority_from", present("priority_from", self.priority_from)?)?,
                to: number("priority_to", present("priority_to", self.priority_to)?)?,
            },
            EventName::Replayed => EventKind::Replayed { outcome: outcome()?, reason: reason()? },
            EventName::Suspended => EventKind::Suspended {
                attempt_index: index()?,
                reason: parse("outcome", present("outcome", self.outcome.as_deref())?)?,
            },
            EventName::Signal => self.read_signal()?,
            EventName::Resumed => EventKind::Resumed { reason: reason()? },
            EventName::Escalated => EventKind::Escalated,
            EventName::Held => EventKind::Held { reason: reason()? },
            EventName::Unheld => EventKind::Unheld,
            EventName::FlowCancelRequested => EventKind::FlowCancelRequested {
                policy: parse("outcome", present("outcome", self.outcome.as_deref())?)?,
                reason: reason()?,
                members: number("members", present("members", self.members)?)?,
            },
            EventName::FlowEnded => EventKind::FlowEnded {
                state: parse("outcome", present("outcome", self.outcome.as_deref())?)?,
            },
            EventName::FlowReopened => EventKind::FlowReopened,
        })
    }
}
