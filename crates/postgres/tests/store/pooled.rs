//! Behind a pooler in transaction mode: nothing is prepared, every transaction brings its own
//! settings, and those who wait look again.

use std::sync::Arc;
use std::time::Duration;

use ff_backend_postgres::{Options, Postgres};
use ff_conformance::cases::calls::retrying;
use ff_conformance::world::lane;
use ff_conformance::{Dial, Dice, Store};
use ff_core::ClaimAsk;
use ff_core::backend::{Interest, StoreError};
use ff_core::decide::consumer::SaveCursor;
use ff_core::decide::create::Create;
use ff_core::event::{Cursor, Filter};
use ff_core::fold::Key;
use ff_core::policy::Policy;
use ff_core::query::Search;
use ff_core::state::PublicState;
use ff_core::text::ConsumerName;

use crate::dump;
use crate::server::{self, Schema};
use crate::stores::{Stores, create, draft, unique};

fn url() -> String {
    format!("{}?pooled=true", server::url())
}

/// An empty schema, as if through a pooler.
fn open(clock: Arc<Dial>) -> Store {
    let schema = Arc::new(Schema::empty());
    let options = schema.options(clock, Box::new(Dice::new(1)));
    let options = Options { url: url(), ..options };
    let backend = Arc::new(server::wait(async move { Postgres::open(options).await.unwrap() }));
    let dumped = Arc::clone(&schema);
    Store { backend, dump: Box::new(move || dump::dump(&dumped)), keep: Box::new(schema) }
}

#[tokio::test]
async fn the_life_of_some_executions_goes_as_without_a_pooler() {
    let stores = Stores::new();
    let w = stores.world(Options { url: url(), ..stores.options() }).await;
    let policy = Policy::parse(&retrying(1, 0)).unwrap();
    let drafts: Vec<Create> =
        (0..5).map(|_| Create { policy: policy.clone(), ..w.draft() }).collect();
    let ids: Vec<_> = drafts.iter().map(|draft| draft.id).collect();
    let created = w.batch(drafts.into_iter().map(Into::into).collect()).await;
    assert!(created.iter().all(Result::is_ok), "{created:?}");
    let claimed = w.claim(w.ask(3)).await;
    let fences: Vec<_> = claimed.iter().map(|c| (c.leased.execution.id, c.leased.fence)).collect();
    let [(done, a), (failed, b), (renewed, c)] = fences[..] else { panic!("{claimed:?}") };
    w.renew(renewed, c).await.unwrap();
    w.complete(done, a).await.unwrap();
    w.fail(failed, b).await.unwrap();
    let again = w.claim(w.ask(1)).await.remove(0).leased;
    assert_eq!(again.execution.id, failed);
    w.fail(failed, again.fence).await.unwrap();
    let cancelled = *ids.iter().find(|id| fences.iter().all(|(held, _)| held != *id)).unwrap();
    w.cancel(cancelled).await.unwrap();
    assert_eq!(w.search(Search::default()).await.len(), 5);
    let state = Some(PublicState::Active);
    assert_eq!(w.search(Search { state, ..Search::default() }).await, [renewed]);
    assert_eq!(w.attempts(failed).await.len(), 1);
    assert_eq!(w.heard(&Filter::default()).await, [done, failed, failed, cancelled]);
    let first = w.feed(&Cursor::Start, &Filter::default(), 2).await;
    let consumer = ConsumerName::new("mailer").unwrap();
    let cursor = first.next.clone();
    w.run(SaveCursor { consumer: consumer.clone(), cursor, saved: None }).await.unwrap();
    let have = w.store.backend.get(&[Key::Consumer(consumer.clone())]).await.unwrap();
    let place = have.consumers[&consumer].clone().unwrap().cursor;
    assert_eq!(w.feed(&place, &Filter::default(), 10).await.events.len(), 2);
}

#[tokio::test]
async fn a_waiter_finds_what_another_store_commits_by_looking() {
    let stores = Stores::new();
    let options = || Options { url: url(), poll: Duration::from_millis(50), ..stores.options() };
    let (here, there) = (stores.world(options()).await, stores.world(options()).await);
    let backend = Arc::clone(&there.store.backend);
    let waiting = tokio::spawn(async move {
        let mut at = Cursor::Start;
        loop {
            let seen = backend.generation(Interest::Events);
            let page = backend.events(&at, &Filter::default(), 1).await.unwrap();
            if let Some(event) = page.events.first() {
                return event.event.subject();
            }
            at = page.next;
            backend.wait(Interest::Events, seen).await;
        }
    });
    let id = create(&*here.store.backend, draft(&here)).await;
    here.cancel(id).await.unwrap();
    let heard = tokio::time::timeout(Duration::from_secs(10), waiting).await;
    assert_eq!(heard.unwrap().unwrap(), id);
}

#[tokio::test]
async fn a_schema_is_not_brought_up_to_date_through_a_pooler() {
    let schema = Some(format!("p_{}", unique().simple()));
    let refused = Postgres::open(Options { schema, ..Options::new(url()) }).await.err();
    let Some(StoreError::Transport { cause }) = refused else { panic!("{refused:?}") };
    assert!(cause.contains("migrate at the address of the server itself"), "{cause}");
}

#[tokio::test]
async fn a_claim_that_moves_a_full_batch_of_delays_stays_one_transaction() {
    ff_conformance::world::run(open, |w: Arc<ff_conformance::world::World>| async move {
        let later = Some(w.now().plus(1_000));
        let drafts = (0..600).map(|_| Create { delay_until: later, ..w.draft() }.into()).collect();
        for outcome in w.batch(drafts).await {
            outcome.unwrap();
        }
        w.pass(1_000);
        let elsewhere = ClaimAsk { lanes: vec![lane("elsewhere")], ..w.ask(5) };
        let claims = w.store.backend.claim(&[elsewhere]).await.unwrap();
        assert_eq!(claims.next_due, later, "a hundred delays are over and not yet moved");
        let claims = w.store.backend.claim(&[w.ask(5)]).await.unwrap();
        assert_eq!(claims.given[0].len(), 5);
    })
    .await;
}

/// Cases of the suite that together send every kind of statement.
macro_rules! cases {
    ($($group:ident { $($case:ident)* })*) => {
        $($(#[tokio::test]
        async fn $case() {
            let case = ff_conformance::cases::$group::$case;
            ff_conformance::world::run(open, case).await;
        })*)*
    };
}

cases! {
    claim {
        the_more_urgent_goes_first
        restricted_work_needs_every_capability
        claims_at_the_same_time_share_nothing
    }
    claim_id { a_repeated_claim_finds_the_same_leases }
    promotion { one_claim_promotes_a_bounded_number new_work_wakes_a_waiting_worker }
    lease { the_sweep_spares_a_renewed_lease }
    retention {
        a_finished_execution_goes_with_all_it_owned
        retention_looks_for_consumers_again_before_it_removes
    }
    feed { reading_while_writing_misses_nothing }
    duties { a_duty_may_serve_one_namespace }
    flow_apply {
        success_lets_the_child_go
        applying_after_failure_skips_the_child_at_once
        an_edge_lives_its_whole_life_in_one_batch
        a_flow_is_not_sealed_over_a_quorum_out_of_reach
    }
    flow_edges { edges_in_any_state_close_a_circle }
    flow_graph { a_created_flow_reads_back members_of_one_batch_are_all_counted }
}
