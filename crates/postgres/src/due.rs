//! What the engine has to do by itself, found by time.

use ff_core::backend::{Due, Duty, StoreError, WorkFilter};
use ff_core::command::Command;
use ff_core::decide::attempt_timeout::TimeOutAttempt;
use ff_core::decide::deadline::ExpireExecution;
use ff_core::decide::key_expiry::ForgetKey;
use ff_core::decide::lease_expiry::ExpireLease;
use ff_core::decide::retention::Trim;
use ff_core::index::TimerKind;
use ff_core::row::{number, parse};
use ff_core::time::Millis;

use crate::codec::{Params, Reader};
use crate::connection::Connections;
use crate::statements::{idempotency, lease, timer};

/// What `duty` has to check now.
pub async fn due(
    connections: &Connections,
    duty: Duty,
    filter: &WorkFilter,
    (limit, now): (u32, Millis),
) -> Result<Due, StoreError> {
    let namespace = filter.namespace.as_ref().map(|namespace| namespace.as_str());
    let (tag, value) = match &filter.tag {
        Some((key, value)) => (Some(key.as_str()), Some(value.as_str())),
        None => (None, None),
    };
    // A key has no tags: whoever looks after one tag leaves the keys to others.
    let limit = if duty == Duty::IdempotencyExpiry && tag.is_some() { 0 } else { limit };
    let params = Params::new().number(now.0).number(i64::from(limit));
    let timers = |kind: TimerKind| {
        Params::new().number(now.0).number(i64::from(limit)).text(Some(kind.as_str()))
    };
    let (sql, params) = match duty {
        Duty::AttemptTimeout => (timer::due, timers(TimerKind::AttemptTimeout)),
        Duty::Deadline => (timer::due, timers(TimerKind::Deadline)),
        Duty::Retention => (timer::retention, params),
        Duty::LeaseExpiry => (lease::due, params),
        Duty::IdempotencyExpiry => (idempotency::due, params),
    };
    let params = params.text(namespace);
    let params = match duty {
        Duty::IdempotencyExpiry => params,
        Duty::AttemptTimeout | Duty::Deadline | Duty::Retention | Duty::LeaseExpiry => {
            params.text(tag).text(value)
        }
    };
    let mut due = Due::default();
    for row in connections.read(sql, params).await? {
        let mut r = Reader::new(&row);
        due.commands.extend(read(duty, &mut r)?);
        due.next = r.take::<Option<i64>>("next_ms")?.map(Millis);
    }
    Ok(due)
}

/// The command that a row asks for; nothing when the row only tells when the next is due.
fn read(duty: Duty, r: &mut Reader<'_>) -> Result<Option<Command>, StoreError> {
    Ok(match duty {
        Duty::AttemptTimeout => r.maybe_id()?.map(|id| TimeOutAttempt { id }.into()),
        Duty::Deadline => r.maybe_id()?.map(|id| ExpireExecution { id }.into()),
        Duty::Retention => r.maybe_id()?.map(|id| Trim { id }.into()),
        Duty::LeaseExpiry => {
            let id = r.maybe_id()?;
            let epoch = r.take::<Option<i64>>("epoch")?;
            let epoch = epoch.map(|epoch| number("epoch", epoch)).transpose()?;
            id.zip(epoch).map(|(id, lease_epoch)| ExpireLease { id, lease_epoch }.into())
        }
        Duty::IdempotencyExpiry => {
            let namespace = r.take::<Option<&str>>("namespace")?;
            let namespace = namespace.map(|text| parse("namespace", text)).transpose()?;
            let key = r.take::<Option<&str>>("key")?;
            let key = key.map(|text| parse("key", text)).transpose()?;
            namespace.zip(key).map(|(namespace, key)| ForgetKey { namespace, key }.into())
        }
    })
}
