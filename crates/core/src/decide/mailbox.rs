//! What the commands on suspensions share: making waitpoints and their tokens, and the one way in which
//! a suspended execution goes on.

use uuid::Uuid;

use crate::error::{Code, Rejection};
use crate::execution::{Execution, LeaseEnd, Next, Runnable, State, Suspended, Wait, WaitReason};
use crate::fold::{Cx, Effects, Key, WaitEffects, WaitKey, WorkingSet};
use crate::ids::ExecutionId;
use crate::keyring::{KeyChange, Keyring, SigningKey};
use crate::limits::{SEED_SECRET_BYTES, WAITPOINTS_MAX};
use crate::suspension::{
    CloseReason, Counts, Suspension, Waitpoint, WaitpointState, WaitpointWord,
};
use crate::text::{Kid, WaitpointKey};
use crate::time::Millis;
use crate::token::{Secret, Token, mint};

/// The name of the key that a store makes when it is first asked for a token.
const FIRST_KID: &str = "k1";

/// The rows that a command on the suspension of `id` needs.
pub(super) fn keys(id: ExecutionId) -> Vec<Key> {
    vec![Key::Execution(id), Key::Wait(WaitKey::Suspension(id)), Key::Wait(WaitKey::Waitpoints(id))]
}

/// Signs tokens with the current key, or with a first one.
pub(super) struct Signer {
    key: SigningKey,
    /// What becomes of the keys: there was none.
    pub change: Option<KeyChange>,
}

impl Signer {
    /// The current key. A store that has none makes one of random bits and keeps it.
    pub fn new(keys: Option<&Keyring>, cx: &mut Cx<'_>) -> Self {
        if let Some(key) = keys.and_then(|keys| keys.current.clone()) {
            return Self { key, change: None };
        }
        let mut bytes = Vec::with_capacity(SEED_SECRET_BYTES);
        while bytes.len() < SEED_SECRET_BYTES {
            bytes.extend(cx.entropy.next_u64().to_be_bytes());
        }
        let kid = Kid::new(FIRST_KID).expect("a valid name");
        let key = SigningKey { kid, secret: Secret::new(bytes), created_at: cx.now };
        let change = KeyChange {
            forget: Vec::new(),
            retire: None,
            withdraw: Vec::new(),
            install: key.clone(),
        };
        Self { key, change: Some(change) }
    }

    /// A waitpoint of `x`, and its token.
    pub fn waitpoint(
        &self,
        (x, attempt_index): (&Execution, u32),
        (id, key): (Uuid, &WaitpointKey),
        state: WaitpointState,
        at: Millis,
    ) -> (Waitpoint, Token) {
        let mut waitpoint = Waitpoint {
            execution: x.id,
            id,
            key: key.clone(),
            attempt_index,
            suspension: None,
            kid: self.key.kid.clone(),
            token_digest: [0; 32],
            created_at: at,
            counts: Counts::default(),
            state,
        };
        let token = mint(&self.key.kid, &self.key.secret, &waitpoint.claims());
        waitpoint.token_digest = token.digest();
        (waitpoint, token)
    }
}

/// The token of a waitpoint, made again: with the key that signed it first while that is accepted, and
/// with the current one after that. Nothing where there are no keys.
pub fn token(waitpoint: &Waitpoint, keys: Option<&Keyring>, now: Millis) -> Option<Token> {
    let keys = keys?;
    let accepted = keys.old.iter().filter(|old| !old.expired(now));
    let first = accepted.map(|old| &old.key).find(|key| key.kid == waitpoint.kid);
    let key = first.or(keys.current.as_ref())?;
    Some(mint(&key.kid, &key.secret, &waitpoint.claims()))
}

/// Refuses `more` waitpoints than an execution may have open.
pub(super) fn room(have: &WorkingSet, id: ExecutionId, more: usize) -> Result<(), Rejection> {
    let open = |row: &&Waitpoint| row.state.word() != WaitpointWord::Closed;
    let count = have.waits.waitpoints_of(id).filter(open).count();
    if count + more <= WAITPOINTS_MAX {
        return Ok(());
    }
    let said = format!("{id} has {count} open waitpoints, and may have {WAITPOINTS_MAX}");
    Err(Rejection::new(Code::TooManyWaitpoints, said))
}

/// The suspension that `x` waits for.
pub(super) fn open<'h>(
    x: &'h Execution,
    have: &'h WorkingSet,
) -> Result<(&'h Suspended, &'h Suspension), Rejection> {
    let open = have.waits.suspension(x.id).filter(|suspension| suspension.is_open(x));
    match (&x.state, open) {
        (State::Suspended(suspended), Some(suspension)) => Ok((suspended, suspension)),
        (State::Suspended(_), None) => {
            let said = format!("{} is suspended, but nothing says for what", x.id);
            Err(Rejection::new(Code::Corruption, said))
        }
        (State::Runnable(_) | State::Active(_) | State::Terminal(_), _) => {
            let said = format!("{} is {}, not suspended", x.id, x.state.phase());
            Err(Rejection::new(Code::ExecutionNotSuspended, said).standing(x.standing()))
        }
    }
}

/// Lets a suspended execution go on with its attempt, `delay_ms` from now.
pub(super) fn resume(x: &Execution, suspended: &Suspended, delay_ms: u64, at: Millis) -> Execution {
    let mut next = x.changed(at);
    let wait = Wait { until: at.plus(delay_ms), reason: WaitReason::ResumeDelay };
    next.state = State::Runnable(Runnable {
        next: Next::Resume(suspended.attempt.clone()),
        wait: (delay_ms > 0).then_some(wait),
        hold: None,
        gated: false,
        last_lease: Some(LeaseEnd::Suspended),
    });
    next
}

/// Something changed that belongs to the suspension of `x`. Its version tells: whoever remembers `x` at
/// a version knows what belongs to it.
pub(super) fn touched(x: &Execution, waits: WaitEffects, at: Millis) -> Effects {
    let execution = match &x.state {
        State::Runnable(_) | State::Active(_) | State::Suspended(_) => Some(x.changed(at)),
        // Nothing more arrives there, and nobody remembers it.
        State::Terminal(_) => None,
    };
    Effects { execution, waits: Some(Box::new(waits)), ..Effects::default() }
}

/// The waitpoints of a suspension, closed.
pub(super) fn closed(
    have: &WorkingSet,
    suspension: &Suspension,
    at: Millis,
    reason: CloseReason,
) -> Vec<Waitpoint> {
    let own = have.waits.waitpoints_of(suspension.execution);
    let own = own.filter(|waitpoint| waitpoint.suspension == Some(suspension.id));
    own.map(|waitpoint| waitpoint.closed(at, reason)).collect()
}
