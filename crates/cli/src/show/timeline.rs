//! The timeline: attempts as bars on one scale, with what they did inside.
//!
//! ```text
//!               0           500 ms      1 s         1.5 s
//!               ├───────────┼───────────┼───────────┼────┤
//!   attempt 0   ··███░░░░░░░░░░░░░░░░░░░░██████             1.31 s
//!     validate    ▄                                          20 ms
//!     sleep        ░░░░░░░░░░░░░░░░░░░░                       1 s
//!     charge                             ▄▄▄▄               210 ms
//! ```
//!
//! What waits is dotted, what runs is solid, and what has given its slot back is light.

use std::io::{self, Write};

use console::{Alignment, Style, pad_str};
use ff_core::Millis;
use ff_core::execution::AttemptOutcome;
use ff_core::step::StepKind;
use ff_core::suspension::Effect;
use ff_wire::event::Event;
use ff_wire::snapshot::AttemptLine;
use ff_wire::{History, StepLine};

use super::waits::{Part, part_of};
use super::wakes_at;
use crate::output::{clean, dim};
use crate::span;

/// Steps of one attempt that are drawn.
const STEPS_DRAWN_MAX: usize = 24;
/// Columns for labels.
const LABELS: std::ops::RangeInclusive<usize> = 11..=28;
/// Columns for lengths of time, behind the bars.
const LENGTHS: usize = 9;
/// Columns that one tick of the axis takes at least.
const TICK_WIDTH_MIN: u64 = 11;

/// Attempts and steps of an execution, from its creation to its end or until now.
pub struct Timeline<'h> {
    history: &'h History,
    born: Millis,
    until: Millis,
}

/// One line of the drawing.
struct Bar {
    label: String,
    /// What it waited for its turn, ran, or both, each from when to when.
    parts: Vec<(Look, u64, u64)>,
    length: String,
}

/// What a part of a bar looks like.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Look {
    Waits,
    Runs(Option<AttemptOutcome>),
    Steps,
    Sleeps,
}

impl<'h> Timeline<'h> {
    /// The timeline of a history at `now`.
    pub fn new(history: &'h History, now: Millis) -> Self {
        let x = &history.snapshot;
        let born = x.created_at;
        let until = x.completed_at.unwrap_or(now).max(born.plus(1));
        Self { history, born, until }
    }

    /// Draws it, so wide.
    pub fn print(&self, out: &mut impl Write, width: usize) -> io::Result<()> {
        let bars = self.bars();
        let widest = bars.iter().map(|bar| console::measure_text_width(&bar.label)).max();
        // Labels take at most a third of the line.
        let labels = widest.unwrap_or(0).clamp(*LABELS.start(), (*LABELS.end()).min(width / 3));
        let canvas = width.saturating_sub(2 + labels + 2 + 1 + LENGTHS).max(10);
        let scale = Scale { total: self.until.since(self.born), width: canvas };
        let margin = " ".repeat(2 + labels + 2);
        let (ticks, rule) = scale.axis();
        writeln!(out, "{margin}{}", dim(&ticks))?;
        writeln!(out, "{margin}{}", dim(&rule))?;
        for bar in bars {
            let label = pad_str(&bar.label, labels, Alignment::Left, Some("…")).into_owned();
            let length = pad_str(&bar.length, LENGTHS, Alignment::Right, None).into_owned();
            writeln!(out, "  {label}  {} {}", scale.draw(&bar.parts), dim(&length))?;
        }
        Ok(())
    }

    /// How long after the creation.
    fn since(&self, at: Millis) -> u64 {
        at.min(self.until).since(self.born)
    }

    fn bars(&self) -> Vec<Bar> {
        let mut bars = Vec::new();
        let mut free = 0;
        for line in &self.history.attempts {
            let begun = self.since(line.started_at);
            let ended = self.since(line.ended_at.unwrap_or(self.until));
            bars.push(self.attempt(line, free));
            let steps = self.drawn(line.index);
            let hidden = steps.len().saturating_sub(STEPS_DRAWN_MAX);
            let shown = steps.iter().take(STEPS_DRAWN_MAX);
            bars.extend(shown.map(|step| self.step(step, (begun, ended))));
            if hidden > 0 {
                let label = format!("  and {hidden} more");
                bars.push(Bar { label, parts: Vec::new(), length: String::new() });
            }
            free = ended;
        }
        let x = &self.history.snapshot;
        let idle = self.history.attempts.last().is_none_or(|line| line.ended_at.is_some());
        let end = self.since(self.until);
        if idle && end > free && (x.completed_at.is_none() || self.history.attempts.is_empty()) {
            let label = x.public_state.to_string();
            let length = span::length(end - free);
            bars.push(Bar { label, parts: vec![(Look::Waits, free, end)], length });
        }
        bars
    }

    /// An attempt, after what it waited since `free`.
    fn attempt(&self, line: &AttemptLine, free: u64) -> Bar {
        let begun = self.since(line.started_at);
        let ended = self.since(line.ended_at.unwrap_or(self.until));
        let mut parts =
            vec![(Look::Waits, free.min(begun), begun), (Look::Runs(line.outcome), begun, ended)];
        let sleeps = self
            .history
            .steps
            .iter()
            .filter(|step| step.attempt_index == line.index && step.kind == StepKind::Sleep);
        parts.extend(sleeps.filter_map(|step| {
            let until = self.since(wakes_at(step)?).min(ended);
            Some((Look::Sleeps, self.since(step.at), until))
        }));
        let waits = self.suspensions(line.index).into_iter();
        parts.extend(waits.map(|(from, to)| (Look::Sleeps, from.max(begun), to.min(ended))));
        let length = span::length(ended - begun);
        Bar { label: format!("attempt {}", line.index), parts, length }
    }

    /// When an attempt was suspended, from when to when: until its answer was recorded, or, for a
    /// worker that records none, until it was let go on.
    fn suspensions(&self, attempt: u32) -> Vec<(u64, u64)> {
        let steps = self.history.steps.iter().filter(|step| step.attempt_index == attempt);
        let mut spans: Vec<_> = steps.filter_map(|step| self.wait(step)).collect();
        let mut since = None;
        for fed in &self.history.events {
            match &fed.event {
                Event::Suspended { attempt_index, .. } if *attempt_index == attempt => {
                    since = Some(self.since(fed.at));
                }
                Event::Signal { effect: Effect::ConditionSatisfied, .. }
                | Event::Resumed { .. }
                | Event::Completion { .. } => {
                    spans.extend(since.take().map(|since| (since, self.since(fed.at))));
                }
                Event::Suspended { .. }
                | Event::Signal { .. }
                | Event::Escalated
                | Event::AttemptFailed { .. }
                | Event::LeaseExpired { .. }
                | Event::LeaseRevoked { .. }
                | Event::LeaseReclaimed { .. }
                | Event::PriorityChanged { .. }
                | Event::Replayed { .. }
                | Event::Held { .. }
                | Event::Unheld
                | Event::FlowCancelRequested { .. }
                | Event::FlowEnded { .. }
                | Event::FlowReopened => {}
            }
        }
        spans.extend(since.map(|since| (since, self.since(self.until))));
        spans
    }

    /// From when to when a wait lasts, if the step is its question.
    fn wait(&self, step: &StepLine) -> Option<(u64, u64)> {
        if step.kind != StepKind::Wait {
            return None;
        }
        match part_of(&self.history.steps, step) {
            Part::Question(answer) => {
                let until = answer.map_or(self.until, |answer| answer.at);
                Some((self.since(step.at), self.since(until)))
            }
            Part::Answer => None,
        }
    }

    /// The steps of an attempt that take time.
    fn drawn(&self, attempt: u32) -> Vec<&'h StepLine> {
        let mine = |step: &&StepLine| step.attempt_index == attempt;
        let lasting = |step: &&StepLine| match step.kind {
            StepKind::Run | StepKind::Sleep => true,
            // Found at once, and recorded with the next; children are drawn where they ran.
            StepKind::Now
            | StepKind::Random
            | StepKind::Waitpoint
            | StepKind::Children
            | StepKind::Race
            | StepKind::Timeout
            | StepKind::Generation => false,
            StepKind::Wait => self.wait(step).is_some(),
        };
        self.history.steps.iter().filter(mine).filter(lasting).collect()
    }

    /// A step, inside its attempt.
    fn step(&self, step: &StepLine, (begun, ended): (u64, u64)) -> Bar {
        let at = self.since(step.at);
        let sleep = wakes_at(step).filter(|_| step.kind == StepKind::Sleep);
        let asleep = sleep.map(|until| (at, self.since(until)));
        let (look, from, to) = match asleep.or_else(|| self.wait(step)) {
            Some((from, to)) => (Look::Sleeps, from, to.min(ended)),
            // How long it ran is by the worker's clock, when it was recorded by the store's.
            None => (Look::Steps, at.saturating_sub(step.ran_ms).max(begun.min(at)), at),
        };
        let length = if look == Look::Sleeps { to.saturating_sub(from) } else { step.ran_ms };
        let label = format!("  {}", clean(&step.name));
        Bar { label, parts: vec![(look, from, to)], length: span::length(length) }
    }
}

/// From milliseconds to columns.
struct Scale {
    total: u64,
    width: usize,
}

impl Scale {
    fn columns(&self) -> u64 {
        u64::try_from(self.width).unwrap_or(0)
    }

    /// The column in which a moment lies.
    fn column(&self, ms: u64) -> usize {
        let column = u128::from(ms) * u128::from(self.columns()) / u128::from(self.total.max(1));
        usize::try_from(column).unwrap_or(self.width).min(self.width)
    }

    /// Parts on one line; later ones are drawn over earlier ones. Whatever happened has a column.
    fn draw(&self, parts: &[(Look, u64, u64)]) -> String {
        let mut cells: Vec<Option<Look>> = vec![None; self.width];
        for (look, from, to) in parts.iter().filter(|(look, from, to)| look.is_seen(*from, *to)) {
            let first = self.column(*from).min(self.width - 1);
            let end = self.column(*to).max(first + 1);
            cells[first..end].fill(Some(*look));
        }
        let runs = cells.chunk_by(|a, b| a == b);
        let drawn = runs.map(|run| match run[0] {
            None => " ".repeat(run.len()),
            Some(look) => {
                let text = look.mark().to_string().repeat(run.len());
                look.style().apply_to(text).to_string()
            }
        });
        drawn.collect()
    }

    /// Moments in whole units, and the line they stand on.
    fn axis(&self) -> (String, String) {
        let step = self.step();
        let mut ticks = String::new();
        let mut rule: Vec<char> = vec!['─'; self.width];
        for at in (0..=self.total).step_by(usize::try_from(step).unwrap_or(usize::MAX)) {
            let column = self.column(at).min(self.width - 1);
            let label = span::tick(at);
            if column + label.chars().count() <= self.width {
                rule[column] = '┼';
                let gap = column.saturating_sub(ticks.chars().count());
                ticks += &" ".repeat(gap);
                ticks += &label;
            }
        }
        rule[0] = '├';
        rule[self.width - 1] = '┤';
        (ticks, rule.into_iter().collect())
    }

    /// The time between two ticks: a round one that leaves room for what is written at them.
    fn step(&self) -> u64 {
        let fits = |step: &u64| self.total / step <= (self.columns() / TICK_WIDTH_MIN).max(1);
        let decimal = (0..).map(|exponent| 10_u64.saturating_pow(exponent));
        let below = decimal.flat_map(|power| [power, 2 * power, 5 * power]);
        let mut below = below.take_while(|step| *step < 60_000);
        let sexagesimal = [1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720].map(|m| m * 60_000);
        let days = (0..).map(|exponent| 86_400_000_u64 << exponent);
        let above = sexagesimal.into_iter().chain(days.take(30));
        below.find(fits).or_else(|| above.into_iter().find(fits)).unwrap_or(self.total)
    }
}

impl Look {
    /// Waiting for no time is not worth a column.
    fn is_seen(self, from: u64, to: u64) -> bool {
        match self {
            Self::Waits | Self::Sleeps => to > from,
            Self::Runs(_) | Self::Steps => true,
        }
    }

    fn mark(self) -> char {
        match self {
            Self::Waits => '·',
            Self::Runs(_) => '█',
            Self::Steps => '▄',
            Self::Sleeps => '░',
        }
    }

    fn style(self) -> Style {
        let plain = Style::new();
        match self {
            Self::Waits => plain.dim(),
            Self::Sleeps | Self::Steps => plain.blue(),
            Self::Runs(Some(AttemptOutcome::Success)) => plain.green(),
            Self::Runs(Some(AttemptOutcome::Failure)) => plain.red(),
            Self::Runs(Some(AttemptOutcome::Cancelled | AttemptOutcome::Interrupted)) => {
                plain.yellow()
            }
            Self::Runs(None) => plain.cyan(),
        }
    }
}

#[cfg(test)]
#[allow(clippy::needless_raw_string_hashes, reason = "what UPDATE_EXPECT=1 writes")]
mod tests {
    use super::*;

    #[test]
    fn an_axis_has_round_moments_that_do_not_touch() {
        let totals = [1, 7, 950, 2_360, 61_000, 5_400_000, 200_000_000, 31_536_000_000];
        let mut drawn = String::new();
        for total in totals {
            let (ticks, rule) = Scale { total, width: 55 }.axis();
            assert_eq!(rule.chars().count(), 55);
            drawn += &[&ticks, "\n", &rule, "\n"].concat();
        }
        expect_test::expect![[r#"
            0
            ├─────────────────────────────────────────────────────┤
            0              2 ms            4 ms            6 ms
            ├──────────────┼───────────────┼───────────────┼──────┤
            0          200 ms      400 ms     600 ms      800 ms
            ├──────────┼───────────┼──────────┼───────────┼───────┤
            0          500 ms      1 s        1.5 s       2 s
            ├──────────┼───────────┼──────────┼───────────┼───────┤
            0                 20 s              40 s
            ├─────────────────┼─────────────────┼─────────────────┤
            0                 30m               1h
            ├─────────────────┼─────────────────┼─────────────────┤
            0          12h         1d          36h         2d
            ├──────────┼───────────┼───────────┼───────────┼──────┤
            0        64d       128d     192d      256d      320d
            ├────────┼─────────┼────────┼─────────┼─────────┼─────┤
        "#]]
        .assert_eq(&drawn);
    }

    #[test]
    fn whatever_happened_has_a_column() {
        let scale = Scale { total: 1_000, width: 10 };
        let run = Look::Runs(None);
        for (parts, drawn) in [
            (vec![(run, 0, 1_000)], "██████████"),
            (vec![(run, 1_000, 1_000)], "         █"),
            (vec![(Look::Waits, 0, 0), (run, 0, 3)], "█         "),
            (vec![(Look::Waits, 0, 300), (run, 300, 900), (Look::Sleeps, 500, 700)], "···██░░██ "),
        ] {
            assert_eq!(scale.draw(&parts), drawn);
        }
    }
}
