//! Tokens, links and the keys that sign them: known answers, forgeries, rotation.

#![allow(clippy::unwrap_used)]

use ff_core::condition::digest;
use ff_core::keyring::{KeyChange, Keyring, ListedKey, OldKey, Rotation, Seeding, SigningKey};
use ff_core::limits::{GRACE_MS_MAX, SECRET_BYTES_MAX};
use ff_core::text::{Kid, SignalName, SourceIdentity, WaitpointKey};
use ff_core::token::{self, Claims, Link, Presented, Refused, Secret, Token, mint};
use ff_core::{Code, ExecutionId, Millis, Rejection};
use uuid::Uuid;

/// The page that publishes the answers.
const PAGE: &str = include_str!("../../../docs/tokens.md");

const WAITPOINT: Uuid = Uuid::from_u128(0x6ba7_b810_9dad_11d1_80b4_00c0_4fd4_30c8);
const CREATED: Millis = Millis(1_700_000_000_000);
const NOW: Millis = Millis(1_700_000_100_000);
const HOUR_MS: u64 = 3_600_000;

fn secret_hex(last: u8) -> String {
    format!("{last:064x}")
}

fn secret(last: u8) -> Secret {
    Secret::from_hex(&secret_hex(last)).unwrap()
}

fn kid(text: &str) -> Kid {
    Kid::new(text).unwrap()
}

fn key(text: &str) -> WaitpointKey {
    WaitpointKey::new(text).unwrap()
}

fn execution(text: &str) -> ExecutionId {
    text.parse().unwrap()
}

fn first_execution() -> ExecutionId {
    execution("{fp:181}:11111111-2222-3333-4444-555555555555")
}

fn claims(key: &WaitpointKey) -> Claims<'_> {
    Claims { execution: first_execution(), waitpoint: WAITPOINT, key, created_at: CREATED }
}

/// A keyring whose current key is `k1`.
fn keyring() -> Keyring {
    let current = SigningKey { kid: kid("k1"), secret: secret(1), created_at: Millis::ZERO };
    Keyring { current: Some(current), old: Vec::new() }
}

fn link(signal: &str, identity: Option<&str>) -> Link {
    Link {
        execution: first_execution(),
        waitpoint: WAITPOINT,
        key: key("deploy"),
        created_at: CREATED,
        signal: SignalName::new(signal).unwrap(),
        source_identity: identity.map(|who| SourceIdentity::new(who).unwrap()),
        subject: None,
    }
}

/// A link by which somebody decides on something in particular.
fn link_about(subject: &str, identity: &str) -> Link {
    Link { subject: Some(digest(subject)), ..link("approved", Some(identity)) }
}

fn verify(keys: &Keyring, text: &str, claims: &Claims<'_>, now: Millis) -> Result<(), Refused> {
    keys.verify(&Presented::read(text)?, claims, now)
}

fn follow(keys: &Keyring, text: &str, now: Millis) -> Result<Link, Refused> {
    token::open(text).ok_or(Refused::Invalid)?.verify(keys, now)
}

#[test]
fn tokens_have_the_published_answers() {
    let (callback, other) = (key("callback"), key("wpk:a"));
    let second = Claims {
        execution: execution("{fp:7}:11111111-2222-3333-4444-555555555555"),
        key: &other,
        created_at: Millis::ZERO,
        ..claims(&other)
    };
    for (name, claims, text, fingerprint) in [
        (
            "k1",
            claims(&callback),
            "k1:b00f65274a76e59dc29aef12a212065290a9a31b9babdbe6188d10603d45a2b2",
            "824c663a80de3506",
        ),
        (
            "2026-11",
            second,
            "2026-11:49f9a51b0638d6aff1b380a2cf7d6727c1ea742367808932e91d589845829691",
            "b884d2cf85fee69b",
        ),
    ] {
        let token = mint(&kid(name), &secret(1), &claims);
        assert_eq!((token.as_str(), token.fingerprint().as_str()), (text, fingerprint));
        assert!(PAGE.contains(text) && PAGE.contains(fingerprint), "{name} is not published");
        assert_eq!(Token::parse(text).unwrap().kid(), &kid(name));
    }
}

#[test]
fn links_have_the_published_answers_and_say_everything() {
    for (link, tail) in [
        (
            link("approved", Some("ann")),
            "YXBwcm92ZWQAAAADYW5uAAAAAFsLh7mT9q3ba3rY1nfX5UnQEpCIrMYmVGtiaK1oe6dK",
        ),
        (
            link("rejected", None),
            "cmVqZWN0ZWQAAAAAAAAAAMRamMLQD1NPvZWMnu_m-Ruqse1TgvjGTBFj3pxH7LMP",
        ),
        (
            link_about("release 17", "ann"),
            "YXBwcm92ZWQAAAADYW5uAAAAR3NoYTI1Njo0NmYxOTlhZDU0MTU3OGVmZDI1NzAxMWU4OG\
             U4NGEyYjAwNTlmMjRiY2JhNDM4ZDNmMWIyNDM4MTFkMzM5YzIw2l4c_T8LEM44XhRy8ZLA\
             VXwDjZKviYvrjZG2QOJs7VM",
        ),
    ] {
        let text = token::sign(&link, &kid("k1"), &secret(1));
        let head = "AQAAAAJrMQAAAC17ZnA6MTgxfToxMTExMTExMS0yMjIyLTMzMzMtNDQ0NC01NTU1NTU1NTU1NTUA\
                    AAAQa6e4EJ2tEdGAtADAT9QwyAAAAAZkZXBsb3kAAAAIAAABi8_laAAAAAAI";
        assert_eq!(text, format!("{head}{tail}"));
        assert!(PAGE.contains(&text), "the link to {} is not published", link.signal);
        assert!(text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_'));
        assert_eq!(follow(&keyring(), &text, NOW), Ok(link));
    }
}

#[test]
fn a_link_of_the_longest_texts_can_be_followed() {
    let longest = Link {
        key: key(&"k".repeat(256)),
        signal: SignalName::new("s".repeat(256)).unwrap(),
        source_identity: Some(SourceIdentity::new("i".repeat(256)).unwrap()),
        ..link_about("x", "x")
    };
    let name = "n".repeat(64);
    let current = SigningKey { kid: kid(&name), secret: secret(1), created_at: NOW };
    let keys = Keyring { current: Some(current), old: Vec::new() };
    let text = token::sign(&longest, &kid(&name), &secret(1));
    assert_eq!(follow(&keys, &text, NOW), Ok(longest));
}

#[test]
fn a_token_opens_the_waitpoint_it_was_minted_for_and_no_other() {
    let (callback, other) = (key("callback"), key("callbacl"));
    let claims = claims(&callback);
    let token = mint(&kid("k1"), &secret(1), &claims);
    let keys = keyring();
    assert_eq!(verify(&keys, token.as_str(), &claims, NOW), Ok(()));
    let elsewhere = execution("{fp:181}:11111111-2222-3333-4444-555555555556");
    let partition = execution("{fp:182}:11111111-2222-3333-4444-555555555555");
    for wrong in [
        Claims { execution: elsewhere, ..claims },
        Claims { execution: partition, ..claims },
        Claims { waitpoint: Uuid::from_u128(WAITPOINT.as_u128() ^ 1), ..claims },
        Claims { key: &other, ..claims },
        Claims { created_at: Millis(CREATED.0 + 1), ..claims },
    ] {
        assert_eq!(verify(&keys, token.as_str(), &wrong, NOW), Err(Refused::Invalid), "{wrong:?}");
    }
    let presented = Presented::read(token.as_str()).unwrap();
    assert_eq!(keys.refuse(&presented), Refused::Invalid);
}

#[test]
fn claims_that_read_alike_when_joined_have_different_tokens() {
    // The kid ends where the execution begins, and so on: lengths tell them apart.
    let (long, short) = (key("aa"), key("a"));
    let one = mint(&kid("k"), &secret(1), &claims(&long));
    let other = mint(&kid("ka"), &secret(1), &claims(&short));
    assert_ne!(one.as_str().split_once(':').unwrap().1, other.as_str().split_once(':').unwrap().1);
}

#[test]
fn every_changed_bit_spoils_a_token_and_a_link() {
    let callback = key("callback");
    let claims = claims(&callback);
    let token = mint(&kid("k1"), &secret(1), &claims);
    let link = token::sign(&link_about("release 17", "ann"), &kid("k1"), &secret(1));
    let mut keys = keyring();
    // Changed by a bit, the kid may be that of another key.
    for name in ["k0", "k3", "k5", "i1"] {
        let key = SigningKey { kid: kid(name), secret: secret(9), created_at: NOW };
        keys.old.push(OldKey { key, expires_at: NOW });
    }
    for (text, is_link) in [(token.as_str(), false), (&link, true)] {
        for bit in 0..text.len() * 8 {
            let mut bytes = text.as_bytes().to_vec();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let Ok(forged) = String::from_utf8(bytes) else {
                // No caller can present what is no text.
                continue;
            };
            let outcome = if is_link {
                follow(&keys, &forged, NOW).map(drop)
            } else {
                verify(&keys, &forged, &claims, NOW)
            };
            assert_eq!(outcome, Err(Refused::Invalid), "bit {bit} of {text}");
        }
        for length in 1..text.len() {
            let (cut, tail) = (&text[..length], &text[text.len() - length..]);
            for part in [cut, tail] {
                assert_eq!(verify(&keys, part, &claims, NOW), Err(Refused::Invalid), "{part}");
                assert_eq!(follow(&keys, part, NOW), Err(Refused::Invalid), "{part}");
            }
        }
        let padded = format!("{text}=");
        assert_eq!(verify(&keys, &padded, &claims, NOW), Err(Refused::Invalid));
        assert_eq!(follow(&keys, &padded, NOW), Err(Refused::Invalid));
    }
    let renamed = token.as_str().replace("k1:", "k3:");
    assert_eq!(verify(&keys, &renamed, &claims, NOW), Err(Refused::Invalid));
    let unknown = token.as_str().replace("k1:", "k7:");
    assert_eq!(verify(&keys, &unknown, &claims, NOW), Err(Refused::Invalid));
}

#[test]
fn a_link_is_no_token_and_a_token_no_link() {
    let callback = key("callback");
    let claims = claims(&callback);
    let token = mint(&kid("k1"), &secret(1), &claims);
    assert!(token::open(token.as_str()).is_none());
    let link = token::sign(&link("approved", None), &kid("k1"), &secret(1));
    assert_eq!(verify(&keyring(), &link, &claims, NOW), Err(Refused::Invalid));
    assert!(token::open(&"A".repeat(1 << 20)).is_none());
}

#[test]
fn ten_thousand_guesses_are_refused() {
    let callback = key("callback");
    let claims = claims(&callback);
    let keys = keyring();
    // SplitMix64, from a seed that stays.
    let mut state = 2_026_u64;
    let mut next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    };
    for _ in 0..10_000 {
        let guess = format!("k1:{:016x}{:016x}{:016x}{:016x}", next(), next(), next(), next());
        assert_eq!(verify(&keys, &guess, &claims, NOW), Err(Refused::Invalid), "{guess}");
    }
}

#[test]
fn an_empty_keyring_says_so_whatever_the_token() {
    let callback = key("callback");
    let claims = claims(&callback);
    let token = mint(&kid("k1"), &secret(1), &claims);
    let none = Keyring::default();
    assert_eq!(verify(&none, token.as_str(), &claims, NOW), Err(Refused::NoKeys));
    assert_eq!(none.refuse(&Presented::read(token.as_str()).unwrap()), Refused::NoKeys);
    let codes = [Refused::Missing, Refused::Invalid, Refused::Expired, Refused::NoKeys]
        .map(|refused| Rejection::from(refused).code.as_str());
    let expected =
        ["missing_token", "invalid_token", "token_expired", "hmac_secret_not_initialized"];
    assert_eq!(codes, expected);
}

/// Rotates, and answers the key replaced and the number of keys forgotten.
fn rotated(keys: &mut Keyring, name: &str, last: u8, now: Millis) -> (Option<Kid>, usize) {
    match keys.rotate(name, &secret_hex(last), HOUR_MS, now).unwrap() {
        Rotation::Rotated { previous_kid, new_kid, gc_count, change } => {
            assert_eq!(new_kid, kid(name));
            keys.apply(change);
            (previous_kid, gc_count)
        }
        Rotation::Noop { kid } => panic!("{kid} signs already"),
    }
}

#[test]
fn replaced_keys_verify_until_their_own_end() {
    let callback = key("callback");
    let claims = claims(&callback);
    let mut keys = Keyring::default();
    assert_eq!(rotated(&mut keys, "a", 1, NOW), (None, 0));
    let old = mint(&kid("a"), &secret(1), &claims);
    let sealed = token::sign(&link("approved", None), &kid("a"), &secret(1));
    assert_eq!(rotated(&mut keys, "b", 2, NOW), (Some(kid("a")), 0));
    let later = NOW.plus(HOUR_MS / 2);
    assert_eq!(rotated(&mut keys, "c", 3, later), (Some(kid("b")), 0));
    let end = NOW.plus(HOUR_MS);
    let listed = |kid: &str, created_at, expires_at| ListedKey {
        kid: self::kid(kid),
        created_at,
        expires_at,
    };
    let (c, b) = (listed("c", later, None), listed("b", NOW, Some(later.plus(HOUR_MS))));
    assert_eq!(keys.list(end), [c.clone(), listed("a", NOW, Some(end)), b.clone()]);
    // The last moment counts; after it only what is genuine hears why.
    assert_eq!(verify(&keys, old.as_str(), &claims, end), Ok(()));
    assert!(follow(&keys, &sealed, end).is_ok());
    let after = end.plus(1);
    assert_eq!(verify(&keys, old.as_str(), &claims, after), Err(Refused::Expired));
    assert_eq!(follow(&keys, &sealed, after), Err(Refused::Expired));
    let wrong = Claims { waitpoint: Uuid::nil(), ..claims };
    assert_eq!(verify(&keys, old.as_str(), &wrong, after), Err(Refused::Invalid));
    assert_eq!(keys.refuse(&Presented::read(old.as_str()).unwrap()), Refused::Invalid);
    assert_eq!(keys.list(after), [c, b]);
    for (name, last) in [("b", 2), ("c", 3)] {
        let token = mint(&kid(name), &secret(last), &claims);
        assert_eq!(verify(&keys, token.as_str(), &claims, after), Ok(()));
    }
    // The next rotation forgets it, and then nobody knows that it was genuine.
    assert_eq!(rotated(&mut keys, "d", 4, after), (Some(kid("c")), 1));
    assert_eq!(verify(&keys, old.as_str(), &claims, after), Err(Refused::Invalid));
    // Its name is free again.
    assert_eq!(rotated(&mut keys, "a", 5, after), (Some(kid("d")), 0));
    assert_eq!(verify(&keys, old.as_str(), &claims, after), Err(Refused::Invalid));
}

#[test]
fn a_key_at_its_very_end_is_not_forgotten() {
    let mut keys = keyring();
    rotated(&mut keys, "k2", 2, NOW);
    let end = NOW.plus(HOUR_MS);
    assert_eq!(rotated(&mut keys.clone(), "k3", 3, end).1, 0);
    assert_eq!(rotated(&mut keys, "k3", 3, end.plus(1)).1, 1);
}

#[test]
fn a_repeated_rotation_changes_nothing_and_a_clash_is_refused() {
    let mut keys = keyring();
    rotated(&mut keys, "k2", 2, NOW);
    let again = keys.rotate("k2", &secret_hex(2).to_uppercase(), 0, NOW.plus(5));
    assert_eq!(again, Ok(Rotation::Noop { kid: kid("k2") }));
    for (name, last) in [("k2", 3), ("k1", 3), ("k1", 1)] {
        // Also once its grace is over.
        for now in [NOW, NOW.plus(2 * HOUR_MS)] {
            let refused = keys.rotate(name, &secret_hex(last), 0, now).unwrap_err();
            let (code, value) = (refused.code, refused.value.as_deref());
            assert_eq!((code, value), (Code::RotationConflict, Some(name)));
        }
    }
}

#[test]
fn keys_that_make_no_sense_are_refused_and_their_secrets_not_shown() {
    let keys = keyring();
    let good = secret_hex(7);
    let long = "ab".repeat(SECRET_BYTES_MAX + 1);
    for (name, secret, grace_ms, code) in [
        ("", good.as_str(), 0, Code::InvalidKid),
        ("a:b", &good, 0, Code::InvalidKid),
        ("a b", &good, 0, Code::InvalidKid),
        ("k2", "", 0, Code::InvalidSecretHex),
        ("k2", "abc", 0, Code::InvalidSecretHex),
        ("k2", "qwerty", 0, Code::InvalidSecretHex),
        ("k2", "+a-b", 0, Code::InvalidSecretHex),
        ("k2", &long, 0, Code::InvalidSecretHex),
        ("k2", &good, GRACE_MS_MAX + 1, Code::InvalidGraceMs),
    ] {
        let refused = keys.rotate(name, secret, grace_ms, NOW).unwrap_err();
        assert_eq!(refused.code, code, "{refused}");
        assert!(secret.is_empty() || !refused.message.contains(secret), "{refused}");
    }
    assert!(keys.rotate("k2", &good, GRACE_MS_MAX, NOW).is_ok());
    let short = Keyring::default().seed("k2", &good[2..], NOW).unwrap_err();
    assert_eq!(short.code, Code::InvalidSecretHex);
}

#[test]
fn a_store_is_given_its_first_key_once() {
    let mut keys = Keyring::default();
    let Seeding::Seeded { change } = keys.seed("k1", &secret_hex(1), NOW).unwrap() else {
        panic!("there was no key");
    };
    let install = SigningKey { kid: kid("k1"), secret: secret(1), created_at: NOW };
    assert_eq!(
        change,
        KeyChange { forget: Vec::new(), retire: None, withdraw: Vec::new(), install }
    );
    keys.apply(change);
    for (last, same_secret) in [(1, true), (2, false)] {
        let again = keys.seed("k1", &secret_hex(last), NOW).unwrap();
        assert_eq!(again, Seeding::AlreadySeeded { kid: kid("k1"), same_secret });
    }
    let refused = keys.seed("k2", &secret_hex(2), NOW).unwrap_err();
    assert_eq!(refused.code, Code::InvalidInput);
    assert!(refused.message.contains("use rotate"), "{refused}");
    // A process that still starts with the first key finds it after a rotation.
    rotated(&mut keys, "k2", 2, NOW);
    let again = keys.seed("k1", &secret_hex(1), NOW).unwrap();
    assert_eq!(again, Seeding::AlreadySeeded { kid: kid("k1"), same_secret: true });
}
