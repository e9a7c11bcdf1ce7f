//! What can go wrong with a flight, by what is to be done about it.

use ff_core::backend::StoreError;
use tokio_postgres::Error;
use tokio_postgres::error::SqlState;

/// Why a flight failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// A row was not as it had been read: read again.
    Guard,
    /// Another transaction was in the way: try again.
    Busy(String),
    /// Another transaction holds a row and keeps it: go on without what needs that row.
    Locked(String),
    /// So many rows are needed that one transaction is not to change them all: divide the batch.
    Wide,
    /// A value that the database does not take: find the command it belongs to.
    Poison(String),
    /// The connection is gone; whether the flight landed is unknown: send it again.
    Lost(String),
    /// Anything else: give up.
    Broken(StoreError),
}

impl Trouble {
    /// No connection could be had.
    pub fn unreachable(error: deadpool_postgres::PoolError) -> Self {
        match error {
            deadpool_postgres::PoolError::Backend(error) => {
                let trouble = Self::from(error);
                // Nothing was sent, so there is nobody's data to blame.
                if let Self::Poison(cause) = trouble { Self::Lost(cause) } else { trouble }
            }
            other => Self::Lost(other.to_string()),
        }
    }

    /// As a store reports it once it has given up.
    pub fn into_error(self) -> StoreError {
        match self {
            Self::Guard => StoreError::RetryExhausted {
                cause: "rows kept changing while they were being decided on".to_owned(),
            },
            Self::Busy(cause) | Self::Locked(cause) => StoreError::RetryExhausted { cause },
            Self::Wide => StoreError::RetryExhausted { cause: "needs too many rows".to_owned() },
            Self::Poison(cause) | Self::Lost(cause) => StoreError::Transport { cause },
            Self::Broken(error) => error,
        }
    }
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        let cause = describe(&error);
        let Some(state) = error.code() else { return Self::Lost(cause) };
        match state {
            // Our statements divide only to say that a guard did not hold.
            &SqlState::DIVISION_BY_ZERO => Self::Guard,
            &SqlState::T_R_SERIALIZATION_FAILURE
            | &SqlState::T_R_DEADLOCK_DETECTED
            | &SqlState::UNIQUE_VIOLATION => Self::Busy(cause),
            &SqlState::LOCK_NOT_AVAILABLE => Self::Locked(cause),
            state => match &state.code()[..2] {
                // Data that the database does not take, that a trigger refuses, or that is damaged.
                "22" | "23" | "P0" | "XX" => Self::Poison(cause),
                // Connections, resources (too many of them), and a server that is going down.
                "08" | "53" | "57" => Self::Lost(cause),
                _ => Self::Broken(StoreError::Transport { cause }),
            },
        }
    }
}

impl From<StoreError> for Trouble {
    fn from(error: StoreError) -> Self {
        Self::Broken(error)
    }
}

/// What the server said, with its code and hint; or what the driver said, with its cause.
fn describe(error: &Error) -> String {
    use std::error::Error as _;
    if let Some(said) = error.as_db_error() {
        let detail = said.detail().map(|detail| format!("; {detail}")).unwrap_or_default();
        return format!("{} ({}){detail}", said.message(), said.code().code());
    }
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}
