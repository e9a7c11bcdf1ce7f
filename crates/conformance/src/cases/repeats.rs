//! Repeats that come late: the reply to a command was lost, its caller sends it again, and in between
//! something else happened. Nothing is done twice, and nothing that came after is undone.

use std::sync::Arc;

use ff_core::command::{Command, Outcome, Reply};
use ff_core::decide::consumer::SaveCursor;
use ff_core::decide::drop_consumer::DropConsumer;
use ff_core::decide::flow_tags::SetFlowTags;
use ff_core::decide::group_policy::SetGroupPolicy;
use ff_core::decide::hold::Hold;
use ff_core::decide::priority::ChangePriority;
use ff_core::decide::replay::{Replay, Replayed};
use ff_core::decide::resume::Resume;
use ff_core::decide::tags::{Edit, SetTags};
use ff_core::decide::unhold::Unhold;
use ff_core::error::Code;
use ff_core::event::Cursor;
use ff_core::execution::Fence;
use ff_core::fold::{Consumer, Key};
use ff_core::state::PublicState;
use ff_core::text::ConsumerName;
use ff_core::{ExecutionId, FlowId, WorkingSet, needs};
use serde_json::json;

use super::calls::{cancellation, progress, revocation, tags};
use crate::world::flows::{any_of, quorum};
use crate::world::{World, code};

/// A command that may be repeated late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Late {
    /// `replay_execution`, and it ran again and ended.
    Replay,
    /// `revoke_lease`, and another worker took over.
    Revoke,
    /// `cancel_execution`, and it was replayed.
    Cancel,
    /// `hold_execution`, and it was let go.
    Hold,
    /// `unhold_execution`, and it was held again.
    Unhold,
    /// `change_priority`, and it was changed again.
    Priority,
    /// `set_execution_tags`, and one was changed again.
    Tags,
    /// `set_flow_tags`, and one was changed again.
    FlowTags,
    /// `set_edge_group_policy`, and another was set.
    GroupPolicy,
    /// `save_cursor`, and the consumer read on.
    Cursor,
    /// `save_cursor`, and the consumer was dropped.
    Dropped,
    /// `drop_consumer`, and the name was registered again.
    Consumer,
    /// `report_progress`, and more was reported.
    Progress,
    /// `resume_execution`, and it waits for something else.
    Resume,
}

/// A command, with what it is about.
pub struct Story {
    late: Late,
    /// As a caller sends it who has not looked.
    pub command: Command,
    id: ExecutionId,
    flow: FlowId,
    fence: Fence,
    after: Cursor,
}

impl Late {
    /// All of them.
    pub const ALL: [Self; 14] = [
        Self::Replay,
        Self::Revoke,
        Self::Cancel,
        Self::Hold,
        Self::Unhold,
        Self::Priority,
        Self::Tags,
        Self::FlowTags,
        Self::GroupPolicy,
        Self::Cursor,
        Self::Dropped,
        Self::Consumer,
        Self::Progress,
        Self::Resume,
    ];

    /// Puts in place what the command needs.
    pub async fn begin(self, w: &World) -> Story {
        let flow = w.empty_flow().await;
        let (id, fence) = match self {
            Self::Replay | Self::Revoke | Self::Cancel | Self::Progress => {
                w.running(json!({})).await
            }
            Self::Resume => {
                let (fence, mailbox) = w.waiting().await;
                (mailbox.id, fence)
            }
            Self::GroupPolicy => (w.member(flow).await, NOBODY),
            Self::Cursor | Self::Dropped | Self::Consumer => (w.finished(json!({})).await, NOBODY),
            Self::Hold | Self::Unhold | Self::Priority | Self::Tags | Self::FlowTags => {
                (w.create(w.draft()).await, NOBODY)
            }
        };
        let after = w.store.backend.tail().await.expect("the store works");
        let first = SaveCursor { consumer: consumer(), cursor: Cursor::Start, saved: None };
        let reason = "because".to_owned();
        let edit = Edit { set: tags(&[("app.a", "1")]), ..Edit::default() };
        let command: Command = match self {
            Self::Replay => {
                w.complete(id, fence).await.expect("it is held");
                Replay { id, reason, replays: None, downstream: true }.into()
            }
            Self::Revoke => revocation(id).into(),
            Self::Cancel => cancellation(id).into(),
            Self::Hold => Hold { id, reason, version: None }.into(),
            Self::Unhold => {
                w.hold(id).await.expect("it waits");
                Unhold { id, version: None }.into()
            }
            Self::Priority => ChangePriority { id, priority: 7, version: None }.into(),
            Self::Tags => SetTags { id, edit }.into(),
            Self::FlowTags => SetFlowTags { flow, edit }.into(),
            Self::GroupPolicy => {
                SetGroupPolicy { flow, downstream: id, policy: any_of(), version: None }.into()
            }
            Self::Cursor | Self::Dropped | Self::Consumer => {
                w.run(first).await.expect("valid");
                if matches!(self, Self::Consumer) {
                    DropConsumer { consumer: consumer(), saved: None }.into()
                } else {
                    let cursor = after.clone();
                    SaveCursor { consumer: consumer(), cursor, saved: None }.into()
                }
            }
            Self::Progress => progress(id, fence, 10).into(),
            Self::Resume => Resume { id, suspension: None, reason, resume_delay_ms: 0 }.into(),
        };
        w.pass(10);
        Story { late: self, command, id, flow, fence, after }
    }
}

/// The fence of what nobody holds.
const NOBODY: Fence = Fence { attempt_index: 0, lease_epoch: 0 };

fn consumer() -> ConsumerName {
    ConsumerName::new("mailer").expect("a valid name")
}

async fn place(w: &World) -> Option<Consumer> {
    let keys = [Key::Consumer(consumer())];
    let mut have = w.store.backend.get(&keys).await.expect("the store works");
    have.consumers.remove(&consumer()).flatten()
}

impl Story {
    /// The command as it is sent by a caller who looked first.
    pub async fn pinned(&self, w: &World) -> Command {
        let keys = needs(&self.command, &WorkingSet::default());
        let have = w.store.backend.get(&keys).await.expect("the store works");
        self.command.pinned(&have).expect("it says less than it means")
    }

    /// What others do after the command, before it is repeated.
    pub async fn meanwhile(&self, w: &World) {
        w.pass(10);
        let (id, flow) = (self.id, self.flow);
        match self.late {
            Late::Replay => {
                let fence = w.take(id).await.leased.fence;
                w.complete(id, fence).await.expect("it is held");
            }
            Late::Revoke => drop(w.take_as(id, "w2").await),
            Late::Cancel => {
                let reason = "it is wanted after all".to_owned();
                w.run(Replay { id, reason, replays: None, downstream: true })
                    .await
                    .expect("it has ended");
            }
            Late::Hold => w.unhold(id).await.expect("it is held"),
            Late::Unhold => w.hold(id).await.expect("it waits"),
            Late::Priority => drop(w.prioritise(id, 3).await.expect("it waits")),
            Late::Tags => drop(w.tag(id, "app.a", "2").await.expect("it is there")),
            Late::FlowTags => {
                w.tag_flow(flow, tags(&[("app.a", "2")])).await.expect("it is there");
            }
            Late::GroupPolicy => drop(w.wait_for(flow, id, quorum(2)).await.expect("no edge yet")),
            Late::Cursor => {
                w.finished(json!({})).await;
                let cursor = w.store.backend.tail().await.expect("the store works");
                let save = SaveCursor { consumer: consumer(), cursor, saved: None };
                w.run(save).await.expect("valid");
            }
            Late::Dropped => {
                let drop = DropConsumer { consumer: consumer(), saved: None };
                w.run(drop).await.expect("it is there");
            }
            Late::Consumer => {
                let cursor = Cursor::Start;
                let save = SaveCursor { consumer: consumer(), cursor, saved: None };
                w.run(save).await.expect("valid");
            }
            Late::Progress => {
                w.run(progress(id, self.fence, 20)).await.expect("it is held");
            }
            Late::Resume => {
                let fence = w.take(id).await.leased.fence;
                w.suspend(w.pause(id, fence)).await;
            }
        }
    }

    /// The repeat was told so, and changed nothing.
    pub async fn check(&self, w: &World, outcome: Outcome) {
        let (late, id) = (self.late, self.id);
        match late {
            Late::Replay => {
                let repeated = Replayed { repeated: true, ..Replayed::default() };
                assert_eq!(outcome, Ok(Reply::Replay(repeated)), "{late:?}");
            }
            Late::Progress => assert_eq!(outcome, Ok(Reply::ReportProgress(())), "{late:?}"),
            Late::Revoke => assert_eq!(code(outcome), Code::StaleLease, "{late:?}"),
            Late::Resume => assert_eq!(code(outcome), Code::ExecutionNotSuspended, "{late:?}"),
            Late::Cancel
            | Late::Hold
            | Late::Unhold
            | Late::Priority
            | Late::Tags
            | Late::FlowTags
            | Late::GroupPolicy
            | Late::Cursor
            | Late::Dropped
            | Late::Consumer => assert_eq!(code(outcome), Code::VersionConflict, "{late:?}"),
        }
        let x = w.get(id).await;
        match late {
            Late::Replay => {
                let (replays, state) = (x.counts.replays, w.state(id).await);
                assert_eq!((replays, state), (1, PublicState::Completed));
            }
            Late::Revoke => {
                let (reclaims, state) = (x.counts.reclaims, w.state(id).await);
                assert_eq!((reclaims, state), (1, PublicState::Active));
            }
            Late::Cancel => assert_eq!(w.state(id).await, PublicState::Waiting),
            Late::Hold => assert_eq!(w.event_names(id).await, ["held", "unheld"]),
            Late::Unhold => assert_eq!(w.event_names(id).await, ["held", "unheld", "held"]),
            Late::Priority => assert_eq!(x.priority.get(), 3),
            Late::Tags => assert_eq!(x.tags, tags(&[("app.a", "2")])),
            Late::FlowTags => assert_eq!(w.flow(self.flow).await.tags, tags(&[("app.a", "2")])),
            Late::GroupPolicy => assert_eq!(w.group(self.flow, id).await.policy, quorum(2)),
            Late::Cursor => {
                let place = place(w).await.expect("it was saved");
                assert_ne!(place.cursor, self.after, "it has read on");
            }
            Late::Dropped => assert_eq!(place(w).await, None),
            Late::Consumer => assert!(place(w).await.is_some(), "it was registered again"),
            Late::Progress => {
                assert_eq!(x.progress.as_ref().and_then(|progress| progress.percent), Some(20));
            }
            Late::Resume => assert_eq!(w.state(id).await, PublicState::Suspended),
        }
    }
}

async fn late(w: &World, late: Late) {
    let story = late.begin(w).await;
    let command = story.pinned(w).await;
    w.send(command.clone()).await.expect("it may be done");
    story.meanwhile(w).await;
    story.check(w, w.send(command).await).await;
}

/// What ran again and ended does not run once more.
pub async fn a_replay_repeated_late_runs_it_once(w: Arc<World>) {
    late(&w, Late::Replay).await;
}

/// The worker that took over keeps its lease.
pub async fn a_revocation_repeated_late_takes_one_lease(w: Arc<World>) {
    late(&w, Late::Revoke).await;
}

/// What was replayed is not cancelled again.
pub async fn a_cancellation_repeated_late_ends_one_life(w: Arc<World>) {
    late(&w, Late::Cancel).await;
}

/// What was let go stays so.
pub async fn a_hold_repeated_late_does_not_hold_again(w: Arc<World>) {
    late(&w, Late::Hold).await;
}

/// What was held again stays so.
pub async fn an_unhold_repeated_late_lets_nothing_go(w: Arc<World>) {
    late(&w, Late::Unhold).await;
}

/// The later priority stays.
pub async fn a_priority_repeated_late_does_not_undo_another(w: Arc<World>) {
    late(&w, Late::Priority).await;
}

/// The later tag stays.
pub async fn tags_repeated_late_do_not_undo_others(w: Arc<World>) {
    late(&w, Late::Tags).await;
}

/// The later tag stays.
pub async fn tags_of_a_flow_repeated_late_do_not_undo_others(w: Arc<World>) {
    late(&w, Late::FlowTags).await;
}

/// The later policy stays.
pub async fn a_join_repeated_late_does_not_undo_another(w: Arc<World>) {
    late(&w, Late::GroupPolicy).await;
}

/// A consumer that read on stays there.
pub async fn a_cursor_saved_late_does_not_move_a_consumer_back(w: Arc<World>) {
    late(&w, Late::Cursor).await;
}

/// A consumer that was dropped stays so: nobody would read for it.
pub async fn a_cursor_saved_late_registers_no_consumer_again(w: Arc<World>) {
    late(&w, Late::Dropped).await;
}

/// A consumer that was registered again is kept.
pub async fn a_drop_repeated_late_keeps_a_consumer_that_came_back(w: Arc<World>) {
    late(&w, Late::Consumer).await;
}

/// The later report stays.
pub async fn progress_reported_late_does_not_go_back(w: Arc<World>) {
    late(&w, Late::Progress).await;
}

/// The next wait goes on.
pub async fn a_resume_repeated_late_ends_one_wait(w: Arc<World>) {
    late(&w, Late::Resume).await;
}
