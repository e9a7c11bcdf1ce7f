//! Events: what happened, page by page or as a stream.

use std::collections::BTreeMap;

use ff_core::event::{self, Cursor, EventName, Filter};
use ff_core::flow::{CancellationPolicy, FlowWord};
use ff_core::state::TerminalOutcome;
use ff_core::suspension::{Effect, SuspensionReason};
use ff_core::text::{LaneId, Namespace};
use ff_core::{Code, ExecutionId, FlowId, Millis, Rejection};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use crate::bounds::{check_limit, check_wait};
use crate::search::read_tag;
use crate::snapshot::{Failure, Worker};
use crate::words;

/// Events in a page when nobody says.
pub const LIMIT_DEFAULT: u32 = 100;

/// Something that happened to an execution or to a flow, with its place in the feed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FeedEvent {
    /// Resuming from here continues after it.
    pub cursor: String,
    /// To which execution; absent when it happened to a flow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, nullable = false)]
    pub execution_id: Option<ExecutionId>,
    /// To which flow, or to a member of which; absent for executions outside any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = "uuid", nullable = false)]
    pub flow_id: Option<FlowId>,
    /// In which tenancy scope.
    pub namespace: String,
    /// In which lane; absent when it happened to a flow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub lane_id: Option<String>,
    /// When.
    #[schema(value_type = i64)]
    pub at: Millis,
    /// What.
    #[serde(flatten)]
    pub event: Event,
    /// What kind of work the execution is; absent when it happened to a flow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub execution_kind: Option<String>,
    /// The tags of the execution, or of the flow.
    pub tags: BTreeMap<String, String>,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// It ended.
    Completion {
        /// How.
        #[schema(value_type = words::TerminalOutcome)]
        outcome: TerminalOutcome,
        /// The attempt that was under way.
        attempt_index: Option<u32>,
        /// Why, unless it succeeded.
        reason: Option<String>,
    },
    /// An attempt failed and another will follow.
    AttemptFailed {
        /// Which.
        attempt_index: u32,
        /// Why.
        failure: Failure,
        /// When the next one may begin.
        #[schema(value_type = i64)]
        retry_at: Millis,
    },
    /// A lease ran out.
    LeaseExpired {
        /// The attempt it served.
        attempt_index: u32,
        /// Who held it.
        worker: Worker,
        /// When another worker may take over, if not at once.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schema(value_type = Option<i64>)]
        retry_at: Option<Millis>,
    },
    /// A lease was taken away.
    LeaseRevoked {
        /// The attempt it served.
        attempt_index: u32,
        /// Who held it.
        worker: Worker,
        /// Why.
        reason: String,
    },
    /// Another worker took over after a lost lease.
    LeaseReclaimed {
        /// The new attempt.
        attempt_index: u32,
        /// Who holds it now.
        worker: Worker,
    },
    /// An operator changed how urgent it is.
    PriorityChanged {
        /// Before.
        from: i32,
        /// After.
        to: i32,
    },
    /// An operator had it run again after it had ended.
    Replayed {
        /// How it had ended.
        #[schema(value_type = words::TerminalOutcome)]
        outcome: TerminalOutcome,
        /// Why.
        reason: String,
    },
    /// Its worker gave it back until something happens.
    Suspended {
        /// The attempt that is paused.
        attempt_index: u32,
        /// Why.
        #[schema(value_type = words::SuspensionReason)]
        reason: SuspensionReason,
    },
    /// A signal was accepted.
    Signal {
        /// Which.
        #[schema(value_type = String, format = "uuid")]
        signal_id: Uuid,
        /// Where it arrived.
        #[schema(value_type = String, format = "uuid")]
        waitpoint_id: Uuid,
        /// What it says.
        signal_name: String,
        /// Who sent it; empty when nobody in particular.
        source_identity: String,
        /// The digest of what its sender decided on.
        subject: Option<String>,
        /// What it led to.
        #[schema(value_type = words::Effect)]
        effect: Effect,
    },
    /// It goes on without a signal that it waited for.
    Resumed {
        /// Why.
        reason: String,
    },
    /// Nobody came in time: it waits for an operator now.
    Escalated,
    /// An operator keeps it from being claimed.
    Held {
        /// Why.
        reason: String,
    },
    /// An operator let go.
    Unheld,
    /// Somebody cancelled the flow.
    FlowCancelRequested {
        /// What was to become of its members.
        #[schema(value_type = words::CancellationPolicy)]
        cancellation_policy: CancellationPolicy,
        /// Why.
        reason: String,
        /// How many members that concerned.
        member_count: u32,
    },
    /// The flow ended by itself.
    FlowEnded {
        /// How.
        #[schema(value_type = words::FlowWord)]
        state: FlowWord,
    },
    /// The flow had ended and goes on, because a member was replayed.
    FlowReopened,
}

impl From<event::FeedEvent> for FeedEvent {
    fn from(fed: event::FeedEvent) -> Self {
        let event::FeedEvent { cursor, event, execution_kind, tags } = fed;
        Self {
            cursor: cursor.to_string(),
            execution_id: event.execution,
            flow_id: event.flow,
            namespace: event.namespace.into(),
            lane_id: event.lane.map(String::from),
            at: event.at,
            event: event.kind.into(),
            execution_kind: execution_kind.map(String::from),
            tags,
        }
    }
}

impl From<event::EventKind> for Event {
    fn from(kind: event::EventKind) -> Self {
        use event::EventKind as Kind;
        match kind {
            Kind::Completion { outcome, attempt_index, reason } => {
                Self::Completion { outcome, attempt_index, reason }
            }
            Kind::AttemptFailed { attempt_index, failure, retry_at } => {
                Self::AttemptFailed { attempt_index, failure: failure.into(), retry_at }
            }
            Kind::LeaseExpired { attempt_index, worker, retry_at } => {
                Self::LeaseExpired { attempt_index, worker: worker.into(), retry_at }
            }
            Kind::LeaseRevoked { attempt_index, worker, reason } => {
                Self::LeaseRevoked { attempt_index, worker: worker.into(), reason }
            }
            Kind::LeaseReclaimed { attempt_index, worker } => {
                Self::LeaseReclaimed { attempt_index, worker: worker.into() }
            }
            Kind::PriorityChanged { from, to } => Self::PriorityChanged { from, to },
            Kind::Replayed { outcome, reason } => Self::Replayed { outcome, reason },
            Kind::Suspended { attempt_index, reason } => Self::Suspended { attempt_index, reason },
            Kind::Signal { signal_id, waitpoint_id, name, source_identity, subject, effect } => {
                let signal_name = name.into();
                Self::Signal {
                    signal_id,
                    waitpoint_id,
                    signal_name,
                    source_identity,
                    subject,
                    effect,
                }
            }
            Kind::Resumed { reason } => Self::Resumed { reason },
            Kind::Escalated => Self::Escalated,
            Kind::Held { reason } => Self::Held { reason },
            Kind::Unheld => Self::Unheld,
            Kind::FlowCancelRequested { policy, reason, members } => Self::FlowCancelRequested {
                cancellation_policy: policy,
                reason,
                member_count: members,
            },
            Kind::FlowEnded { state } => Self::FlowEnded { state },
            Kind::FlowReopened => Self::FlowReopened,
        }
    }
}

/// Which events a reader wants. Everything given must match.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct EventParams {
    /// After this place: a `cursor` or `next` that was answered before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// Events in the page (default 100).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u32>,
    /// Wait so long until there are some (default 0: answer at once).
    #[param(maximum = 60000)]
    pub wait_ms: u64,
    /// Of these kinds, separated by commas.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(example = "completion,attempt_failed")]
    pub event: Option<String>,
    /// Of this execution.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub execution_id: Option<String>,
    /// Of this flow and of its members.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flow_id: Option<String>,
    /// In this namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// In this lane.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lane_id: Option<String>,
    /// Of executions and flows that carry this tag now, as `key:value`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
}

/// Which events a stream carries. Everything given must match.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct StreamParams {
    /// After this place; without one, and without `Last-Event-ID`, what happens from now on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// Of these kinds, separated by commas.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(example = "completion,attempt_failed")]
    pub event: Option<String>,
    /// Of this execution.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub execution_id: Option<String>,
    /// Of this flow and of its members.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flow_id: Option<String>,
    /// In this namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// In this lane.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lane_id: Option<String>,
    /// Of executions and flows that carry this tag now, as `key:value`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
}

impl StreamParams {
    /// The question, without an end.
    pub fn into_query(self) -> Result<EventQuery, Rejection> {
        let Self { after, event, execution_id, flow_id, namespace, lane_id, tag } = self;
        let params = EventParams {
            after,
            event,
            execution_id,
            flow_id,
            namespace,
            lane_id,
            tag,
            ..EventParams::default()
        };
        params.into_query()
    }
}

/// A question to the feed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventQuery {
    /// After this place; nothing when none was given.
    pub after: Option<Cursor>,
    /// Which events.
    pub filter: Filter,
    /// How many.
    pub limit: u32,
    /// How long to wait for the first.
    pub wait_ms: u64,
}

impl EventParams {
    /// The question.
    pub fn into_query(self) -> Result<EventQuery, Rejection> {
        check_wait(self.wait_ms)?;
        Ok(EventQuery {
            after: self.after.as_deref().map(str::parse).transpose()?,
            filter: Filter {
                kinds: self.event.as_deref().map(read_kinds).transpose()?.unwrap_or_default(),
                namespace: self.namespace.map(Namespace::new).transpose()?,
                lane: self.lane_id.map(LaneId::new).transpose()?,
                execution: self.execution_id.as_deref().map(str::parse).transpose()?,
                flow: self.flow_id.as_deref().map(str::parse).transpose()?,
                tag: self.tag.map(read_tag).transpose()?,
            },
            limit: check_limit(self.limit.unwrap_or(LIMIT_DEFAULT))?,
            wait_ms: self.wait_ms,
        })
    }
}

fn read_kinds(list: &str) -> Result<Vec<EventName>, Rejection> {
    let kind = |word: &str| {
        word.parse().map_err(|_| {
            Rejection::invalid(Code::InvalidInput, "event", word, "is not the kind of an event")
        })
    };
    list.split(',').map(kind).collect()
}

/// A page of the feed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EventPage {
    /// What happened, in order.
    pub events: Vec<FeedEvent>,
    /// Where to go on, to be sent as `after`; moves past events that the filter left out.
    pub next: String,
}

impl From<ff_core::EventPage> for EventPage {
    fn from(page: ff_core::EventPage) -> Self {
        let events = page.events.into_iter().map(FeedEvent::from).collect();
        Self { events, next: page.next.to_string() }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_event_is_one_flat_object_and_reads_back() {
        let id = ExecutionId::solo(Uuid::nil());
        let event = event::Event {
            execution: Some(id),
            flow: None,
            namespace: "default".parse().unwrap(),
            lane: Some("lane".parse().unwrap()),
            at: Millis(5),
            kind: event::EventKind::LeaseRevoked {
                attempt_index: 2,
                worker: ff_core::execution::Worker {
                    id: "pool".parse().unwrap(),
                    instance: "pool-1".parse().unwrap(),
                },
                reason: "stuck".to_owned(),
            },
        };
        let kind = Some("kind".parse().unwrap());
        let fed = event::FeedEvent {
            cursor: Cursor::Seq(7),
            event,
            execution_kind: kind,
            tags: BTreeMap::new(),
        };
        let sent = FeedEvent::from(fed);
        let written = json!({
            "cursor": "seq:7", "execution_id": id, "namespace": "default", "lane_id": "lane",
            "at": 5, "event": "lease_revoked", "attempt_index": 2,
            "worker": {"id": "pool", "instance": "pool-1"}, "reason": "stuck",
            "execution_kind": "kind", "tags": {},
        });
        assert_eq!(serde_json::to_value(&sent).unwrap(), written);
        assert_eq!(serde_json::from_value::<FeedEvent>(written).unwrap(), sent);
    }

    #[test]
    fn an_event_of_a_flow_names_no_execution_lane_or_kind() {
        let flow = FlowId(Uuid::from_u128(7));
        let event = event::Event {
            execution: None,
            flow: Some(flow),
            namespace: "default".parse().unwrap(),
            lane: None,
            at: Millis(5),
            kind: event::EventKind::FlowCancelRequested {
                policy: CancellationPolicy::All,
                reason: "late".to_owned(),
                members: 3,
            },
        };
        let tags = BTreeMap::new();
        let fed = event::FeedEvent { cursor: Cursor::Seq(7), event, execution_kind: None, tags };
        let sent = FeedEvent::from(fed);
        let written = json!({
            "cursor": "seq:7", "flow_id": flow, "namespace": "default", "at": 5,
            "event": "flow_cancel_requested", "cancellation_policy": "cancel_all",
            "reason": "late", "member_count": 3, "tags": {},
        });
        assert_eq!(serde_json::to_value(&sent).unwrap(), written);
        assert_eq!(serde_json::from_value::<FeedEvent>(written).unwrap(), sent);
    }

    #[test]
    fn a_question_that_makes_no_sense_is_refused_by_field() {
        let text = |text: &str| Some(text.to_owned());
        for (params, field) in [
            (EventParams { after: text("yesterday"), ..EventParams::default() }, "cursor"),
            (EventParams { event: text("party"), ..EventParams::default() }, "event"),
            (EventParams { flow_id: text("mine"), ..EventParams::default() }, "flow_id"),
            (EventParams { wait_ms: 60_001, ..EventParams::default() }, "wait_ms"),
            (EventParams { limit: Some(0), ..EventParams::default() }, "limit"),
        ] {
            assert_eq!(params.into_query().unwrap_err().field, Some(field));
        }
    }
}
