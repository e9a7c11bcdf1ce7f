//! Set tags: add, replace and remove tags, in any state, finished ones included.
//!
//! Sent twice: the second changes nothing.

use std::collections::BTreeSet;

use super::{OnExecution, create::check_tags};
use crate::command::Traffic;
use crate::error::{Code, Rejection};
use crate::execution::{Execution, Tags};
use crate::fold::{Change, Cx, Effects};
use crate::ids::ExecutionId;
use crate::limits::Config;
use crate::text::check_tag_key;

/// Set and remove tags.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Edit {
    /// To add or replace.
    pub set: Tags,
    /// To remove; removing an absent one is fine.
    pub remove: BTreeSet<String>,
}

impl Edit {
    /// Refuses keys and values that are not allowed, and a key that is both set and removed.
    pub(super) fn validate(&self) -> Result<(), Rejection> {
        check_tags(&self.set)?;
        if let Some(key) = self.set.keys().find(|key| self.remove.contains(*key)) {
            let why = "is both to be set and to be removed";
            return Err(Rejection::invalid(Code::InvalidInput, "remove", key, why));
        }
        self.remove.iter().try_for_each(|key| check_tag_key(key))
    }

    /// The tags after the change, unless they are too many.
    pub(super) fn applied(&self, tags: &Tags) -> Result<Tags, Rejection> {
        let mut tags = tags.clone();
        tags.retain(|key, _| !self.remove.contains(key));
        tags.extend(self.set.clone());
        check_tags(&tags)?;
        Ok(tags)
    }
}

/// Change the tags of an execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetTags {
    /// Of which.
    pub id: ExecutionId,
    /// What to change.
    pub edit: Edit,
}

impl OnExecution for SetTags {
    /// How many tags it carries now.
    type Reply = usize;
    const NAME: &'static str = "set_execution_tags";
    const TRAFFIC: Traffic = Traffic::Admin;

    fn id(&self) -> ExecutionId {
        self.id
    }

    fn check(&self, _: &Config) -> Result<(), Rejection> {
        self.edit.validate()
    }

    fn on(&self, x: &Execution, cx: &mut Cx<'_>) -> Result<Change<usize>, Rejection> {
        let tags = self.edit.applied(&x.tags)?;
        if tags == x.tags {
            return Ok(Change::none(tags.len()));
        }
        let reply = tags.len();
        let mut tagged = x.changed(cx.at(x));
        tagged.tags = tags;
        let effects = Effects { execution: Some(tagged), ..Effects::default() };
        Ok(Change { reply, effects })
    }
}
