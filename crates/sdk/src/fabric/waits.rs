//! What workers and clients need of suspensions, waitpoints and signals.

use async_trait::async_trait;
use ff_core::ExecutionId;
use ff_core::decide::close_waitpoint::CloseWaitpoint;
use ff_core::decide::create_waitpoint::CreateWaitpoint;
use ff_core::decide::deliver::{DeliverSignal, Delivered};
use ff_core::decide::keys::RotateKey;
use ff_core::decide::resume::Resume;
use ff_core::decide::suspend::Suspend;
use ff_core::state::PublicState;
use ff_core::suspension::Signal;
use ff_wire::signal::{DecisionRequest, OfferAnswer, SignalPage, SignalParams};
use ff_wire::signing_key::{RotateAnswer, SigningKeysAnswer};
use ff_wire::suspension::{SuspendedPage, SuspendedParams, SuspensionSnapshot};
use ff_wire::waitpoint::{LinkAnswer, LinkRequest, WaitpointPage, WaitpointParams};
use ff_wire::{Hidden, Payload};
use uuid::Uuid;

use crate::Error;

/// Suspensions, here or elsewhere.
#[async_trait]
pub trait Waits: Send + Sync + 'static {
    /// Gives an execution back until something happens; whether that had happened, so that the lease
    /// still holds.
    async fn suspend(&self, suspend: Suspend) -> Result<bool, Error>;

    /// Makes a waitpoint; its token, unless the key that signed it is gone.
    async fn create_waitpoint(&self, create: CreateWaitpoint) -> Result<Option<Hidden>, Error>;

    /// Closes a waitpoint that will not be used.
    async fn close_waitpoint(&self, close: CloseWaitpoint) -> Result<(), Error>;

    /// The last suspension of an execution, if it has been suspended.
    async fn suspension(&self, id: ExecutionId) -> Result<Option<SuspensionSnapshot>, Error>;

    /// The signals that satisfied the last suspension, if this attempt was the one that waited.
    async fn observed(&self, id: ExecutionId, attempt_index: u32) -> Result<Vec<Signal>, Error>;

    /// Sends a signal.
    async fn signal(&self, signal: DeliverSignal) -> Result<Delivered, Error>;

    /// Says what a person decided.
    async fn decide(&self, id: ExecutionId, word: DecisionRequest) -> Result<Delivered, Error>;

    /// Lets a suspended execution go on; where it stands then.
    async fn resume(&self, resume: Resume) -> Result<PublicState, Error>;

    /// A page of the signals of an execution.
    async fn signals(&self, id: ExecutionId, page: SignalParams) -> Result<SignalPage, Error>;

    /// A page of waitpoints at which signals may arrive, of one execution or of all.
    async fn waitpoints(
        &self,
        of: Option<ExecutionId>,
        page: WaitpointParams,
    ) -> Result<WaitpointPage, Error>;

    /// A page of suspended executions, the longest suspended first.
    async fn suspended(&self, search: SuspendedParams) -> Result<SuspendedPage, Error>;

    /// The token of a waitpoint, unless the key that signed it is gone.
    async fn waitpoint_token(
        &self,
        id: ExecutionId,
        waitpoint: Uuid,
    ) -> Result<Option<Hidden>, Error>;

    /// A link that sends a signal.
    async fn sign_link(
        &self,
        id: ExecutionId,
        waitpoint: Uuid,
        link: LinkRequest,
    ) -> Result<LinkAnswer, Error>;

    /// What a link would do.
    async fn read_link(&self, link: &str) -> Result<OfferAnswer, Error>;

    /// Sends the signal of a link, once.
    async fn follow_link(&self, link: &str, payload: Option<Payload>) -> Result<Delivered, Error>;

    /// The keys that verify tokens now, the current one first.
    async fn signing_keys(&self) -> Result<SigningKeysAnswer, Error>;

    /// Signs with another key from now on.
    async fn rotate_signing_key(&self, rotate: RotateKey) -> Result<RotateAnswer, Error>;
}
