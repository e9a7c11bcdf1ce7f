//! Finding executions: filters, pages and the places between them.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ff_core::query::{After, Page, Search};
use ff_core::state::PublicState;
use ff_core::text::{Kind, LaneId, Namespace};
use ff_core::{Code, ExecutionId, Millis, Rejection, view};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::bounds::check_limit;
use crate::snapshot::ExecutionSnapshot;
use crate::words;

/// Executions in a page when nobody says.
pub const LIMIT_DEFAULT: u32 = 50;

/// Which executions to find. Everything given must match.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct SearchParams {
    /// In this lane.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lane_id: Option<String>,
    /// In this namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Of this kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub execution_kind: Option<String>,
    /// In this state now.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(value_type = Option<words::PublicState>)]
    pub state: Option<String>,
    /// With this tag, as `key:value`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(example = "shop.customer:ada")]
    pub tag: Option<String>,
    /// Created at or after.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_from: Option<i64>,
    /// Created before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_to: Option<i64>,
    /// Executions in the page (default 50).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u32>,
    /// From where on: `next` of the page before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

impl SearchParams {
    /// What to look for, and which page of it.
    pub fn into_query(self) -> Result<(Search, Page), Rejection> {
        let search = Search {
            lane: self.lane_id.map(LaneId::new).transpose()?,
            namespace: self.namespace.map(Namespace::new).transpose()?,
            kind: self.execution_kind.map(Kind::new).transpose()?,
            state: read_state(self.state, PublicState::ALL, |word| word.as_str())?,
            tag: self.tag.map(read_tag).transpose()?,
            created_from: self.created_from.map(Millis),
            created_to: self.created_to.map(Millis),
        };
        let limit = check_limit(self.limit.unwrap_or(LIMIT_DEFAULT))?;
        let after = self.after.as_deref().map(read_place).transpose()?;
        Ok((search, Page { after, limit }))
    }
}

/// A state as it is written in a query: one of the words there are.
pub(crate) fn read_state<T: Copy>(
    said: Option<String>,
    all: &[T],
    as_str: impl Fn(T) -> &'static str,
) -> Result<Option<T>, Rejection> {
    read_word("state", said, all, as_str)
}

/// One of the words there are.
pub(crate) fn read_word<T: Copy>(
    field: &'static str,
    said: Option<String>,
    all: &[T],
    as_str: impl Fn(T) -> &'static str,
) -> Result<Option<T>, Rejection> {
    let Some(said) = said else { return Ok(None) };
    if let Some(word) = all.iter().find(|word| as_str(**word) == said) {
        return Ok(Some(*word));
    }
    let words: Vec<_> = all.iter().map(|word| as_str(*word)).collect();
    let why = format!("is none of {}", words.join(", "));
    Err(Rejection::invalid(Code::InvalidInput, field, said, why))
}

/// A tag as it is written in a query: `key:value`.
pub fn read_tag(tag: String) -> Result<(String, String), Rejection> {
    match tag.split_once(':') {
        Some((key, value)) => Ok((key.to_owned(), value.to_owned())),
        None => Err(Rejection::invalid(Code::InvalidInput, "tag", tag, "must be key:value")),
    }
}

/// A page of executions, newest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ExecutionPage {
    /// The executions.
    pub executions: Vec<ExecutionSnapshot>,
    /// Where the next page begins, to be sent as `after`; nothing when this was the last.
    pub next: Option<String>,
}

impl ExecutionPage {
    /// What a search found, and where it goes on.
    pub fn new(found: Vec<view::ExecutionSnapshot>, next: Option<&After>) -> Self {
        let executions = found.into_iter().map(ExecutionSnapshot::from).collect();
        Self { executions, next: next.and_then(write_place) }
    }
}

/// A place in a search, as text that nobody needs to understand.
pub(crate) fn write_place(after: &After) -> Option<String> {
    match after {
        After::Created(at, id) => Some(URL_SAFE_NO_PAD.encode(format!("{at} {id}"))),
        // Places in other listings, which a search never returns.
        After::Id(_) | After::Number(_) | After::Name(_) | After::Uuid(_) | After::Within(..) => {
            None
        }
    }
}

pub(crate) fn read_place(text: &str) -> Result<After, Rejection> {
    let place = || {
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (at, id) = std::str::from_utf8(&bytes).ok()?.split_once(' ')?;
        let (at, id) = (at.parse().ok()?, id.parse::<ExecutionId>().ok()?);
        Some(After::Created(Millis(at), id))
    };
    place().ok_or_else(|| {
        let why = "is not a place in this listing; use one that it returned";
        Rejection::invalid(Code::InvalidInput, "after", text, why)
    })
}

/// How long a read waits for an execution or a flow to end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct WaitParams {
    /// Wait so long until it has ended (default 0: answer at once).
    #[param(maximum = 60000)]
    pub wait_ms: u64,
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn a_place_reads_back_as_it_is_written() {
        let place = After::Created(Millis(17), ExecutionId::solo(Uuid::from_u128(7)));
        assert_eq!(read_place(&write_place(&place).unwrap()).unwrap(), place);
    }

    #[test]
    fn what_cannot_be_found_is_refused_by_field() {
        let none = SearchParams::default;
        let text = |text: &str| Some(text.to_owned());
        for (params, field) in [
            (SearchParams { lane_id: text(""), ..none() }, "lane_id"),
            (SearchParams { state: text("gone"), ..none() }, "state"),
            (SearchParams { tag: text("colour"), ..none() }, "tag"),
            (SearchParams { limit: Some(0), ..none() }, "limit"),
            (SearchParams { limit: Some(1001), ..none() }, "limit"),
            (SearchParams { after: text("here"), ..none() }, "after"),
        ] {
            assert_eq!(params.into_query().unwrap_err().field, Some(field));
        }
    }
}
