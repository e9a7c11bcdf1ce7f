//! What a person sees who follows a link: what would be decided, and a button. No script, nothing
//! from elsewhere, and every text from outside is escaped.

use std::fmt::Write as _;
use std::sync::LazyLock;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ff_core::Code;
use ff_core::condition::Word;
use ff_core::suspension::Effect;
use ff_wire::marks::visible;
use ff_wire::{OfferAnswer, SignalAnswer};
use sha2::{Digest, Sha256};

use crate::docs::html::escape;
use crate::page::HTML;
use crate::problem::Refused;

/// The one style sheet; the policy of the page names its digest.
const STYLE: &str = "body{font:1rem/1.5 system-ui,sans-serif;max-width:40rem;margin:3rem auto;\
    padding:0 1rem;color-scheme:light dark}dt{opacity:.7}dd{margin:0 0 .75rem;\
    overflow-wrap:anywhere}pre{font:inherit;white-space:pre-wrap;margin:0}\
    button{font:inherit;padding:.5rem 1.5rem}";

/// Nothing is loaded, the form leads here, and nobody frames the button.
static POLICY: LazyLock<HeaderValue> = LazyLock::new(|| {
    let digest = STANDARD.encode(Sha256::digest(STYLE));
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{digest}'; form-action 'self'; base-uri 'none'; \
         frame-ancestors 'none'"
    );
    HeaderValue::from_str(&policy).expect("printable ASCII")
});

/// What would be decided, with a button that does.
pub fn offer(offer: &OfferAnswer) -> Response {
    let does = match offer.signal_name.parse() {
        Ok(Word::Approved) => "Approve".to_owned(),
        Ok(Word::Rejected) => "Reject".to_owned(),
        Err(_) => format!("Send “<bdi>{}</bdi>”", escape(&visible(&offer.signal_name))),
    };
    let mut body = format!("<h1>{does}?</h1><dl>");
    if let Some(subject) = &offer.subject_text {
        put(&mut body, "What", subject);
    }
    let who = offer.source_identity.as_deref();
    put(&mut body, "In the name of", who.unwrap_or("nobody in particular"));
    put(&mut body, "Signal", &offer.signal_name);
    put(&mut body, "Waitpoint", &offer.waitpoint_key);
    put(&mut body, "Execution", &offer.execution_id.to_string());
    body.push_str("</dl>");
    // Nobody decides on what he cannot see.
    let decides = offer.signal_name.parse::<Word>().is_ok();
    if offer.open && offer.pending && decides {
        body.push_str("<p>It is not asked yet. Open this again in a moment.</p>");
    } else if offer.open {
        let form = format!("<form method=\"post\"><button>{does}</button></form>");
        body.push_str(&form);
    } else {
        body.push_str(
            "<p>This is not waited for: it was said or decided already, it is over, others are asked, \
             or it is about something else now.</p>",
        );
    }
    page(StatusCode::OK, "Send a signal", &body)
}

/// What became of it.
pub fn receipt(answer: SignalAnswer) -> Response {
    let (title, said, id) = match answer {
        SignalAnswer::Accepted { signal_id, effect } => ("Sent", led_to(effect), signal_id),
        SignalAnswer::Duplicate { existing_signal_id } => {
            ("Sent before", "The first time stands.", existing_signal_id)
        }
    };
    let mut body = format!("<h1>{title}</h1><p>{said}</p><dl>");
    put(&mut body, "Signal id", &id.to_string());
    page(StatusCode::OK, title, &format!("{body}</dl>"))
}

fn led_to(effect: Effect) -> &'static str {
    match effect {
        Effect::ConditionSatisfied => "It was waited for: the work goes on now.",
        Effect::Appended => "It was written down. More is needed before the work goes on.",
        Effect::Buffered => "It is kept until the work waits for it.",
        Effect::AppendedDuplicate => "What was said first stands; this changes nothing.",
        Effect::IgnoredNotInCondition | Effect::IgnoredMatcherFailed => {
            "It was written down, but it is not what is waited for."
        }
    }
}

/// Why not, for somebody who has a link and knows of no token.
pub fn refusal(refused: Refused) -> Response {
    let (status, problem) = refused.into_logged();
    let code = Code::ALL.iter().find(|known| known.as_str() == problem.code);
    let (why, next) = match code {
        Some(Code::InvalidToken) => (
            "This is not a link as it was made, or what it was for is gone.",
            "Open it as it was sent to you, whole and unchanged, or ask for a new one.",
        ),
        Some(Code::TokenExpired) => {
            ("This link is too old.", "Ask whoever sent it to you for a new one.")
        }
        Some(Code::WaitpointClosed | Code::TargetNotSignalable | Code::PendingWaitpointExpired) => {
            ("This is not waited for any more.", "There is nothing more to do.")
        }
        Some(Code::SubjectMismatch) => (
            "What is to be decided on has changed since this link was made.",
            "Ask whoever sent it to you for a new one.",
        ),
        Some(Code::SignalLimitExceeded) => (
            "Too much was sent there already.",
            "Tell whoever sent you the link: an operator must look at it.",
        ),
        Some(_) | None => (problem.title.as_str(), problem.hint.as_str()),
    };
    let mut body = format!("<h1>Not sent</h1><p>{} {}</p><dl>", escape(why), escape(next));
    put(&mut body, "Code", &problem.code);
    put(&mut body, "Detail", &problem.detail);
    page(status, "Not sent", &format!("{body}</dl>"))
}

/// A line; its value reads in its own direction, cannot turn what stands around it, and hides nothing.
fn put(body: &mut String, name: &str, value: &str) {
    let value = escape(&visible(value));
    write!(body, "<dt>{name}</dt><dd><pre dir=\"auto\"><bdi>{value}</bdi></pre></dd>")
        .expect("writing to a string");
}

fn page(status: StatusCode, title: &str, body: &str) -> Response {
    let text = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <title>{title}</title><style>{STYLE}</style></head><body>{body}</body></html>\n"
    );
    let fixed = [
        (header::CONTENT_TYPE, HeaderValue::from_static(HTML)),
        (header::CONTENT_SECURITY_POLICY, POLICY.clone()),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    ];
    (status, fixed, text).into_response()
}
