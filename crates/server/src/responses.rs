//! What calls may be refused with, for the document of the API: sets of problems by status.

use std::collections::BTreeMap;

use ff_wire::Problem;
use ff_wire::problem::MEDIA_TYPE;
use utoipa::openapi::{ContentBuilder, Ref, RefOr, Response, ResponseBuilder};
use utoipa::{IntoResponses, PartialSchema, ToSchema};

macro_rules! refusals {
    ($($(#[$doc:meta])* $name:ident { $($status:literal $when:literal)* })*) => { $(
        $(#[$doc])*
        pub struct $name;

        impl IntoResponses for $name {
            fn responses() -> BTreeMap<String, RefOr<Response>> {
                BTreeMap::from([$(problem($status, $when)),*])
            }
        }
    )* };
}

refusals! {
    /// Of any call under `/v1`.
    Refusals {
        "400" "The request is malformed: `invalid_input` and its relatives name the field."
        "401" "`unauthorized`: the request does not carry the server's token."
        "403" "`origin_not_allowed`: without a token, only requests to this machine are served."
        "408" "`request_timeout`: it took too long; send it again."
        "500" "`internal_error`, or stored data cannot be read."
        "503" "The store cannot be reached or is busy; try again after `Retry-After` seconds."
    }
    /// Of calls with a body.
    BodyRefusals {
        "413" "`body_too_large`, or `payload_too_large` for one payload."
        "415" "`unsupported_media_type`: the body is not declared as JSON."
    }
    /// Of calls about one execution.
    Unknown {
        "404" "`execution_not_found`: no execution has this id, or retention removed it."
    }
    /// Of calls that the state of an execution can forbid.
    Conflicts {
        "409" "The execution is in a state that does not allow it; `standing` says in which."
    }
    /// Of calls about one flow.
    UnknownFlow {
        "404" "`flow_not_found`: no flow has this id, or retention removed it."
    }
    /// Of calls about a flow and something in it.
    UnknownInFlow {
        "404" "`flow_not_found`, `execution_not_found` or `edge_not_found`: there is none with this id."
    }
    /// Of calls that a graph or the state of a flow can forbid.
    FlowConflicts {
        "409" "The graph, or the state of the flow or of an execution, does not allow it; the code \
               says why."
    }
    /// Of calls about one execution and its waitpoints.
    UnknownWaitpoint {
        "404" "`execution_not_found` or `waitpoint_not_found`: there is none with this id."
    }
    /// Of calls about one consumer.
    UnknownConsumer {
        "404" "`consumer_not_found`: there is none of this name."
    }
    /// Of calls that a suspension or a waitpoint can forbid.
    WaitConflicts {
        "409" "The execution, its suspension or the waitpoint is in a state that does not allow \
               it; the code says why."
    }
    /// Of signals that come with the token of a waitpoint.
    Uninvited {
        "403" "`missing_token`, `invalid_token` or `token_expired`: the token is not one for this \
               waitpoint, or there is no such waitpoint. `origin_not_allowed`, when there is none \
               and the server has none either."
    }
    /// Of changes of keys.
    KeyConflicts {
        "409" "`rotation_conflict`: a key with this name is stored with another secret, or was \
               replaced already."
    }
    /// Of calls that wait for something.
    Late {
        "504" "`timeout`: what was waited for did not happen in time; it goes on by itself."
    }
    /// Of creations.
    Clashes {
        "409" "The id or the idempotency key was used for a creation with other content."
    }
}

/// Of links: a browser is answered with a page.
pub struct LinkRefusals;

impl IntoResponses for LinkRefusals {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        BTreeMap::from([
            page("400", "The request is malformed, or what it carries cannot be read."),
            page("403", "`invalid_token` or `token_expired`: this is no link of this server."),
            page("404", "`execution_not_found`: retention removed what it leads to."),
            problem("408", "`request_timeout`: it took too long; send it again."),
            page("409", "The signal is not taken any more; the code says why."),
            page("413", "`body_too_large`, or `payload_too_large`."),
            page("415", "`unsupported_media_type`: the body is not declared as JSON."),
            page("500", "`internal_error`, or stored data cannot be read."),
            page("503", "The store cannot be reached or is busy; try again."),
        ])
    }
}

/// A problem, or a page that says the same.
fn page(status: &str, when: &str) -> (String, RefOr<Response>) {
    let schema = Ref::from_schema_name(Problem::name());
    let content = ContentBuilder::new().schema(Some(schema)).build();
    let text = ContentBuilder::new().schema(Some(String::schema())).build();
    let response = ResponseBuilder::new().description(when);
    let response = response.content(MEDIA_TYPE, content).content("text/html", text);
    (status.to_owned(), response.build().into())
}

fn problem(status: &str, when: &str) -> (String, RefOr<Response>) {
    let schema = Ref::from_schema_name(Problem::name());
    let content = ContentBuilder::new().schema(Some(schema)).build();
    let response = ResponseBuilder::new().description(when).content(MEDIA_TYPE, content);
    (status.to_owned(), response.build().into())
}
