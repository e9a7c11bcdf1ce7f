//! `ff approve` and `ff reject`: what a person says to what waits for a decision.
//!
//! What is decided on is shown before anything is said, and its digest is sent: nobody decides on
//! what he did not see.

use std::io::{BufRead, IsTerminal, Write};

use clap::Args;
use ff_core::condition::Word;
use ff_core::decide::deliver::Delivered;
use ff_core::suspension::Effect;
use ff_wire::payload::Json;
use ff_wire::signal::DecisionRequest;
use ff_wire::waitpoint::{ApprovalView, WaitpointSnapshot};
use flowfabric::Client;

use crate::failure::{Exit, Failure};
use crate::id;
use crate::output::{Format, Output, clean, dim};
use crate::place::Place;
use crate::signal::told;
use crate::waitpoints::Open;

/// Decide on what an execution asks.
#[derive(Args)]
pub struct Decide {
    /// The execution: its id, or enough of the beginning or end of it
    #[arg(value_name = "EXECUTION")]
    id: String,
    /// Who decides [default: who runs the command, as USER in the environment says]
    #[arg(long = "as", value_name = "WHO")]
    who: Option<String>,
    /// Why, for whoever reads it later
    #[arg(long, value_name = "TEXT")]
    comment: Option<String>,
    /// The waitpoint of the decision: its key or id [default: the only one]
    #[arg(long, value_name = "KEY")]
    at: Option<String>,
    /// Do not ask again; nobody is asked where there is no terminal
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    output: Output,
}

impl Decide {
    /// Says it.
    pub async fn run(self, place: &Place, word: Word) -> anyhow::Result<()> {
        let by = self.by()?;
        let client = place.client().await?;
        let id = id::find(&client, place, &self.id).await?;
        let one = Open::of(&client, place, id).await?.only(self.at.as_deref(), true)?;
        let Some(asked) = &one.approval else {
            let key = clean(&one.waitpoint_key);
            let said = format!("{id} waits for signals at {key:?}, not for a decision");
            let next = place.ff(&format!("signal {id} NAME --at {key}"));
            return Err(Failure::new(Exit::Refused, said).next(next).into());
        };
        show(&one, asked)?;
        let who = clean(&by);
        if !may(asked, &by) {
            let said = format!("{who} may not decide on {id}");
            return Err(Failure::new(Exit::Refused, said).next(others(asked, &by)).into());
        }
        if !self.yes && !confirmed(word, &by)? {
            return Err(Failure::new(Exit::Failed, "nothing was decided").into());
        }
        let request = DecisionRequest {
            word,
            by: by.clone(),
            subject: asked.subject_digest.clone(),
            comment: self.comment,
            waitpoint_id: Some(one.waitpoint_id.to_string()),
        };
        let delivered = client.fabric().decide(id, request).await?;
        let left = match delivered {
            Delivered::Accepted { effect: Effect::Appended, .. } => {
                still_needed(&client, place, &one).await?
            }
            Delivered::Accepted { .. } | Delivered::Duplicate { .. } => None,
        };
        let counted = if counts(delivered, word, asked, &by) {
            Ok(())
        } else {
            let said = format!("what {who} says about {id} does not count: the first word stands");
            Err(Failure::new(Exit::Refused, said).next(others(asked, &by)).into())
        };
        let form = self.output.output;
        if counted.is_ok() || matches!(form, Some(Format::Json | Format::Ids)) {
            told(delivered, form, |effect| {
                let effect = left.as_deref().unwrap_or(effect);
                format!("{word} {id} as {who}: {effect}")
            })?;
        }
        counted
    }

    fn by(&self) -> anyhow::Result<String> {
        self.who.clone().or_else(user).ok_or_else(|| {
            let said = "nobody is named, and USER in the environment names nobody";
            Failure::new(Exit::Usage, said).next("say who decides: --as NAME").into()
        })
    }
}

/// Who runs the command, as the environment says.
pub fn user() -> Option<String> {
    std::env::var("USER").ok().filter(|user| !user.is_empty())
}

/// Shows what is decided on, beside the answer of the command.
fn show(one: &WaitpointSnapshot, asked: &ApprovalView) -> anyhow::Result<()> {
    let mut err = std::io::stderr().lock();
    let approved: Vec<_> = asked.approved_by.iter().map(|who| clean(who)).collect();
    let by = if approved.is_empty() { "nobody".to_owned() } else { approved.join(", ") };
    let needed = format!("{} needed, approved by {by}", asked.needed);
    writeln!(err, "{} {}", clean(&one.waitpoint_key), dim(&format!("({needed})")))?;
    for line in subject(asked) {
        writeln!(err, "  {line}")?;
    }
    Ok(())
}

/// What is decided on, in lines.
pub fn subject(asked: &ApprovalView) -> Vec<String> {
    let Some(subject) = &asked.subject else { return Vec::new() };
    let pretty = Json::from_text(subject.clone()).map(|json| pretty(json.text()));
    pretty.as_deref().unwrap_or(subject).lines().map(clean).collect()
}

/// JSON over several lines, with every character of it: a value that was read and written again
/// would hide a key that is there twice.
fn pretty(json: &str) -> String {
    let (mut lines, mut depth, mut quoted, mut escaped) = (String::new(), 0_usize, false, false);
    let mut before = ' ';
    let line = |depth: usize| format!("\n{}", "  ".repeat(depth));
    for c in json.chars().filter(|c| !matches!(c, '\n' | '\r')) {
        if quoted {
            (quoted, escaped) = (escaped || c != '"', !escaped && c == '\\');
            lines.push(c);
            continue;
        }
        quoted = c == '"';
        if matches!(c, ']' | '}') {
            depth = depth.saturating_sub(1);
            if !matches!(before, '[' | '{') {
                lines += &line(depth);
            }
        } else if matches!(before, '[' | '{' | ',') && !c.is_whitespace() {
            lines += &line(depth);
        }
        depth += usize::from(matches!(c, '[' | '{'));
        if c.is_whitespace() {
            continue;
        }
        lines.push(c);
        if c == ':' {
            lines.push(' ');
        }
        before = c;
    }
    lines
}

/// The command that says it.
pub fn verb(word: Word) -> &'static str {
    match word {
        Word::Approved => "approve",
        Word::Rejected => "reject",
    }
}

/// Whether the person means it. Who is no person has said so by running the command.
fn confirmed(word: Word, by: &str) -> anyhow::Result<bool> {
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return Ok(true);
    }
    write!(std::io::stderr(), "{} this as {}? [y/N] ", verb(word), clean(by))?;
    let mut said = String::new();
    std::io::stdin().lock().read_line(&mut said)?;
    Ok(matches!(said.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}

/// How many are still needed, unless somebody else has said the last word meanwhile.
async fn still_needed(
    client: &Client,
    place: &Place,
    one: &WaitpointSnapshot,
) -> anyhow::Result<Option<String>> {
    let open = Open::of(client, place, one.execution_id).await?;
    let now = open.only(Some(&one.waitpoint_id.to_string()), true);
    let Some(asked) = now.ok().and_then(|now| now.approval) else { return Ok(None) };
    let given = u32::try_from(asked.approved_by.len()).unwrap_or(u32::MAX);
    let said = match asked.needed.saturating_sub(given) {
        0 => "recorded, and it waits for more than this decision".to_owned(),
        1 => "recorded, and 1 more is needed".to_owned(),
        left => format!("recorded, and {left} more are needed"),
    };
    Ok(Some(said))
}

/// Whether somebody is among those who are asked.
fn may(asked: &ApprovalView, who: &str) -> bool {
    let named = asked.by.is_empty() || asked.by.iter().any(|one| one == who);
    named && asked.not_by.as_deref() != Some(who)
}

/// Whether what was said counts. A word that was said before counted if it is seen: a rejection
/// that counts ends the wait.
fn counts(delivered: Delivered, word: Word, asked: &ApprovalView, who: &str) -> bool {
    match (delivered, word) {
        (Delivered::Accepted { effect, .. }, _) => match effect {
            Effect::ConditionSatisfied | Effect::Appended | Effect::Buffered => true,
            Effect::AppendedDuplicate
            | Effect::IgnoredNotInCondition
            | Effect::IgnoredMatcherFailed => false,
        },
        (Delivered::Duplicate { .. }, Word::Approved) => {
            asked.approved_by.iter().any(|one| one == who)
        }
        (Delivered::Duplicate { .. }, Word::Rejected) => false,
    }
}

/// Those of the people who are asked that may decide and have not.
pub fn left(asked: &ApprovalView) -> Vec<String> {
    let left = |one: &&String| may(asked, one) && !asked.approved_by.contains(one);
    asked.by.iter().filter(left).map(|one| clean(one)).collect()
}

/// Who else may decide.
fn others(asked: &ApprovalView, who: &str) -> String {
    let left: Vec<_> = left(asked).into_iter().filter(|one| *one != clean(who)).collect();
    match (left.as_slice(), asked.by.is_empty()) {
        (_, true) => format!("anybody but {} may decide", clean(who)),
        ([], false) => "nobody else is asked; an operator may: ff resume, or ff cancel".to_owned(),
        (left, false) => format!("these may decide: {}", left.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::pretty;

    #[test]
    fn every_character_of_what_is_decided_on_is_shown() {
        for (json, shown) in [
            (r#""a, {b}""#, r#""a, {b}""#),
            ("{}", "{}"),
            (
                r#"{"a":1, "a":[2,{ }],"c":"\",:\\"}"#,
                "{\n  \"a\": 1,\n  \"a\": [\n    2,\n    {}\n  ],\n  \"c\": \"\\\",:\\\\\"\n}",
            ),
        ] {
            assert_eq!(pretty(json), shown);
        }
    }
}
