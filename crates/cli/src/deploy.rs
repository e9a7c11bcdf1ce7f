//! The sample that waits for a person: a deployment that somebody has to approve.

use std::time::Duration;

use ff_wire::waitpoint::{WaitpointParams, WaitpointSnapshot};
use flowfabric::{BoxError, Client, Context, Error, ExecutionId, Result};
use serde::{Deserialize, Serialize};

/// What the waitpoint of the decision is called.
const KEY: &str = "deploy";
/// How long it is looked for.
const ASKED_WITHIN: Duration = Duration::from_secs(5);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(25);

/// What is to be deployed.
#[derive(Serialize, Deserialize)]
pub struct Plan {
    service: String,
    version: String,
    instances: u32,
}

/// A plan to decide on.
pub fn plan() -> Plan {
    Plan { service: "shop".to_owned(), version: "2.4.0".to_owned(), instances: 3 }
}

/// Checks, asks, and does what it was allowed to. While it waits it holds no worker.
pub async fn deploy(ctx: Context, plan: Plan) -> Result<String> {
    ctx.step("run checks", || slowly(80, "212 passed".to_owned())).await?;
    let decision = ctx.approval(KEY).of(&plan).needs(1).await?;
    let who: Vec<_> = decision.voices.iter().map(|voice| voice.who.as_str()).collect();
    let who = who.join(", ");
    if !decision.approved {
        // An operator may let it go on before anybody has decided.
        let nobody = who.is_empty();
        let why = if nobody { "nobody decided".to_owned() } else { format!("rejected by {who}") };
        return Err(BoxError::from(Error::permanent(format!("not deployed: {why}"))));
    }
    let out = ctx.step("roll out", || slowly(250, plan.instances)).await?;
    Ok(format!("{} {} runs on {out} instances, approved by {who}", plan.service, plan.version))
}

async fn slowly<T>(ms: u64, done: T) -> Result<T> {
    tokio::time::sleep(Duration::from_millis(ms)).await;
    Ok(done)
}

/// Where a deployment waits for its decision, once it does.
pub async fn asked(client: &Client, id: ExecutionId) -> anyhow::Result<Option<WaitpointSnapshot>> {
    let look = async {
        loop {
            let page = client.fabric().waitpoints(Some(id), WaitpointParams::default()).await?;
            let asks = page.waitpoints.into_iter().find(|one| one.approval.is_some());
            if let Some(asks) = asks {
                return anyhow::Ok(asks);
            }
            tokio::time::sleep(LOOK).await;
        }
    };
    tokio::time::timeout(ASKED_WITHIN, look).await.ok().transpose()
}
