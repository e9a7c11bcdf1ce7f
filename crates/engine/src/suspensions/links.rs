//! Links: a signal that is ready to be sent, by whoever has the URL.
//!
//! A link is used once: its signal has the id that follows from the link. Reading one changes
//! nothing, so that those who look at links in mails decide nothing.

use bytes::Bytes;
use ff_core::condition::{PERSON, Word};
use ff_core::decide::deliver::{Authority, DeliverSignal, Delivered, would_count};
use ff_core::fold::{Key, WaitKey};
use ff_core::suspension::{Arrival, Suspension, Waitpoint, WaitpointState, WaitpointWord};
use ff_core::text::{Encoding, SignalName, SourceIdentity};
use ff_core::token::{self, Link, Refused};
use ff_core::view::WaitpointSnapshot;
use ff_core::{Code, ExecutionId, Rejection, State};
use uuid::Uuid;

use crate::{Engine, Error};

/// Which link to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkAsk {
    /// To which execution.
    pub id: ExecutionId,
    /// To which waitpoint.
    pub waitpoint: Uuid,
    /// What it says.
    pub signal: SignalName,
    /// In whose name; absent for nobody in particular.
    pub source_identity: Option<SourceIdentity>,
    /// The digest of what is decided on, where it is something.
    pub subject: Option<String>,
}

/// What whoever follows a link would do.
#[derive(Clone, Debug, PartialEq)]
pub struct Offer {
    /// The signal.
    pub link: Link,
    /// Where it arrives.
    pub waitpoint: WaitpointSnapshot,
    /// Whether it would still arrive.
    pub open: bool,
}

impl Engine {
    /// A link that sends a signal. One that decides is bound to what is decided on, if it does not say.
    pub async fn sign_link(&self, ask: LinkAsk) -> Result<String, Error> {
        let (row, suspension) = self.waitpoint(ask.id, ask.waitpoint).await?;
        if row.state.word() == WaitpointWord::Closed {
            let said = format!("waitpoint {} of {} is closed", row.id, ask.id);
            return Err(Rejection::new(Code::WaitpointClosed, said).into());
        }
        let decides = Word::of(&ask.signal).is_some();
        let asked = suspension.filter(|_| decides).and_then(|own| own.condition.subject(&row.key));
        let keys = self.keyring().await?;
        let Some(key) = &keys.current else { return Err(Rejection::from(Refused::NoKeys).into()) };
        let link = Link {
            execution: ask.id,
            waitpoint: ask.waitpoint,
            key: row.key,
            created_at: row.created_at,
            signal: ask.signal,
            source_identity: ask.source_identity,
            subject: ask.subject.or(asked),
        };
        Ok(token::sign(&link, &key.kid, &key.secret))
    }

    /// What a link would do, without doing it.
    pub async fn read_link(&self, text: &str) -> Result<Offer, Error> {
        let link = self.opened(text).await?;
        let (row, suspension) = match self.waitpoint(link.execution, link.waitpoint).await {
            Ok(found) => found,
            Err(error) if error.code() == Code::WaitpointNotFound => {
                return Err(Rejection::from(Refused::Invalid).into());
            }
            Err(error) => return Err(error),
        };
        if link.claims() != row.claims() {
            return Err(Rejection::from(Refused::Invalid).into());
        }
        let id = link.execution;
        let waits = [WaitKey::Arrived(id), WaitKey::Waitpoints(id)].map(Key::Wait);
        let have = self.backend.get(&[&[Key::Execution(id)], &waits[..]].concat()).await?;
        let x = have.execution(id)?;
        let arrived = have.waits.arrived.get(&id).into_iter().flat_map(|all| all.values());
        let arrived: Vec<_> = arrived.collect();
        let waitpoint = WaitpointSnapshot::of(&row, suspension.as_ref(), &arrived);
        let open = match row.state {
            WaitpointState::Pending { expires_at } => {
                let now = self.backend.now().await?;
                expires_at > now && !matches!(x.state, State::Terminal(_))
            }
            // It may be asked of others, or said already.
            WaitpointState::Active { .. } => suspension.is_some_and(|own| {
                own.is_open(x) && would_count(&have.waits, &own, &row, &arrival(&link, text))
            }),
            WaitpointState::Closed { .. } => false,
        };
        Ok(Offer { link, waitpoint, open })
    }

    /// Sends the signal of a link, once.
    pub async fn follow_link(
        &self,
        text: &str,
        payload: Option<(Bytes, Option<Encoding>)>,
    ) -> Result<Delivered, Error> {
        let link = self.opened(text).await?;
        let (payload, encoding) = payload.unzip();
        let sent = arrival(&link, text);
        let delivered = self.deliver_signal(DeliverSignal {
            id: sent.execution,
            waitpoint: sent.waitpoint,
            signal: sent.id,
            authority: Authority::Link(text.to_owned()),
            name: sent.name,
            category: "link".to_owned(),
            source_type: sent.source_type,
            source_identity: sent.source_identity,
            subject: sent.subject,
            correlation_id: None,
            idempotency_key: None,
            dedup_ttl_ms: None,
            created_at: None,
            encoding: encoding.flatten(),
            payload,
            resume_delay_ms: None,
        });
        match delivered.await {
            // It was trimmed, and its waitpoints with it.
            Err(error) if error.code() == Code::ExecutionNotFound => {
                Err(Rejection::from(Refused::Invalid).into())
            }
            delivered => delivered,
        }
    }

    /// What a link says, if we signed it.
    async fn opened(&self, text: &str) -> Result<Link, Error> {
        let Some(sealed) = token::open(text) else {
            return Err(Rejection::from(Refused::Invalid).into());
        };
        let now = self.backend.now().await?;
        let keys = self.keyring().await?;
        sealed.verify(&keys, now).map_err(|refused| Rejection::from(refused).into())
    }

    /// A waitpoint, and the suspension that uses it.
    pub(super) async fn waitpoint(
        &self,
        id: ExecutionId,
        waitpoint: Uuid,
    ) -> Result<(Waitpoint, Option<Suspension>), Error> {
        let keys =
            [Key::Wait(WaitKey::Waitpoint(id, waitpoint)), Key::Wait(WaitKey::Suspension(id))];
        let have = self.backend.get(&keys).await?.waits;
        let Some(row) = have.waitpoint(id, waitpoint).cloned() else {
            let said = format!("{id} has no waitpoint {waitpoint}");
            return Err(Rejection::new(Code::WaitpointNotFound, said).into());
        };
        let own = have.suspension(id).filter(|own| Some(own.id) == row.suspension).cloned();
        Ok((row, own))
    }
}

/// The signal that a link sends.
fn arrival(link: &Link, text: &str) -> Arrival {
    let identity = link.source_identity.as_ref();
    Arrival {
        execution: link.execution,
        id: token::signal_id(text),
        waitpoint: link.waitpoint,
        number: u32::MAX,
        name: link.signal.clone(),
        source_type: if identity.is_some() { PERSON } else { "link" }.to_owned(),
        source_identity: identity.map(ToString::to_string).unwrap_or_default(),
        subject: link.subject.clone(),
    }
}
