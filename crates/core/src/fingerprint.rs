//! Fingerprints: what a creation said, digested, to tell a repeat from a clash.

use sha2::{Digest, Sha256};

use crate::text::Encoding;

/// A digest of everything a creation said, field by field, so that a clash can be named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fingerprint(pub Vec<u8>);

/// Bytes kept of the digest of each field; only used to name the one that differs.
const FIELD_BYTES: usize = 2;
/// Bytes kept of the digest of everything; decides equality.
const WHOLE_BYTES: usize = 16;

/// A digest of a result and how it is encoded, to tell a repeated completion from another one.
///
/// Eight bytes: it is compared only with what the holder of the same fence sends, who gains nothing by a
/// clash, and two results clash by chance once in 10^19. More would be written with every completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResultDigest(pub i64);

impl ResultDigest {
    /// Of a result, or of none.
    pub fn of(result: Option<&[u8]>, encoding: Option<&Encoding>) -> Self {
        let mut whole = Sha256::new();
        for part in [encoding.map(|encoding| encoding.as_str().as_bytes()), result] {
            // Its length first, so that no two pairs read the same.
            whole.update(part.map_or(u64::MAX, |part| part.len() as u64).to_be_bytes());
            whole.update(part.unwrap_or_default());
        }
        let digest = whole.finalize();
        Self(i64::from_be_bytes(std::array::from_fn(|at| digest[at])))
    }
}

impl Fingerprint {
    /// Digests each field and the whole.
    pub fn of(fields: &[Vec<u8>]) -> Self {
        let mut whole = Sha256::new();
        let mut print = vec![0; WHOLE_BYTES];
        for field in fields {
            let digest = Sha256::digest(field);
            whole.update(digest);
            print.extend_from_slice(&digest[..FIELD_BYTES]);
        }
        print[..WHOLE_BYTES].copy_from_slice(&whole.finalize()[..WHOLE_BYTES]);
        Self(print)
    }

    /// The first field in which another one differs; `names` are those of the fields.
    pub fn difference(&self, sent: &Self, names: &[&'static str]) -> Option<&'static str> {
        if self == sent {
            return None;
        }
        let part = |print: &Self, n: usize| -> Option<Vec<u8>> {
            let from = WHOLE_BYTES + n * FIELD_BYTES;
            print.0.get(from..from + FIELD_BYTES).map(<[u8]>::to_vec)
        };
        let differs = (0..names.len()).find(|n| part(self, *n) != part(sent, *n));
        Some(differs.map_or("content", |n| names[n]))
    }
}
