//! Marks in what others wrote that nobody sees, and that could make a person read something else: they
//! turn the direction of text, join and part it, or take no room.

use std::borrow::Cow;
use std::fmt::Write as _;

/// A text in which each of them can be read: `\u202e`.
pub fn visible(text: &str) -> Cow<'_, str> {
    if !text.contains(is_unseen) {
        return text.into();
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_unseen(c) {
            write!(shown, "\\u{:04x}", u32::from(c)).expect("writing to a string");
        } else {
            shown.push(c);
        }
    }
    shown.into()
}

fn is_unseen(c: char) -> bool {
    matches!(c, '\u{061c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_reads_something_else_than_what_is_there() {
        assert_eq!(visible("pay \u{202e}0001\u{202c} EUR"), "pay \\u202e0001\\u202c EUR");
        assert_eq!(visible("Größe 10 €"), "Größe 10 €");
    }
}
