//! The HTTP protocol as types, for the server and for clients.
//!
//! Everything is a flat JSON object in snake case. What can turn out in several ways says which in
//! `status`. Times are integers, milliseconds since the Unix epoch; durations end in `_ms`. What
//! must stay true:
//!
//! * a request with a field that nobody reads is refused, never accepted and ignored;
//! * every type can be written and read, so that a client uses the same ones as the server;
//! * what a request asks for is checked by `ff-core` and nowhere else: a conversion here only names
//!   fields as users of HTTP know them;
//! * there is no HTTP library in here.

pub mod bounds;
pub mod claim;
mod client;
pub mod code;
pub mod condition;
pub mod consumer;
pub mod create;
pub mod event;
pub mod flow;
pub mod hidden;
pub mod id;
pub mod info;
pub mod lane;
pub mod lease;
pub mod marks;
pub mod payload;
pub mod policy;
pub mod problem;
pub mod report;
pub mod result;
pub mod search;
pub mod signal;
pub mod signing_key;
pub mod snapshot;
pub mod steer;
pub mod step;
pub mod suspension;
pub mod waitpoint;
mod words;

pub use bounds::WAIT_MS_MAX;
pub use claim::{ClaimAnswer, ClaimRequest, ClaimedExecution};
pub use code::{HttpCode, status_of};
pub use consumer::{ConsumerLine, ConsumerParams, ConsumersAnswer, DropAnswer, DropRequest};
pub use create::{BatchAnswer, BatchRequest, CreateAnswer, CreateOutcome, NewExecution};
pub use event::{EventPage, EventParams, FeedEvent, StreamParams};
pub use flow::{
    CancelFlowAnswer, CancelFlowParams, CancelFlowRequest, CreateFlowAnswer, EdgePage, EdgeParams,
    EdgeSnapshot, ExtendAnswer, ExtendRequest, FlowPage, FlowSearchParams, FlowSnapshot,
    FlowSummary, MemberPage, MemberParams, NewFlow,
};
pub use hidden::Hidden;
pub use info::{Health, Info};
pub use lease::{Fence, RenewAnswer, RenewRequest};
pub use payload::{Json, Payload};
pub use problem::Problem;
pub use report::{Report, ReportsAnswer, ReportsRequest};
pub use result::{InputAnswer, ResultAnswer};
pub use search::{ExecutionPage, SearchParams, WaitParams};
pub use signal::{
    DecisionRequest, ObservedAnswer, ObservedParams, OfferAnswer, SignalAnswer, SignalLine,
    SignalPage, SignalParams, SignalRequest,
};
pub use signing_key::{RotateAnswer, RotateRequest, SigningKeysAnswer};
pub use snapshot::{ExecutionSnapshot, History};
pub use step::{StepLine, StepPage, StepParams, StepsRequest};
pub use suspension::{
    ResumeAnswer, ResumeRequest, SuspendAnswer, SuspendRequest, SuspendedPage, SuspendedParams,
    SuspensionAnswer, SuspensionSnapshot,
};
pub use waitpoint::{
    CloseAnswer, CloseRequest, LinkAnswer, LinkRequest, NewWaitpoint, TokenAnswer, WaitpointPage,
    WaitpointParams, WaitpointSnapshot,
};
