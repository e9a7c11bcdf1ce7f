//! Output: in which form, how wide, and without anything that could play tricks on a terminal.

use std::io::{self, Write};

use clap::{Args, ValueEnum};
use console::{Style, Term, style};
use ff_core::state::PublicState;
use ff_wire::marks::visible;
use serde::Serialize;

/// Columns when nobody says.
const WIDTH_DEFAULT: usize = 100;
/// Columns that are made use of.
const WIDTHS: std::ops::RangeInclusive<usize> = 60..=160;

/// In which form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people
    Table,
    /// For programs, as the HTTP API says it
    Json,
    /// Only ids, one on each line
    Ids,
}

/// What was said about the form.
#[derive(Args, Clone, Copy)]
pub struct Output {
    /// The form of the output: a table on a terminal and plain lines elsewhere, unless said
    #[arg(short, long, value_enum, value_name = "FORM")]
    pub output: Option<Format>,
}

/// Whether standard output is a terminal.
pub fn is_terminal() -> bool {
    Term::stdout().is_term()
}

/// How many columns there are: as the environment says, or the terminal.
pub fn width() -> usize {
    let said = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let seen = || Term::stdout().size_checked().map(|(_, columns)| usize::from(columns));
    said.or_else(seen).unwrap_or(WIDTH_DEFAULT).clamp(*WIDTHS.start(), *WIDTHS.end())
}

/// Prints a value as JSON.
pub fn json(value: &impl Serialize) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    serde_json::to_writer_pretty(&mut out, value)
        .map_err(|error| anyhow::Error::new(io::Error::from(error)))?;
    Ok(writeln!(out)?)
}

/// A text on one line. What others wrote must not move the cursor, change colours, or turn what is read.
pub fn clean(text: &str) -> String {
    let shown = |c: char| match c {
        '\n' | '\r' | '\t' => ' ',
        c if c.is_control() => '\u{fffd}',
        c => c,
    };
    visible(text).chars().map(shown).collect()
}

/// The style of a state.
pub fn style_of(state: PublicState) -> Style {
    let plain = Style::new();
    match state {
        PublicState::Completed => plain.green(),
        PublicState::Failed | PublicState::Expired => plain.red(),
        PublicState::Cancelled => plain.yellow(),
        PublicState::Active => plain.cyan(),
        PublicState::Waiting | PublicState::Delayed => plain.blue(),
        PublicState::WaitingChildren | PublicState::Suspended => plain.magenta(),
        PublicState::Skipped => plain.dim(),
    }
}

/// A state, in its colour on a terminal.
pub fn painted(state: PublicState) -> String {
    style_of(state).apply_to(state).to_string()
}

/// Less important, on a terminal.
pub fn dim(text: &str) -> String {
    style(text).dim().to_string()
}

/// The head of a part of a page.
pub fn section(name: &str, width: usize, out: &mut impl Write) -> io::Result<()> {
    let rule = "─".repeat(width.saturating_sub(name.len() + 1));
    writeln!(out, "\n{} {}", style(name).bold(), dim(&rule))
}
