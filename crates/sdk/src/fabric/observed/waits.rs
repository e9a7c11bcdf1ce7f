//! Suspensions, with somebody who watches.

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

use super::{Call, Observed, Observer};
use crate::Error;
use crate::fabric::Waits;

#[async_trait]
impl<O: Observer> Waits for Observed<O> {
    async fn suspend(&self, suspend: Suspend) -> Result<bool, Error> {
        self.call(Call::Suspend(&suspend), self.inner.suspend(suspend.clone())).await
    }

    async fn create_waitpoint(&self, create: CreateWaitpoint) -> Result<Option<Hidden>, Error> {
        self.call(Call::Open(&create), self.inner.create_waitpoint(create.clone())).await
    }

    async fn close_waitpoint(&self, close: CloseWaitpoint) -> Result<(), Error> {
        self.inner.close_waitpoint(close).await
    }

    async fn suspension(&self, id: ExecutionId) -> Result<Option<SuspensionSnapshot>, Error> {
        self.inner.suspension(id).await
    }

    async fn observed(&self, id: ExecutionId, attempt_index: u32) -> Result<Vec<Signal>, Error> {
        self.inner.observed(id, attempt_index).await
    }

    async fn signal(&self, signal: DeliverSignal) -> Result<Delivered, Error> {
        self.inner.signal(signal).await
    }

    async fn decide(&self, id: ExecutionId, word: DecisionRequest) -> Result<Delivered, Error> {
        self.inner.decide(id, word).await
    }

    async fn resume(&self, resume: Resume) -> Result<PublicState, Error> {
        self.inner.resume(resume).await
    }

    async fn signals(&self, id: ExecutionId, page: SignalParams) -> Result<SignalPage, Error> {
        self.inner.signals(id, page).await
    }

    async fn waitpoints(
        &self,
        of: Option<ExecutionId>,
        page: WaitpointParams,
    ) -> Result<WaitpointPage, Error> {
        self.inner.waitpoints(of, page).await
    }

    async fn suspended(&self, search: SuspendedParams) -> Result<SuspendedPage, Error> {
        self.inner.suspended(search).await
    }

    async fn waitpoint_token(
        &self,
        id: ExecutionId,
        waitpoint: Uuid,
    ) -> Result<Option<Hidden>, Error> {
        self.inner.waitpoint_token(id, waitpoint).await
    }

    async fn sign_link(
        &self,
        id: ExecutionId,
        waitpoint: Uuid,
        link: LinkRequest,
    ) -> Result<LinkAnswer, Error> {
        self.inner.sign_link(id, waitpoint, link).await
    }

    async fn read_link(&self, link: &str) -> Result<OfferAnswer, Error> {
        self.inner.read_link(link).await
    }

    async fn follow_link(&self, link: &str, payload: Option<Payload>) -> Result<Delivered, Error> {
        self.inner.follow_link(link, payload).await
    }

    async fn signing_keys(&self) -> Result<SigningKeysAnswer, Error> {
        self.inner.signing_keys().await
    }

    async fn rotate_signing_key(&self, rotate: RotateKey) -> Result<RotateAnswer, Error> {
        self.inner.rotate_signing_key(rotate).await
    }
}
