//! The commands: everything that can change an execution, listed.
//!
//! A command lives in one file under `decide/`: its fields, what it answers, its decision and
//! what happens when it is sent twice. The list below makes it part of [`Command`] and
//! [`Reply`]; nothing else knows it, backends least of all.

use crate::decide::{self, Again, Decide, Repeat};
use crate::error::Rejection;
use crate::fold::{Change, Cx, Key, WorkingSet};
use crate::limits::Config;

/// The answer to a command, or why it was refused.
pub type Outcome = Result<Reply, Rejection>;

/// Which queue a command travels in, so that small urgent ones never wait behind bulk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Traffic {
    /// Renewals.
    Renew,
    /// Steps that workers have taken: many, small, and all alike.
    Step,
    /// What else workers say about work they hold.
    Finish,
    /// Creations.
    Create,
    /// Operators and duties.
    Admin,
}

impl Traffic {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Renew, Self::Step, Self::Finish, Self::Create, Self::Admin];
}

/// A command with its own type of answer.
pub trait Operation: Decide + Into<Command> {
    /// Picks this command's answer out of any answer.
    fn reply(reply: Reply) -> Option<Self::Reply>;
}

macro_rules! commands {
    ($($name:ident in $module:ident)*) => {
        /// Any command.
        #[derive(Clone, Debug, PartialEq)]
        #[allow(clippy::large_enum_variant, reason = "creations are the bulk of all commands")]
        pub enum Command { $(#[doc = concat!("[`", stringify!($module), "`](crate::decide::",
            stringify!($module), ")")] $name(decide::$module::$name),)* }

        /// Any answer.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Reply { $(#[doc = concat!("Of [`", stringify!($module), "`](crate::decide::",
            stringify!($module), ")")] $name(<decide::$module::$name as Decide>::Reply),)* }

        impl Command {
            /// The names of all commands.
            pub const NAMES: &[&str] = &[$(<decide::$module::$name as Decide>::NAME),*];

            /// How a repeat of each is recognised, by name.
            pub const REPEATS: &[(&str, Repeat)] = &[$((
                <decide::$module::$name as Decide>::NAME,
                <decide::$module::$name as Decide>::REPEAT,
            )),*];

            /// Its name.
            pub fn name(&self) -> &'static str {
                match self { $(Self::$name(_) => <decide::$module::$name as Decide>::NAME,)* }
            }

            /// The queue it travels in.
            pub fn traffic(&self) -> Traffic {
                match self { $(Self::$name(_) => <decide::$module::$name as Decide>::TRAFFIC,)* }
            }

            /// Refuses what can be refused without looking at any row.
            pub fn validate(&self, config: &Config) -> Result<(), Rejection> {
                match self { $(Self::$name(command) => command.validate(config),)* }
            }

            /// Bytes it carries, for bounding queues.
            pub fn bytes(&self) -> usize {
                match self { $(Self::$name(command) => command.bytes(),)* }
            }

            /// The rows it needs, given those already loaded.
            pub(crate) fn keys(&self, have: &WorkingSet) -> Vec<Key> {
                match self { $(Self::$name(command) => command.keys(have),)* }
            }

            /// The same, bound to what it means over these rows; nothing where it says so itself.
            pub fn pinned(&self, have: &WorkingSet) -> Option<Self> {
                match self { $(Self::$name(command) => command.pinned(have).map(Self::$name),)* }
            }

            /// What it changes.
            pub(crate) fn decide(
                &self,
                have: &WorkingSet,
                cx: &mut Cx<'_>,
            ) -> Result<Change<Reply>, Rejection> {
                match self {
                    $(Self::$name(command) => {
                        command.decide(have, cx).map(|change| change.map(Reply::$name))
                    })*
                }
            }
        }

        impl Reply {
            /// What the same command answers when it is sent again at once.
            pub fn again(&self) -> Again<Self> {
                match self {
                    $(Self::$name(reply) => {
                        <decide::$module::$name as Decide>::again(reply).map(Self::$name)
                    })*
                }
            }
        }

        $(
            impl From<decide::$module::$name> for Command {
                fn from(command: decide::$module::$name) -> Self {
                    Self::$name(command)
                }
            }

            impl Operation for decide::$module::$name {
                #[allow(clippy::match_wildcard_for_single_variants)]
                fn reply(reply: Reply) -> Option<Self::Reply> {
                    if let Reply::$name(own) = reply { Some(own) } else { None }
                }
            }
        )*
    };
}

commands! {
    Create in create
    Claim in claim
    Renew in renew
    ReportProgress in progress
    RecordSteps in steps
    Complete in complete
    Fail in fail
    Delay in delay
    Release in release
    Cancel in cancel
    Revoke in revoke
    Replay in replay
    ChangePriority in priority
    Hold in hold
    Unhold in unhold
    SetTags in tags
    ExpireLease in lease_expiry
    TimeOutAttempt in attempt_timeout
    ExpireExecution in deadline
    Trim in retention
    ForgetKey in key_expiry
    SaveCursor in consumer
    DropConsumer in drop_consumer
    CreateFlow in create_flow
    SubmitFlow in submit_flow
    ExtendFlow in extend_flow
    AddMember in add_member
    StageEdge in stage_edge
    ApplyEdge in apply_edge
    SetGroupPolicy in group_policy
    SealFlow in seal_flow
    SetFlowTags in flow_tags
    WaitChildren in wait_children
    CancelFlow in cancel_flow
    CancelOwed in cancel_owed
    DispatchCompletion in dispatch
    StartReleased in start_released
    CancelSiblings in sibling_cancel
    ReconcileSiblings in sibling_reconcile
    ReconcileGroup in reconcile_group
    TrimFlow in trim_flow
    Suspend in suspend
    CreateWaitpoint in create_waitpoint
    CloseWaitpoint in close_waitpoint
    DeliverSignal in deliver
    Resume in resume
    TimeOutSuspension in suspension_timeout
    ExpireWaitpoint in waitpoint_expiry
    SeedKey in keys
    RotateKey in keys
}
