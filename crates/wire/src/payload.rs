//! Payloads: JSON stays JSON, other bytes travel in base64.
//!
//! A request says either `input` (any JSON value, `null` included) or `input_base64`, with an
//! `encoding` that tells readers what the bytes are. JSON is stored as its text, without the
//! whitespace between its tokens: numbers keep every digit and objects their order, and sending the
//! same value with other line breaks is still the same creation.

use std::fmt;

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use bytes::Bytes;
use ff_core::fold::Blob;
use ff_core::text::Encoding;
use ff_core::{Code, Rejection};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use utoipa::{PartialSchema, ToSchema};

/// The encoding of payloads that were given as JSON.
const JSON: &str = "json";

/// The encoding of payloads that are JSON.
pub fn json_encoding() -> Encoding {
    Encoding::new(JSON).expect("a valid encoding")
}

/// Writes padding, and reads with or without it: libraries differ.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Any JSON value, as its text.
#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Json(Box<RawValue>);

impl Json {
    /// The text of a value.
    pub fn of<T: Serialize + ?Sized>(value: &T) -> Result<Self, serde_json::Error> {
        serde_json::value::to_raw_value(value).map(Self)
    }

    /// A text, if it is JSON.
    pub fn from_text(text: String) -> Result<Self, serde_json::Error> {
        RawValue::from_string(text).map(Self)
    }

    /// The value.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.0.get())
    }

    /// The text.
    pub fn text(&self) -> &str {
        self.0.get()
    }
}

impl PartialEq for Json {
    fn eq(&self, other: &Self) -> bool {
        compact(self.text()) == compact(other.text())
    }
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl PartialSchema for Json {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        serde_json::Value::schema()
    }
}

impl ToSchema for Json {}

/// Reads a field that is there as a value, also when the value is `null`.
pub(crate) fn present<'de, D: Deserializer<'de>>(field: D) -> Result<Option<Json>, D::Error> {
    Json::deserialize(field).map(Some)
}

/// Bytes and what they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payload {
    /// How the bytes are encoded, for readers.
    pub encoding: Option<Encoding>,
    /// The bytes.
    pub bytes: Bytes,
}

/// The fields in which a payload travels: the value or its base64, and the encoding.
pub(crate) type Fields = (Option<Json>, Option<String>, Option<String>);

/// What the two fields are called.
#[derive(Clone, Copy)]
pub(crate) struct Names {
    json: &'static str,
    base64: &'static str,
}

/// The fields of an input.
pub(crate) const INPUT: Names = Names { json: "input", base64: "input_base64" };
/// The fields of a result.
pub(crate) const RESULT: Names = Names { json: "result", base64: "result_base64" };
/// The fields of what a signal carries.
pub(crate) const PAYLOAD: Names = Names { json: "payload", base64: "payload_base64" };

impl Payload {
    /// What the fields of a request say; nothing when they say nothing.
    pub(crate) fn read(
        names: Names,
        (json, base64, encoding): Fields,
    ) -> Result<Option<Self>, Rejection> {
        let refuse = |field, value: &str, why: String| {
            Err(Rejection::invalid(Code::InvalidInput, field, value, why))
        };
        let encoding = encoding.map(Encoding::new).transpose()?;
        match (json, base64) {
            (Some(_), Some(_)) => {
                refuse(names.json, "", format!("and {} exclude each other", names.base64))
            }
            (Some(json), None) => match encoding {
                Some(other) if other.as_str() != JSON => {
                    let why = format!("describes {}; {} is json", names.base64, names.json);
                    refuse("encoding", other.as_str(), why)
                }
                Some(_) | None => Ok(Some(Self::json(&json))),
            },
            (None, Some(text)) => match BASE64.decode(&text) {
                Ok(bytes) => Ok(Some(Self { encoding, bytes: bytes.into() })),
                Err(error) => refuse(names.base64, &text, format!("is not base64: {error}")),
            },
            (None, None) => match encoding {
                Some(encoding) => {
                    refuse("encoding", encoding.as_str(), format!("needs {}", names.base64))
                }
                None => Ok(None),
            },
        }
    }

    /// A JSON value as a payload.
    pub fn json(value: &Json) -> Self {
        Self { encoding: Some(json_encoding()), bytes: compact(value.text()).into() }
    }

    /// The fields that say it.
    pub(crate) fn write(self) -> Fields {
        let encoding = self.encoding.map(String::from);
        if encoding.as_deref() == Some(JSON)
            && let Ok(text) = String::from_utf8(self.bytes.to_vec())
            && let Ok(json) = Json::from_text(text)
        {
            return (Some(json), None, encoding);
        }
        (None, Some(BASE64.encode(&self.bytes)), encoding)
    }
}

impl From<Blob> for Payload {
    fn from(blob: Blob) -> Self {
        Self { encoding: blob.encoding, bytes: blob.bytes }
    }
}

/// The fields of what is stored, if anything is.
pub(crate) fn fields_of(blob: Option<Blob>) -> Fields {
    blob.map_or((None, None, None), |blob| Payload::from(blob).write())
}

/// JSON without the whitespace between its tokens.
fn compact(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let (mut in_string, mut escaped) = (false, false);
    for c in text.chars() {
        if in_string {
            in_string = escaped || c != '"';
            escaped = !escaped && c == '\\';
        } else if matches!(c, ' ' | '\t' | '\n' | '\r') {
            continue;
        } else {
            in_string = c == '"';
        }
        kept.push(c);
    }
    kept
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::unnecessary_wraps)]
mod tests {
    use super::*;

    fn json(text: &str) -> Option<Json> {
        Some(Json::from_text(text.to_owned()).unwrap())
    }

    fn text(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    fn read(fields: Fields) -> Payload {
        Payload::read(INPUT, fields).unwrap().unwrap()
    }

    #[test]
    fn json_keeps_its_digits_and_order_and_loses_only_whitespace() {
        let payload = read((
            json(" {\"b\" : 1.10,\n\"a\":[ 123456789012345678901, \" \\\" \"]} "),
            None,
            None,
        ));
        assert_eq!(&payload.bytes[..], br#"{"b":1.10,"a":[123456789012345678901," \" "]}"#);
        assert_eq!(payload.encoding.as_ref().unwrap().as_str(), "json");
    }

    #[test]
    fn what_was_said_as_json_is_answered_as_json() {
        for said in ["null", "{}", "\"\\\\\"", "[1,\"a b\"]", "0.1"] {
            let (back, base64, encoding) = read((json(said), None, None)).write();
            assert_eq!((back.unwrap().text(), base64), (said, None));
            assert_eq!(encoding.as_deref(), Some("json"));
        }
    }

    #[test]
    fn other_bytes_are_answered_in_base64() {
        let payload = read((None, text("AP8="), text("raw")));
        assert_eq!(&payload.bytes[..], [0, 255]);
        assert_eq!(payload.write(), (None, text("AP8="), text("raw")));
        let unpadded = read((None, text("AP8"), None));
        assert_eq!(unpadded.write(), (None, text("AP8="), None));
    }

    #[test]
    fn bytes_that_claim_to_be_json_and_are_not_are_answered_in_base64() {
        for bytes in [&b"{"[..], b"\xff"] {
            let encoding = Some(Encoding::new("json").unwrap());
            let payload = Payload { encoding, bytes: Bytes::copy_from_slice(bytes) };
            let (json, base64, encoding) = payload.write();
            assert_eq!((json, base64.is_some(), encoding), (None, true, text("json")));
        }
    }

    #[test]
    fn a_contradiction_is_refused_by_field() {
        for (fields, field) in [
            ((json("1"), text("AA=="), None), "input"),
            ((json("1"), None, text("raw")), "encoding"),
            ((None, None, text("raw")), "encoding"),
            ((None, text("?"), None), "input_base64"),
        ] {
            let refused = Payload::read(INPUT, fields).unwrap_err();
            assert_eq!((refused.code, refused.field), (Code::InvalidInput, Some(field)));
        }
        assert_eq!(Payload::read(INPUT, (None, None, None)).unwrap(), None);
    }
}
