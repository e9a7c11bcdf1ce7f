//! Tokens: who holds one may send signals to one waitpoint, and to no other.
//!
//! A token is `<kid>:<64 hex digits>`: the name of a key, and an HMAC-SHA256 under it over all that
//! identifies the waitpoint. `docs/tokens.md` has the encoding and known answers. What must stay
//! true:
//!
//! * two different sets of claims never have the same encoding: every field is preceded by its
//!   length;
//! * a token has one spelling: whatever differs from what was minted is refused;
//! * MACs are compared as arrays of 32 bytes, in constant time.

mod link;

use std::fmt;

use hmac::{Hmac, KeyInit, Mac as _};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use uuid::Uuid;
use zeroize::Zeroizing;

pub use link::{Link, Sealed, open, sign, signal_id};

use crate::error::{Code, Rejection};
use crate::ids::ExecutionId;
use crate::text::{Kid, WaitpointKey};
use crate::time::Millis;

/// What is signed in front of the claims, so that no other use of a key yields a token.
const DOMAIN: &[u8] = b"flowfabric/waitpoint/v1";
/// Bytes of a MAC.
const MAC_BYTES: usize = 32;
/// Hexadecimal digits that are shown of a digest.
const FINGERPRINT_CHARS: usize = 16;

/// A MAC.
pub(crate) type Mac = [u8; MAC_BYTES];

/// The secret of a key. It is never printed, and wiped when it is dropped.
#[derive(Clone)]
pub struct Secret(Zeroizing<Vec<u8>>);

impl Secret {
    /// Takes the bytes over.
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// Reads hexadecimal digits of either case; nothing unless they are whole bytes, at least one.
    pub fn from_hex(digits: &str) -> Option<Self> {
        let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
        let bytes = pairs.iter().map(|pair| byte(*pair)).collect::<Option<Vec<u8>>>()?;
        (rest.is_empty() && !bytes.is_empty()).then(|| Self::new(bytes))
    }

    /// The bytes, for whoever stores them.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The HMAC of `parts`, one after the other.
    pub(crate) fn mac(&self, parts: &[&[u8]]) -> Mac {
        let mut hmac =
            Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes keys of any length");
        for part in parts {
            hmac.update(part);
        }
        hmac.finalize().into_bytes().into()
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.bytes().ct_eq(other.bytes()).into()
    }
}

impl Eq for Secret {}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// What a token stands for: one waitpoint of one execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claims<'a> {
    /// The execution.
    pub execution: ExecutionId,
    /// The waitpoint.
    pub waitpoint: Uuid,
    /// What its author calls it.
    pub key: &'a WaitpointKey,
    /// When it was created.
    pub created_at: Millis,
}

impl Claims<'_> {
    /// The MAC that makes a token of them.
    pub(crate) fn mac(&self, kid: &Kid, secret: &Secret) -> Mac {
        let mut fields = Vec::new();
        put(&mut fields, kid.as_str().as_bytes());
        put(&mut fields, self.execution.to_string().as_bytes());
        put(&mut fields, self.waitpoint.as_bytes());
        put(&mut fields, self.key.as_str().as_bytes());
        put(&mut fields, &self.created_at.0.to_be_bytes());
        secret.mac(&[DOMAIN, &fields])
    }
}

/// Appends a field after its length.
fn put(fields: &mut Vec<u8>, field: &[u8]) {
    let length = u32::try_from(field.len()).expect("fields have at most 256 bytes");
    fields.extend_from_slice(&length.to_be_bytes());
    fields.extend_from_slice(field);
}

/// A token as it is handed out. Who reads it may send signals: it is not printed by accident.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

/// The token for a waitpoint.
pub fn mint(kid: &Kid, secret: &Secret, claims: &Claims<'_>) -> Token {
    Token(format!("{kid}:{}", hex(&claims.mac(kid, secret))))
}

impl Token {
    /// Takes apart what somebody presents; nothing unless it is spelled like a token.
    pub fn parse(text: &str) -> Option<Presented> {
        let (kid, digits) = text.split_once(':')?;
        let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
        // Capitals would be a second spelling of the same token.
        let one_spelling = !digits.bytes().any(|digit| digit.is_ascii_uppercase());
        let bytes = pairs.iter().map(|pair| byte(*pair)).collect::<Option<Vec<u8>>>()?;
        let mac = Mac::try_from(bytes).ok().filter(|_| one_spelling && rest.is_empty())?;
        Some(Presented { kid: Kid::new(kid).ok()?, mac })
    }

    /// The text to hand out.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The digest of the text: what is stored in its place.
    pub fn digest(&self) -> [u8; 32] {
        Sha256::digest(self.0.as_bytes()).into()
    }

    /// The beginning of the digest, to tell tokens apart on a screen.
    pub fn fingerprint(&self) -> String {
        fingerprint(&self.digest())
    }
}

/// The beginning of a token's digest, to tell tokens apart on a screen.
pub fn fingerprint(digest: &[u8; 32]) -> String {
    let mut digits = hex(digest);
    digits.truncate(FINGERPRINT_CHARS);
    digits
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({}…)", self.fingerprint())
    }
}

/// A token that somebody presents, taken apart and not yet verified.
#[derive(Clone)]
pub struct Presented {
    pub(crate) kid: Kid,
    pub(crate) mac: Mac,
}

impl Presented {
    /// Takes apart what somebody presents, and says what is wrong with what is no token.
    pub fn read(text: &str) -> Result<Self, Refused> {
        if text.is_empty() {
            return Err(Refused::Missing);
        }
        Token::parse(text).ok_or(Refused::Invalid)
    }

    /// The key that is said to have signed it.
    pub fn kid(&self) -> &Kid {
        &self.kid
    }
}

impl fmt::Debug for Presented {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Presented({}:…)", self.kid)
    }
}

/// Why a token or a link opens nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// There is none.
    Missing,
    /// It was not signed for this, or not by us.
    Invalid,
    /// It is genuine, but its key was replaced and the grace is over.
    Expired,
    /// There are no keys to verify it with.
    NoKeys,
}

impl Refused {
    /// The code that users see.
    pub fn code(self) -> Code {
        match self {
            Self::Missing => Code::MissingToken,
            Self::Invalid => Code::InvalidToken,
            Self::Expired => Code::TokenExpired,
            Self::NoKeys => Code::HmacSecretNotInitialized,
        }
    }
}

impl From<Refused> for Rejection {
    fn from(refused: Refused) -> Self {
        let message = match refused {
            Refused::Missing => "a signal needs a token",
            Refused::Invalid => "the token is not valid for this waitpoint",
            Refused::Expired => "the token was signed by a key that is no longer accepted",
            Refused::NoKeys => "there is no signing key",
        };
        Self::new(refused.code(), message)
    }
}

/// Lower-case hexadecimal digits.
fn hex(bytes: &[u8]) -> String {
    let digit = |value: u8| char::from_digit(value.into(), 16).expect("four bits are one digit");
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 0xf)]).collect()
}

/// The byte that two hexadecimal digits stand for.
fn byte(pair: [u8; 2]) -> Option<u8> {
    let [high, low] = pair.map(|digit| char::from(digit).to_digit(16));
    u8::try_from(high? << 4 | low?).ok()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn secret() -> Secret {
        Secret::from_hex(&format!("{}1", "0".repeat(63))).unwrap()
    }

    #[test]
    fn the_hmac_gives_known_answers() {
        let said = b"k1:{fp:7}:11111111-2222-3333-4444-555555555555:\
                     6ba7b810-9dad-11d1-80b4-00c04fd430c8";
        let expected = "1859ea0ba001f9a8c225e3c4dfdca305478b3cad5209d61be5fd1d4c712da98b";
        assert_eq!(hex(&secret().mac(&[said])), expected);
        // RFC 4231, test case 2.
        let expected = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
        let jefe = Secret::new(b"Jefe".to_vec());
        assert_eq!(hex(&jefe.mac(&[b"what do ya want ", b"for nothing?"])), expected);
    }

    #[test]
    fn secrets_and_tokens_are_not_printed() {
        assert_eq!(format!("{:?}", secret()), "Secret(…)");
        let key = WaitpointKey::new("callback").unwrap();
        let execution = ExecutionId::FIRST;
        let claims =
            Claims { execution, waitpoint: Uuid::nil(), key: &key, created_at: Millis::ZERO };
        let token = mint(&Kid::new("k1").unwrap(), &secret(), &claims);
        let mac = token.as_str().strip_prefix("k1:").unwrap().to_owned();
        let presented = Presented::read(token.as_str()).unwrap();
        assert!(!format!("{token:?} {presented:?}").contains(&mac[..8]));
        assert!(format!("{token:?}").contains(&token.fingerprint()));
    }

    #[test]
    fn what_is_no_token_is_not_taken_apart() {
        let digits = "a".repeat(64);
        assert!(Token::parse(&format!("k1:{digits}")).is_some());
        assert_eq!(Presented::read("").unwrap_err(), Refused::Missing);
        for text in [
            "k1".to_owned(),
            "k1:".to_owned(),
            digits.clone(),
            format!(":{digits}"),
            format!("k1:{}", &digits[1..]),
            format!("k1:{}", &digits[2..]),
            format!("k1:{digits}aa"),
            format!("k1:k2:{digits}"),
            format!("k1:{}", digits.to_uppercase()),
            format!("k1:{}g", &digits[1..]),
            format!("k1:{}é", &digits[2..]),
            format!("k 1:{digits}"),
            format!("{}:{digits}", "k".repeat(65)),
            format!(" k1:{digits}"),
            format!("k1:{digits}\n"),
        ] {
            assert!(Token::parse(&text).is_none(), "{text:?}");
            assert_eq!(Presented::read(&text).unwrap_err(), Refused::Invalid);
        }
    }
}
