//! What calls may be refused with, for the document of the API: sets of problems by status.

use std::collections::BTreeMap;

use ff_wire::Problem;
use ff_wire::problem::MEDIA_TYPE;
use utoipa::openapi::{ContentBuilder, Ref, RefOr, Response, ResponseBuilder};
use utoipa::{IntoResponses, ToSchema};

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
    /// Of calls that wait for something.
    Late {
        "504" "`timeout`: what was waited for did not happen in time; it goes on by itself."
    }
    /// Of creations.
    Clashes {
        "409" "The id or the idempotency key was used for a creation with other content."
    }
}

fn problem(status: &str, when: &str) -> (String, RefOr<Response>) {
    let schema = Ref::from_schema_name(Problem::name());
    let content = ContentBuilder::new().schema(Some(schema)).build();
    let response = ResponseBuilder::new().description(when).content(MEDIA_TYPE, content);
    (status.to_owned(), response.build().into())
}
