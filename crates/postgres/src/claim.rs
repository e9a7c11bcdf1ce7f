//! Claiming: what is ready, in order, decided like everything else.
//!
//! One flight moves due delays, finds what an earlier try of the same claim was given, and locks
//! the heads of the queues with their executions, passing over what others hold; the decisions
//! are made here, and a second flight writes them. No lock is waited for. Claims of one process take
//! turns to look; while one writes, the next looks behind what it found. A claim that is not a repeat
//! may do with less: it locks nothing while nobody else claims, and takes without looking what this
//! process has just let go. It then waits for who holds that all the same, but not for long.

mod choice;
pub mod delays;
pub mod heads;
mod look;
pub mod loose;
mod passed;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ff_core::backend::StoreError;
use ff_core::command::{Outcome, Reply};
use ff_core::decide::claim::Leased;
use ff_core::fold::Blob;
use ff_core::time::Millis;
use ff_core::{ClaimAsk, Claimed, Claims};
use tokio::sync::MutexGuard;

use crate::apply::State;
use crate::connection::{Purpose, Session, Step, Trouble};
use crate::load::{blobs_step, read_blob};
use crate::write::{Rows, read_places};
use choice::{Choice, Taken};
use look::{Look, Promoted, promotion};
use loose::Begun;

/// Tries of a claim while others are in the way, or after its connection was lost.
const TRIES: u32 = 3;
/// How soon to look again at places that others hold, in milliseconds.
const RELOOK_MS: u64 = 10;
/// Between two tries after the connection was lost.
const PAUSE: Duration = Duration::from_millis(100);

/// Moves due delays to their queues, then hands out what is ready.
pub async fn claim(state: &State, asks: &[ClaimAsk]) -> Result<Claims, StoreError> {
    let (mut tries, mut again) = (0, false);
    match at_once(state, asks).await {
        Ok(Some(claims)) => return Ok(claims),
        Ok(None) => {}
        Err(Trouble::Broken(error)) => return Err(error),
        // It may have been done all the same.
        Err(Trouble::Guard | Trouble::Busy(_) | Trouble::Poison(_) | Trouble::Lost(_)) => {
            again = true;
        }
    }
    loop {
        let trouble = match once(state, asks, again).await {
            Ok(claims) => return Ok(claims),
            Err(trouble) => trouble,
        };
        tries += 1;
        again = true;
        match trouble {
            Trouble::Guard | Trouble::Busy(_) if tries < TRIES => {}
            Trouble::Lost(_) if tries < TRIES => tokio::time::sleep(PAUSE).await,
            trouble => return Err(trouble.into_error()),
        }
    }
}

/// Takes what this process has just let go, in one flight; nothing when it has to look.
async fn at_once(state: &State, asks: &[ClaimAsk]) -> Result<Option<Claims>, Trouble> {
    let now = state.clock.now();
    let fresh = !asks.is_empty() && asks.iter().all(|ask| ask.fresh);
    if !fresh || !may_guess(state) || state.delays.is_due(now) {
        return Ok(None);
    }
    let line = state.loose.known(asks);
    let Some(taken) = line.and_then(|line| Taken::of(state, asks, line)) else { return Ok(None) };
    let rows = Rows::new(&taken.set, taken.decided_at, &taken.places);
    let Some(step) = rows.whole(None) else { return Ok(None) };
    state.heads.granting(asks.iter().map(|ask| ask.claim_id));
    let mut session = state.connections.get(Purpose::Claim).await?;
    match session.alone(step).await {
        Ok(answers) => {
            state.committed(&taken.set, &read_places(answers.iter())?, false);
            state.given(taken.given.iter().flatten());
            // What others have filed since the last look is not known, so there may be more.
            let (given, emptied) = (taken.given, false);
            Ok(Some(Claims { given, emptied, next_due: state.delays.next(), now }))
        }
        Err(trouble) => {
            state.doubt(&taken.set);
            state.heads.contended();
            session.settle().await;
            Err(trouble)
        }
    }
}

/// Whether a claim may take what it has not locked: nobody else is known to claim from the same queues,
/// and the connections are those that do not wait long for who does all the same.
fn may_guess(state: &State) -> bool {
    let address = &state.connections.address;
    !address.pooled && !address.few && !state.heads.is_contended()
}

async fn once(state: &State, asks: &[ClaimAsk], again: bool) -> Result<Claims, Trouble> {
    let mut session = state.connections.get(Purpose::Claim).await?;
    let done = if asks.is_empty() {
        promote(state, &mut session).await
    } else {
        Box::pin(serve(state, &mut session, (asks, again))).await
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
    (asks, again): (&[ClaimAsk], bool),
) -> Result<Claims, Trouble> {
    let mut wide = false;
    loop {
        let turn = state.heads.turn().await;
        let begun = state.loose.begin();
        let now = state.clock.now();
        let from = if wide { BTreeMap::new() } else { state.heads.begin() };
        state.delays.begin();
        // Looks from the beginning come by what other claims of this process are taking.
        let sure = again || wide || from.is_empty() || !asks.iter().all(|ask| ask.fresh);
        let mut look = Look::new((asks, again), now, from, wide);
        let glances = !sure && may_guess(state) && !state.delays.is_due(now);
        if glances {
            let all = look.glance(state, session).await?;
            let choice = Choice::make(state, asks, &look);
            if all && !choice.is_empty() && look.widen(&choice).is_none() {
                return take(state, session, (asks, turn, begun), (choice, look)).await;
            }
        }
        if !glances || !look.found_nothing() {
            look.first(state, session).await?;
        }
        let mut next_due = state.delays.next();
        let mut choice = Choice::make(state, asks, &look);
        while let Some(wider) = look.widen(&choice) {
            look.again(state, session, wider).await?;
            choice = Choice::make(state, asks, &look);
        }
        if !choice.is_empty() {
            return take(state, session, (asks, turn, begun), (choice, look)).await;
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
                state.loose.emptied(begun, asks.iter().filter(|_| any == Ok(false)));
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

/// Takes what was chosen, and lets others look behind it meanwhile.
async fn take(
    state: &State,
    session: &mut Session<'_>,
    (asks, turn, begun): (&[ClaimAsk], MutexGuard<'_, ()>, Begun),
    (choice, look): (Choice, Look<'_>),
) -> Result<Claims, Trouble> {
    state.heads.granting(asks.iter().map(|ask| ask.claim_id));
    // Asks under one claim are given the same: that says nothing about what is left.
    let claims: BTreeSet<_> = asks.iter().map(|ask| ask.claim_id).collect();
    let apart = claims.len() == asks.len() && look.held.is_empty();
    let emptied = apart && choice.count() == look.count();
    let (now, next_due) = (choice.decided_at, state.delays.next());
    let reached = look.reached(&choice.leased);
    state.heads.raise(look.known_heads(), &reached);
    drop(turn);
    let given = match grant(state, session, choice, &look).await {
        Ok(given) => given,
        Err(trouble) => {
            // Somebody has to look there again, and may have looked behind it meanwhile.
            state.promoted(&look.left(&reached));
            if !look.promoted.moved.is_empty() {
                // They are delays again, and due.
                state.delays.removed();
            }
            state.heads.contended();
            return Err(trouble);
        }
    };
    if emptied {
        state.loose.emptied(begun, asks.iter());
    }
    Ok(Claims { given, emptied, next_due, now })
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
    let landed = match <[_; 1]>::try_from(steps) {
        Ok([step]) if !session.is_open() => session.alone(step).await,
        steps => {
            let mut steps = steps.map_or_else(|steps| steps, Vec::from);
            if !session.is_open() {
                steps.insert(0, Step::Begin);
            }
            steps.push(Step::Commit);
            session.fly(&steps).await
        }
    };
    let answers = match landed {
        Ok(answers) => answers,
        Err(trouble) => {
            state.doubt(&set);
            return Err(trouble);
        }
    };
    state.promoted(&look.moved(&leased));
    state.committed(&set, &read_places(answers.iter().take(writes))?, false);
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
