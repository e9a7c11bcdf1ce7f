//! Suspensions in this process.

use async_trait::async_trait;
use ff_core::decide::close_waitpoint::CloseWaitpoint;
use ff_core::decide::create_waitpoint::CreateWaitpoint;
use ff_core::decide::deliver::{DeliverSignal, Delivered};
use ff_core::decide::keys::RotateKey;
use ff_core::decide::resume::Resume;
use ff_core::decide::suspend::Suspend;
use ff_core::query::{After, Page};
use ff_core::state::PublicState;
use ff_core::suspension::Signal;
use ff_core::{ExecutionId, Fence};
use ff_engine::{Decision, Engine, LinkAsk};
use ff_wire::signal::{DecisionRequest, OfferAnswer, SignalLine, SignalPage, SignalParams};
use ff_wire::signing_key::{RotateAnswer, SigningKeysAnswer};
use ff_wire::suspension::{SuspendedPage, SuspendedParams, SuspensionSnapshot};
use ff_wire::waitpoint::{LinkAnswer, LinkRequest, WaitpointPage, WaitpointParams};
use ff_wire::{Hidden, Payload};
use uuid::Uuid;

use crate::Error;
use crate::fabric::Waits;

#[async_trait]
impl Waits for Engine {
    async fn suspend(&self, suspend: Suspend) -> Result<bool, Error> {
        Ok(self.suspend_execution(suspend).await?.already_satisfied)
    }

    async fn create_waitpoint(&self, create: CreateWaitpoint) -> Result<Option<Hidden>, Error> {
        let token = Self::create_waitpoint(self, create).await?;
        Ok(token.map(|token| Hidden::new(token.as_str())))
    }

    async fn close_waitpoint(&self, close: CloseWaitpoint) -> Result<(), Error> {
        Ok(Self::close_waitpoint(self, close).await?)
    }

    async fn suspension(&self, id: ExecutionId) -> Result<Option<SuspensionSnapshot>, Error> {
        Ok(self.describe_suspension(id).await?.map(SuspensionSnapshot::from))
    }

    async fn observed(&self, id: ExecutionId, attempt_index: u32) -> Result<Vec<Signal>, Error> {
        Ok(self.observe_signals(id, Fence { attempt_index, lease_epoch: 0 }).await?)
    }

    async fn signal(&self, signal: DeliverSignal) -> Result<Delivered, Error> {
        Ok(self.deliver_signal(signal).await?)
    }

    async fn decide(&self, id: ExecutionId, word: DecisionRequest) -> Result<Delivered, Error> {
        let (by, waitpoint) = word.who_and_where()?;
        let DecisionRequest { word, subject, comment, .. } = word;
        let decision = Decision { id, waitpoint, word, by, subject, comment };
        Ok(self.deliver_approval_signal(decision).await?)
    }

    async fn resume(&self, resume: Resume) -> Result<PublicState, Error> {
        Ok(self.resume_execution(resume).await?)
    }

    async fn signals(&self, id: ExecutionId, page: SignalParams) -> Result<SignalPage, Error> {
        let page = Page { after: page.after.map(After::Number), limit: page.limit()? };
        let (signals, next) = self.list_signals(id, &page).await?;
        let next = Page { after: next, limit: 0 }.number();
        Ok(SignalPage { signals: signals.into_iter().map(SignalLine::from).collect(), next })
    }

    async fn waitpoints(
        &self,
        of: Option<ExecutionId>,
        page: WaitpointParams,
    ) -> Result<WaitpointPage, Error> {
        let (after, limit) = page.into_page()?;
        let (found, next) = self.list_pending_waitpoints(of, after, Some(limit)).await?;
        Ok(WaitpointPage::new(found, next.as_ref()))
    }

    async fn suspended(&self, search: SuspendedParams) -> Result<SuspendedPage, Error> {
        let (search, page) = search.into_query()?;
        let (found, next) = self.list_suspended(search, &page).await?;
        Ok(SuspendedPage::new(found, next.as_ref()))
    }

    async fn waitpoint_token(
        &self,
        id: ExecutionId,
        waitpoint: Uuid,
    ) -> Result<Option<Hidden>, Error> {
        let token = self.read_waitpoint_token(id, waitpoint).await?;
        Ok(token.map(|token| Hidden::new(token.as_str())))
    }

    async fn sign_link(
        &self,
        id: ExecutionId,
        waitpoint: Uuid,
        link: LinkRequest,
    ) -> Result<LinkAnswer, Error> {
        let (signal, source_identity, subject) = link.into_parts()?;
        let ask = LinkAsk { id, waitpoint, signal, source_identity, subject };
        Ok(LinkAnswer::new(Self::sign_link(self, ask).await?))
    }

    async fn read_link(&self, link: &str) -> Result<OfferAnswer, Error> {
        let offer = Self::read_link(self, link).await?;
        Ok(OfferAnswer::new(offer.link, &offer.waitpoint, offer.open))
    }

    async fn follow_link(&self, link: &str, payload: Option<Payload>) -> Result<Delivered, Error> {
        let payload = payload.map(|payload| (payload.bytes, payload.encoding));
        Ok(Self::follow_link(self, link, payload).await?)
    }

    async fn signing_keys(&self) -> Result<SigningKeysAnswer, Error> {
        Ok(SigningKeysAnswer::from(self.list_signing_keys().await?))
    }

    async fn rotate_signing_key(&self, rotate: RotateKey) -> Result<RotateAnswer, Error> {
        let kid = rotate.kid.clone();
        Ok(RotateAnswer::new(kid, self.rotate_waitpoint_hmac_secret(rotate).await?))
    }
}
