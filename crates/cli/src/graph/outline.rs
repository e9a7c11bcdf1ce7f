//! A graph as a list: layer by layer, with what each node waits for.

use std::collections::BTreeMap;

use console::{measure_text_width, truncate_str};
use ff_core::state::PublicState;

use super::{Graph, Node, mark};
use crate::output::{dim, style_of};

/// Layers that are listed.
const LAYERS_MAX: usize = 100;
/// Nodes of one group that are named.
const NAMED_MAX: usize = 60;
/// Columns between two names.
const GAP: usize = 2;

/// Lists it, so wide.
pub fn list(graph: &Graph, layer_of: &[usize], width: usize) -> Vec<String> {
    let mut upstream: Vec<Vec<usize>> = vec![Vec::new(); graph.nodes.len()];
    for (from, to) in &graph.edges {
        upstream[*to].push(*from);
    }
    let mut lines = Vec::new();
    let layers = layer_of.iter().max().map_or(0, |last| last + 1);
    for layer in 0..layers.min(LAYERS_MAX) {
        let own: Vec<usize> =
            (0..graph.nodes.len()).filter(|node| layer_of[*node] == layer).collect();
        lines.push(head(graph, layer, &own));
        // Those that wait for the same are told together.
        let mut groups: BTreeMap<(&[usize], Option<&str>), Vec<&Node>> = BTreeMap::new();
        for node in own {
            let join = graph.nodes[node].join.as_deref();
            groups.entry((&upstream[node], join)).or_default().push(&graph.nodes[node]);
        }
        for ((upstream, join), nodes) in groups {
            lines.extend(group(graph, &nodes, (upstream, join), width));
        }
    }
    if layers > LAYERS_MAX {
        lines.push(dim(&format!("and {} more layers", layers - LAYERS_MAX)));
    }
    lines
}

/// How many there are in a layer, and in which states.
fn head(graph: &Graph, layer: usize, own: &[usize]) -> String {
    let mut states: BTreeMap<PublicState, usize> = BTreeMap::new();
    for node in own {
        *states.entry(graph.nodes[*node].state).or_default() += 1;
    }
    let counts = states.iter().map(|(state, n)| style_of(*state).apply_to(format!("{n} {state}")));
    let counts = counts.map(|count| count.to_string()).collect::<Vec<_>>().join(", ");
    format!("{} {counts}", dim(&format!("layer {layer}:")))
}

/// Nodes that wait for the same.
fn group(
    graph: &Graph,
    nodes: &[&Node],
    (upstream, join): (&[usize], Option<&str>),
    width: usize,
) -> Vec<String> {
    let join = join.map_or_else(String::new, |join| format!("{join} "));
    let names = upstream.iter().map(|node| graph.nodes[*node].name.as_str());
    let from = names.collect::<Vec<_>>().join(", ");
    let waits = if upstream.is_empty() { String::new() } else { format!("{join}<- {from}") };
    if let [node] = nodes {
        let own = told(node);
        let left = width.saturating_sub(measure_text_width(&own) + 4);
        let waits = if waits.is_empty() { waits } else { dim(&truncate_str(&waits, left, "…")) };
        return vec![format!("  {own}  {waits}")];
    }
    let mut lines = names_in_columns(nodes, width);
    if !waits.is_empty() {
        lines.push(format!("    {}", dim(&truncate_str(&waits, width.saturating_sub(4), "…"))));
    }
    lines
}

fn told(node: &Node) -> String {
    format!("{} {}", mark(node.state), style_of(node.state).apply_to(&node.name))
}

/// Names beside each other. Where not all are named, those that ended well come last.
fn names_in_columns(nodes: &[&Node], width: usize) -> Vec<String> {
    let mut nodes = nodes.to_vec();
    if nodes.len() > NAMED_MAX {
        nodes.sort_by_key(|node| urgency(node.state));
    }
    let hidden = nodes.len().saturating_sub(NAMED_MAX);
    nodes.truncate(NAMED_MAX);
    let widest = nodes.iter().map(|node| 2 + measure_text_width(&node.name)).max().unwrap_or(1);
    let columns = (width.saturating_sub(2) / (widest + GAP)).max(1);
    let mut lines = Vec::new();
    for row in nodes.chunks(columns) {
        let cells = row.iter().map(|node| {
            let blanks = widest.saturating_sub(2 + measure_text_width(&node.name)) + GAP;
            told(node) + &" ".repeat(blanks)
        });
        lines.push(format!("  {}", cells.collect::<String>()));
    }
    if hidden > 0 {
        lines.push(format!("  {}", dim(&format!("and {hidden} more"))));
    }
    lines
}

/// What a person looks for first.
fn urgency(state: PublicState) -> u8 {
    match state {
        PublicState::Failed | PublicState::Expired => 0,
        PublicState::Cancelled => 1,
        // Somebody may have to do something.
        PublicState::Suspended => 2,
        PublicState::Active => 3,
        PublicState::Waiting | PublicState::Delayed | PublicState::WaitingChildren => 4,
        PublicState::Skipped => 5,
        PublicState::Completed => 6,
    }
}
