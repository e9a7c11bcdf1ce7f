//! Listings while retention removes what they found: ids and rows are read one after the other.

use std::sync::Arc;
use std::time::Duration;

use ff_conformance::World;
use ff_core::ExecutionId;
use ff_core::query::{Listing, Page, Query, Rows};
use serde_json::json;
use tokio_postgres::Client;

use crate::stores::Stores;

/// A page of `query`, between whose ids and rows `gone` is removed.
async fn interrupted(
    w: &Arc<World>,
    hand: &Client,
    (query, page): (Query, Page),
    gone: ExecutionId,
) -> Listing {
    // Rows are read beside their leases, and ids are not.
    hand.batch_execute("begin; lock table ff_lease in access exclusive mode").await.unwrap();
    let reader = Arc::clone(w);
    let listing =
        tokio::spawn(async move { reader.store.backend.list(&query, &page).await.unwrap() });
    let waits = "select count(*) from pg_locks l join pg_class c on c.oid = l.relation \
        where c.oid = 'ff_lease'::regclass and not l.granted";
    let waiting = async {
        while hand.query_one(waits, &[]).await.unwrap().get::<_, i64>(0) == 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(4), waiting).await.unwrap();
    let remove = "delete from ff_exec_core where execution_id = $1";
    assert_eq!(hand.execute(remove, &[&gone.uuid()]).await.unwrap(), 1);
    hand.batch_execute("commit").await.unwrap();
    listing.await.unwrap()
}

fn ids(listing: &Listing) -> Vec<ExecutionId> {
    match &listing.rows {
        Rows::Executions(found) => found.iter().map(|x| x.id).collect(),
        other => panic!("executions were asked for, not {other:?}"),
    }
}

/// Four executions by two: the first page loses one, and the second begins where it ended.
async fn goes_on(query: Query, w: World, hand: Client) {
    let all = ids(&w.page(&query, &Page::first(10)).await);
    assert_eq!(all.len(), 4);
    let w = Arc::new(w);
    let page = Page::first(2);
    let first = interrupted(&w, &hand, (query.clone(), page), all[0]).await;
    assert_eq!(ids(&first), [all[1]]);
    let after = first.next;
    assert!(after.is_some(), "there is more");
    let second = w.page(&query, &Page { after, limit: 2 }).await;
    assert_eq!((ids(&second), second.next), (all[2..].to_vec(), None));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_search_goes_on_after_a_page_that_lost_rows() {
    let stores = Stores::new();
    let w = stores.open().await;
    for _ in 0..4 {
        w.create_with(json!({})).await;
    }
    goes_on(Query::Executions(Box::default()), w, stores.connect().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_go_on_after_a_page_that_lost_rows() {
    let stores = Stores::new();
    let w = stores.open().await;
    let drawn = w.sketch("a b c d").submit().await;
    goes_on(Query::Members(drawn.flow), w, stores.connect().await).await;
}
