//! Listings: by partition, by search, counts, lanes; in order and page by page.

use std::sync::Arc;

use ff_core::ExecutionId;
use ff_core::backend::Duty;
use ff_core::decide::create::Create;
use ff_core::ids::FlowId;
use ff_core::limits::PAGE_MAX;
use ff_core::query::{Count, Listing, Page, Query, Rows, Search};
use ff_core::state::PublicState;
use ff_core::text::Kind;
use serde_json::json;

use super::calls::tags;
use crate::world::{TTL_MS, World, lane, namespace};

fn ids(listing: &Listing) -> Vec<ExecutionId> {
    match &listing.rows {
        Rows::Ids(ids) => ids.clone(),
        Rows::Executions(found) => found.iter().map(|x| x.id).collect(),
        other => panic!("executions were asked for, not {other:?}"),
    }
}

/// Follows the pages of `limit` rows to the end.
async fn every_page(w: &World, query: &Query, limit: u32) -> Vec<Vec<ExecutionId>> {
    let mut pages = Vec::new();
    let mut after = None;
    loop {
        let listing = w.page(query, &Page { after, limit }).await;
        pages.push(ids(&listing));
        after = listing.next;
        if after.is_none() {
            return pages;
        }
    }
}

/// `n` executions in the partition of one flow, sorted.
async fn neighbours(w: &World, n: u32) -> (FlowId, Vec<ExecutionId>) {
    let flow = FlowId(w.uuid());
    let mut all: Vec<_> = (0..n).map(|_| ExecutionId::for_flow(flow, w.uuid())).collect();
    for ids in all.chunks(500) {
        let create = |id: &ExecutionId| Create { id: *id, ..w.draft() }.into();
        w.batch(ids.iter().rev().map(create).collect()).await;
    }
    all.sort_unstable();
    (flow, all)
}

async fn in_state(w: &World, state: PublicState) -> Vec<ExecutionId> {
    let state = Some(state);
    w.search(Search { state, ..Search::default() }).await
}

/// A partition is read in order of UUID, each page after the last id of the one before.
pub async fn a_partition_is_listed_page_by_page(w: Arc<World>) {
    let (flow, all) = neighbours(&w, 5).await;
    let pages = every_page(&w, &Query::Partition(flow.partition()), 2).await;
    assert_eq!(pages, [&all[..2], &all[2..4], &all[4..]]);
}

/// A full page that is the last one says so.
pub async fn a_full_last_page_has_no_next(w: Arc<World>) {
    let (flow, all) = neighbours(&w, 4).await;
    let pages = every_page(&w, &Query::Partition(flow.partition()), 2).await;
    assert_eq!(pages, [&all[..2], &all[2..]]);
}

/// A partition holds its own and nobody else's.
pub async fn a_partition_lists_only_its_own(w: Arc<World>) {
    let (flow, own) = neighbours(&w, 2).await;
    let (other, others) = neighbours(&w, 3).await;
    assert_ne!(flow.partition(), other.partition(), "the case needs two");
    for (flow, expected) in [(flow, own), (other, others)] {
        let listing = w.page(&Query::Partition(flow.partition()), &Page::first(10)).await;
        assert_eq!(ids(&listing), expected);
    }
}

/// Asking for nothing gives nothing, and no promise of more.
pub async fn a_page_of_nothing_is_empty(w: Arc<World>) {
    let (flow, _) = neighbours(&w, 2).await;
    let search = Query::Executions(Box::default());
    for query in [Query::Partition(flow.partition()), search] {
        let listing = w.page(&query, &Page::first(0)).await;
        assert!(ids(&listing).is_empty());
        assert_eq!(listing.next, None);
    }
}

/// A page has a limit, whatever was asked for.
pub async fn a_page_holds_at_most_a_thousand(w: Arc<World>) {
    let (flow, all) = neighbours(&w, PAGE_MAX + 1).await;
    let query = Query::Partition(flow.partition());
    let sizes: Vec<_> = every_page(&w, &query, u32::MAX).await.iter().map(Vec::len).collect();
    assert_eq!(sizes, [1_000, 1]);
    let pages = every_page(&w, &Query::Executions(Box::default()), u32::MAX).await;
    assert_eq!(pages.iter().map(Vec::len).collect::<Vec<_>>(), [1_000, 1]);
    let mut found = pages.concat();
    found.sort_unstable();
    assert_eq!(found, all);
}

/// A search gives the newest first, with a total order and pages that fit together.
pub async fn a_search_gives_the_newest_first(w: Arc<World>) {
    let mut expected = Vec::new();
    for _ in 0..3 {
        let mut together = [w.create(w.draft()).await, w.create(w.draft()).await];
        together.sort_unstable();
        expected.extend(together);
        w.pass(1);
    }
    expected.reverse();
    let query = Query::Executions(Box::default());
    for limit in [1, 4, 10] {
        assert_eq!(every_page(&w, &query, limit).await.concat(), expected);
    }
}

/// By lane, by namespace, by kind, by tag.
pub async fn a_search_may_name_what_it_wants(w: Arc<World>) {
    let kind = Kind::new("invoice").expect("a valid kind");
    let in_lane = w.create(Create { lane: lane("mail"), ..w.draft() }).await;
    let in_space = w.create(Create { namespace: namespace("other"), ..w.draft() }).await;
    let of_kind = w.create(Create { kind: kind.clone(), ..w.draft() }).await;
    let tags = tags(&[("app.a", "1")]);
    let tagged = w.create(Create { tags, ..w.draft() }).await;
    let any = Search::default;
    let tag = |value: &str| Some(("app.a".to_owned(), value.to_owned()));
    for (search, expected) in [
        (Search { lane: Some(lane("mail")), ..any() }, vec![in_lane]),
        (Search { namespace: Some(namespace("other")), ..any() }, vec![in_space]),
        (Search { kind: Some(kind), ..any() }, vec![of_kind]),
        (Search { tag: tag("1"), ..any() }, vec![tagged]),
        (Search { tag: tag("2"), ..any() }, vec![]),
        (Search { lane: Some(lane("nowhere")), ..any() }, vec![]),
    ] {
        assert_eq!(w.search(search.clone()).await, expected, "{search:?}");
    }
}

/// From a time on, and before another.
pub async fn a_search_may_name_a_time(w: Arc<World>) {
    let start = w.now();
    let mut all = Vec::new();
    for _ in 0..4 {
        all.push(w.create(w.draft()).await);
        w.pass(10);
    }
    let between = |from: Option<u64>, to: Option<u64>| Search {
        created_from: from.map(|ms| start.plus(ms)),
        created_to: to.map(|ms| start.plus(ms)),
        ..Search::default()
    };
    assert_eq!(w.search(between(Some(10), Some(30))).await, [all[2], all[1]]);
    assert_eq!(w.search(between(Some(11), None)).await, [all[3], all[2]]);
    assert_eq!(w.search(between(None, Some(1))).await, [all[0]]);
    assert!(w.search(between(Some(31), None)).await.is_empty());
}

/// Every public state can be searched for, and each execution is in one.
pub async fn a_search_may_name_a_state(w: Arc<World>) {
    let deadline_at = Some(w.now());
    let expired = w.create(Create { deadline_at, ..w.draft() }).await;
    w.tick(Duty::Deadline).await;
    let completed = w.finished(json!({})).await;
    let (failed, fence) = w.running(json!({})).await;
    w.fail(failed, fence).await.expect("it is held");
    let cancelled = w.create(w.draft()).await;
    w.cancel(cancelled).await.expect("it waits");
    let (active, _) = w.running(json!({})).await;
    let delay_until = Some(w.now().plus(1));
    let delayed = w.create(Create { delay_until, ..w.draft() }).await;
    let waiting = w.create(w.draft()).await;
    for (state, id) in [
        (PublicState::Waiting, waiting),
        (PublicState::Delayed, delayed),
        (PublicState::Active, active),
        (PublicState::Completed, completed),
        (PublicState::Failed, failed),
        (PublicState::Cancelled, cancelled),
        (PublicState::Expired, expired),
    ] {
        assert_eq!(in_state(&w, state).await, [id], "{state}");
    }
}

/// Everything given must match, and pages go on under the same conditions.
pub async fn searches_combine(w: Arc<World>) {
    let mut expected = Vec::new();
    for n in 0..6 {
        let lane = lane(if n % 2 == 0 { "even" } else { "odd" });
        let id = w.create(Create { lane, ..w.draft() }).await;
        if n % 2 == 0 {
            expected.push(id);
        }
        w.pass(1);
    }
    w.cancel(expected.remove(1)).await.expect("it waits");
    expected.reverse();
    let search = Search {
        lane: Some(lane("even")),
        state: Some(PublicState::Waiting),
        created_from: Some(w.now().minus(60)),
        ..Search::default()
    };
    let pages = every_page(&w, &Query::Executions(Box::new(search)), 1).await;
    assert_eq!(pages.concat(), expected);
}

/// A delay that is over reads as waiting without anything being written.
pub async fn a_search_by_state_follows_the_clock(w: Arc<World>) {
    let delay_until = Some(w.now().plus(1_000));
    let id = w.create(Create { delay_until, ..w.draft() }).await;
    assert_eq!(in_state(&w, PublicState::Delayed).await, [id]);
    w.pass(1_000);
    assert_eq!(in_state(&w, PublicState::Waiting).await, [id]);
    assert!(in_state(&w, PublicState::Delayed).await.is_empty());
}

/// A lease that ran out unnoticed still reads as active, until the sweep comes.
pub async fn a_search_by_state_agrees_with_the_execution(w: Arc<World>) {
    let (id, _) = w.running(json!({})).await;
    w.pass(TTL_MS.cast_signed());
    assert_eq!(w.state(id).await, PublicState::Active);
    assert_eq!(in_state(&w, PublicState::Active).await, [id]);
    w.tick(Duty::LeaseExpiry).await;
    assert_eq!(in_state(&w, PublicState::Waiting).await, [id]);
}

/// A held execution waits for its operator, whatever its delay says; lists say the same.
pub async fn a_held_delay_is_listed_as_waiting(w: Arc<World>) {
    let delay_until = Some(w.now().plus(1_000));
    let id = w.create(Create { delay_until, ..w.draft() }).await;
    w.hold(id).await.expect("it is delayed");
    let state = PublicState::Waiting;
    assert_eq!(w.state(id).await, state);
    assert_eq!(in_state(&w, state).await, [id]);
    assert!(in_state(&w, PublicState::Delayed).await.is_empty());
    let (lane, count) = (lane("default"), 1);
    let counts = Rows::Counts(vec![Count { lane, state, count }]);
    assert_eq!(w.list(&Query::Counts, 10).await, counts);
}

/// How many of what, per lane, at this moment.
pub async fn counts_are_per_lane_and_state(w: Arc<World>) {
    for n in 0..3 {
        let delay_until = Some(w.now().plus(n));
        w.create(Create { delay_until, ..w.draft() }).await;
    }
    let mail = w.create(Create { lane: lane("mail"), ..w.draft() }).await;
    w.cancel(mail).await.expect("it waits");
    let count = |name: &str, state, count| Count { lane: lane(name), state, count };
    let cancelled = count("mail", PublicState::Cancelled, 1);
    let before = vec![
        count("default", PublicState::Waiting, 1),
        count("default", PublicState::Delayed, 2),
        cancelled.clone(),
    ];
    assert_eq!(w.list(&Query::Counts, 10).await, Rows::Counts(before));
    w.pass(2);
    let after = vec![count("default", PublicState::Waiting, 3), cancelled];
    assert_eq!(w.list(&Query::Counts, 10).await, Rows::Counts(after));
}

/// Lanes are listed by name, once each, whatever runs in them.
pub async fn lanes_are_listed_in_order(w: Arc<World>) {
    for name in ["b", "a", "c", "a", "B"] {
        let lane = lane(name);
        w.create(Create { lane, ..w.draft() }).await;
    }
    let first = w.page(&Query::Lanes, &Page::first(3)).await;
    assert_eq!(first.rows, Rows::Lanes(["B", "a", "b"].map(lane).into()));
    let after = first.next;
    let second = w.page(&Query::Lanes, &Page { after, limit: 3 }).await;
    assert_eq!((second.rows, second.next), (Rows::Lanes(vec![lane("c")]), None));
}
