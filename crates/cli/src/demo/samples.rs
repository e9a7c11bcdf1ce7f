//! The executions of the show, and what an operator does to some of them.

use std::time::Duration;

use anyhow::Context;
use bytes::Bytes;
use ff_core::ExecutionId;
use ff_core::condition::Word;
use ff_core::decide::create::Create;
use ff_core::policy::Policy;
use ff_core::state::PublicState;
use ff_core::text::{Creator, Kind, LaneId, Namespace};
use ff_engine::Engine;
use ff_wire::signal::DecisionRequest;
use flowfabric::Client;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::deploy;

/// One execution of the show.
#[derive(Clone)]
pub struct Sample {
    /// What it is to show.
    pub title: &'static str,
    /// Its id.
    pub id: ExecutionId,
    /// How it is created.
    pub create: Create,
}

/// The lane of the show.
pub fn lane() -> LaneId {
    LaneId::new("demo").expect("a valid lane")
}

fn sample(title: &'static str, kind: &str, policy: &Value) -> Sample {
    let id = ExecutionId::solo(Uuid::now_v7());
    let create = Create {
        namespace: Namespace::new("demo").expect("a valid namespace"),
        input: Bytes::from_static(br#""world""#),
        creator: Creator::new("ff demo").expect("a valid creator"),
        policy: Policy::parse(policy).expect("a valid policy"),
        ..Create::new(id, lane(), Kind::new(kind).expect("a valid kind"))
    };
    Sample { title, id, create }
}

/// The one whose worker is killed.
pub fn heavy() -> Sample {
    sample("its worker process is killed", "heavy", &json!({}))
}

/// Creates the executions of the show in one batch.
pub async fn create(engine: &Engine, plain: usize) -> anyhow::Result<Vec<Sample>> {
    let retries = json!({"max_retries": 3, "backoff":
        {"type": "exponential", "initial_delay_ms": 150, "jitter": true}});
    let mut shown: Vec<Sample> =
        (0..plain).map(|_| sample("succeeds", "greet", &json!({}))).collect();
    shown.extend([
        sample("fails twice, then succeeds", "flaky", &json!({"retry_policy": retries})),
        sample(
            "fails until no retry is left",
            "broken",
            &json!({"retry_policy":
            {"max_retries": 2, "backoff": {"type": "fixed", "delay_ms": 100}}}),
        ),
        sample("fails for good, is replayed", "wrong", &json!({"retry_policy": retries})),
        sample(
            "every attempt times out",
            "endless",
            &json!({
            "retry_policy": {"max_retries": 1, "backoff": {"type": "fixed", "delay_ms": 50}},
            "timeout_policy": {"attempt_timeout_ms": 600}}),
        ),
        sample(
            "passes its deadline",
            "endless",
            &json!({
            "timeout_policy": {"execution_deadline_ms": 1_200}}),
        ),
        sample("gives its slot back for 700 ms", "nap", &json!({})),
        approval(),
        sample("cancelled while running", "endless", &json!({})),
    ]);
    shown.push(delayed("delayed by 1.5 s", 1_500));
    shown.push(delayed("cancelled while delayed", 3_600_000));
    let creates = shown.iter().map(|sample| sample.create.clone()).collect();
    for created in engine.create_executions(creates).await? {
        created?;
    }
    Ok(shown)
}

fn delayed(title: &'static str, delay_ms: u64) -> Sample {
    let mut sample = sample(title, "greet", &json!({}));
    sample.create.delay_ms = Some(delay_ms);
    sample
}

fn approval() -> Sample {
    let mut sample = sample("waits until somebody approves", "deploy", &json!({}));
    sample.create.input = serde_json::to_vec(&deploy::plan()).expect("a plan is JSON").into();
    sample
}

/// What the people of the show do: an operator cancels two and replays one, and ann approves one.
pub async fn steer(client: Client, engine: Engine, shown: Vec<Sample>) -> anyhow::Result<()> {
    for sample in shown {
        match sample.title {
            "cancelled while running" => {
                super::wait_for(&engine, sample.id, PublicState::Active).await?;
                engine.cancel_execution(sample.id, "nobody needs it any more").await?;
            }
            "cancelled while delayed" => {
                tokio::time::sleep(Duration::from_millis(300)).await;
                engine.cancel_execution(sample.id, "the customer changed her mind").await?;
            }
            "fails for good, is replayed" => {
                super::wait_for(&engine, sample.id, PublicState::Failed).await?;
                engine.replay_execution(sample.id, "the address was added").await?;
            }
            "waits until somebody approves" => {
                let asked = deploy::asked(&client, sample.id).await?;
                let asked = asked.context("nobody was asked to approve")?;
                tokio::time::sleep(Duration::from_millis(400)).await;
                let word = DecisionRequest {
                    word: Word::Approved,
                    by: "ann".to_owned(),
                    subject: asked.approval.and_then(|asked| asked.subject_digest),
                    comment: Some("looks good".to_owned()),
                    waitpoint_id: Some(asked.waitpoint_id.to_string()),
                };
                client.fabric().decide(sample.id, word).await?;
            }
            _ => {}
        }
    }
    Ok(())
}
