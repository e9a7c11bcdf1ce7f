//! Whether the machine is fast enough to judge what is late.

use crate::caller::Request;
use crate::record::Span;
use crate::time::{now, sleep_ms};
use crate::world::{Phase, World};

/// How often the pulse is taken.
const BEAT_MS: u16 = 50;
/// How late a beat, or the answer of a server, may be where a second is judged.
pub const LATE_MS: i64 = 200;
/// The same where a tenth of a second is.
pub const PROMPT_LATE_MS: i64 = 40;
/// How often a server is asked whether it is there.
const PROBE_MS: u64 = 250;

/// Takes our own pulse until the storm is over.
pub async fn beat(world: World, late_ms: i64) {
    let mut last = now();
    while world.phase() != Phase::Over {
        sleep_ms(BEAT_MS.into()).await;
        let at = now();
        note(&world, "the storm", (last + i64::from(BEAT_MS), at), late_ms);
        last = at;
    }
}

/// Takes the pulse of a server, without its database.
pub async fn probe(world: World, server: usize, late_ms: i64) {
    while world.phase() != Phase::Over {
        let reply = world.caller.once(server, &Request::get("/healthz")).await;
        note(&world, "a server", (reply.sent, reply.answered), late_ms);
        sleep_ms(PROBE_MS).await;
    }
}

fn note(world: &World, who: &str, (from, to): (i64, i64), most: i64) {
    if to - from > most {
        let span = Span { what: format!("{who} was slow"), from, to };
        world.recorder.with(|record| record.starved.push(span));
    }
}
