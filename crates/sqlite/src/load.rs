//! Loading the rows that decisions need.

use ff_core::backend::StoreError;
use ff_core::event::Cursor;
use ff_core::execution::Fingerprint;
use ff_core::fold::{Blob, BlobRef, Consumer, Key, KeyRow, WorkingSet};
use ff_core::row::number;
use ff_core::time::Millis;
use rusqlite::{Params, Row, Transaction};

use crate::codec::{self, Reader};
use crate::connection::store_error;
use crate::graph;
use crate::statements::{consumer, event, execution, idempotency, payload, step};
use crate::waits;

/// Adds the rows named by `keys` to `have`.
pub fn load(tx: &Transaction<'_>, keys: &[Key], have: &mut WorkingSet) -> Result<(), StoreError> {
    for key in keys {
        match key {
            Key::Execution(id) => {
                let row = one(tx, execution::load, codec::key(*id), codec::read_execution)?;
                have.executions.insert(*id, row);
            }
            Key::Idempotency(namespace, key) => {
                let params = (namespace.as_str(), key.as_str());
                let row = one(tx, idempotency::load, params, read_key)?;
                have.keys.insert((namespace.clone(), key.clone()), row);
            }
            Key::Unseen(id) => {
                let (partition, uuid) = codec::key(*id);
                have.unseen.insert(*id, is_unseen(tx, (partition, uuid, false))?);
            }
            Key::UnseenFlow(flow) => {
                let (partition, uuid) = graph::flow_key(*flow);
                have.graph.unseen.insert(*flow, is_unseen(tx, (partition, uuid, true))?);
            }
            Key::Step(id, number) => {
                let (partition, uuid) = codec::key(*id);
                let params = (partition, uuid, number);
                let row = one(tx, step::load, params, |row| codec::read_step(*id, row))?;
                have.steps.insert((*id, *number), row);
            }
            Key::Stepped(id, attempt) => {
                let (partition, uuid) = codec::key(*id);
                let params = (partition, uuid, attempt);
                let stepped =
                    one(tx, step::of_attempt, params, |row| row.get(0).map_err(store_error))?;
                have.stepped.insert((*id, *attempt), stepped.unwrap_or(false));
            }
            Key::Consumer(name) => {
                let row = one(tx, consumer::load, (name.as_str(),), read_consumer)?;
                have.consumers.insert(name.clone(), row);
            }
            Key::Input(id) => {
                let input = blobs(tx, &[BlobRef::Input(*id)])?.pop();
                have.inputs.insert(*id, input);
            }
            Key::Flow(_)
            | Key::FreeFlow(_)
            | Key::Group(..)
            | Key::FreeGroup(..)
            | Key::Groups(_)
            | Key::Edge(..)
            | Key::Pair(..)
            | Key::Outgoing(..)
            | Key::Incoming(..)
            | Key::Reach(..)
            | Key::Behind(..)
            | Key::Members(_)
            | Key::Dispatch(_)
            | Key::Cancel(..)
            | Key::Backlog(_)
            | Key::Owed(_)
            | Key::First(_) => graph::load(tx, key, &mut have.graph)?,
            Key::Wait(key) => waits::load(tx, key, &mut have.waits)?,
        }
    }
    Ok(())
}

/// Whether some consumer has yet to deal with an event of an execution, or of a flow (the third).
fn is_unseen(tx: &Transaction<'_>, of: (i64, [u8; 16], bool)) -> Result<bool, StoreError> {
    let unseen = one(tx, event::unseen, of, |row| row.get(0).map_err(store_error))?;
    Ok(unseen.unwrap_or(false))
}

/// Reads bytes; absent ones are left out.
pub fn blobs(tx: &Transaction<'_>, refs: &[BlobRef]) -> Result<Vec<Blob>, StoreError> {
    let mut found = Vec::new();
    for at in refs {
        let params = blob_key(*at);
        if let Some((encoding, bytes)) = one(tx, payload::load, params, codec::read_payload)? {
            found.push(Blob { at: *at, encoding, bytes });
        }
    }
    Ok(found)
}

/// The key columns of bytes.
pub fn blob_key(at: BlobRef) -> (i64, [u8; 16], &'static str, i64) {
    let (partition, uuid) = codec::key(at.execution());
    match at {
        BlobRef::Input(_) => (partition, uuid, "input", 0),
        BlobRef::Result(_, attempt) => (partition, uuid, "result", i64::from(attempt)),
    }
}

/// Runs a statement and reads its rows.
pub fn all<T>(
    tx: &Transaction<'_>,
    sql: &str,
    params: impl Params,
    read: impl Fn(&Row<'_>) -> Result<T, StoreError>,
) -> Result<Vec<T>, StoreError> {
    let mut statement = tx.prepare_cached(sql).map_err(store_error)?;
    let mut rows = statement.query(params).map_err(store_error)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next().map_err(store_error)? {
        found.push(read(row)?);
    }
    Ok(found)
}

/// Runs a statement and reads its one row, if there is one.
pub fn one<T>(
    tx: &Transaction<'_>,
    sql: &str,
    params: impl Params,
    read: impl Fn(&Row<'_>) -> Result<T, StoreError>,
) -> Result<Option<T>, StoreError> {
    Ok(all(tx, sql, params, read)?.pop())
}

fn read_key(row: &Row<'_>) -> Result<KeyRow, StoreError> {
    let mut r = Reader::new(row);
    Ok(KeyRow {
        execution: r.id()?,
        fingerprint: Fingerprint(r.take("fingerprint")?),
        expires_at: Millis(r.take("expires_at_ms")?),
    })
}

fn read_consumer(row: &Row<'_>) -> Result<Consumer, StoreError> {
    let mut r = Reader::new(row);
    let seq = number("seq", r.take("seq")?)?;
    let cursor = if seq == 0 { Cursor::Start } else { Cursor::Seq(seq) };
    Ok(Consumer { cursor, updated_at: Millis(r.take("updated_at_ms")?) })
}
