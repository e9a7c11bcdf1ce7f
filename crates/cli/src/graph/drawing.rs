//! A layout as lines of text. Layers that do not fit beside each other go on below.

use std::ops::Range;

use super::canvas::{Canvas, LEFT, RIGHT};
use super::channel::Channel;
use super::layout::{Item, Layout, What};
use super::{Graph, sign};
use crate::output::style_of;

/// Lines that cross more often are a tangle.
const CROSSINGS_MAX: usize = 40;
/// Rows of a drawing.
const ROWS_MAX: usize = 80;
/// Before the arrow, after the channel: `▸ `.
const ARROW: &str = "▸ ";
/// Where a line goes on below.
const ON: &str = "┄";

/// Draws a graph; nothing if that would not fit, or be a tangle.
pub fn draw(graph: &Graph, layer_of: &[usize], width: usize) -> Option<Vec<String>> {
    let layout = Layout::new(layer_of, &graph.edges);
    let rows = |(layer, links): (usize, &Vec<(usize, usize)>)| {
        let row = |layer: usize, place: usize| layout.layers[layer][place].row;
        links.iter().map(|(a, b)| (row(layer, *a), row(layer + 1, *b))).collect::<Vec<_>>()
    };
    let channels = layout.links.iter().enumerate().map(rows).map(|links| Channel::route(&links));
    let channels: Vec<Channel> = channels.collect::<Option<_>>()?;
    let tangled = channels.iter().map(|channel| channel.crossings).sum::<usize>() > CROSSINGS_MAX;
    let height = layout.layers.iter().flatten().map(|item| item.row + 1).max()?;
    if tangled || height > ROWS_MAX {
        return None;
    }
    let drawing = Drawing { graph, layout: &layout, channels: &channels };
    let mut lines = Vec::new();
    for band in drawing.bands(width)? {
        if !lines.is_empty() {
            lines.push(String::new());
        }
        lines.extend(drawing.band(band, height, width));
    }
    Some(lines)
}

struct Drawing<'g> {
    graph: &'g Graph,
    layout: &'g Layout,
    channels: &'g [Channel],
}

impl Drawing<'_> {
    /// Layers that fit beside each other, from the first to the last; nothing if one does not fit.
    fn bands(&self, width: usize) -> Option<Vec<Range<usize>>> {
        let mut bands: Vec<Range<usize>> = Vec::new();
        let mut taken = 0;
        for layer in 0..self.layout.layers.len() {
            let (before, own) = (self.before(layer), self.widest(layer));
            // A blank, a line and the mark that it goes on.
            let on = if layer + 1 < self.layout.layers.len() { 3 } else { 0 };
            match bands.last_mut() {
                Some(band) if taken + 1 + before + own + on <= width => {
                    band.end = layer + 1;
                    taken += 1 + before + own;
                }
                Some(_) | None => {
                    // What came before ends in a mark, from which it goes on.
                    taken = if layer == 0 { own } else { 1 + before + own };
                    if taken + on > width {
                        return None;
                    }
                    bands.push(layer..layer + 1);
                }
            }
        }
        Some(bands)
    }

    /// Columns between a layer and the one before it, after the blank that follows its nodes.
    fn before(&self, layer: usize) -> usize {
        let channel = layer.checked_sub(1).and_then(|before| self.channels.get(before));
        channel.map_or(0, |channel| lines_width(channel) + ARROW.chars().count())
    }

    /// Columns of the widest node of a layer.
    fn widest(&self, layer: usize) -> usize {
        let width = |item: &Item| match item.what {
            What::Node(node) => self.graph.nodes[node].width(),
            What::Pass(_) => 0,
        };
        self.layout.layers[layer].iter().map(width).max().unwrap_or(0)
    }

    fn band(&self, band: Range<usize>, height: usize, width: usize) -> Vec<String> {
        let mut canvas = Canvas::new(height, width);
        let mut column = 0;
        let mut used: Vec<usize> = Vec::new();
        let last = self.layout.layers.len() - 1;
        for layer in band.clone() {
            if layer > 0 {
                if layer == band.start {
                    for row in self.leaving(layer - 1) {
                        canvas.faint(row, 0, ON);
                        used.push(row);
                    }
                }
                self.channel(&mut canvas, layer - 1, column + 1);
                column += 1 + self.before(layer);
            }
            let (items, end) = (&self.layout.layers[layer], column + self.widest(layer));
            let leaving = if layer == last { Vec::new() } else { self.leaving(layer) };
            for item in items {
                self.item(&mut canvas, item, column..end, leaving.contains(&item.row));
                used.push(item.row);
            }
            column = end;
            if layer + 1 == band.end {
                for row in leaving {
                    canvas.level(row, column + 1..column + 2);
                    canvas.faint(row, column + 2, ON);
                }
            }
        }
        let first = used.iter().min().copied().unwrap_or(0);
        let count = used.iter().max().map_or(0, |last| last + 1 - first);
        canvas.lines().into_iter().skip(first).take(count).collect()
    }

    /// The rows from which lines lead on from a layer.
    fn leaving(&self, layer: usize) -> Vec<usize> {
        let items = &self.layout.layers[layer];
        let leads = |(place, _): &(usize, &Item)| {
            self.layout.links[layer].iter().any(|(from, _)| from == place)
        };
        items.iter().enumerate().filter(leads).map(|(_, item)| item.row).collect()
    }

    /// A node with the line that leaves it, or a line that passes.
    fn item(&self, canvas: &mut Canvas, item: &Item, columns: Range<usize>, leads: bool) {
        let row = item.row;
        let What::Node(node) = item.what else {
            // It also fills what nodes leave free before them.
            return canvas
                .level(row, columns.start.saturating_sub(ARROW.chars().count())..columns.end + 1);
        };
        let node = &self.graph.nodes[node];
        let style = style_of(node.state);
        let text = format!("{} {}", sign(node.state), node.name);
        let mut end = canvas.text(row, columns.start, &text, style);
        if let Some(join) = &node.join {
            end = canvas.faint(row, end + 2, join);
        }
        if leads {
            canvas.level(row, (end + 1).min(columns.end + 1)..columns.end + 1);
        }
    }

    /// The lines between a layer and the next, from a column on.
    fn channel(&self, canvas: &mut Canvas, layer: usize, column: usize) {
        let channel = &self.channels[layer];
        let upright = |place: usize| column + 1 + 2 * place;
        let end = column + lines_width(channel);
        for (place, net) in &channel.nets {
            let (first, last) = net.span();
            for row in first..=last {
                canvas.line(row, upright(*place), channel.sides(*place, net, row));
            }
        }
        // A level line passes under uprights that have nothing to do with it.
        let mut level = |row: usize, from: usize, until: usize| {
            let is_free = |at: &usize| {
                !(0..channel.columns())
                    .any(|place| upright(place) == *at && channel.stands(place, row))
            };
            (from..until).filter(is_free).for_each(|at| canvas.line(row, at, LEFT | RIGHT));
        };
        for row in self.leaving(layer) {
            level(row, column, channel.leaves(row).map_or(end, upright));
        }
        let next = &self.layout.layers[layer + 1];
        let entered = next.iter().filter(|item| self.is_entered(layer, item));
        for item in entered.clone() {
            if let Some(place) = channel.enters(item.row) {
                level(item.row, upright(place) + 1, end);
            }
        }
        for item in entered.filter(|item| matches!(item.what, What::Node(_))) {
            canvas.faint(item.row, end, ARROW);
        }
    }

    fn is_entered(&self, layer: usize, item: &Item) -> bool {
        let to = |link: &(usize, usize)| self.layout.layers[layer + 1][link.1].row == item.row;
        self.layout.links[layer].iter().any(to)
    }
}

/// Columns of the lines between two layers: an upright has a column to either side.
fn lines_width(channel: &Channel) -> usize {
    (2 * channel.columns() + 1).max(2)
}
