//! Codes of the HTTP layer itself, and the status of every code.
//!
//! Like the codes of `ff-core`, they never change their meaning once published.

use std::fmt;

use ff_core::Code;
use ff_core::error::Class;

macro_rules! codes {
    ($($name:ident $text:literal $status:literal $retryable:literal $meaning:literal $hint:literal)*) => {
        /// A stable code that only HTTP knows.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum HttpCode { $(#[doc = $meaning] $name,)* }

        impl HttpCode {
            /// All of them, in the order of their status.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// The literal that users see.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text),* }
            }

            /// The status it is answered with.
            pub fn status(self) -> u16 {
                match self { $(Self::$name => $status),* }
            }

            /// Whether the same request may succeed later.
            pub fn retryable(self) -> bool {
                match self { $(Self::$name => $retryable),* }
            }

            /// When it is answered.
            pub fn meaning(self) -> &'static str {
                match self { $(Self::$name => $meaning),* }
            }

            /// What to do next.
            pub fn hint(self) -> &'static str {
                match self { $(Self::$name => $hint),* }
            }
        }
    };
}

codes! {
    Unauthorized "unauthorized" 401 false
        "The request does not carry the server's token."
        "Send the header Authorization: Bearer <token>."
    OriginNotAllowed "origin_not_allowed" 403 false
        "A server without a token only serves requests that are addressed to this machine."
        "Address it as 127.0.0.1, [::1] or localhost, or start the server with a token."
    RouteNotFound "route_not_found" 404 false
        "There is nothing at this path."
        "See /docs for the paths there are."
    MethodNotAllowed "method_not_allowed" 405 false
        "The path does not take this method."
        "Use a method that the Allow header names."
    RequestTimeout "request_timeout" 408 true
        "The request took too long; whether it took effect is unknown."
        "Send the same request again: every request may be repeated."
    ExecutionNotSuccessful "execution_not_successful" 409 false
        "The execution ended without a result: it failed or expired, or was cancelled or skipped."
        "Look at the execution for the reason; replay it to try again."
    BodyTooLarge "body_too_large" 413 false
        "The body of the request is larger than the server takes."
        "Send fewer items at once: of a large graph a part, and extend the open flow by the rest."
    UnsupportedMediaType "unsupported_media_type" 415 false
        "The body of the request is not declared as JSON."
        "Send the header Content-Type: application/json."
    InternalError "internal_error" 500 false
        "The server failed in a way that nobody foresaw; its log says more."
        "Report it, with the request id of the answer."
    Draining "draining" 503 true
        "The server is shutting down."
        "Send the request to another server, or again in a moment."
}

impl fmt::Display for HttpCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The status that a code of the engine is answered with.
pub fn status_of(code: Code) -> u16 {
    match (code.class(), code) {
        (Class::NotFound, _) => 404,
        (Class::Validation, Code::PayloadTooLarge) => 413,
        // Not 401, which would ask for the token of the server: that one would not help.
        (Class::Validation, Code::MissingToken | Code::InvalidToken | Code::TokenExpired) => 403,
        (Class::Validation, _) => 400,
        // To wait a moment and ask the same does not help with these.
        (Class::Conflict | Class::State, _)
        | (Class::Contention, Code::ExecutionNotLeaseable | Code::StaleGraphRevision) => 409,
        (Class::Timeout, _) => 504,
        (Class::Contention, _)
        | (Class::Fault, Code::Transport | Code::HmacSecretNotInitialized) => 503,
        (Class::Fault, _) => 500,
    }
}

#[cfg(test)]
#[allow(clippy::needless_raw_string_hashes, reason = "expect-test writes them")]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    #[test]
    fn every_code_has_its_status() {
        let mut table = String::new();
        for code in Code::ALL {
            writeln!(table, "{} {code}", status_of(*code)).expect("writing to a string");
        }
        for code in HttpCode::ALL {
            writeln!(table, "{} {code}", code.status()).expect("writing to a string");
        }
        expect_test::expect![[r#"
            404 execution_not_found
            404 consumer_not_found
            404 flow_not_found
            404 edge_not_found
            404 waitpoint_not_found
            400 invalid_input
            400 invalid_policy_json
            400 invalid_capabilities
            400 invalid_tag_key
            413 payload_too_large
            403 missing_token
            403 invalid_token
            403 token_expired
            400 invalid_kid
            400 invalid_secret_hex
            400 invalid_grace_ms
            409 rotation_conflict
            409 execution_id_conflict
            409 idempotency_key_conflict
            409 flow_id_conflict
            409 node_conflict
            409 result_conflict
            409 version_conflict
            409 execution_already_in_flow
            409 self_referencing_edge
            409 cycle_detected
            409 cycle_unverifiable
            409 dependency_already_exists
            400 partition_mismatch
            400 unknown_node
            400 quorum_too_large
            409 stale_graph_revision
            409 flow_already_terminal
            409 flow_sealed
            409 flow_too_large
            409 execution_not_in_flow
            409 execution_terminal
            409 group_already_fired
            409 deps_not_satisfied
            409 step_conflict
            409 journal_full
            409 already_suspended
            409 execution_not_suspended
            409 target_not_signalable
            409 waitpoint_closed
            409 waitpoint_not_pending
            409 pending_waitpoint_expired
            409 waitpoint_already_exists
            409 subject_mismatch
            409 signal_limit_exceeded
            409 too_many_waitpoints
            409 execution_not_leaseable
            400 capability_mismatch
            409 execution_not_active
            409 stale_lease
            409 lease_expired
            409 lease_revoked
            409 no_active_lease
            409 execution_not_eligible
            409 not_runnable
            409 execution_not_terminal
            409 max_replays_exhausted
            504 timeout
            503 overloaded
            503 retry_exhausted
            500 corruption
            500 schema_too_new
            503 transport
            503 hmac_secret_not_initialized
            500 closed
            401 unauthorized
            403 origin_not_allowed
            404 route_not_found
            405 method_not_allowed
            408 request_timeout
            409 execution_not_successful
            413 body_too_large
            415 unsupported_media_type
            500 internal_error
            503 draining
        "#]]
        .assert_eq(&table);
    }

    #[test]
    fn a_code_of_http_is_no_code_of_the_engine() {
        let taken = |code: &&HttpCode| Code::ALL.iter().any(|own| own.as_str() == code.as_str());
        assert_eq!(HttpCode::ALL.iter().find(taken), None);
    }
}
