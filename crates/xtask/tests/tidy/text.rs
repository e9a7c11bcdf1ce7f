//! Every text file: no trailing whitespace, a newline at the end, no tabs where we indent.

use crate::Violations;

const README_LINES_MAX: usize = 200;
const SPACES_ONLY: [&str; 4] = [".rs", ".sql", ".md", ".toml"];

pub fn check(path: &str, text: &str, found: &mut Violations) {
    let spaces_only = SPACES_ONLY.iter().any(|extension| path.ends_with(extension));
    for (index, line) in text.lines().enumerate() {
        if line.trim_end() != line {
            found.push(path, index + 1, "trailing whitespace; remove it");
        }
        let indent = &line[..line.len() - line.trim_start().len()];
        if spaces_only && indent.contains('\t') {
            found.push(path, index + 1, "indented with a tab; use spaces");
        }
    }
    let lines = text.lines().count();
    if !text.is_empty() && !text.ends_with('\n') {
        found.push(path, lines, "no newline at the end; add it");
    }
    if path == "README.md" && lines > README_LINES_MAX {
        let what = format!("{lines} lines, at most {README_LINES_MAX}; move some to docs/");
        found.push(path, README_LINES_MAX + 1, &what);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::violations_of;

    fn check_at(path: &str, text: &str) -> Vec<String> {
        violations_of(|found| check(path, text, found))
    }

    #[test]
    fn whitespace_that_nobody_sees_is_found() {
        assert_eq!(check_at("a.txt", "a \n"), ["a.txt:1: trailing whitespace; remove it"]);
        assert_eq!(check_at("a.txt", "a\r\n").len(), 0, "lines() takes the carriage return");
        assert_eq!(check_at("a.txt", "a\nb"), ["a.txt:2: no newline at the end; add it"]);
        assert_eq!(check_at("a.rs", "a\n\tb\n"), ["a.rs:2: indented with a tab; use spaces"]);
        assert_eq!(check_at("Makefile", "a:\n\tb\n"), [""; 0]);
        assert_eq!(check_at("empty", ""), [""; 0]);
    }

    #[test]
    fn the_readme_has_a_limit() {
        assert_eq!(check_at("README.md", &"a\n".repeat(200)).len(), 0);
        assert_eq!(check_at("README.md", &"a\n".repeat(201)).len(), 1);
        assert_eq!(check_at("docs/README.md", &"a\n".repeat(201)).len(), 0);
    }
}
