//! Decisions of people.

use std::pin::Pin;
use std::time::Duration;

use ff_core::Millis;
use ff_core::condition::{ResumeCondition, Word, digest};
use ff_core::suspension::{SuspensionReason, TimeoutBehavior};
use ff_core::text::SourceIdentity;
use ff_wire::payload::{Payload, json_encoding};
use ff_wire::waitpoint::LinkRequest;
use serde::{Deserialize, Serialize};

use super::{Ask, Context, Place, Waited};
use crate::Error;

impl Context {
    /// Asks people for a decision. One rejection decides; so does the last approval that is needed.
    /// Everybody's first word stands. Give it a name, or a [waitpoint](Context::waitpoint) that was made
    /// before, so that [links](ApprovalCall::link) to it can be handed out.
    pub fn approval(&self, place: impl Into<Place>) -> ApprovalCall<'_> {
        ApprovalCall {
            context: self,
            at: self.journal().position(),
            place: place.into(),
            subject: Ok(None),
            needed: 1,
            by: Vec::new(),
            not_by: None,
            timeout: None,
            behavior: TimeoutBehavior::AutoResume,
        }
    }
}

/// A decision to be asked for; await it.
#[must_use = "nobody is asked until it is awaited"]
pub struct ApprovalCall<'c> {
    context: &'c Context,
    at: u32,
    place: Place,
    subject: Result<Option<String>, Error>,
    needed: u32,
    by: Vec<String>,
    not_by: Option<String>,
    timeout: Option<Duration>,
    behavior: TimeoutBehavior,
}

impl ApprovalCall<'_> {
    /// What is to be decided on, as people are shown it; at most 4 KiB as JSON. Who decides says the
    /// digest of it, so nobody approves what he did not see.
    pub fn of(mut self, subject: impl Serialize) -> Self {
        let text = serde_json::to_string(&subject).map(Some);
        self.subject = text.map_err(|error| {
            Error::permanent(format!("what is to be decided on cannot be shown: {error}"))
        });
        self
    }

    /// A link with which somebody says this about what is to be decided on, once: the path after the
    /// address of a server. Say [what that is](Self::of) first, and hand it out in a step, where nobody
    /// else sees it.
    ///
    /// There is one only to a waitpoint that was made before: at another nobody waits yet.
    pub async fn link(&self, word: Word, who: impl Into<String>) -> Result<String, Error> {
        let Place::Pending(waitpoint, _) = self.place else {
            let said = "an approval has links if it is asked at a waitpoint that was made before";
            return Err(Error::permanent(said));
        };
        let subject = match &self.subject {
            Ok(subject) => subject.as_deref().map(digest),
            Err(error) => return Err(Error::permanent(error.to_string())),
        };
        let (signal_name, source_identity) = (word.to_string(), Some(who.into()));
        let link = LinkRequest { signal_name, source_identity, subject };
        self.context.sign(waitpoint, link).await
    }

    /// How many must approve (default one).
    pub fn needs(mut self, people: u32) -> Self {
        self.needed = people;
        self
    }

    /// Who may decide (default anybody who has a name).
    pub fn by<S: Into<String>>(mut self, people: impl IntoIterator<Item = S>) -> Self {
        self.by = people.into_iter().map(Into::into).collect();
        self
    }

    /// Who may not: most often the one who asks.
    pub fn not_by(mut self, person: impl Into<String>) -> Self {
        self.not_by = Some(person.into());
        self
    }

    /// For so long. When it is not decided in time, the answer is an error that
    /// [says so](Error::is_wait_timeout), unless [`on_timeout`](Self::on_timeout) asks for something
    /// else.
    pub fn timeout(mut self, length: Duration) -> Self {
        self.timeout = Some(length);
        self
    }

    /// What happens to the execution when it is not decided in time, instead of going on.
    pub fn on_timeout(mut self, behavior: TimeoutBehavior) -> Self {
        self.behavior = behavior;
        self
    }

    fn into_ask(self) -> Result<Ask, Error> {
        let waitpoint = self.place.key()?;
        let by: Result<Vec<_>, _> = self.by.into_iter().map(SourceIdentity::new).collect();
        let condition = ResumeCondition::Approval {
            waitpoint: waitpoint.clone(),
            needed: self.needed,
            by: by?,
            not_by: self.not_by.map(SourceIdentity::new).transpose()?,
            subject: self.subject?,
        };
        Ok(Ask {
            name: waitpoint.to_string(),
            waitpoints: vec![self.place],
            condition,
            reason: SuspensionReason::WaitingForApproval,
            timeout: self.timeout,
            behavior: self.behavior,
            resume_delay_ms: 0,
            last: false,
        })
    }
}

impl<'c> IntoFuture for ApprovalCall<'c> {
    type Output = Result<Decision, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'c>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let (context, at) = (self.context, self.at);
            let ask = self.into_ask()?;
            let what = ask.name.clone();
            Decision::of(context.waited(at, ask).await?.in_time(&what)?)
        })
    }
}

/// What people decided.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// Whether it may be done. Not when an operator let the execution go on before it was decided.
    pub approved: bool,
    /// What each of them said, in that order.
    pub voices: Vec<Voice>,
}

/// What one of them said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Voice {
    /// Who.
    pub who: String,
    /// What.
    pub word: Word,
    /// When.
    pub at: Millis,
    /// Why, if it was said.
    pub comment: Option<String>,
}

/// What was said with a word: as it is, or as JSON if a link carried it.
fn comment(said: Payload) -> Option<String> {
    let text = String::from_utf8(said.bytes.to_vec()).ok()?;
    let text = match said.encoding {
        Some(encoding) if encoding == json_encoding() => {
            serde_json::from_str::<Option<String>>(&text).unwrap_or(Some(text))?
        }
        Some(_) | None => text,
    };
    (!text.is_empty()).then_some(text)
}

impl Decision {
    fn of(waited: Waited) -> Result<Self, Error> {
        let mut voices = Vec::new();
        for line in waited.signals {
            let (who, at) = (line.source_identity.clone(), line.accepted_at);
            let Ok(word) = line.signal_name.parse() else { continue };
            let comment = line.into_payload()?.and_then(comment);
            voices.push(Voice { who, word, at, comment });
        }
        let all = voices.iter().all(|voice| voice.word == Word::Approved);
        Ok(Self { approved: all && !voices.is_empty(), voices })
    }
}
