//! Ids as people give them: in full, as a UUID, or as enough of its beginning or end.

use ff_core::{Code, ExecutionId, FlowId};
use ff_wire::SearchParams;
use ff_wire::flow::FlowSearchParams;
use flowfabric::Client;
use uuid::Uuid;

use crate::failure::{Exit, Failure};
use crate::place::Place;

/// The newest executions or flows, in which a part of an id is looked for.
const RECENT: u32 = 1_000;
/// A shorter part says nothing.
const PART_MIN: usize = 4;
/// As many as a message names.
const NAMED_MAX: usize = 5;

/// The execution that is meant. A full id is not looked for here: whoever uses it will find out.
pub async fn find(client: &Client, place: &Place, text: &str) -> anyhow::Result<ExecutionId> {
    if text.starts_with('{') {
        return Ok(text.parse().map_err(flowfabric::Error::from)?);
    }
    if let Ok(uuid) = Uuid::try_parse(text) {
        let id = ExecutionId::solo(uuid);
        no_flow(client, place, id).await?;
        return Ok(id);
    }
    let part = part(text, "an execution")?;
    let search = SearchParams { limit: Some(RECENT), ..SearchParams::default() };
    let recent = client.list(search).await?.executions;
    let recent: Vec<_> = recent.iter().map(|x| x.execution_id).collect();
    let all =
        Recent { what: "executions", list: place.ff("ls"), uuid: |id| ExecutionId::uuid(*id) };
    all.only(&recent, &part)
}

/// Tells who gives the id of a flow for that of an execution.
async fn no_flow(client: &Client, place: &Place, id: ExecutionId) -> anyhow::Result<()> {
    let gone = |error: flowfabric::Error| error.is(Code::ExecutionNotFound);
    if !client.execution(id).describe().await.is_err_and(gone) {
        return Ok(());
    }
    let flow = FlowId(id.uuid());
    if client.flow_by_id(flow).describe().await.is_err() {
        return Ok(());
    }
    let (show, cancel) = (place.ff(&format!("flow show {flow}")), "ff flow cancel");
    let failure = Failure::new(Exit::NotFound, format!("{flow} is a flow, not an execution"));
    Err(failure.code(Code::ExecutionNotFound.as_str()).next(format!("{show}, or {cancel}")).into())
}

/// The flow that is meant, likewise.
pub async fn find_flow(client: &Client, place: &Place, text: &str) -> anyhow::Result<FlowId> {
    if let Ok(uuid) = Uuid::try_parse(text) {
        return Ok(FlowId(uuid));
    }
    let part = part(text, "a flow")?;
    let search = FlowSearchParams { limit: Some(RECENT), ..FlowSearchParams::default() };
    let recent = client.flows(search).await?.flows;
    let recent: Vec<_> = recent.iter().map(|flow| flow.flow_id).collect();
    let all = Recent { what: "flows", list: place.ff("flow ls"), uuid: |id: &FlowId| id.0 };
    all.only(&recent, &part)
}

/// A part of a UUID, long enough to say something.
fn part(text: &str, what: &str) -> anyhow::Result<String> {
    let part = text.to_ascii_lowercase();
    if part.len() >= PART_MIN && part.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-') {
        return Ok(part);
    }
    let said = format!("{text:?} is not the id of {what}");
    let next = format!("give its id, its UUID, or the first or last {PART_MIN} or more digits");
    Err(Failure::new(Exit::Usage, said).next(next).into())
}

/// The newest of their kind, in which one is looked for.
struct Recent<T> {
    what: &'static str,
    /// What lists them.
    list: String,
    uuid: fn(&T) -> Uuid,
}

impl<T: Copy> Recent<T> {
    /// The only one whose UUID begins or ends with a part.
    fn only(&self, recent: &[T], part: &str) -> anyhow::Result<T> {
        let meant = |id: &&T| {
            let uuid = (self.uuid)(id).to_string();
            uuid.starts_with(part) || uuid.ends_with(part)
        };
        let found: Vec<&T> = recent.iter().filter(meant).collect();
        let what = self.what;
        match found.as_slice() {
            [id] => Ok(**id),
            [] => {
                let said = format!("none of the newest {RECENT} {what} has an id with {part:?}");
                let next = format!("give the full id of an older one; {} lists them", self.list);
                Err(Failure::new(Exit::NotFound, said).next(next).into())
            }
            several => {
                let said = format!("{} {what} have an id with {part:?}", several.len());
                let named = several.iter().take(NAMED_MAX).map(|id| tail((self.uuid)(id)));
                let more = if several.len() > NAMED_MAX { ", …" } else { "" };
                let named = named.collect::<Vec<_>>().join(", ");
                let next = format!("give more of one: {named}{more}");
                Err(Failure::new(Exit::Usage, said).next(next).into())
            }
        }
    }
}

/// What is enough of an id for people.
pub fn short(id: ExecutionId) -> String {
    tail(id.uuid())
}

/// What is enough of the id of a flow.
pub fn short_flow(id: FlowId) -> String {
    tail(id.0)
}

/// The last group of a UUID, which is chance where we mint it.
fn tail(uuid: Uuid) -> String {
    let uuid = uuid.to_string();
    uuid.rsplit('-').next().unwrap_or_default().to_owned()
}
