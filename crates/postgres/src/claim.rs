//! Claiming: what is ready, in order, decided like everything else.
//!
//! One flight finds what an earlier try of the same claims was given, moves due delays, and locks the
//! heads of the queues with their executions, passing over what others hold; the decisions are made
//! here, and a second flight writes them. No lock is waited for. Claims of one process take turns to
//! scan; while one writes, the next scans behind what it found. A claim comes back empty only after it
//! has scanned its queues from their beginning.

mod choice;
pub mod heads;
mod look;
mod passed;

use std::time::Duration;

use ff_core::backend::StoreError;
use ff_core::command::{Outcome, Reply};
use ff_core::decide::claim::Leased;
use ff_core::fold::Blob;
use ff_core::{ClaimAsk, Claimed, Claims};
use tokio::sync::MutexGuard;

use crate::apply::State;
use crate::connection::{Purpose, Session, Step, Trouble};
use crate::load::{blobs_step, read_blob};
use crate::write::{Rows, read_places};
use choice::Choice;
use look::{Look, Promoted, promotion};

/// Tries of a claim while others are in the way, or after its connection was lost.
const TRIES: u32 = 3;
/// How soon to look again at rows that others hold.
const RELOOK_MS: u64 = 10;
/// Between two tries after the connection was lost.
const PAUSE: Duration = Duration::from_millis(100);

/// Hands out what is ready; with no asks, it only moves due delays to their queues.
pub async fn claim(state: &State, asks: &[ClaimAsk]) -> Result<Claims, StoreError> {
    let mut tries = 0;
    loop {
        let trouble = match once(state, asks).await {
            Ok(claims) => return Ok(claims),
            Err(trouble) => trouble,
        };
        tries += 1;
        match trouble {
            Trouble::Guard | Trouble::Busy(_) | Trouble::Locked(_) if tries < TRIES => {}
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
    let promoting = session.alone(promotion(now)).await;
    let answers = promoting.inspect_err(|trouble| state.may_have_promoted(trouble))?;
    let promoted = Promoted::read(&answers)?;
    state.promoted(&promoted.moved);
    let next_due = promoted.next(session, now).await?;
    Ok(Claims { next_due, now, ..Claims::default() })
}

async fn serve(
    state: &State,
    session: &mut Session<'_>,
    asks: &[ClaimAsk],
) -> Result<Claims, Trouble> {
    let turn = state.heads.turn().await;
    let now = state.clock.now();
    let mut look = Look::new(asks, now, state.heads.begin());
    look.first(state, session).await?;
    let mut choice = chosen(state, session, asks, &mut look).await?;
    let mut held = false;
    if choice.is_empty() {
        held = look.everywhere(state, session).await?;
        choice = chosen(state, session, asks, &mut look).await?;
    }
    if !choice.is_empty() {
        return take(state, session, (asks, turn), (choice, look)).await;
    }
    let next_due = look.promoted.next(session, now).await?;
    if let Err(trouble) = session.fly(&[Step::Commit]).await {
        if !look.promoted.moved.is_empty() {
            state.may_have_promoted(&trouble);
        }
        return Err(trouble);
    }
    state.promoted(&look.promoted.moved);
    // Others hold all of it at this moment; some of it may come back.
    let soon = (held && look.found_nothing()).then(|| now.plus(RELOOK_MS));
    let next_due = [next_due, soon, look.waits_until()].into_iter().flatten().min();
    let given = asks.iter().map(|_| Vec::new()).collect();
    Ok(Claims { given, next_due, now, busy: look.busy })
}

/// Who gets what of what was found; more is looked at as long as too much had to be passed over.
async fn chosen(
    state: &State,
    session: &mut Session<'_>,
    asks: &[ClaimAsk],
    look: &mut Look<'_>,
) -> Result<Choice, Trouble> {
    let mut choice = Choice::make(state, asks, look);
    while let Some(wider) = look.widen(&choice) {
        look.again(session, wider).await?;
        choice = Choice::make(state, asks, look);
    }
    Ok(choice)
}

/// Takes what was chosen, and lets others look behind it meanwhile.
async fn take(
    state: &State,
    session: &mut Session<'_>,
    (asks, turn): (&[ClaimAsk], MutexGuard<'_, ()>),
    (choice, look): (Choice, Look<'_>),
) -> Result<Claims, Trouble> {
    let now = choice.decided_at;
    state.heads.raise(&look.reached(&choice.leased));
    drop(turn);
    let given = grant(state, session, choice, &look).await.inspect_err(|_| {
        // What was found is there still, and another claim may have begun behind it meanwhile.
        state.heads.drop_floors();
    })?;
    debug_assert_eq!(given.len(), asks.len(), "an answer for each ask");
    Ok(Claims { given, next_due: None, now, busy: look.busy })
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
            state.doubt(&set, &trouble);
            return Err(trouble);
        }
    };
    state.promoted(&look.promoted.moved);
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
