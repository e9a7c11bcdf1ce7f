//! How children ended, as it is read from them and as the journal of their parent keeps it.

use std::sync::Arc;

use ff_core::ExecutionId;
use ff_core::state::PublicState;
use ff_wire::{Json, Payload};
use futures_util::{StreamExt, TryStreamExt, stream};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::client::{Handle, in_words, not_successful, read_result};
use crate::error::truncate;
use crate::fabric::Fabric;
use crate::pauses::persistently;
use crate::{Context, Error};

/// Children that are read at the same time.
const READS: usize = 16;
/// Bytes of results that one step of a journal keeps. Beyond it, results stay with the children, who
/// are kept for as long as their flow is.
const KEPT_BYTES_MAX: usize = 256 << 10;

/// Bytes of a failure that are kept at least.
const FAILURE_BYTES_MIN: usize = 100;

/// How a child ended.
#[derive(Debug, Serialize, Deserialize)]
pub struct End {
    id: ExecutionId,
    fate: Fate,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Fate {
    /// With this result.
    Result(Json),
    /// With a result that is to be read from the child.
    Elsewhere,
    /// In another way, in words.
    Failed(String),
}

impl End {
    fn new(id: ExecutionId, outcome: Result<Option<Payload>, String>) -> Self {
        let fate = match outcome {
            Ok(result) => json_of(result).map_or(Fate::Elsewhere, Fate::Result),
            Err(why) => Fate::Failed(why),
        };
        Self { id, fate }
    }

    /// Whether it ended in another way than with success.
    pub fn is_failure(&self) -> bool {
        matches!(self.fate, Fate::Failed(_))
    }

    /// In words, if it ended in another way than with success.
    pub fn into_failure(self) -> Option<String> {
        match self.fate {
            Fate::Failed(why) => Some(why),
            Fate::Result(_) | Fate::Elsewhere => None,
        }
    }
}

/// A result, if it can be kept as it is: whoever reads one that is not JSON is told so.
fn json_of(result: Option<Payload>) -> Option<Json> {
    let bytes = result.map_or_else(|| b"null".to_vec(), |result| result.bytes.to_vec());
    Json::from_text(String::from_utf8(bytes).ok()?).ok()
}

/// How each of several children ended, in order.
pub async fn all_of(fabric: &Arc<dyn Fabric>, ids: &[ExecutionId]) -> Result<Vec<End>, Error> {
    let end = async |id: &ExecutionId| {
        let child = Handle::new(Arc::clone(fabric), *id);
        // They have ended, unless somebody has one run again.
        let outcome = persistently(|| child.outcome()).await?;
        Ok::<_, Error>(End::new(*id, outcome))
    };
    let ends: Vec<End> = stream::iter(ids).map(end).buffered(READS).try_collect().await?;
    Ok(slim(ends))
}

/// How the child ended that was the first to succeed; if none did, how each ended.
pub async fn first_of(fabric: &Arc<dyn Fabric>, ids: &[ExecutionId]) -> Result<Vec<End>, Error> {
    loop {
        let describe = |id: &ExecutionId| {
            let child = Handle::new(Arc::clone(fabric), *id);
            async move { persistently(|| child.describe()).await }
        };
        let found = stream::iter(ids).map(describe).buffered(READS);
        let found: Vec<_> = found.try_collect().await?;
        let successful = found.iter().filter(|child| child.public_state == PublicState::Completed);
        if let Some(winner) = successful.min_by_key(|child| child.completed_at) {
            let id = winner.execution_id;
            let result = persistently(|| fabric.result(id)).await?;
            return Ok(slim(vec![End::new(id, Ok(result))]));
        }
        let Some(running) = found.iter().find(|child| !child.public_state.is_terminal()) else {
            let failed =
                found.iter().map(|child| End::new(child.execution_id, Err(in_words(child))));
            return Ok(slim(failed.collect()));
        };
        // Somebody has one run again: the race is not over.
        let child = Handle::new(Arc::clone(fabric), running.execution_id);
        persistently(|| child.ended()).await?;
    }
}

/// Leaves results where they are that are too much for a journal.
fn slim(mut ends: Vec<End>) -> Vec<End> {
    let mut bytes = 0;
    for end in &mut ends {
        match &mut end.fate {
            Fate::Result(json) => {
                bytes += json.text().len();
                if bytes > KEPT_BYTES_MAX {
                    end.fate = Fate::Elsewhere;
                }
            }
            Fate::Failed(why) => {
                bytes += why.len();
                if bytes > KEPT_BYTES_MAX {
                    truncate(why, FAILURE_BYTES_MIN);
                }
            }
            Fate::Elsewhere => {}
        }
    }
    ends
}

/// The results of children, in order.
pub async fn values_of<T>(context: &Context, ends: Vec<End>) -> Vec<Result<T, Error>>
where
    T: DeserializeOwned + Send,
{
    stream::iter(ends).map(|end| value_of(context, end)).buffered(READS).collect().await
}

/// The result of a child; if it did not succeed, that is the error.
pub async fn value_of<T: DeserializeOwned>(context: &Context, end: End) -> Result<T, Error> {
    match end.fate {
        Fate::Result(json) => read_result(end.id, Some(&Payload::json(&json))),
        Fate::Elsewhere => {
            let result = persistently(|| context.fabric().result(end.id)).await;
            read_result(end.id, context.or_stop(result).await.as_ref())
        }
        Fate::Failed(why) => Err(not_successful(why)),
    }
}
