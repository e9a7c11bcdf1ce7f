//! `docs/operations.md`: every operation of the engine, and where it is offered and tested. The page is
//! made of a list and of the sources. Every method, route, command and file of cases is on it; which belong
//! together is said by the list alone. `cargo xtask generate` writes it.

#![allow(clippy::unwrap_used)]

mod list;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use ff_core::Command;
use list::{GROUPS, NO_COMMANDS, NO_METHODS, Operation};

/// What the sources say.
struct Sources {
    /// Methods of the engine, with the first sentence about each.
    methods: BTreeMap<String, String>,
    /// Routes, by the name of their operation.
    routes: BTreeMap<String, String>,
    commands: BTreeSet<String>,
    /// Files of cases, with their number.
    cases: BTreeMap<String, usize>,
}

#[test]
fn every_operation_is_on_the_page_with_all_its_ways_in() {
    let sources = Sources::read();
    let all: Vec<&Operation> = GROUPS.iter().flat_map(|(_, group)| *group).collect();
    let named = |part: fn(&Operation) -> Vec<&'static str>| -> BTreeSet<&str> {
        all.iter().flat_map(|operation| part(operation)).filter(|name| !name.is_empty()).collect()
    };
    let methods = named(|(name, ..)| vec![name]);
    assert_eq!(methods.len(), all.len(), "an operation is listed once");
    let of = |names: &[&'static str]| names.iter().copied().collect::<BTreeSet<_>>();
    compare("methods", &methods, &of(NO_METHODS), sources.methods.keys());
    let routes = named(|(_, routes, ..)| words(routes));
    compare("routes", &routes, &of(&[]), sources.routes.keys());
    let commands = named(|(_, _, commands, _)| commands.split(", ").collect());
    compare("commands", &commands, &of(NO_COMMANDS), sources.commands.iter());
    let cases = named(|(.., cases)| words(cases));
    compare("cases", &cases, &of(&[]), sources.cases.keys());
    expect_test::expect_file!["../../../../docs/operations.md"].assert_eq(&sources.page());
}

/// What is listed, with what needs not be, is all there is.
fn compare<'s>(
    what: &str,
    listed: &BTreeSet<&str>,
    besides: &BTreeSet<&str>,
    there: impl Iterator<Item = &'s String>,
) {
    let there: BTreeSet<&str> = there.map(String::as_str).collect();
    let listed: BTreeSet<&str> = listed.union(besides).copied().collect();
    let missing: Vec<_> = there.difference(&listed).collect();
    let unknown: Vec<_> = listed.difference(&there).collect();
    assert!(missing.is_empty(), "{what} that are not in the list: {missing:?}");
    assert!(unknown.is_empty(), "{what} that do not exist: {unknown:?}");
}

fn words(names: &'static str) -> Vec<&'static str> {
    names.split_whitespace().collect()
}

impl Sources {
    fn read() -> Self {
        // At run time: checkouts that share a target directory also share this binary.
        let root = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR").unwrap()).join("../..");
        let mut methods = BTreeMap::new();
        for file in rust_files(&root.join("crates/engine/src")) {
            methods_of("Engine", &read(&file), &mut methods);
        }
        let cases = rust_files(&root.join("crates/conformance/src/cases")).into_iter();
        let cases = cases.map(|file| {
            let name = file.file_stem().unwrap().to_str().unwrap().to_owned();
            let count = read(&file).matches("\npub async fn ").count();
            (name, count)
        });
        let mut commands = BTreeSet::new();
        for file in ["main", "flow", "keys", "consumers"] {
            let text = read(&root.join(format!("crates/cli/src/{file}.rs")));
            let prefix = if file == "main" { String::new() } else { format!("{file} ") };
            commands.extend(variants(&text).map(|name| format!("{prefix}{name}")));
        }
        Self {
            methods,
            routes: routes(&read(&root.join("docs/openapi.json"))),
            commands,
            cases: cases.filter(|(_, count)| *count > 0).collect(),
        }
    }

    fn page(&self) -> String {
        let mut page = "# Operations\n\n\
            Every operation of the engine: a method of [`Engine`](../crates/engine/src/lib.rs) of the \
            same name, its way in over HTTP (see [the protocol](protocol.md)) and on the command \
            line, and the cases that each of the model, SQLite and PostgreSQL passes, with how many \
            there are. Where a person would not want a command there is none. Links are tested \
            in the core and over HTTP. The list is checked against the sources.\n"
            .to_owned();
        for (title, group) in GROUPS {
            write!(
                page,
                "\n## {title}\n\n| operation | what | HTTP | command | cases |\n|---|---|---|---|---|\n"
            )
            .unwrap();
            for (name, routes, commands, cases) in *group {
                let routes =
                    words(routes).into_iter().map(|name| format!("`{}`", self.routes[name]));
                let commands = commands.split(", ").filter(|name| !name.is_empty());
                let commands = commands.map(|name| format!("`ff {name}`"));
                let cases = words(cases).into_iter().map(|name| {
                    let path = format!("../crates/conformance/src/cases/{name}.rs");
                    format!("[{name}]({path}) {}", self.cases[name])
                });
                let said = &self.methods[*name];
                let [routes, commands, cases] = [
                    routes.collect::<Vec<_>>().join(", "),
                    commands.collect::<Vec<_>>().join(", "),
                    cases.collect::<Vec<_>>().join(", "),
                ];
                writeln!(page, "| `{name}` | {said} | {routes} | {commands} | {cases} |").unwrap();
            }
        }
        page + &repeats()
    }
}

/// How a repeat of each command is recognised.
fn repeats() -> String {
    let mut page = String::from(
        "\n## Commands that are sent again\n\n\
        A caller that lost the reply to a command does not know whether it was carried out, and sends it \
        again. So does a store that lost its connection between a commit and its reply. At once, a repeat \
        is answered as its decision says. It may also come late, when something else happened in \
        between: then it does nothing twice, and undoes nothing that came after. What tells it from a new \
        command is said by the caller, over HTTP in the field of that name, or `Handle::as_seen` in \
        the SDK; a store that sends a command again pins what it meant the first time.\n\n\
        | command | is recognised by | a late repeat |\n|---|---|---|\n",
    );
    for (name, repeat) in Command::REPEATS {
        assert!(!format!("{repeat:?}").contains('|'), "{name}: this would break the table");
        writeln!(page, "| `{name}` | {} | {} |", repeat.by, repeat.late).unwrap();
    }
    page
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn rust_files(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files
}

/// The public methods of a type, each with the first sentence of what is said about it.
fn methods_of(of: &str, text: &str, methods: &mut BTreeMap<String, String>) {
    let (mut inside, mut said) = (false, String::new());
    for line in text.lines() {
        if !line.starts_with([' ', '}']) && !line.is_empty() {
            inside = line == format!("impl {of} {{");
        }
        let line = line.strip_prefix("    ").unwrap_or_default();
        if let Some(more) = line.strip_prefix("/// ") {
            said = if said.is_empty() { more.to_owned() } else { format!("{said} {more}") };
            continue;
        }
        let method = line.strip_prefix("pub async fn ").or(line.strip_prefix("pub fn "));
        if let Some(method) = method.filter(|_| inside) {
            let name = method.split(['(', '<']).next().unwrap_or_default();
            let first = said.split(". ").next().unwrap_or_default().trim_end_matches('.');
            assert!(!first.contains('|'), "{name}: this would break the table: {first}");
            methods.insert(name.to_owned(), first.to_owned());
        }
        if !line.starts_with("///") && !line.starts_with("#[") {
            said.clear();
        }
    }
}

/// The commands of the first enum in a file, as they are typed. Each holds its arguments.
fn variants(text: &str) -> impl Iterator<Item = String> {
    let enums = text.split_once("\nenum ").or(text.split_once("\npub enum "));
    let inside = enums.map_or("", |(_, rest)| rest).split("\n}").next().unwrap_or_default();
    let lines = inside.lines().skip(1).filter_map(|line| line.strip_prefix("    "));
    let lines = lines.filter(|line| !line.starts_with("//") && !line.starts_with("#["));
    lines.map(|line| {
        let name = line.split_once('(').map(|(name, _)| name);
        kebab(name.unwrap_or_else(|| panic!("not a command with arguments: {line}")))
    })
}

fn kebab(name: &str) -> String {
    let mut words = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !words.is_empty() {
            words.push('-');
        }
        words.extend(letter.to_lowercase());
    }
    words
}

/// The routes of `/v1`, by the name of their operation.
fn routes(openapi: &str) -> BTreeMap<String, String> {
    let document: serde_json::Value = serde_json::from_str(openapi).unwrap();
    let mut routes = BTreeMap::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, route) in methods.as_object().unwrap() {
            if let Some(name) = route["operationId"].as_str().filter(|_| path.starts_with("/v1")) {
                routes.insert(name.to_owned(), format!("{} {path}", method.to_uppercase()));
            }
        }
    }
    routes
}
