//! Fingerprints: what a creation said, digested, to tell a repeat from a clash.

use sha2::{Digest, Sha256};

/// A digest of everything a creation said, field by field, so that a clash can be named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fingerprint(pub Vec<u8>);

/// Bytes kept of the digest of each field; only used to name the one that differs.
const FIELD_BYTES: usize = 2;
/// Bytes kept of the digest of everything; decides equality.
const WHOLE_BYTES: usize = 16;

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
