//! Handlers: async functions of a context and an input.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use ff_core::text::Category;
use ff_wire::Payload;
use ff_wire::payload::json_encoding;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{BoxError, Context, Error};

/// An async function that does a kind of work: `async fn(Context, Input) -> Result<Output>`.
///
/// The input is read from JSON and the output written as JSON. Any error will do; an
/// [`Error`](crate::Error) says by itself whether trying again can help.
pub trait Handler<Input, Output>: Send + Sync + 'static {
    /// Runs it.
    fn call(
        &self,
        context: Context,
        input: Input,
    ) -> impl Future<Output = Result<Output, BoxError>> + Send;
}

impl<F, Fut, Input, Output, E> Handler<Input, Output> for F
where
    F: Fn(Context, Input) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Output, E>> + Send,
    Input: Send,
    E: Into<BoxError>,
{
    async fn call(&self, context: Context, input: Input) -> Result<Output, BoxError> {
        self(context, input).await.map_err(Into::into)
    }
}

/// How a handler ended.
pub type Handled = Result<Option<Payload>, BoxError>;

type Erased =
    dyn Fn(Context, Option<Payload>) -> Pin<Box<dyn Future<Output = Handled> + Send>> + Send + Sync;

/// Handlers by kind.
#[derive(Clone, Default)]
pub struct Handlers(HashMap<String, Arc<Erased>>);

impl Handlers {
    /// Adds one; a later one of the same kind takes its place.
    pub fn add<Input, Output>(&mut self, kind: String, handler: impl Handler<Input, Output>)
    where
        Input: DeserializeOwned + Send + 'static,
        Output: Serialize + Send + 'static,
    {
        let handler = Arc::new(handler);
        self.0.insert(
            kind,
            Arc::new(move |context, data| {
                let handler = Arc::clone(&handler);
                Box::pin(async move {
                    let input = decode(data)?;
                    let output = handler.call(context, input).await?;
                    Ok(encode(&output)?)
                })
            }),
        );
    }

    /// The handler of a kind.
    pub fn of(&self, kind: &str) -> Option<&Arc<Erased>> {
        self.0.get(kind)
    }

    /// Their kinds, for messages.
    pub fn kinds(&self) -> Vec<&str> {
        let mut kinds: Vec<_> = self.0.keys().map(String::as_str).collect();
        kinds.sort_unstable();
        kinds
    }
}

/// An input that does not fit will never fit: no retry can help.
fn decode<Input: DeserializeOwned>(data: Option<Payload>) -> Result<Input, Error> {
    let bytes = data.map_or_else(|| Bytes::from_static(b"null"), |data| data.bytes);
    serde_json::from_slice(&bytes).map_err(|error| {
        let failed = Error::permanent(format!("the input does not fit the handler: {error}"));
        failed.in_category(Category::new("input").expect("a valid category"))
    })
}

fn encode<Output: Serialize>(output: &Output) -> Result<Option<Payload>, Error> {
    let bytes = serde_json::to_vec(output).map_err(|error| {
        let failed = Error::permanent(format!("the output cannot be written as JSON: {error}"));
        failed.in_category(Category::new("output").expect("a valid category"))
    })?;
    // A handler that returns nothing leaves no result.
    Ok((bytes != b"null")
        .then(|| Payload { encoding: Some(json_encoding()), bytes: Bytes::from(bytes) }))
}
