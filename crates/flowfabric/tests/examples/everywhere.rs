//! A worker that dies before or after every one of its reports; another one goes on.
//!
//! However often that happens, the result is the same, and everything that was done to the outside
//! was done once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use ff_core::decide::create::{Create, Created};
use ff_core::decide::renew::Renew;
use ff_core::decide::revoke::Revoke;
use ff_core::state::PublicState;
use ff_core::step::StepRecord;
use ff_core::{ClaimAsk, Code, ExecutionId, Millis};
use ff_sdk::fabric::{Data, Fabric, Report, Work};
use ff_wire::lane::{CountsAnswer, LanesAnswer};
use ff_wire::steer::TagsRequest;
use ff_wire::{ExecutionPage, ExecutionSnapshot, History, SearchParams};
use flowfabric::{Client, Error, Handle, Worker};
use futures_util::{FutureExt, StreamExt, stream};
use tokio_util::sync::CancellationToken;

use crate::stores::{At, Place, every_place};
use crate::{ORDERED, agent, orders};

/// Runs at the same time: each has connections of its own.
const AT_ONCE: usize = 12;

/// When a worker dies.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Death {
    Before(usize),
    After(usize),
}

/// A fabric whose user dies at some report: nothing it says from then on is heard, and nothing is
/// answered.
struct Mortal {
    inner: Arc<dyn Fabric>,
    death: Death,
    reports: AtomicUsize,
    dead: CancellationToken,
}

impl Mortal {
    async fn die<T>(&self) -> T {
        self.dead.cancel();
        std::future::pending().await
    }

    async fn alive<T>(&self, answer: T) -> T {
        if self.dead.is_cancelled() { self.die().await } else { answer }
    }
}

#[async_trait]
impl Fabric for Mortal {
    async fn create(&self, creates: Vec<Create>) -> Result<Vec<Result<Created, Error>>, Error> {
        self.inner.create(creates).await
    }

    async fn claim(&self, ask: &ClaimAsk, wait: Duration, again: bool) -> Result<Vec<Work>, Error> {
        self.alive(()).await;
        self.inner.claim(ask, wait, again).await
    }

    async fn renew(&self, leases: Vec<Renew>) -> Result<Vec<Result<(), Error>>, Error> {
        self.alive(()).await;
        self.inner.renew(leases).await
    }

    async fn report(&self, report: Report) -> Result<(), Error> {
        self.alive(()).await;
        let number = self.reports.fetch_add(1, Ordering::SeqCst);
        if self.death == Death::Before(number) {
            return self.die().await;
        }
        let answer = self.inner.report(report).await;
        if self.death == Death::After(number) { self.die().await } else { answer }
    }

    async fn journal(&self, id: ExecutionId) -> Result<Vec<StepRecord>, Error> {
        self.inner.journal(id).await
    }

    async fn now(&self) -> Result<Millis, Error> {
        self.inner.now().await
    }

    async fn wait(&self, id: ExecutionId, wait: Duration) -> Result<PublicState, Error> {
        self.inner.wait(id, wait).await
    }

    async fn result(&self, id: ExecutionId) -> Result<Option<Data>, Error> {
        self.inner.result(id).await
    }

    async fn cancel(&self, id: ExecutionId, reason: String) -> Result<(), Error> {
        self.inner.cancel(id, reason).await
    }

    async fn replay(&self, id: ExecutionId, reason: String) -> Result<(), Error> {
        self.inner.replay(id, reason).await
    }

    async fn hold(&self, id: ExecutionId, reason: String) -> Result<(), Error> {
        self.inner.hold(id, reason).await
    }

    async fn unhold(&self, id: ExecutionId) -> Result<(), Error> {
        self.inner.unhold(id).await
    }

    async fn set_priority(&self, id: ExecutionId, priority: i32) -> Result<(), Error> {
        self.inner.set_priority(id, priority).await
    }

    async fn set_tags(&self, id: ExecutionId, edit: TagsRequest) -> Result<(), Error> {
        self.inner.set_tags(id, edit).await
    }

    async fn describe(&self, id: ExecutionId) -> Result<ExecutionSnapshot, Error> {
        self.inner.describe(id).await
    }

    async fn history(&self, id: ExecutionId) -> Result<History, Error> {
        self.inner.history(id).await
    }

    async fn search(&self, search: SearchParams) -> Result<ExecutionPage, Error> {
        self.inner.search(search).await
    }

    async fn lanes(&self) -> Result<LanesAnswer, Error> {
        self.inner.lanes().await
    }

    async fn counts(&self) -> Result<CountsAnswer, Error> {
        self.inner.counts().await
    }
}

/// Runs work with a worker that dies at `death`, then with one that does not. Whether it died.
///
/// The lease of the dead is taken away instead of waited for: a lease short enough to wait for is
/// lost by the living too, on a busy machine.
async fn dies_once(
    place: &Place,
    death: Death,
    worker: impl Fn(&Client) -> Worker,
    made: &Handle,
) -> bool {
    let client: &Client = &place.fabric;
    let (reports, dead) = (AtomicUsize::new(0), CancellationToken::new());
    let inner = Arc::clone(client.fabric());
    let mortal = Arc::new(Mortal { inner, death, reports, dead: dead.clone() });
    let running = worker(&Client::new(Arc::clone(&mortal) as _)).start().unwrap();
    tokio::select! {
        () = dead.cancelled() => {}
        ended = made.ended() => drop(ended.unwrap()),
    }
    drop(running);
    let reason = "the worker died".to_owned();
    let revoke = Revoke { id: made.id(), expected: None, worker_instance: None, reason };
    if let Err(error) = place.engine().revoke_lease(revoke).await {
        assert_eq!(error.code(), Code::ExecutionNotActive, "it had ended: {error}");
    }
    let second = worker(client).start().unwrap();
    made.ended().await.unwrap();
    second.stop().await.unwrap();
    // The last report ends the execution, which may be seen before its reporter dies of it.
    let (Death::Before(number) | Death::After(number)) = death;
    mortal.reports.load(Ordering::SeqCst) > number
}

/// Every death there is: before and after each of so many reports, and none beyond them.
async fn at_every_point<F, Fut>(reports: usize, run: F)
where
    F: Fn(At, Death) -> Fut,
    Fut: Future<Output = bool>,
{
    let deaths = (0..=reports).flat_map(|number| [Death::Before(number), Death::After(number)]);
    let runs: Vec<_> = deaths
        .flat_map(|death| every_place().map(|place| (place, death)))
        .map(|(place, death)| run(place, death).map(move |died| (death, died)).boxed_local())
        .collect();
    let died: Vec<_> = stream::iter(runs).buffer_unordered(AT_ONCE).collect().await;
    for (death, died) in died {
        let beyond = [Death::Before(reports), Death::After(reports)].contains(&death);
        assert_eq!(died, !beyond, "{death:?}");
    }
}

#[tokio::test]
async fn an_order_survives_a_crash_at_every_point() {
    // Ten steps and the end.
    at_every_point(11, |place, death| async move {
        let place = place.open().await;
        let fabric = &place.fabric;
        let shop = orders::Shop::default();
        let made = fabric.create("fulfil", orders::order()).lane("orders").await.unwrap();
        let died = dies_once(&place, death, |client| orders::worker(client, &shop), &made).await;
        let receipt: orders::Receipt = made.result().await.unwrap();
        assert_eq!(receipt.paid, 900, "{death:?}");
        assert_eq!(shop.deeds(), ORDERED, "{death:?}");
        assert_eq!(made.history().await.unwrap().steps.len(), 11, "{death:?}");
        died
    })
    .await;
}

#[tokio::test]
async fn an_agent_survives_a_crash_at_every_point() {
    // Four thoughts, three calls and the end.
    at_every_point(8, |place, death| async move {
        let place = place.open().await;
        let fabric = &place.fabric;
        let model = agent::Model::default();
        let made = fabric.create("plan", "a weekend in Lisbon").lane("agents").await.unwrap();
        let died = dies_once(&place, death, |client| agent::worker(client, &model), &made).await;
        let answer: String = made.result().await.unwrap();
        assert!(answer.ends_with("80 a night"), "{death:?}: {answer}");
        // What was thought and not recorded is thought again; nothing else is.
        assert!(model.asked() <= 5, "{death:?}: {}", model.asked());
        assert_eq!(made.history().await.unwrap().steps.len(), 7, "{death:?}");
        died
    })
    .await;
}
