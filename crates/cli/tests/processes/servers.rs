//! Two servers before one PostgreSQL, of which one is killed under load.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ff_core::ExecutionId;
use flowfabric::{Client, Context, Error, FlowFabric, PublicState, Running};
use uuid::Uuid;

use crate::{Process, postgres};

/// Executions that are created.
const TOTAL: usize = 600;

/// Starts a server; where it is.
pub fn serve(url: &str) -> (Process, String) {
    let mut server = Process::start(url, &["serve", "--listen", "127.0.0.1:0"]);
    let said = BufReader::new(server.0.stdout.take().unwrap()).lines().next();
    let said = said.expect("a server says where it is").unwrap();
    let address = said.split_whitespace().find(|word| word.starts_with("http://"));
    (server, address.expect("an address").to_owned())
}

/// Who runs at this moment, and whether anybody ever ran beside itself.
#[derive(Clone, Default)]
struct Watch(Arc<Mutex<(BTreeMap<ExecutionId, u32>, u32)>>);

impl Watch {
    fn enter(&self, id: ExecutionId) {
        let mut seen = self.0.lock().unwrap();
        let running = seen.0.entry(id).or_default();
        *running += 1;
        let twice = *running > 1;
        seen.1 += u32::from(twice);
    }

    fn leave(&self, id: ExecutionId) {
        *self.0.lock().unwrap().0.get_mut(&id).unwrap() -= 1;
    }
}

async fn work(ctx: Context, number: usize) -> Result<usize, Error> {
    let watch = ctx.state::<Watch>();
    watch.enter(ctx.execution_id());
    tokio::time::sleep(Duration::from_millis(5)).await;
    watch.leave(ctx.execution_id());
    Ok(number * 2)
}

fn worker(client: &Client, watch: &Watch) -> Running {
    let worker = client.worker("load").concurrency(20).lease(Duration::from_secs(3));
    worker.state(watch.clone()).handle("double", work).start().unwrap()
}

/// Creates one, trying one server after the other until one of them has it.
async fn create(servers: &[FlowFabric], number: usize) -> ExecutionId {
    let id = ExecutionId::solo(Uuid::now_v7());
    for turn in number.. {
        let server = &servers[turn % servers.len()];
        match server.create("double", number).id(id).lane("load").await {
            Ok(_) => return id,
            Err(error) => assert!(error.retryable(), "{error:?}"),
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    unreachable!("there is always another turn")
}

#[tokio::test]
async fn one_of_two_servers_is_killed_and_nothing_is_lost_or_done_at_once() {
    let url = postgres();
    let (mut first, at_first) = serve(&url);
    let (_second, at_second) = serve(&url);
    let servers = [at_first, at_second].map(|at| FlowFabric::connect(&at, None).unwrap());
    let watch = Watch::default();
    let _workers = [worker(&servers[0], &watch), worker(&servers[1], &watch)];
    let mut ids = Vec::new();
    for number in 0..TOTAL {
        ids.push(create(&servers, number).await);
        if number == TOTAL / 3 {
            first.kill();
        }
    }
    for (number, id) in ids.into_iter().enumerate() {
        let made = servers[1].execution(id);
        assert_eq!(made.ended().await.unwrap(), PublicState::Completed);
        assert_eq!(made.result::<usize>().await.unwrap(), number * 2);
    }
    assert_eq!(watch.0.lock().unwrap().1, 0, "nobody ran beside itself");
}
