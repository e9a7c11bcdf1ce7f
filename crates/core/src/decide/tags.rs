//! Set tags: add, replace and remove tags, in any state, finished ones included.
//!
//! Sent twice: the second changes nothing. Sent again after another change of the same tags, it does not
//! undo that one.

use std::collections::BTreeSet;
use std::fmt::Display;

use super::create::check_tags;
use super::{OnExecution, Repeat, changed};
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
    /// Only at this version of what carries them; at whichever it has when it does not say.
    pub version: Option<u64>,
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

    /// The tags of `what` after the change, unless they are too many, or it is at another version and they
    /// are not so already.
    pub(super) fn applied(
        &self,
        what: impl Display,
        tags: &Tags,
        version: u64,
    ) -> Result<Tags, Rejection> {
        let mut edited = tags.clone();
        edited.retain(|key, _| !self.remove.contains(key));
        edited.extend(self.set.clone());
        check_tags(&edited)?;
        match self.version.filter(|seen| *seen != version && edited != *tags) {
            Some(seen) => Err(changed(what, seen, version)),
            None => Ok(edited),
        }
    }

    /// The same, at the version that there is.
    pub(super) fn pinned(&self, version: u64) -> Option<Self> {
        self.version.is_none().then(|| Self { version: Some(version), ..self.clone() })
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
    const REPEAT: Repeat = Repeat {
        by: "`version`: the version that was changed",
        late: "the same answer while those tags hold; `version_conflict` once they were changed",
    };

    fn id(&self) -> ExecutionId {
        self.id
    }

    fn check(&self, _: &Config) -> Result<(), Rejection> {
        self.edit.validate()
    }

    fn on(&self, x: &Execution, cx: &mut Cx<'_>) -> Result<Change<usize>, Rejection> {
        let tags = self.edit.applied(x.id, &x.tags, x.version)?;
        if tags == x.tags {
            return Ok(Change::none(tags.len()));
        }
        let reply = tags.len();
        let mut tagged = x.changed(cx.at(x));
        tagged.tags = tags;
        let effects = Effects { execution: Some(tagged), ..Effects::default() };
        Ok(Change { reply, effects })
    }

    fn pinned_to(&self, x: &Execution) -> Option<Self> {
        Some(Self { edit: self.edit.pinned(x.version)?, ..self.clone() })
    }
}
