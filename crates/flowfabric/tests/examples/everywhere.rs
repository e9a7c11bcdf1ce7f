//! A worker that dies before or after everything it writes; another one goes on.
//!
//! However often that happens, the result is the same, and everything that was done to the outside
//! was done once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use ff_core::decide::revoke::Revoke;
use ff_core::text::WorkerInstanceId;
use ff_sdk::fabric::{Call, Observed, Observer};
use flowfabric::{Client, ExecutionId, FlowHandle, Handle, Worker};
use futures_util::{FutureExt, StreamExt, stream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::stores::{At, Place, every_place};
use crate::{MEDIA_MEMBERS, ORDERED, agent, deployed, media, orders, packaged, shipped};
use crate::{deploy_approval, webhook_callback};

/// Runs at the same time: each has connections of its own.
const AT_ONCE: usize = 12;

/// When a worker dies.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Death {
    Before(usize),
    After(usize),
}

/// Dies at something that it writes: nothing it says from then on is heard, and nothing is answered.
struct Mortal {
    death: Death,
    writes: AtomicUsize,
    /// One is made at a time, so that each has its number.
    turn: Semaphore,
    dead: CancellationToken,
}

/// What the worker that dies is called.
const MORTAL: &str = "mortal";

impl Mortal {
    fn new(death: Death) -> Self {
        let (writes, dead) = (AtomicUsize::new(0), CancellationToken::new());
        Self { death, writes, turn: Semaphore::new(1), dead }
    }

    async fn die(&self) {
        self.dead.cancel();
        std::future::pending::<()>().await;
    }
}

fn writes(call: Call<'_>) -> bool {
    match call {
        Call::Report(_) | Call::Extend(_) | Call::Wait(_) | Call::Open(_) | Call::Suspend(_) => {
            true
        }
        Call::Claim | Call::Renew => false,
    }
}

#[async_trait]
impl Observer for Mortal {
    async fn before(&self, call: Call<'_>) {
        if writes(call) {
            self.turn.acquire().await.unwrap().forget();
            let number = self.writes.fetch_add(1, Ordering::SeqCst);
            if self.death == Death::Before(number) {
                self.die().await;
            }
        }
        if self.dead.is_cancelled() {
            self.die().await;
        }
    }

    async fn after(&self, call: Call<'_>, _: bool) {
        if writes(call) {
            if self.death == Death::After(self.writes.load(Ordering::SeqCst) - 1) {
                self.die().await;
            }
            self.turn.add_permits(1);
        }
        if self.dead.is_cancelled() {
            self.die().await;
        }
    }
}

/// What is worked on.
enum Work<'w> {
    One(&'w Handle),
    Flow(&'w FlowHandle),
}

impl Work<'_> {
    async fn ended(&self) {
        match self {
            Self::One(one) => drop(one.ended().await.unwrap()),
            Self::Flow(flow) => drop(flow.ended().await.unwrap()),
        }
    }

    async fn members(&self) -> Vec<ExecutionId> {
        match self {
            Self::One(one) => vec![one.id()],
            Self::Flow(flow) => {
                let page = flow.members(flowfabric::MemberParams::default()).await.unwrap();
                page.members.iter().map(|member| member.execution_id).collect()
            }
        }
    }
}

/// Runs work with a worker that dies at `death`, then with one that does not. Whether it died.
async fn dies_once(
    place: &Place,
    death: Death,
    worker: impl Fn(&Client) -> Worker,
    work: Work<'_>,
) -> bool {
    let client: &Client = &place.fabric;
    let mortal = Mortal::new(death);
    let dead = mortal.dead.clone();
    let mortal = Arc::new(Observed::new(Arc::clone(client.fabric()), mortal));
    let running = worker(&Client::new(Arc::clone(&mortal) as _));
    let running = running.instance(MORTAL).concurrency(1).start().unwrap();
    tokio::select! {
        () = dead.cancelled() => {}
        () = work.ended() => {}
    }
    drop(running);
    let second = worker(client).start().unwrap();
    tokio::select! {
        () = bury(place, &work) => {}
        () = work.ended() => {}
    }
    second.stop().await.unwrap();
    // The last write ends the work, which may be seen before its writer dies of it.
    let (Death::Before(number) | Death::After(number)) = death;
    mortal.observer.writes.load(Ordering::SeqCst) > number
}

/// Takes the leases of the dead away instead of waiting for them to run out: a lease short enough to
/// wait for is lost by the living too, on a busy machine. Goes on for ever, because a claim may have
/// been answered when nobody listened any more.
async fn bury(place: &Place, work: &Work<'_>) {
    loop {
        for id in work.members().await {
            let worker_instance = Some(WorkerInstanceId::new(MORTAL).unwrap());
            let reason = "the worker died".to_owned();
            let revoke = Revoke { id, expected: None, worker_instance, reason };
            // What it does not hold is refused.
            drop(place.engine().revoke_lease(revoke).await);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Every death there is: before and after each of so many writes, and none beyond them.
async fn at_every_point<F, Fut>(writes: usize, run: F)
where
    F: Fn(At, Death) -> Fut,
    Fut: Future<Output = bool>,
{
    let deaths = (0..=writes).flat_map(|number| [Death::Before(number), Death::After(number)]);
    let runs: Vec<_> = deaths
        .flat_map(|death| every_place().map(|place| (place, death)))
        .map(|(place, death)| run(place, death).map(move |died| (death, died)).boxed_local())
        .collect();
    let died: Vec<_> = stream::iter(runs).buffer_unordered(AT_ONCE).collect().await;
    for (death, died) in died {
        let beyond = [Death::Before(writes), Death::After(writes)].contains(&death);
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
        let worker = |client: &Client| orders::worker(client, &shop);
        let died = dies_once(&place, death, worker, Work::One(&made)).await;
        let receipt: orders::Receipt = made.result().await.unwrap();
        assert_eq!(receipt.paid, 900, "{death:?}");
        assert_eq!(shop.deeds(), ORDERED, "{death:?}");
        assert_eq!(made.history().await.unwrap().steps.len(), 10, "{death:?}");
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
        let worker = |client: &Client| agent::worker(client, &model);
        let died = dies_once(&place, death, worker, Work::One(&made)).await;
        let answer: String = made.result().await.unwrap();
        assert!(answer.ends_with("80 a night"), "{death:?}: {answer}");
        // What was thought and not recorded is thought again; nothing else is.
        assert!(model.asked() <= 5, "{death:?}: {}", model.asked());
        assert_eq!(made.history().await.unwrap().steps.len(), 7, "{death:?}");
        died
    })
    .await;
}

#[tokio::test]
async fn a_film_survives_a_crash_at_every_point() {
    // For each size: children and a wait, two chunks, the same again after the wait, what came of
    // it, and the end. Probe, subtitles, announcement; the package, and the child it has.
    at_every_point(2 * 8 + 3 + 2, |place, death| async move {
        let place = place.open().await;
        let flow = media::submit(&place.fabric, "metropolis.mov").await.unwrap();
        let died = dies_once(&place, death, media::worker, Work::Flow(&flow)).await;
        let package: media::Package = flow.result("package").await.unwrap();
        assert_eq!(package, packaged(), "{death:?}");
        let summary = flow.summary().await.unwrap();
        assert_eq!(summary.total_members, MEDIA_MEMBERS, "{death:?}: each child is created once");
        assert_eq!(summary.members_completed, MEDIA_MEMBERS - 1, "{death:?}");
        died
    })
    .await;
}

/// Deploys, with a worker that dies at `death`.
async fn deployment(at: At, death: Death) -> bool {
    let place = at.open().await;
    let machines = deploy_approval::Machines::default();
    let made = place.fabric.create("deploy", crate::wish()).lane("deployments").await.unwrap();
    let worker = |client: &Client| deploy_approval::worker(client, &machines);
    let people = async {
        deploy_approval::asked(&made).await.unwrap();
        for who in ["ann", "bob"] {
            made.approve(who).await.unwrap();
        }
    };
    let (died, ()) = tokio::join!(dies_once(&place, death, worker, Work::One(&made)), people);
    assert_eq!(made.result::<String>().await.unwrap(), deployed(), "{death:?}");
    assert_eq!(machines.deployments(), 1, "{death:?}");
    assert_eq!(made.history().await.unwrap().steps.len(), 4, "{death:?}");
    died
}

#[tokio::test]
async fn a_crash_between_the_resume_and_the_recorded_answer_finds_the_answer() {
    for at in every_place() {
        // After the plan and the question.
        assert!(deployment(at, Death::Before(2)).await, "{at:?}");
    }
}

#[tokio::test]
async fn a_deployment_survives_a_crash_at_every_point() {
    // The plan, the question, its answer, the deployment, and the end.
    at_every_point(5, deployment).await;
}

#[tokio::test]
async fn a_checkout_survives_a_crash_at_every_point() {
    // The waitpoint is made; the charge, the question, its answer, and the end.
    at_every_point(5, |place, death| async move {
        let place = place.open().await;
        let (provider, charges) = webhook_callback::Provider::new();
        let web = Client::clone(&place.fabric);
        let providing = tokio::spawn(webhook_callback::provide(web, charges));
        let made = place.fabric.create("checkout", 4_200).lane("shop").await.unwrap();
        let worker = |client: &Client| webhook_callback::worker(client, &provider);
        let died = dies_once(&place, death, worker, Work::One(&made)).await;
        assert_eq!(made.result::<String>().await.unwrap(), shipped(), "{death:?}");
        assert_eq!(provider.charged(), 1, "{death:?}");
        assert_eq!(made.history().await.unwrap().steps.len(), 4, "{death:?}");
        drop(provider);
        providing.abort();
        died
    })
    .await;
}
