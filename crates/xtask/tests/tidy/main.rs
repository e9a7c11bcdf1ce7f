//! Tidy: the house rules that a machine can check, over every file of the working tree.
//!
//! A violation reads `path:line: what is wrong; what to do`. Each check is a small function over
//! one file (or over the list of files) that pushes violations, and has a test that sees it fail.

#![allow(clippy::unwrap_used)]

mod docs;
mod functions;
mod rust;
mod source;
mod sql;
mod text;
mod tree;

use std::path::Path;

use source::Source;
use tree::Tree;

/// Everything wrong with the tree, in the order found.
#[derive(Default)]
struct Violations(Vec<String>);

impl Violations {
    fn push(&mut self, path: &str, line: usize, what: &str) {
        self.0.push(format!("{path}:{line}: {what}"));
    }
}

#[test]
fn the_tree_is_tidy() {
    // At run time: checkouts that share a target directory also share this binary.
    let manifest = std::env::var("CARGO_MANIFEST_DIR").unwrap();
    let tree = Tree::read(&Path::new(&manifest).join("../.."));
    let violations = check(&tree);
    for violation in &violations.0 {
        eprintln!("{violation}");
    }
    let count = violations.0.len();
    assert!(count == 0, "house rules broken, listed above: {count}");
}

fn check(tree: &Tree) -> Violations {
    let mut found = Violations::default();
    for (path, text) in &tree.files {
        text::check(path, text, &mut found);
        match path.rsplit_once('.').map(|(_, extension)| extension) {
            Some("rs") => {
                let source = Source::parse(path, text);
                rust::check(&source, &mut found);
                functions::check(&source, &mut found);
                sql::no_sql_in_rust(&source, &mut found);
            }
            Some("sql") => sql::one_statement_per_query(path, text, &mut found),
            Some("md") => docs::check(path, text, tree, &mut found),
            Some(_) | None => {}
        }
    }
    sql::backends_are_twins(tree, &mut found);
    found
}

/// What one check says about one piece of text.
fn violations_of(check: impl FnOnce(&mut Violations)) -> Vec<String> {
    let mut found = Violations::default();
    check(&mut found);
    found.0
}

#[test]
fn a_violation_in_any_kind_of_file_is_found() {
    let tree = Tree::of(&[
        ("crates/core/src/lease.rs", "//! Leases.\nfn now() { Instant::now(); }\n"),
        ("crates/sqlite/queries/lease/take.sql", "select 1;\n"),
        ("docs/guide.md", "[missing](gone.md)\n"),
        ("notes.txt", "no newline at the end"),
    ]);
    let found = check(&tree).0;
    assert_eq!(found.len(), 4, "{found:#?}");
}
