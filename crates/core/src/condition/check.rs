//! The shape of a condition: what no signals could ever satisfy, or nobody could read, is refused.

use std::collections::BTreeSet;

use crate::condition::{Distinct, ResumeCondition};
use crate::error::{Code, Rejection};
use crate::limits::{
    APPROVERS_MAX, CONDITION_DEPTH_MAX, CONDITION_NODES_MAX, COUNT_WAITPOINTS_MAX,
    SUBJECT_BYTES_MAX,
};
use crate::text::{SourceIdentity, WaitpointKey, prose};

/// Refuses by a word that stays the same, and the path to the part that is wrong.
pub(super) fn check(condition: &ResumeCondition) -> Result<(), Rejection> {
    let mut nodes = 0;
    let root = Part { condition, path: String::new(), depth: 0 };
    root.check(&mut nodes)?;
    if condition.subjects().windows(2).any(|pair| pair[0].0 == pair[1].0 && pair[0].1 != pair[1].1)
    {
        return root.refuse("approval_subjects_differ");
    }
    Ok(())
}

/// A part of a condition, and where it stands.
struct Part<'c> {
    condition: &'c ResumeCondition,
    /// Like `members[0].members[2]`; empty at the root.
    path: String,
    /// How many conditions that hold or count others lie around it.
    depth: usize,
}

impl Part<'_> {
    fn check(&self, nodes: &mut usize) -> Result<(), Rejection> {
        *nodes += 1;
        if *nodes > CONDITION_NODES_MAX {
            return self.refuse(&format!("has more than {CONDITION_NODES_MAX} parts"));
        }
        match self.condition {
            // Their texts are valid by their types, and there is nothing else to them.
            ResumeCondition::Single { .. }
            | ResumeCondition::OperatorOnly
            | ResumeCondition::TimeoutOnly => Ok(()),
            ResumeCondition::AllOf(members) => self.check_members(members, nodes),
            ResumeCondition::Count { n, distinct, signal: _, waitpoints } => {
                self.check_count(*n, *distinct, waitpoints)
            }
            ResumeCondition::Approval { waitpoint: _, needed, by, not_by, subject } => {
                let subject = subject.as_deref().unwrap_or_default();
                prose("subject", subject, SUBJECT_BYTES_MAX)?;
                self.check_approval(*needed, by, not_by.as_ref())
            }
        }
    }

    fn check_members(
        &self,
        members: &[ResumeCondition],
        nodes: &mut usize,
    ) -> Result<(), Rejection> {
        self.check_depth()?;
        if members.is_empty() {
            return self.refuse("allof_empty_members");
        }
        members.iter().enumerate().try_for_each(|(index, condition)| {
            let dot = if self.path.is_empty() { "" } else { "." };
            let path = format!("{}{dot}members[{index}]", self.path);
            Part { condition, path, depth: self.depth + 1 }.check(nodes)
        })
    }

    fn check_count(
        &self,
        n: u32,
        distinct: Distinct,
        waitpoints: &[WaitpointKey],
    ) -> Result<(), Rejection> {
        self.check_depth()?;
        let listed: BTreeSet<_> = waitpoints.iter().collect();
        let enough = match distinct {
            Distinct::Waitpoints => usize::try_from(n).is_ok_and(|n| n <= listed.len()),
            // Nobody knows how many signals and sources there will be.
            Distinct::Signals | Distinct::Sources => true,
        };
        if n == 0 {
            self.refuse("count_n_zero")
        } else if waitpoints.is_empty() {
            self.refuse("count_waitpoints_empty")
        } else if waitpoints.len() > COUNT_WAITPOINTS_MAX {
            self.refuse("count_waitpoints_too_many")
        } else if listed.len() < waitpoints.len() {
            self.refuse("count_waitpoints_duplicate")
        } else if !enough {
            self.refuse("count_exceeds_waitpoint_set")
        } else {
            Ok(())
        }
    }

    fn check_approval(
        &self,
        needed: u32,
        by: &[SourceIdentity],
        not_by: Option<&SourceIdentity>,
    ) -> Result<(), Rejection> {
        let listed: BTreeSet<_> = by.iter().collect();
        let may = listed.iter().filter(|one| Some(**one) != not_by).count();
        let enough = by.is_empty() || usize::try_from(needed).is_ok_and(|needed| needed <= may);
        if needed == 0 {
            self.refuse("approval_needed_zero")
        } else if by.len() > APPROVERS_MAX {
            self.refuse("approval_by_too_many")
        } else if listed.len() < by.len() {
            self.refuse("approval_by_duplicate")
        } else if !enough {
            self.refuse("approval_needs_more_than_may")
        } else {
            Ok(())
        }
    }

    fn check_depth(&self) -> Result<(), Rejection> {
        let depth = self.depth + 1;
        if depth <= CONDITION_DEPTH_MAX {
            return Ok(());
        }
        self.refuse(&format!("depth {depth} exceeds cap {CONDITION_DEPTH_MAX}"))
    }

    fn refuse(&self, what: &str) -> Result<(), Rejection> {
        let path = if self.path.is_empty() { "<root>" } else { &self.path };
        let message = format!("resume_condition: {what} at path {path}");
        Err(Rejection {
            field: Some("resume_condition"),
            value: Some(path.to_owned()),
            ..Rejection::new(Code::InvalidInput, message)
        })
    }
}
