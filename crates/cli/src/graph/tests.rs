//! What graphs look like, and that a drawing says what waits for what and nothing else.

#![allow(clippy::unwrap_used)]
#![allow(clippy::needless_raw_string_hashes, reason = "what UPDATE_EXPECT=1 writes")]

use std::collections::{BTreeMap, BTreeSet};

use expect_test::{Expect, expect};
use ff_core::{ExecutionId, FlowId};
use uuid::Uuid;

use super::*;

const FLOW: FlowId = FlowId(Uuid::from_u128(7));

/// A graph of what its edges name, in the order in which they do; every other node is active.
fn graph(edges: &[(&str, &str)], joins: &[(&str, &str)]) -> Graph {
    let mut names: Vec<&str> = Vec::new();
    for name in edges.iter().flat_map(|(from, to)| [*from, *to]) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let id = |name: &str| ExecutionId::for_node(FLOW, &name.parse().unwrap());
    let nodes = names.iter().enumerate().map(|(number, name)| Node {
        id: id(name),
        name: (*name).to_owned(),
        state: [PublicState::Completed, PublicState::Active][number % 2],
        join: joins.iter().find(|join| join.0 == *name).map(|join| join.1.to_owned()),
    });
    let edges: Vec<_> = edges.iter().map(|(from, to)| (id(from), id(to))).collect();
    Graph::new(nodes.collect(), &edges)
}

fn printed(graph: &Graph, width: usize) -> String {
    let mut out = Vec::new();
    graph.print(&mut out, width, "").unwrap();
    String::from_utf8(out).unwrap()
}

fn is(edges: &[(&str, &str)], joins: &[(&str, &str)], expected: &Expect) {
    expected.assert_eq(&printed(&graph(edges, joins), 78));
}

#[test]
fn a_chain_is_a_line_and_goes_on_below() {
    is(
        &[("fetch", "parse"), ("parse", "load")],
        &[],
        &expect![[r#"
        ✓ fetch ──▸ ● parse ──▸ ✓ load
    "#]],
    );
    let names: Vec<String> = (0..12).map(|number| format!("stage-{number}")).collect();
    let edges: Vec<_> = names.windows(2).map(|two| (two[0].as_str(), two[1].as_str())).collect();
    is(
        &edges,
        &[],
        &expect![[r#"
        ✓ stage-0 ──▸ ● stage-1 ──▸ ✓ stage-2 ──▸ ● stage-3 ──▸ ✓ stage-4 ─┄

        ┄──▸ ● stage-5 ──▸ ✓ stage-6 ──▸ ● stage-7 ──▸ ✓ stage-8 ──▸ ● stage-9 ─┄

        ┄──▸ ✓ stage-10 ──▸ ● stage-11
    "#]],
    );
}

#[test]
fn a_fan_spreads_and_comes_together() {
    let names: Vec<String> = (1..=10).map(|number| format!("shard-{number}")).collect();
    let out = names.iter().map(|name| ("split", name.as_str()));
    let together = names.iter().map(|name| (name.as_str(), "merge"));
    let edges: Vec<_> = out.chain(together).collect();
    is(
        &edges,
        &[("merge", "8 of 10")],
        &expect![[r#"
                 ┌─▸ ● shard-1 ──┐
                 ├─▸ ✓ shard-2 ──┤
                 ├─▸ ● shard-3 ──┤
                 ├─▸ ✓ shard-4 ──┤
        ✓ split ─┼─▸ ● shard-5 ──┼─▸ ● merge  8 of 10
                 ├─▸ ✓ shard-6 ──┤
                 ├─▸ ● shard-7 ──┤
                 ├─▸ ✓ shard-8 ──┤
                 ├─▸ ● shard-9 ──┤
                 └─▸ ✓ shard-10 ─┘
    "#]],
    );
}

#[test]
fn diamonds_and_trees_are_compact() {
    is(
        &[("top", "left"), ("top", "right"), ("left", "end"), ("right", "end")],
        &[],
        &expect![[r#"
            ✓ top ─┬─▸ ● left ──┬─▸ ● end
                   └─▸ ✓ right ─┘
        "#]],
    );
    let tree =
        [("r", "a"), ("r", "b"), ("a", "a1"), ("a", "a2"), ("b", "b1"), ("b", "b2"), ("b", "b3")];
    is(
        &tree,
        &[],
        &expect![[r#"
             ┌─▸ ● a ─┬─▸ ● a1
             │        └─▸ ✓ a2
        ✓ r ─┤        ┌─▸ ● b1
             └─▸ ✓ b ─┼─▸ ✓ b2
                      └─▸ ● b3
    "#]],
    );
}

#[test]
fn edges_over_several_layers_pass_between() {
    let media = [
        ("probe", "360p"),
        ("probe", "720p"),
        ("probe", "1080p"),
        ("probe", "thumb"),
        ("360p", "package"),
        ("720p", "package"),
        ("1080p", "package"),
        ("package", "publish"),
        ("thumb", "publish"),
        ("probe", "publish"),
    ];
    is(
        &media,
        &[("package", "2 of 3")],
        &expect![[r#"
                 ┌─▸ ● 360p ──┐
                 ├─▸ ✓ 720p ──┼─────▸ ● package  2 of 3 ─┐
        ✓ probe ─┼─▸ ● 1080p ─┘ ┌────────────────────────┼─▸ ✓ publish
                 ├─▸ ✓ thumb ───┘ ┌──────────────────────┘
                 └────────────────┘
    "#]],
    );
    is(
        &[("a", "x"), ("a", "y"), ("b", "y"), ("b", "z")],
        &[],
        &expect![[r#"
        ✓ a ───┬─▸ ● x
        ● b ─┬─└─▸ ✓ y
             └───▸ ✓ z
    "#]],
    );
}

#[test]
fn what_would_be_a_tangle_is_a_list() {
    let ring = [("a", "x"), ("a", "y"), ("b", "y"), ("b", "z"), ("c", "z"), ("c", "x")];
    is(
        &ring,
        &[("x", "any of 2")],
        &expect![[r#"
        layer 0: 2 active, 1 completed
          ✓ a  ● b  ● c
        layer 1: 1 active, 2 completed
          ✓ y  <- a, b
          ● x  any of 2 <- a, c
          ✓ z  <- b, c
    "#]],
    );
}

#[test]
fn what_is_large_is_listed_by_layers() {
    let names: Vec<String> = (1..=70).map(|number| format!("shard-{number}")).collect();
    let out = names.iter().map(|name| ("split", name.as_str()));
    let together = names.iter().map(|name| (name.as_str(), "merge"));
    let edges: Vec<_> = out.chain(together).collect();
    is(
        &edges,
        &[],
        &expect![[r#"
        layer 0: 1 completed
          ✓ split
        layer 1: 35 active, 35 completed
          ● shard-1   ● shard-3   ● shard-5   ● shard-7   ● shard-9   ● shard-11
          ● shard-13  ● shard-15  ● shard-17  ● shard-19  ● shard-21  ● shard-23
          ● shard-25  ● shard-27  ● shard-29  ● shard-31  ● shard-33  ● shard-35
          ● shard-37  ● shard-39  ● shard-41  ● shard-43  ● shard-45  ● shard-47
          ● shard-49  ● shard-51  ● shard-53  ● shard-55  ● shard-57  ● shard-59
          ● shard-61  ● shard-63  ● shard-65  ● shard-67  ● shard-69  ✓ shard-2
          ✓ shard-4   ✓ shard-6   ✓ shard-8   ✓ shard-10  ✓ shard-12  ✓ shard-14
          ✓ shard-16  ✓ shard-18  ✓ shard-20  ✓ shard-22  ✓ shard-24  ✓ shard-26
          ✓ shard-28  ✓ shard-30  ✓ shard-32  ✓ shard-34  ✓ shard-36  ✓ shard-38
          ✓ shard-40  ✓ shard-42  ✓ shard-44  ✓ shard-46  ✓ shard-48  ✓ shard-50
          and 10 more
            <- split
        layer 2: 1 active
          ● merge  <- shard-1, shard-2, shard-3, shard-4, shard-5, shard-6, shard-7, …
    "#]],
    );
}

#[test]
fn a_long_list_comes_to_an_end() {
    let names: Vec<_> = (0..=150).map(|n| n.to_string()).collect();
    let edges: Vec<_> = names.windows(2).map(|two| (two[0].as_str(), two[1].as_str())).collect();
    let printed = printed(&graph(&edges, &[]), 80);
    assert_eq!(printed.lines().count(), 201, "two lines for each of a hundred layers");
    assert!(printed.ends_with("and 51 more layers\n"), "{printed}");
}

#[test]
fn names_are_ordered_as_people_do() {
    let mut names = ["b", "a10", "a9", "a09", "a", "a9b", ""];
    names.sort_by(|a, b| natural(a, b));
    assert_eq!(names, ["", "a", "a9", "a9b", "a09", "a10", "b"]);
}

#[test]
fn a_drawing_says_what_waits_for_what_and_nothing_else() {
    let mut seed = 1_u64;
    let mut next = move |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    let mut drawn = 0;
    for _ in 0..400 {
        let (count, density) = (3 + next(12), 5 + next(40));
        let names: Vec<String> = (0..count).map(|number| format!("n{number}")).collect();
        let mut edges = Vec::new();
        for (at, from) in names.iter().enumerate() {
            let later = names[at + 1..].iter();
            edges.extend(
                later.filter(|_| next(100) < density).map(|to| (from.as_str(), to.as_str())),
            );
        }
        let graph = graph(&edges, &[]);
        let layers = layout::layers(graph.nodes.len(), &graph.edges);
        let Some(lines) = drawing::draw(&graph, &layers, 10_000) else { continue };
        drawn += 1;
        let said: BTreeSet<_> = edges.iter().map(|(a, b)| (a.to_string(), b.to_string())).collect();
        assert_eq!(Reader::new(&lines).edges(), said, "{}", lines.join("\n"));
    }
    assert!(drawn > 200, "{drawn}");
}

/// Follows lines from the left to the right, as people do.
struct Reader {
    cells: Vec<Vec<char>>,
    /// Names by where they begin.
    names: BTreeMap<(usize, usize), String>,
}

impl Reader {
    fn new(lines: &[String]) -> Self {
        let cells: Vec<Vec<char>> = lines.iter().map(|line| line.chars().collect()).collect();
        let mut names = BTreeMap::new();
        for (row, line) in cells.iter().enumerate() {
            for (column, _) in line.iter().enumerate().filter(|(_, c)| matches!(c, '✓' | '●')) {
                let name = line[column + 2..].iter().take_while(|c| c.is_alphanumeric());
                names.insert((row, column), name.collect());
            }
        }
        Self { cells, names }
    }

    fn at(&self, row: usize, column: usize) -> char {
        self.cells.get(row).and_then(|line| line.get(column)).copied().unwrap_or(' ')
    }

    fn edges(&self) -> BTreeSet<(String, String)> {
        let mut edges = BTreeSet::new();
        for ((row, column), name) in &self.names {
            let mut seen = BTreeSet::new();
            self.right(*row, column + 2 + name.chars().count() + 1, &mut seen);
            let reached = seen.iter().filter_map(|at| self.names.get(at));
            edges.extend(reached.map(|to| (name.clone(), to.clone())));
        }
        edges
    }

    /// Comes to a cell from its left.
    fn right(&self, row: usize, column: usize, seen: &mut BTreeSet<(usize, usize)>) {
        let c = self.at(row, column);
        if c == '▸' {
            seen.insert((row, column + 2));
        }
        // Behind an upright without an arm to the right, a line that goes on passes under it.
        let goes_on =
            "─┬┴┼├┌└".contains(c) || "┤┐┘│".contains(c) && "─▸".contains(self.at(row, column + 1));
        let joined = "┬┴┼┐┘┤".contains(c);
        if joined && "┬┼┐┤".contains(c) {
            self.along(row + 1, column, 1, seen);
        }
        if joined && "┴┼┘┤".contains(c) {
            self.along(row.wrapping_sub(1), column, usize::MAX, seen);
        }
        if goes_on {
            self.right(row, column + 1, seen);
        }
    }

    /// Comes to a cell of an upright from above or below.
    fn along(&self, row: usize, column: usize, step: usize, seen: &mut BTreeSet<(usize, usize)>) {
        let c = self.at(row, column);
        if "┬┴┼├┌└".contains(c) {
            self.right(row, column + 1, seen);
        }
        let on = if step == 1 { "│├┤┼┌┐┬" } else { "│├┤┼└┘┴" };
        if on.contains(c) {
            self.along(row.wrapping_add(step), column, step, seen);
        }
    }
}
