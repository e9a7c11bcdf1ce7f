//! Identifiers and the partition each belongs to.
//!
//! The partition is part of an execution's id and never recomputed: `{fp:N}:<uuid>`. A flow's
//! members take the flow's partition; a solo execution that of its own UUID, so that one busy
//! lane is not one hot partition.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::error::{Code, Rejection};
use crate::limits::PARTITIONS;
use crate::text::NodeName;

/// One of the 256 partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Partition(u8);

impl Partition {
    /// The partition of 16 raw UUID bytes.
    pub fn of(uuid: Uuid) -> Self {
        let [_, low] = crc16(uuid.as_bytes()).to_be_bytes();
        // 256 divides 65,536: the remainder is the low byte.
        Self(low)
    }

    /// The partition with this index, unless there is none.
    pub fn new(index: i64) -> Option<Self> {
        u8::try_from(index).ok().map(Self)
    }

    /// Its index.
    pub fn index(self) -> u8 {
        self.0
    }
}

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{fp:{}}}", self.0)
    }
}

impl FromStr for Partition {
    type Err = Rejection;

    fn from_str(text: &str) -> Result<Self, Rejection> {
        let refuse =
            |why: String| Err(Rejection::invalid(Code::InvalidInput, "partition", text, why));
        let Some(body) = text.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) else {
            return refuse("must stand in braces, like {fp:7}".to_owned());
        };
        let Some((family, index)) = body.split_once(':') else {
            return refuse("must hold a family and an index, like {fp:7}".to_owned());
        };
        if family != "fp" {
            return refuse(format!("names an unknown family {family:?}; fp is the only one"));
        }
        match index.parse::<u16>() {
            Err(_) => refuse(format!("has an index {index:?} that is not a number")),
            Ok(n) if n >= PARTITIONS => {
                refuse(format!("names partition {n}; there are {PARTITIONS}, from 0"))
            }
            Ok(n) => Ok(Self(n.to_be_bytes()[1])),
        }
    }
}

/// CRC-16/XMODEM: polynomial 0x1021, initial value 0, no reflection.
pub fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, &byte| {
        (0..8).fold(crc ^ (u16::from(byte) << 8), |crc, _| {
            if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 }
        })
    })
}

/// An execution: its partition and a UUID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ExecutionId {
    partition: Partition,
    uuid: Uuid,
}

impl ExecutionId {
    /// Comes before all others.
    pub const FIRST: Self = Self { partition: Partition(0), uuid: Uuid::nil() };

    /// An execution outside any flow.
    pub fn solo(uuid: Uuid) -> Self {
        Self { partition: Partition::of(uuid), uuid }
    }

    /// A member of `flow`.
    pub fn for_flow(flow: FlowId, uuid: Uuid) -> Self {
        Self { partition: flow.partition(), uuid }
    }

    /// The member of `flow` that is called `node`: the name decides the id, so that a graph may be
    /// sent again and its author can name members without having been told their ids.
    pub fn for_node(flow: FlowId, node: &NodeName) -> Self {
        let uuid = derived([&flow.0.as_bytes()[..], node.as_str().as_bytes()].into_iter());
        Self { partition: flow.partition(), uuid }
    }

    /// An id read back from its two columns.
    pub fn from_parts(partition: Partition, uuid: Uuid) -> Self {
        Self { partition, uuid }
    }

    /// The partition that holds everything the execution owns.
    pub fn partition(self) -> Partition {
        self.partition
    }

    /// The UUID without the partition.
    pub fn uuid(self) -> Uuid {
        self.uuid
    }
}

impl fmt::Display for ExecutionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.partition, self.uuid)
    }
}

impl FromStr for ExecutionId {
    type Err = Rejection;

    fn from_str(text: &str) -> Result<Self, Rejection> {
        let refuse =
            |why: String| Rejection::invalid(Code::InvalidInput, "execution_id", text, why);
        let Some((tag, uuid)) = text.split_once("}:") else {
            return Err(refuse("must begin with its partition, like {fp:7}:<uuid>".to_owned()));
        };
        let partition =
            format!("{tag}}}").parse().map_err(|inner: Rejection| refuse(inner.message))?;
        let uuid = Uuid::try_parse(uuid)
            .map_err(|_| refuse(format!("has a tail {uuid:?} that is not a UUID")))?;
        Ok(Self { partition, uuid })
    }
}

impl TryFrom<String> for ExecutionId {
    type Error = Rejection;

    fn try_from(text: String) -> Result<Self, Rejection> {
        text.parse()
    }
}

impl From<ExecutionId> for String {
    fn from(id: ExecutionId) -> Self {
        id.to_string()
    }
}

/// A flow, whose UUID decides the partition of all its members.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FlowId(pub Uuid);

impl FlowId {
    /// Where the flow and everything in it lives.
    pub fn partition(self) -> Partition {
        Partition::of(self.0)
    }

    /// The flow that an execution outside any flow becomes the root of when it adds others: it
    /// has the same UUID, and so the same partition.
    pub fn rooted_at(root: ExecutionId) -> Self {
        Self(root.uuid)
    }
}

impl fmt::Display for FlowId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for FlowId {
    type Err = Rejection;

    fn from_str(text: &str) -> Result<Self, Rejection> {
        let refuse = |_| Rejection::invalid(Code::InvalidInput, "flow_id", text, "is not a UUID");
        Uuid::try_parse(text).map(Self).map_err(refuse)
    }
}

/// An edge of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EdgeId(pub Uuid);

impl EdgeId {
    /// The id of the edge between two members of a flow, when its author gives it none.
    pub fn between(flow: FlowId, upstream: ExecutionId, downstream: ExecutionId) -> Self {
        let parts = [flow.0, upstream.uuid, downstream.uuid];
        Self(derived(parts.iter().map(|uuid| &uuid.as_bytes()[..])))
    }
}

impl fmt::Display for EdgeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for EdgeId {
    type Err = Rejection;

    fn from_str(text: &str) -> Result<Self, Rejection> {
        let refuse = |_| Rejection::invalid(Code::InvalidInput, "edge_id", text, "is not a UUID");
        Uuid::try_parse(text).map(Self).map_err(refuse)
    }
}

/// A UUID (version 8) that is a digest of its parts: whoever has them finds the same one.
fn derived<'a>(parts: impl Iterator<Item = &'a [u8]>) -> Uuid {
    let mut hash = Sha256::new();
    parts.for_each(|part| hash.update(part));
    let mut head = [0; 16];
    head.copy_from_slice(&hash.finalize()[..16]);
    uuid::Builder::from_custom_bytes(head).into_uuid()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn partitions_follow_the_published_vectors() {
        for (uuid, crc, partition) in [
            ("00000000-0000-0000-0000-000000000000", 0x0000, 0),
            ("11111111-2222-3333-4444-555555555555", 0x45B5, 181),
            ("6ba7b810-9dad-11d1-80b4-00c04fd430c8", 0xF34D, 77),
            ("ffffffff-ffff-ffff-ffff-ffffffffffff", 0x0041, 65),
        ] {
            let uuid = Uuid::try_parse(uuid).unwrap();
            assert_eq!(crc16(uuid.as_bytes()), crc);
            assert_eq!(Partition::of(uuid).index(), partition);
            assert_eq!(ExecutionId::solo(uuid).partition().index(), partition);
        }
        assert_eq!(crc16(b"123456789"), 0x31C3);
        assert_eq!(crc16(b"default"), 0xD656);
        assert_eq!(crc16(b"gpu"), 0x3890);
    }

    #[test]
    fn an_id_reads_back_as_it_is_written() {
        let flow = FlowId(Uuid::from_u128(7));
        let id = ExecutionId::for_flow(flow, Uuid::from_u128(9));
        assert_eq!(id.to_string().parse::<ExecutionId>().unwrap(), id);
        assert_eq!(id.partition(), flow.partition());
    }

    #[test]
    fn a_malformed_id_is_refused_with_its_cause() {
        for (text, cause) in [
            ("11111111-2222-3333-4444-555555555555", "must begin with its partition"),
            ("{xx:1}:11111111-2222-3333-4444-555555555555", "unknown family"),
            ("{fp:a}:11111111-2222-3333-4444-555555555555", "not a number"),
            ("{fp:70000}:11111111-2222-3333-4444-555555555555", "not a number"),
            ("{fp:256}:11111111-2222-3333-4444-555555555555", "names partition 256"),
            ("{fp:1}:nonsense", "not a UUID"),
            ("fp:1}:11111111-2222-3333-4444-555555555555", "braces"),
        ] {
            let refused = text.parse::<ExecutionId>().unwrap_err();
            assert_eq!(refused.code, Code::InvalidInput);
            assert_eq!(refused.field, Some("execution_id"));
            assert!(refused.message.contains(cause), "{text}: {}", refused.message);
        }
    }
}
