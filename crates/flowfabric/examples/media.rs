//! A media pipeline: a film is probed, encoded in several sizes side by side, and packaged. Subtitles
//! are welcome and not needed; a large film is encoded in chunks. Run it with
//! `cargo run -p flowfabric --example media`.
//!
//! Nothing is encoded here; what matters is what waits for what, and what is handed on.

use flowfabric::prelude::*;
use flowfabric::{Client, FlowHandle, Worker, node};
use serde::{Deserialize, Serialize};

/// The sizes that a film is packaged in.
pub const SIZES: [u32; 2] = [1080, 480];

/// What is known of a film.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Film {
    title: String,
    chunks: u32,
}

/// What is delivered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Package {
    /// One for each size.
    pub files: Vec<String>,
    /// If there are any.
    pub subtitles: Option<String>,
}

/// The pipeline: `probe`, then a node for each size and one for subtitles, then `package`.
pub async fn submit(fabric: &Client, path: &str) -> Result<FlowHandle, Error> {
    // After the subtitles however they ended; after every size when all of them succeeded.
    let mut package = node("package", "package", ());
    package = package.reads("subtitles", "subtitles").after_end("subtitles");
    let mut flow = fabric.flow("media").tag("media.film", path);
    for size in SIZES {
        let name = format!("{size}p");
        package = package.reads(&name, &name);
        flow = flow.node(node(name, "encode", size).reads("probe", "film").retries(3));
    }
    flow.node(node("probe", "probe", path))
        .node(node("subtitles", "subtitles", ()).takes("probe"))
        .node(package)
        .await
}

async fn probe(_: Context, path: String) -> Result<Film> {
    let title = path.trim_end_matches(".mov").to_owned();
    Ok(Film { title, chunks: 2 })
}

/// One size of a film: its chunks are encoded by whoever has time.
async fn encode(ctx: Context, size: u32) -> Result<String> {
    let film: Film = ctx.input("film").await?;
    let chunks = (0..film.chunks).map(|chunk| ctx.task("encode_chunk", (size, chunk)));
    let chunks: Vec<String> = ctx.join_all(chunks).await?;
    Ok(format!("{}: {}", film.title, chunks.join("+")))
}

async fn encode_chunk(_: Context, (size, chunk): (u32, u32)) -> Result<String> {
    Ok(format!("{size}p.{chunk}"))
}

async fn subtitles(_: Context, film: Film) -> Result<String> {
    Err(Error::permanent(format!("nobody says a word in {}", film.title)).into())
}

async fn package(ctx: Context, (): ()) -> Result<Package> {
    let mut files: Vec<String> = Vec::new();
    for size in SIZES {
        files.push(ctx.input(format!("{size}p")).await?);
    }
    ctx.spawn(ctx.task("announce", &files)).await;
    Ok(Package { files, subtitles: ctx.input("subtitles").await? })
}

/// Tells whoever waits for it; the package does not wait for that.
async fn announce(_: Context, files: Vec<String>) -> Result<usize> {
    Ok(files.len())
}

/// A worker for all of it.
pub fn worker(fabric: &Client) -> Worker {
    fabric
        .worker("default")
        .handle("probe", probe)
        .handle("encode", encode)
        .handle("encode_chunk", encode_chunk)
        .handle("subtitles", subtitles)
        .handle("package", package)
        .handle("announce", announce)
}

#[tokio::main]
#[allow(dead_code, reason = "tests use the pipeline without it")]
async fn main() -> Result<()> {
    let url = std::env::var("FF_URL").unwrap_or_else(|_| "sqlite:media.db".to_owned());
    let fabric = FlowFabric::open(&url).await?;
    let worker = worker(&fabric).start()?;
    let flow = submit(&fabric, "metropolis.mov").await?;
    println!("{:#?}", flow.result::<Package>("package").await?);
    flow.ended().await?;
    let summary = flow.summary().await?;
    println!("{} completed, {} failed", summary.members_completed, summary.members_failed);
    Ok(worker.stop().await?)
}
