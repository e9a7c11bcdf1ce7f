//! Endings that this process brought about itself: whoever waits for one here is told with the
//! commit, and need not read what the process already knows.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use ff_core::ExecutionId;
use ff_core::command::{Command, Outcome, Reply};
use ff_core::decide::Failed;
use ff_core::state::PublicState;
use tokio::sync::watch;

/// Who waits for what to end.
#[derive(Default)]
pub struct Endings {
    waiting: Mutex<HashMap<ExecutionId, watch::Sender<Option<PublicState>>>>,
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

    fn lock(
        &self,
    ) -> std::sync::MutexGuard<'_, HashMap<ExecutionId, watch::Sender<Option<PublicState>>>> {
        self.waiting.lock().expect("no holder of this lock panics")
    }

    /// The executions that a batch may end, in its order.
    pub fn watch(commands: &[Command]) -> Vec<Option<ExecutionId>> {
        let ended = |command: &Command| match command {
            Command::Complete(complete) => Some(complete.id),
            Command::Fail(fail) => Some(fail.id),
            Command::Cancel(cancel) => Some(cancel.id),
            _ => None, // not ours: who waits for these reads the store
        };
        commands.iter().map(ended).collect()
    }

    /// Tells who waits.
    pub fn tell(&self, watched: &[Option<ExecutionId>], outcomes: &[Outcome]) {
        if self.count.load(Ordering::SeqCst) == 0 {
            return;
        }
        let waiting = self.lock();
        for (id, outcome) in watched.iter().zip(outcomes) {
            let told = match outcome {
                Ok(Reply::Complete(())) => PublicState::Completed,
                Ok(Reply::Fail(Failed::TerminalFailed)) => PublicState::Failed,
                Ok(Reply::Cancel(())) => PublicState::Cancelled,
                _ => continue, // not ours: it goes on
            };
            if let Some(sender) = id.and_then(|id| waiting.get(&id)) {
                sender.send_replace(Some(told));
            }
        }
    }
}

/// An ending that is waited for.
pub struct Ending<'e> {
    endings: &'e Endings,
    id: ExecutionId,
    told: watch::Receiver<Option<PublicState>>,
}

impl Ending<'_> {
    /// Waits for it.
    pub async fn told(&mut self) -> PublicState {
        match self.told.wait_for(Option::is_some).await.map(|state| *state) {
            Ok(Some(state)) => state,
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
