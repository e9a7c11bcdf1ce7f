//! Documents: links lead somewhere, decisions are numbered.

use crate::Violations;
use crate::tree::Tree;

pub fn check(path: &str, text: &str, tree: &Tree, found: &mut Violations) {
    for (line, target) in links(text) {
        if let Some(file) = linked_file(path, &target)
            && !tree.contains(&file)
        {
            let what = format!("a link to {target}, but there is no {file}; correct it");
            found.push(path, line, &what);
        }
    }
    if let Some(name) = path.strip_prefix("docs/decisions/")
        && !is_decision_name(name)
    {
        found.push(path, 1, "not named like a decision; name it NNN-words-of-the-title.md");
    }
}

/// Every link target outside code, with its line: `[text](target)` and `[label]: target`.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut links = Vec::new();
    let mut in_fence = false;
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") || line.trim_start().starts_with("~~~") {
            in_fence = !in_fence;
            continue;
        }
        if in_fence {
            continue;
        }
        // Every second piece between backticks is code.
        let prose: String = line.split('`').step_by(2).collect();
        let inline = prose.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        let definition = prose.trim_start().strip_prefix('[').and_then(|rest| {
            let (label, target) = rest.split_once("]: ")?;
            (!label.starts_with('^')).then_some(target)
        });
        // A title may follow the target.
        let targets = inline.chain(definition).filter_map(|link| link.split_whitespace().next());
        links.extend(targets.map(|t| (index + 1, t.trim_matches(['<', '>']).to_owned())));
    }
    links
}

/// The path from the root that a link in the document at `path` leads to; `None` when it leads out
/// of the repository or stays in the document.
fn linked_file(path: &str, target: &str) -> Option<String> {
    let file = target.split('#').next().unwrap_or("");
    if file.is_empty() || file.contains("://") || file.starts_with("mailto:") {
        return None;
    }
    let mut parts: Vec<&str> = path.split('/').collect();
    parts.pop();
    if file.starts_with('/') {
        parts.clear();
    }
    for part in file.split('/') {
        match part {
            // Above the root there is nothing to find: the two dots stay and match no file.
            ".." if parts.pop().is_none() => return Some(file.to_owned()),
            "" | "." | ".." => {}
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

fn is_decision_name(name: &str) -> bool {
    let Some((number, title)) = name.strip_suffix(".md").and_then(|name| name.split_once('-'))
    else {
        return false;
    };
    let is_word = |word: &str| {
        !word.is_empty() && word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
    };
    number.len() == 3
        && number.bytes().all(|byte| byte.is_ascii_digit())
        && title.split('-').all(is_word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::violations_of;

    fn check_at(path: &str, text: &str) -> Vec<String> {
        let tree = Tree::of(&[("README.md", ""), ("docs/guides/start.md", "")]);
        violations_of(|found| check(path, text, &tree, found))
    }

    #[test]
    fn a_link_to_a_missing_file_is_found() {
        let expected = "docs/a.md:2: a link to gone.md#x, but there is no docs/gone.md; correct it";
        assert_eq!(check_at("docs/a.md", "x\n[a](gone.md#x)\n"), [expected]);
        assert_eq!(check_at("docs/a.md", "[ok](guides/start.md), [a](b.md)\n").len(), 1);
        assert_eq!(check_at("docs/a.md", "[a]: b.md\n").len(), 1);
        assert_eq!(check_at("docs/a.md", "[`code`](b.md)\n").len(), 1);
        assert_eq!(check_at("docs/a.md", "[a](../../README.md)\n").len(), 1);
    }

    #[test]
    fn links_that_lead_somewhere_are_fine() {
        for link in [
            "[a](guides/start.md)",
            "[a](./guides/)",
            "[a](../README.md#part \"title\")",
            "[a](/README.md)",
            "[a](#here)",
            "[a](https://example.org/x)",
            "[a]: ../README.md",
            "[^1]: a footnote",
            "`[a](gone.md)`",
            "```\n[a](gone.md)\n```",
        ] {
            assert_eq!(check_at("docs/a.md", link), [""; 0], "{link}");
        }
    }

    #[test]
    fn decisions_are_numbered() {
        let check_name = |name: &str| check_at(&format!("docs/decisions/{name}"), "").len();
        assert_eq!(check_name("001-one-row-per-step.md"), 0);
        for name in ["1-x.md", "001.md", "001-.md", "001_x.md", "001-Title.md", "index.md"] {
            assert_eq!(check_name(name), 1, "{name}");
        }
    }
}
