//! Schemas as HTML: a type in a few words, and a table of its fields.

use serde_json::Value;

use super::html::{escape, inline, prose};
use super::{entries, list, put, row, text};

/// The section of a named type.
pub fn write(body: &mut String, name: &str, schema: &Value) {
    put(body, format_args!("<h3 id=\"type-{0}\">{0}</h3>", escape(name)));
    body.push_str(&prose(text(&schema["description"])));
    let variants = variants_of(schema);
    if !schema["properties"].is_null() {
        fields(body, schema);
    } else if variants.is_empty() {
        put(body, format_args!("<p class=\"type\">{}</p>", describe(schema)));
    }
    for variant in variants {
        if !variant["description"].is_null() {
            put(body, format_args!("<p>{}</p>", inline(text(&variant["description"]))));
        }
        fields(body, variant);
    }
}

/// The alternatives of a type, and the parts it is composed of.
fn variants_of(schema: &Value) -> Vec<&Value> {
    let of = |word: &str| list(&schema[word]).iter();
    of("oneOf").chain(of("allOf")).collect()
}

fn fields(body: &mut String, schema: &Value) {
    if schema["properties"].is_null() {
        // A part of a composition may itself be composed, or be a type of its own.
        for part in variants_of(schema) {
            fields(body, part);
        }
        if schema["$ref"].is_string() {
            put(body, format_args!("<p class=\"type\">{}</p>", describe(schema)));
        }
        return;
    }
    body.push_str("<table>");
    let required = list(&schema["required"]);
    for (name, field) in entries(&schema["properties"]) {
        let optional = !required.iter().any(|own| own == name);
        let shown = if optional { format!("{name}?") } else { name.to_owned() };
        row(body, &shown, field, &field["description"]);
    }
    body.push_str("</table>");
}

/// A type in a few words, with links to those that have a section.
pub fn describe(schema: &Value) -> String {
    if let Some(name) = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
        return format!("<a href=\"#type-{0}\">{0}</a>", escape(name));
    }
    if let Some(words) = schema["enum"].as_array() {
        let quoted = words.iter().map(|word| format!("<code>{}</code>", escape(text(word))));
        return quoted.collect::<Vec<_>>().join(" | ");
    }
    let choices = list(&schema["oneOf"]);
    if !choices.is_empty() {
        return choices.iter().map(describe).collect::<Vec<_>>().join(" | ");
    }
    match &schema["type"] {
        Value::String(kind) if kind == "array" => format!("list of {}", describe(&schema["items"])),
        Value::String(kind) if kind == "object" && schema["additionalProperties"].is_object() => {
            format!("map to {}", describe(&schema["additionalProperties"]))
        }
        Value::String(kind) => escape(kind),
        Value::Array(kinds) => {
            kinds.iter().map(|kind| escape(text(kind))).collect::<Vec<_>>().join(" | ")
        }
        // not ours: JSON; a schema that says no type allows any
        _ => "any".to_owned(),
    }
}
