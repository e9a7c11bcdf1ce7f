//! Durable consumers: readers whose place the store keeps, and whom retention waits for.

use std::sync::Arc;

use ff_core::backend::Duty;
use ff_core::command::Reply;
use ff_core::decide::consumer::SaveCursor;
use ff_core::decide::drop_consumer::DropConsumer;
use ff_core::error::Code;
use ff_core::event::{Cursor, Filter, Horizon, Window};
use ff_core::fold::{Consumer, Key};
use ff_core::query::{Page, Query, Rows};
use ff_core::text::ConsumerName;
use serde_json::json;

use crate::world::{World, code};

fn named(name: &str) -> ConsumerName {
    ConsumerName::new(name).expect("a valid name")
}

async fn save(w: &World, name: &str, cursor: &Cursor) {
    let consumer = named(name);
    let cursor = cursor.clone();
    let saved = w.run(SaveCursor { consumer, cursor, saved: None }).await;
    assert_eq!(saved, Ok(()));
}

async fn find(w: &World, name: &str) -> Option<Consumer> {
    let keys = [Key::Consumer(named(name))];
    let have = w.store.backend.get(&keys).await.expect("the store works");
    have.consumers.get(&named(name)).cloned().flatten()
}

async fn tail(w: &World) -> Cursor {
    w.store.backend.tail().await.expect("the store works")
}

/// A reader that restarts goes on where it was.
pub async fn a_consumer_finds_its_place_again(w: Arc<World>) {
    w.finished(json!({})).await;
    let second = w.finished(json!({})).await;
    let first = w.feed(&Cursor::Start, &Filter::default(), 1).await.events.remove(0);
    assert_eq!(find(&w, "mailer").await, None);
    save(&w, "mailer", &first.cursor).await;
    let place = find(&w, "mailer").await.expect("it was saved");
    assert_eq!((&place.cursor, place.updated_at), (&first.cursor, w.now()));
    let rest = w.feed(&place.cursor, &Filter::default(), 10).await.events;
    assert_eq!(rest.len(), 1);
    assert_eq!(rest[0].event.subject(), second);
}

/// A reader may want to read again.
pub async fn a_cursor_may_move_back(w: Arc<World>) {
    w.finished(json!({})).await;
    save(&w, "mailer", &tail(&w).await).await;
    save(&w, "mailer", &Cursor::Start).await;
    let place = find(&w, "mailer").await.expect("it was saved");
    assert_eq!(place.cursor, Cursor::Start);
}

/// Consumers keep their own places.
pub async fn consumers_do_not_share_a_place(w: Arc<World>) {
    w.finished(json!({})).await;
    let end = tail(&w).await;
    save(&w, "a", &end).await;
    save(&w, "b", &Cursor::Start).await;
    assert_eq!(find(&w, "a").await.map(|c| c.cursor), Some(end));
    assert_eq!(find(&w, "b").await.map(|c| c.cursor), Some(Cursor::Start));
}

/// Operators can see who is waited for, by name and page by page.
pub async fn consumers_are_listed_by_name(w: Arc<World>) {
    for name in ["b", "c", "a"] {
        save(&w, name, &Cursor::Start).await;
    }
    let first = w.page(&Query::Consumers, &Page::first(2)).await;
    assert_eq!(first.rows, Rows::Consumers(vec![named("a"), named("b")]));
    let after = first.next;
    let second = w.page(&Query::Consumers, &Page { after, limit: 2 }).await;
    assert_eq!(second.rows, Rows::Consumers(vec![named("c")]));
    assert_eq!(second.next, None);
}

/// What a consumer has not seen is kept for it, however long that takes.
pub async fn retention_waits_for_the_slowest_consumer(w: Arc<World>) {
    save(&w, "slow", &Cursor::Start).await;
    save(&w, "fast", &Cursor::Start).await;
    let id = w.finished(json!({"retention_ms": 0})).await;
    w.pass(1_000_000);
    assert!(w.tick(Duty::Retention).await.is_empty());
    let end = tail(&w).await;
    save(&w, "fast", &end).await;
    assert!(w.tick(Duty::Retention).await.is_empty());
    save(&w, "slow", &end).await;
    assert_eq!(w.tick(Duty::Retention).await, [Ok(Reply::Trim(true))]);
    assert_eq!(w.find(id).await, None);
}

/// What every consumer has seen goes, while what they have not seen stays.
pub async fn retention_takes_what_everybody_has_seen(w: Arc<World>) {
    let seen = w.finished(json!({"retention_ms": 0})).await;
    save(&w, "mailer", &tail(&w).await).await;
    let unseen = w.finished(json!({"retention_ms": 0})).await;
    assert_eq!(w.tick(Duty::Retention).await, [Ok(Reply::Trim(true))]);
    assert_eq!(w.find(seen).await, None);
    assert!(w.find(unseen).await.is_some());
}

/// An execution goes as a whole: its last event decides.
pub async fn retention_waits_for_the_last_event_of_an_execution(w: Arc<World>) {
    let id = w.create_with(json!({"retention_ms": 0})).await;
    w.hold(id).await.expect("it waits");
    save(&w, "mailer", &tail(&w).await).await;
    w.cancel(id).await.expect("it waits");
    assert!(w.tick(Duty::Retention).await.is_empty());
    assert_eq!(w.event_names(id).await, ["held", "completion"]);
}

/// A consumer that is given up is not waited for.
pub async fn a_dropped_consumer_is_not_waited_for(w: Arc<World>) {
    save(&w, "gone", &Cursor::Start).await;
    w.finished(json!({"retention_ms": 0})).await;
    assert!(w.tick(Duty::Retention).await.is_empty());
    let consumer = named("gone");
    assert_eq!(w.run(DropConsumer { consumer, saved: None }).await, Ok(()));
    assert_eq!(find(&w, "gone").await, None);
    assert_eq!(w.tick(Duty::Retention).await, [Ok(Reply::Trim(true))]);
}

/// A typing mistake is not a success.
pub async fn dropping_an_unknown_consumer_is_not_found(w: Arc<World>) {
    let consumer = named("nobody");
    assert_eq!(code(w.run(DropConsumer { consumer, saved: None }).await), Code::ConsumerNotFound);
}

/// A reader whose place was trimmed away goes on with what came after it.
pub async fn a_cursor_outlives_the_event_it_points_to(w: Arc<World>) {
    w.finished(json!({"retention_ms": 0})).await;
    let place = tail(&w).await;
    w.tick(Duty::Retention).await;
    let next = w.finished(json!({})).await;
    let heard = w.feed(&place, &Filter::default(), 10).await.events;
    assert_eq!(heard.len(), 1);
    assert_eq!(heard[0].event.subject(), next);
}

/// A cursor that this store cannot have returned, because it is of another kind.
async fn foreign(w: &World) -> Cursor {
    let horizon = |seq| Horizon { snapshot: "7:7:".to_owned(), seq };
    match tail(w).await {
        Cursor::Start => panic!("something has happened"),
        Cursor::Seq(seq) => {
            let (base, upto, after) = (horizon(0), horizon(seq), seq);
            Cursor::Window(Box::new(Window { base, upto, after }))
        }
        Cursor::Window(window) => Cursor::Seq(window.upto.seq),
    }
}

/// A cursor of another kind of store would be misread: nothing is read from it or saved under it.
pub async fn a_cursor_of_another_kind_of_store_is_refused(w: Arc<World>) {
    w.finished(json!({})).await;
    save(&w, "mailer", &Cursor::Start).await;
    let cursor = foreign(&w).await;
    let shown = cursor.to_string();
    let before = w.rows();
    for limit in [0, 10] {
        let refused = w.store.backend.events(&cursor, &Filter::default(), limit).await;
        let refused = refused.expect_err("it is foreign");
        assert_eq!(refused.code(), Code::InvalidInput);
        assert!(refused.to_string().contains(&shown), "{refused}");
    }
    for consumer in [named("mailer"), named("new")] {
        let cursor = cursor.clone();
        let refused =
            w.run(SaveCursor { consumer, cursor, saved: None }).await.expect_err("it is foreign");
        assert_eq!((refused.code, refused.field), (Code::InvalidInput, Some("cursor")));
        assert_eq!(refused.value.as_ref(), Some(&shown));
    }
    assert_eq!(w.rows(), before);
    let save = SaveCursor { consumer: named("mailer"), cursor, saved: None };
    let outcomes = w.batch(vec![w.draft().into(), save.into(), w.draft().into()]).await;
    let done: Vec<_> = outcomes.iter().map(Result::is_ok).collect();
    assert_eq!(done, [true, false, true], "it is refused alone");
}
