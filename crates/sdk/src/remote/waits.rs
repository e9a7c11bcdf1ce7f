//! Suspensions behind a server.

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
use ff_wire::signal::{
    DecisionRequest, ObservedAnswer, OfferAnswer, SignalAnswer, SignalPage, SignalParams,
    SignalRequest,
};
use ff_wire::signing_key::{RotateAnswer, RotateRequest, SigningKeysAnswer};
use ff_wire::suspension::{
    ResumeAnswer, ResumeRequest, SuspendAnswer, SuspendRequest, SuspendedPage, SuspendedParams,
    SuspensionAnswer, SuspensionSnapshot,
};
use ff_wire::waitpoint::{
    CloseRequest, LinkAnswer, LinkRequest, NewWaitpoint, TokenAnswer, WaitpointPage,
    WaitpointParams,
};
use ff_wire::{Hidden, Payload};
use uuid::Uuid;

use super::{Anything, Remote};
use crate::Error;
use crate::fabric::Waits;

#[async_trait]
impl Waits for Remote {
    async fn suspend(&self, suspend: Suspend) -> Result<bool, Error> {
        let path = format!("v1/executions/{}/suspend", suspend.id);
        let answer = self.caller.post(&path, &SuspendRequest::from(suspend)).await?;
        Ok(match answer {
            SuspendAnswer::Suspended { .. } => false,
            SuspendAnswer::AlreadySatisfied { .. } => true,
        })
    }

    async fn create_waitpoint(&self, create: CreateWaitpoint) -> Result<Option<Hidden>, Error> {
        let path = format!("v1/executions/{}/waitpoints", create.id);
        let answer: TokenAnswer = self.caller.post(&path, &NewWaitpoint::from(create)).await?;
        Ok(answer.token)
    }

    async fn close_waitpoint(&self, close: CloseWaitpoint) -> Result<(), Error> {
        let path = format!("v1/executions/{}/waitpoints/{}/close", close.id, close.waitpoint);
        self.caller.post::<Anything>(&path, &CloseRequest::from(close)).await.map(drop)
    }

    async fn suspension(&self, id: ExecutionId) -> Result<Option<SuspensionSnapshot>, Error> {
        let path = format!("v1/executions/{id}/suspension");
        Ok(self.caller.get::<SuspensionAnswer>(&path).await?.suspension)
    }

    async fn observed(&self, id: ExecutionId, attempt_index: u32) -> Result<Vec<Signal>, Error> {
        let path = format!("v1/executions/{id}/observed-signals?attempt_index={attempt_index}");
        let answer: ObservedAnswer = self.caller.get(&path).await?;
        let signals = answer.signals.into_iter();
        signals.map(|line| line.into_signal(id).map_err(Error::from)).collect()
    }

    async fn signal(&self, signal: DeliverSignal) -> Result<Delivered, Error> {
        let path = format!("v1/executions/{}/signals", signal.id);
        let body = SignalRequest::try_from(signal)?;
        Ok(self.caller.post::<SignalAnswer>(&path, &body).await?.into())
    }

    async fn decide(&self, id: ExecutionId, word: DecisionRequest) -> Result<Delivered, Error> {
        let path = format!("v1/executions/{id}/decisions");
        Ok(self.caller.post::<SignalAnswer>(&path, &word).await?.into())
    }

    async fn resume(&self, resume: Resume) -> Result<PublicState, Error> {
        let path = format!("v1/executions/{}/resume", resume.id);
        Ok(self.caller.post::<ResumeAnswer>(&path, &ResumeRequest::from(resume)).await?.into())
    }

    async fn signals(&self, id: ExecutionId, page: SignalParams) -> Result<SignalPage, Error> {
        self.caller.find(&format!("v1/executions/{id}/signals"), &page).await
    }

    async fn waitpoints(
        &self,
        of: Option<ExecutionId>,
        page: WaitpointParams,
    ) -> Result<WaitpointPage, Error> {
        let path = of.map_or_else(
            || "v1/waitpoints".to_owned(),
            |id| format!("v1/executions/{id}/waitpoints"),
        );
        self.caller.find(&path, &page).await
    }

    async fn suspended(&self, search: SuspendedParams) -> Result<SuspendedPage, Error> {
        self.caller.find("v1/suspended", &search).await
    }

    async fn waitpoint_token(
        &self,
        id: ExecutionId,
        waitpoint: Uuid,
    ) -> Result<Option<Hidden>, Error> {
        let path = format!("v1/executions/{id}/waitpoints/{waitpoint}/token");
        Ok(self.caller.get::<TokenAnswer>(&path).await?.token)
    }

    async fn sign_link(
        &self,
        id: ExecutionId,
        waitpoint: Uuid,
        link: LinkRequest,
    ) -> Result<LinkAnswer, Error> {
        let path = format!("v1/executions/{id}/waitpoints/{waitpoint}/links");
        self.caller.post(&path, &link).await
    }

    async fn read_link(&self, link: &str) -> Result<OfferAnswer, Error> {
        self.caller.get(&format!("v1/signals/{link}")).await
    }

    async fn follow_link(&self, link: &str, payload: Option<Payload>) -> Result<Delivered, Error> {
        let body = payload.map_or_else(
            || Ok(serde_json::Value::Null),
            |payload| {
                let why = |error| Error::permanent(format!("a link takes JSON only: {error}"));
                serde_json::from_slice(&payload.bytes).map_err(why)
            },
        )?;
        let path = format!("v1/signals/{link}");
        let answer: SignalAnswer = if body.is_null() {
            super::read(self.caller.request(super::Method::POST, &path, super::Duration::ZERO))
                .await?
        } else {
            self.caller.post(&path, &body).await?
        };
        Ok(answer.into())
    }

    async fn signing_keys(&self) -> Result<SigningKeysAnswer, Error> {
        self.caller.get("v1/signing-keys").await
    }

    async fn rotate_signing_key(&self, rotate: RotateKey) -> Result<RotateAnswer, Error> {
        self.caller.post("v1/signing-keys/rotate", &RotateRequest::from(rotate)).await
    }
}
