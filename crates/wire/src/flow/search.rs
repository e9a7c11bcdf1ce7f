//! Finding flows.

use ff_core::flow::{Flow, FlowWord};
use ff_core::query::{After, FlowSearch, Page};
use ff_core::text::{FlowKind, Namespace};
use ff_core::{Rejection, view};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::snapshot::{FlowLine, FlowSnapshot};
use crate::bounds::check_limit;
use crate::search::{LIMIT_DEFAULT, read_place, read_state, read_tag, write_place};
use crate::words;

/// Which flows to find. Everything given must match.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct FlowSearchParams {
    /// In this namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Of this kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flow_kind: Option<String>,
    /// In this state now.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(value_type = Option<words::FlowWord>)]
    pub state: Option<String>,
    /// With this tag, as `key:value`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(example = "shop.customer:ada")]
    pub tag: Option<String>,
    /// Flows in the page (default 50).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u32>,
    /// From where on: `next` of the page before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

impl FlowSearchParams {
    /// What to look for, and which page of it.
    pub fn into_query(self) -> Result<(FlowSearch, Page), Rejection> {
        let search = FlowSearch {
            namespace: self.namespace.map(Namespace::new).transpose()?,
            kind: self.flow_kind.map(FlowKind::new).transpose()?,
            state: read_state(self.state, FlowWord::ALL, |word| word.as_str())?,
            tag: self.tag.map(read_tag).transpose()?,
        };
        let limit = check_limit(self.limit.unwrap_or(LIMIT_DEFAULT))?;
        let after = self.after.as_deref().map(read_place).transpose()?;
        Ok((search, Page { after, limit }))
    }
}

/// A page of flows, newest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FlowPage {
    /// The flows, without their edges.
    pub flows: Vec<FlowLine>,
    /// Where the next page begins, to be sent as `after`; nothing when this was the last.
    pub next: Option<String>,
}

impl FlowPage {
    /// What a search found, and where it goes on.
    pub fn new(found: &[Flow], next: Option<&After>) -> Self {
        let line = |flow| FlowSnapshot::from(view::FlowSnapshot::of(flow, &[], false)).flow;
        Self { flows: found.iter().map(line).collect(), next: next.and_then(write_place) }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_found_is_refused_by_field() {
        let none = FlowSearchParams::default;
        let text = |text: &str| Some(text.to_owned());
        for (params, field) in [
            (FlowSearchParams { flow_kind: text(""), ..none() }, "flow_kind"),
            (FlowSearchParams { state: text("running"), ..none() }, "state"),
            (FlowSearchParams { tag: text("colour"), ..none() }, "tag"),
            (FlowSearchParams { limit: Some(0), ..none() }, "limit"),
            (FlowSearchParams { after: text("here"), ..none() }, "after"),
        ] {
            assert_eq!(params.into_query().unwrap_err().field, Some(field));
        }
    }
}
