//! Deliver a signal to a waitpoint: kept, judged, and perhaps what lets the execution go on.
//!
//! Whoever may not send it learns nothing: a wrong token, another execution's waitpoint and none at all have
//! the same answer. Sent twice, by its id or under its key: told so, and the first one stands.

use bytes::Bytes;
use uuid::Uuid;

use super::mailbox::{self, closed, resume};
use super::{Again, COMMAND_BYTES, Decide, Repeat};
use crate::command::Traffic;
use crate::condition::{Contribution, DECISION, PERSON, Seen, Verdict, Word};
use crate::error::{Code, Rejection};
use crate::event::{Event, EventKind};
use crate::execution::{Execution, State, Suspended};
use crate::fold::{Change, Cx, Effects, Key, WaitEffects, WaitKey, WaitSet, WorkingSet};
use crate::ids::ExecutionId;
use crate::keyring::Keyring;
use crate::limits::{
    Config, DURATION_MS_MAX, SIGNAL_PAYLOAD_BYTES_MAX, SIGNAL_TEXT_BYTES_MAX, SIGNALS_MAX,
};
use crate::suspension::{
    Arrival, CloseReason, Effect, Signal, Suspension, SuspensionEnd, Waitpoint, WaitpointState,
};
use crate::text::{Encoding, IdempotencyKey, SignalName, prose};
use crate::time::Millis;
use crate::token::{self, Presented, Refused};

/// Send a signal to a waitpoint.
#[derive(Clone, Debug, PartialEq)]
pub struct DeliverSignal {
    /// To which execution.
    pub id: ExecutionId,
    /// To which waitpoint.
    pub waitpoint: Uuid,
    /// The id of the signal.
    pub signal: Uuid,
    /// What lets its sender send it.
    pub authority: Authority,
    /// What it says.
    pub name: SignalName,
    /// What kind of thing it is.
    pub category: String,
    /// What kind of thing sends it.
    pub source_type: String,
    /// Who sends it.
    pub source_identity: String,
    /// The [digest](crate::condition::digest) of what its sender decides on.
    pub subject: Option<String>,
    /// What it belongs to, for its sender.
    pub correlation_id: Option<String>,
    /// Sent once under this key.
    pub idempotency_key: Option<IdempotencyKey>,
    /// For how long; as long as other keys when it does not say, and not at all when zero.
    pub dedup_ttl_ms: Option<u64>,
    /// When it was made, as its sender says.
    pub created_at: Option<Millis>,
    /// How its payload is encoded.
    pub encoding: Option<Encoding>,
    /// Its payload.
    pub payload: Option<Bytes>,
    /// How long after this signal the execution may go on, if it is the last that was missing.
    pub resume_delay_ms: Option<u64>,
}

/// What lets somebody send a signal.
#[derive(Clone, PartialEq, Eq)]
pub enum Authority {
    /// The token of the waitpoint.
    Token(String),
    /// A link that says which signal, and from whom.
    Link(String),
    /// Nothing: an operator needs none.
    Operator,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Token(_) => "Token(…)",
            Self::Link(_) => "Link(…)",
            Self::Operator => "Operator",
        })
    }
}

/// The answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivered {
    /// It was kept.
    Accepted {
        /// Its id.
        signal_id: Uuid,
        /// What it led to.
        effect: Effect,
    },
    /// It was sent before.
    Duplicate {
        /// The one that was kept.
        existing_signal_id: Uuid,
    },
}

impl DeliverSignal {
    /// The waitpoint, if the sender may know of it.
    fn authenticated<'h>(
        &self,
        have: &'h WorkingSet,
        now: Millis,
    ) -> Result<&'h Waitpoint, Rejection> {
        let row = have.waits.waitpoint(self.id, self.waitpoint);
        let nobody = Keyring::default();
        let keys = have.waits.keyring.as_ref().unwrap_or(&nobody);
        match &self.authority {
            Authority::Operator => row.ok_or_else(|| {
                let said = format!("{} has no waitpoint {}", self.id, self.waitpoint);
                Rejection::new(Code::WaitpointNotFound, said)
            }),
            Authority::Token(text) => {
                let presented = Presented::read(text)?;
                let Some(row) = row else { return Err(keys.refuse(&presented).into()) };
                keys.verify(&presented, &row.claims(), now)?;
                Ok(row)
            }
            Authority::Link(text) => {
                let sealed = token::open(text).ok_or(Refused::Invalid)?;
                let link = sealed.verify(keys, now)?;
                let identity = link.source_identity.as_ref().map_or("", |by| by.as_str());
                let same = row.filter(|row| {
                    link.claims() == row.claims()
                        && link.signal == self.name
                        && identity == self.source_identity
                        && link.subject == self.subject
                });
                Ok(same.ok_or(Refused::Invalid)?)
            }
        }
    }

    /// Refuses what a token says nothing about: that it is a person who decides.
    fn check_claims(&self) -> Result<(), Rejection> {
        let why =
            "is for decisions: use the server's token, or a link that was signed for the person";
        if self.source_type == PERSON {
            return Err(Rejection::invalid(Code::InvalidInput, "source_type", PERSON, why));
        }
        match &self.idempotency_key {
            Some(key) if key.as_str().starts_with(DECISION) => {
                Err(Rejection::invalid(Code::InvalidInput, "idempotency_key", key, why))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// The signal that was sent before, if this is a repeat.
    fn repeated(&self, have: &WorkingSet, at: Millis) -> Option<Uuid> {
        let waits = &have.waits;
        let known = waits.signals.get(&(self.id, self.signal)).is_some_and(|known| *known);
        let by_key = self.idempotency_key.as_ref().and_then(|key| {
            let key = (self.id, self.waitpoint, key.clone());
            let (known, until) = (*waits.keyed.get(&key)?)?;
            (until > at).then_some(known)
        });
        known.then_some(self.signal).or(by_key)
    }

    /// Refuses a decision on something else than what is to be decided on.
    fn check_subject(&self, suspension: &Suspension, row: &Waitpoint) -> Result<(), Rejection> {
        let wanted = suspension.condition.subject(&row.key);
        match wanted.filter(|_| Word::of(&self.name).is_some()) {
            Some(wanted) if self.subject.as_ref() != Some(&wanted) => {
                let said = self.subject.as_deref().unwrap_or_default();
                // Who has only a token or a link is to have seen it.
                let named = match self.authority {
                    Authority::Operator => format!(", {wanted}"),
                    Authority::Token(_) | Authority::Link(_) => String::new(),
                };
                let why = format!("is not the digest of what is to be decided on{named}");
                Err(Rejection::invalid(Code::SubjectMismatch, "subject", said, why))
            }
            Some(_) | None => Ok(()),
        }
    }

    fn signal(&self, number: u32, effect: Effect, at: Millis, config: &Config) -> Signal {
        let window = self.dedup_ttl_ms.unwrap_or(config.dedup_window_ms);
        let dedup_until = self.idempotency_key.as_ref().map(|_| at.plus(window));
        Signal {
            execution: self.id,
            id: self.signal,
            waitpoint: self.waitpoint,
            number,
            name: self.name.clone(),
            category: self.category.clone(),
            source_type: self.source_type.clone(),
            source_identity: self.source_identity.clone(),
            subject: self.subject.clone(),
            correlation_id: self.correlation_id.clone(),
            idempotency_key: self.idempotency_key.clone(),
            dedup_until,
            created_at: self.created_at.unwrap_or(at),
            accepted_at: at,
            encoding: self.encoding.clone(),
            payload: self.payload.clone(),
            effect,
        }
    }

    /// Where the signal arrives: at a waitpoint that is used now, or at one that will be.
    fn listening<'h>(
        x: &'h Execution,
        row: &Waitpoint,
        have: &'h WorkingSet,
        at: Millis,
    ) -> Result<Option<(&'h Suspended, &'h Suspension)>, Rejection> {
        let refused = |code, said: String| Err(Rejection::new(code, said).standing(x.standing()));
        let closed = format!("waitpoint {} of {} is closed", row.id, x.id);
        match (&x.state, row.state) {
            (State::Terminal(terminal), _) => {
                let said = format!("{} has ended: {}", x.id, terminal.ending.outcome());
                refused(Code::TargetNotSignalable, said)
            }
            (_, WaitpointState::Closed { .. }) => refused(Code::WaitpointClosed, closed),
            (_, WaitpointState::Pending { expires_at }) if expires_at <= at => {
                let said = format!("waitpoint {} was to be used by {expires_at}", row.id);
                refused(Code::PendingWaitpointExpired, said)
            }
            (_, WaitpointState::Pending { .. }) => Ok(None),
            (State::Suspended(suspended), WaitpointState::Active { .. }) => {
                let open = have.waits.suspension(x.id).filter(|row| row.is_open(x));
                match open.filter(|open| row.suspension == Some(open.id)) {
                    Some(open) => Ok(Some((suspended, open))),
                    None => refused(Code::WaitpointClosed, closed),
                }
            }
            (State::Runnable(_) | State::Active(_), WaitpointState::Active { .. }) => {
                refused(Code::WaitpointClosed, closed)
            }
        }
    }
}

impl Decide for DeliverSignal {
    type Reply = Delivered;
    const NAME: &'static str = "deliver_signal";
    const TRAFFIC: Traffic = Traffic::Finish;
    const REPEAT: Repeat = Repeat {
        by: "the id of the signal, or its idempotency key",
        late: "it is told so, and the first one stands",
    };

    fn validate(&self, _: &Config) -> Result<(), Rejection> {
        prose("signal_category", &self.category, SIGNAL_TEXT_BYTES_MAX)?;
        prose("source_type", &self.source_type, SIGNAL_TEXT_BYTES_MAX)?;
        prose("source_identity", &self.source_identity, SIGNAL_TEXT_BYTES_MAX)?;
        prose("subject", self.subject.as_deref().unwrap_or_default(), SIGNAL_TEXT_BYTES_MAX)?;
        let correlation = self.correlation_id.as_deref().unwrap_or_default();
        prose("correlation_id", correlation, SIGNAL_TEXT_BYTES_MAX)?;
        if matches!(self.authority, Authority::Token(_)) {
            self.check_claims()?;
        }
        let bytes = self.payload.as_ref().map_or(0, Bytes::len);
        if bytes > SIGNAL_PAYLOAD_BYTES_MAX {
            let why =
                format!("is {bytes} bytes long; at most {SIGNAL_PAYLOAD_BYTES_MAX} are allowed");
            return Err(Rejection::invalid(Code::PayloadTooLarge, "payload", "", why));
        }
        for (field, ms) in
            [("dedup_ttl_ms", self.dedup_ttl_ms), ("resume_delay_ms", self.resume_delay_ms)]
        {
            if let Some(ms) = ms.filter(|ms| *ms > DURATION_MS_MAX) {
                let why = format!("is out of range; use 0 to {DURATION_MS_MAX} ms");
                return Err(Rejection::invalid(Code::InvalidInput, field, ms, why));
            }
        }
        Ok(())
    }

    fn bytes(&self) -> usize {
        COMMAND_BYTES + self.payload.as_ref().map_or(0, Bytes::len)
    }

    fn keys(&self, _: &WorkingSet) -> Vec<Key> {
        let mut keys = mailbox::keys(self.id);
        keys.extend([
            Key::Wait(WaitKey::Waitpoint(self.id, self.waitpoint)),
            Key::Wait(WaitKey::Received(self.id)),
            Key::Wait(WaitKey::Arrived(self.id)),
            Key::Wait(WaitKey::Signal(self.id, self.signal)),
            Key::Wait(WaitKey::Keyring),
        ]);
        let own = self.idempotency_key.iter().cloned();
        keys.extend(own.map(|key| Key::Wait(WaitKey::SignalKey(self.id, self.waitpoint, key))));
        keys
    }

    fn decide(&self, have: &WorkingSet, cx: &mut Cx<'_>) -> Result<Change<Delivered>, Rejection> {
        let x = have.execution(self.id)?;
        let at = cx.at(x);
        let row = self.authenticated(have, at)?;
        if let Some(existing_signal_id) = self.repeated(have, at) {
            return Ok(Change::none(Delivered::Duplicate { existing_signal_id }));
        }
        let open = Self::listening(x, row, have, at)?;
        if let Some((_, suspension)) = open {
            self.check_subject(suspension, row)?;
        }
        let received = have.waits.received.get(&x.id).copied().unwrap_or_default();
        if received >= SIGNALS_MAX {
            let said = format!("{} has received {received} signals, which is all", x.id);
            return Err(Rejection::new(Code::SignalLimitExceeded, said));
        }
        let mut signal = self.signal(received, Effect::Buffered, at, cx.config);
        let judged =
            open.map(|(_, suspension)| judge(&have.waits, suspension, row, &signal.arrival()));
        let mut own = row.clone();
        own.counts.signals += 1;
        own.counts.last_at = Some(at);
        let mut waits = WaitEffects::default();
        let mut next = x.changed(at);
        if let Some((effect, by)) = judged {
            signal.effect = effect;
            own.counts.matched += u32::from(counts(effect));
            if let (Some(by), Some((suspended, suspension))) = (by, open) {
                let delay_ms = self.resume_delay_ms.unwrap_or(suspension.resume_delay_ms);
                next = resume(x, suspended, delay_ms, at);
                let end = SuspensionEnd { at, how: CloseReason::Resumed, by };
                waits.suspension = Some(Suspension { end: Some(end), ..suspension.clone() });
                waits.waitpoints = closed(have, suspension, at, CloseReason::Resumed);
                waits.waitpoints.retain(|row| row.id != own.id);
                own = own.closed(at, CloseReason::Resumed);
            }
        }
        waits.waitpoints.push(own);
        let kind = EventKind::Signal {
            signal_id: signal.id,
            waitpoint_id: signal.waitpoint,
            name: signal.name.clone(),
            source_identity: signal.source_identity.clone(),
            subject: signal.subject.clone(),
            effect: signal.effect,
        };
        let events = vec![Event::new(x, at, kind)];
        let reply = Delivered::Accepted { signal_id: signal.id, effect: signal.effect };
        waits.signal = Some(signal);
        let waits = Some(Box::new(waits));
        let effects = Effects { execution: Some(next), events, waits, ..Effects::default() };
        Ok(Change { reply, effects })
    }

    fn again(reply: &Delivered) -> Again<Delivered> {
        match reply {
            Delivered::Accepted { signal_id, .. } => {
                Again::Reply(Delivered::Duplicate { existing_signal_id: *signal_id })
            }
            Delivered::Duplicate { .. } => Again::Same,
        }
    }
}

/// Whether a signal to a waitpoint of an open suspension would count, if it came now.
pub fn would_count(
    waits: &WaitSet,
    suspension: &Suspension,
    row: &Waitpoint,
    signal: &Arrival,
) -> bool {
    counts(judge(waits, suspension, row, signal).0)
}

/// Whether a signal with this effect counts.
fn counts(effect: Effect) -> bool {
    match effect {
        Effect::ConditionSatisfied | Effect::Appended => true,
        Effect::AppendedDuplicate
        | Effect::IgnoredNotInCondition
        | Effect::IgnoredMatcherFailed
        | Effect::Buffered => false,
    }
}

/// What a signal leads to, and the signals that satisfy the condition, if they do now.
fn judge(
    waits: &WaitSet,
    suspension: &Suspension,
    row: &Waitpoint,
    signal: &Arrival,
) -> (Effect, Option<Vec<Uuid>>) {
    let id = suspension.execution;
    let key = |waitpoint: Uuid| {
        let known = waits.waitpoint(id, waitpoint)?;
        // A closed one is of an earlier suspension, whatever that was called.
        let active = matches!(known.state, WaitpointState::Active { .. });
        (active && known.suspension == Some(suspension.id)).then_some(&known.key)
    };
    let arrived = waits.arrived.get(&id).into_iter().flat_map(|all| all.values());
    let mut seen: Vec<Seen<'_>> =
        arrived.filter_map(|signal| Some(signal.seen(key(signal.waitpoint)?))).collect();
    let at = seen.len();
    seen.push(signal.seen(&row.key));
    let condition = &suspension.condition;
    if let Verdict::Satisfied { by } = condition.judge(&seen) {
        let by = by.into_iter().map(|one| seen[one].id).collect();
        return (Effect::ConditionSatisfied, Some(by));
    }
    let effect = match condition.contributes(&seen[at]) {
        Contribution::NotInCondition => Effect::IgnoredNotInCondition,
        Contribution::MatcherFailed => Effect::IgnoredMatcherFailed,
        Contribution::Counts if condition.contributing(&seen).contains(&at) => Effect::Appended,
        Contribution::Counts => Effect::AppendedDuplicate,
    };
    (effect, None)
}
