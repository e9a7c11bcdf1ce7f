//! Inputs that others have made: an execution may work on the result of one that it waited for.
//!
//! Nothing is asked unless something that could be claimed does.

use std::collections::{BTreeMap, BTreeSet};

use ff_core::backend::StoreError;
use ff_core::execution::Execution;
use ff_core::fold::{BlobRef, Key};
use ff_core::ids::ExecutionId;
use ff_core::row::number;
use tokio_postgres::Row;

use crate::codec::{Params, Reader};
use crate::connection::{Session, Step, Trouble};
use crate::load::Wanted;
use crate::statements::payload;

/// Results that take the place of inputs, by the execution that works on them, with their sizes.
#[derive(Default)]
pub struct Passed(BTreeMap<ExecutionId, (BlobRef, usize)>);

impl Passed {
    /// Finds the results that `waiting` work on, in one flight. Answers which of them cannot be
    /// told because what they waited for cannot be read.
    pub async fn find(
        &mut self,
        session: &mut Session<'_>,
        waiting: &[Execution],
    ) -> Result<BTreeMap<ExecutionId, StoreError>, Trouble> {
        let upstreams: BTreeSet<_> = waiting.iter().filter_map(|x| x.input_from).collect();
        let mut damaged = BTreeMap::new();
        if upstreams.is_empty() {
            return Ok(damaged);
        }
        let wanted = Wanted::new(upstreams.iter().map(|id| Key::Execution(*id)));
        let mut steps = wanted.load();
        steps.push(Step::Run(payload::sizes, Params::new().ids(upstreams.iter().copied())));
        let mut answers = session.fly(&steps).await?;
        let sizes = answers.pop().unwrap_or_default();
        let sizes: BTreeMap<_, _> = sizes.iter().map(read_size).collect::<Result<_, _>>()?;
        let loaded = wanted.read(answers)?;
        for x in waiting {
            let Some(from) = x.input_from else { continue };
            if let Some(error) = loaded.damaged.get(&Key::Execution(from)) {
                damaged.insert(x.id, error.clone());
                continue;
            }
            let upstream = loaded.have.executions.get(&from).and_then(Option::as_ref);
            let at = BlobRef::input(x, upstream);
            if at != BlobRef::Input(x.id) {
                self.0.insert(x.id, (at, sizes.get(&at).copied().unwrap_or(0)));
            }
        }
        Ok(damaged)
    }

    /// Where the input of an execution stands.
    pub fn input(&self, id: ExecutionId) -> BlobRef {
        self.0.get(&id).map_or(BlobRef::Input(id), |(at, _)| *at)
    }

    /// The size of the result that took the place of its input.
    pub fn size(&self, id: ExecutionId) -> Option<usize> {
        self.0.get(&id).map(|(_, size)| *size)
    }
}

fn read_size(row: &Row) -> Result<(BlobRef, usize), StoreError> {
    let mut r = Reader::new(row);
    let id = r.id()?;
    let attempt = number("attempt_index", r.int("attempt_index")?)?;
    Ok((BlobRef::Result(id, attempt), number("size", r.int("size")?)?))
}
