//! What executions and flows are, how they change, and what a backend must do.
//!
//! Everything here is pure: no I/O, no clock, no randomness. Time and entropy are arguments.
//! A backend loads the rows that [`needs`] names, calls [`fold`], and writes the [`WriteSet`];
//! it never decides. What must stay true:
//!
//! * a state change is computed by exactly one function, in `decide/`;
//! * a rejected command changes nothing;
//! * rows that only exist to find executions (ready, timer, tag, lease) are functions of the
//!   execution, computed here, so that every backend keeps the same ones.

pub mod backend;
pub mod command;
pub mod condition;
pub mod decide;
pub mod error;
pub mod event;
pub mod execution;
mod fingerprint;
pub mod flow;
pub mod fold;
pub mod ids;
pub mod index;
pub mod keyring;
pub mod limits;
pub mod policy;
pub mod query;
pub mod row;
pub mod state;
pub mod step;
pub mod suspension;
pub mod text;
pub mod time;
pub mod token;
pub mod view;

pub use backend::{
    Agenda, Backend, ClaimAsk, Claimed, Claims, Due, Duty, EventPage, Interest, StoreError,
    WorkFilter,
};
pub use command::{Command, Outcome, Reply};
pub use error::{Code, Rejection};
pub use execution::{Execution, Fence, State};
pub use flow::Flow;
pub use fold::{Key, WorkingSet, WriteSet, fold, fold_pinned, needs};
pub use ids::{EdgeId, ExecutionId, FlowId, Partition};
pub use limits::Config;
pub use policy::Policy;
pub use time::{Clock, Millis};
