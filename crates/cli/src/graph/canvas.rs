//! Cells of a terminal: lines that join where they meet, and text.

use console::{Style, measure_text_width};

/// Towards which sides of its cell a line leads.
pub const UP: u8 = 1;
pub const RIGHT: u8 = 2;
pub const DOWN: u8 = 4;
pub const LEFT: u8 = 8;

/// The characters for all combinations of sides.
const LINES: [char; 16] =
    [' ', '│', '─', '└', '│', '│', '┌', '├', '─', '┘', '─', '┴', '┐', '┤', '┬', '┼'];

/// What is in a cell.
#[derive(Clone)]
enum Cell {
    /// Lines, or nothing.
    Line(u8),
    /// A character in a style, by its number.
    Text(char, usize),
    /// The rest of a wide character.
    Taken,
}

/// Rows of cells.
pub struct Canvas {
    rows: Vec<Vec<Cell>>,
    styles: Vec<Style>,
}

impl Canvas {
    /// An empty one. Lines are less important than text.
    pub fn new(rows: usize, columns: usize) -> Self {
        let rows = vec![vec![Cell::Line(0); columns]; rows];
        Self { rows, styles: vec![Style::new().dim()] }
    }

    /// Adds lines to a cell.
    pub fn line(&mut self, row: usize, column: usize, sides: u8) {
        if let Some(Cell::Line(all)) = self.cell(row, column) {
            *all |= sides;
        }
    }

    /// A level line from a column up to another.
    pub fn level(&mut self, row: usize, columns: std::ops::Range<usize>) {
        for column in columns {
            self.line(row, column, LEFT | RIGHT);
        }
    }

    /// Writes a text; the column after it.
    pub fn text(&mut self, row: usize, column: usize, text: &str, style: Style) -> usize {
        let number = self.styles.len();
        self.styles.push(style);
        self.write(row, column, text, number)
    }

    /// Writes a text like a line; the column after it.
    pub fn faint(&mut self, row: usize, column: usize, text: &str) -> usize {
        self.write(row, column, text, 0)
    }

    fn write(&mut self, row: usize, mut column: usize, text: &str, style: usize) -> usize {
        for c in text.chars() {
            let width = measure_text_width(c.encode_utf8(&mut [0; 4]));
            for part in 0..width {
                if let Some(cell) = self.cell(row, column + part) {
                    *cell = if part == 0 { Cell::Text(c, style) } else { Cell::Taken };
                }
            }
            column += width;
        }
        column
    }

    fn cell(&mut self, row: usize, column: usize) -> Option<&mut Cell> {
        self.rows.get_mut(row)?.get_mut(column)
    }

    /// Lines of text, styled, without blanks at their ends.
    pub fn lines(&self) -> Vec<String> {
        self.rows.iter().map(|row| self.painted(row)).collect()
    }

    fn painted(&self, row: &[Cell]) -> String {
        let used = row.iter().rposition(|cell| !matches!(cell, Cell::Line(0)));
        let row = &row[..used.map_or(0, |last| last + 1)];
        let runs = row.chunk_by(|a, b| style_of(a) == style_of(b));
        let painted = runs.map(|run| {
            let text: String = run.iter().filter_map(char_of).collect();
            let style = run.first().and_then(style_of).and_then(|number| self.styles.get(number));
            style.map_or_else(|| text.clone(), |style| style.apply_to(&text).to_string())
        });
        painted.collect()
    }
}

fn char_of(cell: &Cell) -> Option<char> {
    match cell {
        Cell::Line(sides) => Some(LINES[usize::from(*sides & 15)]),
        Cell::Text(c, _) => Some(*c),
        Cell::Taken => None,
    }
}

/// The style of a cell; blanks have none.
fn style_of(cell: &Cell) -> Option<usize> {
    match cell {
        Cell::Line(0) | Cell::Taken => None,
        Cell::Line(_) => Some(0),
        Cell::Text(_, style) => Some(*style),
    }
}
