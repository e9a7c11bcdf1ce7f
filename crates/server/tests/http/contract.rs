//! Checks answers against the document of the API: the status is listed, the media type is the one
//! announced, and the body has the fields of its schema and no others.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use serde_json::Value;

use crate::site::Answer;

/// The document as it is served.
pub static DOCUMENT: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(ff_server::document()).unwrap());

/// Fails unless the answer is one that the document promises.
pub fn check(method: &str, path: &str, answer: &Answer) {
    // What is answered before a route is reached is the same everywhere.
    let code = answer.body["code"].as_str();
    let Some(operation) = operation(method, path) else {
        assert!(matches!(code, Some("route_not_found" | "method_not_allowed")), "{answer:?}");
        return;
    };
    if answer.status == 304 {
        return;
    }
    let response = &operation["responses"][answer.status.to_string()];
    assert!(response.is_object(), "{method} {path} does not list {answer:?}");
    let sent = answer.headers["content-type"].to_str().unwrap();
    let mut contents = response["content"].as_object().unwrap().iter();
    let content = contents.find(|(media_type, _)| sent.starts_with(media_type.as_str()));
    if path.starts_with("/page/") {
        return;
    }
    let (_, content) = content.unwrap_or_else(|| panic!("{method} {path} does not list {sent}"));
    if let Err(error) = fits(&content["schema"], &answer.body) {
        panic!("{method} {path} answered what the document does not say: {error}\n{answer:?}");
    }
}

/// The operation that a request reaches.
fn operation(method: &str, path: &str) -> Option<&'static Value> {
    let paths = DOCUMENT["paths"].as_object().unwrap();
    // A template without parameters goes before one with.
    let exact = paths.get(path);
    let matching = || paths.iter().find(|(template, _)| matches(template, path)).map(|(_, p)| p);
    let methods = exact.or_else(matching)?;
    let method = if method == "HEAD" { "GET" } else { method };
    methods.get(method.to_lowercase())
}

fn matches(template: &str, path: &str) -> bool {
    let (own, sent): (Vec<_>, Vec<_>) = (template.split('/').collect(), path.split('/').collect());
    own.len() == sent.len()
        && own.iter().zip(&sent).all(|(own, sent)| own.starts_with('{') || own == sent)
}

/// What a schema is called.
pub fn resolve(schema: &Value) -> &Value {
    match schema["$ref"].as_str() {
        Some(path) => {
            let found = DOCUMENT.pointer(path.strip_prefix('#').unwrap());
            found.unwrap_or_else(|| panic!("{path} leads nowhere"))
        }
        None => schema,
    }
}

/// Whether a value has a type, and only the fields of that type.
pub fn fits(schema: &Value, value: &Value) -> Result<(), String> {
    let known = visit(schema, value)?;
    if let (Some(known), Some(object)) = (known, value.as_object())
        && let Some(stranger) = object.keys().find(|key| !known.contains(*key))
    {
        return Err(format!("{stranger} is not in the schema"));
    }
    Ok(())
}

/// The fields that a schema knows, if the value fits; nothing when it allows any.
fn visit(schema: &Value, value: &Value) -> Result<Option<BTreeSet<String>>, String> {
    let schema = resolve(schema);
    let mut known: Option<BTreeSet<String>> = None;
    let mut learn = |fields: Option<BTreeSet<String>>| {
        if let Some(fields) = fields {
            known.get_or_insert_default().extend(fields);
        }
    };
    for part in list(&schema["allOf"]) {
        learn(visit(part, value)?);
    }
    let choices = list(&schema["oneOf"]);
    if !choices.is_empty() {
        let tried: Vec<_> = choices.iter().map(|choice| visit(choice, value)).collect();
        let errors = tried.iter().filter_map(|tried| tried.as_ref().err()).cloned();
        let errors = errors.collect::<Vec<_>>().join("; ");
        learn(tried.into_iter().find_map(Result::ok).ok_or(errors)?);
    }
    if let Some(words) = schema["enum"].as_array()
        && !words.contains(value)
    {
        return Err(format!("{value} is none of {words:?}"));
    }
    check_type(&schema["type"], value)?;
    for item in list(value) {
        fits(&schema["items"], item)?;
    }
    let Some(object) = value.as_object() else { return Ok(known) };
    for required in list(&schema["required"]) {
        if !object.contains_key(required.as_str().unwrap()) {
            return Err(format!("{required} is missing"));
        }
    }
    if schema["additionalProperties"].is_object() {
        object.values().try_for_each(|value| fits(&schema["additionalProperties"], value))?;
    }
    if let Some(properties) = schema["properties"].as_object() {
        for (name, own) in properties {
            if let Some(value) = object.get(name) {
                fits(own, value).map_err(|error| format!("{name}: {error}"))?;
            }
        }
        learn(Some(properties.keys().cloned().collect()));
    }
    Ok(known)
}

fn check_type(kind: &Value, value: &Value) -> Result<(), String> {
    let is = |kind: &Value| match kind.as_str().unwrap() {
        "null" => value.is_null(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("{other} is no type"),
    };
    let fits = match kind {
        Value::Null => true,
        Value::Array(kinds) => kinds.iter().any(is),
        kind => is(kind),
    };
    if fits { Ok(()) } else { Err(format!("{value} is not of type {kind}")) }
}

pub fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

#[test]
fn a_value_with_a_field_too_many_or_too_few_does_not_fit() {
    let schema = &DOCUMENT["components"]["schemas"]["CreateAnswer"];
    let answer = |status: &str| serde_json::json!({"status": status, "execution_id": "x"});
    assert_eq!(fits(schema, &answer("duplicate")), Ok(()));
    assert!(fits(schema, &answer("created")).is_err(), "public_state is missing");
    assert!(fits(schema, &answer("lost")).is_err());
    let mut stranger = answer("duplicate");
    stranger["colour"] = "red".into();
    assert!(fits(schema, &stranger).is_err());
}
