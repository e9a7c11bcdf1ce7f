//! Statements live in `queries/`, one per file, at the same path in every backend.

use std::collections::BTreeSet;

use crate::Violations;
use crate::source::Source;
use crate::tree::Tree;

const BACKENDS: [&str; 2] = ["crates/postgres/", "crates/sqlite/"];

/// What only one backend has because the other has no such thing, each with why. A path that ends
/// with a slash stands for all that is in it.
const ONE_SIDED: &[(&str, &str)] = &[
    ("queries/ahead/", "a statement costs SQLite no round trip"),
    ("queries/execution/held.sql", "SQLite locks the whole file"),
    ("queries/execution/lock.sql", "SQLite locks the whole file"),
    ("queries/execution/fate.sql", "a statement costs SQLite no round trip"),
    ("queries/execution/enlist.sql", "SQLite writes every column anyway"),
    ("queries/flow/free.sql", "SQLite locks the whole file"),
    ("queries/flow/lock.sql", "SQLite locks the whole file"),
    ("queries/flow/take.sql", "SQLite locks the whole file"),
    ("queries/flow/insert.sql", "SQLite inserts and updates with one statement"),
    ("queries/flow/next.sql", "Postgres tells it with flow/due.sql"),
    ("queries/group/free.sql", "SQLite locks the whole file"),
    ("queries/group/lock.sql", "SQLite locks the whole file"),
    ("queries/payload/sizes.sql", "SQLite counts as it reads"),
    ("queries/lease/hold.sql", "SQLite locks the whole file"),
    ("queries/lease/lock.sql", "SQLite locks the whole file"),
    ("queries/lease/pin.sql", "SQLite locks the whole file"),
    ("queries/execution/insert.sql", "SQLite inserts and updates with one statement"),
    ("queries/hot/", "a statement costs SQLite no round trip"),
    ("queries/lease/free.sql", "one connection of SQLite writes at a time"),
    ("queries/lease/serving.sql", "one connection of SQLite writes at a time"),
    ("queries/ready/any.sql", "nobody holds a row of a SQLite file while another looks"),
    ("queries/event/newest.sql", "SQLite's event/tail.sql is enough where one writes at a time"),
    ("queries/retention/", "SQLite keeps a timer for each execution"),
    ("queries/waitpoint/insert.sql", "SQLite inserts and updates with one statement"),
    ("queries/waitpoint/next.sql", "Postgres tells it with waitpoint/due.sql"),
    ("queries/signing_key/current.sql", "SQLite remembers no keys"),
    ("queries/wake/", "processes that share a file poll"),
    ("queries/schema/namespace.sql", "a SQLite file has no schemas"),
    ("queries/schema/now.sql", "a SQLite file has no clock"),
    ("queries/schema/types.sql", "a SQLite file has no types"),
    ("queries/idempotency/next.sql", "Postgres tells it with idempotency/due.sql"),
    ("queries/lease/next.sql", "Postgres tells it with lease/due.sql"),
    ("queries/queue/of_lane.sql", "Postgres joins it into ready/head.sql"),
    ("queries/timer/promoted.sql", "Postgres moves a row with one statement"),
];

const VERBS: [&str; 4] = ["select", "insert", "update", "delete"];

pub fn no_sql_in_rust(source: &Source, found: &mut Violations) {
    if !BACKENDS.iter().any(|backend| source.path.starts_with(&format!("{backend}src/"))) {
        return;
    }
    for string in source.strings.iter().filter(|string| is_statement(string.text)) {
        if !source.is_test(string.line) {
            let what = "SQL in Rust; move the statement to a file under queries/";
            found.push(source.path, string.line, what);
        }
    }
}

/// A lone verb is a label, not a statement.
fn is_statement(text: &str) -> bool {
    let mut words = text.split_whitespace();
    let verb = words.next().unwrap_or("").to_ascii_lowercase();
    VERBS.contains(&verb.as_str()) && words.next().is_some()
}

pub fn one_statement_per_query(path: &str, text: &str, found: &mut Violations) {
    if !BACKENDS.iter().any(|backend| path.starts_with(&format!("{backend}queries/"))) {
        return;
    }
    if !text.starts_with("-- ") {
        found.push(path, 1, "no header; open with a `-- ` comment that says what it is for");
    }
    let statement = without_comments_and_strings(text);
    let statement = statement.trim_end();
    if statement.trim().is_empty() {
        found.push(path, 1, "no statement; write it or delete the file");
    }
    if let Some(at) = statement.find(';')
        && at + 1 < statement.len()
    {
        let line = 1 + statement[..at].matches('\n').count();
        found.push(path, line, "a second statement follows; give it its own file");
    }
}

/// The statement with comments and strings blanked out, on the lines where it was.
fn without_comments_and_strings(text: &str) -> String {
    let mut kept = String::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let length = if rest.starts_with("--") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |at| at + 2)
        } else if c == '\'' {
            rest[1..].find('\'').map_or(rest.len(), |at| at + 2)
        } else {
            kept.push(c);
            rest = &rest[c.len_utf8()..];
            continue;
        };
        kept.extend(rest[..length].chars().filter(|c| *c == '\n'));
        rest = &rest[length..];
    }
    kept
}

/// Who knows one backend knows the other: the same queries and modules, except for what
/// [`ONE_SIDED`] names. Holds from the day the second backend exists.
pub fn backends_are_twins(tree: &Tree, found: &mut Violations) {
    if !BACKENDS.iter().all(|backend| tree.under(backend).next().is_some()) {
        return;
    }
    for directory in ["queries/", "src/"] {
        let paths = BACKENDS.map(|backend| {
            let prefix = format!("{backend}{directory}");
            // What a module is made of is its own business.
            let alike = |path: &&str| directory == "queries/" || !path.contains('/');
            tree.under(&prefix).filter(alike).map(String::from).collect::<BTreeSet<_>>()
        });
        for (here, there) in [(0, 1), (1, 0)] {
            for missing in paths[there].difference(&paths[here]) {
                let relative = format!("{directory}{missing}");
                let only = |path: &str| {
                    path == relative || path.ends_with('/') && relative.starts_with(path)
                };
                if ONE_SIDED.iter().any(|(path, _)| only(path)) {
                    continue;
                }
                let path = format!("{}{relative}", BACKENDS[here]);
                let twin = format!("{}{relative}", BACKENDS[there]);
                let what = format!(
                    "missing, but {twin} exists; add it, remove its twin, or say in ONE_SIDED why \
                     only one has it"
                );
                found.push(&path, 1, &what);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::violations_of;

    fn check_rust(path: &str, text: &str) -> usize {
        let source = Source::parse(path, text);
        violations_of(|found| no_sql_in_rust(&source, found)).len()
    }

    fn check_query(text: &str) -> Vec<String> {
        let path = "crates/sqlite/queries/lease/take.sql";
        violations_of(|found| one_statement_per_query(path, text, found))
    }

    #[test]
    fn a_statement_in_a_string_is_found() {
        let path = "crates/sqlite/src/lease.rs";
        assert_eq!(check_rust(path, "run(\"SELECT 1\");\n"), 1);
        assert_eq!(check_rust(path, "run(r#\"\n    update lease\n    set x = 1\"#);\n"), 1);
        assert_eq!(check_rust(path, "// select 1\nlog(\"delete\", \"selected 1\");\n"), 0);
        assert_eq!(check_rust(path, "#[cfg(test)]\nmod tests {\n    a(\"select 1\");\n}\n"), 0);
        assert_eq!(check_rust("crates/cli/src/lease.rs", "run(\"select 1\");\n"), 0);
    }

    #[test]
    fn a_query_has_a_header_and_one_statement() {
        assert_eq!(check_query("-- Takes; one.\nselect ';' /* ; */ -- ;\nfrom a;\n"), [""; 0]);
        assert_eq!(check_query("-- Takes one.\nselect 1\n"), [""; 0]);
        assert_eq!(check_query("select 1;\n").len(), 1);
        assert_eq!(check_query("-- Nothing.\n").len(), 1);
        let second = "crates/sqlite/queries/lease/take.sql:2: \
                      a second statement follows; give it its own file";
        assert_eq!(check_query("-- Two.\nselect 1;\nselect 2;\n"), [second]);
    }

    #[test]
    fn a_migration_may_hold_many_statements() {
        let path = "crates/sqlite/migrations/V1__init.sql";
        let found = violations_of(|found| one_statement_per_query(path, "a;\nb;\n", found));
        assert_eq!(found, [""; 0]);
    }

    #[test]
    fn a_query_or_module_without_its_twin_is_found() {
        let mut tree = Tree::of(&[
            ("crates/sqlite/src/lib.rs", ""),
            ("crates/sqlite/src/lease.rs", ""),
            ("crates/sqlite/queries/take.sql", ""),
        ]);
        assert_eq!(violations_of(|found| backends_are_twins(&tree, found)), [""; 0]);
        for path in ["src/lib.rs", "src/pool.rs", "queries/take.sql"] {
            tree.files.insert(format!("crates/postgres/{path}"), String::new());
        }
        let found = violations_of(|found| backends_are_twins(&tree, found));
        let at = |path: &str, twin: &str| {
            format!(
                "{path}:1: missing, but {twin} exists; add it, remove its twin, or say in \
                 ONE_SIDED why only one has it"
            )
        };
        let lease = at("crates/postgres/src/lease.rs", "crates/sqlite/src/lease.rs");
        let pool = at("crates/sqlite/src/pool.rs", "crates/postgres/src/pool.rs");
        assert_eq!(found, [lease, pool]);
    }

    #[test]
    fn what_only_one_backend_can_have_needs_no_twin() {
        let only = ONE_SIDED.iter().map(|(path, _)| {
            let file = if path.ends_with('/') { "some.sql" } else { "" };
            format!("crates/postgres/{path}{file}")
        });
        let mut tree = Tree::of(&[("crates/sqlite/src/lib.rs", "")]);
        for path in only.chain(["crates/postgres/src/lib.rs".into()]) {
            tree.files.insert(path, String::new());
        }
        assert_eq!(violations_of(|found| backends_are_twins(&tree, found)), [""; 0]);
        let elsewhere = "crates/postgres/queries/lease/lose.sql";
        tree.files.insert(elsewhere.into(), String::new());
        assert_eq!(violations_of(|found| backends_are_twins(&tree, found)).len(), 1);
    }
}
