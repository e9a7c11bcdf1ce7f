//! Between two layers: which lines share an upright, and in which column each upright stands.
//!
//! A net is a set of rows on the left that all lead to the same set of rows on the right: one upright
//! with branches. Every line can be followed to where it leads and nowhere else: an upright has an arm
//! to the left where a line leads into it and one to the right where one leads out of it, and a level
//! line that goes on behind an upright without an arm to it passes under it.

use std::collections::{BTreeMap, BTreeSet};

use super::canvas::{DOWN, LEFT, RIGHT, UP};

/// Up to so many nets every order of the uprights is tried.
const TRIED_MAX: usize = 6;

/// Rows on the left that all lead to the same rows on the right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Net {
    /// Where it comes from.
    pub from: BTreeSet<usize>,
    /// Where it leads.
    pub to: BTreeSet<usize>,
}

/// The lines between two layers.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Channel {
    /// The nets that need an upright, and the column of it.
    pub nets: Vec<(usize, Net)>,
    /// Rows that lead straight across.
    level: BTreeSet<usize>,
    /// How often lines cross.
    pub crossings: usize,
}

impl Channel {
    /// Routes links from rows to rows; nothing if lines would lie on each other.
    pub fn route(links: &[(usize, usize)]) -> Option<Self> {
        let alone = |link: &&(usize, usize)| {
            let touch = |other: &&(usize, usize)| other.0 == link.0 || other.1 == link.1;
            link.0 == link.1 && links.iter().filter(touch).count() == 1
        };
        let level: BTreeSet<usize> = links.iter().filter(alone).map(|link| link.0).collect();
        let rest: Vec<_> = links.iter().filter(|link| !alone(link)).copied().collect();
        let (crossings, nets) = best(nets(&rest), &level)?;
        Some(Self { nets: columns(nets), level, crossings })
    }

    /// Columns of uprights.
    pub fn columns(&self) -> usize {
        self.nets.iter().map(|(column, _)| column + 1).max().unwrap_or(0)
    }

    /// The column of the last upright that a row on the left leads to.
    pub fn leaves(&self, row: usize) -> Option<usize> {
        self.nets.iter().filter(|(_, net)| net.from.contains(&row)).map(|(column, _)| *column).max()
    }

    /// The column of the first upright that leads to a row on the right.
    pub fn enters(&self, row: usize) -> Option<usize> {
        self.nets.iter().filter(|(_, net)| net.to.contains(&row)).map(|(column, _)| *column).min()
    }
}

impl Channel {
    /// Whether an upright stands in a column at a row.
    pub fn stands(&self, column: usize, row: usize) -> bool {
        let own = |(place, net): &(usize, Net)| {
            let (first, last) = net.span();
            *place == column && (first..=last).contains(&row)
        };
        self.nets.iter().any(own)
    }

    /// The sides of the upright of a net at a row.
    pub fn sides(&self, column: usize, net: &Net, row: usize) -> u8 {
        let (first, last) = net.span();
        let (enters, leaves) = (net.from.contains(&row), net.to.contains(&row));
        // Lines that go on are joined with the upright where nobody can be led astray: everything
        // on it leads to the same place, or comes from the same.
        let goes_on = enters && net.from.len() == 1 && self.leaves(row) > Some(column);
        let came = leaves && net.to.len() == 1 && self.enters(row) < Some(column);
        let arm = |side: u8, there: bool| if there { side } else { 0 };
        arm(UP, row > first)
            | arm(DOWN, row < last)
            | arm(LEFT, enters || came)
            | arm(RIGHT, leaves || goes_on)
    }
}

/// As few columns as do: uprights that have no row in common may share one.
fn columns(nets: Vec<Net>) -> Vec<(usize, Net)> {
    let mut placed: Vec<(usize, Net)> = Vec::new();
    for net in nets {
        let beside = placed.iter().filter(|(_, other)| net.meets(other));
        let column = beside.map(|(column, _)| column + 1).max().unwrap_or(0);
        placed.push((column, net));
    }
    placed
}

impl Net {
    /// The rows that it has to do with.
    pub fn rows(&self) -> impl Iterator<Item = usize> {
        self.from.union(&self.to).copied()
    }

    /// The first and the last row of its upright.
    pub fn span(&self) -> (usize, usize) {
        (self.rows().min().unwrap_or(0), self.rows().max().unwrap_or(0))
    }

    /// Whether the uprights of both have a row in common.
    fn meets(&self, other: &Self) -> bool {
        let ((first, last), (top, bottom)) = (self.span(), other.span());
        first <= bottom && top <= last
    }

    /// Whether its upright passes a row without having to do with it.
    pub fn passes(&self, row: usize) -> bool {
        let (first, last) = self.span();
        (first..=last).contains(&row) && !self.from.contains(&row) && !self.to.contains(&row)
    }
}

/// The fewest nets: all with the same targets together, or all with the same sources.
fn nets(links: &[(usize, usize)]) -> Vec<Net> {
    let turned: Vec<_> = links.iter().map(|(from, to)| (*to, *from)).collect();
    let by_target: Vec<_> =
        gathered(&turned).into_iter().map(|(to, from)| Net { from, to }).collect();
    let by_source: Vec<_> =
        gathered(links).into_iter().map(|(from, to)| Net { from, to }).collect();
    if by_target.len() < by_source.len() { by_target } else { by_source }
}

/// Firsts that have the same seconds, with these.
fn gathered(links: &[(usize, usize)]) -> Vec<(BTreeSet<usize>, BTreeSet<usize>)> {
    let mut seconds: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
    for (first, second) in links {
        seconds.entry(*first).or_default().insert(*second);
    }
    let mut firsts: BTreeMap<BTreeSet<usize>, BTreeSet<usize>> = BTreeMap::new();
    for (first, seconds) in seconds {
        firsts.entry(seconds).or_default().insert(first);
    }
    firsts.into_iter().map(|(seconds, firsts)| (firsts, seconds)).collect()
}

/// The order of the uprights with the fewest crossings, if there is one in which no lines lie on
/// each other.
fn best(nets: Vec<Net>, level: &BTreeSet<usize>) -> Option<(usize, Vec<Net>)> {
    let mut orders = if nets.len() <= TRIED_MAX { every_order(nets) } else { some_orders(nets) };
    orders.retain(|nets| is_clear(nets));
    let counted = orders.into_iter().map(|nets| (crossings(&nets, level), nets));
    counted.min_by_key(|(crossings, _)| *crossings)
}

fn every_order(nets: Vec<Net>) -> Vec<Vec<Net>> {
    if nets.len() <= 1 {
        return vec![nets];
    }
    let mut orders = Vec::new();
    for first in 0..nets.len() {
        let mut rest = nets.clone();
        let net = rest.remove(first);
        for mut order in every_order(rest) {
            order.insert(0, net.clone());
            orders.push(order);
        }
    }
    orders
}

/// What is likely to be good: those that lead up from top to bottom and those that lead down from
/// bottom to top, or the other way round.
fn some_orders(nets: Vec<Net>) -> Vec<Vec<Net>> {
    let middle = |rows: &BTreeSet<usize>| rows.iter().sum::<usize>() * 2 / rows.len().max(1);
    let (mut up, mut down): (Vec<_>, Vec<_>) =
        nets.into_iter().partition(|net| middle(&net.to) < middle(&net.from));
    up.sort_by_key(|net| net.from.first().copied());
    down.sort_by_key(|net| std::cmp::Reverse(net.from.first().copied()));
    let [ups, downs] = [up, down];
    let joined = |a: &[Net], b: &[Net]| [a, b].concat();
    let mut orders = vec![joined(&ups, &downs), joined(&downs, &ups)];
    let reversed = |order: &Vec<Net>| order.iter().rev().cloned().collect();
    orders.extend(orders.iter().map(reversed).collect::<Vec<_>>());
    orders
}

/// Whether no level line lies on another: a row whose left side leads to an upright right of the
/// first one that leads to its right side would be drawn twice.
fn is_clear(nets: &[Net]) -> bool {
    let rows = nets.iter().flat_map(|net| net.from.iter());
    rows.into_iter().all(|row| {
        let leaves = nets.iter().rposition(|net| net.from.contains(row));
        let enters = nets.iter().position(|net| net.to.contains(row));
        match (leaves, enters) {
            (Some(leaves), Some(enters)) => leaves <= enters,
            (None, _) | (_, None) => true,
        }
    })
}

/// How often level lines pass under uprights.
fn crossings(nets: &[Net], level: &BTreeSet<usize>) -> usize {
    let count = |(column, net): (usize, &Net)| {
        let (first, last) = net.span();
        let crossed = (first..=last).filter(|row| net.passes(*row)).filter(|row| {
            let left = nets.iter().rposition(|net| net.from.contains(row));
            let right = nets.iter().position(|net| net.to.contains(row));
            level.contains(row)
                || left.is_some_and(|last| last > column)
                || right.is_some_and(|first| first < column)
        });
        crossed.count()
    };
    nets.iter().enumerate().map(count).sum()
}
