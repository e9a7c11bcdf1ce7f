//! Links: a signal that is ready to be sent, by whoever has the URL and nothing else.
//!
//! What must stay true: reading a link changes nothing, so that those who look at links in mails
//! decide nothing; and a person sees what would be decided before it is.

mod page;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use ff_core::text::Encoding;
use ff_wire::{OfferAnswer, Payload, Problem, SignalAnswer};

use crate::Server;
use crate::problem::Refused;
use crate::request::{Followed, check_media_type, media_type, parse_any, read as read_body};
use crate::responses::LinkRefusals;
use crate::signals::BODY_BYTES_MAX;

/// What a browser declares a form as.
const FORM: &str = "application/x-www-form-urlencoded";

/// What a link would do
///
/// Without doing it. A browser is shown a page with a button that does.
#[utoipa::path(
    get, path = "/v1/signals/{link}", tag = "suspensions", operation_id = "read_link",
    params(Followed), security(()),
    responses(
        (status = 200, description = "The signal that would be sent.", content(
            (OfferAnswer = "application/json"), (String = "text/html"),
        )),
        LinkRefusals,
    ),
)]
pub async fn read(
    State(server): State<Server>,
    headers: HeaderMap,
    Followed(link): Followed,
) -> Response {
    let offered = Box::pin(server.engine().read_link(&link)).await;
    let offered = offered.map(|offer| OfferAnswer::new(offer.link, &offer.waitpoint, offer.open));
    match (offered, wants_page(&headers)) {
        (Ok(offer), true) => page::offer(&offer),
        (Ok(offer), false) => Json(offer).into_response(),
        (Err(error), true) => page::refusal(Refused::from(error)),
        (Err(error), false) => Refused::from(error).into_response(),
    }
}

/// Send the signal of a link
///
/// Once. The body, if there is one, is what the signal carries.
#[utoipa::path(
    post, path = "/v1/signals/{link}", tag = "suspensions", operation_id = "follow_link",
    params(Followed), security(()), request_body(content = Option<ff_wire::Json>,
    description = "Any JSON value, at most 64 KiB; or an empty form."),
    responses(
        (status = 200, description = "What became of it.", content(
            (SignalAnswer = "application/json"), (String = "text/html"),
        )),
        LinkRefusals,
    ),
)]
pub async fn follow(
    State(server): State<Server>,
    Followed(link): Followed,
    request: Request,
) -> Response {
    let pages = wants_page(request.headers()) || media_type(request.headers()) == FORM;
    match (send(&server, &link, request).await, pages) {
        (Ok(answer), true) => page::receipt(answer),
        (Ok(answer), false) => Json(answer).into_response(),
        (Err(refused), true) => page::refusal(refused),
        (Err(refused), false) => refused.into_response(),
    }
}

async fn send(server: &Server, link: &str, request: Request) -> Result<SignalAnswer, Refused> {
    let payload = carried(server, request).await?;
    let sent = Box::pin(server.engine().follow_link(link, payload)).await;
    let sent = sent.map_err(|error| Refused::from(error).during("deliver_signal"))?;
    Ok(sent.into())
}

/// What the body carries.
async fn carried(
    server: &Server,
    request: Request,
) -> Result<Option<(Bytes, Option<Encoding>)>, Refused> {
    let headers = request.headers();
    let (is_form, declared) = (media_type(headers) == FORM, check_media_type(headers));
    let max = server.limits().body_bytes_max.min(BODY_BYTES_MAX);
    let bytes = read_body(request, max).await?;
    if bytes.is_empty() {
        return Ok(None);
    }
    if is_form {
        let said = "the form must be empty: a link says everything itself";
        return Err(Problem::unreadable(None, said).into());
    }
    declared?;
    let value: ff_wire::Json = parse_any(&bytes).map_err(|problem| Refused::from(*problem))?;
    let Payload { encoding, bytes } = Payload::json(&value);
    Ok(Some((bytes, encoding)))
}

/// Whether a person looks at the answer: browsers ask for HTML, programs for JSON or anything.
fn wants_page(headers: &HeaderMap) -> bool {
    let accepted = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    accepted.is_some_and(|all| all.contains("text/html") && !all.contains("json"))
}
