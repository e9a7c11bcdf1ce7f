//! On a server with stock settings: a table of jobs, and clients with a connection each.

use std::time::Instant;

use tokio_postgres::{Client, NoTls};

use super::{median, per_second};

const PAYLOAD: &[u8] = &[7; 256];
const INSERT: &str = "insert into job (state, payload) values ('new', $1) returning id";
const UPDATE: &str = "update job set state = $2 where id = $1";

/// A connection, with an empty table of jobs to be made once.
async fn connect(url: &str) -> anyhow::Result<Client> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

async fn table(url: &str) -> anyhow::Result<()> {
    let sql = "drop table if exists job; create table job (id bigint generated always as identity \
        primary key, state text not null, payload bytea not null); checkpoint";
    Ok(connect(url).await?.batch_execute(sql).await?)
}

/// Runs `work` on `clients` connections at once.
async fn at_once<F>(clients: u32, work: impl Fn(u32) -> F) -> anyhow::Result<()>
where
    F: Future<Output = anyhow::Result<()>> + Send + 'static,
{
    let all: Vec<_> = (0..clients).map(|number| tokio::spawn(work(number))).collect();
    for one in all {
        one.await??;
    }
    Ok(())
}

/// 32 clients, each committing one row at a time.
pub async fn insert_each32(url: &str) -> anyhow::Result<f64> {
    insert_each(url, 32).await
}

/// 16 clients, each committing one row at a time.
pub async fn insert_each16(url: &str) -> anyhow::Result<f64> {
    insert_each(url, 16).await
}

async fn insert_each(url: &str, clients: u32) -> anyhow::Result<f64> {
    const EACH: u32 = 1_000;
    let begun = each_connected(url, clients, |client| async move {
        let insert = "insert into job (state, payload) values ('new', $1)";
        let insert = client.prepare(insert).await?;
        for _ in 0..EACH {
            client.execute(&insert, &[&PAYLOAD]).await?;
        }
        anyhow::Ok(())
    });
    Ok(per_second(clients * EACH, begun.await?))
}

/// 8 clients, each inserting a row and updating it twice in each transaction.
pub async fn three_writes8(url: &str) -> anyhow::Result<f64> {
    three_writes(url, 8).await
}

/// 64 clients, each inserting a row and updating it twice in each transaction.
pub async fn three_writes64(url: &str) -> anyhow::Result<f64> {
    three_writes(url, 64).await
}

async fn three_writes(url: &str, clients: u32) -> anyhow::Result<f64> {
    const TOTAL: u32 = 16_000;
    let each = TOTAL / clients;
    let begun = each_connected(url, clients, move |mut client| async move {
        let insert = client.prepare(INSERT).await?;
        let update = client.prepare(UPDATE).await?;
        for _ in 0..each {
            let tx = client.transaction().await?;
            let id: i64 = tx.query_one(&insert, &[&PAYLOAD]).await?.get(0);
            tx.execute(&update, &[&id, &"active"]).await?;
            tx.execute(&update, &[&id, &"done"]).await?;
            tx.commit().await?;
        }
        anyhow::Ok(())
    });
    Ok(per_second(clients * each, begun.await?))
}

/// 8 clients, each inserting a row and updating it three times, a commit each.
pub async fn four_commits8(url: &str) -> anyhow::Result<f64> {
    four_commits(url, 8).await
}

/// 64 clients, each inserting a row and updating it three times, a commit each.
pub async fn four_commits64(url: &str) -> anyhow::Result<f64> {
    four_commits(url, 64).await
}

async fn four_commits(url: &str, clients: u32) -> anyhow::Result<f64> {
    const TOTAL: u32 = 16_000;
    let each = TOTAL / clients;
    let begun = each_connected(url, clients, move |client| async move {
        let insert = client.prepare(INSERT).await?;
        let update = client.prepare(UPDATE).await?;
        for _ in 0..each {
            let id: i64 = client.query_one(&insert, &[&PAYLOAD]).await?.get(0);
            for state in ["waiting", "active", "done"] {
                client.execute(&update, &[&id, &state]).await?;
            }
        }
        anyhow::Ok(())
    });
    Ok(per_second(clients * each, begun.await?))
}

/// Runs `work` on `clients` connections at once, which are made beforehand; when it began.
async fn each_connected<F>(
    url: &str,
    clients: u32,
    work: impl Fn(Client) -> F,
) -> anyhow::Result<Instant>
where
    F: Future<Output = anyhow::Result<()>> + Send + 'static,
{
    table(url).await?;
    let mut connections = Vec::new();
    for _ in 0..clients {
        connections.push(connect(url).await?);
    }
    let connections = std::sync::Mutex::new(connections);
    let begun = Instant::now();
    at_once(clients, |_| {
        let client = connections.lock().expect("nobody panics").pop();
        work(client.expect("there is one for each"))
    })
    .await?;
    Ok(begun)
}

async fn fill(url: &str, clients: u32, each: u32) -> anyhow::Result<()> {
    at_once(clients, |_| {
        let url = url.to_owned();
        async move {
            let client = connect(&url).await?;
            let insert =
                "insert into job (state, payload) select 'new', p from unnest($1::bytea[]) p";
            let insert = client.prepare(insert).await?;
            let rows = vec![PAYLOAD; 100];
            for _ in 0..each {
                client.execute(&insert, &[&rows]).await?;
            }
            anyhow::Ok(())
        }
    })
    .await
}

/// 8 clients, each inserting a hundred rows in each commit.
pub async fn insert_hundreds(url: &str) -> anyhow::Result<f64> {
    table(url).await?;
    let begun = Instant::now();
    fill(url, 8, 100).await?;
    Ok(per_second(8 * 100 * 100, begun))
}

/// 8 clients, each taking a hundred rows in each commit.
pub async fn pop_hundreds(url: &str) -> anyhow::Result<f64> {
    table(url).await?;
    fill(url, 8, 100).await?;
    let begun = Instant::now();
    at_once(8, |_| {
        let url = url.to_owned();
        async move {
            let client = connect(&url).await?;
            let pop = "delete from job where ctid = any(array(select ctid from job order by id \
                limit 100 for update skip locked)) returning id, payload";
            let pop = client.prepare(pop).await?;
            while !client.query(&pop, &[]).await?.is_empty() {}
            anyhow::Ok(())
        }
    })
    .await?;
    Ok(per_second(8 * 100 * 100, begun))
}

/// The time of three one-row commits in a row: insert, update, update; the median, in ms.
pub async fn three_commits(url: &str) -> anyhow::Result<f64> {
    table(url).await?;
    let client = connect(url).await?;
    let insert = client.prepare(INSERT).await?;
    let update = client.prepare(UPDATE).await?;
    let mut took = Vec::new();
    for _ in 0..500 {
        let begun = Instant::now();
        let id: i64 = client.query_one(&insert, &[&PAYLOAD]).await?.get(0);
        client.execute(&update, &[&id, &"active"]).await?;
        client.execute(&update, &[&id, &"done"]).await?;
        took.push(begun.elapsed().as_secs_f64() * 1_000.0);
    }
    Ok(median(took))
}
