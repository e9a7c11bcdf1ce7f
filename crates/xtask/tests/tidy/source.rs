//! Rust source cut into code, comments and strings.
//!
//! `code` has as many lines as the text, with every comment, string and character literal blanked
//! out. A check that searches it cannot stumble over a brace in a string or a name in a sentence.

use std::ops::RangeInclusive;

pub struct Source<'a> {
    pub path: &'a str,
    pub text: &'a str,
    pub code: String,
    pub comments: Vec<Piece<'a>>,
    pub strings: Vec<Piece<'a>>,
    tests: Vec<RangeInclusive<usize>>,
}

/// A comment with its slashes, or a string without its quotes, and the line it begins on.
pub struct Piece<'a> {
    pub line: usize,
    pub text: &'a str,
}

enum Token {
    Code,
    Comment,
    Character,
    /// The bytes before and after what the string holds.
    Quoted {
        before: usize,
        after: usize,
    },
}

impl<'a> Source<'a> {
    pub fn parse(path: &'a str, text: &'a str) -> Self {
        let mut source = Self {
            path,
            text,
            code: String::with_capacity(text.len()),
            comments: Vec::new(),
            strings: Vec::new(),
            tests: Vec::new(),
        };
        let mut rest = text;
        let mut line = 1;
        while !rest.is_empty() {
            let (token, length) = next_token(rest);
            let (piece, tail) = rest.split_at(length);
            match token {
                Token::Code => source.code.push_str(piece),
                Token::Comment => source.comments.push(Piece { line, text: piece }),
                Token::Character => {}
                Token::Quoted { before, after } => {
                    let text = &piece[before..length - after];
                    source.strings.push(Piece { line, text });
                }
            }
            if !matches!(token, Token::Code) {
                let blank = |c| if c == '\n' { '\n' } else { ' ' };
                source.code.extend(piece.chars().map(blank));
            }
            line += piece.matches('\n').count();
            rest = tail;
        }
        source.tests = test_items(&source.code);
        source
    }

    /// Whether the file belongs to the sources of a crate, as opposed to its tests or examples.
    pub fn is_crate_source(&self) -> bool {
        let mut parts = self.path.split('/');
        parts.next() == Some("crates") && parts.next().is_some() && parts.next() == Some("src")
    }

    /// Whether the line is test code: in an item under `#[cfg(test)]`, or in a `tests.rs`.
    pub fn is_test(&self, line: usize) -> bool {
        let file = self.path.ends_with("/tests.rs") || self.path.contains("/tests/");
        file || self.tests.iter().any(|lines| lines.contains(&line))
    }
}

/// The kind and length in bytes of what `rest` begins with. Code comes one character at a time.
fn next_token(rest: &str) -> (Token, usize) {
    let first = rest.chars().next().map_or(0, char::len_utf8);
    if rest.starts_with("//") {
        return (Token::Comment, rest.find('\n').unwrap_or(rest.len()));
    }
    if rest.starts_with("/*") {
        return (Token::Comment, block_comment_length(rest));
    }
    if rest.starts_with('"') {
        let length = string_length(rest);
        return (Token::Quoted { before: 1, after: 1 }, length);
    }
    if let Some(raw) = rest.strip_prefix('r') {
        // An identifier directly before a quote is always a string prefix (`r`, `br`, `cr`).
        let hashes = raw.bytes().take_while(|byte| *byte == b'#').count();
        if raw[hashes..].starts_with('"') {
            let before = 2 + hashes;
            let end = format!("\"{}", "#".repeat(hashes));
            let inside = rest[before..]
                .find(&end)
                .expect("a raw string is closed, or the file would not compile");
            let after = end.len();
            return (Token::Quoted { before, after }, before + inside + after);
        }
    }
    if let Some(length) = character_length(rest) {
        return (Token::Character, length);
    }
    (Token::Code, first)
}

fn block_comment_length(rest: &str) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < rest.len() {
        let tail = &rest.as_bytes()[at..];
        if tail.starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if tail.starts_with(b"*/") {
            depth -= 1;
            at += 2;
        } else {
            at += 1;
        }
        if depth == 0 {
            return at;
        }
    }
    rest.len()
}

fn string_length(rest: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in rest.bytes().enumerate().skip(1) {
        if byte == b'"' && !escaped {
            return at + 1;
        }
        escaped = byte == b'\\' && !escaped;
    }
    rest.len()
}

/// The length of a character literal; `None` for a lifetime and for everything else.
fn character_length(rest: &str) -> Option<usize> {
    let inside = rest.strip_prefix('\'')?;
    if let Some(escape) = inside.strip_prefix('\\') {
        // The escaped character may itself be a quote.
        let escaped = escape.chars().next()?.len_utf8();
        return Some(2 + escaped + escape[escaped..].find('\'')? + 1);
    }
    let character = inside.chars().next()?.len_utf8();
    inside[character..].starts_with('\'').then_some(character + 2)
}

/// The lines of every item under `#[cfg(test)]`.
fn test_items(code: &str) -> Vec<RangeInclusive<usize>> {
    const ATTRIBUTE: &str = "#[cfg(test)]";
    let line_of = |at: usize| 1 + code[..at].matches('\n').count();
    code.match_indices(ATTRIBUTE)
        .map(|(start, _)| line_of(start)..=line_of(item_end(code, start + ATTRIBUTE.len())))
        .collect()
}

/// Where the item that begins at `start` ends: at its `;`, or at the brace that closes its body.
pub fn item_end(code: &str, start: usize) -> usize {
    let mut depth = 0;
    for (at, byte) in code.bytes().enumerate().skip(start) {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' => depth -= 1,
            b'}' => {
                depth -= 1;
                if depth <= 0 {
                    return at;
                }
            }
            b';' if depth == 0 => return at,
            _ => {}
        }
    }
    code.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_blanked_out_of_the_code() {
        let text = "a /* { /* } */ */ b // {\n\"\\\"{\" r#\"{\"{\"# '{' '\\'' 'static c\n";
        let source = Source::parse("x.rs", text);
        let words: Vec<_> = source.code.split_whitespace().collect();
        assert_eq!(words, ["a", "b", "'static", "c"]);
        assert_eq!(source.code.lines().count(), text.lines().count());
    }

    #[test]
    fn strings_and_comments_know_their_line() {
        let source = Source::parse("x.rs", "// one\nlet a = \"two\n\";\nlet b = br\"four\";\n");
        let comments: Vec<_> = source.comments.iter().map(|c| (c.line, c.text)).collect();
        let strings: Vec<_> = source.strings.iter().map(|s| (s.line, s.text)).collect();
        assert_eq!(comments, [(1, "// one")]);
        assert_eq!(strings, [(2, "two\n"), (4, "four")]);
    }

    #[test]
    fn only_the_item_under_the_attribute_is_test_code() {
        let text = "#[cfg(test)]\nmod tests;\nfn a() {}\n#[cfg(test)]\nmod b {\n    fn c() {}\n}\n";
        let source = Source::parse("crates/core/src/x.rs", text);
        let tests: Vec<_> = (1..=7).filter(|line| source.is_test(*line)).collect();
        assert_eq!(tests, [1, 2, 4, 5, 6, 7]);
    }

    #[test]
    fn a_tests_file_is_test_code() {
        assert!(Source::parse("crates/core/src/lease/tests.rs", "").is_test(1));
        assert!(!Source::parse("crates/core/src/lease.rs", "").is_test(1));
    }
}
