//! Functions stay small: few lines, few parameters.
//!
//! Read off rustfmt-formatted code by counting brackets, which is exact enough and needs no parser.

use crate::Violations;
use crate::source::{Source, item_end};

const LINES_MAX: usize = 70;
const PARAMETERS_MAX: usize = 5;

#[derive(Debug)]
struct Function<'a> {
    name: &'a str,
    line: usize,
    lines: usize,
    /// Without `self`.
    parameters: usize,
}

pub fn check(source: &Source, found: &mut Violations) {
    if !source.is_crate_source() {
        return;
    }
    for function in functions(&source.code) {
        let Function { name, line, lines, parameters } = function;
        if source.is_test(line) {
            continue;
        }
        if lines > LINES_MAX {
            let what = format!("fn {name} has {lines} lines, at most {LINES_MAX}; split it");
            found.push(source.path, line, &what);
        }
        if parameters > PARAMETERS_MAX {
            let what = format!(
                "fn {name} has {parameters} parameters, at most {PARAMETERS_MAX}; \
                 gather them in a struct"
            );
            found.push(source.path, line, &what);
        }
    }
}

fn functions(code: &str) -> Vec<Function<'_>> {
    let mut functions = Vec::new();
    let mut start = 0;
    for (index, line) in code.split_inclusive('\n').enumerate() {
        if let Some(keyword) = function_keyword(line) {
            let signature = &code[start + keyword..];
            let name = signature["fn ".len()..].split(|c: char| !is_word(c)).next().unwrap_or("");
            let end = item_end(code, start + keyword).min(code.len() - 1);
            functions.push(Function {
                name,
                line: index + 1,
                lines: 1 + code[start..=end].trim_end().matches('\n').count(),
                parameters: parameters(signature),
            });
        }
        start += line.len();
    }
    functions
}

/// Where `fn` stands in a line that begins a function.
fn function_keyword(line: &str) -> Option<usize> {
    let mut rest = line.trim_start();
    if let Some(visible) = rest.strip_prefix("pub") {
        let scoped = visible.starts_with('(').then(|| visible.split_once(')')).flatten();
        rest = scoped.map_or(visible, |(_, after)| after).trim_start();
    }
    while let Some((word, after)) = rest.split_once(' ') {
        match word {
            "fn" => return Some(line.len() - rest.len()),
            "const" | "async" | "unsafe" | "extern" | "default" | "" => rest = after,
            _ => return None,
        }
    }
    None
}

/// The number of parameters of the function whose `fn` begins the text, without `self`.
fn parameters(signature: &str) -> usize {
    let list = parameter_list(signature);
    let mut count = 0;
    for parameter in split_at_commas(list) {
        let pattern = parameter.split(':').next().unwrap_or("");
        let is_self = pattern.split(|c: char| !is_word(c)).any(|word| word == "self");
        if !parameter.trim().is_empty() && !is_self {
            count += 1;
        }
    }
    count
}

/// What stands between the parentheses, which may follow generics with parentheses of their own.
fn parameter_list(signature: &str) -> &str {
    let mut nesting = Nesting::default();
    let mut open = None;
    for (at, c) in signature.char_indices() {
        if c == '(' && nesting.depth == 0 {
            open = Some(at + 1);
        }
        nesting.step(c);
        if let Some(open) = open
            && nesting.depth == 0
        {
            return &signature[open..at];
        }
    }
    ""
}

fn split_at_commas(list: &str) -> impl Iterator<Item = &str> {
    let mut nesting = Nesting::default();
    list.split(move |c| {
        nesting.step(c);
        c == ',' && nesting.depth == 0
    })
}

/// How deep in brackets of any kind we are; the `>` of an arrow is no bracket.
#[derive(Default)]
struct Nesting {
    depth: usize,
    previous: char,
}

impl Nesting {
    fn step(&mut self, c: char) {
        match c {
            '(' | '[' | '{' | '<' => self.depth += 1,
            ')' | ']' | '}' => self.depth = self.depth.saturating_sub(1),
            '>' if self.previous != '-' => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        self.previous = c;
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::violations_of;

    fn check_text(text: &str) -> Vec<String> {
        let source = Source::parse("crates/core/src/x.rs", text);
        violations_of(|found| check(&source, found))
    }

    fn body_of(lines: usize) -> String {
        "    work();\n".repeat(lines)
    }

    #[test]
    fn a_function_of_71_lines_is_too_long() {
        let longest = format!("fn a() {{\n{}}}\n", body_of(68));
        assert_eq!(check_text(&longest), [""; 0]);
        let too_long = format!("//! Doc.\n\nfn a() {{\n{}}}\n", body_of(69));
        let expected = "crates/core/src/x.rs:3: fn a has 71 lines, at most 70; split it";
        assert_eq!(check_text(&too_long), [expected]);
    }

    #[test]
    fn braces_in_strings_and_nested_blocks_do_not_end_a_function() {
        let nested = format!("fn a() {{\n    if b {{\n    }}\n    c(\"}}\");\n{}}}\n", body_of(70));
        assert_eq!(check_text(&nested).len(), 1);
    }

    #[test]
    fn every_kind_of_function_is_measured() {
        for head in [
            "fn a",
            "pub fn a",
            "pub(crate) fn a",
            "pub(in crate::b) const fn a",
            "    async fn a<T>",
            "pub unsafe extern \"C\" fn a",
        ] {
            let text = format!("{head}() -> [u8; 2] {{\n{}}}\n", body_of(70));
            assert_eq!(check_text(&text).len(), 1, "{head}");
        }
    }

    #[test]
    fn a_long_test_is_not_measured_nor_is_a_long_file_of_short_functions() {
        let test =
            format!("#[cfg(test)]\nmod tests {{\n    fn a() {{\n{}    }}\n}}\n", body_of(90));
        assert_eq!(check_text(&test), [""; 0]);
        assert_eq!(check_text(&"fn a() {}\n".repeat(90)), [""; 0]);
        assert_eq!(check_text(&"    fn a(&self);\n".repeat(90)), [""; 0]);
    }

    #[test]
    fn six_parameters_are_too_many() {
        let text = "fn a(a: u8, b: u8, c: u8, d: u8, e: u8, f: u8) {}\n";
        let expected = "crates/core/src/x.rs:1: fn a has 6 parameters, at most 5; \
                        gather them in a struct";
        assert_eq!(check_text(text), [expected]);
    }

    #[test]
    fn parameters_are_counted_over_lines_without_self_and_without_inner_commas() {
        let multi_line = "    pub async fn a(\n        &self,\n        a: (u8, u8),\n        \
                          b: HashMap<u8, Vec<u8>>,\n        c: [u8; 2],\n    ) {\n    }\n";
        assert_eq!(functions(multi_line)[0].parameters, 3);
        assert_eq!(functions(multi_line)[0].lines, 7);
        for (text, expected) in [
            ("fn a() {}", 0),
            ("fn a(&'a mut self, b: u8)", 1),
            ("fn a(mut self: Box<Self>, b: u8);", 1),
            ("fn a<F: Fn(u8, u8) -> u8, T>(f: F, t: T) -> (u8, u8) {}", 2),
            ("fn a(f: impl Fn(u8) -> Vec<u8>, g: &dyn Fn(u8, u8), h: u8,)", 3),
            ("fn a(itself: u8)", 1),
        ] {
            assert_eq!(parameters(text), expected, "{text}");
        }
    }

    #[test]
    fn a_function_type_or_a_call_is_no_function() {
        for line in ["    run: fn(u8) -> u8,\n", "fnord();\n", "const A: u8 = 1;\n"] {
            assert_eq!(function_keyword(line), None, "{line}");
        }
    }
}
