//! Workers: they claim, and do with what they are given what good and bad workers do.

use ff_core::ExecutionId;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::caller::{Reply, Request, in_path};
use crate::clients::{fence_json, fence_of, id_of};
use crate::dice::Dice;
use crate::record::{Ending, Fence, Grant, What};
use crate::time::{now, sleep_ms};
use crate::world::{Phase, Waiting, World, push};

/// For how long leases are renewed: less than some were claimed for.
pub const RENEWED_MS: i64 = 3_000;

/// What a worker holds.
#[derive(Clone, Debug)]
pub struct Held {
    id: ExecutionId,
    fence: Fence,
    lane: String,
    until: i64,
    server: usize,
}

/// What becomes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deed {
    Complete,
    Renew,
    Steps,
    Fail,
    Suspend,
    Delay,
    Release,
    Abandon,
    ComeLate,
}

impl Deed {
    fn by_chance(dice: &mut Dice) -> Self {
        match dice.between(0, 100) {
            0..=45 => Self::Complete,
            46..=54 => Self::Renew,
            55..=63 => Self::Steps,
            64..=73 => Self::Fail,
            74..=81 => Self::Suspend,
            82..=86 => Self::Delay,
            87..=90 => Self::Release,
            91..=94 => Self::Abandon,
            _ => Self::ComeLate,
        }
    }
}

/// Claims and works until the storm is over.
pub async fn work(world: World, index: usize) {
    let mut dice = world.dice(&format!("worker {index}"));
    let home = index % world.caller.servers();
    while world.phase() != Phase::Over {
        let mut lanes = world.lanes_of(home);
        if dice.percent(40) {
            let one = usize::try_from(dice.roll()).unwrap_or(0) % lanes.len();
            lanes.remove(one);
        }
        let max = if dice.percent(20) { 4 } else { 1 };
        let ttl_ms = dice.between(2_000, 4_000);
        let wait_ms = dice.between(1_000, 8_000);
        let ask = Ask { claim: dice.uuid(), lanes, max, ttl_ms, wait_ms };
        for held in take(&world, home, &ask).await {
            let (world, dice) = (world.clone(), Dice::new(dice.roll(), "deed"));
            tokio::spawn(Box::pin(deal_with(world, held, dice)));
        }
    }
}

/// Claims and completes at once, or waits for a signal first.
pub async fn work_promptly(world: World, index: usize) {
    let mut dice = world.dice(&format!("worker {index}"));
    let home = index % world.caller.servers();
    while world.phase() != Phase::Over {
        let (claim, lanes, wait_ms) = (dice.uuid(), world.lanes_of(home), 5_000);
        let ask = Ask { claim, lanes, max: 1, ttl_ms: 10_000, wait_ms };
        for held in take(&world, home, &ask).await {
            if dice.percent(20) {
                suspend(&world, &held, &mut dice).await;
            } else {
                complete(&world, &held, &mut dice).await;
            }
        }
    }
}

/// A claim.
struct Ask {
    claim: Uuid,
    lanes: Vec<&'static str>,
    max: u32,
    ttl_ms: u64,
    wait_ms: u64,
}

/// Claims once, for as long as it takes to be answered.
async fn take(world: &World, home: usize, ask: &Ask) -> Vec<Held> {
    let body = json!({
        "claim_id": ask.claim, "worker_id": "storm",
        "worker_instance_id": ask.claim.to_string(), "lanes": ask.lanes, "max": ask.max,
        "lease_ttl_ms": ask.ttl_ms, "wait_ms": ask.wait_ms,
    });
    let request = Request::post("/v1/claims", body).waiting(ask.wait_ms);
    let what = |reply: &Reply| What::Claim {
        claim: ask.claim,
        lanes: ask.lanes.iter().map(ToString::to_string).collect(),
        grants: grants(&reply.body),
    };
    let reply = world.caller.insist(home, &request, what).await;
    let all = reply.body["executions"].as_array().cloned().unwrap_or_default();
    let held = |line: &Value| {
        Some(Held {
            id: id_of(&line["execution_id"])?,
            fence: fence_of(&line["fence"]),
            lane: line["lane_id"].as_str()?.to_owned(),
            until: line["lease_until"].as_i64()?,
            server: reply.server,
        })
    };
    all.iter().filter_map(held).collect()
}

fn grants(body: &Value) -> Vec<Grant> {
    let lines = body["executions"].as_array().cloned().unwrap_or_default();
    let grant = |line: &Value| {
        Some(Grant {
            id: id_of(&line["execution_id"])?,
            fence: fence_of(&line["fence"]),
            until: line["lease_until"].as_i64()?,
            kind: line["kind"].as_str()?.to_owned(),
        })
    };
    lines.iter().filter_map(grant).collect()
}

async fn deal_with(world: World, held: Held, mut dice: Dice) {
    let storm = world.phase() == Phase::Storm;
    let deed = if storm { Deed::by_chance(&mut dice) } else { Deed::Complete };
    match deed {
        Deed::Complete => complete(&world, &held, &mut dice).await,
        Deed::Renew => {
            for _ in 0..dice.between(1, 8) {
                sleep_ms(dice.between(100, 900)).await;
                renew(&world, &held).await;
            }
            complete(&world, &held, &mut dice).await;
        }
        Deed::Steps => {
            for number in 0..dice.between(1, 4) {
                step(&world, &held, number, &mut dice).await;
            }
            complete(&world, &held, &mut dice).await;
        }
        Deed::Fail => fail(&world, &held, &mut dice).await,
        Deed::Suspend => suspend(&world, &held, &mut dice).await,
        Deed::Delay => {
            let until = now() + i64::try_from(dice.between(50, 2_000)).unwrap_or(0);
            let body = json!({"fence": fence_json(held.fence), "delay_until": until});
            end(&world, &held, "delay", body, |_| Ending::Delayed(Some(until))).await;
        }
        Deed::Release => {
            let body = json!({"fence": fence_json(held.fence)});
            end(&world, &held, "release", body, |_| Ending::Released).await;
        }
        Deed::Abandon => {}
        Deed::ComeLate => {
            let left = u64::try_from(held.until - now()).unwrap_or(0);
            sleep_ms(left + dice.between(0, 3_000)).await;
            complete(&world, &held, &mut dice).await;
        }
    }
}

async fn end(
    world: &World,
    held: &Held,
    verb: &str,
    body: Value,
    how: impl Fn(&Reply) -> Ending,
) -> Reply {
    let request = Request::post(format!("/v1/executions/{}/{verb}", in_path(held.id)), body);
    let (id, fence) = (held.id, held.fence);
    let what = |reply: &Reply| What::End { id, fence, lane: held.lane.clone(), how: how(reply) };
    world.caller.insist(held.server, &request, what).await
}

async fn complete(world: &World, held: &Held, dice: &mut Dice) {
    let result = dice.roll() % 1_000_000;
    let body = json!({"fence": fence_json(held.fence), "result": result});
    let reply = end(world, held, "complete", body, |_| Ending::Completed(result)).await;
    if reply.done() {
        world.board(|board| push(&mut board.ended, held.id));
    }
}

async fn fail(world: &World, held: &Held, dice: &mut Dice) {
    let reason = world.reason("fail");
    let class = if dice.percent(85) { "transient" } else { "permanent" };
    let fence = fence_json(held.fence);
    let body = json!({"fence": fence, "reason": reason, "category": "storm", "class": class});
    let how = |reply: &Reply| Ending::Failed(reason.clone(), reply.body["delay_until"].as_i64());
    let reply = end(world, held, "fail", body, how).await;
    if reply.done() && reply.text("status") == "failed" {
        world.board(|board| push(&mut board.ended, held.id));
    }
}

async fn renew(world: &World, held: &Held) {
    let (id, fence) = (held.id, held.fence);
    let lease = json!({"execution_id": id.to_string(), "fence": fence_json(fence)});
    let body = json!({"leases": [lease], "lease_ttl_ms": RENEWED_MS});
    let request = Request::post("/v1/leases/renew", body);
    let what = |reply: &Reply| {
        // One that is lost has no time.
        let until = reply.body["results"][0]["lease_until"].as_i64().unwrap_or_default();
        What::Renew { id, fence, until }
    };
    world.caller.recorded(held.server, &request, what).await;
}

async fn step(world: &World, held: &Held, number: u64, dice: &mut Dice) {
    let (id, fence, value) = (held.id, held.fence, dice.roll() % 1_000);
    // Steps of an earlier attempt are there already; another name would be refused.
    let number = number + fence.epoch % 1_000 * 10;
    let name = format!("step-{}-{number}", fence.epoch);
    let line = json!({"number": number, "name": name, "ran_ms": 1, "result": value});
    let body = json!({"fence": fence_json(fence), "steps": [line]});
    let request = Request::post(format!("/v1/executions/{}/steps", in_path(id)), body);
    let what = |_: &Reply| What::Step { id, fence, number, value };
    world.caller.insist(held.server, &request, what).await;
}

/// Gives it back until a signal comes.
async fn suspend(world: &World, held: &Held, dice: &mut Dice) {
    let behavior = ["auto_resume_with_timeout_signal", "auto_resume_with_timeout_signal", "fail"];
    let timeout_ms = if dice.percent(25) { dice.between(300, 2_000) } else { 15_000 };
    let body = json!({
        "fence": fence_json(held.fence),
        "idempotency_key": world.reason("suspend"),
        "reason_code": "waiting_for_callback",
        "resume_condition": {"single": {"waitpoint": "w", "signal": "go"}},
        "waitpoints": [{"fresh": {"waitpoint_key": "w"}}],
        "timeout_in_ms": timeout_ms,
        "timeout_behavior": dice.pick(&behavior),
    });
    let reply = end(world, held, "suspend", body, |_| Ending::Suspended).await;
    let point = &reply.body["waitpoints"][0];
    if let (Some(waitpoint), Some(token)) =
        (point["waitpoint_id"].as_str(), point["token"].as_str())
    {
        let (id, lane) = (held.id, held.lane.clone());
        let (waitpoint, token) = (waitpoint.to_owned(), token.to_owned());
        world.board(|board| board.waiting.push(Waiting { id, lane, waitpoint, token }));
    }
}
