//! Inputs and results, read back.

use ff_core::fold::Blob;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::payload::{Json, Payload, fields_of, present};

/// What an execution was created with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct InputAnswer {
    /// The input, when it is JSON.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Json>, nullable = false)]
    pub input: Option<Json>,
    /// The input, when it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(content_encoding = "base64", nullable = false)]
    pub input_base64: Option<String>,
    /// What it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub encoding: Option<String>,
}

impl From<Option<Blob>> for InputAnswer {
    fn from(blob: Option<Blob>) -> Self {
        let (input, input_base64, encoding) = fields_of(blob);
        Self { input, input_base64, encoding }
    }
}

/// What came out of an execution that succeeded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ResultAnswer {
    /// Always `completed`.
    pub status: Succeeded,
    /// The result, when it is JSON.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Json>, nullable = false)]
    pub result: Option<Json>,
    /// The result, when it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(content_encoding = "base64", nullable = false)]
    pub result_base64: Option<String>,
    /// What it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub encoding: Option<String>,
}

/// The one ending that has a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Succeeded {
    /// Its worker completed it.
    Completed,
}

impl From<Option<Blob>> for ResultAnswer {
    fn from(blob: Option<Blob>) -> Self {
        blob.map(Payload::from).into()
    }
}

impl From<Option<Payload>> for ResultAnswer {
    fn from(payload: Option<Payload>) -> Self {
        let (result, result_base64, encoding) = payload.map(Payload::write).unwrap_or_default();
        Self { status: Succeeded::Completed, result, result_base64, encoding }
    }
}
