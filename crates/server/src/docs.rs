//! The documentation as pages: the document of the API and the list of codes, written as HTML once,
//! when somebody first asks. No script, and nothing from elsewhere.

pub mod html;
mod schema;

use std::fmt::Write as _;
use std::sync::LazyLock;

use axum::http::HeaderMap;
use axum::response::Response;
use ff_core::Code;
use ff_wire::{HttpCode, status_of};
use serde_json::Value;

use crate::openapi::document;
use crate::page::{CSS, Fixed, HTML};
use html::{escape, prose};

/// The methods of a path, in the order in which they are shown.
const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];

/// The documentation of the API
#[utoipa::path(
    get, path = "/docs", tag = "pages", operation_id = "docs", security(()),
    responses((status = 200, description = "Every route and type.", body = String,
               content_type = "text/html")),
)]
pub async fn index(headers: HeaderMap) -> Response {
    static TEXT: LazyLock<String> = LazyLock::new(write_index);
    static FIXED: LazyLock<Fixed> = LazyLock::new(|| Fixed::new(HTML, &TEXT));
    FIXED.answer(&headers)
}

/// The codes that problems carry
#[utoipa::path(
    get, path = "/docs/errors", tag = "pages", operation_id = "docs_errors", security(()),
    responses((status = 200, description = "Every code.", body = String,
               content_type = "text/html")),
)]
pub async fn errors(headers: HeaderMap) -> Response {
    static TEXT: LazyLock<String> = LazyLock::new(write_errors);
    static FIXED: LazyLock<Fixed> = LazyLock::new(|| Fixed::new(HTML, &TEXT));
    FIXED.answer(&headers)
}

/// What the documentation looks like
#[utoipa::path(
    get, path = "/docs/docs.css", tag = "pages", operation_id = "docs_style", security(()),
    responses((status = 200, description = "A style sheet.", body = String,
               content_type = "text/css")),
)]
pub async fn style(headers: HeaderMap) -> Response {
    static FIXED: LazyLock<Fixed> =
        LazyLock::new(|| Fixed::new(CSS, include_str!("../docs/docs.css")));
    FIXED.answer(&headers)
}

fn write_index() -> String {
    let document: Value = serde_json::from_str(document()).expect("the document is JSON");
    let mut body = String::new();
    let info = &document["info"];
    let (title, version) = (text(&info["title"]), text(&info["version"]));
    let links = "<nav><a href=\"/\">Live page</a><a href=\"/docs/errors\">Codes</a>\
                 <a href=\"/openapi.json\">OpenAPI 3.1</a></nav>";
    put(&mut body, format_args!("<h1>{} {}</h1>{links}", escape(title), escape(version)));
    body.push_str(&prose(text(&info["description"])));
    for tag in list(&document["tags"]) {
        let name = text(&tag["name"]);
        put(&mut body, format_args!("<h2>{}</h2>", escape(name)));
        body.push_str(&prose(text(&tag["description"])));
        for (path, methods) in entries(&document["paths"]) {
            for method in METHODS {
                let operation = &methods[method];
                if list(&operation["tags"]).iter().any(|own| own == name) {
                    write_operation(&mut body, method, path, operation);
                }
            }
        }
    }
    body.push_str("<h2>types</h2>");
    for (name, schema) in entries(&document["components"]["schemas"]) {
        schema::write(&mut body, name, schema);
    }
    html::page("FlowFabric API", &body)
}

fn write_operation(body: &mut String, method: &str, path: &str, operation: &Value) {
    put(
        body,
        format_args!(
            "<details id=\"{}\"><summary><span class=\"method\">{}</span><code>{}</code>\
             <span class=\"what\">{}</span></summary><div class=\"body\">",
            escape(text(&operation["operationId"])),
            method.to_uppercase(),
            escape(path),
            escape(text(&operation["summary"])),
        ),
    );
    body.push_str(&prose(text(&operation["description"])));
    let parameters = list(&operation["parameters"]);
    if !parameters.is_empty() {
        body.push_str("<h4>Parameters</h4><table>");
        for parameter in parameters {
            let place = format!("{} in {}", text(&parameter["name"]), text(&parameter["in"]));
            row(body, &place, &parameter["schema"], &parameter["description"]);
        }
        body.push_str("</table>");
    }
    for (media_type, content) in entries(&operation["requestBody"]["content"]) {
        let named = schema::describe(&content["schema"]);
        put(body, format_args!("<h4>Body</h4><p><code>{}</code> {named}</p>", escape(media_type)));
    }
    body.push_str("<h4>Answers</h4><table>");
    for (status, response) in entries(&operation["responses"]) {
        let content = entries(&response["content"]).next();
        let schema = content.map_or(&Value::Null, |(_, content)| &content["schema"]);
        row(body, status, schema, &response["description"]);
    }
    body.push_str("</table></div></details>");
}

fn row(body: &mut String, name: &str, schema: &Value, description: &Value) {
    put(
        body,
        format_args!(
            "<tr><td><code>{}</code></td><td class=\"type\">{}</td><td>{}</td></tr>",
            escape(name),
            schema::describe(schema),
            html::inline(text(description)),
        ),
    );
}

fn write_errors() -> String {
    let mut body = String::from(
        "<h1>Codes</h1><nav><a href=\"/docs\">API</a></nav>\
         <p>Every problem carries one of these codes. A code never changes its meaning.</p><table>\
         <tr><th>code</th><th>status</th><th>try again</th><th>meaning</th><th>what to do</th></tr>",
    );
    let mut line = |code: &str, status: u16, retryable: bool, (meaning, hint): (&str, &str)| {
        let again = if retryable { "yes" } else { "no" };
        put(
            &mut body,
            format_args!(
                "<tr id=\"{code}\"><td><code>{code}</code></td><td>{status}</td><td>{again}</td>\
                 <td>{}</td><td>{}</td></tr>",
                escape(meaning),
                escape(hint),
            ),
        );
    };
    for code in Code::ALL {
        let words = (code.meaning(), code.hint());
        line(code.as_str(), status_of(*code), code.retryable(), words);
    }
    for code in HttpCode::ALL {
        let words = (code.meaning(), code.hint());
        line(code.as_str(), code.status(), code.retryable(), words);
    }
    body.push_str("</table>");
    html::page("FlowFabric codes", &body)
}

fn put(body: &mut String, text: std::fmt::Arguments<'_>) {
    body.write_fmt(text).expect("writing to a string");
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn entries(value: &Value) -> impl Iterator<Item = (&str, &Value)> {
    value.as_object().into_iter().flatten().map(|(name, value)| (name.as_str(), value))
}
