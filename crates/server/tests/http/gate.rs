//! A gate before the store: tests see claims pass, hold calls up, and make them fail.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use ff_conformance::faults::{Call, Obstacle};
use ff_core::StoreError;
use tokio::sync::watch;

/// What a test does with the next calls.
#[derive(Clone)]
pub struct Gate(Arc<Inner>);

struct Inner {
    /// Claims that the store has served.
    claims: watch::Sender<u32>,
    /// Whether calls that change something are held up before, or claims after, the store.
    shut: watch::Sender<bool>,
    /// What the next call answers.
    fault: Mutex<Option<Fault>>,
}

/// What may go wrong.
pub enum Fault {
    Store(StoreError),
    Panic,
}

impl Default for Gate {
    fn default() -> Self {
        let (claims, shut) = (watch::Sender::new(0), watch::Sender::new(false));
        Self(Arc::new(Inner { claims, shut, fault: Mutex::default() }))
    }
}

impl Gate {
    /// Holds up commands before they reach the store, and claims after they were served.
    pub fn shut(&self) {
        self.0.shut.send_replace(true);
    }

    /// Lets everything pass again.
    pub fn open(&self) {
        self.0.shut.send_replace(false);
    }

    /// The next call fails.
    pub fn fail(&self, fault: Fault) {
        *self.0.fault.lock().unwrap() = Some(fault);
    }

    /// Waits until the store has served so many claims.
    pub async fn claims(&self, count: u32) {
        let mut claims = self.0.claims.subscribe();
        claims.wait_for(|served| *served >= count).await.unwrap();
    }

    async fn pass(&self) {
        self.0.shut.subscribe().wait_for(|shut| !shut).await.unwrap();
    }
}

#[async_trait]
impl Obstacle for Gate {
    async fn before(&self, call: Call) -> Result<(), StoreError> {
        let fault = self.0.fault.lock().unwrap().take();
        match fault {
            Some(Fault::Store(error)) => return Err(error),
            Some(Fault::Panic) => panic!("a panic, on purpose"),
            None => {}
        }
        if call == Call::Apply {
            self.pass().await;
        }
        Ok(())
    }

    async fn after(&self, call: Call) -> Result<(), StoreError> {
        if call == Call::Claim {
            self.0.claims.send_modify(|served| *served += 1);
            self.pass().await;
        }
        Ok(())
    }
}
