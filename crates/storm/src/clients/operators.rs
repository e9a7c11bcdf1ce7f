//! Operators: they cancel, hold, replay, revoke and change priorities, each order once.
//!
//! An order without an answer is not sent again: only its sender could know whether it was done, and
//! nothing in it says that it is the same.

use ff_core::ExecutionId;
use serde_json::json;

use crate::caller::{Reply, Request, in_path};
use crate::dice::Dice;
use crate::record::{Answer, Cancellation, Order, What};
use crate::time::sleep_ms;
use crate::world::{Phase, World, push};

/// Gives orders until the storm is over, and then lets go of everything that is held.
pub async fn operate(world: World) {
    let mut dice = world.dice("operator");
    while world.phase() == Phase::Storm {
        sleep_ms(dice.between(10, 120)).await;
        one(&world, &mut dice).await;
    }
    while world.phase() != Phase::Over {
        match world.board(|board| board.held.pop()) {
            Some(id) => unhold(&world, id, &mut dice).await,
            None => sleep_ms(50).await,
        }
    }
}

async fn one(world: &World, dice: &mut Dice) {
    let recent: Vec<_> = world.board(|board| board.recent.iter().copied().collect());
    let ended: Vec<_> = world.board(|board| board.ended.iter().copied().collect());
    let Some(id) = dice.pick(&recent).copied() else { return };
    let ended = dice.pick(&ended).copied();
    match dice.between(0, 100) {
        0..=14 => {
            if order(world, id, Order::Cancel, dice).await.done() {
                world.board(|board| push(&mut board.ended, id));
            }
        }
        15..=34 => {
            let reply = order(world, id, Order::Hold, dice).await;
            if reply.done() || reply.answer == Answer::Lost {
                world.board(|board| board.held.push(id));
            }
        }
        35..=54 => {
            if let Some(id) = world.board(|board| board.held.pop()) {
                unhold(world, id, dice).await;
            }
        }
        55..=69 => {
            if let Some(id) = ended {
                order(world, id, Order::Replay, dice).await;
            }
        }
        70..=84 => drop(order(world, id, Order::Revoke, dice).await),
        85..=91 => {
            // One that nothing is created with: if it was set, an event says so.
            let priority = dice.between(11, 9_000);
            drop(order(world, id, Order::Prioritise(priority), dice).await);
        }
        _ => cancel_flow(world, dice).await,
    }
}

async fn order(world: &World, id: ExecutionId, order: Order, dice: &mut Dice) -> Reply {
    let reason = world.reason("order");
    let path = format!("/v1/executions/{}", in_path(id));
    let with_reason = json!({"reason": reason});
    let request = match order {
        Order::Cancel => Request::post(format!("{path}/cancel"), with_reason),
        Order::Hold => Request::post(format!("{path}/hold"), with_reason),
        Order::Unhold => Request::post(format!("{path}/unhold"), json!({})),
        Order::Replay => Request::post(format!("{path}/replay"), with_reason),
        Order::Revoke => Request::post(format!("{path}/revoke-lease"), with_reason),
        Order::Prioritise(priority) => {
            Request::put(format!("{path}/priority"), json!({"priority": priority}))
        }
    };
    let what = |reply: &Reply| What::Operate {
        id,
        order,
        reason: reason.clone(),
        status: reply.text("status").to_owned(),
    };
    let server = usize::try_from(dice.roll()).unwrap_or(0) % world.caller.servers();
    world.caller.recorded(server, &request, what).await
}

async fn unhold(world: &World, id: ExecutionId, dice: &mut Dice) {
    if order(world, id, Order::Unhold, dice).await.answer == Answer::Lost {
        world.board(|board| board.held.push(id));
    }
}

async fn cancel_flow(world: &World, dice: &mut Dice) {
    let flows: Vec<_> = world.board(|board| board.flows.iter().cloned().collect());
    // Most often the newest: its members are being claimed.
    let newest = flows.last().filter(|_| dice.percent(70));
    let Some(flow) = newest.or_else(|| dice.pick(&flows)) else { return };
    let policies = ["cancel_all", "cancel_all", "cancel_pending", "cancel_flow_only"];
    let reason = world.reason("order");
    let body = json!({"cancellation_policy": dice.pick(&policies), "reason": reason});
    let request = Request::post(format!("/v1/flows/{}/cancel", flow.id), body);
    let what = |reply: &Reply| What::CancelFlow {
        flow: flow.id,
        members: flow.members.clone(),
        reason: reason.clone(),
        stored: Cancellation {
            reason: reply.text("reason").to_owned(),
            policy: reply.text("cancellation_policy").to_owned(),
            over: reply.text("status") == "cancelled",
        },
    };
    let server = usize::try_from(dice.roll()).unwrap_or(0) % world.caller.servers();
    world.caller.recorded(server, &request, what).await;
}
