//! Who creates executions and flows.

use ff_core::text::NodeName;
use ff_core::{ExecutionId, FlowId};
use serde_json::{Value, json};

use crate::caller::{Reply, Request};
use crate::clients::id_of;
use crate::dice::Dice;
use crate::record::{Answer, Call, What};
use crate::time::{now, sleep_ms};
use crate::world::{Flow, LANES, Phase, World, push};

/// How long what is removed soon is kept.
const RETENTION_MS: u64 = 20_000;

/// An execution to be created.
pub struct Creation {
    id: ExecutionId,
    lane: &'static str,
    due: Option<i64>,
    key: Option<String>,
    body: Value,
}

impl Creation {
    /// One by chance.
    pub fn by_chance(dice: &mut Dice, delayed_percent: u64, key: Option<String>) -> Self {
        let id = ExecutionId::solo(dice.uuid());
        let lane = dice.pick(&LANES).copied().unwrap_or("a");
        let ms = i64::try_from(dice.between(50, 4_000)).unwrap_or(0);
        let due = dice.percent(delayed_percent).then(|| now() + ms);
        let mut body = json!({
            "lane_id": lane,
            "execution_kind": "storm",
            "priority": dice.pick(&[0, 0, 0, 10, 9_000]),
            "input": {"n": dice.roll() % 1_000},
            "policy": policy(dice),
        });
        if dice.percent(40) {
            body["tags"] = json!({"storm.id": id.uuid().to_string(), "storm.lane": lane});
        }
        if let Some(due) = due {
            body["delay_until"] = due.into();
        }
        match &key {
            Some(key) => body["idempotency_key"] = key.as_str().into(),
            None => body["execution_id"] = id.to_string().into(),
        }
        Self { id, lane, due, key, body }
    }

    /// What the record says of it.
    pub fn what(&self, answer: &Value, answered: i64) -> What {
        let known = id_of(&answer["execution_id"]);
        let id = known.or_else(|| self.key.is_none().then_some(self.id));
        let due = self.due.unwrap_or(answered);
        What::Create { id, lane: self.lane.to_owned(), due, key: self.key.clone() }
    }
}

fn policy(dice: &mut Dice) -> Value {
    let mut policy = json!({
        "max_reclaim_count": 1_000,
        "max_replay_count": 1_000,
        "retry_policy": {
            "max_retries": 6,
            "backoff": {"type": "fixed", "delay_ms": dice.between(0, 1_500)},
        },
    });
    if dice.percent(30) {
        policy["retention_ms"] = RETENTION_MS.into();
    }
    policy
}

/// Creates one, for as long as it takes.
pub async fn create_one(world: &World, server: usize, creation: &Creation) -> Reply {
    let request = Request::post("/v1/executions", creation.body.clone());
    world.caller.insist(server, &request, |reply| creation.what(&reply.body, reply.answered)).await
}

/// Creates executions, one by one and many at once.
pub async fn create(world: World, index: usize) {
    let mut dice = world.dice(&format!("creator {index}"));
    let mut turn = 0_u64;
    while world.phase() == Phase::Storm {
        turn += 1;
        world.lull().await;
        let server = usize::try_from(dice.roll()).unwrap_or(0) % world.caller.servers();
        if dice.percent(15) {
            batch(&world, server, &mut dice).await;
        } else {
            let key = dice.percent(30).then(|| format!("key-{index}-{turn}"));
            let creation = Creation::by_chance(&mut dice, 20, key);
            let reply = create_one(&world, server, &creation).await;
            if dice.percent(20) {
                // The same again, as a client that has forgotten the answer.
                create_one(&world, server + 1, &creation).await;
            }
            if let Some(id) = id_of(&reply.body["execution_id"]) {
                world.board(|board| push(&mut board.recent, id));
            }
        }
        sleep_ms(dice.between(5, 100)).await;
    }
}

async fn batch(world: &World, server: usize, dice: &mut Dice) {
    let count = dice.between(2, 20);
    let all: Vec<_> = (0..count).map(|_| Creation::by_chance(dice, 20, None)).collect();
    let bodies: Vec<_> = all.iter().map(|one| one.body.clone()).collect();
    let request = Request::post("/v1/executions/batch", json!({"executions": bodies}));
    for again in 0..6 {
        let reply = world.caller.once((server + again) % world.caller.servers(), &request).await;
        for (index, creation) in all.iter().enumerate() {
            let result = &reply.body["results"][index];
            let answer = match (&reply.answer, result["problem"]["code"].as_str()) {
                (Answer::Done, Some(code)) => Answer::Refused(code.to_owned()),
                (answer, _) => answer.clone(),
            };
            let (sent, answered) = (reply.sent, reply.answered);
            let what = creation.what(result, answered);
            world.recorder.call(Call { server: reply.server, sent, answered, what, answer });
        }
        if reply.answer != Answer::Lost {
            return;
        }
        sleep_ms(300).await;
    }
}

/// Submits flows.
pub async fn submit(world: World) {
    let mut dice = world.dice("flows");
    while world.phase() == Phase::Storm {
        world.lull().await;
        // Some flows have the UUID of an execution.
        let recent = world.board(|board| board.recent.back().copied());
        let namesake = recent.filter(|_| dice.percent(10)).map(ExecutionId::uuid);
        let flow = FlowId(namesake.unwrap_or_else(|| dice.uuid()));
        let (nodes, edges, roots) = graph(&mut dice);
        let member = |name: &String| {
            let name = NodeName::new(name.clone()).expect("a short word");
            ExecutionId::for_node(flow, &name)
        };
        let members: Vec<_> = nodes.iter().map(|(name, _)| member(name)).collect();
        let roots: Vec<_> = roots.iter().map(|(name, lane)| (member(name), lane.clone())).collect();
        let bodies: Vec<_> = nodes.iter().map(|(_, body)| body.clone()).collect();
        let body =
            json!({"flow_id": flow.0, "flow_kind": "storm", "nodes": bodies, "edges": edges});
        let request = Request::post("/v1/flows", body);
        let server = usize::try_from(dice.roll()).unwrap_or(0) % world.caller.servers();
        let what = |_: &Reply| What::Submit {
            flow: flow.0,
            members: members.clone(),
            roots: roots.clone(),
        };
        let reply = world.caller.insist(server, &request, what).await;
        if reply.done() {
            world.board(|board| {
                push(&mut board.flows, Flow { id: flow.0, members: members.clone() });
                if let Some(some) = dice.pick(&members) {
                    push(&mut board.recent, *some);
                }
            });
        }
        sleep_ms(dice.between(100, 900)).await;
    }
}

type Nodes = Vec<(String, Value)>;
type Roots = Vec<(String, String)>;

/// Nodes of which each waits for some before it.
fn graph(dice: &mut Dice) -> (Nodes, Vec<Value>, Roots) {
    let (mut nodes, mut edges, mut roots) = (Vec::new(), Vec::new(), Vec::new());
    let count = dice.between(2, 9);
    for index in 0..count {
        let name = format!("n{index}");
        let lane = dice.pick(&LANES).copied().unwrap_or("a");
        let mut node = json!({
            "name": name, "execution_kind": "storm", "lane_id": lane, "policy": policy(dice),
        });
        let mut upstreams: Vec<u64> = (0..index).filter(|_| dice.percent(40)).collect();
        upstreams.truncate(4);
        if upstreams.is_empty() {
            roots.push((name.clone(), lane.to_owned()));
        } else {
            node["join"] = join(dice, upstreams.len());
        }
        for upstream in upstreams {
            let kind = if dice.percent(75) { "success_only" } else { "any_terminal" };
            let from = format!("n{upstream}");
            edges.push(json!({"from": from, "to": name, "dependency_kind": kind}));
        }
        nodes.push((name, node));
    }
    (nodes, edges, roots)
}

fn join(dice: &mut Dice, upstreams: usize) -> Value {
    let rest = if dice.percent(60) { "cancel_remaining" } else { "let_run" };
    match dice.between(0, 4) {
        0 => json!({"kind": "any_of", "on_satisfied": rest}),
        1 if upstreams > 1 => {
            let k = dice.between(1, u64::try_from(upstreams).unwrap_or(1) + 1);
            json!({"kind": "quorum", "k": k, "on_satisfied": rest})
        }
        _ => json!({"kind": "all_of"}),
    }
}
