//! Claiming: what is ready, in order, decided like everything else.

use std::collections::BTreeSet;

use ff_core::backend::StoreError;
use ff_core::command::Reply;
use ff_core::fold::{Blob, BlobRef, Key, WorkingSet};
use ff_core::ids::ExecutionId;
use ff_core::index::{QueueId, Ready, TimerKind};
use ff_core::limits::{CLAIM_BYTES_MAX, PROMOTE_BATCH_MAX};
use ff_core::row::number;
use ff_core::time::Millis;
use ff_core::{ClaimAsk, Claimed, Claims};
use rusqlite::Transaction;

use crate::apply::{State, apply_over};
use crate::codec::Reader;
use crate::connection::store_error;
use crate::due;
use crate::load::{all, blobs, load};
use crate::statements::{lease, queue, ready, timer};

/// Places at the head of a queue that a claim may look past, when what stands there is damaged
/// or waits again because the clock was turned back.
const SPARE_MAX: u32 = 64;

/// Moves due delays to their queues, then hands out what is ready.
pub fn claim(
    tx: &Transaction<'_>,
    state: &mut State,
    asks: &[ClaimAsk],
) -> Result<Claims, StoreError> {
    let now = state.clock.now();
    for sql in [ready::promote, timer::promoted] {
        let mut statement = tx.prepare_cached(sql).map_err(store_error)?;
        statement.execute((now.0, PROMOTE_BATCH_MAX)).map_err(store_error)?;
    }
    let (mut given, mut waits) = (Vec::with_capacity(asks.len()), None);
    for ask in asks {
        given.push(claim_one(tx, state, ask, now, &mut waits)?);
    }
    let next = due::next_timer(tx, TimerKind::Delay, Millis(i64::MIN))?;
    let nothing = given.iter().all(Vec::is_empty);
    let next_due = [next, waits].into_iter().flatten().min().filter(|_| nothing);
    Ok(Claims { given, next_due, now, ..Claims::default() })
}

/// What an ask is given. `waits` is when the first that was refused can be had: by the clock of the
/// process that moved it, that is over.
fn claim_one(
    tx: &Transaction<'_>,
    state: &mut State,
    ask: &ClaimAsk,
    now: Millis,
    waits: &mut Option<Millis>,
) -> Result<Vec<Claimed>, StoreError> {
    let params = (ask.claim_id.as_bytes(), now.0);
    let held = all(tx, lease::by_claim, params, |row| Reader::new(row).id())?;
    let claimed = grant(tx, state, ask, &held, waits)?;
    if !claimed.is_empty() {
        return Ok(claimed);
    }
    let candidates = candidates(tx, ask)?;
    grant(tx, state, ask, &candidates, waits)
}

/// Leases as many of `chosen` as were asked for, passing over what cannot be had: damaged, held
/// by another worker, or waiting again because the clock was turned back.
fn grant(
    tx: &Transaction<'_>,
    state: &mut State,
    ask: &ClaimAsk,
    chosen: &[ExecutionId],
    waits: &mut Option<Millis>,
) -> Result<Vec<Claimed>, StoreError> {
    let max = usize::try_from(ask.max).unwrap_or(usize::MAX);
    let mut claimed: Vec<Claimed> = Vec::with_capacity(chosen.len().min(max));
    let mut bytes = 0;
    for id in chosen {
        if claimed.len() == max {
            break;
        }
        let (have, input) = match load_input(tx, *id) {
            Ok(found) => found,
            Err(error) => {
                tracing::error!(%id, %error, "passed over a damaged execution");
                error.refusal()?;
                continue;
            }
        };
        let size = input.as_ref().map_or(0, |blob| blob.bytes.len());
        if bytes + size > CLAIM_BYTES_MAX && !claimed.is_empty() {
            break;
        }
        let until = have.execution(*id).ok().and_then(|x| x.waits_until());
        let claim = ask.claim(*id);
        let mut outcomes = apply_over(tx, state, &[claim.into()], have)?;
        if let Some(Ok(Reply::Claim(leased))) = outcomes.pop() {
            bytes += size;
            claimed.push(Claimed { leased, input });
        } else {
            let until = until.filter(|until| *until > state.clock.now());
            *waits = [*waits, until].into_iter().flatten().min();
        }
    }
    Ok(claimed)
}

/// An execution, and what it is to work on: its own input, or the result that took its place.
fn load_input(
    tx: &Transaction<'_>,
    id: ExecutionId,
) -> Result<(WorkingSet, Option<Blob>), StoreError> {
    let mut have = WorkingSet::default();
    load(tx, &[Key::Execution(id)], &mut have)?;
    if let Some(upstream) = have.execution(id).ok().and_then(|x| x.input_from) {
        load(tx, &[Key::Execution(upstream)], &mut have)?;
    }
    let at = have.execution(id).map_or(BlobRef::Input(id), |x| {
        let upstream = x.input_from.and_then(|upstream| have.execution(upstream).ok());
        BlobRef::input(x, upstream)
    });
    let input = blobs(tx, &[at])?.pop();
    Ok((have, input))
}

/// The most urgent and oldest places in the lanes asked for that suit the worker.
fn candidates(tx: &Transaction<'_>, ask: &ClaimAsk) -> Result<Vec<ExecutionId>, StoreError> {
    let mut heads: Vec<Ready> = Vec::new();
    for id in suitable(tx, ask)? {
        heads.extend(all(tx, ready::head, (id.0, ask.max + SPARE_MAX), |row| {
            let mut r = Reader::new(row);
            let rank = number("rank", r.take("rank")?)?;
            let turn = Millis(r.take("turn_ms")?);
            Ok(Ready { rank, turn, execution: r.id()?, queue: id })
        })?);
    }
    heads.sort();
    Ok(heads.into_iter().map(|ready| ready.execution).collect())
}

/// The queues of the lanes asked for whose requirements the worker meets.
fn suitable(tx: &Transaction<'_>, ask: &ClaimAsk) -> Result<BTreeSet<QueueId>, StoreError> {
    let mut suits = BTreeSet::new();
    for lane in &ask.lanes {
        let queues = all(tx, queue::of_lane, (lane.as_str(),), |row| {
            let mut r = Reader::new(row);
            let id = QueueId(r.take("queue")?);
            let text: String = r.take("capabilities")?;
            let required: Option<BTreeSet<String>> = serde_json::from_str(&text)
                .inspect_err(|error| tracing::error!(?id, text, %error, "a damaged queue"))
                .ok();
            Ok((id, required))
        })?;
        let meets = |needs: &BTreeSet<String>| needs.is_subset(&ask.capabilities);
        let queues = queues.into_iter().filter(|(_, needs)| needs.as_ref().is_some_and(meets));
        suits.extend(queues.map(|(id, _)| id));
    }
    Ok(suits)
}
