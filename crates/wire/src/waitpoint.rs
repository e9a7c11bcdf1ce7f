//! Waitpoints: where signals to an execution arrive, and what is handed out so that they do.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ff_core::decide::close_waitpoint::CloseWaitpoint;
use ff_core::decide::create_waitpoint::CreateWaitpoint;
use ff_core::query::After;
use ff_core::suspension::{SuspensionReason, WaitpointWord};
use ff_core::text::{SignalName, SourceIdentity, WaitpointKey};
use ff_core::token::Token;
use ff_core::{Code, ExecutionId, Millis, Rejection, view};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use crate::bounds::check_limit;
use crate::hidden::Hidden;
use crate::id::read_uuid;
use crate::lease::Fence;
use crate::step::{NewStep, into_steps};
use crate::words;

/// Waitpoints in a page when nobody says.
pub const LIMIT_DEFAULT: u32 = 100;

/// Make a waitpoint while the execution runs, so that its token can be handed out before anybody
/// waits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewWaitpoint {
    /// Proof of holding the execution.
    pub fence: Fence,
    /// What conditions will call it.
    #[schema(min_length = 1, max_length = 256, example = "callback")]
    pub waitpoint_key: String,
    /// Its id; the server mints one when absent. Sent again with the same id and key, it is made
    /// once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(format = "uuid")]
    pub waitpoint_id: Option<String>,
    /// Closed after this, unless the execution suspends on it.
    #[schema(minimum = 1, maximum = 315_360_000_000_i64)]
    pub expires_in_ms: u64,
    /// Steps to record in the same transaction, so that whoever runs next finds it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 1000)]
    pub steps: Vec<NewStep>,
}

impl NewWaitpoint {
    /// The command; `minted` is its id if it has none.
    pub fn into_command(self, id: ExecutionId, minted: Uuid) -> Result<CreateWaitpoint, Rejection> {
        let waitpoint = self.waitpoint_id.as_deref().map(|id| read_uuid("waitpoint_id", id));
        Ok(CreateWaitpoint {
            id,
            fence: self.fence.into(),
            waitpoint: waitpoint.transpose()?.unwrap_or(minted),
            key: WaitpointKey::new(self.waitpoint_key)?,
            expires_in_ms: self.expires_in_ms,
            steps: into_steps(self.steps)?,
        })
    }
}

/// A waitpoint, and what lets others send signals to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TokenAnswer {
    /// Its id.
    #[schema(value_type = String, format = "uuid")]
    pub waitpoint_id: Uuid,
    /// What its senders present; nothing when the key that signed it is gone.
    #[schema(value_type = Option<String>)]
    pub token: Option<Hidden>,
}

impl TokenAnswer {
    /// The token of a waitpoint.
    pub fn new(waitpoint_id: Uuid, token: Option<&Token>) -> Self {
        Self { waitpoint_id, token: token.map(|token| Hidden::new(token.as_str())) }
    }
}

/// Close a waitpoint that will not be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CloseRequest {
    /// Proof of holding the execution.
    pub fence: Fence,
}

impl CloseRequest {
    /// The command.
    pub fn into_command(self, id: ExecutionId, waitpoint: Uuid) -> CloseWaitpoint {
        CloseWaitpoint { id, fence: self.fence.into(), waitpoint }
    }
}

/// Nothing more arrives there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum CloseAnswer {
    /// Now or before.
    Closed,
}

/// A waitpoint at which signals may arrive. Its token is in no listing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WaitpointSnapshot {
    /// Of which execution.
    #[schema(value_type = String)]
    pub execution_id: ExecutionId,
    /// Its id.
    #[schema(value_type = String, format = "uuid")]
    pub waitpoint_id: Uuid,
    /// What its author calls it.
    pub waitpoint_key: String,
    /// Where it stands.
    #[schema(value_type = words::WaitpointWord)]
    pub state: WaitpointWord,
    /// Why its execution waits, once it does.
    #[schema(value_type = Option<words::SuspensionReason>)]
    pub reason: Option<SuspensionReason>,
    /// The names that are waited for; empty means any. `__none` alone where no signal ends the wait, but
    /// an operator or the time.
    pub required_signal_names: Vec<String>,
    /// The decision that is waited for here, if it is one.
    pub approval: Option<ApprovalView>,
    /// Made.
    #[schema(value_type = i64)]
    pub created_at: Millis,
    /// Since when its execution waits.
    #[schema(value_type = Option<i64>)]
    pub activated_at: Option<Millis>,
    /// Until when.
    #[schema(value_type = Option<i64>)]
    pub expires_at: Option<Millis>,
    /// Signals that arrived.
    pub signal_count: u32,
    /// Those that count.
    pub matched_signal_count: u32,
    /// When the last one came.
    #[schema(value_type = Option<i64>)]
    pub last_signal_at: Option<Millis>,
    /// The key that signed its token.
    pub token_kid: String,
    /// The beginning of the digest of its token.
    pub token_fingerprint: String,
}

/// A decision that people are asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ApprovalView {
    /// How many must approve.
    pub needed: u32,
    /// Who may decide; empty means anybody.
    pub by: Vec<String>,
    /// Who may not.
    pub not_by: Option<String>,
    /// What is to be decided on.
    pub subject: Option<String>,
    /// What whoever decides says of it.
    pub subject_digest: Option<String>,
    /// Who has approved.
    pub approved_by: Vec<String>,
}

impl From<view::WaitpointSnapshot> for WaitpointSnapshot {
    fn from(waitpoint: view::WaitpointSnapshot) -> Self {
        Self {
            execution_id: waitpoint.execution_id,
            waitpoint_id: waitpoint.waitpoint_id,
            waitpoint_key: waitpoint.waitpoint_key.into(),
            state: waitpoint.state,
            reason: waitpoint.reason,
            required_signal_names: waitpoint.required_signal_names,
            approval: waitpoint.approval.map(ApprovalView::from),
            created_at: waitpoint.created_at,
            activated_at: waitpoint.activated_at,
            expires_at: waitpoint.expires_at,
            signal_count: waitpoint.signal_count,
            matched_signal_count: waitpoint.matched_signal_count,
            last_signal_at: waitpoint.last_signal_at,
            token_kid: waitpoint.token_kid.into(),
            token_fingerprint: waitpoint.token_fingerprint,
        }
    }
}

impl From<view::ApprovalView> for ApprovalView {
    fn from(approval: view::ApprovalView) -> Self {
        let view::ApprovalView { needed, by, not_by, subject, subject_digest, approved_by } =
            approval;
        Self {
            needed,
            by: by.into_iter().map(String::from).collect(),
            not_by: not_by.map(String::from),
            subject,
            subject_digest,
            approved_by,
        }
    }
}

/// Which page of waitpoints.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct WaitpointParams {
    /// From where on: `next` of the page before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// Waitpoints in the page (default 100).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u32>,
}

impl WaitpointParams {
    /// The place and the limit that apply.
    pub fn into_page(self) -> Result<(Option<After>, u32), Rejection> {
        let after = self.after.as_deref().map(read_place).transpose()?;
        Ok((after, check_limit(self.limit.unwrap_or(LIMIT_DEFAULT))?))
    }
}

/// A page of waitpoints, by id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WaitpointPage {
    /// The waitpoints.
    pub waitpoints: Vec<WaitpointSnapshot>,
    /// Where the next page begins, to be sent as `after`; nothing when this was the last.
    pub next: Option<String>,
}

impl WaitpointPage {
    /// What was found, and where it goes on.
    pub fn new(found: Vec<view::WaitpointSnapshot>, next: Option<&After>) -> Self {
        let waitpoints = found.into_iter().map(WaitpointSnapshot::from).collect();
        Self { waitpoints, next: next.and_then(write_place) }
    }
}

/// A place among waitpoints, as text that nobody needs to understand.
fn write_place(after: &After) -> Option<String> {
    match after {
        After::Within(waitpoint, id) => Some(URL_SAFE_NO_PAD.encode(format!("{waitpoint} {id}"))),
        // Places in other listings, which this one never returns.
        After::Id(_) | After::Created(..) | After::Number(_) | After::Name(_) | After::Uuid(_) => {
            None
        }
    }
}

fn read_place(text: &str) -> Result<After, Rejection> {
    let place = || {
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (waitpoint, id) = std::str::from_utf8(&bytes).ok()?.split_once(' ')?;
        Some(After::Within(Uuid::try_parse(waitpoint).ok()?, id.parse::<ExecutionId>().ok()?))
    };
    place().ok_or_else(|| {
        let why = "is not a place in this listing; use one that it returned";
        Rejection::invalid(Code::InvalidInput, "after", text, why)
    })
}

/// Make a link that sends a signal, for a mail or a button.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LinkRequest {
    /// What it says.
    #[schema(min_length = 1, max_length = 256, example = "approved")]
    pub signal_name: String,
    /// In whose name; absent for nobody in particular.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 256)]
    pub source_identity: Option<String>,
    /// The digest of what is decided on: `subject_digest` of the decision that is waited for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 256)]
    pub subject: Option<String>,
}

impl LinkRequest {
    /// The signal, in whose name, and on what.
    pub fn into_parts(
        self,
    ) -> Result<(SignalName, Option<SourceIdentity>, Option<String>), Rejection> {
        let identity = self.source_identity.map(SourceIdentity::new).transpose()?;
        if let Some(subject) = &self.subject {
            let max = ff_core::limits::SIGNAL_TEXT_BYTES_MAX;
            ff_core::text::prose("subject", subject, max)?;
        }
        Ok((SignalName::new(self.signal_name)?, identity, self.subject))
    }
}

/// A link: whoever has it sends its signal, once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LinkAnswer {
    /// The link.
    #[schema(value_type = String)]
    pub link: Hidden,
    /// Where it is followed, on this server.
    #[schema(value_type = String, example = "/v1/signals/AQAAAAJrMQ")]
    pub path: Hidden,
}

impl LinkAnswer {
    /// A link, and where it is followed.
    pub fn new(link: String) -> Self {
        let path = Hidden::new(format!("/v1/signals/{link}"));
        Self { link: Hidden::new(link), path }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_place_reads_back_as_it_is_written() {
        let place = After::Within(Uuid::from_u128(3), ExecutionId::solo(Uuid::from_u128(7)));
        assert_eq!(read_place(&write_place(&place).unwrap()).unwrap(), place);
        assert_eq!(read_place("here").unwrap_err().field, Some("after"));
    }

    #[test]
    fn a_snapshot_is_written_as_the_engine_writes_it_and_reads_back() {
        let viewed = view::WaitpointSnapshot {
            execution_id: ExecutionId::solo(Uuid::from_u128(1)),
            waitpoint_id: Uuid::from_u128(2),
            waitpoint_key: "deploy".parse().unwrap(),
            state: WaitpointWord::Active,
            reason: Some(SuspensionReason::WaitingForApproval),
            required_signal_names: vec!["approved".to_owned()],
            approval: Some(view::ApprovalView {
                needed: 2,
                by: vec!["ann".parse().unwrap()],
                not_by: Some("bob".parse().unwrap()),
                subject: Some("deploy 7".to_owned()),
                subject_digest: Some("sha256:00".to_owned()),
                approved_by: vec!["ann".to_owned()],
            }),
            created_at: Millis(3),
            activated_at: Some(Millis(4)),
            expires_at: None,
            signal_count: 2,
            matched_signal_count: 1,
            last_signal_at: Some(Millis(5)),
            token_kid: "k1".parse().unwrap(),
            token_fingerprint: "0123456789abcdef".to_owned(),
        };
        let own = serde_json::to_value(&viewed).unwrap();
        let sent = WaitpointSnapshot::from(viewed);
        assert_eq!(serde_json::to_value(&sent).unwrap(), own);
        assert_eq!(serde_json::from_value::<WaitpointSnapshot>(own).unwrap(), sent);
    }

    #[test]
    fn what_opens_something_is_not_printed() {
        let answer = LinkAnswer::new("AQAB".to_owned());
        assert!(!format!("{answer:?}").contains("AQAB"), "{answer:?}");
        assert_eq!(answer.path.show(), "/v1/signals/AQAB");
    }
}
