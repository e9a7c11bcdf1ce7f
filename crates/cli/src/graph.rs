//! Graphs in a terminal: layers from left to right, with lines between what waits for what.
//!
//! ```text
//!            ┌─▸ ✓ swift ─┐
//! ✓ weigh ───┼─▸ ✓ north ─┼─▸ ✓ choose  2 of 3 ───▸ ● book
//!            └─▸ ⊘ tardy ─┘
//! ```
//!
//! What is too wide goes on below. What is too large, or would be a tangle, is a list by layers that
//! says for each node what it waits for.

mod canvas;
mod channel;
mod drawing;
mod layout;
mod outline;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::io::{self, Write};

use console::{Alignment, measure_text_width, pad_str};
use ff_core::ExecutionId;
use ff_core::state::PublicState;

use crate::output::{dim, style_of};

/// More nodes than these are listed.
const DRAWN_MAX: usize = 60;
/// Columns that one name may take.
const NAME_WIDTH_MAX: usize = 26;

/// A node as it is shown.
pub struct Node {
    /// Whose.
    pub id: ExecutionId,
    /// What it is called.
    pub name: String,
    /// Where it stands.
    pub state: PublicState,
    /// How many of those that lead to it it waits for.
    pub join: Option<String>,
}

/// Nodes in the order of their names, and which waits for which.
pub struct Graph {
    nodes: Vec<Node>,
    /// From what is waited for to what waits, by place in `nodes`.
    edges: Vec<(usize, usize)>,
}

impl Graph {
    /// The graph of `nodes` with edges between their ids. Edges to what is not there are left out.
    pub fn new(mut nodes: Vec<Node>, edges: &[(ExecutionId, ExecutionId)]) -> Self {
        for node in &mut nodes {
            let name = pad_str(&node.name, NAME_WIDTH_MAX, Alignment::Left, Some("…"));
            node.name = name.trim_end().to_owned();
        }
        nodes.sort_by(|a, b| natural(&a.name, &b.name).then(a.id.cmp(&b.id)));
        let places: BTreeMap<_, _> = nodes.iter().enumerate().map(|(at, n)| (n.id, at)).collect();
        let place = |(from, to): &(_, _)| Some((*places.get(from)?, *places.get(to)?));
        let mut edges: Vec<_> = edges.iter().filter_map(place).collect();
        edges.sort_unstable();
        edges.dedup();
        Self { nodes, edges }
    }

    /// Draws it, or lists it where a drawing says less; at most so wide.
    pub fn print(&self, out: &mut impl Write, width: usize, indent: &str) -> io::Result<()> {
        let layers = layout::layers(self.nodes.len(), &self.edges);
        let inner = width.saturating_sub(measure_text_width(indent));
        let small = self.nodes.len() <= DRAWN_MAX;
        let lines = small.then(|| drawing::draw(self, &layers, inner)).flatten();
        let lines = lines.unwrap_or_else(|| outline::list(self, &layers, inner));
        for line in lines {
            writeln!(out, "{}", format!("{indent}{line}").trim_end())?;
        }
        Ok(())
    }

    /// The nodes, layer by layer.
    pub fn order(&self) -> Vec<ExecutionId> {
        let layers = layout::layers(self.nodes.len(), &self.edges);
        let mut order: Vec<usize> = (0..self.nodes.len()).collect();
        order.sort_by_key(|node| layers[*node]);
        order.into_iter().map(|node| self.nodes[node].id).collect()
    }

    /// What the marks mean that are in the graph.
    pub fn legend(&self) -> String {
        let seen = |state: &&PublicState| self.nodes.iter().any(|node| node.state == **state);
        let states = PublicState::ALL.iter().filter(seen);
        let keys = states.map(|state| format!("{} {}", mark(*state), dim(state.as_str())));
        keys.collect::<Vec<_>>().join("  ")
    }
}

impl Node {
    /// Columns that it takes.
    fn width(&self) -> usize {
        let join = self.join.as_deref().map_or(0, |join| 2 + measure_text_width(join));
        2 + measure_text_width(&self.name) + join
    }
}

/// The mark of a state, in its colour.
pub fn mark(state: PublicState) -> String {
    style_of(state).apply_to(sign(state)).to_string()
}

/// The mark of a state. It is told apart without colours as well.
fn sign(state: PublicState) -> char {
    match state {
        PublicState::Waiting => '○',
        PublicState::Delayed => '◔',
        PublicState::WaitingChildren => '◌',
        PublicState::Active => '●',
        PublicState::Suspended => '◑',
        PublicState::Completed => '✓',
        PublicState::Failed => '✗',
        PublicState::Cancelled => '⊘',
        PublicState::Expired => '⊗',
        PublicState::Skipped => '↷',
    }
}

/// Orders names as people do: `shard-9` before `shard-10`.
fn natural(mut a: &str, mut b: &str) -> Ordering {
    loop {
        let (one, other) = (leading(a), leading(b));
        let order = match (number(one), number(other)) {
            (Some(one), Some(other)) => one.cmp(&other),
            (Some(_), None) | (None, Some(_) | None) => one.cmp(other),
        };
        // Numbers that are the same may be written differently.
        let order = order.then(one.len().cmp(&other.len()));
        if order != Ordering::Equal || one.is_empty() {
            return order;
        }
        (a, b) = (&a[one.len()..], &b[other.len()..]);
    }
}

/// A number as something to compare, however large: how many digits it has, and which.
fn number(text: &str) -> Option<(usize, &str)> {
    let digits = text.trim_start_matches('0');
    text.starts_with(|c: char| c.is_ascii_digit()).then_some((digits.len(), digits))
}

/// The digits, or the other characters, that a text begins with.
fn leading(text: &str) -> &str {
    let Some(first) = text.chars().next() else { return "" };
    let other = |c: char| c.is_ascii_digit() != first.is_ascii_digit();
    &text[..text.find(other).unwrap_or(text.len())]
}
