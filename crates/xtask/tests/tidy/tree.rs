//! The working tree: every text file that git would track, by path from the root.
//!
//! Git itself is not asked, so that the check also runs in an unpacked archive. `.gitignore` is
//! read as far as we use it: names, rooted paths and `*suffix` patterns.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// The files, with `/` between the parts of a path on every system.
pub struct Tree {
    pub files: BTreeMap<String, String>,
    /// Images and the like, which links may lead to.
    others: BTreeSet<String>,
}

impl Tree {
    pub fn read(root: &Path) -> Self {
        let ignored = Ignored::parse(&fs::read_to_string(root.join(".gitignore")).unwrap());
        let mut tree = Self { files: BTreeMap::new(), others: BTreeSet::new() };
        tree.read_directory(root, "", &ignored);
        tree
    }

    /// A tree that is on no disk: what the tests of the checks look at.
    pub fn of(files: &[(&str, &str)]) -> Self {
        let files = files.iter().map(|(path, text)| ((*path).into(), (*text).into())).collect();
        Self { files, others: BTreeSet::new() }
    }

    /// Whether this is a file or a directory of the tree.
    pub fn contains(&self, path: &str) -> bool {
        let directory = if path.is_empty() { String::new() } else { format!("{path}/") };
        self.files.contains_key(path)
            || self.others.contains(path)
            || self.under(&directory).next().is_some()
    }

    /// The paths that begin with `prefix`, without it.
    pub fn under<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a str> {
        self.files.keys().filter_map(move |path| path.strip_prefix(prefix))
    }

    fn read_directory(&mut self, directory: &Path, prefix: &str, ignored: &Ignored) {
        for entry in fs::read_dir(directory).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            let path = format!("{prefix}{name}");
            if name == ".git" || name == "target" || ignored.matches(&path) {
                continue;
            }
            let kind = entry.file_type().unwrap();
            if kind.is_dir() {
                self.read_directory(&entry.path(), &format!("{path}/"), ignored);
            } else if kind.is_file() {
                // What is not UTF-8 is an image or a database: no line of it is ours to check.
                match String::from_utf8(fs::read(entry.path()).unwrap()) {
                    Ok(text) => drop(self.files.insert(path, text)),
                    Err(_) => drop(self.others.insert(path)),
                }
            }
        }
    }
}

struct Ignored(Vec<String>);

impl Ignored {
    fn parse(gitignore: &str) -> Self {
        let patterns = gitignore.lines().map(|line| line.trim().trim_end_matches('/'));
        let patterns = patterns.filter(|line| !line.is_empty() && !line.starts_with('#'));
        Self(patterns.map(String::from).collect())
    }

    fn matches(&self, path: &str) -> bool {
        let name = path.rsplit('/').next().unwrap_or(path);
        self.0.iter().any(|pattern| {
            if let Some(suffix) = pattern.strip_prefix('*') {
                name.ends_with(suffix)
            } else if pattern.contains('/') {
                path == pattern.trim_start_matches('/')
            } else {
                name == pattern
            }
        })
    }
}

#[test]
fn ignored_files_are_matched_by_suffix_name_and_rooted_path() {
    let ignored = Ignored::parse("# comment\n\n/out\n*.db\nnode_modules/\n");
    for path in ["out", "a/b.db", "web/node_modules"] {
        assert!(ignored.matches(path), "{path}");
    }
    for path in ["a/out", "b.db.rs", "node_modules.md"] {
        assert!(!ignored.matches(path), "{path}");
    }
}

#[test]
fn directories_are_part_of_the_tree() {
    let tree = Tree::of(&[("docs/guides/start.md", "")]);
    assert!(tree.contains("docs/guides"));
    assert!(tree.contains(""));
    assert!(!tree.contains("docs/gui"));
}
