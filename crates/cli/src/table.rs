//! Tables: columns as wide as what is in them, the last one cut to the width that is left.

use std::io::{self, Write};

use console::{Alignment, measure_text_width, pad_str, truncate_str};
use serde::Serialize;

use crate::output::{self, Format, Output, dim};

/// Columns that one cell may take, unless it is the last.
const CELL_WIDTH_MAX: usize = 28;
/// Columns between two cells.
const GAP: &str = "  ";

/// A column.
#[derive(Clone, Copy)]
pub struct Column {
    name: &'static str,
    alignment: Alignment,
}

/// A column of words.
pub const fn left(name: &'static str) -> Column {
    Column { name, alignment: Alignment::Left }
}

/// A column of numbers.
pub const fn right(name: &'static str) -> Column {
    Column { name, alignment: Alignment::Right }
}

/// Prints a short list in the form that was asked for. The first cell of a row says which it is; where
/// there is none, `nothing` says so.
pub fn list<const N: usize>(
    form: Output,
    whole: &impl Serialize,
    (columns, nothing): (&[Column; N], &str),
    rows: impl Iterator<Item = [String; N]>,
) -> anyhow::Result<()> {
    let mut out = io::stdout();
    let form = form.output.or_else(|| output::is_terminal().then_some(Format::Table));
    match form {
        Some(Format::Json) => output::json(whole)?,
        Some(Format::Ids) => {
            for cells in rows {
                writeln!(out, "{}", cells[0])?;
            }
        }
        Some(Format::Table) => {
            let mut table = Table::new(columns);
            rows.for_each(|cells| table.row(cells));
            if table.rows.is_empty() {
                return Ok(writeln!(out, "{nothing}")?);
            }
            table.print(&mut out, output::width(), "")?;
        }
        None => {
            for cells in rows {
                writeln!(out, "{}", cells.join("\t"))?;
            }
        }
    }
    Ok(())
}

/// Rows under a head.
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// No rows yet.
    pub fn new(columns: &[Column]) -> Self {
        Self { columns: columns.to_vec(), rows: Vec::new() }
    }

    /// One more row, with a cell for each column.
    pub fn row(&mut self, cells: impl Into<Vec<String>>) {
        let cells = cells.into();
        debug_assert_eq!(cells.len(), self.columns.len(), "a cell for each column");
        self.rows.push(cells);
    }

    /// Prints it, at most so wide, behind an indent.
    pub fn print(&self, out: &mut impl Write, width: usize, indent: &str) -> io::Result<()> {
        let widths: Vec<usize> = (0..self.columns.len()).map(|at| self.width_of(at)).collect();
        let head = self.columns.iter().map(|column| dim(column.name)).collect();
        for row in std::iter::once(&head).chain(&self.rows) {
            let line = self.line(row, &widths, width.saturating_sub(indent.len()));
            writeln!(out, "{indent}{}", line.trim_end())?;
        }
        Ok(())
    }

    fn width_of(&self, at: usize) -> usize {
        let cells = self.rows.iter().map(|row| measure_text_width(&row[at]));
        let widest = cells.max().unwrap_or(0).min(CELL_WIDTH_MAX);
        widest.max(self.columns[at].name.len())
    }

    fn line(&self, row: &[String], widths: &[usize], width: usize) -> String {
        let mut line = String::new();
        for (at, cell) in row.iter().enumerate() {
            let left = width.saturating_sub(measure_text_width(&line));
            if at + 1 == row.len() && self.columns[at].alignment == Alignment::Left {
                line += &truncate_str(cell, left, "…");
            } else {
                let alignment = self.columns[at].alignment;
                line += &pad_str(cell, widths[at], alignment, Some("…"));
                line += GAP;
            }
        }
        line
    }
}
