//! Rows of our own types, as the server takes them: an array of records, in its binary form.

use std::collections::BTreeMap;
use std::error::Error;

use bytes::{BufMut, BytesMut};
use ff_core::ids::ExecutionId;
use tokio_postgres::types::{FromSql, IsNull, Kind, ToSql, Type, to_sql_checked};
use uuid::Uuid;

use super::partition;

/// The row types, by name: each as an array.
pub type Types = BTreeMap<String, Type>;

/// Every row type that statements take.
pub const NAMES: [&str; 17] = [
    "ff_execution_row_7",
    "ff_new_execution_row_7",
    "ff_lease_row",
    "ff_payload_row",
    "ff_step_row_8",
    "ff_ready_row",
    "ff_timer_row",
    "ff_event_row",
    "ff_flow_row",
    "ff_edge_row",
    "ff_group_row",
    "ff_suspension_row",
    "ff_waitpoint_row",
    "ff_signal_row",
    "ff_suspend_key_row",
    "ff_claim_row",
    "ff_completed_row_7",
];

/// An array of records.
#[derive(Debug)]
pub struct Composite {
    /// The type of its rows.
    pub of: &'static str,
    count: usize,
    body: Vec<u8>,
}

impl Composite {
    /// Encodes rows of the type `of`, each by `fields`.
    pub fn of<'r, T: 'r>(
        of: &'static str,
        rows: impl IntoIterator<Item = &'r T>,
        fields: impl Fn(&'r T, &mut Record<'_>),
    ) -> Self {
        let (mut count, mut body) = (0, Vec::new());
        for row in rows {
            count += 1;
            // Its length and its number of fields are known once it is written.
            let at = body.len();
            body.extend_from_slice(&[0; 8]);
            let mut record = Record { out: &mut body, fields: 0 };
            fields(row, &mut record);
            let fields = record.fields;
            let length = size(body.len() - at - 4);
            body[at..at + 4].copy_from_slice(&length.to_be_bytes());
            body[at + 4..at + 8].copy_from_slice(&fields.to_be_bytes());
        }
        Self { of, count, body }
    }
}

fn size(length: usize) -> i32 {
    i32::try_from(length).unwrap_or(i32::MAX)
}

impl ToSql for Composite {
    fn to_sql(
        &self,
        ty: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        let Kind::Array(element) = ty.kind() else {
            return Err(format!("{} is not an array of rows", ty.name()).into());
        };
        out.put_i32(i32::from(self.count > 0));
        out.put_i32(0);
        out.put_u32(element.oid());
        if self.count > 0 {
            out.put_i32(size(self.count));
            out.put_i32(1);
            out.extend_from_slice(&self.body);
        }
        Ok(IsNull::No)
    }

    fn accepts(ty: &Type) -> bool {
        matches!(ty.kind(), Kind::Array(_))
    }

    to_sql_checked!();
}

/// One row while it is being encoded: its fields, in order.
pub struct Record<'o> {
    out: &'o mut Vec<u8>,
    fields: i32,
}

impl Record<'_> {
    fn field(&mut self, of: &Type, value: Option<&[u8]>) {
        self.fields += 1;
        let length = value.map_or(-1, |bytes| size(bytes.len()));
        let mut head = [0; 8];
        head[..4].copy_from_slice(&of.oid().to_be_bytes());
        head[4..].copy_from_slice(&length.to_be_bytes());
        self.out.extend_from_slice(&head);
        self.out.extend_from_slice(value.unwrap_or_default());
    }

    /// The two fields of an id.
    pub fn id(&mut self, id: ExecutionId) {
        self.field(&Type::INT2, Some(&partition(id).to_be_bytes()));
        self.uuid(Some(id.uuid()));
    }

    /// A number of 16 bits; rows hold them in 64.
    pub fn short(&mut self, value: i64) {
        let value = i16::try_from(value).unwrap_or(i16::MAX);
        self.field(&Type::INT2, Some(&value.to_be_bytes()));
    }

    /// A number of 64 bits.
    pub fn long(&mut self, value: impl Into<Option<i64>>) {
        let value = value.into().map(i64::to_be_bytes);
        self.field(&Type::INT8, value.as_ref().map(|bytes| &bytes[..]));
    }

    /// A number of 32 bits; rows hold them in 64.
    pub fn int(&mut self, value: impl Into<Option<i64>>) {
        let value = value.into().map(|n| i32::try_from(n).unwrap_or(i32::MAX).to_be_bytes());
        self.field(&Type::INT4, value.as_ref().map(|bytes| &bytes[..]));
    }

    /// A text.
    pub fn text(&mut self, value: Option<&str>) {
        self.field(&Type::TEXT, value.map(str::as_bytes));
    }

    /// Bytes.
    pub fn bytes(&mut self, value: Option<&[u8]>) {
        self.field(&Type::BYTEA, value);
    }

    /// A UUID.
    pub fn uuid(&mut self, value: Option<Uuid>) {
        self.field(&Type::UUID, value.as_ref().map(|uuid| &uuid.as_bytes()[..]));
    }

    /// Where a row stands.
    pub fn tid(&mut self, value: Option<Tid>) {
        self.field(&Type::TID, value.as_ref().map(|at| &at.0[..]));
    }

    /// A truth value.
    pub fn bool(&mut self, value: Option<bool>) {
        let value = value.map(|truth| [u8::from(truth)]);
        self.field(&Type::BOOL, value.as_ref().map(|byte| &byte[..]));
    }
}

/// Where a row stands in its table: a place that moves with every change, so that finding the row
/// there says that it did not change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tid([u8; 6]);

impl<'a> FromSql<'a> for Tid {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self(raw.try_into()?))
    }

    fn accepts(ty: &Type) -> bool {
        *ty == Type::TID
    }
}

impl ToSql for Tid {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        out.extend_from_slice(&self.0);
        Ok(IsNull::No)
    }

    fn accepts(ty: &Type) -> bool {
        *ty == Type::TID
    }

    to_sql_checked!();
}
