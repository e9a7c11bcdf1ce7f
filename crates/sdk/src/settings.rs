//! What can be said about an execution before it exists: the same for one that is created alone, for
//! a node of a flow and for a child.

use std::time::Duration;

use bytes::Bytes;
use ff_core::decide::create::Create;
use ff_core::text::{Kind, LaneId};
use ff_core::{Code, ExecutionId, Rejection};
use ff_wire::payload::json_encoding;
use serde::Serialize;

use crate::Error;

/// Methods for a type that has `set(self, impl FnOnce(&mut Create) -> Result<(), Error>) -> Self`.
/// The first word is what its lane is when nothing is said.
macro_rules! settings {
    ($lane:literal) => {
        #[doc = concat!("In this lane, instead of ", $lane, ".")]
        pub fn lane(self, lane: impl Into<String>) -> Self {
            self.set(|create| {
                create.lane = ff_core::text::LaneId::new(lane.into())?;
                Ok(())
            })
        }

        /// 0 to 9000, higher first.
        pub fn priority(self, priority: i32) -> Self {
            self.set(|create| {
                create.priority = priority;
                Ok(())
            })
        }

        /// Tagged. Keys are of the form `owner.name`.
        pub fn tag(self, key: impl Into<String>, value: impl Into<String>) -> Self {
            self.set(|create| {
                create.tags.insert(key.into(), value.into());
                Ok(())
            })
        }

        /// Not run before so long has passed.
        pub fn delay(self, delay: std::time::Duration) -> Self {
            self.set(|create| {
                create.delay_ms = Some(crate::settings::ms("delay", delay)?);
                Ok(())
            })
        }

        /// Not run before then.
        pub fn delay_until(self, then: std::time::SystemTime) -> Self {
            self.set(|create| {
                let since = then.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
                let at = crate::settings::ms("delay_until", since)?;
                create.delay_until = Some(ff_core::Millis(i64::try_from(at).unwrap_or(i64::MAX)));
                Ok(())
            })
        }

        /// Tried again so often when it fails, after a second, two, four and so on up to a minute.
        pub fn retries(self, times: u32) -> Self {
            self.set(|create| {
                let policy = ff_core::policy::RetryPolicy::default();
                create.policy.retry_policy =
                    Some(ff_core::policy::RetryPolicy { max_retries: times, ..policy });
                Ok(())
            })
        }

        /// Tried again so often, after always the same time.
        pub fn retries_every(self, times: u32, delay: std::time::Duration) -> Self {
            self.set(|create| {
                let delay_ms = crate::settings::ms("delay", delay)?;
                let backoff = ff_core::policy::Backoff::Fixed { delay_ms, jitter: false };
                let policy = ff_core::policy::RetryPolicy::default();
                create.policy.retry_policy =
                    Some(ff_core::policy::RetryPolicy { max_retries: times, backoff, ..policy });
                Ok(())
            })
        }

        /// An attempt that takes longer has failed.
        pub fn attempt_timeout(self, timeout: std::time::Duration) -> Self {
            self.set(|create| {
                let policy = create.policy.timeout_policy.get_or_insert_default();
                policy.attempt_timeout_ms = Some(crate::settings::ms("attempt_timeout", timeout)?);
                Ok(())
            })
        }

        /// Expires for good when it has not ended within so long.
        pub fn deadline(self, deadline: std::time::Duration) -> Self {
            self.set(|create| {
                let policy = create.policy.timeout_policy.get_or_insert_default();
                policy.execution_deadline_ms = Some(crate::settings::ms("deadline", deadline)?);
                Ok(())
            })
        }

        /// Under this policy, in place of everything said before about retries and times.
        pub fn policy(self, policy: ff_core::policy::Policy) -> Self {
            self.set(|create| {
                create.policy = policy;
                Ok(())
            })
        }
    };
}

pub(crate) use settings;

/// An execution of some kind with an input, about which nothing else is said yet.
pub fn draft(id: ExecutionId, kind: &str, input: &impl Serialize) -> Result<Create, Error> {
    let input = serde_json::to_vec(input)
        .map_err(|error| Rejection::invalid(Code::InvalidInput, "input", "", error))?;
    let lane = LaneId::new("default").expect("a valid lane");
    Ok(Create {
        input: Bytes::from(input),
        encoding: Some(json_encoding()),
        ..Create::new(id, lane, Kind::new(kind)?)
    })
}

/// Says one more thing about a draft, unless something said before was malformed.
pub fn say<T>(draft: &mut Result<T, Error>, say: impl FnOnce(&mut T) -> Result<(), Error>) {
    if let Ok(said) = draft
        && let Err(error) = say(said)
    {
        *draft = Err(error);
    }
}

/// A length of time in milliseconds.
pub fn ms(field: &'static str, duration: Duration) -> Result<u64, Error> {
    u64::try_from(duration.as_millis()).map_err(|_| {
        let shown = format!("{duration:?}");
        Rejection::invalid(Code::InvalidInput, field, shown, "is longer than anyone waits").into()
    })
}
