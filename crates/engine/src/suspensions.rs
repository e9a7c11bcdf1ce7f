//! Suspensions, waitpoints and signals: waiting, being told, and reading what waits.

mod links;
mod reading;

use ff_core::condition::{DECISION, PERSON, Word, digest};
use ff_core::decide::close_waitpoint::CloseWaitpoint;
use ff_core::decide::create_waitpoint::CreateWaitpoint;
use ff_core::decide::deliver::{Authority, DeliverSignal, Delivered};
use ff_core::decide::keys::{RotateKey, Rotated, SeedKey, Seeded};
use ff_core::decide::resume::Resume;
use ff_core::decide::suspend::{Suspend, SuspendedReply};
use ff_core::fold::WaitKey;
use ff_core::keyring::{Keyring, ListedKey};
use ff_core::limits::PAGE_MAX;
use ff_core::state::PublicState;
use ff_core::suspension::Signal;
use ff_core::text::{IdempotencyKey, SourceIdentity};
use ff_core::token::Token;
use ff_core::{Code, ExecutionId, Key, Rejection};
use uuid::Uuid;

use crate::{Engine, Error};

pub use links::{LinkAsk, Offer};

/// What a person decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// On which execution.
    pub id: ExecutionId,
    /// At which waitpoint; the only one that waits for a decision when it does not say.
    pub waitpoint: Option<Uuid>,
    /// What.
    pub word: Word,
    /// Who.
    pub by: SourceIdentity,
    /// The [digest](ff_core::condition::digest) of what is decided on, where it is something.
    pub subject: Option<String>,
    /// Why, for whoever reads it later.
    pub comment: Option<String>,
}

impl Engine {
    /// Gives an execution back until something happens, to go on with the same attempt then.
    pub async fn suspend_execution(&self, suspend: Suspend) -> Result<SuspendedReply, Error> {
        self.execute(suspend).await
    }

    /// Makes a waitpoint while the execution runs; its token, unless its key is gone.
    pub async fn create_waitpoint(&self, create: CreateWaitpoint) -> Result<Option<Token>, Error> {
        self.execute(create).await
    }

    /// Closes a waitpoint that will not be used.
    pub async fn close_waitpoint(&self, close: CloseWaitpoint) -> Result<(), Error> {
        self.execute(close).await
    }

    /// Sends a signal to a waitpoint.
    pub async fn deliver_signal(&self, signal: DeliverSignal) -> Result<Delivered, Error> {
        self.execute(signal).await
    }

    /// Says what a person decided. The same word of the same person, said again, is a duplicate.
    pub async fn deliver_approval_signal(&self, decision: Decision) -> Result<Delivered, Error> {
        let waitpoint = match decision.waitpoint {
            Some(waitpoint) => waitpoint,
            None => self.waitpoint_for_decision(&decision).await?,
        };
        // A name may hold what a key may not. Who decides on something else decides anew.
        let who = digest(decision.by.as_str());
        let subject = decision.subject.as_deref().map(digest).unwrap_or_default();
        let key = format!("{DECISION}{}:{who}:{subject}", decision.word);
        let idempotency_key = IdempotencyKey::new(key).map_err(Error::from)?;
        let comment = decision.comment.filter(|comment| !comment.is_empty());
        self.deliver_signal(DeliverSignal {
            id: decision.id,
            waitpoint,
            signal: Uuid::now_v7(),
            authority: Authority::Operator,
            name: decision.word.name().clone(),
            category: "approval".to_owned(),
            source_type: PERSON.to_owned(),
            source_identity: decision.by.to_string(),
            subject: decision.subject,
            correlation_id: None,
            idempotency_key: Some(idempotency_key),
            dedup_ttl_ms: None,
            created_at: None,
            encoding: comment.is_some().then(|| "text".parse().expect("a valid encoding")),
            payload: comment.map(Into::into),
            resume_delay_ms: None,
        })
        .await
    }

    /// The one waitpoint of an execution that waits for a decision, or the one where the last wait ended
    /// with this very decision.
    async fn waitpoint_for_decision(&self, decision: &Decision) -> Result<Uuid, Error> {
        let id = decision.id;
        let all = self.list_pending_waitpoints(Some(id), None, Some(PAGE_MAX)).await?.0;
        let mut asked = all.into_iter().filter(|row| row.approval.is_some());
        match (asked.next(), asked.next()) {
            (Some(only), None) => Ok(only.waitpoint_id),
            (None, _) => {
                if let Some(signal) = self.decided(decision).await? {
                    return Ok(signal.waitpoint);
                }
                let said = format!("{id} waits for nobody's decision");
                Err(Rejection::new(Code::WaitpointNotFound, said).into())
            }
            (Some(one), Some(other)) => {
                let (one, other) = (one.waitpoint_key, other.waitpoint_key);
                let why = format!("is needed: decisions are waited for at {one} and {other}");
                Err(Rejection::invalid(Code::InvalidInput, "waitpoint_id", "", why).into())
            }
        }
    }

    /// The same word of the same person, if it is among those that ended the last wait.
    async fn decided(&self, decision: &Decision) -> Result<Option<Signal>, Error> {
        let Some(last) = self.describe_suspension(decision.id).await? else { return Ok(None) };
        let mut ended = self.satisfying(decision.id, &last.satisfied_by).await?.into_iter();
        Ok(ended.find(|signal| {
            signal.source_type == PERSON
                && signal.name == *decision.word.name()
                && signal.source_identity == decision.by.as_str()
                && signal.subject == decision.subject
        }))
    }

    /// Lets a suspended execution go on, whatever it waits for. It ends the wait that is open now, and no
    /// other: the call may be carried out late, when the next one has begun.
    pub async fn resume_execution(&self, resume: Resume) -> Result<PublicState, Error> {
        if resume.suspension.is_some() {
            return self.execute(resume).await;
        }
        let keys = [Key::Execution(resume.id), Key::Wait(WaitKey::Suspension(resume.id))];
        let have = self.backend.get(&keys).await?;
        let x = have.execution(resume.id)?;
        let open = have.waits.suspension(resume.id).filter(|own| own.is_open(x));
        // Where none is open, one that begins meanwhile is not meant either.
        let suspension = open.map_or(Uuid::nil(), |own| own.id);
        self.execute(Resume { suspension: Some(suspension), ..resume }).await
    }

    /// Gives the store its first signing key; one that it has, it keeps.
    pub async fn seed_waitpoint_hmac_secret(&self, seed: SeedKey) -> Result<Seeded, Error> {
        self.execute(seed).await
    }

    /// Signs with another key from now on.
    pub async fn rotate_waitpoint_hmac_secret(&self, rotate: RotateKey) -> Result<Rotated, Error> {
        self.execute(rotate).await
    }

    /// The keys that verify now, the current one first; never their secrets.
    pub async fn list_signing_keys(&self) -> Result<Vec<ListedKey>, Error> {
        let now = self.backend.now().await?;
        Ok(self.keyring().await?.list(now))
    }

    async fn keyring(&self) -> Result<Keyring, Error> {
        let have = self.backend.get(&[Key::Wait(WaitKey::Keyring)]).await?;
        Ok(have.waits.keyring.unwrap_or_default())
    }
}
