//! Counters against a recount: in a lull while there is work, and when everything has ended.
//!
//! What must stay true: two answers are compared only where nothing changed between them.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::checker::Violation;
use crate::database::Database;
use crate::settled::{ENDED, Settled, ask, list};
use crate::time::{now, sleep_ms};
use crate::world::World;

/// What is claimable, by lane.
const READY: &str = include_str!("../queries/ready.sql");
/// States of what has not ended. What is delayed becomes what waits without being changed: it is asked for
/// first, so that it is found.
const OPEN: [&str; 5] = ["delayed", "waiting", "waiting_children", "suspended", "active"];
/// How often a quiet moment is looked for: servers go on by themselves, as leases run out.
const TRIES_MAX: u32 = 40;
/// Between two tries.
const PAUSE_MS: u64 = 100;

/// By lane and state.
type Counts = BTreeMap<(String, String), i64>;
/// What has not ended: version, lane and state of each execution.
type Open = BTreeMap<String, (u64, String, String)>;
/// What is claimable, by lane.
type Ready = BTreeMap<String, i64>;

/// When everything has ended.
pub async fn at_the_end(
    world: &World,
    database: &Database,
    settled: &Settled,
) -> anyhow::Result<Vec<Violation>> {
    let mut found = Vec::new();
    let ready = ready(database).await?;
    compare("a lane counts what waits wrongly", &lanes(world).await?, &ready, &mut found);
    let said = counts(world).await?;
    let all = list(&world.caller, "/v1/executions", "executions").await?;
    let mut recount = Counts::new();
    for line in &all {
        *recount.entry((text(line, "lane_id"), text(line, "public_state"))).or_default() += 1;
    }
    compare("counts differ from a recount", &said, &recount, &mut found);
    flows(world, settled, &mut found).await?;
    Ok(found)
}

/// While there is work: all clients pause, and what the servers do by themselves is waited out. Counters
/// are asked between two recounts, and compared when both found every execution at the same version.
/// What has ended is left out: retention removes it all the time, and it is counted at the end.
pub async fn in_a_lull(world: &World, database: &Database) -> anyhow::Result<Vec<Violation>> {
    let (paused, caller) = world.caller.pause().await;
    let mut world = world.clone();
    world.caller = caller;
    let mut found = Vec::new();
    for _ in 0..TRIES_MAX {
        let before = (open(&world).await?, ready(database).await?);
        let (mut said, lanes) = (counts(&world).await?, lanes(&world).await?);
        let (open, ready) = (open(&world).await?, self::ready(database).await?);
        if before != (open.clone(), ready.clone()) {
            world.recorder.count("recount: something changed");
            sleep_ms(PAUSE_MS).await;
            continue;
        }
        let mut recount = Counts::new();
        for (_, lane, state) in open.into_values() {
            *recount.entry((lane, state)).or_default() += 1;
        }
        said.retain(|(_, state), _| !ENDED.contains(&state.as_str()));
        println!("recounted in a lull: {recount:?}, claimable {ready:?}");
        compare("a lane counts what waits wrongly", &lanes, &ready, &mut found);
        compare("counts differ from a recount", &said, &recount, &mut found);
        world.recorder.count("recount: done");
        break;
    }
    drop(paused);
    Ok(found)
}

fn compare<K: Ord + std::fmt::Debug>(
    rule: &'static str,
    said: &BTreeMap<K, i64>,
    recount: &BTreeMap<K, i64>,
    found: &mut Vec<Violation>,
) {
    if said != recount {
        found.push(Violation::new(rule, now(), format!("{said:?} against {recount:?}")));
    }
}

fn text(line: &Value, field: &str) -> String {
    line[field].as_str().unwrap_or_default().to_owned()
}

/// What the servers say of executions.
async fn counts(world: &World) -> anyhow::Result<Counts> {
    let answer = ask(&world.caller, "/v1/counts").await?.unwrap_or_default();
    let mut counts = Counts::new();
    for line in answer["counts"].as_array().into_iter().flatten() {
        *counts.entry((text(line, "lane_id"), text(line, "state"))).or_default() +=
            line["count"].as_i64().unwrap_or(0);
    }
    counts.retain(|_, count| *count != 0);
    Ok(counts)
}

/// What the servers say of lanes.
async fn lanes(world: &World) -> anyhow::Result<Ready> {
    let answer = ask(&world.caller, "/v1/lanes").await?.unwrap_or_default();
    let lines = answer["lanes"].as_array().into_iter().flatten();
    let waiting = |line: &Value| (text(line, "lane_id"), line["waiting"].as_i64().unwrap_or(0));
    Ok(lines.map(waiting).filter(|(_, waiting)| *waiting != 0).collect())
}

/// The rows of what is claimable, counted.
async fn ready(database: &Database) -> anyhow::Result<Ready> {
    Ok(database.find(READY).await?.into_iter().map(|(lane, count, _)| (lane, count)).collect())
}

/// Every execution that has not ended.
async fn open(world: &World) -> anyhow::Result<Open> {
    let mut open = Open::new();
    for state in OPEN {
        let path = format!("/v1/executions?state={state}");
        for line in list(&world.caller, &path, "executions").await? {
            let version = line["version"].as_u64().unwrap_or_default();
            let standing = (version, text(&line, "lane_id"), text(&line, "public_state"));
            open.insert(text(&line, "execution_id"), standing);
        }
    }
    Ok(open)
}

async fn flows(world: &World, settled: &Settled, found: &mut Vec<Violation>) -> anyhow::Result<()> {
    for flow in settled.flows.keys() {
        let Some(summary) = ask(&world.caller, &format!("/v1/flows/{flow}/summary")).await? else {
            continue;
        };
        let path = format!("/v1/flows/{flow}/members");
        let Ok(members) = list(&world.caller, &path, "members").await else { continue };
        for state in ENDED {
            let said = summary[format!("members_{state}")].as_u64();
            let is = |member: &&Value| member["public_state"].as_str() == Some(state);
            let there = u64::try_from(members.iter().filter(is).count()).ok();
            if said != there {
                let text = format!("{flow}: {there:?} {state} against {summary}");
                found.push(Violation::new("a flow counts its members wrongly", 0, text));
            }
        }
        let open = ["open", "running", "blocked"];
        let state = summary["public_flow_state"].as_str().unwrap_or_default();
        if open.contains(&state) {
            let text = format!("{flow}: {summary}");
            found.push(Violation::new("a flow whose members have ended goes on", 0, text));
        }
    }
    Ok(())
}
