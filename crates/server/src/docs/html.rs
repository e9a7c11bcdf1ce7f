//! HTML: texts made safe, and the frame of a page.

/// A text that cannot be read as markup.
pub fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            // not ours: a character
            _ => safe.push(c),
        }
    }
    safe
}

/// A text in which what stands between backticks is code.
pub fn inline(text: &str) -> String {
    let part = |(n, part): (usize, &str)| match n % 2 {
        1 => format!("<code>{}</code>", escape(part)),
        _ => escape(part),
    };
    text.split('`').enumerate().map(part).collect()
}

/// A text in paragraphs.
pub fn prose(text: &str) -> String {
    let paragraphs = text.split("\n\n").filter(|part| !part.trim().is_empty());
    paragraphs.flat_map(|part| ["<p>".to_owned(), inline(part), "</p>".to_owned()]).collect()
}

/// A whole page.
pub fn page(title: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <title>{}</title><link rel=\"icon\" href=\"/page/icon.svg\">\
         <link rel=\"stylesheet\" href=\"/docs/docs.css\"></head>\
         <body>{body}</body></html>\n",
        escape(title)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_never_markup() {
        let shown = inline("a <b> & `<i> \"c\"`");
        assert_eq!(shown, "a &lt;b&gt; &amp; <code>&lt;i&gt; &quot;c&quot;</code>");
    }
}
