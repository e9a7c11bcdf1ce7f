//! Random histories that must end the same on every store.
//!
//! A history is made from a seed: commands of every kind, valid and not, with current, stale and
//! forged fences, claims, duties, reads, and a clock that jumps both ways. Every answer is
//! compared as it comes, and every table at the end.
//!
//! Some stores are played by two processes, each with what it remembers: which of them takes a step is
//! drawn from the seed as well. A memory that another process made untrue gives a wrong answer then.
//!
//! Stores may have cursors of different kinds. A history names a cursor by its place in the list
//! of those that each store returned, and compares only the number that it stands for.

mod author;
mod flows;
mod waits;

use std::sync::Arc;

use ff_core::backend::{Duty, EventPage, WorkFilter};
use ff_core::command::{Command, Outcome, Reply};
use ff_core::decide::add_member::Added;
use ff_core::decide::consumer::SaveCursor;
use ff_core::decide::create_flow::FlowCreated;
use ff_core::decide::wait_children::Waiting;
use ff_core::event::{Cursor, Filter};
use ff_core::query::{Page, Query};
use ff_core::text::ConsumerName;
use ff_core::time::Clock;
use ff_core::{Backend, ClaimAsk, EdgeId, ExecutionId, Fence, FlowId};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use uuid::Uuid;

use self::author::Author;
use crate::audit::audit;
use crate::dial::Dial;
use crate::model::Tables;
use crate::world::Store;

/// Opens an empty store on a clock, with dice from a seed, and a second process on the same rows or none.
pub type Open = fn(Arc<Dial>) -> (Store, Option<Arc<dyn Backend>>);

/// Commands that every history sends at least.
const COMMANDS_MIN: usize = 50;

/// Plays the history of `seed` on all stores and panics where they differ.
pub async fn play(seed: u64, steps: u32, stores: &[(&str, Open)]) {
    let told = Told(seed);
    let clock = Arc::new(Dial::default());
    let mut sides: Vec<Side> =
        stores.iter().map(|(name, open)| Side::new(name, open(Arc::clone(&clock)))).collect();
    let mut author = Author::new(seed, Arc::clone(&clock));
    let mut turns = SmallRng::seed_from_u64(!seed);
    let (mut step_count, mut commands) = (0, 0);
    while step_count < steps || commands < COMMANDS_MIN {
        let step = author.step();
        step_count += 1;
        commands += if let Step::Send(batch) = &step { batch.len() } else { 0 };
        let mut answers = Vec::new();
        let second = turns.random_bool(0.5);
        for side in &mut sides {
            answers.push(side.perform(&step, second).await);
        }
        for (side, answer) in sides.iter().zip(&answers).skip(1) {
            let (a, b) = (sides[0].name, side.name);
            assert_eq!(answers[0], *answer, "{a} and {b} differ on {step:?}");
        }
        author.learn(answers.swap_remove(0));
    }
    let reference = sides[0].rows();
    audit(&reference, clock.now());
    for side in &sides[1..] {
        let (a, b) = (sides[0].name, side.name);
        assert_eq!(reference, side.rows(), "{a} and {b} hold different rows");
    }
    drop(told);
}

/// Says which seed failed.
struct Told(u64);

impl Drop for Told {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the history with seed {} failed; run it alone with FF_SEED={0}", self.0);
        }
    }
}

/// One thing that happens.
#[derive(Clone, Debug)]
enum Step {
    Send(Vec<Draft>),
    Claim(Vec<ClaimAsk>),
    Tick(Duty, WorkFilter, u32),
    List(Query, Page),
    Read(usize, Box<Filter>, u32),
    Pass,
}

/// A command as the author knows it.
#[derive(Clone, Debug)]
enum Draft {
    Whole(Box<Command>),
    /// With the cursor of this place in a store's own list.
    SaveCursor(ConsumerName, usize),
}

impl<C: Into<Command>> From<C> for Draft {
    fn from(command: C) -> Self {
        Self::Whole(Box::new(command.into()))
    }
}

/// What a store answers, printed for comparison, and what the author can use.
#[derive(Clone, Debug, Default, PartialEq)]
struct Answer {
    text: String,
    fences: Vec<(ExecutionId, Fence)>,
    cursors: usize,
    page: Option<Page>,
    /// What else there is to know.
    news: Vec<News>,
}

/// What an answer says that helps.
#[derive(Clone, Debug, PartialEq)]
enum News {
    /// It is there, with these members.
    Members(FlowId, Vec<ExecutionId>),
    /// Its graph is at this revision.
    Revision(FlowId, u64),
    /// It has one more member.
    Member(FlowId, ExecutionId),
    /// It has an edge that is not applied.
    Staged(FlowId, EdgeId),
    /// Whoever held this does so no longer.
    GivenBack(ExecutionId),
    /// A waitpoint has this token.
    Token(Uuid, String),
}

impl Answer {
    /// Takes in what an outcome says that the author can use.
    fn note(&mut self, command: &Command, outcome: &Outcome) {
        match (command, outcome) {
            (_, Ok(Reply::Claim(leased))) => {
                self.fences.push((leased.execution.id, leased.fence));
            }
            (_, Ok(Reply::StartReleased(given))) => {
                let leases = given.iter().map(|claimed| &claimed.leased);
                self.fences.extend(leases.map(|leased| (leased.execution.id, leased.fence)));
            }
            (Command::StageEdge(stage), Ok(Reply::StageEdge(staged))) => {
                self.news.push(News::Revision(stage.flow, staged.graph_revision));
                self.news.push(News::Staged(stage.flow, staged.edge_id));
            }
            (Command::AddMember(add), Ok(Reply::AddMember(Added::Added { .. }))) => {
                self.news.push(News::Member(add.flow, add.execution));
            }
            (Command::CreateFlow(create), Ok(Reply::CreateFlow(FlowCreated::Created { .. }))) => {
                self.news.push(News::Members(create.id, Vec::new()));
                self.news.push(News::Revision(create.id, 0));
            }
            (Command::SubmitFlow(submit), Ok(Reply::SubmitFlow(FlowCreated::Created { .. }))) => {
                let (flow, nodes) = (submit.flow.id, &submit.graph.nodes);
                let revision = u64::try_from(nodes.len() + submit.graph.links.len());
                let ids = nodes.iter().map(|node| node.create.id).collect();
                self.news.push(News::Members(flow, ids));
                self.news.push(News::Revision(flow, revision.expect("a small count")));
            }
            (Command::ExtendFlow(extend), Ok(Reply::ExtendFlow(extended))) => {
                let ids = extend.graph.nodes.iter().map(|node| node.create.id);
                let ids = ids.chain(extend.by.map(|(id, _)| id));
                self.news.push(News::Members(extended.flow_id, ids.collect()));
                self.news.push(News::Revision(extended.flow_id, extended.graph_revision));
            }
            (Command::WaitChildren(wait), Ok(Reply::WaitChildren(Waiting::Waiting))) => {
                self.news.push(News::GivenBack(wait.id));
            }
            (Command::Suspend(suspend), Ok(Reply::Suspend(reply))) => {
                let known = reply.waitpoints.iter().filter_map(|opened| {
                    let token = opened.token.as_ref()?.as_str().to_owned();
                    Some(News::Token(opened.waitpoint_id, token))
                });
                self.news.extend(known);
                let away = (!reply.already_satisfied).then_some(News::GivenBack(suspend.id));
                self.news.extend(away);
            }
            (command, Ok(_)) => self.news.extend(given_back(command).map(News::GivenBack)),
            (_, Err(_)) => {}
        }
    }
}

/// What is held no longer after a command that succeeded.
fn given_back(command: &Command) -> Option<ExecutionId> {
    match command {
        Command::Complete(complete) => Some(complete.id),
        Command::Fail(fail) => Some(fail.id),
        Command::Delay(delay) => Some(delay.id),
        Command::Release(release) => Some(release.id),
        Command::Cancel(cancel) => Some(cancel.id),
        Command::Revoke(revoke) => Some(revoke.id),
        _ => None, // not ours: a guess that need not be complete
    }
}

/// A store that plays, and the cursors it returned.
struct Side<'a> {
    name: &'a str,
    store: Store,
    second: Option<Arc<dyn Backend>>,
    cursors: Vec<Cursor>,
}

impl<'a> Side<'a> {
    fn new(name: &'a str, (store, second): (Store, Option<Arc<dyn Backend>>)) -> Self {
        Self { name, store, second, cursors: vec![Cursor::Start] }
    }

    /// What comes of a step, which the `second` process takes if there is one.
    async fn perform(&mut self, step: &Step, second: bool) -> Answer {
        let first = self.store.backend.as_ref();
        let backend = self.second.as_deref().filter(|_| second).unwrap_or(first);
        let mut answer = Answer::default();
        match step {
            Step::Send(drafts) => {
                let batch: Vec<_> = drafts.iter().map(|draft| self.command(draft)).collect();
                let outcomes = backend.apply(batch.clone()).await.expect("the store works");
                for (command, outcome) in batch.iter().zip(&outcomes) {
                    answer.note(command, outcome);
                }
                answer.text = format!("{outcomes:?}");
            }
            Step::Claim(asks) => {
                let claims = backend.claim(asks).await.expect("the store works");
                let all = claims.given.iter().flatten();
                answer.fences = all.map(|c| (c.leased.execution.id, c.leased.fence)).collect();
                answer.text = format!("{claims:?}");
            }
            Step::Tick(duty, filter, limit) => {
                // Where a duty goes on is remembered, and only by who did it last.
                let due = first.due(*duty, filter, *limit).await.expect("the store works");
                let done = backend.apply(due.commands.clone()).await.expect("the store works");
                answer.text = format!("{due:?} {done:?}");
            }
            Step::List(query, page) => {
                let listing = backend.list(query, page).await.expect("the store works");
                answer.page = Some(Page { after: listing.next.clone(), limit: page.limit });
                answer.text = format!("{listing:?}");
            }
            Step::Read(from, filter, limit) => {
                let page = backend.events(&self.cursors[*from], filter, *limit).await;
                let EventPage { mut events, next } = page.expect("the store works");
                for event in &mut events {
                    event.cursor = plain(&event.cursor);
                }
                // Of a reader that has read everything, some stores count what was removed as read, and
                // some do not: what it reads next shows whether it stands where it should.
                let full = u32::try_from(events.len()).is_ok_and(|count| count == *limit);
                answer.text = format!("{events:?} {:?}", full.then(|| plain(&next)));
                answer.cursors = 1;
                self.cursors.push(next);
            }
            Step::Pass => {}
        }
        answer
    }

    fn command(&self, draft: &Draft) -> Command {
        match draft {
            Draft::Whole(command) => Command::clone(command),
            Draft::SaveCursor(consumer, at) => {
                let (consumer, cursor) = (consumer.clone(), self.cursors[*at].clone());
                SaveCursor { consumer, cursor, saved: None }.into()
            }
        }
    }

    /// Its rows, with plain cursors, each at the last event that is left of those it has read.
    fn rows(&self) -> Tables {
        let mut tables = (self.store.dump)();
        for consumer in tables.consumers.values_mut() {
            let read = tables.events.range(..=plain(&consumer.cursor).seq()).next_back();
            consumer.cursor = read.map_or(Cursor::Start, |(seq, _)| Cursor::Seq(*seq));
        }
        tables
    }
}

/// The place that a cursor stands for when nothing is written while anybody reads.
fn plain(cursor: &Cursor) -> Cursor {
    // Who has read all of a window may be given a number beyond it; there is nothing between.
    match cursor.seq().min(cursor.upto_seq()) {
        0 => Cursor::Start,
        seq => Cursor::Seq(seq),
    }
}
