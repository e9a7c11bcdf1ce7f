//! Where everything stands: in which layer, in which order, in which row.
//!
//! A layer is the longest way from a node that waits for nothing. An edge over several layers passes
//! through each of them in a row of its own, which all such edges of one node share.

use std::collections::BTreeMap;

/// How often the order is bettered, forwards and backwards.
const SWEEPS: usize = 6;

/// The layer of each node. What is in a circle, which no flow has, is in the first.
pub fn layers(count: usize, edges: &[(usize, usize)]) -> Vec<usize> {
    let mut layers = vec![0; count];
    let mut waits = vec![0_usize; count];
    let mut follow: Vec<Vec<usize>> = vec![Vec::new(); count];
    for (from, to) in edges {
        waits[*to] += 1;
        follow[*from].push(*to);
    }
    let mut free: Vec<usize> = (0..count).filter(|node| waits[*node] == 0).collect();
    while let Some(node) = free.pop() {
        for next in &follow[node] {
            layers[*next] = layers[*next].max(layers[node] + 1);
            waits[*next] -= 1;
            if waits[*next] == 0 {
                free.push(*next);
            }
        }
    }
    layers
}

/// Something that has a row of its own in a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    /// A node.
    Node(usize),
    /// Edges of a node on their way to a later layer.
    Pass(usize),
}

/// A place of a layout.
#[derive(Clone, Debug)]
pub struct Item {
    /// Whose.
    pub what: What,
    /// In which row.
    pub row: usize,
}

/// Items by layer from top to bottom, and the links from each layer to the next.
pub struct Layout {
    /// The layers.
    pub layers: Vec<Vec<Item>>,
    /// From a place in a layer to a place in the next, for each layer but the last.
    pub links: Vec<Vec<(usize, usize)>>,
}

impl Layout {
    /// Lays out nodes whose layers are known.
    pub fn new(layer_of: &[usize], edges: &[(usize, usize)]) -> Self {
        let depth = layer_of.iter().max().map_or(0, |last| last + 1);
        let mut order: Vec<Vec<What>> = vec![Vec::new(); depth];
        for (node, layer) in layer_of.iter().enumerate() {
            order[*layer].push(What::Node(node));
        }
        let mut far: BTreeMap<usize, usize> = BTreeMap::new();
        for (from, to) in edges {
            let last = far.entry(*from).or_default();
            *last = (*last).max(layer_of[*to]);
        }
        for (from, last) in &far {
            for passed in order.iter_mut().take(*last).skip(layer_of[*from] + 1) {
                passed.push(What::Pass(*from));
            }
        }
        let pairs = pairs(layer_of, edges, &far);
        let order = best_order(order, &pairs);
        let rows = rows(&order, &pairs);
        let links = order.windows(2).zip(&pairs).map(|(two, pairs)| {
            let (from, to) = (places(&two[0]), places(&two[1]));
            pairs.iter().map(|(a, b)| (from[a], to[b])).collect()
        });
        let links = links.collect();
        let item = |(what, row): (&What, &usize)| Item { what: *what, row: *row };
        let layers = order.iter().zip(&rows);
        let layers = layers.map(|(layer, rows)| layer.iter().zip(rows).map(item).collect());
        Self { layers: layers.collect(), links }
    }
}

/// Links from one layer to the next.
type Pairs = Vec<(What, What)>;

/// What leads from each layer to the next.
fn pairs(layer_of: &[usize], edges: &[(usize, usize)], far: &BTreeMap<usize, usize>) -> Vec<Pairs> {
    let depth = layer_of.iter().max().map_or(0, |last| *last);
    let mut pairs: Vec<Pairs> = vec![Vec::new(); depth];
    // At its own layer an edge begins with its node, later with what passes.
    let at = |node: usize, layer: usize| {
        if layer == layer_of[node] { What::Node(node) } else { What::Pass(node) }
    };
    for (from, to) in edges {
        let before = layer_of[*to].saturating_sub(1);
        if let Some(pairs) = pairs.get_mut(before) {
            pairs.push((at(*from, before), What::Node(*to)));
        }
    }
    for (from, last) in far {
        let passed = pairs.iter_mut().enumerate().take(last.saturating_sub(1));
        for (layer, pairs) in passed.skip(layer_of[*from]) {
            pairs.push((at(*from, layer), What::Pass(*from)));
        }
    }
    pairs
}

fn places(layer: &[What]) -> BTreeMap<What, usize> {
    layer.iter().enumerate().map(|(place, what)| (*what, place)).collect()
}

/// Orders layers so that few links cross: each layer by where its neighbours are on average, to and
/// fro, and the best that was seen.
fn best_order(mut order: Vec<Vec<What>>, pairs: &[Pairs]) -> Vec<Vec<What>> {
    let mut best = (all_crossings(&order, pairs), order.clone());
    for sweep in 0..SWEEPS {
        let forwards = sweep % 2 == 0;
        for step in 1..order.len() {
            let layer = if forwards { step } else { order.len() - 1 - step };
            let fixed = if forwards { layer - 1 } else { layer + 1 };
            let fixed_places = places(&order[fixed]);
            let near = neighbours(&pairs[layer.min(fixed)], forwards);
            let own = places(&order[layer]);
            let key = |what: &What| match near.get(what) {
                Some(near) => average(near.iter().map(|what| as_f64(fixed_places[what]))),
                None => as_f64(own[what]),
            };
            order[layer].sort_by(|a, b| key(a).total_cmp(&key(b)));
        }
        let crossings = all_crossings(&order, pairs);
        if crossings < best.0 {
            best = (crossings, order.clone());
        }
    }
    best.1
}

/// What each item of a layer is linked with: in the layer before, or in the one after.
fn neighbours(pairs: &Pairs, before: bool) -> BTreeMap<What, Vec<What>> {
    let mut near: BTreeMap<What, Vec<What>> = BTreeMap::new();
    for (from, to) in pairs {
        let (own, other) = if before { (to, from) } else { (from, to) };
        near.entry(*own).or_default().push(*other);
    }
    near
}

fn all_crossings(order: &[Vec<What>], pairs: &[Pairs]) -> usize {
    let layers = order.windows(2).zip(pairs);
    layers.map(|(two, pairs)| crossings(&places(&two[0]), &places(&two[1]), pairs)).sum()
}

fn crossings(from: &BTreeMap<What, usize>, to: &BTreeMap<What, usize>, pairs: &Pairs) -> usize {
    let ends: Vec<_> = pairs.iter().map(|(a, b)| (from[a], to[b])).collect();
    let crossed = |(at, one): (usize, &(usize, usize))| {
        let others = ends[at + 1..].iter();
        others
            .filter(|other| {
                one.0 < other.0 && one.1 > other.1 || one.0 > other.0 && one.1 < other.1
            })
            .count()
    };
    ends.iter().enumerate().map(crossed).sum()
}

/// Rows near those of the neighbours, one for each item, in the order of the layer.
fn rows(order: &[Vec<What>], pairs: &[Pairs]) -> Vec<Vec<usize>> {
    let mut rows: Vec<Vec<f64>> =
        order.iter().map(|layer| (0..layer.len()).map(as_f64).collect()).collect();
    for sweep in 0..SWEEPS {
        let forwards = sweep % 2 == 0;
        for step in 1..order.len() {
            let layer = if forwards { step } else { order.len() - 1 - step };
            let fixed = if forwards { layer - 1 } else { layer + 1 };
            let near = neighbours(&pairs[layer.min(fixed)], forwards);
            let fixed_places = places(&order[fixed]);
            let wanted = order[layer].iter().enumerate().map(|(at, what)| match near.get(what) {
                Some(near) => average(near.iter().map(|what| rows[fixed][fixed_places[what]])),
                None => rows[layer][at],
            });
            rows[layer] = spread(&wanted.collect::<Vec<_>>());
        }
    }
    let first = rows.iter().flatten().copied().fold(f64::INFINITY, f64::min);
    rows.iter().map(|layer| layer.iter().map(|row| as_row(row - first)).collect()).collect()
}

/// The places nearest to the ones wanted that are in order and at least one apart.
fn spread(wanted: &[f64]) -> Vec<f64> {
    // Without the distances it is enough that they do not fall: neighbours that would are pooled.
    let mut pools: Vec<(f64, usize)> = Vec::new();
    for (at, wanted) in wanted.iter().enumerate() {
        pools.push((wanted - as_f64(at), 1));
        while let [.., (before, some), (last, more)] = pools[..] {
            if before <= last {
                break;
            }
            pools.truncate(pools.len() - 2);
            let all = some + more;
            let mean = before.mul_add(as_f64(some), last * as_f64(more)) / as_f64(all);
            pools.push((mean, all));
        }
    }
    let flat = pools.iter().flat_map(|(mean, count)| std::iter::repeat_n(*mean, *count));
    flat.enumerate().map(|(at, place)| place + as_f64(at)).collect()
}

fn average(all: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = all.fold((0.0, 0.0), |(sum, count), one| (sum + one, count + 1.0));
    if count == 0.0 { 0.0 } else { sum / count }
}

#[allow(clippy::cast_precision_loss, reason = "a drawing has few nodes")]
fn as_f64(number: usize) -> f64 {
    number as f64
}

/// The nearest row; of two that are as near, the upper one.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rows begin at zero")]
fn as_row(place: f64) -> usize {
    (place - 0.5 - 1e-6).ceil().max(0.0) as usize
}
