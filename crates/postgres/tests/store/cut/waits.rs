//! Commands on suspensions, with everything they need in place.

use ff_conformance::world::World;
use ff_conformance::world::waits::{soon, waitpoint_key};
use ff_core::backend::{Duty, WorkFilter};
use ff_core::command::Command;
use ff_core::decide::close_waitpoint::CloseWaitpoint;
use ff_core::decide::create_waitpoint::CreateWaitpoint;
use ff_core::decide::keys::{RotateKey, SecretHex, SeedKey};
use ff_core::decide::resume::Resume;
use ff_core::decide::suspend::Suspend;
use ff_core::suspension::TimeoutBehavior;
use serde_json::json;

/// The command `name`, if it is one on suspensions.
pub async fn prepared(world: &World, name: &str) -> Option<Command> {
    let secret_hex = SecretHex("ab".repeat(32));
    Some(match name {
        "suspend_execution" => {
            let (id, fence) = world.running(json!({})).await;
            let idempotency_key = Some("order-1".parse().unwrap());
            let steps = vec![ff_conformance::cases::steps::step(0, "ask")];
            Suspend { idempotency_key, steps, ..world.pause(id, fence) }.into()
        }
        "create_waitpoint" => {
            let (id, fence) = world.running(json!({})).await;
            let (waitpoint, key) = (world.uuid(), waitpoint_key("answer"));
            CreateWaitpoint { id, fence, waitpoint, key, expires_in_ms: 60_000, steps: Vec::new() }
                .into()
        }
        "close_waitpoint" => {
            let (id, fence) = world.running(json!({})).await;
            let waitpoint = world.pending(id, fence, "answer").await.waitpoint;
            CloseWaitpoint { id, fence, waitpoint }.into()
        }
        "deliver_signal" => {
            let (_, mailbox) = world.waiting().await;
            let mut signal = mailbox.signal(world, "go");
            signal.idempotency_key = Some("order-1".parse().unwrap());
            signal.payload = Some(bytes::Bytes::from_static(b"yes"));
            signal.into()
        }
        "resume_execution" => {
            let (_, mailbox) = world.waiting().await;
            let reason = "because".to_owned();
            Resume { id: mailbox.id, suspension: None, reason, resume_delay_ms: 50 }.into()
        }
        "time_out_suspension" => {
            let (id, fence) = world.running(json!({})).await;
            let timeout_behavior = TimeoutBehavior::AutoResume;
            let deadline = soon(world, 500);
            world.suspend(Suspend { deadline, timeout_behavior, ..world.pause(id, fence) }).await;
            due(world, Duty::SuspensionTimeout).await
        }
        "expire_waitpoint" => {
            let (id, fence) = world.running(json!({})).await;
            world.pending(id, fence, "answer").await;
            due(world, Duty::WaitpointExpiry).await
        }
        "seed_signing_key" => SeedKey { kid: "first".to_owned(), secret_hex }.into(),
        "rotate_signing_key" => {
            world.waiting().await;
            RotateKey { kid: "next".to_owned(), secret_hex, grace_ms: 1_000, withdraw: Vec::new() }
                .into()
        }
        _ => return None,
    })
}

/// A command that a duty finds to be due.
async fn due(world: &World, duty: Duty) -> Command {
    world.pass(86_400_000);
    let due = world.store.backend.due(duty, &WorkFilter::default(), 10).await;
    due.unwrap().commands.pop().unwrap_or_else(|| panic!("{duty} has nothing to do"))
}
