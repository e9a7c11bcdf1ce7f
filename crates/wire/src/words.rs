//! The words of the engine, as schemas: the list of literals that `ff-core` itself has.

use std::borrow::Cow;

use ff_core::decide::claim;
use ff_core::{condition, execution, flow, state, step, suspension};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

macro_rules! words {
    ($($(#[doc = $doc:literal])* $name:ident in $module:ident)*) => { $(
        $(#[doc = $doc])*
        pub struct $name;

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                let all = $module::$name::ALL.iter().map(|word| word.as_str());
                let description = concat!($($doc),*).trim();
                let words = ObjectBuilder::new().schema_type(Type::String).enum_values(Some(all));
                words.description(Some(description)).into()
            }
        }

        impl ToSchema for $name {
            fn name() -> Cow<'static, str> {
                Cow::Borrowed(stringify!($name))
            }
        }
    )* };
}

words! {
    /// Where in its life an execution is.
    Phase in state
    /// How an execution ended.
    TerminalOutcome in state
    /// The one word for where an execution stands.
    PublicState in state
    /// What an execution waits for.
    BlockingReason in state
    /// Who cancelled an execution.
    CancelledBy in execution
    /// Why an attempt was made.
    AttemptKind in execution
    /// How an attempt ended.
    AttemptOutcome in execution
    /// How a lease ended.
    LeaseEnd in execution
    /// What a claim handed out.
    ClaimKind in claim
    /// What a step is.
    StepKind in step
    /// What became of a step.
    StepOutcome in step
    /// The state of a flow.
    FlowWord in flow
    /// Where a flow stands, by what its members are doing.
    PublicFlowState in flow
    /// What becomes of the members of a cancelled flow.
    CancellationPolicy in flow
    /// Which ends of the upstream satisfy an edge.
    DependencyKind in flow
    /// Whether an edge holds its downstream back.
    EdgeWord in flow
    /// Whether the edges into an execution let it go.
    GroupWord in flow
    /// What becomes of upstreams that still run when an execution is let go.
    OnSatisfied in flow
    /// What becomes of what waits when it can never be let go.
    OnImpossible in flow
    /// Why the remaining upstreams of an execution are cancelled.
    SiblingsReason in flow
    /// Why an execution suspends.
    SuspensionReason in suspension
    /// Who asked for a suspension.
    RequestedBy in suspension
    /// What happens when nobody came in time.
    TimeoutBehavior in suspension
    /// How a suspension was closed.
    CloseReason in suspension
    /// Where a waitpoint stands.
    WaitpointWord in suspension
    /// What a signal led to.
    Effect in suspension
    /// What a count counts: waitpoints that were signalled, signals, or who sent them.
    Distinct in condition
    /// What a person decides, and the name of the signal that says it.
    Word in condition
}
