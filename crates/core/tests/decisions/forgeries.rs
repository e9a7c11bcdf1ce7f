//! Who holds the token of a waitpoint may send signals there; nobody else learns anything.

use ff_core::condition::digest;
use ff_core::decide::create::Create;
use ff_core::decide::deliver::{Authority, DeliverSignal, Delivered};
use ff_core::decide::keys::{Rotated, Seeded};
use ff_core::suspension::Effect;
use ff_core::text::{SignalName, SourceIdentity};
use ff_core::time::Entropy;
use ff_core::token::{self, Link};
use ff_core::{Code, ExecutionId};
use uuid::Uuid;

use crate::commands::{
    ANSWER, EARLY, cancel, forged_token, make_waitpoint, resume, rotate_key, seed_key, signal,
    suspend, token_of,
};
use crate::samples::policy;
use crate::suspensions::{answer, pause};
use crate::world::{Dice, Life, claim, create, id};

const GRACE_MS: u64 = 1_000;

fn suspended() -> Life {
    let mut life = Life::under(&policy());
    life.tell(seed_key());
    life.claim();
    pause(&mut life);
    life
}

fn with_token(life: &Life, waitpoint: Uuid, token: &str) -> DeliverSignal {
    let authority = Authority::Token(token.to_owned());
    DeliverSignal { authority, ..signal(&life.world, life.id, waitpoint, 1) }
}

/// Sends a signal with this token; what it is refused with, without a trace.
fn refused(life: &mut Life, token: &str) -> Code {
    let sent = with_token(life, ANSWER, token);
    life.refused(sent).code
}

#[test]
fn every_changed_bit_and_every_part_of_a_token_is_an_invalid_token() {
    let mut life = suspended();
    let token = token_of(&life.world, life.id, ANSWER);
    for bit in 0..token.len() * 8 {
        let mut bytes = token.clone().into_bytes();
        bytes[bit / 8] ^= 1 << (bit % 8);
        // No caller can present what is no text.
        let Ok(forged) = String::from_utf8(bytes) else { continue };
        assert_eq!(refused(&mut life, &forged), Code::InvalidToken, "bit {bit}");
    }
    for length in 1..token.len() {
        assert_eq!(refused(&mut life, &token[..length]), Code::InvalidToken, "{length}");
        assert_eq!(refused(&mut life, &token[length..]), Code::InvalidToken, "{length}");
    }
    for forged in [
        token.replace("k1:", "k2:"),
        token.replace("k1:", "K1:"),
        token.to_uppercase(),
        format!("{token}00"),
        format!(" {token}"),
        forged_token(),
    ] {
        assert_eq!(refused(&mut life, &forged), Code::InvalidToken, "{forged}");
    }
    assert_eq!(refused(&mut life, ""), Code::MissingToken);
    answer(&mut life, 1);
}

#[test]
fn ten_thousand_guesses_are_invalid_tokens() {
    let mut life = suspended();
    let mut dice = Dice(17);
    for _ in 0..10_000 {
        let [a, b, c, d] = [0; 4].map(|_: u8| dice.next_u64());
        let guess = format!("k1:{a:016x}{b:016x}{c:016x}{d:016x}");
        assert_eq!(refused(&mut life, &guess), Code::InvalidToken, "{guess}");
    }
}

/// A waiting execution with a waitpoint that it does not wait at, and another that waits.
fn neighbours() -> (Life, ExecutionId) {
    let mut life = Life::under(&policy());
    life.tell(seed_key());
    life.claim();
    life.tell(make_waitpoint(life.id, life.fence));
    pause(&mut life);
    let other = id(2);
    life.tell(Create { idempotency_key: None, ..create(2) });
    let fence = life.tell(claim(other, 99)).fence;
    life.tell(suspend(other, fence));
    (life, other)
}

#[test]
fn a_token_of_another_execution_or_another_waitpoint_is_an_invalid_token() {
    let (mut life, other) = neighbours();
    let own = token_of(&life.world, life.id, ANSWER);
    let elsewhere = token_of(&life.world, life.id, EARLY);
    let foreign = token_of(&life.world, other, ANSWER);
    for wrong in [&elsewhere, &foreign] {
        assert_ne!(*wrong, forged_token(), "it is somebody's token");
        assert_eq!(refused(&mut life, wrong), Code::InvalidToken);
    }
    let sent = with_token(&life, EARLY, &own);
    assert_eq!(life.refused(sent).code, Code::InvalidToken);
    // Where there is no such waitpoint, whoever holds a genuine token hears the same.
    for token in [&own, &elsewhere, &foreign, &forged_token()] {
        let sent = with_token(&life, Uuid::from_u128(0xDEAD), token);
        assert_eq!(life.refused(sent).code, Code::InvalidToken);
    }
}

#[test]
fn whoever_has_no_token_cannot_tell_what_became_of_a_waitpoint() {
    let waiting = suspended();
    let (mut told, mut let_on, mut ended) = (waiting.clone(), waiting.clone(), waiting.clone());
    answer(&mut told, 1);
    let_on.tell(resume(let_on.id));
    ended.tell(cancel(ended.id));
    let mut never = Life::under(&policy());
    never.tell(seed_key());
    let mut messages = Vec::new();
    for mut life in [waiting, told, let_on, ended, never] {
        let sent = with_token(&life, ANSWER, &forged_token());
        messages.push(life.refused(sent));
    }
    assert_eq!(messages[0].code, Code::InvalidToken);
    assert!(messages.iter().all(|one| *one == messages[0]), "{messages:#?}");
}

#[test]
fn tokens_of_replaced_keys_are_good_until_their_grace_is_over() {
    let mut life = suspended();
    let token = token_of(&life.world, life.id, ANSWER);
    life.tell(rotate_key(2, GRACE_MS));
    life.pass(GRACE_MS / 2);
    life.tell(rotate_key(3, GRACE_MS));
    life.pass(GRACE_MS / 2);
    let accepted = with_token(&life, ANSWER, &token);
    life.clone().tell(accepted);
    life.pass(1);
    assert_eq!(refused(&mut life, &token), Code::TokenExpired);
    // Only whoever holds a genuine one is told so.
    let forged = format!("{}0", &token[..token.len() - 1]);
    let forged = if forged == token { format!("{}1", &token[..token.len() - 1]) } else { forged };
    assert_eq!(refused(&mut life, &forged), Code::InvalidToken);
    let sent = with_token(&life, EARLY, &token);
    assert_eq!(life.refused(sent).code, Code::InvalidToken);
    // The next rotation forgets the key, and with it who was genuine.
    life.tell(rotate_key(4, GRACE_MS));
    assert_eq!(refused(&mut life, &token), Code::InvalidToken);
    assert_eq!(life.refused(rotate_key(3, GRACE_MS)).code, Code::RotationConflict);
    assert_eq!(life.repeat(rotate_key(4, 0)), Rotated::Noop);
}

#[test]
fn a_store_without_keys_makes_its_first_when_somebody_waits() {
    let mut life = Life::under(&policy());
    life.claim();
    let sent = with_token(&life, ANSWER, &forged_token());
    assert_eq!(life.refused(sent).code, Code::HmacSecretNotInitialized);
    pause(&mut life);
    let keys = &life.world.waits.keyring;
    let first = keys.current.as_ref().unwrap();
    assert_eq!((first.kid.as_str(), first.secret.bytes().len()), ("k1", 32));
    let again = life.repeat(seed_key());
    assert_eq!(again, Seeded::AlreadySeeded { same_secret: false });
    answer(&mut life, 1);
    // Two stores do not share one.
    let mut other = Life::under(&policy());
    other.world.dice = Dice(18);
    other.claim();
    pause(&mut other);
    let keys = [&life, &other].map(|life| life.world.waits.keyring.current.clone().unwrap());
    assert_ne!(keys[0].secret, keys[1].secret);
}

fn link(life: &Life, who: Option<&str>, subject: Option<&str>) -> (Link, String) {
    let row = life.world.waits.waitpoint(life.id, ANSWER).unwrap();
    let link = Link {
        execution: life.id,
        waitpoint: row.id,
        key: row.key.clone(),
        created_at: row.created_at,
        signal: SignalName::new("approved").unwrap(),
        source_identity: who.map(|who| SourceIdentity::new(who).unwrap()),
        subject: subject.map(digest),
    };
    let key = life.world.waits.keyring.current.as_ref().unwrap();
    let text = token::sign(&link, &key.kid, &key.secret);
    (link, text)
}

/// What somebody who follows a link sends.
fn follow(life: &Life, link: &Link, text: &str) -> DeliverSignal {
    DeliverSignal {
        authority: Authority::Link(text.to_owned()),
        name: link.signal.clone(),
        source_identity: link.source_identity.as_ref().map_or("", |who| who.as_str()).to_owned(),
        subject: link.subject.clone(),
        ..signal(&life.world, life.id, link.waitpoint, 1)
    }
}

#[test]
fn a_link_sends_what_it_says_and_nothing_else() {
    let mut life = suspended();
    let (link, text) = link(&life, Some("ann"), Some("release 17"));
    let own = follow(&life, &link, &text);
    for wrong in [
        DeliverSignal { name: SignalName::new("rejected").unwrap(), ..own.clone() },
        DeliverSignal { source_identity: "bob".to_owned(), ..own.clone() },
        DeliverSignal { source_identity: String::new(), ..own.clone() },
        DeliverSignal { subject: None, ..own.clone() },
        DeliverSignal { subject: Some(digest("release 18")), ..own.clone() },
        DeliverSignal { waitpoint: EARLY, ..own.clone() },
        DeliverSignal { authority: Authority::Link(text[1..].to_owned()), ..own.clone() },
        DeliverSignal { authority: Authority::Token(text.clone()), ..own.clone() },
        DeliverSignal { authority: Authority::Link(forged_token()), ..own.clone() },
    ] {
        assert_eq!(life.refused(wrong.clone()).code, Code::InvalidToken, "{wrong:?}");
    }
    let (effect, signal_id) = (Effect::ConditionSatisfied, own.signal);
    assert_eq!(life.tell(own), Delivered::Accepted { signal_id, effect });
}

#[test]
fn a_link_of_a_replaced_key_is_good_until_its_grace_is_over() {
    let mut life = suspended();
    let (link, text) = link(&life, None, None);
    life.tell(rotate_key(2, GRACE_MS));
    life.pass(GRACE_MS);
    let own = follow(&life, &link, &text);
    life.clone().tell(own.clone());
    life.pass(1);
    assert_eq!(life.refused(own).code, Code::TokenExpired);
}

#[test]
fn secrets_and_tokens_are_in_no_command_that_is_printed() {
    let life = suspended();
    let token = token_of(&life.world, life.id, ANSWER);
    let sent = with_token(&life, ANSWER, &token);
    assert!(!format!("{sent:?}").contains(&token[3..]));
    let rotate = rotate_key(2, 0);
    assert!(!format!("{rotate:?}").contains(&rotate.secret_hex.0));
}
