//! The keys that sign tokens: one signs, the ones before it verify for as long as was said.

use std::sync::Arc;

use ff_core::decide::keys::{RotateKey, Rotated, SecretHex, SeedKey, Seeded};
use ff_core::decide::suspend::Suspend;
use ff_core::error::Code;
use ff_core::fold::{Key, WaitKey};
use ff_core::suspension::Effect;
use serde_json::json;

use crate::world::waits::{Mailbox, single};
use crate::world::{World, code};

fn secret(digit: char) -> SecretHex {
    SecretHex(String::from(digit).repeat(64))
}

fn rotate(kid: &str, digit: char, grace_ms: u64) -> RotateKey {
    RotateKey { kid: kid.to_owned(), secret_hex: secret(digit), grace_ms, withdraw: Vec::new() }
}

async fn kids(w: &World) -> Vec<String> {
    let have = w.store.backend.get(&[Key::Wait(WaitKey::Keyring)]).await.expect("the store works");
    let keys = have.waits.keyring.expect("it was asked for").list(w.now());
    keys.into_iter().map(|key| key.kid.to_string()).collect()
}

/// A waitpoint where every signal is kept and none is enough.
async fn listening(w: &World) -> Mailbox {
    let (id, fence) = w.running(json!({})).await;
    let condition = single("answer", Some("never"));
    w.suspend(Suspend { condition, ..w.pause(id, fence) }).await.remove(0)
}

/// A store makes its first key itself; two stores make two.
pub async fn a_first_key_is_made_when_it_is_needed(w: Arc<World>) {
    assert!(kids(&w).await.is_empty());
    let mailbox = listening(&w).await;
    assert_eq!(kids(&w).await.len(), 1);
    assert_eq!(mailbox.token.split(':').next(), kids(&w).await.first().map(String::as_str));
    let other = listening(&w).await;
    assert_eq!(kids(&w).await.len(), 1, "the key is kept");
    assert_ne!(mailbox.token, other.token);
    w.deliver(mailbox.signal(&w, "go")).await;
}

/// A first key may be given, once.
pub async fn a_store_is_given_its_first_key(w: Arc<World>) {
    let seed = |kid: &str, digit| SeedKey { kid: kid.to_owned(), secret_hex: secret(digit) };
    assert_eq!(w.run(seed("a", '1')).await, Ok(Seeded::Seeded));
    assert_eq!(w.run(seed("a", '1')).await, Ok(Seeded::AlreadySeeded { same_secret: true }));
    assert_eq!(w.run(seed("a", '2')).await, Ok(Seeded::AlreadySeeded { same_secret: false }));
    assert_eq!(code(w.run(seed("b", '1')).await), Code::InvalidInput);
    let short = SeedKey { secret_hex: SecretHex("11".to_owned()), ..seed("a", '1') };
    assert_eq!(code(w.run(short).await), Code::InvalidSecretHex);
    assert_eq!(kids(&w).await, ["a"]);
    assert!(listening(&w).await.token.starts_with("a:"));
}

/// Three keys in turn: each verifies until its own end, and then says that it is over.
pub async fn keys_verify_until_their_grace_is_over(w: Arc<World>) {
    let first = SeedKey { kid: "a".to_owned(), secret_hex: secret('1') };
    w.run(first).await.expect("there is none");
    let by_a = listening(&w).await;
    let rotated = |previous: &str, gc_count| {
        Ok(Rotated::Rotated { previous_kid: Some(previous.to_owned()), gc_count })
    };
    assert_eq!(w.run(rotate("b", '2', 1_000)).await, rotated("a", 0));
    let by_b = listening(&w).await;
    w.pass(500);
    assert_eq!(w.run(rotate("c", '3', 10_000)).await, rotated("b", 0));
    let by_c = listening(&w).await;
    assert_eq!(kids(&w).await, ["c", "a", "b"]);
    for (mailbox, kid) in [(&by_a, "a:"), (&by_b, "b:"), (&by_c, "c:")] {
        assert!(mailbox.token.starts_with(kid));
        assert_eq!(w.deliver(mailbox.signal(&w, "go")).await, Effect::IgnoredMatcherFailed);
    }
    w.pass(500);
    w.deliver(by_a.signal(&w, "go")).await;
    w.pass(1);
    assert_eq!(code(w.run(by_a.signal(&w, "go")).await), Code::TokenExpired);
    assert_eq!(kids(&w).await, ["c", "b"]);
    w.deliver(by_b.signal(&w, "go")).await;
    assert_eq!(w.run(rotate("d", '4', 0)).await, rotated("c", 1));
    assert_eq!(code(w.run(by_a.signal(&w, "go")).await), Code::InvalidToken);
    w.deliver(by_c.signal(&w, "go")).await;
    w.pass(1);
    assert_eq!(code(w.run(by_c.signal(&w, "go")).await), Code::TokenExpired);
    w.deliver(by_b.signal(&w, "go")).await;
    // The rotation before is sent again, late: it does not undo the last one.
    assert_eq!(code(w.run(rotate("c", '3', 10_000)).await), Code::RotationConflict);
    assert_eq!(kids(&w).await, ["d", "b"]);
}

/// A key that leaked while it is still accepted is withdrawn, and no other.
pub async fn a_rotation_may_withdraw_earlier_keys(w: Arc<World>) {
    let mut by = Vec::new();
    for (kid, digit) in [("a", '1'), ("b", '2'), ("c", '3')] {
        w.run(rotate(kid, digit, 10_000)).await.expect("another key");
        by.push(listening(&w).await);
    }
    let withdraw = |kids: &[&str]| RotateKey {
        withdraw: kids.iter().map(ToString::to_string).collect(),
        ..rotate("d", '4', 10_000)
    };
    // The one that signs is replaced anyway, and nobody has heard of the last.
    for kid in ["c", "x"] {
        assert_eq!(code(w.run(withdraw(&["a", kid])).await), Code::InvalidInput);
    }
    let same = RotateKey { withdraw: vec!["a".to_owned()], ..rotate("d", '1', 10_000) };
    assert_eq!(code(w.run(same).await), Code::InvalidSecretHex, "it would sign under another name");
    assert_eq!(kids(&w).await, ["c", "a", "b"], "nothing was changed");
    let rotated =
        |before: &str| Ok(Rotated::Rotated { previous_kid: Some(before.to_owned()), gc_count: 0 });
    assert_eq!(w.run(withdraw(&["a", "a"])).await, rotated("c"));
    assert_eq!(w.run(withdraw(&["a"])).await, Ok(Rotated::Noop), "sent twice");
    assert_eq!(code(w.run(withdraw(&["b"])).await), Code::InvalidInput, "not withdrawn by that");
    assert_eq!(kids(&w).await, ["d", "b", "c"]);
    assert_eq!(code(w.run(by[0].signal(&w, "go")).await), Code::TokenExpired);
    for mailbox in &by[1..] {
        w.deliver(mailbox.signal(&w, "go")).await;
    }
    // It never comes back, whatever it is called, and however much time passes.
    w.pass(20_000);
    let itself = RotateKey { withdraw: vec!["b".to_owned()], ..rotate("b", '5', 0) };
    assert_eq!(code(w.run(itself).await), Code::InvalidInput, "it has expired, and is to sign");
    assert_eq!(w.run(rotate("e", '5', 0)).await.map(|_| ()), Ok(()));
    assert_eq!(code(w.run(rotate("a", '6', 0)).await), Code::RotationConflict);
    assert_eq!(code(w.run(rotate("f", '1', 0)).await), Code::InvalidSecretHex);
    assert_eq!(code(w.run(by[0].signal(&w, "go")).await), Code::TokenExpired);
}

/// A key is replaced and withdrawn by one batch.
pub async fn keys_are_replaced_and_withdrawn_together(w: Arc<World>) {
    w.run(rotate("a", '1', 0)).await.expect("there is none");
    let by_a = listening(&w).await;
    let last = RotateKey { withdraw: vec!["a".to_owned()], ..rotate("c", '3', 10_000) };
    let done = w.batch(vec![rotate("b", '2', 10_000).into(), last.into()]).await;
    assert!(done.iter().all(Result::is_ok), "{done:?}");
    assert_eq!(kids(&w).await, ["c", "b"]);
    assert_eq!(code(w.run(by_a.signal(&w, "go")).await), Code::TokenExpired);
    let three = [("d", "b"), ("e", "c"), ("f", "d")].map(|(kid, old)| {
        let withdraw = vec![old.to_owned()];
        RotateKey { withdraw, ..rotate(kid, kid.chars().next().expect("one"), 10_000) }.into()
    });
    let done = w.batch(three.to_vec()).await;
    assert!(done.iter().all(Result::is_ok), "{done:?}");
    assert_eq!(kids(&w).await, ["f", "e"]);
}

/// Rotating to the current key is nothing; to a name that means another secret, a conflict.
pub async fn a_kid_means_one_secret(w: Arc<World>) {
    w.run(rotate("a", '1', 0)).await.expect("there is none");
    assert_eq!(w.run(rotate("a", '1', 0)).await, Ok(Rotated::Noop));
    assert_eq!(code(w.run(rotate("a", '2', 0)).await), Code::RotationConflict);
    w.run(rotate("b", '2', 1_000)).await.expect("another key");
    assert_eq!(code(w.run(rotate("a", '1', 0)).await), Code::RotationConflict);
    assert_eq!(kids(&w).await, ["b", "a"]);
}

/// What is no key is refused, and changes nothing.
pub async fn malformed_keys_are_refused(w: Arc<World>) {
    let wrong = [
        (RotateKey { kid: String::new(), ..rotate("a", '1', 0) }, Code::InvalidKid),
        (RotateKey { kid: "a:b".to_owned(), ..rotate("a", '1', 0) }, Code::InvalidKid),
        (
            RotateKey { secret_hex: SecretHex(String::new()), ..rotate("a", '1', 0) },
            Code::InvalidSecretHex,
        ),
        (
            RotateKey { secret_hex: SecretHex("abc".to_owned()), ..rotate("a", '1', 0) },
            Code::InvalidSecretHex,
        ),
        (
            RotateKey { secret_hex: SecretHex("zz".to_owned()), ..rotate("a", '1', 0) },
            Code::InvalidSecretHex,
        ),
        (rotate("a", '1', 1 << 53), Code::InvalidGraceMs),
    ];
    for (rotate, expected) in wrong {
        assert_eq!(code(w.run(rotate).await), expected);
    }
    assert!(kids(&w).await.is_empty());
}
