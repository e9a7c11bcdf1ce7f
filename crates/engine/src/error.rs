//! What a call can answer instead of a result.

use ff_core::{Code, Rejection, StoreError};

/// Why a call did not succeed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// It was refused; nothing changed.
    #[error(transparent)]
    Rejected(#[from] Rejection),
    /// The machinery failed.
    #[error(transparent)]
    Store(StoreError),
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Rejected(rejection) => Self::Rejected(rejection),
            StoreError::Corruption { .. }
            | StoreError::RetryExhausted { .. }
            | StoreError::SchemaTooNew { .. }
            | StoreError::Transport { .. }
            | StoreError::Closed => Self::Store(error),
        }
    }
}

impl Error {
    /// The stable code.
    pub fn code(&self) -> Code {
        match self {
            Self::Rejected(rejection) => rejection.code,
            Self::Store(error) => error.code(),
        }
    }

    /// Whether the same call may succeed later.
    pub fn retryable(&self) -> bool {
        self.code().retryable()
    }
}
