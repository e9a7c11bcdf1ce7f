//! Workers, durable steps and clients, the same on an embedded database and against a server.
//!
//! A [`Client`] creates executions and flows of them and reads what became of them; a
//! [`Worker`](worker::Worker) runs handlers for them, which may add children. What must stay true:
//!
//! * a handler's effects on the store are fenced: whoever lost its lease can write nothing;
//! * a step that is recorded is never run again, and a handler that takes other steps than the ones
//!   recorded is stopped before it does;
//! * a child is created once, however often its parent runs again;
//! * work that was claimed and not finished is given back at once when a worker stops in order.

mod client;
mod context;
mod create;
mod embedded;
mod error;
pub mod fabric;
mod flow;
mod handler;
mod journal;
mod pauses;
mod remote;
mod settings;
mod step;
mod stop;
mod task;
pub mod worker;

pub use client::{Client, DecisionCall, Handle, SignalCall};
pub use context::{
    ApprovalCall, Context, Decision, Place, SuspendCall, Voice, WaitFor, Waited, Waitpoint,
    WaitpointCall, is_wait_timeout,
};
pub use create::Creation;
pub use error::{BoxError, Error};
pub use ff_wire::SearchParams;
pub use ff_wire::SignalLine;
pub use ff_wire::flow::{CancelFlowAnswer, EdgeParams, FlowSearchParams, MemberParams};
pub use ff_wire::steer::{RevokeAnswer, TagsRequest};
pub use ff_wire::waitpoint::{WaitpointPage, WaitpointParams, WaitpointSnapshot};
pub use flow::{FlowCancel, FlowDraft, FlowExtension, FlowHandle, Node, node};
pub use handler::Handler;
pub use remote::Remote;
pub use step::{StepCall, StepFailed, StepFn, StepInfo};
pub use stop::told_to_stop;
pub use task::Task;
pub use worker::{Running, Worker};

/// The result of a handler: anything may go wrong.
pub type Result<T, E = BoxError> = std::result::Result<T, E>;
