//! Batches: items that could be read travel together; the refusals of the others keep their places.

use ff_core::Rejection;
use ff_core::command::Operation;
use ff_core::decide::Decide;
use ff_engine::Engine;

use crate::problem::Refused;

/// Sends the commands of one kind together; answers in their order. A failure of the store
/// concerns all of them, and all may be sent again.
pub async fn execute_all<C: Operation>(
    engine: &Engine,
    commands: Vec<Result<C, Rejection>>,
) -> Result<Vec<Result<C::Reply, Rejection>>, Refused> {
    let mut refusals = Vec::with_capacity(commands.len());
    let mut valid = Vec::with_capacity(commands.len());
    for command in commands {
        match command {
            Ok(command) => {
                valid.push(command);
                refusals.push(None);
            }
            Err(refused) => refusals.push(Some(refused)),
        }
    }
    let sent = engine.execute_all(valid).await;
    let sent = sent.map_err(|error| Refused::from(error).during(<C as Decide>::NAME))?;
    let mut outcomes = sent.into_iter();
    let answer = |refused: Option<Rejection>| match refused {
        Some(refused) => Err(refused),
        None => outcomes.next().expect("an outcome for each command sent"),
    };
    Ok(refusals.into_iter().map(answer).collect())
}
