//! Telling what waits: signals, decisions, and letting it go on.

use std::pin::Pin;

use bytes::Bytes;
use ff_core::condition::{Word, digest};
use ff_core::decide::deliver::{Authority, DeliverSignal, Delivered};
use ff_core::decide::resume::Resume;
use ff_core::limits::PAGE_MAX;
use ff_core::state::PublicState;
use ff_core::text::{IdempotencyKey, SignalName};
use ff_core::{Code, Rejection};
use ff_wire::Payload;
use ff_wire::payload::json_encoding;
use ff_wire::signal::DecisionRequest;
use ff_wire::waitpoint::{WaitpointPage, WaitpointParams, WaitpointSnapshot};
use serde::Serialize;
use uuid::Uuid;

use super::{Client, Handle};
use crate::Error;

impl Client {
    /// Waitpoints at which signals may arrive, of all executions. `next` of a page is `after` of the
    /// one that follows.
    pub async fn waitpoints(&self, page: WaitpointParams) -> Result<WaitpointPage, Error> {
        self.fabric.waitpoints(None, page).await
    }

    /// Sends the signal of a link that was handed out, once, with what it is to carry. The address of
    /// a server in front of it does not matter.
    pub async fn follow(&self, link: &str, payload: impl Serialize) -> Result<Delivered, Error> {
        let bytes = json(&payload)?;
        let payload = Payload { bytes, encoding: Some(json_encoding()) };
        let link = link.rsplit('/').next().unwrap_or(link);
        self.fabric.follow_link(link, Some(payload)).await
    }
}

impl Handle {
    /// The waitpoints at which signals to it may arrive.
    pub async fn waitpoints(&self) -> Result<Vec<WaitpointSnapshot>, Error> {
        let mut found = Vec::new();
        let mut after = None;
        loop {
            let params = WaitpointParams { after, limit: Some(PAGE_MAX) };
            let page = self.fabric.waitpoints(Some(self.id), params).await?;
            found.extend(page.waitpoints);
            after = page.next;
            if after.is_none() {
                return Ok(found);
            }
        }
    }

    /// A signal of this name to it, sent as an operator when it is awaited: to its only waitpoint,
    /// unless [`at`](SignalCall::at) says which.
    pub fn signal(&self, name: impl Into<String>) -> SignalCall {
        SignalCall {
            handle: self.clone(),
            name: name.into(),
            payload: Ok(None),
            from: String::new(),
            at: None,
            token: None,
            idempotency_key: None,
        }
    }

    /// Somebody's approval of what it asks people to decide on.
    pub fn approve(&self, who: impl Into<String>) -> DecisionCall {
        self.decision(Word::Approved, who.into())
    }

    /// Somebody's rejection of what it asks people to decide on.
    pub fn reject(&self, who: impl Into<String>) -> DecisionCall {
        self.decision(Word::Rejected, who.into())
    }

    fn decision(&self, word: Word, who: String) -> DecisionCall {
        DecisionCall { handle: self.clone(), word, who, at: None, subject: Ok(None), comment: None }
    }

    /// Lets it go on, whatever it waits for now; where it stands then. If it waits for something else
    /// by the time that this arrives, it is not let go.
    pub async fn resume(&self, reason: impl Into<String>) -> Result<PublicState, Error> {
        let last = self.fabric.suspension(self.id).await?;
        // Where none is open, one that begins meanwhile is not meant either.
        let open = last.filter(|last| last.open);
        let suspension = Some(open.map_or(Uuid::nil(), |open| open.suspension_id));
        let resume = Resume { id: self.id, suspension, reason: reason.into(), resume_delay_ms: 0 };
        self.fabric.resume(resume).await
    }
}

fn json(value: &impl Serialize) -> Result<Bytes, Error> {
    let bytes = serde_json::to_vec(value).map(Bytes::from);
    bytes.map_err(|error| Error::permanent(format!("what it carries cannot be sent: {error}")))
}

/// The waitpoint of a key, or the only one. Of several under one key it is the last one made: a worker
/// that crashed may have left others behind.
fn only(
    handle: &Handle,
    open: Vec<WaitpointSnapshot>,
    key: Option<&str>,
) -> Result<WaitpointSnapshot, Error> {
    let mut open: Vec<_> =
        open.into_iter().filter(|row| key.is_none_or(|key| row.waitpoint_key == key)).collect();
    open.sort_by_key(|row| (row.created_at, row.waitpoint_id));
    let Some(last) = open.pop() else {
        let place = key.map_or_else(String::new, |key| format!(" at {key:?}"));
        let said = format!("{} does not wait{place}", handle.id);
        return Err(Rejection::new(Code::WaitpointNotFound, said).into());
    };
    if let Some(other) = open.iter().find(|row| row.waitpoint_key != last.waitpoint_key) {
        let (one, other) = (&last.waitpoint_key, &other.waitpoint_key);
        let why = format!("is needed: {} waits at {one:?} and {other:?}", handle.id);
        return Err(Rejection::invalid(Code::InvalidInput, "waitpoint_key", "", why).into());
    }
    Ok(last)
}

/// A signal that is about to be sent: await it.
#[must_use = "nothing is sent until it is awaited"]
pub struct SignalCall {
    handle: Handle,
    name: String,
    payload: Result<Option<Bytes>, Error>,
    from: String,
    at: Option<String>,
    token: Option<(Uuid, String)>,
    idempotency_key: Option<String>,
}

impl SignalCall {
    /// What it carries, as JSON; at most 64 KiB.
    pub fn payload(mut self, payload: impl Serialize) -> Self {
        self.payload = json(&payload).map(Some);
        self
    }

    /// Who sends it.
    pub fn from(mut self, who: impl Into<String>) -> Self {
        self.from = who.into();
        self
    }

    /// To the waitpoint of this key.
    pub fn at(mut self, key: impl Into<String>) -> Self {
        self.at = Some(key.into());
        self
    }

    /// To this waitpoint, as somebody who was given its token instead of as an operator. Not together
    /// with [`at`](Self::at).
    pub fn token(mut self, waitpoint: Uuid, token: impl Into<String>) -> Self {
        self.token = Some((waitpoint, token.into()));
        self
    }

    /// Sent once to its waitpoint, however often it is sent under this key.
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Self {
        self.idempotency_key = Some(key.into());
        self
    }

    async fn send(self) -> Result<Delivered, Error> {
        let (waitpoint, authority) = match (self.token, self.at) {
            (Some(_), Some(key)) => {
                let why = "cannot be given with a token, which is good for one waitpoint only";
                return Err(
                    Rejection::invalid(Code::InvalidInput, "waitpoint_key", key, why).into()
                );
            }
            (Some((waitpoint, token)), None) => (waitpoint, Authority::Token(token)),
            (None, at) => {
                let open = self.handle.waitpoints().await?;
                let one = only(&self.handle, open, at.as_deref())?;
                (one.waitpoint_id, Authority::Operator)
            }
        };
        let payload = self.payload?;
        let signal = DeliverSignal {
            id: self.handle.id,
            waitpoint,
            signal: Uuid::now_v7(),
            authority,
            name: SignalName::new(self.name)?,
            category: "client".to_owned(),
            source_type: "client".to_owned(),
            source_identity: self.from,
            subject: None,
            correlation_id: None,
            idempotency_key: self.idempotency_key.map(IdempotencyKey::new).transpose()?,
            dedup_ttl_ms: None,
            created_at: None,
            encoding: payload.is_some().then(json_encoding),
            payload,
            resume_delay_ms: None,
        };
        self.handle.fabric.signal(signal).await
    }
}

impl IntoFuture for SignalCall {
    type Output = Result<Delivered, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.send())
    }
}

/// What somebody decides: await it to say so.
#[must_use = "nothing is decided until it is awaited"]
pub struct DecisionCall {
    handle: Handle,
    word: Word,
    who: String,
    at: Option<String>,
    subject: Result<Option<String>, Error>,
    comment: Option<String>,
}

impl DecisionCall {
    /// On what, as it was seen. If something else is asked about by now, that is refused. Without it,
    /// this is a decision on whatever is asked about when it is sent.
    pub fn of(mut self, subject: impl Serialize) -> Self {
        let text = serde_json::to_string(&subject);
        self.subject = text.map(|text| Some(digest(&text))).map_err(Error::permanent);
        self
    }

    /// The same by the text that [`waitpoints`](Handle::waitpoints) shows, whoever wrote it.
    pub fn of_text(mut self, shown: &str) -> Self {
        self.subject = Ok(Some(digest(shown)));
        self
    }

    /// Why.
    pub fn comment(mut self, comment: impl Into<String>) -> Self {
        self.comment = Some(comment.into());
        self
    }

    /// At the waitpoint of this key.
    pub fn at(mut self, key: impl Into<String>) -> Self {
        self.at = Some(key.into());
        self
    }

    async fn send(self) -> Result<Delivered, Error> {
        let mut open = self.handle.waitpoints().await?;
        open.retain(|row| row.approval.is_some());
        let asked = only(&self.handle, open, self.at.as_deref())?;
        let shown = asked.approval.and_then(|approval| approval.subject_digest);
        let request = DecisionRequest {
            word: self.word,
            by: self.who,
            subject: self.subject?.or(shown),
            comment: self.comment,
            waitpoint_id: Some(asked.waitpoint_id.to_string()),
        };
        self.handle.fabric.decide(self.handle.id, request).await
    }
}

impl IntoFuture for DecisionCall {
    type Output = Result<Delivered, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.send())
    }
}
