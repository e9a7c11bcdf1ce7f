//! Endings that this process brought about itself: whoever waits for one here is told with the
//! commit, and need not read what the process already knows.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use ff_core::ExecutionId;
use ff_core::backend::{Ended, Kept};
use ff_core::command::{Command, Outcome, Reply};
use ff_core::decide::Failed;
use ff_core::fold::BlobRef;
use ff_core::state::PublicState;
use tokio::sync::watch;

/// An execution that a command may end: where its result would stand. What the command says of it need not
/// count: of two completions of one lease the first does, and both are accepted.
pub type Watched = Option<(ExecutionId, Option<BlobRef>)>;

type Waiting = HashMap<ExecutionId, watch::Sender<Option<Ended>>>;

/// Who waits for what to end.
#[derive(Default)]
pub struct Endings {
    waiting: Mutex<Waiting>,
    count: AtomicUsize,
}

impl Endings {
    /// Waits for an execution to be ended by this process.
    pub fn of(&self, id: ExecutionId) -> Ending<'_> {
        self.count.fetch_add(1, Ordering::SeqCst);
        let mut waiting = self.lock();
        let sender = waiting.entry(id).or_insert_with(|| watch::Sender::new(None));
        Ending { endings: self, id, told: sender.subscribe() }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Waiting> {
        self.waiting.lock().expect("no holder of this lock panics")
    }

    /// The executions that a batch may end, in its order.
    pub fn watch(commands: &[Command]) -> Vec<Watched> {
        let ended = |command: &Command| match command {
            Command::Complete(complete) => {
                let at = BlobRef::Result(complete.id, complete.fence.attempt_index);
                Some((complete.id, Some(at)))
            }
            Command::Fail(fail) => Some((fail.id, None)),
            Command::Cancel(cancel) => Some((cancel.id, None)),
            _ => None, // not ours: who waits for these reads the store
        };
        commands.iter().map(ended).collect()
    }

    /// Tells who waits.
    pub fn tell(&self, watched: &[Watched], outcomes: &[Outcome]) {
        if self.count.load(Ordering::SeqCst) == 0 {
            return;
        }
        let waiting = self.lock();
        for (ended, outcome) in watched.iter().zip(outcomes) {
            let state = match outcome {
                Ok(Reply::Complete(())) => PublicState::Completed,
                Ok(Reply::Fail(Failed::TerminalFailed)) => PublicState::Failed,
                Ok(Reply::Cancel(())) => PublicState::Cancelled,
                _ => continue, // not ours: it goes on
            };
            let Some((id, result)) = *ended else { continue };
            if let Some(sender) = waiting.get(&id) {
                let result = result.map(Kept::There);
                sender.send_replace(Some(Ended { state, result }));
            }
        }
    }
}

/// An ending that is waited for.
pub struct Ending<'e> {
    endings: &'e Endings,
    id: ExecutionId,
    told: watch::Receiver<Option<Ended>>,
}

impl Ending<'_> {
    /// Waits for it.
    pub async fn told(&mut self) -> Ended {
        match self.told.wait_for(Option::is_some).await.map(|ended| ended.clone()) {
            Ok(Some(ended)) => ended,
            Ok(None) | Err(_) => std::future::pending().await,
        }
    }
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.endings.count.fetch_sub(1, Ordering::SeqCst);
        let mut waiting = self.endings.lock();
        // The last of those who wait for it takes the place away.
        if waiting.get(&self.id).is_some_and(|sender| sender.receiver_count() == 1) {
            waiting.remove(&self.id);
        }
    }
}
