//! Pages: files that are part of the program. Nothing they need is fetched from elsewhere, and the
//! browser is told so.

use std::sync::LazyLock;

use axum::extract::Path;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use ff_wire::HttpCode;
use sha2::{Digest, Sha256};

use crate::problem::Refused;

/// Scripts, styles and data come from this server, and nobody frames its pages.
const POLICY: &str =
    "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

pub const HTML: &str = "text/html; charset=utf-8";
pub const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const ICON: &str = "image/svg+xml";

/// The live page and what it is made of.
static FILES: LazyLock<[(&str, Fixed); 5]> = LazyLock::new(|| {
    [
        ("index.html", Fixed::new(HTML, include_str!("../page/index.html"))),
        ("app.js", Fixed::new(SCRIPT, include_str!("../page/app.js"))),
        ("icon.svg", Fixed::new(ICON, include_str!("../page/icon.svg"))),
        ("style.css", Fixed::new(CSS, include_str!("../page/style.css"))),
        ("waits.js", Fixed::new(SCRIPT, include_str!("../page/waits.js"))),
    ]
});

/// A text that does not change while the program runs.
pub struct Fixed {
    media_type: &'static str,
    text: &'static str,
    tag: HeaderValue,
}

impl Fixed {
    /// The text with the tag by which a browser knows that it has it already.
    pub fn new(media_type: &'static str, text: &'static str) -> Self {
        let digest: [u8; 32] = Sha256::digest(text.as_bytes()).into();
        let start = digest.first_chunk().copied().map_or(0, u128::from_be_bytes);
        let tag = HeaderValue::from_str(&format!("\"{start:032x}\"")).expect("digits in quotes");
        Self { media_type, text, tag }
    }

    /// The text, or that it has not changed.
    pub fn answer(&self, headers: &HeaderMap) -> Response {
        let fixed = [
            (header::ETAG, self.tag.clone()),
            (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
            (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
            (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
            (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
        ];
        if self.is_known(headers, &header::IF_NONE_MATCH) {
            return (StatusCode::NOT_MODIFIED, fixed).into_response();
        }
        (fixed, [(header::CONTENT_TYPE, self.media_type)], self.text).into_response()
    }

    fn is_known(&self, headers: &HeaderMap, name: &HeaderName) -> bool {
        let known = headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let own = self.tag.to_str().unwrap_or_default();
        known.split(',').any(|tag| tag.trim().trim_start_matches("W/") == own || tag.trim() == "*")
    }
}

/// The live page
#[utoipa::path(
    get, path = "/", tag = "pages", operation_id = "page", security(()),
    responses((status = 200, description = "For people.", body = String,
               content_type = "text/html")),
)]
pub async fn index(headers: HeaderMap) -> Result<Response, Refused> {
    find("index.html", &headers)
}

/// A file of the live page
#[utoipa::path(
    get, path = "/page/{file}", tag = "pages", operation_id = "page_file", security(()),
    params(("file" = String, Path, description = "Its name.")),
    responses(
        (status = 200, description = "The file.", content(
            (String = "text/html"), (String = "text/javascript"), (String = "text/css"),
            (String = "image/svg+xml"),
        )),
        (status = 404, description = "`route_not_found`: there is no such file.",
         body = ff_wire::Problem, content_type = "application/problem+json"),
    ),
)]
pub async fn file(Path(name): Path<String>, headers: HeaderMap) -> Result<Response, Refused> {
    find(&name, &headers)
}

fn find(name: &str, headers: &HeaderMap) -> Result<Response, Refused> {
    let file = FILES.iter().find(|(own, _)| *own == name);
    let (_, file) = file.ok_or_else(|| {
        Refused::http(HttpCode::RouteNotFound, format!("the page has no file {name:?}"))
    })?;
    Ok(file.answer(headers))
}
