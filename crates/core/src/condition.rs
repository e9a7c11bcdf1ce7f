//! Resume conditions: what a waiting execution waits for, judged by the signals that came.
//!
//! A condition is judged from nothing but itself and the signals, in the order they were accepted.
//! What must stay true:
//!
//! * a condition that is satisfied stays so, whatever comes after;
//! * every part is judged on its own: a signal counts in a count only by being sent to a waitpoint
//!   that this count lists, with a name that it asks for;
//! * the order of signals matters to approvals only, where the first word of each person stands.

mod check;

use std::collections::BTreeSet;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use crate::error::Rejection;
use crate::state::words;
use crate::text::{SignalName, SourceIdentity, WaitpointKey};

/// What a waiting execution waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ResumeCondition {
    /// A signal.
    Single {
        /// Sent to this waitpoint.
        waitpoint: WaitpointKey,
        /// With this name; absent means any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signal: Option<SignalName>,
    },
    /// An operator; no signal will do.
    OperatorOnly,
    /// The deadline; no signal will do.
    TimeoutOnly,
    /// Every one of these. To wait for any of several waitpoints, count one.
    AllOf(Vec<ResumeCondition>),
    /// So many.
    Count {
        /// How many.
        n: u32,
        /// What is counted.
        distinct: Distinct,
        /// Only signals with this name; absent means any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signal: Option<SignalName>,
        /// Only signals sent to these.
        waitpoints: Vec<WaitpointKey>,
    },
    /// The word of people: `approved` by so many, or `rejected` by one. The first word of each
    /// stands.
    Approval {
        /// Where they send it.
        waitpoint: WaitpointKey,
        /// How many must approve.
        needed: u32,
        /// Who may decide; empty means anybody who has a name.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        by: Vec<SourceIdentity>,
        /// Who may not: most often the one who asks.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        not_by: Option<SourceIdentity>,
        /// What they decide on. Who decides says its [`digest`]: nobody approves what he did not see.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        subject: Option<String>,
    },
}

/// What somebody who decides on `subject` says of it: `sha256:` and 64 hexadecimal digits.
pub fn digest(subject: &str) -> String {
    use std::fmt::Write as _;
    let mut text = "sha256:".to_owned();
    for byte in Sha256::digest(subject) {
        write!(text, "{byte:02x}").expect("texts take everything");
    }
    text
}

words! {
    /// What a count counts: waitpoints that were signalled, signals, or who sent them (the type of
    /// a source and its identity together).
    Distinct { Waitpoints = "waitpoints", Signals = "signals", Sources = "sources" }
}

words! {
    /// What a person says, and the name of the signal that says it.
    Word { Approved = "approved", Rejected = "rejected" }
}

/// A signal as far as a condition looks at it. Whoever builds one vouches for its identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen<'s> {
    /// Where it was sent.
    pub waitpoint: &'s WaitpointKey,
    /// Its id.
    pub id: Uuid,
    /// Its name.
    pub name: &'s SignalName,
    /// What sort of source sent it.
    pub source_type: &'s str,
    /// Who sent it; empty when nobody in particular.
    pub source_identity: &'s str,
    /// The digest of what its sender decided on; empty when it was nothing in particular.
    pub subject: &'s str,
}

/// What sort of source a person is whose name is vouched for: by a caller of the server, or by a link that
/// was signed for him. Whoever has nothing but the token of a waitpoint cannot say it.
pub const PERSON: &str = "person";

/// Wanted at a waitpoint of a wait that no signal ends, but an operator or the time. Signals have no names
/// that begin like that.
pub const NO_SIGNAL: &str = "__none";

/// The beginning of keys under which decisions are kept.
pub const DECISION: &str = "approval:";

/// What signals mean to a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It waits for more.
    Open,
    /// It has what it waits for.
    Satisfied {
        /// The signals that contributed: indices into those judged, ascending.
        by: Vec<usize>,
    },
}

/// What a signal, looked at alone, can be to a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contribution {
    /// Nothing in the condition looks at its waitpoint.
    NotInCondition,
    /// What looks at its waitpoint asks for another name, or for other people.
    MatcherFailed,
    /// It counts somewhere, unless the same was said before.
    Counts,
}

/// How an approval was decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision<'c, 's> {
    /// The waitpoint of the approval.
    pub waitpoint: &'c WaitpointKey,
    /// What was said.
    pub word: Word,
    /// By whom, in order; one person when it was rejected.
    pub by: Vec<&'s str>,
}

impl ResumeCondition {
    /// Refuses a condition that nothing could satisfy, or that is too large to be one.
    pub fn check(&self) -> Result<(), Rejection> {
        check::check(self)
    }

    /// The waitpoints it looks at.
    pub fn keys(&self) -> BTreeSet<&WaitpointKey> {
        let mut keys = BTreeSet::new();
        self.visit(&mut |leaf| keys.extend(leaf.own_keys()));
        keys
    }

    /// Whether a part of it is met by nothing but the time.
    pub fn wants_a_deadline(&self) -> bool {
        let mut wants = false;
        self.visit(&mut |leaf| wants |= *leaf == Self::TimeoutOnly);
        wants
    }

    /// The names it wants on a waitpoint that it looks at, in the order it says them; empty means
    /// any.
    pub fn wanted(&self, key: &WaitpointKey) -> Vec<&SignalName> {
        let mut names = Vec::new();
        let mut any = false;
        self.visit(&mut |leaf| {
            if leaf.own_keys().contains(key) {
                let wanted = leaf.own_names();
                any |= wanted.is_empty();
                names.extend(wanted);
            }
        });
        let mut said = BTreeSet::new();
        names.retain(|name| !any && said.insert(*name));
        names
    }

    /// Judges it by all signals accepted so far, in that order.
    pub fn judge(&self, seen: &[Seen<'_>]) -> Verdict {
        let mut by = BTreeSet::new();
        if self.weigh(seen, &mut by) {
            Verdict::Satisfied { by: by.into_iter().collect() }
        } else {
            Verdict::Open
        }
    }

    /// The signals that contribute, satisfied or not: indices, ascending.
    ///
    /// The first signal that a single asks for does; in a count, the first of each that is counted
    /// together, up to the one that is enough; in an approval, the words up to the one that decides.
    pub fn contributing(&self, seen: &[Seen<'_>]) -> Vec<usize> {
        let mut by = BTreeSet::new();
        self.weigh(seen, &mut by);
        by.into_iter().collect()
    }

    /// Whether a signal can count anywhere in it.
    pub fn contributes(&self, seen: &Seen<'_>) -> Contribution {
        let mut contribution = Contribution::NotInCondition;
        self.visit(&mut |leaf| {
            let looks = leaf.own_keys().contains(seen.waitpoint);
            contribution = match (contribution, looks && leaf.takes(seen)) {
                (Contribution::Counts, _) | (_, true) => Contribution::Counts,
                (Contribution::NotInCondition, false) if !looks => Contribution::NotInCondition,
                (Contribution::NotInCondition | Contribution::MatcherFailed, false) => {
                    Contribution::MatcherFailed
                }
            };
        });
        contribution
    }

    /// The digest of what is to be decided on at a waitpoint, where somebody decides.
    pub fn subject(&self, key: &WaitpointKey) -> Option<String> {
        let mut found = None;
        self.visit(&mut |leaf| {
            if let Self::Approval { waitpoint, subject: Some(subject), .. } = leaf
                && waitpoint == key
            {
                found.get_or_insert_with(|| digest(subject));
            }
        });
        found
    }

    /// What is to be decided on, by waitpoint: two things at one waitpoint could never both be, and who
    /// decides on nothing in particular would have to say on what.
    fn subjects(&self) -> Vec<(&WaitpointKey, Option<&str>)> {
        let mut subjects = Vec::new();
        self.visit(&mut |leaf| {
            if let Self::Approval { waitpoint, subject, .. } = leaf {
                subjects.push((waitpoint, subject.as_deref()));
            }
        });
        subjects.sort_unstable();
        subjects
    }

    /// How its approvals were decided, in the order it says them; those that are open are left out.
    /// All signals and those that contributed give the same answer.
    pub fn decisions<'c, 's>(&'c self, seen: &[Seen<'s>]) -> Vec<Decision<'c, 's>> {
        let mut decisions = Vec::new();
        self.visit(&mut |leaf| {
            if let Self::Approval { waitpoint, .. } = leaf {
                let said = leaf.said(seen);
                if let Some(word) = leaf.decided(&said) {
                    let by = said.iter().filter(|(_, said)| *said == word);
                    let by = by.map(|(at, _)| seen[*at].source_identity).collect();
                    decisions.push(Decision { waitpoint, word, by });
                }
            }
        });
        decisions
    }

    /// Shows every part that holds no others, in order.
    fn visit<'c>(&'c self, show: &mut impl FnMut(&'c Self)) {
        match self {
            Self::AllOf(members) => members.iter().for_each(|member| member.visit(show)),
            Self::Single { .. }
            | Self::OperatorOnly
            | Self::TimeoutOnly
            | Self::Count { .. }
            | Self::Approval { .. } => show(self),
        }
    }

    /// The waitpoints that this part looks at, without those of its members.
    fn own_keys(&self) -> &[WaitpointKey] {
        match self {
            Self::Single { waitpoint, .. } | Self::Approval { waitpoint, .. } => {
                std::slice::from_ref(waitpoint)
            }
            Self::Count { waitpoints, .. } => waitpoints,
            Self::OperatorOnly | Self::TimeoutOnly | Self::AllOf(_) => &[],
        }
    }

    /// The names that this part asks for; empty means any.
    fn own_names(&self) -> Vec<&SignalName> {
        match self {
            Self::Single { signal, .. } | Self::Count { signal, .. } => signal.iter().collect(),
            Self::Approval { .. } => vec![Word::Approved.name(), Word::Rejected.name()],
            // They look at no waitpoint.
            Self::OperatorOnly | Self::TimeoutOnly | Self::AllOf(_) => Vec::new(),
        }
    }

    /// Whether this part takes a signal that was sent to one of its waitpoints.
    fn takes(&self, seen: &Seen<'_>) -> bool {
        match self {
            Self::Single { signal, .. } | Self::Count { signal, .. } => {
                signal.as_ref().is_none_or(|name| name == seen.name)
            }
            Self::Approval { by, not_by, subject, .. } => {
                let who = seen.source_identity;
                // Last, because it takes the longest.
                let same = || subject.as_ref().is_none_or(|own| digest(own) == seen.subject);
                let listed = by.is_empty() || by.iter().any(|one| one.as_str() == who);
                let barred = not_by.as_ref().is_some_and(|one| one.as_str() == who);
                let known = seen.source_type == PERSON && !who.is_empty();
                Word::of(seen.name).is_some() && known && listed && !barred && same()
            }
            Self::OperatorOnly | Self::TimeoutOnly | Self::AllOf(_) => false,
        }
    }

    /// The signals that this part takes, with their indices.
    fn taken<'a, 's>(
        &'a self,
        seen: &'a [Seen<'s>],
    ) -> impl Iterator<Item = (usize, &'a Seen<'s>)> {
        let keys: BTreeSet<_> = self.own_keys().iter().collect();
        let signals = seen.iter().enumerate();
        signals.filter(move |(_, one)| keys.contains(one.waitpoint) && self.takes(one))
    }

    /// Whether it is satisfied; gathers what contributes either way.
    fn weigh(&self, seen: &[Seen<'_>], by: &mut BTreeSet<usize>) -> bool {
        match self {
            Self::Single { .. } => {
                let first = self.taken(seen).next().map(|(at, _)| at);
                by.extend(first);
                first.is_some()
            }
            Self::OperatorOnly | Self::TimeoutOnly => false,
            Self::AllOf(members) => {
                // Every member is weighed, also after one that is open: it gathers.
                let open = members.iter().filter(|member| !member.weigh(seen, by)).count();
                open == 0 && !members.is_empty()
            }
            Self::Count { n, distinct, .. } => {
                let mut counted = BTreeSet::new();
                for (at, one) in self.taken(seen) {
                    if reaches(counted.len(), *n) {
                        break;
                    }
                    if counted.insert(Counted::of(*distinct, one)) {
                        by.insert(at);
                    }
                }
                reaches(counted.len(), *n)
            }
            Self::Approval { .. } => {
                let said = self.said(seen);
                by.extend(said.iter().map(|(at, _)| at));
                self.decided(&said).is_some()
            }
        }
    }

    /// The words that an approval counts: the first of each person, up to the one that decides.
    fn said(&self, seen: &[Seen<'_>]) -> Vec<(usize, Word)> {
        let Self::Approval { needed, .. } = self else {
            return Vec::new();
        };
        let mut people = BTreeSet::new();
        let mut said = Vec::new();
        for (at, one) in self.taken(seen) {
            let Some(word) = Word::of(one.name).filter(|_| people.insert(one.source_identity))
            else {
                continue;
            };
            said.push((at, word));
            // Until it is decided, all words are approvals.
            if word == Word::Rejected || reaches(said.len(), *needed) {
                break;
            }
        }
        said
    }

    /// What the words that an approval counts decide, once they do.
    fn decided(&self, said: &[(usize, Word)]) -> Option<Word> {
        let Self::Approval { needed, .. } = self else {
            return None;
        };
        let rejected = said.iter().any(|(_, word)| *word == Word::Rejected);
        if rejected {
            Some(Word::Rejected)
        } else {
            reaches(said.len(), *needed).then_some(Word::Approved)
        }
    }
}

fn reaches(count: usize, n: u32) -> bool {
    u32::try_from(count).map_or(true, |count| count >= n)
}

impl Word {
    /// The signal that says it.
    pub fn name(self) -> &'static SignalName {
        static NAMES: LazyLock<[SignalName; 2]> = LazyLock::new(|| {
            [Word::Approved, Word::Rejected]
                .map(|word| SignalName::new(word.as_str()).expect("the words are valid names"))
        });
        match self {
            Self::Approved => &NAMES[0],
            Self::Rejected => &NAMES[1],
        }
    }

    /// What a signal says, if it is one of the words.
    pub fn of(name: &SignalName) -> Option<Self> {
        name.as_str().parse().ok()
    }
}

/// What a count takes for one and the same.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Counted<'s> {
    Waitpoint(&'s WaitpointKey),
    Signal(Uuid),
    Source(&'s str, &'s str),
}

impl<'s> Counted<'s> {
    fn of(distinct: Distinct, seen: &Seen<'s>) -> Self {
        match distinct {
            Distinct::Waitpoints => Self::Waitpoint(seen.waitpoint),
            Distinct::Signals => Self::Signal(seen.id),
            Distinct::Sources => Self::Source(seen.source_type, seen.source_identity),
        }
    }
}
