//! Faults at every store call of a wait: no signal is lost, and nothing is resumed twice.

use std::sync::Arc;

use bytes::Bytes;
use ff_core::backend::{Duty, WorkFilter};
use ff_core::command::{Command, Reply};
use ff_core::condition::{Distinct, ResumeCondition};
use ff_core::decide::complete::Complete;
use ff_core::decide::create_waitpoint::CreateWaitpoint;
use ff_core::decide::suspend::{Binding, Suspend};
use ff_core::state::PublicState;
use ff_core::suspension::TimeoutBehavior;
use ff_core::{Backend, Claimed, ExecutionId};
use uuid::Uuid;

use super::steps::{journal, step};
use crate::faults::{Fault, Obstructed, at_every_call, insist};
use crate::world::World;
use crate::world::waits::{Mailbox, mailboxes, waitpoint_key};

/// Somebody who sends everything again until it is answered.
struct Caller<'w> {
    world: &'w World,
    store: &'w Obstructed<Fault>,
}

impl Caller<'_> {
    async fn send(&self, command: impl Into<Command>) -> Reply {
        let command = command.into();
        let mut outcomes = insist(|| self.store.apply(vec![command.clone()])).await;
        outcomes.pop().expect("one outcome").expect("it is accepted")
    }

    async fn claim(&self) -> Claimed {
        let ask = self.world.ask(1);
        let asks = std::slice::from_ref(&ask);
        let mut given = insist(|| self.store.claim(asks)).await.given;
        given.pop().expect("one answer for one ask").pop().expect("something is to be done")
    }

    async fn start(&self) -> Claimed {
        self.send(self.world.draft()).await;
        self.claim().await
    }

    async fn suspend(&self, suspend: Suspend) -> Vec<Mailbox> {
        let id = suspend.id;
        match self.send(suspend).await {
            Reply::Suspend(reply) => mailboxes(id, &reply),
            other => panic!("a suspension was asked for, not {other:?}"),
        }
    }

    async fn tend(&self) {
        let filter = WorkFilter::default();
        for duty in [Duty::SuspensionTimeout, Duty::WaitpointExpiry] {
            for command in insist(|| self.store.due(duty, &filter, 100)).await.commands {
                self.send(command).await;
            }
        }
    }

    /// Claims what was resumed, in the same attempt, and completes it; nothing else is left.
    async fn finish(&self, id: ExecutionId, names: &[&str]) {
        let again = self.claim().await.leased;
        assert_eq!((again.execution.id, again.fence.attempt_index), (id, 0));
        let result = Some(Bytes::from_static(b"out"));
        self.send(Complete { id, fence: again.fence, result, encoding: None }).await;
        assert_eq!(self.world.state(id).await, PublicState::Completed);
        assert_eq!(self.world.event_names(id).await, names);
        assert!(self.world.claim_one().await.is_none(), "it was resumed once");
    }
}

fn two() -> ResumeCondition {
    let waitpoints = vec![waitpoint_key("answer")];
    ResumeCondition::Count { n: 2, distinct: Distinct::Signals, signal: None, waitpoints }
}

fn ids(signals: &[ff_core::suspension::Signal]) -> Vec<Uuid> {
    signals.iter().map(|signal| signal.id).collect()
}

/// Suspend, two signals, resumed claim, completion.
pub async fn a_fault_in_a_wait_loses_no_signal(w: Arc<World>) {
    at_every_call(&w.store.backend, async |store| {
        let caller = Caller { world: &w, store };
        let work = caller.start().await.leased;
        let (id, fence) = (work.execution.id, work.fence);
        let suspend = Suspend { condition: two(), ..w.pause(id, fence) };
        let mailbox = caller.suspend(suspend).await.remove(0);
        let sent = [mailbox.signal(&w, "one"), mailbox.signal(&w, "two")];
        let expected = sent.clone().map(|signal| signal.signal);
        for signal in sent {
            caller.send(signal).await;
        }
        assert_eq!(ids(&w.signals(id).await), expected);
        assert_eq!(w.suspension(id).await.end.expect("it is over").by, expected);
        caller.finish(id, &["suspended", "signal", "signal", "completion"]).await;
    })
    .await;
}

/// A waitpoint handed out early, a buffered signal, and one after the suspension.
pub async fn a_fault_around_a_pending_waitpoint_loses_no_signal(w: Arc<World>) {
    at_every_call(&w.store.backend, async |store| {
        let caller = Caller { world: &w, store };
        let work = caller.start().await.leased;
        let (id, fence, waitpoint) = (work.execution.id, work.fence, w.uuid());
        let key = waitpoint_key("answer");
        let steps = vec![step(0, "made")];
        let made = CreateWaitpoint { id, fence, waitpoint, key, expires_in_ms: 60_000, steps };
        let Reply::CreateWaitpoint(Some(token)) = caller.send(made).await else {
            panic!("a waitpoint was made");
        };
        assert_eq!(journal(&w, id).await.len(), 1);
        let mailbox = Mailbox { id, waitpoint, token: token.as_str().to_owned() };
        let early = mailbox.signal(&w, "early");
        caller.send(early.clone()).await;
        let waitpoints = vec![Binding::Pending { id: waitpoint }];
        let suspend = Suspend { waitpoints, condition: two(), ..w.pause(id, fence) };
        caller.suspend(suspend).await;
        let late = mailbox.signal(&w, "late");
        caller.send(late.clone()).await;
        assert_eq!(ids(&w.signals(id).await), [early.signal, late.signal]);
        caller.finish(id, &["signal", "suspended", "signal", "completion"]).await;
    })
    .await;
}

/// A deadline passes, and every behaviour happens once.
pub async fn a_fault_in_a_timeout_applies_it_once(w: Arc<World>) {
    for timeout_behavior in TimeoutBehavior::ALL.iter().copied() {
        at_every_call(&w.store.backend, async |store| {
            let caller = Caller { world: &w, store };
            let work = caller.start().await.leased;
            let (id, fence) = (work.execution.id, work.fence);
            let deadline = Some(w.now().plus(10));
            let suspend = Suspend { deadline, timeout_behavior, ..w.pause(id, fence) };
            caller.suspend(suspend).await;
            w.pass(10);
            caller.tend().await;
            caller.tend().await;
            caller.tend().await;
            let names = w.event_names(id).await;
            match timeout_behavior {
                TimeoutBehavior::Fail | TimeoutBehavior::Cancel | TimeoutBehavior::Expire => {
                    assert_eq!(names, ["suspended", "completion"]);
                }
                TimeoutBehavior::AutoResume => {
                    assert_eq!(w.signals(id).await.len(), 1);
                    caller.finish(id, &["suspended", "signal", "completion"]).await;
                }
                TimeoutBehavior::Escalate => {
                    assert_eq!(names, ["suspended", "escalated"]);
                    w.cancel(id).await.expect("it waits");
                }
            }
        })
        .await;
    }
}
