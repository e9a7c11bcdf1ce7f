//! Ids as people give them: in full, as a UUID, or as enough of its beginning or end.

use ff_core::ExecutionId;
use ff_wire::SearchParams;
use flowfabric::Client;
use uuid::Uuid;

use crate::failure::{Exit, Failure};
use crate::place::Place;

/// The newest executions, in which a part of an id is looked for.
const RECENT: u32 = 1_000;
/// A shorter part says nothing.
const PART_MIN: usize = 4;
/// Executions that a message names.
const NAMED_MAX: usize = 5;

/// The execution that is meant. A full id is not looked for here: whoever uses it will find out.
pub async fn find(client: &Client, place: &Place, text: &str) -> anyhow::Result<ExecutionId> {
    if text.starts_with('{') {
        return Ok(text.parse().map_err(flowfabric::Error::from)?);
    }
    if let Ok(uuid) = Uuid::try_parse(text) {
        return Ok(ExecutionId::solo(uuid));
    }
    let part = text.to_ascii_lowercase();
    if part.len() < PART_MIN || !part.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-') {
        let said = format!("{text:?} is not the id of an execution");
        let next = format!("give its id, its UUID, or the first or last {PART_MIN} or more digits");
        return Err(Failure::new(Exit::Usage, said).next(next).into());
    }
    let search = SearchParams { limit: Some(RECENT), ..SearchParams::default() };
    let recent = client.list(search).await?.executions;
    let meant = |id: &ExecutionId| {
        let uuid = id.uuid().to_string();
        uuid.starts_with(&part) || uuid.ends_with(&part)
    };
    let found: Vec<ExecutionId> = recent.iter().map(|x| x.execution_id).filter(meant).collect();
    match found.as_slice() {
        [id] => Ok(*id),
        [] => {
            let said = format!("none of the newest {RECENT} executions has an id with {part:?}");
            let next = format!("give the full id of an older one; {} lists them", place.ff("ls"));
            Err(Failure::new(Exit::NotFound, said).next(next).into())
        }
        several => {
            let said = format!("{} executions have an id with {part:?}", several.len());
            let named = several.iter().take(NAMED_MAX).map(|id| short(*id));
            let more = if several.len() > NAMED_MAX { ", …" } else { "" };
            let named = named.collect::<Vec<_>>().join(", ");
            let next = format!("give more of one: {named}{more}");
            Err(Failure::new(Exit::Usage, said).next(next).into())
        }
    }
}

/// What is enough of an id for people: the last group of its UUID, which is chance where we mint it.
pub fn short(id: ExecutionId) -> String {
    let uuid = id.uuid().to_string();
    uuid.rsplit('-').next().unwrap_or_default().to_owned()
}
