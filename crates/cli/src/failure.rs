//! Failures: what went wrong, with its code, what to do next, and the exit code of the process.

use std::fmt;
use std::process::ExitCode;

use console::style;
use ff_core::Code;
use ff_core::error::Class;
use ff_wire::HttpCode;

use crate::output::clean;
use crate::place::Place;

/// How the process ends when something went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Something failed.
    Failed = 1,
    /// The command line or a value in it is wrong.
    Usage = 2,
    /// There is no such thing.
    NotFound = 3,
    /// Refused by the state of a thing, or in conflict with another.
    Refused = 4,
    /// The store or the server cannot be reached, or is busy.
    Unreachable = 5,
    /// The execution or the flow did not succeed.
    Unsuccessful = 6,
}

/// Why a command did not do what it was asked.
#[derive(Debug)]
pub struct Failure {
    exit: Exit,
    message: String,
    code: Option<String>,
    next: Option<String>,
}

impl Failure {
    /// A failure in words.
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into(), code: None, next: None }
    }

    /// With a stable code.
    pub fn code(mut self, code: &str) -> Self {
        self.code = Some(code.to_owned());
        self
    }

    /// Ending with this exit code.
    pub fn exit(mut self, exit: Exit) -> Self {
        self.exit = exit;
        self
    }

    /// With what to do next.
    pub fn next(mut self, next: impl Into<String>) -> Self {
        self.next = Some(next.into());
        self
    }

    /// Whatever went wrong at a place.
    pub fn of(error: anyhow::Error, place: &Place) -> Self {
        let error = match error.downcast::<Self>() {
            Ok(failure) => return failure,
            Err(error) => error,
        };
        let error = match error.downcast::<ff_engine::Error>() {
            Ok(error) => anyhow::Error::new(flowfabric::Error::from(error)),
            Err(error) => error,
        };
        match error.downcast_ref::<flowfabric::Error>() {
            Some(error) => Self::coded(error, place),
            None => Self::new(Exit::Failed, format!("{error:#}")),
        }
    }

    fn coded(error: &flowfabric::Error, place: &Place) -> Self {
        let message = error.to_string();
        let Some(code) = error.code() else { return Self::new(Exit::Failed, message) };
        // The code has a line of its own.
        let message = message.replacen(&format!("{code}: "), "", 1);
        let away = code == Code::Transport.as_str() && place.is_server();
        let message =
            if away { format!("cannot reach {place}: {}", cause(&message)) } else { message };
        let next = advice(code, place).or_else(|| error.hint().map(str::to_owned));
        Self { exit: exit_of(code), message, code: Some(code.to_owned()), next }
    }

    /// Says it on standard error; the exit code to end with.
    pub fn tell(self) -> ExitCode {
        let line = |name: &str, text: &str| {
            eprintln!("  {} {text}", style(format!("{name}:")).for_stderr().dim());
        };
        eprintln!("{} {}", style("error:").for_stderr().red().bold(), clean(&self.message));
        self.code.iter().for_each(|code| line("code", code));
        self.next.iter().for_each(|next| line("next", &clean(next)));
        ExitCode::from(self.exit as u8)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

/// What is at the root of a request that could not be sent; everything that was read otherwise.
fn cause(message: &str) -> &str {
    let unsent = message.starts_with("error sending request");
    message.rsplit(": ").next().filter(|_| unsent).unwrap_or(message)
}

/// The exit code that belongs to a stable code.
fn exit_of(code: &str) -> Exit {
    let own = Code::ALL.iter().find(|known| known.as_str() == code);
    let http = HttpCode::ALL.iter().find(|known| known.as_str() == code);
    match (own.map(|code| (code.class(), code.retryable())), http) {
        (Some((Class::NotFound, _)), _) => Exit::NotFound,
        (Some((Class::Validation, _)), _) => Exit::Usage,
        (Some((Class::Conflict | Class::State, _) | (Class::Contention, false)), _) => {
            Exit::Refused
        }
        (Some((Class::Contention | Class::Timeout | Class::Fault, true)), _) => Exit::Unreachable,
        (None, Some(HttpCode::ExecutionNotSuccessful)) => Exit::Unsuccessful,
        (None, Some(code)) if code.retryable() => Exit::Unreachable,
        (Some((Class::Timeout | Class::Fault, false)), _) | (None, Some(_) | None) => Exit::Failed,
    }
}

/// What to do here, where that is more than the code itself can know.
fn advice(code: &str, place: &Place) -> Option<String> {
    if code == Code::ExecutionNotFound.as_str() {
        return Some(place.ff("ls"));
    }
    if code == Code::FlowNotFound.as_str() {
        return Some(place.ff("flow ls"));
    }
    if code == Code::WaitpointNotFound.as_str() || code == Code::WaitpointClosed.as_str() {
        return Some(format!("{} says what is waited for", place.ff("waitpoints")));
    }
    if code == Code::ExecutionNotSuspended.as_str() {
        return Some(format!("{} says what is", place.ff("ls --state suspended")));
    }
    if code == Code::HmacSecretNotInitialized.as_str() {
        return Some(format!("make the first key: {}", place.ff("keys rotate")));
    }
    let advice = if code == Code::Transport.as_str() && place.is_server() {
        "start a server: ff serve --url sqlite:fabric.db; or name another place with --url"
    } else if code == Code::Transport.as_str() {
        "check that the database runs and that --url is right, then try again"
    } else if code == Code::ExecutionNotActive.as_str() {
        "nobody works on it any more; ff replay runs it again"
    } else if code == Code::ConsumerNotFound.as_str() {
        "ff consumers lists those that there are"
    } else if code == Code::FlowAlreadyTerminal.as_str() {
        "it has ended; if it was cancelled, its members cannot be replayed; submit another flow"
    } else if code == Code::SubjectMismatch.as_str() {
        "what is to be decided on has changed; the same command shows it again"
    } else if code == HttpCode::Unauthorized.as_str() {
        "set FF_TOKEN to the token of the server"
    } else {
        return None;
    };
    Some(advice.to_owned())
}

#[cfg(test)]
#[allow(clippy::needless_raw_string_hashes, reason = "what UPDATE_EXPECT=1 writes")]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_its_exit_code() {
        let own = Code::ALL.iter().map(|code| code.as_str());
        let all = own.chain(HttpCode::ALL.iter().map(|code| code.as_str()));
        let lines: Vec<_> = all.map(|code| format!("{} {code}", exit_of(code) as u8)).collect();
        let table = lines.join("\n") + "\n";
        expect_test::expect![[r#"
            3 execution_not_found
            3 consumer_not_found
            3 flow_not_found
            3 edge_not_found
            3 waitpoint_not_found
            2 invalid_input
            2 invalid_policy_json
            2 invalid_capabilities
            2 invalid_tag_key
            2 payload_too_large
            2 missing_token
            2 invalid_token
            2 token_expired
            2 invalid_kid
            2 invalid_secret_hex
            2 invalid_grace_ms
            4 rotation_conflict
            4 execution_id_conflict
            4 idempotency_key_conflict
            4 flow_id_conflict
            4 node_conflict
            4 result_conflict
            4 version_conflict
            4 execution_already_in_flow
            4 self_referencing_edge
            4 cycle_detected
            4 cycle_unverifiable
            4 dependency_already_exists
            2 partition_mismatch
            2 unknown_node
            2 quorum_too_large
            4 stale_graph_revision
            4 flow_already_terminal
            4 flow_sealed
            4 flow_too_large
            4 execution_not_in_flow
            4 execution_terminal
            4 group_already_fired
            4 deps_not_satisfied
            4 step_conflict
            4 journal_full
            4 already_suspended
            4 execution_not_suspended
            4 target_not_signalable
            4 waitpoint_closed
            4 waitpoint_not_pending
            4 pending_waitpoint_expired
            4 waitpoint_already_exists
            4 subject_mismatch
            4 signal_limit_exceeded
            4 too_many_waitpoints
            5 execution_not_leaseable
            2 capability_mismatch
            4 execution_not_active
            4 stale_lease
            4 lease_expired
            4 lease_revoked
            4 no_active_lease
            4 execution_not_eligible
            4 not_runnable
            4 execution_not_terminal
            4 max_replays_exhausted
            5 timeout
            5 overloaded
            5 retry_exhausted
            1 corruption
            1 schema_too_new
            5 transport
            5 hmac_secret_not_initialized
            1 closed
            1 unauthorized
            1 origin_not_allowed
            1 route_not_found
            1 method_not_allowed
            5 request_timeout
            6 execution_not_successful
            1 body_too_large
            1 unsupported_media_type
            1 internal_error
            5 draining
        "#]]
        .assert_eq(&table);
    }
}
