//! Conditions are judged as a slow reading of their definition judges them.
//!
//! The reading asks, for a count, whether there are so many signals of which no two are the same;
//! for an approval, what each moment of the story looks like. It shares nothing with the evaluator
//! but the types.

use std::hash::{BuildHasher, Hasher, RandomState};

use ff_core::Code;
use ff_core::condition::{Contribution, Distinct, ResumeCondition, Seen, Verdict, Word, digest};
use ff_core::limits::{CONDITION_NODES_MAX, SUBJECT_BYTES_MAX};
use ff_core::text::{SignalName, SourceIdentity, WaitpointKey};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed, TestRunner};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::laws::{Law, law};

/// Conditions and stories that are tried, unless `PROPTEST_CASES` asks for more.
const CASES_MIN: u32 = 10_000;
/// Signals in a story: the slow reading looks at all their subsets.
const SIGNALS_MAX: usize = 8;

/// A signal, owned.
#[derive(Clone, Debug)]
struct Signal {
    waitpoint: WaitpointKey,
    id: Uuid,
    name: SignalName,
    source_type: &'static str,
    source_identity: &'static str,
    subject: String,
}

fn seen(signals: &[Signal]) -> Vec<Seen<'_>> {
    let seen = signals.iter().map(|signal| Seen {
        waitpoint: &signal.waitpoint,
        id: signal.id,
        name: &signal.name,
        source_type: signal.source_type,
        source_identity: signal.source_identity,
        subject: &signal.subject,
    });
    seen.collect()
}

fn key(text: &str) -> WaitpointKey {
    WaitpointKey::new(text).unwrap()
}

fn name(text: &str) -> SignalName {
    SignalName::new(text).unwrap()
}

fn identity(text: &str) -> SourceIdentity {
    SourceIdentity::new(text).unwrap()
}

fn condition(document: Value) -> ResumeCondition {
    serde_json::from_value(document).unwrap()
}

const KEYS: [&str; 3] = ["a", "b", "c"];
const NAMES: [&str; 4] = ["approved", "rejected", "x", "y"];
const PEOPLE: [&str; 3] = ["ann", "bob", "cy"];
/// What may be decided on, and what `sha256sum` says of it.
const SUBJECTS: [(&str, &str); 2] = [
    ("release 17", "sha256:46f199ad541578efd257011e88e84a2b0059f24bcba438d3f1b243811d339c20"),
    ("release 18", "sha256:8b2226daf4a358eaadd666d8139dcc966202bce739a18c86bc07c3e96f3421e9"),
];

fn keys() -> impl Strategy<Value = WaitpointKey> {
    prop::sample::select(&KEYS[..]).prop_map(key)
}

fn names() -> impl Strategy<Value = SignalName> {
    prop::sample::select(&NAMES[..]).prop_map(name)
}

fn conditions() -> impl Strategy<Value = ResumeCondition> {
    let distinct = prop::sample::select(Distinct::ALL);
    let some_keys = prop::sample::subsequence(KEYS.to_vec(), 1..=3)
        .prop_map(|keys| keys.into_iter().map(key).collect::<Vec<_>>());
    let people = prop::sample::subsequence(PEOPLE.to_vec(), 0..=3)
        .prop_map(|people| people.into_iter().map(identity).collect::<Vec<_>>());
    let not_by = prop::option::of(prop::sample::select(&PEOPLE[..]).prop_map(identity));
    let subject = prop::option::of(prop::sample::select(&SUBJECTS[..]))
        .prop_map(|subject| subject.map(|(text, _)| text.to_owned()));
    let leaf = prop_oneof![
        8 => (keys(), prop::option::of(names()))
            .prop_map(|(waitpoint, signal)| ResumeCondition::Single { waitpoint, signal }),
        1 => Just(ResumeCondition::OperatorOnly),
        1 => Just(ResumeCondition::TimeoutOnly),
        8 => (1..4_u32, distinct, prop::option::of(names()), some_keys).prop_map(
            |(n, distinct, signal, waitpoints)| {
                ResumeCondition::Count { n, distinct, signal, waitpoints }
            }
        ),
        8 => (keys(), 1..3_u32, people, not_by, subject).prop_map(
            |(waitpoint, needed, by, not_by, subject)| {
                ResumeCondition::Approval { waitpoint, needed, by, not_by, subject }
            }
        ),
    ];
    // What no signals could satisfy is judged too.
    leaf.prop_recursive(3, 8, 2, |inner| {
        prop::collection::vec(inner, 1..=2).prop_map(ResumeCondition::AllOf)
    })
}

fn stories() -> impl Strategy<Value = Vec<Signal>> {
    let types = prop::sample::select(&["person", "person", "system"][..]);
    let people = prop::sample::select(&["", "ann", "ann", "bob", "bob", "cy", "cy"][..]);
    let subjects = prop::sample::select(&["", SUBJECTS[0].1, SUBJECTS[0].1, SUBJECTS[1].1][..]);
    // A few ids, so that a signal may come twice.
    let signal = (keys(), 0..12_u128, names(), types, people, subjects)
        .prop_map(|(waitpoint, id, name, source_type, source_identity, subject)| {
            let (id, subject) = (Uuid::from_u128(id), subject.to_owned());
            Signal { waitpoint, id, name, source_type, source_identity, subject }
        })
        .boxed();
    prop_oneof![
        1 => prop::collection::vec(signal.clone(), 0..=SIGNALS_MAX),
        3 => prop::collection::vec(signal, SIGNALS_MAX),
    ]
}

/// The slow reading: whether `story` satisfies the condition.
fn is_met(condition: &ResumeCondition, story: &[Signal]) -> bool {
    match condition {
        ResumeCondition::Single { waitpoint, signal } => {
            story.iter().any(|one| passes(one, std::slice::from_ref(waitpoint), signal.as_ref()))
        }
        ResumeCondition::OperatorOnly | ResumeCondition::TimeoutOnly => false,
        ResumeCondition::AllOf(members) => {
            !members.is_empty() && members.iter().all(|member| is_met(member, story))
        }
        ResumeCondition::Count { n, distinct, signal, waitpoints } => (0..1_u32 << story.len())
            .any(|subset| {
                let picked: Vec<_> = (0..story.len())
                    .filter(|at| subset >> at & 1 == 1)
                    .map(|at| &story[at])
                    .collect();
                let pass = picked.iter().all(|one| passes(one, waitpoints, signal.as_ref()));
                let differ = picked.iter().enumerate().all(|(at, one)| {
                    picked[..at].iter().all(|other| !is_same(*distinct, one, other))
                });
                subset.count_ones() == *n && pass && differ
            }),
        ResumeCondition::Approval { .. } => {
            (0..=story.len()).any(|moment| outcome_at(condition, &story[..moment]).is_some())
        }
    }
}

fn passes(one: &Signal, waitpoints: &[WaitpointKey], wanted: Option<&SignalName>) -> bool {
    waitpoints.contains(&one.waitpoint) && wanted.is_none_or(|name| *name == one.name)
}

fn is_same(distinct: Distinct, one: &Signal, other: &Signal) -> bool {
    match distinct {
        Distinct::Waitpoints => one.waitpoint == other.waitpoint,
        Distinct::Signals => one.id == other.id,
        Distinct::Sources => {
            one.source_type == other.source_type && one.source_identity == other.source_identity
        }
    }
}

/// The first word of a person on what is to be decided on, in a story.
fn first_word(condition: &ResumeCondition, who: &str, story: &[Signal]) -> Option<(usize, bool)> {
    let ResumeCondition::Approval { waitpoint, by, not_by, subject, .. } = condition else {
        return None;
    };
    let known = subject.as_ref().map(|text| {
        let (_, digest) = SUBJECTS.iter().find(|(known, _)| known == text).unwrap();
        *digest
    });
    let story = story.iter().enumerate();
    let mut story = story.filter(|(_, one)| known.is_none_or(|digest| one.subject == digest));
    if !by.is_empty() && !by.contains(&identity(who)) || *not_by == Some(identity(who)) {
        return None;
    }
    story.find_map(|(at, one)| match one.name.as_str() {
        "approved" | "rejected"
            if (one.source_type, one.source_identity) == ("person", who)
                && one.waitpoint == *waitpoint =>
        {
            Some((at, one.name.as_str() == "approved"))
        }
        _ => None,
    })
}

/// Whether an approval is decided by a story, looked at as a whole, and how.
fn outcome_at(condition: &ResumeCondition, story: &[Signal]) -> Option<bool> {
    let ResumeCondition::Approval { needed, .. } = condition else {
        return None;
    };
    let words: Vec<_> = PEOPLE.iter().filter_map(|who| first_word(condition, who, story)).collect();
    let approvals = words.iter().filter(|(_, approves)| *approves).count();
    let rejected = words.len() > approvals;
    (rejected || approvals >= *needed as usize).then_some(!rejected)
}

/// The slow reading: whether the signal at `at` contributes, to a part that was not met before it.
fn has_part(condition: &ResumeCondition, story: &[Signal], at: usize) -> bool {
    let one = &story[at];
    let open = || !is_met(condition, &story[..at]);
    match condition {
        ResumeCondition::Single { waitpoint, signal } => {
            open() && passes(one, std::slice::from_ref(waitpoint), signal.as_ref())
        }
        ResumeCondition::OperatorOnly | ResumeCondition::TimeoutOnly => false,
        ResumeCondition::AllOf(members) => members.iter().any(|member| has_part(member, story, at)),
        ResumeCondition::Count { distinct, signal, waitpoints, .. } => {
            let earlier =
                story[..at].iter().filter(|other| passes(other, waitpoints, signal.as_ref()));
            open()
                && passes(one, waitpoints, signal.as_ref())
                && earlier.into_iter().all(|other| !is_same(*distinct, one, other))
        }
        ResumeCondition::Approval { .. } => {
            let open = (0..=at).all(|moment| outcome_at(condition, &story[..moment]).is_none());
            let mut people = PEOPLE.iter();
            open && people
                .any(|who| matches!(first_word(condition, who, story), Some((n, _)) if n == at))
        }
    }
}

#[test]
fn random_conditions_are_judged_as_their_definition_says() {
    let mut config = Config { failure_persistence: None, ..Config::default() };
    config.cases = config.cases.max(CASES_MIN);
    if config.rng_seed == RngSeed::Random {
        config.rng_seed = RngSeed::Fixed(RandomState::new().build_hasher().finish());
    }
    let tried = (conditions(), stories());
    let outcome = TestRunner::new(config.clone()).run(&tried, |(condition, story)| {
        the_verdict_is_that_of_the_definition(&condition, &story)?;
        what_is_satisfied_stays_so(&condition, &story)?;
        order_matters_to_repeated_words_only(&condition, &story)?;
        what_cannot_count_changes_nothing(&condition, &story)?;
        decisions_are_read_from_what_contributed(&condition, &story)?;
        let document = serde_json::to_value(&condition).unwrap();
        law(self::condition(document) == condition, || "it reads back as written".to_owned())
    });
    if let Err(broken) = outcome {
        panic!("{broken}\nPROPTEST_RNG_SEED={} leads there again", config.rng_seed);
    }
}

#[test]
fn random_conditions_come_out_either_way() {
    let config = Config {
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(1),
        ..Config::with_cases(1_000)
    };
    let met = std::cell::Cell::new(0);
    let composed = std::cell::Cell::new(0);
    let tried = (conditions(), stories());
    TestRunner::new(config)
        .run(&tried, |(condition, story)| {
            let is_met = u32::from(condition.judge(&seen(&story)) != Verdict::Open);
            met.set(met.get() + is_met);
            if matches!(condition, ResumeCondition::AllOf(_)) {
                composed.set(composed.get() + is_met);
            }
            Ok(())
        })
        .unwrap();
    assert!((200..800).contains(&met.get()), "{}", met.get());
    assert!(composed.get() > 50, "{}", composed.get());
}

fn the_verdict_is_that_of_the_definition(condition: &ResumeCondition, story: &[Signal]) -> Law {
    let by: Vec<_> = (0..story.len()).filter(|at| has_part(condition, story, *at)).collect();
    let expected = if is_met(condition, story) {
        Verdict::Satisfied { by: by.clone() }
    } else {
        Verdict::Open
    };
    let verdict = condition.judge(&seen(story));
    law(verdict == expected, || format!("{verdict:?} instead of {expected:?}"))?;
    let contributing = condition.contributing(&seen(story));
    law(contributing == by, || format!("{contributing:?} contribute instead of {by:?}"))
}

fn what_is_satisfied_stays_so(condition: &ResumeCondition, story: &[Signal]) -> Law {
    let mut satisfied = false;
    let mut before = Vec::new();
    for moment in 0..=story.len() {
        let now = condition.judge(&seen(&story[..moment])) != Verdict::Open;
        law(now || !satisfied, || format!("satisfied, then open after signal {moment}"))?;
        satisfied = now;
        let by = condition.contributing(&seen(&story[..moment]));
        law(by.starts_with(&before), || format!("{before:?} contributed, then {by:?}"))?;
        before = by;
    }
    Ok(())
}

/// Judged backwards it comes to the same, unless somebody took a word back.
fn order_matters_to_repeated_words_only(condition: &ResumeCondition, story: &[Signal]) -> Law {
    let is_word = |one: &Signal| Word::of(&one.name).is_some();
    let takes_back = story.iter().any(|one| {
        let other_word = |other: &Signal| {
            is_word(other)
                && other.source_identity == one.source_identity
                && other.waitpoint == one.waitpoint
                && other.name != one.name
        };
        is_word(one) && story.iter().any(other_word)
    });
    if takes_back {
        return Ok(());
    }
    let mut backwards = story.to_vec();
    backwards.reverse();
    let forth = condition.judge(&seen(story)) == Verdict::Open;
    let back = condition.judge(&seen(&backwards)) == Verdict::Open;
    law(forth == back, || "the order of signals decides".to_owned())
}

fn what_cannot_count_changes_nothing(condition: &ResumeCondition, story: &[Signal]) -> Law {
    let seen = seen(story);
    for (at, one) in seen.iter().enumerate() {
        let known = condition.keys().contains(one.waitpoint);
        let contribution = condition.contributes(one);
        law(known || contribution == Contribution::NotInCondition, || format!("{at} is unknown"))?;
        law(!known || contribution != Contribution::NotInCondition, || format!("{at} is known"))?;
        let has_part = condition.contributing(&seen).contains(&at);
        law(!has_part || contribution == Contribution::Counts, || format!("{at} cannot count"))?;
        let alone = condition.contributing(std::slice::from_ref(one)) == [0];
        law(alone == (contribution == Contribution::Counts), || format!("{at} counts alone"))?;
        let wanted = condition.wanted(one.waitpoint);
        let named = wanted.is_empty() || wanted.contains(&one.name);
        law(!alone || named, || format!("{at} counts but {:?} is not wanted", one.name))?;
    }
    let counts = |one: &Seen<'_>| condition.contributes(one) == Contribution::Counts;
    let counting: Vec<_> = seen.iter().copied().filter(counts).collect();
    let same =
        (condition.judge(&counting) == Verdict::Open) == (condition.judge(&seen) == Verdict::Open);
    law(same, || "a signal that cannot count decides".to_owned())
}

fn decisions_are_read_from_what_contributed(condition: &ResumeCondition, story: &[Signal]) -> Law {
    let seen = seen(story);
    let all = condition.decisions(&seen);
    let by = condition.contributing(&seen);
    let contributed: Vec<_> = by.into_iter().map(|at| seen[at]).collect();
    law(condition.decisions(&contributed) == all, || "decisions differ".to_owned())?;
    if let ResumeCondition::Approval { waitpoint, .. } = condition {
        let moments = (0..=story.len()).find_map(|n| outcome_at(condition, &story[..n]));
        let decided = all.first().map(|decision| decision.word == Word::Approved);
        law(decided == moments, || format!("{decided:?} instead of {moments:?}"))?;
        law(all.iter().all(|decision| decision.waitpoint == waitpoint), || "elsewhere".to_owned())?;
    }
    Ok(())
}

fn signal(waitpoint: &str, id: u128, named: &str, who: &'static str) -> Signal {
    Signal {
        waitpoint: key(waitpoint),
        id: Uuid::from_u128(id),
        name: name(named),
        source_type: "person",
        source_identity: who,
        subject: String::new(),
    }
}

#[test]
fn a_nested_condition_resumes_exactly_when_all_of_it_is_met() {
    let waits = condition(json!({"all_of": [
        {"all_of": [
            {"count": {"n": 2, "distinct": "sources", "signal": "approved", "waitpoints": ["a"]}},
            {"single": {"waitpoint": "b"}},
        ]},
        {"single": {"waitpoint": "c", "signal": "go"}},
    ]}));
    waits.check().unwrap();
    let story = [
        signal("a", 1, "approved", "ann"),
        signal("a", 2, "approved", "ann"), // the same source again
        signal("b", 3, "whatever", ""),
        signal("c", 4, "stay", ""), // another name
        signal("c", 5, "go", ""),
        signal("a", 6, "maybe", "bob"),    // another name
        signal("b", 7, "approved", "bob"), // another waitpoint, where one has come
        signal("a", 8, "approved", "bob"),
    ];
    for moment in 0..story.len() {
        assert_eq!(waits.judge(&seen(&story[..moment])), Verdict::Open, "{moment}");
    }
    let by = vec![0, 2, 4, 7];
    assert_eq!(waits.judge(&seen(&story)), Verdict::Satisfied { by });
    let contributions: Vec<_> =
        seen(&story)[2..6].iter().map(|one| waits.contributes(one)).collect();
    let (counts, failed) = (Contribution::Counts, Contribution::MatcherFailed);
    assert_eq!(contributions, [counts, failed, counts, failed]);
}

#[test]
fn two_counts_do_not_count_what_was_sent_to_the_other() {
    let waits =
        condition(json!({"all_of": [count(2, "sources", &["a"]), count(2, "sources", &["b"])]}));
    let mut story = vec![
        signal("a", 1, "x", "ann"),
        signal("a", 2, "x", "bob"),
        signal("a", 3, "x", "cy"),
        signal("b", 4, "x", "ann"),
    ];
    assert_eq!(waits.judge(&seen(&story)), Verdict::Open);
    story.push(signal("b", 5, "x", "bob"));
    assert_eq!(waits.judge(&seen(&story)), Verdict::Satisfied { by: vec![0, 1, 3, 4] });
}

#[test]
fn the_first_word_of_each_person_stands() {
    let waits = condition(json!({"approval":
        {"waitpoint": "deploy", "needed": 2, "by": ["ann", "bob", "cy"], "not_by": "ann"}}));
    waits.check().unwrap();
    let story = [
        signal("deploy", 1, "approved", "ann"), // may not: she asked
        signal("deploy", 2, "approved", ""),    // nobody
        signal("deploy", 3, "approved", "eve"), // not listed
        signal("deploy", 4, "maybe", "bob"),    // no word
        signal("other", 5, "rejected", "bob"),  // elsewhere
        signal("deploy", 6, "approved", "bob"),
        signal("deploy", 7, "rejected", "bob"), // too late
        signal("deploy", 8, "approved", "cy"),
        signal("deploy", 9, "rejected", "cy"),
    ];
    for moment in 0..8 {
        assert_eq!(waits.judge(&seen(&story[..moment])), Verdict::Open, "{moment}");
    }
    let seen = seen(&story);
    assert_eq!(waits.judge(&seen), Verdict::Satisfied { by: vec![5, 7] });
    let decisions = waits.decisions(&seen);
    assert_eq!((decisions[0].word, &decisions[0].by[..]), (Word::Approved, &["bob", "cy"][..]));
    let rejected = [seen[5], Seen { name: Word::Rejected.name(), ..seen[7] }];
    assert_eq!(waits.judge(&rejected), Verdict::Satisfied { by: vec![0, 1] });
    let decisions = waits.decisions(&rejected);
    assert_eq!((decisions[0].word, &decisions[0].by[..]), (Word::Rejected, &["cy"][..]));
    let wanted = waits.wanted(&key("deploy"));
    assert_eq!(wanted, [Word::Approved.name(), Word::Rejected.name()]);
}

#[test]
fn nobody_approves_what_they_did_not_see() {
    let waits = condition(json!({"approval":
        {"waitpoint": "deploy", "needed": 1, "subject": SUBJECTS[0].0}}));
    assert_eq!(digest(SUBJECTS[0].0), SUBJECTS[0].1);
    assert_eq!(waits.subject(&key("deploy")).as_deref(), Some(SUBJECTS[0].1));
    assert_eq!(waits.subject(&key("other")), None);
    let of = |subject: &str| Signal {
        subject: subject.to_owned(),
        ..signal("deploy", 1, "approved", "ann")
    };
    for subject in ["", SUBJECTS[0].0, SUBJECTS[1].1] {
        let story = [of(subject)];
        assert_eq!(waits.contributes(&seen(&story)[0]), Contribution::MatcherFailed, "{subject}");
        assert_eq!(waits.judge(&seen(&story)), Verdict::Open, "{subject}");
    }
    assert_eq!(waits.judge(&seen(&[of(SUBJECTS[0].1)])), Verdict::Satisfied { by: vec![0] });
    // Who is asked for nothing in particular may say what they like.
    let anything = condition(json!({"approval": {"waitpoint": "deploy", "needed": 1}}));
    assert_eq!(anything.judge(&seen(&[of(SUBJECTS[1].1)])), Verdict::Satisfied { by: vec![0] });
    let long = "x".repeat(SUBJECT_BYTES_MAX + 1);
    let long = json!({"approval": {"waitpoint": "deploy", "needed": 1, "subject": long}});
    assert_eq!(condition(long).check().unwrap_err().field, Some("subject"));
}

#[test]
fn the_names_wanted_are_listed_once_and_in_order() {
    let single = |at: &str, named: &str| json!({"single": {"waitpoint": at, "signal": named}});
    let waits = condition(json!({"all_of": [
        single("a", "y"), single("a", "x"), single("a", "y"), single("b", "x"),
        {"single": {"waitpoint": "b"}}, "operator_only",
    ]}));
    assert_eq!(waits.wanted(&key("a")), [&name("y"), &name("x")]);
    assert!(waits.wanted(&key("b")).is_empty());
    assert_eq!(waits.keys().into_iter().collect::<Vec<_>>(), [&key("a"), &key("b")]);
}

#[test]
fn conditions_are_pleasant_to_write_and_read_back_the_same() {
    for document in [
        json!({"single": {"waitpoint": "callback"}}),
        json!({"single": {"waitpoint": "callback", "signal": "done"}}),
        json!("operator_only"),
        json!("timeout_only"),
        json!({"all_of": [{"single": {"waitpoint": "a"}}, "timeout_only"]}),
        json!({"count": {"n": 2, "distinct": "sources", "signal": "approved", "waitpoints": ["a"]}}),
        json!({"count": {"n": 1, "distinct": "waitpoints", "waitpoints": ["a", "b"]}}),
        json!({"approval": {"waitpoint": "deploy", "needed": 2, "by": ["ann", "bob", "cy"],
                            "not_by": "ann"}}),
        json!({"approval": {"waitpoint": "deploy", "needed": 1}}),
        json!({"approval": {"waitpoint": "deploy", "needed": 1, "subject": "release 17"}}),
    ] {
        let condition = condition(document.clone());
        condition.check().unwrap();
        assert_eq!(serde_json::to_value(&condition).unwrap(), document);
    }
    for document in [
        json!({"single": {"waitpoint": "a", "colour": "red"}}),
        json!({"single": {"waitpoint": ""}}),
        json!({"single": {"waitpoint": "a", "signal": ""}}),
        json!({"single": {"waitpoint": "a", "signal": "__timeout__"}}),
        json!({"count": {"n": -1, "distinct": "sources", "waitpoints": ["a"]}}),
        json!({"count": {"n": 1, "distinct": "moons", "waitpoints": ["a"]}}),
        json!({"approval": {"waitpoint": "a", "needed": 1, "by": [""]}}),
        json!({"any_of": []}),
        json!("wait"),
    ] {
        assert!(serde_json::from_value::<ResumeCondition>(document.clone()).is_err(), "{document}");
    }
}

fn single() -> Value {
    json!({"single": {"waitpoint": "a"}})
}

fn count(n: u32, distinct: &str, waitpoints: &[&str]) -> Value {
    json!({"count": {"n": n, "distinct": distinct, "waitpoints": waitpoints}})
}

fn approval(needed: u32, by: &[&str], not_by: Option<&str>) -> Value {
    json!({"approval": {"waitpoint": "a", "needed": needed, "by": by, "not_by": not_by}})
}

/// A condition inside so many others.
fn nested(depth: usize, inner: Value) -> Value {
    (0..depth).fold(inner, |inner, _| json!({"all_of": [inner]}))
}

#[test]
fn what_nothing_could_satisfy_is_refused_by_a_word_and_a_path() {
    let many: Vec<_> = (0..257).map(|n| n.to_string()).collect();
    let many: Vec<_> = many.iter().map(String::as_str).collect();
    let deepest = "members[0].members[0].members[0].members[0]";
    for (document, word, path) in [
        (json!({"all_of": []}), "allof_empty_members", "<root>"),
        (json!({"all_of": [single(), {"all_of": []}]}), "allof_empty_members", "members[1]"),
        (count(0, "signals", &["a"]), "count_n_zero", "<root>"),
        (count(1, "signals", &[]), "count_waitpoints_empty", "<root>"),
        (count(3, "waitpoints", &["a", "b"]), "count_exceeds_waitpoint_set", "<root>"),
        (count(1, "signals", &["a", "a"]), "count_waitpoints_duplicate", "<root>"),
        (count(1, "signals", &many), "count_waitpoints_too_many", "<root>"),
        (
            json!({"all_of": [{"all_of": [single(), single(), count(0, "sources", &["a"])]}]}),
            "count_n_zero",
            "members[0].members[2]",
        ),
        (approval(0, &[], None), "approval_needed_zero", "<root>"),
        (approval(3, &["ann", "bob"], None), "approval_needs_more_than_may", "<root>"),
        (approval(2, &["ann", "bob"], Some("ann")), "approval_needs_more_than_may", "<root>"),
        (approval(1, &["ann", "ann"], None), "approval_by_duplicate", "<root>"),
        (approval(1, &many, None), "approval_by_too_many", "<root>"),
        (nested(5, single()), "depth 5 exceeds cap 4", deepest),
        (nested(4, count(1, "signals", &["a"])), "depth 5 exceeds cap 4", deepest),
        (
            json!({"all_of": vec![single(); CONDITION_NODES_MAX]}),
            "more than 256 parts",
            "members[255]",
        ),
    ] {
        let refused = condition(document).check().unwrap_err();
        assert_eq!((refused.code, refused.field), (Code::InvalidInput, Some("resume_condition")));
        assert!(refused.message.contains(word), "{refused}");
        assert!(refused.message.ends_with(&format!("at path {path}")), "{refused}");
    }
    for document in [
        nested(4, single()),
        nested(4, approval(1, &["ann"], Some("bob"))),
        nested(3, count(2, "waitpoints", &["a", "b"])),
        count(9, "sources", &["a"]),
        approval(9, &[], Some("ann")),
        json!({"all_of": vec![single(); CONDITION_NODES_MAX - 1]}),
    ] {
        condition(document).check().unwrap();
    }
}
