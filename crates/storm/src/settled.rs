//! What is left when a storm is over: read over HTTP, and counted by hand.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use anyhow::bail;
use ff_core::ExecutionId;
use serde_json::Value;
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::caller::{Caller, Request, in_path};
use crate::checker::{Violation, lives};
use crate::clients::seen;
use crate::database::Database;
use crate::record::{Call, Ending, Record, Seen, What};
use crate::time::sleep_ms;
use crate::world::World;

/// What must not be there.
const LEFTOVERS: &str = include_str!("../queries/leftovers.sql");
/// How long what is to be removed may stay.
const REMOVAL: Duration = Duration::from_secs(45);
/// Executions that are looked at one by one.
const CLOSE_LOOKS_MAX: usize = 1_500;
/// Questions at the same time.
const LOOKERS: usize = 6;
/// States of what has ended.
pub const ENDED: [&str; 5] = ["completed", "failed", "cancelled", "expired", "skipped"];

/// Where an execution stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// As it is said in public.
    pub state: String,
    /// Whether that is an end.
    pub ended: bool,
    /// Where.
    pub lane: String,
    /// In which flow.
    pub flow: Option<String>,
}

/// When an attempt began and ended.
pub type Attempt = (i64, Option<i64>);

/// All that is left.
#[derive(Clone, Debug, Default)]
pub struct Settled {
    /// Every execution that is there.
    pub states: BTreeMap<ExecutionId, Standing>,
    /// Every flow that is there, and its state.
    pub flows: BTreeMap<String, String>,
    /// Results of those that were completed.
    pub results: BTreeMap<ExecutionId, u64>,
    /// Signals of those that were sent some: id and key.
    pub signals: BTreeMap<ExecutionId, Vec<(Uuid, String)>>,
    /// Steps of those that recorded some.
    pub steps: BTreeMap<ExecutionId, BTreeMap<u64, u64>>,
    /// Attempts of those that were claimed more than once.
    pub attempts: BTreeMap<ExecutionId, Vec<Attempt>>,
}

impl Settled {
    /// Whether an execution or flow is there.
    pub fn has(&self, subject: &str) -> bool {
        let execution = subject.parse().is_ok_and(|id| self.states.contains_key(&id));
        execution || self.flows.contains_key(subject)
    }

    /// Reads all of it.
    pub async fn read(world: &World, record: &Record) -> anyhow::Result<Self> {
        let caller = &world.caller;
        let mut settled = Self::default();
        for line in list(caller, "/v1/executions", "executions").await? {
            let text = |field: &str| line[field].as_str().unwrap_or_default().to_owned();
            let (state, lane) = (text("public_state"), text("lane_id"));
            let ended = ENDED.contains(&state.as_str());
            let flow = line["flow_id"].as_str().map(str::to_owned);
            let standing = Standing { state, ended, lane, flow };
            settled.states.insert(text("execution_id").parse()?, standing);
        }
        for line in list(caller, "/v1/flows", "flows").await? {
            let text = |field: &str| line[field].as_str().unwrap_or_default().to_owned();
            settled.flows.insert(text("flow_id"), text("state"));
        }
        settled.look_closely(caller, record).await?;
        Ok(settled)
    }

    async fn look_closely(&mut self, caller: &Caller, record: &Record) -> anyhow::Result<()> {
        let chosen = |fits: fn(&Call) -> usize, least: usize| -> Vec<ExecutionId> {
            let all = lives(record);
            let fits = all.iter().filter(|(id, life)| {
                self.states.contains_key(id)
                    && life.iter().filter(|call| call.done()).map(|call| fits(call)).sum::<usize>()
                        >= least
            });
            fits.map(|(id, _)| *id).take(CLOSE_LOOKS_MAX).collect()
        };
        let signalled = chosen(|call| usize::from(matches!(call.what, What::Signal { .. })), 1);
        let stepped = chosen(|call| usize::from(matches!(call.what, What::Step { .. })), 1);
        let mut claimed = chosen(|call| usize::from(matches!(call.what, What::Claim { .. })), 2);
        claimed.extend(expired(record).into_iter().filter(|id| self.states.contains_key(id)));
        claimed.sort_unstable();
        claimed.dedup();
        let completed = chosen(
            |call| {
                let done = Ending::Completed(0);
                let completes =
                    |how: &Ending| std::mem::discriminant(how) == std::mem::discriminant(&done);
                usize::from(matches!(&call.what, What::End { how, .. } if completes(how)))
            },
            1,
        );
        for (id, body) in ask_all(caller, &signalled, "/signals?limit=1000").await? {
            self.signals.insert(id, signals(&body));
        }
        for (id, body) in ask_all(caller, &stepped, "/steps?limit=1000").await? {
            self.steps.insert(id, steps(&body));
        }
        for (id, body) in ask_all(caller, &claimed, "/history").await? {
            self.attempts.insert(id, attempts(&body));
        }
        for (id, body) in ask_all(caller, &completed, "/result").await? {
            self.results.extend(body["result"].as_u64().map(|result| (id, result)));
        }
        Ok(())
    }
}

/// Those of which a lease ran out.
fn expired(record: &Record) -> BTreeSet<ExecutionId> {
    let seen = record.readers.iter().flat_map(|reader| &reader.seen);
    let expired = seen.filter(|seen| seen.kind == "lease_expired");
    expired.filter_map(|seen| seen.subject.parse().ok()).collect()
}

fn signals(body: &Value) -> Vec<(Uuid, String)> {
    let lines = body["signals"].as_array().cloned().unwrap_or_default();
    let line = |line: &Value| {
        let id = Uuid::parse_str(line["signal_id"].as_str()?).ok()?;
        Some((id, line["idempotency_key"].as_str()?.to_owned()))
    };
    lines.iter().filter_map(line).collect()
}

fn steps(body: &Value) -> BTreeMap<u64, u64> {
    let lines = body["steps"].as_array().cloned().unwrap_or_default();
    let line = |line: &Value| Some((line["number"].as_u64()?, line["result"].as_u64()?));
    lines.iter().filter_map(line).collect()
}

fn attempts(body: &Value) -> Vec<Attempt> {
    let lines = body["attempts"].as_array().cloned().unwrap_or_default();
    let line = |line: &Value| Some((line["started_at"].as_i64()?, line["ended_at"].as_i64()));
    lines.iter().filter_map(line).collect()
}

/// A question that has an answer, whatever just happened to the servers.
pub async fn ask(caller: &Caller, path: &str) -> anyhow::Result<Option<Value>> {
    for again in 0..20 {
        let reply = caller.once(again % caller.servers(), &Request::get(path)).await;
        if reply.done() {
            return Ok(Some(reply.body));
        }
        if reply.answer != crate::record::Answer::Lost {
            return Ok(None);
        }
        sleep_ms(250).await;
    }
    bail!("no server answers {path}")
}

/// A question about each; what is gone has no answer.
async fn ask_all(
    caller: &Caller,
    ids: &[ExecutionId],
    what: &'static str,
) -> anyhow::Result<Vec<(ExecutionId, Value)>> {
    let mut lookers = JoinSet::new();
    for share in ids.chunks(ids.len().div_ceil(LOOKERS).max(1)) {
        let (caller, share) = (caller.clone(), share.to_vec());
        lookers.spawn(async move {
            let mut answers = Vec::new();
            for id in share {
                let path = format!("/v1/executions/{}{what}", in_path(id));
                answers.extend(ask(&caller, &path).await?.map(|body| (id, body)));
            }
            anyhow::Ok(answers)
        });
    }
    let mut all = Vec::new();
    while let Some(share) = lookers.join_next().await {
        all.extend(share??);
    }
    Ok(all)
}

/// All pages of a listing.
pub async fn list(caller: &Caller, path: &str, field: &str) -> anyhow::Result<Vec<Value>> {
    let mut all = Vec::new();
    let mut after = String::new();
    let mark = if path.contains('?') { '&' } else { '?' };
    loop {
        let Some(body) = ask(caller, &format!("{path}{mark}limit=1000{after}")).await? else {
            bail!("{path} is refused");
        };
        all.extend(body[field].as_array().cloned().unwrap_or_default());
        match body["next"].as_str() {
            Some(next) => after = format!("&after={}", in_path(next)),
            None => return Ok(all),
        }
    }
}

/// Waits until nothing is left to do; what does not end is a violation.
pub async fn wait_until_ended(world: &World, patience: Duration) -> Vec<Violation> {
    let begun = Instant::now();
    loop {
        if let Ok(Some(body)) = ask(&world.caller, "/v1/counts").await {
            let counts = body["counts"].as_array().cloned().unwrap_or_default();
            let open = |line: &&Value| !ENDED.contains(&line["state"].as_str().unwrap_or(""));
            let left: Vec<String> = counts.iter().filter(open).map(Value::to_string).collect();
            if left.is_empty() {
                return Vec::new();
            }
            if begun.elapsed() > patience {
                return vec![open_ones(world, &left.join(", ")).await];
            }
        }
        sleep_ms(250).await;
    }
}

async fn open_ones(world: &World, counts: &str) -> Violation {
    let listed = list(&world.caller, "/v1/executions", "executions").await.unwrap_or_default();
    let open = |line: &&Value| !ENDED.contains(&line["public_state"].as_str().unwrap_or(""));
    let lines = listed.iter().filter(open).take(5).map(|line| format!("\n      {line}"));
    let text = format!("{counts}{}", lines.collect::<String>());
    Violation::new("something never ends", crate::time::now(), text)
}

/// Rows that should not be there, once everything had time to go.
pub async fn rows(world: &World, database: &Database) -> anyhow::Result<Vec<Violation>> {
    let begun = Instant::now();
    loop {
        let left = database.find(LEFTOVERS).await?;
        if left.is_empty() || begun.elapsed() > REMOVAL {
            let found = left.into_iter().map(|(what, count, example)| {
                Violation::new("rows are left over", 0, format!("{what}: {count}, as of {example}"))
            });
            return Ok(found.collect());
        }
        // Whoever reads wakes nobody, but keeps the servers honest.
        ask(&world.caller, "/v1/lanes").await?;
        sleep_ms(1_000).await;
    }
}

/// The feed from its beginning, and what is there to have events.
pub async fn read_again(world: &World) -> anyhow::Result<(Vec<Seen>, BTreeSet<String>)> {
    let mut all = Vec::new();
    let mut after = String::new();
    loop {
        let path = format!("/v1/events?limit=1000{after}");
        let Some(body) = ask(&world.caller, &path).await? else { bail!("{path} is refused") };
        let events = body["events"].as_array().cloned().unwrap_or_default();
        if events.is_empty() {
            break;
        }
        all.extend(events.into_iter().map(seen));
        after = format!("&after={}", in_path(body["next"].as_str().unwrap_or_default()));
    }
    let mut there = BTreeSet::new();
    for (path, field, id) in
        [("/v1/executions", "executions", "execution_id"), ("/v1/flows", "flows", "flow_id")]
    {
        let lines = list(&world.caller, path, field).await?;
        there.extend(lines.iter().filter_map(|line| line[id].as_str().map(str::to_owned)));
    }
    Ok((all, there))
}
