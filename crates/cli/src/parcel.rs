//! The sample flow: a parcel is weighed, three couriers are asked, and the first two offers are
//! enough. The courier that is still thinking then is cancelled.

use std::io::Write;
use std::time::Duration;

use flowfabric::{Client, Context, FlowDraft, FlowHandle, Result, node};
use serde::{Deserialize, Serialize};

use crate::flow::{Page, counts};

/// A courier, how long it thinks, and what it asks for.
const COURIERS: [(&str, u64, u64); 3] = [("swift", 4, 590), ("north", 7, 480), ("tardy", 600, 310)];
/// How many offers are enough.
const ENOUGH: u32 = 2;

/// What is sent to whom.
#[derive(Serialize, Deserialize)]
pub struct Parcel {
    /// To whom.
    to: String,
    /// How long the unit of time of the show lasts.
    beat_ms: u64,
}

/// What a courier is asked.
#[derive(Serialize, Deserialize)]
pub struct Request {
    courier: String,
    thinks_ms: u64,
    cents: u64,
}

/// What a courier offers.
#[derive(Serialize, Deserialize)]
pub struct Offer {
    courier: String,
    cents: u64,
}

/// The flow; a longer beat is for those who watch it.
pub fn draft(client: &Client, lane: &str, beat: Duration) -> FlowDraft {
    let beat_ms = u64::try_from(beat.as_millis()).unwrap_or(0);
    let parcel = Parcel { to: "Ada".to_owned(), beat_ms };
    let weigh = node("weigh", "weigh", parcel).lane(lane);
    let quotes = COURIERS.map(|(courier, thinks, cents)| {
        let request = Request { courier: courier.to_owned(), thinks_ms: thinks * beat_ms, cents };
        node(courier, "quote", request).lane(lane).after("weigh")
    });
    let choose = node("choose", "choose", ()).lane(lane).quorum(ENOUGH);
    let choose =
        COURIERS.iter().fold(choose, |choose, (courier, ..)| choose.reads(courier, courier));
    let book = node("book", "book", ()).lane(lane).takes("choose");
    client.flow("parcel").node(weigh).nodes(quotes).node(choose).node(book)
}

/// Tells how the flow ended, with its graph.
pub async fn tell(flow: &FlowHandle, width: usize, out: &mut impl Write) -> anyhow::Result<()> {
    let page = Page::read(flow).await?;
    let graph = page.graph();
    writeln!(out, "A flow has ended: {}.", counts(page.summary()))?;
    writeln!(
        out,
        "Three couriers were asked and two offers were enough: the third was cancelled.\n"
    )?;
    graph.print(out, width, "  ")?;
    Ok(writeln!(out, "\n  {}\n", graph.legend())?)
}

/// Puts a parcel on the scales.
pub async fn weigh(_: Context, parcel: Parcel) -> Result<u64> {
    pause(2 * parcel.beat_ms).await;
    Ok(1_200)
}

/// Thinks about an offer.
pub async fn quote(ctx: Context, request: Request) -> Result<Offer> {
    ctx.progress(50, "looks at the map").await?;
    pause(request.thinks_ms).await;
    Ok(Offer { courier: request.courier, cents: request.cents })
}

/// Chooses the cheapest offer that is there.
pub async fn choose(ctx: Context, (): ()) -> Result<Offer> {
    let mut offers: Vec<Offer> = Vec::new();
    for (courier, ..) in COURIERS {
        offers.extend(ctx.input::<Option<Offer>>(courier).await?);
    }
    let best = offers.into_iter().min_by_key(|offer| offer.cents);
    Ok(best.ok_or("nobody made an offer")?)
}

/// Books what was chosen, which it is given as its input.
pub async fn book(ctx: Context, offer: Offer) -> Result<String> {
    let number = ctx.random("booking");
    Ok(format!(
        "{} takes it for {} cents, number {:04}",
        offer.courier,
        offer.cents,
        number % 10_000
    ))
}

async fn pause(ms: u64) {
    tokio::time::sleep(Duration::from_millis(ms)).await;
}
