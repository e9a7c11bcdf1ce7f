//! Links: a signal that is ready to be sent, in one text that is safe in the path of a URL.
//!
//! Who follows a link sends the signal it names, in the name of the person it names, and can change
//! neither. The text is base64url of a version, the fields and a MAC over both; a link from another
//! version, or with anything after its end, is none.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::ids::ExecutionId;
use crate::keyring::Keyring;
use crate::limits::LINK_BYTES_MAX;
use crate::text::{Kid, SignalName, SourceIdentity, WaitpointKey};
use crate::time::Millis;
use crate::token::{Claims, Mac, Refused, Secret, put};

/// What is signed in front of a link, so that no token is one.
const DOMAIN: &[u8] = b"flowfabric/link/v1";
/// The first byte of every link of this version.
const VERSION: u8 = 1;

/// A signal that is ready to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// To this execution.
    pub execution: ExecutionId,
    /// To this waitpoint.
    pub waitpoint: Uuid,
    /// What its author calls it.
    pub key: WaitpointKey,
    /// When the waitpoint was created.
    pub created_at: Millis,
    /// The name of the signal.
    pub signal: SignalName,
    /// In whose name; absent for nobody in particular.
    pub source_identity: Option<SourceIdentity>,
    /// The digest of what is decided on; absent when it is nothing in particular.
    pub subject: Option<String>,
}

impl Link {
    /// The waitpoint it leads to, to be compared with the one that is stored.
    pub fn claims(&self) -> Claims<'_> {
        Claims {
            execution: self.execution,
            waitpoint: self.waitpoint,
            key: &self.key,
            created_at: self.created_at,
        }
    }
}

/// The text of a link, signed with a key.
pub fn sign(link: &Link, kid: &Kid, secret: &Secret) -> String {
    let identity = link.source_identity.as_ref().map_or("", SourceIdentity::as_str);
    let mut body = vec![VERSION];
    put(&mut body, kid.as_str().as_bytes());
    put(&mut body, link.execution.to_string().as_bytes());
    put(&mut body, link.waitpoint.as_bytes());
    put(&mut body, link.key.as_str().as_bytes());
    put(&mut body, &link.created_at.0.to_be_bytes());
    put(&mut body, link.signal.as_str().as_bytes());
    put(&mut body, identity.as_bytes());
    put(&mut body, link.subject.as_deref().unwrap_or_default().as_bytes());
    let mac = secret.mac(&[DOMAIN, &body]);
    body.extend_from_slice(&mac);
    URL_SAFE_NO_PAD.encode(body)
}

/// The id of the signal that a link sends: it follows from the link, which so is used once.
pub fn signal_id(text: &str) -> Uuid {
    let digest = Sha256::digest(text);
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    uuid::Builder::from_custom_bytes(bytes).into_uuid()
}

/// Reads a link; nothing unless it is spelled like one. What it says is not to be believed before
/// it is verified, and cannot be looked at.
pub fn open(text: &str) -> Option<Sealed> {
    if text.len() > LINK_BYTES_MAX {
        return None;
    }
    let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
    let (body, mac) = bytes.split_last_chunk()?;
    let mut rest = body.strip_prefix(&[VERSION])?;
    let kid = Kid::new(take_text(&mut rest)?).ok()?;
    let execution = take_text(&mut rest)?.parse().ok()?;
    let waitpoint = Uuid::from_bytes(take(&mut rest)?.try_into().ok()?);
    let key = WaitpointKey::new(take_text(&mut rest)?).ok()?;
    let created_at = Millis(i64::from_be_bytes(take(&mut rest)?.try_into().ok()?));
    let signal = SignalName::new(take_text(&mut rest)?).ok()?;
    let source_identity = match take_text(&mut rest)? {
        "" => None,
        identity => Some(SourceIdentity::new(identity).ok()?),
    };
    let subject = Some(take_text(&mut rest)?).filter(|text| !text.is_empty()).map(str::to_owned);
    let link = Link { execution, waitpoint, key, created_at, signal, source_identity, subject };
    rest.is_empty().then(|| Sealed { kid, link, body: body.to_vec(), mac: *mac })
}

/// The next field.
fn take<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, after) = rest.split_first_chunk()?;
    let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
    let (field, after) = after.split_at_checked(length)?;
    *rest = after;
    Some(field)
}

fn take_text<'a>(rest: &mut &'a [u8]) -> Option<&'a str> {
    str::from_utf8(take(rest)?).ok()
}

/// A link that somebody follows, not yet verified.
#[derive(Clone)]
pub struct Sealed {
    kid: Kid,
    link: Link,
    body: Vec<u8>,
    mac: Mac,
}

impl Sealed {
    /// What the link says, when one of the keys signed it. Whether the waitpoint is still there, and
    /// is this one, is for the caller to see.
    pub fn verify(self, keys: &Keyring, now: Millis) -> Result<Link, Refused> {
        let signed = |secret: &Secret| secret.mac(&[DOMAIN, &self.body]);
        keys.judge(&self.kid, signed, &self.mac, now)?;
        Ok(self.link)
    }

    /// The key that is said to have signed it.
    pub fn kid(&self) -> &Kid {
        &self.kid
    }
}

impl fmt::Debug for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sealed({}:…)", self.kid)
    }
}
