//! A durable function: stop it anywhere, run it again, and it goes on after its last step.
use flowfabric::prelude::*;
use std::time::Duration;

async fn greet(ctx: Context, name: String) -> Result<String> {
    let greeting = ctx.step("choose", async || Ok::<_, Error>("Hello".to_owned())).await?;
    ctx.sleep(Duration::from_secs(1)).await; // gives the worker's slot back
    Ok(format!("{greeting}, {name}!"))
}

#[tokio::main]
async fn main() -> Result<()> {
    let fabric = FlowFabric::open("sqlite:fabric.db").await?;
    let worker = fabric.worker("default").handle("greet", greet).start()?;
    let ada = fabric.create("greet", "Ada").await?;
    println!("{}", ada.result::<String>().await?);
    Ok(worker.stop().await?)
}
