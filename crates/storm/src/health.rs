//! Whether the machine is fast enough to judge what is late.

use crate::caller::Request;
use crate::record::Span;
use crate::time::{now, sleep_ms};
use crate::world::{Phase, World};

/// How often the pulse is taken.
const BEAT_MS: u64 = 50;
/// How late a beat may be.
const BEAT_LATE_MS: i64 = 200;
/// How often a server is asked whether it is there.
const PROBE_MS: u64 = 250;
/// How long that may take.
const PROBE_LATE_MS: i64 = 250;

/// Takes our own pulse until the storm is over.
pub async fn beat(world: World) {
    let mut last = now();
    while world.phase() != Phase::Over {
        sleep_ms(BEAT_MS).await;
        let at = now();
        note(&world, "the storm", (last, at), BEAT_LATE_MS);
        last = at;
    }
}

/// Takes the pulse of a server, without its database.
pub async fn probe(world: World, server: usize) {
    while world.phase() != Phase::Over {
        let reply = world.caller.once(server, &Request::get("/healthz")).await;
        note(&world, "a server", (reply.sent, reply.answered), PROBE_LATE_MS);
        sleep_ms(PROBE_MS).await;
    }
}

fn note(world: &World, who: &str, (from, to): (i64, i64), most: i64) {
    if to - from > most {
        let span = Span { what: format!("{who} was slow"), from, to };
        world.recorder.with(|record| record.starved.push(span));
    }
}
