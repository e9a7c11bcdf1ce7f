//! A deployment that two of three people must approve, and not the one who asks for it. They decide
//! on the plan as they saw it: a word on another plan is refused. Run it with
//! `cargo run -p flowfabric --example deploy_approval`.
//!
//! While it waits, it takes no slot of any worker and outlives all of them. The example says how a
//! person would decide, and then plays the people itself.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use flowfabric::prelude::*;
use flowfabric::{Client, StepInfo, Worker};
use serde::{Deserialize, Serialize};

/// Who may approve.
pub const APPROVERS: [&str; 3] = ["ann", "bob", "cleo"];

/// What somebody wants.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Wish {
    /// What is to run.
    pub version: String,
    /// Who wants it.
    pub requested_by: String,
}

/// What people decide on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// What would run.
    pub version: String,
    /// Where.
    pub machines: Vec<String>,
}

/// The machines: keep what was deployed, by token.
#[derive(Clone, Default)]
pub struct Machines(Arc<Mutex<BTreeSet<String>>>);

impl Machines {
    #[allow(clippy::unused_async, reason = "real ones take their time")]
    async fn deploy(&self, info: StepInfo, plan: &Plan) -> Result<usize> {
        let deed = format!("{} {}", info.token, plan.version);
        self.0.lock().map_err(|_| "the machines are off")?.insert(deed);
        Ok(plan.machines.len())
    }

    /// How often something was deployed.
    pub fn deployments(&self) -> usize {
        self.0.lock().map_or(0, |deeds| deeds.len())
    }
}

/// The plan for a version.
pub fn plan_of(version: &str) -> Plan {
    Plan { version: version.to_owned(), machines: vec!["eins".to_owned(), "zwei".to_owned()] }
}

/// Plans, asks, and deploys if it may.
pub async fn deploy(ctx: Context, wish: Wish) -> Result<String> {
    let machines = ctx.state::<Machines>();
    let plan = ctx.step("plan", async || Ok::<_, Error>(plan_of(&wish.version))).await?;
    let decision = ctx
        .approval("deploy")
        .of(&plan)
        .needs(2)
        .by(APPROVERS)
        .not_by(&wish.requested_by)
        .timeout(Duration::from_hours(24))
        .await?;
    let who = decision.voices.iter().map(|voice| format!("{} by {}", voice.word, voice.who));
    let who = who.collect::<Vec<_>>().join(", ");
    if !decision.approved {
        return Ok(format!("{} stays away: {who}", plan.version));
    }
    let count = ctx.step("deploy", |info| machines.deploy(info, &plan)).await?;
    Ok(format!("{} runs on {count} machines: {who}", plan.version))
}

/// A worker that deploys.
pub fn worker(fabric: &Client, machines: &Machines) -> Worker {
    fabric.worker("deployments").state(machines.clone()).handle("deploy", deploy)
}

/// Waits until people are asked, and shows what.
pub async fn asked(deployment: &Handle) -> Result<String, Error> {
    loop {
        let open = deployment.waitpoints().await?;
        let subject = open.into_iter().find_map(|row| row.approval?.subject);
        if let Some(subject) = subject {
            return Ok(subject);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::main]
#[allow(dead_code, reason = "tests use the deployment without it")]
async fn main() -> Result<()> {
    let url = std::env::var("FF_URL").unwrap_or_else(|_| "sqlite:deploy.db".to_owned());
    let fabric = FlowFabric::open(&url).await?;
    let machines = Machines::default();
    let worker = worker(&fabric, &machines).start()?;
    let wish = Wish { version: "17.2".to_owned(), requested_by: "cleo".to_owned() };
    let made = fabric.create("deploy", &wish).lane("deployments").await?;

    println!("to be decided: {}", asked(&made).await?);
    println!("you would say: ff approve '{}' --as ann --url {url}", made.id());
    let own = made.approve("cleo").await?;
    println!("cleo approves what she asked for herself: {own:?}");
    for who in ["ann", "bob"] {
        // As they saw it: had the plan changed meanwhile, this would be refused.
        made.approve(who).of(plan_of(&wish.version)).comment("looks good").await?;
        println!("{who} approves");
    }
    println!("{}", made.result::<String>().await?);
    Ok(worker.stop().await?)
}
