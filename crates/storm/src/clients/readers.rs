//! Readers of the feed: one that pages, one that follows a stream, and one whose place is kept.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use ff_backend_postgres::Postgres;
use ff_backend_sqlite::Sqlite;
use ff_core::Backend;
use ff_core::event::{Cursor, Filter};
use ff_core::text::ConsumerName;
use ff_engine::{Consumer, Engine};
use ff_wire::FeedEvent;
use serde_json::Value;
use tokio::task::JoinSet;

use crate::caller::{Request, in_path};
use crate::clients::stream;
use crate::database::Database;
use crate::dice::Dice;
use crate::line::{Line, Protocol};
use crate::record::{Answer, Seen};
use crate::time::sleep_ms;
use crate::world::{Phase, World};

/// The name of the consumer whose place is kept.
pub const CONSUMER: &str = "storm";

/// Starts them. Nothing has happened yet, so that each begins at the beginning.
pub async fn start(
    world: &World,
    database: &Database,
    clients: &mut JoinSet<()>,
) -> anyhow::Result<()> {
    let first = world.caller.once(0, &Request::get("/v1/events?limit=1")).await;
    let next = first.body["next"].as_str().context("an empty feed has a place")?.to_owned();
    let engine = open(database).await?;
    clients.spawn(page(world.clone()));
    clients.spawn(stream::follow(world.clone(), next));
    clients.spawn(consume(world.clone(), engine));
    Ok(())
}

/// An engine of our own, on a line of its own.
async fn open(database: &Database) -> anyhow::Result<Engine> {
    let store: Arc<dyn Backend> = match database {
        Database::Postgres { .. } => {
            let address = database.address().context("a server listens")?;
            let line = Line::start(Protocol::Postgres, address).await?;
            let options = ff_backend_postgres::Options::new(database.url(Some(line.at())));
            Arc::new(Box::pin(Postgres::open(options)).await?)
        }
        Database::Sqlite(path) => Arc::new(Sqlite::open(ff_backend_sqlite::Options::new(path))?),
    };
    Ok(Engine::new(store))
}

/// An event without what may change later, and with its number instead of its place, which differs
/// from reader to reader: two events may else be the same in every word.
pub fn seen(mut event: Value) -> Seen {
    let place = event["cursor"].as_str().and_then(|text| text.parse::<Cursor>().ok());
    event["number"] = place.map_or(0, |place| place.seq()).into();
    if let Some(fields) = event.as_object_mut() {
        for name in ["cursor", "tags", "execution_kind"] {
            fields.remove(name);
        }
    }
    let text = |field: &str| event[field].as_str().map(str::to_owned);
    let failure = event["failure"]["reason"].as_str().map(str::to_owned);
    // A stronger cancellation of a flow is another order, and keeps the reason of the first.
    let policy = text("cancellation_policy").map_or(String::new(), |policy| format!(" {policy}"));
    let reason = text("reason").or(failure).map(|reason| reason + &policy);
    Seen {
        subject: text("execution_id").or_else(|| text("flow_id")).unwrap_or_default(),
        kind: text("event").unwrap_or_default(),
        reason,
        text: event.to_string(),
    }
}

async fn page(world: World) {
    let mut dice = world.dice("pager");
    let mut after = String::new();
    loop {
        let over = world.phase() == Phase::Over;
        let limit = dice.between(1, 200);
        let path = format!("/v1/events?limit={limit}&wait_ms=500{after}");
        let server = usize::try_from(dice.roll()).unwrap_or(0) % world.caller.servers();
        let reply = world.caller.once(server, &Request::get(path).waiting(500)).await;
        if reply.answer != Answer::Done {
            sleep_ms(100).await;
            continue;
        }
        let events = reply.body["events"].as_array().cloned().unwrap_or_default();
        let quiet = events.is_empty();
        world.recorder.seen("pager", false, events.into_iter().map(seen).collect());
        after = format!("&after={}", in_path(reply.text("next")));
        if quiet && over {
            return;
        }
        sleep_ms(dice.between(0, 400)).await;
    }
}

async fn consume(world: World, engine: Engine) {
    let mut dice = world.dice("consumer");
    loop {
        let name = ConsumerName::new(CONSUMER.to_owned()).expect("a short word");
        let Ok(mut consumer) = engine.consumer(name).await else {
            sleep_ms(200).await;
            continue;
        };
        while let Ok(quiet) = consume_page(&world, &mut consumer, &mut dice).await {
            if quiet && world.phase() == Phase::Over {
                return;
            }
        }
        sleep_ms(100).await;
    }
}

/// Reads a page and acknowledges it; answers whether there was nothing.
async fn consume_page(
    world: &World,
    consumer: &mut Consumer,
    dice: &mut Dice,
) -> Result<bool, ff_engine::Error> {
    let limit = u32::try_from(dice.between(1, 200)).unwrap_or(1);
    let wait = Duration::from_millis(500);
    let over = world.phase() == Phase::Over;
    let page = consumer.next(&Filter::default(), limit, wait).await?;
    let quiet = page.events.is_empty();
    let event = |fed| serde_json::to_value(FeedEvent::from(fed)).unwrap_or(Value::Null);
    let events = page.events.into_iter().map(event).map(seen).collect();
    world.recorder.seen("consumer", true, events);
    sleep_ms(dice.between(0, 300)).await;
    if !quiet {
        consumer.acknowledge(&page.next).await?;
    }
    Ok(quiet && over)
}
