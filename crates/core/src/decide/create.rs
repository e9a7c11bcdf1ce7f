//! Create: a new execution, claimable (or delayed) from the moment it is acknowledged.
//!
//! Sent twice: the same idempotency key or the same id with the same content answers
//! `Duplicate` with the original's id; with other content it is a conflict that names the first
//! field that differs. An id that retention has removed is free again; the new execution begins
//! with an epoch of its own, so that no fence of the old one fits it.

use std::sync::Arc;

use bytes::Bytes;

use super::{Again, COMMAND_BYTES, Decide, Repeat, check_payload, check_time};
use crate::command::Traffic;
use crate::error::{Code, Rejection};
use crate::execution::{
    Counts, Execution, Facts, Fingerprint, Next, Priority, Runnable, Spec, State, Tags, Wait,
    WaitReason, first_epoch,
};
use crate::fold::{Blob, BlobRef, Change, Cx, Effects, Key, KeyRow, WorkingSet};
use crate::ids::ExecutionId;
use crate::limits::{Config, DURATION_MS_MAX, TAGS_MAX};
use crate::policy::Policy;
use crate::state::{PublicState, public_state};
use crate::text::{
    Creator, Encoding, IdempotencyKey, Kind, LaneId, Namespace, check_tag_key, check_tag_value,
};
use crate::time::Millis;

/// Create an execution.
#[derive(Clone, Debug, PartialEq)]
pub struct Create {
    /// The id, minted by the caller.
    pub id: ExecutionId,
    /// Tenancy scope.
    pub namespace: Namespace,
    /// The queue.
    pub lane: LaneId,
    /// What kind of work.
    pub kind: Kind,
    /// What to work on; opaque.
    pub input: Bytes,
    /// How the input is encoded; an input that says so is kept even when it is empty.
    pub encoding: Option<Encoding>,
    /// 0 to 9000, higher first.
    pub priority: i32,
    /// Who creates it.
    pub creator: Creator,
    /// Makes the creation repeatable whatever its id.
    pub idempotency_key: Option<IdempotencyKey>,
    /// Its tags.
    pub tags: Tags,
    /// Retry, timeout and retention rules.
    pub policy: Policy,
    /// Not to be claimed before.
    pub delay_until: Option<Millis>,
    /// Not to be claimed for so long after its creation. Unlike a time, it stays the same when
    /// the creation is sent again later under an idempotency key.
    pub delay_ms: Option<u64>,
    /// Expires for good at.
    pub deadline_at: Option<Millis>,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Created {
    /// It exists now.
    Created {
        /// Its id.
        execution_id: ExecutionId,
        /// Waiting or delayed.
        public_state: PublicState,
    },
    /// It existed already.
    Duplicate {
        /// The id of the original.
        execution_id: ExecutionId,
    },
}

impl Created {
    /// The execution, new or not.
    pub fn execution_id(&self) -> ExecutionId {
        match self {
            Self::Created { execution_id, .. } | Self::Duplicate { execution_id } => *execution_id,
        }
    }
}

impl Create {
    /// A creation with nothing but what every one needs: namespace `default`, no input, no
    /// policy, claimable at once. Set what else is wanted.
    pub fn new(id: ExecutionId, lane: LaneId, kind: Kind) -> Self {
        Self {
            id,
            namespace: Namespace::new("default").expect("a valid namespace"),
            lane,
            kind,
            input: Bytes::new(),
            encoding: None,
            priority: 0,
            creator: Creator::new("").expect("a creator may be empty"),
            idempotency_key: None,
            tags: Tags::new(),
            policy: Policy::default(),
            delay_until: None,
            delay_ms: None,
            deadline_at: None,
        }
    }

    /// The input as it is kept: nothing when it is empty and does not say how it is encoded.
    pub fn kept_input(&self) -> Option<Blob> {
        let told = !self.input.is_empty() || self.encoding.is_some();
        told.then(|| Blob {
            at: BlobRef::Input(self.id),
            encoding: self.encoding.clone(),
            bytes: self.input.clone(),
        })
    }
}

impl Decide for Create {
    type Reply = Created;
    const NAME: &'static str = "create_execution";
    const TRAFFIC: Traffic = Traffic::Create;
    const REPEAT: Repeat = Repeat {
        by: "its id and content, or its idempotency key",
        late: "the original, for as long as the execution or its key is kept",
    };

    fn validate(&self, config: &Config) -> Result<(), Rejection> {
        Priority::new(self.priority)?;
        check_payload("input_payload", self.input.len(), config)?;
        check_tags(&self.tags)?;
        self.policy.validate()?;
        if let (Some(at), Some(_)) = (self.delay_until, self.delay_ms) {
            let why = "and delay_ms exclude each other";
            return Err(Rejection::invalid(Code::InvalidInput, "delay_until", at, why));
        }
        if let Some(ms) = self.delay_ms.filter(|ms| *ms > DURATION_MS_MAX) {
            let why = format!("is more than {DURATION_MS_MAX} ms, ten years");
            return Err(Rejection::invalid(Code::InvalidInput, "delay_ms", ms, why));
        }
        if let (Some(at), Some(_)) = (self.deadline_at, self.policy.execution_deadline_ms()) {
            let why = "and the policy's execution_deadline_ms exclude each other";
            return Err(Rejection::invalid(Code::InvalidInput, "execution_deadline_at", at, why));
        }
        if self.policy.dedup_window_ms.is_some() && self.idempotency_key.is_none() {
            let why = "needs an idempotency_key to apply to";
            return Err(Rejection::invalid(Code::InvalidInput, "dedup_window_ms", "", why));
        }
        Ok(())
    }

    fn bytes(&self) -> usize {
        let tags = self.tags.iter().map(|(key, value)| key.len() + value.len());
        COMMAND_BYTES + self.input.len() + tags.sum::<usize>()
    }

    fn keys(&self, _: &WorkingSet) -> Vec<Key> {
        let key = self.idempotency_key.clone();
        let key = key.map(|key| Key::Idempotency(self.namespace.clone(), key));
        std::iter::once(Key::Execution(self.id)).chain(key).collect()
    }

    fn decide(&self, have: &WorkingSet, cx: &mut Cx<'_>) -> Result<Change<Created>, Rejection> {
        let fingerprint = self.fingerprint();
        let key = self.idempotency_key.clone().map(|key| (self.namespace.clone(), key));
        let known = key.as_ref().and_then(|key| have.keys.get(key)?.as_ref());
        if let Some(row) = known.filter(|row| row.expires_at > cx.now) {
            let conflict = Code::IdempotencyKeyConflict;
            return self.repeated(row.execution, &row.fingerprint, &fingerprint, conflict);
        }
        if let Ok(x) = have.execution(self.id) {
            let conflict = Code::ExecutionIdConflict;
            return self.repeated(x.id, &x.spec.fingerprint, &fingerprint, conflict);
        }
        let x = self.execution(fingerprint.clone(), cx.now)?;
        let expires_at =
            cx.now.plus(self.policy.dedup_window_ms.unwrap_or(cx.config.dedup_window_ms));
        let row = KeyRow { execution: self.id, fingerprint, expires_at };
        let reply =
            Created::Created { execution_id: self.id, public_state: public_state(&x, cx.now) };
        let key = key.map(|key| (key, Some(row)));
        Ok(Change {
            reply,
            effects: Effects {
                execution: Some(x),
                key,
                blob: self.kept_input(),
                ..Effects::default()
            },
        })
    }

    fn again(created: &Created) -> Again<Created> {
        Again::Reply(Created::Duplicate { execution_id: created.execution_id() })
    }
}

/// Refuses tags that are too many, badly named or too long.
pub(super) fn check_tags(tags: &Tags) -> Result<(), Rejection> {
    if tags.len() > TAGS_MAX {
        let why = format!("are {} in number; at most {TAGS_MAX} are allowed", tags.len());
        return Err(Rejection::invalid(Code::InvalidInput, "tags", "", why));
    }
    for (key, value) in tags {
        check_tag_key(key)?;
        check_tag_value(value)?;
    }
    Ok(())
}

/// The fields of a fingerprint, in the order in which a difference is reported.
const FIELDS: [&str; 13] = [
    "namespace",
    "lane_id",
    "execution_kind",
    "input_payload",
    "payload_encoding",
    "priority",
    "creator_identity",
    "idempotency_key",
    "tags",
    "policy",
    "delay_until",
    "execution_deadline_at",
    "delay_ms",
];
impl Create {
    /// The execution that is created at `now`.
    pub(super) fn execution(
        &self,
        fingerprint: Fingerprint,
        now: Millis,
    ) -> Result<Execution, Rejection> {
        for (field, at) in
            [("delay_until", self.delay_until), ("execution_deadline_at", self.deadline_at)]
        {
            at.map_or(Ok(()), |at| check_time(field, at, now))?;
        }
        let relative = self.policy.execution_deadline_ms().map(|ms| now.plus(ms));
        let deadline_at = self.deadline_at.or(relative);
        let until = self.delay_until.or_else(|| self.delay_ms.map(|ms| now.plus(ms)));
        let wait = until.filter(|until| *until > now);
        let wait = wait.map(|until| Wait { until, reason: WaitReason::Delay });
        let facts = Facts {
            id: self.id,
            version: 1,
            spec: Arc::new(Spec {
                namespace: self.namespace.clone(),
                lane: self.lane.clone(),
                kind: self.kind.clone(),
                creator: self.creator.clone(),
                policy: self.policy.clone(),
                idempotency_key: self.idempotency_key.clone(),
                fingerprint,
                created_at: now,
            }),
            priority: Priority::new(self.priority)?,
            tags: self.tags.clone(),
            deadline_at,
            epoch: first_epoch(now),
            counts: Counts::default(),
            progress: None,
            member: None,
            input_from: None,
            started_at: None,
            updated_at: now,
            state: State::Runnable(Runnable {
                next: Next::First,
                wait,
                hold: None,
                gated: false,
                last_lease: None,
            }),
        };
        Ok(facts.into())
    }

    fn repeated(
        &self,
        original: ExecutionId,
        stored: &Fingerprint,
        sent: &Fingerprint,
        conflict: Code,
    ) -> Result<Change<Created>, Rejection> {
        let Some(field) = stored.difference(sent, &FIELDS) else {
            return Ok(Change::none(Created::Duplicate { execution_id: original }));
        };
        let (subject, value) = match &self.idempotency_key {
            Some(key) if conflict == Code::IdempotencyKeyConflict => {
                ("idempotency_key", key.to_string())
            }
            Some(_) | None => ("execution_id", self.id.to_string()),
        };
        let why = format!("belongs to execution {original}, created with another {field}");
        let mut clash = Rejection::invalid(conflict, subject, value, why);
        clash.field = Some(field);
        Err(clash)
    }

    /// Digests each field and the whole.
    pub(super) fn fingerprint(&self) -> Fingerprint {
        let text = |value: &dyn ToString| value.to_string().into_bytes();
        let time = |at: Option<Millis>| at.map_or_else(Vec::new, |at| text(&at));
        let tags = serde_json::to_vec(&self.tags).expect("a map of texts is JSON");
        let fields: [Vec<u8>; FIELDS.len()] = [
            text(&self.namespace),
            text(&self.lane),
            text(&self.kind),
            self.input.to_vec(),
            self.encoding.as_ref().map_or_else(Vec::new, |e| text(e)),
            text(&self.priority),
            text(&self.creator),
            self.idempotency_key.as_ref().map_or_else(Vec::new, |k| text(k)),
            tags,
            self.policy.to_json().into_bytes(),
            time(self.delay_until),
            time(self.deadline_at),
            self.delay_ms.map_or_else(Vec::new, |ms| text(&ms)),
        ];
        Fingerprint::of(&fields)
    }
}
