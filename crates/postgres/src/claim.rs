//! Claiming: what is ready, in order, decided like everything else.
//!
//! One flight moves due delays, finds what an earlier try of the same claim was given, and locks
//! the heads of the queues with their executions, passing over what others hold; the decisions
//! are made here, and a second flight writes them. No lock is ever waited for.

mod choice;
pub mod delays;
pub mod heads;
mod look;
mod passed;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ff_core::backend::StoreError;
use ff_core::command::{Outcome, Reply};
use ff_core::decide::claim::Leased;
use ff_core::fold::Blob;
use ff_core::time::Millis;
use ff_core::{ClaimAsk, Claimed, Claims};

use crate::apply::State;
use crate::connection::{Purpose, Session, Step, Trouble};
use crate::load::{blobs_step, read_blob};
use crate::write::{Rows, read_places};
use choice::Choice;
use look::{Look, Promoted, promotion};

/// Tries of a claim while others are in the way, or after its connection was lost.
const TRIES: u32 = 3;
/// How soon to look again at places that others hold, in milliseconds.
const RELOOK_MS: u64 = 10;
/// Between two tries after the connection was lost.
const PAUSE: Duration = Duration::from_millis(100);

/// Moves due delays to their queues, then hands out what is ready.
pub async fn claim(state: &State, asks: &[ClaimAsk]) -> Result<Claims, StoreError> {
    let mut tries = 0;
    loop {
        let trouble = match once(state, asks).await {
            Ok(claims) => return Ok(claims),
            Err(trouble) => trouble,
        };
        tries += 1;
        match trouble {
            Trouble::Guard | Trouble::Busy(_) if tries < TRIES => {}
            Trouble::Lost(_) if tries < TRIES => tokio::time::sleep(PAUSE).await,
            trouble => return Err(trouble.into_error()),
        }
    }
}

async fn once(state: &State, asks: &[ClaimAsk]) -> Result<Claims, Trouble> {
    let mut session = state.connections.get(Purpose::Claim).await?;
    let done = if asks.is_empty() {
        promote(state, &mut session).await
    } else {
        Box::pin(serve(state, &mut session, asks)).await
    };
    // A claim that failed leaves nothing behind.
    session.settle().await;
    done
}

/// Only moves due delays.
async fn promote(state: &State, session: &mut Session<'_>) -> Result<Claims, Trouble> {
    let now = state.clock.now();
    state.delays.begin();
    let answers = session.alone(promotion(now)).await?;
    let promoted = Promoted::read(&answers)?;
    state.promoted(&promoted.moved);
    let next_due = promoted.next(session, now).await?;
    state.delays.promoted(next_due);
    Ok(Claims { next_due, now, ..Claims::default() })
}

async fn serve(
    state: &State,
    session: &mut Session<'_>,
    asks: &[ClaimAsk],
) -> Result<Claims, Trouble> {
    let mut wide = false;
    loop {
        let now = state.clock.now();
        let begin = if wide { BTreeMap::new() } else { state.heads.begin() };
        state.delays.begin();
        let mut look = Look::new(asks, now, begin, wide);
        look.first(state, session).await?;
        let mut next_due = state.delays.next();
        let mut choice = Choice::make(state, asks, &look);
        while let Some(wider) = look.widen(&choice) {
            look.again(state, session, wider).await?;
            choice = Choice::make(state, asks, &look);
        }
        if !choice.is_empty() {
            state.heads.granting(asks.iter().map(|ask| ask.claim_id));
            // Asks under one claim are given the same: that says nothing about what is left.
            let claims: BTreeSet<_> = asks.iter().map(|ask| ask.claim_id).collect();
            let apart = claims.len() == asks.len() && look.held.is_empty();
            let emptied = apart && choice.count() == look.count();
            let given = grant(state, session, choice, &look).await?;
            return Ok(Claims { given, emptied, next_due, now });
        }
        let any = look.is_there_any(state, session).await?;
        state.promoted(&look.promoted.moved);
        match any {
            // Before where we looked, or held by others as far as we looked: once more.
            Ok(true) if !wide => wide = true,
            // Others hold all of it at this moment; some of it may come back.
            Ok(true) if look.found_nothing() => {
                let soon = now.plus(RELOOK_MS);
                next_due = Some(next_due.map_or(soon, |due| due.min(soon)));
                return Ok(nothing(asks, next_due, now));
            }
            Ok(_) => {
                state.heads.asked(asks.iter().map(|ask| ask.claim_id));
                return Ok(nothing(asks, next_due, now));
            }
            Err(wait) => {
                let soon = now.plus(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
                next_due = Some(next_due.map_or(soon, |due| due.min(soon)));
                return Ok(nothing(asks, next_due, now));
            }
        }
    }
}

fn nothing(asks: &[ClaimAsk], next_due: Option<Millis>, now: Millis) -> Claims {
    Claims { given: asks.iter().map(|_| Vec::new()).collect(), emptied: false, next_due, now }
}

/// Writes what was chosen, and fetches the inputs that did not come with it.
async fn grant(
    state: &State,
    session: &mut Session<'_>,
    choice: Choice,
    look: &Look<'_>,
) -> Result<Vec<Vec<Claimed>>, Trouble> {
    let Choice { set, leased, absent, mut inputs, decided_at, .. } = choice;
    let places = look.places_of(&leased);
    let rows = Rows::new(&set, decided_at, &places);
    let mut steps = rows.fewest();
    let writes = steps.len();
    if !absent.is_empty() {
        steps.push(blobs_step(&absent));
    }
    steps.push(Step::Commit);
    let answers = match session.fly(&steps).await {
        Ok(answers) => answers,
        Err(trouble) => {
            state.doubt(&set);
            return Err(trouble);
        }
    };
    state.promoted(&look.promoted.moved);
    state.heads.raise(look.known_heads(), look.reached(&leased));
    state.committed(&set, &read_places(answers.iter().take(writes))?);
    for row in answers.get(writes).into_iter().flatten() {
        let blob = read_blob(row)?;
        inputs.insert(blob.at, blob);
    }
    let claimed = |leased: Leased| {
        let at = look.passed.input(leased.execution.id);
        let input: Option<Blob> = inputs.get(&at).cloned();
        Claimed { leased, input }
    };
    let given = leased.into_iter().map(|given| given.into_iter().map(claimed).collect());
    let given: Vec<Vec<Claimed>> = given.collect();
    state.given(given.iter().flatten());
    Ok(given)
}

/// The answers to claims, all of which were accepted.
fn leases(outcomes: Vec<Outcome>) -> Vec<Leased> {
    let leased = |outcome| match outcome {
        Ok(Reply::Claim(leased)) => leased,
        other => unreachable!("a claim was accepted, not {other:?}"),
    };
    outcomes.into_iter().map(leased).collect()
}
