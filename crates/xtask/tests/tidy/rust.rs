//! What Rust files look like, and what they never contain.

use crate::Violations;
use crate::source::Source;

const FILE_LINES_MAX: usize = 600;
const LINE_WIDTH_MAX: usize = 110;

const VAGUE_NAMES: [&str; 5] = ["utils", "common", "helpers", "manager", "misc"];

const UNFINISHED: [(&str, &str); 4] = [
    ("todo!(", "finish it or leave it out"),
    ("unimplemented!(", "finish it or leave it out"),
    ("dbg!(", "remove it"),
    ("#[ignore", "make the test run or delete it"),
];

const IMPURE: [(&str, &str); 7] = [
    ("SystemTime::now", "take the time as an argument"),
    ("Instant::now", "take the time as an argument"),
    ("Uuid::new_v4", "take the id as an argument"),
    ("Uuid::now_v7", "take the id as an argument"),
    ("std::fs", "the core performs no I/O; move it to a backend"),
    ("std::net", "the core performs no I/O; move it to a backend"),
    ("tokio", "the core depends on no runtime; move it to the engine"),
];

pub fn check(source: &Source, found: &mut Violations) {
    opens_with_its_doc(source, found);
    is_not_too_long(source, found);
    lines_are_not_too_wide(source, found);
    is_named_for_a_thing(source, found);
    has_nothing_unfinished(source, found);
    todos_say_why_they_are_safe(source, found);
    cites_no_decision_by_number(source, found);
    if source.path.starts_with("crates/core/src/") {
        has_no_wildcard_arm(source, found);
        is_pure(source, found);
    }
}

fn opens_with_its_doc(source: &Source, found: &mut Violations) {
    if source.is_crate_source() && !source.text.starts_with("//!") {
        let what = "no module doc; open the file with `//!`, what it is and what must stay true";
        found.push(source.path, 1, what);
    }
}

fn is_not_too_long(source: &Source, found: &mut Violations) {
    let lines = source.text.lines().count();
    if lines > FILE_LINES_MAX {
        let what = format!("{lines} lines, at most {FILE_LINES_MAX}; split the file by noun");
        found.push(source.path, FILE_LINES_MAX + 1, &what);
    }
}

/// rustfmt keeps code at 100; this bounds what it leaves alone: comments and long strings.
fn lines_are_not_too_wide(source: &Source, found: &mut Violations) {
    for (index, line) in source.text.lines().enumerate() {
        let width = line.chars().count();
        if width > LINE_WIDTH_MAX && !line.contains("://") {
            let what = format!("{width} characters wide, at most {LINE_WIDTH_MAX}; wrap it at 100");
            found.push(source.path, index + 1, &what);
        }
    }
}

fn is_named_for_a_thing(source: &Source, found: &mut Violations) {
    if source.path.ends_with("/mod.rs") {
        let what = "mod.rs; name the file for its module: foo.rs beside foo/";
        found.push(source.path, 1, what);
    }
    let path = source.path.strip_suffix(".rs").unwrap_or(source.path);
    let in_path = path.split('/').filter(|part| VAGUE_NAMES.contains(part)).map(|part| (1, part));
    let in_code = source.code.lines().enumerate().filter_map(|(index, line)| {
        let (_, name) = line.split_once("mod ")?;
        let name = name.trim_end().trim_end_matches([';', '{', ' ']);
        // `mod utils;` is reported by its file.
        (line.ends_with('{') && VAGUE_NAMES.contains(&name)).then_some((index + 1, name))
    });
    for (line, name) in in_path.chain(in_code) {
        let what = format!("a module named {name}; name it for the thing it holds");
        found.push(source.path, line, &what);
    }
}

fn has_nothing_unfinished(source: &Source, found: &mut Violations) {
    has_none_of(&UNFINISHED, source, found);
}

fn is_pure(source: &Source, found: &mut Violations) {
    has_none_of(&IMPURE, source, found);
}

fn has_none_of(forbidden: &[(&str, &str)], source: &Source, found: &mut Violations) {
    for (index, line) in source.code.lines().enumerate() {
        for (name, advice) in forbidden {
            if contains_word(line, name) {
                found.push(source.path, index + 1, &format!("{name} is not used here; {advice}"));
            }
        }
    }
}

/// Whether `name` occurs in `line` other than as the tail of a longer word.
fn contains_word(line: &str, name: &str) -> bool {
    line.match_indices(name).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || c == '_')
    })
}

fn todos_say_why_they_are_safe(source: &Source, found: &mut Violations) {
    for comment in &source.comments {
        for (offset, line) in comment.text.lines().enumerate() {
            let Some((_, after)) = line.split_once("TODO") else {
                continue;
            };
            if !after.trim_start().starts_with("(safe: ") {
                let what = "a TODO without a reason; write TODO (safe: why it can wait), or do it";
                found.push(source.path, comment.line + offset, what);
            }
        }
    }
}

fn cites_no_decision_by_number(source: &Source, found: &mut Violations) {
    // In two parts, so that this file does not cite one either.
    let citation = concat!("docs/decisions", "/0");
    for (index, line) in source.text.lines().enumerate() {
        if line.contains(citation) {
            let what = "cites a decision by its number; say the reason itself";
            found.push(source.path, index + 1, what);
        }
    }
}

/// A wildcard would swallow the next variant we add. `// not ours: …`, on the arm or on the line
/// above it, says that the matched type is foreign.
fn has_no_wildcard_arm(source: &Source, found: &mut Violations) {
    let mut previous = "";
    for (index, (code, text)) in source.code.lines().zip(source.text.lines()).enumerate() {
        let excused =
            text.contains("// not ours:") || previous.trim_start().starts_with("// not ours:");
        if has_wildcard_arm(code) && !excused {
            let what = "a wildcard arm; name every variant, or add `// not ours: <foreign type>`";
            found.push(source.path, index + 1, what);
        }
        previous = text;
    }
}

/// `_ =>`, also as an alternative (`A | _ =>`) or spelled as a tuple (`(_, _) =>`).
fn has_wildcard_arm(code: &str) -> bool {
    code.match_indices("=>").any(|(at, _)| {
        let pattern = code[..at].trim_end();
        let before = if pattern.ends_with(')') {
            // Only wildcards back to the parenthesis that opens the tuple.
            pattern.trim_end_matches(['_', ' ', ',', ')']).strip_suffix('(')
        } else {
            pattern.strip_suffix('_')
        };
        // `name_` and `Variant(_)` are no wildcards.
        before.is_some_and(|before| !before.ends_with(|c: char| c.is_alphanumeric() || c == '_'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::violations_of;

    /// The messages about a file, without their path.
    fn check_at(path: &str, text: &str) -> Vec<String> {
        let source = Source::parse(path, text);
        let found = violations_of(|found| check(&source, found));
        let prefix = format!("{path}:");
        found.iter().map(|line| line.strip_prefix(&prefix).unwrap().to_owned()).collect()
    }

    /// The lines of a file of the core that some check objects to.
    fn lines_found(text: &str) -> Vec<usize> {
        let found = check_at("crates/core/src/x.rs", &format!("//! Doc.\n{text}"));
        found.iter().map(|line| line.split(':').next().unwrap().parse().unwrap()).collect()
    }

    #[test]
    fn a_source_file_opens_with_its_doc() {
        assert_eq!(check_at("crates/core/src/x.rs", "use std::fmt;\n").len(), 1);
        assert_eq!(check_at("crates/core/tests/x.rs", "use std::fmt;\n").len(), 0);
    }

    #[test]
    fn files_and_lines_have_a_limit() {
        let path = "crates/core/tests/x.rs";
        assert_eq!(check_at(path, &"x\n".repeat(600)).len(), 0);
        assert_eq!(check_at(path, &"x\n".repeat(601)).len(), 1);
        assert_eq!(check_at(path, &"é".repeat(110)).len(), 0);
        assert_eq!(check_at(path, &"é".repeat(111)).len(), 1);
        assert_eq!(check_at(path, &format!("https://{}", "x".repeat(111))).len(), 0);
    }

    #[test]
    fn vague_module_names_are_found_in_paths_and_in_code() {
        assert_eq!(check_at("crates/core/tests/common.rs", "").len(), 1);
        assert_eq!(check_at("crates/core/tests/misc/lease.rs", "").len(), 1);
        assert_eq!(check_at("crates/core/tests/lease/mod.rs", "").len(), 1);
        assert_eq!(lines_found("pub mod helpers {\n}\nmod lease {\n}\n"), [2]);
    }

    #[test]
    fn unfinished_code_is_found_but_not_in_comments_or_strings() {
        assert_eq!(lines_found("todo!();\nunimplemented!()\ndbg!(x);\n"), [2, 3, 4]);
        assert_eq!(lines_found("let a = todo!(\"x\");\n#[ignore = \"slow\"]\n"), [2, 3]);
        assert_eq!(lines_found("// todo!(\nlet a = \"dbg!(\";\n"), [0; 0]);
    }

    #[test]
    fn the_core_never_asks_the_machine() {
        assert_eq!(lines_found("let now = std::time::Instant::now();\n"), [2]);
        assert_eq!(lines_found("use std::fs::File;\nuse tokio::spawn;\n"), [2, 3]);
        assert_eq!(lines_found("/// Not `SystemTime::now`.\nlet my_tokio = 1;\n"), [0; 0]);
        assert_eq!(check_at("crates/cli/src/x.rs", "//! Doc.\nuse tokio::spawn;\n").len(), 0);
    }

    #[test]
    fn a_todo_says_why_it_is_safe() {
        assert_eq!(lines_found("// TODO: later\n/// TODO(me): x\n"), [2, 3]);
        assert_eq!(lines_found("// TODO (safe: one caller)\n// TODO(safe: one caller)\n"), [0; 0]);
    }

    #[test]
    fn a_decision_is_not_cited_by_number() {
        assert_eq!(lines_found(concat!("// See docs/decisions", "/004-x.md.\n")), [2]);
        assert_eq!(lines_found("// The reasons are in docs/decisions.\n"), [0; 0]);
    }

    #[test]
    fn a_wildcard_arm_is_found_however_it_is_written() {
        assert_eq!(lines_found("_ => a,\nA | _ => b,\n(_, _) => c,\n"), [2, 3, 4]);
        assert_eq!(lines_found("match x { A => 1, _ => 2 }\nx @ _ => a,\n"), [2, 3]);
        assert_eq!(lines_found("match x { A => 1, (_, _) => 2 }\n"), [2]);
    }

    #[test]
    fn a_partial_wildcard_or_a_foreign_type_is_no_wildcard_arm() {
        assert_eq!(lines_found("(A, _) => a,\nB(_) => b,\nC { .. } => c,\nd_ => d,\n"), [0; 0]);
        assert_eq!(lines_found("_ => a, // not ours: a character\n"), [0; 0]);
        assert_eq!(lines_found("// not ours: an integer\n_ => a,\n"), [0; 0]);
        assert_eq!(lines_found("// ours\n_ => a,\n"), [3]);
    }
}
