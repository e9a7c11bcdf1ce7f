//! Who sends signals to those that wait.

use serde_json::json;
use uuid::Uuid;

use crate::caller::{Reply, Request, in_path};
use crate::dice::Dice;
use crate::record::What;
use crate::time::sleep_ms;
use crate::world::{Phase, Waiting, World};

/// Sends signals until the storm is over.
pub async fn signal(world: World, index: usize) {
    let mut dice = world.dice(&format!("signaller {index}"));
    while world.phase() != Phase::Over {
        sleep_ms(dice.between(10, 200)).await;
        let waiting = world.board(|board| {
            let count = board.waiting.len();
            let at = usize::try_from(dice.roll()).unwrap_or(0).checked_rem(count)?;
            Some(board.waiting.swap_remove(at))
        });
        let Some(waiting) = waiting else { continue };
        let key = world.reason("signal");
        send(&world, &waiting, &key, &mut dice).await;
        if dice.percent(25) {
            // The same again: it counts once.
            send(&world, &waiting, &key, &mut dice).await;
        }
    }
}

/// Sends one signal, for as long as it takes to be answered.
pub async fn send(world: &World, waiting: &Waiting, key: &str, dice: &mut Dice) -> Reply {
    let body = json!({
        "waitpoint_id": waiting.waitpoint, "waitpoint_token": waiting.token,
        "signal_name": "go", "signal_category": "webhook", "source_type": "service",
        "source_identity": "storm", "payload": {"key": key}, "idempotency_key": key,
    });
    let request = Request::post(format!("/v1/executions/{}/signals", in_path(waiting.id)), body);
    let what = |reply: &Reply| {
        let new = reply.text("status") == "accepted";
        let field = if new { "signal_id" } else { "existing_signal_id" };
        What::Signal {
            id: waiting.id,
            lane: waiting.lane.clone(),
            signal: Uuid::parse_str(reply.text(field)).unwrap_or(Uuid::nil()),
            key: key.to_owned(),
            resumes: new && reply.text("effect") == "resume_condition_satisfied",
        }
    };
    let server = usize::try_from(dice.roll()).unwrap_or(0) % world.caller.servers();
    world.caller.insist(server, &request, what).await
}
